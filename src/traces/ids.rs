//! Ids of traces and spans, and which traces are exported: all derived from ids of records and
//! events. Pure.
//!
//! A trace has the id of its record, without hyphens: whoever has one finds the other. An accepted
//! message has the id of its record, and its events share it (`EventId::row`), so that an attempt
//! days later, on any gateway, belongs to the trace of its message.

use uuid::Uuid;

/// Id of a trace: 16 octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceId(Uuid);

/// Id of a span, distinct within its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanId([u8; 8]);

impl TraceId {
    /// `id` is that of a record, or what events share.
    pub const fn of(id: Uuid) -> Self {
        Self(id)
    }

    pub fn octets(self) -> Vec<u8> {
        self.0.as_bytes().to_vec()
    }

    /// Returns the id of the first span of the trace.
    pub const fn root(self) -> SpanId {
        SpanId::of(self.0)
    }

    /// The value of `traceparent`, version 00 (W3C Trace Context §3.2).
    pub fn parent(self, span: SpanId, sampled: bool) -> String {
        let (trace, span) = (self.0.simple(), u64::from_be_bytes(span.0));
        format!("00-{trace}-{span:016x}-{:02x}", u8::from(sampled))
    }

    /// Returns the last 56 bits, in which a sampler expects chance (W3C Trace Context level 2,
    /// §4.2.2.5): those of a UUIDv7 are random.
    const fn chance(self) -> u64 {
        let [.., a, b, c, d, e, f, g] = *self.0.as_bytes();
        u64::from_be_bytes([0, a, b, c, d, e, f, g])
    }
}

impl SpanId {
    /// Takes the last eight octets: the variant of a UUID makes sure that they are not all zero,
    /// which would be no id.
    pub const fn of(id: Uuid) -> Self {
        let [.., a, b, c, d, e, f, g, h] = *id.as_bytes();
        Self([a, b, c, d, e, f, g, h])
    }

    /// Returns the id of a span beside this one.
    #[must_use]
    pub const fn plus(self, number: u64) -> Self {
        let id = u64::from_be_bytes(self.0).wrapping_add(number);
        Self(if id == 0 { 1 } else { id }.to_be_bytes())
    }

    pub fn octets(self) -> Vec<u8> {
        self.0.to_vec()
    }
}

/// Decides by the id of a trace alone, so that all of its spans are exported or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Traces whose chance is below this number, of 2^56, are left out.
    least: u64,
}

impl Sampling {
    /// The number of values of a chance.
    const ALL: f64 = 72_057_594_037_927_936.0;

    /// Takes this part of all traces; None unless it is between 0 and 1.
    pub fn part(ratio: f64) -> Option<Self> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the value is between 0 and 2^56"
        )]
        let least = |ratio: f64| ((1.0 - ratio) * Self::ALL) as u64;
        (0.0..=1.0).contains(&ratio).then(|| Self { least: least(ratio) })
    }

    pub const fn takes(self, trace: TraceId) -> bool {
        trace.chance() >= self.least
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::clock::{Clock, Timestamp};
    use crate::domain::id::{EventId, Mint};

    fn mint() -> Mint {
        let millis = std::sync::atomic::AtomicI64::new(1_750_000_000_000);
        let now = move || millis.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let random = |octets: &mut [u8]| aws_lc_rs::rand::fill(octets).unwrap();
        Mint::new(Clock::new(move || Timestamp::from_millis(now())), Arc::new(random))
    }

    #[test]
    fn a_traceparent_is_that_of_the_published_grammar() {
        let trace = TraceId::of(Uuid::from_u128(0x0197_0000_0000_7000_8000_0000_0000_00ab));
        let parent = trace.parent(trace.root().plus(1), true);
        assert_eq!(parent, "00-019700000000700080000000000000ab-80000000000000ac-01");
        assert!(trace.parent(trace.root(), false).ends_with("-80000000000000ab-00"));
    }

    #[test]
    fn events_of_a_message_are_of_its_trace() {
        let message = mint().message();
        for number in 1..=EventId::TOGETHER {
            assert_eq!(TraceId::of(message.event(number).row()), TraceId::of(message.0));
        }
    }

    #[test]
    fn no_span_has_the_id_of_nothing() {
        let last = SpanId::of(Uuid::from_u128(u64::MAX.into()));
        assert_eq!(last.plus(1).octets(), [0, 0, 0, 0, 0, 0, 0, 1]);
        assert_ne!(last.plus(2), last.plus(3));
    }

    #[test]
    fn about_as_many_are_taken_as_the_ratio_says() {
        let mint = mint();
        let traces: Vec<_> = (0..4000).map(|_| TraceId::of(mint.message().0)).collect();
        let taken = |ratio| {
            let sampling = Sampling::part(ratio).unwrap();
            traces.iter().filter(|trace| sampling.takes(**trace)).count()
        };
        assert_eq!((taken(0.0), taken(1.0)), (0, 4000));
        // Four standard deviations: chance fails this once in ten thousand years of runs.
        let (tenth, half) = (taken(0.1), taken(0.5));
        assert!((300..500).contains(&tenth), "{tenth}");
        assert!((1840..2160).contains(&half), "{half}");
        for wrong in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert_eq!(Sampling::part(wrong), None, "{wrong}");
        }
    }
}
