//! Writes the evidence of a verdict: the DNS answers used and the time taken, as the intake record
//! keeps them.

use std::borrow::Borrow;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use mail_auth::dmarc::DmarcRecord;
use mail_auth::dns::{DnssecStatus, TxtRecord, TxtRecordParser};
use mail_auth::hickory_resolver::proto::op::ResponseCode;
use mail_auth::hickory_resolver::proto::rr::{Name, RData, RecordType};
use mail_auth::spf::SpfRecord;
use mail_auth::{DnsCache, DnsError, Mx, Negative, RecordSet, ResolverCache};

use super::answer::{Answer, EvidenceAnswers};
use super::examine::at_once;
use super::resolver::{MAX_NAME, Resolver};
use super::spf::is_spf;
use super::tags::MAX_RECORD;
use crate::domain::evidence::dns;

/// Most queries of one DMARC evaluation. It needs at most 105: walks of eight steps for From, SPF
/// and ten signatures, and whether the From domain exists.
const MAX_QUESTIONS: usize = 110;

/// Bytes that contain the version of a policy, with white space.
const MAX_VERSION: usize = 64;

pub(super) fn micros(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// Returns one line of ASCII for an SMTP reply, at most 200 characters. Text from strangers (a
/// domain, an error) must not end the line or reach a terminal.
pub(super) fn one_line(text: &str) -> String {
    printable(text).take(200).collect()
}

/// Replaces everything but printable ASCII.
pub(super) fn printable(text: &str) -> impl Iterator<Item = char> + '_ {
    text.chars().map(|c| if c == ' ' || c.is_ascii_graphic() { c } else { '?' })
}

/// How the TXT records of an evaluation are parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Spf,
    Dmarc,
}

/// Poses as mail-auth's cache and holds the answers of one step for one message. No answer is used
/// for another purpose (an SPF check of `_dmarc.good.example` would poison it).
///
/// mail-auth never queries the DNS. It evaluates with the answers held here. If one is missing, its
/// result is discarded: for SPF there is no second opinion then; for DMARC the query is made and
/// the evaluation is repeated. So the answers kept are those that were used, even if the next query
/// would return others.
pub(super) struct Recorder {
    purpose: Purpose,
    /// The only address whose PTR names may be queried.
    client: IpAddr,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: Vec<RecordedAnswer>,
    missing: Option<(String, RecordType)>,
}

struct RecordedAnswer {
    answer: Arc<Answer>,
    /// Parsed as `purpose` says, once for all repetitions.
    txt: Option<TxtRecord>,
}

impl Recorder {
    pub(super) fn new(purpose: Purpose, client: IpAddr) -> Self {
        Self { purpose, client, state: Mutex::default() }
    }

    /// Makes a recorder of these answers only. mail-auth has no error for a failed look-up except
    /// of TXT, so other failed answers count as missing.
    pub(super) fn over(purpose: Purpose, client: IpAddr, answers: &[Arc<Answer>]) -> Self {
        let recorder = Self::new(purpose, client);
        for answer in answers {
            if answer.kind == RecordType::TXT || !answer.is_temporary() {
                recorder.add(Arc::clone(answer));
            }
        }
        recorder
    }

    fn add(&self, answer: Arc<Answer>) {
        let txt = (answer.kind == RecordType::TXT).then(|| self.read(&answer));
        self.state().known.push(RecordedAnswer { answer, txt });
    }

    /// Returns the type of the first missing answer.
    pub(super) fn missing(&self) -> Option<RecordType> {
        self.state().missing.as_ref().map(|(_, kind)| *kind)
    }

    /// Runs `evaluation`, which uses this object as its cache, until no answer is missing, and
    /// returns its output. Returns None if it needs too many queries.
    pub(super) async fn evaluate<F: Future>(
        &self,
        resolver: &Resolver,
        deadline: tokio::time::Instant,
        evaluation: impl Fn() -> F,
    ) -> Option<F::Output> {
        for _ in 0..=MAX_QUESTIONS {
            let output = at_once(evaluation());
            let Some((name, kind)) = self.state().missing.take() else { return output };
            self.add(Arc::new(resolver.ask(name, kind, deadline).await));
        }
        None
    }

    /// Returns the answers in the order of the queries. Those of DMARC decide, so each has an equal
    /// share of the room, and its policy comes before other texts.
    pub(super) fn evidence(&self) -> Vec<dns::UsedAnswer> {
        let state = self.state();
        if self.purpose == Purpose::Spf {
            return EvidenceAnswers::all(state.known.iter().map(|known| known.answer.as_ref()));
        }
        let mut answers = EvidenceAnswers::of(state.known.len());
        for known in &state.known {
            let texts = known.answer.texts().unwrap_or_default();
            let place = texts.iter().position(|text| is_dmarc(text)).unwrap_or(0);
            answers.keep_first(&known.answer, place, usize::MAX);
        }
        answers.into_answers()
    }

    /// Returns the policies found, with the names of their records.
    pub(super) fn policies(&self) -> Vec<(String, Arc<DmarcRecord>)> {
        let state = self.state();
        let policy = |known: &RecordedAnswer| match &known.txt {
            Some(TxtRecord::Dmarc(policy)) => Some((known.answer.name.clone(), Arc::clone(policy))),
            _ => None,
        };
        state.known.iter().filter_map(policy).collect()
    }

    /// Queries the TXT records of one more name, unless they are here. Returns whether they are
    /// known then.
    pub(super) async fn look_up_txt(
        &self,
        resolver: &Resolver,
        name: String,
        deadline: tokio::time::Instant,
    ) -> bool {
        let ask = || resolver.ask(name.clone(), RecordType::TXT, deadline);
        let is_known = |known: &RecordedAnswer| !known.answer.is_temporary();
        if self.find(&name, RecordType::TXT, is_known).is_none() && name.len() <= MAX_NAME {
            self.add(Arc::new(ask().await));
        }
        // A name that is too long has no record.
        self.find(&name, RecordType::TXT, is_known).unwrap_or(true)
    }

    fn read(&self, answer: &Answer) -> TxtRecord {
        let mut texts = match answer.texts() {
            Ok(texts) => texts,
            Err(error) => return TxtRecord::Error(error),
        };
        let claims = match self.purpose {
            Purpose::Spf => is_spf,
            Purpose::Dmarc => is_dmarc,
        };
        if texts.iter().any(|text| text.len() > MAX_RECORD && claims(text)) {
            return TxtRecord::Error(mail_auth::Error::Parse);
        }
        match self.purpose {
            Purpose::Spf => {
                texts.retain(|text| text.len() <= MAX_RECORD);
                SpfRecord::parse_records(&texts).into()
            }
            Purpose::Dmarc => {
                texts.retain(|text| is_dmarc(text));
                // RFC 9989 §4.10: several records are all discarded; mail-auth does not do that.
                let foreign = Err(mail_auth::Error::Dns(DnsError::InvalidRecordType));
                let read = match texts.as_slice() {
                    [text] => policy(text),
                    _ => foreign,
                };
                read.into()
            }
        }
    }

    /// Ignores poisoning: no code panics under this lock, and the answers would still be complete.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses the answer to a query, or records it as missing. Only the first missing one is queried
    /// next: later ones may depend on its answer.
    fn find<T>(
        &self,
        name: &str,
        kind: RecordType,
        wanted: impl FnOnce(&RecordedAnswer) -> T,
    ) -> Option<T> {
        let name = name.strip_suffix('.').unwrap_or(name);
        if name.len() > MAX_NAME {
            return None;
        }
        let mut state = self.state();
        let known = state.known.iter().find(|known| {
            known.answer.kind == kind && known.answer.name.eq_ignore_ascii_case(name)
        });
        if let Some(known) = known {
            return Some(wanted(known));
        }
        state.missing.get_or_insert_with(|| (name.to_owned(), kind));
        None
    }

    /// Returns records in mail-auth's form, which cannot express a temporary failure.
    fn record_set<T>(
        &self,
        name: &str,
        kind: RecordType,
        read: impl FnOnce(&Answer) -> Result<Arc<[T]>, mail_auth::Error>,
    ) -> Result<RecordSet<T>, Negative> {
        let found = self.find(name, kind, |known| match read(&known.answer) {
            Ok(records) => Ok(RecordSet { records, dnssec_status: DnssecStatus::Indeterminate }),
            Err(mail_auth::Error::Dns(DnsError::RecordNotFound(code))) => Err(Negative { code }),
            Err(_) => Err(Negative { code: ResponseCode::ServFail }),
        });
        found.unwrap_or(Err(Negative { code: ResponseCode::ServFail }))
    }

    fn record(&self, name: &str) -> TxtRecord {
        let found = self.find(name, RecordType::TXT, |known| known.txt.clone()).flatten();
        found.unwrap_or_else(|| {
            TxtRecord::Error(if name.len() > MAX_NAME + 1 {
                match self.purpose {
                    Purpose::Spf => mail_auth::Error::Parse,
                    // An unpublishable name has no record: one above it may apply.
                    Purpose::Dmarc => mail_auth::Error::Dns(DnsError::InvalidRecordType),
                }
            } else {
                mail_auth::Error::Dns(DnsError::Resolver("not asked yet".into()))
            })
        })
    }
}

/// Tells whether a text claims to be a policy: it has a version that mail-auth accepts, whatever
/// follows.
fn is_dmarc(text: &[u8]) -> bool {
    let start = text.get(..MAX_VERSION).unwrap_or(text);
    let foreign = |error| matches!(error, mail_auth::Error::Dns(DnsError::InvalidRecordType));
    !DmarcRecord::parse(start).is_err_and(foreign)
}

/// Parses a policy by RFC 7489, where mail-auth gives up at the first unreadable tag. Such a tag is
/// ignored (§6.3). If p=, sp= or np= is unreadable, the policy is p=none if reports are requested,
/// and else does not apply (§6.6.3).
fn policy(text: &[u8]) -> Result<DmarcRecord, mail_auth::Error> {
    let whole = DmarcRecord::parse(text);
    if !matches!(whole, Err(mail_auth::Error::Parse)) {
        return whole;
    }
    let mut tags = text.split(|octet| *octet == b';');
    let version = tags.next().unwrap_or_default();
    let with = |tag: &[u8]| [version, tag].join(&b';');
    let name = |tag: &[u8]| {
        tag.split(|octet| *octet == b'=')
            .next()
            .unwrap_or_default()
            .trim_ascii()
            .to_ascii_lowercase()
    };
    let is_policy = |tag: &[u8]| [&b"p"[..], b"sp", b"np"].contains(&name(tag).as_slice());
    let (good, bad): (Vec<_>, Vec<_>) =
        tags.partition(|tag| DmarcRecord::parse(&with(tag)).is_ok());
    let is_void = bad.into_iter().any(is_policy);
    let kept: Vec<_> = good.into_iter().filter(|tag| !(is_void && is_policy(tag))).collect();
    let read = DmarcRecord::parse(&with(&kept.join(&b';')))?;
    if is_void && read.rua.is_empty() { whole } else { Ok(read) }
}

/// Returns the text of a borrowed key of mail-auth's caches. Their interface only allows hashing
/// and comparing keys: so the text is recorded while it is hashed, and then compared.
fn spelled<Q>(name: &Q) -> Option<Box<str>>
where
    Box<str>: Borrow<Q>,
    Q: Hash + Eq + ?Sized,
{
    #[derive(Default)]
    struct HashedText(Vec<u8>);

    impl Hasher for HashedText {
        fn write(&mut self, octets: &[u8]) {
            self.0.extend_from_slice(octets);
        }

        fn finish(&self) -> u64 {
            0
        }
    }

    let mut hashed = HashedText::default();
    name.hash(&mut hashed);
    // A str hashes with a final byte that no text contains.
    let octets = hashed.0.strip_suffix(b"\xff").unwrap_or(&hashed.0);
    let text: Box<str> = std::str::from_utf8(octets).ok()?.into();
    let same = Borrow::<Q>::borrow(&text) == name;
    same.then_some(text)
}

fn pointer(data: &RData) -> Option<Box<str>> {
    match data {
        RData::PTR(name) if !name.is_root() => {
            Some(name.to_lowercase().to_ascii().into_boxed_str())
        }
        _ => None,
    }
}

fn ipv4(data: &RData) -> Option<Ipv4Addr> {
    if let RData::A(address) = data { Some(address.0) } else { None }
}

fn ipv6(data: &RData) -> Option<Ipv6Addr> {
    if let RData::AAAA(address) = data { Some(address.0) } else { None }
}

/// Groups mail exchangers by preference, as mail-auth does.
fn exchangers(answer: &Answer) -> Result<Arc<[Mx]>, mail_auth::Error> {
    let mut hosts = answer.records(|data| match data {
        RData::MX(mx) => Some((mx.preference, mx.exchange.to_lowercase().to_ascii())),
        _ => None,
    })?;
    hosts.sort_by_key(|(preference, _)| *preference);
    let groups = hosts.chunk_by(|(one, _), (next, _)| one == next);
    Ok(groups
        .filter_map(|group| {
            let (preference, _) = group.first()?;
            let exchanges = group.iter().map(|(_, host)| host.as_str().into()).collect();
            Some(Mx { exchanges, preference: *preference })
        })
        .collect())
}

macro_rules! cache {
    ($key:ty, $value:ty, |$recorder:ident, $name:ident| $found:expr) => {
        impl ResolverCache<$key, $value> for Recorder {
            /// Never returns None for a name: mail-auth would query by itself.
            fn get<Q>(&self, $name: &Q) -> Option<$value>
            where
                $key: Borrow<Q>,
                Q: Hash + Eq + ?Sized,
            {
                let $recorder = self;
                $found
            }

            fn remove<Q>(&self, _: &Q) -> Option<$value>
            where
                $key: Borrow<Q>,
                Q: Hash + Eq + ?Sized,
            {
                None
            }

            fn insert(&self, _: $key, _: $value, _: Instant) {}
        }
    };
}

cache!(Box<str>, TxtRecord, |recorder, name| Some(recorder.record(&spelled(name)?)));
cache!(Box<str>, Result<RecordSet<Mx>, Negative>, |recorder, name| {
    Some(recorder.record_set(&spelled(name)?, RecordType::MX, exchangers))
});
cache!(Box<str>, Result<RecordSet<Ipv4Addr>, Negative>, |recorder, name| {
    Some(
        recorder
            .record_set(&spelled(name)?, RecordType::A, |answer| Ok(answer.records(ipv4)?.into())),
    )
});
cache!(Box<str>, Result<RecordSet<Ipv6Addr>, Negative>, |recorder, name| {
    Some(
        recorder.record_set(&spelled(name)?, RecordType::AAAA, |answer| {
            Ok(answer.records(ipv6)?.into())
        }),
    )
});
cache!(IpAddr, Result<RecordSet<Box<str>>, Negative>, |recorder, name| {
    let is_the_clients = Borrow::<Q>::borrow(&recorder.client) == name;
    let name = Name::from(recorder.client).to_ascii();
    let pointers = |answer: &Answer| Ok(answer.records(pointer)?.into());
    is_the_clients.then(|| recorder.record_set(&name, RecordType::PTR, pointers))
});

impl DnsCache for Recorder {
    type Txt = Self;
    type Mx = Self;
    type Ipv4 = Self;
    type Ipv6 = Self;
    type Ptr = Self;

    fn txt(&self) -> Option<&Self> {
        Some(self)
    }

    fn mx(&self) -> Option<&Self> {
        Some(self)
    }

    fn ipv4(&self) -> Option<&Self> {
        Some(self)
    }

    fn ipv6(&self) -> Option<&Self> {
        Some(self)
    }

    fn ptr(&self) -> Option<&Self> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_too_long_is_neither_asked_for_nor_kept() {
        for (octets, asked) in [(253, Some(RecordType::TXT)), (254, None)] {
            let recorder = Recorder::new(Purpose::Spf, Ipv4Addr::LOCALHOST.into());
            recorder.record(&format!("{}.", "x".repeat(octets)));
            assert_eq!(recorder.missing(), asked, "{octets}");
            assert!(recorder.evidence().is_empty());
        }
    }

    #[test]
    fn a_key_is_spelled_whatever_it_holds() {
        for name in ["", ".", "good.example.", "größe.example.", "a\u{0}b.", "\u{ff}"] {
            assert_eq!(spelled::<str>(name).as_deref(), Some(name));
            let boxed: Box<str> = name.into();
            assert_eq!(spelled(&boxed).as_deref(), Some(name));
        }
    }
}
