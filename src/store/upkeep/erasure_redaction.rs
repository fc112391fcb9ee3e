//! Redacts intake records about a contact or account that is being erased. They are hidden during
//! the erasure (`PRESENT_RECORD`), and blanked step by step. Records in rows of messages are left
//! alone: those went with their messages, or are of another contact. Few of many records hold a
//! trace, so the search runs outside of the transaction that blanks them.

use std::time::Duration;

use uuid::Uuid;

use crate::domain::account::AccountType;
use crate::domain::clock::Timestamp;
use crate::domain::contact::Handle;
use crate::domain::id::AccountId;
use crate::store::base::Base;
use crate::store::base::page::below;
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, Value, sql};

/// Gateways' clocks differ: a record from before the request may carry a slightly later time.
const CLOCKS: Duration = Duration::from_mins(1);

/// Pages of records searched before the place is saved.
const LOOKS: usize = 25;

/// The explanation of a redacted record.
pub const ERASED: &str = "The details of the message were erased from this record.";

/// A place among records.
type RecordPosition = (Timestamp, Uuid);

/// A row of `erasures`.
#[derive(Debug)]
pub struct Erasure {
    pub subject: i64,
    pub of_contact: bool,
    asked_at: Timestamp,
    organization: Option<AccountId>,
    handle: String,
    /// The last record that was searched.
    pub seen: RecordPosition,
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
            seen: (columns.time("seen_at")?, columns.optional_uuid("seen_id")?.unwrap_or_default()),
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
    records: Vec<Uuid>,
    seen: RecordPosition,
    /// All records have been searched.
    pub ended: bool,
}

/// Searches the next records for traces, until there are `limit` of them or after [`LOOKS`] pages.
pub async fn find(store: &Base, erasure: &Erasure, limit: usize) -> Result<Traces, StoreError> {
    let mut found = Traces { records: Vec::new(), seen: erasure.seen, ended: true };
    let Some((level, owner)) = erasure.owner(store).await? else { return Ok(found) };
    let mailbox = erasure.handle.parse::<Handle>().ok();
    let mailbox = mailbox.and_then(|handle| Some(handle.mailbox()?.to_string()));
    for _ in 0..LOOKS {
        let mut query = sql("SELECT id, at, sender, envelope_from, erased_at
                             FROM intake_records WHERE ");
        below(&mut query, level, owner);
        query.push(" AND (at, id) > (").push_value(found.seen.0).push(", ");
        query.push_value(found.seen.1).push(")");
        if erasure.of_contact {
            query.push(" AND at <= ").push_value(erasure.asked_at.plus(CLOCKS));
        }
        query.push(" ORDER BY at, id LIMIT ");
        query.push_value(i64::try_from(limit).unwrap_or(i64::MAX));
        let rows = query.fetch_all(store.reader()).await?;
        for row in &rows {
            let columns = Columns { table: "intake_records", row };
            let id = columns.uuid("id")?;
            found.seen = (columns.time("at")?, id);
            if tells(&columns, erasure, mailbox.as_ref())? {
                found.records.push(id);
            }
        }
        found.ended = rows.len() < limit;
        if found.ended || found.records.len() >= limit {
            break;
        }
    }
    Ok(found)
}

fn tells(
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

/// Spares records with a stored message: the contact has written again, as another contact.
const OF_CONTACT: &str = "WITH given (record) AS ({rows})
     UPDATE intake_records
     SET erased_at = $1, sender = NULL, envelope_from = '', remote_address = '0.0.0.0', helo = '',
         explanation = $2, digest = NULL, evidence = $3, counted_as = NULL
     FROM given
     WHERE id = given.record AND (message_id IS NULL OR NOT EXISTS (
         SELECT 1 FROM messages WHERE messages.id = intake_records.message_id))";

const OF_ACCOUNT: &str = "WITH given (record) AS ({rows})
     UPDATE intake_records
     SET erased_at = $1, recipient = '', sender = NULL, envelope_from = '',
         remote_address = '0.0.0.0', helo = '', explanation = $2, digest = NULL, evidence = $3,
         counted_as = NULL
     FROM given WHERE id = given.record";

/// Blanks the records found, and saves the place reached.
pub async fn blank(
    tx: &mut Transaction,
    erasure: &Erasure,
    found: &Traces,
    now: Timestamp,
) -> Result<(), StoreError> {
    let records = found.records.iter().map(|id| vec![Value::from(*id)]);
    many(if erasure.of_contact { OF_CONTACT } else { OF_ACCOUNT }, records.collect())
        .bind(now)
        .bind(ERASED)
        .bind([].as_slice())
        .execute(tx.on())
        .await?;
    if found.seen != erasure.seen {
        sql("UPDATE erasures SET seen_at = $2, seen_id = $3 WHERE subject = $1")
            .bind(erasure.subject)
            .bind(found.seen.0)
            .bind(found.seen.1)
            .execute(tx.on())
            .await?;
    }
    Ok(())
}
