//! Posts of providers, over real HTTP: mail that verifies, every obstacle, and the status that each
//! provider understands.

mod adapter;
mod answers;
mod hostile;
mod relayed;

use std::sync::{Arc, LazyLock, Mutex};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use url::Url;

use crate::app::intake::Gateway;
use crate::app::relay::inbound::Inbound;
use crate::app::relay::sns_certificates::{FetchError, SnsCertificates};
use crate::app::relay::{RelayChange, Relays};
use crate::domain::clock::Timestamp;
use crate::domain::policy::Mode;
use crate::domain::ports::Wake;
use crate::domain::relay::RelayType;
use crate::http::tests::{House, Reply, canary};
use crate::rules::Rules;
use crate::shutdown::Shutdown;
use crate::store::Store;
use crate::testkit::case;
use crate::testkit::dns::{DnsServer, Zone};
use crate::testkit::provider::{
    MailEnvelope, MailgunProof, Posting, SendgridKey, Sns, mailgun, mailgun_signature, postmark,
    sendgrid, ses,
};
use crate::testkit::signer::Key;
use crate::verify::Authenticator;

const FROM: &str = "alice@good.example";
const TO: &str = "agent1@partner.example";
const MAILGUN_KEY: &str = "key-of-mailgun-for-tests";

fn pem() -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/keys/");
    std::fs::read_to_string(format!("{folder}s1._domainkey.good.example.pem")).unwrap()
}

static SNS: LazyLock<Sns> = LazyLock::new(|| Sns::new(&pem(), "sns.amazonaws.com").unwrap());
static SENDGRID: LazyLock<SendgridKey> = LazyLock::new(|| SendgridKey::generate().unwrap());

/// URLs requested from Amazon SNS.
static ASKED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Builds the reception of a house; certificates come from [`SNS`].
pub(super) fn of(
    store: &Store,
    rules: &Rules,
    dns: &Arc<Authenticator>,
    (relays, wake): (Relays, Arc<dyn Wake>),
) -> Inbound {
    let (intake, dns) = (Arc::new(rules.intake.clone()), Arc::clone(dns));
    let gateway = Arc::new(Gateway::new(store.clone(), dns, intake, relays.clone(), wake));
    let signers = SnsCertificates::new(8, |url: Url| async move {
        ASKED.lock().unwrap().push(url.to_string());
        match url.as_str() {
            Sns::CERTIFICATE => Ok(SNS.certificate().as_bytes().to_vec()),
            Sns::CONFIRM => Ok(b"<ConfirmSubscriptionResponse/>".to_vec()),
            page if page.contains("eu-central-1") => Ok(b"<html>Log in</html>".to_vec()),
            _ => Err(FetchError::Status(404)),
        }
    });
    let bare_line_ends = rules.smtp.framing.bare_line_ends;
    Inbound::new(gateway, relays, signers, Arc::new(rules.inbound.clone()), bare_line_ends)
}

/// A house whose Agents accept mail from anybody, with a DNS that has the fixtures' keys.
struct Post {
    house: House,
    dns: DnsServer,
}

impl Post {
    async fn open() -> Self {
        Self::with("").await
    }

    async fn with(rules: &str) -> Self {
        let zone = Zone::parse(case::zone()).unwrap();
        let dns = DnsServer::start(zone, Shutdown::default()).await.unwrap();
        let house = House::asking(dns.addr(), rules).await;
        for agent in ["agent1", "agent2", "agent3"] {
            house.tenancy.set_mode(house.id(agent), Mode::Open).await.unwrap();
        }
        Self { house, dns }
    }

    /// Makes or changes a way in of org1; returns its path.
    async fn way(&self, kind: RelayType, verification: &[(&str, &str)]) -> String {
        self.way_of("org1", kind, verification).await
    }

    async fn way_of(
        &self,
        account: &str,
        kind: RelayType,
        verification: &[(&str, &str)],
    ) -> String {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), Some((*value).to_owned()));
        let verification = Some(verification.iter().map(pair).collect());
        let change = RelayChange { verification, ..RelayChange::default() };
        let relays = &self.house.http.use_cases.relays;
        let way =
            relays.set(self.house.id(account), kind, &change).await.unwrap().inbound_key.unwrap();
        let path = String::from_utf8(way.url.unwrap().expose().to_vec()).unwrap();
        canary::note(path.as_bytes());
        path
    }

    /// The usual way in of each provider.
    async fn usual(&self, kind: RelayType) -> String {
        match kind {
            RelayType::Mailgun => self.way(kind, &[("signingKey", MAILGUN_KEY)]).await,
            RelayType::Sendgrid => self.way(kind, &[("publicKey", &SENDGRID.shown())]).await,
            RelayType::Postmark => self.way(kind, &[("username", "u"), ("password", "p")]).await,
            _ => self.way(kind, &[("topicArn", Sns::TOPIC)]).await,
        }
    }

    /// Posts as a provider does.
    async fn send(&self, path: &str, posting: &Posting) -> Reply {
        let length = posting.body.len();
        let mut request =
            format!("POST {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n").into_bytes();
        for (name, value) in &posting.headers {
            request.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        request.extend_from_slice(format!("Content-Length: {length}\r\n\r\n").as_bytes());
        request.extend_from_slice(&posting.body);
        self.house.exchange(&request).await
    }

    fn now(&self) -> Timestamp {
        self.house.now()
    }

    /// Builds a valid post of this provider.
    fn post(&self, kind: RelayType, raw: &[u8], to: &[&str]) -> Posting {
        let between = MailEnvelope { from: FROM, to };
        let now = self.now();
        match kind {
            RelayType::Mailgun => of_mailgun(raw, to[0], now, &format!("{:050}", now.millis())),
            RelayType::Sendgrid => SENDGRID.sign(sendgrid(raw, between), now).unwrap(),
            RelayType::Postmark => {
                let text = std::str::from_utf8(raw).unwrap();
                // "u:p"
                postmark(text, FROM, to[0]).with("Authorization", "Basic dTpw")
            }
            _ => SNS.notification(&ses(raw, between), now).unwrap(),
        }
    }

    /// How many messages the partner's Agents have.
    async fn messages(&self) -> usize {
        let reply = self.house.get("partner", "/messages/recent?limit=200").await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json().as_array().unwrap().len()
    }

    /// The newest record that org1 sees, whole.
    async fn record(&self) -> Value {
        let list = self.house.get("org1", "/email/intake?limit=1").await.success(200);
        let id = list["intake"][0]["id"].as_str().unwrap();
        let path = format!("/email/intake/{id}");
        self.house.get("org1", &path).await.success(200)["intake"].clone()
    }
}

/// A Mailgun form, signed.
fn of_mailgun(raw: &[u8], to: &str, at: Timestamp, token: &str) -> Posting {
    let timestamp = at.seconds().to_string();
    let signature = mailgun_signature(MAILGUN_KEY.as_bytes(), &timestamp, token);
    let proof = MailgunProof { timestamp: &timestamp, token, signature: &signature };
    Posting::multipart(&mailgun(proof, raw, FROM, to))
}

/// A message to agent1 that verifies at any time: it names none (`t=`).
fn signed(subject: &str) -> Vec<u8> {
    tagged(subject, "")
}

/// A message like that of `signed`, with more tags in the signature.
fn tagged(subject: &str, tags: &str) -> Vec<u8> {
    let fields = [
        ("From", format!("Alice <{FROM}>")),
        ("To", TO.to_owned()),
        ("Subject", subject.to_owned()),
        ("Date", "Mon, 05 Jan 2026 10:00:00 +0000".to_owned()),
        ("Message-ID", format!("<{}@good.example>", subject.replace(' ', "-"))),
    ];
    let body = format!("Hello, {subject}.\r\n");
    let sum = STANDARD.encode(digest(&SHA256, body.as_bytes()));
    let tags = format!(
        "v=1; a=rsa-sha256; c=relaxed/relaxed; d=good.example; s=s1; {tags}\
         h=from:to:subject:date:message-id; bh={sum}; b="
    );
    let line = |(name, value): &(&str, String)| format!("{name}: {value}\r\n");
    let relaxed = |(name, value): &(&str, String)| format!("{}:{value}\r\n", name.to_lowercase());
    let said: String = fields.iter().map(relaxed).collect();
    let said = format!("{said}dkim-signature:{tags}");
    let key = RsaKeyPair::from_pkcs8(Key::from_pem(&pem()).unwrap().der()).unwrap();
    let mut signature = vec![0; key.public_modulus_len()];
    let random = SystemRandom::new();
    key.sign(&RSA_PKCS1_SHA256, &random, said.as_bytes(), &mut signature).unwrap();
    let signature = STANDARD.encode(signature);
    let fields: String = fields.iter().map(line).collect();
    format!("DKIM-Signature: {tags}{signature}\r\n{fields}\r\n{body}").into_bytes()
}

const PROVIDERS: [RelayType; 4] =
    [RelayType::Mailgun, RelayType::Sendgrid, RelayType::Postmark, RelayType::Ses];

/// The answer that tells this provider not to try again.
#[track_caller]
fn refused(kind: RelayType, reply: &Reply, words: &str) {
    match kind {
        RelayType::Postmark => reply.problem(403, "forbidden", words),
        _ => reply.problem(406, "mail_refused", words),
    }
}

fn step<'r>(record: &'r Value, name: &str) -> &'r Value {
    let steps = record["steps"].as_array().unwrap();
    steps.iter().find(|step| step["name"] == name).unwrap_or_else(|| panic!("no {name}: {record}"))
}
