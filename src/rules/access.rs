//! `policies/access.toml`: bounds on the API's input. The file explains each number.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::outcomes::OutcomeRules;
use super::received::ReceivedRules;
use super::templates::TemplateRules;
use super::tls_reports::TlsReportRules;
use super::{RulesError, minutes, wide};

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AccessRules {
    pub limits: Limits,
    pub search: SearchLimits,
    pub domains: Domains,
    pub connections: Connections,
    pub rates: Rates,
    pub media: Media,
    pub events: Events,
    pub threads: Threads,
    pub logs: Logs,
    pub idempotency: Idempotency,
    pub keys: KeyRules,
    pub console: ConsoleRules,
    pub members: MemberRules,
    pub received: ReceivedRules,
    pub outcomes: OutcomeRules,
    pub agents: AgentRules,
    pub templates: TemplateRules,
    pub tls_reports: TlsReportRules,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub max_body_bytes: usize,
    pub max_drained_bytes: usize,
    pub max_query_bytes: usize,
    request_seconds: u64,
    body_seconds: u64,
    pub retry_after_seconds: u64,
    pub max_addresses_per_call: usize,
    pub max_allowlist_entries: u64,
    pub max_note_bytes: usize,
    pub max_addresses: u64,
    pub max_destinations: u64,
    pub max_account_bytes: usize,
    pub max_cascade: usize,
    pub max_page: u32,
    pub default_page: u32,
    pub max_page_bytes: usize,
    pub max_walk: u32,
    pub page_step: u32,
    pub max_downloads: usize,
    pub max_uploads: usize,
    pub max_preview: u32,
}

impl Limits {
    durations! {
        request = seconds(request_seconds);
        body = seconds(body_seconds);
    }
}

/// Bounds of one search, and the pace at which the index takes in mail and forgets deleted mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SearchLimits {
    pub max_rows: u32,
    pub max_candidates: u32,
    pub max_octets: u64,
    max_millis: u64,
    pub index_at_once: u32,
    pub index_octets: usize,
    index_patience_seconds: u64,
    index_look_millis: u64,
    pub forget_pages: u32,
    forget_pause_millis: u64,
    forget_look_seconds: u64,
}

impl SearchLimits {
    durations! {
        /// Time after which a page ends with the matches found by then.
        time = millis(max_millis);
        /// Time after which a small batch is indexed as well.
        index_patience = seconds(index_patience_seconds);
        index_look = millis(index_look_millis);
        forget_pause = millis(forget_pause_millis);
        forget_look = seconds(forget_look_seconds);
    }

    fn validate(&self, beyond_a_page: u64) -> Result<(), RulesError> {
        ranges!("access.toml", search of self, {
            max_rows: beyond_a_page..=1_000_000;
            max_candidates: beyond_a_page..=100_000;
            max_octets: 65_536..=1 << 30;
            max_millis: 10..=60_000;
            index_at_once: 1..=2000;
            index_octets: 1024..=1 << 24;
            index_patience_seconds: 1..=3600;
            index_look_millis: 10..=60_000;
            forget_pages: 1..=10_000;
            forget_pause_millis: 1..=60_000;
            forget_look_seconds: 1..=86_400;
        })
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Domains {
    pub max_domains: u64,
    pub max_claims: u64,
    pub max_checks: usize,
    lookup_seconds: u64,
}

impl Domains {
    durations! {
        lookup = seconds(lookup_seconds);
    }

    /// Most checks of one account at the same time: some places are left to others.
    pub const fn checks_of_account(&self) -> usize {
        self.max_checks.div_ceil(2)
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Connections {
    pub max_connections: usize,
    pub max_per_address: usize,
    header_seconds: u64,
    pub max_header_bytes: usize,
    connection_seconds: u64,
    write_seconds: u64,
    handshake_seconds: u64,
}

impl Connections {
    durations! {
        header = seconds(header_seconds);
        handshake = seconds(handshake_seconds);
        /// Time for which a response may make no progress.
        write = seconds(write_seconds);
        lifetime = seconds(connection_seconds);
    }
}

/// Requests in a minute; 0 for any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    pub reads_per_minute: u32,
    pub writes_per_minute: u32,
    pub keyless_per_minute: u32,
    pub links_per_minute: u32,
    pub max_counted: usize,
    denied_seconds: u64,
    pub max_denied: usize,
}

impl Rates {
    durations! {
        denied = seconds(denied_seconds);
    }

    fn validate(&self) -> Result<(), RulesError> {
        ranges!("access.toml", rates of self, {
            reads_per_minute: 0..=1_000_000;
            writes_per_minute: 0..=1_000_000;
            keyless_per_minute: 0..=1_000_000;
            links_per_minute: 0..=1_000_000;
            max_counted: 2..=1_000_000;
            denied_seconds: 1..=60;
            max_denied: 1..=100_000;
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Media {
    link_minutes: u64,
    pub max_html_bytes: usize,
    pub max_html_tags: usize,
    pub max_picture_bytes: usize,
}

impl Media {
    durations! {
        /// Time for which a signed link is valid.
        link = minutes(link_minutes);
    }

    fn validate(&self) -> Result<(), RulesError> {
        ranges!("access.toml", media of self, {
            link_minutes: 1..=43_200;
            max_html_bytes: 1024..=1 << 23;
            max_html_tags: 100..=100_000;
            max_picture_bytes: 0..=1 << 25;
        })
    }
}

/// Bounds and pace of readers that wait for more of the log of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Events {
    pub max_waiting: usize,
    pub max_waiting_per_account: usize,
    pub max_waiting_per_key: usize,
    pub max_wait_seconds: u64,
    poll_millis: u64,
    gather_millis: u64,
    pub place_at_once: u32,
    pub place_batches: u32,
    place_pause_millis: u64,
    pub max_chunk_bytes: usize,
    pub ring_events: usize,
    pub ring_bytes: usize,
    ring_seconds: u64,
    heartbeat_seconds: u64,
    check_seconds: u64,
    pub retry_millis: u64,
}

impl Events {
    durations! {
        poll = millis(poll_millis);
        /// Time for which commits are gathered before readers are woken.
        gather = millis(gather_millis);
        /// Pause between two transactions of the task that gives places.
        place_pause = millis(place_pause_millis);
        /// Time for which later readers may use a body that was made for all.
        ring = seconds(ring_seconds);
        heartbeat = seconds(heartbeat_seconds);
        check = seconds(check_seconds);
    }

    fn validate(&self) -> Result<(), RulesError> {
        ranges!("access.toml", events of self, {
            max_waiting: 1..=100_000;
            max_waiting_per_account: 1..=wide(self.max_waiting);
            max_waiting_per_key: 1..=wide(self.max_waiting_per_account);
            max_wait_seconds: 1..=300;
            poll_millis: 10..=60_000;
            gather_millis: 1..=1000;
            place_at_once: 1..=5000;
            place_batches: 1..=100;
            place_pause_millis: 1..=60_000;
            max_chunk_bytes: 1..=1 << 24;
            ring_events: 1..=1_000_000;
            ring_bytes: 65_536..=1 << 30;
            ring_seconds: 1..=60;
            heartbeat_seconds: 1..=300;
            check_seconds: 1..=60;
            retry_millis: 1..=600_000;
        })
    }
}

/// Threads of the API, apart from mail's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Threads {
    pub requests: usize,
    pub streams: usize,
    pub streams_nice: u8,
}

impl Threads {
    fn validate(&self) -> Result<(), RulesError> {
        ranges!("access.toml", threads of self, {
            requests: 1..=64;
            streams: 1..=64;
            streams_nice: 0..=19;
        })
    }
}

/// Bounds on the part of the conversation log that one request reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Logs {
    pub max_at_once: usize,
    pub max_rows: u32,
    pub max_metric_rows: u32,
    pub max_page: u32,
    pub default_page: u32,
    pub step: u32,
    pub max_filters: usize,
    pub max_delivery_terms: usize,
    pub max_values: usize,
    pub max_buckets: usize,
    pub max_groups: usize,
    pub max_points: usize,
}

impl Logs {
    fn validate(&self) -> Result<(), RulesError> {
        ranges!("access.toml", logs of self, {
            max_at_once: 1..=32;
            max_rows: 1..=10_000_000;
            max_metric_rows: 1..=10_000_000;
            max_page: 1..=10_000;
            default_page: 1..=self.max_page.into();
            step: 1..=10_000;
            max_filters: 1..=100;
            max_delivery_terms: 1..=20;
            max_values: 1..=500;
            max_buckets: 1..=10_000;
            max_groups: 1..=1000;
            max_points: wide(self.max_buckets)..=1_000_000;
        })
    }
}

/// Bounds on stored requests with an `Idempotency-Key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Idempotency {
    keep_hours: u64,
    pub max_answer_bytes: usize,
}

impl Idempotency {
    durations! {
        keep = hours(keep_hours);
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRules {
    pub max_per_owner: u64,
    last_used_minutes: u64,
    idle_minutes: u64,
}

impl KeyRules {
    durations! {
        last_used = minutes(last_used_minutes);
    }

    /// A key whose noted use is older than this is idle; the note may be late by
    /// `last_used_minutes`.
    pub const fn idle(&self) -> Duration {
        minutes(self.idle_minutes.saturating_add(self.last_used_minutes))
    }
}

/// Lifetimes of console sessions and of links to the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ConsoleRules {
    session_hours: u64,
    pub max_per_key: u32,
    link_session_minutes: u64,
    pub max_link_minutes: u64,
}

impl ConsoleRules {
    durations! {
        /// Time for which a session of a key lasts, unless the key expires before.
        session = hours(session_hours);
        /// Time for which the session of an opened link lasts.
        link_session = minutes(link_session_minutes);
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MemberRules {
    pub max_per_account: usize,
    pub max_permitted: usize,
}

/// Bounds on one Agent's configurations and versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AgentRules {
    pub max_config_bytes: usize,
    pub max_title_bytes: usize,
    pub max_items: usize,
    pub max_versions: u32,
    pub max_automatic_versions: u32,
}

impl AgentRules {
    fn validate(&self) -> Result<(), RulesError> {
        ranges!("access.toml", agents of self, {
            max_config_bytes: 1024..=1 << 20;
            max_title_bytes: 16..=1000;
            max_items: 1..=10_000;
            max_versions: 1..=1000;
            max_automatic_versions: 1..=1000;
        })
    }
}

impl Limits {
    fn validate(&self) -> Result<(), RulesError> {
        ranges!("access.toml", limits of self, {
            max_body_bytes: 1024..=1 << 26;
            max_drained_bytes: 0..=1 << 30;
            max_query_bytes: 256..=65_536;
            request_seconds: 1..=600;
            body_seconds: 1..=self.request_seconds;
            retry_after_seconds: 1..=3600;
            max_note_bytes: 0..=10_000;
            max_addresses_per_call: 1..=100_000;
            max_allowlist_entries: 1..=10_000_000;
            max_addresses: 1..=100_000;
            max_destinations: 1..=10_000;
            max_account_bytes: 1024..=65_536;
            max_cascade: 1..=10_000;
            max_page: 1..=10_000;
            default_page: 1..=self.max_page.into();
            max_page_bytes: 65_536..=1 << 30;
            // More than a page, or a filter could never fill one.
            max_walk: u64::from(self.max_page) + 1..=1_000_000;
            page_step: 1..=200;
            max_downloads: 1..=1000;
            max_uploads: 1..=100;
            max_preview: 1..=100_000;
        })
    }
}

impl AccessRules {
    pub(super) fn validate(&self) -> Result<(), RulesError> {
        self.limits.validate()?;
        self.search.validate(u64::from(self.limits.max_page) + 1)?;
        ranges!("access.toml", domains of self.domains, {
            max_domains: 1..=100_000;
            max_claims: 1..=10_000;
            max_checks: 1..=100;
            lookup_seconds: 1..=60;
        })?;
        ranges!("access.toml", connections of self.connections, {
            max_connections: 1..=100_000;
            max_per_address: 1..=100_000;
            header_seconds: 1..=300;
            max_header_bytes: 8192..=1 << 20;
            connection_seconds: 1..=86_400;
            write_seconds: 1..=600;
            handshake_seconds: 1..=300;
        })?;
        self.rates.validate()?;
        self.media.validate()?;
        self.logs.validate()?;
        self.threads.validate()?;
        self.events.validate()?;
        ranges!("access.toml", idempotency of self.idempotency, {
            keep_hours: 3..=168;
            max_answer_bytes: 1024..=1 << 24;
        })?;
        ranges!("access.toml", keys of self.keys, {
            max_per_owner: 1..=1000;
            last_used_minutes: 1..=1440;
            idle_minutes: 1..=43_200;
        })?;
        ranges!("access.toml", console of self.console, {
            session_hours: 1..=720;
            max_per_key: 1..=200;
            link_session_minutes: 5..=1440;
            max_link_minutes: 1..=43_200;
        })?;
        ranges!("access.toml", members of self.members, {
            max_per_account: 1..=1000;
            max_permitted: 1..=500;
        })?;
        self.agents.validate()?;
        self.templates.validate()?;
        self.tls_reports.validate()?;
        self.received.validate()?;
        self.outcomes.validate()
    }
}
