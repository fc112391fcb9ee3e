//! API keys: shown once, stored as a hash.

use uuid::Uuid;

use super::{Tenancy, TenancyError};
use crate::app::access::token;
use crate::domain::clock::Timestamp;
use crate::domain::computer::ComputerState;
use crate::domain::id::{AccountId, KeyId};
use crate::domain::key::{Key, KeyOwner};
use crate::store::{KeyInsertion, NamedKey, RevocableKeys};

/// In bytes: long enough for a purpose; bounds each list.
pub(super) const LONGEST_PURPOSE: usize = 200;

/// The properties that the maker of a key chooses.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyTerms<'a> {
    /// For people, to tell keys apart.
    pub purpose: &'a str,
    /// Without it the key never expires.
    pub expires_at: Option<Timestamp>,
    /// Whether tools of MCP may make changes with the key.
    pub mcp_changes: bool,
}

impl<'a> KeyTerms<'a> {
    pub fn of(purpose: &'a str) -> Self {
        Self { purpose, ..Self::default() }
    }
}

/// A new API key with its token, which is shown only now.
pub struct NewKey {
    pub key: Key,
    /// Begins with `gp_`.
    pub token: String,
}

impl Tenancy {
    /// Creates an API key of an account, without expiry.
    pub async fn create_key(
        &self,
        account: AccountId,
        purpose: &str,
    ) -> Result<NewKey, TenancyError> {
        self.issue_key(KeyOwner::Account(account), KeyTerms::of(purpose)).await
    }

    /// Creates an API key of an account or a member.
    pub async fn issue_key(
        &self,
        owner: KeyOwner,
        terms: KeyTerms<'_>,
    ) -> Result<NewKey, TenancyError> {
        self.issue(owner, terms, None).await
    }

    /// Creates the key of an Agent's provisioned worker: for the operator alone, as no caller of the
    /// API may give a right that it does not have.
    pub async fn issue_worker_key(
        &self,
        agent: AccountId,
        terms: KeyTerms<'_>,
    ) -> Result<NewKey, TenancyError> {
        let computer = self.store.computer(agent).await?;
        let job = computer.filter(|one| one.state == ComputerState::Provisioned);
        let job = job.and_then(|one| one.job).ok_or(TenancyError::NoWorker(agent))?;
        self.issue(KeyOwner::Account(agent), terms, Some(job.id)).await
    }

    async fn issue(
        &self,
        owner: KeyOwner,
        KeyTerms { purpose, expires_at, mcp_changes }: KeyTerms<'_>,
        worker_job: Option<Uuid>,
    ) -> Result<NewKey, TenancyError> {
        if purpose.len() > LONGEST_PURPOSE || purpose.chars().any(char::is_control) {
            return Err(TenancyError::Purpose);
        }
        let now = self.mint.clock().now();
        if expires_at.is_some_and(|end| end <= now) {
            return Err(TenancyError::Expired);
        }
        let (account, member) = match owner {
            KeyOwner::Account(id) => (self.account(id).await?.id, None),
            KeyOwner::Member(id) => (self.member(id).await?.account, Some(id)),
        };
        let (token, hash) = token::API.mint(&self.mint);
        let key = Key {
            id: KeyId(self.mint.uuid()),
            account,
            member,
            purpose: purpose.to_owned(),
            last_four: token::last_four(&token),
            created_at: now,
            expires_at,
            last_used_at: None,
            revoked_at: None,
            worker_job,
            mcp_changes,
        };
        let most = self.rules.keys.max_per_owner;
        match self.store.insert_key(&key, hash, most, self.act()).await? {
            KeyInsertion::Inserted => Ok(NewKey { key, token }),
            KeyInsertion::NoOwner => Err(TenancyError::NoOwner(owner.id())),
            KeyInsertion::NoMaker => Err(TenancyError::MakerRevoked),
            KeyInsertion::NoWorker => Err(TenancyError::NoWorker(account)),
            KeyInsertion::TooMany => Err(TenancyError::TooManyKeys { most }),
        }
    }

    /// Lists the keys of an account and of its members, oldest first, with revoked and expired
    /// ones.
    pub async fn keys(&self, account: AccountId) -> Result<Vec<Key>, TenancyError> {
        self.account(account).await?;
        Ok(self.store.keys(account).await?)
    }

    /// Lists the keys of this owner alone that are in force, oldest first.
    pub async fn keys_in_force(&self, owner: KeyOwner) -> Result<Vec<Key>, TenancyError> {
        Ok(self.store.keys_in_force(owner, self.mint.clock().now()).await?)
    }

    /// Revokes a key: the next request with it gets 401. Fails with `NoKey` if it is not in force.
    pub async fn revoke_key(&self, id: KeyId) -> Result<(), TenancyError> {
        let revoked = self.revoke_key_among(RevocableKeys::All, NamedKey::Id(id)).await?;
        revoked.map(drop).ok_or(TenancyError::NoKey(id))
    }

    /// Revokes a key of `whose` and returns it, or None if it is not in force.
    pub async fn revoke_key_among(
        &self,
        whose: RevocableKeys<'_>,
        named: NamedKey,
    ) -> Result<Option<Key>, TenancyError> {
        Ok(self.store.revoke_key(named, whose, self.act()).await?)
    }
}
