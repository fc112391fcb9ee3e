//! Giving features to accounts, and taking them away. Whether the caller may, `access` has decided.

use super::{Apps, AppsError};
use crate::domain::feature::Feature;
use crate::domain::id::AccountId;

impl Apps {
    /// Gives these to an account, denies them, or leaves them to the default (`None`). What it does
    /// not have, nobody below it has.
    pub async fn assign_features(
        &self,
        account: AccountId,
        wanted: &[(Feature, Option<bool>)],
    ) -> Result<(), AppsError> {
        Ok(self.store.assign_features(account, wanted, self.act()).await?)
    }
}
