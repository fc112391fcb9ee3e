//! The resolver: the only network access of this room; every query has a deadline.
//!
//! The only cache is ours and holds raw records. hickory's cache is bounded only by count, and a
//! message of 64 KiB over TCP takes 1.5 MB there when parsed. mail-auth's cache of parsed records
//! is keyed by name alone, so an SPF check of an attacker's chosen name would poison the DKIM and
//! DMARC records under that name (measured). It is never shared between purposes or messages.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mail_auth::MessageAuthenticator;
use mail_auth::hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ProtocolConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use mail_auth::hickory_resolver::net::{DnsError, NetError};
use mail_auth::hickory_resolver::proto::op::ResponseCode;
use mail_auth::hickory_resolver::proto::rr::rdata::TXT;
use mail_auth::hickory_resolver::proto::rr::{Name, RData, RecordType};
use mail_auth::hickory_resolver::system_conf::read_system_conf;
use tokio::time::Instant;

use super::VerifyError;
use super::answer::{Answer, MAX_TEXT, Outcome};
use super::cache::Cache;
use super::evidence::one_line;
use super::results::Results;
use crate::metrics::Metrics;
use crate::rules::IntakeRules;

/// Longest name as text without its final dot: RFC 1035 §2.3.4 counts 255 bytes on the wire.
pub(super) const MAX_NAME: usize = 253;
/// Most bytes of TXT records in one answer that are read. No honest name has so many: 64 KiB can
/// hold 4,000 addresses, or 20,000 texts.
const MAX_TEXTS: usize = 32 * 1024;
/// For so many bytes of answers, one byte of results may be cached beside them.
const SHARE_OF_RESULTS: usize = 8;

/// The DNS servers to query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Servers {
    /// The servers of `/etc/resolv.conf`; its search list is not used.
    System,
    /// These servers, over UDP, and over TCP if an answer is truncated.
    Given(Vec<SocketAddr>),
}

/// Makes DNS queries. mail-auth borrows it, but finds every answer in the caches passed to it.
#[derive(Clone)]
pub(super) struct Resolver {
    inner: MessageAuthenticator,
    answers: Arc<Answers>,
    results: Arc<Results>,
    metrics: Metrics,
}

/// The cache of raw answers.
struct Answers {
    /// Keyed by the name in lower case: DNS ignores letter case (RFC 4343).
    kept: Cache<(String, RecordType), Answer>,
    max_ttl: Duration,
}

impl Answers {
    /// Returns a cached answer with the rest of its TTL.
    fn get(&self, name: &str, kind: RecordType, now: Instant) -> Option<Answer> {
        let (mut answer, until) = self.kept.get(&(name.to_ascii_lowercase(), kind), now)?;
        name.clone_into(&mut answer.name);
        let left = until.duration_since(now).as_secs();
        answer.ttl = Some(u32::try_from(left).unwrap_or(u32::MAX));
        Some(answer)
    }

    /// Caches an answer for its TTL. Failures are not cached: they may pass at once.
    fn keep(&self, answer: &Answer, now: Instant) {
        let ttl = Duration::from_secs(answer.ttl.unwrap_or(0).into()).min(self.max_ttl);
        if ttl.is_zero() || answer.is_temporary() {
            return;
        }
        let key = (answer.name.to_ascii_lowercase(), answer.kind);
        self.kept.keep(key, answer.clone(), answer.octets(), now + ttl);
    }
}

impl Resolver {
    pub(super) fn new(servers: Servers, rules: &IntakeRules) -> Result<Self, VerifyError> {
        let servers = name_servers(servers)?;
        let inner = over(servers, rules.dns.query_timeout(), rules.dns.retries)?;
        let (octets, max_ttl) = (rules.dns.cache_octets(), rules.dns.max_ttl());
        let answers = Arc::new(Answers { kept: Cache::new(octets), max_ttl });
        let results = Arc::new(Results::new(octets / SHARE_OF_RESULTS, max_ttl));
        Ok(Self { inner, answers, results, metrics: Metrics::default() })
    }

    pub(super) fn measured_by(self, metrics: Metrics) -> Self {
        Self { metrics, ..self }
    }

    pub(super) fn results(&self) -> &Results {
        &self.results
    }

    pub(super) fn mail_auth(&self) -> &MessageAuthenticator {
        &self.inner
    }

    /// Returns the records of one type under a name without its final dot, from the cache if they
    /// are there. Fails temporarily at `deadline`.
    pub(super) async fn ask(&self, name: String, kind: RecordType, deadline: Instant) -> Answer {
        if let Some(answer) = self.answers.get(&name, kind, Instant::now()) {
            return answer;
        }
        let answer = self.query(name, kind, deadline).await;
        self.answers.keep(&answer, Instant::now());
        answer
    }

    /// Queries without the cache, so that records published a moment ago count.
    pub(super) async fn query(&self, name: String, kind: RecordType, deadline: Instant) -> Answer {
        let Some(question) = question(&name) else {
            return Answer::new(name, kind, None, Outcome::Unaskable, false);
        };
        let began = Instant::now();
        let mut is_cut = false;
        let (ttl, outcome) = look_up(&self.inner, question, kind, deadline, &mut is_cut).await;
        let result = match outcome {
            Outcome::Records(_) => "records",
            Outcome::Nothing(_) => "nothing",
            Outcome::Temporary(_) | Outcome::Unaskable => "failed",
        };
        self.metrics.looked_up(result, began.elapsed());
        Answer::new(name, kind, ttl, outcome, is_cut)
    }
}

/// Asks once. Returns the TTL, too.
async fn look_up(
    servers: &MessageAuthenticator,
    mut question: Name,
    kind: RecordType,
    deadline: Instant,
    is_cut: &mut bool,
) -> (Option<u32>, Outcome) {
    question.set_fqdn(true);
    let lookup = servers.resolver().lookup(question, kind);
    match tokio::time::timeout_at(deadline, lookup).await {
        Err(_) => (None, Outcome::Temporary("no answer within the time allowed".into())),
        Ok(Err(error)) => failure(&error),
        Ok(Ok(lookup)) => {
            // The TTL of an alias on the way also applies.
            let ttl = lookup.answers().iter().map(|record| record.ttl).min();
            let found = lookup.answers().iter().filter(|record| record.record_type() == kind);
            let records = bounded(found.map(|record| &record.data), kind, is_cut);
            if records.is_empty() {
                (ttl, Outcome::Nothing(ResponseCode::NoError))
            } else {
                (ttl, Outcome::Records(records))
            }
        }
    }
}

/// Finds the servers of these settings; there is at least one.
fn name_servers(servers: Servers) -> Result<Vec<NameServerConfig>, VerifyError> {
    let found: Vec<_> = match servers {
        Servers::System => read_system_conf()
            .map_err(|source| VerifyError::SystemServers(source.to_string()))?
            .0
            .name_servers()
            .to_vec(),
        Servers::Given(addresses) => addresses.into_iter().map(name_server).collect(),
    };
    if found.is_empty() { Err(VerifyError::NoServers) } else { Ok(found) }
}

/// Makes a resolver over these servers, which waits so long for each answer and asks again so many
/// times.
fn over(
    name_servers: Vec<NameServerConfig>,
    timeout: Duration,
    retries: usize,
) -> Result<MessageAuthenticator, VerifyError> {
    let mut options = ResolverOpts::default();
    options.timeout = timeout;
    options.attempts = retries;
    options.cache_size = 0;
    // A line in /etc/hosts proves nothing about a sender.
    options.use_hosts_file = ResolveHosts::Never;
    let config = ResolverConfig::from_parts(None, Vec::new(), name_servers);
    MessageAuthenticator::new(config, options)
        .map_err(|source| VerifyError::Resolver(source.to_string()))
}

/// One of the configured servers, to be asked alone.
pub(super) struct LoneServer(NameServerConfig);

/// The transports that a question may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Any,
    Udp,
}

impl LoneServer {
    /// Makes a resolver that asks this server alone, and once.
    pub(super) fn resolver(&self, way: Way, within: Duration) -> Result<LoneResolver, VerifyError> {
        let mut server = self.0.clone();
        if way == Way::Udp {
            let is_udp = |one: &ConnectionConfig| matches!(one.protocol, ProtocolConfig::Udp);
            server.connections.retain(is_udp);
        }
        Ok(LoneResolver { inner: over(vec![server], within, 0)?, within })
    }
}

/// Asks one server.
pub(super) struct LoneResolver {
    inner: MessageAuthenticator,
    within: Duration,
}

impl LoneResolver {
    /// `name` may be the root.
    pub(super) async fn ask(&self, name: &str, kind: RecordType) -> Outcome {
        let Ok(name) = Name::from_ascii(name) else { return Outcome::Unaskable };
        look_up(&self.inner, name, kind, Instant::now() + self.within, &mut false).await.1
    }
}

impl fmt::Display for LoneServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.0.connections.first().map_or(53, |one| one.port);
        SocketAddr::new(self.0.ip, port).fmt(f)
    }
}

/// Returns the servers of these settings, each alone.
pub(super) fn each(servers: Servers) -> Result<Vec<LoneServer>, VerifyError> {
    Ok(name_servers(servers)?.into_iter().map(LoneServer).collect())
}

/// Most records of one answer that are read; for MX and PTR one more than the limits of RFC 7208
/// §4.6.4 and §5.5.
const fn most(kind: RecordType) -> usize {
    match kind {
        RecordType::MX | RecordType::PTR => 11,
        RecordType::TXT => 256,
        _ => 100,
    }
}

/// Copies the first records up to the limits, in compact form: 64 KiB of TXT may consist of 32,768
/// strings of one byte, which take twenty times as much memory.
fn bounded<'r>(
    found: impl Iterator<Item = &'r RData>,
    kind: RecordType,
    is_cut: &mut bool,
) -> Vec<RData> {
    let (mut records, mut left) = (Vec::new(), MAX_TEXTS);
    for data in found {
        if records.len() >= most(kind) {
            *is_cut = true;
            break;
        }
        let RData::TXT(txt) = data else {
            records.push(data.clone());
            continue;
        };
        let text = txt.txt_data.concat();
        let kept = text.get(..MAX_TEXT).unwrap_or(&text);
        *is_cut |= kept.len() < text.len();
        let Some(rest) = left.checked_sub(kept.len()) else {
            *is_cut = true;
            break;
        };
        left = rest;
        let strings = if kept.is_empty() { vec![kept] } else { kept.chunks(255).collect() };
        records.push(RData::TXT(TXT::from_bytes(strings)));
    }
    records
}

/// Parses a name. Macros of SPF records produce names that no zone file can express (RFC 7208
/// §7.1), so a name that does not parse as text is taken as raw bytes.
fn question(name: &str) -> Option<Name> {
    if name.len() > MAX_NAME {
        return None;
    }
    let labels = || name.split('.').map(str::as_bytes);
    let question = Name::from_str_relaxed(name).ok().or_else(|| {
        let none_is_empty = labels().all(|label| !label.is_empty());
        none_is_empty.then(|| Name::from_labels(labels()).ok()).flatten()
    });
    // The root is refused: a template whose only label is too long expands to it.
    question.filter(|question| question.iter().next().is_some())
}

fn name_server(address: SocketAddr) -> NameServerConfig {
    let (mut udp, mut tcp) = (ConnectionConfig::udp(), ConnectionConfig::tcp());
    udp.port = address.port();
    tcp.port = address.port();
    NameServerConfig::new(address.ip(), true, vec![udp, tcp])
}

/// Classifies an error. NXDOMAIN and an empty answer are valid answers; anything else may pass.
fn failure(error: &NetError) -> (Option<u32>, Outcome) {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(found))
            if matches!(found.response_code, ResponseCode::NoError | ResponseCode::NXDomain) =>
        {
            (found.negative_ttl, Outcome::Nothing(found.response_code))
        }
        other => (None, Outcome::Temporary(one_line(&other.to_string()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TXT_KIND: RecordType = RecordType::TXT;
    const HOUR: Duration = Duration::from_secs(3600);

    fn answer(name: &str, ttl: Option<u32>, outcome: Outcome) -> Answer {
        Answer::new(name.into(), TXT_KIND, ttl, outcome, false)
    }

    fn text(name: &str, ttl: u32) -> Answer {
        let record = RData::TXT(TXT::from_bytes(vec![b"x"]));
        answer(name, Some(ttl), Outcome::Records(vec![record]))
    }

    #[test]
    fn an_answer_is_kept_as_long_as_it_says_and_no_longer_than_the_limit() {
        let answers = Answers { kept: Cache::new(1 << 20), max_ttl: HOUR };
        let now = Instant::now();
        answers.keep(&text("A.example", 300), now);
        answers.keep(&text("long.example", 1_000_000), now);
        answers.keep(&text("never.example", 0), now);
        answers
            .keep(&answer("no.example", Some(60), Outcome::Nothing(ResponseCode::NXDomain)), now);
        answers.keep(&answer("soa.example", None, Outcome::Nothing(ResponseCode::NXDomain)), now);
        answers.keep(&answer("lost.example", Some(60), Outcome::Temporary("x".into())), now);
        let left = |name: &str, seconds: u64| {
            let then = now + Duration::from_secs(seconds);
            answers.get(name, TXT_KIND, then).map(|answer| answer.ttl.unwrap())
        };
        assert_eq!(left("a.EXAMPLE", 0), Some(300));
        assert_eq!(left("a.example", 299), Some(1));
        assert_eq!(left("a.example", 300), None);
        assert_eq!(left("long.example", 3599), Some(1));
        assert_eq!(left("long.example", 3600), None);
        assert_eq!(left("no.example", 0), Some(60));
        for name in ["never.example", "soa.example", "lost.example", "other.example"] {
            assert_eq!(left(name, 0), None, "{name}");
        }
        assert!(answers.get("a.example", RecordType::A, now).is_none());
    }

    /// `policies/intake.toml` gives this figure.
    #[test]
    fn the_largest_answer_takes_160_kib() {
        let record = |n: usize| RData::TXT(TXT::from_bytes(vec![&[b'x'; 255][..n]]));
        let outcome = Outcome::Records((0..256).map(|_| record(128)).collect());
        let largest = answer(&"x".repeat(253), Some(1), outcome).octets();
        assert!((128 << 10..160 << 10).contains(&largest), "{largest}");
    }
}
