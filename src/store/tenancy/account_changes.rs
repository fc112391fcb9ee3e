//! Changes of one account. Its parent and its level never change, so the tree stays a tree.

use super::accounts::{account, details_column, external_id_taken, select};
use super::audit::{self, Note};
use super::directory;
use crate::domain::account::{Account, Details, PLAN, merge};
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::id::AccountId;
use crate::store::base::Base;
use crate::store::engine::database::transact;
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::sql::sql;

/// Fields to change; None keeps a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountUpdate {
    pub name: Option<String>,
    /// `Some(None)` removes it.
    pub external_id: Option<Option<String>>,
    pub active: Option<bool>,
    /// Merged into the details: see `domain::account::merge`.
    pub details: Details,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountUpdated {
    /// The account after the update.
    Account(Box<Account>),
    Missing,
    /// Another account below the same parent has this external id; nothing was changed.
    ExternalIdTaken,
    /// The details would exceed the bound; nothing was changed.
    TooLarge,
}

impl Base {
    /// Changes these fields of an account, all or none. Its details may have at most `most` bytes
    /// as JSON, or as many as before.
    pub async fn update_account(
        &self,
        id: AccountId,
        update: &AccountUpdate,
        most: usize,
        act: Act<'_>,
    ) -> Result<AccountUpdated, StoreError> {
        transact!(self, async |tx| {
            if update.active.is_some() || update.details.contains_key(PLAN) {
                gates::close_account(&mut tx, id).await?;
            }
            let query = select("AND id = $1").locking("FOR NO KEY UPDATE").bind(id);
            let Some(row) = query.fetch_optional(tx.on()).await? else {
                return Ok(AccountUpdated::Missing);
            };
            let before = account(&row)?;
            let mut after = before.clone();
            after.name = update.name.clone().unwrap_or(after.name);
            after.external_id = update.external_id.clone().unwrap_or(after.external_id);
            after.active = update.active.unwrap_or(after.active);
            merge(&mut after.details, &update.details);
            let size =
                |account: &Account| details_column(&account.details).map_or(0, |text| text.len());
            if size(&after) > most.max(size(&before)) {
                return Ok(AccountUpdated::TooLarge);
            }
            if after.external_id != before.external_id
                && external_id_taken(&mut tx, after.parent, after.external_id.as_deref()).await?
            {
                return Ok(AccountUpdated::ExternalIdTaken);
            }
            let changes = differences(&before, &after);
            if !changes.is_empty() {
                sql("UPDATE accounts SET name = $2, external_id = $3, active = $4, details = $5,
                                         plan = $6
                     WHERE id = $1")
                .bind(id)
                .bind(after.name.clone())
                .bind(after.external_id.clone())
                .bind(i64::from(after.active))
                .bind(details_column(&after.details))
                .bind(after.plan())
                .execute(tx.on())
                .await?;
            }
            // A request with an Idempotency-Key is remembered even if it changed nothing.
            if !changes.is_empty() || act.by.once.is_some() {
                let note = Note::new(id, Deed::AccountUpdated, &id, &changes);
                audit::note(&mut tx, self.mint(), act, note).await?;
            }
            if before.active != after.active || before.plan() != after.plan() {
                directory::changed(&mut tx).await?;
            }
            tx.commit().await?;
            Ok(AccountUpdated::Account(Box::new(after)))
        })
    }

    /// Switches an account on or off. Returns whether it exists.
    pub async fn set_active(
        &self,
        id: AccountId,
        active: bool,
        act: Act<'_>,
    ) -> Result<bool, StoreError> {
        let update = AccountUpdate { active: Some(active), ..AccountUpdate::default() };
        let updated = self.update_account(id, &update, usize::MAX, act).await?;
        Ok(updated != AccountUpdated::Missing)
    }
}

/// Fields with objects. The audit log names them without values: any may be a secret.
const WITHOUT_VALUES: &[&str] = &["settings", "integrations", "numberingProviders"];

/// Returns the changes for the audit log: each field that differs, before and after.
fn differences(before: &Account, after: &Account) -> Vec<Change> {
    let mut changes = Vec::new();
    if before.name != after.name {
        changes.push(Change::new("name", Some(&before.name), Some(&after.name)));
    }
    if before.external_id != after.external_id {
        let (before, after) = (before.external_id.as_ref(), after.external_id.as_ref());
        changes.push(Change::new("externalAccountId", before, after));
    }
    if before.active != after.active {
        changes.push(Change::new("active", Some(before.active), Some(after.active)));
    }
    let gone = before.details.keys().filter(|name| !after.details.contains_key(*name));
    for name in after.details.keys().chain(gone) {
        let (before, after) = (before.details.get(name), after.details.get(name));
        if before != after && WITHOUT_VALUES.contains(&name.as_str()) {
            changes.push(Change::new(name, None::<&str>, None::<&str>));
        } else if before != after {
            changes.push(Change::new(name, before.map(shortened), after.map(shortened)));
        }
    }
    changes
}

/// Returns the beginning of a value, so that the log keeps no second copy of a large one.
fn shortened(value: &serde_json::Value) -> String {
    const LONGEST: usize = 200;
    let mut text = value.to_string();
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.push('…');
    }
    text
}
