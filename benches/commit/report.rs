//! The figures of commits and of the machine, as a table or as JSON.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::measure::Figures;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Plain,
    Sqlite,
    Postgres,
    PostgresSingly,
}

impl Target {
    pub const ALL: [Self; 4] = [Self::Plain, Self::Sqlite, Self::Postgres, Self::PostgresSingly];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain append, fdatasync",
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
            Self::PostgresSingly => "PostgreSQL, one message per transaction",
        }
    }
}

/// The machine, its disk and the size of a message.
pub struct Machine {
    pub cores: usize,
    pub folder: PathBuf,
    pub sync: Figures,
    /// Bytes of one message, with everything that is kept beside it.
    pub octets: usize,
}

pub struct Line {
    pub target: Target,
    pub sessions: usize,
    pub figures: Figures,
}

impl Machine {
    pub fn print_table(&self, lines: &[Line]) {
        let millis = |time: Duration| time.as_secs_f64() * 1000.0;
        println!(
            "{} cores; 4 KiB and fdatasync in {}: p50 {:.2} ms, p99 {:.2} ms; {} bytes per \
             message\n",
            self.cores,
            self.folder.display(),
            millis(self.sync.p50),
            millis(self.sync.p99),
            self.octets
        );
        println!("{:<40} sessions  messages/s   p50 ms   p99 ms  of plain", "");
        for Line { target, sessions, figures } in lines {
            let plain =
                lines.iter().find(|one| one.target == Target::Plain && one.sessions == *sessions);
            let share =
                plain.map_or(f64::NAN, |plain| figures.per_second / plain.figures.per_second);
            println!(
                "{:<40} {sessions:>8} {:>11.0} {:>8.2} {:>8.2} {:>8.0}%",
                target.name(),
                figures.per_second,
                millis(figures.p50),
                millis(figures.p99),
                share * 100.0
            );
        }
    }

    pub fn print_json(&self, lines: &[Line]) {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap();
        let lines: Vec<Value> = lines
            .iter()
            .map(|Line { target, sessions, figures }| {
                json!({
                    "target": target.name(),
                    "sessions": sessions,
                    "messagesPerSecond": figures.per_second,
                    "p50Micros": micros(figures.p50),
                    "p99Micros": micros(figures.p99),
                })
            })
            .collect();
        let machine = json!({
            "cores": self.cores,
            "folder": self.folder,
            "syncP50Micros": micros(self.sync.p50),
            "syncP99Micros": micros(self.sync.p99),
            "octetsPerMessage": self.octets,
        });
        println!("{}", json!({ "machine": machine, "figures": lines }));
    }
}
