//! One verdict: what happened, how, and what to do.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::deliveries::{self, Announcements, Announcer};
use super::filters;
use super::frame::{Frame, Section};
use super::shapes::{doubts, shown, spelled};
use super::visit::{Answer, Visit};
use crate::domain::reason::{Ground, Reason};
use crate::http::error::Problem;
use crate::http::in_process::Asked;
use crate::http::in_process::shapes::{Record, Step, WholeRecord};

#[derive(Deserialize)]
struct Found {
    intake: WholeRecord,
}

#[derive(Template)]
#[template(path = "verdict.html", config = "src/console/templates/askama.toml")]
struct Verdict {
    frame: Frame,
    record: WholeRecord,
    steps: Vec<Shown>,
    /// Whether the sender's administrator can mend the refusal.
    is_senders: bool,
    /// A change of the list that would let the sender in; None where no list decided.
    offer: Option<Offer>,
    /// The events of the accepted message and their deliveries.
    announced: Option<Announcements>,
}

/// A step, as the page shows it.
struct Shown {
    title: &'static str,
    /// The class of the result.
    tone: &'static str,
    /// Whether the step decides nothing.
    is_recorded: bool,
    step: Step,
    facts: Vec<(String, String)>,
}

impl Shown {
    fn of(step: Step) -> Self {
        let (title, is_recorded) = match step.name.as_str() {
            "session" => ("Connection", false),
            "scan" | "framing" | "content" => ("Message", false),
            "automation" => ("Automation", true),
            "dkim" => ("DKIM", false),
            "alignment" => ("Alignment", false),
            "spf" => ("SPF", true),
            "arc" => ("ARC", true),
            "dmarc" => ("DMARC", true),
            "iprev" => ("Reverse DNS", true),
            "policy" => ("Policy", false),
            "recipient" => ("Recipient", false),
            "relay" => ("Relay", false),
            "rates" => ("Rates", false),
            "loop" => ("Loop", false),
            "provider" => ("Provider", false),
            "receiveMessage" => ("Handed in by the API", false),
            "tlsReport" => ("Report on TLS", false),
            _ => ("Step", false),
        };
        let refuses = step.result.parse::<Reason>().is_ok();
        let tone = if refuses { "bad" } else { filters::tone_of(&step.result) };
        let facts = step.inputs.iter().map(|(name, value)| (spelled(name), shown(value))).collect();
        Self { title, tone, is_recorded, step, facts }
    }

    fn sign(&self) -> &'static str {
        match self.tone {
            "good" => "✓",
            "bad" => "✕",
            "wait" => "↻",
            _ => "–",
        }
    }
}

/// Days that a preview looks back.
const DAYS: u64 = 30;
/// Most messages of a preview that are shown.
const SHOWN: usize = 50;

/// The button that lets the sender in.
struct Offer {
    sender: String,
    /// The mail that the change would have let in lately; None before somebody asks, as it reads
    /// many records.
    preview: Option<CountedPreview>,
}

impl Offer {
    fn doubts(&self) -> Vec<String> {
        doubts(&self.sender)
    }
}

/// A preview, of which the page shows a part.
struct CountedPreview {
    preview: Preview,
    count: usize,
}

/// The answer of the policy's preview.
#[derive(Debug, Deserialize)]
struct Preview {
    complete: bool,
    changed: Vec<ChangedRecord>,
}

/// A record that the change would have let in.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChangedRecord {
    intake_id: Option<String>,
    sender: Option<String>,
    date: String,
}

/// Shows a verdict.
pub(super) async fn show(visit: Visit) -> Result<Answer, Problem> {
    let asked = visit.on("getIntakeRecord").at(visit.segment("id"));
    let Found { intake: mut record } = visit.ask(asked).await?;
    let steps = std::mem::take(&mut record.steps).into_iter().map(Shown::of).collect();
    let offer = offer(&visit, &record).await;
    let announced = announced(&visit, &record.record).await;
    let reason = record.record.reason.as_deref().and_then(|reason| reason.parse::<Reason>().ok());
    let is_senders =
        reason.is_some_and(|reason| matches!(reason.ground(), Ground::Proof | Ground::Message));
    let frame = visit.frame(Section::Live).await?;
    Answer::page(&Verdict { frame, record, steps, is_senders, offer, announced })
}

/// Finds the events of the message, if one was accepted.
async fn announced(visit: &Visit, record: &Record) -> Option<Announcements> {
    // A repeat names the first message, whose page has the events.
    let (agent, uuid) = (record.agent_id?, record.message_uuid.as_deref()?);
    if uuid != record.id {
        return None;
    }
    let announcer = Announcer { agent, uuid, date: &record.date };
    Some(deliveries::of_message(visit, &announcer).await)
}

/// Adding the sender to the list, and its effect; None unless the list refused the sender, or if
/// the caller may not see the policy.
async fn offer(visit: &Visit, whole: &WholeRecord) -> Option<Offer> {
    let (record, not_listed) = (&whole.record, "sender_not_allowed");
    let is_refused = record.reason.as_deref() == Some(not_listed);
    let (sender, agent) = (record.sender.clone()?, record.agent_id?);
    if !is_refused {
        return None;
    }
    // Only for callers that may read the policy.
    visit.ask::<Value>(Asked::of("getInboundPolicy").on(agent)).await.ok()?;
    if visit.query.get("preview").is_empty() {
        return Some(Offer { sender, preview: None });
    }
    let asked = Asked::of("previewInboundPolicy").on(agent);
    let asked = asked.sends(json!({ "add": [sender], "days": DAYS }));
    let mut preview: Preview = visit.ask(asked).await.ok()?;
    let count = preview.changed.len();
    preview.changed.truncate(SHOWN);
    Some(Offer { sender, preview: Some(CountedPreview { preview, count }) })
}

/// Adds the sender to the list of the Agent.
pub(super) async fn change(visit: Visit) -> Result<Answer, Problem> {
    let id = visit.segment("id");
    let Found { intake } = visit.ask(visit.on("getIntakeRecord").at(id)).await?;
    let (Some(sender), Some(agent)) = (intake.record.sender, intake.record.agent_id) else {
        return Err(Problem::invalid("this record has no sender to add: nothing was changed"));
    };
    let asked = Asked::of("addSenders").on(agent).sends(json!({ "emails": [sender] }));
    visit.carry_out(asked).await?;
    Ok(visit.see(&format!("/verdicts/{id}"), "allowed"))
}
