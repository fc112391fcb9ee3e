//! Places for sessions: in all, per network and per address (threats C16). A place is returned when
//! it is dropped, so a session that panics keeps none.

use std::net::IpAddr;

use crate::domain::network::Network;
use crate::domain::shares::{Share, Shares};

/// Caps on simultaneous sessions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caps {
    pub(super) all: usize,
    pub(super) network: usize,
    pub(super) address: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Places {
    taken: Shares<Holder>,
    caps: Caps,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Holder {
    All,
    Network(Network),
    Address(IpAddr),
}

/// A place for one session. It is taken before the client is known: behind a trusted proxy its
/// address comes later.
#[derive(Debug)]
pub(super) struct SessionPlace {
    places: Places,
    _of_all: Share<Holder>,
    own: Option<Share<Holder>>,
}

impl Places {
    pub(super) fn new(caps: Caps) -> Self {
        Self { taken: Shares::default(), caps }
    }

    /// Number of places taken.
    pub(super) fn taken(&self) -> usize {
        self.taken.taken(&Holder::All)
    }

    /// Takes a place; None if all are taken.
    pub(super) fn take(&self) -> Option<SessionPlace> {
        let of_all = self.taken.take(&[(Holder::All, self.caps.all)])?;
        Some(SessionPlace { places: self.clone(), _of_all: of_all, own: None })
    }
}

impl SessionPlace {
    /// Counts the place for `address` (in canonical form) and its network. Returns false if either
    /// has reached its cap.
    pub(super) fn settle(&mut self, address: IpAddr) -> bool {
        self.own = None;
        let Places { taken, caps } = &self.places;
        self.own = taken.take(&[
            (Holder::Network(Network::of(address)), caps.network),
            (Holder::Address(address), caps.address),
        ]);
        self.own.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse::<IpAddr>().unwrap().to_canonical()
    }

    fn places(all: usize, network: usize, address: usize) -> Places {
        Places::new(Caps { all, network, address })
    }

    impl Places {
        fn settled(&self, address: &str) -> Option<SessionPlace> {
            let mut place = self.take()?;
            place.settle(ip(address)).then_some(place)
        }
    }

    #[test]
    fn a_network_has_its_places_and_gets_them_back() {
        let places = places(5, 2, 2);
        let first = places.settled("192.0.2.1").unwrap();
        let second = places.settled("::ffff:192.0.2.200").unwrap();
        assert!(places.settled("192.0.2.3").is_none());
        let _other = places.settled("192.0.3.1").unwrap();
        let _v6 = places.settled("2001:db8::1").unwrap();
        let _v6_same = places.settled("2001:db8::ffff:1").unwrap();
        assert!(places.take().is_none(), "all places are taken");
        drop(first);
        assert!(places.settled("2001:db8::2").is_none(), "that network has its two");
        let _again = places.settled("192.0.2.9").unwrap();
        drop(second);
        // One holder for all, three networks and four addresses.
        assert_eq!(places.taken.holders(), 8);
    }

    #[test]
    fn an_address_has_fewer_places_than_its_network() {
        let places = places(9, 3, 1);
        let one = places.settled("192.0.2.1").unwrap();
        assert!(places.settled("::ffff:192.0.2.1").is_none(), "the same address in other words");
        let _two = places.settled("192.0.2.2").unwrap();
        drop(one);
        let _again = places.settled("192.0.2.1").unwrap();
    }

    #[test]
    fn who_is_turned_away_or_not_settled_leaves_nothing() {
        let places = places(2, 1, 1);
        let mut here = places.settled("192.0.2.1").unwrap();
        assert!(places.settled("192.0.2.2").is_none());
        assert!(here.settle(ip("198.51.100.1")), "settled anew, it leaves where it was");
        drop((places.settled("192.0.2.2").unwrap(), here));
        assert_eq!(places.taken.holders(), 0);
    }
}
