//! Webhook destinations: create, list, remove.

use std::sync::Arc;

use url::Url;

use crate::domain::audit::{Act, Actor};
use crate::domain::destination::{Destination, Health, Wants};
use crate::domain::event::Category;
use crate::domain::id::{AccountId, DestinationId, Mint};
use crate::domain::secret::Secret;
use crate::rules::AccessRules;
use crate::store::{NewDestination, Store, StoreError};

/// Long enough to name an application; bounds what every list shows.
const LONGEST_LABEL: usize = 200;

/// Why a destination cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum DestinationError {
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    Conflict(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What became of a new destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Added {
    /// New; its secret may be shown this once.
    Created(Destination),
    /// The same account, URL and category was there already; its secret is not shown again.
    Existed(Destination),
}

/// The use cases over destinations. URLs come in checked by the egress guard.
#[derive(Clone, Debug)]
pub struct Destinations {
    store: Store,
    mint: Mint,
    rules: Arc<AccessRules>,
    /// Who is said to have done what is done here.
    actor: Actor,
}

impl Destinations {
    /// Keeps destinations in this store within these bounds, for the operator.
    pub const fn new(store: Store, mint: Mint, rules: Arc<AccessRules>) -> Self {
        Self { store, mint, rules, actor: Actor::OPERATOR }
    }

    /// The same for somebody else.
    #[must_use]
    pub fn by(&self, actor: &Actor) -> Self {
        Self { actor: actor.clone(), ..self.clone() }
    }

    fn act(&self) -> Act<'_> {
        self.actor.at(self.mint.clock().now())
    }

    /// Adds a destination with a secret of its own.
    pub async fn add(
        &self,
        account: AccountId,
        url: Url,
        category: Category,
        label: &str,
    ) -> Result<Added, DestinationError> {
        if label.len() > LONGEST_LABEL || label.chars().any(char::is_control) {
            return Err(DestinationError::Invalid(format!(
                "a label has at most {LONGEST_LABEL} octets and no control characters"
            )));
        }
        let new = Destination {
            id: DestinationId(self.mint.uuid()),
            account,
            url,
            category,
            label: label.to_owned(),
            wants: Wants::default(),
            secret: Secret::new(self.mint.secret()),
            former_secrets: Vec::new(),
            disabled: None,
            health: Health::default(),
            created_at: self.mint.clock().now(),
        };
        let most = self.rules.limits.max_destinations;
        match self.store.insert_destination(&new, most, self.act()).await? {
            NewDestination::Created => Ok(Added::Created(new)),
            NewDestination::Exists(old) => Ok(Added::Existed(*old)),
            NewDestination::TooMany => Err(DestinationError::Conflict(format!(
                "an account has at most {most} webhooks: remove one first"
            ))),
        }
    }

    /// The destinations of an account, oldest first.
    pub async fn list(&self, account: AccountId) -> Result<Vec<Destination>, DestinationError> {
        Ok(self.store.destinations(account).await?)
    }

    /// Removes the destinations of an account that match all that is given, cancels what waits
    /// for them, and answers them.
    pub async fn remove(
        &self,
        account: AccountId,
        id: Option<DestinationId>,
        url: Option<&Url>,
        category: Option<Category>,
    ) -> Result<Vec<Destination>, DestinationError> {
        Ok(self.store.remove_destinations(account, id, url, category, self.act()).await?)
    }
}
