//! STARTTLS and implicit TLS.

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsConnector, rustls};

use super::*;
use crate::domain::clock::{Clock, Timestamp};
use crate::domain::ports::TlsFacts;
use crate::tls::{Certificates, Pair, self_signed};

fn host() -> DomainName {
    DomainName::parse("mx.gatepost.example").unwrap()
}

fn certificates(pair: &Pair) -> Certificates {
    Certificates::new(pair.clone(), Some(host()), Clock::new(|| Timestamp::from_millis(0)))
}

/// A server with a certificate, and a client that trusts it.
struct Encrypted {
    server: Server,
    connector: TlsConnector,
}

impl Encrypted {
    async fn start(rules: &str, handshake: Duration) -> Self {
        let mut encrypted = Self::bind(rules, handshake).await;
        encrypted.server.serve();
        encrypted
    }

    async fn bind(rules: &str, handshake: Duration) -> Self {
        let pair = self_signed::make_temporary(&host()).unwrap();
        let acceptor = Acceptor::new(&certificates(&pair), handshake).unwrap();
        let server = Server::bind_with(rules, Fake::default(), Some(acceptor)).await;
        Self { server, connector: trusting(&pair) }
    }

    /// Greeted, and told to begin TLS.
    async fn told(&self) -> Peer {
        let mut peer = self.server.greeted().await;
        peer.send("STARTTLS\r\n").await;
        peer.expect("220 2.0.0").await;
        peer
    }

    async fn secure(&self, peer: Peer) -> Peer<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host().as_str().to_owned()).unwrap();
        let shaking = self.connector.connect(name, peer.0.into_inner());
        Peer(BufReader::new(timeout(PATIENCE, shaking).await.unwrap().unwrap()))
    }
}

fn trusting(pair: &Pair) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(pair.chain().first().unwrap().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

/// All lines of the next reply.
async fn lines<S: AsyncRead + AsyncWrite + Unpin>(peer: &mut Peer<S>) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        timeout(PATIENCE, peer.0.read_line(&mut line)).await.unwrap().unwrap();
        lines.push(line.trim_end().to_owned());
        if line.as_bytes().get(3) != Some(&b'-') {
            return lines;
        }
    }
}

/// TLS facts of the last message.
fn facts(server: &Server) -> Option<TlsFacts> {
    let calls = server.intake.calls.lock().unwrap();
    let Some(Call::Message { envelope, .. }) = calls.last() else { panic!("no message") };
    envelope.client.tls.clone()
}

#[tokio::test]
async fn starttls_hides_itself_forgets_what_was_said_and_takes_mail() {
    let tls = Encrypted::start("", PATIENCE).await;
    let mut peer = tls.server.greeted().await;
    peer.send("EHLO client.example\r\n").await;
    assert!(lines(&mut peer).await.contains(&"250-STARTTLS".to_owned()));
    peer.send("MAIL FROM:<boss@good.example>\r\nSTARTTLS\r\n").await;
    peer.expect_all(&["250 2.1.0", "220 2.0.0"]).await;
    let mut peer = tls.secure(peer).await;
    peer.send("MAIL FROM:<boss@good.example>\r\n").await;
    peer.expect("503 5.5.1 say EHLO first").await;
    peer.send("EHLO client.example\r\n").await;
    assert!(!lines(&mut peer).await.iter().any(|line| line.contains("STARTTLS")));
    peer.send("RCPT TO:<open1@gatepost.example>\r\n").await;
    peer.expect("503 5.5.1 say MAIL first").await;
    peer.send(format!("{ENVELOPE}DATA\r\n")).await;
    peer.expect_all(&["250", "250", "250", "354"]).await;
    // Larger than any TLS record, so it comes in pieces.
    let message = "0123456789abcdef\r\n".repeat(5_000);
    peer.send(format!("{message}.\r\nQUIT\r\n")).await;
    peer.expect_all(&["250 2.0.0", "221"]).await;
    // The end is a close_notify: rustls fails without it.
    peer.expect_end().await;
    assert_eq!(tls.server.intake.messages(), [message]);
    let agreed = facts(&tls.server).unwrap();
    assert_eq!((agreed.version.as_str(), agreed.cipher.get(..4)), ("TLSv1.3", Some("TLS_")));
    // In clear there are no TLS facts.
    let mut peer = tls.server.greeted().await;
    peer.send(format!("{ENVELOPE}DATA\r\n")).await;
    peer.expect_all(&["250", "250", "250", "354"]).await;
    peer.send("x\r\n.\r\n").await;
    peer.expect("250 2.0.0").await;
    assert_eq!(facts(&tls.server), None);
}

#[tokio::test]
async fn what_is_sent_in_clear_behind_starttls_is_never_carried_out() {
    let tls = Encrypted::start("", PATIENCE).await;
    for injected in ["EHLO evil.example\r\nMAIL FROM:<boss@good.example>\r\n", "x"] {
        let mut peer = tls.server.greeted().await;
        peer.send(format!("EHLO client.example\r\nSTARTTLS\r\n{injected}")).await;
        peer.expect_all(&["250", "554 5.5.0"]).await;
        peer.expect_end().await;
    }
    // Input after the 220 is no handshake; the TLS alert is not for SMTP.
    let mut peer = tls.told().await;
    peer.send(format!("{ENVELOPE}QUIT\r\n")).await;
    let mut told = Vec::new();
    // The kernel may reset the connection; either way it ends.
    let _ended = timeout(PATIENCE, peer.0.read_to_end(&mut told)).await.unwrap();
    assert!(told.is_empty() || told[0] == 0x15, "{told:?}");
    assert!(tls.server.intake.calls.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_handshake_that_stalls_is_cut_and_leaves_its_place() {
    let rules = "[limits]\nmax_sessions = 1\n";
    let tls = Encrypted::start(rules, Duration::from_millis(100)).await;
    let mut peer = tls.told().await;
    // The beginning of a handshake record.
    peer.send([0x16, 3, 1, 2, 0, 1, 0]).await;
    let mut told = Vec::new();
    let _ended = timeout(PATIENCE, peer.0.read_to_end(&mut told)).await.unwrap();
    assert_eq!(told, b"");
    let again = async {
        loop {
            if tls.server.connect().await.reply().await.starts_with("220") {
                return;
            }
        }
    };
    timeout(PATIENCE, again).await.unwrap();
}

#[tokio::test]
async fn a_handshake_under_way_does_not_hold_up_the_end() {
    let tls = Encrypted::start("", PATIENCE).await;
    let mut peer = tls.told().await;
    let mut open = tls.secure(tls.told().await).await;
    // A client knows the end of the handshake before the server does.
    open.send("NOOP\r\n").await;
    open.expect("250").await;
    peer.send([0x16, 3, 1]).await;
    tls.server.shutdown.begin();
    let mut told = Vec::new();
    let _ended = timeout(PATIENCE, peer.0.read_to_end(&mut told)).await.unwrap();
    assert_eq!(told, b"");
    open.expect("421 4.3.2").await;
    open.expect_end().await;
    drop((open, peer));
    assert!(tls.server.shutdown.finish(PATIENCE).await);
}

#[tokio::test]
async fn implicit_tls_is_the_same_session_behind_a_handshake() {
    let mut tls = Encrypted::bind("[limits]\nmax_sessions = 2\n", PATIENCE).await;
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let other = tls.server.waiting.as_ref().unwrap().with_implicit_tls(socket);
    let address = other.local_addr().unwrap();
    tls.server.shutdown.spawn(other.serve());
    let mut waiting = Peer(BufReader::new(TcpStream::connect(address).await.unwrap()));
    let stream = TcpStream::connect(address).await.unwrap();
    let mut peer = tls.secure(Peer(BufReader::new(stream))).await;
    peer.expect("220 mx.gatepost.example").await;
    peer.send("EHLO client.example\r\n").await;
    assert!(!lines(&mut peer).await.iter().any(|line| line.contains("STARTTLS")));
    peer.send(format!("STARTTLS\r\n{ENVELOPE}DATA\r\n")).await;
    peer.expect_all(&["503 5.5.1", "250", "250", "250", "354"]).await;
    peer.send("x\r\n.\r\n").await;
    peer.expect("250 2.0.0").await;
    assert_eq!(facts(&tls.server).unwrap().version, "TLSv1.3");
    // Both addresses share the places: one client is idle before its handshake, one in a session.
    tls.server.serve();
    let mut third = tls.server.connect().await;
    third.expect("421 4.3.2").await;
    // The implicit TLS address sends nothing in clear, not even to turn a client away.
    let mut turned_away = Peer(BufReader::new(TcpStream::connect(address).await.unwrap()));
    turned_away.expect_end().await;
    waiting.send("EHLO client.example\r\n").await;
    let mut told = Vec::new();
    let _ended = timeout(PATIENCE, waiting.0.read_to_end(&mut told)).await.unwrap();
    assert_eq!(told.first(), Some(&0x15));
}

#[tokio::test]
async fn implicit_tls_begins_behind_the_header_of_a_proxy() {
    let mut tls = Encrypted::bind("", PATIENCE).await;
    let listener = tls.server.waiting.take().unwrap();
    let listener = listener.behind(vec!["127.0.0.0/8".parse().unwrap()]);
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let other = listener.with_implicit_tls(socket);
    let address = other.local_addr().unwrap();
    tls.server.shutdown.spawn(other.serve());
    let connect = async |header: &str| {
        let mut peer = Peer(BufReader::new(TcpStream::connect(address).await.unwrap()));
        peer.send(header).await;
        peer
    };
    let peer = connect("PROXY TCP4 192.0.2.7 127.0.0.1 56324 465\r\n").await;
    let mut peer = tls.secure(peer).await;
    peer.expect("220 mx.gatepost.example").await;
    peer.send(format!("{ENVELOPE}DATA\r\n")).await;
    peer.expect_all(&["250", "250", "250", "354"]).await;
    peer.send("x\r\n.\r\n").await;
    peer.expect("250 2.0.0").await;
    let calls = tls.server.intake.calls.lock().unwrap().clone();
    let Some(Call::Message { envelope, .. }) = calls.last() else { panic!("{calls:?}") };
    assert_eq!(envelope.client.address.to_string(), "192.0.2.7");
    assert!(envelope.client.tls.is_some());
    // A proxy without a header gets nothing in clear.
    let mut told = Vec::new();
    let mut peer = connect("EHLO client.example\r\n").await;
    let _ended = timeout(PATIENCE, peer.0.read_to_end(&mut told)).await.unwrap();
    assert_eq!(told, b"");
}

#[tokio::test]
async fn a_new_certificate_ends_no_session() {
    let folder = tempfile::tempdir().unwrap();
    let old = self_signed::make_temporary(&host()).unwrap();
    let new = self_signed::load_or_make(folder.path(), &host()).unwrap();
    let text = std::fs::read(folder.path().join("self-signed.pem")).unwrap();
    let shown = certificates(&old);
    let acceptor = Acceptor::new(&shown, PATIENCE).unwrap();
    let mut server = Server::bind_with("", Fake::default(), Some(acceptor)).await;
    server.serve();
    let mut tls = Encrypted { server, connector: trusting(&old) };
    let mut open = tls.secure(tls.told().await).await;
    shown.install(&text, &text).unwrap();
    open.send("EHLO client.example\r\n").await;
    open.expect("250 ENH").await;
    tls.connector = trusting(&new);
    let mut later = tls.secure(tls.told().await).await;
    for peer in [&mut later, &mut open] {
        peer.send(format!("{ENVELOPE}DATA\r\n")).await;
        peer.expect_all(&["250", "250", "250", "354"]).await;
        peer.send("x\r\n.\r\n").await;
        peer.expect("250 2.0.0").await;
    }
}
