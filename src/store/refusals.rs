//! Refusals that need no record of their own, counted together: a flood of guesses is one
//! transaction of one connection at a time, and holds up no message.

use std::collections::BTreeMap;

use super::db::{Base, Store, settled};
use super::error::StoreError;
use super::group::Together;
use super::intake_records::{columns, row, write};
use super::row::Columns;
use crate::domain::id::{AccountId, IntakeId};
use crate::domain::intake_record::IntakeRecord;
use crate::domain::reason::Reason;

/// Counts refusals.
pub(super) struct Refusals {
    base: Base,
}

/// One refusal.
pub(super) struct Refused {
    record: IntakeRecord,
    /// Those of which this is the same have one record.
    counted_as: String,
}

impl Store {
    /// Counts a refusal that needs no record of its own: one record per source (a network, or the
    /// sender of a flood), reason, minute and owner, so that a guessing client costs one row a
    /// minute (contract §2.3). Answers the record that it was counted in: the given one if it is
    /// the first.
    pub async fn count_refusal(
        &self,
        record: &IntakeRecord,
        source: &str,
    ) -> Result<IntakeId, StoreError> {
        let owner = record.lineage.ids().last().map_or(0, AccountId::get);
        let reason = record.verdict.reason().map_or("", Reason::as_str);
        let minute = record.at.seconds().div_euclid(60);
        let counted_as = format!("{source} {reason} {minute} {owner}");
        self.refusals.ask(Refused { record: record.clone(), counted_as }).await
    }
}

impl Together for Refusals {
    type Job = Refused;
    type Answer = IntakeId;

    fn size(job: &Refused) -> (usize, usize) {
        let IntakeRecord { recipient, envelope_from, helo, headers, .. } = &job.record;
        // The path is in the steps too.
        (1, 2 * recipient.len() + envelope_from.len() + helo.len() + headers.len())
    }

    async fn write(&self, group: &[Refused]) -> Result<Vec<IntakeId>, StoreError> {
        settled!(self.try_count(group))
    }
}

impl Refusals {
    pub(super) const fn new(base: Base) -> Self {
        Self { base }
    }

    /// In the order of what they are counted as: gateways wait for each other's rows, but not in a
    /// circle.
    async fn try_count(&self, group: &[Refused]) -> Result<Vec<IntakeId>, StoreError> {
        let mut distinct: BTreeMap<&str, IntakeRecord> = BTreeMap::new();
        for Refused { record, counted_as } in group {
            distinct
                .entry(counted_as)
                .and_modify(|first| first.count = first.count.saturating_add(record.count))
                .or_insert_with(|| record.clone());
        }
        let rows = distinct.iter().map(|(counted_as, record)| {
            let counted_as = Some((*counted_as).to_owned());
            row(&columns(record), &record.explanation, record.message, counted_as)
        });
        let rows = rows.collect();
        let mut tx = self.base.begin().await?;
        let mut counted = BTreeMap::new();
        for row in write(&mut tx, rows).await? {
            let columns = Columns { table: "intake_records", row: &row };
            counted.insert(columns.text("counted_as")?, IntakeId(columns.uuid("id")?));
        }
        tx.commit().await?;
        let of = |one: &Refused| counted.get(&one.counted_as).copied();
        group.iter().map(|one| of(one).ok_or_else(|| sqlx::Error::RowNotFound.into())).collect()
    }
}
