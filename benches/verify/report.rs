//! The figures, as a table or as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use crate::letters::Signed;

/// CPU time of each part of one message.
pub struct Line {
    pub signed: Signed,
    pub octets: usize,
    /// SHA-256 and the public-key operations alone.
    pub least: Duration,
    pub scan: Duration,
    /// Look-ups in memory, signatures, SPF, DMARC, ARC, and the evidence of all.
    pub verify: Duration,
    /// MIME, text, findings.
    pub read: Duration,
    /// The whole, with the digest: everything that `intake` does before it decides.
    pub whole: Duration,
    /// Counting a message that was accepted, and its commit: what `--metrics` shows.
    pub metrics: Duration,
    /// Tracing it where traces are off.
    pub untraced: Duration,
    /// Allocations of the whole: their number and their bytes.
    pub allocations: usize,
    pub allocated: usize,
}

impl Line {
    fn of_least(&self) -> f64 {
        self.verify.as_secs_f64() / self.least.as_secs_f64()
    }
}

pub fn print_table(lines: &[Line]) {
    println!("CPU time per message, µs\n");
    println!(
        "{:<15} {:>9} {:>10} {:>8} {:>10} {:>10} {:>10} {:>8} {:>9}  verify / least  allocations, bytes",
        "signed", "octets", "least", "scan", "verify", "read", "whole", "metrics", "untraced"
    );
    for line in lines {
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        println!(
            "{:<15} {:>9} {:>10.1} {:>8.1} {:>10.1} {:>10.1} {:>10.1} {:>8.2} {:>9.4} {:>8.2} {:>12} {:>10}",
            line.signed.name(),
            line.octets,
            micros(line.least),
            micros(line.scan),
            micros(line.verify),
            micros(line.read),
            micros(line.whole),
            micros(line.metrics),
            micros(line.untraced),
            line.of_least(),
            line.allocations,
            line.allocated,
        );
    }
}

pub fn print_json(lines: &[Line]) {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap();
    let figures: Vec<Value> = lines
        .iter()
        .map(|line| {
            json!({
                "signed": line.signed.name(), "octets": line.octets,
                "leastNanos": nanos(line.least), "scanNanos": nanos(line.scan),
                "verifyNanos": nanos(line.verify), "readNanos": nanos(line.read),
                "wholeNanos": nanos(line.whole), "metricsNanos": nanos(line.metrics),
                "untracedNanos": nanos(line.untraced),
                "verifyOfLeast": line.of_least(),
                "allocations": line.allocations, "allocatedOctets": line.allocated,
            })
        })
        .collect();
    println!("{}", Value::from(figures));
}
