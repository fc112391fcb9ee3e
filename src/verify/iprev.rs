//! iprev (RFC 8601 §3): whether the client's address has a name that leads back to it. Recorded,
//! and never what accepts or refuses a message; so it may keep none waiting for long.

use std::net::IpAddr;

use futures_util::future::join_all;
use mail_auth::hickory_resolver::proto::rr::{Name, RecordType};
use tokio::time::Instant;

use super::answer::{Answer, Kept, Outcome};
use super::evidence::{micros, one_line, printable};
use super::resolver::Resolver;
use crate::domain::evidence::{Facts, Step, Word, iprev, results};

/// Names looked at: more than a proper host has, and RFC 7208 §5.5 leaves the others out, too.
const MAX_NAMES: usize = 10;

/// The result, and the name that leads back, if one does.
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

/// The names of an address, and which of them lead back to it.
struct Reverse {
    /// That to PTR, then one for each name.
    answers: Vec<Answer>,
    /// Without final dot, as they came.
    confirmed: Vec<String>,
}

/// Asks for the names of the client, by `deadline`.
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
    // A label may hold any octets: line ends, too.
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
        dns: Kept::all(&reverse.answers),
        micros: micros(start),
    };
    let found = Iprev { result, name, step };
    known.keep(client, &found, start);
    found
}

/// Addresses that every host has, and that a message from a file has, too: nobody is asked.
fn nowhere(client: IpAddr) -> Iprev {
    let step = Step {
        facts: facts(client),
        result: Word::Borrowed("none"),
        detail: format!("{client} is no address of a host on the Internet: nobody was asked"),
        dns: Vec::new(),
        micros: 0,
    };
    Iprev { result: "none", name: None, step }
}

fn facts(client: IpAddr) -> Facts {
    Facts::Iprev(iprev::Iprev { client: client.to_string() })
}

/// PTR, and the addresses of the first names; all at once.
async fn reverse(resolver: &Resolver, client: IpAddr, deadline: Instant) -> Reverse {
    let ptr = resolver.ask(name_of(client), RecordType::PTR, deadline).await;
    let ask = |name| resolver.ask(name, kind_of(client), deadline);
    let hosts = join_all(names(&ptr).map(ask)).await;
    let leads_back = |host: &&Answer| host.addresses().contains(&client);
    let confirmed = hosts.iter().filter(leads_back).map(|host| host.name.clone()).collect();
    Reverse { answers: std::iter::once(ptr).chain(hosts).collect(), confirmed }
}

/// The names that a PTR answer holds, as far as they are looked at.
pub(super) fn names(ptr: &Answer) -> impl Iterator<Item = String> + use<> {
    let hosts = ptr.hosts().into_iter().map(|(_, host)| host);
    hosts.filter(|host| !host.is_empty()).take(MAX_NAMES)
}

/// The type of record that holds addresses of this family.
pub(super) fn kind_of(client: IpAddr) -> RecordType {
    if client.is_ipv4() { RecordType::A } else { RecordType::AAAA }
}

/// Where the names of an address are published, without final dot.
pub(super) fn name_of(client: IpAddr) -> String {
    Name::from(client).to_ascii().trim_end_matches('.').to_owned()
}

impl Reverse {
    /// The word of RFC 8601 §2.7.3. Without a name there is nothing to compare: `permerror`.
    fn result(&self) -> &'static str {
        match self.answers.first().map(|ptr| &ptr.outcome) {
            Some(Outcome::Nothing(_)) => "permerror",
            _ if !self.confirmed.is_empty() => "pass",
            _ if self.answers.iter().any(Answer::is_temporary) => "temperror",
            _ => "fail",
        }
    }
}
