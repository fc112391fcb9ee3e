//! Whom limits are for: a network, and not the addresses that one customer can change within it.
//! Mail's are for an IPv4 /24; the API's, where a whole office may have one address, for that one.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

/// A part of IPv4, or of IPv6. An IPv4 address in IPv6 form is the IPv4 address.
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

    /// The IPv4 /24 or the IPv6 /48, of which one customer is given all /64s.
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

/// How many there are of each, networks or addresses; what there is none of takes no room, so that
/// it holds no more than is counted at the time.
#[derive(Clone, Debug)]
pub struct Tally<K>(HashMap<K, usize>);

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Tally<K> {
    /// How many there are of this one.
    pub fn of(&self, key: &K) -> usize {
        self.0.get(key).copied().unwrap_or(0)
    }

    /// One more.
    pub fn add(&mut self, key: K) {
        let count = self.0.entry(key).or_insert(0);
        *count = count.saturating_add(1);
    }

    /// One less, if there is any.
    pub fn remove(&mut self, key: &K) {
        if let Some(count) = self.0.get_mut(key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.0.remove(key);
            }
        }
    }

    /// How many different ones there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is nothing of anything.
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
