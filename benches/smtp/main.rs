//! The cost of SMTP alone: accept, parse, discard; the CPU time of the server per message, beside
//! the least that the same dialogue can cost over tokio: `cargo bench --ignore-rust-version --bench
//! smtp`, with `-- --json` for programs and `--features mailin` for mailin-embedded beside both.
//!
//! Each server is a process of its own, this program again, so that the client is not counted; its
//! Intake answers at once and stores nothing. Rounds go round the servers, and the median counts:
//! what else the machine does hits all of them alike.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a measurement that cannot be taken ends with a panic; its figures are printed"
)]

mod client;
mod plain;
mod report;
mod server;

use clap::Parser;

use client::Dialogue;
use report::Line;
use server::{Kind, Process};

/// Bytes of a message, transactions of one session, sessions of one round.
const LOADS: &[(usize, usize, usize)] = &[
    (4_000, 1, 1000),
    (4_000, 100, 20),
    (100_000, 1, 400),
    (100_000, 100, 4),
    (5_000_000, 1, 20),
    (5_000_000, 100, 1),
];

/// Measure SMTP alone
#[derive(Parser)]
struct Options {
    /// Measure only messages of so many bytes
    only: Option<usize>,
    /// How often each figure is taken; the median counts
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Be a server, until standard input ends
    #[arg(long, hide = true)]
    serve: Option<Kind>,
    /// As `cargo bench` says and `cargo test` does not
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let options = Options::parse();
    if let Some(kind) = options.serve {
        return server::run(kind);
    }
    if !options.bench {
        println!("nothing is measured in a test run: use cargo bench");
        return;
    }
    let servers: Vec<Process> = Kind::ALL.iter().map(|kind| Process::start(*kind)).collect();
    let mut lines = Vec::new();
    for (size, transactions, sessions) in LOADS.iter().copied() {
        if options.only.is_some_and(|only| only != size) {
            continue;
        }
        for pipelined in [false, true] {
            let dialogue = Dialogue { size, transactions, pipelined };
            lines.extend(measure(&servers, dialogue, sessions, options.rounds));
        }
    }
    if options.json { report::print_json(&lines) } else { report::print_table(&lines) }
}

/// One line for each server.
fn measure(servers: &[Process], dialogue: Dialogue, sessions: usize, rounds: usize) -> Vec<Line> {
    let messages = u32::try_from(sessions * dialogue.transactions).unwrap();
    let mut taken = vec![Vec::new(); servers.len()];
    // The first round warms up.
    for round in 0..=rounds {
        for (server, taken) in servers.iter().zip(&mut taken) {
            let before = server.cpu_time();
            client::send(server.address, dialogue, sessions);
            if round > 0 {
                taken.push((server.cpu_time() - before) / messages);
            }
        }
    }
    let median = |mut figures: Vec<_>| {
        figures.sort_unstable();
        figures[figures.len() / 2]
    };
    let line = |(server, figures): (&Process, _)| Line {
        kind: server.kind,
        dialogue,
        per_message: median(figures),
    };
    servers.iter().zip(taken).map(line).collect()
}
