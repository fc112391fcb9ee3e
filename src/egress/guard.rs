//! Rules for URLs and addresses that may be reached. Pure: makes no look-ups.
//!
//! Addresses follow the IANA special-purpose registries (RFC 6890 and updates): only plain public
//! unicast addresses are allowed, also inside the IPv6 forms that embed an IPv4 address. An
//! operator can allow its own networks by name; only there plain http and any port are allowed
//! (contract §5).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use url::{Host, Url};

use crate::rules::WebhookRules;

/// Why a URL is refused, and what to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("the URL is too long")]
    TooLong,
    #[error("not a URL: expected https://host/path, without spaces or control characters")]
    Malformed,
    #[error("the URL must begin with https://")]
    NotHttps,
    #[error("the URL must not hold a user name or a password")]
    UserInfo,
    #[error("the URL must not have a fragment (#…)")]
    Fragment,
    #[error("the URL's port is not allowed")]
    Port,
    #[error("the URL's host is not public")]
    PrivateHost,
    #[error("the URL leads back to this gateway")]
    OwnHost,
}

/// The networks that a request may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Public addresses and the operator's networks.
    Public,
    /// The operator's networks only: for plain http, or a port that is not allowed in public.
    OperatorOnly,
}

/// The operator's networks and the public ports.
#[derive(Clone, Debug)]
pub struct Guard {
    allowed: Arc<[IpNet]>,
    /// Empty: any port.
    ports: Arc<[u16]>,
    max_url_bytes: usize,
    /// Hosts of this gateway itself; nothing may be sent to them.
    own: Arc<[Host]>,
}

impl Guard {
    /// `allowed` are the networks of `--egress-allow`.
    pub fn new(allowed: Vec<IpNet>, rules: &WebhookRules) -> Self {
        let ports = rules.egress.ports.as_slice().into();
        let max_url_bytes = rules.egress.max_url_bytes;
        Self { allowed: allowed.into(), ports, max_url_bytes, own: Arc::default() }
    }

    /// Returns a guard for what the operator's settings name, which is no stranger: any address and
    /// port, by https or http. Never use it for a URL that somebody else chose.
    pub fn of_operator(rules: &WebhookRules) -> Self {
        let everywhere: [IpNet; 2] = [Ipv4Net::default().into(), Ipv6Net::default().into()];
        Self { ports: Arc::default(), ..Self::new(everywhere.to_vec(), rules) }
    }

    /// Returns a guard that also refuses URLs that lead back to this gateway (threats H10). Names
    /// and addresses of the loopback are left to [`super::client::LOOP`]: where a gateway runs on
    /// the loopback, its receivers do too.
    #[must_use]
    pub fn for_gateway_at(self, hosts: impl IntoIterator<Item = Host>) -> Self {
        let own = hosts.into_iter().map(comparable).filter(|host| match host {
            Host::Domain(name) => name != "localhost" && !name.ends_with(".localhost"),
            Host::Ipv4(address) => !address.is_loopback(),
            Host::Ipv6(address) => !address.is_loopback(),
        });
        Self { own: own.collect(), ..self }
    }

    /// Parses the URL of a new destination. Every error is safe to show to the customer. With
    /// allowed networks any name passes, since it may resolve to one of them: see
    /// [`super::new_urls`].
    pub fn destination(&self, text: &str) -> Result<Url, UrlError> {
        if text.len() > self.max_url_bytes {
            return Err(UrlError::TooLong);
        }
        // The parser drops tabs, line ends and outer blanks; the stored URL must be the written
        // one.
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(UrlError::Malformed);
        }
        let url = Url::parse(text).map_err(|_| UrlError::Malformed)?;
        self.reach(&url)?;
        Ok(url)
    }

    /// Checks a URL by its text and returns how far a request to it may reach. When a connection is
    /// made, [`Self::admits`] checks the addresses of the host.
    pub fn reach(&self, url: &Url) -> Result<Reach, UrlError> {
        if !matches!(url.scheme(), "https" | "http") {
            return Err(UrlError::NotHttps);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlError::UserInfo);
        }
        if url.fragment().is_some() {
            return Err(UrlError::Fragment);
        }
        let host = url.host().map(|host| comparable(host.to_owned()));
        if host.is_some_and(|host| self.own.contains(&host)) {
            return Err(UrlError::OwnHost);
        }
        let port = url.port_or_known_default().ok_or(UrlError::Port)?;
        let public_port = self.ports.is_empty() || self.ports.contains(&port);
        let reach = match url.scheme() {
            "https" if public_port => Reach::Public,
            _ => Reach::OperatorOnly,
        };
        if self.host_is_within(reach, url) {
            return Ok(reach);
        }
        Err(match reach {
            Reach::OperatorOnly => beyond_public(url),
            Reach::Public => UrlError::PrivateHost,
        })
    }

    /// Checks the text of a URL as if the operator had no networks of its own; of an IP address it
    /// says nothing, because [`Self::reach`] has judged that.
    pub(super) fn by_public_rule(&self, url: &Url) -> Result<(), UrlError> {
        match (self.reach(url)?, url.host()) {
            (Reach::OperatorOnly, _) => Err(beyond_public(url)),
            (Reach::Public, Some(Host::Domain(name))) if !is_public_name(name) => {
                Err(UrlError::PrivateHost)
            }
            (Reach::Public, _) => Ok(()),
        }
    }

    /// Tells whether a connection to this address may be made.
    pub fn admits(&self, address: IpAddr, reach: Reach) -> bool {
        let address = address.to_canonical();
        let operators = self.allowed.iter().any(|network| network.contains(&address));
        operators || (reach == Reach::Public && is_public(address))
    }

    fn host_is_within(&self, reach: Reach, url: &Url) -> bool {
        match url.host() {
            Some(Host::Ipv4(address)) => self.admits(address.into(), reach),
            Some(Host::Ipv6(address)) => self.admits(address.into(), reach),
            // With allowed networks, any name may resolve to one of them.
            Some(Host::Domain(name)) => {
                !self.allowed.is_empty() || (reach == Reach::Public && is_public_name(name))
            }
            None => false,
        }
    }
}

/// The fault, by the public rule, of a URL that only [`Reach::OperatorOnly`] covers.
fn beyond_public(url: &Url) -> UrlError {
    if url.scheme() == "http" { UrlError::NotHttps } else { UrlError::Port }
}

/// Normalizes a host: lower case, no final dot, IPv4-mapped addresses as IPv4.
fn comparable(host: Host) -> Host {
    match host {
        Host::Domain(name) => {
            Host::Domain(name.strip_suffix('.').unwrap_or(&name).to_ascii_lowercase())
        }
        Host::Ipv6(address) => address.to_ipv4_mapped().map_or(Host::Ipv6(address), Host::Ipv4),
        Host::Ipv4(address) => Host::Ipv4(address),
    }
}

/// Tells whether a host name can be public: at least two labels, and not one of the names reserved
/// for the own machine and network (RFC 6761, RFC 6762, RFC 8375; ICANN resolution 2024.07.29.06
/// for `internal`, where clouds have their metadata services).
fn is_public_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let special =
        ["localhost", "localdomain", "local", "internal", "intranet", "lan", "home", "home.arpa"];
    name.split_once('.').is_some_and(|(first, rest)| !first.is_empty() && !rest.is_empty())
        && !special
            .iter()
            .any(|suffix| name.strip_suffix(suffix).is_some_and(|before| before.ends_with('.')))
}

/// Tells whether packets to this address leave for the public internet.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// IPv4 addresses that are not public: IANA IPv4 special-purpose registry, multicast and the rest
/// of class E.
const SPECIAL_V4: &[([u8; 4], u32)] = &[
    ([0, 0, 0, 0], 8),        // this network, RFC 791
    ([10, 0, 0, 0], 8),       // private, RFC 1918
    ([100, 64, 0, 0], 10),    // carrier-grade NAT, RFC 6598; a cloud's metadata service
    ([127, 0, 0, 0], 8),      // loopback, RFC 1122
    ([168, 63, 129, 16], 32), // a cloud's metadata service on a public address
    ([169, 254, 0, 0], 16),   // link-local, RFC 3927; most clouds' metadata service
    ([172, 16, 0, 0], 12),    // private, RFC 1918
    ([192, 0, 0, 0], 24),     // protocol assignments, RFC 6890
    ([192, 0, 2, 0], 24),     // documentation, RFC 5737
    ([192, 88, 99, 0], 24),   // 6to4 relays, RFC 7526
    ([192, 168, 0, 0], 16),   // private, RFC 1918
    ([198, 18, 0, 0], 15),    // benchmarking, RFC 2544
    ([198, 51, 100, 0], 24),  // documentation, RFC 5737
    ([203, 0, 113, 0], 24),   // documentation, RFC 5737
    ([224, 0, 0, 0], 4),      // multicast, RFC 5771
    ([240, 0, 0, 0], 4),      // reserved and broadcast, RFC 1112, RFC 919
];

fn is_public_v4(address: Ipv4Addr) -> bool {
    !SPECIAL_V4.iter().any(|(network, length)| {
        let mask = u32::MAX << (32 - length);
        address.to_bits() & mask == u32::from_be_bytes(*network) & mask
    })
}

/// Only global unicast (2000::/3) is public, without the ranges that the IANA registry reserves in
/// it.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let bits = address.to_bits();
    let within = |network: u128, length: u32| {
        let mask = u128::MAX << (128 - length);
        bits & mask == network & mask
    };
    if let Some(inner) = address.to_ipv4_mapped() {
        return is_public_v4(inner); // ::ffff:0:0/96: the packets are IPv4's, RFC 4291 §2.5.5.2
    }
    // NAT64 is how an IPv6-only gateway reaches the IPv4 internet, so it is as public as the
    // embedded address (RFC 6052 §3.1 forbids private ones, but a translator need not check).
    if within(0x0064_ff9b_u128 << 96, 96) {
        let [.., a, b, c, d] = address.octets();
        return is_public_v4(Ipv4Addr::new(a, b, c, d));
    }
    // ISATAP embeds an IPv4 address in the interface id of any prefix (RFC 5214 §6.1).
    let isatap = matches!(address.segments(), [_, _, _, _, 0 | 0x0200, 0x5efe, _, _]);
    within(0x2000_u128 << 112, 3)
        && !isatap
        && !within(0x2001_u128 << 112, 23) // protocol assignments with Teredo, RFC 2928, RFC 4380
        && !within(0x2001_0db8_u128 << 96, 32) // documentation, RFC 3849
        && !within(0x2002_u128 << 112, 16) // 6to4, RFC 3056
        && !within(0x3fff_u128 << 112, 20) // documentation, RFC 9637
}

#[cfg(test)]
mod tests;
