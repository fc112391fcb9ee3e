//! The cost of taking mail in: `cargo bench --ignore-rust-version --bench intake`, with `-- --json`
//! for programs, `-- --small` for a look that takes a minute, and `-- --server PATH` for another build.
//!
//! The server is `gatepost serve`, a process of its own for each run; this process is the senders and
//! the receivers of webhooks. Messages come over SMTP, each signed and another one, from 2,000 senders
//! to one Agent; their signatures are verified against a local DNS, and each 250 is durable. All of it
//! shares the machine: compare CPU first, which holds where others are busy. Of the runs of a line the
//! one with the median rate is shown.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement that cannot be taken ends with a panic; its figures are printed"
)]

mod report;
#[expect(dead_code, reason = "other measurements need more of it")]
#[path = "../stage/mod.rs"]
mod stage;
#[expect(dead_code, reason = "the tests need more of it")]
#[path = "../../tests/it/support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Parser;

use report::{Line, Report};
use stage::UNLIMITED;
use stage::cost::Cost;
use stage::letters::{Letters, send};
use stage::place::{Kind, Place};
use stage::sink::Sink;
use support::process::{GATEPOST, Server};
use support::site::Site;

/// Longer than the slowest machine needs to deliver what was accepted.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Messages before the first that is measured: they pay the one-time costs.
const WARM_UP: usize = 400;

/// Measure intake
#[derive(Parser)]
struct Options {
    /// Only this database: sqlite or postgresql
    #[arg(long)]
    database: Option<String>,
    /// Sessions at the same time, one line each
    #[arg(long, value_delimiter = ',', default_values_t = [20, 200])]
    sessions: Vec<usize>,
    /// Destinations that are told of each message, one line each
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1, 10])]
    webhooks: Vec<usize>,
    /// Messages that are measured
    #[arg(long, default_value_t = 4000)]
    messages: usize,
    /// Messages that are in the store before
    #[arg(long, default_value_t = 0)]
    before: usize,
    /// Bytes of the text of each
    #[arg(long, default_value_t = 3500)]
    octets: usize,
    /// A connection for each message
    #[arg(long)]
    connect: bool,
    /// Runs of each line
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// The program
    #[arg(long)]
    server: Option<PathBuf>,
    /// A tenth of the messages, one run
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
        (options.messages, options.runs) = (options.messages / 10, 1);
    }
    let letters = Letters::write(WARM_UP + options.before + options.messages, options.octets);
    let mut report = Report::default();
    for kind in Kind::all(options.database.as_deref()) {
        for webhooks in &options.webhooks {
            for sessions in &options.sessions {
                let mut runs = Vec::new();
                for _ in 0..options.runs {
                    runs.push(run(kind, *webhooks, *sessions, &letters, &options).await);
                }
                runs.sort_by(|one, other| one.rate().total_cmp(&other.rate()));
                report.lines.push(runs.swap_remove(runs.len() / 2));
            }
        }
    }
    if options.json { report.print_json() } else { report.print_table() }
}

fn cost(place: &Place, server: &Server) -> (Cost, Option<Cost>) {
    (Cost::of(server.id()), place.cost())
}

async fn run(
    kind: Kind,
    webhooks: usize,
    sessions: usize,
    letters: &Letters,
    options: &Options,
) -> Line {
    let (place, sink) = (Place::new(kind, &UNLIMITED), Sink::start().await);
    let site = Site::build(&place.location, &place.rules).await;
    for url in sink.urls(webhooks) {
        site.hook(&url, &url).await;
    }
    site.leave_store().await;
    let empty = place.kept().await;
    let program = options.server.as_ref().map_or(GATEPOST, |path| path.to_str().unwrap());
    let server = place.serve(program, site.dns.addr()).await;
    let first = WARM_UP + options.before;
    send(server.smtp, letters, 0..first, (sessions, true)).await;
    sink.reach(first * webhooks, PATIENCE).await;

    let (before, begun) = (cost(&place, &server), Instant::now());
    let all = first + options.messages;
    let answered = send(server.smtp, letters, first..all, (sessions, !options.connect)).await;
    let took = begun.elapsed();
    sink.reach(all * webhooks, PATIENCE).await;
    let delivered = begun.elapsed();
    let after = cost(&place, &server);
    let peak = server.peak();
    assert_eq!(server.terminate().await, 0, "the server did not stop by itself");
    let kept = place.kept().await.saturating_sub(empty);
    site.finish().await;
    Line {
        store: kind.name(),
        webhooks,
        sessions,
        answered,
        took,
        delivered,
        server: after.0 - before.0,
        database: after.1.zip(before.1).map(|(after, before)| after - before),
        kept: kept / u64::try_from(all).unwrap(),
        peak,
    }
}
