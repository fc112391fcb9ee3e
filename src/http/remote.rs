//! The client of a request: the peer of its connection, or the client named by a trusted proxy; and the
//! end of the connection.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName};
use ipnet::IpNet;
use tokio::time::Instant;

/// Each proxy appends the address it received the request from.
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// No installation has more proxies in a row. Entries further left may come from anyone.
const MOST_PROXIES: usize = 16;

/// The peer of a request's connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// When a request's connection is dropped at the latest, for requests that wait longer than others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionEnd(pub(crate) Instant);

/// Networks of trusted proxies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proxies(Vec<IpNet>);

impl Proxies {
    pub(super) const fn new(networks: Vec<IpNet>) -> Self {
        Self(networks)
    }

    /// Whether this address, in canonical form, is a trusted proxy's.
    pub(super) fn contain(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Returns the peer, or for a trusted proxy the first address from the right of
    /// `X-Forwarded-For` that is no trusted proxy: entries left of it are hearsay. A port, a name
    /// or `unknown` on the way, or no such address, gives the peer: a client could steer a guess.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        if !self.contain(peer) {
            return peer;
        }
        // Several fields of one name form one list (RFC 9110 §5.3).
        let lines = headers.get_all(X_FORWARDED_FOR).iter().rev();
        let entries = lines.flat_map(|line| line.as_bytes().rsplit(|octet| *octet == b','));
        for entry in entries.take(MOST_PROXIES) {
            let Some(address) = address(entry) else { return peer };
            if !self.contain(address) {
                return address;
            }
        }
        peer
    }
}

/// An address alone, in canonical form.
fn address(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry).ok()?.trim_matches([' ', '\t']);
    text.parse().ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_is_the_last_address_that_is_no_proxy_of_ours() {
        let networks = ["10.0.0.0/28", "2001:db8:ffff::/48"];
        let proxies = Proxies::new(networks.map(|text| text.parse().unwrap()).to_vec());
        let many = format!("192.0.2.1{}", ", 10.0.0.2".repeat(16));
        let few = format!("192.0.2.1{}", ", 10.0.0.2".repeat(15));
        for (peer, lines, expected) in [
            // Other peers are not trusted.
            ("192.0.2.9", vec!["198.51.100.1"], "192.0.2.9"),
            ("10.0.0.16", vec!["198.51.100.1"], "10.0.0.16"),
            ("::ffff:192.0.2.9", vec![], "192.0.2.9"),
            ("10.0.0.1", vec![], "10.0.0.1"),
            ("10.0.0.1", vec!["198.51.100.1"], "198.51.100.1"),
            ("::ffff:10.0.0.1", vec!["198.51.100.1"], "198.51.100.1"),
            ("2001:db8:ffff::1", vec!["2001:db8::7"], "2001:db8::7"),
            ("10.0.0.1", vec!["::ffff:198.51.100.1"], "198.51.100.1"),
            // The client's own entries stand left of those of a proxy.
            ("10.0.0.1", vec!["127.0.0.1, 198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", vec!["127.0.0.1", "198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", vec!["nonsense, 198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", vec!["192.0.2.1 ,\t198.51.100.1\t, 10.0.0.2"], "198.51.100.1"),
            ("10.0.0.1", vec!["192.0.2.1", "198.51.100.1", "10.0.0.2,10.0.0.3"], "198.51.100.1"),
            // No plain address.
            ("10.0.0.1", vec![""], "10.0.0.1"),
            ("10.0.0.1", vec!["198.51.100.1,"], "10.0.0.1"),
            ("10.0.0.1", vec!["198.51.100.1, unknown"], "10.0.0.1"),
            ("10.0.0.1", vec!["198.51.100.1, x, 10.0.0.2"], "10.0.0.1"),
            ("10.0.0.1", vec!["198.51.100.1:4711"], "10.0.0.1"),
            ("10.0.0.1", vec!["[2001:db8::7]"], "10.0.0.1"),
            ("10.0.0.1", vec!["[2001:db8::7]:80"], "10.0.0.1"),
            ("10.0.0.1", vec!["fe80::1%eth0"], "10.0.0.1"),
            ("10.0.0.1", vec!["198.51.100.01"], "10.0.0.1"),
            ("10.0.0.1", vec!["3325256705"], "10.0.0.1"),
            ("10.0.0.1", vec!["198.51.100.1 192.0.2.1"], "10.0.0.1"),
            ("10.0.0.1", vec!["for=198.51.100.1"], "10.0.0.1"),
            // Trusted proxies only.
            ("10.0.0.1", vec!["10.0.0.3, 10.0.0.2"], "10.0.0.1"),
            ("10.0.0.1", vec![&few], "192.0.2.1"),
            ("10.0.0.1", vec![&many], "10.0.0.1"),
        ] {
            let mut headers = HeaderMap::new();
            for line in &lines {
                headers.append(X_FORWARDED_FOR, line.parse().unwrap());
            }
            let client = proxies.client(peer.parse().unwrap(), &headers);
            assert_eq!(client, expected.parse::<IpAddr>().unwrap(), "{peer} {lines:?}");
        }
        let mut headers = HeaderMap::new();
        let octets = axum::http::HeaderValue::from_bytes(b"198.51.100.1\xff").unwrap();
        headers.append(X_FORWARDED_FOR, octets);
        let peer: IpAddr = "10.0.0.1".parse().unwrap();
        assert_eq!(proxies.client(peer, &headers), peer);
    }
}
