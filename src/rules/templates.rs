//! `[templates]` of `policies/access.toml`: bounds on templates of Agents, and the pace of
//! migrations. The file explains each number.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{RulesError, within};

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
    /// Pause between two transactions of migrations.
    pub const fn pause(&self) -> Duration {
        Duration::from_millis(self.pause_millis)
    }

    /// Time between two searches for work.
    pub const fn look(&self) -> Duration {
        Duration::from_secs(self.look_seconds)
    }

    pub(super) fn validate(&self) -> Result<(), RulesError> {
        let check = |key, value, low, high| within("access.toml", key, value, low, high);
        let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        check("templates.max_per_account", self.max_per_account, 1, 1000)?;
        check("templates.max_integrations", wide(self.max_integrations), 0, 1000)?;
        check("templates.max_targets", wide(self.max_targets), 1, 10_000)?;
        check("templates.pause_millis", self.pause_millis, 1, 60_000)?;
        check("templates.look_seconds", self.look_seconds, 1, 3600)?;
        check("templates.links_at_once", self.links_at_once.into(), 1, 5000)
    }
}
