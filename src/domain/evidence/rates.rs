//! The rate limit that a message exceeded.

use serde::{Deserialize, Serialize};

use super::Word;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rates {
    /// `signature`, `sender` or `room`.
    pub over: Word,
    pub signature_messages_per_minute: u32,
    pub sender_messages_per_minute: u32,
    pub room_messages_per_minute: u32,
}
