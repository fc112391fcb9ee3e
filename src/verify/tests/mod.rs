//! The room as its callers see it: really signed mail, and a real DNS server on loopback.

mod acceptance;
mod adkim;
mod answers;
mod arc_suite;
mod causes;
mod chains;
mod corpus;
mod dmarc;
mod dns;
mod faults;
mod forge;
mod hostile;
mod iprev;
mod remembered;
mod spf;
mod spf_suite;
mod tag_lists;
mod variants;
mod vectors;
mod yaml;

use std::net::SocketAddr;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Authenticator, Question, Servers};
use crate::domain::address::Address;
use crate::domain::clock::Timestamp;
use crate::domain::policy::Proof;
use crate::domain::ports::Client;
use crate::domain::reason::Reason;
use crate::mail::fields::KnownField;
use crate::mail::scan;
use crate::rules::{IntakeRules, Rules};
use crate::shutdown::Shutdown;
use crate::testkit::dns::{DnsServer, Zone};
use crate::testkit::signer::{Key, Signer};

/// In the year 2096, so that signatures made during the tests are in the past.
pub(super) const NOW: i64 = 4_000_000_000;

pub(super) const MAIL: &str = "From: Boss <boss@good.example>\r\nTo: agent@gw.example\r\n\
    Subject: Hi\r\nDate: Fri, 20 Nov 2026 10:00:00 +0000\r\nMessage-ID: <1@good.example>\r\n\r\n\
    Hello.\r\n";

/// The rules with an operator's changes.
pub(super) fn rules(overrides: &str) -> IntakeRules {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("intake.toml"), overrides).unwrap();
    Rules::load(folder.path()).unwrap().intake
}

pub(super) struct Bench {
    pub(super) dns: DnsServer,
    pub(super) authenticator: Authenticator,
    pub(super) now: i64,
    pub(super) client: Client,
    pub(super) reverse_path: String,
}

/// Returns the RSA key that the fixtures have for the domain, or a new one. A dev build takes half a
/// second to make one.
fn rsa_key(domain: &str) -> Key {
    let path = format!("{}/fixtures/keys/s1._domainkey.{domain}.pem", env!("CARGO_MANIFEST_DIR"));
    match std::fs::read_to_string(path) {
        Ok(pem) => Key::from_pem(&pem).unwrap(),
        Err(_) => Key::generate_rsa().unwrap(),
    }
}

impl Bench {
    pub(super) async fn new() -> Self {
        Self::with(Zone::default(), "").await
    }

    pub(super) async fn with(zone: Zone, overrides: &str) -> Self {
        let dns = DnsServer::start(zone, Shutdown::default()).await.unwrap();
        let servers = Servers::Given(vec![dns.addr()]);
        let authenticator = Authenticator::new(servers, &rules(overrides), "gw.example").unwrap();
        let client = Client {
            address: [192, 0, 2, 1].into(),
            helo: "out.good.example".into(),
            esmtp: true,
            tls: None,
        };
        let reverse_path = "bounce@good.example".into();
        Self { dns, authenticator, now: NOW, client, reverse_path }
    }

    pub(super) fn record(&self, name: &str, kind: &str, rcode: &str, value: &str) {
        self.dns.change(|zone| zone.insert(name, kind, rcode, value)).unwrap();
    }

    pub(super) fn txt(&self, name: &str, value: &str) {
        self.record(name, "TXT", "NOERROR", value);
    }

    /// A signer with a published key.
    pub(super) fn signer(&self, key: Key, domain: &str, selector: &str) -> Signer {
        let signer = Signer::new(key, domain, selector);
        self.txt(&signer.key_name(), &signer.key().txt_record().unwrap());
        signer
    }

    pub(super) fn rsa(&self, domain: &str) -> Signer {
        self.signer(rsa_key(domain), domain, "s1")
    }

    pub(super) async fn check_from(&self, raw: &[u8], sender: &str) -> Authentication {
        let raw = Bytes::copy_from_slice(raw);
        // The scanner's refusals never get this far; where it would refuse, the room gets the
        // sender alone.
        let alone = format!("From: {sender}\r\n\r\n");
        let limits = &self.authenticator.rules.limits;
        let headers = scan::scan(&raw, limits).or_else(|_| scan::scan(alone.as_bytes(), limits));
        let mut headers = headers.unwrap();
        headers.from.address = Address::parse(sender).unwrap();
        let question = Question {
            raw: &raw,
            headers: &headers,
            client: &self.client,
            reverse_path: &self.reverse_path,
            is_tls_report: false,
            now: Timestamp::from_millis(self.now * 1000),
        };
        let answer = self.authenticator.check(question).await;
        assert!(answer.detail.is_ascii() && !answer.detail.contains(['\r', '\n']));
        assert!(answer.detail.len() <= 200, "{}", answer.detail);
        Authentication {
            proof: answer.proof,
            signatures: answer.signatures,
            detail: answer.detail,
            unsigned: answer.unsigned,
            explanation: answer.explanation,
            steps: json!(answer.steps),
            summary: json!(answer.results),
        }
    }

    pub(super) async fn check(&self, raw: &[u8]) -> Authentication {
        self.check_from(raw, "boss@good.example").await
    }

    pub(super) async fn accepts(&self, raw: &[u8]) -> Authentication {
        let answer = self.check(raw).await;
        assert_eq!(answer.proof, Proof::Authenticated, "{answer:#?}");
        answer
    }

    pub(super) async fn refuses(&self, raw: &[u8], reason: Reason, why: &str) -> Authentication {
        let answer = self.check(raw).await;
        assert_eq!(answer.proof, Proof::Unproven(reason), "{answer:#?}");
        assert!(answer.detail.contains(why), "{:?} lacks {why:?}", answer.detail);
        answer
    }
}

/// A result in the form of the records.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Authentication {
    pub(super) proof: Proof,
    pub(super) signatures: Vec<String>,
    pub(super) detail: String,
    pub(super) unsigned: Vec<KnownField>,
    pub(super) explanation: String,
    pub(super) steps: Value,
    pub(super) summary: Value,
}

/// Only SPF, as its step.
pub(super) async fn spf_of(bench: &Bench, client: &Client, reverse_path: &str) -> Value {
    let budget = bench.authenticator.rules.dns.message_budget();
    let input = bench.authenticator.spf_input(tokio::time::Instant::now() + budget);
    json!(super::spf::check(input, client, reverse_path).await.step)
}

pub(super) fn step<'a>(answer: &'a Authentication, name: &str) -> &'a Value {
    answer.steps.as_array().unwrap().iter().find(|step| step["name"] == name).unwrap()
}

#[tokio::test]
async fn servers_are_needed_and_the_systems_will_do() {
    let rules = rules("");
    assert!(Authenticator::new(Servers::Given(Vec::<SocketAddr>::new()), &rules, "gw").is_err());
    if std::path::Path::new("/etc/resolv.conf").exists() {
        Authenticator::new(Servers::System, &rules, "gw").unwrap();
    }
}
