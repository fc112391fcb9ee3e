//! The policy of an Agent: its mode and list, and a draft that is tried on past mail.

use askama::Template;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::filters;
use super::frame::{Frame, Section};
use super::shapes::{AuditEntry, doubts};
use super::visit::{Answer, Visit};
use crate::http::error::Problem;
use crate::http::in_process::Asked;

/// Senders of a page of the list.
const ROWS: u32 = 100;
/// Days that a draft is tried on.
const DAYS: u64 = 30;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Policy {
    mode: String,
    allowlist_count: u64,
    updated_at: String,
}

#[derive(Deserialize)]
struct PolicyAnswer {
    policy: Policy,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sender {
    email: String,
    note: Option<String>,
    added_at: String,
}

impl Sender {
    fn doubts(&self) -> Vec<String> {
        doubts(&self.email)
    }
}

#[derive(Deserialize)]
struct Senders {
    whitelist: Vec<Sender>,
    next: Option<String>,
}

/// A change that is not saved yet.
#[derive(Default)]
struct Draft {
    /// Empty to keep the mode.
    mode: String,
    /// Senders to add, one a line.
    add: String,
    /// Senders to remove, one a line.
    remove: String,
    note: String,
}

impl Draft {
    fn of(visit: &Visit) -> Self {
        let sent = |name| visit.form.get(name).to_owned();
        // A link begins a draft; a form says what is in it, also if nothing is.
        let add =
            if visit.form.is_empty() { visit.query.get("add") } else { visit.form.get("add") };
        Self { mode: sent("mode"), add: add.to_owned(), remove: sent("remove"), note: sent("note") }
    }

    fn lines(text: &str) -> Vec<&str> {
        let apart = |letter: char| letter == ',' || letter == ';' || letter.is_whitespace();
        text.split(apart).filter(|line| !line.is_empty()).collect()
    }

    /// Fails if it changes nothing.
    fn check(&self) -> Result<(), Problem> {
        if self.mode.is_empty() && self.add.is_empty() && self.remove.is_empty() {
            return Err(Problem::invalid(
                "the draft changes nothing: set a mode, or name a sender",
            ));
        }
        Ok(())
    }

    /// The fields of the API's preview.
    fn preview(&self) -> Value {
        let mut body = Map::from_iter([("days".to_owned(), DAYS.into())]);
        if !self.mode.is_empty() {
            body.insert("mode".into(), self.mode.clone().into());
        }
        for (name, text) in [("add", &self.add), ("remove", &self.remove)] {
            let senders = Self::lines(text);
            if !senders.is_empty() {
                body.insert(name.into(), senders.into());
            }
        }
        body.into()
    }
}

/// The verdicts that the draft would have changed.
#[derive(Deserialize)]
struct Tried {
    examined: u64,
    complete: bool,
    changed: Vec<ChangedRecord>,
    counts: Counts,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChangedRecord {
    intake_id: Option<String>,
    sender: Option<String>,
    date: String,
    was: String,
    was_reason: Option<String>,
    would: String,
    would_reason: Option<String>,
}

#[derive(Deserialize)]
struct Counts {
    was: Tally,
    would: Tally,
    changed: u64,
}

#[derive(Deserialize)]
struct Tally {
    accepted: u64,
    refused: u64,
    deferred: u64,
}

#[derive(Template)]
#[template(path = "policy.html", config = "src/console/templates/askama.toml")]
struct PolicyPage {
    frame: Frame,
    policy: Policy,
    senders: Senders,
    draft: Draft,
    tried: Option<Tried>,
    /// Senders of the draft, or added ones, whose names look like others.
    warnings: Vec<Warning>,
    /// The latest changes; None where the caller may not read them.
    history: Option<Vec<AuditEntry>>,
}

#[derive(Deserialize)]
struct Warning {
    email: String,
    warning: String,
}

#[derive(Default, Deserialize)]
struct Added {
    #[serde(default)]
    warnings: Vec<Warning>,
}

#[derive(Deserialize)]
struct Entries {
    audit: Vec<AuditEntry>,
}

/// The results of a form that the page shows besides the policy.
#[derive(Default)]
struct Shown {
    tried: Option<Tried>,
    warnings: Vec<Warning>,
}

/// Shows the policy.
pub(super) async fn show(visit: Visit) -> Result<Answer, Problem> {
    page(visit, Shown::default()).await
}

async fn page(visit: Visit, shown: Shown) -> Result<Answer, Problem> {
    let frame = visit.frame(Section::Policy).await?;
    if !frame.is_agent() {
        return frame.open_another(&visit, "/policy", "A policy belongs to an Agent").await;
    }
    let PolicyAnswer { policy } = visit.ask(visit.on("getInboundPolicy")).await?;
    let list = visit.on("listSenders").with("limit", ROWS).with("after", visit.query.get("after"));
    let senders = visit.ask(list).await?;
    let (draft, Shown { tried, warnings }) = (Draft::of(&visit), shown);
    let history = history(&visit).await;
    Answer::page(&PolicyPage { frame, policy, senders, draft, tried, warnings, history })
}

/// The latest changes of the policy; None where the caller may not read the audit log.
async fn history(visit: &Visit) -> Option<Vec<AuditEntry>> {
    let mut all = Vec::new();
    for action in ["policy.changed", "senders.allowed", "senders.removed"] {
        let asked = visit.on("listAuditEntries").with("action", action).with("limit", 10);
        all.extend(visit.ask::<Entries>(asked).await.ok()?.audit);
    }
    all.sort_by(|one, other| other.date.cmp(&one.date));
    all.truncate(10);
    Some(all)
}

/// Tries the draft, or saves it.
pub(super) async fn change(visit: Visit) -> Result<Answer, Problem> {
    let draft = Draft::of(&visit);
    draft.check()?;
    if visit.form.get("do") == "try" {
        let asked = visit.on("previewInboundPolicy").sends(draft.preview());
        let tried = Some(visit.ask(asked).await?);
        let doubtful = Draft::lines(&draft.add).into_iter().flat_map(|email| {
            let words = doubts(email).into_iter();
            words.map(|warning| Warning { email: email.to_owned(), warning })
        });
        return page(visit, Shown { tried, warnings: doubtful.collect() }).await;
    }
    let mut added = Added::default();
    if !draft.add.is_empty() {
        let mut body = json!({ "emails": Draft::lines(&draft.add) });
        if let Some(body) = body.as_object_mut().filter(|_| !draft.note.is_empty()) {
            body.insert("note".into(), draft.note.clone().into());
        }
        let answer = visit.carry_out(visit.on("addSenders").sends(body)).await?;
        added = serde_json::from_value(answer).unwrap_or_default();
    }
    if !draft.remove.is_empty() {
        let body = json!({ "emails": Draft::lines(&draft.remove) });
        visit.ask::<Value>(visit.on("removeSenders").sends(body)).await?;
    }
    if !draft.mode.is_empty() {
        let asked = Asked::of("setInboundPolicy").on(visit.account);
        visit.ask::<Value>(asked.sends(json!({ "mode": draft.mode }))).await?;
    }
    if added.warnings.is_empty() {
        return Ok(visit.see("/policy", "saved"));
    }
    let shown = Shown { warnings: added.warnings, tried: None };
    page(visit.without_form(), shown).await
}
