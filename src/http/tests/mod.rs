//! The API over real TCP and a real store: a house of ten accounts, and a client that sends exactly
//! the given bytes.

mod access;
mod account_lists;
mod accounts;
mod agents;
mod apps;
mod audit;
#[path = "../../../tests/it/support/canary.rs"]
mod canary;
mod computers;
mod deliveries;
mod described;
mod docs;
mod domain_check;
mod domains;
mod erasure;
mod events;
mod features;
mod framing;
mod hostile;
mod inbound;
mod injection;
mod letters;
mod logs;
mod mailbox;
mod mcp_tools;
mod media;
mod members;
mod once;
mod outcomes;
mod preview;
mod rates;
mod received;
mod relays;
mod reply;
mod restricted;
mod rooms;
mod search;
mod secrecy;
mod secret_release;
mod sessions;
mod streams;
mod system;
mod table;
mod targets;
mod templates;
mod tenancy;
mod time_series;
mod tokens;
mod waiting;
mod webhook_changes;
mod webhooks;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use axum::Router;
use serde_json::Value;
use sqlx::Connection as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

pub(crate) use self::letters::Received;
use self::letters::record;
pub(crate) use self::reply::Reply;
use crate::app::access::Access;
use crate::app::agents::Agents;
use crate::app::apps::Apps;
use crate::app::audit::AuditLog;
use crate::app::computers::Computers;
use crate::app::delivery::{Destinations, EventLog};
use crate::app::doctor::domain_checks::{DomainChecks, ThisServer};
use crate::app::idempotency::KeptResponses;
use crate::app::intake::reception::Reception;
use crate::app::mailbox::Mailbox;
use crate::app::mailbox::erasure::Erasures;
use crate::app::mailbox::links::Links;
use crate::app::mailbox::outcomes::Outcomes;
use crate::app::relay::Relays;
use crate::app::system::{Parts, System};
use crate::app::tenancy::{Claiming, Invitation, KeyTerms, Tenancy};
use crate::app::vault::Vault;
use crate::console::{self, Console};
use crate::domain::account::{Account, AccountType};
use crate::domain::address::Address;
use crate::domain::clock::{Clock, Timestamp};
use crate::domain::delivery::{Attempt, Outcome};
use crate::domain::domain_name::DomainName;
use crate::domain::id::{AccountId, AttemptId, DestinationId, Mint};
use crate::domain::key::KeyOwner;
use crate::domain::member::{Member, Role};
use crate::domain::mta_sts::{MtaSts, MtaStsMode, MxPattern};
use crate::domain::ports::MailLoad;
use crate::domain::tls_report::ReportAddress;
use crate::egress::client::{Client, Limits, Lookup};
use crate::egress::guard::Guard;
use crate::egress::new_urls::NewUrls;
use crate::http::serve;
use crate::http::{Check, Fault, Http, Readiness, UseCases, router};
use crate::mcp;
use crate::metrics::Metrics;
use crate::rules::Rules;
use crate::shutdown::Shutdown;
use crate::store::{DeliveryFilter, DeliveryRecord, Location, Page, Store};
use crate::testkit::dns::{DnsServer, Zone};
use crate::tls::self_signed;
use crate::verify::{Authenticator, Servers};

/// The longest wait of a test: a bound, not a pause.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// One account of the house, by its short name.
pub(crate) struct Resident {
    pub(crate) account: Account,
    pub(crate) token: String,
}

/// A running API over a store of its own.
pub(crate) struct House {
    pub(crate) residents: BTreeMap<&'static str, Resident>,
    pub(crate) address: SocketAddr,
    pub(crate) tenancy: Tenancy,
    pub(crate) store: Store,
    pub(crate) http: Arc<Http>,
    pub(crate) shutdown: Shutdown,
    mint: Mint,
    _folder: tempfile::TempDir,
}

/// Name, parent, type of each account.
pub(crate) const TREE: &[(&str, &str, AccountType)] = &[
    ("partner", "", AccountType::Partner),
    ("reseller1", "partner", AccountType::Reseller),
    ("reseller2", "partner", AccountType::Reseller),
    ("org1", "reseller1", AccountType::Organization),
    ("org2", "reseller1", AccountType::Organization),
    ("org3", "reseller2", AccountType::Organization),
    ("agent1", "org1", AccountType::Agent),
    ("agent2", "org1", AccountType::Agent),
    ("agent3", "org2", AccountType::Agent),
    ("agent4", "org3", AccountType::Agent),
];

/// No rates, for tests of other things.
const UNLIMITED: &str = "[rates]\nreads_per_minute = 0\nwrites_per_minute = 0\n\
                         keyless_per_minute = 0\ndenied_seconds = 1\n";

/// An id that no account has.
pub(crate) const NOBODY: i64 = 9_007_199_254_740_991;

/// The router of a gateway that serves a console, and all tools of MCP.
fn whole_router(http: &Arc<Http>) -> Router {
    let console = console::router(Console::new(Arc::clone(http), false));
    router(Arc::clone(http), console.merge(mcp::router(Arc::clone(http), mcp::Changes::Always)))
}

fn mint() -> Mint {
    let now = AtomicI64::new(1_795_000_000_000);
    let clock = Clock::new(move || Timestamp::from_millis(now.fetch_add(1, Ordering::Relaxed)));
    Mint::new(clock, Arc::new(|bytes: &mut [u8]| aws_lc_rs::rand::fill(bytes).unwrap()))
}

fn readiness(store: Store, mint: &Mint) -> Readiness {
    let reading = Check::new("reading", move || {
        let (store, fault) = (store.clone(), |detail| Fault { cause: "gone", detail });
        async move { store.ping().await.map_err(|error| fault(error.to_string())) }
    });
    Readiness::new(mint.clock().clone(), Duration::from_secs(60), vec![reading])
}

fn relays(store: &Store, vault: &Vault, mint: &Mint, (rules, guard): (&Rules, &Guard)) -> Relays {
    let wait = rules.relays.forward.connect_timeout();
    let lookup = Lookup::with_servers(Some(&[]), wait, 1).unwrap();
    let client = Client::new(guard.clone(), Limits::from(&rules.relays.forward), lookup).unwrap();
    let rules = Arc::new(rules.relays.clone());
    Relays::new(store.clone(), vault.clone(), mint.clone(), client, rules)
}

/// A plan without keys, and one with hardly more.
const PLANS: &str = "[plans.mute]\nfeatures = [\"inboundEmail\"]\n\
                     [plans.lean]\nfeatures = [\"api\", \"inboundEmail\"]\n";

const PATIENT_DNS: &str = "[dns]\nquery_timeout_seconds = 2\n";

/// Looks names up with this server.
fn new_urls(guard: Guard, server: SocketAddr) -> NewUrls {
    let wait = Duration::from_secs(5);
    NewUrls::new(guard, Lookup::with_servers(Some(&[server]), wait, 1).unwrap(), wait)
}

impl House {
    /// A connection to its database past the store.
    async fn database(&self) -> SqliteConnection {
        let file = self._folder.path().join("data/gatepost.db");
        let options = SqliteConnectOptions::new().filename(file);
        SqliteConnection::connect_with(&options).await.unwrap()
    }

    pub(crate) async fn new() -> Self {
        Self::with("").await
    }

    /// A house whose `access.toml` is overridden by `rules`.
    pub(crate) async fn with(rules: &str) -> Self {
        // This DNS has no names.
        let dns = DnsServer::start(Zone::default(), Shutdown::default()).await.unwrap();
        Self::asking(dns.addr(), rules).await
    }

    /// Builds a house with this DNS server, which is asked again after two seconds.
    pub(crate) async fn asking(dns: SocketAddr, rules: &str) -> Self {
        let mut house = Self::empty(dns, rules).await;
        house.residents = move_in(&house.tenancy).await;
        house
    }

    /// Builds a house without accounts.
    async fn empty(dns: SocketAddr, rules: &str) -> Self {
        canary::listen();
        let folder = tempfile::tempdir().unwrap();
        let policies = folder.path().join("policies");
        std::fs::create_dir(&policies).unwrap();
        let ours = if rules.contains("[rates]") { "" } else { UNLIMITED };
        std::fs::write(policies.join("access.toml"), format!("{rules}\n{ours}")).unwrap();
        std::fs::write(policies.join("intake.toml"), PATIENT_DNS).unwrap();
        std::fs::write(policies.join("apps.toml"), PLANS).unwrap();
        let rules = Rules::load(&policies).unwrap();
        let access_rules = Arc::new(rules.access.clone());
        let app_rules = Arc::new(rules.apps.clone());
        let (mint, location) = (mint(), Location::Folder(folder.path().join("data")));
        let store = Store::create(&location, &rules.store, mint.clone()).await.unwrap();
        let tenancy = Tenancy::new(store.clone(), mint.clone(), Arc::clone(&access_rules));
        let (urls_dns, servers) = (dns, Servers::Given(vec![dns]));
        let dns = Arc::new(Authenticator::new(servers, &rules.intake, "gw.example").unwrap());
        let links = Links::open(&store, mint.clock().clone(), &access_rules).await.unwrap();
        let (of, payload) = (Arc::clone(&access_rules), rules.webhooks.payload);
        let events = EventLog::new(store.clone(), of, payload, links.clone());
        let vault = Vault::new(&[[7; 32]], mint.clone());
        let guard = Guard::new(vec!["127.0.0.0/8".parse().unwrap()], &rules.webhooks);
        let relays = relays(&store, &vault, &mint, (&rules, &guard));
        let woken = (relays.clone(), Arc::new(events.clone()) as _);
        let access = Access::new(store.clone(), mint.clone(), &access_rules, &app_rules);
        let use_cases = UseCases {
            inbound: inbound::of(&store, &rules, &dns, woken),
            relays,
            agents: Agents::new(store.clone(), mint.clone(), Arc::clone(&access_rules)),
            apps: Apps::new(store.clone(), vault.clone(), mint.clone(), app_rules),
            computers: Computers::new(store.clone(), vault, mint.clone(), access_rules.keys.idle()),
            followers: access.for_followers(store.clone()),
            access: access.releasing_secrets(true),
            tenancy: tenancy.clone(),
            mailbox: Mailbox::new(store.clone()),
            destinations: Destinations::new(
                store.clone(),
                mint.clone(),
                Arc::clone(&access_rules),
                Arc::new(rules.webhooks.clone()),
            ),
            events: events.clone(),
            links,
            reception: Reception::new(store.clone(), mint.clone(), &rules.intake, Arc::new(events)),
            erasures: Erasures::new(store.clone(), mint.clock().clone(), &rules.retention),
            outcomes: Outcomes::new(store.clone(), mint.clock().clone(), &access_rules),
            preview: preview::of(&store, &rules, &mint, &dns),
            audit: AuditLog::new(store.clone(), mint.clock().clone(), Arc::clone(&access_rules)),
            answers: KeptResponses::new(store.clone(), mint.clone(), Arc::clone(&access_rules)),
            domain_checks: domain_checks(&store, &dns, &mint),
            dns,
            system: system(&store, &mint),
        };
        let ready = readiness(store.clone(), &mint);
        let urls = new_urls(guard, urls_dns);
        let http = Http::new(use_cases, urls, mint.clone(), Arc::clone(&access_rules), ready);
        // This address is a trusted proxy; other loopback addresses are not.
        let shutdown = Shutdown::default();
        let http = http.behind(vec!["127.0.0.1/32".parse().unwrap()]);
        let http = Arc::new(http.ending_with(shutdown.clone()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (router, served) = (whole_router(&http), Arc::clone(&http));
        shutdown.spawn(serve(listener, router, served, shutdown.clone(), None));
        let (audit, stop) = (http.use_cases.audit.clone(), shutdown.clone());
        shutdown.spawn(async move { audit.run(stop.soft()).await });
        let events = (http.use_cases.events.clone(), shutdown.clone());
        shutdown.spawn(async move { events.0.run(events.1.soft()).await });
        let (residents, _folder) = (BTreeMap::new(), folder);
        Self { residents, address, tenancy, store, http, shutdown, mint, _folder }
    }

    /// Makes a member of `account` that is restricted to these Agents, with a key of its own.
    pub(crate) async fn join(
        &mut self,
        name: &'static str,
        account: &str,
        role: Role,
        only: &[&str],
    ) -> Member {
        let account = self.residents[account].account.clone();
        let invitation = Invitation {
            email: Address::parse(&format!("{name}@good.example")).unwrap(),
            role,
            permitted: Some(only.iter().map(|name| self.id(name)).collect()),
            redirect_url: None,
            send_welcome_email: None,
        };
        let member = self.tenancy.invite(&account, invitation).await.unwrap();
        let owner = KeyOwner::Member(member.id);
        let token = self.tenancy.issue_key(owner, KeyTerms::of("test")).await.unwrap().token;
        self.residents.insert(name, Resident { account, token });
        member
    }

    /// The time by the house's clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.mint.clock().now()
    }

    pub(crate) fn id(&self, name: &str) -> AccountId {
        self.residents[name].account.id
    }

    pub(crate) fn token(&self, name: &str) -> &str {
        &self.residents[name].token
    }

    /// `GET` with the key of `caller`; `path` is below the base and may have a query.
    pub(crate) async fn get(&self, caller: &str, path: &str) -> Reply {
        self.call(caller, "GET", path, None).await
    }

    /// A request with the key of `caller`, and with a JSON body if there is one.
    pub(crate) async fn call(
        &self,
        caller: &str,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Reply {
        let mark = if path.contains('?') { '&' } else { '?' };
        let target = format!("/api/v2{path}{mark}token={}", self.token(caller));
        let body = body.map(Value::to_string);
        self.send(method, &target, body.as_deref().map(|body| ("application/json", body))).await
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        target: &str,
        body: Option<(&str, &str)>,
    ) -> Reply {
        let mut request = format!("{method} {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n");
        if let Some((content_type, body)) = body {
            let length = body.len();
            request.push_str(&format!(
                "Content-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}"
            ));
        } else {
            request.push_str("\r\n");
        }
        self.exchange(request.as_bytes()).await
    }

    /// A request with the key of `caller`, with these lines in its header section (each ends with
    /// CRLF), and with a JSON body if there is one.
    pub(crate) async fn exact(
        &self,
        caller: &str,
        (method, path): (&str, &str),
        lines: &str,
        body: Option<&str>,
    ) -> Reply {
        let mark = if path.contains('?') { '&' } else { '?' };
        let token = self.token(caller);
        let body = body.map_or("\r\n".to_owned(), |body| {
            let length = body.len();
            format!("Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
        });
        let request = format!(
            "{method} /api/v2{path}{mark}token={token} HTTP/1.1\r\nHost: h\r\n\
             Connection: close\r\n{lines}{body}"
        );
        self.exchange(request.as_bytes()).await
    }

    /// Sends these bytes and reads to the end of the connection.
    pub(crate) async fn exchange(&self, request: &[u8]) -> Reply {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request).await.unwrap();
        Reply::to(request, &mut stream).await
    }

    /// Returns the deliveries of a webhook, the newest first.
    pub(crate) async fn made_for(&self, webhook: DestinationId) -> Vec<DeliveryRecord> {
        let page = Page { limit: 100, from: None, until: None };
        self.store.deliveries(webhook, &DeliveryFilter::default(), &page, 100).await.unwrap()
    }

    /// Makes an attempt, with this outcome, at every delivery that is due.
    pub(crate) async fn attempt(
        &self,
        (status, response): (Option<u16>, &[u8]),
        outcome: Outcome,
    ) -> usize {
        let now = self.now();
        let lease = now.plus(Duration::from_secs(60));
        let claims = self.store.claim_deliveries(now, lease, 100, &[]).await.unwrap();
        for claim in &claims {
            let attempt = Attempt {
                id: AttemptId(self.mint.uuid()),
                at: self.now(),
                latency_ms: 7,
                status,
                response: response.to_vec(),
                error: status.is_none().then(|| "no connection could be made".to_owned()),
            };
            assert!(self.store.finish_delivery(claim, &attempt, outcome).await.unwrap().recorded);
        }
        claims.len()
    }

    /// Makes the last attempt at every delivery that is due.
    pub(crate) async fn give_up(&self) {
        assert!(self.attempt((Some(500), b"broken"), Outcome::Exhausted).await > 0);
    }
}

/// Longest check of a domain.
const DOMAIN_CHECK: Duration = Duration::from_secs(5);

fn domain_checks(store: &Store, dns: &Arc<Authenticator>, mint: &Mint) -> DomainChecks {
    let hostname = DomainName::parse("gw.example").unwrap();
    let certificate = |host: &str| {
        let pair = self_signed::make_temporary(&DomainName::parse(host).unwrap()).unwrap();
        pair.certificate().clone()
    };
    let (own, further) = (certificate("gw.example"), certificate("gw2.example"));
    let shown = move |host: &str| Some(if host == "gw2.example" { &further } else { &own }.clone());
    let mx = vec![MxPattern::from(hostname.clone())];
    let policy = MtaSts { mode: MtaStsMode::Enforce, mx, max_age: 86_400 };
    let server = ThisServer {
        names: vec![hostname.clone()],
        hostname,
        port: 2525,
        certificate: Arc::new(shown),
        expiry_warning: Duration::from_secs(1),
        tls_reports: Some(ReportAddress::default()),
        mta_sts: Some(policy),
    };
    let (dns, clock) = (Arc::clone(dns), mint.clock().clone());
    DomainChecks::new(store.clone(), dns, clock, server, DOMAIN_CHECK)
}

/// The state of a gateway without a front end for mail.
fn system(store: &Store, mint: &Mint) -> System {
    let clock = mint.clock().clone();
    let metrics = Metrics::new(clock.now()).unwrap();
    let end = clock.now().plus(Duration::from_secs(40 * 86_400));
    let parts = Parts {
        load: Arc::new(|| MailLoad {
            sessions: Some(3),
            memory_bytes: Some(4_096),
            has_memory: true,
        }),
        pools: vec![("api", store.clone())],
        certificates: vec![("smtp", Arc::new(move || Some(end)))],
    };
    System::new(metrics, store.clone(), clock, parts)
}

async fn move_in(tenancy: &Tenancy) -> BTreeMap<&'static str, Resident> {
    let mut residents: BTreeMap<&'static str, Resident> = BTreeMap::new();
    for (name, parent, kind) in TREE.iter().copied() {
        let account = match residents.get(parent) {
            None => tenancy.create_partner(name).await.unwrap(),
            Some(above) => tenancy.create_account(kind, above.account.id, name, &[]).await.unwrap(),
        };
        let token = tenancy.create_key(account.id, "test").await.unwrap().token;
        canary::note(token.as_bytes());
        residents.insert(name, Resident { account, token });
    }
    let domain = DomainName::parse("partner.example").unwrap();
    tenancy.add_domain(&domain, residents["partner"].account.id).await.unwrap();
    for (name, _, kind) in TREE.iter().copied() {
        if kind == AccountType::Agent {
            let address = Address::parse(&format!("{name}@partner.example")).unwrap();
            let agent = &residents[name].account;
            tenancy.claim_address(agent, &address, false, Claiming::Never).await.unwrap();
        }
    }
    residents
}
