//! Settings of an installation: flags, `GATEPOST_…` variables, `gatepost.toml`.
//!
//! One structure serves all three, so they cannot drift apart. A flag goes before its variable, the
//! variable before the file, the file before the default. An unknown key is refused by name. The
//! rules and numbers of mail are in `rules`.

mod acme;
mod host_port;
mod log;
mod mta_sts;
mod otlp;
mod seconds;
mod store;
mod tls;
mod tls_reports;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use ipnet::IpNet;
use serde::Deserialize;
use url::Url;

use crate::domain::address::Address;
use crate::domain::domain_name::DomainName;

use self::seconds::{grace_seconds, seconds, start_patience};

pub use acme::AcmeOptions;
pub use host_port::{HostPort, NotHostPort};
pub use log::{LogLevel, LogOptions};
pub use mta_sts::MtaStsOption;
pub use otlp::{OtlpHeader, OtlpOptions};
pub use store::{DatabaseUrl, S3Key, S3Options, SettingsFile, StoreOptions};
pub use tls::{CertificateFiles, TlsOptions};

/// The file that is read if no other is named and it exists.
pub const DEFAULT_FILE: &str = "gatepost.toml";

/// The file that `gatepost init` writes.
pub const TEMPLATE: &str = include_str!("gatepost.toml");

/// Settings as given; absent ones have defaults.
#[derive(Args, Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ServeOptions {
    /// Where to take mail in [default: 0.0.0.0:25]; port 0 picks a free one
    #[arg(long, env = "GATEPOST_SMTP", value_name = "HOST:PORT")]
    pub smtp: Option<HostPort>,
    /// Where to take mail in with implicit TLS [default: nowhere]
    #[arg(long, env = "GATEPOST_SMTPS", value_name = "HOST:PORT")]
    pub smtps: Option<HostPort>,
    /// Where to serve the HTTP API [default: 0.0.0.0:8080]; port 0 picks a free one
    #[arg(long, env = "GATEPOST_HTTP", value_name = "HOST:PORT")]
    pub http: Option<HostPort>,
    /// Where Prometheus reads metrics, without a key [default: nowhere]
    #[arg(long, env = "GATEPOST_METRICS", value_name = "HOST:PORT")]
    pub metrics: Option<HostPort>,
    /// The name in the banner and in Authentication-Results [default: the machine's name]
    #[arg(long, env = "GATEPOST_HOSTNAME", value_name = "NAME")]
    pub hostname: Option<String>,
    /// The URL under which clients reach the API: no webhook may lead to its host
    #[arg(long, env = "GATEPOST_PUBLIC_URL", value_name = "URL")]
    pub public_url: Option<String>,
    /// Resolvers to ask instead of the system's
    #[arg(long, env = "GATEPOST_DNS", value_name = "HOST:PORT", value_delimiter = ',')]
    pub dns: Option<Vec<HostPort>>,
    /// Networks that webhooks may reach although they are not public, with plain http there
    #[arg(long, env = "GATEPOST_EGRESS_ALLOW", value_name = "CIDR", value_delimiter = ',')]
    pub egress_allow: Option<Vec<IpNet>>,
    /// Trusted proxies: PROXY protocol on SMTP, X-Forwarded-For on HTTP
    #[arg(long, env = "GATEPOST_TRUSTED_PROXY", value_name = "CIDR", value_delimiter = ',')]
    pub trusted_proxy: Option<Vec<IpNet>>,
    /// Origins (scheme and host, as browsers send them) whose pages may call the API
    /// [default: none]
    #[arg(long, env = "GATEPOST_CORS_ORIGIN", value_name = "ORIGIN", value_delimiter = ',')]
    pub cors_origin: Option<Vec<String>>,
    /// Serve no console under /console
    #[arg(
        long, env = "GATEPOST_NO_CONSOLE", num_args = 0..=1, default_missing_value = "true",
        require_equals = true, value_name = "BOOL"
    )]
    pub no_console: Option<bool>,
    /// Serve no MCP under /mcp
    #[arg(
        long, env = "GATEPOST_NO_MCP", num_args = 0..=1, default_missing_value = "true",
        require_equals = true, value_name = "BOOL"
    )]
    pub no_mcp: Option<bool>,
    /// Let tools of MCP make changes with any key: mark mail as read, record an outcome, allow a
    /// sender. false: with none. Without it only keys that were made for it do
    #[arg(
        long, env = "GATEPOST_MCP_CHANGES", num_args = 0..=1, default_missing_value = "true",
        require_equals = true, value_name = "BOOL"
    )]
    pub mcp_changes: Option<bool>,
    /// Release secrets to provisioned workers whose account has the feature secretRelease
    #[arg(
        long, env = "GATEPOST_RELEASE_SECRETS", num_args = 0..=1, default_missing_value = "true",
        require_equals = true, value_name = "BOOL"
    )]
    pub release_secrets: Option<bool>,
    /// A folder of rule files that override the compiled-in ones
    #[arg(long, env = "GATEPOST_POLICIES", value_name = "DIR")]
    pub policies: Option<PathBuf>,
    /// The Agent's address that answers for postmaster
    #[arg(long, env = "GATEPOST_POSTMASTER", value_name = "ADDRESS")]
    pub postmaster: Option<String>,
    /// Seconds that sessions and deliveries under way get when the server stops [default: 30]
    #[arg(long, env = "GATEPOST_GRACE_SECONDS", value_name = "SECONDS")]
    #[arg(allow_negative_numbers = true, value_parser = seconds)]
    #[serde(default, deserialize_with = "grace_seconds")]
    pub grace_seconds: Option<u64>,
    /// Seconds to retry an unreachable PostgreSQL at the start [default: 60]
    #[arg(long, env = "GATEPOST_START_PATIENCE", value_name = "SECONDS")]
    #[arg(allow_negative_numbers = true, value_parser = seconds)]
    #[serde(default, deserialize_with = "start_patience")]
    pub start_patience: Option<u64>,
    /// Serve a policy of MTA-STS for every domain at mta-sts.DOMAIN: testing, enforce or none
    /// [default: no policy]
    #[arg(long, env = "GATEPOST_MTA_STS", value_name = "MODE")]
    pub mta_sts: Option<MtaStsOption>,
    /// All MX hosts of the domains, as mx.example.com or *.example.com [default: the hostname; none on
    /// PostgreSQL]
    #[arg(long, env = "GATEPOST_MTA_STS_MX", value_name = "NAME", value_delimiter = ',')]
    pub mta_sts_mx: Option<Vec<String>>,
    /// Seconds for which senders keep that policy [default: 604800, a week]
    #[arg(long, env = "GATEPOST_MTA_STS_MAX_AGE", value_name = "SECONDS")]
    pub mta_sts_max_age: Option<u64>,
    /// Take reports of senders on TLS (TLS-RPT) at POST /tls-reports and by mail to
    /// tls-reports@DOMAIN, for every domain
    #[arg(
        long, env = "GATEPOST_TLS_REPORTS", num_args = 0..=1, default_missing_value = "true",
        require_equals = true, value_name = "BOOL"
    )]
    pub tls_reports: Option<bool>,
    /// The name before the @ of the address for such reports [default: tls-reports]
    #[arg(long, env = "GATEPOST_TLS_REPORTS_NAME", value_name = "NAME")]
    pub tls_reports_name: Option<String>,
    // Flags of every command: see `store`.
    #[arg(skip)]
    pub data: Option<PathBuf>,
    #[arg(skip)]
    pub database_url: Option<DatabaseUrl>,
    #[arg(skip)]
    pub database_url_file: Option<PathBuf>,
    /// The keys that seal the secrets of customers, one a line, 32 bytes in base64
    /// [default: DATA/secrets.key, made the first time; with PostgreSQL none]
    #[arg(long, env = "GATEPOST_SECRETS_KEY_FILE", value_name = "FILE")]
    pub secrets_key_file: Option<PathBuf>,
    #[arg(skip)]
    pub blobs: Option<String>,
    /// SMTP front end [default: gatepost]; src/smtp/mailin.rs lists the limits of mailin
    #[cfg(feature = "mailin")]
    #[arg(long, env = "GATEPOST_FRONT_END", value_name = "NAME")]
    pub front_end: Option<FrontEnd>,
    #[command(flatten)]
    #[serde(default)]
    pub tls: TlsOptions,
    #[arg(skip)]
    #[serde(default)]
    pub s3: S3Options,
    #[command(flatten)]
    #[serde(default)]
    pub acme: AcmeOptions,
    #[command(flatten)]
    #[serde(default)]
    pub otlp: OtlpOptions,
    #[command(flatten)]
    #[serde(default)]
    pub log: LogOptions,
}

/// The front ends of a build with the feature `mailin`; other builds have no choice.
#[cfg(feature = "mailin")]
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum FrontEnd {
    #[default]
    Gatepost,
    Mailin,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    /// Without the line itself, which may hold a password.
    #[error("{path}, line {line}: {detail}")]
    Parse { path: PathBuf, line: usize, detail: String },
    #[error("{setting}: {detail}")]
    Invalid { setting: &'static str, detail: String },
}

/// Reads the file, if there is one.
fn file(path: Option<&Path>) -> Result<ServeOptions, ConfigError> {
    let Some(path) = path else { return Ok(ServeOptions::default()) };
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    parse(&text, path)
}

fn parse(text: &str, path: &Path) -> Result<ServeOptions, ConfigError> {
    toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        ConfigError::Parse {
            path: path.to_owned(),
            line: before.matches('\n').count() + 1,
            detail: error.message().to_owned(),
        }
    })
}

impl ServeOptions {
    /// Fills absent settings from `file`.
    #[must_use]
    pub fn or(self, file: Self) -> Self {
        let named_by_url = self.database_url.is_some();
        Self {
            smtp: self.smtp.or(file.smtp),
            smtps: self.smtps.or(file.smtps),
            http: self.http.or(file.http),
            metrics: self.metrics.or(file.metrics),
            hostname: self.hostname.or(file.hostname),
            public_url: self.public_url.or(file.public_url),
            dns: self.dns.or(file.dns),
            egress_allow: self.egress_allow.or(file.egress_allow),
            trusted_proxy: self.trusted_proxy.or(file.trusted_proxy),
            cors_origin: self.cors_origin.or(file.cors_origin),
            no_console: self.no_console.or(file.no_console),
            no_mcp: self.no_mcp.or(file.no_mcp),
            mcp_changes: self.mcp_changes.or(file.mcp_changes),
            release_secrets: self.release_secrets.or(file.release_secrets),
            policies: self.policies.or(file.policies),
            postmaster: self.postmaster.or(file.postmaster),
            grace_seconds: self.grace_seconds.or(file.grace_seconds),
            start_patience: self.start_patience.or(file.start_patience),
            mta_sts: self.mta_sts.or(file.mta_sts),
            mta_sts_mx: self.mta_sts_mx.or(file.mta_sts_mx),
            mta_sts_max_age: self.mta_sts_max_age.or(file.mta_sts_max_age),
            tls_reports: self.tls_reports.or(file.tls_reports),
            tls_reports_name: self.tls_reports_name.or(file.tls_reports_name),
            // Both name the store: a flag for either overrides the other one of the file.
            database_url: self
                .database_url
                .or_else(|| file.database_url.filter(|_| self.data.is_none())),
            // Read already, at its own level.
            database_url_file: None,
            data: self.data.or_else(|| file.data.filter(|_| !named_by_url)),
            secrets_key_file: self.secrets_key_file.or(file.secrets_key_file),
            blobs: self.blobs.or(file.blobs),
            tls: self.tls.or(file.tls),
            #[cfg(feature = "mailin")]
            front_end: self.front_end.or(file.front_end),
            s3: self.s3.or(file.s3),
            acme: self.acme.or(file.acme),
            otlp: self.otlp.or(file.otlp),
            log: self.log.or(file.log),
        }
    }

    /// Returns the address for mail; fails if its host name is not found.
    pub async fn smtp(&self) -> Result<SocketAddr, ConfigError> {
        let found = host_port::find("--smtp", self.smtp.as_ref()).await?;
        Ok(found.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 25))))
    }

    /// Returns the address for mail with implicit TLS.
    pub async fn smtps(&self) -> Result<Option<SocketAddr>, ConfigError> {
        host_port::find("--smtps", self.smtps.as_ref()).await
    }

    /// Returns the address of the API.
    pub async fn http(&self) -> Result<SocketAddr, ConfigError> {
        let found = host_port::find("--http", self.http.as_ref()).await?;
        Ok(found.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 8080))))
    }

    /// Returns the address for Prometheus, if one is named.
    pub async fn metrics(&self) -> Result<Option<SocketAddr>, ConfigError> {
        host_port::find("--metrics", self.metrics.as_ref()).await
    }

    /// Returns the resolvers in place of the system's; fails if a host name is not found.
    pub async fn dns(&self) -> Result<Option<Vec<SocketAddr>>, ConfigError> {
        let Some(named) = &self.dns else { return Ok(None) };
        let mut resolvers = Vec::with_capacity(named.len());
        for one in named {
            resolvers.extend(host_port::find("--dns", Some(one)).await?);
        }
        Ok(Some(resolvers))
    }

    /// Returns the time for finishing work when the server stops.
    pub fn grace(&self) -> Duration {
        Duration::from_secs(self.grace_seconds.unwrap_or(30))
    }

    /// Returns the time for which the start waits for an unreachable PostgreSQL.
    pub fn start_patience(&self) -> Duration {
        Duration::from_secs(self.start_patience.unwrap_or(60))
    }

    /// Returns the name of the server.
    pub fn hostname(&self) -> Result<DomainName, ConfigError> {
        let name = match &self.hostname {
            Some(name) => name.clone(),
            None => machine_name(),
        };
        DomainName::parse(&name).map_err(|error| ConfigError::Invalid {
            setting: "hostname",
            detail: error.to_string(),
        })
    }

    /// Whether the API is served by https here.
    pub fn serves_https(&self) -> bool {
        self.tls.http_cert.is_some() || self.acme.https()
    }

    /// Returns the URL under which clients reach the API, if it is set.
    pub fn public_url(&self) -> Result<Option<Url>, ConfigError> {
        let parse = |text: &String| {
            let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "https" | "http"));
            url.ok_or_else(|| ConfigError::Invalid {
                setting: "public-url",
                detail: format!("{text:?} is not a URL that begins with https:// or http://"),
            })
        };
        self.public_url.as_ref().map(parse).transpose()
    }

    /// Returns the networks of trusted proxies.
    pub fn trusted_proxy(&self) -> Result<Vec<IpNet>, ConfigError> {
        let networks = self.trusted_proxy.clone().unwrap_or_default();
        match networks.iter().find(|network| network.prefix_len() == 0) {
            // Any client could pose as any other.
            Some(all) => Err(ConfigError::Invalid {
                setting: "trusted-proxy",
                detail: format!("{all} is the whole internet: name the networks of your proxies"),
            }),
            None => Ok(networks),
        }
    }

    /// Returns the origins whose pages may call the API.
    pub fn cors_origin(&self) -> Result<Vec<String>, ConfigError> {
        let origins = self.cors_origin.clone().unwrap_or_default();
        let is_origin = |text: &String| {
            let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "https" | "http"));
            url.is_some_and(|url| url.origin().ascii_serialization() == *text)
        };
        match origins.iter().find(|text| !is_origin(text)) {
            // A browser sends one spelling of an origin, and no pattern.
            Some(other) => Err(ConfigError::Invalid {
                setting: "cors-origin",
                detail: format!(
                    "{other:?} is not an origin as browsers send it: write https:// and the host \
                     in lower case, with the port if that is not 443, and nothing after"
                ),
            }),
            None => Ok(origins),
        }
    }

    /// Returns the address that takes mail for `postmaster`.
    pub fn postmaster(&self) -> Result<Option<Address>, ConfigError> {
        let parse = |text: &String| {
            let wrong = |detail| ConfigError::Invalid { setting: "postmaster", detail };
            let address =
                Address::parse(text).map_err(|error| wrong(format!("{text:?}: {error}")))?;
            // The address is looked up as written, and no Agent's address has a tag.
            match address.without_tag() {
                (bare, Some(_)) => Err(wrong(format!("{text:?} has a tag: use {bare}"))),
                (_, None) => Ok(address),
            }
        };
        self.postmaster.as_ref().map(parse).transpose()
    }
}

/// Returns the host name of the machine, or `localhost` if it cannot be read.
fn machine_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests;
