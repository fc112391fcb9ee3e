//! Sends every fixture, to one server per set of rules, and prints the results.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Semaphore;

use super::stage::Stage;
use crate::cli::local::PATIENCE;
use crate::cli::{Failure, say};
use crate::testkit::case::Case;
use crate::testkit::receiver::{Received, Receiver};

/// Sessions at the same time.
const CONCURRENCY: usize = 8;

/// A case and its result.
pub(super) struct Row {
    case: Case,
    reply: String,
    as_expected: bool,
}

/// All cases, and their servers with the number of events expected of each.
pub(super) struct Performance {
    stages: Vec<(Arc<Stage>, usize)>,
    rows: Vec<Row>,
}

impl Performance {
    /// Sends all cases, and prints the rows of each server.
    pub async fn of_all(print: fn(&[Row]) -> Result<(), Failure>) -> Result<Self, Failure> {
        let mut all = Self { stages: Vec::new(), rows: Vec::new() };
        for group in Case::groups()? {
            let stage = Arc::new(Stage::start(&group.rules).await?);
            let rows = send_all(&stage, group.cases).await?;
            print(&rows)?;
            let accepted = rows.iter().filter(|row| row.case.script.expect == "accepted");
            let events = accepted.map(|row| row.case.script.to.len()).sum();
            all.stages.push((stage, events));
            all.rows.extend(rows);
        }
        Ok(all)
    }

    fn differing(&self) -> usize {
        self.rows.iter().filter(|row| !row.as_expected).count()
    }

    /// Prints the totals in three lines. Returns whether all is as expected.
    pub async fn print_totals(&self) -> Result<bool, Failure> {
        let (sent, differing) = (self.rows.len(), self.differing());
        let begins = |digit| self.rows.iter().filter(|row| row.reply.starts_with(digit)).count();
        let (accepted, refused, deferred) = (begins('2'), begins('5'), begins('4'));
        let (mut wanted, mut got, mut signed) = (0, 0, true);
        for (stage, events) in &self.stages {
            let came = stage.receiver.wait_for(*events, PATIENCE).await;
            got += came.map_or_else(|too_few| too_few.got, |came| came.len());
            wanted += events;
            signed &= all_signed(&stage.receiver);
        }
        let signatures = if signed { "all signed" } else { "NOT ALL SIGNED" };
        say!("  {sent} messages sent: {} as expected, {differing} differed", sent - differing)?;
        say!("  {accepted} accepted, {refused} refused, {deferred} deferred")?;
        say!("  {got} of {wanted} events arrived, {signatures}")?;
        Ok(differing == 0 && got == wanted && signed)
    }

    /// Prints events as they arrive, and how many cases differed. Returns whether none did and all
    /// events came, signed.
    pub async fn print_events(&self) -> Result<bool, Failure> {
        let mut arrived = true;
        for (stage, events) in &self.stages {
            arrived &= print_events(&stage.receiver, *events).await?;
        }
        let differing = self.differing();
        say!("\n{} messages, {differing} differed from what was expected", self.rows.len())?;
        Ok(arrived && differing == 0)
    }

    /// Returns the servers, still running.
    pub fn into_stages(self) -> Vec<Stage> {
        self.stages.into_iter().filter_map(|(stage, _)| Arc::into_inner(stage)).collect()
    }
}

/// Sends the cases, up to [`CONCURRENCY`] at a time, and returns their rows in order.
async fn send_all(stage: &Arc<Stage>, cases: Vec<Case>) -> Result<Vec<Row>, Failure> {
    let places = Arc::new(Semaphore::new(CONCURRENCY));
    let mut sending = Vec::new();
    for case in cases {
        let (places, stage) = (Arc::clone(&places), Arc::clone(stage));
        sending.push(tokio::spawn(async move {
            let _place = places.acquire_owned().await;
            let reply = stage.send(&case).await;
            let as_expected = reply.starts_with(&case.script.reply);
            Row { case, reply, as_expected }
        }));
    }
    let mut rows = Vec::with_capacity(sending.len());
    for row in sending {
        rows.push(row.await?);
    }
    Ok(rows)
}

pub(super) fn print_table(rows: &[Row]) -> Result<(), Failure> {
    let widest = rows.iter().map(|row| row.case.name.len()).max().unwrap_or(0);
    for row in rows {
        let mark = if row.as_expected { "as expected" } else { "DIFFERS    " };
        say!("{mark}  {:<widest$}  {}", row.case.name, row.reply)?;
        row.print_expected()?;
    }
    Ok(())
}

/// Prints the rows that differ.
pub(super) fn print_differing(rows: &[Row]) -> Result<(), Failure> {
    for row in rows.iter().filter(|row| !row.as_expected) {
        say!("DIFFERS      {}  {}", row.case.name, row.reply)?;
        row.print_expected()?;
    }
    Ok(())
}

impl Row {
    fn print_expected(&self) -> Result<(), Failure> {
        if self.as_expected {
            return Ok(());
        }
        let script = &self.case.script;
        say!("             expected {}: {}", script.reply, script.about)
    }
}

fn all_signed(receiver: &Receiver) -> bool {
    receiver.received().iter().all(|request| request.verified)
}

/// Prints events as they arrive. Returns whether all came, signed.
async fn print_events(receiver: &Receiver, wanted: usize) -> Result<bool, Failure> {
    for number in 1..=wanted {
        match receiver.wait_for(number, PATIENCE).await {
            Ok(received) => {
                if let Some(request) = received.get(number - 1) {
                    print_event(request)?;
                }
            }
            Err(too_few) => {
                say!("{too_few}")?;
                return Ok(false);
            }
        }
    }
    Ok(all_signed(receiver))
}

fn print_event(request: &Received) -> Result<(), Failure> {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let text = |key| body.get(key).and_then(Value::as_str).unwrap_or_default();
    let signed = if request.verified { "signature verified" } else { "SIGNATURE WRONG" };
    say!("{}  {:<28}  {:?}  {signed}", text("event"), text("from"), text("subject"))
}
