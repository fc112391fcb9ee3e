//! A lasting record of every verdict. A new message has its record in its own row (`messages.rs`).

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use super::entry::{Entry, RecordColumns};
use super::presence::PRESENT_RECORD;
use crate::domain::clock::{TimeRange, Timestamp};
use crate::domain::contact::Handle;
use crate::domain::evidence::Evidence;
use crate::domain::id::{IntakeId, MessageId};
use crate::domain::intake_record::IntakeRecord;
use crate::domain::reason::Reason;
use crate::domain::scope::Scope;
use crate::domain::verdict::{Outcome, Verdict};
use crate::store::base::Base;
use crate::store::base::page::{Page, within};
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::many::many;
use crate::store::engine::packing;
use crate::store::engine::row::{Columns, organization_of, stored};
use crate::store::engine::sql::{Row, Statement, Value, sql};

/// Absent fields match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntakeFilter {
    pub sender: Option<Handle>,
    /// As given in RCPT, without regard to ASCII case.
    pub recipient: Option<String>,
    pub verdict: Option<Outcome>,
    pub reason: Option<Reason>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

impl Base {
    /// Returns a page of the matching records in `scope`, the newest first, without their evidence.
    pub async fn intake_records(
        &self,
        scope: &Scope,
        filter: &IntakeFilter,
        page: &Page,
    ) -> Result<Vec<IntakeRecord>, StoreError> {
        self.pending_records.wait_until_written().await;
        let mut query = select("", "WHERE ");
        within(&mut query, scope);
        query.push(PRESENT_RECORD);
        filter.narrow(&mut query);
        page.read_between(&mut query, TimeRange { since: filter.since, before: filter.until });
        let rows = query.fetch_all(self.reader()).await?;
        let without = |_: &Columns<'_>| Ok(RecordEvidence::default());
        let records = rows.iter().map(|row| record(row, without)).collect::<Result<_, _>>()?;
        Ok(page.newest_first(records))
    }

    pub async fn intake_record(
        &self,
        scope: &Scope,
        id: IntakeId,
    ) -> Result<Option<IntakeRecord>, StoreError> {
        self.pending_records.wait_until_written().await;
        let mut query = select("evidence, ", "WHERE id = $1 AND ").bind(id.0);
        within(&mut query, scope);
        query.push(PRESENT_RECORD);
        let row = query.fetch_optional(self.reader()).await?;
        row.as_ref().map(|row| record(row, read_evidence)).transpose()
    }
}

impl IntakeFilter {
    /// Whether the filter may leave out records within its time.
    pub fn passes_over(&self) -> bool {
        let Self { sender, recipient, verdict, reason, since: _, until: _ } = self;
        sender.is_some() || recipient.is_some() || verdict.is_some() || reason.is_some()
    }

    /// Appends a comparison for each field that is given: comparisons for absent fields would spoil
    /// the database's plan. The page compares the time.
    fn narrow(&self, query: &mut Statement) {
        if let Some(sender) = &self.sender {
            query.push(" AND sender = ").push_value(sender.to_string());
        }
        if let Some(recipient) = &self.recipient {
            // Both databases fold only ASCII here.
            query.push(" AND lower(recipient) = ").push_value(recipient.to_ascii_lowercase());
        }
        if let Some(verdict) = self.verdict {
            query.push(" AND verdict = ").push_value(verdict.as_str());
        }
        if let Some(reason) = self.reason {
            query.push(" AND reason = ").push_value(reason.as_str());
        }
    }
}

/// Writes the records of a group with the commit, except those that new messages have in their
/// rows. `earlier` maps a repeat to the message that it repeats.
pub fn insert(tx: &mut Transaction, entries: &[&Entry], earlier: &HashMap<MessageId, MessageId>) {
    const REPEATED: &str = "This message arrived before; it was accepted again, and no second \
                            message was made.";
    let rows = entries.iter().filter_map(|entry| {
        let (message, explanation) = match &entry.arrived {
            Some(arrived) => (Some(*earlier.get(&arrived.id)?), REPEATED),
            None => (entry.message, entry.record.explanation.as_str()),
        };
        Some(row(&entry.record, entry.count, explanation, message, None))
    });
    tx.later(many(INSERT, rows.collect()));
}

/// Returns the columns of a record, except its count and its message.
pub fn columns(record: &IntakeRecord) -> Result<RecordColumns, StoreError> {
    let corrupt = |error: &dyn std::error::Error| StoreError::Corrupt {
        table: "intake_records",
        detail: error.to_string(),
    };
    let mut evidence = serde_json::to_vec(&record.evidence).map_err(|error| corrupt(&error))?;
    evidence.extend_from_slice(&record.headers);
    let evidence = packing::pack(&[&evidence]).map_err(|error| corrupt(&error))?;
    let shared = vec![
        record.id.0.into(),
        record.at.into(),
        record.source.as_str().into(),
        record.lineage.partner.into(),
        record.lineage.reseller.into(),
        organization_of(&record.lineage).into(),
        record.agent.into(),
        record.sender.as_ref().map(Handle::to_string).into(),
        record.verdict.as_str().into(),
        record.verdict.reason().map(Reason::as_str).into(),
        stored(record.size).into(),
        record.digest.as_ref().map(|digest| digest.0.as_slice()).into(),
    ];
    let own = vec![
        record.recipient.as_str().into(),
        record.envelope_from.as_str().into(),
        record.remote_address.to_string().into(),
        record.helo.as_str().into(),
        record.took.map(|took| i64::try_from(took.as_micros()).unwrap_or(i64::MAX)).into(),
        evidence.as_slice().into(),
    ];
    Ok(RecordColumns { shared, own, explanation: record.explanation.clone() })
}

/// Returns a whole row; its columns are in the order of `INSERT`.
pub fn row(
    columns: &RecordColumns,
    count: u64,
    explanation: &str,
    message: Option<MessageId>,
    counted_as: Option<String>,
) -> Vec<Value> {
    let message = message.map(|id| id.0);
    let last = [stored(count).into(), explanation.into(), message.into(), counted_as.into()];
    columns.shared.iter().chain(&columns.own).cloned().chain(last).collect()
}

/// Writes records. A record whose `counted_as` exists adds to the count of the existing row; no two
/// of `rows` may share a `counted_as`. Returns id and `counted_as` of each row written.
pub async fn write(tx: &mut Transaction, rows: Vec<Vec<Value>>) -> Result<Vec<Row>, StoreError> {
    many(INSERT, rows).fetch_all(tx.on()).await
}

/// Selects records with the columns `besides`; `rest` is the WHERE clause.
fn select(besides: &'static str, rest: &'static str) -> Statement {
    let mut query = sql("SELECT ");
    query.push(besides);
    query.push(
        "id, at, source, partner_id, reseller_id, organization_id, agent_id, recipient,
                sender, envelope_from, remote_address, helo, reason, explanation, message_id, size,
                digest, count, took_us
         FROM records ",
    );
    query.push(rest);
    query
}

const INSERT: &str = "
    INSERT INTO intake_records (id, at, source, partner_id, reseller_id, organization_id,
        agent_id, sender, verdict, reason, size, digest, recipient, envelope_from, remote_address,
        helo, took_us, evidence, count, explanation, message_id, counted_as) {rows}
    ON CONFLICT (counted_as, organization_id) WHERE counted_as IS NOT NULL
        DO UPDATE SET count = intake_records.count + excluded.count
    RETURNING id, counted_as";

/// The packed part of a record.
#[derive(Default)]
struct RecordEvidence {
    evidence: Evidence,
    /// The header section of the message.
    headers: Vec<u8>,
}

fn record(
    row: &Row,
    evidence: impl Fn(&Columns<'_>) -> Result<RecordEvidence, StoreError>,
) -> Result<IntakeRecord, StoreError> {
    let columns = Columns { table: "records", row };
    let reason = columns.optional_word::<Reason>("reason")?;
    let RecordEvidence { evidence, headers } = evidence(&columns)?;
    let took = columns.optional_integer("took_us")?.and_then(|micros| u64::try_from(micros).ok());
    Ok(IntakeRecord {
        id: IntakeId(columns.uuid("id")?),
        at: columns.time("at")?,
        source: columns.word("source")?,
        lineage: columns.lineage()?,
        agent: columns.optional_account("agent_id")?,
        recipient: columns.text("recipient")?,
        sender: columns.optional_word("sender")?,
        envelope_from: columns.text("envelope_from")?,
        remote_address: columns.word::<IpAddr>("remote_address")?,
        helo: columns.text("helo")?,
        verdict: Verdict::of(reason),
        explanation: columns.text("explanation")?,
        message: columns.optional_uuid("message_id")?.map(MessageId),
        size: columns.count("size")?,
        digest: columns.optional_digest("digest")?,
        headers,
        evidence,
        count: columns.count("count")?,
        took: took.map(Duration::from_micros),
    })
}

/// Reads the evidence and, after it, the header section. Both are empty in an erased record.
fn read_evidence(columns: &Columns<'_>) -> Result<RecordEvidence, StoreError> {
    let packed = columns.bytes("evidence")?;
    if packed.is_empty() {
        return Ok(RecordEvidence::default());
    }
    let mut read = packing::whole(&packed).map_err(|error| columns.corrupt(error))?;
    let mut json = serde_json::Deserializer::from_slice(&read).into_iter();
    let evidence = json.next().transpose().map_err(|error| columns.corrupt(error))?;
    let evidence = evidence.unwrap_or_default();
    let headers = read.split_off(json.byte_offset().min(read.len()));
    Ok(RecordEvidence { evidence, headers })
}
