//! The use cases of the API, and its server.

use std::sync::Arc;

use crate::app::access::Access;
use crate::app::agents::Agents;
use crate::app::apps::Apps;
use crate::app::audit::AuditLog;
use crate::app::computers::Computers;
use crate::app::delivery::{Destinations, EventLog};
use crate::app::idempotency::KeptResponses;
use crate::app::intake::preview::Preview;
use crate::app::intake::reception::Reception;
use crate::app::mailbox::Mailbox;
use crate::app::mailbox::erasure::Erasures;
use crate::app::mailbox::links::Links;
use crate::app::relay::Relays;
use crate::app::relay::inbound::Inbound;
use crate::app::tenancy::Tenancy;
use crate::app::vault::Vault;
use crate::domain::id::Mint;
use crate::egress::guard::Guard;
use crate::http::{Http, Readiness, UseCases};
use crate::rules::{AccessRules, AppRules, WebhookRules};
use crate::store::Store;
use crate::verify::Authenticator;

/// Makes the API over `store`, and over `streams` for followers of the log; `vault` seals secrets.
pub(super) fn api(
    (store, streams, vault): (&Store, &Store, Vault),
    (preview, reception, erasures, (relays, inbound)): (
        Preview,
        Reception,
        Erasures,
        (Relays, Inbound),
    ),
    (events, links, dns): (EventLog, Links, Arc<Authenticator>),
    (guard, readiness): (Guard, Readiness),
    mint: Mint,
    (rules, webhooks, apps): (Arc<AccessRules>, Arc<WebhookRules>, Arc<AppRules>),
) -> Http {
    let access = Access::new(store.clone(), mint.clock().clone(), &rules, Arc::clone(&apps));
    let use_cases = UseCases {
        followers: access.for_followers(streams.clone()),
        access,
        tenancy: Tenancy::new(store.clone(), mint.clone(), Arc::clone(&rules)),
        mailbox: Mailbox::new(store.clone()),
        links,
        destinations: Destinations::new(store.clone(), mint.clone(), Arc::clone(&rules), webhooks),
        events,
        preview,
        reception,
        erasures,
        relays,
        inbound,
        agents: Agents::new(store.clone(), mint.clone(), Arc::clone(&rules)),
        apps: Apps::new(store.clone(), vault.clone(), mint.clone(), apps),
        computers: Computers::new(store.clone(), vault, mint.clone(), rules.keys.idle()),
        audit: AuditLog::new(store.clone(), mint.clock().clone(), Arc::clone(&rules)),
        answers: KeptResponses::new(store.clone(), mint.clone(), Arc::clone(&rules)),
        dns,
    };
    Http::new(use_cases, guard, mint, rules, readiness)
}
