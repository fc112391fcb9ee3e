//! The composition root, the only file that knows all rooms: makes the parts and hands them to each
//! other.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::app::agents::Agents;
use crate::app::audit::AuditLog;
use crate::app::delivery::{EventLog, Heartbeat};
use crate::app::doctor::domain_checks::{DomainChecks, ThisServer};
use crate::app::intake::Gateway;
use crate::app::intake::preview::Preview;
use crate::app::intake::reception::Reception;
use crate::app::mailbox;
use crate::app::mailbox::erasure::Erasures;
use crate::app::mailbox::links::Links;
use crate::app::mailbox::retention::Retention;
use crate::app::relay::Relays;
use crate::app::relay::inbound::Inbound;
use crate::app::relay::sns_certificates::SnsCertificates;
use crate::app::system::{CertificateEnd, Parts, System};
use crate::domain::clock::{Belief, Clock, Timestamp};
use crate::domain::domain_name::DomainName;
use crate::domain::id::Mint;
use crate::domain::ports::Wake;
use crate::egress::client::{Client, EgressError, Limits, Lookup};
use crate::egress::guard::Guard;
use crate::egress::new_urls::NewUrls;
use crate::http::{self, Http, Readiness};
use crate::metrics::Metrics;
use crate::rules::{ForwardRules, IntakeRules, RetentionRules, Rules, RulesError, WebhookRules};
use crate::shutdown::Shutdown;
use crate::store::{Serving, Store, StorePlace};
use crate::tls::Files;
use crate::tls::acme::Acme;
use crate::verify::{Authenticator, Servers, VerifyError};
use crate::webhook::attempt::Sender;
use crate::webhook::dispatcher::{Bell, Dispatcher};
use crate::webhook::queue::Outbox;

mod api;
mod incoming;
mod pulse;
mod readiness;
mod settings;
mod sockets;
mod steady;
mod stores;
mod threads;
mod tls;
mod traces;
mod vault;

use self::api::{ApiRules, SharedUseCases};
use self::incoming::{Incoming, SmtpSettings};
pub use self::pulse::Pulse;
pub use self::settings::{OtlpSettings, RunError, Settings, TlsSettings};
pub use self::sockets::{SocketError, Sockets};
use self::stores::{Opened, Stores};
use self::threads::Threads;
use self::tls::Tls;
pub use self::tls::{OwnCertificate, OwnCertificates, own_certificates};
use self::traces::Exporting;
pub use self::vault::{VaultFileError, check_secrets, read_secrets_key, secrets_key_file};
pub use crate::mcp::Changes as McpChanges;
pub use crate::smtp::FrontEnd;

/// Ends by [`Self::stop`]: if it is dropped instead, mail and deliveries go on.
#[derive(Debug)]
pub struct Running {
    pub smtp: SocketAddr,
    pub smtps: Option<SocketAddr>,
    pub http: SocketAddr,
    /// The address for Prometheus, if there is one.
    pub metrics: Option<SocketAddr>,
    /// Whether the API is served by https only.
    pub https: bool,
    /// The address for an authority's challenges; `None` while another program has it.
    pub acme: Option<SocketAddr>,
    /// Certificate files to follow.
    files: Vec<Arc<Files>>,
    stores: Stores,
    readiness: Readiness,
    /// Cancelled when the front end for mail has ended.
    mail_ended: CancellationToken,
    shutdown: Shutdown,
    exporting: Option<Exporting>,
    threads: Threads,
    /// Dropped last: no other server may start before.
    _serving: Serving,
}

impl Running {
    /// Resolves with the reason why the process must end: the store can no longer be trusted, or a
    /// part that nothing replaces has panicked.
    pub async fn broken(&self) -> RunError {
        tokio::select! {
            broken = self.stores.mail.broken() => broken.into(),
            () = self.shutdown.failed() => RunError::Panicked,
        }
    }

    /// Returns the addresses by their names: `smtp`, `smtps`, `http` or `https`, `metrics`, `acme`.
    pub fn addresses(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        let all = [Some(self.smtp), self.smtps, Some(self.http), self.metrics, self.acme];
        sockets::named(all).map(move |(name, _, address)| match name {
            "http" if self.https => ("https", address),
            _ => (name, address),
        })
    }

    /// Returns the addresses in one line, as `smtp ADDRESS http ADDRESS`.
    pub fn in_words(&self) -> String {
        let words = self.addresses().map(|(name, address)| format!("{name} {address}"));
        words.collect::<Vec<_>>().join(" ")
    }

    /// Reads all certificate files again. If some cannot be used, their old pair stays, and the log
    /// says why.
    pub async fn reload(&self) {
        for files in &self.files {
            files.reload(true).await;
        }
    }

    /// Accepts nothing new, finishes work under way within `grace`, and closes the store. Returns
    /// whether all work finished in time.
    pub async fn stop(self, grace: Duration) -> bool {
        let in_time = self.shutdown.finish(grace).await;
        let Stores { mail, requests, streams, beats } = &self.stores;
        for store in [beats, streams, requests, mail] {
            store.close().await;
        }
        if let Some(exporting) = self.exporting {
            exporting.finish().await;
        }
        in_time
    }
}

/// Starts a server on an existing store, with sockets of its own.
pub async fn start(settings: Settings, mint: Mint) -> Result<Running, RunError> {
    // Boxed, as it holds every part at once: else the stack of each caller would be as large.
    Box::pin(start_on(Sockets::default(), settings, mint)).await
}

/// Starts a server on an existing store. `sockets` take the places of its own. When this returns,
/// all are listening; only the one for an authority's challenges may follow.
#[expect(
    clippy::too_many_lines,
    reason = "the one list of all parts, in the order of their making"
)]
pub async fn start_on(
    mut sockets: Sockets,
    settings: Settings,
    mint: Mint,
) -> Result<Running, RunError> {
    let (own_hosts, own_names) = (settings.own_hosts(), settings.own_names());
    let secure = settings.is_secure();
    let (rules, dns, proxies) = (settings.rules, settings.dns, settings.trusted_proxy);
    let (place, hostname) = (settings.place, settings.hostname);
    let shutdown = Shutdown::default();
    let opened = stores::open(&place, &rules, &mint, settings.start_patience).await?;
    let Opened { serving, stores, threads } = opened;
    let store = stores.mail.clone();
    let vault = vault::open(settings.secrets_key.as_deref(), &place, &store, &mint).await?;
    let metrics = Metrics::new(mint.clock().now())?;
    store.measure_by(metrics.clone());
    let authenticator = authenticator(dns.as_deref(), &rules.intake, &hostname)?;
    let authenticator = authenticator.measured_by(metrics.clone());
    let (resolvers, by) = ((dns.as_deref(), &hostname), (&mint, &metrics));
    let (traces, exporting) =
        Exporting::start(settings.otlp, resolvers, &rules, by, &threads.streams())?;
    let guard = Guard::new(settings.egress_allow, &rules.webhooks);
    let mut tls = Tls::prepare(settings.tls, &place, &hostname, &rules, mint.clock()).await?;
    let (intake, webhooks, access) =
        (Arc::new(rules.intake), Arc::new(rules.webhooks), Arc::new(rules.access));
    // Outgoing: the dispatcher reads the store, whose bell wakes it; intake rings the log's bell.
    let bell = Bell::from(store.bell());
    // Each with places of its own: customers' hosts cannot hold up the authority's.
    let acme_lookups = (lookup(dns.as_deref(), &webhooks)?, published(dns.as_deref(), &webhooks)?);
    let domains = settings.mta_sts.is_some().then(|| stores.requests.clone());
    tls.start_acme(rules.acme, guard.clone(), acme_lookups, domains, &mint, &mut sockets).await?;
    let hooks_lookup = lookup(dns.as_deref(), &webhooks)?;
    let guard = guard.for_gateway_at(own_hosts);
    let client = Client::new(guard.clone(), Limits::from(webhooks.as_ref()), hooks_lookup)?;
    let relay_client = relay_client(dns.as_deref(), &guard, &rules.relays.forward)?;
    let urls_lookup = lookup(dns.as_deref(), &webhooks)?;
    let urls = NewUrls::new(guard, urls_lookup, webhooks.attempt.connect_timeout());
    let relay_rules = Arc::new(rules.relays);
    let relays = Relays::new(store.clone(), vault.clone(), mint.clone(), relay_client, relay_rules)
        .at(settings.public_url.as_ref());
    let links =
        Links::open(&store, mint.clock().clone(), &access).await?.at(settings.public_url.as_ref());
    let (streams, payload) = (stores.streams.clone(), webhooks.payload);
    let events = EventLog::new(streams, Arc::clone(&access), payload, links.clone());
    let signers = SnsCertificates::over(client.clone(), rules.inbound.proofs.certificates);
    let outbox = Outbox::new(store.clone(), mint.clock().clone(), webhooks.dispatcher.lease());
    let sender = Sender {
        client,
        mint: mint.clone(),
        links: links.clone(),
        rules: Arc::clone(&webhooks),
        metrics: metrics.clone(),
        traces: traces.clone(),
    };
    let dispatcher = Dispatcher::new(Arc::new(outbox), sender, bell.clone());
    let (beats, clock, gateways) =
        (stores.beats.clone(), mint.clock().clone(), rules.store.gateways);
    let heartbeat = Heartbeat::new(beats, store.clone(), clock, gateways, Arc::new(bell));

    // Incoming: the listener calls intake.
    let wake: Arc<dyn Wake> = Arc::new(events.clone());
    let smtp = SmtpSettings {
        front_end: settings.front_end,
        address: settings.smtp,
        hostname: &hostname,
        proxies: proxies.clone(),
        size: intake.limits.max_message_bytes,
    };
    let authenticator = Arc::new(authenticator);
    let max_uploads = access.limits.max_uploads;
    let tenants_dns = api::tenants_authenticator(dns.as_deref(), &intake, &hostname, max_uploads)?;
    let line_ends = rules.smtp.framing.bare_line_ends;
    let preview = Preview::new(
        store.clone(),
        Arc::clone(&tenants_dns),
        Arc::clone(&intake),
        line_ends,
        rules.retention.clone(),
        mint.clone(),
    );
    let address = settings.tls_reports.clone();
    let reports = api::reports(address, &stores.requests, &access, (&mint, &metrics));
    let reception = Reception::new(store.clone(), mint.clone(), &intake, Arc::clone(&wake));
    let gateway = Gateway::new(store.clone(), authenticator, intake, relays.clone(), wake)
        .with_postmaster(settings.postmaster)
        .taking_reports(reports.clone())
        .measured_by(metrics.clone())
        .traced_by(traces);
    let gateway = Arc::new(gateway);
    let inbound = Arc::new(rules.inbound);
    let inbound = Inbound::new(Arc::clone(&gateway), relays.clone(), signers, inbound, line_ends);
    let incoming =
        Incoming::listen(smtp, &mut sockets, &rules.smtp, &tls, gateway, shutdown.clone()).await?;

    // The API.
    let (socket, http) = sockets.bind("http", settings.http).await?;
    let indexing = mailbox::keep_index(store.clone(), access.search);
    let erasures = Erasures::new(store.clone(), mint.clock().clone(), &rules.retention);
    let (load, certificates) = (Arc::clone(&incoming.state.load), tls.ends.clone());
    let parts = Parts { load, pools: stores.pools(), certificates };
    let system = System::new(metrics, stores.requests.clone(), mint.clock().clone(), parts);
    let server = ThisServer {
        hostname: hostname.clone(),
        names: own_names,
        port: incoming.smtp.port(),
        certificate: tls.shown(),
        expiry_warning: rules.smtp.tls.expiry_warning(),
        tls_reports: settings.tls_reports,
        mta_sts: settings.mta_sts.clone(),
    };
    let (dns, within) = (Arc::clone(&tenants_dns), access.domains.lookup());
    let domain_checks =
        DomainChecks::new(stores.requests.clone(), dns, mint.clock().clone(), server, within);
    let shared = SharedUseCases {
        preview,
        reception,
        erasures: erasures.clone(),
        relays,
        inbound,
        events: events.clone(),
        links,
        dns: tenants_dns,
        system: system.clone(),
        domain_checks,
    };
    let mail_ended = incoming.state.ended.clone();
    let readiness = readiness::checks(&store, mint.clock(), incoming.state, shutdown.clone());
    let api_rules = ApiRules {
        access: Arc::clone(&access),
        webhooks,
        apps: Arc::new(rules.apps),
        releases_secrets: settings.releases_secrets,
    };
    let use_cases = api::use_cases(shared, &stores, vault, api_rules, &mint);
    let api = Http::new(use_cases, urls, mint.clone(), access, readiness.clone());
    let api = api.telling_senders(settings.mta_sts, tls.fault(&hostname)).taking_reports(reports);
    let api = api.behind(proxies).readable_from(settings.cors_origin).ending_with(shutdown.clone());
    let api = Arc::new(api.streaming_on(threads.streams()));

    let metrics = match settings.metrics.or(sockets.address("metrics")) {
        Some(address) => Some(sockets.bind("metrics", address).await?),
        None => None,
    };
    sockets.all_taken()?;
    let running = Running {
        smtp: incoming.smtp,
        smtps: incoming.smtps,
        http,
        metrics: metrics.as_ref().map(|(_, address)| *address),
        https: tls.https.is_some(),
        acme: tls.acme.as_ref().and_then(Acme::http),
        stores,
        readiness,
        mail_ended,
        files: tls.files.clone(),
        shutdown: shutdown.clone(),
        exporting,
        threads,
        _serving: serving,
    };
    incoming.serve.into_iter().for_each(|serve| shutdown.spawn(shutdown.vital(serve)));
    tls.follow(&rules.smtp.tls, &shutdown);
    let (delivering, last_word) = (shutdown.clone(), rules.store.gateways.silence());
    let delivering = shutdown.vital(deliver(dispatcher, heartbeat, delivering));
    shutdown.spawn_with_last_word(last_word, delivering);
    spawn_clean_up(&store, mint.clock(), rules.retention, rules.store.objects.sweep(), &shutdown);
    let (audit, agents) = (api.use_cases.audit.clone(), api.use_cases.agents.clone());
    spawn_background(audit, agents, erasures, &shutdown);
    shutdown.spawn_until_soft_stop(indexing);
    let stop = shutdown.clone();
    shutdown.spawn(async move { system.run(stop.soft()).await });
    let stop = shutdown.clone();
    let following = async move { events.run(stop.soft()).await };
    shutdown.spawn_on(&running.threads.streams(), following);
    let router = api::router(&api, settings.console.then_some(secure), settings.mcp);
    if let Some((socket, _)) = metrics {
        let router = http::metrics_router(Arc::clone(&api));
        let serving = http::serve(socket, router, Arc::clone(&api), shutdown.clone(), None);
        shutdown.spawn_on(&running.threads.requests(), shutdown.vital(serving));
    }
    let serving = http::serve(socket, router, api, shutdown.clone(), tls.https);
    shutdown.spawn_on(&running.threads.requests(), shutdown.vital(serving));
    log_start(&running, &place, &tls.ends, secure).await;
    Ok(running)
}

/// Logs what serves and where, and warns of keys that may cross a network in clear.
async fn log_start(
    running: &Running,
    place: &StorePlace,
    certificates: &[CertificateEnd],
    secure: bool,
) {
    let blobs = place.blobs.as_ref().map(ToString::to_string);
    let database = running.stores.requests.database_facts().await;
    let database = database.map_or_else(|error| error.to_string(), |facts| facts.to_string());
    let ends = certificates.iter().filter_map(|(listener, end)| Some((*listener, end()?)));
    let ends: Vec<_> = ends.map(|(listener, end)| format!("{listener} until {end}")).collect();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        database,
        store = %place.database,
        blobs,
        certificates = ends.join(", "),
        addresses = running.in_words(),
        "gatepost serves"
    );
    if !secure && !running.http.ip().is_loopback() {
        tracing::warn!(
            address = %running.http,
            "the API speaks http beyond this machine, and keys travel in its queries: give \
             --http-tls-cert and --http-tls-key, or put a proxy with TLS in front and name its \
             https URL by --public-url"
        );
    }
}

/// Runs these tasks until the soft stop: recording refusals of the API, erasures, and migrations of
/// templates.
fn spawn_background(audit: AuditLog, agents: Agents, erasures: Erasures, shutdown: &Shutdown) {
    let stop = shutdown.clone();
    // Boxed, as it is large: else each call on the way to the runtime has it on its stack.
    shutdown.spawn(Box::pin(async move {
        let (erasing, migrating) = (erasures.run(stop.soft()), agents.migrate(stop.soft()));
        tokio::join!(audit.run(stop.soft()), erasing, migrating);
    }));
}

/// Delivers, and beats until the last claim is finished, returned or broken off. Then writes that
/// this gateway ends.
async fn deliver(dispatcher: Dispatcher<Outbox>, heartbeat: Heartbeat, shutdown: Shutdown) {
    tokio::select! {
        () = dispatcher.run(shutdown.clone()) => {}
        () = heartbeat.run() => {}
        () = shutdown.hard() => {}
    }
    heartbeat.leave().await;
}

/// Runs retention and the sweep of orphaned originals until the soft stop.
fn spawn_clean_up(
    store: &Store,
    clock: &Clock,
    retention: RetentionRules,
    sweep: Duration,
    shutdown: &Shutdown,
) {
    let belief = Belief::new(clock.clone(), retention.pass.calm());
    shutdown.spawn_until_soft_stop(mailbox::sweep(store.clone(), sweep, belief));
    let retention = Retention::new(store.clone(), clock.clone(), Arc::new(retention));
    let stop = shutdown.clone();
    shutdown.spawn(async move { retention.run(stop.soft()).await });
}

/// Loads the rules, overridden by those of `folder` if one is named.
pub fn rules(folder: Option<&Path>) -> Result<Rules, RulesError> {
    folder.map_or_else(Rules::defaults, Rules::load)
}

/// Makes an authenticator over these resolvers, or over the system's.
pub fn authenticator(
    dns: Option<&[SocketAddr]>,
    rules: &IntakeRules,
    hostname: &DomainName,
) -> Result<Authenticator, VerifyError> {
    let servers = dns.map_or(Servers::System, |dns| Servers::Given(dns.to_vec()));
    Authenticator::new(servers, rules, hostname.as_str())
}

/// The look-up of hosts for outgoing requests: by the same resolvers as mail's, but with nothing
/// else shared. Allows as many look-ups at a time as attempts, so that none waits for another.
fn lookup(dns: Option<&[SocketAddr]>, rules: &WebhookRules) -> Result<Lookup, EgressError> {
    Lookup::with_servers(dns, rules.attempt.connect_timeout(), rules.dispatcher.concurrency)
}

/// The look-up of names as an authority finds them, with the bounds of the other.
fn published(dns: Option<&[SocketAddr]>, rules: &WebhookRules) -> Result<Lookup, EgressError> {
    Lookup::published(dns, rules.attempt.connect_timeout(), rules.dispatcher.concurrency)
}

/// Makes the client of relays. It shares nothing with deliveries, so that neither waits for the
/// other.
fn relay_client(
    dns: Option<&[SocketAddr]>,
    guard: &Guard,
    rules: &ForwardRules,
) -> Result<Client, EgressError> {
    let lookup = Lookup::with_servers(dns, rules.connect_timeout(), rules.max_at_once)?;
    Client::new(guard.clone(), Limits::from(rules), lookup)
}

/// Makes ids and secrets from the clock and randomness of the machine; only this function reads
/// them.
pub fn system_mint() -> Mint {
    #[expect(clippy::disallowed_methods, reason = "every other clock comes from here")]
    let now = || {
        let since_epoch =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    };
    let (elapsed, at) = (steady::stopwatch(), now());
    let steady = move || at.plus(elapsed());
    let random = |buffer: &mut [u8]| {
        // AWS-LC aborts rather than return predictable bytes. An error here means that even that
        // failed, and a key of zeros must never be made.
        if aws_lc_rs::rand::fill(buffer).is_err() {
            std::process::abort();
        }
    };
    Mint::new(Clock::beside(now, steady), Arc::new(random))
}
