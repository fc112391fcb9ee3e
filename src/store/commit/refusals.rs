//! Refusals without a record of their own, counted together: a flood of guesses costs one
//! transaction at a time, on one connection, and holds up no message.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::id::{AccountId, IntakeId};
use crate::domain::intake_record::IntakeRecord;
use crate::domain::reason::Reason;
use crate::domain::recent::Recent;
use crate::store::base::Base;
use crate::store::engine::database::retry_conflicts;
use crate::store::engine::error::StoreError;
use crate::store::engine::group::GroupedWork;
use crate::store::engine::row::{Columns, organization_of};
use crate::store::mailbox::entry::RecordColumns;
use crate::store::mailbox::intake_records::{columns, row, write};

pub struct RefusalWriter {
    base: Base,
}

/// The records in which refusals were counted lately. Clones share them.
#[derive(Clone, Debug)]
pub struct RecentRefusals(Arc<Mutex<Recent<String, IntakeId>>>);

impl RecentRefusals {
    /// Most bytes of remembered refusals; those of a minute ago are not looked up any more.
    const MOST: usize = 1 << 20;

    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Recent::new(Self::MOST))))
    }

    pub fn find(&self, refused: &PreparedRefusal) -> Option<IntakeId> {
        self.known().find(&refused.counted_as, |_| true).copied()
    }

    pub fn keep(&self, refused: PreparedRefusal, record: IntakeId) {
        let octets = refused.counted_as.len() + size_of::<(String, IntakeId)>();
        self.known().keep(refused.counted_as, record, octets);
    }

    /// Locks the records. Nothing panics under the lock; if something did, entries would be whole.
    fn known(&self) -> MutexGuard<'_, Recent<String, IntakeId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone)]
pub struct PreparedRefusal {
    columns: Arc<RecordColumns>,
    organization: i64,
    count: u64,
    /// Refusals with the same text share one record.
    counted_as: String,
}

impl PreparedRefusal {
    /// Makes a refusal from `source` (a network, or the sender of a flood) ready. Refusals of one
    /// source, reason, minute and owner share one record.
    pub fn of(record: &IntakeRecord, source: &str) -> Result<Self, StoreError> {
        let owner = record.lineage.ids().last().map_or(0, AccountId::get);
        let reason = record.verdict.reason().map_or("", Reason::as_str);
        let minute = record.at.seconds().div_euclid(60);
        Self::new(record, format!("{source} {reason} {minute} {owner}"))
    }

    fn new(record: &IntakeRecord, counted_as: String) -> Result<Self, StoreError> {
        let organization = organization_of(&record.lineage);
        let columns = Arc::new(columns(record)?);
        Ok(Self { columns, organization, count: record.count, counted_as })
    }

    pub fn octets(&self) -> usize {
        self.columns.octets() + self.counted_as.len()
    }
}

impl GroupedWork for RefusalWriter {
    type Job = PreparedRefusal;
    type Answer = IntakeId;

    fn size(job: &PreparedRefusal) -> (usize, usize) {
        (1, job.octets())
    }

    fn organization(job: &PreparedRefusal) -> i64 {
        job.organization
    }

    async fn write(&self, group: &[PreparedRefusal]) -> Result<Vec<IntakeId>, StoreError> {
        retry_conflicts!(self.try_count(group))
    }
}

impl RefusalWriter {
    pub const fn new(base: Base) -> Self {
        Self { base }
    }

    /// Counts in the order of `counted_as`, so that gateways do not wait in a circle.
    async fn try_count(&self, group: &[PreparedRefusal]) -> Result<Vec<IntakeId>, StoreError> {
        let mut distinct: BTreeMap<&str, (&PreparedRefusal, u64)> = BTreeMap::new();
        for one in group {
            let (_, count) = distinct.entry(&one.counted_as).or_insert((one, 0));
            *count = count.saturating_add(one.count);
        }
        let rows = distinct.into_values().map(|(one, count)| {
            let counted_as = Some(one.counted_as.clone());
            row(&one.columns, count, &one.columns.explanation, None, counted_as)
        });
        let rows = rows.collect();
        let mut tx = self.base.begin().await?;
        let mut counted = BTreeMap::new();
        for row in write(&mut tx, rows).await? {
            let columns = Columns { table: "intake_records", row: &row };
            counted.insert(columns.text("counted_as")?, IntakeId(columns.uuid("id")?));
        }
        tx.commit().await?;
        let of = |one: &PreparedRefusal| counted.get(&one.counted_as).copied();
        group.iter().map(|one| of(one).ok_or(StoreError::NoRow)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::evidence::{Facts, Step, recipient::Recipient};
    use crate::domain::verdict::Verdict;

    #[test]
    fn all_that_a_refusal_writes_is_of_its_size() {
        let record = |fill: &dyn Fn(&mut IntakeRecord)| {
            let verdict = Verdict::of(Some(Reason::RateLimited));
            let mut record = IntakeRecord::blank(verdict);
            fill(&mut record);
            RefusalWriter::size(&PreparedRefusal::new(&record, String::new()).unwrap())
        };
        let (rows, least) = record(&|_| {});
        assert_eq!(rows, 1);
        // Sixty-four characters in random order, which pack to three quarters at best.
        let mut state = 1_u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from(b'0' + u8::try_from(state >> 26).unwrap())
        };
        let long: String = (0..10_000).map(|_| random()).collect();
        let step = |detail: &str| Step {
            facts: Facts::Recipient(Recipient { path: String::new() }),
            result: "fail".into(),
            detail: detail.to_owned(),
            dns: Vec::new(),
            micros: 0,
        };
        let fills: [&dyn Fn(&mut IntakeRecord); 6] = [
            &|record| record.evidence = step(&long).into(),
            &|record| record.explanation.clone_from(&long),
            &|record| record.headers = long.clone().into(),
            &|record| record.recipient.clone_from(&long),
            &|record| record.envelope_from.clone_from(&long),
            &|record| record.helo.clone_from(&long),
        ];
        for fill in fills {
            assert!(record(fill).1 >= least + long.len() / 4 * 3);
        }
    }
}
