//! API keys, found by their hash.

use uuid::Uuid;

use super::accounts;
use super::audit::{self, Note};
use super::feature_columns::{feature_columns, has};
use super::members;
use crate::domain::account::Account;
use crate::domain::audit::{Act, Change, Deed, Who};
use crate::domain::clock::Timestamp;
use crate::domain::computer::ComputerState;
use crate::domain::feature::{Feature, Offer};
use crate::domain::id::{AccountId, KeyId, MemberId};
use crate::domain::key::{Key, KeyHash, KeyOwner};
use crate::domain::member::Member;
use crate::domain::scope::Scope;
use crate::store::base::Base;
use crate::store::base::page::within;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Row, Statement, sql};

/// A key with its account, and the member that owns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyHolder {
    pub key: Key,
    /// The account of the key, or of the member that owns it.
    pub account: Account,
    pub member: Option<Member>,
    /// The account has the feature `api`.
    pub has_api: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyInsertion {
    Inserted,
    /// The owner was deleted.
    NoOwner,
    /// The API key of the request was revoked meanwhile.
    NoMaker,
    /// The worker for whom it is was dismissed.
    NoWorker,
    /// The owner has as many valid keys as it may.
    TooMany,
}

/// The name of a key in a request.
#[derive(Clone, Copy, Debug)]
pub enum NamedKey {
    Id(KeyId),
    Hash(KeyHash),
}

/// The keys that a request may revoke.
#[derive(Clone, Copy, Debug)]
pub enum RevocableKeys<'a> {
    /// All keys: for the operator's command line.
    All,
    OfMember(MemberId),
    /// Keys of the accounts in a scope, and of their members.
    InScope(&'a Scope),
}

impl Base {
    /// Inserts a key by its hash, unless the owner has `most` valid keys. Locks the key that made
    /// the request: once a revocation has committed, the revoked key makes no other key.
    pub async fn insert_key(
        &self,
        key: &Key,
        hash: KeyHash,
        most: u64,
        act: Act<'_>,
    ) -> Result<KeyInsertion, StoreError> {
        transact!(self, async |tx| {
            let outcome = insert(&mut tx, key, hash, most, act).await?;
            if outcome == KeyInsertion::Inserted {
                // Without the key itself.
                let changes = creation(key);
                let note = Note::new(key.account, Deed::KeyCreated, &key.id, &changes);
                audit::note(&mut tx, self.mint(), act, note).await?;
                tx.commit().await?;
            }
            Ok(outcome)
        })
    }

    /// Returns the key with this hash and its holder. None if the key was revoked, its member
    /// removed, or its account or one above deleted or switched off; the caller checks
    /// `expires_at`. Always runs one statement, and nothing is remembered between requests. The
    /// index compares hashes of guesses, so timing tells nothing about a key (threats E9).
    pub async fn key_holder(&self, hash: KeyHash) -> Result<Option<KeyHolder>, StoreError> {
        let mut query = sql("SELECT ");
        query.push(HOLDER_COLUMNS).push(", ").push(accounts::COLUMNS).push(" FROM keys ");
        query.push(HOLDERS).push(" AND hash = $1");
        let row = query.bind(hash.0.as_slice()).fetch_optional(self.reader()).await?;
        row.as_ref().map(|row| holder(row, &self.offer)).transpose()
    }

    /// Returns all keys of an account and of its members, even revoked ones, the oldest first.
    pub async fn keys(&self, account: AccountId) -> Result<Vec<Key>, StoreError> {
        let rows = select("WHERE account_id = $1 ORDER BY created_at, id")
            .bind(account)
            .fetch_all(self.reader())
            .await?;
        rows.iter().map(key).collect()
    }

    /// Returns the valid keys of this owner alone, the oldest first.
    pub async fn keys_in_force(
        &self,
        owner: KeyOwner,
        now: Timestamp,
    ) -> Result<Vec<Key>, StoreError> {
        let mut query = select("");
        push_owner(&mut query, owner);
        query.push(" AND (expires_at IS NULL OR expires_at > ").push_value(now);
        query.push(") ORDER BY created_at, id");
        let rows = query.fetch_all(self.reader()).await?;
        rows.iter().map(key).collect()
    }

    /// Revokes a key that is `revocable`, and returns it; None if there is none, or it was revoked
    /// before. From the commit on, it is refused by every gateway.
    pub async fn revoke_key(
        &self,
        named: NamedKey,
        revocable: RevocableKeys<'_>,
        act: Act<'_>,
    ) -> Result<Option<Key>, StoreError> {
        transact!(self, async |tx| {
            let mut query = sql("UPDATE keys SET revoked_at = ");
            query.push_value(act.at).push(" WHERE revoked_at IS NULL");
            match named {
                NamedKey::Id(id) => query.push(" AND id = ").push_value(id.0),
                NamedKey::Hash(hash) => query.push(" AND hash = ").push_value(hash.0.as_slice()),
            };
            match revocable {
                RevocableKeys::All => &mut query,
                RevocableKeys::OfMember(id) => query.push(" AND member_id = ").push_value(id.get()),
                RevocableKeys::InScope(scope) => {
                    query
                        .push(" AND EXISTS (SELECT 1 FROM accounts WHERE accounts.id = account_id");
                    within(query.push(" AND "), scope);
                    query.push(")")
                }
            };
            query.push(" RETURNING ").push(COLUMNS);
            let row = query.fetch_optional(tx.on()).await?;
            let Some(revoked) = row.as_ref().map(key).transpose()? else { return Ok(None) };
            let changes = [Change::gone("lastFour", &revoked.last_four)];
            let note = Note::new(revoked.account, Deed::KeyRevoked, &revoked.id, &changes);
            audit::note(&mut tx, self.mint(), act, note).await?;
            tx.commit().await?;
            Ok(Some(revoked))
        })
    }

    /// Records the use of a key, unless a use after `since` is recorded. Returns whether it did.
    pub async fn record_key_use(
        &self,
        id: KeyId,
        now: Timestamp,
        since: Timestamp,
    ) -> Result<bool, StoreError> {
        transact!(self, async |tx| {
            let noted = sql("UPDATE keys SET last_used_at = $2
                             WHERE id = $1 AND (last_used_at IS NULL OR last_used_at <= $3)")
            .bind(id.0)
            .bind(now)
            .bind(since)
            .execute(tx.on())
            .await?;
            tx.commit().await?;
            Ok(noted > 0)
        })
    }
}

/// Inserts a key, unless something forbids it; the caller notes it in the audit log.
pub async fn insert(
    tx: &mut Transaction,
    key: &Key,
    hash: KeyHash,
    most: u64,
    act: Act<'_>,
) -> Result<KeyInsertion, StoreError> {
    gates::take_turn(tx, "keys", key.owner().id()).await?;
    if !owner_exists(tx, key.owner()).await? {
        return Ok(KeyInsertion::NoOwner);
    }
    if let Who::Key { key: maker, .. } = &act.by.who
        && !is_unrevoked(tx, *maker).await?
    {
        return Ok(KeyInsertion::NoMaker);
    }
    if let Some(job) = key.worker_job
        && !is_provisioned_by(tx, key.account, job).await?
    {
        return Ok(KeyInsertion::NoWorker);
    }
    // Marks expired keys as revoked: the index of the count does not know the time.
    let mut expired = sql("UPDATE keys SET revoked_at = expires_at");
    push_owner(&mut expired, key.owner());
    expired.push(" AND expires_at <= ").push_value(act.at);
    expired.execute(tx.on()).await?;
    let mut valid = sql("SELECT COUNT(*) AS valid FROM keys");
    push_owner(&mut valid, key.owner());
    let row = valid.fetch_one(tx.on()).await?;
    if (Columns { table: "keys", row: &row }).count("valid")? >= most {
        return Ok(KeyInsertion::TooMany);
    }
    sql("INSERT INTO keys (id, account_id, member_id, hash, last_four, purpose, created_at,
                           expires_at, worker_job, mcp_changes)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)")
    .bind(key.id.0)
    .bind(key.account)
    .bind(key.member.map(MemberId::get))
    .bind(hash.0.as_slice())
    .bind(key.last_four.clone())
    .bind(key.purpose.clone())
    .bind(key.created_at)
    .bind(key.expires_at.map(Timestamp::millis))
    .bind(key.worker_job)
    .bind(i64::from(key.mcp_changes))
    .execute(tx.on())
    .await?;
    Ok(KeyInsertion::Inserted)
}

/// Returns the fields of a new key for the audit log.
pub fn creation(key: &Key) -> Vec<Change> {
    let mut changes =
        vec![Change::made("purpose", &key.purpose), Change::made("lastFour", &key.last_four)];
    changes.extend(key.member.map(|member| Change::made("memberId", member)));
    changes.extend(key.expires_at.map(|end| Change::made("expiresAt", end)));
    changes.extend(key.worker_job.map(|_| Change::made("type", key.kind())));
    changes.extend(key.mcp_changes.then(|| Change::made("mcpChanges", true)));
    changes
}

/// Whether the key was not revoked. Locks it: a revocation waits until the transaction ends.
pub async fn is_unrevoked(tx: &mut Transaction, id: KeyId) -> Result<bool, StoreError> {
    let found = sql("SELECT id FROM keys WHERE id = $1 AND revoked_at IS NULL")
        .locking("FOR SHARE")
        .bind(id.0)
        .fetch_optional(tx.on())
        .await?;
    Ok(found.is_some())
}

/// Whether the key is valid, all accounts above it are active, and its account has `secretRelease`.
/// Locks the key: a revocation waits until the transaction ends.
pub async fn may_have_secrets(
    tx: &mut Transaction,
    id: KeyId,
    now: Timestamp,
    offer: &Offer,
) -> Result<bool, StoreError> {
    let mut query = sql("SELECT accounts.partner_id, accounts.reseller_id,
                                accounts.organization_id, accounts.agent_id,");
    query.push(feature_columns!("secretRelease" of "accounts")).push(" FROM keys ").push(HOLDERS);
    query.push(" AND keys.id = ").push_value(id.0);
    query.push(" AND (expires_at IS NULL OR expires_at > ").push_value(now).push(")");
    let row = query.locking("FOR SHARE OF keys").fetch_optional(tx.on()).await?;
    let Some(row) = row else { return Ok(false) };
    has(&Columns { table: "keys", row: &row }, offer, Feature::SecretRelease)
}

/// Whether this job provisioned the Agent's computer, as the last one. Locks the record.
async fn is_provisioned_by(
    tx: &mut Transaction,
    agent: AccountId,
    job: Uuid,
) -> Result<bool, StoreError> {
    let found = sql("SELECT agent_id FROM computers
                     WHERE agent_id = $1 AND job_id = $2 AND state = $3")
    .locking("FOR SHARE")
    .bind(agent)
    .bind(job)
    .bind(ComputerState::Provisioned.as_str())
    .fetch_optional(tx.on())
    .await?;
    Ok(found.is_some())
}

/// Whether the owner of a new key exists. Locks a member: its removal waits, and revokes the key.
async fn owner_exists(tx: &mut Transaction, owner: KeyOwner) -> Result<bool, StoreError> {
    let query = match owner {
        KeyOwner::Account(_) => sql("SELECT id FROM accounts WHERE id = $1 AND deleted_at IS NULL"),
        KeyOwner::Member(_) => {
            sql("SELECT id FROM members WHERE id = $1 AND removed_at IS NULL").locking("FOR SHARE")
        }
    };
    Ok(query.bind(owner.id()).fetch_optional(tx.on()).await?.is_some())
}

/// The columns that [`holder`] reads besides those of the account.
pub const HOLDER_COLUMNS: &str = concat!(
    "keys.id AS key_id, keys.account_id, member_id, last_four, purpose,
     keys.created_at AS key_created_at, keys.expires_at, last_used_at, revoked_at, worker_job,
     mcp_changes, email, role, permitted, members.created_at AS member_created_at,",
    feature_columns!("api" of "accounts"),
);

/// Joins the holders to `keys`, and leaves out keys that are not valid.
pub const HOLDERS: &str = "JOIN accounts ON accounts.id = keys.account_id
      LEFT JOIN members ON members.id = member_id AND removed_at IS NULL
     WHERE revoked_at IS NULL
       AND (member_id IS NULL OR members.id IS NOT NULL)
       AND NOT EXISTS (
           SELECT 1 FROM accounts AS above
           WHERE above.id IN (accounts.partner_id, accounts.reseller_id,
                              accounts.organization_id, accounts.agent_id)
             AND (above.active = 0 OR above.deleted_at IS NOT NULL))";

const COLUMNS: &str = "id AS key_id, account_id, member_id, last_four, purpose,
     created_at AS key_created_at, expires_at, last_used_at, revoked_at, worker_job,
     mcp_changes";

fn select(rest: &'static str) -> Statement {
    let mut query = sql("SELECT ");
    query.push(COLUMNS).push(" FROM keys ").push(rest);
    query
}

/// Appends the condition for keys of exactly this owner that were not revoked.
fn push_owner(query: &mut Statement, owner: KeyOwner) {
    query.push(match owner {
        KeyOwner::Account(_) => " WHERE member_id IS NULL AND account_id = ",
        KeyOwner::Member(_) => " WHERE member_id = ",
    });
    query.push_value(owner.id()).push(" AND revoked_at IS NULL");
}

fn key(row: &Row) -> Result<Key, StoreError> {
    let columns = Columns { table: "keys", row };
    Ok(Key {
        id: KeyId(columns.uuid("key_id")?),
        account: columns.account("account_id")?,
        member: columns.optional_integer("member_id")?.and_then(MemberId::new),
        purpose: columns.text("purpose")?,
        last_four: columns.text("last_four")?,
        created_at: columns.time("key_created_at")?,
        expires_at: columns.optional_time("expires_at")?,
        last_used_at: columns.optional_time("last_used_at")?,
        revoked_at: columns.optional_time("revoked_at")?,
        worker_job: columns.optional_uuid("worker_job")?,
        mcp_changes: columns.flag("mcp_changes")?,
    })
}

pub fn holder(row: &Row, offer: &Offer) -> Result<KeyHolder, StoreError> {
    let key = key(row)?;
    let has_api = has(&Columns { table: "keys", row }, offer, Feature::Api)?;
    let member = key.member.map(|_| members::member(row));
    Ok(KeyHolder { account: accounts::account(row)?, member: member.transpose()?, key, has_api })
}
