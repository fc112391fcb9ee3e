//! Certificates from an authority, by ACME (RFC 8555): ordering, storing and renewing them.
//!
//! The authority proves that this server owns a name by fetching a token from its port 80 (HTTP-01,
//! RFC 8555 §8.3) or a certificate from its port 443 (TLS-ALPN-01, RFC 8737). `challenges` has the
//! answers, and serves tokens and nothing else; `tls_alpn` makes certificates for the listener of
//! the API. A `keeper` has one certificate: it shows it, orders it by `order`, and renews it when
//! the authority suggests (`window`, RFC 9773), or when a part of its life is over. `authority` is
//! what all share; `leading` looks up where names lead; `policy_hosts` has a keeper for each host
//! `mta-sts.DOMAIN` of a customer, whose orders a `budget` bounds. `folder` is the folder with account,
//! key and chain, so a restart asks for nothing.
//! `transport` sends requests through `egress`. The key of the certificate is made once and stays: a
//! TLSA record of it (RFC 7672 §3.1.1) outlives every renewal.
//!
//! Never: asking an authority again at once, not even after a restart; mail that waits for an
//! authority. Until there is a certificate by ACME, the server shows the one that it has.

mod authority;
mod budget;
mod challenges;
mod failure;
mod folder;
mod keeper;
mod leading;
mod order;
mod policy_hosts;
pub(in crate::tls) mod tls_alpn;
mod transport;
mod window;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::TcpListener;
use url::Url;

use crate::domain::acme_challenge::AcmeChallenge;
use crate::domain::domain_name::DomainName;
use crate::domain::id::Mint;
use crate::egress::client::{Client, Limits, Lookup};
use crate::rules::AcmeRules;
use crate::shutdown::Shutdown;

use super::certificates::Certificates;
use authority::Authority;
pub use challenges::Challenges;
pub use folder::{FolderError, stored};
pub(super) use folder::{all as all_files, read};
use keeper::{Keeper, Next};
pub use policy_hosts::Domains;
use policy_hosts::PolicyHosts;

/// The authority, the names, and the place of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The URL of the authority's directory (RFC 8555 §7.1.1), https.
    pub directory: Url,
    /// `mailto:` URLs of the operator, sent when the account is made.
    pub contact: Vec<String>,
    /// The server's own names, its host's first; at least one. Each has a certificate.
    pub names: Vec<DomainName>,
    pub challenge: AcmeChallenge,
    /// The address at which the authority's requests to port 80 arrive.
    pub http: SocketAddr,
    /// Not shared with other gateways.
    pub folder: PathBuf,
    /// PEM file of root certificates that verify the directory's server, beside the system's.
    pub ca_file: Option<PathBuf>,
}

pub struct Acme {
    authority: Arc<Authority>,
    /// None while another program has the address.
    listener: Option<TcpListener>,
    kept: Vec<(Keeper, Next)>,
    policy_hosts: Option<PolicyHosts>,
}

impl From<&AcmeRules> for Limits {
    fn from(rules: &AcmeRules) -> Self {
        Self {
            timeout: rules.attempt.request(),
            connect_timeout: rules.attempt.connect(),
            max_response_bytes: rules.attempt.max_response_bytes,
        }
    }
}

impl Acme {
    /// Shows the stored certificates. Sends nothing yet. `listener` is for the
    /// authority's challenges at port 80, where these are asked for; if it failed, listening is
    /// tried again before each attempt. `client` reaches the directory. `challenges` are those that
    /// the listener of the API shows.
    pub async fn on(
        listener: Option<io::Result<TcpListener>>,
        settings: Settings,
        rules: Arc<AcmeRules>,
        (client, lookup): (Client, Lookup),
        (certificates, challenges): (Certificates, Challenges),
        mint: Mint,
    ) -> Self {
        if let Some(Err(error)) = &listener {
            tracing::error!(
                error = error as &dyn std::error::Error,
                advice = failure::of_listening(error.kind()),
                acme.http = %settings.http,
                "cannot listen for ACME challenges: no certificate by ACME until this works; the \
                 certificate in use stays in use"
            );
        }
        let listener = listener.and_then(Result::ok);
        let is_open = listener.is_some() || settings.challenge == AcmeChallenge::TlsAlpn01;
        let shown = (certificates, challenges);
        let authority =
            Arc::new(Authority::new(settings, rules, (client, lookup), shown, mint, is_open));
        let mut kept = Vec::new();
        for name in &authority.settings.names {
            let keeper = Keeper::new(&authority, name.clone());
            let next = keeper.begin().await;
            kept.push((keeper, next));
        }
        Self { authority, listener, kept, policy_hosts: None }
    }

    /// Gets certificates for the policy hosts of these domains, too, but for those that are named
    /// by `of_files`, the API's own certificate.
    pub fn with_policy_hosts(self, domains: Domains, of_files: Option<Certificates>) -> Self {
        let hosts = PolicyHosts::new(&self.authority, domains, of_files);
        Self { policy_hosts: Some(hosts), ..self }
    }

    /// The address on which it listens for the authority, if it does.
    pub fn http(&self) -> Option<SocketAddr> {
        self.listener.as_ref()?.local_addr().ok()
    }

    /// Obtains and renews certificates until the soft stop.
    pub fn run(self, shutdown: &Shutdown) {
        let Self { authority, listener, kept, policy_hosts } = self;
        if let Some(listener) = listener {
            authority.serve(listener, shutdown);
        }
        for (keeper, next) in kept {
            let stop = shutdown.clone();
            shutdown.spawn_until_soft_stop(async move { keeper.keep(next, &stop).await });
        }
        if let Some(hosts) = policy_hosts {
            let stop = shutdown.clone();
            shutdown.spawn_until_soft_stop(async move { hosts.follow(&stop).await });
        }
    }
}

#[cfg(test)]
mod tests;
