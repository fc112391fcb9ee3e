//! Destinations of webhooks: adding, listing, changing, testing and removing them.

use std::sync::Arc;

use url::Url;
use uuid::Uuid;

use super::error::DestinationError;
use crate::domain::account::Account;
use crate::domain::audit::Actor;
use crate::domain::clock::Timestamp;
use crate::domain::custom_header::{self, CustomHeader};
use crate::domain::delivery::Extent;
use crate::domain::destination::{Destination, Health, Wants};
use crate::domain::event::Category;
use crate::domain::id::{AccountId, DeliveryId, DestinationId, EventId, Mint};
use crate::domain::secret::Secret;
use crate::rules::{AccessRules, WebhookRules};
use crate::store::{
    DestinationChange, KnownDestination, NewDestination, ReplayRequest, Replayed, Rotated,
    Rotation, SomeCategories, Store, Tested,
};

/// In bytes: long enough to name an application; bounds each list.
pub(super) const LONGEST_LABEL: usize = 200;

#[derive(Clone, Debug)]
pub struct DestinationDraft<'d> {
    pub url: Url,
    pub category: Category,
    pub label: &'d str,
    pub wants: Wants,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Added {
    /// New: its secret may be shown, only now.
    Created(Destination),
    /// The account has this URL and category already: the secret is not shown again.
    Existed(Destination),
}

/// Use cases of destinations. The egress guard has checked each URL before.
#[derive(Clone, Debug)]
pub struct Destinations {
    pub(super) store: Store,
    mint: Mint,
    access: Arc<AccessRules>,
    pub(super) rules: Arc<WebhookRules>,
    actor: Actor,
}

done_by!(Destinations, mint.clock());

impl Destinations {
    /// Acts as the operator.
    pub const fn new(
        store: Store,
        mint: Mint,
        access: Arc<AccessRules>,
        rules: Arc<WebhookRules>,
    ) -> Self {
        Self { store, mint, access, rules, actor: Actor::OPERATOR }
    }

    /// Adds a destination with default settings and a new secret.
    pub async fn add(
        &self,
        account: AccountId,
        url: Url,
        category: Category,
        label: &str,
    ) -> Result<Added, DestinationError> {
        let wants = Wants::default();
        self.add_with(account, DestinationDraft { url, category, label, wants }).await
    }

    /// Adds a destination with these settings and a new secret.
    pub async fn add_with(
        &self,
        account: AccountId,
        draft: DestinationDraft<'_>,
    ) -> Result<Added, DestinationError> {
        let DestinationDraft { url, category, label, wants } = draft;
        check_label(label)?;
        let new = Destination {
            id: DestinationId(self.mint.uuid()),
            account,
            url,
            category,
            label: label.to_owned(),
            wants,
            secret: Secret::new(self.mint.secret()),
            secret_rotated_at: None,
            former_secrets: Vec::new(),
            disabled: None,
            health: Health::default(),
            created_at: self.mint.clock().now(),
        };
        let most = self.access.limits.max_destinations;
        match self.store.insert_destination(&new, most, self.act()).await? {
            NewDestination::Created => Ok(Added::Created(new)),
            NewDestination::Exists(old) => Ok(Added::Existed(*old)),
            NewDestination::TooMany => Err(DestinationError::TooMany { most }),
        }
    }

    /// Checks header fields to send along, and merges them with the `known` ones.
    pub fn headers(
        &self,
        fields: Vec<(String, String)>,
        known: &[CustomHeader],
    ) -> Result<Vec<CustomHeader>, DestinationError> {
        Ok(custom_header::merged(fields, known, self.rules.header_bounds())?)
    }

    /// Lists an account's destinations, oldest first.
    pub async fn list(&self, account: AccountId) -> Result<Vec<Destination>, DestinationError> {
        Ok(self.store.destinations(account).await?)
    }

    /// Returns the destinations of all accounts, oldest first.
    pub async fn all(&self) -> Result<Vec<Destination>, DestinationError> {
        Ok(self.store.all_destinations().await?)
    }

    /// Returns a destination that any account has or had.
    pub async fn known_anywhere(
        &self,
        id: DestinationId,
    ) -> Result<KnownDestination, DestinationError> {
        self.store.destination_of_any(id).await?.ok_or(DestinationError::NoWebhook)
    }

    /// Returns a destination that the account has or had.
    pub async fn known(
        &self,
        account: AccountId,
        id: DestinationId,
    ) -> Result<KnownDestination, DestinationError> {
        self.store.destination(account, id).await?.ok_or(DestinationError::NoWebhook)
    }

    /// Changes the given fields and returns the destination.
    pub async fn update(
        &self,
        account: AccountId,
        id: DestinationId,
        change: &DestinationChange,
    ) -> Result<Destination, DestinationError> {
        change.label.as_deref().map_or(Ok(()), check_label)?;
        let updated = self.store.update_destination(account, id, change, self.act()).await?;
        updated.ok_or(DestinationError::NoWebhook)
    }

    /// Gives a destination a new secret, which may be shown only now. The previous one also signs
    /// for a while; with `end_former`, all former ones end at once.
    pub async fn rotate(
        &self,
        account: AccountId,
        id: DestinationId,
        end_former: bool,
    ) -> Result<Destination, DestinationError> {
        let act = self.act();
        let (overlap, max_former) = (self.rules.rotation.overlap(), self.rules.rotation.max_former);
        let rotation = Rotation {
            secret: Secret::new(self.mint.secret()),
            overlap_until: (!end_former).then(|| act.at.plus(overlap)),
            max_former,
        };
        match self.store.rotate_secret(account, id, &rotation, act).await? {
            Rotated::Done(new) => Ok(*new),
            Rotated::TooMany(first) => {
                Err(DestinationError::TooManySecrets { most: max_former, first })
            }
            Rotated::NoDestination => Err(DestinationError::NoWebhook),
        }
    }

    /// Sends a test event to this destination alone.
    pub async fn test(
        &self,
        account: &Account,
        id: DestinationId,
    ) -> Result<(EventId, DeliveryId), DestinationError> {
        match self.store.test_destination(account, id, self.act()).await? {
            Tested::Sent(event, delivery) => Ok((event, delivery)),
            Tested::Disabled => Err(DestinationError::Disabled),
            Tested::NoDestination => Err(DestinationError::NoWebhook),
        }
    }

    /// Requests a replay of the deliveries made since `since`, and returns its id.
    pub async fn replay(
        &self,
        account: AccountId,
        id: DestinationId,
        since: Timestamp,
        extent: Extent,
    ) -> Result<Uuid, DestinationError> {
        let act = self.act();
        if since > act.at {
            return Err(DestinationError::Future);
        }
        let most = self.rules.replays.max_per_destination;
        let request = ReplayRequest { since, extent };
        match self.store.request_replay(account, id, request, most, act).await? {
            Replayed::Accepted(replay) => Ok(replay),
            Replayed::TooMany => Err(DestinationError::TooManyReplays { most }),
            Replayed::Disabled => Err(DestinationError::Disabled),
            Replayed::NoDestination => Err(DestinationError::NoWebhook),
        }
    }

    /// Removes the account's destinations of these categories that match all given conditions, and
    /// returns them. Their pending deliveries are not claimed any more.
    pub async fn remove(
        &self,
        account: AccountId,
        id: Option<DestinationId>,
        url: Option<&Url>,
        categories: &[Category],
    ) -> Result<Vec<Destination>, DestinationError> {
        let Some((first, others)) = categories.split_first() else { return Ok(Vec::new()) };
        let some = Some(SomeCategories { first: *first, others });
        Ok(self.store.remove_destinations(account, id, url, some, self.act()).await?)
    }
}

fn check_label(label: &str) -> Result<(), DestinationError> {
    if label.len() > LONGEST_LABEL || label.chars().any(char::is_control) {
        return Err(DestinationError::Label);
    }
    Ok(())
}
