//! mailin over real sockets: checks the table of the module.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::domain::domain_name::DomainName;
use crate::domain::reason::Reason;
use crate::rules::{Rules, SmtpRules};
use crate::shutdown::Shutdown;
use crate::smtp::fake::{Call, Fake};
use crate::smtp::protocol::reply::Reply;

use super::Mailin;
use super::session::{MAX_DETAIL, no_answer, response, short};

mod reference;

/// Upper bound of every wait in a test.
const PATIENCE: Duration = Duration::from_secs(20);
const MAX_MESSAGE: usize = 100_000;
const ENVELOPE: &str =
    "EHLO client.example\r\nMAIL FROM:<boss@good.example>\r\nRCPT TO:<open1@gatepost.example>\r\n";

struct Running {
    address: SocketAddr,
    intake: Arc<Fake>,
    shutdown: Shutdown,
}

async fn start(rules: &str, intake: Fake) -> Running {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("smtp.toml"), rules).unwrap();
    let rules = Rules::load(folder.path()).unwrap().smtp;
    serve(&rules, MAX_MESSAGE, intake).await
}

async fn serve(rules: &SmtpRules, max_message: usize, intake: Fake) -> Running {
    let (intake, shutdown) = (Arc::new(intake), Shutdown::default());
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let hostname = DomainName::parse("mx.gatepost.example").unwrap();
    let asked = Arc::clone(&intake);
    let mailin = Mailin::on(socket, &hostname, asked, rules, max_message, shutdown.clone());
    let address = mailin.local_addr().unwrap();
    shutdown.spawn(mailin.serve());
    Running { address, intake, shutdown }
}

struct Peer(BufReader<TcpStream>);

impl Peer {
    async fn connect(address: SocketAddr) -> Self {
        Self(BufReader::new(TcpStream::connect(address).await.unwrap()))
    }

    async fn greeted(address: SocketAddr) -> Self {
        let mut peer = Self::connect(address).await;
        peer.expect(&["220 mx.gatepost.example ESMTP"]).await;
        peer
    }

    async fn send(&mut self, octets: impl AsRef<[u8]>) {
        timeout(PATIENCE, self.0.get_mut().write_all(octets.as_ref())).await.unwrap().unwrap();
    }

    /// The last line of the next reply; None if the connection ended or was reset.
    async fn reply(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            let read = timeout(PATIENCE, self.0.read_line(&mut line)).await.unwrap();
            match read {
                Ok(1..) if line.as_bytes().get(3) == Some(&b'-') => {}
                Ok(1..) => return Some(line.trim_end().to_owned()),
                Ok(0) | Err(_) => return None,
            }
        }
    }

    async fn expect(&mut self, starts: &[&str]) {
        for start in starts {
            let reply = self.reply().await.unwrap_or_default();
            assert!(reply.starts_with(start), "{reply:?}, expected {start:?}");
        }
    }

    /// Opens a transaction and sends DATA.
    async fn open(&mut self) {
        self.send(format!("{ENVELOPE}DATA\r\n")).await;
        self.expect(&["250", "250 2.1.0", "250 2.1.5", "354"]).await;
    }

    async fn expect_end(&mut self) {
        assert_eq!(self.reply().await, None);
    }
}

#[tokio::test]
async fn a_session_goes_on_after_each_kind_of_refusal() {
    let server = start("", Fake::default()).await;
    let mut peer = Peer::greeted(server.address).await;
    *server.intake.message.lock().unwrap() = Some((Reason::DkimMissing, Some("why".repeat(500))));
    peer.open().await;
    peer.send("Subject: x\r\n\r\n..\r\n.\r\n").await;
    peer.expect(&["550 5.7.20 the message has no DKIM signature: whywhy"]).await;
    *server.intake.message.lock().unwrap() = None;
    // Swallowed, and refused once, at the end.
    peer.open().await;
    peer.send("y\r\n".repeat(50_000) + ".\r\n").await;
    peer.expect(&["552 5.3.4"]).await;
    peer.open().await;
    peer.send(".\r\nNOOP\r\nQUIT\r\n").await;
    peer.expect(&["250 2.0.0 accepted", "250", "221"]).await;
    peer.expect_end().await;
    assert_eq!(server.intake.messages(), ["Subject: x\r\n\r\n.\r\n", ""]);
    let calls = server.intake.calls.lock().unwrap().clone();
    let refused = calls.iter().find_map(|call| match call {
        Call::Refused { reason, head, size, .. } => Some((*reason, head.len(), *size)),
        Call::Recipient { .. } | Call::Message { .. } | Call::OverRate { .. } => None,
    });
    assert_eq!(refused, Some((Reason::TooLarge, 65_536, 150_000)));
}

/// mailin takes LF.CRLF for an end and runs the rest; everything else is stored unchanged.
#[tokio::test]
async fn nothing_is_smuggled() {
    for sequence in [
        "\n.\n",
        "\n.\r\n",
        "\r.\r",
        "\r.\n",
        "\r.\r\n",
        "\r\n.\n",
        "\r\n.\r",
        "\r\n.\r\r\n",
        "\r\r\n.\r\r\n",
        "\r\n\0.\r\n",
        "\r\n.\0\r\n",
    ] {
        let server = start("", Fake::default()).await;
        let mut peer = Peer::greeted(server.address).await;
        peer.open().await;
        let second = ENVELOPE.replace("boss", "evil");
        let wire = format!("first{sequence}{second}DATA\r\nsecond\r\n.\r\n");
        peer.send(wire).await;
        // The reply is lost if mailin closes with unread input, which resets the connection.
        if let Some(reply) = peer.reply().await {
            assert!(reply.starts_with("550 5.5.2"), "{sequence:?}: {reply}");
            peer.expect_end().await;
        }
        let calls = server.intake.calls.lock().unwrap().clone();
        let [Call::Recipient { .. }, Call::Refused { reason: Reason::Malformed, .. }] = &calls[..]
        else {
            panic!("{sequence:?}: {calls:?}")
        };
    }
}

/// Limits of mailin's parser, which the code behind it cannot change.
#[tokio::test]
async fn the_parser_is_what_the_table_says() {
    let server = start("", Fake::default()).await;
    let mut peer = Peer::greeted(server.address).await;
    for (line, reply) in [
        ("MAIL FROM:<a@b.example>", "503"),
        ("EHLO cli\0ent.example", "501 5.5.4"),
        ("EHLO client.example", "250 8BITMIME"),
        ("NOOP", "250"),
        ("NOOP x", "500"),
        ("HELP", "500"),
        ("RSET ", "500"),
        ("VRFY x", "252"),
        ("MAIL FROM:<>", "500"),
        ("MAIL FROM:<a@b.example> SIZE=1000", "500"),
        ("MAIL FROM:<a@b.example> SMTPUTF8", "500"),
        ("MAIL FROM: <a@b.example>", "500"),
        ("MAIL FROM:<no-at>", "501 5.1.7"),
        ("MAIL FROM:<\u{f6}@b.example>", "553 5.6.7"),
        ("MAIL FROM:<a@b.example> BODY=8BITMIME", "250 2.1.0"),
        ("RCPT TO:<open1@gatepost.example> NOTIFY=NEVER", "500"),
        ("RCPT TO:<\"open 1\"@gatepost.example>", "500"),
        ("RCPT TO:<op\0en1@gatepost.example>", "501 5.1.3"),
        ("RCPT TO:<nobody@gatepost.example>", "550 5.1.1"),
        // Our front end replies 554, or 451 if the recipient was deferred.
        ("DATA", "503"),
        ("RCPT TO:<postmaster>", "250 2.1.5"),
        ("RCPT TO:<open1@gatepost.example>\nDATA", "500"),
    ] {
        peer.send(format!("{line}\r\n")).await;
        peer.expect(&[reply]).await;
    }
    // The DATA after the LF runs as a command.
    peer.expect(&["354"]).await;
    peer.send("x\r\n.\r\n").await;
    peer.expect(&["250 2.0.0"]).await;
    // A command line of any length.
    peer.send(format!("HELO {}\r\n", "x".repeat(70_000))).await;
    peer.expect(&["250 mx.gatepost.example"]).await;
}

#[tokio::test]
async fn memory_for_all_messages_is_bounded() {
    let rules = "[memory]\nmax_bytes_in_flight = 1048576\nreserve_step_bytes = 1048576\n";
    let gate = Fake { gate: Some(Semaphore::new(0)), ..Fake::default() };
    let server = start(rules, gate).await;
    // Each message reserves all that one message may have: ten fit, the eleventh does not.
    let mut held = Vec::new();
    for _ in 0..10 {
        let mut peer = Peer::greeted(server.address).await;
        peer.open().await;
        peer.send("x\r\n.\r\n").await;
        timeout(PATIENCE, server.intake.arrived.notified()).await.unwrap();
        held.push(peer);
    }
    let mut late = Peer::greeted(server.address).await;
    late.open().await;
    late.send("x\r\n.\r\n").await;
    late.expect(&["452 4.3.1"]).await;
    server.intake.gate.as_ref().unwrap().add_permits(11);
    for peer in &mut held {
        peer.expect(&["250 2.0.0"]).await;
        // The session is back at its commands: the memory is free.
        peer.send("NOOP\r\n").await;
        peer.expect(&["250"]).await;
    }
    late.open().await;
    late.send("x\r\n.\r\n").await;
    late.expect(&["250 2.0.0"]).await;
}

#[tokio::test]
async fn more_panics_than_threads_cost_none() {
    let server = start("[mailin]\nthreads = 1\n", Fake::default()).await;
    for _ in 0..3 {
        let mut peer = Peer::greeted(server.address).await;
        peer.send(format!("{ENVELOPE}RCPT TO:<panic@gatepost.example>\r\nQUIT\r\n")).await;
        peer.expect(&["250", "250", "250", "451 4.3.0", "221"]).await;
    }
}

#[tokio::test]
async fn who_finds_no_thread_is_not_greeted() {
    let server = start("[mailin]\nthreads = 1\n", Fake::default()).await;
    let mut first = Peer::greeted(server.address).await;
    let mut second = Peer::connect(server.address).await;
    first.send("HELO client.example\r\n").await;
    first.expect(&["250"]).await;
    let early = second.0.get_mut().try_read(&mut [0]);
    assert_eq!(early.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    first.send("QUIT\r\n").await;
    first.expect(&["221"]).await;
    second.expect(&["220"]).await;
}

#[tokio::test]
async fn limits_that_a_handler_can_keep_are_kept() {
    let rules = "[limits]\nmax_transactions = 2\nmax_recipients = 3\nmax_errors = 1\n\
                 max_sessions_per_network = 1\n[exempt]\nnetworks = []\n";
    let server = start(rules, Fake::default()).await;
    let mut peer = Peer::greeted(server.address).await;
    peer.send(format!("{ENVELOPE}RCPT TO:<open1@gatepost.example>\r\n")).await;
    peer.send("RCPT TO:<list1@gatepost.example>\r\nRCPT TO:<open2@gatepost.example>\r\n").await;
    peer.send("RCPT TO:<open3@gatepost.example>\r\n").await;
    peer.expect(&["250", "250", "250 2.1.5", "250 2.1.5", "452 4.5.3 send this", "250 2.1.5"])
        .await;
    peer.expect(&["452 4.5.3 too many"]).await;
    let mut other = Peer::greeted(server.address).await;
    other.send("HELO client.example\r\n").await;
    other.expect(&["421 4.3.2"]).await;
    other.expect_end().await;
    peer.send("RSET\r\nMAIL FROM:<a@b.example>\r\nRCPT TO:<x@y.example>\r\n").await;
    peer.expect(&["250", "250 2.1.0", "550 5.1.1"]).await;
    peer.send("RSET\r\nMAIL FROM:<a@b.example>\r\n").await;
    peer.expect(&["250", "421 4.7.0"]).await;
    peer.expect_end().await;
}

#[tokio::test]
async fn the_end_waits_for_messages_and_not_for_idle_sessions() {
    let gate = Fake { gate: Some(Semaphore::new(0)), ..Fake::default() };
    let server = start("[deadlines]\nlinger_millis = 100\n", gate).await;
    let mut idle = Peer::greeted(server.address).await;
    idle.send("HELO client.example\r\n").await;
    idle.expect(&["250"]).await;
    let (mut inside, mut deciding) =
        (Peer::greeted(server.address).await, Peer::greeted(server.address).await);
    inside.open().await;
    deciding.open().await;
    deciding.send("one\r\n.\r\n").await;
    timeout(PATIENCE, server.intake.arrived.notified()).await.unwrap();

    server.shutdown.begin();
    server.intake.gate.as_ref().unwrap().add_permits(2);
    inside.send("two\r\n.\r\n").await;
    for peer in [&mut inside, &mut deciding] {
        peer.expect(&["250 2.0.0 accepted"]).await;
        peer.expect_end().await;
    }
    // An idle session gets the 421 with its next command.
    idle.send("MAIL FROM:<a@b.example>\r\n").await;
    idle.expect(&["421 4.3.2"]).await;
    idle.expect_end().await;
    let _never_said_a_word = Peer::greeted(server.address).await;
    assert!(server.shutdown.finish(PATIENCE).await);
    assert_eq!(server.intake.messages().len(), 2);
}

#[test]
fn every_reply_fits_on_one_line() {
    let detail = short(Some(&"word ".repeat(200)));
    assert_eq!(detail.as_ref().map(String::len), Some(MAX_DETAIL));
    let record = Some(crate::domain::id::IntakeId(crate::smtp::fake::RECORD.parse().unwrap()));
    for reason in Reason::ALL {
        let reply = Reply::reason(*reason, detail.as_deref(), record);
        let mut wire = Vec::new();
        response(&reply).write_to(&mut wire).unwrap();
        let wire = String::from_utf8(wire).unwrap();
        let mut ours = Vec::new();
        reply.write(&mut ours);
        assert_eq!(wire, String::from_utf8(ours).unwrap(), "{reason}");
        assert!(wire.len() <= 512 && wire.ends_with("]\r\n"), "{wire}");
    }
    assert_eq!(response(&Reply::answer(&no_answer())).code, 451);
}
