//! The places for connections of one client, so that no stranger alone holds all that there are
//! (threats C16 is the same of SMTP). A place gives itself back when it is dropped.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::network::{Network, Tally};

/// The places of each address, of IPv6 of each /64.
#[derive(Clone, Debug)]
pub(super) struct Places {
    taken: Arc<Mutex<Tally<Network>>>,
    most: usize,
}

/// A place for one connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    taken: Arc<Mutex<Tally<Network>>>,
    /// `None` where it is not counted.
    of: Option<Network>,
}

impl Places {
    /// So many for each.
    pub(super) fn new(most: usize) -> Self {
        Self { taken: Arc::default(), most }
    }

    /// A place for a connection from `peer`, unless all of its own are taken.
    pub(super) fn take(&self, peer: IpAddr) -> Option<Place> {
        let of = Network::of_client(peer);
        let mut taken = lock(&self.taken);
        if taken.of(&of) >= self.most {
            return None;
        }
        taken.add(of);
        drop(taken);
        Some(Place { taken: Arc::clone(&self.taken), of: Some(of) })
    }

    /// A place for a connection of a trusted proxy, where everybody's come from one address.
    pub(super) fn uncounted(&self) -> Place {
        Place { taken: Arc::clone(&self.taken), of: None }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(of) = &self.of {
            lock(&self.taken).remove(of);
        }
    }
}

/// Nothing panics while it holds the lock; if something did, the counts would still be whole.
fn lock(taken: &Mutex<Tally<Network>>) -> MutexGuard<'_, Tally<Network>> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_its_places_and_gets_them_back() {
        let places = Places::new(2);
        let take = |address: &str| places.take(address.parse().unwrap());
        let (first, _second) = (take("192.0.2.1").unwrap(), take("::ffff:192.0.2.1").unwrap());
        assert!(take("192.0.2.1").is_none() && take("::ffff:192.0.2.1").is_none());
        // A neighbour in IPv4 is somebody else; in IPv6, of the same /64, it is the same one.
        let _neighbour = take("192.0.2.2").unwrap();
        let _v6 = (take("2001:db8::1").unwrap(), take("2001:db8::ffff:1").unwrap());
        assert!(take("2001:db8::2").is_none());
        let _other = take("2001:db8:0:1::1").unwrap();
        drop(first);
        drop(places.uncounted());
        let again = take("192.0.2.1").unwrap();
        assert!(take("192.0.2.1").is_none());
        drop((again, _second, _neighbour, _v6, _other));
        assert!(lock(&places.taken).is_empty());
    }
}
