//! The figures, as a table or as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use crate::stage::waits::Waits;

/// Deliveries of a backlog that came in so long, from the first to the last.
pub struct Pace {
    pub store: &'static str,
    pub destinations: usize,
    pub backlog: usize,
    pub took: Duration,
}

impl Pace {
    fn per_second(&self) -> f64 {
        f64::from(u32::try_from(self.backlog).unwrap()) / self.took.as_secs_f64()
    }
}

/// From the 250 of a message to the first attempt to announce it.
pub struct Delay {
    pub store: &'static str,
    pub sessions: usize,
    pub waits: Waits,
    /// Time until all were delivered.
    pub took: Duration,
}

impl Delay {
    fn per_second(&self) -> f64 {
        self.waits.count() as f64 / self.took.as_secs_f64()
    }
}

/// Peak memory of a server, in bytes, while it delivered part of a backlog.
pub struct Memory {
    pub store: &'static str,
    pub backlog: usize,
    pub delivered: usize,
    pub peak: u64,
}

#[derive(Default)]
pub struct Report {
    pub paces: Vec<Pace>,
    pub delays: Vec<Delay>,
    pub memories: Vec<Memory>,
}

impl Report {
    pub fn print_table(&self) {
        println!("{:<12} {:>12} {:>9} {:>8}", "store", "destinations", "backlog", "per s");
        for pace in &self.paces {
            let Pace { store, destinations, backlog, .. } = pace;
            println!("{store:<12} {destinations:>12} {backlog:>9} {:>8.0}", pace.per_second());
        }
        println!(
            "\n{:<12} {:>12} {:>9} {:>8} {:>8} {:>8}",
            "250 to POST", "sessions", "messages", "per s", "p50 ms", "p99 ms"
        );
        for delay in &self.delays {
            let Delay { store, sessions, waits, .. } = delay;
            let (count, per_second) = (waits.count(), delay.per_second());
            let (p50, p99) = (waits.millis(50), waits.millis(99));
            println!(
                "{store:<12} {sessions:>12} {count:>9} {per_second:>8.0} {p50:>8.1} {p99:>8.1}"
            );
        }
        println!("\n{:<12} {:>12} {:>9} {:>8}", "memory", "backlog", "delivered", "peak MB");
        for Memory { store, backlog, delivered, peak } in &self.memories {
            println!("{store:<12} {backlog:>12} {delivered:>9} {:>8}", peak / 1_000_000);
        }
    }

    pub fn print_json(&self) {
        let paces: Vec<Value> = self
            .paces
            .iter()
            .map(|pace| {
                json!({
                    "store": pace.store, "destinations": pace.destinations,
                    "backlog": pace.backlog, "deliveriesPerSecond": pace.per_second(),
                })
            })
            .collect();
        let delays: Vec<Value> = self
            .delays
            .iter()
            .map(|delay| {
                json!({
                    "store": delay.store, "sessions": delay.sessions,
                    "messagesPerSecond": delay.per_second(), "waits": delay.waits.json(),
                })
            })
            .collect();
        let memories: Vec<Value> = self
            .memories
            .iter()
            .map(|memory| {
                json!({
                    "store": memory.store, "backlog": memory.backlog,
                    "delivered": memory.delivered, "peakOctets": memory.peak,
                })
            })
            .collect();
        println!("{}", json!({ "pace": paces, "delay": delays, "memory": memories }));
    }
}
