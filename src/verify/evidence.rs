//! What the verdict rests on, written down: the steps with their inputs, the DNS answers and the
//! time they took, as the intake record keeps them.

use std::borrow::Borrow;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use mail_auth::dns::TxtRecord;
use mail_auth::hickory_resolver::proto::op::ResponseCode;
use mail_auth::{DnsCache, DnsError, Error, Mx, Negative, RecordSet, ResolverCache};
use serde_json::{Value, json};

use super::resolver::Resolver;

/// Answers kept per step: a large SPF tree asks about twenty questions.
const MAX_ANSWERS: usize = 40;

/// One step of the verdict.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) result: String,
    pub(super) detail: String,
    pub(super) inputs: Value,
    pub(super) dns: Vec<Value>,
    pub(super) micros: u64,
}

impl Step {
    pub(super) fn into_json(self) -> Value {
        json!({
            "name": self.name, "result": self.result, "detail": self.detail,
            "inputs": self.inputs, "dns": self.dns, "micros": self.micros,
        })
    }
}

/// Microseconds since `start`.
pub(super) fn micros(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// One line of ASCII fit for an SMTP reply, at most 200 octets: what a stranger wrote (a domain,
/// an error text) must not end the line or reach a terminal.
pub(super) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c == ' ' || c.is_ascii_graphic() { c } else { '?' }).take(200).collect()
}

/// Stands where mail-auth expects a cache, remembers nothing for it, and keeps what it was given:
/// one object per step and message, so that no answer ever serves another purpose.
#[derive(Default)]
pub(super) struct Recorder {
    seen: Mutex<Vec<Seen>>,
}

struct Seen {
    name: String,
    kind: &'static str,
    ttl: u64,
    /// `None` for TXT records, which mail-auth hands out parsed only.
    answer: Option<Value>,
}

impl Recorder {
    fn keep(&self, name: String, kind: &'static str, until: Instant, answer: Option<Value>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() < MAX_ANSWERS {
            let ttl = until.saturating_duration_since(Instant::now()).as_secs();
            let name = name.trim_end_matches('.').to_owned();
            seen.push(Seen { name, kind, ttl, answer });
        }
    }

    /// What was answered. The text of TXT records is asked for again: the resolver has it.
    pub(super) async fn evidence(
        self,
        resolver: &Resolver,
        deadline: tokio::time::Instant,
    ) -> Vec<Value> {
        let mut evidence = Vec::new();
        for seen in self.seen.into_inner().unwrap_or_else(PoisonError::into_inner) {
            evidence.push(match seen.answer {
                Some(answer) => {
                    json!({"name": seen.name, "type": seen.kind, "ttl": seen.ttl, "answer": answer})
                }
                None => resolver.txt(seen.name, deadline).await.evidence(),
            });
        }
        evidence
    }
}

fn nothing(code: ResponseCode) -> Value {
    json!(if code == ResponseCode::NXDomain { "NXDOMAIN" } else { "no such record" })
}

macro_rules! records {
    ($key:ty, $record:ty, $kind:literal, $shown:expr) => {
        impl ResolverCache<$key, Result<RecordSet<$record>, Negative>> for Recorder {
            fn get<Q>(&self, _: &Q) -> Option<Result<RecordSet<$record>, Negative>>
            where
                $key: Borrow<Q>,
                Q: Hash + Eq + ?Sized,
            {
                None
            }

            fn remove<Q>(&self, _: &Q) -> Option<Result<RecordSet<$record>, Negative>>
            where
                $key: Borrow<Q>,
                Q: Hash + Eq + ?Sized,
            {
                None
            }

            fn insert(
                &self,
                key: $key,
                value: Result<RecordSet<$record>, Negative>,
                until: Instant,
            ) {
                let answer = match value {
                    Ok(set) => set.records.iter().take(20).map($shown).collect(),
                    Err(negative) => nothing(negative.code),
                };
                self.keep(key.to_string(), $kind, until, Some(answer));
            }
        }
    };
}

records!(Box<str>, Mx, "MX", |mx: &Mx| format!("{} {}", mx.preference, mx.exchanges.join(" ")));
records!(Box<str>, Ipv4Addr, "A", Ipv4Addr::to_string);
records!(Box<str>, Ipv6Addr, "AAAA", Ipv6Addr::to_string);
records!(IpAddr, Box<str>, "PTR", ToString::to_string);

impl ResolverCache<Box<str>, TxtRecord> for Recorder {
    fn get<Q>(&self, _: &Q) -> Option<TxtRecord>
    where
        Box<str>: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        None
    }

    fn remove<Q>(&self, _: &Q) -> Option<TxtRecord>
    where
        Box<str>: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        None
    }

    fn insert(&self, key: Box<str>, value: TxtRecord, until: Instant) {
        let answer = match value {
            TxtRecord::Error(Error::Dns(DnsError::RecordNotFound(code))) => Some(nothing(code)),
            _ => None,
        };
        self.keep(key.into(), "TXT", until, answer);
    }
}

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
