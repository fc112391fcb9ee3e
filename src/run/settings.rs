//! What a server is made from, and why it cannot start.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use url::{Host, Url};

use super::FrontEnd;
use super::vault::VaultFileError;
use crate::domain::address::Address;
use crate::domain::domain_name::DomainName;
use crate::egress::client::EgressError;
use crate::rules::Rules;
use crate::store::{Place, StoreError};
use crate::tls::acme;
use crate::tls::self_signed::SelfSignedError;
use crate::tls::{FilesError, Paths};
use crate::verify::VerifyError;

/// What a server is made from.
#[derive(Clone, Debug)]
pub struct Settings {
    pub front_end: FrontEnd,
    pub smtp: SocketAddr,
    pub http: SocketAddr,
    pub hostname: DomainName,
    /// Where clients reach the API, as they see it.
    pub public_url: Option<Url>,
    pub place: Place,
    /// How long a PostgreSQL that cannot be reached is waited for.
    pub start_patience: Duration,
    /// The keys of the vault; without them those beside the embedded store.
    pub secrets_key: Option<PathBuf>,
    pub postmaster: Option<Address>,
    pub rules: Rules,
    /// Resolvers to ask instead of the system's.
    pub dns: Option<Vec<SocketAddr>>,
    pub egress_allow: Vec<IpNet>,
    /// Networks whose word is taken for whom they pass on (PROXY header, `X-Forwarded-For`).
    pub trusted_proxy: Vec<IpNet>,
    /// Origins whose pages may read what the API answers.
    pub cors_origin: Vec<String>,
    pub tls: TlsSettings,
}

impl Settings {
    /// The hosts that this gateway goes by.
    pub(super) fn own_hosts(&self) -> Vec<Host> {
        let public = self.public_url.as_ref().and_then(Url::host).map(|host| host.to_owned());
        public.into_iter().chain([Host::Domain(self.hostname.as_str().to_owned())]).collect()
    }
}

/// What is encrypted, and by which certificates.
#[derive(Clone, Debug, Default)]
pub struct TlsSettings {
    /// Where TLS comes first; STARTTLS is offered on the other address in any case.
    pub smtps: Option<SocketAddr>,
    /// The certificate for SMTP instead of a self-signed one.
    pub smtp: Option<Paths>,
    /// The certificate for SMTP is asked for; a self-signed one until it comes.
    pub acme: Option<acme::Settings>,
    /// Serves the API by https.
    pub http: Option<Paths>,
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("cannot listen on {address}")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("cannot start the threads of the API")]
    Threads(#[source] std::io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Verify(#[from] VerifyError),
    #[error(transparent)]
    Egress(#[from] EgressError),
    #[error(transparent)]
    Certificate(#[from] FilesError),
    #[error(transparent)]
    Vault(#[from] VaultFileError),
    #[error(transparent)]
    SelfSigned(#[from] SelfSignedError),
    #[error("cannot use TLS")]
    Tls(#[from] rustls::Error),
    #[error("cannot read {path}, which should hold a root certificate, PEM")]
    AcmeRoot { path: PathBuf, source: Option<std::io::Error> },
}
