//! Settings that are a number of seconds.

use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer};

/// In seconds: a century, which every clock can add.
const LONGEST_WAIT: i64 = 3_155_760_000;

#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(super) enum NotSeconds {
    #[error("must be a whole number of seconds, at most {LONGEST_WAIT}")]
    Number,
    #[error("must be 0 or more")]
    Negative,
}

/// Parses seconds of a flag or a variable: 0 to [`LONGEST_WAIT`].
pub(super) fn seconds(text: &str) -> Result<u64, NotSeconds> {
    let found = text.parse::<i64>().ok().filter(|found| *found <= LONGEST_WAIT);
    u64::try_from(found.ok_or(NotSeconds::Number)?).map_err(|_| NotSeconds::Negative)
}

pub(super) fn grace_seconds<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u64>, D::Error> {
    seconds_of("grace-seconds", value)
}

pub(super) fn start_patience<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u64>, D::Error> {
    seconds_of("start-patience", value)
}

/// Reads seconds from the settings file. An error of serde would name a Rust type.
fn seconds_of<'de, D: Deserializer<'de>>(key: &str, value: D) -> Result<Option<u64>, D::Error> {
    let found = i64::deserialize(value)?.to_string();
    seconds(&found).map(Some).map_err(|why| D::Error::custom(format!("{key} {why}")))
}
