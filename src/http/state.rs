//! State shared by all requests: use cases, rules and limits.

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
use crate::app::doctor::domain_checks::DomainChecks;
use crate::app::idempotency::KeptResponses;
use crate::app::intake::preview::Preview;
use crate::app::intake::reception::Reception;
use crate::app::mailbox::Mailbox;
use crate::app::mailbox::erasure::Erasures;
use crate::app::mailbox::links::Links;
use crate::app::mailbox::outcomes::Outcomes;
use crate::app::relay::Relays;
use crate::app::relay::inbound::Inbound;
use crate::app::system::System;
use crate::app::tenancy::Tenancy;
use crate::app::tls_reports::TlsReports;
use crate::domain::id::Mint;
use crate::domain::mta_sts::{CertificateFault, MtaSts};
use crate::domain::repeats::Repeats;
use crate::egress::new_urls::NewUrls;
use crate::http::limits::downloads::Downloads;
use crate::http::limits::inbound_places::InboundPlaces;
use crate::http::limits::rates::RateLimits;
use crate::http::limits::turns::{TurnErrors, Turns};
use crate::http::readiness::Readiness;
use crate::http::remote::Proxies;
use crate::http::typed::bounds::Bounds;
use crate::rules::AccessRules;
use crate::shutdown::Shutdown;
use crate::verify::Authenticator;

#[derive(Clone, Debug)]
pub struct UseCases {
    pub access: Access,
    /// Access for requests that follow the log of events.
    pub followers: Access,
    pub tenancy: Tenancy,
    pub mailbox: Mailbox,
    pub links: Links,
    pub destinations: Destinations,
    pub events: EventLog,
    pub preview: Preview,
    pub reception: Reception,
    pub erasures: Erasures,
    pub outcomes: Outcomes,
    pub relays: Relays,
    pub inbound: Inbound,
    pub agents: Agents,
    pub apps: Apps,
    pub computers: Computers,
    pub audit: AuditLog,
    pub answers: KeptResponses,
    pub system: System,
    /// DNS for tenants' requests; shares nothing with the DNS of incoming mail.
    pub dns: Arc<Authenticator>,
    pub domain_checks: DomainChecks,
}

const UPLOADS: TurnErrors = TurnErrors {
    busy: "another message of this key is being examined: send one at a time",
    full: "too many messages are being examined",
};
const LOGS: TurnErrors = TurnErrors {
    busy: "another request for the log with this key is under way: send one at a time",
    full: "too many requests for the log are under way",
};

const DOMAIN_CHECKS: TurnErrors = TurnErrors {
    busy: "another check of a domain with this key is under way, or too many of this account: send \
           one at a time",
    full: "too many domains are being checked",
};

/// Pages by name below `/docs`, with their media types; the first page has the empty name.
pub(crate) type Pages = BTreeMap<String, (&'static str, Bytes)>;

/// The description of the API, rendered: requests without a key must cost nothing.
#[derive(Debug)]
pub(crate) struct Described {
    pub(super) document: Bytes,
    pub(super) pages: Pages,
}

#[derive(Debug)]
pub struct Http {
    pub(crate) use_cases: UseCases,
    pub(crate) urls: NewUrls,
    pub(crate) mint: Mint,
    pub(crate) rules: Arc<AccessRules>,
    /// The numbers of the rules that check requests.
    pub(crate) bounds: Bounds,
    pub(crate) readiness: Readiness,
    /// Places for responses held whole in memory.
    pub(crate) downloads: Downloads,
    /// Places for messages and other large bodies.
    pub(crate) uploads: Turns,
    /// Places for posts of providers.
    pub(crate) places: InboundPlaces,
    /// Places for statements that walk the conversation log.
    pub(crate) logs: Turns,
    /// Places for checks of domains, which wait for the DNS.
    pub(crate) domain_checks: Turns,
    pub(crate) limits: RateLimits,
    /// Rate limiter for log lines that clients can cause at will.
    pub(crate) repeats: Repeats,
    /// Proxies trusted to name the client.
    pub(crate) proxies: Proxies,
    /// Origins whose pages may read responses.
    pub(crate) cors_origins: Vec<String>,
    /// The policy for senders of mail to any domain.
    pub(crate) mta_sts: Option<MtaSts>,
    /// Why those that verify certificates would not deliver here.
    pub(crate) certificate_fault: CertificateFault,
    /// Takes reports of senders on TLS; None takes none.
    pub(crate) tls_reports: Option<TlsReports>,
    /// The threads for event streams; None serves them with requests.
    pub(crate) streams: Option<Handle>,
    /// Its soft stop ends requests that wait or stream.
    pub(crate) shutdown: Shutdown,
    /// Rendered at the first request.
    pub(crate) described: OnceLock<Described>,
}

impl Http {
    /// An API over these use cases; `urls` checks the URLs of new webhooks.
    pub fn new(
        use_cases: UseCases,
        urls: NewUrls,
        mint: Mint,
        rules: Arc<AccessRules>,
        readiness: Readiness,
    ) -> Self {
        let limits = &rules.limits;
        // Half of the body's time, so that a client that gets a place can still send its body.
        let patience = limits.body() / 2;
        Self {
            urls,
            mint,
            bounds: Bounds::of(&rules),
            readiness,
            downloads: Downloads::new(limits.max_downloads),
            uploads: Turns::new(limits.max_uploads, patience, UPLOADS),
            places: InboundPlaces::new(use_cases.inbound.rules(), patience),
            logs: Turns::new(rules.logs.max_at_once, patience, LOGS),
            domain_checks: Turns::new(rules.domains.max_checks, patience, DOMAIN_CHECKS),
            limits: RateLimits::new(rules.rates),
            repeats: Repeats::default(),
            proxies: Proxies::default(),
            cors_origins: Vec::new(),
            mta_sts: None,
            certificate_fault: CertificateFault::by(|| None),
            tls_reports: None,
            streams: None,
            shutdown: Shutdown::default(),
            described: OnceLock::new(),
            use_cases,
            rules,
        }
    }

    /// Trusts proxies in these networks to name the client (`X-Forwarded-For`).
    #[must_use]
    pub fn behind(self, proxies: Vec<IpNet>) -> Self {
        Self { proxies: Proxies::new(proxies), ..self }
    }

    /// Lets pages of these origins (`https://app.example.com`) read responses.
    #[must_use]
    pub fn readable_from(self, cors_origins: Vec<String>) -> Self {
        Self { cors_origins, ..self }
    }

    /// Serves this policy of MTA-STS for all domains; to enforce it only while there is no fault.
    #[must_use]
    pub fn telling_senders(
        self,
        mta_sts: Option<MtaSts>,
        certificate_fault: CertificateFault,
    ) -> Self {
        Self { mta_sts, certificate_fault, ..self }
    }

    /// Takes reports of senders on TLS.
    #[must_use]
    pub fn taking_reports(self, tls_reports: Option<TlsReports>) -> Self {
        Self { tls_reports, ..self }
    }

    /// Ends waiting and streaming responses at the soft stop of `shutdown`.
    #[must_use]
    pub fn ending_with(self, shutdown: Shutdown) -> Self {
        Self { shutdown, ..self }
    }

    /// Serves event streams on these threads.
    #[must_use]
    pub fn streaming_on(self, streams: Handle) -> Self {
        Self { streams: Some(streams), ..self }
    }

    /// Largest body in bytes with a message in it. The message is in base64, which needs no escapes
    /// in JSON.
    pub(crate) fn max_upload_bytes(&self) -> usize {
        let message = self.use_cases.preview.max_message_bytes();
        let encoded = message.div_ceil(3).saturating_mul(4);
        encoded.saturating_add(self.rules.limits.max_body_bytes)
    }
}
