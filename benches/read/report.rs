//! What was measured, for people and for programs.

use std::time::Duration;

use serde_json::{Value, json};

/// How long requests took.
pub struct Figures {
    pub p50: Duration,
    pub p99: Duration,
}

impl Figures {
    /// Of these, at least one.
    pub fn new(mut waits: Vec<Duration>) -> Self {
        waits.sort_unstable();
        let at = |percent: usize| waits[(waits.len() - 1) * percent / 100];
        Self { p50: at(50), p99: at(99) }
    }
}

/// One kind of request in one store.
pub struct Line {
    pub store: &'static str,
    pub rows: u64,
    pub what: String,
    pub figures: Figures,
    /// Items in an answer.
    pub shown: usize,
}

#[derive(Default)]
pub struct Report {
    pub lines: Vec<Line>,
}

impl Report {
    /// For people.
    pub fn print_table(&self) {
        let millis = |time: Duration| time.as_secs_f64() * 1000.0;
        println!(
            "{:<9} {:>8}  {:<52} {:>8} {:>8} {:>5}",
            "", "rows", "", "p50 ms", "p99 ms", "items"
        );
        for Line { store, rows, what, figures, shown } in &self.lines {
            let (p50, p99) = (millis(figures.p50), millis(figures.p99));
            println!("{store:<9} {rows:>8}  {what:<52} {p50:>8.2} {p99:>8.2} {shown:>5}");
        }
    }

    /// For programs.
    pub fn print_json(&self) {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap();
        let lines = self.lines.iter().map(|Line { store, rows, what, figures, shown }| {
            json!({
                "store": store, "rows": rows, "what": what, "items": shown,
                "p50Micros": micros(figures.p50), "p99Micros": micros(figures.p99),
            })
        });
        println!("{}", json!({ "figures": lines.collect::<Vec<Value>>() }));
    }
}
