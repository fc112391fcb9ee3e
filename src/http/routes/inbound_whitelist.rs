//! `/email/inboundWhitelist`: the senders that an Agent admits in `allowlist` mode.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::super::answer::success;
use super::super::call::Call;
use super::super::error::Problem;
use super::super::page;
use super::super::state::Http;
use crate::domain::address::{Address, AddressError};
use crate::domain::lookalike;
use crate::domain::policy::AllowedSender;
use crate::rules::AccessRules;

/// A page of the list, in the order of the addresses.
pub(in super::super) async fn list(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let limit = page::limit(&call, &http.rules)?;
    let after = call.query().get("after").map(Address::kept).transpose();
    let after = after.map_err(|_| Problem::invalid("after is not an address of this list"))?;
    let agent = call.account().id;
    let page = call.tenancy(&http).allowed_senders(agent, limit, after.as_ref()).await?;
    let fields = json!({
        "whitelist": page.senders.iter().map(entry).collect::<Vec<_>>(),
        "count": page.senders.len(),
        "total": page.total,
        "next": page.next.map(|address| address.to_string()),
    });
    Ok(success(StatusCode::OK, "inbound whitelist found", fields))
}

/// Adds senders: all, or none if one of them is no address. Says which may be taken for others.
pub(in super::super) async fn add(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let (name, named) = named(&call, &http.rules)?;
    let senders = read(name, named.iter().map(|text| Address::parse(text)))?;
    let note = note(&call, &http.rules)?;
    let change = call.tenancy(&http).allow(call.account().id, &senders, note).await?;
    let distinct: BTreeSet<&Address> = senders.iter().collect();
    let fields = json!({
        "added": texts(&change.changed),
        "existing": texts(&change.unchanged),
        "total": change.total,
        "warnings": distinct.into_iter().flat_map(warnings).collect::<Vec<_>>(),
    });
    Ok(success(StatusCode::OK, "senders are on the inbound whitelist", fields))
}

/// Removes senders.
pub(in super::super) async fn remove(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let (tenancy, agent) = (call.tenancy(&http), call.account().id);
    let (name, named) = named(&call, &http.rules)?;
    let senders = read(name, tenancy.named_senders(agent, &named).await?.into_iter())?;
    let change = tenancy.disallow(agent, &senders).await?;
    let fields = json!({
        "removed": texts(&change.changed),
        "missing": texts(&change.unchanged),
        "total": change.total,
    });
    Ok(success(StatusCode::OK, "senders are not on the inbound whitelist", fields))
}

/// What a request names, from the one place where it does, and the name of that.
fn named<'c>(call: &'c Call, rules: &AccessRules) -> Result<(&'static str, Vec<&'c str>), Problem> {
    let (query, body) = (call.query().get("email"), call.body());
    let (one, many) = (body.text("email")?, body.texts("emails")?);
    match (query, one, many) {
        (Some(email), None, None) | (None, Some(email), None) => Ok(("email", vec![email])),
        (None, None, Some(emails)) => {
            within_limits("emails", emails.len(), rules)?;
            Ok(("emails", emails))
        }
        _ => Err(Problem::invalid("name the senders once: as email or as emails")),
    }
}

/// The addresses of the field `name`: at least one, each mistake named by its index.
pub(super) fn addresses(
    name: &str,
    texts: &[&str],
    rules: &AccessRules,
) -> Result<Vec<Address>, Problem> {
    within_limits(name, texts.len(), rules)?;
    read(name, texts.iter().map(|text| Address::parse(text)))
}

fn within_limits(name: &str, count: usize, rules: &AccessRules) -> Result<(), Problem> {
    let most = rules.limits.max_addresses_per_call;
    if (1..=most).contains(&count) {
        return Ok(());
    }
    Err(Problem::invalid(format!("{name} must hold 1 to {most} addresses")))
}

/// All of them, or none: a mistake in a list is named by its index.
fn read(
    name: &str,
    parsed: impl Iterator<Item = Result<Address, AddressError>>,
) -> Result<Vec<Address>, Problem> {
    let problem = |index, error| {
        Problem::invalid(match name {
            "email" => format!("email: {error}"),
            _ => format!("{name}[{index}]: {error}; nothing was changed"),
        })
    };
    parsed.enumerate().map(|(index, one)| one.map_err(|error| problem(index, error))).collect()
}

fn note<'a>(call: &'a Call, rules: &AccessRules) -> Result<Option<&'a str>, Problem> {
    let most = rules.limits.max_note_bytes;
    match call.body().text("note")? {
        Some(note) if note.len() > most || note.chars().any(char::is_control) => {
            Err(Problem::invalid(format!(
                "note must have at most {most} octets and no control characters"
            )))
        }
        note => Ok(note),
    }
}

fn entry(sender: &AllowedSender) -> Value {
    json!({
        "email": sender.address.to_string(),
        "note": sender.note,
        "addedAt": sender.added_at.to_string(),
    })
}

/// `{email, warning}` for each thing that is remarkable about an entry (threats A13).
fn warnings(address: &Address) -> Vec<Value> {
    let email = address.to_string();
    let found = lookalike::warnings(address).into_iter();
    found.map(|warning| json!({ "email": email, "warning": warning })).collect()
}

fn texts(addresses: &[Address]) -> Vec<String> {
    addresses.iter().map(Address::to_string).collect()
}
