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
//! 3. `.answer(status, message, fields)` is a success in the envelope, `.bare` one without it. A shape that
//!    is shown twice is a component: `shapes()` gives it a name, `reference("Name")` uses it. Examples are
//!    made from the schemas; `like` gives a field a better one, `.sent` a body.
//! 4. `.fails(&[Code::…])` names the errors of its own: 404, 409. What only its handler can say.
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

#[cfg(test)]
pub(super) use self::areas::{of, operations, shapes};
pub(super) use self::document::document;
pub(super) use self::pages::pages;
#[cfg(test)]
pub(super) use self::problems::codes;
use super::state::Described;
use crate::rules::AccessRules;

/// The description with the bounds of these rules.
pub(super) fn described(rules: &AccessRules) -> Described {
    let document = document(rules);
    Described { pages: pages(&document), document: document.to_string().into() }
}
