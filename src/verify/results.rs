//! Caches results of SPF, DMARC and iprev until their first answer expires: they depend only on the
//! question and the answers. The evidence still lists the answers, with the rest of their TTL.

use std::hash::Hash;
use std::net::IpAddr;
use std::time::{Duration, Instant as Moment};

use tokio::time::Instant;

use super::cache::Cache;
use super::dmarc::{self, Dmarc};
use super::evidence::micros;
use super::iprev::Iprev;
use super::spf::{self, Spf};
use crate::domain::evidence::Step;
use crate::domain::evidence::dns::UsedAnswer;

pub(super) struct Results {
    pub(super) spf: ResultCache<spf::SpfQuestion, Spf>,
    pub(super) dmarc: ResultCache<dmarc::DmarcQuestion, Dmarc>,
    pub(super) iprev: ResultCache<IpAddr, Iprev>,
}

impl Results {
    /// Keeps at most `octets` bytes for all steps together, and nothing longer than `max_ttl`.
    pub(super) fn new(octets: usize, max_ttl: Duration) -> Self {
        let octets = octets / 3;
        Self {
            spf: ResultCache::new(octets, max_ttl, |spf| &mut spf.step),
            dmarc: ResultCache::new(octets, max_ttl, |dmarc| &mut dmarc.step),
            iprev: ResultCache::new(octets, max_ttl, |iprev| &mut iprev.step),
        }
    }
}

/// The results of one kind of step.
pub(super) struct ResultCache<K, V> {
    /// With the time when their evaluation began.
    kept: Cache<K, (V, Instant)>,
    max_ttl: Duration,
    step: fn(&mut V) -> &mut Step,
}

impl<K: Hash + Eq, V: Clone> ResultCache<K, V> {
    fn new(octets: usize, max_ttl: Duration, step: fn(&mut V) -> &mut Step) -> Self {
        Self { kept: Cache::new(octets), max_ttl, step }
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.kept.count()
    }

    /// Returns a cached result as if it had been evaluated since `start`.
    pub(super) fn find(&self, asked: &K, start: Moment) -> Option<V> {
        let mut found = self.as_of(asked, Instant::now())?;
        (self.step)(&mut found).micros = micros(start);
        Some(found)
    }

    fn as_of(&self, asked: &K, now: Instant) -> Option<V> {
        let ((mut found, since), _) = self.kept.get(asked, now)?;
        let passed = u32::try_from(now.duration_since(since).as_secs()).unwrap_or(u32::MAX);
        for answer in &mut (self.step)(&mut found).dns {
            answer.ttl = answer.ttl.map(|ttl| ttl.saturating_sub(passed));
        }
        Some(found)
    }

    /// Caches a result whose evaluation began at `start`, unless one of its answers is temporary,
    /// has no TTL, or is not completely in the evidence.
    pub(super) fn keep(&self, asked: K, found: &V, start: Moment) {
        let mut kept = found.clone();
        let step = (self.step)(&mut kept);
        let lasts = |answer: &UsedAnswer| match answer.told.is_temporary() {
            true => None,
            false => answer.ttl.filter(|ttl| *ttl > 0),
        };
        let ttl = step.dns.iter().map(lasts).min().flatten();
        let Some(ttl) = ttl.filter(|_| !step.is_truncated()) else { return };
        // The TTLs count from the start, which is before all answers arrived.
        let start = Instant::from_std(start);
        let until = start + Duration::from_secs(ttl.into()).min(self.max_ttl);
        let octets = octets(step);
        self.kept.keep(asked, (kept, start), octets, until);
    }
}

/// Upper estimate of a result's bytes with its key, whose parts the step repeats.
fn octets(step: &Step) -> usize {
    const EMPTY: usize = 2048;
    EMPTY + 4 * serde_json::to_vec(step).map_or(0, |json| json.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::evidence::dns::DnsOutcome;
    use crate::domain::evidence::{Facts, iprev};

    fn answer(ttl: Option<u32>, told: DnsOutcome) -> UsedAnswer {
        UsedAnswer { name: "a.example".into(), kind: "TXT".into(), ttl, told, truncated: false }
    }

    fn step(dns: Vec<UsedAnswer>) -> Step {
        let facts = Facts::Iprev(iprev::Iprev { client: String::new() });
        Step { facts, result: "pass".into(), detail: String::new(), dns, micros: 0 }
    }

    #[test]
    fn a_result_lasts_until_its_first_answer_is_over() {
        let hour = Duration::from_secs(3600);
        let (known, now) = (ResultCache::new(1 << 20, hour, |step| step), Instant::now());
        let text = |ttl| answer(ttl, DnsOutcome::Records(vec!["x".into()]));
        let cut = UsedAnswer { truncated: true, ..text(Some(9)) };
        for (number, dns) in [
            vec![text(Some(300)), answer(Some(60), DnsOutcome::NAME_UNKNOWN)],
            vec![text(Some(9_000))],
            // None of these is cached.
            vec![],
            vec![text(Some(300)), text(Some(0))],
            vec![text(Some(300)), text(None)],
            vec![text(Some(300)), answer(Some(60), DnsOutcome::temporary("x"))],
            vec![cut],
        ]
        .into_iter()
        .enumerate()
        {
            known.keep(number, &step(dns), now.into_std());
        }
        let left = |number, seconds| {
            let found = known.as_of(&number, now + Duration::from_secs(seconds))?;
            Some(found.dns.iter().map(|answer| answer.ttl.unwrap()).collect::<Vec<_>>())
        };
        assert_eq!((left(0, 0), left(0, 59)), (Some(vec![300, 60]), Some(vec![241, 1])));
        assert_eq!((left(0, 60), left(1, 3_599), left(1, 3_600)), (None, Some(vec![5_401]), None));
        assert!((2..7).all(|number| left(number, 0).is_none()));
    }
}
