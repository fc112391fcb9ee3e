//! The description of the API (OpenAPI 3.1), generated from the table of operations and the types
//! of their requests and answers (`typed`). This folder adds the rest: the parts of all operations
//! (`token`, target names, `Idempotency-Key`, general errors), events, and the assembly.
//!
//! Tests compare description and behaviour: each row is described with exactly its names
//! (`tests/described.rs`), and each response in any API test must match its operation's description
//! in status, type, code, and body field by field (`tests/reply.rs`). `GATEPOST_BLESS=1 cargo test
//! --lib -- described` writes `fixtures/openapi`.
//!
//! `pages` renders the document for people (`/docs`), with the templates of `http/templates`.
//!
//! Never happens here: a decision, or a number that is not in the rules.

mod descriptions;
mod document;
mod events;
mod fields;
mod pages;
mod problems;
mod shared;

#[cfg(test)]
pub(super) use self::descriptions::{operations, shapes};
pub(super) use self::document::document;
pub(super) use self::pages::pages;
#[cfg(test)]
pub(super) use self::problems::codes;
use crate::http::state::Described;
use crate::rules::AccessRules;

/// The description, with the numbers of these rules.
pub(super) fn described(rules: &AccessRules) -> Described {
    let document = document(rules);
    Described { pages: pages(&document), document: document.to_string().into() }
}
