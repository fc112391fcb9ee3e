//! Assigning features to accounts. `access` has decided before whether the caller may.

use super::{Apps, AppsError};
use crate::domain::feature::Feature;
use crate::domain::id::AccountId;

impl Apps {
    /// Grants these features to an account, denies them, or leaves them to the default (`None`).
    /// Accounts below never have a feature that the account lacks.
    pub async fn assign_features(
        &self,
        account: AccountId,
        wanted: &[(Feature, Option<bool>)],
    ) -> Result<(), AppsError> {
        Ok(self.store.assign_features(account, wanted, self.act()).await?)
    }
}
