//! The figures, as a table or as JSON.

use std::time::Duration;

use serde_json::json;

use crate::stage::waits::Waits;

/// Messages while so many followed the log.
pub struct Followed {
    pub store: &'static str,
    pub readers: usize,
    pub took: Duration,
    /// CPU time of the server, in seconds.
    pub cpu: f64,
    /// Bytes that came to all readers until the last 250, and in all.
    pub read: u64,
    pub all: u64,
    /// Time from the last 250 to the last byte of the last reader.
    pub late: Duration,
    pub answered: Waits,
}

impl Followed {
    fn rate(&self) -> f64 {
        self.answered.count() as f64 / self.took.as_secs_f64()
    }

    fn cpu_millis(&self) -> f64 {
        self.cpu * 1000.0 / self.answered.count() as f64
    }
}

pub struct Beside {
    pub store: &'static str,
    pub what: &'static str,
    /// Messages per second meanwhile.
    pub rate: f64,
    pub waits: Waits,
}

#[derive(Default)]
pub struct Report {
    pub followed: Vec<Followed>,
    pub beside: Vec<Beside>,
}

impl Report {
    pub fn print_table(&self) {
        for one in &self.followed {
            println!(
                "{:<10} {:>5} readers: {:>5.0} messages/s, {:>6.2} ms CPU each, 250 in {:>6.0} {:>6.0} ms \
                 (p50 p99), {:>6} of {:>6} MB read, the rest {:>6.1} s later",
                one.store,
                one.readers,
                one.rate(),
                one.cpu_millis(),
                one.answered.millis(50),
                one.answered.millis(99),
                one.read / 1_000_000,
                one.all / 1_000_000,
                one.late.as_secs_f64()
            );
        }
        for Beside { store, what, rate, waits } in &self.beside {
            let (p50, p99, count) = (waits.millis(50), waits.millis(99), waits.count());
            println!(
                "{store:<10} {what}: p50 {p50:.1} p99 {p99:.1} ms of {count}, at {rate:.0} messages/s"
            );
        }
    }

    pub fn print_json(&self) {
        let followed = self.followed.iter().map(|one| {
            json!({
                "store": one.store, "readers": one.readers, "messagesPerSecond": one.rate(),
                "cpuMillis": one.cpu_millis(), "answered": one.answered.json(),
                "octets": one.read, "octetsInAll": one.all, "lateSeconds": one.late.as_secs_f64(),
            })
        });
        let beside = self.beside.iter().map(|one| {
            json!({ "store": one.store, "what": one.what, "messagesPerSecond": one.rate, "waits": one.waits.json() })
        });
        let (followed, beside): (Vec<_>, Vec<_>) = (followed.collect(), beside.collect());
        println!("{}", json!({ "streams": followed, "reads": beside }));
    }
}
