//! `gatepost doctor` beside a running server and without one: each check right and wrong, with what to
//! do.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use gatepost::store::Location;
use gatepost::testkit::receiver::Reply;
use serde_json::Value;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use crate::support::authority::Authority;
use crate::support::bucket::Bucket;
use crate::support::ports::free_port;
use crate::support::process::{Server, gatepost};
use crate::support::site::Site;
use crate::support::sources::read;
use crate::support::{PATIENCE, fixture, http, postgres, rules};

const HOST: &str = "mx.agents.example";
const AGENT: &str = "support@agents.example";

/// The result of a run.
struct Said {
    code: Option<i32>,
    checks: Vec<Value>,
    all: Value,
}

impl Said {
    /// The check of this kind about something with these words in it, if there is one.
    fn of(&self, kind: &str, about: &str) -> Option<&Value> {
        let is_it =
            |row: &&Value| row["check"] == kind && row["about"].as_str().unwrap().contains(about);
        self.checks.iter().find(is_it)
    }

    fn row(&self, kind: &str, about: &str) -> &Value {
        let row = self.of(kind, about);
        row.unwrap_or_else(|| panic!("no {kind} of {about}: {:#?}", self.checks))
    }

    fn expect(&self, (kind, about): (&str, &str), result: &str, words: &[&str]) {
        let row = self.row(kind, about);
        let text = |name: &str| row[name].as_str().unwrap_or_default();
        let said = [text("detail"), text("advice"), text("line")].join("; ");
        assert_eq!(row["result"], result, "{kind} of {about}: {said}");
        for word in words {
            assert!(said.contains(word), "{kind} of {about}: {said} lacks {word}");
        }
    }
}

/// Runs the command with its result as JSON.
async fn doctor(folder: &Path, arguments: &[&str]) -> Said {
    let output = gatepost(folder, &[&["doctor", "--json"], arguments].concat()).await;
    let all: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let checks = all["checks"].as_array().unwrap().clone();
    let of = |result: &str| checks.iter().filter(|row| row["result"] == result).count();
    assert_eq!(all["failures"], of("failure"));
    assert_eq!(all["warnings"], of("warning"));
    assert_eq!(output.status.code(), Some(i32::from(of("failure") > 0)));
    Said { code: output.status.code(), checks, all }
}

/// A site whose DNS leads to the server, and a folder for what is beside it.
struct Ward {
    folder: TempDir,
    location: Location,
    site: Site,
}

impl Ward {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Folder(folder.path().join("store"));
        Self::at(folder, location).await
    }

    async fn at(folder: TempDir, location: Location) -> Self {
        let rules = rules(folder.path(), &[]);
        let site = Site::build(&location, &rules).await;
        site.leave_store().await;
        let ward = Self { folder, location, site };
        ward.publish("agents.example", "MX", &["10 mx.agents.example"]);
        ward.publish(HOST, "A", &["8.8.4.4"]);
        ward.publish("4.4.8.8.in-addr.arpa", "PTR", &[HOST]);
        ward.publish(".", "DNSKEY", &[&"k".repeat(700)]);
        ward
    }

    fn publish(&self, name: &str, kind: &str, values: &[&str]) {
        self.site.dns.change(|zone| {
            zone.remove(name, kind).unwrap();
            for value in values {
                zone.insert(name, kind, "NOERROR", value).unwrap();
            }
        });
    }

    fn data(&self) -> String {
        self.folder.path().join("store").display().to_string()
    }

    async fn serve(&self) -> Server {
        Server::start_on(&self.location, self.folder.path(), self.site.dns.addr()).await
    }

    /// Runs the command with the settings of the server, and these arguments.
    async fn doctor(&self, server: Option<&Server>, more: &[&str]) -> Said {
        let dns = self.site.dns.addr().to_string();
        let at = |address: Option<SocketAddr>| {
            address.map_or_else(|| "127.0.0.1:0".to_owned(), |address| address.to_string())
        };
        let (smtp, http) =
            (at(server.map(|server| server.smtp)), at(server.map(|server| server.http)));
        let store = match &self.location {
            Location::Folder(data) => ["--data".to_owned(), data.display().to_string()],
            Location::Postgres(url) => ["--database-url".to_owned(), url.expose().to_owned()],
        };
        let own = ["--hostname", HOST, "--dns", &dns, "--http", &http];
        let smtp = if more.contains(&"--smtp") { &[][..] } else { &["--smtp", &smtp] };
        let own = [&own[..], &[store[0].as_str(), store[1].as_str()], smtp].concat();
        doctor(self.folder.path(), &[&own, more].concat()).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_in_health_is_said_to_be() {
    let ward = Ward::new().await;
    let server = ward.serve().await;
    let said = ward.doctor(Some(&server), &[]).await;
    assert_eq!(said.code, Some(0), "{:#}", said.all);
    said.expect(("settings", ""), "ok", &["this server is mx.agents.example"]);
    said.expect(("files", "store"), "ok", &["it is private"]);
    said.expect(("files", "secrets.key"), "ok", &["by its owner alone"]);
    said.expect(("database", "store"), "ok", &["SQLite 3.", "was committed"]);
    said.expect(("clock", ""), "skipped", &["no other to compare"]);
    said.expect(("disk", ""), "ok", &["MiB are free"]);
    said.expect(("originals", "blobs"), "ok", &["written, read and removed"]);
    said.expect(("egress", ""), "ok", &["public addresses only"]);
    let words = ["invents no names", "large answers arrive over UDP"];
    said.expect(("resolver", "127.0.0.1:"), "ok", &words);
    said.expect(("certificate", "smtp"), "ok", &["for mx.agents.example, until"]);
    said.expect(("port", "--smtp 127.0.0.1:"), "ok", &["this server answers there"]);
    said.expect(("port", "--http 127.0.0.1:"), "ok", &["this server answers there"]);
    said.expect(("mx", "agents.example"), "ok", &["mail goes to mx.agents.example (10)"]);
    said.expect(("address", HOST), "ok", &["it is 8.8.4.4"]);
    said.expect(("ptr", "8.8.4.4"), "ok", &["8.8.4.4 is mx.agents.example"]);
    said.expect(("tlsa", HOST), "skipped", &["_25._tcp.mx.agents.example. TLSA 3 1 1 "]);
    said.expect(("mta-sts", "agents.example"), "skipped", &["no policy"]);

    // The key is that which the server shows.
    let line = said.row("tlsa", HOST)["line"].as_str().unwrap();
    let record = line.split_once("TLSA ").unwrap().1.to_owned();
    ward.publish("_25._tcp.mx.agents.example", "TLSA", &[&record]);
    let said = ward.doctor(Some(&server), &["--domain", "agents.example"]).await;
    said.expect(("tlsa", HOST), "ok", &["the key in use"]);
    let said = ward.doctor(Some(&server), &["--domain", "elsewhere.example"]).await;
    said.expect(("mx", "elsewhere.example"), "failure", &["there is no MX record"]);
    assert_eq!(said.code, Some(1));
    assert_eq!(server.terminate().await, 0);
    ward.site.finish().await;
}

/// The shape in the documentation is the one that is printed.
#[tokio::test(flavor = "multi_thread")]
async fn the_book_explains_each_check_and_shows_the_json() {
    use gatepost::app::doctor::CheckSubject;

    let page = read("docs/doctor.md");
    for subject in CheckSubject::ALL {
        assert!(page.contains(&format!("\n| `{subject}` |")), "docs/doctor.md lacks {subject}");
    }
    let (_, shown) = page.split_once("```json\n").unwrap();
    let shown: Value = serde_json::from_str(shown.split_once("```").unwrap().0).unwrap();
    let ward = Ward::new().await;
    let said = ward.doctor(None, &[]).await;
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&shown), keys(&said.all));
    assert_eq!(keys(&shown["checks"][0]), keys(&said.checks[0]));
    ward.site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resolvers_that_lie_or_are_silent_are_told() {
    let ward = Ward::new().await;
    let resolver = ("resolver", "127.0.0.1:");
    ward.site.dns.change(|zone| {
        zone.remove(".", "DNSKEY").unwrap();
        zone.insert(".", "DNSKEY", "TRUNCATE", &"k".repeat(700)).unwrap();
    });
    let said = ward.doctor(None, &[]).await;
    said.expect(resolver, "warning", &["only over TCP", "EDNS"]);
    ward.publish(".", "DNSKEY", &[]);
    let said = ward.doctor(None, &[]).await;
    said.expect(resolver, "ok", &["large answers were not checked"]);
    for parent in ["com", "org"] {
        let wildcard = format!("*.{parent}");
        ward.publish(&wildcard, "A", &["192.0.2.1"]);
        let said = ward.doctor(None, &[]).await;
        let end = format!(".{parent}, a name that nobody has");
        said.expect(resolver, "failure", &["it has an address for", &end]);
        ward.publish(&wildcard, "A", &[]);
    }
    // A port that nobody listens on.
    let gone = format!("127.0.0.1:{}", free_port());
    let arguments = ["--data", &ward.data(), "--dns", &gone, "--smtp", "127.0.0.1:0"];
    let arguments = [&arguments[..], &["--http", "127.0.0.1:0", "--hostname", HOST]].concat();
    let said = doctor(ward.folder.path(), &arguments).await;
    said.expect(("resolver", &gone), "failure", &["it does not answer", "all mail is deferred"]);
    said.expect(("mx", "agents.example"), "failure", &["cannot be looked up"]);
    ward.site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn before_the_first_start_it_says_what_a_start_will_find() {
    let ward = Ward::new().await;
    let said = ward.doctor(None, &["--smtps", "127.0.0.1:0"]).await;
    assert_eq!(said.code, Some(0), "{:#}", said.all);
    said.expect(("port", "--smtp "), "skipped", &["picks a free port"]);
    said.expect(("certificate", "smtp"), "skipped", &["there is none yet"]);
    said.expect(("certificate", HOST), "skipped", &["is not known here"]);

    let (dns, data) = (ward.site.dns.addr().to_string(), ward.data());
    let stranger = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = stranger.local_addr().unwrap().to_string();
    let greeting = tokio::spawn(async move {
        while let Ok((mut stream, _)) = stranger.accept().await {
            let _said = stream.write_all(b"220 other.example ESMTP Sendmail\r\n").await;
        }
    });
    let free = format!("127.0.0.1:{}", free_port());
    let own = ["--data", &data, "--hostname", HOST, "--dns", &dns];
    let run = async |more: &[&str]| doctor(ward.folder.path(), &[&own, more].concat()).await;
    let said = run(&["--smtp", &address, "--http", &free]).await;
    said.expect(("port", "--smtp "), "failure", &["greets: 220 other.example", "choose another"]);
    said.expect(("port", "--http "), "ok", &["nobody listens there, and a start can"]);
    let said = run(&["--smtp", &free, "--http", &address]).await;
    said.expect(("port", "--http "), "failure", &["another program answers", "choose another"]);
    let said = run(&[
        "--smtp",
        &free,
        "--http",
        "0.0.0.0:0",
        "--trusted-proxy",
        "127.0.0.0/8",
        "--egress-allow",
        "169.254.0.0/16",
    ])
    .await;
    said.expect(("port", "--smtp "), "skipped", &["PROXY header"]);
    said.expect(("settings", ""), "warning", &["keys cross the network in clear"]);
    said.expect(("egress", ""), "warning", &["169.254.169.254", "your own receivers"]);
    greeting.abort();
    ward.site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_others_may_read_and_clocks_that_go_back_are_told() {
    let ward = Ward::new().await;
    let (data, here) = (ward.folder.path().join("store"), ward.folder.path());
    let open = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let authority = Authority::new();
    let paths = authority.issue_to(here);
    open(&paths.key, 0o600);
    let (chain, key) = (paths.chain.display().to_string(), paths.key.display().to_string());
    let tls = ["--smtp-tls-cert", &chain, "--smtp-tls-key", &key];
    let said = ward.doctor(None, &tls).await;
    said.expect(("files", "key.pem"), "ok", &["by its owner alone"]);
    said.expect(("certificate", "smtp"), "ok", &["for mx.agents.example, until 4096"]);
    said.expect(("certificate", HOST), "ok", &["it is for this host"]);

    // As the package lays keys out: of root, for the group of the server.
    open(&paths.key, 0o640);
    let said = ward.doctor(None, &tls).await;
    said.expect(("files", "key.pem"), "ok", &["can be read, by user", "and group"]);
    open(&paths.key, 0o660);
    let said = ward.doctor(None, &tls).await;
    said.expect(("files", "key.pem"), "warning", &["may change the key", "chmod g-w"]);

    // A folder that keeps others out.
    open(here, 0o700);
    open(&paths.key, 0o644);
    let said = ward.doctor(None, &tls).await;
    said.expect(("files", "key.pem"), "ok", &["can be read"]);
    open(here, 0o755);
    open(&data, 0o755);
    fs::write(data.join("secrets.key"), "no key\n").unwrap();
    let ahead = SystemTime::UNIX_EPOCH + Duration::from_secs(7_000_000_000);
    let owner = fs::File::options().write(true).open(data.join("secrets.key")).unwrap();
    owner.set_modified(ahead).unwrap();
    let (old, old_key) = authority.issue_for(&["other.example"], (1975, 2020));
    fs::write(&paths.chain, old).unwrap();
    fs::write(&paths.key, old_key).unwrap();
    let said = ward.doctor(None, &tls).await;
    assert_eq!(said.code, Some(1));
    said.expect(("files", "store"), "warning", &["other users", "chmod 700"]);
    said.expect(("files", "key.pem"), "warning", &["every user", "chmod o="]);
    said.expect(
        ("files", "secrets.key"),
        "failure",
        &["line 1 is not a key", "a start would fail"],
    );
    said.expect(("clock", ""), "warning", &["were changed at 2191-", "set the clock"]);
    said.expect(("certificate", "smtp"), "warning", &["it is not for mx.agents.example"]);
    let http = ["--http-tls-cert", &chain, "--http-tls-key", &key];
    let said = ward.doctor(None, &http).await;
    said.expect(("certificate", "https"), "failure", &["expired on 2020-01-01"]);
    fs::write(&paths.chain, "nothing").unwrap();
    let said = ward.doctor(None, &http).await;
    said.expect(("certificate", ""), "failure", &["there is no certificate", "a start would fail"]);
    ward.site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_and_folders_that_settings_name_are_looked_at() {
    let ward = Ward::new().await;
    let here = ward.folder.path();
    let keep = |name: &str, text: &str, mode: u32| {
        fs::write(here.join(name), text).unwrap();
        fs::set_permissions(here.join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    fs::set_permissions(here, fs::Permissions::from_mode(0o755)).unwrap();
    let (dns, store) = (ward.site.dns.addr().to_string(), format!("sqlite:{}", ward.data()));
    let own = ["--dns", &dns, "--smtp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--hostname", HOST];
    let run = async |more: &[&str]| doctor(here, &[&own, more].concat()).await;

    keep("gatepost.toml", "database-url-file = \"url\"\n", 0o644);
    keep("url", &store, 0o644);
    let said = run(&[]).await;
    said.expect(("settings", "gatepost.toml"), "ok", &["can be read"]);
    said.expect(("files", "url"), "warning", &["every user of this machine", "chmod o= url"]);
    assert_eq!(said.of("files", "gatepost.toml"), None);
    keep("url", &store, 0o640);
    keep("gatepost.toml", "database-url-file = \"url\"\n", 0o646);
    let said = run(&[]).await;
    said.expect(("files", "url"), "ok", &["can be read, by user"]);
    let words = ["may change the settings", "chmod o-w gatepost.toml"];
    said.expect(("files", "gatepost.toml"), "warning", &words);

    // A key in the settings makes them as secret as it is; a folder beside the store is told.
    let key = format!("database-url = \"{store}\"\n[otlp]\nendpoint = \"http://127.0.0.1:1\"\n");
    keep("gatepost.toml", &(key + "header = [\"api-key=hush\"]\n"), 0o644);
    fs::create_dir(here.join("large")).unwrap();
    fs::set_permissions(here.join("large"), fs::Permissions::from_mode(0o750)).unwrap();
    let acme = ["--acme-directory", "https://127.0.0.1:1/dir", "--acme-agree-tos"];
    let acme = [&acme[..], &["--acme-names", HOST, "--acme-http", "127.0.0.1:0"]].concat();
    let beside = ["--blobs", "large", "--acme-folder", "acme"];
    let said = run(&[&acme[..], &beside].concat()).await;
    said.expect(("files", "gatepost.toml"), "warning", &["password or key", "chmod o="]);
    said.expect(("files", "large"), "warning", &["other users", "chmod 700"]);
    said.expect(("files", "acme"), "skipped", &["there is none yet", "makes it"]);
    fs::write(here.join("acme"), "").unwrap();
    let said = run(&[&acme[..], &beside].concat()).await;
    said.expect(("files", "acme"), "failure", &["not a folder"]);
    ward.site.finish().await;
}

/// As systemd hands it to the service alone; and challenges of ACME have a port of their own.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_a_certificate_that_the_settings_do_not_name_is_known() {
    let ward = Ward::new().await;
    let here = ward.folder.path();
    let paths = Authority::new().issue_to(here);
    let (chain, key) = (paths.chain.display().to_string(), paths.key.display().to_string());
    let challenges = format!("127.0.0.1:{}", free_port());
    let acme = ["--acme-directory", "https://127.0.0.1:1/dir", "--acme-agree-tos"];
    let acme = [&acme[..], &["--acme-names", HOST, "--acme-http", &challenges]].concat();
    let own = [&acme[..], &["--http-tls-cert", &chain, "--http-tls-key", &key]].concat();
    let data = here.join("store");
    let server = Server::start_logging(&data, ward.site.dns.addr(), &own, &here.join("log")).await;
    let http = format!("0.0.0.0:{}", server.http.port());
    let smtp = server.smtp.to_string();
    let dns = ward.site.dns.addr().to_string();
    let own = ["--data", &ward.data(), "--hostname", HOST, "--dns", &dns, "--smtp", &smtp];
    let said = doctor(here, &[&own[..], &acme, &["--http", &http]].concat()).await;
    said.expect(("port", "--http "), "ok", &["this server answers there"]);
    said.expect(("settings", ""), "ok", &["can be read"]);
    said.expect(("port", "--acme-http "), "ok", &["it answers as this server does"]);
    assert_eq!(server.terminate().await, 0);
    ward.site.finish().await;
}

/// Certificates by ACME have one name each.
#[tokio::test(flavor = "multi_thread")]
async fn a_mail_exchanger_of_acme_names_has_its_own_certificate() {
    let ward = Ward::new().await;
    let authority = Authority::new();
    let acme = ward.folder.path().join("store/tls/acme");
    let keep = |name: &str, years: (i32, i32)| {
        let (chain, key) = authority.issue_for(&[name], years);
        let of_name = acme.join("127.0.0.1_1_dir").join(name);
        fs::create_dir_all(&of_name).unwrap();
        fs::write(acme.join("key.pem"), key).unwrap();
        fs::write(of_name.join("chain.pem"), chain).unwrap();
    };
    let (second, directory) = ("mx2.agents.example", "https://127.0.0.1:1/dir");
    ward.publish("agents.example", "MX", &["10 mx2.agents.example"]);
    ward.publish("_mta-sts.agents.example", "TXT", &["v=STSv1; id=1"]);
    let own = ["--acme-directory", directory, "--acme-agree-tos", "--acme-http", "127.0.0.1:0"];
    let own = [&own[..], &["--acme-names", second]].concat();
    keep(second, (1975, 4000));
    let said = ward.doctor(None, &own).await;
    said.expect(("certificate", second), "ok", &["it is for this host, until 4000"]);

    let said = ward.doctor(None, &own).await;
    let words = ["policy 1 is announced", "does not serve its file", "start with --mta-sts"];
    said.expect(("mta-sts", "agents.example"), "warning", &words);
    ward.publish("mta-sts.agents.example", "A", &["8.8.4.4"]);
    let said = ward.doctor(None, &[&own[..], &["--mta-sts", "testing"]].concat()).await;
    let words = ["does not name mx2.agents.example of the MX record", "report that as a failure"];
    said.expect(("mta-sts", "agents.example"), "warning", &words);
    let own = [&own[..], &["--mta-sts", "testing", "--mta-sts-mx", "*.agents.example"]].concat();

    // A customer's DNS makes no failure.
    keep("mta-sts.agents.example", (1975, 2020));
    let said = ward.doctor(None, &own).await;
    let words = ["expired on 2020-01-01", "the log says whose"];
    said.expect(("certificate", "mta-sts"), "warning", &words);
    let words = ["policy 1", "expired on 2020-01-01", "let mta-sts.agents.example lead"];
    said.expect(("mta-sts", "agents.example"), "warning", &words);
    keep("mta-sts.agents.example", (1975, 4000));
    let said = ward.doctor(None, &own).await;
    said.expect(
        ("mta-sts", "agents.example"),
        "ok",
        &["the certificate for it is good until 4000"],
    );
    ward.site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_cannot_be_read_end_it_before_it_begins() {
    let ward = Ward::new().await;
    let data = ward.data();
    for arguments in [
        ["doctor", "--data", &data, "--public-url", "nothing"],
        ["doctor", "--data", &data, "--send-test", "nobody"],
        ["doctor", "--data", &data, "--domain", "not..one"],
    ] {
        let output = gatepost(ward.folder.path(), &arguments).await;
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stderr.starts_with(b"gatepost: "), "{arguments:?}");
    }
    let missing = ward.folder.path().join("missing").display().to_string();
    let dns = ward.site.dns.addr().to_string();
    let own = ["--dns", &dns, "--smtp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--hostname", HOST];
    let said = doctor(ward.folder.path(), &[&own[..], &["--data", &missing]].concat()).await;
    said.expect(("database", "missing"), "failure", &["there is no store", "gatepost init"]);
    said.expect(("files", "missing"), "failure", &["it does not exist", "gatepost init"]);
    // In words, one line for each check, and what to do below.
    let arguments = [&["serve", "--check"][..], &own, &["--data", &missing]].concat();
    let output = gatepost(ward.folder.path(), &arguments).await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("failure  database     "), "{text}");
    assert!(
        text.contains("\n                      make the store with `gatepost init`\n"),
        "{text}"
    );
    let arguments = [&["serve", "--check"][..], &own, &["--data", &data]].concat();
    let output = gatepost(ward.folder.path(), &arguments).await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("ok       originals    ") && text.contains(" 0 failures"), "{text}");
    let output = gatepost(ward.folder.path(), &[&arguments[..], &["--json"]].concat()).await;
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&said["failures"], output.status.code()), (&0.into(), Some(0)), "{said}");
    assert!(!Path::new(&data).join("gatepost.serving").exists(), "a check takes no lock");
    let server = ward.serve().await;
    let output = gatepost(ward.folder.path(), &arguments).await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("serves the store now"), "{text}");
    assert_eq!(server.terminate().await, 0);
    // A store of an older version is told of, and not migrated.
    let database = Path::new(&data).join("gatepost.db");
    let mut database = SqliteConnectOptions::new().filename(database).connect().await.unwrap();
    let newest = "(SELECT MAX(version) FROM _sqlx_migrations)";
    let older = format!("DELETE FROM _sqlx_migrations WHERE version = {newest}");
    database.execute(AssertSqlSafe(older)).await.unwrap();
    database.close().await.unwrap();
    fs::write(ward.folder.path().join("own.toml"), "no-console = true\n").unwrap();
    let named = [&own[..], &["--data", &data, "--config", "own.toml"]].concat();
    let said = doctor(ward.folder.path(), &named).await;
    let words = ["the schema of an older gatepost", "gatepost migrate"];
    said.expect(("database", "store"), "warning", &words);
    said.expect(("settings", "own.toml"), "ok", &["can be read"]);
    ward.site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_message_goes_all_the_way_once_its_key_is_published() {
    let ward = Ward::new().await;
    let server = ward.serve().await;
    let test = ["--send-test", AGENT];
    let said = ward.doctor(Some(&server), &test).await;
    assert_eq!(said.code, Some(0), "{:#}", said.all);
    let messages: Vec<_> = said.checks.iter().filter(|row| row["check"] == "message").collect();
    assert_eq!(messages.len(), 2);
    said.expect(("message", AGENT), "ok", &["an unsigned message was refused as it must be"]);
    let line = messages[1]["line"].as_str().unwrap();
    let (name, record) = line.split_once(". TXT ").unwrap();
    assert_eq!(name, "gatepost-doctor._domainkey.agents.example");
    ward.publish(name, "TXT", &[record.trim_matches('"')]);

    let said = ward.doctor(Some(&server), &test).await;
    let words = ["the policy does not list the sender", "gatepost policy allow support@"];
    said.expect(("message", AGENT), "warning", &words);
    let data = ward.data();
    let allow = ["policy", "allow", AGENT, "gatepost-doctor@agents.example", "--data", &data];
    assert!(gatepost(ward.folder.path(), &allow).await.status.success());
    let said = ward.doctor(Some(&server), &test).await;
    let words = ["verified, accepted and stored", "1 webhooks answered 2xx"];
    said.expect(("message", AGENT), "ok", &words);
    assert_eq!(ward.site.receiver.received().len(), 1);
    ward.site.receiver.otherwise(Reply::status(500));
    let said = ward.doctor(Some(&server), &test).await;
    said.expect(("message", AGENT), "warning", &["answered 500", "mend the receiver"]);

    // The key is another one than the published.
    let key = ward.folder.path().join("other.pem").display().to_string();
    let other = ["--send-test", AGENT, "--test-key", &key];
    let said = ward.doctor(Some(&server), &other).await;
    said.expect(("message", AGENT), "ok", &["an unsigned message was refused"]);
    let said = ward.doctor(Some(&server), &["--send-test", "nobody@agents.example"]).await;
    said.expect(("message", "nobody@"), "failure", &[]);
    let detail = said.row("message", "nobody@")["detail"].as_str().unwrap();
    assert!(detail.contains("550 5.1.1") || detail.contains("unknown_recipient"), "{detail}");
    let smtp = server.smtp.to_string();
    assert_eq!(server.terminate().await, 0);
    let said = ward.doctor(None, &[&test[..], &["--smtp", &smtp]].concat()).await;
    said.expect(("message", AGENT), "failure", &["no message could be sent", "start the server"]);
    ward.site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_postgres_is_asked_how_it_is_set_up() {
    // Commits of the tests' own server are not flushed.
    let ward = Ward::at(tempfile::tempdir().unwrap(), postgres::new_location().await).await;
    let database = ("database", "postgres");
    if !postgres::is_given() {
        let said = ward.doctor(None, &[]).await;
        said.expect(database, "failure", &["fsync is off", "loses acknowledged mail"]);
    }
    ward.site.finish().await;

    let cluster = tokio::task::spawn_blocking(|| postgres::start(&[]));
    let cluster = cluster.await.unwrap();
    let location = Location::parse(None, Some(&cluster.url)).unwrap();
    let ward = Ward::at(tempfile::tempdir().unwrap(), location).await;
    let said = ward.doctor(None, &["--send-test", AGENT]).await;
    said.expect(database, "ok", &["PostgreSQL ", "UTF8, read committed", "was committed"]);
    said.expect(("clock", ""), "ok", &["it agrees with the database's"]);
    said.expect(("originals", ""), "skipped", &["in the database"]);
    said.expect(("message", AGENT), "failure", &["takes no message from this machine"]);

    let mut admin = postgres::connect(&cluster.url).await;
    let grants = "CREATE ROLE guest LOGIN;
                  GRANT ALL ON ALL TABLES IN SCHEMA public TO guest;
                  GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO guest;
                  REVOKE INSERT ON members FROM guest;
                  CREATE DATABASE latin ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C'
                      TEMPLATE template0";
    for statement in grants.split(';') {
        admin.execute(AssertSqlSafe(statement.to_owned())).await.unwrap();
    }
    let guest = cluster.url.replace("user=postgres", "user=guest");
    let own = ["--hostname", HOST, "--smtp", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let dns = ward.site.dns.addr().to_string();
    let run = async |url: &str| {
        doctor(ward.folder.path(), &[&own[..], &["--dns", &dns, "--database-url", url]].concat())
            .await
    };
    let said = run(&guest).await;
    let told: Vec<_> = said.checks.iter().filter(|row| row["check"] == "database").collect();
    let told = format!("{told:?}");
    assert!(told.contains("may not read and write 1 tables"), "{told}");
    assert!(told.contains("GRANT CREATE ON SCHEMA"), "{told}");
    let latin = cluster.url.replace("/postgres?", "/latin?");
    let said = run(&latin).await;
    said.expect(database, "failure", &["is not UTF8", "with the encoding UTF8"]);
    let nowhere = "postgres://nobody@127.0.0.1:1/none";
    let said = run(nowhere).await;
    said.expect(("database", "none"), "failure", &["cannot open the store", "database runs"]);
    admin.close().await.unwrap();
    ward.site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_is_written_to_read_and_cleaned() {
    let (ward, bucket) = (Ward::new().await, Bucket::start().await);
    let endpoint = bucket.endpoint.clone();
    let own = ["--blobs", "s3://mail/doctor", "--s3-access-key", "test", "--s3-secret-key", "hush"];
    let own = [&own[..], &["--s3-endpoint", &endpoint]].concat();
    let said = ward.doctor(None, &own).await;
    said.expect(("originals", "s3://mail/doctor"), "ok", &["written, read and removed"]);
    assert!(bucket.keys().await.is_empty());
    let elsewhere = own.iter().map(|one| if *one == own[1] { "s3://absent/x" } else { one });
    let said = ward.doctor(None, &elsewhere.collect::<Vec<_>>()).await;
    said.expect(("originals", ""), "failure", &["s3:"]);
    bucket.stop().await;
    let said = ward.doctor(None, &own).await;
    said.expect(("originals", ""), "failure", &["see that the place of --blobs answers"]);
    ward.site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_senders_report_on_tls_is_told_as_their_claim() {
    let ward = Ward::new().await;
    let rows = (("tls-rpt", "agents.example"), ("tls-reports", "agents.example"));
    let said = ward.doctor(None, &[]).await;
    said.expect(rows.0, "skipped", &["are not taken in (--tls-reports)"]);
    assert!(said.checks.iter().all(|row| row["check"] != "tls-reports"));
    let on = ["--tls-reports", "--tls-reports-name", "tlsrpt"];
    let said = ward.doctor(None, &on).await;
    let record = "v=TLSRPTv1; rua=mailto:tlsrpt@agents.example";
    let line = format!("_smtp._tls.agents.example. TXT \"{record}\"");
    said.expect(rows.0, "warning", &["there is no record", &line]);
    said.expect(rows.1, "skipped", &["no report came in 7 days"]);
    assert_eq!(said.code, Some(0), "{:#}", said.all);

    let dns = ward.site.dns.addr();
    let server = Server::start_with(&ward.location, ward.folder.path(), dns, &on).await;
    let report = fs::read(fixture("tls-reports/agents.example.json")).unwrap();
    let url = format!("http://{}/tls-reports", server.http);
    let request = reqwest::Client::new().post(url).body(report);
    let request = request.header("content-type", "application/tlsrpt+json").timeout(PATIENCE);
    assert_eq!(http::read("POST", request.send().await.unwrap()).await.status, 200);
    ward.publish("_smtp._tls.agents.example", "TXT", &[record]);
    let said = ward.doctor(Some(&server), &on).await;
    said.expect(rows.0, "ok", &["senders report to mailto:"]);
    let words = [
        "senders claim 303 failed and 5326 successful sessions (reports: 1)",
        "Company-X (posted, by anybody): starttls-not-supported at mx2.mail.agents.example",
        "takes STARTTLS away",
    ];
    said.expect(rows.1, "warning", &words);
    assert_eq!(server.terminate().await, 0);
    ward.site.finish().await;
}
