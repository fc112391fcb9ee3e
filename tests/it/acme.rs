//! Certificates from an authority by ACME, against pebble: for the SMTP name, kept over restarts,
//! renewed with the same key, and never in the way of mail.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gatepost::store::Location;
use gatepost::testkit::smtp_client::{Transaction, deliver};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::support::pebble::Pebble;
use crate::support::process::{Server, failing};
use crate::support::site::Site;
use crate::support::{PATIENCE, rules, signed};

const NAME: &str = "mx.agents.example";

/// An operator's waits, as short as they can be: renewal after a tenth of the life, and a second
/// after each failure.
const QUICK: (&str, &str) = (
    "acme.toml",
    "[renewal]\nafter_percent = 10\njitter_percent = 0\ncheck_seconds = 1\n\
     [retries]\nwait_seconds = [1]\njitter_percent = 0\n",
);

/// Seconds that a certificate is valid: renewed by and by, or not during a test.
const SHORT: u64 = 60;
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
        site.dns.change(|zone| zone.insert(NAME, "A", "NOERROR", "127.0.0.1")).unwrap();
        Self { folder, site }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A server that asks this authority.
    async fn serve(&self, pebble: &Pebble) -> Server {
        let (url, root, policies) = (pebble.url(), pebble.ca_file(), self.path("policies"));
        let arguments = [
            ["--acme-directory", &url],
            ["--acme-ca-file", root.to_str().unwrap()],
            ["--acme-contact", "mailto:postmaster@agents.example"],
            ["--acme-http", "127.0.0.1:0"],
            ["--policies", policies.to_str().unwrap()],
        ];
        let arguments = [arguments.as_flattened(), &["--acme-agree-tos"]].concat();
        let (data, log) = (self.path("store"), self.path("log"));
        let server = Server::start_with(&data, self.site.dns.addr(), &arguments, &log).await;
        pebble.port_80.lead_to(server.acme.unwrap());
        server
    }

    /// Waits until the server has logged a line with all of these.
    async fn logged(&self, pieces: &[&str]) {
        let said = async {
            loop {
                let log = std::fs::read_to_string(self.path("log")).unwrap();
                if log.lines().any(|line| pieces.iter().all(|piece| line.contains(piece))) {
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

/// An SMTP session behind STARTTLS.
struct Session(BufReader<TlsStream<TcpStream>>);

impl Session {
    /// With a server that shows a certificate for its name by this authority, PEM; `None` where it
    /// shows another one.
    async fn open(server: &Server, root: &str) -> Option<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(root.as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut stream = BufReader::new(TcpStream::connect(server.smtp).await.unwrap());
        assert!(reply(&mut stream).await.starts_with("220 "));
        assert!(command(&mut stream, "EHLO client.example").await.contains("STARTTLS"));
        assert!(command(&mut stream, "STARTTLS").await.starts_with("220 "));
        let connector = TlsConnector::from(Arc::new(config));
        let name = ServerName::try_from(NAME).unwrap();
        let stream = connector.connect(name, stream.into_inner()).await.ok()?;
        Some(Self(BufReader::new(stream)))
    }

    /// The server's own certificate.
    fn certificate(&self) -> CertificateDer<'static> {
        let (_, session) = self.0.get_ref().get_ref();
        session.peer_certificates().unwrap()[0].clone()
    }

    async fn command(&mut self, line: &str) -> String {
        command(&mut self.0, line).await
    }
}

async fn command<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut BufReader<S>,
    line: &str,
) -> String {
    stream.write_all(format!("{line}\r\n").as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    reply(stream).await
}

async fn reply<S: AsyncRead + Unpin>(stream: &mut BufReader<S>) -> String {
    let mut reply = String::new();
    loop {
        let begin = reply.len();
        let read = timeout(PATIENCE, stream.read_line(&mut reply)).await.unwrap().unwrap();
        if read == 0 || reply[begin..].as_bytes().get(3) != Some(&b'-') {
            return reply;
        }
    }
}

/// Waits for a session by this authority, with another certificate than `before`.
async fn session_after(
    server: &Server,
    root: &str,
    before: Option<&CertificateDer<'_>>,
) -> Session {
    let waiting = async {
        loop {
            if let Some(session) = Session::open(server, root).await
                && before.is_none_or(|before| *before != session.certificate())
            {
                return session;
            }
        }
    };
    timeout(PATIENCE, waiting).await.expect("no new certificate by ACME")
}

fn key_of(certificate: &CertificateDer<'_>) -> Vec<u8> {
    ParsedCertificate::try_from(certificate).unwrap().subject_public_key_info().to_vec()
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
    let session = Session::open(&server, &root).await.expect("the certificate was not kept");
    assert_eq!(session.certificate(), certificate);
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
    around.logged(&["does not know the account any more"]).await;
    assert!(first.command("EHLO client.example").await.starts_with("250-"));
    drop(first);
    around.finish(server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_flows_while_the_authority_is_down() {
    let around = Surroundings::build().await;
    let mut pebble = Pebble::closed(around.site.dns.addr(), LONG).await;
    let server = around.serve(&pebble).await;
    around.logged(&["no certificate by ACME", "cannot be reached", "advice"]).await;
    let own = std::fs::read_to_string(around.path("store/tls/self-signed.pem")).unwrap();
    Session::open(&server, &own).await.expect("no session by the self-signed certificate");
    let to = ["support@agents.example".to_owned()];
    let raw = signed("no authority");
    let transaction =
        Transaction { helo: "client.example", from: "alice@good.example", to: &to, raw: &raw };
    let replies = deliver(server.smtp, &transaction).await.unwrap();
    assert!(replies.accepted(), "{replies:?}");

    pebble.open().await;
    session_after(&server, &pebble.root().await, None).await;
    around.finish(server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_says_what_the_authority_saw() {
    let around = Surroundings::build().await;
    let pebble = Pebble::start(around.site.dns.addr(), LONG).await;
    around.site.dns.change(|zone| zone.remove(NAME, "A")).unwrap();
    let server = around.serve(&pebble).await;
    around
        .logged(&["did not find mx.agents.example to be here", "(dns)", "A or AAAA record"])
        .await;
    pebble.port_80.close();
    around.site.dns.change(|zone| zone.insert(NAME, "A", "NOERROR", "127.0.0.1")).unwrap();
    around.logged(&["did not find mx.agents.example to be here", "let port 80 of this name"]).await;
    // Somebody else's server.
    pebble.port_80.lead_to(server.http);
    around.logged(&["did not find mx.agents.example to be here", "another server answers"]).await;
    assert_eq!(pebble.issued(), 0);

    pebble.port_80.lead_to(server.acme.unwrap());
    session_after(&server, &pebble.root().await, None).await;
    around.finish(server).await;
}

#[tokio::test]
async fn what_cannot_be_asked_for_is_said_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let refused = async |arguments: &[&str]| {
        let arguments = [&["serve", "--hostname", NAME], arguments].concat();
        failing(folder.path(), &arguments).await
    };
    let said = refused(&["--acme-directory", "letsencrypt"]).await;
    assert!(said.contains("--acme-agree-tos"), "{said}");
    let asking = ["--acme-directory", "https://127.0.0.1:1/dir", "--acme-agree-tos"];
    let with = |more: &[&'static str]| [asking.as_slice(), more].concat();
    let said = refused(&with(&["--smtp-tls-cert", "a", "--smtp-tls-key", "b"])).await;
    assert!(said.contains("not from both"), "{said}");
    let said = refused(&with(&["--database-url", "postgres://h/d"])).await;
    assert!(said.contains("acme-folder: name a folder"), "{said}");
    assert!(!Path::new(&folder.path().join("gatepost-data")).exists());
}
