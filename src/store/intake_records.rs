//! The lasting trace of every verdict.

use std::net::IpAddr;

use sqlx::AssertSqlSafe;
use sqlx::sqlite::SqliteRow;

use super::db::{Store, Transaction};
use super::error::StoreError;
use super::page::{Page, permitted_json, scope_sql};
use super::row::{Columns, number, stored};
use crate::domain::address::Address;
use crate::domain::clock::Timestamp;
use crate::domain::id::{AccountId, IntakeId, MessageId};
use crate::domain::intake_record::IntakeRecord;
use crate::domain::reason::Reason;
use crate::domain::scope::Scope;
use crate::domain::verdict::Verdict;

/// Which records a list shows; absent fields match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntakeFilter {
    pub agent: Option<AccountId>,
    pub sender: Option<Address>,
    /// As given in RCPT, without regard to ASCII case.
    pub recipient: Option<String>,
    /// `accepted`, `refused` or `deferred`.
    pub verdict: Option<String>,
    pub reason: Option<Reason>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

impl Store {
    /// A page of the records in `scope` that match, the newest first.
    pub async fn intake_records(
        &self,
        scope: &Scope,
        filter: &IntakeFilter,
        page: &Page,
    ) -> Result<Vec<IntakeRecord>, StoreError> {
        let (place, order) = page.sql();
        // Put together from constants; every value is bound.
        let sql = format!(
            "SELECT * FROM intake_records
             WHERE {} AND {place}
               AND ($6 IS NULL OR agent_id = $6) AND ($7 IS NULL OR sender = $7)
               AND ($8 IS NULL OR recipient = $8 COLLATE NOCASE)
               AND ($9 IS NULL OR verdict = $9) AND ($10 IS NULL OR reason = $10)
               AND ($11 IS NULL OR at >= $11) AND ($12 IS NULL OR at < $12)
             ORDER BY {order} LIMIT $5",
            scope_sql(scope)
        );
        let cursor = page.cursor();
        let rows = sqlx::query(AssertSqlSafe(sql))
            .bind(cursor.at.millis())
            .bind(cursor.id)
            .bind(scope.root().get())
            .bind(permitted_json(scope))
            .bind(i64::from(page.limit))
            .bind(number(filter.agent))
            .bind(filter.sender.as_ref().map(Address::to_string))
            .bind(&filter.recipient)
            .bind(&filter.verdict)
            .bind(filter.reason.map(Reason::as_str))
            .bind(filter.since.map(Timestamp::millis))
            .bind(filter.until.map(Timestamp::millis))
            .fetch_all(self.reader())
            .await?;
        let records = rows.iter().map(record).collect::<Result<_, _>>()?;
        Ok(page.shown(records))
    }

    /// One record in `scope`.
    pub async fn intake_record(
        &self,
        scope: &Scope,
        id: IntakeId,
    ) -> Result<Option<IntakeRecord>, StoreError> {
        let sql = format!(
            "SELECT * FROM intake_records WHERE id = $1 AND $2 IS NULL AND {}",
            scope_sql(scope)
        );
        let row = sqlx::query(AssertSqlSafe(sql))
            .bind(id.0)
            .bind(None::<i64>)
            .bind(scope.root().get())
            .bind(permitted_json(scope))
            .fetch_optional(self.reader())
            .await?;
        row.as_ref().map(record).transpose()
    }

    /// Counts a refusal that needs no record of its own: one record per network, reason, minute
    /// and owner, so that a guessing client costs one row a minute (contract §2.3). Answers the
    /// record that it was counted in.
    pub async fn count_refusal(
        &self,
        record: &IntakeRecord,
        network: &str,
    ) -> Result<IntakeId, StoreError> {
        let owner = record.lineage.ids().last().map_or(0, AccountId::get);
        let reason = record.verdict.reason().map_or("", Reason::as_str);
        let minute = record.at.seconds().div_euclid(60);
        let counted_as = format!("{network} {reason} {minute} {owner}");
        let mut tx = self.begin().await?;
        let known: Option<uuid::Uuid> = sqlx::query_scalar(
            "UPDATE intake_records SET count = count + 1 WHERE counted_as = $1 RETURNING id",
        )
        .bind(&counted_as)
        .fetch_optional(tx.on())
        .await?;
        let id = match known {
            Some(id) => IntakeId(id),
            None => {
                insert(&mut tx, record, None).await?;
                sqlx::query("UPDATE intake_records SET counted_as = $2 WHERE id = $1")
                    .bind(record.id.0)
                    .bind(&counted_as)
                    .execute(tx.on())
                    .await?;
                record.id
            }
        };
        tx.commit().await?;
        Ok(id)
    }
}

/// Writes a record; `same_as` names the earlier message that an accepted one repeats.
pub(super) async fn insert(
    tx: &mut Transaction,
    record: &IntakeRecord,
    same_as: Option<MessageId>,
) -> Result<(), StoreError> {
    const REPEATED: &str = "The same message arrived before; it was accepted again without making \
                            a second message.";
    let explanation = if same_as.is_some() { REPEATED } else { &record.explanation };
    sqlx::query(
        "INSERT INTO intake_records (id, at, partner_id, reseller_id, organization_id, agent_id,
             recipient, sender, envelope_from, remote_address, helo, verdict, reason, explanation,
             message_id, size, digest, headers, steps, count)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
                 $19, $20)",
    )
    .bind(record.id.0)
    .bind(record.at.millis())
    .bind(number(record.lineage.partner))
    .bind(number(record.lineage.reseller))
    .bind(number(record.lineage.organization))
    .bind(number(record.agent))
    .bind(&record.recipient)
    .bind(record.sender.as_ref().map(Address::to_string))
    .bind(&record.envelope_from)
    .bind(record.remote_address.to_string())
    .bind(&record.helo)
    .bind(record.verdict.as_str())
    .bind(record.verdict.reason().map(Reason::as_str))
    .bind(explanation)
    .bind(same_as.or(record.message).map(|id| id.0))
    .bind(stored(record.size))
    .bind(record.digest.map(|digest| digest.0.to_vec()))
    .bind(&record.headers)
    .bind(record.steps.to_string())
    .bind(stored(record.count))
    .execute(tx.on())
    .await?;
    Ok(())
}

fn record(row: &SqliteRow) -> Result<IntakeRecord, StoreError> {
    let columns = Columns { table: "intake_records", row };
    let reason = columns
        .optional_text("reason")?
        .map(|code| code.parse::<Reason>().map_err(|error| columns.corrupt(error)))
        .transpose()?;
    Ok(IntakeRecord {
        id: IntakeId(columns.uuid("id")?),
        at: columns.time("at")?,
        lineage: columns.lineage()?,
        agent: columns.optional_account("agent_id")?,
        recipient: columns.text("recipient")?,
        sender: columns
            .optional_text("sender")?
            .map(|text| Address::parse(&text).map_err(|error| columns.corrupt(error)))
            .transpose()?,
        envelope_from: columns.text("envelope_from")?,
        remote_address: columns.word::<IpAddr>("remote_address")?,
        helo: columns.text("helo")?,
        verdict: Verdict::of(reason),
        explanation: columns.text("explanation")?,
        message: columns.optional_uuid("message_id")?.map(MessageId),
        size: columns.count("size")?,
        digest: columns.optional_digest("digest")?,
        headers: columns.bytes("headers")?,
        steps: columns.json("steps")?,
        count: columns.count("count")?,
    })
}
