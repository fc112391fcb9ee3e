//! The listener over real sockets.

mod encrypted;
mod idle;

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::domain::domain_name::DomainName;
use crate::rules::Rules;
use crate::shutdown::Shutdown;
use crate::tls::Acceptor;

use super::Listener;
use super::fake::{Call, Fake};

/// No wait of a test takes longer.
const PATIENCE: Duration = Duration::from_secs(20);

const ENVELOPE: &str =
    "EHLO client.example\r\nMAIL FROM:<boss@good.example>\r\nRCPT TO:<open1@gatepost.example>\r\n";

/// A listener on a port of its own.
struct Server {
    address: std::net::SocketAddr,
    intake: Arc<Fake>,
    shutdown: Shutdown,
    /// Not serving yet: connections wait in the backlog.
    waiting: Option<Listener<Fake>>,
}

impl Server {
    async fn bind(rules: &str, intake: Fake) -> Self {
        Self::bind_with(rules, intake, None).await
    }

    async fn bind_with(rules: &str, intake: Fake, tls: Option<Acceptor>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("smtp.toml"), rules).unwrap();
        let rules = Rules::load(folder.path()).unwrap().smtp;
        let (intake, shutdown) = (Arc::new(intake), Shutdown::default());
        let listener = Listener::bind(
            "127.0.0.1:0".parse().unwrap(),
            &DomainName::parse("mx.gatepost.example").unwrap(),
            Arc::clone(&intake),
            &rules,
            100_000,
            shutdown.clone(),
            tls,
        )
        .await
        .unwrap();
        let address = listener.local_addr().unwrap();
        Self { address, intake, shutdown, waiting: Some(listener) }
    }

    fn serve(&mut self) {
        self.shutdown.spawn(self.waiting.take().unwrap().serve());
    }

    async fn start(rules: &str, intake: Fake) -> Self {
        let mut server = Self::bind(rules, intake).await;
        server.serve();
        server
    }

    async fn connect(&self) -> Peer {
        Peer(BufReader::new(TcpStream::connect(self.address).await.unwrap()))
    }

    /// Connected and greeted.
    async fn greeted(&self) -> Peer {
        let mut peer = self.connect().await;
        peer.expect("220 ").await;
        peer
    }
}

/// The client's end.
struct Peer<S = TcpStream>(BufReader<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    async fn send(&mut self, octets: impl AsRef<[u8]>) {
        timeout(PATIENCE, self.0.get_mut().write_all(octets.as_ref())).await.unwrap().unwrap();
    }

    /// The last line of the next reply.
    async fn reply(&mut self) -> String {
        loop {
            let mut line = String::new();
            timeout(PATIENCE, self.0.read_line(&mut line)).await.unwrap().unwrap();
            if line.as_bytes().get(3) != Some(&b'-') {
                return line.trim_end().to_owned();
            }
        }
    }

    async fn expect(&mut self, start: &str) {
        let reply = self.reply().await;
        assert!(reply.starts_with(start), "{reply:?}, expected {start:?}");
    }

    async fn expect_end(&mut self) {
        let mut rest = Vec::new();
        timeout(PATIENCE, self.0.read_to_end(&mut rest)).await.unwrap().unwrap();
        assert_eq!(String::from_utf8_lossy(&rest), "");
    }

    async fn expect_all(&mut self, starts: &[&str]) {
        for start in starts {
            self.expect(start).await;
        }
    }
}

#[tokio::test]
async fn a_pipelined_session_is_answered_in_order() {
    let server = Server::start("", Fake::default()).await;
    let mut peer = server.greeted().await;
    peer.send(format!("{ENVELOPE}RCPT TO:<nobody@gatepost.example>\r\nDATA\r\n")).await;
    peer.expect_all(&["250 ENH", "250 2.1.0", "250 2.1.5", "550 5.1.1", "354"]).await;
    let message = "Subject: x\r\n\r\n..\r\n";
    peer.send(format!("{message}.\r\nMAIL FROM:<>\r\nQUIT\r\n")).await;
    peer.expect_all(&["250 2.0.0 accepted", "250 2.1.0", "221"]).await;
    peer.expect_end().await;
    assert_eq!(server.intake.messages(), ["Subject: x\r\n\r\n.\r\n"]);
}

#[tokio::test]
async fn a_large_message_arrives_octet_for_octet() {
    let server = Server::start("", Fake::default()).await;
    let mut peer = server.greeted().await;
    peer.send(format!("{ENVELOPE}DATA\r\n")).await;
    peer.expect_all(&["250", "250", "250", "354"]).await;
    let message = "0123456789abcdef\r\n".repeat(5_555);
    peer.send(format!("{message}.\r\n")).await;
    peer.expect("250 2.0.0").await;
    assert_eq!(server.intake.messages(), [message]);
}

#[tokio::test]
async fn a_message_over_the_limit_is_read_to_its_end() {
    let server = Server::start("", Fake::default()).await;
    let mut peer = server.greeted().await;
    peer.send("EHLO c\r\nMAIL FROM:<> SIZE=99999999999999999999999\r\n").await;
    peer.expect_all(&["250", "552 5.3.4"]).await;
    peer.send(format!("{ENVELOPE}DATA\r\n")).await;
    peer.expect_all(&["250", "250", "250", "354"]).await;
    peer.send("y".repeat(3_000_000)).await;
    peer.send("\r\n.\r\nQUIT\r\n").await;
    peer.expect_all(&["552 5.3.4", "221"]).await;
    let calls = server.intake.calls.lock().unwrap().clone();
    let Some(Call::Refused { head, size, .. }) = calls.last() else { panic!("{calls:?}") };
    assert_eq!((head.len(), *size), (65_536, 3_000_002));
}

#[tokio::test]
async fn memory_for_all_messages_is_bounded() {
    let rules = "[memory]\nmax_bytes_in_flight = 1048576\nreserve_step_bytes = 1048576\n";
    let gate = Fake { gate: Some(Semaphore::new(0)), ..Fake::default() };
    let mut server = Server::bind(rules, gate).await;
    server.serve();
    // Each message may reserve 100,002 octets at most: ten fit, the eleventh does not.
    let mut held = Vec::new();
    for _ in 0..10 {
        let mut peer = server.greeted().await;
        peer.send(format!("{ENVELOPE}DATA\r\n")).await;
        peer.expect_all(&["250", "250", "250", "354"]).await;
        peer.send("x\r\n.\r\n").await;
        timeout(PATIENCE, server.intake.arrived.notified()).await.unwrap();
        held.push(peer);
    }
    let mut late = server.greeted().await;
    late.send(format!("{ENVELOPE}DATA\r\n")).await;
    late.expect_all(&["250", "250", "250", "354"]).await;
    late.send("x\r\n.\r\n").await;
    late.expect("452 4.3.1").await;
    server.intake.gate.as_ref().unwrap().add_permits(11);
    for peer in &mut held {
        peer.expect("250 2.0.0").await;
    }
    late.send(format!("{ENVELOPE}DATA\r\n")).await;
    late.expect_all(&["250", "250", "250", "354"]).await;
    late.send("x\r\n.\r\n").await;
    late.expect("250 2.0.0").await;
}

#[tokio::test]
async fn a_network_has_so_many_sessions_and_no_more() {
    let server = Server::start(
        "[limits]\nmax_sessions_per_network = 2\n[exempt]\nnetworks = []\n",
        Fake::default(),
    )
    .await;
    let mut first = server.greeted().await;
    let _second = server.greeted().await;
    let mut third = server.connect().await;
    third.expect("421 4.3.2").await;
    third.expect_end().await;
    first.send("QUIT\r\n").await;
    first.expect("221").await;
    first.expect_end().await;
    drop(first);
    // The place is free once the session has ended; until then the answer is 421.
    let again = async {
        loop {
            if server.connect().await.reply().await.starts_with("220") {
                return;
            }
        }
    };
    timeout(PATIENCE, again).await.unwrap();
}

#[tokio::test]
async fn who_speaks_before_the_greeting_is_not_listened_to() {
    let mut server = Server::bind("", Fake::default()).await;
    let mut peer = server.connect().await;
    peer.send("EHLO client.example\r\n").await;
    server.serve();
    peer.expect("554 5.5.0").await;
    peer.expect_end().await;
}

#[tokio::test]
async fn a_panic_ends_its_session_only_and_gives_the_place_back() {
    let rules = "[limits]\nmax_sessions = 1\n";
    let server = Server::start(rules, Fake::default()).await;
    let mut peer = server.greeted().await;
    peer.send("HELO c\r\nMAIL FROM:<>\r\nRCPT TO:<panic@gatepost.example>\r\n").await;
    let mut rest = Vec::new();
    // The kernel may reset the connection; either way it ends.
    let _ended = timeout(PATIENCE, peer.0.read_to_end(&mut rest)).await.unwrap();
    let again = async {
        loop {
            if server.connect().await.reply().await.starts_with("220") {
                return;
            }
        }
    };
    timeout(PATIENCE, again).await.unwrap();
}

#[tokio::test]
async fn shutdown_tells_idle_sessions_and_waits_for_messages() {
    let gate = Fake { gate: Some(Semaphore::new(0)), ..Fake::default() };
    let server = Server::start("", gate).await;
    let mut idle = server.greeted().await;
    let (mut inside, mut deciding) = (server.greeted().await, server.greeted().await);
    for peer in [&mut inside, &mut deciding] {
        peer.send(format!("{ENVELOPE}DATA\r\n")).await;
        peer.expect_all(&["250", "250", "250", "354"]).await;
    }
    deciding.send("one\r\n.\r\n").await;
    timeout(PATIENCE, server.intake.arrived.notified()).await.unwrap();

    server.shutdown.begin();
    idle.expect("421 4.3.2").await;
    idle.expect_end().await;
    inside.send("two\r\n.\r\nMAIL FROM:<>\r\n").await;
    server.intake.gate.as_ref().unwrap().add_permits(2);
    for peer in [&mut inside, &mut deciding] {
        peer.expect_all(&["250 2.0.0 accepted", "421 4.3.2"]).await;
        peer.expect_end().await;
    }
    drop((idle, inside, deciding));
    assert!(server.shutdown.finish(PATIENCE).await);
    assert_eq!(server.intake.messages().len(), 2);
    assert!(TcpStream::connect(server.address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn single_octets_buy_no_time() {
    let rules = "[deadlines]\ncommand_seconds = 1\n";
    let server = Server::start(rules, Fake::default()).await;
    let mut peer = server.greeted().await;
    let (reader, mut writer) = peer.0.get_mut().split();
    let mut reader = BufReader::new(reader);
    let mut line = String::new();
    let dribble = async {
        let mut tick = tokio::time::interval(Duration::from_millis(100));
        loop {
            tick.tick().await;
            if writer.write_all(b"N").await.is_err() {
                return std::future::pending::<()>().await;
            }
        }
    };
    tokio::select! {
        read = timeout(PATIENCE, reader.read_line(&mut line)) => { read.unwrap().unwrap(); }
        () = dribble => {}
    }
    assert!(line.starts_with("421 4.4.2"), "{line}");
}

#[tokio::test]
async fn a_message_must_keep_the_least_rate() {
    let rules = "[deadlines]\ndata_grace_seconds = 1\nmin_data_rate = 1000\n";
    let server = Server::start(rules, Fake::default()).await;
    let mut peer = server.greeted().await;
    peer.send(format!("{ENVELOPE}DATA\r\n")).await;
    peer.expect_all(&["250", "250", "250", "354"]).await;
    peer.send("x".repeat(900)).await;
    peer.expect("421 4.4.2").await;
    peer.expect_end().await;
    assert!(server.intake.messages().is_empty());
}

#[tokio::test]
async fn what_came_fast_buys_no_time_to_dribble() {
    // At the least rate the first piece alone would last for 90 seconds.
    let rules = "[deadlines]\ndata_block_seconds = 1\nmin_data_rate = 1000\n";
    let server = Server::start(rules, Fake::default()).await;
    let mut peer = server.greeted().await;
    peer.send(format!("{ENVELOPE}DATA\r\n")).await;
    peer.expect_all(&["250", "250", "250", "354"]).await;
    peer.send("x".repeat(90_000)).await;
    let (mut reader, mut writer) = peer.0.into_inner().into_split();
    let dribble = async {
        let mut tick = tokio::time::interval(Duration::from_millis(100));
        while writer.write_all(b"x").await.is_ok() {
            tick.tick().await;
        }
    };
    let mut reply = [0; 9];
    tokio::select! {
        read = timeout(PATIENCE, reader.read_exact(&mut reply)) => { read.unwrap().unwrap(); }
        () = dribble => panic!("the server closed without a word"),
    }
    assert_eq!(&reply, b"421 4.4.2");
}

#[tokio::test]
async fn what_is_read_only_to_be_refused_holds_no_memory() {
    let rules = "[memory]\nmax_bytes_in_flight = 1048576\nkept_head_bytes = 0\n";
    let server = Server::start(rules, Fake::default()).await;
    let mut too_large = Vec::new();
    for _ in 0..11 {
        let mut peer = server.greeted().await;
        peer.send(format!("{ENVELOPE}DATA\r\n")).await;
        peer.expect_all(&["250", "250", "250", "354"]).await;
        peer.send("x".repeat(200_000)).await;
        too_large.push(peer);
    }
    // Until they are past the limit they may hold all memory; from then on they hold none.
    let sent = async {
        let mut peer = server.greeted().await;
        loop {
            peer.send(format!("{ENVELOPE}DATA\r\n")).await;
            peer.expect_all(&["250", "250", "250", "354"]).await;
            peer.send("x".repeat(90_000) + "\r\n.\r\n").await;
            if peer.reply().await.starts_with("250 2.0.0") {
                return;
            }
        }
    };
    timeout(PATIENCE, sent).await.unwrap();
}

#[tokio::test]
async fn a_pause_in_a_message_and_an_old_session_are_ended() {
    let rules = "[deadlines]\ndata_block_seconds = 1\nsession_seconds = 1\n";
    let server = Server::start(rules, Fake::default()).await;
    let (mut pausing, mut old) = (server.greeted().await, server.greeted().await);
    pausing.send(format!("{ENVELOPE}DATA\r\n")).await;
    pausing.expect_all(&["250", "250", "250", "354"]).await;
    pausing.send("x").await;
    pausing.expect("421 4.4.2 timeout: nothing more").await;
    old.expect("421 4.4.2 timeout: the session").await;
}

#[tokio::test]
async fn an_intake_that_does_not_answer_is_a_deferral() {
    let gate = Fake { gate: Some(Semaphore::new(0)), ..Fake::default() };
    let server = Server::start("[deadlines]\nanswer_seconds = 1\n", gate).await;
    let mut peer = server.greeted().await;
    peer.send(format!("{ENVELOPE}DATA\r\n")).await;
    peer.expect_all(&["250", "250", "250", "354"]).await;
    peer.send("x\r\n.\r\nNOOP\r\n").await;
    peer.expect_all(&["451 4.3.0", "250 2.0.0"]).await;
}
