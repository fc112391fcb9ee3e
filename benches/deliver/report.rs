//! What was measured, for people and for programs.

use std::time::Duration;

use serde_json::{Value, json};

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
    pub messages: usize,
    pub per_second: f64,
    pub p50: Duration,
    pub p99: Duration,
}

impl Delay {
    /// Of these, at least one, which came in so long.
    pub fn new(
        store: &'static str,
        sessions: usize,
        mut waits: Vec<Duration>,
        took: Duration,
    ) -> Self {
        waits.sort_unstable();
        let at = |percent: usize| waits[(waits.len() - 1) * percent / 100];
        let per_second = f64::from(u32::try_from(waits.len()).unwrap()) / took.as_secs_f64();
        Self { store, sessions, messages: waits.len(), per_second, p50: at(50), p99: at(99) }
    }
}

/// The most that a server kept in memory while it worked off some of a backlog, octets.
pub struct Memory {
    pub store: &'static str,
    pub backlog: usize,
    pub delivered: usize,
    pub peak: u64,
}

/// All of it.
#[derive(Default)]
pub struct Report {
    pub paces: Vec<Pace>,
    pub delays: Vec<Delay>,
    pub memories: Vec<Memory>,
}

impl Report {
    /// For people.
    pub fn print_table(&self) {
        let millis = |time: Duration| time.as_secs_f64() * 1000.0;
        println!("{:<12} {:>12} {:>9} {:>8}", "store", "destinations", "backlog", "per s");
        for pace in &self.paces {
            let Pace { store, destinations, backlog, .. } = pace;
            println!("{store:<12} {destinations:>12} {backlog:>9} {:>8.0}", pace.per_second());
        }
        println!(
            "\n{:<12} {:>12} {:>9} {:>8} {:>8} {:>8}",
            "250 to POST", "sessions", "messages", "per s", "p50 ms", "p99 ms"
        );
        for Delay { store, sessions, messages, per_second, p50, p99 } in &self.delays {
            let (p50, p99) = (millis(*p50), millis(*p99));
            println!(
                "{store:<12} {sessions:>12} {messages:>9} {per_second:>8.0} {p50:>8.1} {p99:>8.1}"
            );
        }
        println!("\n{:<12} {:>12} {:>9} {:>8}", "memory", "backlog", "delivered", "peak MB");
        for Memory { store, backlog, delivered, peak } in &self.memories {
            println!("{store:<12} {backlog:>12} {delivered:>9} {:>8}", peak / 1_000_000);
        }
    }

    /// For programs.
    pub fn print_json(&self) {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap();
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
                    "store": delay.store, "sessions": delay.sessions, "messages": delay.messages,
                    "messagesPerSecond": delay.per_second,
                    "p50Micros": micros(delay.p50), "p99Micros": micros(delay.p99),
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
