//! The evidence of a verdict: one step after another, each with its facts, the answers of the DNS that
//! were used, and the rules that it went by.
//!
//! A step is declared once, here: `verify`, `mail` and `app::intake` write it, the store keeps it as
//! JSON, the API shows it with the same names, and `gatepost check --record` reads it back. So these
//! nouns, unlike all others, have a shape. Records outlive versions: a field may be added with a
//! default, and none may change its meaning. A version shows steps that only a later one knows as they
//! are, and leaves out fields that only a later one knows.

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

use std::borrow::Cow;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

pub use self::step::{Facts, Later, Step};

/// A word of ours, or one that was read, perhaps of a later version.
pub type Word = Cow<'static, str>;

/// All steps of one verdict, in the order in which they were taken.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Of the message, whoever receives it.
    examined: Arc<Vec<Step>>,
    /// Of this recipient.
    own: Vec<Step>,
}

impl Evidence {
    /// The steps that all recipients of a message share.
    pub fn of_message(examined: &Arc<Vec<Step>>) -> Self {
        Self { examined: Arc::clone(examined), own: Vec::new() }
    }

    pub fn push(&mut self, step: Step) {
        self.own.push(step);
    }

    pub fn iter(&self) -> impl Iterator<Item = &Step> + Clone {
        self.examined.iter().chain(&self.own)
    }

    /// The first step of this name.
    pub fn step(&self, name: &str) -> Option<&Step> {
        self.iter().find(|step| step.facts.name() == name)
    }

    pub fn alignment(&self) -> Option<&alignment::Alignment> {
        self.iter().find_map(|step| match &step.facts {
            Facts::Alignment(facts) => Some(facts),
            _ => None,
        })
    }

    pub fn chain(&self) -> Option<&arc::Chain> {
        self.iter().find_map(|step| match &step.facts {
            Facts::Arc(facts) => facts.chain.as_ref(),
            _ => None,
        })
    }

    pub fn dkim(&self) -> Option<&dkim::Dkim> {
        self.iter().find_map(|step| match &step.facts {
            Facts::Dkim(facts) => Some(facts),
            _ => None,
        })
    }

    pub fn policy(&self) -> Option<&policy::Policy> {
        self.iter().find_map(|step| match &step.facts {
            Facts::Policy(facts) => Some(facts),
            _ => None,
        })
    }

    pub fn session(&self) -> Option<&session::Session> {
        self.iter().find_map(|step| match &step.facts {
            Facts::Session(facts) => Some(facts),
            _ => None,
        })
    }

    pub fn spf(&self) -> Option<&spf::Spf> {
        self.iter().find_map(|step| match &step.facts {
            Facts::Spf(facts) => Some(facts),
            _ => None,
        })
    }
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
