//! Relays: setting, reading and removing them, and finding the nearest. Their secrets are sealed.

use std::time::Duration;

use url::Url;

use super::audit::{self, Note};
use super::directory;
use super::inbound_ways::{self, SealedWay};
use crate::domain::account::Lineage;
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::id::{AccountId, RelayId};
use crate::domain::relay::{RelayType, Relayed};
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::row::{Columns, stored};
use crate::store::engine::sql::{Connection, Row, Statement, sql};

/// A relay, with its secrets sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedRelay {
    pub id: RelayId,
    pub account: AccountId,
    pub kind: RelayType,
    pub url: Url,
    pub timeout: Duration,
    pub headers: Vec<u8>,
    pub secret: Vec<u8>,
    pub success: Vec<u16>,
    pub revision: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl SealedRelay {
    /// Returns the id and the revision on which a verdict by this relay rests.
    pub const fn relayed(&self) -> Relayed {
        Relayed { id: self.id, revision: self.revision }
    }
}

/// The audit entry of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayNote {
    pub deed: Deed,
    pub changes: Vec<Change>,
}

/// The new relay, the new inbound way, or both, of one account and type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayPut {
    pub account: AccountId,
    pub kind: RelayType,
    pub relay: Option<SealedRelay>,
    pub way: Option<SealedWay>,
    /// The state from which they were made.
    pub relay_before: Option<Relayed>,
    pub way_revision_before: Option<i64>,
    pub notes: Vec<RelayNote>,
}

impl Base {
    /// Returns the account's own relay, not one from above.
    pub async fn relay(
        &self,
        account: AccountId,
        kind: RelayType,
    ) -> Result<Option<SealedRelay>, StoreError> {
        find(self.reader(), account, kind).await
    }

    /// Returns all relays of an account, by type.
    pub async fn relays(&self, account: AccountId) -> Result<Vec<SealedRelay>, StoreError> {
        let rows = select("WHERE account_id = $1 ORDER BY kind")
            .bind(account)
            .fetch_all(self.reader())
            .await?;
        rows.iter().map(relay).collect()
    }

    /// Returns the nearest relay of this type: the account's own, or else the next one above.
    pub async fn nearest_relay(
        &self,
        kind: RelayType,
        lineage: &Lineage,
    ) -> Result<Option<SealedRelay>, StoreError> {
        let row = select(
            "WHERE id = COALESCE(
                 (SELECT id FROM relays WHERE account_id = $1 AND kind = $5),
                 (SELECT id FROM relays WHERE account_id = $2 AND kind = $5),
                 (SELECT id FROM relays WHERE account_id = $3 AND kind = $5),
                 (SELECT id FROM relays WHERE account_id = $4 AND kind = $5))",
        )
        .bind(lineage.agent)
        .bind(lineage.organization)
        .bind(lineage.reseller)
        .bind(lineage.partner)
        .bind(kind.as_str())
        .fetch_optional(self.reader())
        .await?;
        row.as_ref().map(relay).transpose()
    }

    /// Writes the relay and the inbound way given, or nothing: false if their state has changed
    /// meanwhile. After this, no message is committed by a verdict of the former relay.
    pub async fn put_relay(&self, put: &RelayPut, act: Act<'_>) -> Result<bool, StoreError> {
        transact!(self, async |tx| {
            gates::close_account(&mut tx, put.account).await?;
            let relay = find(tx.on(), put.account, put.kind).await?.map(|relay| relay.relayed());
            let way = inbound_ways::find(tx.on(), put.account, put.kind).await?;
            let way_revision = way.map(|way| way.revision);
            if (relay, way_revision) != (put.relay_before, put.way_revision_before) {
                return Ok(false);
            }
            if let Some(relay) = &put.relay {
                insert(&mut tx, relay).await?;
            }
            if let Some(way) = &put.way {
                inbound_ways::insert(&mut tx, way).await?;
            }
            for RelayNote { deed, changes } in &put.notes {
                let note = Note::new(put.account, *deed, &put.kind, changes);
                audit::note(&mut tx, self.mint(), act, note).await?;
            }
            if put.relay.is_some() && put.kind == RelayType::Smtp {
                directory::changed(&mut tx).await?;
            }
            tx.commit().await?;
            Ok(true)
        })
    }

    /// Removes a relay and its attempts. Returns whether there was one. After this, no message is
    /// committed by a verdict of it.
    pub async fn remove_relay(
        &self,
        account: AccountId,
        kind: RelayType,
        act: Act<'_>,
    ) -> Result<bool, StoreError> {
        transact!(self, async |tx| {
            gates::close_account(&mut tx, account).await?;
            let row =
                select_of(account, kind).locking("FOR UPDATE").fetch_optional(tx.on()).await?;
            let Some(old) = row.as_ref().map(relay).transpose()? else { return Ok(false) };
            sql("DELETE FROM relays WHERE id = $1").bind(old.id.0).execute(tx.on()).await?;
            // Only the origin: many paths contain secrets.
            let changes = [Change::gone("origin", old.url.origin().ascii_serialization())];
            let note = Note::new(account, Deed::RelayRemoved, &kind, &changes);
            audit::note(&mut tx, self.mint(), act, note).await?;
            if kind == RelayType::Smtp {
                directory::changed(&mut tx).await?;
            }
            tx.commit().await?;
            Ok(true)
        })
    }
}

async fn find(
    on: Connection<'_>,
    account: AccountId,
    kind: RelayType,
) -> Result<Option<SealedRelay>, StoreError> {
    let row = select_of(account, kind).fetch_optional(on).await?;
    row.as_ref().map(relay).transpose()
}

fn select_of(account: AccountId, kind: RelayType) -> Statement {
    select("WHERE account_id = $1 AND kind = $2").bind(account).bind(kind.as_str())
}

/// Selects relays. Names the columns: see `accounts::select`.
fn select(rest: &'static str) -> Statement {
    Statement::of(format!("SELECT {COLUMNS} FROM relays {rest}").into())
}

/// The columns that [`relay`] reads.
const COLUMNS: &str = "id, account_id, kind, url, timeout_ms, headers, secret, success_codes,
     revision, created_at, updated_at";

/// Inserts or replaces a relay.
async fn insert(tx: &mut Transaction, relay: &SealedRelay) -> Result<(), StoreError> {
    sql("INSERT INTO relays (id, account_id, kind, url, timeout_ms, headers, secret, success_codes,
                             revision, created_at, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
         ON CONFLICT (id) DO UPDATE SET url = excluded.url, timeout_ms = excluded.timeout_ms,
             headers = excluded.headers, secret = excluded.secret,
             success_codes = excluded.success_codes, revision = excluded.revision,
             updated_at = excluded.updated_at")
    .bind(relay.id.0)
    .bind(relay.account)
    .bind(relay.kind.as_str())
    .bind(relay.url.as_str())
    .bind(millis(relay.timeout))
    .bind(relay.headers.as_slice())
    .bind(relay.secret.as_slice())
    .bind(serde_json::Value::from(relay.success.clone()).to_string())
    .bind(relay.revision)
    .bind(relay.created_at)
    .bind(relay.updated_at)
    .execute(tx.on())
    .await
    .map(drop)
}

fn relay(row: &Row) -> Result<SealedRelay, StoreError> {
    let columns = Columns { table: "relays", row };
    Ok(SealedRelay {
        id: RelayId(columns.uuid("id")?),
        account: columns.account("account_id")?,
        kind: columns.word("kind")?,
        url: columns.word("url")?,
        timeout: Duration::from_millis(columns.count("timeout_ms")?),
        headers: columns.bytes("headers")?,
        secret: columns.bytes("secret")?,
        success: columns.json("success_codes")?,
        revision: columns.integer("revision")?,
        created_at: columns.time("created_at")?,
        updated_at: columns.time("updated_at")?,
    })
}

/// Returns milliseconds for a column.
pub fn millis(time: Duration) -> i64 {
    stored(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
