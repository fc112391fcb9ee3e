//! Changes of one account. Its parent and its level never change, so the tree stays a tree.

use super::accounts::{account, external_id_taken, kept, select};
use super::audit::{self, Note};
use super::directory;
use crate::domain::account::{Account, Details, merge};
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::id::AccountId;
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, transact};
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

/// The result of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Updated {
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
    ) -> Result<Updated, StoreError> {
        transact!(self, async |tx| {
            if update.active.is_some() {
                gates::close_account(&mut tx, id).await?;
            }
            let query = select("AND id = $1").locking("FOR NO KEY UPDATE").bind(id);
            let Some(row) = query.fetch_optional(tx.on()).await? else {
                return Ok(Updated::Missing);
            };
            let before = account(&row)?;
            let after = changed(&before, update);
            let size = |account: &Account| kept(&account.details).map_or(0, |text| text.len());
            if size(&after) > most.max(size(&before)) {
                return Ok(Updated::TooLarge);
            }
            if let (Some(parent), Some(external_id)) = (after.parent, &after.external_id)
                && after.external_id != before.external_id
                && external_id_taken(&mut tx, parent, external_id).await?
            {
                return Ok(Updated::ExternalIdTaken);
            }
            let changes = differences(&before, &after);
            if !changes.is_empty() {
                write(&mut tx, &after).await?;
            }
            // A request with an Idempotency-Key is remembered even if it changed nothing.
            if !changes.is_empty() || act.by.once.is_some() {
                let (deed, object) = (Deed::AccountUpdated, id.to_string());
                let updated = Note { account: id, deed, object, changes: &changes };
                audit::note(&mut tx, self.mint(), act, updated).await?;
            }
            if before.active != after.active {
                directory::changed(&mut tx).await?;
            }
            tx.commit().await?;
            Ok(Updated::Account(Box::new(after)))
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
        Ok(updated != Updated::Missing)
    }
}

fn changed(before: &Account, update: &AccountUpdate) -> Account {
    let mut after = before.clone();
    after.name = update.name.clone().unwrap_or(after.name);
    after.external_id = update.external_id.clone().unwrap_or(after.external_id);
    after.active = update.active.unwrap_or(after.active);
    merge(&mut after.details, &update.details);
    after
}

async fn write(tx: &mut Transaction, account: &Account) -> Result<(), StoreError> {
    sql("UPDATE accounts SET name = $2, external_id = $3, active = $4, details = $5
         WHERE id = $1")
    .bind(account.id)
    .bind(account.name.clone())
    .bind(account.external_id.clone())
    .bind(i64::from(account.active))
    .bind(kept(&account.details))
    .execute(tx.on())
    .await
    .map(drop)
}

/// Fields with objects. The audit log names them without values: any may be a secret.
const INSIDE: &[&str] = &["settings", "integrations", "numberingProviders"];

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
        if before != after && INSIDE.contains(&name.as_str()) {
            changes.push(Change::new(name, None::<&str>, None::<&str>));
        } else if before != after {
            changes.push(Change::new(name, before.map(shown), after.map(shown)));
        }
    }
    changes
}

/// Returns the beginning of a value, so that the log keeps no second copy of a large one.
fn shown(value: &serde_json::Value) -> String {
    const SHOWN: usize = 200;
    let mut text = value.to_string();
    if text.len() > SHOWN {
        text.truncate(text.floor_char_boundary(SHOWN));
        text.push('…');
    }
    text
}
