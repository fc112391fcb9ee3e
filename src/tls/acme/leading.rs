//! Where names lead, as the authority will find it.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Mutex;

use crate::domain::clock::{Clock, Timestamp};
use crate::domain::domain_name::DomainName;
use crate::egress::client::Lookup;

/// Why it is not known where a name leads.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot look up {name}")]
pub(super) struct Unknown {
    name: DomainName,
    source: Arc<io::Error>,
}

/// Looks up whether names lead to this gateway.
pub(super) struct Leading {
    lookup: Lookup,
    /// The gateway's own names.
    own: Vec<DomainName>,
    /// For so long their addresses are known.
    kept: Duration,
    clock: Clock,
    /// Since when, in steady time. Locked while they are looked up, once for all who ask.
    known: Mutex<Option<(Timestamp, OwnAddresses)>>,
}

/// The addresses of the gateway's own names, and why they may not be all.
#[derive(Clone)]
struct OwnAddresses {
    found: Arc<[IpAddr]>,
    failure: Option<Unknown>,
}

impl Leading {
    pub(super) fn new(lookup: Lookup, own: Vec<DomainName>, kept: Duration, clock: Clock) -> Self {
        Self { lookup, own, kept, clock, known: Mutex::default() }
    }

    /// Whether every address of the name is one of the gateway's own names: of several gateways one
    /// gets its certificate, and the authority meets no other.
    pub(super) async fn leads_here(&self, name: &DomainName) -> Result<bool, Unknown> {
        let found = self.look(name).await?;
        if found.is_empty() {
            return Ok(false);
        }
        let own = self.own().await;
        match own.failure {
            _ if found.iter().all(|address| own.found.contains(address)) => Ok(true),
            Some(failure) => Err(failure),
            None => Ok(false),
        }
    }

    async fn own(&self) -> OwnAddresses {
        let mut known = self.known.lock().await;
        let now = self.clock.steady();
        if let Some((since, own)) = &*known
            && now < since.plus(self.kept)
        {
            return own.clone();
        }
        let own = self.look_up_own().await;
        *known = Some((now, own.clone()));
        own
    }

    async fn look_up_own(&self) -> OwnAddresses {
        let (mut own, mut failure) = (Vec::new(), None);
        for found in join_all(self.own.iter().map(|name| self.look(name))).await {
            match found {
                Ok(found) => own.extend(found),
                Err(error) => failure = Some(error),
            }
        }
        if own.is_empty() && failure.is_none() {
            let source = io::Error::new(io::ErrorKind::NotFound, "it has no address");
            let first = self.own.first().cloned();
            failure = first.map(|name| Unknown { name, source: Arc::new(source) });
        }
        OwnAddresses { found: own.into(), failure }
    }

    async fn look(&self, name: &DomainName) -> Result<Vec<IpAddr>, Unknown> {
        let found = self.lookup.look(name.as_str()).await;
        found.map_err(|source| Unknown { name: name.clone(), source: Arc::new(source) })
    }
}
