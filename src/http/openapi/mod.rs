//! The description of the API (OpenAPI 3.1), made from the one table of operations and, for each of
//! them, a [`Description`].
//!
//! An operation whose request and answers are types (`typed`) is described by them; nothing is written
//! here. The others, until they have types, are described so:
//!
//! 1. Find the file of its area here (or add one: `mod`, and a line in [`operations`] and, if it
//!    has shapes of its own, in [`shapes`]); it has `pub(super) fn operations(rules)`, one
//!    [`Description::of`] for each row of the table.
//! 2. `.query(…)`, `.path(…)`, `.body(…)` describe the names that the row has; the words of
//!    `schema` (`text`, `id`, `list` …) make their schemas. A name that ends in `?` may be missing.
//!    What all operations have is not said again: `token`, the names of targets, `Idempotency-Key`,
//!    the errors that any request can meet (`problems`), the envelope of a success.
//! 3. `.answer(status, message, fields)` is a success in the envelope, `.bare` one without it,
//!    `.file` octets, `.empty` nothing. A shape that is shown twice is a component: `shapes()` gives it a
//!    name, `reference("Name")` uses it. Examples are made from the schemas; `like` gives a field a
//!    better one, `.sent` a body.
//! 4. `.fails(&[Code::…])` names the errors of its own: 404, 409. What only its handler can say.
//!
//! Tests hold the two together: each row is described, with all its names and nothing else
//! (`tests/described.rs`), and every answer that any test of the API gets is held against the
//! description of its operation, status, type, code, and body field by field (`tests/reply.rs`).
//! `GATEPOST_BLESS=1 cargo test --lib -- openapi` writes `fixtures/openapi.json` anew.
//!
//! What never happens here: a decision, and a number that is not in the rules.

mod accounts;
mod agents;
mod apps;
mod computers;
mod conversation_logs;
mod document;
mod events;
mod inbound_email;
mod messaging;
mod page;
mod people;
mod problems;
mod templates;
mod webhooks;

use axum::body::Bytes;
use axum::http::HeaderValue;
use serde_json::Value;

pub(super) use self::document::document;
#[cfg(test)]
pub(super) use self::problems::codes;
use super::description::Description;
use super::operation::{Asks, Operation};
use super::table::OPERATIONS;
use super::typed::Form;
use crate::rules::AccessRules;

/// The description, ready to be sent.
#[derive(Debug)]
pub(crate) struct Described {
    pub(super) document: Bytes,
    pub(super) page: Bytes,
    /// The page's Content-Security-Policy.
    pub(super) policy: HeaderValue,
}

impl Described {
    /// With the bounds of these rules.
    pub(super) fn new(rules: &AccessRules) -> Self {
        let document = document(rules);
        let policy = HeaderValue::try_from(page::policy());
        Self {
            page: page::page(&document).into(),
            document: document.to_string().into(),
            policy: policy.unwrap_or(HeaderValue::from_static("default-src 'none'")),
        }
    }
}

/// All operations, as each area describes its own.
pub(super) fn operations(rules: &AccessRules) -> Vec<Description> {
    let areas = [
        accounts::operations(rules),
        people::operations(rules),
        messaging::operations(rules),
        inbound_email::operations(rules),
        conversation_logs::operations(rules),
        webhooks::operations(rules),
        agents::operations(rules),
        templates::operations(rules),
        apps::operations(),
        computers::operations(rules),
    ];
    let typed = forms().map(|form| form.description(rules));
    areas.into_iter().flatten().chain(typed).collect()
}

/// The description of this operation.
pub(super) fn of<'d>(
    descriptions: &'d [Description],
    operation: &Operation,
) -> Option<&'d Description> {
    descriptions.iter().find(|one| (one.verb, one.path) == (operation.verb, operation.path))
}

fn forms() -> impl Iterator<Item = &'static Form> {
    OPERATIONS.iter().filter_map(|operation| match operation.asks {
        Asks::Type(form) => Some(&**form),
        Asks::Names(..) => None,
    })
}

/// Shapes that have a name (`#/components/schemas/…`).
pub(super) fn shapes() -> Vec<(String, Value)> {
    let named = [
        accounts::shapes(),
        people::shapes(),
        messaging::shapes(),
        inbound_email::shapes(),
        conversation_logs::shapes(),
        webhooks::shapes(),
        agents::shapes(),
        templates::shapes(),
        apps::shapes(),
        computers::shapes(),
    ];
    let named = named.into_iter().flatten().map(|(name, schema)| (name.to_owned(), schema));
    let named = named.chain(problems::shapes()).chain(events::shapes());
    named.chain(forms().flat_map(Form::shapes)).collect()
}
