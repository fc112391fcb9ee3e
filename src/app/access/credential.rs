//! The credential with which a request proves its caller.

use super::{Access, Caller, Denied, identity, identity_of, token};
use crate::domain::feature::Feature;
use crate::domain::id::KeyId;
use crate::domain::key::Key;
use crate::domain::relay::RelayType;

/// Authenticates a request, and again after a wait.
#[derive(Clone)]
pub enum Credential {
    /// An API key.
    Key(String),
    /// The secret of a console session.
    Session(String),
    /// The inbound key of an adapter, which submits records and does nothing else.
    Inbound(String),
}

impl Credential {
    pub fn secret(&self) -> &str {
        match self {
            Self::Key(secret) | Self::Session(secret) | Self::Inbound(secret) => secret,
        }
    }
}

impl Access {
    /// Returns the caller of this credential, or [`Denied::NoKey`]; [`Denied::NoApi`] if it opens
    /// nothing.
    pub async fn authenticate(&self, credential: &Credential) -> Result<Caller, Denied> {
        let caller = match credential {
            Credential::Key(key) => self.caller(Some(key)).await?,
            Credential::Session(secret) => self.session(Some(secret)).await?.caller,
            Credential::Inbound(key) => self.inbound(key).await?,
        };
        caller.enters().map(|()| caller)
    }

    /// Returns the caller behind the inbound key of an adapter: its account, which needs the feature
    /// `relays` instead of `api`. The request was signed; what it submits, a key of the account may
    /// submit, too.
    async fn inbound(&self, key: &str) -> Result<Caller, Denied> {
        let kind = RelayType::Json;
        let hash = token::INBOUND.hash(key).ok_or(Denied::NoKey)?;
        let way = self.store.inbound_way_by_key(kind, hash).await?.ok_or(Denied::NoKey)?;
        let account = self.store.account(way.account).await?.ok_or(Denied::NoKey)?;
        // As a key of it, which opens nothing while it or an account above is suspended.
        if !self.store.is_active(&account).await? {
            return Err(Denied::NoKey);
        }
        self.has(&account, Feature::Relays).await?;
        let level = identity::level(&identity_of(&account, None)).ok_or(Denied::OutOfScope)?;
        let key = Key {
            // Where a key is named, the way in is: as the holder of an Idempotency-Key.
            id: KeyId(way.id.0),
            account: account.id,
            member: None,
            purpose: kind.to_string(),
            last_four: way.last_four,
            created_at: way.created_at,
            expires_at: None,
            last_used_at: None,
            revoked_at: None,
            worker_job: None,
            mcp_changes: false,
        };
        let way_in = Some(kind);
        Ok(Caller { key, account, member: None, level, has_api: true, way_in })
    }
}
