//! The keys of one message: looked up once, at the same time, before anything is verified, so
//! that mail-auth verifies without asking anybody and the record shows the very answers used.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::time::Instant;

use futures_util::stream::{self, StreamExt};
use mail_auth::dns::TxtRecord;
use mail_auth::hickory_resolver::proto::rr::RecordType;
use mail_auth::{DnsCache, DnsError, Error, NoCache, ResolverCache};

use super::answer::{Answer, Kept};
use super::key::{self, Key};
use super::resolver::Resolver;
use crate::domain::evidence::dns;

/// Look-ups under way at the same time for one message.
const AT_ONCE: usize = 16;

/// Every key that a signature of the message names.
#[derive(Default)]
pub(super) struct Keys {
    found: HashMap<Box<str>, Found>,
}

struct Found {
    answer: Answer,
    key: Result<Key, Error>,
}

impl Keys {
    /// Looks up `names` (without final dot), each once, by `deadline`; the first ones first.
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
        let found = |answer: Answer| {
            let key = answer.texts().and_then(|records| Key::choose(&records));
            // mail-auth asks with a final dot.
            (format!("{}.", answer.name).into(), Found { answer, key })
        };
        Self { found: answers.map(found).collect().await }
    }

    /// The key published under a name, or why there is none: `DnsError::Resolver` where nobody
    /// knows for the time being.
    pub(super) fn find(&self, name: &str) -> Result<&Key, Error> {
        match self.found.get(format!("{name}.").as_str()) {
            Some(found) => found.key.as_ref().map_err(Clone::clone),
            None => Err(Error::Dns(DnsError::InvalidRecordType)),
        }
    }

    /// The key published under a name, if there is a usable one.
    pub(super) fn get(&self, name: &str) -> Option<&Key> {
        self.find(name).ok()
    }

    /// The answers about these names, each once and each in its share of the room, for the record;
    /// of each first the record that is the key, then the others that were looked at.
    pub(super) fn evidence<'n>(&self, names: impl Iterator<Item = &'n str>) -> Vec<dns::Answer> {
        let mut told = HashSet::new();
        let names = names.filter(|name| told.insert(*name));
        let found: Vec<_> =
            names.filter_map(|name| self.found.get(format!("{name}.").as_str())).collect();
        let mut kept = Kept::of(found.len());
        for Found { answer, key } in found {
            kept.keep_first(answer, key.as_ref().map_or(0, |key| key.place), key::MAX_RECORDS);
        }
        kept.into_answers()
    }
}

/// mail-auth's verifier finds here what was looked up, and never asks further: a name that is not
/// here (ATPS, failure reports) does not exist.
impl ResolverCache<Box<str>, TxtRecord> for Keys {
    fn get<Q>(&self, name: &Q) -> Option<TxtRecord>
    where
        Box<str>: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        Some(match self.found.get(name).map(|found| &found.key) {
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
