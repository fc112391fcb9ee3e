//! The cost of idle clients, and whether they hold up anybody else (threats §3.3, §4):
//! `cargo bench --ignore-rust-version --bench idle`, with `-- --json` for programs.
//!
//! The server is `gatepost serve` over the embedded store, a process of its own for each line, so
//! that its memory is its own; this process is the clients, which need a descriptor each. While
//! they idle, or send a byte now and then, a new client delivers one message after another, each
//! in a session of its own and signed, so that all of the path is walked. At last everybody who
//! idles is asked whether the server has forgotten it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement that cannot be taken ends with a panic; its figures are printed"
)]

mod crowd;
mod report;
#[expect(dead_code, reason = "other measurements need more of it")]
#[path = "../stage/mod.rs"]
mod stage;
#[expect(dead_code, reason = "the tests need more of it")]
#[path = "../../tests/it/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use clap::Parser;
use gatepost::testkit::smtp_client::{Transaction, deliver};

use crowd::{Crowd, Kind};
use report::{Flood, Line, Report};
use stage::place::{Kind as Database, Place};
use stage::waits::Waits;
use support::process::{GATEPOST, Server};
use support::session::Session;
use support::signed;
use support::site::Site;

const TO: &str = "support@agents.example";
/// Longer than it takes to gather a crowd on a small machine; and room for one client more.
const RULES: &str = "[limits]\nmax_sessions = 11000\n[deadlines]\ncommand_seconds = 3000\n";
/// Bytes of the first part of the endless line: more than the largest message.
const FIRST: usize = 64_000_000;

/// Measure what idle clients cost
#[derive(Parser)]
struct Options {
    /// Measure only what has this in its name
    only: Option<String>,
    /// How many clients idle; a tenth as many dribble
    #[arg(long, default_value_t = 10_000)]
    clients: usize,
    /// How many messages are delivered beside them
    #[arg(long, default_value_t = 200)]
    messages: usize,
    /// How many bytes are sent without an end of a line
    #[arg(long, default_value_t = 500_000_000)]
    octets: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// As `cargo bench` says and `cargo test` does not
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() {
    let options = Options::parse();
    if !options.bench {
        println!("nothing is measured in a test run: use cargo bench");
        return;
    }
    let wanted = |name: &str| options.only.as_ref().is_none_or(|only| name.contains(only));
    let mut report = Report::default();
    for kind in Kind::ALL {
        if wanted(kind.name()) {
            let clients = kind.share_of(options.clients);
            report.lines.push(measure(kind, clients, options.messages).await);
        }
    }
    for in_message in [false, true] {
        if wanted(Flood::name(in_message)) {
            report.floods.push(flood(in_message, options.octets).await);
        }
    }
    if options.json { report.print_json() } else { report.print_table() }
}

struct Stage {
    place: Place,
    site: Site,
    server: Server,
}

impl Stage {
    async fn set() -> Self {
        let place = Place::new(Database::Sqlite, &[("smtp.toml", RULES)]);
        let site = Site::build(&place.location, &place.rules).await;
        site.leave_store().await;
        let server = place.serve(GATEPOST, site.dns.addr()).await;
        Self { place, site, server }
    }

    /// Durations of so many sessions, from the connection to the reply to QUIT.
    async fn deliver(&self, messages: usize) -> Waits {
        let mut waits = Vec::new();
        for number in 0..messages {
            let (raw, to) = (signed(&format!("number {number}")), [TO.to_owned()]);
            let from = "alice@good.example";
            let transaction = Transaction { helo: "client.example", from, to: &to, raw: &raw };
            let begun = Instant::now();
            let replies = deliver(self.server.smtp, &transaction).await.unwrap();
            waits.push(begun.elapsed());
            assert!(replies.accepted(), "{replies:?}");
        }
        Waits::new(waits)
    }

    async fn finish(self) {
        self.server.kill().await;
        self.site.finish().await;
        drop(self.place);
    }
}

async fn measure(kind: Kind, clients: usize, messages: usize) -> Line {
    let stage = Stage::set().await;
    // One-time costs of the first messages do not count for the clients.
    let alone = stage.deliver(messages).await;
    let before = stage.server.memory();
    let begun = Instant::now();
    let crowd = Crowd::gather(kind, stage.server.smtp, clients).await;
    let gathered = begun.elapsed();
    let after = stage.server.memory();
    let beside = stage.deliver(messages).await;
    crowd.expect_answers().await;
    stage.finish().await;
    Line { kind, clients, gathered, before, after, alone, beside }
}

/// Sends so many bytes without an end of a line, as a command or in a message.
async fn flood(in_message: bool, octets: usize) -> Flood {
    let stage = Stage::set().await;
    stage.deliver(20).await;
    let mut session = if in_message {
        let mut session = Session::with_recipient(stage.server.smtp, TO).await;
        assert!(session.say("DATA").await.starts_with("354"));
        session
    } else {
        Session::idle(stage.server.smtp).await
    };
    let (before, begun) = (stage.server.peak(), Instant::now());
    let first = FIRST.min(octets);
    session.send_one_line(first).await;
    session.has_been_read().await;
    let at_first = stage.server.peak();
    session.send_one_line(octets - first).await;
    let (end, wanted) = if in_message { ("\r\n.", "552") } else { ("", "500") };
    let reply = session.say(end).await;
    assert!(reply.starts_with(wanted), "{reply}");
    let (took, peak): (Duration, u64) = (begun.elapsed(), stage.server.peak());
    stage.finish().await;
    Flood { in_message, octets, took, first, at_first: at_first - before, grown: peak - before }
}
