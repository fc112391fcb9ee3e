//! Sessions of the web console, found by the hash of their secret. A session is bound to an API
//! key: it is valid only while the key is, and every look-up reads both in one statement.

use super::accounts;
use super::audit::{self, Note};
use super::keys::{self, HOLDER_COLUMNS, HOLDERS, KeyHolder, KeyInsertion, RevocableKeys, holder};
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::console_session::{Browser, ConsoleSession};
use crate::domain::feature::Offer;
use crate::domain::id::{ConsoleSessionId, KeyId, MemberId};
use crate::domain::key::{Key, KeyHash, SessionHash};
use crate::store::base::Base;
use crate::store::base::page::within;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, Row, Statement, sql};

/// Most sessions of one list, the newest.
const LISTED: i64 = 200;
/// Most sessions of one key that one sign-in ends: rules may have become narrower.
const ENDED: i64 = 1000;

/// A session, with its key and the holder of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleSessionHolder {
    pub session: ConsoleSession,
    pub holder: KeyHolder,
}

/// A link to the console: a ticket, and a key for its session alone.
#[derive(Clone, Copy, Debug)]
pub struct NewConsoleLink<'a> {
    pub key: &'a Key,
    pub key_hash: KeyHash,
    /// Most keys in force of the owner.
    pub most_keys: u64,
    pub ticket: &'a ConsoleSession,
    pub ticket_hash: SessionHash,
}

/// The session that a ticket becomes.
#[derive(Clone, Debug)]
pub struct TicketOpening {
    pub ticket: SessionHash,
    /// The hash of the session's own secret.
    pub hash: SessionHash,
    pub expires_at: Timestamp,
    pub browser: Browser,
}

impl Base {
    /// Adds a session, and ends the oldest ones of the same key beyond `most`. Returns false if the
    /// key was revoked, or its account deleted, meanwhile. Locks the account (`audit::note`), then
    /// the key: a deletion or a revocation comes before or behind.
    pub async fn add_console_session(
        &self,
        session: &ConsoleSession,
        hash: SessionHash,
        most: u32,
        act: Act<'_>,
    ) -> Result<bool, StoreError> {
        transact!(self, async |tx| {
            let (deed, changes) =
                (Deed::ConsoleSessionBegun, beginning(session.key, session.expires_at));
            let note = Note::new(session.account, deed, &session.id, &changes);
            match audit::note(&mut tx, self.mint(), act, note).await {
                Err(StoreError::NoAccount) => return Ok(false),
                noted => noted?,
            }
            if !keys::is_unrevoked(&mut tx, session.key).await? {
                return Ok(false);
            }
            insert(&mut tx, session, hash).await?;
            let displaced = sql("DELETE FROM console_sessions WHERE id IN (
                     SELECT id FROM console_sessions WHERE key_id = $1
                     ORDER BY created_at DESC, id DESC LIMIT $2 OFFSET $3)
                 RETURNING id")
            .bind(session.key.0)
            .bind(ENDED)
            .bind(i64::from(most))
            .fetch_all(tx.on())
            .await?;
            for row in displaced {
                let id = ConsoleSessionId(Columns { table: TABLE, row: &row }.uuid("id")?);
                let changes = [Change::gone("keyId", session.key)];
                let note = Note::new(session.account, Deed::ConsoleSessionEnded, &id, &changes);
                audit::note(&mut tx, self.mint(), act, note).await?;
            }
            tx.commit().await?;
            Ok(true)
        })
    }

    /// Adds a key and the ticket of a link that acts for it, in one transaction, unless the key may
    /// not be made.
    pub async fn add_console_link(
        &self,
        link: NewConsoleLink<'_>,
        act: Act<'_>,
    ) -> Result<KeyInsertion, StoreError> {
        let NewConsoleLink { key, key_hash, most_keys, ticket, ticket_hash } = link;
        transact!(self, async |tx| {
            let outcome = keys::insert(&mut tx, key, key_hash, most_keys, act).await?;
            if outcome != KeyInsertion::Inserted {
                return Ok(outcome);
            }
            insert(&mut tx, ticket, ticket_hash).await?;
            let changes = keys::creation(key);
            let note = Note::new(key.account, Deed::KeyCreated, &key.id, &changes);
            audit::note(&mut tx, self.mint(), act, note).await?;
            let changes =
                [Change::made("keyId", key.id), Change::made("expiresAt", ticket.expires_at)];
            let note = Note::new(key.account, Deed::ConsoleLinkCreated, &ticket.id, &changes);
            audit::note(&mut tx, self.mint(), act, note).await?;
            tx.commit().await?;
            Ok(outcome)
        })
    }

    /// Returns the session with this hash and the holder of its key. None if it has expired, is a
    /// ticket, or its key opens nothing (as for `key_holder`, and expired keys). Always runs one
    /// statement, and nothing is remembered between requests. The index compares hashes of guesses,
    /// so timing tells nothing about a secret (threats E9).
    pub async fn console_session(
        &self,
        hash: SessionHash,
        now: Timestamp,
    ) -> Result<Option<ConsoleSessionHolder>, StoreError> {
        find(self.reader(), &self.offer, hash, now).await
    }

    /// Turns a ticket into a session, and returns it with its holder. None if the ticket was opened
    /// before, has expired, or its key opens nothing; of two that open it at once, one does.
    pub async fn open_console_ticket(
        &self,
        opening: &TicketOpening,
        now: Timestamp,
    ) -> Result<Option<ConsoleSessionHolder>, StoreError> {
        transact!(self, async |tx| {
            let Some(ticket) = with_hash(&mut tx, opening.ticket, true).await? else {
                return Ok(None);
            };
            let actor = opening.browser.actor(ticket.who());
            let changes = beginning(ticket.key, opening.expires_at);
            let note = Note::new(ticket.account, Deed::ConsoleSessionBegun, &ticket.id, &changes);
            match audit::note(&mut tx, self.mint(), actor.at(now), note).await {
                Err(StoreError::NoAccount) => return Ok(None),
                noted => noted?,
            }
            // On PostgreSQL the second of two waits here, and then finds another hash.
            let opened = sql("UPDATE console_sessions
                 SET hash = $1, ticket = 0, created_at = $2, expires_at = $3, remote = $4,
                     client = $5
                 WHERE hash = $6 AND ticket = 1 AND expires_at > $2")
            .bind(opening.hash.0.as_slice())
            .bind(now)
            .bind(opening.expires_at)
            .bind(opening.browser.remote.map(|address| address.to_string()))
            .bind(opening.browser.client.clone())
            .bind(opening.ticket.0.as_slice())
            .execute(tx.on())
            .await?;
            if opened == 0 {
                return Ok(None);
            }
            let found = find(tx.on(), &self.offer, opening.hash, now).await?;
            if found.is_some() {
                tx.commit().await?;
            }
            Ok(found)
        })
    }

    /// Returns the sessions of `revocable` keys that are open now, the newest first; never tickets.
    pub async fn console_sessions(
        &self,
        revocable: RevocableKeys<'_>,
        now: Timestamp,
    ) -> Result<Vec<ConsoleSession>, StoreError> {
        self.listed(listing(revocable, now), false).await
    }

    /// Returns the tickets of `revocable` keys that can be opened now, the newest first.
    pub async fn console_links(
        &self,
        revocable: RevocableKeys<'_>,
        now: Timestamp,
    ) -> Result<Vec<ConsoleSession>, StoreError> {
        self.listed(listing(revocable, now), true).await
    }

    async fn listed(
        &self,
        mut query: Statement,
        tickets: bool,
    ) -> Result<Vec<ConsoleSession>, StoreError> {
        query.push(" AND ticket = ").push_value(i64::from(tickets));
        query.push(" ORDER BY console_sessions.created_at DESC, console_sessions.id DESC LIMIT ");
        query.push_value(LISTED);
        let rows = query.fetch_all(self.reader()).await?;
        rows.iter().map(session).collect()
    }

    /// Ends an open session of a `revocable` key, or withdraws a link that is not opened yet, and
    /// returns it. None if there is none. From the commit on, every gateway refuses it.
    pub async fn end_console_session(
        &self,
        id: ConsoleSessionId,
        revocable: RevocableKeys<'_>,
        act: Act<'_>,
    ) -> Result<Option<ConsoleSession>, StoreError> {
        transact!(self, async |tx| {
            let mut query = listing(revocable, act.at);
            query.push(" AND console_sessions.id = ").push_value(id.0);
            let row = query.fetch_optional(tx.on()).await?;
            let Some(ended) = row.as_ref().map(session).transpose()? else { return Ok(None) };
            if !self.end(&mut tx, &ended, act).await? {
                return Ok(None);
            }
            tx.commit().await?;
            Ok(Some(ended))
        })
    }

    /// Ends the session with this hash, for its own browser. Returns whether there was one.
    pub async fn end_own_console_session(
        &self,
        hash: SessionHash,
        browser: &Browser,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        transact!(self, async |tx| {
            // An end by time has no entry of its own.
            let own = with_hash(&mut tx, hash, false).await?;
            let Some(own) = own.filter(|own| own.expires_at > now) else { return Ok(false) };
            let actor = browser.actor(own.who());
            if !self.end(&mut tx, &own, actor.at(now)).await? {
                return Ok(false);
            }
            tx.commit().await?;
            Ok(true)
        })
    }

    /// Deletes a session or a ticket, with its entry. Returns false if somebody else was faster,
    /// or opened the ticket: the transaction must be dropped. The account is locked before the row
    /// is, as its deletion does.
    async fn end(
        &self,
        tx: &mut Transaction,
        ended: &ConsoleSession,
        act: Act<'_>,
    ) -> Result<bool, StoreError> {
        let deed =
            if ended.is_ticket { Deed::ConsoleLinkWithdrawn } else { Deed::ConsoleSessionEnded };
        let mut changes = vec![Change::gone("keyId", ended.key)];
        changes.extend(ended.remote.map(|address| Change::gone("remoteAddress", address)));
        let note = Note::new(ended.account, deed, &ended.id, &changes);
        match audit::note(tx, self.mint(), act, note).await {
            Err(StoreError::NoAccount) => return Ok(false),
            noted => noted?,
        }
        let gone = sql("DELETE FROM console_sessions WHERE id = $1 AND ticket = $2")
            .bind(ended.id.0)
            .bind(i64::from(ended.is_ticket))
            .execute(tx.on())
            .await?;
        Ok(gone > 0)
    }
}

const TABLE: &str = "console_sessions";

/// The fields of a session that begins, for the audit log.
fn beginning(key: KeyId, expires_at: Timestamp) -> [Change; 2] {
    [Change::made("keyId", key), Change::made("expiresAt", expires_at)]
}

/// Returns the session, or the ticket, with this hash, whether it is open or not.
async fn with_hash(
    tx: &mut Transaction,
    hash: SessionHash,
    ticket: bool,
) -> Result<Option<ConsoleSession>, StoreError> {
    let mut query = sql("SELECT ");
    query.push(COLUMNS).push(", ").push(KEY_COLUMNS).push(FROM).push("WHERE ticket = ");
    query.push_value(i64::from(ticket)).push(" AND console_sessions.hash = ");
    query.push_value(hash.0.as_slice());
    let row = query.fetch_optional(tx.on()).await?;
    row.as_ref().map(session).transpose()
}

/// The columns that [`session`] reads besides those of its key.
const COLUMNS: &str = "console_sessions.id AS session_id,
     console_sessions.created_at AS session_created_at,
     console_sessions.expires_at AS session_expires_at, ticket, remote, client";
const KEY_COLUMNS: &str = "keys.id AS key_id, keys.account_id, member_id";

/// Joins the keys.
const FROM: &str = " FROM console_sessions JOIN keys ON keys.id = console_sessions.key_id ";

/// Begins a statement with the sessions, and tickets, that are open now.
fn open(columns: &[&str], now: Timestamp) -> Statement {
    let mut query = sql("SELECT ");
    query.push(COLUMNS).push(", ").push(&columns.join(", ")).push(FROM).push(HOLDERS);
    query.push(" AND console_sessions.expires_at > ").push_value(now);
    query.push(" AND (keys.expires_at IS NULL OR keys.expires_at > ").push_value(now).push(")");
    query
}

async fn find(
    on: Connection<'_>,
    offer: &Offer,
    hash: SessionHash,
    now: Timestamp,
) -> Result<Option<ConsoleSessionHolder>, StoreError> {
    let mut query = open(&[HOLDER_COLUMNS, accounts::COLUMNS], now);
    query.push(" AND ticket = 0 AND console_sessions.hash = ").push_value(hash.0.as_slice());
    let Some(row) = query.fetch_optional(on).await? else { return Ok(None) };
    Ok(Some(ConsoleSessionHolder { session: session(&row)?, holder: holder(&row, offer)? }))
}

/// Begins a statement with the open sessions of these keys.
fn listing(revocable: RevocableKeys<'_>, now: Timestamp) -> Statement {
    let mut query = open(&[KEY_COLUMNS], now);
    match revocable {
        RevocableKeys::All => {}
        RevocableKeys::OfMember(id) => {
            query.push(" AND member_id = ").push_value(id.get());
        }
        // Names the condition of the indexes of accounts.
        RevocableKeys::InScope(scope) => {
            within(query.push(" AND accounts.deleted_at IS NULL AND accounts."), scope);
        }
    }
    query
}

async fn insert(
    tx: &mut Transaction,
    session: &ConsoleSession,
    hash: SessionHash,
) -> Result<(), StoreError> {
    sql("INSERT INTO console_sessions (id, hash, key_id, created_at, expires_at, ticket, remote,
                                       client)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)")
    .bind(session.id.0)
    .bind(hash.0.as_slice())
    .bind(session.key.0)
    .bind(session.created_at)
    .bind(session.expires_at)
    .bind(i64::from(session.is_ticket))
    .bind(session.remote.map(|address| address.to_string()))
    .bind(session.client.clone())
    .execute(tx.on())
    .await?;
    Ok(())
}

fn session(row: &Row) -> Result<ConsoleSession, StoreError> {
    let columns = Columns { table: TABLE, row };
    Ok(ConsoleSession {
        id: ConsoleSessionId(columns.uuid("session_id")?),
        key: KeyId(columns.uuid("key_id")?),
        account: columns.account("account_id")?,
        member: columns.optional_integer("member_id")?.and_then(MemberId::new),
        is_ticket: columns.flag("ticket")?,
        created_at: columns.time("session_created_at")?,
        expires_at: columns.time("session_expires_at")?,
        remote: columns.optional_word("remote")?,
        client: columns.optional_text("client")?,
    })
}
