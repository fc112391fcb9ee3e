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
    /// The steps that all recipients share.
    examined: Arc<Vec<Step>>,
    /// The steps of this recipient alone.
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
}

/// Declares how the first step of a kind is found.
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

/// A number of things, as evidence has it.
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
