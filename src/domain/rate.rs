//! How much one may bring in a minute, by the generic cell rate algorithm (ITU-T I.371): of each
//! count one moment is kept, at which everything would have been served if it had come at the rate
//! from the beginning. It may be a minute ahead: so a minute's worth may come at once, and after
//! that as much as the rate gives.
//!
//! Moments are durations since whatever the caller counts from; one clock for one set of tallies.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

/// How far ahead a count may be.
const MINUTE: Duration = Duration::from_secs(60);

/// What one costs of a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(Duration);

impl Rate {
    /// So many in a minute; `None` for 0, where nothing is counted.
    pub fn per_minute(count: u32) -> Option<Self> {
        MINUTE.checked_div(count).map(Self)
    }
}

/// The counts of all who have brought something lately, of a bounded number.
#[derive(Debug)]
pub struct Tallies<K> {
    /// Until when each is ahead; in the past is as good as nowhere.
    until: HashMap<K, Duration>,
    most: usize,
}

impl<K: Clone + Eq + Hash> Tallies<K> {
    /// Counts so many at the same time.
    pub fn new(most: usize) -> Self {
        Self { until: HashMap::new(), most: most.max(1) }
    }

    /// Whether one more of `key` is within the rate.
    pub fn may(&self, key: &K, rate: Rate, now: Duration) -> bool {
        let until = self.until.get(key).copied().unwrap_or_default();
        until.saturating_sub(now) + rate.0 <= MINUTE
    }

    /// Counts one more, within the rate or not.
    pub fn add(&mut self, key: &K, rate: Rate, now: Duration) {
        if let Some(until) = self.until.get_mut(key) {
            *until = (*until).max(now) + rate.0;
            return;
        }
        if self.until.len() >= self.most {
            self.make_room();
        }
        self.until.insert(key.clone(), now + rate.0);
    }

    /// One that was counted did not count.
    pub fn give_back(&mut self, key: &K, rate: Rate) {
        if let Some(until) = self.until.get_mut(key) {
            *until = until.saturating_sub(rate.0);
        }
    }

    /// Forgets everything: after the clock was set back nothing here means anything.
    pub fn clear(&mut self) {
        self.until.clear();
    }

    /// Forgets the half that is least ahead: first those that were quiet for a minute, and never
    /// those that bring the most. Half of them at once, so that a crowd of new ones costs each a
    /// constant; and whoever is new is let in, because only a crowd can fill the map, and to turn
    /// away everybody who is new would do to honest senders what the crowd cannot do itself.
    fn make_room(&mut self) {
        let mut all: Vec<(K, Duration)> = self.until.drain().collect();
        let half = all.len() / 2;
        let (_, _, ahead) = all.select_nth_unstable_by_key(half, |(_, until)| *until);
        self.until.extend(ahead.iter().cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of 999 are within the rate, and are counted.
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
    fn what_was_let_in_is_owed_and_what_did_not_count_is_not() {
        let (mut tallies, now) = (Tallies::new(9), Duration::from_secs(1000));
        let rate = Rate::per_minute(2).unwrap();
        for _ in 0..3 {
            tallies.add(&1, rate, now);
        }
        assert!(!tallies.may(&1, rate, now + Duration::from_secs(59)));
        assert!(tallies.may(&1, rate, now + Duration::from_secs(60)));
        tallies.give_back(&1, rate);
        assert!(!tallies.may(&1, rate, now));
        tallies.give_back(&1, rate);
        assert!(tallies.may(&1, rate, now));
        // Nobody can save up by what is given back.
        (0..99).for_each(|_| tallies.give_back(&1, rate));
        assert_eq!(taken(&mut tallies, 1, 2, now), 2);
        tallies.give_back(&7, rate);
        assert_eq!(taken(&mut tallies, 7, 2, now), 2);
        tallies.clear();
        assert_eq!(taken(&mut tallies, 1, 2, now), 2);
    }

    #[test]
    fn a_full_map_forgets_the_quiet_ones_and_never_those_that_bring_the_most() {
        let (mut tallies, now) = (Tallies::new(8), Duration::from_secs(1000));
        assert_eq!(taken(&mut tallies, 0, 10, now), 10);
        for newcomer in 1..1000 {
            let at = now + Duration::from_millis(u64::from(newcomer));
            assert_eq!(taken(&mut tallies, newcomer, 10, at), 10, "it is counted");
            assert_eq!(taken(&mut tallies, 0, 10, at), 0, "after {newcomer}");
            assert!(tallies.until.len() <= 8);
            // The flood goes on whenever it may; the newcomers are not heard of again.
            tallies.give_back(&newcomer, Rate::per_minute(1).unwrap());
        }
        let mut one = Tallies::new(0);
        assert_eq!(taken(&mut one, 1, 10, now) + taken(&mut one, 2, 10, now), 20);
        assert_eq!(one.until.len(), 1);
    }
}
