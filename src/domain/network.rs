//! Networks that limits apply to, so that a customer gains nothing by changing addresses within its
//! network. Limits for mail use the IPv4 /24; limits for the API use the single IPv4 address, which
//! may already stand for a whole office.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

/// A part of IPv4 or IPv6. An IPv4-mapped IPv6 address counts as its IPv4 address.
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

    /// The IPv4 /24 or IPv6 /48 of an address; a /48 is usually one customer.
    pub fn of_site(address: IpAddr) -> Self {
        match Self::of(address) {
            Self::V6(bits) => Self::V6(bits >> 16),
            of_v4 @ Self::V4(_) => of_v4,
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

/// Counts per key. Keys with count 0 are removed, so the map never holds more keys than are
/// counted.
#[derive(Clone, Debug)]
pub struct Tally<K>(HashMap<K, usize>);

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Tally<K> {
    /// Returns the count of `key`.
    pub fn of(&self, key: &K) -> usize {
        self.0.get(key).copied().unwrap_or(0)
    }

    pub fn add(&mut self, key: K) {
        let count = self.0.entry(key).or_insert(0);
        *count = count.saturating_add(1);
    }

    /// Subtracts one, not below 0.
    pub fn remove(&mut self, key: &K) {
        if let Some(count) = self.0.get_mut(key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.0.remove(key);
            }
        }
    }

    /// Sum of all counts.
    #[cfg(test)]
    pub fn total(&self) -> usize {
        self.0.values().sum()
    }

    /// Number of keys with a count above 0.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_none_of_takes_no_room() {
        let mut tally = Tally::default();
        tally.add('a');
        tally.add('a');
        tally.add('b');
        assert_eq!((tally.of(&'a'), tally.of(&'b'), tally.of(&'c'), tally.len()), (2, 1, 0, 2));
        tally.remove(&'c');
        tally.remove(&'b');
        tally.remove(&'a');
        assert_eq!((tally.of(&'a'), tally.of(&'b'), tally.len()), (1, 0, 1));
        tally.remove(&'a');
        tally.remove(&'a');
        assert!(tally.is_empty());
    }

    #[test]
    fn neighbours_are_one_network() {
        let of = |text: &str| Network::of(text.parse().unwrap());
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.200"));
        assert_ne!(of("192.0.2.1"), of("192.0.3.1"));
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        let site = |text: &str| Network::of_site(text.parse().unwrap());
        assert_eq!(site("192.0.2.1"), of("192.0.2.1"));
        assert_eq!(site("2001:db8:1:2::1"), site("2001:db8:1:ffff::1"));
        assert_ne!(site("2001:db8:1:2::1"), site("2001:db8:2:2::1"));
        let client = |text: &str| Network::of_client(text.parse().unwrap());
        assert_eq!(client("192.0.2.1"), client("::ffff:192.0.2.1"));
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
        assert_eq!(client("2001:db8:1:2::1"), client("2001:db8:1:2:ffff::"));
    }
}
