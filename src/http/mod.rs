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
mod limits;
mod linked;
mod observe;
mod once;
mod openapi;
pub mod operation;
mod page;
mod perform;
mod places;
mod query;
mod range;
mod readiness;
mod remote;
mod router;
mod routes;
mod schema;
mod serve;
mod stalled;
pub mod table;
pub mod tag;
mod target;
mod turns;
mod typed;
mod verb;

#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

pub use readiness::{Check, Fault, Readiness};
pub use router::router;
pub use serve::serve;

use ipnet::IpNet;
use tokio::runtime::Handle;

use self::downloads::Downloads;
use self::limits::Limits;
use self::openapi::Described;
use self::remote::Proxies;
use self::turns::Turns;
use crate::app::access::Access;
use crate::app::agents::Agents;
use crate::app::apps::Apps;
use crate::app::audit::AuditLog;
use crate::app::computers::Computers;
use crate::app::delivery::{Destinations, EventLog};
use crate::app::intake::preview::Preview;
use crate::app::intake::reception::Reception;
use crate::app::mailbox::Mailbox;
use crate::app::mailbox::erasure::Erasures;
use crate::app::mailbox::links::Links;
use crate::app::once::Answers;
use crate::app::relay::Relays;
use crate::app::relay::inbound::Inbound;
use crate::app::tenancy::Tenancy;
use crate::domain::id::Mint;
use crate::domain::repeats::Repeats;
use crate::egress::guard::Guard;
use crate::rules::AccessRules;
use crate::shutdown::Shutdown;
use crate::verify::Authenticator;

/// The use cases that the API offers.
#[derive(Clone, Debug)]
pub struct UseCases {
    pub access: Access,
    /// The same for those who follow the log.
    pub followers: Access,
    pub tenancy: Tenancy,
    pub mailbox: Mailbox,
    pub links: Links,
    pub destinations: Destinations,
    pub events: EventLog,
    pub preview: Preview,
    pub reception: Reception,
    pub erasures: Erasures,
    pub relays: Relays,
    pub inbound: Inbound,
    pub agents: Agents,
    pub apps: Apps,
    pub computers: Computers,
    pub audit: AuditLog,
    pub answers: Answers,
    /// Answers questions about DNS that tenants cause: it shares nothing with mail's.
    pub dns: Arc<Authenticator>,
}

/// What is said where a key has a place, and where none is free.
const UPLOADS: (&str, &str) = (
    "a message that was sent with this key is still looked at: send one after the other",
    "every place for a message is taken",
);
const LOGS: (&str, &str) = (
    "a request for the log with this key is still answered: send one after the other",
    "every place for a request for the log is taken",
);

/// Everything that a request may need.
#[derive(Debug)]
pub struct Http {
    pub(crate) use_cases: UseCases,
    pub(crate) guard: Guard,
    pub(crate) mint: Mint,
    pub(crate) rules: Arc<AccessRules>,
    pub(crate) readiness: Readiness,
    /// Places for answers that are held in memory whole.
    pub(crate) downloads: Downloads,
    /// Places for messages, and for bodies that are larger than others may be.
    pub(crate) uploads: Turns,
    /// Places for what providers post.
    pub(crate) places: inbound::Places,
    /// Places for statements that walk the conversation log.
    pub(crate) logs: Turns,
    pub(crate) limits: Limits,
    /// Which lines are due of those that clients can cause at will.
    pub(crate) repeats: Repeats,
    /// Whose word is taken for where a request comes from.
    pub(crate) proxies: Proxies,
    /// The origins whose pages may read answers.
    pub(crate) cors_origins: Vec<String>,
    /// Where streams are served, if not where requests are.
    pub(crate) streams: Option<Handle>,
    /// Whoever waits or streams ends with it.
    pub(crate) shutdown: Shutdown,
    /// The description of the API, made when somebody asks for it first.
    pub(crate) described: OnceLock<Described>,
}

impl Http {
    /// An API over these use cases; `guard` judges the URLs of new webhooks.
    pub fn new(
        use_cases: UseCases,
        guard: Guard,
        mint: Mint,
        rules: Arc<AccessRules>,
        readiness: Readiness,
    ) -> Self {
        let downloads = Downloads::new(rules.limits.max_downloads);
        let limits = &rules.limits;
        // Who gets a place has time left to send the body.
        let patience = limits.body() / 2;
        let uploads = Turns::new(limits.max_uploads, patience, UPLOADS);
        let places = inbound::Places::new(use_cases.inbound.rules(), patience);
        let logs = Turns::new(rules.logs.max_at_once, patience, LOGS);
        let limits = Limits::new(rules.rates);
        let (proxies, shutdown) = (Proxies::default(), Shutdown::default());
        Self {
            use_cases,
            guard,
            mint,
            rules,
            readiness,
            downloads,
            uploads,
            places,
            logs,
            limits,
            repeats: Repeats::default(),
            proxies,
            cors_origins: Vec::new(),
            streams: None,
            shutdown,
            described: OnceLock::new(),
        }
    }

    /// The same behind proxies in these networks, which say whom they pass on
    /// (`X-Forwarded-For`).
    #[must_use]
    pub fn behind(self, proxies: Vec<IpNet>) -> Self {
        Self { proxies: Proxies::new(proxies), ..self }
    }

    /// The same, whose answers may be read by pages of these origins (`https://app.example.com`).
    #[must_use]
    pub fn readable_from(self, cors_origins: Vec<String>) -> Self {
        Self { cors_origins, ..self }
    }

    /// The same, where answers that take long end when this begins to stop.
    #[must_use]
    pub fn ending_with(self, shutdown: Shutdown) -> Self {
        Self { shutdown, ..self }
    }

    /// The same, where connections that stream events go on on these threads.
    #[must_use]
    pub fn streaming_on(self, streams: Handle) -> Self {
        Self { streams: Some(streams), ..self }
    }

    /// The log of events, whose task looks for those who wait.
    pub fn event_log(&self) -> EventLog {
        self.use_cases.events.clone()
    }

    /// The audit log, whose task writes down what was refused.
    pub fn audit_log(&self) -> AuditLog {
        self.use_cases.audit.clone()
    }

    /// The configurations of Agents, whose task goes on with migrations of templates.
    pub fn agents(&self) -> Agents {
        self.use_cases.agents.clone()
    }

    /// Octets of a body that holds a message: in base64, which nothing has to be escaped in.
    pub(crate) fn max_upload_bytes(&self) -> usize {
        let message = self.use_cases.preview.max_message_bytes();
        let encoded = message.div_ceil(3).saturating_mul(4);
        encoded.saturating_add(self.rules.limits.max_body_bytes)
    }
}
