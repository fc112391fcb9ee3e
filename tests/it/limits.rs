//! A server under strain says so and goes on: memory, descriptors, disk, rates, the end (contract
//! §2, Replies; threats §3.7 K6, K8, K10).

use std::path::Path;

use gatepost::store::Location;
use gatepost::testkit::signer::Signer;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::process::{GATEPOST, Server};
use crate::support::session::Session;
use crate::support::site::Site;
use crate::support::{PATIENCE, TestGateway, all_messages, canary, letter, rules, signed, signer};

const TO: &str = "support@agents.example";

/// Runs a server that may have 64 file descriptors, and whose log is beside its store.
const FEW_DESCRIPTORS: &str = r#"ulimit -n 128; GATEPOST_LOG=info exec "$@" 2>../log"#;

/// Runs a server whose log is beside its store.
const LOGGING: &str = r#"GATEPOST_LOG=info exec "$@" 2>../log"#;

/// A server that ends one second after it was asked to, whatever it is doing.
const LITTLE_GRACE: &str = r#"GATEPOST_GRACE_SECONDS=1 exec "$@""#;

/// A signed message that is at least so long.
fn large(signer: &Signer, octets: usize) -> String {
    let line = "All work and no play makes Jack a dull boy.\r\n";
    let text = letter("large") + &line.repeat(octets / line.len() + 1);
    String::from_utf8(signer.sign(text.as_bytes()).unwrap()).unwrap()
}

/// A store with accounts, for servers in processes of their own.
struct Stage {
    folder: tempfile::TempDir,
    location: Location,
    site: Site,
}

impl Stage {
    async fn set() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("store");
        let location = Location::Folder(data);
        let site = Site::build(&location, &rules(folder.path(), &[])).await;
        site.leave_store().await;
        Self { folder, location, site }
    }

    /// The server's log so far.
    fn log(&self) -> String {
        let said = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
        canary::keep("log", said.as_bytes(), None);
        said
    }

    /// Waits until the server has said this.
    async fn has_said(&self, text: &str) {
        let saying = async {
            while !self.log().contains(text) {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, saying).await.unwrap();
    }

    async fn server(&self) -> Server {
        Server::start_on(&self.location, self.folder.path(), self.site.dns.addr()).await
    }

    /// The server, started by a line of the shell.
    async fn server_by(&self, line: &str) -> Server {
        let data = self.folder.path().join("store");
        let command = ["sh", "-c", line, "sh", GATEPOST];
        Server::start_by(&command, &data, self.site.dns.addr()).await
    }
}

/// Tries until it is let in.
async fn let_in(server: &Server) -> Session {
    let trying = async {
        loop {
            let mut session = Session::connect(server.smtp).await;
            if session.reply().await.starts_with("220 ") {
                return session;
            }
        }
    };
    timeout(PATIENCE, trying).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_as_many_sessions_as_descriptors_allow_and_mail_is_still_stored() {
    let stage = Stage::set().await;
    let server = stage.server_by(FEW_DESCRIPTORS).await;
    let mut sessions = Vec::new();
    for _ in 0..150 {
        sessions.push(Session::connect(server.smtp).await);
    }
    let mut inside = Vec::new();
    for mut session in sessions {
        let reply = session.reply().await;
        if reply.starts_with("220 ") {
            inside.push(session);
        } else {
            assert!(reply.starts_with("421 4.3.2 too many connections"), "{reply:?}");
        }
    }
    assert_eq!(inside.len(), 64, "half of them");
    let session = inside.last_mut().unwrap();
    session.begin(TO).await;
    let reply = session.finish("beside all others").await;
    assert!(reply.starts_with("250"), "{reply}");
    assert!(stage.log().contains("too few file descriptors"));
    assert_eq!(server.terminate().await, 0);
    stage.site.finish().await;
}

/// Lets the server have descriptors below this number only; it keeps those that it has open.
fn allow(server: &Server, most: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let pid = Pid::from_raw(server.id().try_into().unwrap());
    prlimit(pid, Resource::Nofile, Rlimit { current: Some(most), maximum }).unwrap();
}

/// Leaves the server no descriptor: some who have been answered by the API, and say nothing more, have
/// the last ones, and nobody waits for one.
async fn take_descriptors(server: &Server) -> Vec<TcpStream> {
    let mut idle = Vec::new();
    for _ in 0..32 {
        let mut one = TcpStream::connect(server.http).await.unwrap();
        one.write_all(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
        assert!(timeout(PATIENCE, one.read(&mut [0; 4096])).await.unwrap().unwrap() > 0);
        idle.push(one);
    }
    // The system gives the lowest number that is free (`proc(5)`, `open(2)`).
    let open = Path::new("/proc").join(server.id().to_string()).join("fd");
    allow(server, (0..).find(|number| !open.join(number.to_string()).is_symlink()).unwrap());
    idle
}

/// Lets in one after another for as long as there are descriptors, of which the store may have given
/// some back. Answers those who are inside, and what the last one is told.
async fn turned_away(server: &Server) -> (Vec<Session>, String) {
    let mut inside = Vec::new();
    loop {
        let mut session = Session::connect(server.smtp).await;
        let reply = session.reply().await;
        if !reply.starts_with("220 ") {
            return (inside, reply);
        }
        inside.push(session);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_descriptors_nobody_spins_and_what_is_freed_is_used() {
    let stage = Stage::set().await;
    let server = stage.server_by(LOGGING).await;
    let mut idle = take_descriptors(&server).await;
    // There are places for sessions enough: who is told 421 was told so by the last descriptor.
    let (inside, reply) = turned_away(&server).await;
    assert!(reply.starts_with("421 4.3.2 too many connections"), "{reply:?}");
    for _ in 0..100 {
        idle.push(TcpStream::connect(server.http).await.unwrap());
    }
    stage.has_said("cannot accept a connection").await;
    drop((idle, inside));
    let mut session = let_in(&server).await;
    session.begin(TO).await;
    let reply = session.finish("there is room again").await;
    assert!(reply.starts_with("250"), "{reply}");
    // A loop that fails at once forever writes thousands of lines a second.
    let log = stage.log();
    assert!(log.lines().count() < 1000, "{} lines: {log:.2000}", log.lines().count());
    assert_eq!(server.terminate().await, 0);
    stage.site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_that_is_spent_is_said_so_and_others_go_on() {
    let memory = "[memory]\nmax_bytes_in_flight = 1048576\n";
    let gateway = TestGateway::with_rules(&[("smtp.toml", memory)]).await;
    let message = large(&signer(), 800_000);
    let (most, rest) = message.split_at(message.len() - 1000);
    let mut holding = Session::with_recipient(gateway.smtp, TO).await;
    assert!(holding.say("DATA").await.starts_with("354"));
    holding.send(most).await;
    holding.has_been_read().await;

    let mut other = Session::with_recipient(gateway.smtp, TO).await;
    let reply = other.finish("in between").await;
    assert!(reply.starts_with("452 4.3.1"), "{reply}");

    let reply = holding.say(&format!("{rest}.")).await;
    assert!(reply.starts_with("250"), "{reply}");
    other.begin(TO).await;
    let reply = other.finish("afterwards").await;
    assert!(reply.starts_with("250"), "{reply}");
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_short_of_space_takes_no_mail_and_bounces_none() {
    let space = "[space]\nmin_free_bytes = 4611686018427387904\n";
    let gateway = TestGateway::with_rules(&[("smtp.toml", space)]).await;
    let replies = gateway.send("alice@good.example", &[TO], &signed("no room")).await;
    assert!(replies.mail.starts_with("452 4.3.1"), "{replies:?}");
    assert_eq!(gateway.messages().await.len(), 0);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_over_the_rate_is_put_off_and_counted() {
    let rates = "[exempt]\nnetworks = []\n[rates]\nrecipients_per_minute = 1\n";
    let gateway = TestGateway::with_rules(&[("smtp.toml", rates)]).await;
    let mut session = Session::with_recipient(gateway.smtp, TO).await;
    for _ in 0..3 {
        let reply = session.say("RCPT TO:<open@agents.example>").await;
        assert!(reply.starts_with("450 4.2.1") && reply.contains("[record "), "{reply}");
    }
    let reply = session.finish("the first recipient gets it").await;
    assert!(reply.starts_with("250"), "{reply}");
    // A minute may have ended in between.
    let records = gateway.get("/email/intake?reason=rate_limited").await;
    let records = records["intake"].as_array().unwrap();
    let counts = records.iter().map(|record| record["count"].as_u64().unwrap());
    assert_eq!(counts.sum::<u64>(), 3, "{records:?}");
    assert!(records.iter().all(|record| record["verdict"] == "deferred"), "{records:?}");
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_in_data_when_the_server_was_stopped_is_answered_and_kept() {
    let stage = Stage::set().await;
    let server = stage.server().await;
    let message = String::from_utf8(signed("in the middle of it")).unwrap();
    let (first, rest) = message.split_at(message.len() / 2);
    let mut inside = Session::with_recipient(server.smtp, TO).await;
    assert!(inside.say("DATA").await.starts_with("354"));
    inside.send(first).await;
    let mut idle = Session::greeted(server.smtp).await;

    server.ask_to_stop("-TERM").await;
    idle.expect("421 4.3.2").await;
    idle.expect_end().await;
    let refused = async { while TcpStream::connect(server.smtp).await.is_ok() {} };
    timeout(PATIENCE, refused).await.unwrap();

    inside.send(&format!("{rest}.\r\nMAIL FROM:<>\r\n")).await;
    inside.expect("250 2.0.0 accepted").await;
    inside.expect("421 4.3.2").await;
    inside.expect_end().await;
    assert_eq!(server.ended().await, 0);

    let server = stage.server().await;
    let messages = all_messages(server.http, &stage.site.key).await;
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0]["metadata"]["emailSubject"], "in the middle of it");
    assert_eq!(server.terminate().await, 0);
    stage.site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_end_within_the_grace_is_cut_and_not_kept() {
    let stage = Stage::set().await;
    let server = stage.server_by(LITTLE_GRACE).await;
    let mut inside = Session::with_recipient(server.smtp, TO).await;
    assert!(inside.say("DATA").await.starts_with("354"));
    inside.send("Subject: half").await;
    server.ask_to_stop("-TERM").await;
    inside.expect("421 4.3.2 shutting down").await;
    inside.expect_end().await;
    assert_eq!(server.ended().await, 0);
    let server = stage.server().await;
    assert!(all_messages(server.http, &stage.site.key).await.is_empty());
    assert_eq!(server.terminate().await, 0);
    stage.site.finish().await;
}
