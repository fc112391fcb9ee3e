//! Spans as OTLP has them, and their place in time.

use std::time::Duration;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
pub(super) use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::Status;
pub(super) use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use tokio::time::Instant;

use super::ids::{SpanId, TraceId};
use crate::domain::clock::Timestamp;

/// Flags of a sampled span whose parent is known to be of this gateway or of another one
/// (`SpanFlags`, and W3C's `sampled`).
const FLAGS: u32 = 0x0101;

/// Dates moments of this process: the wall clock is read once for all spans of a trace, so that they
/// fit together if it is set meanwhile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    nanos: u64,
    at: Instant,
}

impl Scale {
    /// `now` is what the wall clock shows at the moment `at`.
    pub(super) fn ending(now: Timestamp, at: Instant) -> Self {
        let nanos = u64::try_from(now.millis()).unwrap_or(0).saturating_mul(1_000_000);
        Self { nanos, at }
    }

    /// Nanoseconds since the Unix epoch at the end.
    pub(super) const fn end(&self) -> u64 {
        self.nanos
    }

    /// Nanoseconds since the Unix epoch at an earlier moment.
    pub(super) fn nanos(&self, moment: Instant) -> u64 {
        self.before_end(self.at.saturating_duration_since(moment))
    }

    /// Nanoseconds since the Unix epoch, so long before the end.
    pub(super) fn before_end(&self, ago: Duration) -> u64 {
        self.nanos.saturating_sub(nanos(ago))
    }
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A span from `start` to `end`, in nanoseconds since the Unix epoch.
pub(super) fn span(
    trace: TraceId,
    id: SpanId,
    parent: Option<SpanId>,
    name: &str,
    [start, end]: [u64; 2],
) -> Span {
    Span {
        trace_id: trace.octets(),
        span_id: id.octets(),
        parent_span_id: parent.map(SpanId::octets).unwrap_or_default(),
        flags: FLAGS,
        name: name.to_owned(),
        kind: SpanKind::Internal.into(),
        start_time_unix_nano: start,
        end_time_unix_nano: end.max(start),
        ..Span::default()
    }
}

/// Marks a span as failed; without a message, which attributes give in words of a list.
pub(super) fn failed() -> Option<Status> {
    Some(Status { message: String::new(), code: StatusCode::Error.into() })
}

pub(super) fn link(trace: TraceId) -> Link {
    Link {
        trace_id: trace.octets(),
        span_id: trace.root().octets(),
        flags: FLAGS,
        ..Link::default()
    }
}

pub(super) fn text(key: &str, value: impl Into<String>) -> KeyValue {
    attribute(key, Value::StringValue(value.into()))
}

pub(super) fn number(key: &str, value: impl TryInto<i64>) -> KeyValue {
    attribute(key, Value::IntValue(value.try_into().unwrap_or(i64::MAX)))
}

pub(super) fn yes(key: &str) -> KeyValue {
    attribute(key, Value::BoolValue(true))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), key_strindex: 0 }
}
