//! The keys of one message. They are looked up once, in parallel, before anything is verified: so
//! mail-auth verifies without queries, and the record shows exactly the answers used.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::time::Instant;

use futures_util::stream::{self, StreamExt};
use mail_auth::dns::TxtRecord;
use mail_auth::hickory_resolver::proto::rr::RecordType;
use mail_auth::{DnsCache, DnsError, Error, NoCache, ResolverCache};

use super::answer::{Answer, EvidenceAnswers};
use super::key::{self, Key};
use super::resolver::Resolver;
use crate::domain::evidence::dns;

/// Most parallel look-ups for one message.
const AT_ONCE: usize = 16;

/// All keys that signatures of the message name.
#[derive(Default)]
pub(super) struct Keys {
    found: HashMap<Box<str>, Answer>,
}

impl Keys {
    /// Looks up `names` (without final dot), each once, in order of priority, by `deadline` at the
    /// latest.
    pub(super) async fn fetch(
        resolver: &Resolver,
        names: impl IntoIterator<Item = String>,
        deadline: tokio::time::Instant,
    ) -> Self {
        let mut seen = HashSet::new();
        let names = names.into_iter().filter(|name| seen.insert(name.clone()));
        let names: Vec<String> = names.collect();
        let ask = |name| resolver.ask(name, RecordType::TXT, deadline);
        let answers = stream::iter(names).map(ask).buffer_unordered(AT_ONCE);
        // mail-auth asks with a final dot.
        let found = |answer: Answer| (format!("{}.", answer.name).into(), answer);
        Self { found: answers.map(found).collect().await }
    }

    /// Returns the key under a name, or the reason why there is none: `DnsError::Resolver` if the
    /// look-up failed for now.
    pub(super) fn find(&self, name: &str) -> Result<&Key, Error> {
        match self.found.get(format!("{name}.").as_str()) {
            Some(answer) => answer.key().map_err(Clone::clone),
            None => Err(Error::Dns(DnsError::InvalidRecordType)),
        }
    }

    /// Returns the key under a name, if there is a usable one.
    pub(super) fn get(&self, name: &str) -> Option<&Key> {
        self.find(name).ok()
    }

    /// Returns the answers about these names for the record, each once and with an equal share of
    /// the room. The record with the key comes first, then the others examined.
    pub(super) fn evidence<'n>(
        &self,
        names: impl Iterator<Item = &'n str>,
    ) -> Vec<dns::UsedAnswer> {
        let mut seen = HashSet::new();
        let names = names.filter(|name| seen.insert(*name));
        let found: Vec<_> =
            names.filter_map(|name| self.found.get(format!("{name}.").as_str())).collect();
        let mut answers = EvidenceAnswers::of(found.len());
        for answer in found {
            let place = answer.key().map_or(0, |key| key.place);
            answers.keep_first(answer, place, key::MAX_RECORDS);
        }
        answers.into_answers()
    }
}

/// mail-auth's cache: it finds the keys that were looked up and never queries by itself. Any other
/// name (ATPS, failure reports) does not exist.
impl ResolverCache<Box<str>, TxtRecord> for Keys {
    fn get<Q>(&self, name: &Q) -> Option<TxtRecord>
    where
        Box<str>: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        Some(match self.found.get(name).map(Answer::key) {
            Some(Ok(key)) => key.record.clone(),
            Some(Err(error)) => TxtRecord::Error(error.clone()),
            None => TxtRecord::Error(Error::Dns(DnsError::InvalidRecordType)),
        })
    }

    fn remove<Q>(&self, _: &Q) -> Option<TxtRecord>
    where
        Box<str>: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        None
    }

    fn insert(&self, _: Box<str>, _: TxtRecord, _: Instant) {}
}

impl DnsCache for Keys {
    type Txt = Self;
    type Mx = NoCache;
    type Ipv4 = NoCache;
    type Ipv6 = NoCache;
    type Ptr = NoCache;

    fn txt(&self) -> Option<&Self> {
        Some(self)
    }

    fn mx(&self) -> Option<&NoCache> {
        None
    }

    fn ipv4(&self) -> Option<&NoCache> {
        None
    }

    fn ipv6(&self) -> Option<&NoCache> {
        None
    }

    fn ptr(&self) -> Option<&NoCache> {
        None
    }
}
