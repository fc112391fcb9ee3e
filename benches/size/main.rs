//! The cost of keeping: `cargo bench --ignore-rust-version --locked --bench size`, with `-- --json`
//! for programs, `-- --rows 1000000,10000000`, `-- --small` for a look.
//!
//! For a store of so many messages: its size, how long `gatepost serve` takes until it is ready, the
//! memory that it has then, and for the embedded store how long `check-store`, a backup and a restore
//! take; on PostgreSQL backups are its own (docs/backup.md).
//! Messages are rows that the database itself makes up (`../read/fill.rs`), with their entries of
//! the search index; they share a thousand originals, packed without the store's dictionary
//! and checksum: the size of originals is the mail's own.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement that cannot be taken ends with a panic; its figures are printed"
)]

#[expect(dead_code, reason = "other measurements need more of it")]
#[path = "../read/accounts.rs"]
mod accounts;
#[expect(dead_code, reason = "other measurements need more of it")]
#[path = "../read/fill.rs"]
mod fill;
#[expect(dead_code, reason = "other measurements need more of it")]
#[path = "../stage/mod.rs"]
mod stage;
#[expect(dead_code, reason = "the tests need more of it")]
#[path = "../../tests/it/support/mod.rs"]
mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::Parser;
use gatepost::store::Location;
use serde::Serialize;

use accounts::Accounts;
use stage::place::{Kind, Place, size};
use support::process::GATEPOST;
use support::site::Site;

/// Measure what keeping costs
#[derive(Parser)]
struct Options {
    /// How many messages there are, one store after the other
    #[arg(long, value_delimiter = ',', default_values_t = [1_000_000, 10_000_000])]
    rows: Vec<u64>,
    /// Only this database: sqlite or postgresql
    #[arg(long)]
    database: Option<String>,
    /// Starts of the server, of which the median counts
    #[arg(long, default_value_t = 3)]
    starts: usize,
    /// Without `check-store`, which reads every message
    #[arg(long)]
    skip_check: bool,
    /// 1,000 and 10,000 rows
    #[arg(long)]
    small: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// As `cargo bench` says and `cargo test` does not
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Serialize)]
struct Line {
    database: &'static str,
    rows: u64,
    store_bytes: u64,
    bytes_per_message: u64,
    start_seconds: f64,
    ready_memory_bytes: u64,
    /// None on PostgreSQL.
    upkeep: Option<Upkeep>,
}

#[derive(Serialize)]
struct Upkeep {
    backup_seconds: f64,
    backup_bytes: u64,
    restore_seconds: f64,
    check_seconds: Option<f64>,
}

#[tokio::main]
async fn main() {
    let mut options = Options::parse();
    if !options.bench {
        println!("nothing is measured in a test run: use cargo bench");
        return;
    }
    if options.small {
        options.rows = vec![1000, 10_000];
    }
    let mut lines = Vec::new();
    for kind in Kind::all(options.database.as_deref()) {
        for rows in &options.rows {
            lines.push(measure(kind, *rows, &options).await);
        }
    }
    if options.json {
        println!("{}", serde_json::to_string_pretty(&lines).unwrap());
        return;
    }
    println!(
        "| database | messages | store | a message | start | memory | backup | restore | check-store |\n\
         |---|---|---|---|---|---|---|---|---|"
    );
    for one in lines {
        let upkeep = one.upkeep.map_or_else(
            || "its own | its own | |".to_owned(),
            |one| {
                format!(
                    "{:.1} s, {:.2} GB | {:.1} s | {} |",
                    one.backup_seconds,
                    giga(one.backup_bytes),
                    one.restore_seconds,
                    one.check_seconds.map(|time| format!("{time:.1} s")).unwrap_or_default()
                )
            },
        );
        println!(
            "| {} | {} | {:.2} GB | {} B | {:.2} s | {} MB | {upkeep}",
            one.database,
            one.rows,
            giga(one.store_bytes),
            one.bytes_per_message,
            one.start_seconds,
            one.ready_memory_bytes >> 20,
        );
    }
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn giga(octets: u64) -> f64 {
    octets as f64 / 1e9
}

async fn measure(kind: Kind, rows: u64, options: &Options) -> Line {
    let place = Place::new(kind, &[]);
    let site = Site::build(&place.location, &place.rules).await;
    let accounts = Accounts::build(&site.tenancy, site.house.partner.id).await;
    site.leave_store().await;
    let empty = place.kept().await;
    let begun = Instant::now();
    fill::fill(&place.location, &accounts, rows, true).await;
    eprintln!("{}: {rows} messages in {:.0} s", kind.name(), begun.elapsed().as_secs_f64());
    let store_bytes = place.kept().await;
    let (mut times, mut memory) = (Vec::new(), 0);
    for _ in 0..options.starts.max(1) {
        let begun = Instant::now();
        let server = place.serve(GATEPOST, site.dns.addr()).await;
        times.push(begun.elapsed().as_secs_f64());
        memory = server.memory();
        assert_eq!(server.terminate().await, 0);
    }
    times.sort_by(f64::total_cmp);
    let line = Line {
        database: kind.name(),
        rows,
        store_bytes,
        bytes_per_message: store_bytes.saturating_sub(empty) / rows.max(1),
        start_seconds: times[times.len() / 2],
        ready_memory_bytes: memory,
        upkeep: match &place.location {
            Location::Folder(store) => Some(upkeep(store, options)),
            Location::Postgres(_) => None,
        },
    };
    site.finish().await;
    line
}

/// Takes the store away: a restored one needs its room.
fn upkeep(store: &Path, options: &Options) -> Upkeep {
    let elsewhere = tempfile::tempdir().unwrap();
    let (copy, new) = (elsewhere.path().join("copy"), elsewhere.path().join("new"));
    let backup_seconds = run(&["backup", "--data", text(store), "--to", text(&copy)]);
    let check = || run(&["check-store", "--data", text(store)]);
    let check_seconds = (!options.skip_check).then(check);
    std::fs::remove_dir_all(store).unwrap();
    let restore_seconds = run(&["restore", "--from", text(&copy), "--data", text(&new)]);
    Upkeep { backup_seconds, backup_bytes: size(&copy), restore_seconds, check_seconds }
}

/// Seconds that a command takes.
fn run(arguments: &[&str]) -> f64 {
    let begun = Instant::now();
    let mut command = Command::new(GATEPOST);
    let output = command.args(arguments).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    begun.elapsed().as_secs_f64()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
