//! Resolves host names with a resolver of its own.
//!
//! Customers choose the names, and their DNS servers may stay silent as long as they like. So no
//! thread blocks on them (the system's getaddrinfo would hold a thread that intake needs, long
//! after the attempt was given up), and they share nothing with the queries for mail.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mail_auth::hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig,
    ResolverOpts,
};
use mail_auth::hickory_resolver::net::runtime::TokioRuntimeProvider;
use mail_auth::hickory_resolver::net::{DnsError, NetError};
use mail_auth::hickory_resolver::proto::op::{Query, ResponseCode};
use mail_auth::hickory_resolver::proto::rr::{Name, RecordType};
use mail_auth::hickory_resolver::system_conf::read_system_conf;
use mail_auth::hickory_resolver::{Hosts, TokioResolver};
use tokio::sync::Semaphore;

use super::error::EgressError;

/// Most addresses of one name that are used; honest hosts have fewer.
const MAX_ADDRESSES: usize = 64;

/// A look-up under way.
pub type PendingLookup = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Resolves host names to addresses. The guard checks all of them.
#[derive(Clone)]
pub struct Lookup(Arc<dyn Fn(String) -> PendingLookup + Send + Sync>);

impl Lookup {
    /// Resolves names with `look`.
    pub fn new<F, R>(look: F) -> Self
    where
        F: Fn(String) -> R + Send + Sync + 'static,
        R: Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static,
    {
        Self(Arc::new(move |host| Box::pin(look(host))))
    }

    /// Queries these servers (UDP, and TCP for long answers). Without any, uses the system's: hosts
    /// file, `/etc/resolv.conf` and search list as they are now. `within` is the time for a
    /// connection; each of two tries may take a third of it. At most `places` look-ups run at the
    /// same time; more wait. Dropping a look-up ends it. Must be called inside the runtime. Fails
    /// if the system's servers cannot be read.
    pub fn with_servers(
        servers: Option<&[SocketAddr]>,
        within: Duration,
        places: usize,
    ) -> Result<Self, EgressError> {
        // Named servers replace the hosts file too.
        let hosts = if servers.is_none() { Hosts::from_system() } else { Ok(Hosts::default()) };
        let resolver = resolver(servers, within, places)
            .map_err(|source| EgressError::Resolver(source.to_string()))?;
        // A machine without the file has no names of its own.
        Ok(Self::with_resolver(resolver, hosts.unwrap_or_default(), places))
    }

    /// Finds what everybody finds: as [`Self::with_servers`], but by DNS alone, without hosts file
    /// and search list. A name without addresses is no failure.
    pub fn published(
        servers: Option<&[SocketAddr]>,
        within: Duration,
        places: usize,
    ) -> Result<Self, EgressError> {
        let resolver = resolver(servers, within, places)
            .map_err(|source| EgressError::Resolver(source.to_string()))?;
        Ok(Self::by_dns_alone(resolver, places))
    }

    fn by_dns_alone(resolver: TokioResolver, places: usize) -> Self {
        let places = Arc::new(Semaphore::new(places));
        Self::new(move |host| {
            let (resolver, places) = (resolver.clone(), Arc::clone(&places));
            async move {
                let mut name = Name::from_ascii(&host).map_err(io::Error::other)?;
                // Keeps the search list away.
                name.set_fqdn(true);
                let _place = places.acquire_owned().await.map_err(io::Error::other)?;
                match resolver.lookup_ip(name).await {
                    Ok(found) => Ok(found.iter().take(MAX_ADDRESSES).collect()),
                    Err(error) if is_empty(&error) => Ok(Vec::new()),
                    Err(error) => Err(io::Error::other(error)),
                }
            }
        })
    }

    /// A name in `hosts` has only those addresses, whatever DNS or the search list would return.
    fn with_resolver(resolver: TokioResolver, hosts: Hosts, places: usize) -> Self {
        let (places, hosts) = (Arc::new(Semaphore::new(places)), Arc::new(hosts));
        Self::new(move |host| {
            let (resolver, places) = (resolver.clone(), Arc::clone(&places));
            let hosts = Arc::clone(&hosts);
            async move {
                let name = Name::from_ascii(&host).map_err(io::Error::other)?.to_lowercase();
                let here = listed(&hosts, &name);
                if !here.is_empty() {
                    return Ok(here);
                }
                let _place = places.acquire_owned().await.map_err(io::Error::other)?;
                let found = resolver.lookup_ip(name).await.map_err(io::Error::other)?;
                Ok(found.iter().take(MAX_ADDRESSES).collect())
            }
        })
    }

    /// Returns the addresses of one host.
    pub fn look(&self, host: &str) -> PendingLookup {
        (self.0)(host.to_owned())
    }
}

/// Returns the addresses of a name in the hosts file.
fn listed(hosts: &Hosts, name: &Name) -> Vec<IpAddr> {
    let kinds = [RecordType::A, RecordType::AAAA].into_iter();
    let found =
        kinds.filter_map(|kind| hosts.lookup_static_host(&Query::query(name.clone(), kind)));
    let found: Vec<_> = found.collect();
    let records = found.iter().flat_map(|lookup| lookup.answers());
    records.filter_map(|record| record.data.ip_addr()).take(MAX_ADDRESSES).collect()
}

/// Whether the DNS answered that there are no addresses.
fn is_empty(error: &NetError) -> bool {
    matches!(
        error,
        NetError::Dns(DnsError::NoRecordsFound(found))
            if matches!(found.response_code, ResponseCode::NoError | ResponseCode::NXDomain)
    )
}

fn resolver(
    servers: Option<&[SocketAddr]>,
    within: Duration,
    places: usize,
) -> Result<TokioResolver, NetError> {
    let (config, mut options) = match servers {
        None => read_system_conf()?,
        Some(servers) => {
            let servers = servers.iter().copied().map(name_server).collect();
            (ResolverConfig::from_parts(None, Vec::new(), servers), ResolverOpts::default())
        }
    };
    // The resolver would consult the hosts file only after the search list.
    options.use_hosts_file = ResolveHosts::Never;
    options.timeout = within / 3;
    options.attempts = 1;
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    // Each attempt looks its host up anew (contract §5).
    options.cache_size = 0;
    // Both queries of every look-up may share one connection.
    options.max_active_requests = places.saturating_mul(2);
    TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        .with_options(options)
        .build()
}

fn name_server(address: SocketAddr) -> NameServerConfig {
    let (mut udp, mut tcp) = (ConnectionConfig::udp(), ConnectionConfig::tcp());
    udp.port = address.port();
    tcp.port = address.port();
    NameServerConfig::new(address.ip(), true, vec![udp, tcp])
}

#[cfg(test)]
mod tests;
