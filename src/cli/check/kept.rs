//! What a record keeps of a verdict, made ready for the same verdict to be reached again.

use std::collections::HashSet;
use std::io::Read;
use std::path::Path;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::super::Failure;
use crate::app::intake::{Visit, sha256};
use crate::domain::clock::Timestamp;
use crate::domain::instant;
use crate::domain::ports::{Client, Envelope, TlsFacts};
use crate::mail::line_ends::with_crlf;
use crate::store::Standing;
use crate::testkit::dns::{Zone, unescaped};

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
            smtputf8: protocol.starts_with("UTF8"),
        };
        let fact = |name: &str| policy.get(name).and_then(Value::as_bool);
        let mode = policy.get("mode").and_then(Value::as_str).ok_or_else(|| missing("mode"))?;
        let standing = Standing {
            answers: fact("recipientAnswers").unwrap_or(true),
            active: fact("recipientActive").ok_or_else(|| missing("recipientActive"))?,
            mode: mode.parse()?,
            policy_version: policy.get("policyVersion").and_then(Value::as_i64).unwrap_or(0),
            listed: fact("listed").ok_or_else(|| missing("listed"))?,
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

    /// What its delivery markers said then.
    pub(super) fn visit(&self) -> Option<Visit> {
        let mut steps = self.steps();
        steps.find(|step| step.get("name").is_some_and(|name| name == "loop")).map(Visit::kept)
    }

    /// Some answers were too large to keep.
    pub(super) fn is_truncated(&self) -> bool {
        self.steps().any(|step| step.get("truncated").is_some())
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

    /// The DNS as the verdict saw it. What it did not ask for does not exist.
    pub(super) fn zone(&self) -> Result<Zone, Failure> {
        let mut zone = Zone::default();
        let mut seen = HashSet::new();
        let answers = self.steps().filter_map(|step| step.get("dns")?.as_array()).flatten();
        for answer in answers {
            let text = |name: &str| answer.get(name).and_then(Value::as_str);
            let (Some(name), Some(kind)) = (text("name"), text("type")) else {
                return Err(format!("an answer has no name or no type: {answer}").into());
            };
            // Steps share answers: each is told once.
            if seen.insert((name.to_ascii_lowercase(), kind)) {
                let told = answer.get("answer").unwrap_or(&Value::Null);
                add(&mut zone, name, kind, told)
                    .map_err(|error| format!("the answer {answer} cannot be read: {error}"))?;
            }
        }
        Ok(zone)
    }

    /// What the record says otherwise than `again`, in words.
    pub(super) fn differences(&self, again: &Map<String, Value>) -> Vec<String> {
        let mut differences = Vec::new();
        let mut compare = |what: &str, was: &Value, is: &Value| {
            if was != is {
                differences.push(format!("{what} was {was}, is {is}"));
            }
        };
        let found = |name: &str| again.get(name).unwrap_or(&Value::Null);
        for name in ["verdict", "reason", "sender"] {
            compare(name, self.field(name), found(name));
        }
        let result = |fields: &Map<String, Value>, name: &str| {
            let found = steps(fields).find(|step| step.get("name") == Some(&Value::from(name)));
            found.and_then(|step| step.get("result")).cloned().unwrap_or_default()
        };
        let names = steps(again).chain(self.steps()).filter_map(|step| step.get("name")?.as_str());
        let mut told = HashSet::new();
        for name in names.filter(|name| told.insert(*name)) {
            compare(&format!("step {name}"), &result(&self.fields, name), &result(again, name));
        }
        differences
    }

    fn steps(&self) -> impl Iterator<Item = &Value> {
        steps(&self.fields)
    }
}

fn steps(record: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    record.get("steps").and_then(Value::as_array).into_iter().flatten()
}

fn inputs<'r>(record: &'r Map<String, Value>, step: &str) -> Option<&'r Value> {
    steps(record).find(|one| one.get("name").is_some_and(|name| name == step))?.get("inputs")
}

/// One answer, as `verify` writes it down.
fn add(zone: &mut Zone, name: &str, kind: &str, answer: &Value) -> Result<(), Failure> {
    match answer {
        Value::String(word) if word == "NXDOMAIN" => zone.insert(name, kind, "NXDOMAIN", "")?,
        Value::String(word) if word == "no such record" && kind == "TXT" => {
            zone.insert_texts(name, &[])?;
        }
        Value::String(word) if word == "no such record" => {
            zone.insert(name, kind, "NOERROR", "")?
        }
        // Nobody could be asked about it, so nobody will be.
        Value::String(word) if word == "not a domain name" => {}
        Value::String(word) if word.starts_with("temporary failure") => {
            zone.insert(name, kind, "SERVFAIL", "")?;
        }
        Value::Array(records) => {
            let texts = records.iter().map(|one| one.as_str().ok_or("a record is a string"));
            let texts = texts.collect::<Result<Vec<_>, _>>()?;
            if kind == "TXT" {
                let octets = texts.iter().map(|text| unescaped(text).ok_or("broken escape"));
                zone.insert_texts(name, &octets.collect::<Result<Vec<_>, _>>()?)?;
            } else {
                for text in texts {
                    zone.insert(name, kind, "NOERROR", text)?;
                }
            }
        }
        _ => return Err("expected records, or why there are none".into()),
    }
    Ok(())
}
