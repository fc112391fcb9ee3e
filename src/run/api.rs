//! The use cases of the API, and the router with all that stands beside it.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;

use super::{Stores, authenticator};
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
use crate::app::vault::Vault;
use crate::console::{self, Console};
use crate::domain::domain_name::DomainName;
use crate::domain::id::Mint;
use crate::domain::tls_report::ReportAddress;
use crate::http::{self, Http, UseCases};
use crate::mcp::{self, Changes};
use crate::metrics::Metrics;
use crate::rules::{AccessRules, AppRules, IntakeRules, WebhookRules};
use crate::store::Store;
use crate::verify::{Authenticator, VerifyError};

/// Use cases of the API that other parts of the gateway have, too.
pub(super) struct SharedUseCases {
    pub(super) preview: Preview,
    pub(super) reception: Reception,
    pub(super) erasures: Erasures,
    pub(super) relays: Relays,
    pub(super) inbound: Inbound,
    pub(super) events: EventLog,
    pub(super) links: Links,
    pub(super) dns: Arc<Authenticator>,
    pub(super) system: System,
    pub(super) domain_checks: DomainChecks,
}

/// The rules of the API, and whether the operator lets it release secrets.
pub(super) struct ApiRules {
    pub(super) access: Arc<AccessRules>,
    pub(super) webhooks: Arc<WebhookRules>,
    pub(super) apps: Arc<AppRules>,
    pub(super) releases_secrets: bool,
}

/// Makes the use cases of the API over the store of requests; followers of the log are authorised
/// over that of streams. `vault` seals secrets.
pub(super) fn use_cases(
    shared: SharedUseCases,
    stores: &Stores,
    vault: Vault,
    ApiRules { access: rules, webhooks, apps, releases_secrets }: ApiRules,
    mint: &Mint,
) -> UseCases {
    let store = &stores.requests;
    let SharedUseCases {
        preview,
        reception,
        erasures,
        relays,
        inbound,
        events,
        links,
        dns,
        system,
        domain_checks,
    } = shared;
    let access = Access::new(store.clone(), mint.clone(), &rules, &apps);
    let access = access.releasing_secrets(releases_secrets);
    UseCases {
        followers: access.for_followers(stores.streams.clone()),
        access,
        tenancy: Tenancy::new(store.clone(), mint.clone(), Arc::clone(&rules)),
        mailbox: Mailbox::new(store.clone()),
        links,
        destinations: Destinations::new(store.clone(), mint.clone(), Arc::clone(&rules), webhooks),
        events,
        preview,
        reception,
        erasures,
        outcomes: Outcomes::new(store.clone(), mint.clock().clone(), &rules),
        relays,
        inbound,
        agents: Agents::new(store.clone(), mint.clone(), Arc::clone(&rules)),
        apps: Apps::new(store.clone(), vault.clone(), mint.clone(), apps),
        computers: Computers::new(store.clone(), vault, mint.clone(), rules.keys.idle()),
        audit: AuditLog::new(store.clone(), mint.clock().clone(), Arc::clone(&rules)),
        answers: KeptResponses::new(store.clone(), mint.clone(), rules),
        dns,
        system,
        domain_checks,
    }
}

/// Takes reports of senders on TLS in, if there is an address for them.
pub(super) fn reports(
    address: Option<ReportAddress>,
    store: &Store,
    rules: &AccessRules,
    (mint, metrics): (&Mint, &Metrics),
) -> Option<TlsReports> {
    let (store, clock) = (store.clone(), mint.clock().clone());
    Some(TlsReports::new(store, clock, address?, rules, metrics.clone()))
}

/// Makes the authenticator of previews and of domain proofs. Anybody with a key can make it look up
/// any name, so it shares nothing with mail's: no threads, no look-ups under way, no remembered
/// answers. It has a thread for each such message that may be under way, so that none waits for
/// another.
pub(super) fn tenants_authenticator(
    dns: Option<&[SocketAddr]>,
    rules: &IntakeRules,
    hostname: &DomainName,
    places: usize,
) -> Result<Arc<Authenticator>, VerifyError> {
    let mut rules = rules.clone();
    rules.authentication.max_offloaded = places;
    authenticator(dns, &rules, hostname).map(Arc::new)
}

/// The router of the API, with the MCP server and the console. `console` says whether browsers reach
/// it by https; None for no console. `changes` is None for no MCP server.
pub(super) fn router(api: &Arc<Http>, console: Option<bool>, changes: Option<Changes>) -> Router {
    let pages = console.map(|secure| console::router(Console::new(Arc::clone(api), secure)));
    let tools = changes.map(|changes| mcp::router(Arc::clone(api), changes));
    let rooms = pages.into_iter().chain(tools);
    let beside = rooms.fold(Router::new(), |all, room| all.merge(room));
    http::router(Arc::clone(api), beside)
}
