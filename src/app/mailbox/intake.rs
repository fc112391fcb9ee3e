//! The wire shape of intake records, for the API and `gatepost check`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use crate::domain::cause::{Cause, Particulars};
use crate::domain::evidence::Evidence;
use crate::domain::intake_record::IntakeRecord as Record;
use crate::domain::reason::{Ground, Reason};
use crate::domain::source::Source;
use crate::domain::verdict::Outcome;
use crate::wire::{Date, Id, Number, Word};

/// The verdict on a message for one recipient.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IntakeRecord {
    /// The id of the record; null if the record is not kept.
    pub id: Option<Id>,
    /// When the message came.
    date: Date,
    /// How the message came.
    source: Word<Source>,
    /// The Agent; null if no Agent has the address.
    agent_id: Option<Number>,
    /// The recipient, as sent.
    #[schemars(example = &"support@agents.example")]
    recipient: String,
    /// The address in the From field; null if there is none.
    #[schemars(example = &"boss@good.example")]
    sender: Option<String>,
    /// The reverse-path, as sent.
    #[schemars(example = &"bounce@good.example")]
    envelope_from: String,
    /// The address of the sending server.
    #[schemars(regex(pattern = r"^[0-9a-fA-F.:]+$"), example = &"192.0.2.7")]
    remote_address: String,
    /// The name that the sending server gave itself.
    #[schemars(example = &"mx.good.example")]
    helo: String,
    /// The verdict.
    verdict: Word<Outcome>,
    /// The reason; null if the message was accepted.
    reason: Option<Word<Reason>>,
    /// The verdict in plain words.
    explanation: String,
    /// The message, if it was accepted.
    message_uuid: Option<Id>,
    /// How many refusals this record counts, else 1.
    // More than 1 only where one record counts the refusals of a minute (contract §2.3).
    count: u64,
}

/// An intake record with its evidence.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WholeIntakeRecord {
    #[serde(flatten)]
    pub record: IntakeRecord,
    /// Size of the message in bytes; 0 if none was sent.
    size: u64,
    /// SHA-256 of the message in hexadecimal; null if no message was read to its end.
    sha256: Option<String>,
    /// The header section, cut if it is long; U+FFFD stands for bytes that are not UTF-8.
    headers: String,
    /// The steps of the verdict, in order.
    #[schemars(schema_with = "steps")]
    steps: Evidence,
    /// How to mend a refusal; null if the message was accepted.
    advice: Option<String>,
}

impl From<&Record> for IntakeRecord {
    fn from(record: &Record) -> Self {
        Self {
            id: Some(Id(record.id.0)),
            date: Date(record.at),
            source: Word(record.source),
            agent_id: record.agent.map(Number::from),
            recipient: record.recipient.clone(),
            sender: record.sender.as_ref().map(ToString::to_string),
            envelope_from: record.envelope_from.clone(),
            remote_address: record.remote_address.to_string(),
            helo: record.helo.clone(),
            verdict: Word(record.verdict.outcome()),
            reason: record.verdict.reason().map(Word),
            explanation: record.explanation.clone(),
            message_uuid: record.message.map(|id| Id(id.0)),
            count: record.count,
        }
    }
}

impl From<&Record> for WholeIntakeRecord {
    fn from(record: &Record) -> Self {
        Self {
            record: record.into(),
            size: record.size,
            sha256: record.digest.map(|digest| digest.to_string()),
            headers: String::from_utf8_lossy(&record.headers).into_owned(),
            steps: record.evidence.clone(),
            advice: record.verdict.reason().map(|why| advice(record, why)),
        }
    }
}

/// The schema of the fields that every step has; `domain/evidence` declares those of each kind.
fn steps(_: &mut SchemaGenerator) -> Schema {
    let text = |about| json_schema!({ "type": "string", "description": about });
    let like = |about, example| json_schema!({ "type": "string", "description": about, "examples": [example] });
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "description": "A step of the verdict.",
            "properties": {
                "name": like("The name of the step.", "dkim"),
                "result": like("The result of the step.", "pass"),
                "detail": text("The result in plain words."),
                "inputs": {
                    "type": "object", "additionalProperties": true,
                    "description": "The facts that decided the step.",
                },
                "dns": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "description": "A DNS answer that the step used.",
                        "properties": { "name": text("The name that was looked up.") },
                        "required": ["name"],
                        "additionalProperties": true,
                    },
                    "description": "The DNS answers that the step used.",
                },
                "micros": { "type": "integer", "minimum": 0, "description": "Duration in microseconds." },
            },
            "required": ["name", "result", "detail", "inputs", "dns", "micros"],
            "additionalProperties": true,
        },
    })
}

/// Returns advice for the sender: by the causes in the evidence, else by the reason.
fn advice(record: &Record, reason: Reason) -> String {
    let is_of_proof = reason.ground() == Ground::Proof;
    let advice = if is_of_proof { by_causes(&record.evidence) } else { None };
    advice.unwrap_or_else(|| reason.advice().to_owned())
}

/// Returns the advice for the causes of the step `alignment`, or None if there are none.
fn by_causes(evidence: &Evidence) -> Option<String> {
    let found = evidence.alignment()?;
    let of = Particulars {
        from: &found.from,
        signer: &found.signer,
        selector: &found.selector,
        record: &found.record,
    };
    // A newer version, which knows more causes, may have written the evidence.
    let causes = found.causes.iter().filter_map(|code| code.parse::<Cause>().ok());
    let advice: Vec<_> = causes.map(|cause| cause.advice(&of)).collect();
    (!advice.is_empty()).then(|| advice.join(" "))
}
