//! Sessions of rooms: listing, finding and resetting them.

use super::{ComputerError, Computers};
use crate::domain::room::Room;
use crate::domain::scope::Scope;
use crate::domain::session::{Session, SessionKey};
use crate::store::{Cursor, ResetSession, RoomPlace, SessionList, truncate_page};

/// In bytes.
pub(super) const LONGEST_REASON: usize = 500;
/// Rooms read to find the latest session: some may be in the middle of an erasure.
const LATEST: u32 = 20;

/// A page of one room's sessions. The first page begins with the current one; ended ones follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomSessions {
    pub sessions: Vec<Session>,
    /// The cursor of the next page.
    pub next: Option<Cursor>,
}

/// The start of a page: behind a cursor of an earlier page, or behind a session.
#[derive(Clone, Copy, Debug)]
pub enum Behind<P> {
    Place(P),
    Session(SessionKey),
}

impl Computers {
    /// Lists the current sessions in `scope`, latest message first.
    pub async fn sessions(
        &self,
        scope: &Scope,
        before: Option<Behind<RoomPlace>>,
        limit: u32,
    ) -> Result<SessionList, ComputerError> {
        let before = match before {
            None => None,
            Some(Behind::Place(place)) => Some(place),
            Some(Behind::Session(SessionKey { room, .. })) => {
                let current =
                    self.store.room_session(scope, room).await?.ok_or(ComputerError::NoPlace)?;
                let at = current.last_at.unwrap_or(current.started_at);
                Some(RoomPlace { at, contact: room.contact.get(), agent: room.agent.get() })
            }
        };
        Ok(self.store.list_sessions(scope, before, limit).await?)
    }

    /// Lists the sessions of a room in `scope`, newest first.
    pub async fn sessions_of_room(
        &self,
        scope: &Scope,
        room: Room,
        before: Option<Behind<Cursor>>,
        limit: u32,
    ) -> Result<RoomSessions, ComputerError> {
        let current = self.store.room_session(scope, room).await?;
        let current = current.ok_or(ComputerError::NoRoom)?;
        let place = |session: &Session| {
            let ended = session.ended.as_ref()?;
            Some(Cursor { at: ended.at, id: session.key.id.0 })
        };
        let from = match before {
            None => None,
            Some(Behind::Place(place)) => Some(place),
            Some(Behind::Session(key)) => {
                let found = self.store.session(scope, key).await?;
                place(&found.filter(|found| found.key.room == room).ok_or(ComputerError::NoPlace)?)
            }
        };
        let mut ended = self.store.ended_sessions(room, from, limit.saturating_add(1)).await?;
        let more = truncate_page(&mut ended, limit);
        let next = ended.last().filter(|_| more).and_then(place);
        let first = before.is_none().then_some(current);
        Ok(RoomSessions { sessions: first.into_iter().chain(ended).collect(), next })
    }

    /// Returns the session of this key, current or ended, or `NoSession`. Without a key, the
    /// session with the latest message in `scope`, or `NothingCame`.
    pub async fn resolve(
        &self,
        scope: &Scope,
        key: Option<SessionKey>,
    ) -> Result<Session, ComputerError> {
        match key {
            Some(key) => self.store.session(scope, key).await?.ok_or(ComputerError::NoSession),
            None => {
                let latest = self.store.list_sessions(scope, None, LATEST).await?;
                latest.sessions.into_iter().next().ok_or(ComputerError::NothingCame)
            }
        }
    }

    /// Ends a session in `scope`: later messages of its room join another one. A session that has
    /// ended or has no message stays as it is.
    pub async fn reset(
        &self,
        scope: &Scope,
        key: SessionKey,
        reason: Option<&str>,
    ) -> Result<ResetSession, ComputerError> {
        let bad = |c: char| c.is_control();
        if reason.is_some_and(|reason| reason.len() > LONGEST_REASON || reason.chars().any(bad)) {
            return Err(ComputerError::Reason);
        }
        let done = self.store.reset_session(scope, key, reason, self.act()).await?;
        done.ok_or(ComputerError::NoSession)
    }
}
