//! Features granted or denied to accounts.

use super::audited_commit::audit_note;
use crate::domain::account::Lineage;
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::feature::{Feature, Grant};
use crate::domain::id::AccountId;
use crate::store::base::Base;
use crate::store::engine::database::transact;
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, Row, sql};

impl Base {
    /// Returns all grants and denials of the accounts in this lineage, in one statement.
    pub async fn feature_grants(&self, lineage: &Lineage) -> Result<Vec<Grant>, StoreError> {
        let Lineage { partner, reseller, organization, agent } = *lineage;
        grants(self.reader(), [partner, reseller, organization, agent]).await
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
            let before = grants(tx.on(), [Some(account), None, None, None]).await?;
            let mut changes = Vec::new();
            for (feature, after) in wanted {
                let grant = before.iter().find(|grant| grant.feature == *feature);
                let before = grant.map(|grant| grant.granted);
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
            self.commit_audited(tx, act, note).await
        })
    }
}

async fn grants(
    on: Connection<'_>,
    accounts: [Option<AccountId>; 4],
) -> Result<Vec<Grant>, StoreError> {
    let mut query = sql("SELECT account_id, feature, granted FROM feature_grants
                         WHERE account_id IN ($1, $2, $3, $4)");
    for account in accounts {
        query = query.bind(account);
    }
    query.fetch_all(on).await?.iter().map(grant).collect()
}

fn grant(row: &Row) -> Result<Grant, StoreError> {
    let columns = Columns { table: "feature_grants", row };
    Ok(Grant {
        account: columns.account("account_id")?,
        feature: columns.word("feature")?,
        granted: columns.flag("granted")?,
    })
}
