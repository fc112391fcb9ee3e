//! Certificates from an authority by ACME, against pebble: for the SMTP name, kept over restarts,
//! renewed with the same key, and never in the way of mail.

use std::sync::Arc;
use std::time::Duration;

use gatepost::domain::domain_name::DomainName;
use gatepost::egress::client::{Client, Limits, Lookup, Roots};
use gatepost::egress::guard::Guard;
use gatepost::rules::Rules;
use gatepost::run;
use gatepost::shutdown::Shutdown;
use gatepost::tls::Pair;
use gatepost::tls::acme::{Acme, Settings};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::support::pebble::Pebble;
use crate::support::{PATIENCE, local_dns, rules};

/// What makes an operator's waits those of a test.
const QUICK: (&str, &str) = (
    "acme.toml",
    "[renewal]\nafter_percent = 10\njitter_percent = 0\ncheck_seconds = 1\n\
     [retries]\nwait_seconds = [1]\njitter_percent = 0\n",
);

/// Long enough for no renewal. Seconds.
const LONG: u64 = 86_400;

async fn dns(helpers: &Shutdown) -> gatepost::testkit::dns::DnsServer {
    let dns = local_dns(helpers).await;
    dns.change(|zone| zone.insert("mx.agents.example", "A", "NOERROR", "127.0.0.1")).unwrap();
    dns
}

struct Asking {
    installed: mpsc::UnboundedReceiver<(String, String)>,
    shutdown: Shutdown,
}

impl Asking {
    async fn start(pebble: &Pebble, folder: &TempDir, rules: &Rules) -> Self {
        let guard = Guard::new(vec!["127.0.0.0/8".parse().unwrap()], &rules.webhooks);
        let roots = Roots::from_pem(&std::fs::read(pebble.ca_file()).unwrap()).unwrap();
        let limits = Limits::from(&rules.acme);
        let client = Client::trusting(guard, limits, Lookup::system(), &roots).unwrap();
        let settings = Settings {
            directory: pebble.url().parse().unwrap(),
            contact: vec!["mailto:postmaster@agents.example".to_owned()],
            names: vec![DomainName::parse("mx.agents.example").unwrap()],
            http: "127.0.0.1:0".parse().unwrap(),
            folder: folder.path().join("acme"),
            ca_file: None,
        };
        let mint = run::system_mint();
        let mut acme =
            Acme::bind(settings, Arc::new(rules.acme.clone()), client, mint).await.unwrap();
        pebble.port_80.lead_to(acme.http().unwrap());
        let (install, installed) = mpsc::unbounded_channel();
        let install = move |chain: &[u8], key: &[u8]| {
            let text = |octets: &[u8]| String::from_utf8(octets.to_vec()).unwrap();
            install.send((text(chain), text(key)))
        };
        let shutdown = Shutdown::default();
        let until = shutdown.clone();
        acme.show_kept(&install).await;
        shutdown.spawn(acme.run(install, until));
        Self { installed, shutdown }
    }

    async fn next(&mut self) -> (String, String) {
        timeout(PATIENCE, self.installed.recv()).await.unwrap().unwrap()
    }

    async fn finish(self) {
        assert!(self.shutdown.finish(PATIENCE).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_comes_and_stays() {
    let helpers = Shutdown::default();
    let dns = dns(&helpers).await;
    let folder = tempfile::tempdir().unwrap();
    let pebble = Pebble::start(dns.addr(), LONG).await;
    let rules = rules(folder.path(), &[QUICK]);
    let mut asking = Asking::start(&pebble, &folder, &rules).await;
    let (chain, key) = asking.next().await;
    let pair = Pair::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
    assert!(pair.names(&DomainName::parse("mx.agents.example").unwrap()));
    assert_eq!(pebble.issued(), 1);
    asking.finish().await;
    let _ = Duration::from_secs(1);
}
