//! Why a request got no response, in words for customers.

use std::error::Error as StdError;
use std::io;
use std::net::IpAddr;

use rustls::{AlertDescription, CertificateError, PeerIncompatible};
use url::{Host, Url};

use super::guard::{Reach, UrlError};

/// Why a request got no response; customers can read each text and act on it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error("the host name could not be looked up: check its spelling and its DNS")]
    Lookup,
    /// `of_name`: the URL has a name, and not the address itself.
    #[error("{}", forbidden(*address, *reach, *of_name))]
    PrivateAddress { address: IpAddr, reach: Reach, of_name: bool },
    #[error("no connection could be made: check that the receiver runs, and its firewall")]
    Connect,
    #[error("the server's certificate has expired, or is not valid yet: renew it")]
    CertificateTime,
    #[error("the server's certificate is for another host name: install one for this name")]
    CertificateName,
    #[error(
        "the server's certificate comes from no trusted authority, or is self-signed: get one \
         from a public authority, and send the intermediate certificates with it"
    )]
    CertificateIssuer,
    #[error("the server speaks neither TLS 1.2 nor TLS 1.3")]
    TlsVersion,
    #[error("the server does not speak TLS on this port")]
    NotTls,
    #[error("the connection closed during the TLS handshake")]
    TlsCut,
    #[error("the TLS handshake failed: the certificate or protocol was refused")]
    Tls,
    #[error("no connection was made in time")]
    ConnectTimeout,
    #[error("no answer came in time")]
    Timeout,
    #[error("the answer is not HTTP")]
    NotHttp,
    #[error("the header of the answer is too long, or has too many fields")]
    HeadTooLong,
    #[error("the connection closed before the answer was complete")]
    Broken,
    #[error("the answer is too long")]
    TooLong,
    /// The operator's problem at start-up.
    #[error("cannot set up the HTTP client: {0}")]
    Setup(String),
    /// The operator's problem at start-up.
    #[error("cannot set up the DNS resolver for webhooks: {0} (/etc/resolv.conf, or --dns)")]
    Resolver(String),
}

/// Names the address, and the rule that forbids it.
fn forbidden(address: IpAddr, reach: Reach, of_name: bool) -> String {
    let host = if of_name { "the host name resolves to" } else { "the host of the URL is" };
    match reach {
        Reach::Public => format!(
            "{host} {address}, which is not public, and which --egress-allow does not cover"
        ),
        Reach::OperatorOnly => format!(
            "{host} {address}, which --egress-allow does not cover: plain http and this port are for \
             its networks only"
        ),
    }
}

/// Returns the error of a URL that was stored, and is not allowed now: one with an address names it,
/// and the rule.
pub(super) fn of_url(url: &Url, error: UrlError) -> EgressError {
    let is_http = matches!(url.scheme(), "http" | "https");
    let reach = match error {
        UrlError::PrivateHost => Reach::Public,
        UrlError::NotHttps | UrlError::Port if is_http => Reach::OperatorOnly,
        _ => return error.into(),
    };
    let address = match url.host() {
        Some(Host::Ipv4(address)) => address.into(),
        Some(Host::Ipv6(address)) => address.into(),
        _ => return error.into(),
    };
    EgressError::PrivateAddress { address, reach, of_name: false }
}

impl EgressError {
    /// Tells whether TLS failed although the server could be reached.
    pub const fn is_tls(&self) -> bool {
        matches!(
            self,
            Self::CertificateTime
                | Self::CertificateName
                | Self::CertificateIssuer
                | Self::TlsVersion
                | Self::NotTls
                | Self::TlsCut
                | Self::Tls
        )
    }
}

/// Converts the HTTP client's error to a text for customers.
pub(super) fn of_request(error: &reqwest::Error) -> EgressError {
    if let Some(own) = find::<EgressError>(error) {
        return own.clone();
    }
    if let Some(tls) = find::<rustls::Error>(error) {
        return of_tls(tls);
    }
    match (error.is_connect(), error.is_timeout()) {
        (true, true) => EgressError::ConnectTimeout,
        (true, false) if causes(error).any(is_end) => EgressError::TlsCut,
        (true, false) => EgressError::Connect,
        (false, true) => EgressError::Timeout,
        (false, false) => match find::<hyper::Error>(error) {
            Some(error) if error.is_parse_too_large() => EgressError::HeadTooLong,
            Some(error) if error.is_parse() => EgressError::NotHttp,
            _ => EgressError::Broken,
        },
    }
}

fn of_tls(error: &rustls::Error) -> EgressError {
    use rustls::Error::{AlertReceived, InvalidCertificate, InvalidMessage};
    match error {
        InvalidCertificate(error) => of_certificate(error),
        InvalidMessage(_) => EgressError::NotTls,
        AlertReceived(AlertDescription::ProtocolVersion)
        | rustls::Error::PeerIncompatible(
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
        ) => EgressError::TlsVersion,
        _ => EgressError::Tls,
    }
}

fn of_certificate(error: &CertificateError) -> EgressError {
    match error {
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => EgressError::CertificateTime,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            EgressError::CertificateName
        }
        // A bad signature means another authority of the same name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            EgressError::CertificateIssuer
        }
        _ => EgressError::Tls,
    }
}

fn causes<'a>(error: &'a reqwest::Error) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(error.source(), |cause: &&'a (dyn StdError + 'static)| (*cause).source())
}

fn find<E: StdError + 'static>(error: &reqwest::Error) -> Option<&E> {
    causes(error).find_map(within)
}

/// Also looks inside `io::Error`, whose `source` skips its inner error.
fn within<'a, E: StdError + 'static>(cause: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    cause.downcast_ref::<E>().or_else(|| {
        let held = cause.downcast_ref::<io::Error>()?.get_ref()?;
        within(held)
    })
}

/// Tells whether an existing connection was closed during the handshake, before a request was sent.
fn is_end(cause: &(dyn StdError + 'static)) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    cause.downcast_ref::<io::Error>().is_some_and(|error| {
        matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
            || error.get_ref().is_some_and(|inner| is_end(inner))
    })
}
