//! The figures, as a table or as JSON.

use std::time::Duration;

use serde_json::json;

use crate::crowd::Kind;
use crate::stage::waits::Waits;

/// A crowd, the server's memory without it and with it (bytes), and the durations of messages.
pub struct Line {
    pub kind: Kind,
    pub clients: usize,
    pub gathered: Duration,
    pub before: u64,
    pub after: u64,
    pub alone: Waits,
    pub beside: Waits,
}

impl Line {
    fn octets_per_client(&self) -> u64 {
        let clients = u64::try_from(self.clients).unwrap();
        self.after.saturating_sub(self.before) / clients.max(1)
    }
}

/// Growth of the server's peak memory, in bytes.
pub struct Flood {
    pub in_message: bool,
    pub octets: usize,
    pub took: Duration,
    /// Bytes of the first part.
    pub first: usize,
    /// Growth after the first part.
    pub at_first: u64,
    pub grown: u64,
}

impl Flood {
    pub const fn name(in_message: bool) -> &'static str {
        if in_message { "without a line end, in DATA" } else { "without a line end, a command" }
    }
}

#[derive(Default)]
pub struct Report {
    pub lines: Vec<Line>,
    pub floods: Vec<Flood>,
}

impl Report {
    pub fn print_table(&self) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        println!("{cores} cores; a session that delivers one message, in ms, alone and beside\n");
        println!(
            "{:<30} {:>7} {:>7} {:>7} {:>7} {:>11} {:>23} {:>23}",
            "",
            "clients",
            "seconds",
            "MB",
            "with",
            "bytes each",
            "alone: p50 p99 max",
            "beside: p50 p99 max"
        );
        for line in &self.lines {
            println!(
                "{:<30} {:>7} {:>7.1} {:>7} {:>7} {:>11} {} {}",
                line.kind.name(),
                line.clients,
                line.gathered.as_secs_f64(),
                line.before / 1_000_000,
                line.after / 1_000_000,
                line.octets_per_client(),
                columns(&line.alone),
                columns(&line.beside)
            );
        }
        for flood in &self.floods {
            println!(
                "{:<30} {} MB in {:.1} s: at most {} KB more, of which {} KB after the first \
                 {} MB",
                Flood::name(flood.in_message),
                flood.octets / 1_000_000,
                flood.took.as_secs_f64(),
                flood.grown / 1000,
                (flood.grown - flood.at_first) / 1000,
                flood.first / 1_000_000
            );
        }
    }

    pub fn print_json(&self) {
        let lines = self.lines.iter().map(|line| {
            json!({
                "clients": line.kind.name(),
                "count": line.clients,
                "octetsBefore": line.before,
                "octetsAfter": line.after,
                "octetsPerClient": line.octets_per_client(),
                "alone": line.alone.json(),
                "beside": line.beside.json(),
            })
        });
        let floods = self.floods.iter().map(|flood| {
            json!({
                "flood": Flood::name(flood.in_message),
                "octets": flood.octets,
                "peakGrownOctets": flood.grown,
                "peakGrownAfterFirstOctets": flood.grown - flood.at_first,
            })
        });
        let (lines, floods): (Vec<_>, Vec<_>) = (lines.collect(), floods.collect());
        println!("{}", json!({ "crowds": lines, "floods": floods }));
    }
}

fn columns(waits: &Waits) -> String {
    let [p50, p99, max] = [50, 99, 100].map(|percent| waits.millis(percent));
    format!("{p50:>7.1} {p99:>7.1} {max:>7.1}")
}
