//! Disables destinations without removing them, and enables them again.

use super::destinations::drain;
use crate::domain::account::Lineage;
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::destination::{Destination, Disabled};
use crate::domain::event::{Event, EventName};
use crate::store::base::Base;
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::sql::sql;
use crate::store::events::announcements::announce;
use crate::store::events::told::{DisabledData, told};
use crate::store::tenancy::audit::{self, Note};
use crate::wire::Date;

pub struct Why {
    /// The reason and the remedy, in words for a customer.
    pub reason: String,
    pub failing_since: Option<Timestamp>,
    /// HTTP status of the last attempt; None if no response came (see `error`), or on request.
    pub last_status: Option<u16>,
    pub error: Option<String>,
}

impl Why {
    pub(in crate::store) fn asked_for(disabled: &Disabled) -> Self {
        let reason = disabled.reason.clone();
        Self { reason, failing_since: None, last_status: None, error: None }
    }
}

/// Disables a destination, with an event and an entry of the audit log. Does nothing if it is
/// disabled or removed already. It gets no new deliveries, and its pending ones become exhausted,
/// batch by batch. The transaction has closed the gate of its account and passed those above.
pub async fn disable(
    tx: &mut Transaction,
    base: &Base,
    (destination, lineage): (&Destination, Lineage),
    why: &Why,
    act: Act<'_>,
) -> Result<(), StoreError> {
    let disabled = sql("UPDATE destinations
         SET disabled_at = $2, disabled_reason = $3, draining = 1, rests_until = 0
         WHERE id = $1 AND removed_at IS NULL AND disabled_at IS NULL")
    .bind(destination.id.0)
    .bind(act.at)
    .bind(why.reason.as_str())
    .execute(tx.on())
    .await?;
    if disabled == 0 {
        return Ok(());
    }
    drain(tx, destination.id.0, act.at, base.deliveries.cancel_at_once).await?;
    let event = Event {
        id: base.mint().event(),
        name: EventName::WebhookDisabled,
        at: act.at,
        lineage,
        message: None,
        contact: None,
        told: Some(told(&DisabledData {
            account_id: destination.account.into(),
            webhook: destination.into(),
            reason: why.reason.clone(),
            failing_since: why.failing_since.map(Date),
            last_status: why.last_status,
            error: why.error.clone(),
        })),
    };
    announce(tx, &[event], base.mint()).await?;
    let since = why.failing_since.map(|since| since.to_string());
    let mut changes = vec![Change::made("reason", &why.reason)];
    changes.extend(since.map(|since| Change::made("failingSince", since)));
    let (account, object) = (destination.account, destination.id.to_string());
    let note = Note { account, deed: Deed::WebhookDisabled, object, changes: &changes };
    audit::note(tx, base.mint(), act, note).await
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
    let (account, object) = (destination.account, destination.id.to_string());
    let note = Note { account, deed: Deed::WebhookEnabled, object, changes: &[] };
    audit::note(tx, base.mint(), act, note).await
}
