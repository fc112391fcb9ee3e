//! The HTTP API: `/api/v2`; without a key `/`, `/docs`, the document, `/healthz`, `/readyz`, and `/inbound` for
//! providers (contract §4).
//!
//! Each folder and file imports only from those above it here (a test holds them to it):
//!
//! - `error` is the closed list of codes and the shape of every error, `problems_of` makes them of the errors
//!   of the use cases; `verb`, `tag`, `remote`, `readiness` are
//!   words and facts of their own.
//! - `limits` bounds how much a key, or an address without one, may ask for at a time; `answer` sends files;
//!   `state` is what all requests share.
//! - `request` is what was sent, read strictly: a parameter or a field that the operation does not declare is
//!   refused by name (400), because a misspelt one would silently change nothing. A [`request::call::Call`] has
//!   been authorised.
//! - `typed` makes of the types of a request and of its answers all else: how a request is checked, each mistake
//!   with its place, how the answer is written, how both are described, and how a list goes on.
//! - [`operation`] is a row of the one table; `passage` is the way of every request: who calls, on what, once.
//! - `routes` has one file per noun: types and words, no decisions. [`table`] is the one table of operations.
//! - `openapi` describes the table; `public` is what needs no key; `connection` accepts connections; `router` puts
//!   all together.
//!
//! `run` makes an [`Http`] and serves its router. What never happens here: SQL, a read of a token or a target
//! outside `passage` and `request`, of a signature outside `passage/linked`, a connection to a stranger, a URI or
//! a query in a log.

mod answer;
mod connection;
pub mod error;
mod limits;
mod openapi;
pub mod operation;
mod passage;
mod problems_of;
mod public;
mod readiness;
mod remote;
pub mod request;
mod router;
mod routes;
mod state;
pub mod table;
pub mod tag;
mod typed;
mod verb;

#[cfg(test)]
mod tests;

pub use self::connection::serve::serve;
pub use self::readiness::{Check, Fault, Readiness};
pub use self::router::router;
pub use self::state::{Http, UseCases};
