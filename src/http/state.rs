//! All that a request may need: the use cases, the rules, and what is bounded.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use ipnet::IpNet;
use tokio::runtime::Handle;

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
use crate::http::limits::downloads::Downloads;
use crate::http::limits::inbound_places::Places as InboundPlaces;
use crate::http::limits::rates::Limits;
use crate::http::limits::turns::Turns;
use crate::http::readiness::Readiness;
use crate::http::remote::Proxies;
use crate::http::typed::Bounds;
use crate::rules::AccessRules;
use crate::shutdown::Shutdown;
use crate::verify::Authenticator;

/// The use cases that the API offers.
#[derive(Clone, Debug)]
pub struct UseCases {
    pub access: Access,
    /// Access for those who follow the log.
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

/// The words where a key has a place, and where none is free.
const UPLOADS: (&str, &str) = (
    "this key has another message under examination: send one at a time",
    "every place for a message is taken",
);
const LOGS: (&str, &str) = (
    "this key has another request for the log under way: send one at a time",
    "every place for a request for the log is taken",
);

/// Pages by their names below `/docs`, each with its media type; the first page has no name.
pub(crate) type Pages = BTreeMap<String, (&'static str, Bytes)>;

/// The description of the API, ready to be sent: what asks for no key costs nothing to answer.
#[derive(Debug)]
pub(crate) struct Described {
    pub(super) document: Bytes,
    pub(super) pages: Pages,
}

/// Everything that a request may need.
#[derive(Debug)]
pub struct Http {
    pub(crate) use_cases: UseCases,
    pub(crate) guard: Guard,
    pub(crate) mint: Mint,
    pub(crate) rules: Arc<AccessRules>,
    /// Those of them that requests are checked by.
    pub(crate) bounds: Bounds,
    pub(crate) readiness: Readiness,
    /// Places for answers that are held in memory whole.
    pub(crate) downloads: Downloads,
    /// Places for messages, and for bodies that are larger than others may be.
    pub(crate) uploads: Turns,
    /// Places for what providers post.
    pub(crate) places: InboundPlaces,
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
    /// Requests that wait or stream end with it.
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
        let places = InboundPlaces::new(use_cases.inbound.rules(), patience);
        let logs = Turns::new(rules.logs.max_at_once, patience, LOGS);
        let limits = Limits::new(rules.rates);
        let (proxies, shutdown) = (Proxies::default(), Shutdown::default());
        let bounds = Bounds::of(&rules);
        Self {
            use_cases,
            guard,
            mint,
            rules,
            bounds,
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
