//! Reads the inputs of a verdict from a record, so that the verdict can be repeated.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::super::Failure;
use super::recorded_dns::RecordedDns;
use crate::app::intake::sha256;
use crate::domain::address::Address;
use crate::domain::clock::Timestamp;
use crate::domain::evidence::policy::Policy;
use crate::domain::evidence::session::Tls;
use crate::domain::evidence::{Evidence, Facts, Step};
use crate::domain::instant;
use crate::domain::ports::{Client, Envelope, Recipient, TlsFacts};
use crate::mail::line_ends::with_crlf;
use crate::store::Standing;

/// A record of a message that was read whole.
pub(super) struct RecordedVerdict {
    pub(super) fields: Map<String, Value>,
    pub(super) evidence: Evidence,
    pub(super) envelope: Envelope,
    pub(super) ground: RecordedGround,
    pub(super) arrived: Timestamp,
}

/// The part of the verdict that the message alone does not tell.
pub(super) enum RecordedGround {
    /// The policy of an Agent.
    Policy(Standing),
    /// The step of the report, as the mail came to the address for reports on TLS.
    TlsReport(Box<Step>),
}

impl RecordedVerdict {
    /// Reads a response of `GET /email/intake/{id}`, or its `intake` object.
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
        let fields = record.as_object().ok_or("expected a record as a JSON object")?.clone();
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        let steps = fields.get("steps").filter(|steps| steps.is_array());
        let steps = steps.ok_or("the record has no steps: take it from GET /email/intake/{id}")?;
        if text("sha256").is_none() {
            let why = text("explanation").unwrap_or_default();
            return Err(format!(
                "the message of this record was not read in full: there is no verdict to \
                 recompute ({why})"
            )
            .into());
        }
        let missing = |what: &str| format!("the record has no {what}");
        let evidence = Evidence::deserialize(steps)
            .map_err(|error| format!("cannot read the steps of the record: {error}"))?;
        let session = evidence.session().ok_or_else(|| missing("step session"))?;
        let report = evidence.iter().find_map(|step| match &step.facts {
            Facts::TlsReport(facts) => Some((step, facts)),
            _ => None,
        });
        let (ground, recipients) = match report {
            Some((step, facts)) => {
                let as_sent = text("recipient").unwrap_or_default();
                let recipient = Recipient::of_reports(Address::parse(&facts.address)?, as_sent);
                (RecordedGround::TlsReport(Box::new(step.clone())), vec![recipient])
            }
            None => {
                let policy = evidence.policy().ok_or_else(|| missing("step policy"))?;
                (RecordedGround::Policy(standing(policy)?), Vec::new())
            }
        };
        let tls = session.tls.clone();
        let tls = tls.map(|Tls { version, cipher }| TlsFacts { version, cipher });
        let address = text("remoteAddress").ok_or_else(|| missing("remoteAddress"))?;
        let envelope = Envelope {
            client: Client {
                address: address.parse()?,
                helo: session.helo.clone(),
                esmtp: session.protocol != "SMTP",
                tls,
            },
            reverse_path: text("envelopeFrom").unwrap_or_default().to_owned(),
            recipients,
            // A provider does not say whether its client asked for SMTPUTF8.
            smtputf8: session.protocol.starts_with("UTF8") || session.protocol == "HTTP",
            posted: None,
            open_for: Duration::ZERO,
        };
        let arrived = session.arrived.as_deref().or(text("date")).and_then(instant::parse);
        let arrived = arrived.ok_or_else(|| missing("date"))?;
        Ok(Self { envelope, ground, arrived, fields, evidence })
    }

    pub(super) fn field(&self, name: &str) -> &Value {
        self.fields.get(name).unwrap_or(&Value::Null)
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.field(name).as_str().unwrap_or_default()
    }

    /// This server's name at the time; SPF policies may use it.
    pub(super) fn receiver(&self) -> Option<&str> {
        self.evidence.spf().map(|spf| spf.receiver.as_str())
    }

    /// Whether a step had this result.
    pub(super) fn has_result(&self, name: &str, result: &str) -> bool {
        self.evidence.step(name).is_some_and(|step| step.result == result)
    }

    /// Returns the file as the record's message, with CRLF line ends. Fails if its SHA-256 is
    /// another.
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

    /// Returns the DNS answers that the verdict rested on.
    pub(super) fn dns_answers(&self) -> Result<RecordedDns, Failure> {
        RecordedDns::of(self.evidence.iter())
    }
}

fn standing(policy: &Policy) -> Result<Standing, Failure> {
    Ok(Standing {
        answers: policy.recipient_answers,
        active: policy.recipient_active,
        mode: policy.mode.parse()?,
        policy_version: policy.policy_version,
        listed: policy.listed,
        relay: None,
    })
}
