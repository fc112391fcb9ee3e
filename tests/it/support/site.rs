//! The surroundings of gateways: DNS, a webhook receiver, and a store with accounts.

use std::sync::Arc;

use gatepost::app::delivery::{Added, Destinations};
use gatepost::app::tenancy::Tenancy;
use gatepost::domain::event::Category;
use gatepost::egress::signature;
use gatepost::rules::Rules;
use gatepost::run;
use gatepost::shutdown::Shutdown;
use gatepost::store::{Location, Store};
use gatepost::testkit::dns::DnsServer;
use gatepost::testkit::fixture_accounts::FixtureAccounts;
use gatepost::testkit::receiver::{Received, Receiver};

use super::{PATIENCE, canary, local_dns};

/// The accounts are those of `fixtures/agents.toml`.
pub struct Site {
    pub dns: DnsServer,
    /// A destination of the organization.
    pub receiver: Receiver,
    /// The secret of the destination for `incoming` events of the organization.
    pub secret: String,
    pub house: FixtureAccounts,
    /// The organization's key.
    pub key: String,
    pub tenancy: Tenancy,
    destinations: Destinations,
    store: Store,
    helpers: Shutdown,
}

impl Site {
    /// Around a new store.
    pub async fn build(location: &Location, rules: &Rules) -> Self {
        canary::listen();
        let helpers = Shutdown::default();
        let dns = local_dns(&helpers).await;
        let mint = run::system_mint();
        let receiver = Receiver::start(mint.clock().clone()).await.unwrap();
        let store = Store::create(location, &rules.store, mint.clone()).await.unwrap();
        let access = Arc::new(rules.access.clone());
        let tenancy = Tenancy::new(store.clone(), mint.clone(), Arc::clone(&access));
        let house = FixtureAccounts::build(&tenancy).await.unwrap();
        let key = tenancy.create_key(house.organization.id, "test").await.unwrap().token;
        let webhooks = Arc::new(rules.webhooks.clone());
        let destinations = Destinations::new(store.clone(), mint, access, webhooks);
        let (url, account) = (receiver.url("/events").parse().unwrap(), house.organization.id);
        let added = destinations.add(account, url, Category::Incoming, "test").await.unwrap();
        let Added::Created(new) = added else { panic!("a new store has no destination") };
        let secret = signature::secret_text(&new.secret);
        receiver.trust(&secret);
        canary::note(format!("{key} {secret}").as_bytes());
        Self { dns, receiver, secret, house, key, tenancy, destinations, store, helpers }
    }

    /// Another destination of the organization for the same events, past the guard; answers its
    /// secret.
    pub async fn hook(&self, label: &str, url: &str) -> String {
        let (url, account) = (url.parse().unwrap(), self.house.organization.id);
        let added = self.destinations.add(account, url, Category::Incoming, label).await.unwrap();
        let Added::Created(new) = added else { panic!("{label} is there already") };
        let secret = signature::secret_text(&new.secret);
        canary::note(secret.as_bytes());
        secret
    }

    /// Leaves the store to gateways in other processes.
    pub async fn leave_store(&self) {
        self.store.close().await;
    }

    pub async fn finish(self) {
        assert!(self.helpers.finish(PATIENCE).await);
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for Received { path, headers, body, .. } in self.receiver.received() {
            canary::keep(&format!("webhook {path} {headers:?}"), &body, None);
        }
    }
}
