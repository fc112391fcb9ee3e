//! Redacts intake records about a contact or account that is being erased. They are hidden during
//! the erasure (`PRESENT_RECORD`), and blanked step by step. Records in rows of messages are left
//! alone: those went with their messages, or are of another contact. Few of many records hold a
//! trace, so the search runs outside of the transaction that blanks them.

use std::time::Duration;

use super::retention::row_limit;
use crate::domain::account::AccountType;
use crate::domain::clock::Timestamp;
use crate::domain::contact::Handle;
use crate::domain::id::AccountId;
use crate::store::base::Base;
use crate::store::base::page::{Cursor, below};
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::many::{Many, many};
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, Value, sql};

/// Gateways' clocks differ: a record from before the request may carry a slightly later time.
const CLOCKS: Duration = Duration::from_mins(1);

/// Pages of records searched before the place is saved.
const PAGES_PER_STEP: usize = 25;

/// The explanation of a redacted record.
const ERASED: &str = "The details of the message were erased from this record.";

/// A row of `erasures`.
#[derive(Debug)]
pub struct Erasure {
    pub subject: i64,
    pub of_contact: bool,
    asked_at: Timestamp,
    organization: Option<AccountId>,
    handle: String,
    /// The last record that was searched.
    pub seen: Cursor,
}

impl Erasure {
    /// Returns the erasure of a subject, or None once it is done.
    pub(in crate::store) async fn of(
        on: Connection<'_>,
        subject: i64,
    ) -> Result<Option<Self>, StoreError> {
        let row = sql("SELECT kind, asked_at, organization_id, handle, seen_at, seen_id
                       FROM erasures WHERE subject = $1")
        .bind(subject)
        .fetch_optional(on)
        .await?;
        let Some(row) = row else { return Ok(None) };
        let columns = Columns { table: "erasures", row: &row };
        Ok(Some(Self {
            subject,
            of_contact: columns.text("kind")? == "contact",
            asked_at: columns.time("asked_at")?,
            organization: columns.optional_account("organization_id")?,
            handle: columns.optional_text("handle")?.unwrap_or_default(),
            seen: Cursor {
                at: columns.time("seen_at")?,
                id: columns.optional_uuid("seen_id")?.unwrap_or_default(),
            },
        }))
    }

    /// Returns the account whose records may hold traces: the contact's organization, or the
    /// deleted account itself.
    async fn owner(&self, store: &Base) -> Result<Option<(AccountType, AccountId)>, StoreError> {
        if self.of_contact {
            return Ok(self.organization.map(|id| (AccountType::Organization, id)));
        }
        let row = sql("SELECT kind FROM accounts WHERE id = $1")
            .bind(self.subject)
            .fetch_optional(store.reader())
            .await?;
        let Some((row, id)) = row.zip(AccountId::new(self.subject)) else { return Ok(None) };
        let kind = Columns { table: "accounts", row: &row }.word("kind")?;
        Ok(Some((kind, id)))
    }
}

/// Traces of a subject, found behind a place.
#[derive(Debug)]
pub struct Traces {
    records: Vec<Value>,
    seen: Cursor,
    /// All records have been searched.
    pub ended: bool,
}

/// Searches the next pages of records until `limit` traces are found, [`PAGES_PER_STEP`] at most.
pub async fn find_traces(
    store: &Base,
    erasure: &Erasure,
    limit: usize,
) -> Result<Traces, StoreError> {
    let mut found = Traces { records: Vec::new(), seen: erasure.seen, ended: true };
    let Some((level, owner)) = erasure.owner(store).await? else { return Ok(found) };
    let mailbox = erasure.handle.parse::<Handle>().ok();
    let mailbox = mailbox.and_then(|handle| Some(handle.mailbox()?.to_string()));
    for _ in 0..PAGES_PER_STEP {
        let mut query = sql("SELECT id, at, sender, envelope_from, erased_at
                             FROM intake_records WHERE ");
        below(&mut query, level, owner);
        query.push(" AND (at, id) > (").push_value(found.seen.at).push(", ");
        query.push_value(found.seen.id).push(")");
        if erasure.of_contact {
            query.push(" AND at <= ").push_value(erasure.asked_at.plus(CLOCKS));
        }
        query.push(" ORDER BY at, id LIMIT ").push_value(row_limit(limit));
        let rows = query.fetch_all(store.reader()).await?;
        for row in &rows {
            let columns = Columns { table: "intake_records", row };
            let id = columns.uuid("id")?;
            found.seen = Cursor { at: columns.time("at")?, id };
            if is_trace(&columns, erasure, mailbox.as_ref())? {
                found.records.push(id.into());
            }
        }
        found.ended = rows.len() < limit;
        if found.ended || found.records.len() >= limit {
            break;
        }
    }
    Ok(found)
}

/// Whether a record that is not redacted yet tells of the subject.
fn is_trace(
    record: &Columns<'_>,
    erasure: &Erasure,
    mailbox: Option<&String>,
) -> Result<bool, StoreError> {
    if record.optional_time("erased_at")?.is_some() {
        return Ok(false);
    }
    if !erasure.of_contact {
        return Ok(true);
    }
    let envelope = record.text("envelope_from")?.to_ascii_lowercase();
    Ok(record.optional_text("sender")?.as_ref() == Some(&erasure.handle)
        || mailbox == Some(&envelope))
}

/// Makes a statement that redacts the records that match `condition` for one of `ids` (`given.id`).
pub fn redact(
    ids: Vec<Value>,
    keeps_recipient: bool,
    condition: &'static str,
    now: Timestamp,
) -> Many {
    let recipient = if keeps_recipient { "" } else { "recipient = ''," };
    let text = format!(
        "WITH given (id) AS ({{rows}})
         UPDATE intake_records
         SET erased_at = $1, {recipient} sender = NULL, envelope_from = '',
             remote_address = '0.0.0.0', helo = '', explanation = $2, digest = NULL, evidence = $3,
             counted_as = NULL
         FROM given WHERE {condition}"
    );
    let rows = ids.into_iter().map(|id| vec![id]).collect();
    many(text, rows).bind(now).bind(ERASED).bind([].as_slice())
}

/// Spares records with a stored message: the contact has written again, as another contact.
const WITHOUT_MESSAGE: &str = "intake_records.id = given.id AND (message_id IS NULL OR NOT EXISTS (
    SELECT 1 FROM messages WHERE messages.id = intake_records.message_id))";

/// Redacts the records found, and saves the place reached.
pub async fn redact_found(
    tx: &mut Transaction,
    erasure: &Erasure,
    found: Traces,
    now: Timestamp,
) -> Result<(), StoreError> {
    let condition = match erasure.of_contact {
        true => WITHOUT_MESSAGE,
        false => "intake_records.id = given.id",
    };
    redact(found.records, erasure.of_contact, condition, now).execute(tx.on()).await?;
    if found.seen != erasure.seen {
        sql("UPDATE erasures SET seen_at = $2, seen_id = $3 WHERE subject = $1")
            .bind(erasure.subject)
            .bind(found.seen.at)
            .bind(found.seen.id)
            .execute(tx.on())
            .await?;
    }
    Ok(())
}
