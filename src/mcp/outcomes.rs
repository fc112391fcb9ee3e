//! `record_outcome`: what the model did with a message. Nothing is sent.

use aws_lc_rs::digest::{SHA256, digest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::call::{Answer, Call, renamed};
use crate::domain::agent_outcome::HIGHEST_RATING;
use crate::domain::contact::plain_line;
use crate::http::error::Problem;
use crate::http::in_process::Asked;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    /// The message.
    uuid: String,
    /// The text of the reply that was given, if there was one.
    reply: Option<String>,
    /// The outcome, in a word or a line: answered, escalated, ignored …
    outcome: Option<String>,
    /// A summary of the message and of what was done.
    summary: Option<String>,
    /// A rating of the sender as a lead, 0 to 100.
    #[schemars(extend("minimum" = 0, "maximum" = HIGHEST_RATING))]
    rating: Option<u8>,
    /// Why it is rated so, in a line.
    #[serde(rename = "ratingReason")]
    rating_reason: Option<String>,
    /// Why this replaces an earlier outcome; without it an earlier one stays.
    #[serde(rename = "override")]
    overridden: Option<String>,
}

/// The outcome that is recorded.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Recorded {
    /// The message.
    uuid: String,
    /// The id of the reply in its conversation; null without a reply.
    reply_uuid: Option<String>,
    /// How many replies to the message are recorded now.
    replies: u32,
    /// False: Gatepost sends nothing.
    sent: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    record: Kept,
    reply_uuid: Option<String>,
}

/// The outcome of a message.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    agent_reply_count: u32,
    agent_outcome: Option<String>,
    summary: Option<String>,
    ai_lead_rating: Option<u8>,
    ai_lead_rating_reason: Option<String>,
    ai_agent_override: Option<String>,
    chat_dialog: Option<Vec<Value>>,
    call_dialog: Option<Vec<Value>>,
}

pub(super) async fn record(call: Call, request: Record) -> Result<Answer<Recorded>, Problem> {
    let uuid = request.uuid.clone();
    let asked = Asked::of("recordOutcome").on(call.home()).at(&uuid).sends(request.body());
    // A client may call again when it lost an answer: a reply is then recorded once.
    let same = digest(&SHA256, format!("{uuid} {}", request.body()).as_bytes());
    let once = same.as_ref().iter().map(|octet| format!("{octet:02x}")).collect::<String>();
    let (is_earlier, mut stored) =
        call.api.ask_once::<Stored>(asked.clone().once(&once)).await.map_err(renamed(NAMES))?;
    if is_earlier {
        let now = Asked::of("getMessage").on(call.home()).at(&uuid);
        stored.record = call.api.ask(now).await?;
        // Another outcome replaced this one meanwhile: it is no repeat.
        if !request.is_kept(&stored.record) {
            stored = call.api.ask(asked).await?;
        }
    }
    let Stored { record, reply_uuid } = stored;
    Answer::plain(Recorded { uuid, reply_uuid, replies: record.agent_reply_count, sent: false })
}

/// The fields of the API, and the arguments.
const NAMES: &[(&str, &str)] = &[
    ("agentOutcome", "outcome"),
    ("aiLeadRatingReason", "ratingReason"),
    ("aiLeadRating", "rating"),
];

impl Record {
    fn body(&self) -> Value {
        let fields = [
            ("reply", json!(self.reply)),
            ("agentOutcome", json!(self.outcome)),
            ("summary", json!(self.summary)),
            ("aiLeadRating", json!(self.rating)),
            ("aiLeadRatingReason", json!(self.rating_reason)),
            ("override", json!(self.overridden)),
        ];
        let sent = fields.into_iter().filter(|(_, value)| !value.is_null());
        sent.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Whether a message has the outcome that this records.
    fn is_kept(&self, kept: &Kept) -> bool {
        let line = |text: &Option<String>| text.as_deref().and_then(|text| plain_line(text).ok());
        let last = [&kept.chat_dialog, &kept.call_dialog].into_iter().flatten();
        let mut last = last.filter_map(|turns| turns.last());
        let replied = |reply: &String| last.any(|turn| turn["content"] == *reply);
        let same = |sent: Option<String>, kept: &Option<String>| sent.is_none() || sent == *kept;
        same(line(&self.outcome), &kept.agent_outcome)
            && same(self.summary.clone(), &kept.summary)
            && (self.rating.is_none() || self.rating == kept.ai_lead_rating)
            && same(line(&self.rating_reason), &kept.ai_lead_rating_reason)
            && same(line(&self.overridden), &kept.ai_agent_override)
            && self.reply.as_ref().is_none_or(replied)
    }
}
