//! iprev (RFC 8601 §3): whether the client's address has a name that leads back to it. Only
//! recorded: it neither accepts nor refuses a message, so it must not delay one for long.

use std::net::IpAddr;

use futures_util::future::join_all;
use mail_auth::hickory_resolver::proto::rr::{Name, RecordType};
use tokio::time::Instant;

use super::answer::{Answer, EvidenceAnswers, Outcome};
use super::evidence::{micros, one_line, printable};
use super::resolver::Resolver;
use crate::domain::evidence::{Facts, Step, iprev, results};

/// Most names that are checked: more than a proper host has, and RFC 7208 §5.5 has the same limit.
const MAX_NAMES: usize = 10;

/// Whether an address has a name that leads back to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reverse {
    Confirmed,
    /// There is no name to compare.
    Unnamed,
    /// No name leads back.
    Unconfirmed,
    /// The DNS did not answer in time.
    Unknown,
    /// Not an address of a host on the internet.
    NotPublic,
}

impl Reverse {
    /// The word of RFC 8601 §2.7.3.
    const fn word(self) -> &'static str {
        match self {
            Self::Confirmed => "pass",
            Self::Unnamed => "permerror",
            Self::Unconfirmed => "fail",
            Self::Unknown => "temperror",
            Self::NotPublic => "none",
        }
    }
}

/// The result, and the confirmed name if there is one.
#[derive(Clone)]
pub(super) struct Iprev {
    result: Reverse,
    name: Option<String>,
    pub(super) step: Step,
}

impl Iprev {
    pub(super) fn summary(&self) -> results::Iprev {
        results::Iprev { result: self.result.word().into(), name: self.name.clone() }
    }
}

/// The names of an address.
pub(super) struct Names {
    pub(super) result: Reverse,
    /// The result in words.
    pub(super) detail: String,
    /// The first confirmed one.
    confirmed: Option<String>,
    /// The PTR answer, then one answer per name; none if nothing was asked.
    answers: Vec<Answer>,
}

/// Looks up the names of the client, by `deadline` at the latest.
pub(super) async fn check(resolver: &Resolver, client: IpAddr, deadline: Instant) -> Iprev {
    let start = std::time::Instant::now();
    let known = &resolver.results().iprev;
    if let Some(found) = known.find(&client, start) {
        return found;
    }
    let ask = |name, kind| resolver.ask(name, kind, deadline);
    let Names { result, detail, confirmed, answers } = reverse(client, ask).await;
    let step = Step {
        facts: facts(client),
        result: result.word().into(),
        detail,
        dns: EvidenceAnswers::all(&answers),
        micros: if answers.is_empty() { 0 } else { micros(start) },
    };
    let found = Iprev { result, name: confirmed, step };
    known.keep(client, &found, start);
    found
}

fn facts(client: IpAddr) -> Facts {
    Facts::Iprev(iprev::Iprev { client: client.to_string() })
}

/// Looks up the PTR record, then in parallel the addresses of its names, up to the limit. Asks
/// nothing about addresses that every host has, as in messages from files.
pub(super) async fn reverse<A: Future<Output = Answer>>(
    client: IpAddr,
    ask: impl Fn(String, RecordType) -> A,
) -> Names {
    let own = client.to_canonical();
    if own.is_unspecified() || own.is_loopback() {
        let detail = format!("{client} is not a public address; the lookup was skipped");
        let result = Reverse::NotPublic;
        return Names { result, detail, confirmed: None, answers: Vec::new() };
    }
    let ptr = ask(name_of(own), RecordType::PTR).await;
    let hosts = join_all(names(&ptr).map(|name| ask(name, kind_of(own)))).await;
    let confirmed = hosts.iter().find(|host| host.addresses().contains(&own));
    // A label may contain any bytes, even line ends.
    let confirmed: Option<String> = confirmed.map(|host| printable(&host.name).collect());
    let is_temporary = ptr.is_temporary() || hosts.iter().any(Answer::is_temporary);
    let (result, detail) = match (ptr.outcome(), &confirmed) {
        (_, Some(name)) => {
            (Reverse::Confirmed, format!("{client} is {name}, and {name} is {client}"))
        }
        (Outcome::Nothing(_), _) => (Reverse::Unnamed, format!("{client} has no name (PTR)")),
        _ if is_temporary => {
            let detail = format!("the names of {client} could not be looked up in time");
            (Reverse::Unknown, detail)
        }
        _ => {
            let names = hosts.len();
            let detail = format!("none of the {names} names of {client} leads back to it");
            (Reverse::Unconfirmed, detail)
        }
    };
    let answers = std::iter::once(ptr).chain(hosts).collect();
    Names { result, detail: one_line(&detail), confirmed, answers }
}

/// Returns the names of a PTR answer, up to the limit.
pub(super) fn names(ptr: &Answer) -> impl Iterator<Item = String> + use<> {
    let hosts = ptr.hosts().into_iter().map(|(_, host)| host);
    hosts.filter(|host| !host.is_empty()).take(MAX_NAMES)
}

/// The record type for addresses of this family.
pub(super) fn kind_of(client: IpAddr) -> RecordType {
    if client.is_ipv4() { RecordType::A } else { RecordType::AAAA }
}

/// The name of an address's PTR record, without final dot.
pub(super) fn name_of(client: IpAddr) -> String {
    Name::from(client).to_ascii().trim_end_matches('.').to_owned()
}
