//! `POST /messages/{uuid}/outcome`: what an Agent did with a message. Nothing is sent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::app::mailbox::record::MessageRecord;
use crate::domain::agent_outcome::{HIGHEST_RATING, NewOutcome};
use crate::domain::contact::plain_line;
use crate::domain::id::MessageId;
use crate::http::typed::{Call, Problem, successes, wrong};
use crate::wire::Id;

/// Records what an Agent did with a message
///
/// A reply is kept in the room, and nothing is sent: send it yourself. Announced as
/// conversation.updated.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("examples" = [
    { "reply": "Your parcel left on Monday.", "agentOutcome": "answered", "summary": "Asked where the parcel is." }
]))]
pub struct Record {
    /// The message.
    uuid: Id,
    /// The text of a reply, as it was sent; kept as an outbound entry of the room.
    #[schemars(extend("maxLength" = "outcomes.max_text_bytes"))]
    reply: Option<String>,
    /// The outcome, in a word or a line.
    #[schemars(example = &"answered")]
    agent_outcome: Option<String>,
    /// A summary.
    #[schemars(extend("maxLength" = "outcomes.max_text_bytes"))]
    summary: Option<String>,
    /// A rating of the contact as a lead.
    #[schemars(extend("minimum" = 0, "maximum" = HIGHEST_RATING))]
    ai_lead_rating: Option<u8>,
    /// Why it is rated so, in a line.
    ai_lead_rating_reason: Option<String>,
    /// Why this replaces an earlier outcome, in a line: without it an earlier one stays. Fields that
    /// are left out keep their values, and replies stay.
    #[serde(rename = "override")]
    #[schemars(example = &"The customer called again.")]
    overridden: Option<String>,
}

/// The record of the message.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
struct Recorded(#[schemars(with = "MessageRecord<'static>")] Box<RawValue>);

successes! {
    OutcomeStored {
        /// The message, with its outcome.
        record: Recorded,
        /// The id of the reply in its room; null without a reply.
        reply_uuid: Option<Id>,
    } = OK "outcome recorded; nothing was sent";
}

pub async fn record(call: Call, request: Record) -> Result<OutcomeStored, Problem> {
    let id = MessageId(request.uuid.0);
    let new = request.outcome(call.http.rules.outcomes.max_text_bytes)?;
    let (message, reply) = call.outcomes().record(&call.target.scope, id, &new).await?;
    let record = to_raw_value(&MessageRecord::of(&message)).map_err(Problem::internal)?;
    Ok(OutcomeStored { record: Recorded(record), reply_uuid: reply.map(|id| Id(id.0)) })
}

impl Record {
    fn outcome(self, most: usize) -> Result<NewOutcome, Problem> {
        let new = NewOutcome {
            result: line("agentOutcome", self.agent_outcome)?,
            summary: text("summary", self.summary, most)?,
            lead_rating: self.ai_lead_rating,
            lead_rating_reason: line("aiLeadRatingReason", self.ai_lead_rating_reason)?,
            overridden: line("override", self.overridden)?,
            reply: text("reply", self.reply, most)?,
        };
        if new == (NewOutcome { overridden: new.overridden.clone(), ..NewOutcome::default() }) {
            return Err(Problem::invalid(
                "nothing to record: send reply, agentOutcome, summary or aiLeadRating",
            ));
        }
        Ok(new)
    }
}

fn line(name: &str, text: Option<String>) -> Result<Option<String>, Problem> {
    let line = text.as_deref().map(plain_line).transpose();
    line.map_err(|error| wrong(name, error.to_string()))
}

fn text(name: &str, text: Option<String>, most: usize) -> Result<Option<String>, Problem> {
    match &text {
        Some(text) if text.trim().is_empty() => {
            Err(wrong(name, "is empty: send a text, or leave it out".to_owned()))
        }
        Some(text) if text.len() > most => {
            Err(wrong(name, format!("must have at most {most} bytes: send less")))
        }
        _ => Ok(text),
    }
}
