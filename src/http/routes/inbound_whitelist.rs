//! `/email/inboundWhitelist`: the senders that an Agent admits in `allowlist` mode.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::super::Http;
use super::super::answer::success;
use super::super::call::Call;
use super::super::error::Problem;
use super::super::page;
use crate::domain::address::Address;
use crate::domain::lookalike;
use crate::domain::policy::AllowedSender;
use crate::rules::AccessRules;

/// A page of the list, in the order of the addresses.
pub(in super::super) async fn list(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let limit = page::limit(&call, &http.rules)?;
    let after = call.query().get("after").map(Address::parse).transpose();
    let after = after.map_err(|_| Problem::invalid("after is not an address of this list"))?;
    let agent = call.account().id;
    let page = http.use_cases.tenancy.allowed_senders(agent, limit, after.as_ref()).await?;
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
    let senders = senders(&call, &http.rules)?;
    let note = note(&call, &http.rules)?;
    let change = http.use_cases.tenancy.allow(call.account().id, &senders, note).await?;
    let named: BTreeSet<&Address> = senders.iter().collect();
    let fields = json!({
        "added": texts(&change.changed),
        "existing": texts(&change.unchanged),
        "total": change.total,
        "warnings": named.into_iter().flat_map(warnings).collect::<Vec<_>>(),
    });
    Ok(success(StatusCode::OK, "senders are on the inbound whitelist", fields))
}

/// Removes senders.
pub(in super::super) async fn remove(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let senders = senders(&call, &http.rules)?;
    let change = http.use_cases.tenancy.disallow(call.account().id, &senders).await?;
    let fields = json!({
        "removed": texts(&change.changed),
        "missing": texts(&change.unchanged),
        "total": change.total,
    });
    Ok(success(StatusCode::OK, "senders are not on the inbound whitelist", fields))
}

/// The addresses of a request, from the one place where it names them.
fn senders(call: &Call, rules: &AccessRules) -> Result<Vec<Address>, Problem> {
    let (query, body) = (call.query().get("email"), call.body());
    let (one, many) = (body.text("email")?, body.texts("emails")?);
    match (query, one, many) {
        (Some(email), None, None) | (None, Some(email), None) => {
            let address = Address::parse(email);
            let address = address.map_err(|error| Problem::invalid(format!("email: {error}")))?;
            Ok(vec![address])
        }
        (None, None, Some(emails)) => addresses("emails", &emails, rules),
        _ => Err(Problem::invalid("name the senders once: as email or as emails")),
    }
}

/// The addresses of the field `name`: at least one, each mistake named by its index.
pub(super) fn addresses(
    name: &str,
    texts: &[&str],
    rules: &AccessRules,
) -> Result<Vec<Address>, Problem> {
    let most = rules.limits.max_addresses_per_call;
    if !(1..=most).contains(&texts.len()) {
        return Err(Problem::invalid(format!("{name} must hold 1 to {most} addresses")));
    }
    let parsed = texts.iter().enumerate().map(|(index, text)| {
        let detail = |error| format!("{name}[{index}]: {error}; nothing was changed");
        Address::parse(text).map_err(|error| Problem::invalid(detail(error)))
    });
    parsed.collect()
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
