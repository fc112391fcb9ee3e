//! Changes of a destination that stays: label, options, whether it is disabled, secret.

use super::destination_row::{self, destination, note_about, select};
use super::disabling::{self, Disabling};
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::destination::{CustomHeader, Destination, Disabled, FormerSecret, Payload};
use crate::domain::id::{AccountId, DestinationId};
use crate::domain::secret::Secret;
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::sql;
use crate::store::tenancy::{accounts, audit};

/// Fields to change; None leaves a field as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DestinationChange {
    pub label: Option<String>,
    pub ordered: Option<bool>,
    pub payload: Option<Payload>,
    pub headers: Option<Vec<CustomHeader>>,
    pub disabled: Option<bool>,
}

/// A new secret for a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    pub secret: Secret,
    /// Until when the previous secret also signs; None ends it and all former secrets at once.
    pub overlap_until: Option<Timestamp>,
    /// Most former secrets that may sign beside the new one.
    pub max_former: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rotated {
    Done(Box<Destination>),
    /// Too many former secrets would sign; the first of them ends at this time.
    TooMany(Timestamp),
    NoDestination,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownDestination {
    pub destination: Destination,
    pub removed: bool,
}

const BY_REQUEST: &str = "disabled by a request: set disabled to false to enable the webhook";

impl Base {
    /// Returns a destination of this account, also a removed one.
    pub async fn destination(
        &self,
        account: AccountId,
        id: DestinationId,
    ) -> Result<Option<KnownDestination>, StoreError> {
        let found = self.destination_of_any(id).await?;
        Ok(found.filter(|known| known.destination.account == account))
    }

    /// Returns a destination of any account, also a removed one.
    pub async fn destination_of_any(
        &self,
        id: DestinationId,
    ) -> Result<Option<KnownDestination>, StoreError> {
        let row = select("WHERE id = $1").bind(id.0).fetch_optional(self.reader()).await?;
        let known = row.map(|row| {
            let columns = Columns { table: "destinations", row: &row };
            let removed = columns.optional_time("removed_at")?.is_some();
            Ok(KnownDestination { destination: destination(&row)?, removed })
        });
        known.transpose()
    }

    /// Changes and returns a destination of this account; None if it is absent or was removed.
    pub async fn update_destination(
        &self,
        account: AccountId,
        id: DestinationId,
        change: &DestinationChange,
        act: Act<'_>,
    ) -> Result<Option<Destination>, StoreError> {
        transact!(self, async |tx| {
            let Some(owner) = accounts::find(&mut tx, account).await? else { return Ok(None) };
            // Closed, so that the change holds for every event that is written after the response.
            if change.ordered.is_some() || change.disabled.is_some() {
                let above: Vec<AccountId> =
                    owner.lineage.ids().filter(|id| *id != account).collect();
                gates::close_below(&mut tx, account, &above).await?;
            }
            let Some(old) = find_in_use(&mut tx, account, id, "FOR NO KEY UPDATE").await? else {
                return Ok(None);
            };
            let new = change.apply(&old, act.at);
            let changes = differences(&old, &new);
            if changes.is_empty() {
                return Ok(Some(old));
            }
            sql("UPDATE destinations SET label = $2, ordered = $3, payload = $4, headers = $5
             WHERE id = $1")
            .bind(id.0)
            .bind(new.label.clone())
            .bind(i64::from(new.wants.ordered))
            .bind(new.wants.payload.as_str())
            .bind(destination_row::headers(&new.wants.headers))
            .execute(tx.on())
            .await?;
            match (&old.disabled, &new.disabled) {
                (None, Some(disabled)) => {
                    let disabling = Disabling {
                        destination: &old,
                        lineage: owner.lineage,
                        reason: disabled.reason.clone(),
                        failing_since: None,
                        last_status: None,
                        error: None,
                    };
                    disabling::disable(&mut tx, self, disabling, act).await?;
                }
                (Some(_), None) => disabling::enable(&mut tx, self, &old, act).await?,
                _ => {}
            }
            let note = note_about(&old, Deed::WebhookUpdated, &changes);
            audit::note(&mut tx, self.mint(), act, note).await?;
            tx.commit().await?;
            Ok(Some(new))
        })
    }

    /// Gives a destination of this account a new secret. The previous one signs beside it until
    /// `overlap_until`, so that no delivery fails while the receiver changes over.
    pub async fn rotate_secret(
        &self,
        account: AccountId,
        id: DestinationId,
        rotation: &Rotation,
        act: Act<'_>,
    ) -> Result<Rotated, StoreError> {
        transact!(self, async |tx| {
            let Some(old) = find_in_use(&mut tx, account, id, "FOR NO KEY UPDATE").await? else {
                return Ok(Rotated::NoDestination);
            };
            let mut former: Vec<FormerSecret> = Vec::new();
            if let Some(until) = rotation.overlap_until {
                let signing = old.former_secrets.iter().filter(|one| one.until > act.at).cloned();
                former.push(FormerSecret { secret: old.secret.clone(), until });
                former.extend(signing);
                if former.len() > rotation.max_former {
                    let first = former.iter().map(|one| one.until).min().unwrap_or(until);
                    return Ok(Rotated::TooMany(first));
                }
            }
            sql("UPDATE destinations SET secret = $2, former_secrets = $3, secret_rotated_at = $4
             WHERE id = $1")
            .bind(id.0)
            .bind(rotation.secret.expose())
            .bind(destination_row::former_secrets(&former))
            .bind(act.at)
            .execute(tx.on())
            .await?;
            let ends = rotation.overlap_until.unwrap_or(act.at);
            let changes = [Change::made("formerSecretUntil", ends)];
            let note = note_about(&old, Deed::WebhookRotated, &changes);
            audit::note(&mut tx, self.mint(), act, note).await?;
            tx.commit().await?;
            let new = Destination {
                secret: rotation.secret.clone(),
                secret_rotated_at: Some(act.at),
                former_secrets: former,
                ..old
            };
            Ok(Rotated::Done(Box::new(new)))
        })
    }
}

/// Returns a destination of this account that was not removed; `lock` applies on PostgreSQL.
pub async fn find_in_use(
    tx: &mut Transaction,
    account: AccountId,
    id: DestinationId,
    lock: &'static str,
) -> Result<Option<Destination>, StoreError> {
    let row = select("WHERE id = $1 AND account_id = $2 AND removed_at IS NULL")
        .bind(id.0)
        .bind(account)
        .locking(lock)
        .fetch_optional(tx.on())
        .await?;
    row.as_ref().map(destination).transpose()
}

impl DestinationChange {
    fn apply(&self, old: &Destination, at: Timestamp) -> Destination {
        let mut new = old.clone();
        new.label = self.label.clone().unwrap_or(new.label);
        new.wants.ordered = self.ordered.unwrap_or(new.wants.ordered);
        new.wants.payload = self.payload.unwrap_or(new.wants.payload);
        new.wants.headers = self.headers.clone().unwrap_or(new.wants.headers);
        match (self.disabled, &old.disabled) {
            (Some(true), None) => {
                new.disabled = Some(Disabled { at, reason: BY_REQUEST.to_owned() });
            }
            (Some(false), Some(_)) => {
                new.disabled = None;
                new.health = Default::default();
            }
            _ => {}
        }
        new
    }
}

/// Returns the changes for the audit log. Headers appear by name only: their values are secrets.
fn differences(old: &Destination, new: &Destination) -> Vec<Change> {
    let names = |one: &Destination| {
        let names = one.wants.headers.iter().map(|header| header.name.as_str());
        names.collect::<Vec<_>>().join(", ")
    };
    let disabled = |one: &Destination| one.disabled.is_some().to_string();
    let mut changes = Vec::new();
    let mut add = |changed: bool, field: &str, before: String, after: String| {
        if changed {
            changes.push(Change::new(field, Some(before), Some(after)));
        }
    };
    let (was, is) = (&old.wants, &new.wants);
    add(old.label != new.label, "label", old.label.clone(), new.label.clone());
    add(was.ordered != is.ordered, "ordered", was.ordered.to_string(), is.ordered.to_string());
    add(was.payload != is.payload, "payload", was.payload.to_string(), is.payload.to_string());
    add(was.headers != is.headers, "headers", names(old), names(new));
    add(disabled(old) != disabled(new), "disabled", disabled(old), disabled(new));
    changes
}
