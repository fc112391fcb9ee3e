//! A running gateway with everything around it, for one test each.

pub mod attempts;
pub mod audit;
pub mod authority;
pub mod browser;
pub mod bucket;
pub mod canary;
pub mod cluster;
pub mod corpus;
pub mod examiner;
pub mod faketime;
pub mod faults;
pub mod goldens;
pub mod haproxy;
pub mod hostile;
pub mod http;
pub mod imports;
pub mod mailers;
pub mod mcp;
pub mod pair;
pub mod patroni;
pub mod pebble;
pub mod ports;
pub mod postgres;
pub mod process;
pub mod program;
pub mod proxy;
pub mod python;
pub mod readers;
pub mod schema;
pub mod session;
pub mod site;
pub mod sources;
pub mod suggesting;
pub mod tls_postgres;
pub mod webdriver;
pub mod wire;
pub mod words_of_pages;

use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gatepost::domain::clock::Clock;
use gatepost::domain::domain_name::DomainName;
use gatepost::domain::id::Mint;
use gatepost::rules::{Rules, StoreRules};
use gatepost::run::{self, FrontEnd, Running, Settings, TlsSettings};
use gatepost::shutdown::Shutdown;
use gatepost::store::Location;
use gatepost::testkit::case;
use gatepost::testkit::dns::{DnsServer, Zone};
use gatepost::testkit::signer::{Key, Signer};
use gatepost::testkit::smtp_client::{Replies, Transaction, deliver};
use serde_json::Value;
use tempfile::TempDir;

use site::Site;

/// Bounds every wait on state; nothing here takes nearly as long.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// A gateway in this process; what surrounds it can be reached through it.
pub struct TestGateway {
    running: Option<Running>,
    pub smtp: SocketAddr,
    pub http: SocketAddr,
    pub metrics: SocketAddr,
    pub folder: TempDir,
    location: Location,
    tls: TlsSettings,
    site: Site,
}

impl Deref for TestGateway {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

/// How the store is used where a test says nothing else.
pub fn store_rules() -> StoreRules {
    Rules::defaults().unwrap().store
}

impl TestGateway {
    /// Starts with the compiled-in rules.
    pub async fn start() -> Self {
        Self::with_rules(&[]).await
    }

    /// Starts with rule files of these names and texts laid over the compiled-in ones.
    pub async fn with_rules(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Folder(folder.path().join("store"));
        Self::at(folder, location, files, |_, _| {}).await
    }

    /// Starts with what `settings` makes of the folder of the test.
    pub async fn encrypted(settings: impl FnOnce(&Path) -> TlsSettings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Folder(folder.path().join("store"));
        let change = |folder: &Path, all: &mut Settings| all.tls = settings(folder);
        Self::at(folder, location, &[], change).await
    }

    /// Starts a gateway with this front end.
    #[cfg(feature = "mailin")]
    pub async fn with_front_end(front_end: FrontEnd, files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Folder(folder.path().join("store"));
        Self::at(folder, location, files, |_, settings| settings.front_end = front_end).await
    }

    /// Starts on a PostgreSQL database of its own.
    pub async fn on_postgres() -> Self {
        Self::on_postgres_with(&[]).await
    }

    /// With rule files of these names and texts.
    pub async fn on_postgres_with(files: &[(&str, &str)]) -> Self {
        let location = postgres::new_location().await;
        Self::at(tempfile::tempdir().unwrap(), location, files, |_, _| {}).await
    }

    /// A connection to its database past the store, where that is PostgreSQL.
    pub async fn postgres(&self) -> sqlx::postgres::PgConnection {
        match &self.location {
            Location::Postgres(url) => postgres::connect(url.expose()).await,
            Location::Folder(folder) => panic!("{} is SQLite", folder.display()),
        }
    }

    /// Starts with the settings as they are changed here.
    pub async fn with_settings(change: impl FnOnce(&mut Settings)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Folder(folder.path().join("store"));
        Self::at(folder, location, &[], |_, settings| change(settings)).await
    }

    async fn at(
        folder: TempDir,
        location: Location,
        files: &[(&str, &str)],
        change: impl FnOnce(&Path, &mut Settings),
    ) -> Self {
        let rules = rules(folder.path(), files);
        let site = Site::build(&location, &rules).await;
        let mut settings = settings(&location, rules, site.dns.addr());
        if matches!(location, Location::Postgres(_)) {
            let keys = folder.path().join("secrets.key");
            std::fs::write(&keys, format!("{}=\n", "A".repeat(43))).unwrap();
            settings.secrets_key = Some(keys);
        }
        change(folder.path(), &mut settings);
        let tls = settings.tls.clone();
        let running = run::start(settings, run::system_mint()).await.unwrap();
        Self {
            smtp: running.smtp,
            http: running.http,
            metrics: running.metrics.unwrap(),
            running: Some(running),
            folder,
            location,
            tls,
            site,
        }
    }

    /// Stops the server and starts another one on the same store.
    pub async fn restart(&mut self) {
        self.stop().await;
        let rules = Rules::defaults().unwrap();
        self.start_again(rules, run::system_mint()).await;
    }

    /// Restarts with rule files of these names and texts, and with this clock.
    pub async fn restart_by(&mut self, files: &[(&str, &str)], clock: Clock) {
        self.stop().await;
        let random = |octets: &mut [u8]| aws_lc_rs::rand::fill(octets).unwrap();
        let mint = Mint::new(clock, Arc::new(random));
        self.start_again(rules(self.folder.path(), files), mint).await;
    }

    async fn start_again(&mut self, rules: Rules, mint: Mint) {
        let running = start(&self.location, rules, self.dns.addr(), mint, self.tls.clone()).await;
        (self.smtp, self.http) = (running.smtp, running.http);
        self.metrics = running.metrics.unwrap();
        self.running = Some(running);
    }

    /// Another server on the same store.
    pub async fn second(&self) -> Running {
        let mint = run::system_mint();
        let rules = Rules::defaults().unwrap();
        start(&self.location, rules, self.dns.addr(), mint, self.tls.clone()).await
    }

    /// Reads its certificate files again.
    pub async fn reload(&self) {
        self.running.as_ref().unwrap().reload().await;
    }

    /// Where it takes mail in with TLS first.
    pub fn smtps(&self) -> SocketAddr {
        self.running.as_ref().unwrap().smtps.unwrap()
    }

    /// Stops the server; everything around it stays.
    pub async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            assert!(running.stop(PATIENCE).await, "the server did not stop by itself");
        }
    }

    /// Ends the test: server, DNS.
    pub async fn finish(mut self) {
        self.stop().await;
        self.site.finish().await;
    }

    /// Sends one message over SMTP.
    pub async fn send(&self, from: &str, to: &[&str], raw: &[u8]) -> Replies {
        let to: Vec<String> = to.iter().map(ToString::to_string).collect();
        let transaction = Transaction { helo: "client.example", from, to: &to, raw };
        deliver(self.smtp, &transaction).await.unwrap()
    }

    /// The answer to a GET with the organization's key, which must be 200.
    pub async fn get(&self, path_and_query: &str) -> Value {
        let (status, body) = self.request("GET", path_and_query, None).await;
        assert_eq!(status, 200, "{path_and_query}: {body}");
        body
    }

    /// Status and body of a request with the organization's key.
    pub async fn request(
        &self,
        method: &str,
        path_and_query: &str,
        body: Option<Value>,
    ) -> (u16, Value) {
        let separator = if path_and_query.contains('?') { '&' } else { '?' };
        let url =
            format!("http://{}/api/v2{path_and_query}{separator}token={}", self.http, self.key);
        let mut request =
            reqwest::Client::new().request(method.parse().unwrap(), url).timeout(PATIENCE);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let answer = http::read(method, request.send().await.unwrap()).await;
        let text = answer.text();
        (answer.status.as_u16(), serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// The flags by which a command finds the store.
    pub fn store_flags(&self) -> Vec<String> {
        match &self.location {
            Location::Folder(data) => vec!["--data".to_owned(), data.display().to_string()],
            Location::Postgres(url) => vec!["--database-url".to_owned(), url.expose().to_owned()],
        }
    }

    /// All messages that the organization's key reaches, read page by page, the newest first.
    pub async fn messages(&self) -> Vec<Value> {
        all_messages(self.http, &self.key).await
    }

    /// Waits until this counts so many, straight from the database: some records are written behind the
    /// reply.
    pub async fn counts(&self, sql: &'static str, wanted: i64) {
        let reached = async {
            while self.count(sql).await != wanted {
                tokio::task::yield_now().await;
            }
        };
        let reached = tokio::time::timeout(PATIENCE, reached).await;
        reached.unwrap_or_else(|_| panic!("not {wanted}: {sql}"));
    }

    /// A count straight from the database.
    pub async fn count(&self, sql: &'static str) -> i64 {
        count(&self.folder.path().join("store"), sql).await
    }
}

/// Starts a server on this store.
async fn start(
    location: &Location,
    rules: Rules,
    dns: SocketAddr,
    mint: Mint,
    tls: TlsSettings,
) -> Running {
    let settings = Settings { tls, ..settings(location, rules, dns) };
    run::start(settings, mint).await.unwrap()
}

/// Settings of a server on this store.
fn settings(location: &Location, rules: Rules, dns: SocketAddr) -> Settings {
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    Settings {
        front_end: FrontEnd::default(),
        smtp: any_port,
        http: any_port,
        metrics: Some(any_port),
        hostname: DomainName::parse("mx.agents.example").unwrap(),
        place: location.into(),
        secrets_key: None,
        public_url: None,
        start_patience: PATIENCE,
        postmaster: None,
        rules,
        dns: Some(vec![dns]),
        egress_allow: vec!["127.0.0.0/8".parse().unwrap()],
        tls: TlsSettings::default(),
        trusted_proxy: Vec::new(),
        cors_origin: Vec::new(),
        console: true,
        mcp: Some(gatepost::mcp::Changes::ByKey),
        releases_secrets: false,
        mta_sts: None,
        tls_reports: None,
        otlp: None,
    }
}

/// The rules of `folder/policies`, made there of files of these names and texts. Where a test says
/// nothing of it, one key may ask for as much as it likes.
pub fn rules(folder: &Path, files: &[(&str, &str)]) -> Rules {
    let policies = folder.join("policies");
    std::fs::create_dir_all(&policies).unwrap();
    let unlimited =
        "[rates]\nreads_per_minute = 0\nwrites_per_minute = 0\nkeyless_per_minute = 0\n";
    std::fs::write(policies.join("access.toml"), unlimited).unwrap();
    for (name, text) in files {
        std::fs::write(policies.join(name), text).unwrap();
    }
    Rules::load(&policies).unwrap()
}

/// A DNS server with the fixtures' zone.
pub async fn local_dns(helpers: &Shutdown) -> DnsServer {
    let zone = Zone::parse(case::zone()).unwrap();
    DnsServer::start(zone, helpers.clone()).await.unwrap()
}

/// Everything under the key, page by page, the newest first.
pub async fn all_messages(http: SocketAddr, key: &str) -> Vec<Value> {
    let client = reqwest::Client::new();
    let mut messages = Vec::new();
    let mut next = Some("/api/v2/messages/recent?limit=200".to_owned());
    while let Some(path) = next {
        let url = format!("http://{http}{path}&token={key}");
        let response = client.get(url).timeout(PATIENCE).send().await.unwrap();
        let answer = http::read("GET", response).await;
        assert_eq!(answer.status, 200);
        next = answer.headers.get("link").and_then(|link| next_page(link.to_str().unwrap()));
        let page: Vec<Value> = serde_json::from_slice(&answer.body).unwrap();
        messages.extend(page);
    }
    messages
}

/// The target of `rel="next"` in a Link header (RFC 8288).
fn next_page(link: &str) -> Option<String> {
    let one = link.split(',').find(|one| one.contains("rel=\"next\""))?;
    let target = one.split_once('<')?.1.split_once('>')?.0;
    Some(target.to_owned())
}

/// A count straight from the database file in `store`.
pub async fn count(store: &Path, sql: &'static str) -> i64 {
    use sqlx::ConnectOptions as _;
    let options = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(store.join("gatepost.db"))
        .read_only(true);
    let mut connection = options.connect().await.unwrap();
    sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap()
}

/// The file `name` of the fixtures.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// A signer with the test key of good.example.
pub fn signer() -> Signer {
    let pem = std::fs::read_to_string(fixture("keys/s1._domainkey.good.example.pem")).unwrap();
    Signer::new(Key::from_pem(&pem).unwrap(), "good.example", "s1")
}

/// A signed message from alice@good.example.
pub fn signed(subject: &str) -> Vec<u8> {
    signer().sign(letter(subject).as_bytes()).unwrap()
}

/// An unsigned message from alice@good.example.
pub fn letter(subject: &str) -> String {
    letter_between("alice@good.example", "support@agents.example", subject)
}

/// An unsigned message.
pub fn letter_between(from: &str, to: &str, subject: &str) -> String {
    let id = uuid::Builder::from_random_bytes({
        let mut octets = [0; 16];
        aws_lc_rs::rand::fill(&mut octets).unwrap();
        octets
    });
    format!(
        "From: Alice Example <{from}>\r\n\
         To: {to}\r\n\
         Subject: {subject}\r\n\
         Date: Mon, 05 Jan 2026 10:00:00 +0000\r\n\
         Message-ID: <{}@good.example>\r\n\
         MIME-Version: 1.0\r\n\
         Content-Type: text/plain; charset=utf-8\r\n\
         \r\n\
         Hello, this is {subject}.\r\n",
        id.into_uuid()
    )
}
