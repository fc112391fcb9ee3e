//! The HTTP API: `/api/v2` with a key; `/`, `/docs`, the API description, `/healthz`, `/readyz` and
//! `/inbound` (for providers) without one (contract §4).
//!
//! Each folder and file imports only from those above it here (a test checks this):
//!
//! - `error` is the closed list of codes and the shape of every error; `problems_of` turns errors
//!   of the use cases into these. `verb`, `tag`, `remote` and `readiness` stand alone.
//! - `limits` bounds how many requests a key, or an address without one, makes at once and per
//!   minute. `answer` sends files. `state` is shared by all requests.
//! - `request` reads strictly: a parameter or field that the operation does not declare is refused
//!   by name (400), because a misspelt one would silently change nothing. A [`request::call::Call`]
//!   is authorised.
//! - `typed` derives everything else from the types of a request and its answers: the checks, with
//!   the place of each mistake, the JSON, the description, and the pages of a list.
//! - [`operation`] is a row of the table. `passage` is the path of every request: caller, target,
//!   idempotency.
//! - `routes` has one file per noun: types and words, no decisions. [`table`] is the one table of
//!   operations.
//! - `in_process` is how pages of the console and tools of MCP make requests.
//! - `openapi` describes the table. `public` needs no key. `connection` accepts connections.
//!   `router` joins these.
//!
//! Locks guard counts in memory and are never held across an await, except in `readiness`. No
//! transaction spans two calls of use cases. A request whose client is gone, or whose deadline ends
//! (503), is dropped where it waits, and its places are free. Spawned work goes on to its end:
//! creations with an `Idempotency-Key`, posts of providers, statements over the conversation log,
//! downloads, rounds of `readiness`.
//!
//! `run` makes an [`Http`] and serves its router. Never happens here: SQL; reading a token or a
//! target outside `passage` and `request`, or a signature outside `passage/linked`; a connection to
//! a stranger; a URI or a query in a log.

mod answer;
pub(crate) mod connection;
pub mod error;
pub(crate) mod in_process;
mod limits;
mod openapi;
pub mod operation;
pub(crate) mod passage;
mod problems_of;
mod public;
mod readiness;
pub(crate) mod remote;
pub mod request;
mod router;
mod routes;
mod state;
pub mod table;
pub mod tag;
mod typed;
mod verb;

#[cfg(test)]
pub(crate) mod tests;

pub use self::connection::serve::serve;
pub use self::readiness::{Check, Fault, Readiness};
pub use self::router::{metrics_router, router};
pub use self::state::{Http, UseCases};
