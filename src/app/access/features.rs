//! The features of an account, and the right to assign them.

use super::{Access, Caller, Denied, Target};
use crate::domain::account::Account;
use crate::domain::feature::{Feature, Held};
use crate::store::StoreError;

impl Access {
    /// Returns the state of every feature for this account; one statement.
    pub async fn features(&self, account: &Account) -> Result<Vec<Held>, StoreError> {
        let assigned = self.store.assigned_features(&account.lineage).await?;
        let held = |feature: &Feature| self.offer.held(*feature, &account.lineage, &assigned);
        Ok(Feature::ALL.iter().map(held).collect())
    }

    /// Fails with [`Denied::NoFeature`] if the account does not have the feature.
    pub async fn has(&self, account: &Account, feature: Feature) -> Result<(), Denied> {
        let all = self.features(account).await?;
        let held = all.iter().any(|one| one.feature == feature && one.enabled);
        held.then_some(()).ok_or(Denied::NoFeature(feature))
    }

    /// Checks that the caller may assign these features to the target. The target must be another
    /// account than the caller's, and the caller's account must have each feature that is switched
    /// on. A feature may be taken away by a caller whose account does not have it.
    pub async fn may_assign(
        &self,
        caller: &Caller,
        target: &Target,
        wanted: &[(Feature, Option<bool>)],
    ) -> Result<(), Denied> {
        if target.account.id == caller.account.id {
            return Err(Denied::OwnFeatures);
        }
        let held = self.features(&caller.account).await?;
        let lacks =
            |feature: Feature| held.iter().any(|one| one.feature == feature && !one.enabled);
        let beyond = wanted.iter().find(|(feature, on)| *on == Some(true) && lacks(*feature));
        beyond.map_or(Ok(()), |(feature, _)| Err(Denied::NotHeld(*feature)))
    }
}
