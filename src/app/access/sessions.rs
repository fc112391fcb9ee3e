//! Sessions of the web console: a browser signs in with an API key once, and then shows a secret of
//! its own. A session opens what its key opens, and ends with it.
//!
//! The secret is in the browser's cookie, and the store has its hash. A link of the operator is a
//! ticket: it is opened once, and becomes a session of a key of its own, whose token nobody learns.

use std::fmt::Write as _;
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac::{self, HMAC_SHA256};

use super::{Access, Caller, Denied, Target, token};
use crate::domain::audit::Actor;
use crate::domain::clock::Timestamp;
use crate::domain::console_session::{Browser, ConsoleSession};
use crate::domain::id::{AccountId, ConsoleSessionId, KeyId};
use crate::domain::key::{Key, KeyHash, SessionHash};
use crate::store::{ConsoleSessionHolder, KeyInsertion, NewConsoleLink, StoreError, TicketOpening};

/// Most characters of a browser's name that are kept: the browser chooses it.
const MAX_CLIENT: usize = 200;

/// The purpose of the key behind a link.
const LINK: &str = "console link";

/// A new session. Only its browser gets the secret, once.
pub struct SignedIn {
    pub session: ConsoleSession,
    /// Begins with `gps_`.
    pub secret: String,
    pub caller: Caller,
}

/// A session, and the caller that it acts for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visitor {
    pub session: ConsoleSession,
    pub caller: Caller,
}

/// A link to the console, shown once.
pub struct ConsoleLink {
    /// The ticket: whoever sends it first is signed in.
    pub secret: String,
    /// The link must be opened before.
    pub expires_at: Timestamp,
    /// The key of the link's session; revoking it ends the link and the session.
    pub key: Key,
    /// Time for which the session lasts, from the opening on.
    pub session: Duration,
}

/// Why a link was not made.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error("a link can wait for 1 to {most} minutes (console.max_link_minutes of access.toml)")]
    Minutes { most: u64 },
    #[error("there is no account {0}")]
    NoAccount(AccountId),
    #[error("the key of this request has just been revoked")]
    MakerRevoked,
    #[error("an account has at most {most} keys in force: revoke one first")]
    TooManyKeys { most: u64 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Access {
    /// Signs a browser in with an API key. The session lasts for `session_hours` of `access.toml`,
    /// and no longer than the key.
    pub async fn sign_in(&self, token: &str, from: Browser) -> Result<SignedIn, Denied> {
        let from = bounded(from);
        let caller = self.caller(Some(token)).await?;
        caller.enters()?;
        let now = self.clock.now();
        let (key, end) = (&caller.key, now.plus(self.console.session()));
        let session = ConsoleSession {
            id: ConsoleSessionId(self.mint.uuid()),
            key: key.id,
            account: key.account,
            member: key.member,
            is_ticket: false,
            created_at: now,
            expires_at: key.expires_at.map_or(end, |key_ends| key_ends.min(end)),
            remote: from.remote,
            client: from.client.clone(),
        };
        let (secret, hash) = self.new_secret();
        let (actor, most) = (from.actor(session.who()), self.console.max_per_key);
        match self.store.add_console_session(&session, hash, most, actor.at(now)).await? {
            true => Ok(SignedIn { session, secret, caller }),
            false => Err(Denied::NoKey),
        }
    }

    /// Returns the session with this secret, or [`Denied::NoKey`] if there is none, or it or its
    /// key has ended. Every request reads the store, in one statement: a key that another gateway
    /// revoked a moment ago opens nothing here.
    pub async fn session(&self, secret: Option<&str>) -> Result<Visitor, Denied> {
        let now = self.clock.now();
        let found = self.store.console_session(hash_of(secret), now).await?;
        self.visitor(found, now)
    }

    fn visitor(
        &self,
        found: Option<ConsoleSessionHolder>,
        now: Timestamp,
    ) -> Result<Visitor, Denied> {
        let ConsoleSessionHolder { session, holder } = found.ok_or(Denied::NoKey)?;
        Ok(Visitor { session, caller: self.caller_of(holder, now)? })
    }

    /// Ends the session with this secret. Returns whether there was one.
    pub async fn sign_out(&self, secret: &str, from: &Browser) -> Result<bool, Denied> {
        let hash = hash_of(Some(secret));
        Ok(self.store.end_own_console_session(hash, from, self.clock.now()).await?)
    }

    /// Returns the open sessions of a member, or of an account, all below it and their members: the
    /// newest 200.
    pub async fn sessions(&self, target: &Target) -> Result<Vec<ConsoleSession>, Denied> {
        Ok(self.store.console_sessions(target.keys(), self.clock.now()).await?)
    }

    /// Returns the links that sign in as this account, or as one below it, and that nobody has
    /// opened yet: the newest 200.
    pub async fn links(&self, target: &Target) -> Result<Vec<ConsoleSession>, Denied> {
        Ok(self.store.console_links(target.keys(), self.clock.now()).await?)
    }

    /// Ends a session of the target, or withdraws a link that is not opened yet. Returns whether
    /// there was one.
    pub async fn end_session(
        &self,
        target: &Target,
        id: ConsoleSessionId,
        actor: &Actor,
    ) -> Result<bool, Denied> {
        let act = actor.at(self.clock.now());
        Ok(self.store.end_console_session(id, target.keys(), act).await?.is_some())
    }

    /// Makes a link that signs one browser in as this account, if it is opened within `minutes`.
    /// Its key expires when a session that begins last would end.
    pub async fn link(
        &self,
        account: AccountId,
        minutes: u64,
        actor: &Actor,
    ) -> Result<ConsoleLink, LinkError> {
        let most = self.console.max_link_minutes;
        if !(1..=most).contains(&minutes) {
            return Err(LinkError::Minutes { most });
        }
        let now = self.clock.now();
        let expires_at = now.plus(Duration::from_secs(minutes.saturating_mul(60)));
        // The token is dropped here: only the session acts for this key.
        let (token, key_hash) = token::API.mint(&self.mint);
        let key = Key {
            id: KeyId(self.mint.uuid()),
            account,
            member: None,
            purpose: LINK.to_owned(),
            last_four: token::last_four(&token),
            created_at: now,
            expires_at: Some(expires_at.plus(self.console.link_session())),
            last_used_at: None,
            revoked_at: None,
            worker_job: None,
            mcp_changes: false,
        };
        let ticket = ConsoleSession {
            id: ConsoleSessionId(self.mint.uuid()),
            key: key.id,
            account,
            member: None,
            is_ticket: true,
            created_at: now,
            expires_at,
            remote: None,
            client: None,
        };
        let (secret, ticket_hash) = self.new_secret();
        let most_keys = self.max_keys;
        let new = NewConsoleLink { key: &key, key_hash, most_keys, ticket: &ticket, ticket_hash };
        match self.store.add_console_link(new, actor.at(now)).await? {
            KeyInsertion::Inserted => {
                let session = self.console.link_session();
                Ok(ConsoleLink { secret, expires_at, key, session })
            }
            KeyInsertion::NoOwner => Err(LinkError::NoAccount(account)),
            KeyInsertion::NoMaker | KeyInsertion::NoWorker => Err(LinkError::MakerRevoked),
            KeyInsertion::TooMany => Err(LinkError::TooManyKeys { most: most_keys }),
        }
    }

    /// Signs a browser in by the ticket of a link, once. [`Denied::NoKey`] if the link was opened
    /// before, or has expired, or its key has ended.
    pub async fn open_link(&self, ticket: &str, from: Browser) -> Result<SignedIn, Denied> {
        let now = self.clock.now();
        let (secret, hash) = self.new_secret();
        let opening = TicketOpening {
            ticket: hash_of(Some(ticket)),
            hash,
            expires_at: now.plus(self.console.link_session()),
            browser: bounded(from),
        };
        let found = self.store.open_console_ticket(&opening, now).await?;
        let Visitor { session, caller } = self.visitor(found, now)?;
        Ok(SignedIn { session, secret, caller })
    }

    /// Makes a secret, and the hash under which the store finds it.
    fn new_secret(&self) -> (String, SessionHash) {
        let (secret, KeyHash(hash)) = token::SESSION.mint(&self.mint);
        (secret, SessionHash(hash))
    }
}

/// Returns the hash of a secret. A malformed one takes as long as an unknown one: its hash is one
/// that no session has, and the store is asked all the same.
fn hash_of(secret: Option<&str>) -> SessionHash {
    let found = secret.and_then(|secret| token::SESSION.hash(secret));
    let KeyHash(hash) = found.unwrap_or(token::NOBODYS);
    SessionHash(hash)
}

/// Returns the browser with as much of its name as is kept.
fn bounded(browser: Browser) -> Browser {
    let kept =
        |name: String| name.chars().filter(|sign| !sign.is_control()).take(MAX_CLIENT).collect();
    Browser { client: browser.client.map(kept), ..browser }
}

/// Returns the text that each form of a session must send along: a page of another site cannot know
/// it. It is derived from the secret, and nothing is stored.
pub fn csrf(secret: &str) -> String {
    const LABEL: &[u8] = b"gatepost console csrf 1";
    let key = hmac::Key::new(HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, LABEL);
    let mut text = String::with_capacity(64);
    for octet in tag.as_ref() {
        // Writing to a String never fails.
        let _written = write!(text, "{octet:02x}");
    }
    text
}

/// Tells, in constant time, whether a form sent [`csrf`] of this session.
pub fn csrf_matches(secret: &str, sent: &str) -> bool {
    verify_slices_are_equal(csrf(secret).as_bytes(), sent.as_bytes()).is_ok()
}
