//! The settings of a server, and errors of its start.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use reqwest::header::HeaderMap;
use url::{Host, Url};

use super::FrontEnd;
use super::sockets::{self, SocketError};
use super::vault::VaultFileError;
use crate::domain::acme_challenge::AcmeChallenge;
use crate::domain::address::Address;
use crate::domain::domain_name::DomainName;
use crate::domain::mta_sts::MtaSts;
use crate::domain::tls_report::ReportAddress;
use crate::egress::client::EgressError;
use crate::mcp::Changes;
use crate::metrics::MetricsError;
use crate::rules::Rules;
use crate::store::{StoreError, StorePlace};
use crate::tls::acme;
use crate::tls::self_signed::SelfSignedError;
use crate::tls::{FilesError, Paths};
use crate::traces::ids::Sampling;
use crate::verify::VerifyError;

#[derive(Clone, Debug)]
pub struct Settings {
    pub front_end: FrontEnd,
    pub smtp: SocketAddr,
    pub http: SocketAddr,
    /// Where Prometheus reads metrics; `None` for nowhere.
    pub metrics: Option<SocketAddr>,
    pub hostname: DomainName,
    /// The URL under which clients reach the API.
    pub public_url: Option<Url>,
    pub place: StorePlace,
    /// How long the start waits for a PostgreSQL that cannot be reached.
    pub start_patience: Duration,
    /// The file of the vault's keys; `None` for the file beside the embedded store.
    pub secrets_key: Option<PathBuf>,
    pub postmaster: Option<Address>,
    pub rules: Rules,
    /// Resolvers in place of the system's.
    pub dns: Option<Vec<SocketAddr>>,
    pub egress_allow: Vec<IpNet>,
    /// Networks of proxies that are trusted to name the client (PROXY header, `X-Forwarded-For`).
    pub trusted_proxy: Vec<IpNet>,
    /// Origins whose pages may read responses of the API.
    pub cors_origin: Vec<String>,
    /// Whether the console is served.
    pub console: bool,
    /// Where tools of MCP change something; None for no MCP server.
    pub mcp: Option<Changes>,
    /// Whether secrets are released to provisioned workers.
    pub releases_secrets: bool,
    pub tls: TlsSettings,
    /// The policy that is served for all domains.
    pub mta_sts: Option<MtaSts>,
    /// Reports of senders on TLS are taken in; `None` takes none.
    pub tls_reports: Option<ReportAddress>,
    /// The collector of traces; `None` for no traces.
    pub otlp: Option<OtlpSettings>,
}

/// A collector of traces.
#[derive(Clone, Debug)]
pub struct OtlpSettings {
    /// The URL for traces, with its path.
    pub url: Url,
    /// Header fields with the operator's values.
    pub headers: HeaderMap,
    pub sampling: Sampling,
}

impl Settings {
    /// Whether clients reach the API by https, here or at a proxy.
    pub fn is_secure(&self) -> bool {
        let public = self.public_url.as_ref().is_some_and(|url| url.scheme() == "https");
        self.tls.serves_https() || public
    }

    /// The name, the flag and the address of each listener that a start makes.
    pub fn listeners(&self) -> impl Iterator<Item = (&'static str, &'static str, SocketAddr)> {
        let acme = self.tls.acme.as_ref().filter(|acme| acme.challenge == AcmeChallenge::Http01);
        let acme = acme.map(|acme| acme.http);
        sockets::named([Some(self.smtp), self.tls.smtps, Some(self.http), self.metrics, acme])
    }

    /// The names of this gateway, by whose addresses others find it: the hostname, the host of the
    /// public URL and the names of its certificates by ACME.
    pub fn own_names(&self) -> Vec<DomainName> {
        let of_url = self.public_url.as_ref().and_then(Url::domain);
        let of_url = of_url.and_then(|name| DomainName::parse(name).ok());
        let of_acme = self.tls.acme.iter().flat_map(|acme| acme.names.iter().cloned());
        [self.hostname.clone()].into_iter().chain(of_url).chain(of_acme).collect()
    }

    /// The hosts under which this gateway is known.
    pub(super) fn own_hosts(&self) -> Vec<Host> {
        let public = self.public_url.as_ref().and_then(Url::host).map(|host| host.to_owned());
        public.into_iter().chain([Host::Domain(self.hostname.as_str().to_owned())]).collect()
    }
}

/// Encrypted addresses, and their certificates.
#[derive(Clone, Debug, Default)]
pub struct TlsSettings {
    /// The address with implicit TLS. The other one offers STARTTLS in any case.
    pub smtps: Option<SocketAddr>,
    /// The certificate for SMTP; `None` for a self-signed one.
    pub smtp: Option<Paths>,
    /// Asks an authority for the certificate for SMTP; a self-signed one serves until it comes.
    pub acme: Option<acme::Settings>,
    /// The certificate for the API, which is then served by https.
    pub http: Option<Paths>,
    /// Without one, the API is served by https with the certificate for SMTP.
    pub https_by_acme: bool,
}

impl TlsSettings {
    /// Whether the API is served by https here.
    pub const fn serves_https(&self) -> bool {
        self.http.is_some() || self.https_by_acme
    }
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("cannot listen on {address}")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error("cannot start the threads of the API")]
    Threads(#[source] std::io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Metrics(#[from] MetricsError),
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
    #[error("cannot read a PEM root certificate from {path}")]
    AcmeRoot { path: PathBuf, source: Option<std::io::Error> },
    #[error(
        "a part that the server cannot do without has panicked, as the output above says: start \
         gatepost again (a service manager does), and report the lines of the panic"
    )]
    Panicked,
}
