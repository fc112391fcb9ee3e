//! `policies/intake.toml`: required proof, sizes, deduplication. The file explains each number.

use serde::Deserialize;

use super::RulesError;
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
    durations! {
        message_budget = seconds(message_budget_seconds);
        query_timeout = seconds(query_timeout_seconds);
        spf_budget = seconds(spf_budget_seconds);
        dmarc_budget = seconds(dmarc_budget_seconds);
        iprev_budget = seconds(iprev_budget_seconds);
        max_ttl = seconds(max_ttl_seconds);
    }

    pub const fn cache_octets(&self) -> usize {
        self.cache_mib << 20
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
    durations! {
        window = days(window_days);
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
        ranges!("intake.toml", authentication of self.authentication, {
            min_rsa_bits: 512..=8192;
            max_future_seconds: 0..=86_400;
            defer_future_days: 0..=365;
            max_signatures: 1..=50;
            max_signed_names: 10..=1000;
            max_body_hashes: 1..=50;
            offload_above_bytes: 0..=1 << 30;
            max_offloaded: 1..=256;
        })?;
        ranges!("intake.toml", dns of self.dns, {
            message_budget_seconds: 1..=60;
            query_timeout_seconds: 1..=10;
            spf_budget_seconds: 1..=60;
            dmarc_budget_seconds: 1..=60;
            iprev_budget_seconds: 1..=60;
            max_void_lookups: 0..=10;
            retries: 0..=5;
            cache_mib: 0..=4096;
            max_ttl_seconds: 0..=604_800;
        })?;
        ranges!("intake.toml", limits of self.limits, {
            max_message_bytes: 65_536..=1 << 30;
            max_header_bytes: 4096..=1 << 20;
            max_header_fields: 50..=10_000;
            max_received_fields: 10..=1000;
            max_parts: 1..=100_000;
            max_depth: 1..=100;
            max_text_bytes: 1024..=1 << 26;
            max_html_bytes: 1024..=1 << 26;
            max_shown_mailboxes: 1..=10_000;
            max_shown_bytes: 64..=65_536;
            max_thread_keys: 0..=1000;
            max_findings: 1..=1000;
        })?;
        ranges!("intake.toml", dedup of self.dedup, {
            window_days: 1..=365;
        })?;
        ranges!("intake.toml", rates of self.rates, {
            signature_messages_per_minute: 0..=1_000_000;
            sender_messages_per_minute: 0..=1_000_000;
            room_messages_per_minute: 0..=1_000_000;
            max_tracked: 1024..=1_000_000;
        })?;
        ranges!("intake.toml", directory of self.directory, {
            named_entries: 0..=1_000_000;
            guessed_entries: 0..=1_000_000;
        })?;
        ranges!("intake.toml", raw of self.raw, {
            object_above_bytes: 4096..=1 << 30;
        })?;
        ranges!("intake.toml", record of self.record, {
            max_kept_header_bytes: 0..=1 << 20;
        })
    }
}
