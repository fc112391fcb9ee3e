//! The MCP server: what an Agent's model reads and does here, at `/mcp`, by the Model Context
//! Protocol.
//!
//! - `entrance` is the path of every request: origin, key (`Authorization: Bearer`), rates, body.
//!   `server` answers by the SDK (`rmcp`). `table` has one row per tool.
//! - Each tool asks operations of the API in this process (`http::in_process`), as the caller of the
//!   key. So no tool has a right of its own, and the API authorises, checks, pages and audits.
//! - `inboxes`, `messages`, `attachments`, `conversations`, `waiting`, `policy`, `outcomes` and
//!   `refusals` have the tools; `resources` shows messages and attachments as resources.
//! - `fence` is around every text that a stranger wrote; `letter` makes a message of it. `shapes` are
//!   the answers of the API, as tools read them; `call` is a call of a tool, and its result.
//!
//! No session is kept: each request carries its key, and any gateway behind a balancer answers it. A
//! request ends with its connection, or when its client cancels it (`cancelling`). An answer is JSON,
//! or a stream where its client asked for progress.
//!
//! Its locks, over the requests that run and over a place for one file, are held for a moment. `run`
//! merges [`router`] into that of the API. Never happens here: SQL, a right, a use case called beside
//! the API, or a stranger's text outside a fence.

mod attachments;
mod call;
mod cancelling;
mod conversations;
mod entrance;
mod fence;
mod inboxes;
mod letter;
mod messages;
mod outcomes;
mod policy;
mod refusals;
mod resources;
mod server;
mod shapes;
mod table;
mod waiting;

pub use self::entrance::{Changes, router};
