//! `policies/intake.toml`: required proof, sizes, deduplication. The file explains each number.

use std::time::Duration;

use serde::Deserialize;

use super::{RulesError, within};
use crate::domain::domain_name::DomainName;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntakeRules {
    pub authentication: Authentication,
    pub dns: Dns,
    pub limits: Limits,
    pub dedup: Dedup,
    pub rates: Rates,
    pub directory: Directory,
    pub raw: Raw,
    pub record: Record,
}

/// How close `d=` of a signature must be to the From domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Alignment {
    Relaxed,
    Strict,
}

impl Alignment {
    /// The word in the file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Relaxed => "relaxed",
            Self::Strict => "strict",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Authentication {
    pub alignment: Alignment,
    pub count_testing_keys: bool,
    pub min_rsa_bits: usize,
    pub max_future_seconds: u64,
    defer_future_days: u64,
    pub max_signatures: usize,
    pub max_signed_names: usize,
    pub max_body_hashes: usize,
    #[serde(deserialize_with = "domains")]
    pub trusted_arc_sealers: Vec<DomainName>,
    pub offload_above_bytes: usize,
    pub max_offloaded: usize,
}

impl Authentication {
    /// The greatest lead of a signature's date over our clock that is not refused for good.
    pub fn max_clock_seconds(&self) -> u64 {
        self.max_future_seconds.max(self.defer_future_days * 86_400)
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dns {
    message_budget_seconds: u64,
    query_timeout_seconds: u64,
    spf_budget_seconds: u64,
    dmarc_budget_seconds: u64,
    iprev_budget_seconds: u64,
    pub max_void_lookups: u32,
    pub retries: usize,
    cache_mib: usize,
    max_ttl_seconds: u64,
}

impl Dns {
    pub const fn message_budget(&self) -> Duration {
        Duration::from_secs(self.message_budget_seconds)
    }

    pub const fn query_timeout(&self) -> Duration {
        Duration::from_secs(self.query_timeout_seconds)
    }

    pub const fn spf_budget(&self) -> Duration {
        Duration::from_secs(self.spf_budget_seconds)
    }

    pub const fn dmarc_budget(&self) -> Duration {
        Duration::from_secs(self.dmarc_budget_seconds)
    }

    pub const fn iprev_budget(&self) -> Duration {
        Duration::from_secs(self.iprev_budget_seconds)
    }

    pub const fn cache_octets(&self) -> usize {
        self.cache_mib << 20
    }

    pub const fn max_ttl(&self) -> Duration {
        Duration::from_secs(self.max_ttl_seconds)
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub max_message_bytes: usize,
    pub max_header_bytes: usize,
    pub max_header_fields: usize,
    pub max_received_fields: usize,
    pub max_parts: usize,
    pub max_depth: usize,
    pub max_text_bytes: usize,
    pub max_html_bytes: usize,
    pub max_shown_mailboxes: usize,
    pub max_shown_bytes: usize,
    pub max_thread_keys: usize,
    pub max_findings: usize,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dedup {
    window_days: u64,
}

impl Dedup {
    pub const fn window(&self) -> Duration {
        Duration::from_secs(self.window_days * 86_400)
    }
}

/// Messages of one sender, and with one signature, in a minute; 0 for any number.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    pub signature_messages_per_minute: u32,
    pub sender_messages_per_minute: u32,
    pub room_messages_per_minute: u32,
    pub max_tracked: usize,
}

/// Bounds on the part of the directory that each gateway remembers.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Directory {
    pub named_entries: usize,
    pub guessed_entries: usize,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Raw {
    pub object_above_bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    pub max_kept_header_bytes: usize,
}

fn domains<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Vec<DomainName>, D::Error> {
    Vec::<String>::deserialize(input)?
        .iter()
        .map(|text| DomainName::parse(text).map_err(serde::de::Error::custom))
        .collect()
}

impl IntakeRules {
    pub(super) fn validate(&self) -> Result<(), RulesError> {
        let check = |key, value, low, high| within("intake.toml", key, value, low, high);
        let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let (auth, limits) = (&self.authentication, &self.limits);
        check("authentication.min_rsa_bits", wide(auth.min_rsa_bits), 512, 8192)?;
        check("authentication.max_future_seconds", auth.max_future_seconds, 0, 86_400)?;
        check("authentication.defer_future_days", auth.defer_future_days, 0, 365)?;
        check("authentication.max_signatures", wide(auth.max_signatures), 1, 50)?;
        check("authentication.max_signed_names", wide(auth.max_signed_names), 10, 1000)?;
        check("authentication.max_body_hashes", wide(auth.max_body_hashes), 1, 50)?;
        check("authentication.offload_above_bytes", wide(auth.offload_above_bytes), 0, 1 << 30)?;
        check("authentication.max_offloaded", wide(auth.max_offloaded), 1, 256)?;
        check("dns.message_budget_seconds", self.dns.message_budget_seconds, 1, 60)?;
        check("dns.query_timeout_seconds", self.dns.query_timeout_seconds, 1, 10)?;
        check("dns.spf_budget_seconds", self.dns.spf_budget_seconds, 1, 60)?;
        check("dns.dmarc_budget_seconds", self.dns.dmarc_budget_seconds, 1, 60)?;
        check("dns.iprev_budget_seconds", self.dns.iprev_budget_seconds, 1, 60)?;
        check("dns.max_void_lookups", u64::from(self.dns.max_void_lookups), 0, 10)?;
        check("dns.retries", wide(self.dns.retries), 0, 5)?;
        check("dns.cache_mib", wide(self.dns.cache_mib), 0, 4096)?;
        check("dns.max_ttl_seconds", self.dns.max_ttl_seconds, 0, 604_800)?;
        check("limits.max_message_bytes", wide(limits.max_message_bytes), 65_536, 1 << 30)?;
        check("limits.max_header_bytes", wide(limits.max_header_bytes), 4096, 1 << 20)?;
        check("limits.max_header_fields", wide(limits.max_header_fields), 50, 10_000)?;
        check("limits.max_received_fields", wide(limits.max_received_fields), 10, 1000)?;
        check("limits.max_parts", wide(limits.max_parts), 1, 100_000)?;
        check("limits.max_depth", wide(limits.max_depth), 1, 100)?;
        check("limits.max_text_bytes", wide(limits.max_text_bytes), 1024, 1 << 26)?;
        check("limits.max_html_bytes", wide(limits.max_html_bytes), 1024, 1 << 26)?;
        check("limits.max_shown_mailboxes", wide(limits.max_shown_mailboxes), 1, 10_000)?;
        check("limits.max_shown_bytes", wide(limits.max_shown_bytes), 64, 65_536)?;
        check("limits.max_thread_keys", wide(limits.max_thread_keys), 0, 1000)?;
        check("limits.max_findings", wide(limits.max_findings), 1, 1000)?;
        check("dedup.window_days", self.dedup.window_days, 1, 365)?;
        let (directory, rates) = (&self.directory, &self.rates);
        let (sender, room) = (rates.sender_messages_per_minute, rates.room_messages_per_minute);
        let signature = rates.signature_messages_per_minute;
        check("rates.signature_messages_per_minute", signature.into(), 0, 1_000_000)?;
        check("rates.sender_messages_per_minute", sender.into(), 0, 1_000_000)?;
        check("rates.room_messages_per_minute", room.into(), 0, 1_000_000)?;
        check("rates.max_tracked", wide(rates.max_tracked), 1024, 1_000_000)?;
        check("directory.named_entries", wide(directory.named_entries), 0, 1_000_000)?;
        check("directory.guessed_entries", wide(directory.guessed_entries), 0, 1_000_000)?;
        check("raw.object_above_bytes", wide(self.raw.object_above_bytes), 4096, 1 << 30)?;
        check("record.max_kept_header_bytes", wide(self.record.max_kept_header_bytes), 0, 1 << 20)
    }
}
