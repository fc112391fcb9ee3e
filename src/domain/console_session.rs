//! A session of the web console: what a cookie stands for.

use std::net::IpAddr;

use uuid::Uuid;

use super::audit::{Actor, Who};
use super::clock::Timestamp;
use super::id::{AccountId, ConsoleSessionId, KeyId, MemberId};

/// A browser that signed in with an API key, or a link that is not opened yet. It opens what the
/// key opens, and ends with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleSession {
    pub id: ConsoleSessionId,
    pub key: KeyId,
    /// The account of the key.
    pub account: AccountId,
    /// The member that owns the key; None if the account does.
    pub member: Option<MemberId>,
    /// A link that is not opened yet, and so is no session.
    pub is_ticket: bool,
    pub created_at: Timestamp,
    /// The session is refused from this time on.
    pub expires_at: Timestamp,
    /// The address that signed in, or opened the link.
    pub remote: Option<IpAddr>,
    /// The browser, as it names itself (`User-Agent`).
    pub client: Option<String>,
}

impl ConsoleSession {
    /// The actor of what its browser does.
    pub const fn who(&self) -> Who {
        Who::Key { key: self.key, account: self.account, member: self.member }
    }
}

/// A browser that begins or ends its session.
#[derive(Clone, Debug, Default)]
pub struct Browser {
    pub remote: Option<IpAddr>,
    /// As it names itself (`User-Agent`).
    pub client: Option<String>,
    /// The id in `X-Request-Id`.
    pub request: Option<Uuid>,
}

impl Browser {
    /// The actor for the audit log.
    pub const fn actor(&self, who: Who) -> Actor {
        Actor { remote: self.remote, request: self.request, ..Actor::of(who) }
    }
}
