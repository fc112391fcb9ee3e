//! The session in which a message came, in the words of Received fields.

use serde::{Deserialize, Serialize};

use super::Word;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub helo: String,
    /// The word after `with` in a Received field (RFC 3848, RFC 6531 §4.3), or `HTTP`.
    pub protocol: Word,
    /// None if unencrypted.
    pub tls: Option<Tls>,
    /// Bytes.
    pub size: u64,
    /// When the message was examined; None if it was not read completely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tls {
    pub version: String,
    pub cipher: String,
}
