//! The description of the API (OpenAPI 3.1), made from the one table of operations and from the types of their
//! requests and answers (`typed`). Here is only what no type says: what all operations have (`token`, the names of
//! targets, `Idempotency-Key`, errors that any request can meet), events, and how all is put together.
//!
//! Tests hold the two together: each row is described, with all its names and nothing else
//! (`tests/described.rs`), and every answer that any test of the API gets is held against the
//! description of its operation, status, type, code, and body field by field (`tests/reply.rs`).
//! `GATEPOST_BLESS=1 cargo test --lib -- described` writes `fixtures/openapi`.
//!
//! `pages` shows the document to people (`/docs`), by the templates of `http/templates`.
//!
//! What never happens here: a decision, and a number that is not in the rules.

mod areas;
mod document;
mod events;
mod fields;
mod pages;
mod problems;
mod shared;

#[cfg(test)]
pub(super) use self::areas::{operations, shapes};
pub(super) use self::document::document;
pub(super) use self::pages::pages;
#[cfg(test)]
pub(super) use self::problems::codes;
use crate::http::state::Described;
use crate::rules::AccessRules;

/// The description with the bounds of these rules.
pub(super) fn described(rules: &AccessRules) -> Described {
    let document = document(rules);
    Described { pages: pages(&document), document: document.to_string().into() }
}
