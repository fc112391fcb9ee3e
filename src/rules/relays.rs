//! `policies/relays.toml`: requests to applications. The file explains each number.

use std::time::Duration;

use serde::Deserialize;

use super::{RulesError, wide};
use crate::domain::custom_header::HeaderBounds;
use crate::domain::relay::RelayType;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelayRules {
    pub forward: Forward,
    pub attempts: Attempts,
    headers: Headers,
    status_codes: StatusCodes,
    types: Types,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forward {
    default_timeout_millis: u64,
    max_timeout_millis: u64,
    connect_timeout_seconds: u64,
    pub max_at_once: usize,
    pub max_at_once_per_organization: usize,
    pub max_at_once_per_relay: usize,
}

impl Forward {
    /// The shortest time that an account may set: the lower bound of the default.
    pub const SHORTEST: Duration = Duration::from_millis(SHORTEST_MILLIS);

    durations! {
        default_timeout = millis(default_timeout_millis);
        max_timeout = millis(max_timeout_millis);
        connect_timeout = seconds(connect_timeout_seconds);
    }
}

const SHORTEST_MILLIS: u64 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempts {
    pub kept: u32,
    pub max_waiting: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Headers {
    max_per_relay: usize,
    max_name_bytes: usize,
    max_value_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct StatusCodes {
    max_per_relay: usize,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Types {
    mailgun: Type,
    sendgrid: Type,
    postmark: Type,
    ses: Type,
    smtp: Type,
    json: Type,
}

/// The text of a type, and whether an account can set it up.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Type {
    pub enabled: bool,
    pub description: String,
}

impl RelayRules {
    /// Bounds on the header fields that an account may add.
    pub const fn header_bounds(&self) -> HeaderBounds {
        let Headers { max_per_relay, max_name_bytes, max_value_bytes } = self.headers;
        let (name, value) = (max_name_bytes, max_value_bytes);
        HeaderBounds { count: max_per_relay, name, value, authorization: true }
    }

    /// The number of codes that an account may list as successes.
    pub const fn max_status_codes(&self) -> usize {
        self.status_codes.max_per_relay
    }

    pub const fn of_type(&self, kind: RelayType) -> &Type {
        match kind {
            RelayType::Mailgun => &self.types.mailgun,
            RelayType::Sendgrid => &self.types.sendgrid,
            RelayType::Postmark => &self.types.postmark,
            RelayType::Ses => &self.types.ses,
            RelayType::Smtp => &self.types.smtp,
            RelayType::Json => &self.types.json,
        }
    }

    pub(super) fn validate(&self) -> Result<(), RulesError> {
        let quarter = wide(self.forward.max_at_once / 4).max(1);
        ranges!("relays.toml", forward of self.forward, {
            max_timeout_millis: SHORTEST_MILLIS..=60_000;
            default_timeout_millis: SHORTEST_MILLIS..=self.forward.max_timeout_millis;
            connect_timeout_seconds: 1..=60;
            max_at_once: 1..=10_000;
            max_at_once_per_organization: 1..=quarter;
            max_at_once_per_relay: 1..=10_000;
        })?;
        ranges!("relays.toml", attempts of self.attempts, {
            kept: 1..=1000;
            max_waiting: 1..=100_000;
        })?;
        ranges!("relays.toml", headers of self.headers, {
            max_per_relay: 0..=100;
            max_name_bytes: 1..=256;
            max_value_bytes: 1..=8192;
        })?;
        ranges!("relays.toml", status_codes of self.status_codes, {
            max_per_relay: 1..=100;
        })
    }
}
