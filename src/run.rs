//! The composition root: the only file that knows all rooms. It implements nothing; it makes the
//! parts and hands them to each other.

use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tokio::net::TcpListener;

use crate::app::access::Access;
use crate::app::delivery::{Destinations, Outbox};
use crate::app::intake::Gateway;
use crate::app::mailbox::retention::Retention;
use crate::app::mailbox::{self, Mailbox};
use crate::app::tenancy::Tenancy;
use crate::domain::address::Address;
use crate::domain::clock::{Clock, Timestamp};
use crate::domain::domain_name::DomainName;
use crate::domain::id::Mint;
use crate::domain::ports::Wake;
use crate::egress::client::{Client, EgressError, Limits, Lookup};
use crate::egress::guard::Guard;
use crate::http::{self, Http, Readiness, UseCases};
use crate::rules::{AccessRules, IntakeRules, Rules, RulesError};
use crate::shutdown::Shutdown;
use crate::smtp::Listener;
#[cfg(feature = "mailin")]
use crate::smtp::Mailin;
use crate::store::{Place, Store, StoreError};
use crate::verify::{Authenticator, Servers, VerifyError};
use crate::webhook::attempt::Sender;
use crate::webhook::dispatcher::{Bell, Dispatcher};

pub use crate::smtp::FrontEnd;

/// What a server is made from.
#[derive(Clone, Debug)]
pub struct Settings {
    pub front_end: FrontEnd,
    pub smtp: SocketAddr,
    pub http: SocketAddr,
    pub hostname: DomainName,
    pub place: Place,
    pub postmaster: Option<Address>,
    pub rules: Rules,
    /// Resolvers to ask instead of the system's.
    pub dns: Option<Vec<SocketAddr>>,
    pub egress_allow: Vec<IpNet>,
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("cannot listen on {address}")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Verify(#[from] VerifyError),
    #[error(transparent)]
    Egress(#[from] EgressError),
}

/// A server that runs.
#[derive(Debug)]
pub struct Running {
    /// Where it takes mail in.
    pub smtp: SocketAddr,
    /// Where it serves the API.
    pub http: SocketAddr,
    store: Store,
    shutdown: Shutdown,
}

impl Running {
    /// Resolves when the store can no longer be trusted: the process must end.
    pub async fn broken(&self) {
        self.store.broken().await;
    }

    /// Takes in nothing new, finishes what is under way within `grace`, and closes the store;
    /// answers whether everything finished by itself.
    pub async fn stop(self, grace: Duration) -> bool {
        let in_time = self.shutdown.finish(grace).await;
        self.store.close().await;
        in_time
    }
}

/// A front end at work.
type Serve = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Starts a server on a store that exists. When this returns, both sockets are listening.
pub async fn start(settings: Settings, mint: Mint) -> Result<Running, RunError> {
    let Settings { front_end, smtp, http, hostname, place, postmaster, rules, dns, egress_allow } =
        settings;
    let shutdown = Shutdown::default();
    let store = Store::open(&place, &rules.store, mint.clone()).await?;
    store.check_writable().await?;
    let (intake, webhooks, access) =
        (Arc::new(rules.intake), Arc::new(rules.webhooks), Arc::new(rules.access));
    let authenticator = authenticator(dns.as_deref(), &intake, &hostname)?;
    let guard = Guard::new(egress_allow, &webhooks);

    // Outgoing: the dispatcher takes from the store, and intake rings its bell.
    let bell = Bell::default();
    let lookup = lookup(dns.is_some(), &authenticator);
    let client = Client::new(guard.clone(), Limits::from(webhooks.as_ref()), lookup)?;
    let lease = webhooks.dispatcher.lease();
    let outbox = Outbox::new(store.clone(), mint.clock().clone(), lease);
    let sender = Sender { client, mint: mint.clone(), rules: webhooks };
    let dispatcher = Dispatcher::new(Arc::new(outbox), sender, bell.clone());

    // Incoming: the listener asks intake.
    let wake: Arc<dyn Wake> = Arc::new(bell);
    let size = intake.limits.max_message_bytes;
    let authenticator = Arc::new(authenticator);
    let gateway =
        Gateway::new(store.clone(), authenticator, intake, mint.clone(), wake, postmaster);
    let gateway = Arc::new(gateway);
    let smtp_error = |source| RunError::Listen { address: smtp, source };
    let (smtp_address, serve): (_, Serve) = match front_end {
        FrontEnd::Ours => {
            let bound =
                Listener::bind(smtp, &hostname, gateway, &rules.smtp, size, shutdown.clone());
            let listener = bound.await.map_err(smtp_error)?;
            (listener.local_addr().map_err(smtp_error)?, Box::pin(listener.serve()))
        }
        #[cfg(feature = "mailin")]
        FrontEnd::Mailin => {
            let bound = Mailin::bind(smtp, &hostname, gateway, &rules.smtp, size, shutdown.clone());
            let mailin = bound.await.map_err(smtp_error)?;
            (mailin.local_addr().map_err(smtp_error)?, Box::pin(mailin.serve()))
        }
    };

    let rules_of_retention = Arc::new(rules.retention);
    let retention = Retention::new(store.clone(), mint.clock().clone(), rules_of_retention);

    // The API beside them.
    let listen_error = |source| RunError::Listen { address: http, source };
    let socket = TcpListener::bind(http).await.map_err(listen_error)?;
    let clock = mint.clock().clone();
    let api = Arc::new(api(&store, guard, mint, Arc::clone(&access)));

    let running = Running {
        smtp: smtp_address,
        http: socket.local_addr().map_err(listen_error)?,
        store: store.clone(),
        shutdown: shutdown.clone(),
    };
    shutdown.spawn(serve);
    shutdown.spawn(dispatcher.run(shutdown.clone()));
    let (sweep, stopping) = (rules.store.objects.sweep(), shutdown.clone());
    shutdown.spawn(async move {
        tokio::select! {
            () = mailbox::sweep(store, sweep, clock) => {}
            () = stopping.soft() => {}
        }
    });
    let stop = shutdown.clone();
    shutdown.spawn(async move { retention.run(stop.soft()).await });
    shutdown.spawn(http::serve(socket, http::router(api), access, shutdown.clone()));
    Ok(running)
}

fn api(store: &Store, guard: Guard, mint: Mint, rules: Arc<AccessRules>) -> Http {
    let use_cases = UseCases {
        access: Access::new(store.clone()),
        tenancy: Tenancy::new(store.clone(), mint.clone(), Arc::clone(&rules)),
        mailbox: Mailbox::new(store.clone()),
        destinations: Destinations::new(store.clone(), mint.clone(), Arc::clone(&rules)),
    };
    let store = store.clone();
    let readiness = Readiness::new(move || {
        let store = store.clone();
        async move { store.ping().await.map_err(|error| error.to_string()) }
    });
    Http::new(use_cases, guard, mint, rules, readiness)
}

/// The rules, overridden by those of a folder if one is named.
pub fn rules(folder: Option<&Path>) -> Result<Rules, RulesError> {
    folder.map_or_else(Rules::defaults, Rules::load)
}

/// An authenticator over these resolvers, or over the system's.
pub fn authenticator(
    dns: Option<&[SocketAddr]>,
    rules: &IntakeRules,
    hostname: &DomainName,
) -> Result<Authenticator, VerifyError> {
    let servers = dns.map_or(Servers::System, |dns| Servers::Given(dns.to_vec()));
    Authenticator::new(servers, rules, hostname.as_str())
}

/// Webhook hosts are looked up where mail's names are, if resolvers are named.
fn lookup(named: bool, authenticator: &Authenticator) -> Lookup {
    if !named {
        return Lookup::system();
    }
    let authenticator = authenticator.clone();
    Lookup::new(move |host| {
        let authenticator = authenticator.clone();
        async move { authenticator.addresses(&host).await }
    })
}

/// Ids and secrets from the machine's clock and randomness: the one place that reads them.
pub fn system_mint() -> Mint {
    #[expect(clippy::disallowed_methods, reason = "every other clock comes from here")]
    let now = || {
        let since_epoch =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    };
    let random = |buffer: &mut [u8]| {
        // AWS-LC ends the process rather than hand out bytes that can be guessed; an error here
        // means that it could not even say so, and a key of zeros must never be made.
        if aws_lc_rs::rand::fill(buffer).is_err() {
            std::process::abort();
        }
    };
    Mint::new(Clock::new(now), Arc::new(random))
}
