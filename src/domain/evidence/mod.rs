//! The evidence of a verdict: its steps in order, each with its facts, the DNS answers used, and
//! the rules applied.
//!
//! Each step is declared once, here. `verify`, `mail` and `app::intake` write it, the store keeps
//! it as JSON, the API shows it under the same names, and `gatepost check --record` reads it back.
//! So these nouns, unlike all others, have a wire shape. Records outlive versions: a new field
//! needs a default, and no field may change its meaning. A version shows steps of a later version
//! unchanged, and drops unknown fields of the steps it knows.

pub mod alignment;
pub mod arc;
pub mod automation;
pub mod dkim;
pub mod dmarc;
pub mod dns;
pub mod finding;
pub mod iprev;
pub mod looping;
pub mod policy;
pub mod provider;
pub mod rates;
pub mod receive_message;
pub mod recipient;
pub mod relay;
pub mod results;
pub mod scan;
pub mod session;
pub mod spf;
mod step;
pub mod tls_report;

use std::borrow::Cow;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

pub use self::step::{Facts, Later, Step};

/// A word of this version, or a word read from a record, perhaps of a later version.
pub type Word = Cow<'static, str>;

/// All steps of one verdict, in the order in which they were taken.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Steps shared by all recipients.
    examined: Arc<Vec<Step>>,
    /// Steps of this recipient alone.
    own: Vec<Step>,
}

impl Evidence {
    pub fn of_message(examined: &Arc<Vec<Step>>) -> Self {
        Self { examined: Arc::clone(examined), own: Vec::new() }
    }

    pub fn push(&mut self, step: Step) {
        self.own.push(step);
    }

    /// Returns the steps that all recipients of the message share.
    pub fn shared(&self) -> &[Step] {
        &self.examined
    }

    /// Returns the steps of this recipient alone.
    pub fn own(&self) -> &[Step] {
        &self.own
    }

    pub fn iter(&self) -> impl Iterator<Item = &Step> + Clone {
        self.examined.iter().chain(&self.own)
    }

    pub fn step(&self, name: &str) -> Option<&Step> {
        self.iter().find(|step| step.facts.name() == name)
    }
}

/// Declares functions that return the first step of a kind.
macro_rules! found {
    ($($name:ident: $kind:ident($facts:ty),)*) => {
        impl Evidence {
            $(pub fn $name(&self) -> Option<&$facts> {
                self.iter().find_map(|step| match &step.facts {
                    Facts::$kind(facts) => Some(facts),
                    _ => None,
                })
            })*
        }
    };
}

found! {
    alignment: Alignment(alignment::Alignment),
    dkim: Dkim(dkim::Dkim),
    policy: Policy(policy::Policy),
    session: Session(session::Session),
    spf: Spf(spf::Spf),
}

/// Converts a count to the evidence's integer type; saturates.
pub fn count(things: usize) -> u64 {
    u64::try_from(things).unwrap_or(u64::MAX)
}

impl From<Vec<Step>> for Evidence {
    fn from(own: Vec<Step>) -> Self {
        Self { examined: Arc::default(), own }
    }
}

impl From<Step> for Evidence {
    fn from(step: Step) -> Self {
        vec![step].into()
    }
}

impl PartialEq for Evidence {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Serialize for Evidence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Evidence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<Step>::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests;
