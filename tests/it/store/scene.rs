//! A store with a small tree of accounts, and messages to put into it.

use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use gatepost::app::tenancy::record::account_record;
use gatepost::domain::account::{Account, AccountType};
use gatepost::domain::address::Address;
use gatepost::domain::audit::{Act, Actor};
use gatepost::domain::automation::{Automation, Origin};
use gatepost::domain::clock::Timestamp;
use gatepost::domain::contact::Handle;
use gatepost::domain::delivery::Attempt;
use gatepost::domain::destination::{Destination, Health, Wants};
use gatepost::domain::domain_name::DomainName;
use gatepost::domain::event::Category;
use gatepost::domain::evidence::iprev::Iprev;
use gatepost::domain::evidence::results::Results;
use gatepost::domain::evidence::{Evidence, Facts, Step};
use gatepost::domain::id::{AccountId, AttemptId, DestinationId, IntakeId, MessageId, Mint};
use gatepost::domain::intake_record::IntakeRecord;
use gatepost::domain::marker::Marker;
use gatepost::domain::message::{Attachment, Digest, Mail, Passage};
use gatepost::domain::policy::Mode;
use gatepost::domain::scope::Scope;
use gatepost::domain::secret::Secret;
use gatepost::domain::sender::Sender;
use gatepost::domain::source::Source;
use gatepost::domain::thread::ThreadKeys;
use gatepost::domain::verdict::Verdict;
use gatepost::run;
use gatepost::store::{
    Accepted, AccountCreation, AddressClaim, Claimed, Commit, Committed, Intake, Location,
    NewAccount, NewDestination, NewMessage, Page, Standing, Store,
};
use sqlx::postgres::PgConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Executor as _};
use tempfile::TempDir;

use crate::support::{postgres, store_rules};

pub const DOMAIN: &str = "agents.example";
pub const SENDER: &str = "alice@good.example";
pub const SECOND: i64 = 1000;
pub const DAY: i64 = 86_400 * SECOND;
/// Where the tests' time begins.
pub const START: i64 = 1_750_000_000_000;

/// partner > reseller > organization > two Agents, both in `open` mode.
pub struct Scene {
    pub store: Store,
    pub partner: Account,
    pub reseller: Account,
    pub organization: Account,
    pub agent: Account,
    pub other: Account,
    pub location: Location,
    pub folder: TempDir,
    counter: AtomicU64,
}

pub fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(START + millis)
}

/// Done by the operator at this moment.
pub fn by(at: Timestamp) -> Act<'static> {
    Actor::OPERATOR.at(at)
}

/// A claim to an address, as no catch-all, in a domain that has an owner.
pub fn address_claim<'a>(agent: &'a Account, address: &'a Address) -> AddressClaim<'a> {
    AddressClaim { agent, address, catch_all: false, domain_for: None, most: 9 }
}

/// Returns the account that owns a domain.
pub async fn domain_owner(store: &Store, domain: &DomainName) -> Option<AccountId> {
    let held = store.domains(None).await.unwrap();
    let owned = held.into_iter().find(|one| one.domain == *domain && one.challenge.is_none());
    owned.map(|one| one.account)
}

pub fn address(text: &str) -> Address {
    Address::parse(text).unwrap()
}

/// Makes the ids of the tests' samples. It is one for all of them: two mints give their ids of one
/// millisecond in no order.
pub fn mint() -> &'static Mint {
    static MINT: LazyLock<Mint> = LazyLock::new(run::system_mint);
    &MINT
}

/// A second handle on the same folder, as another process has one.
pub async fn open(folder: &Path) -> Store {
    Store::open(&Location::Folder(folder.to_owned()), &store_rules(), run::system_mint())
        .await
        .unwrap()
}

/// The database file itself, past the store.
pub async fn database(folder: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(folder.join("gatepost.db")).connect().await.unwrap()
}

/// One that was answered so.
pub fn attempt(millis: i64, status: u16) -> Attempt {
    Attempt {
        id: AttemptId(mint().uuid()),
        at: at(millis),
        latency_ms: 12,
        status: Some(status),
        response: b"ok".to_vec(),
        error: None,
    }
}

pub fn everything() -> Page {
    Page { limit: 1000, from: None, until: None }
}

/// The databases that keep the same promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Sqlite,
    Postgres,
}

impl Scene {
    /// In a new database of this kind.
    pub async fn new(kind: Kind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = match kind {
            Kind::Sqlite => Location::Folder(folder.path().join("store")),
            Kind::Postgres => postgres::new_location().await,
        };
        let store = Store::create(&location, &store_rules(), run::system_mint()).await.unwrap();
        let partner = account(&store, AccountType::Partner, None, "partner").await;
        let reseller = account(&store, AccountType::Reseller, Some(partner.id), "reseller").await;
        let organization =
            account(&store, AccountType::Organization, Some(reseller.id), "organization").await;
        let agent = agent(&store, &organization, "desk").await;
        let other = self::agent(&store, &organization, "other").await;
        let counter = AtomicU64::new(0);
        Self { store, partner, reseller, organization, agent, other, location, folder, counter }
    }

    pub fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("store")
    }

    /// A second handle, as another process has one.
    pub async fn open(&self) -> Store {
        Store::open(&self.location, &store_rules(), run::system_mint()).await.unwrap()
    }

    /// A count past the store.
    pub async fn count(&self, sql: &'static str) -> i64 {
        match &self.location {
            Location::Folder(folder) => crate::support::count(folder, sql).await,
            Location::Postgres(_) => {
                sqlx::query_scalar(sql).fetch_one(&mut self.postgres().await).await.unwrap()
            }
        }
    }

    /// Bytes straight from the database, one column.
    pub async fn octets(&self, sql: &'static str) -> Vec<Vec<u8>> {
        match &self.location {
            Location::Folder(folder) => {
                sqlx::query_scalar(sql).fetch_all(&mut database(folder).await).await.unwrap()
            }
            Location::Postgres(_) => {
                sqlx::query_scalar(sql).fetch_all(&mut self.postgres().await).await.unwrap()
            }
        }
    }

    /// A connection past the store.
    pub async fn postgres(&self) -> PgConnection {
        match &self.location {
            Location::Postgres(url) => postgres::connect(url.expose()).await,
            Location::Folder(folder) => panic!("{} is SQLite", folder.display()),
        }
    }

    /// A connection up to whose `COMMIT` no change can be audited: each waits with its rows written.
    pub async fn before_audit(&self) -> PgConnection {
        let mut beside = self.postgres().await;
        beside.execute("BEGIN; LOCK TABLE audit_entries IN SHARE MODE").await.unwrap();
        beside
    }

    /// Changes the database past the store.
    pub async fn execute(&self, sql: &'static str) {
        match &self.location {
            Location::Folder(folder) => {
                database(folder).await.execute(sql).await.unwrap();
            }
            Location::Postgres(_) => {
                self.postgres().await.execute(sql).await.unwrap();
            }
        }
    }

    /// An Agent of another reseller and organization.
    pub async fn stranger(&self) -> Account {
        let store = &self.store;
        let reseller = account(store, AccountType::Reseller, Some(self.partner.id), "r2").await;
        let organization = account(store, AccountType::Organization, Some(reseller.id), "o2").await;
        agent(store, &organization, "stranger").await
    }

    /// A message from `SENDER` for `agent`, as the policy stands now.
    pub async fn intake(&self, agent: &Account, millis: i64) -> Intake {
        self.intake_from(agent, millis, SENDER, Some("Alice")).await
    }

    pub async fn intake_from(
        &self,
        agent: &Account,
        millis: i64,
        from: &str,
        name: Option<&str>,
    ) -> Intake {
        let number = self.counter.fetch_add(1, Ordering::SeqCst);
        let raw = Bytes::from(format!("message {number}"));
        let mut key = [0; 32];
        key[..8].copy_from_slice(&number.to_be_bytes());
        let own = own_address(agent);
        let standing = self.standing(agent, &own, from).await;
        let id = mint().message();
        let record = record(agent, millis, Verdict::Accepted);
        Intake {
            record: IntakeRecord {
                id: IntakeId(id.0),
                message: Some(id),
                sender: Some(Handle::Mailbox(address(from))),
                size: raw.len().try_into().unwrap(),
                digest: Some(Digest(key)),
                ..record
            },
            accepted: Some(Accepted {
                standing,
                address: own,
                message: NewMessage {
                    id,
                    lineage: agent.lineage,
                    agent: agent.id,
                    agent_username: agent.username.clone(),
                    organization: agent.lineage.organization.unwrap(),
                    at: at(millis),
                    mail: mail(from, name).into(),
                    thread: ThreadKeys::default(),
                    tag: None,
                    digest: Digest(key),
                    authentication: Some(results().into()),
                    passage: passage(),
                },
                raw,
                arrival_keys: vec![key],
                remembered_until: at(millis + 7 * DAY),
            }),
        }
    }

    pub async fn standing(&self, agent: &Account, to: &Address, from: &str) -> Standing {
        self.store.standing(agent.id, to, &address(from)).await.unwrap().unwrap()
    }

    /// Stores one message; answers its id.
    pub async fn deliver(&self, agent: &Account, millis: i64) -> MessageId {
        let intake = self.intake(agent, millis).await;
        let id = intake.record.message.unwrap();
        assert_eq!(self.commit(vec![intake], millis).await, Committed::Done(vec![None]));
        id
    }

    pub async fn commit(&self, intakes: Vec<Intake>, millis: i64) -> Committed {
        self.store.commit(&Commit { intakes, now: at(millis) }).await.unwrap()
    }

    /// Brings all messages into the index of search.
    pub async fn index(&self) {
        while self.store.index_messages(250, 65_536).await.unwrap() > 0 {}
        assert_eq!(self.store.count_unindexed(1).await.unwrap(), 0);
    }

    /// A destination of `account`.
    pub async fn listen(&self, account: &Account, category: Category, url: &str) -> Destination {
        self.keep(destination(account.id, category, url)).await
    }

    /// One that wants the events of each room in order.
    pub async fn listen_in_order(&self, account: &Account, category: Category) -> Destination {
        let mut new = destination(account.id, category, "https://ordered.example/");
        new.wants.ordered = true;
        self.keep(new).await
    }

    async fn keep(&self, new: Destination) -> Destination {
        let made = self.store.insert_destination(&new, 100, by(at(0))).await.unwrap();
        assert_eq!(made, NewDestination::Created);
        new
    }
}

pub fn subtree(account: &Account) -> Scope {
    Scope::subtree(account.id, account.kind)
}

pub fn destination(account: AccountId, category: Category, url: &str) -> Destination {
    Destination {
        id: DestinationId(mint().uuid()),
        account,
        url: url.parse().unwrap(),
        category,
        label: "test".into(),
        wants: Wants::default(),
        secret: Secret::new([7; 32]),
        secret_rotated_at: None,
        former_secrets: Vec::new(),
        disabled: None,
        health: Health::default(),
        created_at: at(0),
    }
}

pub fn own_address(agent: &Account) -> Address {
    address(&format!("{}@{}.{DOMAIN}", agent.name, agent.lineage.organization.unwrap()))
}

pub async fn account(
    store: &Store,
    kind: AccountType,
    parent: Option<AccountId>,
    name: &str,
) -> Account {
    let new = NewAccount::plain(kind, name, parent, account_record);
    match store.create_account(&new, 9, by(at(0))).await.unwrap() {
        AccountCreation::Account(made) => *made,
        refused => panic!("{refused:?}"),
    }
}

/// An Agent in `open` mode, with the address `own_address`.
pub async fn agent(store: &Store, organization: &Account, name: &str) -> Account {
    let agent = account(store, AccountType::Agent, Some(organization.id), name).await;
    let (own, domain_for) = (own_address(&agent), Some(organization.id));
    let claim = AddressClaim { domain_for, ..address_claim(&agent, &own) };
    let claimed = store.claim_address(&claim, by(at(0))).await.unwrap();
    assert_eq!(claimed, Claimed::Yes);
    store.set_mode(agent.id, Mode::Open, by(at(0))).await.unwrap();
    agent
}

pub fn record(agent: &Account, millis: i64, verdict: Verdict) -> IntakeRecord {
    IntakeRecord {
        id: IntakeId(mint().uuid()),
        at: at(millis),
        source: Source::Email,
        lineage: agent.lineage,
        agent: Some(agent.id),
        recipient: own_address(agent).to_string(),
        sender: Some(Handle::Mailbox(address(SENDER))),
        envelope_from: SENDER.into(),
        remote_address: "192.0.2.1".parse().unwrap(),
        helo: "client.example".into(),
        verdict,
        explanation: "as the test has it".into(),
        message: None,
        size: 9,
        digest: Some(Digest([3; 32])),
        headers: b"From: x\r\n".to_vec(),
        evidence: evidence(),
        count: 1,
        took: None,
    }
}

/// How every message of the scene came.
pub fn passage() -> Passage {
    let signs = vec!["List-Id".to_owned()];
    let automation = Automation { origin: Origin::List, may_auto_reply: false, signs };
    Passage { marker: Marker::read(&[b'7'; 32]), automation: Some(automation) }
}

fn mail(from: &str, name: Option<&str>) -> Mail {
    Mail {
        from: Sender { address: address(from), name: name.map(Into::into) },
        text: "Hello".into(),
        subject: Some("Subject".into()),
        to: vec!["desk@agents.example".into()],
        cc: Vec::new(),
        reply_to: Vec::new(),
        message_id: Some("1@good.example".into()),
        in_reply_to: Vec::new(),
        references: Vec::new(),
        stripped_text: "Hello".into(),
        auto_submitted: None,
        disposition_notification_to: None,
        attachments: vec![Attachment {
            part: 2,
            content_type: "image/png".into(),
            filename: "a.png".into(),
            size: 4,
            listed: true,
        }],
        findings: Vec::new(),
    }
}

fn results() -> Results {
    Results { aligned_domain: Some("good.example".into()), ..Results::default() }
}

fn evidence() -> Evidence {
    let facts = Facts::Iprev(Iprev { client: "192.0.2.1".into() });
    let dns = Vec::new();
    Step { facts, result: "none".into(), detail: String::new(), dns, micros: 1 }.into()
}
