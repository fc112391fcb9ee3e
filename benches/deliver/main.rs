//! How fast events reach a local receiver, and what waiting ones cost:
//! `cargo bench --ignore-rust-version --bench deliver`, with `-- --json` for programs, and
//! `-- --small` for a look that takes a minute.
//!
//! The server is `gatepost serve`, a process of its own for each line; this process makes the
//! backlog, by the store's own commits, before the server starts, and is the receiver. Server,
//! database and receiver share the machine, and each attempt is a connection of its own.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement that cannot be taken ends with a panic; its figures are printed"
)]

#[expect(dead_code, reason = "the measurement of commits needs more of it")]
#[path = "../commit/load.rs"]
mod load;
mod report;
#[expect(dead_code, reason = "other measurements need more of it")]
#[path = "../stage/mod.rs"]
mod stage;
#[expect(dead_code, reason = "the tests need more of it")]
#[path = "../../tests/it/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use gatepost::testkit::smtp_client::{Transaction, deliver};
use tokio::task::JoinSet;

use load::Load;
use report::{Delay, Memory, Pace, Report};
use stage::UNLIMITED;
use stage::place::{Kind, Place};
use stage::sink::Sink;
use stage::waits::Waits;
use support::process::{GATEPOST, Server};
use support::signed;
use support::site::Site;

const DESTINATIONS: [usize; 3] = [1, 10, 100];
/// Commits at the same time, while a backlog is made.
const WRITERS: usize = 100;
/// However slow the machine is, a backlog comes to its end.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Measure deliveries
#[derive(Parser)]
struct Options {
    /// Measure only pace, delay or memory
    only: Option<String>,
    /// How many deliveries wait at the start
    #[arg(long, default_value_t = 100_000)]
    backlog: usize,
    /// How many wait for the measurement of memory, beside a hundredth of them
    #[arg(long, default_value_t = 1_000_000)]
    long_backlog: usize,
    /// How many sessions send messages while delays are measured
    #[arg(long, default_value_t = 20)]
    sessions: usize,
    /// How many messages each of them sends
    #[arg(long, default_value_t = 100)]
    messages: usize,
    /// One percent of everything
    #[arg(long)]
    small: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// As `cargo bench` says and `cargo test` does not
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() {
    let mut options = Options::parse();
    if !options.bench {
        println!("nothing is measured in a test run: use cargo bench");
        return;
    }
    if options.small {
        options.backlog = 1000;
        options.long_backlog = 10_000;
        (options.sessions, options.messages) = (5, 10);
    }
    let wanted = |name: &str| options.only.as_ref().is_none_or(|only| name.contains(only));
    let mut report = Report::default();
    for store in Kind::all(None) {
        if wanted("pace") {
            for destinations in DESTINATIONS {
                report.paces.push(pace(store, destinations, options.backlog).await);
            }
        }
        if wanted("delay") {
            report.delays.push(delay(store, options.sessions, options.messages).await);
        }
        if wanted("memory") {
            for backlog in [options.long_backlog / 100, options.long_backlog] {
                let delivered = options.long_backlog / 200;
                report.memories.push(memory(store, backlog, delivered).await);
            }
        }
    }
    if options.json { report.print_json() } else { report.print_table() }
}

/// Makes so many deliveries that are due.
async fn fill(place: &Place, urls: &[String], backlog: usize) {
    let load = Arc::new(Load::build(&place.location, &place.rules.store, urls).await);
    let messages = backlog.div_ceil(urls.len());
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let load = Arc::clone(&load);
        let own = messages / WRITERS + usize::from(writer < messages % WRITERS);
        writers.spawn(async move {
            for _ in 0..own {
                load.commit(&load.next()).await;
            }
        });
    }
    writers.join_all().await;
    load.close().await;
}

/// Serves without DNS: no mail arrives, and receivers are named by address.
async fn serve(place: &Place) -> Server {
    place.serve(GATEPOST, ([127, 0, 0, 1], 9).into()).await
}

async fn pace(kind: Kind, destinations: usize, backlog: usize) -> Pace {
    let (place, sink) = (Place::new(kind, &[]), Sink::start().await);
    fill(&place, &sink.urls(destinations), backlog).await;
    let server = serve(&place).await;
    sink.reach(1, PATIENCE).await;
    let begun = Instant::now();
    sink.reach(backlog, PATIENCE).await;
    let took = begun.elapsed();
    server.kill().await;
    Pace { store: kind.name(), destinations, backlog, took }
}

async fn memory(kind: Kind, backlog: usize, delivered: usize) -> Memory {
    let (place, sink) = (Place::new(kind, &[]), Sink::start().await);
    fill(&place, &sink.urls(100), backlog).await;
    let server = serve(&place).await;
    sink.reach(delivered, PATIENCE).await;
    let peak = server.peak();
    server.kill().await;
    Memory { store: kind.name(), backlog, delivered, peak }
}

async fn delay(kind: Kind, sessions: usize, messages: usize) -> Delay {
    // One sender writes to one Agent, faster than a person would.
    let (place, sink) = (Place::new(kind, &UNLIMITED), Sink::start().await);
    let site = Site::build(&place.location, &place.rules).await;
    site.hook("measured", &sink.urls(1)[0]).await;
    site.leave_store().await;
    let server = place.serve(GATEPOST, site.dns.addr()).await;
    let begun = Instant::now();
    let mut running = JoinSet::new();
    for session in 0..sessions {
        let smtp = server.smtp;
        running.spawn(async move {
            let mut answered = Vec::new();
            for number in 0..messages {
                let subject = format!("number {number} of session {session}");
                let (raw, to) = (signed(&subject), ["support@agents.example".to_owned()]);
                let from = "alice@good.example";
                let transaction = Transaction { helo: "client.example", from, to: &to, raw: &raw };
                let replies = deliver(smtp, &transaction).await.unwrap();
                answered.push((subject, Instant::now()));
                assert!(replies.accepted(), "{replies:?}");
            }
            answered
        });
    }
    let answered = running.join_all().await.concat();
    let took = begun.elapsed();
    sink.reach(answered.len(), PATIENCE).await;
    let came = sink.subjects();
    // The receiver may hear of it before the sender has read its reply.
    let wait = |(subject, at): &(String, Instant)| came[subject].saturating_duration_since(*at);
    let waits = Waits::new(answered.iter().map(wait).collect());
    server.kill().await;
    site.finish().await;
    Delay { store: kind.name(), sessions, waits, took }
}
