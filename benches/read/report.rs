//! The figures, as a table or as JSON.

use serde_json::{Value, json};

use crate::stage::waits::Waits;

/// One kind of request in one store.
pub struct Line {
    pub store: &'static str,
    pub rows: u64,
    pub what: String,
    pub waits: Waits,
    /// Items in an answer.
    pub shown: usize,
}

#[derive(Default)]
pub struct Report {
    pub lines: Vec<Line>,
}

impl Report {
    pub fn print_table(&self) {
        println!(
            "{:<9} {:>8}  {:<52} {:>8} {:>8} {:>5}",
            "", "rows", "", "p50 ms", "p99 ms", "items"
        );
        for Line { store, rows, what, waits, shown } in &self.lines {
            let (p50, p99) = (waits.millis(50), waits.millis(99));
            println!("{store:<9} {rows:>8}  {what:<52} {p50:>8.2} {p99:>8.2} {shown:>5}");
        }
    }

    pub fn print_json(&self) {
        let lines = self.lines.iter().map(|Line { store, rows, what, waits, shown }| {
            json!({
                "store": store, "rows": rows, "what": what, "items": shown,
                "waits": waits.json(),
            })
        });
        println!("{}", json!({ "figures": lines.collect::<Vec<Value>>() }));
    }
}
