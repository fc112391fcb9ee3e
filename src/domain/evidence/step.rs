//! One step: the common fields, and the facts of its kind.

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

use super::dns::UsedAnswer;
use super::{Word, alignment, arc, automation, dkim, dmarc, iprev, looping, policy, provider};
use super::{rates, receive_message, recipient, relay, scan, session, spf, tls_report};

/// Serialized as `{name, result, detail, inputs, dns, micros}`, with `truncated: true` if some DNS
/// answers were not kept completely.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Serialized as `name` and `inputs`.
    pub facts: Facts,
    pub result: Word,
    /// In plain words.
    pub detail: String,
    pub dns: Vec<UsedAnswer>,
    /// Duration in microseconds.
    pub micros: u64,
}

/// Facts of a step that only a later version knows: JSON, shown unchanged.
#[derive(Clone, Debug)]
pub struct Later {
    name: String,
    inputs: Box<RawValue>,
}

impl PartialEq for Later {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.inputs.get() == other.inputs.get()
    }
}

impl Step {
    /// Tells whether some DNS answers were not kept completely.
    pub fn is_truncated(&self) -> bool {
        self.dns.iter().any(|answer| answer.truncated)
    }
}

/// Declares the kinds of steps: each name, and the type of its `inputs`.
macro_rules! facts {
    ($($name:literal => $kind:ident($facts:ty),)*) => {
        #[derive(Clone, Debug, PartialEq)]
        pub enum Facts {
            $($kind($facts),)*
            Later(Later),
        }

        impl Facts {
            pub fn name(&self) -> &str {
                match self {
                    // A client refused before RCPT has named no recipient.
                    Self::Recipient(facts) if facts.path.is_empty() => "session",
                    $(Self::$kind(_) => $name,)*
                    Self::Later(later) => &later.name,
                }
            }

            fn read(name: String, inputs: Box<RawValue>) -> Result<Self, serde_json::Error> {
                let json = inputs.get();
                // A client refused before RCPT: the facts of `Recipient`.
                if name == "session" && let Ok(facts) = serde_json::from_str(json) {
                    return Ok(Self::Recipient(facts));
                }
                match name.as_str() {
                    $($name => serde_json::from_str(json).map(Self::$kind),)*
                    _ => Ok(Self::Later(Later { name, inputs })),
                }
            }
        }

        impl Serialize for Facts {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$kind(facts) => facts.serialize(serializer),)*
                    Self::Later(later) => later.inputs.serialize(serializer),
                }
            }
        }
    };
}

facts! {
    "session" => Session(session::Session),
    "provider" => Provider(provider::Provider),
    "framing" => Framing(scan::Scan),
    "scan" => Scan(scan::Scan),
    "automation" => Automation(automation::Automation),
    "dkim" => Dkim(dkim::Dkim),
    "alignment" => Alignment(alignment::Alignment),
    "spf" => Spf(spf::Spf),
    "arc" => Arc(arc::Arc),
    "dmarc" => Dmarc(dmarc::Dmarc),
    "iprev" => Iprev(iprev::Iprev),
    "content" => Content(scan::Scan),
    "loop" => Loop(looping::Loop),
    "policy" => Policy(policy::Policy),
    "relay" => Relay(relay::Relay),
    "rates" => Rates(rates::Rates),
    "recipient" => Recipient(recipient::Recipient),
    "receiveMessage" => ReceiveMessage(receive_message::ReceiveMessage),
    "tlsReport" => TlsReport(tls_report::TlsReport),
}

impl Serialize for Step {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        fields.serialize_entry("name", self.facts.name())?;
        fields.serialize_entry("result", &self.result)?;
        fields.serialize_entry("detail", &self.detail)?;
        fields.serialize_entry("inputs", &self.facts)?;
        fields.serialize_entry("dns", &self.dns)?;
        fields.serialize_entry("micros", &self.micros)?;
        if self.is_truncated() {
            fields.serialize_entry("truncated", &true)?;
        }
        fields.end()
    }
}

impl<'de> Deserialize<'de> for Step {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        struct Fields {
            name: String,
            result: Word,
            #[serde(default)]
            detail: String,
            inputs: Box<RawValue>,
            #[serde(default)]
            dns: Vec<UsedAnswer>,
            #[serde(default)]
            micros: u64,
        }

        let Fields { name, result, detail, inputs, dns, micros } =
            Fields::deserialize(deserializer)?;
        let of = |error| D::Error::custom(format_args!("the inputs of the step {name:?}: {error}"));
        let facts = Facts::read(name.clone(), inputs).map_err(of)?;
        Ok(Self { facts, result, detail, dns, micros })
    }
}
