//! `[templates]` of `policies/access.toml`: bounds on templates of Agents, and the pace of
//! migrations. The file explains each number.

use serde::{Deserialize, Serialize};

use super::RulesError;

/// Bounds on one account's templates, and the pace of their migrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TemplateRules {
    pub max_per_account: u64,
    pub max_integrations: usize,
    pub max_targets: usize,
    pause_millis: u64,
    look_seconds: u64,
    pub links_at_once: u32,
}

impl TemplateRules {
    durations! {
        /// Pause between two transactions of migrations.
        pause = millis(pause_millis);
        /// Time between two searches for work.
        look = seconds(look_seconds);
    }

    pub(super) fn validate(&self) -> Result<(), RulesError> {
        ranges!("access.toml", templates of self, {
            max_per_account: 1..=1000;
            max_integrations: 0..=1000;
            max_targets: 1..=10_000;
            pause_millis: 1..=60_000;
            look_seconds: 1..=3600;
            links_at_once: 1..=5000;
        })
    }
}
