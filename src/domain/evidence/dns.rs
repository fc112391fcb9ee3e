//! DNS answers, as a step used them.

use serde::{Deserialize, Serialize};

use super::Word;

/// The answer to one question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedAnswer {
    /// The name asked for, without its final dot.
    pub name: String,
    /// The record type, as in zone files.
    #[serde(rename = "type")]
    pub kind: Word,
    /// Seconds; None if unknown.
    #[serde(default)]
    pub ttl: Option<u32>,
    #[serde(rename = "answer")]
    pub told: DnsOutcome,
    /// Set if records of this answer, or later answers, were not kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// The records, or why there are none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum DnsOutcome {
    /// Records as zone files write them (RFC 1035 §5.1).
    Records(Vec<String>),
    Nothing(Word),
}

impl DnsOutcome {
    pub const NAME_UNKNOWN: Self = Self::Nothing(Word::Borrowed("NXDOMAIN"));
    pub const NO_RECORD: Self = Self::Nothing(Word::Borrowed("no such record"));
    pub const UNASKABLE: Self = Self::Nothing(Word::Borrowed("not a domain name"));
    const PASSING: &str = "temporary failure";

    /// A failure that may pass, for this reason.
    pub fn temporary(why: &str) -> Self {
        Self::Nothing(format!("{}: {why}", Self::PASSING).into())
    }

    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Nothing(word) if word.starts_with(Self::PASSING))
    }
}
