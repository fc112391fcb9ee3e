//! `/email/inboundWhitelist`: the senders that an Agent admits in `allowlist` mode.

use std::collections::BTreeSet;
use std::fmt::Display;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::domain::address::Address;
use crate::domain::fault::Fault;
use crate::domain::lookalike;
use crate::domain::policy::{AllowedSender, new_sender};
use crate::http::request::body::LISTED;
use crate::http::typed::{Call, Limit, Problem, WithHeaders, page, refused, successes};
use crate::wire::Date;

const BOSS: &str = "boss@good.example";

/// Lists the senders on the allowlist of an Agent
#[derive(Debug, Deserialize, JsonSchema)]
pub struct List {
    limit: Option<Limit>,
    /// Only senders after this one: `next`, or an address.
    #[schemars(example = &BOSS)]
    after: Option<String>,
}

/// A sender.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Sender {
    /// The address, normalised.
    #[schemars(example = &BOSS)]
    email: String,
    /// Why the sender is on the list.
    note: Option<String>,
    /// When the sender was added.
    added_at: Date,
}

pub async fn list(call: Call, request: List) -> Result<WithHeaders<Listed>, Problem> {
    let limit = page::limit(&call, request.limit);
    let after = request.after.as_deref().map(Address::kept).transpose();
    let after = after.map_err(|error| refused("after", &error))?;
    let agent = call.account().id;
    let page = call.tenancy().allowed_senders(agent, limit, after.as_ref()).await?;
    let next = page.next.as_ref().map(Address::to_string);
    let listed = Listed {
        count: page.senders.len(),
        total: page.total,
        next: next.clone(),
        whitelist: page.senders.into_iter().map(shape).collect(),
    };
    Ok(page::followed(&call, "after", next, listed))
}

/// Addresses of senders.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(
    inline, extend("minItems" = 1, "maxItems" = "limits.max_addresses_per_call"), example = &[BOSS]
)]
pub struct Senders(Vec<String>);

impl Senders {
    /// Parses the new entries of this field; fails with all mistakes.
    pub(super) fn read_new(&self, name: &str) -> Result<Vec<Address>, Problem> {
        read(name, self.0.iter().map(|text| new_sender(text)))
    }

    /// Parses the addresses of this field; fails with all mistakes.
    pub(super) fn read(&self, name: &str) -> Result<Vec<Address>, Problem> {
        read(name, self.0.iter().map(|text| Address::parse(text)))
    }
}

/// Adds senders to the allowlist of an Agent
///
/// Send email or emails: exact addresses, no patterns. All are added, or none if one is not an
/// address.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(
    extend("minProperties" = 1, "x-one-of" = ["email", "emails"]),
    example = json!({ "email": BOSS, "note": "The boss" })
)]
pub struct Add {
    /// A sender.
    #[schemars(example = &BOSS)]
    email: Option<String>,
    /// Several senders.
    emails: Option<Senders>,
    /// Why the senders are on the list.
    #[schemars(extend("maxLength" = "limits.max_note_bytes"))]
    note: Option<String>,
}

/// A warning about a sender.
// Threats A13.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Warning {
    /// The sender.
    #[schemars(example = &BOSS)]
    email: String,
    /// The warning in words.
    warning: String,
}

pub async fn add(call: Call, request: Add) -> Result<Added, Problem> {
    let (name, named) = named(request.email, request.emails);
    let senders = read(name, named.iter().map(|text| new_sender(text)))?;
    let (note, most) = (request.note.as_deref(), call.http.rules.limits.max_note_bytes);
    if note.is_some_and(|note| note.len() > most || note.chars().any(char::is_control)) {
        let why = format!("send at most {most} bytes and no control characters");
        return Err(refused("note", &why));
    }
    let change = call.tenancy().allow(call.account().id, &senders, note).await?;
    let distinct: BTreeSet<&Address> = senders.iter().collect();
    Ok(Added {
        added: texts(&change.changed),
        existing: texts(&change.unchanged),
        total: change.total,
        warnings: distinct.into_iter().flat_map(warnings).collect(),
    })
}

/// Removes senders from the allowlist of an Agent
///
/// Send email in the query, or email or emails in the body.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("x-one-of" = ["email", "emails"]), example = json!({ "email": BOSS }))]
pub struct Remove {
    /// A sender.
    #[schemars(example = &BOSS)]
    email: Option<String>,
    /// Several senders.
    #[schemars(extend("x-place" = "body"))]
    emails: Option<Senders>,
}

pub async fn remove(call: Call, request: Remove) -> Result<Removed, Problem> {
    let (tenancy, agent) = (call.tenancy(), call.account().id);
    let (name, named) = named(request.email, request.emails);
    let named: Vec<&str> = named.iter().map(String::as_str).collect();
    let senders = read(name, tenancy.named_senders(agent, &named).await?.into_iter())?;
    let change = tenancy.disallow(agent, &senders).await?;
    Ok(Removed {
        removed: texts(&change.changed),
        missing: texts(&change.unchanged),
        total: change.total,
    })
}

successes! {
    Listed {
        /// Ordered by address.
        whitelist: Vec<Sender>,
        /// Number of senders on this page.
        count: usize,
        /// Number of senders on the list.
        total: u64,
        /// Send it as `after` to get the next page; null on the last page.
        #[schemars(example = &BOSS)]
        next: Option<String>,
    } = OK "inbound whitelist found", pages;
    Added {
        /// Senders that are new on the list, normalised.
        added: Vec<String>,
        /// Senders that were on the list before.
        existing: Vec<String>,
        /// Number of senders on the list.
        total: u64,
        /// Warnings about senders of this request.
        warnings: Vec<Warning>,
    } = OK "senders are on the inbound whitelist";
    Removed {
        /// Senders that were on the list.
        removed: Vec<String>,
        /// Senders that were not on the list.
        missing: Vec<String>,
        /// Number of senders on the list.
        total: u64,
    } = OK "senders are not on the inbound whitelist";
}

/// Returns the requested senders, with the name of their field.
fn named(email: Option<String>, emails: Option<Senders>) -> (&'static str, Vec<String>) {
    match email {
        Some(email) => ("email", vec![email]),
        None => ("emails", emails.unwrap_or_default().0),
    }
}

fn read<E: Display>(
    name: &str,
    parsed: impl Iterator<Item = Result<Address, E>>,
) -> Result<Vec<Address>, Problem> {
    let (mut addresses, mut faults) = (Vec::new(), Vec::new());
    for (place, one) in parsed.enumerate() {
        let pointer = || if name == "email" { "/email".into() } else { format!("/{name}/{place}") };
        match one {
            Ok(address) => addresses.push(address),
            Err(why) => {
                faults.push(Fault { pointer: pointer(), detail: format!("is refused: {why}") })
            }
        }
    }
    faults.truncate(LISTED);
    if faults.is_empty() { Ok(addresses) } else { Err(Problem::mistaken(faults)) }
}

fn shape(sender: AllowedSender) -> Sender {
    Sender { email: sender.address.to_string(), note: sender.note, added_at: Date(sender.added_at) }
}

fn warnings(address: &Address) -> Vec<Warning> {
    let found = lookalike::warnings(address).into_iter();
    found.map(|warning| Warning { email: address.to_string(), warning }).collect()
}

fn texts(addresses: &[Address]) -> Vec<String> {
    addresses.iter().map(Address::to_string).collect()
}
