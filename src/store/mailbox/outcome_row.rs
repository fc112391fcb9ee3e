//! The row of a message's outcome: JSON, with columns beside it for the log.

use serde::{Deserialize, Serialize};

use super::entry::FiledMessage;
use super::new_messages::NewReceived;
use crate::domain::agent_outcome::{AgentOutcome, Reply};
use crate::domain::clock::Timestamp;
use crate::domain::message::Received;
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::many::many;
use crate::store::engine::row::{Columns, stored};
use crate::store::engine::sql::Value;

/// The JSON of `outcomes.facts`. Fields may be added with a default.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct OutcomeRow {
    result: Option<String>,
    summary: Option<String>,
    lead_rating: Option<u8>,
    lead_rating_reason: Option<String>,
    overridden: Option<String>,
    replies: Vec<ReplyRow>,
}

#[derive(Serialize, Deserialize)]
struct ReplyRow {
    id: String,
    at: i64,
    text: String,
}

impl From<&AgentOutcome> for OutcomeRow {
    fn from(outcome: &AgentOutcome) -> Self {
        let outcome = outcome.clone();
        let reply = |one: Reply| {
            let (id, at) = (one.id.to_string(), one.at.millis());
            ReplyRow { id, at, text: one.text }
        };
        Self {
            result: outcome.result,
            summary: outcome.summary,
            lead_rating: outcome.lead_rating,
            lead_rating_reason: outcome.lead_rating_reason,
            overridden: outcome.overridden,
            replies: outcome.replies.into_iter().map(reply).collect(),
        }
    }
}

/// Reads the outcome beside a message; None without a row of `outcomes`.
pub fn read(columns: &Columns<'_>) -> Result<Option<AgentOutcome>, StoreError> {
    let Some(row) = columns.optional_json::<OutcomeRow>("facts")? else { return Ok(None) };
    let reply = |one: ReplyRow| {
        let id = one.id.parse().map_err(|error| columns.corrupt(error))?;
        Ok(Reply { id, at: Timestamp::from_millis(one.at), text: one.text })
    };
    Ok(Some(AgentOutcome {
        result: row.result,
        summary: row.summary,
        lead_rating: row.lead_rating,
        lead_rating_reason: row.lead_rating_reason,
        overridden: row.overridden,
        replies: row.replies.into_iter().map(reply).collect::<Result<_, StoreError>>()?,
    }))
}

/// Returns the columns of a row, behind message and organization.
pub fn columns(
    outcome: &AgentOutcome,
    received: Option<&Received>,
) -> Result<Vec<Value>, StoreError> {
    let facts = serde_json::to_string(&OutcomeRow::from(outcome));
    let facts = facts
        .map_err(|error| StoreError::Corrupt { table: "outcomes", detail: error.to_string() })?;
    let replies = u64::try_from(outcome.replies.len()).unwrap_or(u64::MAX);
    Ok(vec![
        facts.into(),
        outcome.result.clone().into(),
        outcome.lead_rating.map(i64::from).into(),
        stored(replies).into(),
        received.and_then(|received| received.call.duration).map(stored).into(),
        received.and_then(Received::missed_call).map(i64::from).into(),
    ])
}

/// Returns the columns of the row that a platform's message brings; None for a message that needs
/// no row.
pub fn columns_of_received(message: &NewReceived) -> Result<Option<Vec<Value>>, StoreError> {
    let received = &message.received;
    let (outcome, call) = (received.outcome(), &received.call);
    if outcome.is_none() && call.duration.is_none() && received.missed_call().is_none() {
        return Ok(None);
    }
    columns(&outcome, Some(received)).map(Some)
}

/// Writes the rows that messages of platforms bring; none for mail.
pub fn insert(tx: &mut Transaction, filed: &[FiledMessage<'_>]) {
    let rows = filed.iter().filter_map(|one| {
        let own = one.message.outcome.as_ref()?;
        let key = [one.message.id.0.into(), one.message.organization.into()];
        Some(key.into_iter().chain(own.iter().cloned()).collect())
    });
    let rows: Vec<Vec<Value>> = rows.collect();
    if !rows.is_empty() {
        tx.later(many(
            "INSERT INTO outcomes (message_id, organization_id, facts, agent_outcome, lead_rating,
                                   reply_count, duration, missed_call) {rows}",
            rows,
        ));
    }
}
