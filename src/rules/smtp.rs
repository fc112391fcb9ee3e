//! `policies/smtp.toml`: limits and deadlines of a session. The file explains each number.

use std::time::Duration;

use serde::Deserialize;

use super::{RulesError, within};

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SmtpRules {
    pub limits: Limits,
    pub deadlines: Deadlines,
    pub memory: Memory,
    pub mailin: Mailin,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub max_sessions: usize,
    pub max_sessions_per_network: usize,
    pub max_command_line: usize,
    pub max_recipients: usize,
    pub max_errors: u32,
    pub max_transactions: u32,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deadlines {
    command_seconds: u64,
    data_block_seconds: u64,
    /// Octets per second.
    pub min_data_rate: u64,
    data_grace_seconds: u64,
    write_seconds: u64,
    session_seconds: u64,
    answer_seconds: u64,
    linger_millis: u64,
    accept_pause_millis: u64,
}

impl Deadlines {
    pub const fn command(&self) -> Duration {
        Duration::from_secs(self.command_seconds)
    }

    pub const fn data_block(&self) -> Duration {
        Duration::from_secs(self.data_block_seconds)
    }

    pub const fn data_grace(&self) -> Duration {
        Duration::from_secs(self.data_grace_seconds)
    }

    pub const fn write(&self) -> Duration {
        Duration::from_secs(self.write_seconds)
    }

    pub const fn session(&self) -> Duration {
        Duration::from_secs(self.session_seconds)
    }

    pub const fn answer(&self) -> Duration {
        Duration::from_secs(self.answer_seconds)
    }

    pub const fn linger(&self) -> Duration {
        Duration::from_millis(self.linger_millis)
    }

    pub const fn accept_pause(&self) -> Duration {
        Duration::from_millis(self.accept_pause_millis)
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    pub max_bytes_in_flight: usize,
    pub reserve_step_bytes: usize,
    pub kept_head_bytes: usize,
    pub max_drained_bytes: u64,
}

/// The front end on mailin-embedded, where it is compiled in.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mailin {
    pub threads: u32,
}

impl SmtpRules {
    pub(super) fn validate(&self) -> Result<(), RulesError> {
        let check = |key, value, low, high| within("smtp.toml", key, value, low, high);
        let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let (limits, deadlines) = (&self.limits, &self.deadlines);
        check("limits.max_sessions", wide(limits.max_sessions), 1, 100_000)?;
        let per_network = wide(limits.max_sessions_per_network);
        check("limits.max_sessions_per_network", per_network, 1, 100_000)?;
        check("limits.max_command_line", wide(limits.max_command_line), 512, 65_536)?;
        check("limits.max_recipients", wide(limits.max_recipients), 1, 10_000)?;
        check("limits.max_errors", limits.max_errors.into(), 1, 1000)?;
        check("limits.max_transactions", limits.max_transactions.into(), 1, 1_000_000)?;
        check("deadlines.command_seconds", deadlines.command_seconds, 1, 3600)?;
        check("deadlines.data_block_seconds", deadlines.data_block_seconds, 1, 3600)?;
        check("deadlines.min_data_rate", deadlines.min_data_rate, 1, 1 << 20)?;
        check("deadlines.data_grace_seconds", deadlines.data_grace_seconds, 1, 3600)?;
        check("deadlines.write_seconds", deadlines.write_seconds, 1, 3600)?;
        check("deadlines.session_seconds", deadlines.session_seconds, 1, 86_400)?;
        check("deadlines.answer_seconds", deadlines.answer_seconds, 1, 540)?;
        check("deadlines.linger_millis", deadlines.linger_millis, 0, 60_000)?;
        check("deadlines.accept_pause_millis", deadlines.accept_pause_millis, 1, 60_000)?;
        let memory = &self.memory;
        let in_flight = wide(memory.max_bytes_in_flight);
        check("memory.max_bytes_in_flight", in_flight, 1 << 20, 1 << 40)?;
        check("memory.reserve_step_bytes", wide(memory.reserve_step_bytes), 1024, 1 << 20)?;
        check("memory.kept_head_bytes", wide(memory.kept_head_bytes), 0, 1 << 20)?;
        check("memory.max_drained_bytes", memory.max_drained_bytes, 0, 1 << 40)?;
        check("mailin.threads", self.mailin.threads.into(), 1, 4096)
    }
}
