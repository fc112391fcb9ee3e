//! Sessions of the console.

use std::net::IpAddr;

use super::clock::Timestamp;
use super::id::{AccountId, ConsoleSessionId, KeyId, MemberId};

/// A browser that signed in, or a link that nobody has opened yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleSession {
    pub id: ConsoleSessionId,
    /// The API key that it is bound to: it ends with this key.
    pub key: KeyId,
    /// The account of the key.
    pub account: AccountId,
    /// The member that owns the key; None if the account does.
    pub member: Option<MemberId>,
    /// Whether it is a link that nobody has opened yet.
    pub is_ticket: bool,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    /// The address that signed in.
    pub remote: Option<IpAddr>,
    /// The browser, by the name it gives itself (`User-Agent`).
    pub client: Option<String>,
}
