//! `[outcomes]` of `policies/access.toml`: bounds on outcomes of messages. The file explains each
//! number.

use serde::{Deserialize, Serialize};

use super::RulesError;

/// Bounds on the outcome of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OutcomeRules {
    pub max_text_bytes: usize,
    pub max_replies: usize,
}

impl OutcomeRules {
    pub(super) fn validate(&self) -> Result<(), RulesError> {
        ranges!("access.toml", outcomes of self, {
            max_text_bytes: 1024..=1 << 18;
            max_replies: 1..=100;
        })
    }
}
