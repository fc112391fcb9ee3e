//! An answer of the DNS, as a step used it.

use serde::{Deserialize, Serialize};

use super::Word;

/// The answer to one question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The name that was asked about, without its final dot.
    pub name: String,
    /// The type of record, as zone files write it.
    #[serde(rename = "type")]
    pub kind: Word,
    /// Seconds; `None` where nobody said.
    #[serde(default)]
    pub ttl: Option<u32>,
    #[serde(rename = "answer")]
    pub told: Told,
    /// Not all of it was kept, or nothing of what came after it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// The records, or why there are none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Told {
    /// Records as zone files write them (RFC 1035 §5.1).
    Records(Vec<String>),
    /// Why there are none.
    Nothing(Word),
}

impl Told {
    pub const NAME_UNKNOWN: Self = Self::Nothing(Word::Borrowed("NXDOMAIN"));
    pub const NO_RECORD: Self = Self::Nothing(Word::Borrowed("no such record"));
    pub const UNASKABLE: Self = Self::Nothing(Word::Borrowed("not a domain name"));
    const PASSING: &str = "temporary failure";

    /// Nobody knows for the time being, for this reason.
    pub fn temporary(why: &str) -> Self {
        Self::Nothing(format!("{}: {why}", Self::PASSING).into())
    }

    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Nothing(word) if word.starts_with(Self::PASSING))
    }
}
