//! `policies/smtp.toml`: limits and deadlines of a session. The file explains each number.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::Deserialize;

use super::RulesError;

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
    durations! {
        /// Delay of the reply to one error too many.
        tarpit = millis(tarpit_millis);
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
    durations! {
        proxy = seconds(proxy_seconds);
        command = seconds(command_seconds);
        data_block = seconds(data_block_seconds);
        data_grace = seconds(data_grace_seconds);
        write = seconds(write_seconds);
        session = seconds(session_seconds);
        answer = seconds(answer_seconds);
        farewell = millis(farewell_millis);
        linger = millis(linger_millis);
        accept_pause = millis(accept_pause_millis);
        handshake = seconds(handshake_seconds);
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
    durations! {
        /// While all memory is taken, a message must receive as many bytes as it holds within this
        /// time.
        turnover = seconds(turnover_seconds);
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Space {
    /// 0: free space is not checked.
    pub min_free_bytes: u64,
}

/// Checks of certificate files, those of the API included.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    reload_seconds: u64,
    expiry_warning_days: u64,
}

impl Tls {
    durations! {
        reload = seconds(reload_seconds);
        expiry_warning = days(expiry_warning_days);
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
        ranges!("smtp.toml", rates of self.rates, {
            connections_per_minute: 0..=1_000_000;
            messages_per_minute: 0..=1_000_000;
            recipients_per_minute: 0..=1_000_000;
            max_networks: 1..=1_000_000;
        })?;
        ranges!("smtp.toml", limits of self.limits, {
            max_sessions: 1..=100_000;
            max_sessions_per_network: 1..=100_000;
            max_sessions_per_address: 1..=100_000;
            max_command_line: 512..=65_536;
            max_recipients: 1..=10_000;
            max_recipients_put_off: 1..=1_000_000;
            max_errors: 1..=1000;
            // RFC 9422: LIMITS announces at most six digits.
            max_transactions: 1..=999_999;
            max_idle_commands: 10..=1_000_000;
            max_unknown_recipients: 1..=1000;
            tarpit_after_errors: 0..=1000;
            tarpit_millis: 0..=10_000;
        })?;
        ranges!("smtp.toml", deadlines of self.deadlines, {
            proxy_seconds: 1..=300;
            command_seconds: 1..=3600;
            data_block_seconds: 1..=3600;
            min_data_rate: 1..=1 << 20;
            data_grace_seconds: 1..=3600;
            write_seconds: 1..=3600;
            session_seconds: 1..=86_400;
            answer_seconds: 1..=540;
            farewell_millis: 0..=60_000;
            linger_millis: 0..=60_000;
            accept_pause_millis: 1..=60_000;
            handshake_seconds: 1..=300;
        })?;
        ranges!("smtp.toml", tls of self.tls, {
            reload_seconds: 1..=86_400;
            expiry_warning_days: 0..=365;
        })?;
        ranges!("smtp.toml", memory of self.memory, {
            max_bytes_in_flight: 1 << 20..=1 << 40;
            reserve_step_bytes: 1024..=1 << 20;
            kept_head_bytes: 0..=1 << 20;
            max_drained_bytes: 0..=1 << 40;
            turnover_seconds: 1..=86_400;
        })?;
        ranges!("smtp.toml", space of self.space, {
            min_free_bytes: 0..=1 << 62;
        })?;
        ranges!("smtp.toml", mailin of self.mailin, {
            threads: 1..=4096;
        })
    }
}
