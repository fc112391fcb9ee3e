//! The figures, as a table or as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Dialogue;
use crate::server::Kind;

pub struct Line {
    pub kind: Kind,
    pub dialogue: Dialogue,
    /// CPU time of the server.
    pub per_message: Duration,
}

pub fn print_table(lines: &[Line]) {
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{cores} cores; CPU time of the server per message\n");
    println!("{:>9}  per session  pipelined  {:<16} {:>10}  of plain", "octets", "", "µs");
    for line in lines {
        let Dialogue { size, transactions, pipelined } = line.dialogue;
        let pipelined = if pipelined { "yes" } else { "no" };
        println!(
            "{size:>9} {transactions:>12}  {pipelined:<9}  {:<16} {:>10.1} {:>9.2}",
            line.kind.name(),
            micros(line.per_message),
            of_plain(line, lines),
        );
    }
}

pub fn print_json(lines: &[Line]) {
    let figures: Vec<Value> = lines
        .iter()
        .map(|line| {
            json!({
                "server": line.kind.name(),
                "octets": line.dialogue.size,
                "transactionsPerSession": line.dialogue.transactions,
                "pipelined": line.dialogue.pipelined,
                "nanosPerMessage": u64::try_from(line.per_message.as_nanos()).unwrap(),
                "ofPlain": of_plain(line, lines),
            })
        })
        .collect();
    println!("{}", Value::from(figures));
}

/// Ratio to the plain loop.
fn of_plain(line: &Line, lines: &[Line]) -> f64 {
    let same = |other: &&Line| {
        let (a, b) = (other.dialogue, line.dialogue);
        (a.size, a.transactions, a.pipelined) == (b.size, b.transactions, b.pipelined)
    };
    let mut same = lines.iter().filter(same);
    same.find(|other| other.kind == Kind::Plain)
        .map_or(f64::NAN, |plain| line.per_message.as_secs_f64() / plain.per_message.as_secs_f64())
}
