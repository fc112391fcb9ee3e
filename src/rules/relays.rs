//! `policies/relays.toml`: requests to applications. The file explains each number.

use std::time::Duration;

use serde::Deserialize;

use super::{RulesError, within};
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

    pub const fn default_timeout(&self) -> Duration {
        Duration::from_millis(self.default_timeout_millis)
    }

    pub const fn max_timeout(&self) -> Duration {
        Duration::from_millis(self.max_timeout_millis)
    }

    pub const fn connect_timeout(&self) -> Duration {
        Duration::from_secs(self.connect_timeout_seconds)
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
        }
    }

    pub(super) fn validate(&self) -> Result<(), RulesError> {
        let check = |key, value, low, high| within("relays.toml", key, value, low, high);
        let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let (forward, headers) = (&self.forward, &self.headers);
        let longest = forward.max_timeout_millis;
        check("forward.max_timeout_millis", longest, SHORTEST_MILLIS, 60_000)?;
        let default = forward.default_timeout_millis;
        check("forward.default_timeout_millis", default, SHORTEST_MILLIS, longest)?;
        check("forward.connect_timeout_seconds", forward.connect_timeout_seconds, 1, 60)?;
        check("forward.max_at_once", wide(forward.max_at_once), 1, 10_000)?;
        let (of_one, quarter) =
            (wide(forward.max_at_once_per_organization), forward.max_at_once / 4);
        check("forward.max_at_once_per_organization", of_one, 1, wide(quarter.max(1)))?;
        let of_one = wide(forward.max_at_once_per_relay);
        check("forward.max_at_once_per_relay", of_one, 1, 10_000)?;
        check("attempts.kept", self.attempts.kept.into(), 1, 1000)?;
        check("attempts.max_waiting", wide(self.attempts.max_waiting), 1, 100_000)?;
        check("headers.max_per_relay", wide(headers.max_per_relay), 0, 100)?;
        check("headers.max_name_bytes", wide(headers.max_name_bytes), 1, 256)?;
        check("headers.max_value_bytes", wide(headers.max_value_bytes), 1, 8192)?;
        check("status_codes.max_per_relay", wide(self.status_codes.max_per_relay), 1, 100)
    }
}
