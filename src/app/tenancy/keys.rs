//! API keys: made here, shown once, kept as a hash.

use super::{Tenancy, TenancyError};
use crate::app::access::token;
use crate::domain::id::{AccountId, KeyId};
use crate::domain::key::Key;

/// A key at the only moment at which it can be shown.
pub struct NewKey {
    pub key: Key,
    /// `gp_…`.
    pub token: String,
}

impl Tenancy {
    /// Makes a key for an account.
    pub async fn create_key(
        &self,
        account: AccountId,
        purpose: &str,
    ) -> Result<NewKey, TenancyError> {
        self.account(account).await?;
        let token = token::mint(&self.mint);
        let hash = token::hash(&token)
            .ok_or_else(|| TenancyError::Invalid("a key of an unknown form was made".into()))?;
        let key = Key {
            id: KeyId(self.mint.uuid()),
            account,
            member: None,
            purpose: purpose.to_owned(),
            last_four: token::last_four(&token),
            created_at: self.mint.clock().now(),
            expires_at: None,
            last_used_at: None,
            revoked_at: None,
        };
        self.store.insert_key(&key, hash, self.act()).await?;
        Ok(NewKey { key, token })
    }

    /// The keys of an account, oldest first.
    pub async fn keys(&self, account: AccountId) -> Result<Vec<Key>, TenancyError> {
        self.account(account).await?;
        Ok(self.store.keys(account).await?)
    }

    /// Revokes a key: it answers 401 from the next request on.
    pub async fn revoke_key(&self, id: KeyId) -> Result<(), TenancyError> {
        if self.store.revoke_key(id, self.act()).await? {
            Ok(())
        } else {
            Err(TenancyError::NotFound(format!("there is no key {id} in force")))
        }
    }
}
