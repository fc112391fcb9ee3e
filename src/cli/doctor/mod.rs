//! `gatepost doctor`: checks a gateway and what surrounds it, and says what to do; beside a running
//! server, or before there is one.
//!
//! `files`, `ports` and `loop_message` check what only the command line sees; the others are those of
//! `app::doctor`. Checks that wait do so beside each other, and the whole ends within about two
//! minutes.

mod files;
mod loop_message;
mod ports;
mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures_util::future::ready;
use futures_util::{StreamExt as _, stream};
use tokio::time::{Instant, timeout};

use self::loop_message::TestMessage;
use self::ports::Listeners;
use self::report::Report;
use super::global_args::GlobalArgs;
use super::{Failure, serve};
use crate::app::doctor::domain::{OwnAddresses, ServerFacts, ShownCertificate};
use crate::app::doctor::{
    Check, CheckSubject, certificates, database, domain, egress, originals, resolvers,
};
use crate::config::{ServeOptions, StoreOptions};
use crate::domain::causes::with_causes;
use crate::domain::domain_name::DomainName;
use crate::domain::id::Mint;
use crate::egress::guard::Guard;
use crate::run::{self, Settings};
use crate::store::{Serving, Store};
use crate::verify::{Authenticator, Servers};

/// Longest wait for one look-up, connection or greeting.
const WITHIN: Duration = Duration::from_secs(8);
/// Longest wait for all checks of one subject: a look-up may follow another.
const OF_ONE_SUBJECT: Duration = Duration::from_secs(30);
/// Most domains that are checked at the same time.
const DOMAINS_AT_ONCE: usize = 8;

/// Check settings, files, ports, database, DNS and certificates, and say what to do
#[derive(Args, Debug)]
#[command(
    after_help = "Prints {\"checks\":[{\"check\":…,\"about\":…,\"result\":…,\"detail\":…,\"advice\":…,\
                  \"line\":…}],\"failures\":…,\"warnings\":…} with --json. Exit codes: 0 no failure, 1 a \
                  failure, 2 the settings cannot be read."
)]
pub(super) struct Doctor {
    #[command(flatten)]
    options: ServeOptions,
    /// Check the DNS of these domains [default: all domains of the store]
    #[arg(long = "domain", value_name = "DOMAIN", value_delimiter = ',')]
    domains: Vec<String>,
    /// Send a test message to this address of an Agent through the running server, and follow it
    #[arg(long, value_name = "ADDRESS")]
    send_test: Option<String>,
    /// The private key that signs the test message, PEM; made if it is missing
    /// [default: DATA/doctor/gatepost-doctor._domainkey.DOMAIN.pem; with PostgreSQL none]
    #[arg(long, value_name = "FILE", requires = "send_test")]
    test_key: Option<PathBuf>,
}

impl Doctor {
    pub(super) async fn run(self, global: &GlobalArgs) -> Result<ExitCode, Failure> {
        let read = async {
            let options = global.store.with(self.options)?;
            let place = super::global_args::place(&options)?;
            let domains: Result<Vec<_>, _> =
                self.domains.iter().map(|text| DomainName::parse(text)).collect();
            let message = TestMessage::read(self.send_test.as_deref(), self.test_key, &place)?;
            Ok::<_, Failure>((serve::settings(options).await?, domains?, message))
        };
        let (settings, domains, message) = match read.await {
            Ok(read) => read,
            Err(failure) => return Ok(cannot_begin(&failure)),
        };
        let mint = run::system_mint();
        let mut report = Report::new(global.json);
        let (opened, listeners) =
            tokio::join!(Opened::of(&settings, &global.store, &mint), ports::look(&settings));
        let shown = opened.shown(&listeners);
        let (general, of_domains) =
            tokio::join!(opened.check(&settings, &mint, &listeners), async {
                opened.of_domains(&settings, &mint, opened.domains(domains).await, shown).await
            });
        for checks in [general, listeners.checks.clone(), of_domains] {
            report.show(checks)?;
        }
        match (&message, &opened.store) {
            (Some(message), Some(store)) => {
                report.show(message.send(&settings, store, &mint).await)?;
            }
            (Some(_), None) => {
                let topic = Check::of(CheckSubject::Message, "");
                report.show(vec![topic.skipped("no message is sent without the store")])?;
            }
            (None, _) => {}
        }
        opened.close().await;
        report.finish()
    }
}

/// Checks all that a start needs before it binds its addresses, for `serve --check`.
pub(super) async fn before_start(
    global: &GlobalArgs,
    options: ServeOptions,
) -> Result<ExitCode, Failure> {
    let read = async { serve::settings(global.store.with(options)?).await };
    let settings = match read.await {
        Ok(settings) => settings,
        Err(failure) => return Ok(cannot_begin(&failure)),
    };
    let (mint, mut report) = (run::system_mint(), Report::new(global.json));
    if let Some(holder) = Serving::holder(&settings.place.database) {
        let topic = Check::of(CheckSubject::Database, settings.place.database.to_string());
        report.show(vec![topic.warning(
            format!("{holder} serves the store now"),
            "stop that server before you start another one; right as it is before a restart",
        )])?;
    }
    let opened = Opened::of(&settings, &global.store, &mint).await;
    report.show(opened.check(&settings, &mint, &Listeners::default()).await)?;
    opened.close().await;
    report.finish()
}

fn cannot_begin(failure: &Failure) -> ExitCode {
    eprintln!("gatepost: {}", with_causes(failure.as_ref()));
    ExitCode::from(2)
}

/// The store and the certificates of the settings, as far as they can be opened.
struct Opened<'o> {
    /// How the settings were found.
    options: &'o StoreOptions,
    store: Option<Store>,
    certificates: run::OwnCertificates,
    /// Parts that could not be opened.
    failures: Vec<Check>,
}

impl<'o> Opened<'o> {
    async fn of(settings: &Settings, options: &'o StoreOptions, mint: &Mint) -> Self {
        let mut failures = Vec::new();
        let place = &settings.place;
        // Never migrated: it may be in use, and the wait may end before a migration does.
        let opening = Store::open_as_is(place, &settings.rules.store, mint.clone());
        let store = match timeout(OF_ONE_SUBJECT, opening).await {
            Ok(Ok(store)) => Some(store),
            Ok(Err(error)) => {
                failures.push(database::unopened(&place.database.to_string(), &error));
                None
            }
            Err(_) => {
                failures.push(late(CheckSubject::Database, OF_ONE_SUBJECT));
                None
            }
        };
        let reading = run::own_certificates(&settings.tls, place, mint.clock());
        let certificates = reading.await.unwrap_or_else(|error| {
            let topic = Check::of(CheckSubject::Certificate, "");
            let detail = serve::start_errors::NamedSettings::of(settings).explain(error);
            let advice = "correct the files: a start would fail";
            failures.push(topic.failure(with_causes(detail.as_ref()), advice));
            run::OwnCertificates::default()
        });
        Self { options, store, certificates, failures }
    }

    /// How to read the certificate that SMTP clients are shown who ask for a host.
    fn shown(&self, listeners: &Listeners) -> ShownCertificate {
        let own = self.certificates.of_listeners.iter().find(|(listener, _)| *listener == "smtp");
        let own = listeners.certificate.clone().or_else(|| own.and_then(|(_, own)| own.clone()));
        let of_names = self.certificates.of_names.clone();
        Arc::new(move |host| {
            let of_host = of_names.iter().find(|(name, _)| name.as_str() == host);
            of_host.map(|(_, certificate)| certificate.clone()).or_else(|| own.clone())
        })
    }

    /// Checks everything but ports, domains and the test message.
    async fn check(&self, settings: &Settings, mint: &Mint, listeners: &Listeners) -> Vec<Check> {
        let rules = &settings.rules;
        let (clock, location) = (mint.clock(), settings.place.database.to_string());
        let dns = settings.dns.clone().map_or(Servers::System, Servers::Given);
        let of_store = async {
            let Some(store) = &self.store else { return Vec::new() };
            let (database, space, originals, secrets) = tokio::join!(
                in_time(CheckSubject::Database, async {
                    database::check(store, &location, &rules.store.connections, clock).await
                }),
                in_time(CheckSubject::Disk, async {
                    vec![originals::space(store, rules.smtp.space.min_free_bytes).await]
                }),
                in_time(CheckSubject::Originals, async { vec![originals::check(store).await] }),
                in_time(CheckSubject::Files, files::of_sealed(settings, store, mint)),
            );
            [secrets, database, space, originals].concat()
        };
        let asking = in_time(CheckSubject::Resolver, resolvers::check(dns, mint, WITHIN));
        let (of_store, resolvers) = tokio::join!(of_store, asking);
        let allowed: Vec<_> = settings.egress_allow.iter().map(ToString::to_string).collect();
        let guard = Guard::new(settings.egress_allow.clone(), &rules.webhooks);
        let egress = egress::check(&guard, &allowed.join(","));
        let certificates = self.of_certificates(settings, mint, listeners);
        let files = files::check(settings, self.options, listeners, mint);
        let clock = files::of_time_service(Path::new(files::TIMESYNC)).into_iter().collect();
        let general = [files, self.failures.clone(), of_store, clock, vec![egress]].concat();
        [general, resolvers, certificates].concat()
    }

    /// Checks the certificate of each listener: the one that it shows, else that of the files.
    fn of_certificates(
        &self,
        settings: &Settings,
        mint: &Mint,
        listeners: &Listeners,
    ) -> Vec<Check> {
        let (now, warning) = (mint.clock().now(), settings.rules.smtp.tls.expiry_warning());
        let of_one = |(listener, own): &run::OwnCertificate| {
            let host = (*listener == "smtp").then_some(&settings.hostname);
            match listeners.shown(listener).or(own.as_ref()) {
                Some(certificate) => certificates::check(listener, certificate, host, now, warning),
                None => Check::of(CheckSubject::Certificate, *listener)
                    .skipped("there is none yet: the server makes or gets it when it runs"),
            }
        };
        let of_policies = self.certificates.of_policies.iter();
        let of_policies =
            of_policies.map(|first| certificates::check_of_policies(first, now, warning));
        self.certificates.of_listeners.iter().map(of_one).chain(of_policies).collect()
    }

    /// The domains to check: the named ones, else those of the store.
    async fn domains(&self, named: Vec<DomainName>) -> Vec<DomainName> {
        match &self.store {
            Some(store) if named.is_empty() => {
                let held = timeout(WITHIN, store.domains(None)).await;
                // A store that fails is told by its own check.
                let held = held.ok().and_then(Result::ok).unwrap_or_default();
                let mut held: Vec<_> = held.into_iter().map(|one| one.domain).collect();
                held.dedup();
                held
            }
            _ => named,
        }
    }

    /// Checks the DNS of domains, some at a time. `shown` is the certificate of this server.
    async fn of_domains(
        &self,
        settings: &Settings,
        mint: &Mint,
        domains: Vec<DomainName>,
        shown: ShownCertificate,
    ) -> Vec<Check> {
        let rules = &settings.rules;
        let dns =
            match run::authenticator(settings.dns.as_deref(), &rules.intake, &settings.hostname) {
                Ok(dns) => dns,
                // Told with the resolvers.
                Err(_) => return Vec::new(),
            };
        let deadline = Instant::now() + OF_ONE_SUBJECT;
        let facts = ServerFacts {
            hostname: settings.hostname.clone(),
            own: OwnAddresses::look_up(&dns, &settings.own_names(), deadline).await,
            certificate: shown,
            now: mint.clock().now(),
            expiry_warning: rules.smtp.tls.expiry_warning(),
            tls_reports: settings.tls_reports.clone(),
            mta_sts: settings.mta_sts.clone(),
            deadline,
            is_for_operator: true,
        };
        in_turn(&dns, self.store.as_ref(), &domains, &facts, WITHIN).await
    }

    async fn close(&self) {
        if let Some(store) = &self.store {
            store.close().await;
        }
    }
}

/// Checks as many domains as can begin so long before the deadline: in less time, a look-up would
/// fail that is only slow.
async fn in_turn(
    dns: &Authenticator,
    store: Option<&Store>,
    domains: &[DomainName],
    facts: &ServerFacts,
    each: Duration,
) -> Vec<Check> {
    let begun = stream::iter(domains).take_while(|_| ready(Instant::now() + each < facts.deadline));
    let checking = begun
        .enumerate()
        .map(async |(place, one)| (place, domain::check(dns, store, one, facts).await));
    // In any order: a slow one holds up none behind it.
    let found = checking.buffer_unordered(DOMAINS_AT_ONCE);
    let found: BTreeMap<usize, Vec<Check>> = found.collect().await;
    let unchecked = domains.len().saturating_sub(found.len());
    let left = (unchecked > 0).then(|| {
        Check::of(CheckSubject::Mx, "").warning(
            format!("{unchecked} domains were not checked: there was no time left"),
            "name them, some at a time: gatepost doctor --domain DOMAIN,…",
        )
    });
    found.into_values().flatten().chain(left).collect()
}

/// Bounds the checks of one subject.
async fn in_time(subject: CheckSubject, checks: impl Future<Output = Vec<Check>>) -> Vec<Check> {
    let checking = timeout(OF_ONE_SUBJECT, checks).await;
    checking.unwrap_or_else(|_| vec![late(subject, OF_ONE_SUBJECT)])
}

fn late(subject: CheckSubject, limit: Duration) -> Check {
    let detail = format!("it did not answer within {} s", limit.as_secs());
    Check::of(subject, "").failure(detail, "see that it runs, and that the network leads there")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::doctor::Tone;
    use crate::rules::Rules;
    use crate::shutdown::Shutdown;
    use crate::testkit::dns::{DnsServer, Zone};

    const EACH: Duration = Duration::from_secs(1);

    async fn checked(dns: &DnsServer, domains: usize, within: Duration) -> Vec<Check> {
        let domains: Vec<_> = (0..domains)
            .map(|number| DomainName::parse(&format!("d{number}.example")).unwrap())
            .collect();
        let facts = ServerFacts {
            hostname: DomainName::parse("mx.example").unwrap(),
            own: OwnAddresses::default(),
            certificate: Arc::new(|_| None),
            now: run::system_mint().clock().now(),
            expiry_warning: Duration::ZERO,
            tls_reports: None,
            mta_sts: None,
            deadline: Instant::now() + within,
            is_for_operator: true,
        };
        let rules = Rules::defaults().unwrap().intake;
        let dns = run::authenticator(Some(&[dns.addr()]), &rules, &facts.hostname).unwrap();
        in_turn(&dns, None, &domains, &facts, EACH).await
    }

    #[tokio::test]
    async fn no_domain_is_left_out_in_silence() {
        let dns = DnsServer::start(Zone::default(), Shutdown::default()).await.unwrap();
        let is_of_mx =
            |check: &&Check| check.subject == CheckSubject::Mx && !check.about.is_empty();
        let all = checked(&dns, 201, OF_ONE_SUBJECT).await;
        assert_eq!(all.iter().filter(is_of_mx).count(), 201);
        assert!(all.iter().all(|check| !check.detail.contains("no time left")));

        // One silent domain of eight keeps no other from being checked.
        dns.change(|zone| zone.insert("d0.example", "MX", "TIMEOUT", "")).unwrap();
        let all = checked(&dns, 30, EACH * 3).await;
        let of_mx: Vec<_> = all.iter().filter(is_of_mx).collect();
        assert_eq!(of_mx.len(), 30);
        assert!(of_mx[0].detail.contains("cannot be looked up"), "{:?}", of_mx[0]);
        // None begins that would have too little time.
        let all = checked(&dns, 3, EACH).await;
        let last = all.last().unwrap();
        assert_eq!((last.tone, all.len()), (Tone::Warning, 1));
        assert!(last.detail.starts_with("3 domains were not checked"), "{last:?}");
    }
}
