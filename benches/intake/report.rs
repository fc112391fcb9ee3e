//! The figures, for people and for programs.

use std::time::Duration;

use serde_json::{Value, json};

use crate::stage::cost::Cost;
use crate::stage::waits::Waits;

/// Messages in so many sessions, announced to so many destinations.
pub struct Line {
    pub store: &'static str,
    pub webhooks: usize,
    pub sessions: usize,
    /// Time from each message to its 250.
    pub answered: Waits,
    /// Time until the last 250.
    pub took: Duration,
    /// Time until the last POST; until the last 250 where there are no webhooks.
    pub delivered: Duration,
    pub server: Cost,
    /// The cost of PostgreSQL, which runs beside the server.
    pub database: Option<Cost>,
    /// Bytes at rest for each message.
    pub kept: u64,
    /// Peak memory of the server, in bytes.
    pub peak: u64,
}

impl Line {
    fn count(&self) -> f64 {
        self.answered.count() as f64
    }

    /// Messages a second until the last 250.
    pub fn rate(&self) -> f64 {
        self.count() / self.took.as_secs_f64()
    }

    /// Messages a second until the last POST.
    fn delivered_rate(&self) -> f64 {
        self.count() / self.delivered.as_secs_f64()
    }

    fn cpu_millis(&self, cost: Cost) -> f64 {
        cost.cpu * 1000.0 / self.count()
    }

    /// KB that server and database wrote for each message.
    fn written(&self) -> f64 {
        let cost = self.server + self.database.unwrap_or_default();
        cost.written as f64 / 1000.0 / self.count()
    }
}

#[derive(Default)]
pub struct Report {
    pub lines: Vec<Line>,
}

impl Report {
    pub fn print_table(&self) {
        println!(
            "{:<10} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
            "",
            "webhooks",
            "sessions",
            "250s/s",
            "p50 ms",
            "p99 ms",
            "POSTs/s",
            "CPU ms",
            "of db",
            "written",
            "kept KB",
            "peak MB"
        );
        for line in &self.lines {
            let delivered = line.delivered_rate() * line.webhooks as f64;
            let database = line.database.map_or(0.0, |cost| line.cpu_millis(cost));
            println!(
                "{:<10} {:>8} {:>8} {:>8.0} {:>8.1} {:>8.1} {:>8.0} {:>8.2} {:>8.2} {:>8.1} {:>8.1} \
                 {:>8}",
                line.store,
                line.webhooks,
                line.sessions,
                line.rate(),
                line.answered.millis(50),
                line.answered.millis(99),
                delivered,
                line.cpu_millis(line.server),
                database,
                line.written(),
                line.kept as f64 / 1000.0,
                line.peak / 1_000_000
            );
        }
    }

    pub fn print_json(&self) {
        let lines = self.lines.iter().map(|line| {
            json!({
                "store": line.store, "webhooks": line.webhooks, "sessions": line.sessions,
                "messagesPerSecond": line.rate(), "answered": line.answered.json(),
                "messagesPerSecondToTheLastPost": line.delivered_rate(),
                "cpuMillis": line.cpu_millis(line.server),
                "databaseCpuMillis": line.database.map(|cost| line.cpu_millis(cost)),
                "writtenKilobytes": line.written(), "keptOctets": line.kept,
                "peakOctets": line.peak,
            })
        });
        println!("{}", json!({ "intake": lines.collect::<Vec<Value>>() }));
    }
}
