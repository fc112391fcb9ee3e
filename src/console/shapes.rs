//! Answers of the API as a person reads them.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::filters;
use crate::domain::address::Address;
use crate::domain::clock::Timestamp;
use crate::domain::lookalike;
use crate::http::in_process::shapes::{Attachment, DnsAnswer, Message, Record};

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

/// Doubts about an address that may be put on a list: it may look like another one.
pub(super) fn doubts(address: &str) -> Vec<String> {
    Address::parse(address).map(|address| lookalike::warnings(&address)).unwrap_or_default()
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

impl Attachment {
    /// The number and the name of the part, by which it is fetched.
    pub(super) fn place(&self) -> &str {
        self.content_url.rsplit('/').next().unwrap_or_default()
    }
}

impl Message {
    /// The subject, or the beginning of a message without one.
    pub(super) fn subject(&self) -> String {
        let subject = self.text("emailSubject");
        let beginning = || self.message.chars().take(80).collect();
        if subject.is_empty() { beginning() } else { subject.to_owned() }
    }

    /// A text about mail; empty if there is none.
    pub(super) fn text(&self, name: &str) -> &str {
        self.text_of(name).unwrap_or_default()
    }

    /// Texts about mail, in one line.
    pub(super) fn texts(&self, name: &str) -> String {
        self.texts_of(name).join(", ")
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
