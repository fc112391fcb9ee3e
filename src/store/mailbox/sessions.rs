//! Sessions of rooms. The room's row names the current session, which the next message joins. A
//! session that was reset has a row in `sessions`, deleted with its room, or once the room has no
//! message from before its end.
//!
//! A commit locks the contact before it reads the current session; a reset locks the contact before
//! it changes it. So no message joins a session after its reset was reported.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::entry::FiledMessage;
use super::presence::PRESENT_ROOM;
use super::room_ranges::{Enclosure, RoomPlace, RoomRange, RowWindow, place};
use super::rooms::{contains, room};
use crate::domain::account::AccountType;
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::clock::TimeRange;
use crate::domain::contact::ContactChange;
use crate::domain::id::{AccountId, SessionId};
use crate::domain::room::Room;
use crate::domain::scope::Scope;
use crate::domain::session::{Ended, Session, SessionKey};
use crate::domain::source::Inbox;
use crate::store::base::Base;
use crate::store::base::page::{Cursor, Direction, Page, below, in_range};
use crate::store::engine::database::{Transaction, retry_conflicts};
use crate::store::engine::error::StoreError;
use crate::store::engine::many::{Many, many};
use crate::store::engine::row::{Columns, stored};
use crate::store::engine::sql::{Connection, Row, Statement, sql};
use crate::store::tenancy::audit::{self, Note};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResetSession {
    /// The named session, which has ended. None if it has no messages: it goes on.
    pub ended: Option<Session>,
    /// The session that the next message joins.
    pub current: Session,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionList {
    pub sessions: Vec<Session>,
    /// The place where the next page begins; None on the last page.
    pub next: Option<RoomPlace>,
}

impl Base {
    /// Returns the current sessions in `scope`, the latest message first. Reads at most `limit`
    /// rooms, including rooms under erasure, which the list leaves out.
    pub async fn list_sessions(
        &self,
        scope: &Scope,
        before: Option<RoomPlace>,
        limit: u32,
    ) -> Result<SessionList, StoreError> {
        let wanted = limit.saturating_add(1);
        let mut ranges: Vec<(RoomRange, Inbox)> = Vec::new();
        for inbox in Inbox::ALL.iter().copied() {
            let whole = RoomRange { level: scope.level(), account: scope.root() };
            let conditions = |query: &mut Statement| push_place(query, whole, inbox, before);
            let agent =
                |account: &AccountId| RoomRange { level: AccountType::Agent, account: *account };
            let some = match scope.permitted() {
                None => self.room_ranges(scope, conditions, wanted).await?,
                Some(agents) => agents.iter().map(agent).collect(),
            };
            ranges.extend(some.into_iter().map(|range| (range, inbox)));
        }
        let part = |query: &mut Statement, (range, inbox): &(RoomRange, Inbox)| {
            query.push(
                "SELECT contact_id, agent_id, session_id, session_at, session_messages, last_at
                 FROM rooms WHERE ",
            );
            below(query, range.level, range.account);
            if scope.permitted().is_some() {
                // The sum keeps the planner from the account's index range, which is too wide.
                query.push(" AND 0 + ");
                in_range(query, scope);
            }
            push_place(query, *range, *inbox, before);
        };
        let window = RowWindow { skip: 0, limit: wanted };
        let rows = self.first_of_ranges(&ranges, part, Enclosure::default(), window).await?;
        let shown = usize::try_from(limit).unwrap_or(usize::MAX).min(rows.len());
        let mut found = Vec::with_capacity(shown);
        for row in rows.get(..shown).unwrap_or_default() {
            let columns = Columns { table: "rooms", row };
            found.push((place(&columns)?, room(&columns)?, current(&columns)?));
        }
        let next = found.last().map(|(place, ..)| *place).filter(|_| rows.len() > shown);
        let subjects = found.iter().flat_map(|(_, room, _)| [room.contact.get(), room.agent.get()]);
        let erased = find_erased(self.reader(), subjects.collect()).await?;
        found.retain(|(_, room, _)| {
            ![room.contact.get(), room.agent.get()].iter().any(|id| erased.contains(id))
        });
        let sessions = found.into_iter().filter_map(|(_, _, session)| session).collect();
        Ok(SessionList { sessions, next })
    }

    /// Returns the current session of a room in `scope`; None if there is no such room.
    pub async fn room_session(
        &self,
        scope: &Scope,
        room: Room,
    ) -> Result<Option<Session>, StoreError> {
        find_current(self.reader(), scope, room).await
    }

    /// Returns a page of the ended sessions of a room, the newest first. The caller has checked
    /// that the room is in its scope.
    pub async fn ended_sessions(
        &self,
        room: Room,
        before: Option<Cursor>,
        limit: u32,
    ) -> Result<Vec<Session>, StoreError> {
        let mut query = select_ended().bind(room.contact.get()).bind(room.agent);
        let from = before.map(|cursor| (Direction::Before, cursor));
        Page { limit, from, until: None }.read_by("ended_at", &mut query, TimeRange::default());
        query.fetch_all(self.reader()).await?.iter().map(ended_session).collect()
    }

    /// Returns a session of a room in `scope`, current or ended.
    pub async fn session(
        &self,
        scope: &Scope,
        key: SessionKey,
    ) -> Result<Option<Session>, StoreError> {
        let current = find_current(self.reader(), scope, key.room).await?;
        match current {
            Some(current) if current.key != key => find_ended(self.reader(), key).await,
            current => Ok(current),
        }
    }

    /// Ends the session of a room in `scope`: the next message joins another session. Returns None
    /// if there is no such session. A session that has ended already is returned unchanged.
    pub async fn reset_session(
        &self,
        scope: &Scope,
        key: SessionKey,
        reason: Option<&str>,
        act: Act<'_>,
    ) -> Result<Option<ResetSession>, StoreError> {
        retry_conflicts!(self.try_reset_session(scope, key, reason, act))
    }

    async fn try_reset_session(
        &self,
        scope: &Scope,
        key: SessionKey,
        reason: Option<&str>,
        act: Act<'_>,
    ) -> Result<Option<ResetSession>, StoreError> {
        // Checks the scope before locking: a caller without access must not delay mail.
        if find_current(self.reader(), scope, key.room).await?.is_none() {
            return Ok(None);
        }
        let mut tx = self.begin().await?;
        let contact = sql("SELECT organization_id FROM contacts WHERE id = $1")
            .bind(key.room.contact.get())
            .locking("FOR NO KEY UPDATE OF contacts")
            .fetch_optional(tx.on())
            .await?;
        let Some(contact) = contact else { return Ok(None) };
        let organization =
            Columns { table: "contacts", row: &contact }.account("organization_id")?;
        let Some(current) = find_current(tx.on(), scope, key.room).await? else { return Ok(None) };
        if current.key != key {
            let ended = find_ended(tx.on(), key).await?;
            return Ok(ended.map(|ended| ResetSession { ended: Some(ended), current }));
        }
        if current.messages == 0 {
            return Ok(Some(ResetSession { ended: None, current }));
        }
        // Another gateway's clock may be ahead. The session must not end before its last message:
        // its row would be deleted while the message exists.
        let at = act.at.max(current.started_at).max(current.last_at.unwrap_or(act.at));
        let next = SessionKey { room: key.room, id: SessionId(self.mint().uuid()) };
        let changed = sql("UPDATE rooms SET session_id = $3, session_at = $4, session_messages = 0
                           WHERE contact_id = $1 AND agent_id = $2")
        .bind(key.room.contact.get())
        .bind(key.room.agent)
        .bind(next.id.0)
        .bind(at)
        .execute(tx.on())
        .await?;
        if changed == 0 {
            // Its last message was deleted meanwhile, and the room with it.
            return Ok(None);
        }
        let reason = reason.map(str::to_owned);
        let ended = Session { ended: Some(Ended { at, reason }), last_at: None, ..current.clone() };
        insert_ended(&mut tx, &ended, organization).await?;
        let changes = [Change::new("sessionKey", Some(key), Some(next))];
        let (deed, object) = (Deed::SessionReset, key.room.to_string());
        let note = Note { account: key.room.agent, deed, object, changes: &changes };
        audit::note(&mut tx, self.mint(), act, note).await?;
        tx.commit().await?;
        let current = Session { key: next, started_at: at, messages: 0, ..current };
        Ok(Some(ResetSession { ended: Some(ended), current }))
    }
}

/// Asks for the current sessions of these rooms; new contacts have none yet. The caller holds the
/// contacts locked.
pub fn known(filed: &[FiledMessage<'_>]) -> Many {
    let created: BTreeSet<_> = filed
        .iter()
        .filter(|one| one.change == ContactChange::Created)
        .map(|one| one.contact)
        .collect();
    let rooms: BTreeSet<Room> = filed.iter().map(FiledMessage::room).collect();
    let rooms = rooms.into_iter().filter(|room| !created.contains(&room.contact));
    many(
        "WITH given (contact, agent) AS ({rows})
         SELECT contact_id, agent_id, session_id FROM given CROSS JOIN rooms
         WHERE contact_id = given.contact AND agent_id = given.agent",
        rooms.map(|room| vec![room.contact.get().into(), room.agent.into()]).collect(),
    )
}

/// Finds or begins the session of each message. A new session has the id of its first message, so
/// that no two sessions share an id.
pub fn assign(known: &[Row], filed: &mut [FiledMessage<'_>]) -> Result<(), StoreError> {
    let mut sessions: HashMap<Room, SessionId> = HashMap::new();
    for row in known {
        let columns = Columns { table: "rooms", row };
        if let Some(id) = columns.optional_uuid("session_id")? {
            sessions.insert(room(&columns)?, SessionId(id));
        }
    }
    for one in filed {
        one.session = *sessions.entry(one.room()).or_insert(one.session);
    }
    Ok(())
}

/// Appends the condition for rooms of an inbox behind a place, spelled with the columns of the
/// index: the index of an Agent's rooms does not have the Agent.
fn push_place(query: &mut Statement, range: RoomRange, inbox: Inbox, before: Option<RoomPlace>) {
    query.push(" AND inbox = ").push_value(inbox.as_str());
    let Some(place) = before else { return };
    match range.level {
        AccountType::Agent => {
            let sign = if range.account.get() < place.agent { "<=" } else { "<" };
            query.push(" AND (last_at, contact_id) ").push(sign).push(" (").push_value(place.at);
            query.push(", ").push_value(place.contact);
        }
        _ => {
            query.push(" AND (last_at, contact_id, agent_id) < (").push_value(place.at);
            query.push(", ").push_value(place.contact).push(", ").push_value(place.agent);
        }
    }
    query.push(")");
}

/// Returns those of these contacts and Agents that are under erasure.
async fn find_erased(on: Connection<'_>, ids: BTreeSet<i64>) -> Result<HashSet<i64>, StoreError> {
    let found = many(
        "WITH given (id) AS ({rows})
         SELECT subject FROM given CROSS JOIN erasures WHERE subject = given.id",
        ids.into_iter().map(|id| vec![id.into()]).collect(),
    )
    .fetch_all(on)
    .await?;
    found.iter().map(|row| Columns { table: "erasures", row }.integer("subject")).collect()
}

async fn find_current(
    on: Connection<'_>,
    scope: &Scope,
    room: Room,
) -> Result<Option<Session>, StoreError> {
    let mut query = sql("SELECT partner_id, reseller_id, organization_id, agent_id, contact_id,
                                session_id, session_at, session_messages, last_at
                         FROM rooms WHERE contact_id = $1 AND agent_id = $2")
    .bind(room.contact.get())
    .bind(room.agent);
    query.push(PRESENT_ROOM);
    let Some(row) = query.fetch_optional(on).await? else { return Ok(None) };
    let columns = Columns { table: "rooms", row: &row };
    match contains(scope, &columns.lineage()?, room.agent) {
        true => current(&columns),
        false => Ok(None),
    }
}

/// Reads the current session from the row of its room.
fn current(columns: &Columns<'_>) -> Result<Option<Session>, StoreError> {
    let Some(id) = columns.optional_uuid("session_id")? else { return Ok(None) };
    let last_at = columns.time("last_at")?;
    Ok(Some(Session {
        key: SessionKey { room: room(columns)?, id: SessionId(id) },
        started_at: columns.optional_time("session_at")?.unwrap_or(last_at),
        messages: columns.count("session_messages")?,
        last_at: Some(last_at),
        ended: None,
    }))
}

/// Selects ended sessions of a room; the contact and the Agent must be bound.
fn select_ended() -> Statement {
    sql("SELECT id, contact_id, agent_id, started_at, ended_at, messages, reason FROM sessions
         WHERE contact_id = $1 AND agent_id = $2")
}

async fn find_ended(on: Connection<'_>, key: SessionKey) -> Result<Option<Session>, StoreError> {
    let mut query = select_ended().bind(key.room.contact.get()).bind(key.room.agent);
    query.push(" AND id = ").push_value(key.id.0);
    query.fetch_optional(on).await?.as_ref().map(ended_session).transpose()
}

fn ended_session(row: &Row) -> Result<Session, StoreError> {
    let columns = Columns { table: "sessions", row };
    let (at, reason) = (columns.time("ended_at")?, columns.optional_text("reason")?);
    Ok(Session {
        key: SessionKey { room: room(&columns)?, id: SessionId(columns.uuid("id")?) },
        started_at: columns.time("started_at")?,
        messages: columns.count("messages")?,
        last_at: None,
        ended: Some(Ended { at, reason }),
    })
}

async fn insert_ended(
    tx: &mut Transaction,
    session: &Session,
    organization: AccountId,
) -> Result<(), StoreError> {
    let Some(ended) = &session.ended else { return Ok(()) };
    sql("INSERT INTO sessions (id, contact_id, agent_id, started_at, ended_at, messages, reason,
                               organization_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)")
    .bind(session.key.id.0)
    .bind(session.key.room.contact.get())
    .bind(session.key.room.agent)
    .bind(session.started_at)
    .bind(ended.at)
    .bind(stored(session.messages))
    .bind(ended.reason.as_deref())
    .bind(organization)
    .execute(tx.on())
    .await
    .map(drop)
}
