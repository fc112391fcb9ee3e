//! `/contacts`: the contacts of the organizations below the target. An Agent, or a restricted
//! member, sees only its own contacts and their times with it.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::app::mailbox::contact_record::ContactRecord;
use crate::domain::contact::Handle;
use crate::domain::id::ContactId;
use crate::http::typed::{Call, Limit, Problem, WithHeaders, page, refused, successes};
use crate::wire::{Named, Number};

/// Lists contacts
///
/// Newest contacts first.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct List {
    /// Only contacts with this address; other sources than email as sms:+15551231234.
    #[schemars(example = &"boss@good.example")]
    address: Option<String>,
    limit: Option<Limit>,
    /// Only older contacts: `next`, or the id of a contact.
    before: Option<Named<ContactId>>,
}

successes! {
    Listed {
        /// Newest first.
        contacts: Vec<ContactRecord>,
        /// Send it as `before` to get the next page; null on the last page.
        next: Option<Number>,
    } = OK "contacts found", pages;
}

pub async fn list(call: Call, request: List) -> Result<WithHeaders<Listed>, Problem> {
    let limit = page::limit(&call, request.limit);
    let (mailbox, scope) = (&call.http.use_cases.mailbox, &call.target.scope);
    let (one_more, most) = (limit.saturating_add(1), call.http.rules.limits.max_walk);
    let before = request.before.map(|Named(id)| id);
    let handle = request.address.as_deref().map(Handle::asked).transpose();
    let handle = handle.map_err(|error| refused("address", &error))?;
    let found = mailbox.contacts(scope, handle.as_ref(), before, one_more, most).await?;
    let (mut found, until) = found;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = found.len() > limit;
    found.truncate(limit);
    let next = if more { found.last().map(|last| last.id) } else { until };
    let contacts = found.iter().map(ContactRecord::from).collect();
    let answer = Listed { contacts, next: next.map(Number::from) };
    Ok(page::followed(&call, "before", next, answer))
}
