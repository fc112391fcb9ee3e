//! Deletes rows older than they are kept: by account, the oldest first, a few in one transaction.
//!
//! Due rows are found by reading, outside of the transaction. A short transaction then deletes
//! them, and reads again what may have changed. One gateway deletes at a time, and the others skip
//! their turn. A message whose original a commit is storing again at this moment is left for later.

use std::collections::BTreeSet;

use uuid::Uuid;

use crate::domain::account::{AccountType, Lineage};
use crate::domain::clock::{TimeRange, Timestamp};
use crate::domain::id::AccountId;
use crate::domain::room::Room;
use crate::rules::RetainedKind;
use crate::store::base::Base;
use crate::store::base::page::{Cursor, Direction, Page, merged};
use crate::store::engine::database::{Transaction, retry_conflicts, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Row, Statement, Value, sql};
use crate::store::mailbox::rooms;
use crate::store::mailbox::rooms::DeletedMessage;

/// An account, and the time since which it keeps rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueAccount {
    pub account: AccountId,
    pub kind: AccountType,
    pub until: Timestamp,
}

/// An account whose rows are kept for a time; those of a deleted account are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetainingAccount {
    pub account: AccountId,
    pub kind: AccountType,
    pub lineage: Lineage,
    pub deleted: bool,
}

/// A row that is older than it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpiredRow {
    pub place: Cursor,
    /// The bytes of a message; 0 for other rows.
    pub octets: u64,
}

/// The result of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletedRows {
    pub rows: u64,
    /// False if too many rows depend on these: the same ones must be given again.
    pub complete: bool,
}

impl Base {
    /// Returns up to `limit` accounts behind `after`, the oldest first, including deleted ones.
    pub async fn accounts_after(
        &self,
        after: Option<AccountId>,
        limit: usize,
    ) -> Result<Vec<RetainingAccount>, StoreError> {
        let rows = sql("SELECT id, kind, partner_id, reseller_id, organization_id, agent_id,
                               CAST(CASE WHEN deleted_at IS NULL THEN 0 ELSE 1 END AS BIGINT)
                                   AS deleted
                        FROM accounts WHERE id > $1 ORDER BY id LIMIT $2")
        .bind(after.map_or(0, AccountId::get))
        .bind(row_limit(limit))
        .fetch_all(self.reader())
        .await?;
        let account = |row| {
            let columns = Columns { table: "accounts", row };
            Ok(RetainingAccount {
                account: columns.account("id")?,
                kind: columns.word("kind")?,
                lineage: columns.lineage()?,
                deleted: columns.flag("deleted")?,
            })
        };
        rows.iter().map(account).collect()
    }

    /// Returns those of `due` that have rows to delete, in the order given.
    pub async fn with_expired(
        &self,
        kind: RetainedKind,
        due: &[DueAccount],
    ) -> Result<Vec<DueAccount>, StoreError> {
        let mut found = BTreeSet::new();
        let (agents, others): (Vec<&DueAccount>, Vec<&DueAccount>) =
            due.iter().partition(|due| due.kind == AccountType::Agent);
        for some in [agents, others] {
            let (Some(first), Some(source)) = (some.first(), source(kind, &some)) else {
                continue;
            };
            let mut query = sql("WITH due (account, kept_since) AS (VALUES ");
            for due in &some {
                query.push(if due.account == first.account { "(CAST(" } else { ", (CAST(" });
                query.push_value(due.account).push(" AS BIGINT), CAST(");
                query.push_value(due.until).push(" AS BIGINT))");
            }
            // Reads the oldest row of each: one step into each range, however many rows there are.
            query.push(") SELECT account FROM due WHERE ").varying();
            for (number, range) in source.ranges.iter().enumerate() {
                query.push(if number > 0 { " OR " } else { "" });
                query.push("(SELECT at FROM ").push(range).push(source.owned);
                query.push("due.account ORDER BY at, id LIMIT 1) < due.kept_since");
            }
            for row in query.fetch_all(self.reader()).await? {
                found.insert(Columns { table: "accounts", row: &row }.account("account")?);
            }
        }
        Ok(due.iter().filter(|due| found.contains(&due.account)).copied().collect())
    }

    /// Returns up to `limit` due rows of an account behind `from`, the oldest first.
    pub async fn expired(
        &self,
        kind: RetainedKind,
        due: &DueAccount,
        from: Option<Cursor>,
        limit: usize,
    ) -> Result<Vec<ExpiredRow>, StoreError> {
        let Some(source) = source(kind, &[due]) else { return Ok(Vec::new()) };
        let part = |query: &mut Statement, range: &&str| {
            query.push(match kind {
                RetainedKind::Messages => "SELECT id, at, size AS octets FROM ",
                _ => "SELECT id, at, CAST(0 AS BIGINT) AS octets FROM ",
            });
            query.push(range).push(source.owned).push_value(due.account);
        };
        let from = from.unwrap_or(Cursor { at: Timestamp::from_millis(0), id: Uuid::nil() });
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let page = Page { limit, from: Some((Direction::After, from)), until: None };
        let (on, time) = (self.reader(), TimeRange { since: None, before: Some(due.until) });
        let query = merged(on.is_postgres(), source.ranges, part, &page, time);
        let rows = query.fetch_all(on).await?;
        let expired = rows.iter().map(|row| {
            let columns = Columns { table: "records", row };
            let place = Cursor { at: columns.time("at")?, id: columns.uuid("id")? };
            Ok(ExpiredRow { place, octets: columns.count("octets")? })
        });
        expired.collect()
    }

    /// Deletes these rows; of events, after at most `limit` rows that depend on them. Returns None
    /// while another gateway is deleting.
    pub async fn delete_expired(
        &self,
        kind: RetainedKind,
        rows: &[ExpiredRow],
        limit: usize,
    ) -> Result<Option<DeletedRows>, StoreError> {
        let ids: Vec<Value> = rows.iter().map(|row| row.place.id.into()).collect();
        transact!(self, async |tx| {
            if !gates::try_alone(&mut tx, "retention").await? {
                return Ok(None);
            }
            let rows = match kind {
                RetainedKind::Messages => Some(delete_messages(&mut tx, &ids).await?),
                RetainedKind::Events => delete_events(&mut tx, &ids, limit).await?,
                RetainedKind::IntakeRecords => {
                    let rows = execute_in(&mut tx, "DELETE FROM intake_records WHERE id", &ids, "")
                        .await?;
                    Some(rows + execute_in(&mut tx, FORGET_RECORDS, &ids, "").await?)
                }
                RetainedKind::Audit => {
                    Some(execute_in(&mut tx, "DELETE FROM audit_entries WHERE id", &ids, "").await?)
                }
            };
            tx.commit().await?;
            Ok(Some(DeletedRows { rows: rows.unwrap_or_default(), complete: rows.is_some() }))
        })
    }

    /// Deletes up to `limit` arrivals no longer remembered; None while another gateway deletes.
    pub async fn delete_arrivals(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Option<u64>, StoreError> {
        retry_conflicts!(self.delete_past(expired_arrivals(), now, limit))
    }

    /// Deletes up to `limit` expired console sessions; None while another gateway deletes.
    pub async fn delete_console_sessions(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Option<u64>, StoreError> {
        retry_conflicts!(self.delete_past(expired_console_sessions(), now, limit))
    }

    /// Runs a statement that deletes up to $2 rows that expired by $1.
    pub(in crate::store) async fn delete_past(
        &self,
        statement: Statement,
        now: Timestamp,
        limit: usize,
    ) -> Result<Option<u64>, StoreError> {
        let mut tx = self.begin().await?;
        if !gates::try_alone(&mut tx, "retention").await? {
            return Ok(None);
        }
        let gone = statement.bind(now).bind(row_limit(limit)).execute(tx.on()).await?;
        tx.commit().await?;
        Ok(Some(gone))
    }
}

/// Skips an arrival that a commit is taking over at this moment: it is remembered again.
fn expired_arrivals() -> Statement {
    sql("DELETE FROM arrivals WHERE (agent_id, key) IN (
             SELECT agent_id, key FROM arrivals WHERE expires_at <= $1
             ORDER BY expires_at LIMIT $2)")
    .on_postgres(
        "WITH gone AS MATERIALIZED (
             SELECT agent_id, key FROM arrivals WHERE expires_at <= $1
             ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)
         DELETE FROM arrivals WHERE (agent_id, key) IN (SELECT agent_id, key FROM gone)",
    )
}

/// Skips a ticket that another transaction is opening at this moment.
fn expired_console_sessions() -> Statement {
    sql("DELETE FROM console_sessions WHERE id IN (
             SELECT id FROM console_sessions WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)")
    .on_postgres(
        "WITH gone AS MATERIALIZED (
             SELECT id FROM console_sessions WHERE expires_at <= $1
             ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)
         DELETE FROM console_sessions WHERE id IN (SELECT id FROM gone)",
    )
}

/// Removes the records of messages from their rows.
const FORGET_RECORDS: &str = "UPDATE messages
     SET recorded = 0, recipient = NULL, envelope_from = NULL, remote_address = NULL, helo = NULL,
         explanation = NULL, took_us = NULL, evidence = NULL
     WHERE recorded = 1 AND id";

/// Copies the records of messages into rows of their own.
const KEEP_RECORDS: &str = "INSERT INTO intake_records
         (id, at, partner_id, reseller_id, organization_id, agent_id, recipient, sender,
          envelope_from, remote_address, helo, verdict, reason, explanation, message_id, size,
          digest, count, source, took_us, erased_at, evidence)
     SELECT id, at, partner_id, reseller_id, organization_id, agent_id, recipient, sender,
            envelope_from, remote_address, helo, verdict, reason, explanation, message_id, size,
            digest, count, source, took_us, erased_at, evidence
     FROM records WHERE recorded = 1 AND id";

/// Where the rows of an account are.
struct Source {
    /// The ranges that hold them, each as a table and the beginning of a condition.
    ranges: &'static [&'static str],
    /// The comparison that selects those of an account.
    owned: &'static str,
}

/// Returns where the rows of such accounts are; None if they have none of this kind.
fn source(kind: RetainedKind, due: &[&DueAccount]) -> Option<Source> {
    const OF_AGENT: &str = "agent_id = ";
    // Spelled as in the index.
    const WITHOUT_AGENT: &str = "agent_id IS NULL
         AND CAST(COALESCE(NULLIF(organization_id, 0), reseller_id, partner_id) AS BIGINT) = ";
    let agent = due.first()?.kind == AccountType::Agent;
    let owned = if agent { OF_AGENT } else { WITHOUT_AGENT };
    let ranges: &[_] = match kind {
        RetainedKind::Messages if !agent => return None,
        RetainedKind::Messages => {
            &["messages WHERE recorded = 0 AND ", "messages WHERE recorded = 1 AND "]
        }
        RetainedKind::IntakeRecords if !agent => &["intake_records WHERE "],
        RetainedKind::IntakeRecords => {
            &["intake_records WHERE ", "messages WHERE recorded = 1 AND "]
        }
        RetainedKind::Events => &["events WHERE "],
        RetainedKind::Audit => &["audit_entries WHERE "],
    };
    Some(Source { ranges, owned })
}

/// Deletes attempts, then deliveries, then events, so that no row is left without its parent.
/// Returns None once `limit` is reached. An event with a pending delivery stays.
async fn delete_events(
    tx: &mut Transaction,
    ids: &[Value],
    limit: usize,
) -> Result<Option<u64>, StoreError> {
    let ended = "SELECT id FROM events WHERE 'pending' NOT IN
                     (SELECT state FROM deliveries WHERE event_id = events.id) AND id";
    let rows = where_in(ended, ids, "").fetch_all(tx.on()).await?;
    let ids = rows.iter().map(|row| Columns { table: "events", row }.uuid("id").map(Value::from));
    let ids = ids.collect::<Result<Vec<_>, _>>()?;
    let mut left = row_limit(limit);
    for leaves in [
        "DELETE FROM attempts WHERE id IN (
             SELECT attempts.id FROM deliveries
             JOIN attempts ON attempts.delivery_id = deliveries.id
             WHERE deliveries.state <> 'pending' AND deliveries.event_id",
        // The outer condition spares a delivery that another transaction is replaying.
        "DELETE FROM deliveries WHERE state <> 'pending' AND id IN (
             SELECT id FROM deliveries WHERE state <> 'pending' AND event_id",
    ] {
        let gone = execute_in(tx, leaves, &ids, &format!(" LIMIT {left})")).await?;
        left = left.saturating_sub(i64::try_from(gone).unwrap_or(i64::MAX));
        if left == 0 {
            return Ok(None);
        }
    }
    // If an event has got a pending delivery since, its foreign key fails, and this is tried again.
    Ok(Some(execute_in(tx, "DELETE FROM events WHERE id", &ids, "").await?))
}

/// Deletes messages, with their entries in rooms and threads, and contents that no other message
/// has; returns how many. Moves their records into rows of their own. Locks contents first, so that
/// no commit refers to them meanwhile; leaves messages whose contents another transaction holds.
pub async fn delete_messages(tx: &mut Transaction, ids: &[Value]) -> Result<u64, StoreError> {
    let mut messages = Vec::new();
    let found = where_in("SELECT id, content_id FROM messages WHERE id", ids, "");
    for row in found.fetch_all(tx.on()).await? {
        let columns = Columns { table: "messages", row: &row };
        messages.push((columns.uuid("id")?, columns.uuid("content_id")?));
    }
    let contents: BTreeSet<Uuid> = messages.iter().map(|(_, content)| *content).collect();
    let held =
        where_in("SELECT content_id FROM contents WHERE content_id", &id_values(&contents), "");
    let mut ours = contents_of(held.locking("FOR UPDATE SKIP LOCKED"), tx).await?;
    // Contents missing in a damaged database cannot be held by another transaction.
    let mut missing = &contents - &ours;
    if !missing.is_empty() {
        let others = "SELECT content_id FROM contents WHERE content_id";
        missing = &missing - &contents_of(where_in(others, &id_values(&missing), ""), tx).await?;
    }
    messages.retain(|(_, content)| ours.contains(content) || missing.contains(content));
    let ids: Vec<Value> = messages.iter().map(|(id, _)| (*id).into()).collect();
    rooms::lock_contacts(tx, &ids).await?;
    execute_in(tx, "DELETE FROM thread_keys WHERE message_id", &ids, "").await?;
    // Another gateway may have erased the message since, and kept its record.
    execute_in(tx, KEEP_RECORDS, &ids, " ON CONFLICT (id, organization_id) DO NOTHING").await?;
    let end = " RETURNING id, at, contact_id, agent_id";
    let gone = where_in("DELETE FROM messages WHERE id", &ids, end).fetch_all(tx.on()).await?;
    let gone = gone.iter().map(gone_of).collect::<Result<Vec<_>, _>>()?;
    rooms::remove_messages(tx, &gone).await?;
    for used in [
        "SELECT content_id FROM messages WHERE id",
        "SELECT DISTINCT content_id FROM messages WHERE content_id <> id AND content_id",
    ] {
        for content in contents_of(where_in(used, &id_values(&ours), ""), tx).await? {
            ours.remove(&content);
        }
    }
    // The caller, or the sweeper, removes an object of the blob store that no row names any more.
    execute_in(tx, "DELETE FROM contents WHERE content_id", &id_values(&ours), "").await?;
    Ok(u64::try_from(gone.len()).unwrap_or(u64::MAX))
}

fn gone_of(row: &Row) -> Result<DeletedMessage, StoreError> {
    let columns = Columns { table: "messages", row };
    let room =
        Room { contact: columns.contact("contact_id")?, agent: columns.account("agent_id")? };
    Ok(DeletedMessage { room, place: Cursor { at: columns.time("at")?, id: columns.uuid("id")? } })
}

async fn contents_of(query: Statement, tx: &mut Transaction) -> Result<BTreeSet<Uuid>, StoreError> {
    let rows = query.fetch_all(tx.on()).await?;
    rows.iter().map(|row| Columns { table: "contents", row }.uuid("content_id")).collect()
}

fn id_values(ids: &BTreeSet<Uuid>) -> Vec<Value> {
    ids.iter().map(|id| (*id).into()).collect()
}

/// Runs the statement that [`where_in`] makes; returns the number of rows changed.
async fn execute_in(
    tx: &mut Transaction,
    text: &'static str,
    ids: &[Value],
    end: &str,
) -> Result<u64, StoreError> {
    if ids.is_empty() {
        return Ok(0);
    }
    where_in(text, ids, end).execute(tx.on()).await
}

/// Makes `text IN (ids) end`; without ids nothing matches.
pub fn where_in(text: &'static str, ids: &[Value], end: &str) -> Statement {
    let mut statement = sql(text);
    let mut before = " IN (";
    for id in ids {
        statement.push(before).push_value(id.clone());
        before = ", ";
    }
    statement.push(if ids.is_empty() { " IN (NULL)" } else { ")" }).push(end).varying();
    statement
}

pub fn row_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
