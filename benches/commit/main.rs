//! The cost of one durable commit, beside the least that it can cost on the same disk in the same
//! run: `cargo bench --ignore-rust-version --bench commit`, with `-- --json` for programs.
//!
//! Sessions commit one message each, of about 6 KB with its record, evidence, contact and one
//! delivery, and wait for the acknowledgement before the next: through `Store::commit`, without
//! SMTP, DNS and HTTP around it. The least is the same bytes appended to one file, all that wait
//! together, with one `fdatasync`.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement that cannot be taken ends with a panic; its figures are printed"
)]

#[expect(dead_code, reason = "the tests restart it as well")]
#[path = "../../tests/it/support/cluster.rs"]
mod cluster;
mod load;
mod measure;
mod plain;
mod report;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use gatepost::rules::{Rules, StoreRules};
use gatepost::store::Location;

use cluster::Cluster;
use load::Load;
use measure::measure;
use plain::PlainLog;
use report::{Line, Machine, Target};

/// Sessions at the same time.
const SESSIONS: [usize; 3] = [1, 20, 200];
const WARM_UP: Duration = Duration::from_secs(1);
/// One transaction per message, in as many connections as there may be writers.
const GROUPS_OF_ONE: &str =
    "[commit]\nmax_messages = 1\nwriters = 16\n[connections]\npostgres = 16\n";

/// Measure the commit alone
#[derive(Parser)]
struct Options {
    /// Measure only what has this in its name
    only: Option<String>,
    /// How long each figure is measured
    #[arg(long, default_value_t = 3)]
    seconds: u64,
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
    let time = Duration::from_secs(options.seconds);
    let programs = cluster::binaries();
    let machine = look().await;
    let mut lines = Vec::new();
    for target in Target::ALL {
        if options.only.as_ref().is_some_and(|only| !target.name().contains(only.as_str())) {
            continue;
        }
        match (target, &programs) {
            (Target::Plain, _) => measure_plain(time, &mut lines).await,
            (Target::Sqlite, _) => {
                let folder = tempfile::tempdir().unwrap();
                let location = Location::Folder(folder.path().join("store"));
                measure_store(target, &location, &rules(""), time, &mut lines).await;
            }
            (Target::Postgres, Some(bin)) => {
                measure_postgres(target, bin, &rules(""), time, &mut lines).await;
            }
            (Target::PostgresSingly, Some(bin)) => {
                measure_postgres(target, bin, &rules(GROUPS_OF_ONE), time, &mut lines).await;
            }
            (_, None) => eprintln!("{}: skipped, PostgreSQL is not installed", target.name()),
        }
    }
    if options.json { machine.print_json(&lines) } else { machine.print_table(&lines) }
}

/// How the store is used: as compiled in, with this laid over it.
fn rules(store: &str) -> StoreRules {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("store.toml"), store).unwrap();
    Rules::load(folder.path()).unwrap().store
}

/// One destination per message; nothing is sent to it.
fn receivers() -> [String; 1] {
    ["https://app.example/events".to_owned()]
}

async fn measure_plain(time: Duration, lines: &mut Vec<Line>) {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Folder(folder.path().join("store"));
    let load = Arc::new(Load::build(&location, &rules(""), &receivers()).await);
    let log = PlainLog::create(&folder.path().join("log"));
    for sessions in SESSIONS {
        let work = {
            let (load, log) = (Arc::clone(&load), log.clone());
            move || {
                let (octets, log) = (load.next_octets(), log.clone());
                async move {
                    let begun = Instant::now();
                    log.append(octets).await;
                    begun.elapsed()
                }
            }
        };
        let figures = measure(sessions, WARM_UP, time, work).await;
        lines.push(Line { target: Target::Plain, sessions, figures });
    }
    load.close().await;
}

async fn measure_postgres(
    target: Target,
    bin: &Path,
    rules: &StoreRules,
    time: Duration,
    lines: &mut Vec<Line>,
) {
    let cluster = Cluster::start(bin, &["fsync=on"]);
    let location = Location::parse(None, Some(&cluster.url)).unwrap();
    measure_store(target, &location, rules, time, lines).await;
}

async fn measure_store(
    target: Target,
    location: &Location,
    rules: &StoreRules,
    time: Duration,
    lines: &mut Vec<Line>,
) {
    let load = Arc::new(Load::build(location, rules, &receivers()).await);
    for sessions in SESSIONS {
        let work = {
            let load = Arc::clone(&load);
            move || {
                let load = Arc::clone(&load);
                async move {
                    let commit = load.next();
                    let begun = Instant::now();
                    load.commit(&commit).await;
                    begun.elapsed()
                }
            }
        };
        let figures = measure(sessions, WARM_UP, time, work).await;
        lines.push(Line { target, sessions, figures });
    }
    load.close().await;
}

async fn look() -> Machine {
    let folder = tempfile::tempdir().unwrap();
    let load =
        Load::build(&Location::Folder(folder.path().join("store")), &rules(""), &receivers()).await;
    let octets = load.next_octets().len();
    load.close().await;
    Machine {
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        folder: std::env::temp_dir(),
        sync: plain::sync_latency(&folder.path().join("sync")),
        octets,
    }
}
