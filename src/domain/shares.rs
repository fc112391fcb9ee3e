//! Limits per holder, so that no holder takes everything.

use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::network::Tally;

/// The shares taken now, per holder. Holders without a share are not kept.
#[derive(Debug)]
pub struct Shares<H: Eq + Hash>(Arc<Mutex<Tally<H>>>);

/// A share, taken for each of its holders until it is dropped.
#[derive(Debug)]
pub struct Share<H: Eq + Hash> {
    shares: Shares<H>,
    of: Vec<H>,
}

impl<H: Eq + Hash + Clone> Shares<H> {
    /// Takes one share for all these holders; none at all if one of them already has its maximum.
    pub fn take(&self, wanted: &[(H, usize)]) -> Option<Share<H>> {
        let mut taken = self.lock();
        if wanted.iter().any(|(holder, most)| taken.of(holder) >= *most) {
            return None;
        }
        let of: Vec<H> = wanted.iter().map(|(holder, _)| holder.clone()).collect();
        of.iter().for_each(|holder| taken.add(holder.clone()));
        drop(taken);
        Some(Share { shares: self.clone(), of })
    }
}

impl<H: Eq + Hash> Shares<H> {
    /// Number of shares of this holder.
    pub fn taken(&self, holder: &H) -> usize {
        self.lock().of(holder)
    }

    /// Number of shares of all holders.
    #[cfg(test)]
    pub fn total(&self) -> usize {
        self.lock().total()
    }

    /// Number of holders with a share.
    pub fn holders(&self) -> usize {
        self.lock().len()
    }

    /// Ignores poisoning: no code panics under the lock, and the counts would still be consistent.
    fn lock(&self) -> MutexGuard<'_, Tally<H>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H: Eq + Hash> Clone for Shares<H> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<H: Eq + Hash> Default for Shares<H> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<H: Eq + Hash> Drop for Share<H> {
    fn drop(&mut self) {
        let mut taken = self.shares.lock();
        self.of.iter().for_each(|holder| taken.remove(holder));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::network::Network;

    #[test]
    fn a_client_has_its_share_and_gives_it_back() {
        let shares = Shares::default();
        let take =
            |address: &str| shares.take(&[(Network::of_client(address.parse().unwrap()), 2)]);
        let (first, second) = (take("192.0.2.1").unwrap(), take("::ffff:192.0.2.1").unwrap());
        assert!(take("192.0.2.1").is_none() && take("::ffff:192.0.2.1").is_none());
        // A neighbouring IPv4 address is another holder; IPv6 addresses of one /64 are the same
        // one.
        let neighbour = take("192.0.2.2").unwrap();
        let v6 = (take("2001:db8::1").unwrap(), take("2001:db8::ffff:1").unwrap());
        assert!(take("2001:db8::2").is_none());
        let other = take("2001:db8:0:1::1").unwrap();
        drop(first);
        drop(shares.take(&[]));
        let again = take("192.0.2.1").unwrap();
        assert!(take("192.0.2.1").is_none());
        drop((again, second, neighbour, v6, other));
        assert_eq!(shares.holders(), 0);
    }

    #[test]
    fn one_holder_that_has_all_keeps_nothing_from_the_others() {
        let shares = Shares::default();
        let both = [('a', 1), ('b', 2)];
        let first = shares.take(&both).unwrap();
        assert!(shares.take(&both).is_none(), "a has its one");
        let second = shares.take(&[('b', 2)]).unwrap();
        assert!(shares.take(&[('b', 2)]).is_none());
        drop((first, second));
        assert_eq!(shares.holders(), 0);
    }
}
