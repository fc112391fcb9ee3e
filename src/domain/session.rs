//! The sessions of a room. A worker keeps its knowledge of a conversation under the key of a
//! session. A reset begins a new session.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use super::clock::Timestamp;
use super::id::SessionId;
use super::room::Room;

/// Key of a session for workers, written as `"<contactId>:<agentId>:<uuid>"`: the room and the
/// session's id. Keys are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionKey {
    pub room: Room,
    pub id: SessionId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be \"<roomId>:<uuid>\", as events and GET /computer/sessions show it")]
pub struct SessionKeyError;

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.room, self.id)
    }
}

impl FromStr for SessionKey {
    type Err = SessionKeyError;

    fn from_str(text: &str) -> Result<Self, SessionKeyError> {
        let (room, id) = text.rsplit_once(':').ok_or(SessionKeyError)?;
        let room = room.parse().map_err(|_| SessionKeyError)?;
        let id = Uuid::try_parse(id).map(SessionId).map_err(|_| SessionKeyError)?;
        let key = Self { room, id };
        // Each session has only one spelling.
        (key.to_string() == text).then_some(key).ok_or(SessionKeyError)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub key: SessionKey,
    pub started_at: Timestamp,
    /// Number of messages in the session, deleted ones included.
    pub messages: u64,
    /// Time of the latest message in its room.
    pub last_at: Option<Timestamp>,
    /// Set once the session was reset. Each room has one session that is not.
    pub ended: Option<Ended>,
}

/// The reset of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub at: Timestamp,
    /// In the words of the person who reset it.
    pub reason: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_spelling() {
        let text = "41:7:00000000-0000-0000-0000-0000000000cc";
        let key: SessionKey = text.parse().unwrap();
        assert_eq!((key.room.to_string().as_str(), key.to_string().as_str()), ("41:7", text));
        for odd in [
            "",
            "41:7",
            "41:7:",
            "41:7:x",
            "7:00000000-0000-0000-0000-0000000000cc",
            "041:7:00000000-0000-0000-0000-0000000000cc",
            "41:+7:00000000-0000-0000-0000-0000000000cc",
            "41:7:000000000000000000000000000000cc",
            "41:7:00000000-0000-0000-0000-0000000000CC",
            "41:7:{00000000-0000-0000-0000-0000000000cc}",
            "1:41:7:00000000-0000-0000-0000-0000000000cc",
            " 41:7:00000000-0000-0000-0000-0000000000cc",
        ] {
            assert_eq!(odd.parse::<SessionKey>(), Err(SessionKeyError), "{odd:?}");
        }
    }
}
