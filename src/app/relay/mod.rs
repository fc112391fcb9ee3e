//! Relays (contract §6): a hop through the account's own application before a message is processed,
//! and the ways in by which providers post what they received.

mod asking;
mod attempts;
mod error;
mod forward;
pub mod inbound;
mod places;
pub mod providers;
mod sealed;
mod settings;
pub mod signers;
mod tokens;
pub mod verification;

use std::sync::Arc;
use std::time::Instant;

use tracing::info;
use url::Url;

use self::attempts::Attempts;
use self::forward::Forwarder;
use self::places::Places;
use crate::app::access::token;
use crate::app::vault::Vault;
use crate::domain::account::{Account, Lineage};
use crate::domain::audit::Actor;
use crate::domain::id::{Mint, RelayAttemptId};
use crate::domain::relay::{Forwarded, Hop, Relay, RelayAttempt, RelayType, Way};
use crate::egress::client::Client;
use crate::rules::RelayRules;
use crate::store::Store;

pub use self::error::RelayError;
pub use self::settings::{Configured, InboundWay, RelayChange};

/// The use cases. URLs come in checked by the egress guard.
#[derive(Clone, Debug)]
pub struct Relays {
    store: Store,
    vault: Vault,
    mint: Mint,
    forwarder: Forwarder,
    places: Places,
    attempts: Attempts,
    rules: Arc<RelayRules>,
    /// Where this gateway is reached from outside.
    public_url: Option<Url>,
    /// The actor recorded in the audit log.
    actor: Actor,
}

done_by!(Relays, mint.clock());

impl Relays {
    /// Over this store; what is secret is sealed by this vault, and applications are reached by
    /// this client.
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

    /// The same of a gateway that is reached here: without it the URLs of ways in are relative.
    #[must_use]
    pub fn at(self, public_url: Option<&Url>) -> Self {
        Self { public_url: public_url.cloned(), ..self }
    }

    /// Whose way in this key opens, and what proves that the provider posted; `None` where there is
    /// none, whatever was sent.
    pub async fn way(&self, kind: RelayType, inbound_key: &str) -> Result<Option<Way>, RelayError> {
        let Some(hash) = token::INBOUND.hash(inbound_key) else { return Ok(None) };
        let Some(sealed) = self.store.inbound_way_by_key(kind, hash).await? else {
            return Ok(None);
        };
        let Some(account) = self.store.account(sealed.account).await? else { return Ok(None) };
        let verification = self.open_verification(&sealed)?;
        Ok(Some(Way { account, verification }))
    }

    /// The relay that counts for this account: its own, or that of the nearest account above it.
    pub async fn nearest(
        &self,
        kind: RelayType,
        account: &Account,
    ) -> Result<Option<Relay>, RelayError> {
        self.nearest_to(kind, &account.lineage).await
    }

    /// The same for whoever has this lineage.
    pub async fn nearest_to(
        &self,
        kind: RelayType,
        lineage: &Lineage,
    ) -> Result<Option<Relay>, RelayError> {
        let sealed = self.store.nearest_relay(kind, lineage).await?;
        sealed.map(|sealed| self.open_relay(sealed)).transpose()
    }

    /// Asks an application about a request for whoever has this lineage (an Agent, or the account of
    /// the way in), and notes what came of it. It takes the relay's time at most; whatever is not an
    /// answer defers. Nobody is asked where too much is under way for the organization or the relay.
    pub async fn pass(&self, relay: &Relay, whose: &Lineage, forwarded: &Forwarded) -> Hop {
        let account = whose.ids().last().unwrap_or(relay.account);
        let tenant = whose.organization.unwrap_or(account);
        let Some(_place) = self.places.take(tenant, relay.id) else {
            info!(relay.id = %relay.id, account.id = %account, "too much is under way to ask");
            return Hop::Deferred(BUSY.to_owned());
        };
        let (id, at) = (RelayAttemptId(self.mint.uuid()), self.mint.clock().now());
        let began = Instant::now();
        let (hop, status) = self.forwarder.ask(relay, (account, id, at), forwarded).await;
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

/// In words that a customer may read.
const BUSY: &str = "too many requests to the application, or to those of its organization, are under \
                    way: they are too slow, or the messages are too many";
