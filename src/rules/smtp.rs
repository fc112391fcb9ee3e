//! `policies/smtp.toml`: limits and deadlines of a session. The file explains each number.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use serde::Deserialize;

use super::{RulesError, within};

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SmtpRules {
    pub limits: Limits,
    pub framing: Framing,
    pub rates: Pace,
    pub exempt: Exempt,
    pub deadlines: Deadlines,
    pub memory: Memory,
    pub space: Space,
    pub tls: Tls,
    pub mailin: Mailin,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub max_sessions: usize,
    pub max_sessions_per_network: usize,
    pub max_sessions_per_address: usize,
    pub max_command_line: usize,
    pub max_recipients: usize,
    pub max_recipients_put_off: u32,
    pub max_errors: u32,
    pub max_unknown_recipients: u32,
    pub tarpit_after_errors: u32,
    tarpit_millis: u64,
    pub max_transactions: u32,
    pub max_idle_commands: u32,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Framing {
    pub bare_line_ends: BareLineEnds,
}

/// The treatment of a bare CR or LF in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BareLineEnds {
    Reject,
    Normalize,
}

impl Limits {
    /// Delay of the reply to one error too many.
    pub const fn tarpit(&self) -> Duration {
        Duration::from_millis(self.tarpit_millis)
    }
}

/// Bounds on one network in a minute; 0 for any number.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    pub connections_per_minute: u32,
    pub messages_per_minute: u32,
    pub recipients_per_minute: u32,
    pub max_networks: usize,
}

/// The operator's own networks, which have no limits per network.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exempt {
    pub networks: Vec<IpNet>,
}

impl Exempt {
    /// Whether one of the networks has `address`, which is in canonical form.
    pub fn is_exempt(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(&address))
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deadlines {
    proxy_seconds: u64,
    command_seconds: u64,
    data_block_seconds: u64,
    /// Bytes per second.
    pub min_data_rate: u64,
    data_grace_seconds: u64,
    write_seconds: u64,
    session_seconds: u64,
    answer_seconds: u64,
    farewell_millis: u64,
    linger_millis: u64,
    accept_pause_millis: u64,
    handshake_seconds: u64,
}

impl Deadlines {
    pub const fn proxy(&self) -> Duration {
        Duration::from_secs(self.proxy_seconds)
    }

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

    pub const fn farewell(&self) -> Duration {
        Duration::from_millis(self.farewell_millis)
    }

    pub const fn linger(&self) -> Duration {
        Duration::from_millis(self.linger_millis)
    }

    pub const fn accept_pause(&self) -> Duration {
        Duration::from_millis(self.accept_pause_millis)
    }

    pub const fn handshake(&self) -> Duration {
        Duration::from_secs(self.handshake_seconds)
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    pub max_bytes_in_flight: usize,
    pub reserve_step_bytes: usize,
    pub kept_head_bytes: usize,
    pub max_drained_bytes: u64,
    turnover_seconds: u64,
}

impl Memory {
    /// While all memory is taken, a message must receive as many bytes as it holds within this
    /// time.
    pub const fn turnover(&self) -> Duration {
        Duration::from_secs(self.turnover_seconds)
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Space {
    /// 0: free space is not checked.
    pub min_free_bytes: u64,
}

impl Pace {
    fn validate(&self) -> Result<(), RulesError> {
        let check = |key, value, low, high| within("smtp.toml", key, value, low, high);
        check("rates.connections_per_minute", self.connections_per_minute, 0, 1_000_000)?;
        check("rates.messages_per_minute", self.messages_per_minute, 0, 1_000_000)?;
        check("rates.recipients_per_minute", self.recipients_per_minute, 0, 1_000_000)?;
        let networks = u32::try_from(self.max_networks).unwrap_or(u32::MAX);
        check("rates.max_networks", networks, 1, 1_000_000)
    }
}

/// Checks of certificate files, those of the API included.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    reload_seconds: u64,
    expiry_warning_days: u64,
}

impl Tls {
    pub const fn reload(&self) -> Duration {
        Duration::from_secs(self.reload_seconds)
    }

    pub const fn expiry_warning(&self) -> Duration {
        Duration::from_secs(self.expiry_warning_days * 86_400)
    }
}

/// The front end on mailin-embedded, if it is compiled in.
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
        self.rates.validate()?;
        check("limits.max_sessions", wide(limits.max_sessions), 1, 100_000)?;
        let per_network = wide(limits.max_sessions_per_network);
        check("limits.max_sessions_per_network", per_network, 1, 100_000)?;
        let per_address = wide(limits.max_sessions_per_address);
        check("limits.max_sessions_per_address", per_address, 1, 100_000)?;
        check("limits.max_command_line", wide(limits.max_command_line), 512, 65_536)?;
        check("limits.max_recipients", wide(limits.max_recipients), 1, 10_000)?;
        let put_off = limits.max_recipients_put_off.into();
        check("limits.max_recipients_put_off", put_off, 1, 1_000_000)?;
        check("limits.max_errors", limits.max_errors.into(), 1, 1000)?;
        // RFC 9422: LIMITS announces at most six digits.
        check("limits.max_transactions", limits.max_transactions.into(), 1, 999_999)?;
        check("limits.max_idle_commands", limits.max_idle_commands.into(), 10, 1_000_000)?;
        let unknown = limits.max_unknown_recipients;
        check("limits.max_unknown_recipients", unknown.into(), 1, 1000)?;
        check("limits.tarpit_after_errors", limits.tarpit_after_errors.into(), 0, 1000)?;
        check("limits.tarpit_millis", limits.tarpit_millis, 0, 10_000)?;
        check("deadlines.proxy_seconds", deadlines.proxy_seconds, 1, 300)?;
        check("deadlines.command_seconds", deadlines.command_seconds, 1, 3600)?;
        check("deadlines.data_block_seconds", deadlines.data_block_seconds, 1, 3600)?;
        check("deadlines.min_data_rate", deadlines.min_data_rate, 1, 1 << 20)?;
        check("deadlines.data_grace_seconds", deadlines.data_grace_seconds, 1, 3600)?;
        check("deadlines.write_seconds", deadlines.write_seconds, 1, 3600)?;
        check("deadlines.session_seconds", deadlines.session_seconds, 1, 86_400)?;
        check("deadlines.answer_seconds", deadlines.answer_seconds, 1, 540)?;
        check("deadlines.farewell_millis", deadlines.farewell_millis, 0, 60_000)?;
        check("deadlines.linger_millis", deadlines.linger_millis, 0, 60_000)?;
        check("deadlines.accept_pause_millis", deadlines.accept_pause_millis, 1, 60_000)?;
        check("deadlines.handshake_seconds", deadlines.handshake_seconds, 1, 300)?;
        check("tls.reload_seconds", self.tls.reload_seconds, 1, 86_400)?;
        check("tls.expiry_warning_days", self.tls.expiry_warning_days, 0, 365)?;
        let memory = &self.memory;
        let in_flight = wide(memory.max_bytes_in_flight);
        check("memory.max_bytes_in_flight", in_flight, 1 << 20, 1 << 40)?;
        check("memory.reserve_step_bytes", wide(memory.reserve_step_bytes), 1024, 1 << 20)?;
        check("memory.kept_head_bytes", wide(memory.kept_head_bytes), 0, 1 << 20)?;
        check("memory.max_drained_bytes", memory.max_drained_bytes, 0, 1 << 40)?;
        check("memory.turnover_seconds", memory.turnover_seconds, 1, 86_400)?;
        check("space.min_free_bytes", self.space.min_free_bytes, 0, 1 << 62)?;
        check("mailin.threads", self.mailin.threads.into(), 1, 4096)
    }
}
