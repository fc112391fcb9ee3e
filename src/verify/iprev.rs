//! iprev (RFC 8601 §3): whether the client's address has a name that leads back to it. Only
//! recorded: it neither accepts nor refuses a message, so it must not delay one for long.

use std::net::IpAddr;

use futures_util::future::join_all;
use mail_auth::hickory_resolver::proto::rr::{Name, RecordType};
use tokio::time::Instant;

use super::answer::{Answer, EvidenceAnswers, Outcome};
use super::evidence::{micros, one_line, printable};
use super::resolver::Resolver;
use crate::domain::evidence::{Facts, Step, Word, iprev, results};

/// Most names that are checked: more than a proper host has, and RFC 7208 §5.5 has the same limit.
const MAX_NAMES: usize = 10;

/// The result, and the confirmed name if there is one.
#[derive(Clone)]
pub(super) struct Iprev {
    result: &'static str,
    name: Option<String>,
    pub(super) step: Step,
}

impl Iprev {
    pub(super) fn summary(&self) -> results::Iprev {
        results::Iprev { result: self.result.into(), name: self.name.clone() }
    }
}

/// The names of an address, and those that are confirmed.
struct Reverse {
    /// The PTR answer, then one answer per name.
    answers: Vec<Answer>,
    /// Without final dot, in the order of the answers.
    confirmed: Vec<String>,
}

/// Looks up the names of the client, by `deadline` at the latest.
pub(super) async fn check(resolver: &Resolver, client: IpAddr, deadline: Instant) -> Iprev {
    let start = std::time::Instant::now();
    if client.to_canonical().is_unspecified() || client.to_canonical().is_loopback() {
        return nowhere(client);
    }
    let known = &resolver.results().iprev;
    if let Some(found) = known.find(&client, start) {
        return found;
    }
    let reverse = reverse(resolver, client.to_canonical(), deadline).await;
    let result = reverse.result();
    // A label may contain any bytes, even line ends.
    let name: Option<String> = reverse.confirmed.first().map(|name| printable(name).collect());
    let names = reverse.answers.len().saturating_sub(1);
    let detail = match (result, &name) {
        (_, Some(name)) => format!("{client} is {name}, and {name} is {client}"),
        ("permerror", _) => format!("{client} has no name (PTR)"),
        ("fail", _) => format!("none of the {names} names of {client} leads back to it"),
        _ => format!("the names of {client} could not be looked up in time"),
    };
    let step = Step {
        facts: facts(client),
        result: result.into(),
        detail: one_line(&detail),
        dns: EvidenceAnswers::all(&reverse.answers),
        micros: micros(start),
    };
    let found = Iprev { result, name, step };
    known.keep(client, &found, start);
    found
}

/// The result for addresses that every host has, as in messages from files; no query is made.
fn nowhere(client: IpAddr) -> Iprev {
    let step = Step {
        facts: facts(client),
        result: Word::Borrowed("none"),
        detail: format!("{client} is not a public address; the lookup was skipped"),
        dns: Vec::new(),
        micros: 0,
    };
    Iprev { result: "none", name: None, step }
}

fn facts(client: IpAddr) -> Facts {
    Facts::Iprev(iprev::Iprev { client: client.to_string() })
}

/// Looks up the PTR record, then in parallel the addresses of its names, up to the limit.
async fn reverse(resolver: &Resolver, client: IpAddr, deadline: Instant) -> Reverse {
    let ptr = resolver.ask(name_of(client), RecordType::PTR, deadline).await;
    let ask = |name| resolver.ask(name, kind_of(client), deadline);
    let hosts = join_all(names(&ptr).map(ask)).await;
    let leads_back = |host: &&Answer| host.addresses().contains(&client);
    let confirmed = hosts.iter().filter(leads_back).map(|host| host.name.clone()).collect();
    Reverse { answers: std::iter::once(ptr).chain(hosts).collect(), confirmed }
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

impl Reverse {
    /// Returns the word of RFC 8601 §2.7.3; `permerror` if there is no name to compare.
    fn result(&self) -> &'static str {
        match self.answers.first().map(|ptr| &ptr.outcome) {
            Some(Outcome::Nothing(_)) => "permerror",
            _ if !self.confirmed.is_empty() => "pass",
            _ if self.answers.iter().any(Answer::is_temporary) => "temperror",
            _ => "fail",
        }
    }
}
