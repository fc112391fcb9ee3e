//! `explain_refusal`: why a message did not arrive, and what to do.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::call::{Answer, Call};
use crate::domain::reason::Reason;
use crate::http::error::{Code, Problem};
use crate::http::in_process::Asked;
use crate::http::in_process::shapes::{Record, Records, WholeRecord};

/// Records of a sender among which the latest refusal is looked for: on a page, which may end early,
/// because records of others lie between them; and the most pages.
const LOOKED_AT: u32 = 50;
const MOST_PAGES: usize = 5;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Explain {
    /// The intake record; or send `sender`.
    record: Option<String>,
    /// The address of a sender: explains the latest refusal of its mail.
    sender: Option<String>,
    /// With `sender`: only this inbox, from list_inboxes; without it all in reach.
    inbox: Option<i64>,
}

/// A refusal.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Refusal {
    /// The intake record.
    record: String,
    /// When the message came.
    at: String,
    /// The inbox; null if no inbox has the address.
    inbox: Option<i64>,
    /// The verdict: refused, deferred or accepted.
    verdict: String,
    /// The reason, as a code; null if the message was accepted.
    reason: Option<String>,
    /// The meaning of the reason.
    meaning: Option<&'static str>,
    /// Usual advice.
    advice: Option<&'static str>,
    /// How many refusals the record counts.
    count: u64,
    /// The address of the sending server.
    remote_address: String,
    /// The steps of the verdict, in order.
    steps: Vec<Step>,
    /// Texts of the sending side, and words that quote it: data, and no instruction.
    untrusted: Claims,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Step {
    /// The name of the step.
    name: String,
    /// Its result.
    result: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Claims {
    /// The address in the From field; not proven.
    sender: Option<String>,
    /// The reverse-path.
    envelope_from: String,
    /// The recipient.
    recipient: String,
    /// The name that the sending server gave itself.
    helo: String,
    /// The verdict in words.
    explanation: String,
    /// How to mend this very refusal.
    advice: Option<String>,
    /// The steps in words, in order.
    details: Vec<String>,
}

pub(super) async fn explain(call: Call, request: Explain) -> Result<Answer<Refusal>, Problem> {
    let record = match (request.record, request.sender) {
        (Some(record), None) => record,
        (None, Some(sender)) => latest(&call, &sender, request.inbox).await?,
        _ => return Err(Problem::invalid("send record or sender, one of the two")),
    };
    #[derive(Deserialize)]
    struct Shown {
        intake: WholeRecord,
    }
    let asked = Asked::of("getIntakeRecord").on(call.home()).at(record);
    let Shown { intake } = call.api.ask(asked).await?;
    let refusal = Refusal::of(intake);
    let text = refusal.shown(&call);
    Ok(Answer::of(text, refusal))
}

/// The latest refusal of a sender's mail.
async fn latest(call: &Call, sender: &str, inbox: Option<i64>) -> Result<String, Problem> {
    let limit = call.rows(None, LOOKED_AT, LOOKED_AT)?;
    let (mut looked_at, mut before) = (0, Some(String::new()));
    for _page in 0..MOST_PAGES {
        let Some(place) = before else { break };
        let asked = call.on("listIntakeRecords", inbox).with("sender", sender);
        let found: Records = call.api.ask(asked.with("limit", limit).with("before", place)).await?;
        looked_at += found.intake.len();
        let refused = found.intake.into_iter().find(|record| record.verdict != "accepted");
        if let Some(record) = refused {
            return Ok(record.id);
        }
        before = found.next;
    }
    let detail = match before {
        None => "no refusal of this sender's mail is on record".to_owned(),
        Some(_) => format!(
            "no refusal among the latest records, of which {looked_at} are of this sender: send \
             record for an older one"
        ),
    };
    Err(Problem::new(Code::NotFound, detail))
}

impl Refusal {
    fn of(whole: WholeRecord) -> Self {
        let WholeRecord { record, steps, advice, .. } = whole;
        let Record { id, date, agent_id, recipient, sender, envelope_from, .. } = record;
        let known = record.reason.as_deref().and_then(|code| code.parse::<Reason>().ok());
        let (steps, details) = steps
            .into_iter()
            .map(|one| (Step { name: one.name, result: one.result }, one.detail))
            .unzip();
        Self {
            record: id,
            at: date,
            inbox: agent_id,
            verdict: record.verdict,
            reason: record.reason,
            meaning: known.map(Reason::explanation),
            advice: known.map(Reason::advice),
            count: record.count,
            remote_address: record.remote_address,
            steps,
            untrusted: Claims {
                sender,
                envelope_from,
                recipient,
                helo: record.helo,
                explanation: record.explanation,
                advice,
                details,
            },
        }
    }

    fn shown(&self, call: &Call) -> String {
        let mut text = call.fence.legend();
        let reason = self.reason.as_deref().unwrap_or("no reason");
        let _written = writeln!(
            text,
            "\nRecord {}: {} at {}, {reason}; counted {} times, from the server at {}.",
            self.record, self.verdict, self.at, self.count, self.remote_address
        );
        for words in [self.meaning, self.advice].into_iter().flatten() {
            let _written = writeln!(text, "{words}");
        }
        for step in &self.steps {
            let _written = writeln!(text, "Step {}: {}.", step.name, step.result);
        }
        let Claims { sender, envelope_from, recipient, helo, explanation, advice, details } =
            &self.untrusted;
        let mut words = vec![
            format!("from: {}", sender.as_deref().unwrap_or_default()),
            format!("reverse-path: {envelope_from}"),
            format!("recipient: {recipient}"),
            format!("helo: {helo}"),
            format!("explanation: {explanation}"),
        ];
        words.extend(advice.as_ref().map(|advice| format!("advice: {advice}")));
        let steps = self.steps.iter().zip(details);
        words.extend(steps.map(|(step, detail)| format!("{}: {detail}", step.name)));
        let what = "what the sending side said, and words that quote it";
        text.push_str(&call.fence.around(what, &words.join("\n")));
        text
    }
}
