//! Sessions of the console, each bound to the API key that signed in: a session opens nothing once
//! its key does not.
//!
//! The secret of a session is in a cookie, the store has its hash. A link of an administrator is a
//! ticket: it is opened once and becomes a session of its own key, whose token nobody learns.

use std::net::IpAddr;
use std::time::Duration;

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{Access, Caller, Denied, Target, identity, identity_of, token};
use crate::domain::audit::{Act, Actor};
use crate::domain::clock::Timestamp;
use crate::domain::console_session::ConsoleSession;
use crate::domain::id::ConsoleSessionId;
use crate::domain::key::Key;
use crate::store::{ConsoleSessionHolder, KeyHolder, TicketOpening};

/// Authenticates a request, and again after a wait.
#[derive(Clone)]
pub enum Credential {
    /// An API key.
    Key(String),
    /// The secret of a console session.
    Session(String),
}

impl Credential {
    pub fn secret(&self) -> &str {
        match self {
            Self::Key(secret) | Self::Session(secret) => secret,
        }
    }
}

/// Where a sign-in comes from.
#[derive(Clone, Debug, Default)]
pub struct SignInFrom {
    pub remote: Option<IpAddr>,
    /// The browser, by the name it gives itself.
    pub client: Option<String>,
}

/// A new session; only its browser learns the secret.
pub struct SignedIn {
    pub session: ConsoleSession,
    pub secret: String,
    pub caller: Caller,
}

/// A session, and the caller that it acts for.
pub struct Visitor {
    pub session: ConsoleSession,
    pub caller: Caller,
}

impl Access {
    /// Returns the caller of this credential, or [`Denied::NoKey`].
    pub async fn authenticate(&self, credential: &Credential) -> Result<Caller, Denied> {
        match credential {
            Credential::Key(key) => self.caller(Some(key)).await,
            Credential::Session(secret) => Ok(self.session(Some(secret)).await?.caller),
        }
    }

    /// Makes a session of an API key. It ends with the key, or after the time of `access.toml`.
    pub async fn sign_in(&self, key: &str, from: SignInFrom) -> Result<SignedIn, Denied> {
        let caller = self.caller(Some(key)).await?;
        let session = self.new_session(&caller.key, from, self.console.session());
        let (secret, hash) = token::SESSION.mint(&self.mint);
        self.store.add_console_session(&session, hash).await?;
        Ok(SignedIn { session, secret, caller })
    }

    fn new_session(&self, key: &Key, from: SignInFrom, lasts: Duration) -> ConsoleSession {
        let now = self.clock.now();
        let end = now.plus(lasts);
        ConsoleSession {
            id: ConsoleSessionId(self.mint.uuid()),
            key: key.id,
            account: key.account,
            member: key.member,
            is_ticket: false,
            created_at: now,
            expires_at: key.expires_at.map_or(end, |key_ends| key_ends.min(end)),
            remote: from.remote,
            client: from.client,
        }
    }

    /// Returns the session with this secret. [`Denied::NoKey`] if there is none, or if it or its key
    /// has ended. Every request reads the store, as for a key.
    pub async fn session(&self, secret: Option<&str>) -> Result<Visitor, Denied> {
        let hash = secret.and_then(|secret| token::SESSION.hash(secret)).unwrap_or(token::NOBODYS);
        let now = self.clock.now();
        let found = self.store.console_session(hash, now).await?.ok_or(Denied::NoKey)?;
        self.visitor(found, now)
    }

    fn visitor(&self, found: ConsoleSessionHolder, now: Timestamp) -> Result<Visitor, Denied> {
        let ConsoleSessionHolder { session, holder } = found;
        let KeyHolder { key, account, member } = holder;
        self.usage.seen(&key, now);
        let level = identity::level(&identity_of(&account, member.as_ref()));
        let level = level.ok_or(Denied::OutOfScope)?;
        Ok(Visitor { session, caller: Caller { key, account, member, level } })
    }

    /// Ends the session with this secret, if there is one.
    pub async fn sign_out(&self, secret: &str) -> Result<(), Denied> {
        let Some(hash) = token::SESSION.hash(secret) else { return Ok(()) };
        Ok(self.store.sign_out_of_console(hash).await?)
    }

    /// Returns the sessions and unused links of the target, the newest first: of a member, or of an
    /// account and all below it.
    pub async fn sessions(&self, target: &Target) -> Result<Vec<ConsoleSession>, Denied> {
        Ok(self.store.console_sessions(target.keys(), self.clock.now()).await?)
    }

    /// Ends a session or a link of the target. Returns whether there was one.
    pub async fn end_session(
        &self,
        target: &Target,
        id: ConsoleSessionId,
        actor: &Actor,
    ) -> Result<bool, Denied> {
        let act = Act { by: actor, at: self.clock.now() };
        Ok(self.store.end_console_session(id, target.keys(), act).await?)
    }

    /// Makes a link that opens the console of the key's account, once, within `lasts`. Returns the
    /// secret of the link.
    pub async fn link(&self, key: &Key, lasts: Duration) -> Result<String, Denied> {
        let made = self.new_session(key, SignInFrom::default(), lasts);
        let (secret, hash) = token::SESSION.mint(&self.mint);
        let ticket = ConsoleSession { is_ticket: true, ..made };
        self.store.add_console_session(&ticket, hash).await?;
        Ok(secret)
    }

    /// How long the key of a link lives: until the link must be opened, and its session.
    pub fn link_key_lasts(&self, lasts: Duration) -> Duration {
        lasts.saturating_add(self.console.link_session())
    }

    /// Makes a session of a link, once.
    pub async fn open_link(&self, ticket: &str, from: SignInFrom) -> Result<SignedIn, Denied> {
        let ticket = token::SESSION.hash(ticket).unwrap_or(token::NOBODYS);
        let now = self.clock.now();
        let found = self.store.console_ticket(ticket, now).await?.ok_or(Denied::NoKey)?;
        let caller = self.visitor(found, now)?.caller;
        let session = self.new_session(&caller.key, from, self.console.link_session());
        let (secret, hash) = token::SESSION.mint(&self.mint);
        let opening = TicketOpening { ticket, hash, session: session.clone() };
        if !self.store.open_console_ticket(&opening).await? {
            return Err(Denied::NoKey);
        }
        Ok(SignedIn { session, secret, caller })
    }
}

/// What a form must send that a page of this session shows. It is derived: no store has it, and
/// nobody learns the secret from it.
pub fn csrf(secret: &str) -> String {
    URL_SAFE_NO_PAD.encode(hmac::sign(&csrf_key(secret), CSRF).as_ref())
}

/// Tells, in constant time, whether `sent` is [`csrf`] of this session.
pub fn csrf_matches(secret: &str, sent: &str) -> bool {
    let sent = URL_SAFE_NO_PAD.decode(sent).unwrap_or_default();
    hmac::verify(&csrf_key(secret), CSRF, &sent).is_ok()
}

const CSRF: &[u8] = b"a form of the console";

fn csrf_key(secret: &str) -> hmac::Key {
    hmac::Key::new(HMAC_SHA256, secret.as_bytes())
}
