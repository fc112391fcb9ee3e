//! Requests per minute of a key, and of an address without a valid key (`policies/access.toml`,
//! `[rates]`). Each gateway counts for itself (`domain::rate`).
//!
//! Keys have 256 random bits, so nobody guesses one. Guessing only costs lookups in the store, and
//! these are limited: an address may fail so often per minute. Beyond that, a key gets 429 without
//! a lookup, unless it is remembered as valid: a client that guesses locks out no other client
//! behind its address (a company's, a proxy's). Only a key new to this gateway may have to wait
//! until its address may fail again. The memory holds valid keys alone, so it cannot be flooded.
//! Every admitted request looks its key up, so a revoked key is refused at once.
//!
//! A remembered key over its rate gets 429 before the lookup; any other after it. In both cases the
//! body is not read.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::app::access::need::Effect;
use crate::domain::id::KeyId;
use crate::domain::key::KeyHash;
use crate::domain::network::Network;
use crate::domain::rate::{Rate, Share, Tallies};
use crate::http::error::{Code, Problem};
use crate::rules::AccessRates;

/// Counts of all keys and addresses seen lately.
#[derive(Debug)]
pub(crate) struct RateLimits {
    rates: AccessRates,
    /// Origin of all instants.
    began: Instant,
    counted: Mutex<RateCounts>,
}

#[derive(Debug)]
struct RateCounts {
    keys: Tallies<(Rated, Effect)>,
    keyless: Tallies<Network>,
    /// Opened links.
    links: Tallies<Network>,
    /// Credentials that were valid lately.
    valid: HashMap<Hash, Valid>,
}

/// The owner of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rated {
    Key(KeyId),
    /// An inbound key, by its hash.
    Way(KeyHash),
}

/// A key, an inbound key or a console session that was valid lately.
#[derive(Clone, Copy, Debug)]
struct Valid {
    /// The last time.
    at: Duration,
    /// The owner of its rate: all sessions of a key share the rate of the key.
    rated: Rated,
}

type Hash = [u8; 32];

/// The rest of a key's rate, for response headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Quota {
    pub(in crate::http) effect: Effect,
    /// Per minute.
    pub(in crate::http) most: u32,
    pub(in crate::http) left: u32,
    /// Time until one more request is allowed.
    next_in: Duration,
    /// Time until the whole rate is available again.
    pub(in crate::http) full_in: Duration,
}

/// 429, and the rest of the key's rate if the key is known.
#[derive(Debug)]
pub(in crate::http) struct RateExceeded {
    pub(in crate::http) problem: Box<Problem>,
    pub(in crate::http) quota: Option<Quota>,
}

/// A key that may be looked up.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct Admitted {
    key: Option<Hash>,
    from: Network,
    effect: Effect,
    /// The failure that is counted for its address until the key proves valid.
    owed: Option<Share>,
}

impl RateLimits {
    pub(in crate::http) fn new(rates: AccessRates) -> Self {
        let counted = RateCounts {
            // Reads and writes of a key are counted apart.
            keys: Tallies::new(rates.max_counted.saturating_mul(2)),
            keyless: Tallies::new(rates.max_counted),
            links: Tallies::new(rates.max_counted),
            valid: HashMap::new(),
        };
        Self { rates, began: Instant::now(), counted: Mutex::new(counted) }
    }

    /// Admits a key to the lookup, or fails with 429; `key` is None for a token that cannot be one.
    /// Call `count`, `refuse` or `give_back` after the lookup: a request that is dropped before
    /// counts as a failure, unless its key was valid lately.
    pub(in crate::http) fn admit(
        &self,
        key: Option<KeyHash>,
        from: IpAddr,
        effect: Effect,
        now: Instant,
    ) -> Result<Admitted, RateExceeded> {
        let (now, from) = (self.moment(now), Network::of_client(from));
        let key = key.map(|hash| hash.0);
        let mut counted = self.lock();
        let admitted = Admitted { key, from, effect, owed: None };
        if let Some(Valid { rated, .. }) = key.and_then(|key| counted.valid.get(&key).copied()) {
            // Checked now, so that a key over its rate costs no lookup; counted only if it is still
            // valid.
            let quota = self.quota(&counted, rated, effect, now);
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
            return Err(RateExceeded { problem: Box::new(too_many(what, wait)), quota: None });
        }
        // Taken before the lookup, so that concurrent requests are counted too.
        let owed = counted.keyless.add(&from, rate, now);
        Ok(Admitted { owed: Some(owed), ..admitted })
    }

    /// Counts the request of a valid credential in the rate of `rated`, and
    /// returns the rest of this rate, None without a limit. Fails with 429 if nothing was left.
    pub(in crate::http) fn count(
        &self,
        admitted: Admitted,
        rated: Rated,
        now: Instant,
    ) -> Result<Option<Quota>, RateExceeded> {
        let (now, Admitted { key, from, effect, owed }) = (self.moment(now), admitted);
        let mut counted = self.lock();
        if let Some(share) = owed {
            counted.keyless.give_back(&from, share, now);
        }
        let Some(key) = key else { return Ok(None) };
        counted.remember(key, Valid { at: now, rated }, self.rates.max_counted);
        let Some(rate) = self.rate(effect) else { return Ok(None) };
        if let Some(quota) = self.quota(&counted, rated, effect, now)
            && quota.left == 0
        {
            return Err(quota.exceeded());
        }
        counted.keys.add(&(rated, effect), rate, now);
        Ok(self.quota(&counted, rated, effect, now))
    }

    /// The rest of a key's rate now; None if reads or writes are not limited.
    fn quota(
        &self,
        counted: &RateCounts,
        rated: Rated,
        effect: Effect,
        now: Duration,
    ) -> Option<Quota> {
        let (of, rate) = ((rated, effect), self.rate(effect)?);
        Some(Quota {
            effect,
            most: self.per_minute(effect),
            left: counted.keys.left(&of, rate, now),
            next_in: counted.keys.wait(&of, rate, now),
            full_in: counted.keys.ahead(&of, now),
        })
    }

    /// Counts a failure, and forgets that the key was valid.
    pub(in crate::http) fn refuse(&self, admitted: Admitted, now: Instant) {
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

    /// Takes the failure back: the lookup itself failed, which is nobody's fault.
    pub(in crate::http) fn give_back(&self, admitted: Admitted, now: Instant) {
        let now = self.moment(now);
        if let Some(share) = admitted.owed {
            self.lock().keyless.give_back(&admitted.from, share, now);
        }
    }

    /// Counts a valid link opened from this address; fails with 429 if there were too many. A wrong
    /// link is `refuse`d, like a token that cannot be a key.
    pub(in crate::http) fn open(&self, from: IpAddr, now: Instant) -> Result<(), Problem> {
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

    fn rate(&self, effect: Effect) -> Option<Rate> {
        Rate::per_minute(self.per_minute(effect))
    }

    fn moment(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }

    /// Ignores poisoning: nothing panics under the lock, and the counts would still be whole.
    fn lock(&self) -> MutexGuard<'_, RateCounts> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Quota {
    fn exceeded(self) -> RateExceeded {
        let what = match self.effect {
            Effect::Read => "too many requests to read with this key",
            Effect::Write => "too many requests to write with this key",
        };
        RateExceeded { problem: Box::new(too_many(what, self.next_in)), quota: Some(self) }
    }
}

impl RateCounts {
    /// Records a valid key. When full, forgets the half that was valid longest ago, so each new key
    /// costs a constant on average.
    fn remember(&mut self, hash: Hash, valid: Valid, most: usize) {
        if self.valid.len() >= most && !self.valid.contains_key(&hash) {
            let mut all: Vec<(Hash, Valid)> = self.valid.drain().collect();
            let middle = all.len() / 2;
            all.select_nth_unstable_by_key(middle, |(_, last)| last.at);
            self.valid.extend(all.drain(middle..));
        }
        self.valid.insert(hash, valid);
    }
}

fn too_many(what: &str, wait: Duration) -> Problem {
    let detail = format!("{what}: send the next one after the time in Retry-After");
    Problem {
        retry_after: Some(whole_seconds(wait).max(1)),
        ..Problem::new(Code::RateLimited, detail)
    }
}

pub(in crate::http) fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rules;

    /// Limits per minute on reads, writes and failures, with `most` keys counted.
    fn limits(reads: u32, writes: u32, keyless: u32, most: usize) -> RateLimits {
        let mut rates = Rules::defaults().unwrap().access.rates;
        (rates.reads_per_minute, rates.writes_per_minute) = (reads, writes);
        (rates.keyless_per_minute, rates.max_counted) = (keyless, most);
        RateLimits::new(rates)
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Reads once with a valid key. Returns the rest of its rate, or the seconds until the next
    /// request is allowed.
    fn read(limits: &RateLimits, key: u8, from: &str, now: Instant) -> Result<u32, u64> {
        let wait = |refused: RateExceeded| refused.problem.retry_after.unwrap();
        let admitted = limits.admit(Some(KeyHash([key; 32])), ip(from), Effect::Read, now);
        let rated = Rated::Way(KeyHash([key; 32]));
        let quota = limits.count(admitted.map_err(wait)?, rated, now).map_err(wait)?;
        Ok(quota.map_or(u32::MAX, |quota| quota.left))
    }

    /// Sends one request with an invalid key. Returns whether it was looked up.
    fn fail(limits: &RateLimits, key: Option<u8>, from: &str, now: Instant) -> bool {
        let admitted = limits.admit(key.map(|key| KeyHash([key; 32])), ip(from), Effect::Read, now);
        admitted.map(|admitted| limits.refuse(admitted, now)).is_ok()
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
        let admitted =
            limits.admit(Some(KeyHash([1; 32])), ip("192.0.2.1"), Effect::Write, now).unwrap();
        let quota = limits.count(admitted, Rated::Way(KeyHash([1; 32])), now).unwrap().unwrap();
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
    fn the_sessions_of_a_key_share_its_rate() {
        let (limits, now) = (limits(3, 3, 9, 9), Instant::now());
        let of = |credential: u8| {
            let hash = Some(KeyHash([credential; 32]));
            let admitted = limits.admit(hash, ip("192.0.2.1"), Effect::Read, now).ok()?;
            limits
                .count(admitted, Rated::Key(KeyId(uuid::Uuid::nil())), now)
                .ok()?
                .map(|quota| quota.left)
        };
        assert_eq!([of(1), of(2), of(3)], [Some(2), Some(1), Some(0)]);
        assert_eq!([of(1), of(2), of(4)], [None; 3], "also one that is new");
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
        // A key new here waits until the address may fail again; after that it never waits.
        assert_eq!(read(&limits, 2, "2001:db8::1", now), Err(20));
        assert!(read(&limits, 2, "2001:db8::1", now + Duration::from_secs(20)).is_ok());
        assert!(read(&limits, 2, "2001:db8::1", now + Duration::from_secs(20)).is_ok());
        assert!(fail(&limits, Some(7), "2001:db8::1", now + Duration::from_secs(20)), "given back");
        assert!(!fail(&limits, Some(7), "2001:db8::1", now + Duration::from_secs(20)));
        // A key that is no longer valid counts as a guess from then on.
        assert!(fail(&limits, Some(1), "2001:db8::1", now + Duration::from_secs(20)));
        assert!(!fail(&limits, Some(1), "2001:db8::1", now + Duration::from_secs(20)));
    }

    #[test]
    fn links_are_counted_by_themselves() {
        let mut rates = Rules::defaults().unwrap().access.rates;
        (rates.links_per_minute, rates.keyless_per_minute) = (2, 1);
        let (limits, now) = (RateLimits::new(rates), Instant::now());
        let open = |from: &str| limits.open(ip(from), now).map_err(|problem| problem.retry_after);
        assert!(fail(&limits, None, "192.0.2.1", now) && !fail(&limits, None, "192.0.2.1", now));
        assert_eq!(
            [open("192.0.2.1"), open("192.0.2.1")],
            [Ok(()), Ok(())],
            "whoever fails beside"
        );
        assert_eq!((open("192.0.2.1"), open("192.0.2.2")), (Err(Some(30)), Ok(())));
        rates.links_per_minute = 0;
        let limits = RateLimits::new(rates);
        assert!((0..99).all(|_| limits.open(ip("192.0.2.1"), now).is_ok()));
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
        let admit =
            |key: u8| limits.admit(Some(KeyHash([key; 32])), ip("192.0.2.1"), Effect::Read, now);
        let (one, two) = (admit(1).unwrap(), admit(2).unwrap());
        assert!(admit(3).is_err());
        limits.give_back(one, now);
        let three = admit(3).unwrap();
        assert!(admit(4).is_err());
        limits.refuse(two, now);
        limits.refuse(three, now);
        assert!(admit(4).is_err());
    }
}
