//! Where a request comes from: the peer of its connection, or the client that a trusted proxy names.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName};
use ipnet::IpNet;

/// Every proxy on the way adds whom it heard from, the last one last.
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Nobody has more proxies in a row. What lies further left was written by whoever liked to.
const MOST_PROXIES: usize = 16;

/// Whom the connection of a request is from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) IpAddr);

/// The networks whose word is taken for whom they pass on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proxies(Vec<IpNet>);

impl Proxies {
    pub(super) const fn new(networks: Vec<IpNet>) -> Self {
        Self(networks)
    }

    /// Whether this address, in canonical form, is a proxy's.
    pub(super) fn contain(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    /// The client of a request: seen from us, the first address that is no proxy of ours. What that
    /// one says of others is hearsay. Where a proxy says nothing, or nothing that is plainly an
    /// address (a port, a name, `unknown`), the client is the peer: a guess could be steered.
    pub(super) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        if !self.contain(peer) {
            return peer;
        }
        // A field that is there several times is one list (RFC 9110 §5.3).
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
            // Nobody else's word is taken.
            ("192.0.2.9", vec!["198.51.100.1"], "192.0.2.9"),
            ("10.0.0.16", vec!["198.51.100.1"], "10.0.0.16"),
            ("::ffff:192.0.2.9", vec![], "192.0.2.9"),
            ("10.0.0.1", vec![], "10.0.0.1"),
            ("10.0.0.1", vec!["198.51.100.1"], "198.51.100.1"),
            ("::ffff:10.0.0.1", vec!["198.51.100.1"], "198.51.100.1"),
            ("2001:db8:ffff::1", vec!["2001:db8::7"], "2001:db8::7"),
            ("10.0.0.1", vec!["::ffff:198.51.100.1"], "198.51.100.1"),
            // What a client wrote itself stands left of what a proxy heard.
            ("10.0.0.1", vec!["127.0.0.1, 198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", vec!["127.0.0.1", "198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", vec!["nonsense, 198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", vec!["192.0.2.1 ,\t198.51.100.1\t, 10.0.0.2"], "198.51.100.1"),
            ("10.0.0.1", vec!["192.0.2.1", "198.51.100.1", "10.0.0.2,10.0.0.3"], "198.51.100.1"),
            // Nothing that is plainly an address.
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
            // All of them ours.
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
