//! Answers kept for the next message, bounded in octets and not by count: strangers choose the
//! names, the sizes and the TTLs, and one answer may be as large as sixty others.
//!
//! Two generations: what is asked for is in the younger one, or moves there. When that is half of
//! what is allowed, it becomes the older one, and what was in that is forgotten: nearly the least
//! recently used.

use std::collections::HashMap;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mail_auth::hickory_resolver::proto::rr::RecordType;
use tokio::time::Instant;

use super::answer::Answer;

/// What has come back to whoever asked before, until its time is over.
pub(super) struct Cache {
    max_octets: usize,
    max_ttl: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    young: HashMap<Key, Kept>,
    old: HashMap<Key, Kept>,
    young_octets: usize,
}

/// The name in lower case: DNS compares without regard to it (RFC 4343).
type Key = (String, RecordType);

struct Kept {
    answer: Answer,
    until: Instant,
}

impl Cache {
    pub(super) fn new(max_octets: usize, max_ttl: Duration) -> Self {
        Self { max_octets, max_ttl, state: Mutex::default() }
    }

    /// The answer to this question, with the seconds that are left of its TTL.
    pub(super) fn get(&self, name: &str, kind: RecordType, now: Instant) -> Option<Answer> {
        let key = (name.to_ascii_lowercase(), kind);
        let mut state = self.state();
        // One that is over would push living ones out.
        if let Some(kept) = state.old.remove(&key).filter(|kept| kept.until > now) {
            self.put(&mut state, key.clone(), kept);
        }
        let kept = state.young.get(&key).filter(|kept| kept.until > now)?;
        let mut answer = kept.answer.clone();
        name.clone_into(&mut answer.name);
        let left = kept.until.duration_since(now).as_secs();
        answer.ttl = Some(u32::try_from(left).unwrap_or(u32::MAX));
        Some(answer)
    }

    /// Keeps an answer for as long as it says, and no failure: that may be over at once.
    pub(super) fn keep(&self, answer: &Answer, now: Instant) {
        let ttl = Duration::from_secs(answer.ttl.unwrap_or(0).into()).min(self.max_ttl);
        if ttl.is_zero() || answer.is_temporary() {
            return;
        }
        let key = (answer.name.to_ascii_lowercase(), answer.kind);
        let kept = Kept { answer: answer.clone(), until: now + ttl };
        self.put(&mut self.state(), key, kept);
    }

    fn put(&self, state: &mut State, key: Key, kept: Kept) {
        let octets = kept.answer.octets();
        let half = self.max_octets / 2;
        if octets > half {
            return;
        }
        if state.young_octets + octets > half {
            state.old = mem::take(&mut state.young);
            state.young_octets = 0;
        }
        state.young_octets += octets;
        if let Some(before) = state.young.insert(key, kept) {
            state.young_octets -= before.answer.octets();
        }
    }

    /// Nothing panics while it holds the lock.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use mail_auth::hickory_resolver::proto::op::ResponseCode;
    use mail_auth::hickory_resolver::proto::rr::RData;
    use mail_auth::hickory_resolver::proto::rr::rdata::TXT;

    use super::*;
    use crate::verify::answer::Outcome;

    const TXT_KIND: RecordType = RecordType::TXT;
    const HOUR: Duration = Duration::from_secs(3600);

    fn answer(name: &str, ttl: Option<u32>, outcome: Outcome) -> Answer {
        Answer { name: name.into(), kind: TXT_KIND, ttl, outcome, is_cut: false }
    }

    fn text(name: &str, ttl: u32, size: usize) -> Answer {
        let text = vec![b'x'; size];
        let record = RData::TXT(TXT::from_bytes(text.chunks(255).collect()));
        answer(name, Some(ttl), Outcome::Records(vec![record]))
    }

    #[test]
    fn what_is_over_pushes_out_nothing_that_lives() {
        let size = text("x.example", 300, 1000).octets();
        let (cache, now) = (Cache::new(4 * size, HOUR), Instant::now());
        cache.keep(&text("over.example", 1, 1000), now);
        cache.keep(&text("kept.example", 300, 1000), now);
        // Now both are old; and one more is young.
        cache.keep(&text("a.example", 300, 1000), now);
        let later = now + Duration::from_secs(2);
        assert!(cache.get("over.example", TXT_KIND, later).is_none());
        cache.keep(&text("b.example", 300, 1000), later);
        assert!(cache.get("kept.example", TXT_KIND, later).is_some());
    }

    #[test]
    fn an_answer_is_kept_as_long_as_it_says_and_no_longer_than_the_limit() {
        let cache = Cache::new(1 << 20, HOUR);
        let now = Instant::now();
        cache.keep(&text("A.example", 300, 10), now);
        cache.keep(&text("long.example", 1_000_000, 10), now);
        cache.keep(&text("never.example", 0, 10), now);
        cache.keep(&answer("no.example", Some(60), Outcome::Nothing(ResponseCode::NXDomain)), now);
        cache.keep(&answer("soa.example", None, Outcome::Nothing(ResponseCode::NXDomain)), now);
        cache.keep(&answer("lost.example", Some(60), Outcome::Temporary("x".into())), now);
        let left = |name: &str, seconds: u64| {
            let then = now + Duration::from_secs(seconds);
            cache.get(name, TXT_KIND, then).map(|answer| answer.ttl.unwrap())
        };
        assert_eq!(left("a.EXAMPLE", 0), Some(300));
        assert_eq!(left("a.example", 299), Some(1));
        assert_eq!(left("a.example", 300), None);
        assert_eq!(left("long.example", 3599), Some(1));
        assert_eq!(left("long.example", 3600), None);
        assert_eq!(left("no.example", 0), Some(60));
        for name in ["never.example", "soa.example", "lost.example", "other.example"] {
            assert_eq!(left(name, 0), None, "{name}");
        }
        assert!(cache.get("a.example", RecordType::A, now).is_none());
    }

    /// As `policies/intake.toml` says.
    #[test]
    fn the_largest_answer_takes_160_kib() {
        let record = |n: usize| RData::TXT(TXT::from_bytes(vec![&[b'x'; 255][..n]]));
        let outcome = Outcome::Records((0..256).map(|_| record(128)).collect());
        let largest = answer(&"x".repeat(253), Some(1), outcome).octets();
        assert!((128 << 10..160 << 10).contains(&largest), "{largest}");
    }

    #[test]
    fn octets_are_bounded_whatever_is_asked_and_what_is_asked_for_again_stays() {
        let limit = 1 << 20;
        let cache = Cache::new(limit, HOUR);
        let now = Instant::now();
        for n in 0..2000 {
            cache.keep(&text(&format!("{n}.example"), 300, (n * 97) % 60_000), now);
            cache.keep(&text("same.example", 300, 1000), now);
            assert!(cache.get("same.example", TXT_KIND, now).is_some());
            let state = cache.state();
            let of = |map: &HashMap<Key, Kept>| -> usize {
                map.values().map(|kept| kept.answer.octets()).sum()
            };
            assert_eq!(of(&state.young), state.young_octets);
            assert!(of(&state.young) + of(&state.old) <= limit);
        }
        assert!(cache.get("1999.example", TXT_KIND, now).is_some());
        assert!(cache.get("0.example", TXT_KIND, now).is_none());
        cache.keep(&text("bomb.example", 300, limit), now);
        assert!(cache.get("bomb.example", TXT_KIND, now).is_none());
        assert!(cache.get("1999.example", TXT_KIND, now).is_some());
        let none = Cache::new(0, HOUR);
        none.keep(&text("a.example", 300, 1), now);
        assert!(none.get("a.example", TXT_KIND, now).is_none());
    }
}
