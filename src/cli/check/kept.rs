//! What a record keeps of a verdict, made ready for the same verdict to be reached again.

use std::io::Read;
use std::path::Path;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::super::Failure;
use super::again::Again;
use super::told::Told;
use crate::app::intake::sha256;
use crate::domain::clock::Timestamp;
use crate::domain::instant;
use crate::domain::ports::{Client, Envelope, TlsFacts};
use crate::mail::line_ends::with_crlf;
use crate::store::Standing;

/// A record of a message that was read whole.
pub(super) struct Kept {
    fields: Map<String, Value>,
    pub(super) envelope: Envelope,
    pub(super) standing: Standing,
    pub(super) arrived: Timestamp,
}

impl Kept {
    /// Reads the answer of `GET /email/intake/{id}`, or the `intake` object of it.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let text = if path == Path::new("-") {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| text)
        } else {
            std::fs::read_to_string(path)
        };
        let text = text.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let record: Value = serde_json::from_str(&text)
            .map_err(|error| format!("{} is not JSON: {error}", path.display()))?;
        Self::of(record.get("intake").unwrap_or(&record))
    }

    fn of(record: &Value) -> Result<Self, Failure> {
        let fields = record.as_object().ok_or("a record is a JSON object")?.clone();
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        if fields.get("steps").is_none_or(|steps| !steps.is_array()) {
            return Err("the record has no steps: take it from GET /email/intake/{id}".into());
        }
        if text("sha256").is_none() {
            let told = text("explanation").unwrap_or_default();
            let why = "the record is of no message that was read whole: there is no verdict to \
                       reach again";
            return Err(format!("{why} ({told})").into());
        }
        let missing = |what: &str| format!("the record has no {what}");
        let session = inputs(&fields, "session").ok_or_else(|| missing("step session"))?;
        let policy = inputs(&fields, "policy").ok_or_else(|| missing("step policy"))?;
        let in_session = |name: &str| session.get(name).and_then(Value::as_str);
        let protocol = in_session("protocol").ok_or_else(|| missing("protocol"))?;
        let tls = session.get("tls").filter(|tls| tls.is_object()).map(|tls| {
            let text = |name| tls.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            TlsFacts { version: text("version"), cipher: text("cipher") }
        });
        let address = text("remoteAddress").ok_or_else(|| missing("remoteAddress"))?;
        let helo = in_session("helo").or(text("helo")).ok_or_else(|| missing("helo"))?;
        let envelope = Envelope {
            client: Client {
                address: address.parse()?,
                helo: helo.to_owned(),
                esmtp: protocol != "SMTP",
                tls,
            },
            reverse_path: text("envelopeFrom").unwrap_or_default().to_owned(),
            recipients: Vec::new(),
            // A provider does not say whether its client asked for it.
            smtputf8: protocol.starts_with("UTF8") || protocol == "HTTP",
            posted: None,
        };
        let fact = |name: &str| policy.get(name).and_then(Value::as_bool);
        let mode = policy.get("mode").and_then(Value::as_str).ok_or_else(|| missing("mode"))?;
        let standing = Standing {
            answers: fact("recipientAnswers").unwrap_or(true),
            active: fact("recipientActive").ok_or_else(|| missing("recipientActive"))?,
            mode: mode.parse()?,
            policy_version: policy.get("policyVersion").and_then(Value::as_i64).unwrap_or(0),
            listed: fact("listed").ok_or_else(|| missing("listed"))?,
            relay: None,
        };
        let arrived = in_session("arrived").or(text("date")).and_then(instant::parse);
        let arrived = arrived.ok_or_else(|| missing("date"))?;
        Ok(Self { envelope, standing, arrived, fields })
    }

    pub(super) fn field(&self, name: &str) -> &Value {
        self.fields.get(name).unwrap_or(&Value::Null)
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.field(name).as_str().unwrap_or_default()
    }

    /// The name that this server had, which policies of SPF may use.
    pub(super) fn receiver(&self) -> Option<&str> {
        inputs(&self.fields, "spf")?.get("receiver")?.as_str()
    }

    /// A step of the record, whole.
    pub(super) fn step(&self, name: &str) -> Option<&Value> {
        step(&self.fields, name)
    }

    /// Whether a step came to this.
    pub(super) fn came_to(&self, name: &str, result: &str) -> bool {
        self.step(name).and_then(|step| step.get("result")).is_some_and(|found| found == result)
    }

    /// The octets of the record's message: those of the file, or what they are with the line ends
    /// of mail.
    pub(super) fn same_message(&self, raw: Vec<u8>, file: &Path) -> Result<Bytes, Failure> {
        let raw = with_crlf(raw);
        let (wanted, found) = (self.text("sha256"), sha256(&raw).to_string());
        if found != wanted {
            let file = file.display();
            return Err(format!(
                "{file} is not the message of this record: its SHA-256 is {found}, not {wanted}"
            )
            .into());
        }
        Ok(raw.into())
    }

    /// What the verdict was told by the DNS.
    pub(super) fn told(&self) -> Result<Told, Failure> {
        Told::of(steps(&self.fields))
    }

    /// What is otherwise where the verdict was reached again.
    pub(super) fn compare(&self, again: &Map<String, Value>, told: &Told) -> Again {
        Again::compare(&self.fields, again, told)
    }
}

pub(super) fn steps(record: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    record.get("steps").and_then(Value::as_array).into_iter().flatten()
}

pub(super) fn step<'r>(record: &'r Map<String, Value>, name: &str) -> Option<&'r Value> {
    steps(record).find(|step| step.get("name").is_some_and(|found| found == name))
}

pub(super) fn inputs<'r>(record: &'r Map<String, Value>, name: &str) -> Option<&'r Value> {
    step(record, name)?.get("inputs")
}
