//! Very many clients that do nothing, and one that never ends a line: what they cost the server,
//! and that others are served beside them (threats §3.3). `benches/idle` measures the same at full
//! size.

use gatepost::store::Location;

use crate::support::authority::{Secured, opportunistic};
use crate::support::process::Server;
use crate::support::session::Session;
use crate::support::site::Site;
use crate::support::{all_messages, rules};

const TO: &str = "support@agents.example";
/// Most bytes for an idle session: ten thousand must fit in 400 MB (threats §4).
const MAX_IDLE: u64 = 40_000;
/// Without an end of a line; the server may not keep a quarter of it.
const ENDLESS: usize = 64 << 20;
const MAX_GROWTH: u64 = 16 << 20;

/// A server in a process of its own, by these rules, which has taken one message: what is made
/// once is there.
struct Stage {
    _folder: tempfile::TempDir,
    site: Site,
    server: Server,
}

impl Stage {
    async fn set(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Folder(folder.path().join("store"));
        let site = Site::build(&location, &rules(folder.path(), files)).await;
        site.leave_store().await;
        let server = Server::start_on(&location, folder.path(), site.dns.addr()).await;
        deliver(&server, "the first").await;
        Self { _folder: folder, site, server }
    }

    async fn finish(self) {
        assert_eq!(self.server.terminate().await, 0);
        self.site.finish().await;
    }
}

async fn deliver(server: &Server, subject: &str) {
    let reply = Session::with_recipient(server.smtp, TO).await.finish(subject).await;
    assert!(reply.starts_with("250"), "{reply}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_served_beside_hundreds_that_idle_and_they_are_not_forgotten() {
    let stage = Stage::set(&[]).await;
    let before = stage.server.memory();
    let (mut clear, mut encrypted) = (Vec::new(), Vec::new());
    for _ in 0..300 {
        clear.push(Session::idle(stage.server.smtp).await);
    }
    let connector = opportunistic();
    for _ in 0..50 {
        let mut session = Secured::open(stage.server.smtp, &connector).await.unwrap();
        assert!(session.say("EHLO client.example\r\n").await.starts_with("250"));
        encrypted.push(session);
    }
    let grown = stage.server.memory().saturating_sub(before);
    assert!(grown < 350 * MAX_IDLE, "{grown} octets more");
    deliver(&stage.server, "beside all of them").await;
    for session in &mut clear {
        let reply = session.say("NOOP").await;
        assert!(reply.starts_with("250"), "{reply}");
    }
    for session in &mut encrypted {
        let reply = session.say("NOOP\r\n").await;
        assert!(reply.starts_with("250"), "{reply}");
    }
    assert_eq!(all_messages(stage.server.http, &stage.site.key).await.len(), 2);
    drop((clear, encrypted));
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_never_ends_costs_no_memory() {
    let stage = Stage::set(&[]).await;
    let mut session = Session::idle(stage.server.smtp).await;
    let before = stage.server.peak();
    session.send_one_line(ENDLESS).await;
    let reply = session.say("").await;
    assert!(reply.starts_with("500 5.5.2"), "{reply}");
    let grown = stage.server.peak().saturating_sub(before);
    assert!(grown < MAX_GROWTH, "{grown} octets more");
    deliver(&stage.server, "after it").await;
    stage.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_of_a_message_that_never_ends_costs_no_more_than_the_largest_message() {
    let limits = "[limits]\nmax_message_bytes = 1048576\n";
    let stage = Stage::set(&[("intake.toml", limits)]).await;
    let mut session = Session::with_recipient(stage.server.smtp, TO).await;
    assert!(session.say("DATA").await.starts_with("354"));
    let before = stage.server.peak();
    session.send_one_line(ENDLESS).await;
    let reply = session.say("\r\n.").await;
    assert!(reply.starts_with("552 5.3.4"), "{reply}");
    let grown = stage.server.peak().saturating_sub(before);
    assert!(grown < MAX_GROWTH, "{grown} octets more");
    deliver(&stage.server, "after it").await;
    stage.finish().await;
}
