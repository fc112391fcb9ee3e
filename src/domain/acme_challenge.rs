//! How an authority of certificates makes sure that a name is this server's.

use super::words::words;

words! {
    /// A challenge of ACME that Gatepost answers.
    AcmeChallenge {
        /// By port 80 (RFC 8555 §8.3).
        Http01 = "http-01",
        /// By port 443, where the API is (RFC 8737).
        TlsAlpn01 = "tls-alpn-01",
    }
}
