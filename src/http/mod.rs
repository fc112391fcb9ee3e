//! The HTTP API: `/api/v2`, and `/healthz` and `/readyz` beside it (contract §4).
//!
//! - [`table`] is the one table of operations ([`operation`] is a row of it); the router is made from it.
//! - `perform` turns a request into a [`call::Call`], the only thing that a handler gets: it has
//!   been authorised by then. `auth` finds the caller, `target` the account to act on, `query` and
//!   `body` read what was sent, strictly: a parameter or a field that the operation does not
//!   declare is refused by name (400), because a misspelt one would silently change nothing. v2
//!   clients send none but `token` and `targetAccountId` to these operations.
//! - `typed` makes of the types of a request and of its answers all else: how a request is checked, each
//!   mistake with its place, how the answer is written, and how both are described (`openapi`).
//! - `linked` lets in whoever has no key and a link that was signed for one file, of the operations
//!   that the table says so of; `range` reads which part of a file is wanted.
//! - `error` is the closed list of codes and the shape of every error; `answer` and `page` the
//!   shapes of the rest; `observe` puts on every answer what every answer must carry, and logs it.
//! - `limits` bounds how much a key, or an address without one, may ask for; `remote` says where a
//!   request comes from; `once` carries out a creation once that is sent twice.
//! - `serve` accepts connections, within the bounds of `policies/access.toml`, so many of each client
//!   (`places`).
//! - `inbound` takes what mail providers post, beside the operations: no key but the one in its path.
//! - `routes` has one file per noun: wire shapes and words, no decisions.
//!
//! `run` makes an [`Http`] and serves its router. What never happens here: SQL, a read of a token
//! or a target outside `auth` and `target`, of a signature outside `linked`, a connection to a stranger,
//! a URI or a query in a log.

mod answer;
mod auth;
mod body;
pub mod call;
mod cors;
mod description;
mod downloads;
pub mod error;
mod inbound;
mod inbound_places;
mod limits;
mod linked;
mod observe;
mod once;
mod openapi;
pub mod operation;
mod page;
mod perform;
mod query;
mod range;
mod readiness;
mod remote;
mod router;
mod routes;
mod schema;
mod serve;
mod stalled;
mod state;
pub mod table;
pub mod tag;
mod target;
mod turns;
mod typed;
mod verb;

#[cfg(test)]
mod tests;

pub use self::readiness::{Check, Fault, Readiness};
pub use self::router::router;
pub use self::serve::serve;
pub use self::state::{Http, UseCases};
