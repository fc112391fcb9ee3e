//! `[received]` of `policies/access.toml`: bounds on messages that a platform or an adapter hands in.
//! The file explains each number.

use serde::{Deserialize, Serialize};

use super::RulesError;

/// Bounds on one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReceivedRules {
    pub max_text_bytes: usize,
    pub max_object_bytes: usize,
    pub max_attachments: usize,
    pub max_dialog_turns: usize,
    pub max_duration_seconds: u64,
}

impl ReceivedRules {
    pub(super) fn validate(&self) -> Result<(), RulesError> {
        ranges!("access.toml", received of self, {
            max_text_bytes: 1024..=1 << 20;
            max_object_bytes: 0..=65_536;
            max_attachments: 0..=1000;
            max_dialog_turns: 0..=10_000;
            max_duration_seconds: 3600..=31_536_000;
        })
    }
}
