//! Disables destinations without removing them, and enables them again.

use super::destination_row::note_about;
use crate::domain::account::Lineage;
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::destination::Destination;
use crate::domain::event::EventName;
use crate::store::base::Base;
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::sql::sql;
use crate::store::events::announcements::{AccountEvent, announce};
use crate::store::events::event_data::{DisabledData, event_data};
use crate::store::tenancy::audit;
use crate::wire::Date;

/// A destination to disable, and why.
pub struct Disabling<'a> {
    pub destination: &'a Destination,
    /// The account of the destination with its ancestors.
    pub lineage: Lineage,
    /// The reason and the remedy, in words for a customer.
    pub reason: String,
    pub failing_since: Option<Timestamp>,
    /// HTTP status of the last attempt; None if no response came (see `error`), or on request.
    pub last_status: Option<u16>,
    pub error: Option<String>,
}

/// Disables a destination, with an event and an entry of the audit log. Does nothing if it is
/// disabled or removed already. It gets no new deliveries, and its pending ones become exhausted,
/// batch by batch. The transaction has closed the gate of its account and passed those above.
pub async fn disable(
    tx: &mut Transaction,
    base: &Base,
    disabling: Disabling<'_>,
    act: Act<'_>,
) -> Result<(), StoreError> {
    let Disabling { destination, lineage, reason, failing_since, last_status, error } = disabling;
    let disabled = sql("UPDATE destinations
         SET disabled_at = $2, disabled_reason = $3, draining = 1, rests_until = 0
         WHERE id = $1 AND removed_at IS NULL AND disabled_at IS NULL")
    .bind(destination.id.0)
    .bind(act.at)
    .bind(reason.as_str())
    .execute(tx.on())
    .await?;
    if disabled == 0 {
        return Ok(());
    }
    base.drain(tx, destination.id.0, act.at).await?;
    let mut changes = vec![Change::made("reason", &reason)];
    changes.extend(failing_since.map(|since| Change::made("failingSince", since)));
    let data = event_data(&DisabledData {
        account_id: destination.account.into(),
        webhook: destination.into(),
        reason,
        failing_since: failing_since.map(Date),
        last_status,
        error,
    });
    let event = AccountEvent { name: EventName::WebhookDisabled, at: act.at, lineage, data };
    announce(tx, &[event.with_new_id(base.mint())], base.mint()).await?;
    audit::note(tx, base.mint(), act, note_about(destination, Deed::WebhookDisabled, &changes))
        .await
}

/// Enables a disabled destination with its health reset, and notes this in the audit log. Its
/// pending deliveries are sent; exhausted ones can be replayed. The transaction has closed its
/// account's gate.
pub async fn enable(
    tx: &mut Transaction,
    base: &Base,
    destination: &Destination,
    act: Act<'_>,
) -> Result<(), StoreError> {
    let enabled = sql("UPDATE destinations
         SET disabled_at = NULL, disabled_reason = NULL, draining = 0, failures = 0,
             failing_since = NULL, last_failure_at = NULL, rests_until = 0
         WHERE id = $1 AND removed_at IS NULL AND disabled_at IS NOT NULL")
    .bind(destination.id.0)
    .execute(tx.on())
    .await?;
    if enabled == 0 {
        return Ok(());
    }
    audit::note(tx, base.mint(), act, note_about(destination, Deed::WebhookEnabled, &[])).await
}
