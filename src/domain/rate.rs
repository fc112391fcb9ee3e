//! Rate limits per minute, by the generic cell rate algorithm (ITU-T I.371). Each key has one
//! moment: the end of its queue, if its items were served one by one at the rate. The moment may be
//! at most a minute ahead. So a minute's worth may come at once, and after that as much as the rate
//! allows.
//!
//! Moments are durations since an origin of the caller's choice; all calls on one set of tallies
//! must use the same clock.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

/// How far ahead of now the moment of a key may be.
const MINUTE: Duration = Duration::from_secs(60);

/// Time that one item takes at the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(Duration);

impl Rate {
    /// Returns None for 0, which means no limit.
    pub fn per_minute(count: u32) -> Option<Self> {
        MINUTE.checked_div(count).map(Self)
    }
}

/// The slot of one counted item in the queue of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    from: Duration,
    to: Duration,
}

/// Rate counters of a bounded number of keys.
#[derive(Debug)]
pub struct Tallies<K> {
    /// The moment of each key. A moment in the past equals no entry.
    until: HashMap<K, Duration>,
    most: usize,
}

impl<K: Clone + Eq + Hash> Tallies<K> {
    /// Keeps at most `most` keys, at least two.
    pub fn new(most: usize) -> Self {
        Self { until: HashMap::new(), most: most.max(2) }
    }

    /// Tells whether one more item of `key` is within the rate.
    pub fn may(&self, key: &K, rate: Rate, now: Duration) -> bool {
        self.ahead(key, now) + rate.0 <= MINUTE
    }

    /// Tells whether one more item of `key` is within the rate, or exceeds it by at most a minute's
    /// worth.
    pub fn may_owe(&self, key: &K, rate: Rate, now: Duration) -> bool {
        self.ahead(key, now) + rate.0 <= 2 * MINUTE
    }

    /// Returns how many more items of `key` are within the rate now.
    pub fn left(&self, key: &K, rate: Rate, now: Duration) -> u32 {
        let room = MINUTE.saturating_sub(self.ahead(key, now));
        u32::try_from(room.as_nanos() / rate.0.as_nanos().max(1)).unwrap_or(u32::MAX)
    }

    /// Returns the time until one more item of `key` is within the rate.
    pub fn wait(&self, key: &K, rate: Rate, now: Duration) -> Duration {
        (self.ahead(key, now) + rate.0).saturating_sub(MINUTE)
    }

    /// Returns the time until the queue of `key` is empty, and a whole minute's worth may come
    /// again.
    pub fn ahead(&self, key: &K, now: Duration) -> Duration {
        self.until.get(key).copied().unwrap_or_default().saturating_sub(now)
    }

    /// Counts one more item, within the rate or not.
    pub fn add(&mut self, key: &K, rate: Rate, now: Duration) -> Share {
        if let Some(until) = self.until.get_mut(key) {
            let from = (*until).max(now);
            *until = from + rate.0;
            return Share { from, to: *until };
        }
        if self.until.len() >= self.most {
            self.make_room();
        }
        let share = Share { from: now, to: now + rate.0 };
        self.until.insert(key.clone(), share.to);
        share
    }

    /// Takes back one counted item. Only the part of its slot that lies ahead is returned: time
    /// already served must not reduce the count of later items.
    pub fn give_back(&mut self, key: &K, share: Share, now: Duration) {
        if let Some(until) = self.until.get_mut(key) {
            *until = until.saturating_sub(share.to.saturating_sub(share.from.max(now)));
        }
    }

    /// Forgets half of the keys: those least ahead. So keys that were quiet for a minute go first,
    /// and the busiest key never goes. Half at once, so that each new key costs constant time. New
    /// keys are always let in: only a crowd can fill the map, and refusing new keys would hurt
    /// honest senders in a way that the crowd cannot.
    fn make_room(&mut self) {
        let mut all: Vec<(K, Duration)> = self.until.drain().collect();
        let Some(last) = all.len().checked_sub(1) else { return };
        let middle = last / 2;
        all.select_nth_unstable_by_key(middle, |(_, until)| *until);
        self.until.extend(all.drain(middle + 1..));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts as many of 999 items as are within the rate; returns their number.
    fn taken(tallies: &mut Tallies<u32>, key: u32, per_minute: u32, now: Duration) -> usize {
        let rate = Rate::per_minute(per_minute).unwrap();
        let mut take = |_: &usize| {
            let may = tallies.may(&key, rate, now);
            if may {
                tallies.add(&key, rate, now);
            }
            may
        };
        (0..999).filter(|one| take(one)).count()
    }

    #[test]
    fn a_minutes_worth_at_once_and_then_the_rate() {
        let (mut tallies, now) = (Tallies::new(9), Duration::from_secs(1000));
        assert_eq!(taken(&mut tallies, 1, 6, now), 6);
        assert_eq!(taken(&mut tallies, 2, 6, now), 6, "another one");
        assert_eq!(taken(&mut tallies, 1, 6, now + Duration::from_secs(25)), 2);
        let later = now + Duration::from_secs(600);
        assert_eq!(taken(&mut tallies, 1, 6, later), 6, "no more is saved up");
        assert_eq!(taken(&mut tallies, 3, 1_000_000, now), 999);
        assert_eq!(Rate::per_minute(0), None);
    }

    #[test]
    fn what_is_left_and_how_long_to_wait_is_what_may_comes_to() {
        let now = Duration::from_secs(1000);
        for per_minute in [1, 2, 3, 7, 60, 999] {
            let (mut tallies, rate) = (Tallies::new(9), Rate::per_minute(per_minute).unwrap());
            for taken in 0..per_minute {
                assert_eq!(tallies.left(&1, rate, now), per_minute - taken);
                assert_eq!(tallies.wait(&1, rate, now), Duration::ZERO);
                tallies.add(&1, rate, now);
            }
            assert_eq!(tallies.left(&1, rate, now), 0);
            let wait = tallies.wait(&1, rate, now);
            assert!(wait > Duration::ZERO && wait <= MINUTE);
            assert!(tallies.may(&1, rate, now + wait));
            assert!(!tallies.may(&1, rate, now + wait - Duration::from_nanos(1)));
            let served = tallies.ahead(&1, now);
            assert_eq!(tallies.left(&1, rate, now + served), per_minute);
        }
    }

    #[test]
    fn what_was_let_in_is_owed_and_what_did_not_count_is_not() {
        let (mut tallies, now) = (Tallies::new(9), Duration::from_secs(1000));
        let rate = Rate::per_minute(2).unwrap();
        let shares: Vec<_> = (0..3).map(|_| tallies.add(&1, rate, now)).collect();
        assert!(!tallies.may(&1, rate, now + Duration::from_secs(59)));
        assert!(tallies.may(&1, rate, now + Duration::from_secs(60)));
        assert!(tallies.may_owe(&1, rate, now), "a minute's worth at most");
        tallies.give_back(&1, shares[0], now);
        assert!(!tallies.may(&1, rate, now));
        tallies.give_back(&1, shares[1], now);
        assert!(tallies.may(&1, rate, now));
        tallies.give_back(&7, shares[2], now);
        assert_eq!(taken(&mut tallies, 7, 2, now), 2, "nobody saves up");
        for _ in 0..2 {
            tallies.add(&7, rate, now);
        }
        assert!(!tallies.may_owe(&7, rate, now));
        assert!(tallies.may_owe(&7, rate, now + Duration::from_secs(30)));
    }

    #[test]
    fn what_was_served_meanwhile_is_not_given_back() {
        let (mut tallies, now) = (Tallies::new(9), Duration::from_secs(1000));
        let rate = Rate::per_minute(2).unwrap();
        let past = tallies.add(&1, rate, now);
        let later = now + Duration::from_secs(30);
        assert_eq!(taken(&mut tallies, 1, 2, later), 2, "others");
        tallies.give_back(&1, past, later);
        assert!(!tallies.may(&1, rate, later));
        // An item whose slot has begun returns the rest of it: here ten seconds.
        let mut tallies = Tallies::new(9);
        let half_past = tallies.add(&1, rate, now);
        tallies.add(&1, rate, now + Duration::from_secs(20));
        tallies.give_back(&1, half_past, now + Duration::from_secs(20));
        assert!(tallies.may(&1, rate, now + Duration::from_secs(20)));
        assert_eq!(taken(&mut tallies, 1, 2, now + Duration::from_secs(20)), 1);
        // An item that waits behind others returns its whole slot.
        let mut tallies = Tallies::new(9);
        tallies.add(&1, rate, now);
        let waiting = tallies.add(&1, rate, now);
        tallies.give_back(&1, waiting, now + Duration::from_secs(10));
        assert!(tallies.may(&1, rate, now + Duration::from_secs(10)));
    }

    #[test]
    fn a_full_map_forgets_the_quiet_ones_and_never_those_that_bring_the_most() {
        let (mut tallies, now) = (Tallies::new(8), Duration::from_secs(1000));
        assert_eq!(taken(&mut tallies, 0, 10, now), 10);
        for newcomer in 1..1000 {
            let at = now + Duration::from_millis(u64::from(newcomer));
            tallies.add(&newcomer, Rate::per_minute(10).unwrap(), at);
            assert!(tallies.until.contains_key(&newcomer), "it is counted");
            assert_eq!(taken(&mut tallies, 0, 10, at), 0, "after {newcomer}");
            assert!(tallies.until.len() <= 8);
        }
        for most in 0..9 {
            let mut few = Tallies::new(most);
            for flood in 0..9 {
                few.add(&9, Rate::per_minute(1).unwrap(), now);
                assert_eq!(taken(&mut few, flood, 10, now), 10);
                assert!(few.until.len() <= most.max(2));
            }
            assert_eq!(taken(&mut few, 9, 10, now), 0, "of {most}");
        }
    }
}
