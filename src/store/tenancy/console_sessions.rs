//! Sessions of the console, found by the hash of their secret.

use super::accounts;
use super::audit::{self, Note};
use super::keys::{HOLDER_COLUMNS, HOLDERS, KeyHolder, RevocableKeys, holder};
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::console_session::ConsoleSession;
use crate::domain::id::{ConsoleSessionId, KeyId, MemberId};
use crate::domain::key::KeyHash;
use crate::store::base::Base;
use crate::store::base::page::within;
use crate::store::engine::database::{retry_conflicts, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Row, Statement, sql};

/// Most sessions in a list, the newest.
const LISTED: i64 = 200;

/// A session with the key that it is bound to, and the holder of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleSessionHolder {
    pub session: ConsoleSession,
    pub holder: KeyHolder,
}

/// The session that an opened ticket becomes.
#[derive(Clone, Debug)]
pub struct TicketOpening {
    pub ticket: KeyHash,
    /// The hash of the session's own secret.
    pub hash: KeyHash,
    pub session: ConsoleSession,
}

impl Base {
    /// Adds a session under the hash of its secret. Deletes those of the same key that have
    /// expired.
    pub async fn add_console_session(
        &self,
        session: &ConsoleSession,
        hash: KeyHash,
    ) -> Result<(), StoreError> {
        transact!(self, async |tx| {
            sql("DELETE FROM console_sessions WHERE key_id = $1 AND expires_at <= $2")
                .bind(session.key.0)
                .bind(session.created_at)
                .execute(tx.on())
                .await?;
            insertion(session, hash).execute(tx.on()).await?;
            tx.commit().await
        })
    }

    /// Returns the open session with this hash and the holder of its key. None if it has expired by
    /// `now`, or if its key opens nothing, as `key_holder` says. Always runs one statement, and
    /// nothing is remembered between requests.
    pub async fn console_session(
        &self,
        hash: KeyHash,
        now: Timestamp,
    ) -> Result<Option<ConsoleSessionHolder>, StoreError> {
        self.found(hash, now, false).await
    }

    /// Returns a ticket that nobody has opened yet, as [`Self::console_session`] does.
    pub async fn console_ticket(
        &self,
        hash: KeyHash,
        now: Timestamp,
    ) -> Result<Option<ConsoleSessionHolder>, StoreError> {
        self.found(hash, now, true).await
    }

    async fn found(
        &self,
        hash: KeyHash,
        now: Timestamp,
        ticket: bool,
    ) -> Result<Option<ConsoleSessionHolder>, StoreError> {
        let mut query = sql("SELECT ");
        query.push(SESSION_COLUMNS).push(", ").push(HOLDER_COLUMNS).push(", ");
        query.push(accounts::COLUMNS).push(" FROM console_sessions ");
        query.push("JOIN keys ON keys.id = console_sessions.key_id ").push(HOLDERS);
        query.push(" AND (keys.expires_at IS NULL OR keys.expires_at > $1)");
        query.push(" AND console_sessions.expires_at > $1");
        query.push(" AND console_sessions.hash = $2 AND ticket = $3");
        let query = query.bind(now).bind(hash.0.as_slice()).bind(i64::from(ticket));
        let row = query.fetch_optional(self.reader()).await?;
        let found = row.as_ref().map(|row| {
            Ok(ConsoleSessionHolder { session: session(row)?, holder: holder(row)? })
        });
        found.transpose()
    }

    /// Turns a ticket into a session, once: of two who open it at once, one does. Returns whether
    /// this call did.
    pub async fn open_console_ticket(&self, opening: &TicketOpening) -> Result<bool, StoreError> {
        transact!(self, async |tx| {
            let opened = sql("DELETE FROM console_sessions WHERE hash = $1 AND ticket = 1")
                .bind(opening.ticket.0.as_slice())
                .execute(tx.on())
                .await?;
            if opened == 0 {
                return Ok(false);
            }
            insertion(&opening.session, opening.hash).execute(tx.on()).await?;
            tx.commit().await?;
            Ok(true)
        })
    }

    /// Returns the open sessions and unused tickets of the keys in reach, the newest first.
    pub async fn console_sessions(
        &self,
        reach: RevocableKeys<'_>,
        now: Timestamp,
    ) -> Result<Vec<ConsoleSession>, StoreError> {
        let mut query = sql("SELECT ");
        query.push(SESSION_COLUMNS).push(" FROM console_sessions ");
        query.push("JOIN keys ON keys.id = console_sessions.key_id");
        query.push(" WHERE revoked_at IS NULL AND console_sessions.expires_at > ").push_value(now);
        reached(&mut query, reach);
        query.push(" ORDER BY console_sessions.created_at DESC, console_sessions.id DESC LIMIT ");
        query.push_value(LISTED);
        let rows = query.fetch_all(self.reader()).await?;
        rows.iter().map(session).collect()
    }

    /// Ends a session, or a ticket, of a key in reach. Returns whether there was one.
    pub async fn end_console_session(
        &self,
        id: ConsoleSessionId,
        reach: RevocableKeys<'_>,
        act: Act<'_>,
    ) -> Result<bool, StoreError> {
        transact!(self, async |tx| {
            let mut query = sql("DELETE FROM console_sessions WHERE id = ");
            query.push_value(id.0);
            reached(&mut query, reach);
            query.push(" RETURNING account_id, key_id");
            let Some(row) = query.fetch_optional(tx.on()).await? else { return Ok(false) };
            let columns = Columns { table: "console_sessions", row: &row };
            let changes = [Change::gone("keyId", KeyId(columns.uuid("key_id")?))];
            let account = columns.account("account_id")?;
            let note = Note::new(account, Deed::ConsoleSessionEnded, &id, &changes);
            audit::note(&mut tx, self.mint(), act, note).await?;
            tx.commit().await?;
            Ok(true)
        })
    }

    /// Ends the session with this hash, if there is one.
    pub async fn sign_out_of_console(&self, hash: KeyHash) -> Result<(), StoreError> {
        transact!(self, async |tx| {
            sql("DELETE FROM console_sessions WHERE hash = $1")
                .bind(hash.0.as_slice())
                .execute(tx.on())
                .await?;
            tx.commit().await
        })
    }

    /// Deletes up to `limit` sessions that expired; None while another gateway deletes.
    pub async fn delete_console_sessions(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Option<u64>, StoreError> {
        const EXPIRED: &str = "DELETE FROM console_sessions WHERE id IN (
             SELECT id FROM console_sessions WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)";
        retry_conflicts!(self.delete_past(sql(EXPIRED), now, limit))
    }
}

const SESSION_COLUMNS: &str = "console_sessions.id AS session_id, key_id AS session_key,
     console_sessions.account_id AS session_account, console_sessions.member_id AS session_member,
     ticket, console_sessions.created_at AS session_created,
     console_sessions.expires_at AS session_expires, remote_address, client";

fn insertion(session: &ConsoleSession, hash: KeyHash) -> Statement {
    sql("INSERT INTO console_sessions
             (id, key_id, account_id, member_id, hash, ticket, created_at, expires_at,
              remote_address, client)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)")
    .bind(session.id.0)
    .bind(session.key.0)
    .bind(session.account)
    .bind(session.member.map(MemberId::get))
    .bind(hash.0.as_slice())
    .bind(i64::from(session.is_ticket))
    .bind(session.created_at)
    .bind(session.expires_at)
    .bind(session.remote.map(|remote| remote.to_string()))
    .bind(session.client.clone())
}

/// Appends the condition for sessions of keys in reach.
fn reached(query: &mut Statement, reach: RevocableKeys<'_>) {
    match reach {
        RevocableKeys::All => {}
        RevocableKeys::OfMember(id) => {
            query.push(" AND console_sessions.member_id = ").push_value(id.get());
        }
        RevocableKeys::InScope(scope) => {
            query.push(
                " AND EXISTS (SELECT 1 FROM accounts
                   WHERE accounts.id = console_sessions.account_id",
            );
            within(query.push(" AND "), scope);
            query.push(")");
        }
    }
}

fn session(row: &Row) -> Result<ConsoleSession, StoreError> {
    let columns = Columns { table: "console_sessions", row };
    let remote = columns.optional_text("remote_address")?;
    Ok(ConsoleSession {
        id: ConsoleSessionId(columns.uuid("session_id")?),
        key: KeyId(columns.uuid("session_key")?),
        account: columns.account("session_account")?,
        member: columns.optional_integer("session_member")?.and_then(MemberId::new),
        is_ticket: columns.flag("ticket")?,
        created_at: columns.time("session_created")?,
        expires_at: columns.time("session_expires")?,
        remote: remote.and_then(|text| text.parse().ok()),
        client: columns.optional_text("client")?,
    })
}
