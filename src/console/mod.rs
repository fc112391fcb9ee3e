//! The console: pages under `/console` on which people see verdicts, messages and deliveries, and
//! change what the API can change.
//!
//! A page is made on the server, of answers of the API: each handler makes requests of operations
//! in this process (`http::in_process`), as the caller that signed in. So no page has a right of its
//! own, and the API authorises, checks, pages and audits. Pages work without script; the script
//! follows the live page and shows times in the reader's zone.
//!
//! - `table` has one row per path. `visit` is the path of every request: session, rates, CSRF,
//!   page. `session` signs in and out.
//! - `frame` is around every page; `filters` are the words and numbers in templates; `shapes` are
//!   the answers of the API that several pages read, and `deliveries` those about webhooks; `chart`
//!   draws. The other files have one page each, with its
//!   template of the same name in `templates/`.
//!
//! A session is bound to the API key that was typed once: it ends with the key, on every gateway,
//! at the next request. Its secret is in a cookie that no script reads; the key is in no URL, page,
//! cookie or log. A change needs a token that only a page of the same session has, and comes from a
//! page of this server (`Sec-Fetch-Site`). The policy of a page lets it load nothing from elsewhere
//! and be framed by nobody.
//!
//! It holds no lock and no state. `run` merges [`router`] into that of the API. Never happens here:
//! SQL, a right, or a use case called beside the API, but for sessions (`app::access`), which are no
//! operation.

mod accounts;
mod agent;
mod audit;
mod chart;
mod deliveries;
mod domains;
mod filters;
mod frame;
mod heat;
mod keys;
mod live;
mod message;
mod policy;
mod refused;
mod rooms;
mod search;
mod session;
mod setup;
mod shapes;
mod source;
mod system;
mod table;
mod verdict;
mod visit;
mod webhooks;

#[cfg(test)]
mod tests;

pub use self::table::{Console, router};
