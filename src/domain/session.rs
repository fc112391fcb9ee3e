//! The sessions of a room: a worker keeps what it knows of a conversation under the key of a
//! session, and whoever wants it to begin anew resets that.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use super::clock::Timestamp;
use super::id::SessionId;
use super::room::Room;

/// What a worker knows a session by. Shown as `"<contactId>:<agentId>:<uuid>"`: the room, and which
/// of its sessions. No two sessions ever have the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionKey {
    pub room: Room,
    pub id: SessionId,
}

/// A text that is not spelled as a key of a session is.
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
        // One session has one spelling.
        (key.to_string() == text).then_some(key).ok_or(SessionKeyError)
    }
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub key: SessionKey,
    pub started_at: Timestamp,
    /// How many messages came in it, those that are gone by now among them.
    pub messages: u64,
    /// When the latest of its room came.
    pub last_at: Option<Timestamp>,
    /// Of one that was reset; of each room one is not.
    pub ended: Option<Ended>,
}

/// How a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub at: Timestamp,
    /// In the words of whoever reset it.
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
