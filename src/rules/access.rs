//! `policies/access.toml`: bounds on the API's input. The file explains each number.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::templates::TemplateRules;
use super::{RulesError, within};

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
    pub members: MemberRules,
    pub received: Received,
    pub agents: AgentRules,
    pub templates: TemplateRules,
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
    pub const fn request(&self) -> Duration {
        Duration::from_secs(self.request_seconds)
    }

    pub const fn body(&self) -> Duration {
        Duration::from_secs(self.body_seconds)
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
    /// Time after which a page ends with the matches found by then.
    pub const fn time(&self) -> Duration {
        Duration::from_millis(self.max_millis)
    }

    /// Time after which a small batch is indexed as well.
    pub const fn index_patience(&self) -> Duration {
        Duration::from_secs(self.index_patience_seconds)
    }

    pub const fn index_look(&self) -> Duration {
        Duration::from_millis(self.index_look_millis)
    }

    pub const fn forget_pause(&self) -> Duration {
        Duration::from_millis(self.forget_pause_millis)
    }

    pub const fn forget_look(&self) -> Duration {
        Duration::from_secs(self.forget_look_seconds)
    }

    fn validate(&self, beyond_a_page: u64) -> Result<(), RulesError> {
        let check = |key, value, low, high| within("access.toml", key, value, low, high);
        check("search.max_rows", self.max_rows.into(), beyond_a_page, 1_000_000)?;
        check("search.max_candidates", self.max_candidates.into(), beyond_a_page, 100_000)?;
        check("search.max_octets", self.max_octets, 65_536, 1 << 30)?;
        check("search.max_millis", self.max_millis, 10, 60_000)?;
        check("search.index_at_once", self.index_at_once.into(), 1, 2000)?;
        let octets = self.index_octets.try_into().unwrap_or(u64::MAX);
        check("search.index_octets", octets, 1024, 1 << 24)?;
        check("search.index_patience_seconds", self.index_patience_seconds, 1, 3600)?;
        check("search.index_look_millis", self.index_look_millis, 10, 60_000)?;
        check("search.forget_pages", self.forget_pages.into(), 1, 10_000)?;
        check("search.forget_pause_millis", self.forget_pause_millis, 1, 60_000)?;
        check("search.forget_look_seconds", self.forget_look_seconds, 1, 86_400)
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Domains {
    pub max_domains: u64,
    pub max_claims: u64,
    lookup_seconds: u64,
}

impl Domains {
    pub const fn lookup(&self) -> Duration {
        Duration::from_secs(self.lookup_seconds)
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
    pub const fn header(&self) -> Duration {
        Duration::from_secs(self.header_seconds)
    }

    pub const fn handshake(&self) -> Duration {
        Duration::from_secs(self.handshake_seconds)
    }

    /// Time for which a response may make no progress.
    pub const fn write(&self) -> Duration {
        Duration::from_secs(self.write_seconds)
    }

    pub const fn lifetime(&self) -> Duration {
        Duration::from_secs(self.connection_seconds)
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
    pub const fn denied(&self) -> Duration {
        Duration::from_secs(self.denied_seconds)
    }

    fn validate(&self) -> Result<(), RulesError> {
        let check = |key, value, low, high| within("access.toml", key, value, low, high);
        let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        check("rates.reads_per_minute", self.reads_per_minute.into(), 0, 1_000_000)?;
        check("rates.writes_per_minute", self.writes_per_minute.into(), 0, 1_000_000)?;
        check("rates.keyless_per_minute", self.keyless_per_minute.into(), 0, 1_000_000)?;
        check("rates.links_per_minute", self.links_per_minute.into(), 0, 1_000_000)?;
        check("rates.max_counted", wide(self.max_counted), 2, 1_000_000)?;
        check("rates.denied_seconds", self.denied_seconds, 1, 60)?;
        check("rates.max_denied", wide(self.max_denied), 1, 100_000)?;
        Ok(())
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
    /// Time for which a signed link is valid.
    pub const fn link(&self) -> Duration {
        Duration::from_secs(self.link_minutes.saturating_mul(60))
    }

    fn validate(&self) -> Result<(), RulesError> {
        let check = |key, value, low, high| within("access.toml", key, value, low, high);
        let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        check("media.link_minutes", self.link_minutes, 1, 43_200)?;
        check("media.max_html_bytes", wide(self.max_html_bytes), 1024, 1 << 23)?;
        check("media.max_html_tags", wide(self.max_html_tags), 100, 100_000)?;
        check("media.max_picture_bytes", wide(self.max_picture_bytes), 0, 1 << 25)
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
    pub const fn poll(&self) -> Duration {
        Duration::from_millis(self.poll_millis)
    }

    /// Time for which commits are gathered before readers are woken.
    pub const fn gather(&self) -> Duration {
        Duration::from_millis(self.gather_millis)
    }

    /// Pause between two transactions of the task that gives places.
    pub const fn place_pause(&self) -> Duration {
        Duration::from_millis(self.place_pause_millis)
    }

    /// Time for which later readers may use a body that was made for all.
    pub const fn ring(&self) -> Duration {
        Duration::from_secs(self.ring_seconds)
    }

    pub const fn heartbeat(&self) -> Duration {
        Duration::from_secs(self.heartbeat_seconds)
    }

    pub const fn check(&self) -> Duration {
        Duration::from_secs(self.check_seconds)
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
        let check = |key, value, low, high| within("access.toml", key, value, low, high);
        let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        check("threads.requests", wide(self.requests), 1, 64)?;
        check("threads.streams", wide(self.streams), 1, 64)?;
        check("threads.streams_nice", self.streams_nice.into(), 0, 19)
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
        let check = |key, value, low, high| within("access.toml", key, value, low, high);
        let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        check("logs.max_at_once", wide(self.max_at_once), 1, 32)?;
        check("logs.max_rows", self.max_rows.into(), 1, 10_000_000)?;
        check("logs.max_metric_rows", self.max_metric_rows.into(), 1, 10_000_000)?;
        check("logs.max_page", self.max_page.into(), 1, 10_000)?;
        check("logs.default_page", self.default_page.into(), 1, self.max_page.into())?;
        check("logs.step", self.step.into(), 1, 10_000)?;
        check("logs.max_filters", wide(self.max_filters), 1, 100)?;
        check("logs.max_delivery_terms", wide(self.max_delivery_terms), 1, 20)?;
        check("logs.max_values", wide(self.max_values), 1, 500)?;
        check("logs.max_buckets", wide(self.max_buckets), 1, 10_000)?;
        check("logs.max_groups", wide(self.max_groups), 1, 1000)?;
        check("logs.max_points", wide(self.max_points), wide(self.max_buckets), 1_000_000)
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
    pub const fn keep(&self) -> Duration {
        Duration::from_secs(self.keep_hours * 3600)
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
    pub const fn last_used(&self) -> Duration {
        Duration::from_secs(self.last_used_minutes.saturating_mul(60))
    }

    /// A key whose noted use is older than this is idle; the note may be late by
    /// `last_used_minutes`.
    pub const fn idle(&self) -> Duration {
        let minutes = self.idle_minutes.saturating_add(self.last_used_minutes);
        Duration::from_secs(minutes.saturating_mul(60))
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MemberRules {
    pub max_per_account: usize,
    pub max_permitted: usize,
}

/// Bounds on one message that a platform hands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Received {
    pub max_text_bytes: usize,
    pub max_object_bytes: usize,
    pub max_attachments: usize,
    pub max_dialog_turns: usize,
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
        let check = |key, value, low, high| within("access.toml", key, value, low, high);
        let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        check("agents.max_config_bytes", wide(self.max_config_bytes), 1024, 1 << 20)?;
        check("agents.max_title_bytes", wide(self.max_title_bytes), 16, 1000)?;
        check("agents.max_items", wide(self.max_items), 1, 10_000)?;
        check("agents.max_versions", self.max_versions.into(), 1, 1000)?;
        check("agents.max_automatic_versions", self.max_automatic_versions.into(), 1, 1000)
    }
}

impl Limits {
    fn validate(&self) -> Result<(), RulesError> {
        let check = |key, value, low, high| within("access.toml", key, value, low, high);
        let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        check("limits.max_body_bytes", wide(self.max_body_bytes), 1024, 1 << 26)?;
        check("limits.max_drained_bytes", wide(self.max_drained_bytes), 0, 1 << 30)?;
        check("limits.max_query_bytes", wide(self.max_query_bytes), 256, 65_536)?;
        check("limits.request_seconds", self.request_seconds, 1, 600)?;
        check("limits.body_seconds", self.body_seconds, 1, self.request_seconds)?;
        check("limits.retry_after_seconds", self.retry_after_seconds, 1, 3600)?;
        check("limits.max_note_bytes", wide(self.max_note_bytes), 0, 10_000)?;
        let per_call = wide(self.max_addresses_per_call);
        check("limits.max_addresses_per_call", per_call, 1, 100_000)?;
        check("limits.max_allowlist_entries", self.max_allowlist_entries, 1, 10_000_000)?;
        check("limits.max_addresses", self.max_addresses, 1, 100_000)?;
        check("limits.max_destinations", self.max_destinations, 1, 10_000)?;
        check("limits.max_account_bytes", wide(self.max_account_bytes), 1024, 65_536)?;
        check("limits.max_cascade", wide(self.max_cascade), 1, 10_000)?;
        check("limits.max_page", self.max_page.into(), 1, 10_000)?;
        check("limits.default_page", self.default_page.into(), 1, self.max_page.into())?;
        check("limits.max_page_bytes", wide(self.max_page_bytes), 65_536, 1 << 30)?;
        // More than a page, or a filter could never fill one.
        let beyond_a_page = u64::from(self.max_page) + 1;
        check("limits.max_walk", self.max_walk.into(), beyond_a_page, 1_000_000)?;
        check("limits.page_step", self.page_step.into(), 1, 200)?;
        check("limits.max_downloads", wide(self.max_downloads), 1, 1000)?;
        check("limits.max_uploads", wide(self.max_uploads), 1, 100)?;
        check("limits.max_preview", self.max_preview.into(), 1, 100_000)?;
        Ok(())
    }
}

impl AccessRules {
    pub(super) fn validate(&self) -> Result<(), RulesError> {
        let check = |key, value, low, high| within("access.toml", key, value, low, high);
        let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        self.limits.validate()?;
        self.search.validate(u64::from(self.limits.max_page) + 1)?;
        let domains = &self.domains;
        check("domains.max_domains", domains.max_domains, 1, 100_000)?;
        check("domains.max_claims", domains.max_claims, 1, 10_000)?;
        check("domains.lookup_seconds", domains.lookup_seconds, 1, 60)?;
        let connections = &self.connections;
        let max_header = wide(connections.max_header_bytes);
        check("connections.max_connections", wide(connections.max_connections), 1, 100_000)?;
        check("connections.max_per_address", wide(connections.max_per_address), 1, 100_000)?;
        check("connections.header_seconds", connections.header_seconds, 1, 300)?;
        check("connections.max_header_bytes", max_header, 8192, 1 << 20)?;
        check("connections.connection_seconds", connections.connection_seconds, 1, 86_400)?;
        check("connections.write_seconds", connections.write_seconds, 1, 600)?;
        check("connections.handshake_seconds", connections.handshake_seconds, 1, 300)?;
        self.rates.validate()?;
        self.media.validate()?;
        self.logs.validate()?;
        self.threads.validate()?;
        let events = &self.events;
        check("events.max_waiting", wide(events.max_waiting), 1, 100_000)?;
        let per_account = wide(events.max_waiting_per_account);
        check("events.max_waiting_per_account", per_account, 1, wide(events.max_waiting))?;
        let per_key = wide(events.max_waiting_per_key);
        check("events.max_waiting_per_key", per_key, 1, per_account)?;
        check("events.max_wait_seconds", events.max_wait_seconds, 1, 300)?;
        check("events.poll_millis", events.poll_millis, 10, 60_000)?;
        check("events.gather_millis", events.gather_millis, 1, 1000)?;
        check("events.place_at_once", events.place_at_once.into(), 1, 5000)?;
        check("events.place_batches", events.place_batches.into(), 1, 100)?;
        check("events.place_pause_millis", events.place_pause_millis, 1, 60_000)?;
        check("events.max_chunk_bytes", wide(events.max_chunk_bytes), 1, 1 << 24)?;
        check("events.ring_events", wide(events.ring_events), 1, 1_000_000)?;
        check("events.ring_bytes", wide(events.ring_bytes), 65_536, 1 << 30)?;
        check("events.ring_seconds", events.ring_seconds, 1, 60)?;
        check("events.heartbeat_seconds", events.heartbeat_seconds, 1, 300)?;
        check("events.check_seconds", events.check_seconds, 1, 60)?;
        check("events.retry_millis", events.retry_millis, 1, 600_000)?;
        let Idempotency { keep_hours, max_answer_bytes } = self.idempotency;
        check("idempotency.keep_hours", keep_hours, 1, 168)?;
        check("idempotency.max_answer_bytes", wide(max_answer_bytes), 1024, 1 << 24)?;
        check("keys.max_per_owner", self.keys.max_per_owner, 1, 1000)?;
        check("keys.last_used_minutes", self.keys.last_used_minutes, 1, 1440)?;
        check("keys.idle_minutes", self.keys.idle_minutes, 1, 43_200)?;
        check("members.max_per_account", wide(self.members.max_per_account), 1, 1000)?;
        check("members.max_permitted", wide(self.members.max_permitted), 1, 500)?;
        self.agents.validate()?;
        self.templates.validate()?;
        let received = &self.received;
        check("received.max_text_bytes", wide(received.max_text_bytes), 1024, 1 << 20)?;
        check("received.max_object_bytes", wide(received.max_object_bytes), 0, 65_536)?;
        check("received.max_attachments", wide(received.max_attachments), 0, 1000)?;
        check("received.max_dialog_turns", wide(received.max_dialog_turns), 0, 10_000)
    }
}
