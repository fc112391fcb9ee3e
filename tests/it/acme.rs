//! Certificates from an authority by ACME, against pebble: for the SMTP name, kept over restarts,
//! renewed with the same key, and never in the way of mail.

use std::net::SocketAddr;
use std::path::PathBuf;

use gatepost::domain::domain_name::DomainName;
use gatepost::egress::certificate::Certificate;
use gatepost::store::Location;
use gatepost::testkit::dns::Zone;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::authority::{HOST, Secured, offering, trusting};
use crate::support::pebble::Pebble;
use crate::support::process::{Server, failing, gatepost};
use crate::support::site::Site;
use crate::support::{PATIENCE, http, rules, signed};

/// An operator's waits, as short as they can be: renewal after a tenth of the life, a second after
/// each failure, and between two looks at the domains.
const QUICK: (&str, &str) = (
    "acme.toml",
    "[renewal]\nafter_percent = 10\njitter_percent = 0\ncheck_seconds = 1\nask_least_seconds = 1\n\
     least_age_seconds = 0\n[retries]\nwait_seconds = [1]\njitter_percent = 0\n\
     [policy_hosts]\nlook_seconds = 1\n",
);

/// Seconds that a certificate is valid: renewed by and by, or not during a test.
const SHORT: u64 = 30;
const LONG: u64 = 86_400;

/// A store, and a name that leads to this machine.
struct Surroundings {
    folder: TempDir,
    site: Site,
}

impl Surroundings {
    async fn build() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rules = rules(folder.path(), &[QUICK]);
        let site = Site::build(&Location::Folder(folder.path().join("store")), &rules).await;
        site.leave_store().await;
        site.dns.change(|zone| zone.insert(HOST, "A", "NOERROR", "127.0.0.1")).unwrap();
        Self { folder, site }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A server that asks this authority.
    async fn serve(&self, pebble: &Pebble) -> Server {
        let server = self.serve_at("127.0.0.1:0", pebble).await;
        pebble.port_80.lead_to(challenges(&server));
        server
    }

    /// Starts a server that listens for the authority's challenges at the address `http`.
    async fn serve_at(&self, http: &str, pebble: &Pebble) -> Server {
        self.serve_on("store", http, pebble).await
    }

    /// Starts such a server on the store in the folder `data`.
    async fn serve_on(&self, data: &str, http: &str, pebble: &Pebble) -> Server {
        let (url, root, policies) = (pebble.url(), pebble.ca_file(), self.path("policies"));
        let arguments = [
            ["--acme-directory", &url],
            ["--acme-ca-file", root.to_str().unwrap()],
            ["--acme-contact", "mailto:postmaster@agents.example"],
            ["--acme-http", http],
            ["--policies", policies.to_str().unwrap()],
        ];
        let arguments = [arguments.as_flattened(), &["--acme-agree-tos"]].concat();
        let (data, log) = (self.path(data), self.path("log"));
        Server::start_logging(&data, self.site.dns.addr(), &arguments, &log).await
    }

    /// Waits until the server has logged a line with all of these, of `one|other` with either.
    async fn logged(&self, pieces: &[&str]) {
        let has = |line: &str, piece: &str| piece.split('|').any(|either| line.contains(either));
        let said = async {
            loop {
                let log = std::fs::read_to_string(self.path("log")).unwrap();
                if log.lines().any(|line| pieces.iter().all(|piece| has(line, piece))) {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        if timeout(PATIENCE, said).await.is_err() {
            let log = std::fs::read_to_string(self.path("log")).unwrap();
            let last: Vec<_> = log.lines().rev().take(5).collect();
            panic!("no line has {pieces:?}; the last ones: {last:#?}");
        }
    }

    async fn finish(self, server: Server) {
        assert_eq!(server.terminate().await, 0);
        self.site.finish().await;
    }
}

/// Where the server waits for the authority to look.
fn challenges(server: &Server) -> SocketAddr {
    told(server, " acme ")
}

/// The address that the server tells behind this word.
fn told(server: &Server, word: &str) -> SocketAddr {
    let (_, address) = server.said.split_once(word).expect("it listens nowhere");
    address.split_whitespace().next().unwrap().parse().unwrap()
}

/// Waits for a session by the authority of this root, with another certificate than `before`.
async fn session_after(server: &Server, root: &str, before: Option<&[u8]>) -> Secured {
    let connector = trusting(root);
    let waiting = async {
        loop {
            if let Ok(session) = Secured::open(server.smtp, &connector).await
                && before.is_none_or(|before| *before != session.certificate())
            {
                return session;
            }
        }
    };
    timeout(PATIENCE, waiting).await.expect("no new certificate by ACME")
}

fn key_of(certificate: &[u8]) -> Vec<u8> {
    let certificate = CertificateDer::from(certificate);
    ParsedCertificate::try_from(&certificate).unwrap().subject_public_key_info().to_vec()
}

/// Whether a certificate is for this host.
fn names(certificate: &[u8], host: &str) -> bool {
    let read = Certificate::read(CertificateDer::from(certificate.to_vec())).unwrap();
    read.names(&DomainName::parse(host).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_certificate_comes_from_the_authority_and_a_restart_asks_for_nothing() {
    let around = Surroundings::build().await;
    let pebble = Pebble::start(around.site.dns.addr(), LONG).await;
    let root = pebble.root().await;
    let server = around.serve(&pebble).await;
    let certificate = session_after(&server, &root, None).await.certificate();
    assert_eq!(server.terminate().await, 0);
    let (issued, connections) = (pebble.issued(), pebble.door.connections());
    assert_eq!(issued, 1);

    let server = around.serve(&pebble).await;
    let session = Secured::open(server.smtp, &trusting(&root)).await;
    let session = session.expect("the certificate was not kept");
    assert_eq!(session.certificate(), certificate);
    around.finish(server).await;
    assert_eq!((pebble.issued(), pebble.door.connections()), (issued, connections));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_takes_the_certificate_that_was_ordered_before() {
    let around = Surroundings::build().await;
    let pebble = Pebble::start(around.site.dns.addr(), LONG).await;
    let root = pebble.root().await;
    let server = around.serve(&pebble).await;
    let issuing = async {
        while pebble.issued() == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, issuing).await.expect("no certificate was issued");
    // Before it has fetched the certificate: it waits a moment for the authority.
    server.kill().await;
    let server = around.serve(&pebble).await;
    session_after(&server, &root, None).await;
    around.finish(server).await;
    assert_eq!(pebble.issued(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_server_has_the_certificate_and_asks_for_nothing() {
    let around = Surroundings::build().await;
    let pebble = Pebble::start(around.site.dns.addr(), LONG).await;
    let root = pebble.root().await;
    let server = around.serve(&pebble).await;
    let certificate = session_after(&server, &root, None).await.certificate();
    let backup = ["backup", "--data", "store", "--to", "copy", "--json"];
    let copied = gatepost(around.folder.path(), &backup).await;
    let copied: serde_json::Value = serde_json::from_slice(&copied.stdout).unwrap();
    // Self-signed; the key, the account, the chain, and when the authority was asked for two things.
    assert_eq!(copied["tls"], 6);
    assert_eq!(server.terminate().await, 0);
    let (issued, connections) = (pebble.issued(), pebble.door.connections());
    std::fs::remove_dir_all(around.path("store")).unwrap();

    let restore = ["restore", "--from", "copy", "--data", "new"];
    assert!(gatepost(around.folder.path(), &restore).await.status.success());
    let server = around.serve_on("new", "127.0.0.1:0", &pebble).await;
    let session = Secured::open(server.smtp, &trusting(&root)).await;
    assert_eq!(session.expect("the certificate was lost").certificate(), certificate);
    around.finish(server).await;
    assert_eq!((pebble.issued(), pebble.door.connections()), (issued, connections));
}

#[tokio::test(flavor = "multi_thread")]
async fn renewals_keep_the_key_and_the_sessions_whatever_the_authority_forgets() {
    let around = Surroundings::build().await;
    let mut pebble = Pebble::start(around.site.dns.addr(), SHORT).await;
    let server = around.serve(&pebble).await;
    let root = pebble.root().await;
    let mut first = session_after(&server, &root, None).await;
    let one = first.certificate();
    let two = session_after(&server, &root, Some(&one)).await.certificate();
    assert_eq!(key_of(&two), key_of(&one));

    // Its accounts and its own keys are gone.
    pebble.open().await;
    let root = pebble.root().await;
    let three = session_after(&server, &root, None).await.certificate();
    assert_eq!(key_of(&three), key_of(&one));
    around.logged(&["no longer knows the account"]).await;
    first.deliver(&signed("by the first certificate")).await;
    drop(first);
    around.finish(server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_authority_wants_renewed_is_renewed_at_once_and_named_as_replaced() {
    let around = Surroundings::build().await;
    let pebble = Pebble::start(around.site.dns.addr(), LONG).await;
    let suggesting = pebble.suggest().await;
    let root = pebble.root().await;
    let server = around.serve(&pebble).await;
    let one = session_after(&server, &root, None).await.certificate();
    // By its life it would be renewed after a tenth of a day.
    around.logged(&["new certificate by ACME", "acme.by=\"the authority\""]).await;
    let overdue = suggesting.call_back();
    assert_eq!((overdue.len(), suggesting.replaced().len()), (1, 0));
    let two = session_after(&server, &root, Some(&one)).await.certificate();
    assert_eq!((suggesting.replaced(), pebble.issued()), (overdue, 2));
    assert_eq!(key_of(&two), key_of(&one));
    around.finish(server).await;
}

/// The certificate that the API shows to a client that asks for this name and offers these protocols;
/// None if it ends the handshake.
async fn shown(server: &Server, name: &'static str, protocols: &[&str]) -> Option<Vec<u8>> {
    let stream = TcpStream::connect(server.http).await.unwrap();
    let name = ServerName::try_from(name).unwrap();
    let session = offering(protocols).connect(name, stream).await.ok()?;
    Some(session.get_ref().1.peer_certificates().unwrap()[0].to_vec())
}

/// Waits until the API shows another certificate for `name` than `before`.
async fn shown_after(server: &Server, name: &'static str, before: &[u8]) -> Vec<u8> {
    let waiting = async {
        loop {
            if let Some(now) = shown(server, name, &[]).await.filter(|now| now != before) {
                return now;
            }
        }
    };
    timeout(PATIENCE, waiting).await.expect("no other certificate is shown")
}

/// The host of the policy of the organization's domain.
const POLICY: &str = "mta-sts.agents.example";

impl Surroundings {
    /// The flags of a server whose API has https and answers the authority, and which serves policies.
    fn https(&self, pebble: &Pebble) -> Vec<String> {
        let (url, root, policies) = (pebble.url(), pebble.ca_file(), self.path("policies"));
        let arguments = [
            ["--acme-directory", &url],
            ["--acme-ca-file", root.to_str().unwrap()],
            ["--acme-challenge", "tls-alpn-01"],
            ["--mta-sts", "enforce"],
            ["--policies", policies.to_str().unwrap()],
        ];
        let flags = ["--acme-agree-tos", "--acme-https"];
        [arguments.as_flattened(), &flags].concat().into_iter().map(str::to_owned).collect()
    }

    /// Starts such a server.
    async fn serve_policies(&self, pebble: &Pebble, more: &[&str]) -> Server {
        let own = self.https(pebble);
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let arguments = [&own[..], &["--metrics", "127.0.0.1:0"], more].concat();
        let (data, log) = (self.path("store"), self.path("log"));
        let dns = self.site.dns.addr();
        let server = Server::start_logging(&data, dns, &arguments, &log).await;
        pebble.port_443.lead_to(server.http);
        server
    }

    /// Lets this name lead to this machine.
    fn lead_here(&self, name: &str) {
        self.site.dns.change(|zone| zone.insert(name, "A", "NOERROR", "127.0.0.1")).unwrap();
    }
}

/// A certificate for mail and the API and one for the policy of a domain, without port 80.
#[tokio::test(flavor = "multi_thread")]
async fn the_listener_of_the_api_answers_the_authority_and_gets_its_certificates() {
    let around = Surroundings::build().await;
    around.lead_here(POLICY);
    let mut pebble = Pebble::closed(around.site.dns.addr(), LONG).await;
    let server = around.serve_policies(&pebble, &[]).await;
    assert!(server.said.contains(" https ") && !server.said.contains(" acme "), "{}", server.said);
    // Until then the API has the self-signed one, and no answer for who asks for one.
    let own = shown(&server, HOST, &["http/1.1"]).await.unwrap();
    assert_eq!(shown(&server, POLICY, &[]).await.as_ref(), Some(&own));
    assert_eq!(shown(&server, HOST, &["acme-tls/1"]).await, None);

    pebble.open().await;
    let root = pebble.root().await;
    let session = session_after(&server, &root, None).await;
    assert_eq!(shown(&server, HOST, &["http/1.1"]).await.unwrap(), session.certificate());
    assert_eq!(shown(&server, HOST, &["acme-tls/1"]).await, None);
    around.logged(&["new certificate by ACME", POLICY]).await;
    assert_ne!(shown(&server, POLICY, &[]).await.unwrap(), session.certificate());
    assert_eq!((pebble.issued(), pebble.port_80.connections()), (2, 0));
    let trusted = reqwest::Certificate::from_pem(root.as_bytes()).unwrap();
    let client = reqwest::Client::builder().tls_certs_only([trusted]);
    let client = client.resolve(HOST, server.http).resolve(POLICY, server.http);
    let client = client.redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let get = async |url: String| http::read("GET", client.get(url).send().await.unwrap()).await;
    let port = server.http.port();
    assert_eq!(get(format!("https://{HOST}:{port}/healthz")).await.status, 200);
    let policy = get(format!("https://{POLICY}:{port}/.well-known/mta-sts.txt")).await;
    let text = "version: STSv1\r\nmode: enforce\r\nmx: mx.agents.example\r\nmax_age: 604800\r\n";
    assert_eq!((policy.status.as_u16(), policy.text().as_str()), (200, text));
    depend_on_https(&around, &server, &client, &around.https(&pebble)).await;
    let metrics = get(format!("http://{}/metrics", told(&server, " metrics "))).await.text();
    let end = "gatepost_certificate_end_seconds{listener=\"mta-sts\"} ";
    assert!(metrics.contains(end) && !metrics.contains("agents.example"), "{metrics}");
    drop(session);
    around.finish(server).await;
}

/// The cookie of the console, the doctor, the health and the links know of the authority's https.
async fn depend_on_https(
    around: &Surroundings,
    server: &Server,
    client: &reqwest::Client,
    arguments: &[String],
) {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let port = server.http.port();
    let entering = client.post(format!("https://{HOST}:{port}/console/sign-in"));
    let entering = entering.header("content-type", "application/x-www-form-urlencoded");
    let entering = entering.body(format!("key={}", around.site.key));
    let entered = http::read("POST", entering.send().await.unwrap()).await;
    let cookie = entered.headers["set-cookie"].to_str().unwrap();
    assert!(cookie.starts_with("__Host-") && cookie.contains("; Secure"));
    let (dns, smtp) = (around.site.dns.addr().to_string(), server.smtp.to_string());
    let (data, api) = (around.path("store").display().to_string(), server.http.to_string());
    let own = ["doctor", "--json", "--data", &data, "--hostname", HOST, "--dns", &dns];
    let own = [&own[..], &["--smtp", &smtp, "--http", &api], &arguments].concat();
    let said = gatepost(around.folder.path(), &own).await;
    let said: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    let rows = said["checks"].as_array().unwrap();
    let row = |kind: &str, about: &str| {
        let about = |row: &&serde_json::Value| row["about"].as_str().unwrap().starts_with(about);
        rows.iter()
            .filter(|row| row["check"] == kind)
            .find(about)
            .unwrap_or_else(|| panic!("{said:#}"))
    };
    assert_eq!(row("port", "--http")["detail"], "this server answers there");
    // The authority's lasts a day, the self-signed one for years.
    let detail = row("certificate", "https")["detail"].as_str().unwrap();
    assert!(detail.starts_with("the certificate expires on 20"), "{detail}");
    assert_eq!(row("certificate", "mta-sts")["result"], "warning");
    assert!(rows.iter().all(|row| !row["about"].as_str().unwrap().starts_with("--acme-http")));
    let own = ["health", "--http", &api, "--acme-https"];
    let said = gatepost(around.folder.path(), &own).await;
    assert_eq!((said.status.code(), said.stdout.as_slice()), (Some(0), &b"ready\n"[..]));
    std::fs::write(around.path("https.toml"), "[acme]\nhttps = true\n").unwrap();
    let link = ["console", "link", "1", "--data", &data, "--config", "https.toml"];
    let link = gatepost(around.folder.path(), &link).await;
    assert!(link.stdout.starts_with(b"https://127.0.0.1:8080/console/open?"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_the_authority_does_not_find_holds_up_no_other() {
    let around = Surroundings::build().await;
    around.lead_here(POLICY);
    let pebble = Pebble::start(around.site.dns.addr(), SHORT).await;
    let lost = ["--acme-names", "lost.agents.example"];
    let server = around.serve_policies(&pebble, &lost).await;
    let root = pebble.root().await;
    around.logged(&["could not verify lost.agents.example"]).await;
    let one = session_after(&server, &root, None).await.certificate();
    around.logged(&["new certificate by ACME", POLICY]).await;
    let policy = shown(&server, POLICY, &[]).await.unwrap();
    // Both are renewed, whatever becomes of the third.
    session_after(&server, &root, Some(&one)).await;
    shown_after(&server, POLICY, &policy).await;
    assert!(shown(&server, "lost.agents.example", &[]).await.is_some());
    around.finish(server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_domain_gets_its_certificate_when_it_is_proven_and_leads_here_and_loses_it_with_itself() {
    const HOST_OF_NEW: &str = "mta-sts.new.example";
    let around = Surroundings::build().await;
    let pebble = Pebble::start(around.site.dns.addr(), SHORT).await;
    let server = around.serve_policies(&pebble, &[]).await;
    let root = pebble.root().await;
    let own = session_after(&server, &root, None).await.certificate();
    let account = around.site.house.organization.id.to_string();
    let domain = async |does: &str| {
        let arguments = ["domain", does, "new.example", &account, "--data", "store"];
        let told = gatepost(around.folder.path(), &arguments).await;
        assert!(told.status.success(), "{told:?}");
    };
    // At another gateway, too.
    for address in ["127.0.0.1", "192.0.2.1"] {
        let add = |zone: &mut Zone| zone.insert(HOST_OF_NEW, "A", "NOERROR", address);
        around.site.dns.change(add).unwrap();
    }
    domain("add").await;
    around.logged(&["not all addresses of this name", HOST_OF_NEW]).await;
    around.site.dns.change(|zone| zone.remove(HOST_OF_NEW, "A")).unwrap();
    around.site.dns.change(|zone| zone.insert(HOST_OF_NEW, "CNAME", "NOERROR", HOST)).unwrap();
    around.logged(&["new certificate by ACME", HOST_OF_NEW]).await;
    let stored = around.path("store/tls/acme");
    let directory = std::fs::read_dir(&stored).unwrap().map(|entry| entry.unwrap().path());
    let directory = directory.into_iter().find(|path| path.is_dir()).unwrap();
    let chain = directory.join(HOST_OF_NEW).join("chain.pem");
    assert!(chain.exists());
    assert!(names(&shown(&server, HOST_OF_NEW, &[]).await.unwrap(), HOST_OF_NEW));

    // The customer takes the name away before the renewal.
    around.site.dns.change(|zone| zone.remove(HOST_OF_NEW, "CNAME")).unwrap();
    around.logged(&["is not renewed", HOST_OF_NEW, "tls.until"]).await;
    domain("remove").await;
    around.logged(&["no certificate is needed for this name any more", HOST_OF_NEW]).await;
    let gone = async {
        while chain.exists() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, gone).await.expect("its files are left");
    // Its waits are not over.
    assert!(chain.with_file_name("tried").exists());
    // The host's is renewed, and no other.
    let two = session_after(&server, &root, Some(&own)).await.certificate();
    let renewed = shown_after(&server, HOST, &two).await;
    assert!(renewed != own && !chain.exists());
    assert!(names(&shown(&server, HOST_OF_NEW, &[]).await.unwrap(), HOST));
    around.finish(server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_says_who_answers_at_port_443() {
    let around = Surroundings::build().await;
    let pebble = Pebble::start(around.site.dns.addr(), LONG).await;
    let (url, root, policies) = (pebble.url(), pebble.ca_file(), around.path("policies"));
    let arguments = [
        ["--acme-directory", &url],
        ["--acme-ca-file", root.to_str().unwrap()],
        ["--acme-challenge", "tls-alpn-01"],
        ["--policies", policies.to_str().unwrap()],
    ];
    let arguments = [arguments.as_flattened(), &["--acme-agree-tos", "--acme-https"]].concat();
    let (data, log) = (around.path("store"), around.path("log"));
    let server = Server::start_logging(&data, around.site.dns.addr(), &arguments, &log).await;
    around.logged(&["could not verify mx.agents.example", "port 443"]).await;
    pebble.port_443.lead_to(server.http);
    session_after(&server, &pebble.root().await, None).await;
    around.finish(server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_flows_while_the_authority_is_down() {
    let around = Surroundings::build().await;
    let mut pebble = Pebble::closed(around.site.dns.addr(), LONG).await;
    let server = around.serve(&pebble).await;
    around.logged(&["no certificate by ACME", "cannot be reached", "advice"]).await;
    let own = std::fs::read_to_string(around.path("store/tls/self-signed.pem")).unwrap();
    let mut session = Secured::open(server.smtp, &trusting(&own)).await.unwrap();
    session.deliver(&signed("no authority")).await;
    drop(session);

    pebble.open().await;
    session_after(&server, &pebble.root().await, None).await;
    around.finish(server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_flows_while_another_program_has_the_port_of_the_challenges() {
    let around = Surroundings::build().await;
    let pebble = Pebble::start(around.site.dns.addr(), LONG).await;
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    pebble.port_80.lead_to(address);
    let server = around.serve_at(&address.to_string(), &pebble).await;
    assert!(!server.said.contains(" acme "), "{}", server.said);
    around.logged(&["ERROR", "cannot listen for ACME challenges", "--acme-http"]).await;
    around.logged(&["no certificate by ACME", "cannot listen on", "advice"]).await;
    let own = std::fs::read_to_string(around.path("store/tls/self-signed.pem")).unwrap();
    let mut session = Secured::open(server.smtp, &trusting(&own)).await.unwrap();
    session.deliver(&signed("no port")).await;
    drop(session);
    // Nobody was asked in vain.
    assert_eq!((pebble.issued(), pebble.port_80.connections()), (0, 0));

    drop(other);
    session_after(&server, &pebble.root().await, None).await;
    around.finish(server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_says_what_the_authority_saw() {
    let around = Surroundings::build().await;
    let pebble = Pebble::start(around.site.dns.addr(), LONG).await;
    around.site.dns.change(|zone| zone.remove(HOST, "A")).unwrap();
    let server = around.serve(&pebble).await;
    let here = "could not verify mx.agents.example";
    around.logged(&[here, "could not resolve"]).await;
    pebble.port_80.close();
    around.site.dns.change(|zone| zone.insert(HOST, "A", "NOERROR", "127.0.0.1")).unwrap();
    // By how much of the request had come when the door fell shut.
    around.logged(&[here, "EOF|reset by peer", "reach port 80 of this name"]).await;
    // Somebody else's server.
    pebble.port_80.lead_to(server.http);
    around.logged(&[here, "another server answers"]).await;
    assert_eq!(pebble.issued(), 0);

    pebble.port_80.lead_to(challenges(&server));
    session_after(&server, &pebble.root().await, None).await;
    around.finish(server).await;
}

#[tokio::test]
async fn what_cannot_be_asked_for_is_said_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let refused = async |arguments: &[&str]| {
        let arguments = [&["serve", "--hostname", HOST], arguments].concat();
        failing(folder.path(), &arguments).await
    };
    let said = refused(&["--acme-directory", "letsencrypt"]).await;
    assert!(said.contains("--acme-agree-tos"), "{said}");
    let asking = ["--acme-directory", "https://127.0.0.1:1/dir", "--acme-agree-tos"];
    let with = |more: &[&'static str]| [asking.as_slice(), more].concat();
    let said = refused(&with(&["--smtp-tls-cert", "a", "--smtp-tls-key", "b"])).await;
    assert!(said.contains("use one of them"), "{said}");
    let said = refused(&with(&["--acme-contact", "me@agents.example"])).await;
    assert!(said.contains("mailto:NAME@DOMAIN"), "{said}");
    let said = refused(&with(&["--acme-challenge", "tls-alpn-01"])).await;
    assert!(said.contains("give acme-https"), "{said}");
    let files = ["--http-tls-cert", "a", "--http-tls-key", "b", "--acme-https"];
    let said = refused(&with(&files)).await;
    assert!(said.contains("use one of them"), "{said}");
    let said = refused(&["--acme-https"]).await;
    assert!(said.contains("name the authority"), "{said}");
    let said = refused(&with(&["--database-url", "postgres://h/d"])).await;
    assert!(said.contains("acme-folder: name a folder"), "{said}");
    assert!(!folder.path().join("gatepost-data").exists());
}
