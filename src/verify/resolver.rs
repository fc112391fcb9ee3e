//! The resolver: the only connections to strangers in this room, each with a deadline.
//!
//! The one cache is ours, of records as they came: hickory's is bounded by count only, and a message
//! of 64 KiB over TCP takes 1.5 MB there once it is taken apart. mail-auth's cache of parsed records
//! is keyed by name alone, so that an SPF check of a name chosen by an attacker would poison the
//! DKIM and DMARC records under that name (measured); it is never used across purposes or messages.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mail_auth::MessageAuthenticator;
use mail_auth::hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
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
use crate::rules::IntakeRules;

/// The longest name, as text without its final dot: RFC 1035 §2.3.4 counts 255 octets on the wire.
pub(super) const MAX_NAME: usize = 253;
/// Octets of text records of one answer that are looked at. No honest name has so many: 64 KiB may
/// hold 4,000 addresses, or 20,000 texts.
const MAX_TEXTS: usize = 32 * 1024;
/// Remembered results may take this part of the octets that answers may take, besides.
const SHARE_OF_RESULTS: usize = 8;

/// Who is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Servers {
    /// The servers of `/etc/resolv.conf`; its search list is not used.
    System,
    /// These, over UDP, and over TCP where an answer is truncated.
    Given(Vec<SocketAddr>),
}

/// Answers questions. mail-auth, which it is lent to, finds every answer at hand.
#[derive(Clone)]
pub(super) struct Resolver {
    inner: MessageAuthenticator,
    answers: Arc<Answers>,
    results: Arc<Results>,
}

/// Answers for the next message, as they came.
struct Answers {
    /// The name in lower case: DNS compares without regard to it (RFC 4343).
    kept: Cache<(String, RecordType), Answer>,
    max_ttl: Duration,
}

impl Answers {
    /// The answer to this question, with the seconds that are left of its TTL.
    fn get(&self, name: &str, kind: RecordType, now: Instant) -> Option<Answer> {
        let (mut answer, until) = self.kept.get(&(name.to_ascii_lowercase(), kind), now)?;
        name.clone_into(&mut answer.name);
        let left = until.duration_since(now).as_secs();
        answer.ttl = Some(u32::try_from(left).unwrap_or(u32::MAX));
        Some(answer)
    }

    /// Keeps an answer for as long as it says, and no failure: that may be over at once.
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
        options.cache_size = 0;
        // A line in /etc/hosts proves nothing about a sender.
        options.use_hosts_file = ResolveHosts::Never;
        let config = ResolverConfig::from_parts(None, Vec::new(), name_servers);
        let inner = MessageAuthenticator::new(config, options)
            .map_err(|source| VerifyError::Resolver(source.to_string()))?;
        let (octets, max_ttl) = (rules.dns.cache_octets(), rules.dns.max_ttl());
        let answers = Arc::new(Answers { kept: Cache::new(octets), max_ttl });
        let results = Arc::new(Results::new(octets / SHARE_OF_RESULTS, max_ttl));
        Ok(Self { inner, answers, results })
    }

    /// Results that are remembered of messages before.
    pub(super) fn results(&self) -> &Results {
        &self.results
    }

    /// For mail-auth's verifiers.
    pub(super) fn mail_auth(&self) -> &MessageAuthenticator {
        &self.inner
    }

    /// The records of one type under a name without its final dot, by `deadline` or not at all.
    pub(super) async fn ask(&self, name: String, kind: RecordType, deadline: Instant) -> Answer {
        if let Some(answer) = self.answers.get(&name, kind, Instant::now()) {
            return answer;
        }
        let answer = self.ask_anew(name, kind, deadline).await;
        self.answers.keep(&answer, Instant::now());
        answer
    }

    /// The same, whatever was answered before: what was published a moment ago counts.
    pub(super) async fn ask_anew(
        &self,
        name: String,
        kind: RecordType,
        deadline: Instant,
    ) -> Answer {
        let Some(mut question) = question(&name) else {
            return Answer { name, kind, ttl: None, outcome: Outcome::Unaskable, is_cut: false };
        };
        question.set_fqdn(true);
        let lookup = self.inner.resolver().lookup(question, kind);
        let mut is_cut = false;
        let (ttl, outcome) = match tokio::time::timeout_at(deadline, lookup).await {
            Err(_) => (None, Outcome::Temporary("no answer within the time allowed".into())),
            Ok(Err(error)) => failure(&error),
            Ok(Ok(lookup)) => {
                // That of an alias on the way holds, too.
                let ttl = lookup.answers().iter().map(|record| record.ttl).min();
                let found = lookup.answers().iter().filter(|record| record.record_type() == kind);
                let records = bounded(found.map(|record| &record.data), kind, &mut is_cut);
                if records.is_empty() {
                    (ttl, Outcome::Nothing(ResponseCode::NoError))
                } else {
                    (ttl, Outcome::Records(records))
                }
            }
        };
        Answer { name, kind, ttl, outcome, is_cut }
    }
}

/// Records of one answer that are looked at: of exchangers and pointers one more than RFC 7208
/// §4.6.4 and §5.5 go by.
const fn most(kind: RecordType) -> usize {
    match kind {
        RecordType::MX | RecordType::PTR => 11,
        RecordType::TXT => 256,
        _ => 100,
    }
}

/// The first records, as far as they are looked at, and without the waste that a stranger can put
/// into them: 64 KiB of TXT can be 32,768 strings of one octet, which take twenty times as much in
/// memory.
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

/// A name as DNS carries it. Macros of SPF records make names of characters that no zone file has
/// (RFC 7208 §7.1), so what cannot be read as text is taken as the octets that it is.
fn question(name: &str) -> Option<Name> {
    if name.len() > MAX_NAME {
        return None;
    }
    let labels = || name.split('.').map(str::as_bytes);
    let question = Name::from_str_relaxed(name).ok().or_else(|| {
        let none_is_empty = labels().all(|label| !label.is_empty());
        none_is_empty.then(|| Name::from_labels(labels()).ok()).flatten()
    });
    // The root is nobody's name: what a template leaves of one label that is too long.
    question.filter(|question| question.iter().next().is_some())
}

fn name_server(address: SocketAddr) -> NameServerConfig {
    let (mut udp, mut tcp) = (ConnectionConfig::udp(), ConnectionConfig::tcp());
    udp.port = address.port();
    tcp.port = address.port();
    NameServerConfig::new(address.ip(), true, vec![udp, tcp])
}

/// NXDOMAIN and an empty answer are answers; everything else may be different in an hour.
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
        Answer { name: name.into(), kind: TXT_KIND, ttl, outcome, is_cut: false }
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

    /// As `policies/intake.toml` says.
    #[test]
    fn the_largest_answer_takes_160_kib() {
        let record = |n: usize| RData::TXT(TXT::from_bytes(vec![&[b'x'; 255][..n]]));
        let outcome = Outcome::Records((0..256).map(|_| record(128)).collect());
        let largest = answer(&"x".repeat(253), Some(1), outcome).octets();
        assert!((128 << 10..160 << 10).contains(&largest), "{largest}");
    }
}
