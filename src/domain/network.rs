//! Whom limits are for: a network, and not the addresses that one customer can change within it.
//! Mail's are for an IPv4 /24; the API's, where a whole office may have one address, for that one.

use std::net::IpAddr;

/// A part of IPv4, or an IPv6 /64. An IPv4 address in IPv6 form is the IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Network {
    V4(u32),
    V6(u64),
}

impl Network {
    /// The IPv4 /24 or IPv6 /64 of an address.
    pub fn of(address: IpAddr) -> Self {
        match Self::of_client(address) {
            Self::V4(bits) => Self::V4(bits >> 8),
            of_v6 @ Self::V6(_) => of_v6,
        }
    }

    /// The IPv4 address itself, or the IPv6 /64.
    pub fn of_client(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Self::V4(v4.to_bits()),
            IpAddr::V6(v6) => {
                let [a, b, c, d, ..] = v6.segments().map(u64::from);
                Self::V6(a << 48 | b << 32 | c << 16 | d)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_network() {
        let of = |text: &str| Network::of(text.parse().unwrap());
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.200"));
        assert_ne!(of("192.0.2.1"), of("192.0.3.1"));
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        let client = |text: &str| Network::of_client(text.parse().unwrap());
        assert_eq!(client("192.0.2.1"), client("::ffff:192.0.2.1"));
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
        assert_eq!(client("2001:db8:1:2::1"), client("2001:db8:1:2:ffff::"));
    }
}
