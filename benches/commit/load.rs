//! A store with Agents and destinations, and accepted messages for it as intake makes them, about
//! 6 KB each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use gatepost::app::delivery::Destinations;
use gatepost::app::tenancy::{Claiming, Tenancy};
use gatepost::domain::account::{Account, AccountType};
use gatepost::domain::address::Address;
use gatepost::domain::contact::Handle;
use gatepost::domain::domain_name::DomainName;
use gatepost::domain::event::Category;
use gatepost::domain::evidence::Evidence;
use gatepost::domain::evidence::results::Results;
use gatepost::domain::id::{AccountId, IntakeId, Mint};
use gatepost::domain::intake_record::IntakeRecord;
use gatepost::domain::message::{Digest, Mail, Passage};
use gatepost::domain::policy::Mode;
use gatepost::domain::sender::Sender;
use gatepost::domain::source::Source;
use gatepost::domain::thread::ThreadKeys;
use gatepost::domain::verdict::Verdict;
use gatepost::rules::{Rules, StoreRules};
use gatepost::run;
use gatepost::store::{Accepted, Commit, Committed, Intake, Location, NewMessage, Standing, Store};

const DOMAIN: &str = "agents.example";
const AGENTS: u64 = 20;
/// Number of contacts: more than there are sessions, so that two sessions seldom write to one
/// contact.
const SENDERS: u64 = 400;
/// The part that a person reads; the part in HTML is twice as long.
const TEXT_BYTES: usize = 1_500;
const WEEK: Duration = Duration::from_secs(7 * 86_400);

/// Hands out messages, all different.
pub struct Load {
    store: Store,
    mint: Mint,
    agents: Vec<(Account, Address, Standing)>,
    number: AtomicU64,
    text: String,
    html: String,
    evidence: Evidence,
    results: Arc<Results>,
}

impl Load {
    /// Builds the load in a new store, with these URLs as destinations.
    pub async fn build(location: &Location, rules: &StoreRules, urls: &[String]) -> Self {
        let mint = run::system_mint();
        let store = Store::create(location, rules, mint.clone()).await.unwrap();
        let access = Arc::new(Rules::defaults().unwrap().access);
        let tenancy = Tenancy::new(store.clone(), mint.clone(), Arc::clone(&access));
        let partner = tenancy.create_partner("partner").await.unwrap().id;
        let below = async |kind: AccountType, parent: AccountId| {
            tenancy.create_account(kind, parent, kind.as_str(), &[]).await.unwrap()
        };
        let reseller = below(AccountType::Reseller, partner).await.id;
        let organization = below(AccountType::Organization, reseller).await.id;
        tenancy.add_domain(&DomainName::parse(DOMAIN).unwrap(), organization).await.unwrap();
        let mut agents = Vec::new();
        for number in 0..AGENTS {
            let agent = below(AccountType::Agent, organization).await;
            let own = Address::parse(&format!("agent{number}@{DOMAIN}")).unwrap();
            tenancy.claim_address(&agent, &own, false, Claiming::Never).await.unwrap();
            tenancy.set_mode(agent.id, Mode::Open).await.unwrap();
            // In open mode all senders stand alike.
            let standing = store.standing(agent.id, &own, &sender(0).address).await.unwrap();
            agents.push((agent, own, standing.unwrap()));
        }
        let webhooks = Arc::new(Rules::defaults().unwrap().webhooks);
        let destinations = Destinations::new(store.clone(), mint.clone(), access, webhooks);
        for url in urls {
            let url = url.parse().unwrap();
            destinations.add(organization, url, Category::Incoming, "bench").await.unwrap();
        }
        let (evidence, results) = evidence();
        Self {
            store,
            mint,
            agents,
            number: AtomicU64::new(0),
            text: words(TEXT_BYTES),
            html: words(2 * TEXT_BYTES),
            evidence,
            results: Arc::new(results),
        }
    }

    /// The next message, ready to be committed.
    pub fn next(&self) -> Commit {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let sender = sender(number % SENDERS);
        let place = usize::try_from(number % AGENTS).unwrap();
        let (agent, address, standing) = &self.agents[place];
        let now = self.mint.clock().now();
        let (id, digest) = (self.mint.message(), Digest(sha256(number, "raw")));
        let mail = self.mail(number, sender, address);
        let headers = headers(&mail);
        let raw = [&headers, "\r\n", &self.text, &self.html].concat().into_bytes();
        let record = IntakeRecord {
            id: IntakeId(id.0),
            at: now,
            source: Source::Email,
            lineage: agent.lineage,
            agent: Some(agent.id),
            recipient: address.to_string(),
            sender: Some(Handle::Mailbox(mail.from.address.clone())),
            envelope_from: mail.from.address.to_string(),
            remote_address: "192.0.2.1".parse().unwrap(),
            helo: "mail.sender.example".into(),
            verdict: Verdict::Accepted,
            explanation: "the sender is authenticated and admitted".into(),
            message: Some(id),
            size: raw.len().try_into().unwrap(),
            digest: Some(digest),
            headers: headers.into_bytes(),
            evidence: self.evidence.clone(),
            count: 1,
            took: None,
        };
        let message = NewMessage {
            id,
            lineage: agent.lineage,
            agent: agent.id,
            agent_username: agent.username.clone(),
            organization: agent.lineage.organization.unwrap(),
            at: now,
            mail: Arc::new(mail),
            thread: ThreadKeys::default(),
            tag: None,
            digest,
            authentication: Some(Arc::clone(&self.results)),
            passage: Passage::default(),
        };
        let accepted = Accepted {
            standing: *standing,
            address: address.clone(),
            message,
            raw: Bytes::from(raw),
            // The key of a signature, and the digest.
            arrival_keys: vec![sha256(number, "signature"), digest.0],
            remembered_until: now.plus(WEEK),
        };
        Commit { intakes: vec![Intake { record, accepted: Some(accepted) }], now }
    }

    /// The bytes of the next message that a store has to keep.
    pub fn next_octets(&self) -> Vec<u8> {
        let commit = self.next();
        let Intake { record, accepted } = &commit.intakes[0];
        let accepted = accepted.as_ref().unwrap();
        let message = &accepted.message;
        let evidence = serde_json::to_string(&record.evidence).unwrap();
        let results = serde_json::to_string(&message.authentication).unwrap();
        let texts = [&evidence, &results, &message.mail.text, &message.mail.stripped_text];
        let texts = texts.map(|text| text.as_bytes());
        [accepted.raw.as_ref(), &record.headers, &texts.concat()].concat()
    }

    /// Returns when it is durable.
    pub async fn commit(&self, commit: &Commit) {
        let committed = self.store.commit(commit).await.unwrap();
        assert_eq!(committed, Committed::Done(vec![None]));
    }

    fn mail(&self, number: u64, from: Sender, to: &Address) -> Mail {
        Mail {
            from,
            text: self.text.clone(),
            subject: Some(format!("Question number {number}")),
            to: vec![to.to_string()],
            cc: Vec::new(),
            reply_to: Vec::new(),
            message_id: Some(format!("{number}.{}@sender.example", self.mint.uuid())),
            in_reply_to: Vec::new(),
            references: Vec::new(),
            stripped_text: self.text.clone(),
            auto_submitted: None,
            disposition_notification_to: None,
            attachments: Vec::new(),
            findings: Vec::new(),
        }
    }

    pub async fn close(&self) {
        self.store.close().await;
    }
}

fn sender(number: u64) -> Sender {
    let address = Address::parse(&format!("sender{number}@sender.example")).unwrap();
    Sender { address, name: Some(format!("Sender {number}")) }
}

fn sha256(number: u64, of: &str) -> [u8; 32] {
    digest(&SHA256, format!("{of} {number}").as_bytes()).as_ref().try_into().unwrap()
}

/// Random words, so that a database that compresses gains as much as with a real letter.
fn words(octets: usize) -> String {
    const WORDS: &[&str] = &[
        "invoice", "the", "question", "about", "your", "delivery", "we", "would", "of", "please",
        "answer", "until", "Friday", "customer", "number", "and",
    ];
    let mut text = String::new();
    let mut state: u32 = 1;
    while text.len() < octets {
        // The generator of Numerical Recipes; its high bits are the better ones.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.push_str(WORDS[(state >> 28) as usize]);
        text.push_str(if state.is_multiple_of(11) { "\r\n" } else { " " });
    }
    text
}

/// A header section as it arrives after a few hops, signed.
fn headers(mail: &Mail) -> String {
    let signature = "dGhlIHNpZ25hdHVyZSBvZiBhbiBSU0Ega2V5IG9mIDIwNDggYml0cyBpcyA".repeat(6);
    let hop = "Received: from mail.sender.example (mail.sender.example [192.0.2.1])\r\n\
               \tby relay.sender.example with ESMTPS; Mon, 05 Jan 2026 10:00:00 +0000\r\n";
    format!(
        "DKIM-Signature: v=1; a=rsa-sha256; s=s1; d=sender.example; c=relaxed/relaxed;\r\n\
         \tq=dns/txt; t=1767607200; h=From:To:Subject:Date:Message-ID;\r\n\tb={signature}\r\n\
         {}From: {}\r\nTo: {}\r\nSubject: {}\r\n\
         Date: Mon, 05 Jan 2026 10:00:00 +0000\r\nMessage-ID: <{}>\r\nMIME-Version: 1.0\r\n\
         Content-Type: text/plain; charset=utf-8\r\n",
        hop.repeat(3),
        mail.from.address,
        mail.to.join(", "),
        mail.subject.as_deref().unwrap_or_default(),
        mail.message_id.as_deref().unwrap_or_default(),
    )
}

/// The evidence of a message that was accepted, and what each method came to: those of a fixture.
fn evidence() -> (Evidence, Results) {
    #[derive(serde::Deserialize)]
    struct Shown {
        steps: Evidence,
        authentication: Option<Results>,
    }
    let records = include_str!("../../fixtures/records.json");
    let mut records: BTreeMap<String, Shown> = serde_json::from_str(records).unwrap();
    let shown = records.remove("accepted/address_as_its_own_name").unwrap();
    (shown.steps, shown.authentication.unwrap())
}
