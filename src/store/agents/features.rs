//! Features granted or denied to accounts, and their plans.

use std::collections::BTreeMap;

use super::audited_commit::audit_note;
use crate::domain::account::Lineage;
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::feature::{Assigned, Feature};
use crate::domain::id::AccountId;
use crate::store::base::Base;
use crate::store::engine::database::transact;
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, sql};
use crate::store::tenancy::{audit, directory};

impl Base {
    /// Returns the plans of the accounts in this lineage, and all grants and denials, in one
    /// statement.
    pub async fn assigned_features(&self, lineage: &Lineage) -> Result<Vec<Assigned>, StoreError> {
        let Lineage { partner, reseller, organization, agent } = *lineage;
        assigned(self.reader(), [partner, reseller, organization, agent]).await
    }

    /// Grants, denies, or (None) leaves to the default each of these features of an account, all in
    /// one transaction. Counts from the next request on.
    pub async fn assign_features(
        &self,
        account: AccountId,
        wanted: &[(Feature, Option<bool>)],
        act: Act<'_>,
    ) -> Result<(), StoreError> {
        transact!(self, async |tx| {
            gates::take_turn(&mut tx, "features", account.get()).await?;
            // Mail that was decided by the feature waits, or is decided again.
            let decides_mail = wanted.iter().any(|(feature, _)| *feature == Feature::InboundEmail);
            if decides_mail {
                gates::close_account(&mut tx, account).await?;
            }
            let before = assigned(tx.on(), [Some(account), None, None, None]).await?;
            let mut changes = Vec::new();
            for (feature, after) in wanted {
                let before = before.first().and_then(|one| one.features.get(feature)).copied();
                if before == *after {
                    continue;
                }
                changes.push(Change::new(feature.as_str(), before, *after));
                let for_feature = |text| sql(text).bind(account).bind(feature.as_str());
                let statement = match after {
                    None => for_feature(
                        "DELETE FROM feature_grants WHERE account_id = $1 AND feature = $2",
                    ),
                    Some(granted) => for_feature(
                        "INSERT INTO feature_grants (account_id, feature, granted, set_at)
                         VALUES ($1, $2, $3, $4)
                         ON CONFLICT (account_id, feature)
                         DO UPDATE SET granted = excluded.granted, set_at = excluded.set_at",
                    )
                    .bind(i64::from(*granted))
                    .bind(act.at),
                };
                statement.execute(tx.on()).await?;
            }
            if changes.is_empty() {
                return Ok(());
            }
            let note = audit_note(account, Deed::FeaturesAssigned, &account, &changes);
            if !decides_mail {
                return self.commit_audited(tx, act, note).await;
            }
            audit::note(&mut tx, self.mint(), act, note).await?;
            directory::changed(&mut tx).await?;
            tx.commit().await
        })
    }
}

async fn assigned(
    on: Connection<'_>,
    accounts: [Option<AccountId>; 4],
) -> Result<Vec<Assigned>, StoreError> {
    let mut query = sql("SELECT id, plan, feature, granted FROM accounts
                         LEFT JOIN feature_grants ON account_id = id
                         WHERE id IN ($1, $2, $3, $4) ORDER BY id");
    for account in accounts {
        query = query.bind(account);
    }
    let mut all: Vec<Assigned> = Vec::new();
    for row in query.fetch_all(on).await? {
        let columns = Columns { table: "feature_grants", row: &row };
        let account = columns.account("id")?;
        if all.last().is_none_or(|last| last.account != account) {
            let plan = columns.optional_text("plan")?;
            all.push(Assigned { account, plan, features: BTreeMap::new() });
        }
        if let (Some(last), Some(_)) = (all.last_mut(), columns.optional_text("feature")?) {
            last.features.insert(columns.word("feature")?, columns.flag("granted")?);
        }
    }
    Ok(all)
}
