//! Past verdicts without their evidence, for the preview of a policy.

use std::collections::BTreeSet;

use super::presence::PRESENT_RECORD;
use crate::domain::address::Address;
use crate::domain::clock::{TimeRange, Timestamp};
use crate::domain::id::{AccountId, IntakeId};
use crate::domain::reason::Reason;
use crate::domain::scope::Scope;
use crate::domain::source::Source;
use crate::domain::verdict::Verdict;
use crate::store::base::Base;
use crate::store::base::page::{Page, within};
use crate::store::engine::error::StoreError;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Row, sql};

/// The verdict of one intake record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastVerdict {
    pub id: IntakeId,
    pub at: Timestamp,
    pub source: Source,
    /// The sender of mail; None for other sources.
    pub sender: Option<Address>,
    pub verdict: Verdict,
}

impl Base {
    /// Returns a page of the verdicts in `scope` since `since`, the newest first.
    pub async fn past_verdicts(
        &self,
        scope: &Scope,
        page: &Page,
        since: Timestamp,
    ) -> Result<Vec<PastVerdict>, StoreError> {
        self.pending_records.wait_until_written().await;
        let mut query = sql("SELECT id, at, source, sender, reason FROM records WHERE ");
        within(&mut query, scope);
        query.push(PRESENT_RECORD);
        page.read_between(&mut query, TimeRange { since: Some(since), before: None });
        let rows = query.fetch_all(self.reader()).await?;
        let verdicts = rows.iter().map(past_verdict).collect::<Result<_, _>>()?;
        Ok(page.newest_first(verdicts))
    }

    /// Returns the `senders` that are on the Agent's allowlist.
    pub async fn listed_among(
        &self,
        agent: AccountId,
        senders: &BTreeSet<Address>,
    ) -> Result<BTreeSet<Address>, StoreError> {
        let rows = senders.iter().map(|sender| vec![agent.into(), sender.to_string().into()]);
        let found = many(
            "WITH given (agent, sender) AS ({rows})
             SELECT address FROM given CROSS JOIN allowed_senders
             WHERE allowed_senders.agent_id = given.agent
               AND allowed_senders.address = given.sender",
            rows.collect(),
        )
        .fetch_all(self.reader())
        .await?;
        found
            .iter()
            .map(|row| Columns { table: "allowed_senders", row }.address("address"))
            .collect()
    }
}

fn past_verdict(row: &Row) -> Result<PastVerdict, StoreError> {
    let columns = Columns { table: "intake_records", row };
    let reason = columns.optional_word::<Reason>("reason")?;
    let source = columns.word::<Source>("source")?;
    Ok(PastVerdict {
        id: IntakeId(columns.uuid("id")?),
        at: columns.time("at")?,
        source,
        sender: match source {
            Source::Email => columns.optional_address("sender")?,
            _ => None,
        },
        verdict: Verdict::of(reason),
    })
}
