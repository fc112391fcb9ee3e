//! Certificates for the hosts `mta-sts.DOMAIN` of customers' domains (RFC 8461 §3.3), without a word
//! of the operator: each has its own order, so that one customer's DNS holds up no other's.
//!
//! The domains are looked at from time to time. A new one gets a keeper, which orders nothing until
//! the host leads here. One that is gone is no longer shown, and its files are removed, its waits when
//! they are over.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;

use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use super::Settings;
use super::authority::Authority;
use super::failure::AcmeError;
use super::folder;
use super::keeper::Keeper;
use crate::domain::domain_name::DomainName;
use crate::domain::mta_sts;
use crate::shutdown::Shutdown;
use crate::tls::Certificates;

/// Domains of accounts, or why they cannot be read.
type Found = Result<Arc<BTreeSet<DomainName>>, Box<dyn std::error::Error + Send + Sync>>;

/// Where the domains of accounts come from.
#[derive(Clone)]
pub struct Domains(Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Found> + Send>> + Send + Sync>);

impl Domains {
    pub fn by<R: Future<Output = Found> + Send + 'static>(
        look: impl Fn() -> R + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(move || Box::pin(look())))
    }
}

pub(super) struct PolicyHosts {
    authority: Arc<Authority>,
    domains: Domains,
    /// The API's own certificate from files: hosts that it names need no other.
    of_files: Option<Certificates>,
    kept: BTreeMap<DomainName, AbortHandle>,
    /// Dropping them ends them.
    keeping: JoinSet<()>,
}

impl PolicyHosts {
    pub(super) fn new(
        authority: &Arc<Authority>,
        domains: Domains,
        of_files: Option<Certificates>,
    ) -> Self {
        let authority = Arc::clone(authority);
        let (kept, keeping) = (BTreeMap::new(), JoinSet::new());
        Self { authority, domains, of_files, kept, keeping }
    }

    /// Follows the domains. Never ends.
    pub(super) async fn follow(mut self, shutdown: &Shutdown) {
        self.count_attempts().await;
        loop {
            match (self.domains.0)().await {
                Ok(domains) => self.keep(&self.hosts(&domains), shutdown).await,
                Err(error) => tracing::warn!(
                    error = &*error as &(dyn std::error::Error + 'static),
                    "cannot read for which domains certificates are needed: those in use stay"
                ),
            }
            sleep(self.authority.rules.policy_hosts.look()).await;
        }
    }

    /// Counts the orders from before the start, of removed domains too, before any other is placed.
    pub(super) async fn count_attempts(&self) {
        let settings = self.authority.settings.clone();
        let reading = move || folder::attempts(&settings, |name| is_policy_host(&settings, name));
        // The first attempts report faults of the folder.
        let attempts = tokio::task::spawn_blocking(reading).await.ok().and_then(Result::ok);
        attempts.into_iter().flatten().for_each(|at| self.authority.budget.count(at));
    }

    /// Returns the hosts of these domains that need certificates of their own.
    pub(super) fn hosts(&self, domains: &BTreeSet<DomainName>) -> BTreeSet<DomainName> {
        let own = &self.authority.settings.names;
        let of_files = self.of_files.as_ref().map(Certificates::current);
        let is_open = |host: &DomainName| {
            !own.contains(host) && !of_files.as_ref().is_some_and(|pair| pair.names(host))
        };
        domains.iter().filter_map(mta_sts::host_of).filter(is_open).collect()
    }

    pub(super) async fn keep(&mut self, hosts: &BTreeSet<DomainName>, shutdown: &Shutdown) {
        for (name, _) in self.kept.extract_if(.., |name, keeping| {
            let is_gone = !hosts.contains(name);
            if is_gone {
                keeping.abort();
            }
            is_gone
        }) {
            self.authority.certificates.others().forget(&name);
            tracing::info!(acme.name = %name, "no certificate is needed for this name any more");
        }
        while self.keeping.try_join_next().is_some() {}
        self.remove_others(hosts.clone()).await.unwrap_or_else(|error| {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "cannot remove the files of certificates that nobody needs");
        });
        let new = hosts.iter().filter(|name| !self.kept.contains_key(*name));
        let mut begun = Vec::new();
        for name in new {
            let keeper = Keeper::new(&self.authority, name.clone());
            let next = keeper.begin().await;
            begun.push((keeper, next));
        }
        // Afterwards: certificates that are there come before others.
        for (keeper, next) in begun {
            let (name, stop) = (keeper.name.clone(), shutdown.clone());
            let keeping = self.keeping.spawn(async move { keeper.keep(next, &stop).await });
            self.kept.insert(name, keeping);
        }
    }

    /// Removes the files of policy hosts but these.
    async fn remove_others(&self, hosts: BTreeSet<DomainName>) -> Result<(), AcmeError> {
        let (settings, now) = (self.authority.settings.clone(), self.authority.clock().now());
        let removing = move || {
            folder::remove(&settings, now, |name| {
                is_policy_host(&settings, name) && !hosts.contains(name)
            })
        };
        let removed = tokio::task::spawn_blocking(removing).await;
        Ok(removed.map_err(|_| AcmeError::Stopped)??)
    }
}

/// Whether the name is of a customer's policy, and none of the operator's.
fn is_policy_host(settings: &Settings, name: &DomainName) -> bool {
    mta_sts::domain_of(name.as_str()).is_some() && !settings.names.contains(name)
}
