//! Data of an account's integrations: of apps in the catalogue, or of the customer's own.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Apps, AppsError, TRIES};
use crate::domain::app::{AppRecord, AppRef, Use};
use crate::domain::id::AccountId;
use crate::store::AppRecordInsertion;

impl Apps {
    /// Returns the account's data for this app, or fails with `NoIntegration`.
    pub async fn integration(
        &self,
        account: AccountId,
        app: &AppRef,
    ) -> Result<AppRecord, AppsError> {
        let found = self.store.app_record(account, Use::Integration, app).await?;
        found.ok_or(AppsError::NoIntegration)
    }

    /// Sets these fields of the account's data for an app; absent ones stay. Fields that the
    /// catalogue knows must have their types; all others are secrets. Removing the last field
    /// removes the row.
    pub async fn set_integration(
        &self,
        account: AccountId,
        app: &AppRef,
        data: &Map<String, Value>,
    ) -> Result<AppRecord, AppsError> {
        let known = self.rules.app(app);
        for _ in 0..TRIES {
            let found = self.store.app_record(account, Use::Integration, app).await?;
            let kept = match &found {
                Some(before) => {
                    let (next, changed) = self.merged(before, known, false, data)?;
                    let same = changed.is_empty() && !next.is_bare();
                    let kept =
                        same || self.store.update_app_record(&next, &changed, self.act()).await?;
                    // Without fields there is no row to read.
                    if kept && next.is_bare() {
                        return Ok(next);
                    }
                    kept
                }
                None => {
                    let now = self.mint.clock().now();
                    let empty =
                        AppRecord::empty(account, Use::Integration, app.clone(), now).begun();
                    let (next, _) = self.merged(&empty, known, false, data)?;
                    if next.is_bare() {
                        return Ok(next);
                    }
                    self.insert(&next).await?
                }
            };
            if kept {
                return self.integration(account, app).await;
            }
        }
        Err(AppsError::Busy)
    }

    /// Reserves the id of a new account, and returns the records to insert with it: `data`, merged
    /// as [`Apps::set_integration`] does. Writes no record.
    pub async fn for_new_account(
        &self,
        data: &[(AppRef, &Map<String, Value>)],
    ) -> Result<(AccountId, Vec<AppRecord>), AppsError> {
        let most = self.rules.limits.max_integrations;
        if u64::try_from(data.len()).unwrap_or(u64::MAX) > most {
            return Err(AppsError::TooManySent { most });
        }
        let mut seen = BTreeSet::new();
        if let Some((twice, _)) = data.iter().find(|(app, _)| !seen.insert(app)) {
            return Err(AppsError::Twice(twice.clone()));
        }
        let account = self.store.reserve_account_id().await?;
        let now = self.mint.clock().now();
        let kept = data.iter().map(|(app, data)| {
            let empty = AppRecord::empty(account, Use::Integration, app.clone(), now).begun();
            self.merged(&empty, self.rules.app(app), false, data).map(|(record, _)| record)
        });
        let mut kept = kept.collect::<Result<Vec<_>, _>>()?;
        kept.retain(|record| !record.is_bare());
        Ok((account, kept))
    }

    /// Returns false if another request inserted the record first.
    async fn insert(&self, new: &AppRecord) -> Result<bool, AppsError> {
        let most = self.rules.limits.max_integrations;
        match self.store.insert_app_record(new, most, self.act()).await? {
            AppRecordInsertion::Inserted => Ok(true),
            AppRecordInsertion::Exists => Ok(false),
            AppRecordInsertion::TooMany => Err(AppsError::TooManyIntegrations { most }),
        }
    }
}
