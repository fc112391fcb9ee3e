//! What all sessions share: places and memory. Both are handed out as values that give themselves
//! back when they are dropped, so that a session that panics keeps neither.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The places for sessions, all together and per network (threats C16).
#[derive(Clone, Debug)]
pub(super) struct Places {
    taken: Arc<Mutex<Taken>>,
    max: usize,
    max_per_network: usize,
}

/// Never has more networks than sessions, so the caps bound it too.
#[derive(Debug, Default)]
struct Taken {
    all: usize,
    networks: HashMap<Network, usize>,
}

/// IPv4 /24 or IPv6 /64: what one client can change its address within.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Network {
    V4(u32),
    V6(u128),
}

impl Network {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Self::V4(v4.to_bits() >> 8),
            IpAddr::V6(v6) => Self::V6(v6.to_bits() >> 64),
        }
    }
}

/// A place for one session, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    taken: Arc<Mutex<Taken>>,
    network: Network,
}

impl Places {
    pub(super) fn new(max: usize, max_per_network: usize) -> Self {
        Self { taken: Arc::default(), max, max_per_network }
    }

    /// A place, unless all are taken or all that this network may have.
    pub(super) fn take(&self, address: IpAddr) -> Option<Place> {
        let network = Network::of(address);
        let mut taken = lock(&self.taken);
        let here = taken.networks.get(&network).copied().unwrap_or(0);
        if taken.all >= self.max || here >= self.max_per_network {
            return None;
        }
        taken.all += 1;
        taken.networks.insert(network, here + 1);
        Some(Place { taken: Arc::clone(&self.taken), network })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        taken.all = taken.all.saturating_sub(1);
        let left = taken.networks.get(&self.network).map_or(0, |here| here.saturating_sub(1));
        if left == 0 {
            taken.networks.remove(&self.network);
        } else {
            taken.networks.insert(self.network, left);
        }
    }
}

/// Nothing panics while it holds the lock; if something did, the counts would still be whole.
fn lock(taken: &Mutex<Taken>) -> MutexGuard<'_, Taken> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The octets of all messages being received, together.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    left: Arc<AtomicUsize>,
}

/// One message's share, until it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    left: Arc<AtomicUsize>,
    octets: usize,
}

impl Budget {
    pub(super) fn new(octets: usize) -> Self {
        Self { left: Arc::new(AtomicUsize::new(octets)) }
    }

    /// An empty share.
    pub(super) fn share(&self) -> Share {
        Share { left: Arc::clone(&self.left), octets: 0 }
    }
}

impl Share {
    /// Makes the share larger; `false` when that much is not left.
    pub(super) fn grow(&mut self, octets: usize) -> bool {
        let less = |left: usize| left.checked_sub(octets);
        let granted = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
        if granted {
            self.octets = self.octets.saturating_add(octets);
        }
        granted
    }

    /// Gives back what is above `octets`.
    pub(super) fn shrink(&mut self, octets: usize) {
        self.left.fetch_add(self.octets.saturating_sub(octets), Ordering::Relaxed);
        self.octets = self.octets.min(octets);
    }

    /// Gives everything back.
    pub(super) fn clear(&mut self) {
        self.shrink(0);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_has_its_places_and_gets_them_back() {
        let places = Places::new(5, 2);
        let first = places.take(ip("192.0.2.1")).unwrap();
        let second = places.take(ip("::ffff:192.0.2.200")).unwrap();
        assert!(places.take(ip("192.0.2.3")).is_none());
        let _other = places.take(ip("192.0.3.1")).unwrap();
        let _v6 = places.take(ip("2001:db8::1")).unwrap();
        let _v6_same = places.take(ip("2001:db8::ffff:1")).unwrap();
        assert!(places.take(ip("2001:db8:0:1::1")).is_none(), "all places are taken");
        drop(first);
        assert!(places.take(ip("2001:db8::2")).is_none(), "that network has its two");
        let _again = places.take(ip("192.0.2.9")).unwrap();
        drop(second);
        assert_eq!(lock(&places.taken).all, 4);
        assert_eq!(lock(&places.taken).networks.len(), 3);
    }

    #[test]
    fn shares_never_exceed_the_budget() {
        let budget = Budget::new(100);
        let (mut one, mut two) = (budget.share(), budget.share());
        assert!(one.grow(60));
        assert!(!two.grow(41));
        assert!(two.grow(40));
        assert!(!one.grow(1));
        drop(two);
        assert!(one.grow(40));
        one.shrink(100);
        assert_eq!(budget.left.load(Ordering::Relaxed), 0);
        one.shrink(30);
        assert_eq!(budget.left.load(Ordering::Relaxed), 70);
        one.clear();
        assert_eq!(budget.left.load(Ordering::Relaxed), 100);
    }
}
