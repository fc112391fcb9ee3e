//! The resolver: the only connections to strangers in this room, each with a deadline.
//!
//! hickory's own cache of records is the only cache. mail-auth's cache of parsed records is keyed
//! by name alone, so that an SPF check of a name chosen by an attacker would poison the DKIM and
//! DMARC records under that name (measured); it is never used across purposes or messages.

use std::io;
use std::net::{IpAddr, SocketAddr};

use mail_auth::MessageAuthenticator;
use mail_auth::hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use mail_auth::hickory_resolver::net::{DnsError, NetError};
use mail_auth::hickory_resolver::proto::op::ResponseCode;
use mail_auth::hickory_resolver::proto::rr::{Name, RData, RecordType};
use mail_auth::hickory_resolver::system_conf::read_system_conf;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::VerifyError;
use crate::rules::IntakeRules;

/// Who is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Servers {
    /// The servers of `/etc/resolv.conf`; its search list is not used.
    System,
    /// These, over UDP, and over TCP where an answer is truncated.
    Given(Vec<SocketAddr>),
}

/// Answers TXT questions, and lends mail-auth its resolver.
#[derive(Clone)]
pub(super) struct Resolver {
    inner: MessageAuthenticator,
}

/// The answer to one TXT question.
#[derive(Clone, Debug)]
pub(super) struct TxtAnswer {
    pub(super) name: String,
    /// Seconds; `None` where nothing was found.
    pub(super) ttl: Option<u32>,
    pub(super) outcome: TxtOutcome,
}

/// What came back.
#[derive(Clone, Debug)]
pub(super) enum TxtOutcome {
    /// Each record with its character strings joined.
    Records(Vec<Vec<u8>>),
    /// There is no such record: an answer like any other.
    Nothing(ResponseCode),
    /// Nobody knows for the time being.
    Temporary(String),
}

impl Resolver {
    pub(super) fn new(servers: Servers, rules: &IntakeRules) -> Result<Self, VerifyError> {
        let name_servers = match servers {
            Servers::System => read_system_conf()
                .map_err(|source| VerifyError::SystemServers(source.to_string()))?
                .0
                .name_servers()
                .to_vec(),
            Servers::Given(addresses) => addresses.into_iter().map(name_server).collect(),
        };
        if name_servers.is_empty() {
            return Err(VerifyError::NoServers);
        }
        let mut options = ResolverOpts::default();
        options.timeout = rules.dns.query_timeout();
        options.attempts = rules.dns.retries;
        options.cache_size = rules.dns.cache_entries;
        options.positive_max_ttl = Some(rules.dns.max_ttl());
        options.negative_max_ttl = Some(rules.dns.max_ttl());
        // A line in /etc/hosts proves nothing about a sender.
        options.use_hosts_file = ResolveHosts::Never;
        let config = ResolverConfig::from_parts(None, Vec::new(), name_servers);
        let inner = MessageAuthenticator::new(config, options)
            .map_err(|source| VerifyError::Resolver(source.to_string()))?;
        Ok(Self { inner })
    }

    /// For mail-auth's SPF and DMARC, which ask by themselves.
    pub(super) fn mail_auth(&self) -> &MessageAuthenticator {
        &self.inner
    }

    /// The IPv4 and IPv6 addresses of a host name.
    pub(super) async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let mut question = Name::from_ascii(host).map_err(io::Error::other)?;
        question.set_fqdn(true);
        let found = self.inner.resolver().lookup_ip(question).await.map_err(io::Error::other)?;
        Ok(found.iter().collect())
    }

    /// The TXT records of a name without its final dot, by `deadline` or not at all.
    pub(super) async fn txt(&self, name: String, deadline: Instant) -> TxtAnswer {
        let Ok(mut question) = Name::from_ascii(&name) else {
            let outcome = TxtOutcome::Nothing(ResponseCode::FormErr);
            return TxtAnswer { name, ttl: None, outcome };
        };
        question.set_fqdn(true);
        let lookup = self.inner.resolver().lookup(question, RecordType::TXT);
        let (ttl, outcome) = match tokio::time::timeout_at(deadline, lookup).await {
            Err(_) => (None, TxtOutcome::Temporary("no answer within the time allowed".into())),
            Ok(Err(error)) => (None, failure(&error)),
            Ok(Ok(lookup)) => {
                let mut ttl = None;
                let mut records = Vec::new();
                for record in lookup.answers() {
                    if let RData::TXT(txt) = &record.data {
                        ttl = Some(ttl.map_or(record.ttl, |least: u32| least.min(record.ttl)));
                        records.push(txt.txt_data.concat());
                    }
                }
                (ttl, TxtOutcome::Records(records))
            }
        };
        TxtAnswer { name, ttl, outcome }
    }
}

fn name_server(address: SocketAddr) -> NameServerConfig {
    let (mut udp, mut tcp) = (ConnectionConfig::udp(), ConnectionConfig::tcp());
    udp.port = address.port();
    tcp.port = address.port();
    NameServerConfig::new(address.ip(), true, vec![udp, tcp])
}

/// NXDOMAIN and an empty answer are answers; everything else may be different in an hour.
fn failure(error: &NetError) -> TxtOutcome {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(found))
            if matches!(found.response_code, ResponseCode::NoError | ResponseCode::NXDomain) =>
        {
            TxtOutcome::Nothing(found.response_code)
        }
        other => TxtOutcome::Temporary(other.to_string()),
    }
}

impl TxtAnswer {
    /// For the record: `{name, type, ttl, answer}`.
    pub(super) fn evidence(&self) -> Value {
        let answer = match &self.outcome {
            TxtOutcome::Records(records) => {
                json!(records.iter().take(10).map(|r| shown(r)).collect::<Vec<_>>())
            }
            TxtOutcome::Nothing(ResponseCode::NXDomain) => json!("NXDOMAIN"),
            TxtOutcome::Nothing(_) => json!("no such record"),
            TxtOutcome::Temporary(why) => json!(format!("temporary failure: {why}")),
        };
        json!({"name": self.name, "type": "TXT", "ttl": self.ttl, "answer": answer})
    }
}

/// A record as text, cut at an octet count that any key fits in.
fn shown(record: &[u8]) -> String {
    let kept = record.get(..2048).unwrap_or(record);
    String::from_utf8_lossy(kept).into_owned()
}
