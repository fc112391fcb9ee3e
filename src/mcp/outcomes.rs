//! `record_outcome`: what the model did with a message. Nothing is sent.

use aws_lc_rs::digest::{SHA256, digest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::call::{Answer, Call};
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
    record: Counted,
    reply_uuid: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Counted {
    agent_reply_count: u32,
}

pub(super) async fn record(call: Call, request: Record) -> Result<Answer<Recorded>, Problem> {
    let Record { uuid, reply, outcome, summary, overridden } = request;
    let fields = [
        ("reply", reply),
        ("agentOutcome", outcome),
        ("summary", summary),
        ("override", overridden),
    ];
    let fields =
        fields.into_iter().filter_map(|(name, text)| Some((name.to_owned(), json!(text?))));
    let body = Value::Object(fields.collect());
    // A client may call again when it lost an answer: a reply is then recorded once.
    let same = digest(&SHA256, format!("{uuid} {body}").as_bytes());
    let once = same.as_ref().iter().map(|octet| format!("{octet:02x}")).collect::<String>();
    let asked = Asked::of("recordOutcome").on(call.home()).at(&uuid).sends(body).once(&once);
    let Stored { record, reply_uuid } = call.api.ask(asked).await?;
    Answer::plain(Recorded { uuid, reply_uuid, replies: record.agent_reply_count, sent: false })
}
