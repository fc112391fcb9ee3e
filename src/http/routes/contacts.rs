//! `/contacts`: who wrote to the organizations below the target. An Agent, and a member restricted
//! to some, sees those who wrote to it, and when they did.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::super::answer::success;
use super::super::call::Call;
use super::super::error::Problem;
use super::super::page;
use super::super::state::Http;
use crate::domain::contact::{Contact, Handle};

/// A page of contacts, those who wrote for the first time last first; `after` goes on from `next`.
pub(in super::super) async fn list(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let limit = page::limit(&call, &http.rules)?;
    let after = call.query().get("after").map(str::parse).transpose();
    let after = after.map_err(|error| Problem::invalid(format!("after: {error}")))?;
    let mailbox = &http.use_cases.mailbox;
    let scope = &call.target().scope;
    let bounds = (limit.saturating_add(1), http.rules.limits.max_walk);
    let (mut found, until) = mailbox.contacts(scope, after, bounds).await?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = found.len() > limit;
    found.truncate(limit);
    let next = if more { found.last().map(|last| last.id) } else { until };
    let fields = json!({
        "contacts": found.iter().map(contact).collect::<Vec<_>>(),
        "next": next.map(|id| id.get()),
    });
    Ok(success(StatusCode::OK, "contacts found", fields))
}

fn contact(contact: &Contact) -> Value {
    let email = match &contact.handle {
        Handle::Mailbox(mailbox) => Some(mailbox.to_string()),
        Handle::Elsewhere { .. } => None,
    };
    json!({
        "id": contact.id.get(),
        "name": contact.name,
        "email": email,
        "address": contact.handle.address(),
        "source": contact.handle.source().as_str(),
        "organizationId": contact.organization.get(),
        "firstSeen": contact.first_seen.to_string(),
        "lastSeen": contact.last_seen.to_string(),
    })
}
