//! How much one may ask for in a minute: a key, and an address without a valid one
//! (`policies/access.toml`, `[rates]`). Counted by this gateway for itself, as `domain::rate` has it.
//!
//! Keys have 256 random bits: nobody guesses one. What guessing costs is look-ups in the store, so
//! those are what is bounded: an address has so many failures in a minute, and beyond them a key
//! that was not valid here lately is answered 429 without being looked up. A key that was, is looked
//! up whoever else fails behind the same address (a company's, a proxy's), so that one client that
//! guesses locks no other out; only a key that this gateway has never seen may have to wait for a
//! moment until the address may fail again. Valid keys in their turn fill that memory only by being
//! valid, so that it cannot be flooded. Each is looked up every time: one that was revoked is refused
//! at once.
//!
//! A key that asks for too much is told so before it is looked up and before its body is read.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::app::access::need::Effect;
use crate::domain::key::KeyHash;
use crate::domain::network::Network;
use crate::domain::rate::{Rate, Share, Tallies};
use crate::http::error::{Code, Problem};
use crate::rules::AccessRates;

/// The counts of all keys and addresses that have asked for something lately.
#[derive(Debug)]
pub(crate) struct Limits {
    rates: AccessRates,
    /// What all moments are counted from.
    began: Instant,
    counted: Mutex<Counted>,
}

#[derive(Debug)]
struct Counted {
    keys: Tallies<(Hash, Effect)>,
    keyless: Tallies<Network>,
    /// Links that were opened.
    links: Tallies<Network>,
    /// Keys that were valid, and when.
    valid: HashMap<Hash, Duration>,
}

type Hash = [u8; 32];

/// What is left to a key, for the answer's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Quota {
    pub(in crate::http) effect: Effect,
    /// In a minute.
    pub(in crate::http) most: u32,
    pub(in crate::http) left: u32,
    /// Until one more is.
    next_in: Duration,
    /// Until all of it is there again.
    pub(in crate::http) full_in: Duration,
}

/// 429, and what is left to whom.
#[derive(Debug)]
pub(in crate::http) struct Refused {
    pub(in crate::http) problem: Box<Problem>,
    pub(in crate::http) quota: Option<Quota>,
}

/// A key that may be looked up.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct Admitted {
    key: Option<Hash>,
    from: Network,
    effect: Effect,
    /// What it has taken of its address' failures until it proves to be valid.
    owed: Option<Share>,
}

impl Limits {
    pub(in crate::http) fn new(rates: AccessRates) -> Self {
        let counted = Counted {
            // Readings and changes of a key have a count each.
            keys: Tallies::new(rates.max_counted.saturating_mul(2)),
            keyless: Tallies::new(rates.max_counted),
            links: Tallies::new(rates.max_counted),
            valid: HashMap::new(),
        };
        Self { rates, began: Instant::now(), counted: Mutex::new(counted) }
    }

    /// Whether this key may be looked up for a request from this address; 429 if not. `None` is
    /// what cannot be a key.
    pub(in crate::http) fn admit(
        &self,
        key: Option<KeyHash>,
        from: IpAddr,
        effect: Effect,
    ) -> Result<Admitted, Refused> {
        self.admit_at(key.map(|hash| hash.0), from, effect, Instant::now())
    }

    fn admit_at(
        &self,
        key: Option<Hash>,
        from: IpAddr,
        effect: Effect,
        now: Instant,
    ) -> Result<Admitted, Refused> {
        let (now, from) = (self.moment(now), Network::of_client(from));
        let mut counted = self.lock();
        let admitted = Admitted { key, from, effect, owed: None };
        if let Some(key) = key.filter(|key| counted.valid.contains_key(key)) {
            // Asked now, so that one that asks for too much costs no look-up; counted when it is
            // valid still.
            let quota = self.quota(&counted, key, effect, now);
            return match quota {
                Some(quota) if quota.left == 0 => Err(quota.exceeded()),
                _ => Ok(admitted),
            };
        }
        let Some(rate) = Rate::per_minute(self.rates.keyless_per_minute) else {
            return Ok(admitted);
        };
        if !counted.keyless.may(&from, rate, now) {
            let wait = counted.keyless.wait(&from, rate, now);
            let what = "too many requests without a valid key came from this address";
            return Err(Refused { problem: Box::new(too_many(what, wait)), quota: None });
        }
        // Taken before the look-up, so that those under way at the same time are counted, too.
        let owed = counted.keyless.add(&from, rate, now);
        Ok(Admitted { owed: Some(owed), ..admitted })
    }

    /// The key is valid: counts the request, and answers what is left; 429 if nothing was.
    pub(in crate::http) fn count(&self, admitted: Admitted) -> Result<Option<Quota>, Refused> {
        self.count_at(admitted, Instant::now())
    }

    fn count_at(&self, admitted: Admitted, now: Instant) -> Result<Option<Quota>, Refused> {
        let (now, Admitted { key, from, effect, owed }) = (self.moment(now), admitted);
        let mut counted = self.lock();
        if let Some(share) = owed {
            counted.keyless.give_back(&from, share, now);
        }
        let Some(key) = key else { return Ok(None) };
        counted.remember(key, now, self.rates.max_counted);
        let Some(rate) = self.rate(effect) else { return Ok(None) };
        if let Some(quota) = self.quota(&counted, key, effect, now)
            && quota.left == 0
        {
            return Err(quota.exceeded());
        }
        counted.keys.add(&(key, effect), rate, now);
        Ok(self.quota(&counted, key, effect, now))
    }

    /// What is left to a key at this moment.
    fn quota(&self, counted: &Counted, key: Hash, effect: Effect, now: Duration) -> Option<Quota> {
        let (of, rate) = ((key, effect), self.rate(effect)?);
        Some(Quota {
            effect,
            most: self.per_minute(effect),
            left: counted.keys.left(&of, rate, now),
            next_in: counted.keys.wait(&of, rate, now),
            full_in: counted.keys.ahead(&of, now),
        })
    }

    /// The key is not valid.
    pub(in crate::http) fn refuse(&self, admitted: Admitted) {
        self.refuse_at(admitted, Instant::now());
    }

    fn refuse_at(&self, admitted: Admitted, now: Instant) {
        let now = self.moment(now);
        let Admitted { key, from, owed, .. } = admitted;
        let mut counted = self.lock();
        if let Some(key) = key {
            counted.valid.remove(&key);
        }
        let rate = Rate::per_minute(self.rates.keyless_per_minute);
        if let (None, Some(rate)) = (owed, rate) {
            counted.keyless.add(&from, rate, now);
        }
    }

    /// Whether the key is valid could not be found out, and is nobody's fault.
    pub(in crate::http) fn give_back(&self, admitted: Admitted) {
        self.give_back_at(admitted, Instant::now());
    }

    fn give_back_at(&self, admitted: Admitted, now: Instant) {
        let now = self.moment(now);
        if let Some(share) = admitted.owed {
            self.lock().keyless.give_back(&admitted.from, share, now);
        }
    }

    /// A link of ours is opened from this address; 429 if too many were. A wrong one is `refuse`d as
    /// what cannot be a key.
    pub(in crate::http) fn open(&self, from: IpAddr) -> Result<(), Problem> {
        self.open_at(from, Instant::now())
    }

    fn open_at(&self, from: IpAddr, now: Instant) -> Result<(), Problem> {
        let (now, from) = (self.moment(now), Network::of_client(from));
        let Some(rate) = Rate::per_minute(self.rates.links_per_minute) else { return Ok(()) };
        let mut counted = self.lock();
        if !counted.links.may(&from, rate, now) {
            let wait = counted.links.wait(&from, rate, now);
            return Err(too_many("too many links were opened from this address", wait));
        }
        counted.links.add(&from, rate, now);
        Ok(())
    }

    const fn per_minute(&self, effect: Effect) -> u32 {
        match effect {
            Effect::Read => self.rates.reads_per_minute,
            Effect::Write => self.rates.writes_per_minute,
        }
    }

    /// `None` where nothing is counted.
    fn rate(&self, effect: Effect) -> Option<Rate> {
        Rate::per_minute(self.per_minute(effect))
    }

    fn moment(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }

    /// Nothing panics while it holds the lock; if something did, the counts would be whole.
    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Quota {
    fn exceeded(self) -> Refused {
        let what = match self.effect {
            Effect::Read => "this key has read too often",
            Effect::Write => "this key has changed too much",
        };
        Refused { problem: Box::new(too_many(what, self.next_in)), quota: Some(self) }
    }
}

impl Counted {
    /// At the bound, forgets the half that was valid longest ago, so that each new one costs a
    /// constant.
    fn remember(&mut self, key: Hash, now: Duration, most: usize) {
        if self.valid.len() >= most && !self.valid.contains_key(&key) {
            let mut all: Vec<(Hash, Duration)> = self.valid.drain().collect();
            let middle = all.len() / 2;
            all.select_nth_unstable_by_key(middle, |(_, last)| *last);
            self.valid.extend(all.drain(middle..));
        }
        self.valid.insert(key, now);
    }
}

fn too_many(what: &str, wait: Duration) -> Problem {
    let detail = format!("{what}: send the next one after the time in Retry-After");
    Problem {
        retry_after: Some(whole_seconds(wait).max(1)),
        ..Problem::new(Code::RateLimited, detail)
    }
}

/// Never less than it takes.
pub(in crate::http) fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rules;

    /// So many readings, changes and failures in a minute, of so many at the same time.
    fn limits(reads: u32, writes: u32, keyless: u32, most: usize) -> Limits {
        let mut rates = Rules::defaults().unwrap().access.rates;
        (rates.reads_per_minute, rates.writes_per_minute) = (reads, writes);
        (rates.keyless_per_minute, rates.max_counted) = (keyless, most);
        Limits::new(rates)
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// One reading with a key that is valid: what is left, or after how many seconds the next may
    /// come.
    fn read(limits: &Limits, key: u8, from: &str, now: Instant) -> Result<u32, u64> {
        let wait = |refused: Refused| refused.problem.retry_after.unwrap();
        let admitted = limits.admit_at(Some([key; 32]), ip(from), Effect::Read, now);
        let quota = limits.count_at(admitted.map_err(wait)?, now).map_err(wait)?;
        Ok(quota.map_or(u32::MAX, |quota| quota.left))
    }

    /// One request with a key that is not: whether it was looked up.
    fn fail(limits: &Limits, key: Option<u8>, from: &str, now: Instant) -> bool {
        let admitted = limits.admit_at(key.map(|key| [key; 32]), ip(from), Effect::Read, now);
        admitted.map(|admitted| limits.refuse_at(admitted, now)).is_ok()
    }

    #[test]
    fn a_key_has_a_minutes_worth_and_then_the_rate_of_each_kind() {
        let (limits, now) = (limits(3, 1, 9, 9), Instant::now());
        for left in [2, 1, 0] {
            assert_eq!(read(&limits, 1, "192.0.2.1", now), Ok(left));
        }
        assert_eq!(read(&limits, 1, "192.0.2.1", now), Err(20));
        assert_eq!(read(&limits, 1, "192.0.2.77", now), Err(20), "from wherever");
        assert_eq!(read(&limits, 2, "192.0.2.1", now), Ok(2), "another key");
        let admitted = limits.admit_at(Some([1; 32]), ip("192.0.2.1"), Effect::Write, now).unwrap();
        let quota = limits.count_at(admitted, now).unwrap().unwrap();
        assert_eq!((quota.most, quota.left), (1, 0), "changes are counted apart");
        assert_eq!(quota.full_in, Duration::from_secs(60));
        let soon = now + Duration::from_millis(19_001);
        assert_eq!(read(&limits, 1, "192.0.2.1", soon), Err(1), "rounded up");
        assert_eq!(read(&limits, 1, "192.0.2.1", now + Duration::from_secs(20)), Ok(0));
        let none = self::limits(0, 0, 0, 9);
        for _ in 0..99 {
            assert_eq!(read(&none, 1, "192.0.2.1", now), Ok(u32::MAX), "0 counts nothing");
            assert!(fail(&none, Some(2), "192.0.2.1", now));
        }
    }

    #[test]
    fn who_guesses_is_not_looked_up_and_locks_nobody_out() {
        let (limits, now) = (limits(99, 99, 3, 9), Instant::now());
        assert!(read(&limits, 1, "2001:db8::1", now).is_ok());
        for guess in [Some(7), None, Some(8)] {
            assert!(fail(&limits, guess, "2001:db8::2", now));
        }
        for guess in [Some(7), None, Some(9)] {
            assert!(!fail(&limits, guess, "2001:db8::3", now), "the same network");
        }
        assert!(fail(&limits, Some(7), "2001:db8:0:1::1", now), "another one");
        assert!(read(&limits, 1, "2001:db8::1", now).is_ok(), "it was valid before");
        // One that nobody has seen here waits until the address may fail again, and never again.
        assert_eq!(read(&limits, 2, "2001:db8::1", now), Err(20));
        assert!(read(&limits, 2, "2001:db8::1", now + Duration::from_secs(20)).is_ok());
        assert!(read(&limits, 2, "2001:db8::1", now + Duration::from_secs(20)).is_ok());
        assert!(fail(&limits, Some(7), "2001:db8::1", now + Duration::from_secs(20)), "given back");
        assert!(!fail(&limits, Some(7), "2001:db8::1", now + Duration::from_secs(20)));
        // One that is valid no longer is a guess like any other from then on.
        assert!(fail(&limits, Some(1), "2001:db8::1", now + Duration::from_secs(20)));
        assert!(!fail(&limits, Some(1), "2001:db8::1", now + Duration::from_secs(20)));
    }

    #[test]
    fn links_are_counted_by_themselves() {
        let mut rates = Rules::defaults().unwrap().access.rates;
        (rates.links_per_minute, rates.keyless_per_minute) = (2, 1);
        let (limits, now) = (Limits::new(rates), Instant::now());
        let open =
            |from: &str| limits.open_at(ip(from), now).map_err(|problem| problem.retry_after);
        assert!(fail(&limits, None, "192.0.2.1", now) && !fail(&limits, None, "192.0.2.1", now));
        assert_eq!(
            [open("192.0.2.1"), open("192.0.2.1")],
            [Ok(()), Ok(())],
            "whoever fails beside"
        );
        assert_eq!((open("192.0.2.1"), open("192.0.2.2")), (Err(Some(30)), Ok(())));
        rates.links_per_minute = 0;
        let limits = Limits::new(rates);
        assert!((0..99).all(|_| limits.open_at(ip("192.0.2.1"), now).is_ok()));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_what_was_used_last_stays() {
        let (limits, now) = (limits(0, 0, 1, 4), Instant::now());
        for key in 1..=200 {
            let at = now + Duration::from_secs(u64::from(key) * 60);
            assert!(read(&limits, key, "192.0.2.1", at).is_ok());
            assert!(read(&limits, 0, "192.0.2.1", at).is_ok());
            let counted = limits.lock();
            assert!(counted.valid.len() <= 4);
            assert!(counted.valid.contains_key(&[0; 32]) && counted.valid.contains_key(&[key; 32]));
        }
    }

    #[test]
    fn whoever_is_under_way_is_counted_and_a_store_that_is_down_is_nobodys_fault() {
        let (limits, now) = (limits(9, 9, 2, 9), Instant::now());
        let admit = |key: u8| limits.admit_at(Some([key; 32]), ip("192.0.2.1"), Effect::Read, now);
        let (one, two) = (admit(1).unwrap(), admit(2).unwrap());
        assert!(admit(3).is_err());
        limits.give_back_at(one, now);
        let three = admit(3).unwrap();
        assert!(admit(4).is_err());
        limits.refuse_at(two, now);
        limits.refuse_at(three, now);
        assert!(admit(4).is_err());
    }
}
