//! Relays (contract §6). A relay asks the account's own application about a message before it is
//! processed. An inbound key, in a URL, lets a provider post mail for the account.
//!
//! The nearest relay counts: the account's own, or that of the next account above. No transaction
//! is open while an application is asked. A timeout, a gateway with too many requests, or an answer
//! that neither passes nor refuses, defers the message. Locks are in memory (passes, attempts,
//! places, tokens, certificates), one at a time, never across an await.

mod applications;
mod attempts;
mod error;
mod forward;
pub mod inbound;
mod places;
pub mod providers;
mod sealed;
mod settings;
pub mod sns_certificates;
mod tokens;
pub mod verification;

use std::sync::Arc;
use std::time::Instant;

use tracing::info;
use url::Url;

use self::attempts::Attempts;
use self::forward::{AttemptStart, Forwarder};
use self::places::Places;
use crate::app::access::token;
use crate::app::vault::Vault;
use crate::domain::account::Lineage;
use crate::domain::audit::Actor;
use crate::domain::id::{AccountId, Mint, RelayAttemptId};
use crate::domain::relay::{Forwarded, Hop, Relay, RelayAttempt, RelayType, WayIn};
use crate::egress::client::Client;
use crate::rules::RelayRules;
use crate::store::Store;

pub use self::error::RelayError;
pub use self::settings::{InboundKey, RelayChange, RelaySettings};

/// The place of a relay and of an inbound key: an account has at most one of each type.
#[derive(Clone, Copy, Debug)]
struct RelaySlot {
    account: AccountId,
    kind: RelayType,
}

/// The use cases. URLs were checked by the egress guard before.
#[derive(Clone, Debug)]
pub struct Relays {
    store: Store,
    vault: Vault,
    mint: Mint,
    forwarder: Forwarder,
    places: Places,
    attempts: Attempts,
    rules: Arc<RelayRules>,
    /// The URL of this gateway as seen from outside.
    public_url: Option<Url>,
    actor: Actor,
}

done_by!(Relays, mint.clock());

impl Relays {
    pub fn new(
        store: Store,
        vault: Vault,
        mint: Mint,
        client: Client,
        rules: Arc<RelayRules>,
    ) -> Self {
        let (forwarder, places) = (Forwarder::new(client), Places::new(rules.forward));
        let attempts = &rules.attempts;
        let attempts = Attempts::new(store.clone(), attempts.kept, attempts.max_waiting);
        let (public_url, actor) = (None, Actor::OPERATOR);
        Self { store, vault, mint, forwarder, places, attempts, rules, public_url, actor }
    }

    pub(in crate::app) const fn mint(&self) -> &Mint {
        &self.mint
    }

    /// Sets the public URL; without one the URLs of inbound keys are relative.
    #[must_use]
    pub fn at(self, public_url: Option<&Url>) -> Self {
        Self { public_url: public_url.cloned(), ..self }
    }

    /// Returns the account that this inbound key belongs to, and the verification of its provider.
    /// None for any key that is unknown or malformed. Fails if the verification cannot be opened.
    pub async fn way(
        &self,
        kind: RelayType,
        inbound_key: &str,
    ) -> Result<Option<WayIn>, RelayError> {
        let Some(hash) = token::INBOUND.hash(inbound_key) else { return Ok(None) };
        let Some(sealed) = self.store.inbound_way_by_key(kind, hash).await? else {
            return Ok(None);
        };
        let Some(account) = self.store.account(sealed.account).await? else { return Ok(None) };
        let verification = self.open_verification(&sealed)?;
        Ok(Some(WayIn { account, verification }))
    }

    /// Returns the relay of the account of this lineage, or of the nearest account above it. Fails
    /// if its secrets cannot be opened.
    pub async fn nearest(
        &self,
        kind: RelayType,
        lineage: &Lineage,
    ) -> Result<Option<Relay>, RelayError> {
        let sealed = self.store.nearest_relay(kind, lineage).await?;
        sealed.map(|sealed| self.open_relay(sealed)).transpose()
    }

    /// Asks the application of `relay`, and records the attempt. `whose` is the lineage of an
    /// Agent, or of the account of an inbound key. Takes at most the relay's timeout. Defers
    /// without asking if too many requests are under way on this gateway, for the organization or
    /// for the relay. Records nothing if dropped.
    pub async fn pass(&self, relay: &Relay, whose: &Lineage, forwarded: &Forwarded) -> Hop {
        let account = whose.ids().last().unwrap_or(relay.account);
        let tenant = whose.organization.unwrap_or(account);
        let Some(_place) = self.places.take(tenant, relay.id) else {
            info!(
                relay.id = %relay.id,
                account.id = %account,
                "relay not asked: too many requests are under way"
            );
            return Hop::Deferred(BUSY.to_owned());
        };
        let (id, at) = (RelayAttemptId(self.mint.uuid()), self.mint.clock().now());
        let began = Instant::now();
        let start = AttemptStart { id, account, at };
        let (hop, status) = self.forwarder.ask(relay, start, forwarded).await;
        let error = match &hop {
            Hop::Deferred(why) => Some(why.clone()),
            Hop::Passed | Hop::Refused => None,
        };
        let (outcome, took) = (hop.outcome(), began.elapsed());
        info!(
            relay.id = %relay.id,
            relay.kind = %relay.kind,
            account.id = %account,
            outcome = outcome.as_str(),
            status,
            error,
            "application asked"
        );
        let relay = relay.id;
        self.attempts.note(RelayAttempt { id, relay, account, at, outcome, status, took, error });
        hop
    }
}

/// Shown to customers.
const BUSY: &str = "too many requests to the application, or to others of its organization, are \
                    under way: they answer too slowly, or there are too many messages";
