//! The intake record's shape: how a verdict looks to readers of the API and of `gatepost check`.

use serde_json::{Map, Value, json};

use crate::domain::cause::{Cause, Particulars};
use crate::domain::contact::Handle;
use crate::domain::evidence::Evidence;
use crate::domain::intake_record::IntakeRecord;
use crate::domain::reason::{Ground, Reason};

/// A record as lists show it (contract §4).
pub fn intake_record(record: &IntakeRecord) -> Map<String, Value> {
    let fields = [
        ("id", json!(record.id.to_string())),
        ("date", json!(record.at.to_string())),
        ("source", json!(record.source.as_str())),
        ("agentId", json!(record.agent.map(|agent| agent.get()))),
        ("recipient", json!(record.recipient)),
        ("sender", json!(record.sender.as_ref().map(Handle::to_string))),
        ("envelopeFrom", json!(record.envelope_from)),
        ("remoteAddress", json!(record.remote_address.to_string())),
        ("helo", json!(record.helo)),
        ("verdict", json!(record.verdict.as_str())),
        ("reason", json!(record.verdict.reason().map(Reason::as_str))),
        ("explanation", json!(record.explanation)),
        ("messageUuid", json!(record.message.map(|id| id.to_string()))),
        // More than 1 only where one record counts the refusals of a minute (contract §2.3).
        ("count", json!(record.count)),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A record with its evidence: `steps`, `advice`, and of the message `size` (octets; 0 where none
/// was sent), `sha256` (hexadecimal; null where none was read whole) and `headers` (its header
/// section as text, cut where it was too long to keep; what is not UTF-8 shows as U+FFFD).
pub fn whole_intake_record(record: &IntakeRecord) -> Map<String, Value> {
    let mut shown = intake_record(record);
    shown.insert("size".into(), record.size.into());
    shown.insert("sha256".into(), record.digest.map(|digest| digest.to_string()).into());
    shown.insert("headers".into(), String::from_utf8_lossy(&record.headers).into());
    shown.insert("steps".into(), json!(record.evidence));
    shown.insert("advice".into(), record.verdict.reason().map(|why| advice(record, why)).into());
    shown
}

/// What somebody can do about it: by the causes that the evidence names, where it names some.
fn advice(record: &IntakeRecord, reason: Reason) -> String {
    let is_of_proof = reason.ground() == Ground::Proof;
    let advice = if is_of_proof { by_causes(&record.evidence) } else { None };
    advice.unwrap_or_else(|| reason.advice().to_owned())
}

/// The step `alignment` says what stood in the way, and of whom it is said.
fn by_causes(evidence: &Evidence) -> Option<String> {
    let found = evidence.alignment()?;
    let of = Particulars {
        from: &found.from,
        signer: &found.signer,
        selector: &found.selector,
        record: &found.record,
    };
    // A version that knows more causes may have written it.
    let causes = found.causes.iter().filter_map(|code| code.parse::<Cause>().ok());
    let advice: Vec<_> = causes.map(|cause| cause.advice(&of)).collect();
    (!advice.is_empty()).then(|| advice.join(" "))
}
