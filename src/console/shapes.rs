//! Answers of the API, as pages read them: `http::routes` declares them whole.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::filters;
use crate::domain::clock::Timestamp;

/// An intake record.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    pub(super) id: String,
    pub(super) date: String,
    pub(super) source: String,
    pub(super) agent_id: Option<i64>,
    pub(super) recipient: String,
    pub(super) sender: Option<String>,
    pub(super) envelope_from: String,
    pub(super) remote_address: String,
    pub(super) helo: String,
    pub(super) verdict: String,
    pub(super) reason: Option<String>,
    pub(super) explanation: String,
    pub(super) message_uuid: Option<String>,
    pub(super) count: u64,
}

impl Record {
    /// The sender as a person reads it.
    pub(super) fn from(&self) -> &str {
        let envelope = match self.envelope_from.as_str() {
            "" => "(no sender)",
            named => named,
        };
        self.sender.as_deref().unwrap_or(envelope)
    }

    pub(super) fn ago(&self, now: &Timestamp) -> String {
        filters::ago(&self.date, *now)
    }
}

/// A page of intake records, newest first.
#[derive(Debug, Deserialize)]
pub(super) struct Records {
    pub(super) intake: Vec<Record>,
    pub(super) next: Option<String>,
}

/// An intake record with its evidence.
#[derive(Debug, Deserialize)]
pub(super) struct WholeRecord {
    #[serde(flatten)]
    pub(super) record: Record,
    pub(super) size: u64,
    pub(super) sha256: Option<String>,
    pub(super) headers: String,
    pub(super) steps: Vec<Step>,
    pub(super) advice: Option<String>,
}

/// A step of a verdict.
#[derive(Debug, Deserialize)]
pub(super) struct Step {
    pub(super) name: String,
    pub(super) result: String,
    pub(super) detail: String,
    pub(super) inputs: Map<String, Value>,
    pub(super) dns: Vec<DnsAnswer>,
    pub(super) micros: u64,
}

/// A DNS answer that a step used.
#[derive(Debug, Deserialize)]
pub(super) struct DnsAnswer {
    pub(super) name: String,
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) ttl: Option<u64>,
    #[serde(default)]
    pub(super) answer: Value,
}

impl DnsAnswer {
    /// The answer as a zone file would have it, one record a line.
    pub(super) fn lines(&self) -> Vec<String> {
        match &self.answer {
            Value::Array(records) => records.iter().map(shown).collect(),
            Value::Null => vec!["no answer".to_owned()],
            one => vec![shown(one)],
        }
    }
}

/// A message.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Message {
    pub(super) uuid: String,
    pub(super) date: String,
    pub(super) from_user: String,
    /// The Agent.
    pub(super) to: i64,
    pub(super) to_user: String,
    pub(super) message: String,
    pub(super) room_id: String,
    pub(super) status: String,
    #[serde(default)]
    pub(super) attachments: Vec<Attachment>,
    #[serde(default)]
    pub(super) metadata: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Attachment {
    pub(super) content_type: String,
    pub(super) filename: String,
    pub(super) content_url: String,
}

impl Attachment {
    /// The number and the name of the part, by which it is fetched.
    pub(super) fn place(&self) -> &str {
        self.content_url.rsplit('/').next().unwrap_or_default()
    }
}

/// A remark about the content of a message.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Finding {
    pub(super) kind: String,
    #[serde(default)]
    pub(super) detail: String,
    pub(super) field: String,
    pub(super) start: Option<u64>,
    pub(super) end: Option<u64>,
}

impl Message {
    /// The subject, or the beginning of a message without one.
    pub(super) fn subject(&self) -> String {
        let subject = self.text("emailSubject");
        let beginning = || self.message.chars().take(80).collect();
        if subject.is_empty() { beginning() } else { subject.to_owned() }
    }

    /// A text of the metadata; empty if there is none.
    pub(super) fn text(&self, name: &str) -> &str {
        self.metadata.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Texts of the metadata, in one line.
    pub(super) fn texts(&self, name: &str) -> String {
        let texts = self.metadata.get(name).and_then(Value::as_array);
        let texts: Vec<_> = texts.into_iter().flatten().filter_map(Value::as_str).collect();
        texts.join(", ")
    }

    pub(super) fn findings(&self) -> Vec<Finding> {
        let found = self.metadata.get("findings").cloned().unwrap_or_default();
        serde_json::from_value(found).unwrap_or_default()
    }

    pub(super) fn ago(&self, now: &Timestamp) -> String {
        filters::ago(&self.date, *now)
    }
}

/// An entry of the audit log.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AuditEntry {
    pub(super) date: String,
    pub(super) action: String,
    pub(super) account_id: Option<i64>,
    #[serde(default)]
    pub(super) object: String,
    #[serde(default)]
    pub(super) before: Map<String, Value>,
    #[serde(default)]
    pub(super) after: Map<String, Value>,
    pub(super) by: Actor,
    pub(super) remote_address: Option<String>,
    #[serde(default)]
    pub(super) count: u64,
}

/// The actor of an entry.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Actor {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) account_id: Option<i64>,
    pub(super) member_id: Option<i64>,
}

impl Actor {
    pub(super) fn words(&self) -> String {
        match (self.member_id, self.account_id) {
            (Some(member), _) => format!("member {member}"),
            (None, Some(account)) => format!("a key of account {account}"),
            (None, None) => format!("the {}", self.kind),
        }
    }
}

impl AuditEntry {
    /// The values before and after, in one line.
    pub(super) fn changes(&self) -> String {
        let names: std::collections::BTreeSet<&String> =
            self.before.keys().chain(self.after.keys()).collect();
        let value = |from: &Map<String, Value>, name: &String| from.get(name).map(shown);
        let change = |name: &String| match (value(&self.before, name), value(&self.after, name)) {
            (Some(before), Some(after)) => format!("{} {before} → {after}", spelled(name)),
            (None, Some(after)) => format!("{} + {after}", spelled(name)),
            (Some(before), None) => format!("{} − {before}", spelled(name)),
            (None, None) => String::new(),
        };
        let changes: Vec<String> = names.into_iter().map(change).collect();
        if changes.is_empty() { self.action.clone() } else { changes.join("; ") }
    }
}

/// A value of JSON as a person reads it: texts without quotes, lists with commas.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) if text.is_empty() => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(values) if values.is_empty() => "none".to_owned(),
        Value::Array(values) if values.iter().all(|value| !value.is_object()) => {
            values.iter().map(shown).collect::<Vec<_>>().join(", ")
        }
        Value::Array(values) => values.iter().map(shown).collect::<Vec<_>>().join(" · "),
        Value::Object(fields) => {
            let pair = |(name, value): (&String, &Value)| {
                let value = shown(value);
                (value != "none").then(|| format!("{} {value}", spelled(name)))
            };
            fields.iter().filter_map(pair).collect::<Vec<_>>().join("; ")
        }
        Value::Number(number) => number.to_string(),
    }
}

/// The name of a field in words: `policyVersion` as `policy version`.
pub(super) fn spelled(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}
