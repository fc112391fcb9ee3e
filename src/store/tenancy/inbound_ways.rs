//! Inbound ways: URLs at which providers post. A way is found by the hash of the key in its URL,
//! which only its account is shown.

use super::audit::{self, Note};
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::id::{AccountId, WayId};
use crate::domain::key::KeyHash;
use crate::domain::relay::RelayType;
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, Row, Statement, sql};

/// An inbound way, with its secrets sealed. An account has at most one per type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedWay {
    pub id: WayId,
    pub account: AccountId,
    pub kind: RelayType,
    pub key_hash: KeyHash,
    pub key: Vec<u8>,
    pub last_four: String,
    pub verification: Vec<u8>,
    pub revision: i64,
    pub created_at: Timestamp,
    pub rotated_at: Option<Timestamp>,
}

impl Base {
    pub async fn inbound_way(
        &self,
        account: AccountId,
        kind: RelayType,
    ) -> Result<Option<SealedWay>, StoreError> {
        find(self.reader(), account, kind).await
    }

    /// Returns all inbound ways of an account, by type.
    pub async fn inbound_ways(&self, account: AccountId) -> Result<Vec<SealedWay>, StoreError> {
        let rows = select("WHERE account_id = $1 ORDER BY kind")
            .bind(account)
            .fetch_all(self.reader())
            .await?;
        rows.iter().map(way).collect()
    }

    /// Returns the inbound way with this key.
    pub async fn inbound_way_by_key(
        &self,
        kind: RelayType,
        hash: KeyHash,
    ) -> Result<Option<SealedWay>, StoreError> {
        let row = select("WHERE key_hash = $1 AND kind = $2")
            .bind(hash.0.as_slice())
            .bind(kind.as_str())
            .fetch_optional(self.reader())
            .await?;
        row.as_ref().map(way).transpose()
    }

    /// Removes the inbound way of this type; its key opens nothing from now on. Returns whether
    /// there was one.
    pub async fn remove_inbound_way(
        &self,
        account: AccountId,
        kind: RelayType,
        act: Act<'_>,
    ) -> Result<bool, StoreError> {
        transact!(self, async |tx| {
            // A change of the way waits here, and then finds none.
            gates::close_account(&mut tx, account).await?;
            let Some(old) = find(tx.on(), account, kind).await? else { return Ok(false) };
            sql("DELETE FROM inbound_ways WHERE id = $1").bind(old.id.0).execute(tx.on()).await?;
            let changes = [Change::gone("keyLastFour", old.last_four)];
            let note = Note::new(account, Deed::InboundRemoved, &kind, &changes);
            audit::note(&mut tx, self.mint(), act, note).await?;
            tx.commit().await?;
            Ok(true)
        })
    }
}

pub async fn find(
    on: Connection<'_>,
    account: AccountId,
    kind: RelayType,
) -> Result<Option<SealedWay>, StoreError> {
    let row = select("WHERE account_id = $1 AND kind = $2")
        .bind(account)
        .bind(kind.as_str())
        .fetch_optional(on)
        .await?;
    row.as_ref().map(way).transpose()
}

/// Selects inbound ways. Names the columns: see `accounts::select`.
fn select(rest: &'static str) -> Statement {
    Statement::of(format!("SELECT {COLUMNS} FROM inbound_ways {rest}").into())
}

/// The columns that [`way`] reads.
const COLUMNS: &str = "id, account_id, kind, key_hash, key_sealed, last_four, verification,
     revision, created_at, rotated_at";

/// Inserts or replaces an inbound way.
pub async fn insert(tx: &mut Transaction, way: &SealedWay) -> Result<(), StoreError> {
    sql("INSERT INTO inbound_ways (id, account_id, kind, key_hash, key_sealed, last_four,
                                   verification, revision, created_at, rotated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         ON CONFLICT (id) DO UPDATE SET key_hash = excluded.key_hash,
             key_sealed = excluded.key_sealed, last_four = excluded.last_four,
             verification = excluded.verification, revision = excluded.revision,
             rotated_at = excluded.rotated_at")
    .bind(way.id.0)
    .bind(way.account)
    .bind(way.kind.as_str())
    .bind(way.key_hash.0.as_slice())
    .bind(way.key.as_slice())
    .bind(way.last_four.clone())
    .bind(way.verification.as_slice())
    .bind(way.revision)
    .bind(way.created_at)
    .bind(way.rotated_at.map(Timestamp::millis))
    .execute(tx.on())
    .await
    .map(drop)
}

fn way(row: &Row) -> Result<SealedWay, StoreError> {
    let columns = Columns { table: "inbound_ways", row };
    Ok(SealedWay {
        id: WayId(columns.uuid("id")?),
        account: columns.account("account_id")?,
        kind: columns.word("kind")?,
        key_hash: KeyHash(columns.digest("key_hash")?.0),
        key: columns.bytes("key_sealed")?,
        last_four: columns.text("last_four")?,
        verification: columns.bytes("verification")?,
        revision: columns.integer("revision")?,
        created_at: columns.time("created_at")?,
        rotated_at: columns.optional_time("rotated_at")?,
    })
}
