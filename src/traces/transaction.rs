//! The spans of one transaction: from MAIL to the reply, with a span for each step of the evidence,
//! and one for the commit.
//!
//! The evidence has how long each step took, not when it began. They are laid out as they run:
//! `verify` looks up SPF and the name of the client beside the keys of DKIM, DMARC after them, and
//! everything else is done one after the other.

use std::cell::LazyCell;
use std::time::Duration;

use tokio::time::Instant;

use super::ids::{SpanId, TraceId};
use super::span::{Scale, Span, SpanKind, failed, link, nanos, number, span, text, yes};
use crate::domain::evidence::{Facts, Step};
use crate::domain::id::AccountId;
use crate::domain::intake_record::IntakeRecord;
use crate::domain::ports::{Envelope, IntakeReply};
use crate::domain::reason::Reason;
use crate::domain::verdict::Verdict;
use crate::store::Intake;

/// A transaction that was answered.
#[derive(Debug)]
pub struct Transaction<'t> {
    pub envelope: &'t Envelope,
    /// One for each recipient, if the message was decided; all of them are stored.
    pub intakes: &'t [Intake],
    pub reply: &'t IntakeReply,
    /// Octets of the message.
    pub size: u64,
    /// The end of the message.
    pub began: Instant,
    /// When the commit began, if there was one, and its end.
    pub commit: Option<[Instant; 2]>,
}

impl Transaction<'_> {
    /// Returns the trace: that of the first recipient's record.
    pub(super) fn trace(&self) -> Option<TraceId> {
        self.records().next().map(|record| TraceId::of(record.id.0))
    }

    fn records(&self) -> impl Iterator<Item = &IntakeRecord> {
        self.intakes.iter().map(|intake| &intake.record)
    }

    /// Makes the spans of the traces that `is_sampled` takes. Further recipients have a trace each,
    /// where deliveries of their messages belong, linked with the first one's.
    pub(super) fn spans(
        &self,
        first: TraceId,
        scale: &Scale,
        is_sampled: impl Fn(TraceId) -> bool,
    ) -> Vec<Span> {
        let mut spans = Vec::new();
        let shared = self.records().next().map_or(&[][..], |record| record.evidence.shared());
        let laid = LazyCell::new(|| laid_out(&timed(shared), scale.nanos(self.began)));
        if is_sampled(first) {
            spans.extend(self.of_first(first, &laid, scale));
        }
        for record in self.records().skip(1) {
            let trace = TraceId::of(record.id.0);
            if is_sampled(trace) {
                spans.extend(self.of_other(trace, first, record, laid.1, scale));
            }
        }
        spans
    }

    /// Makes the trace of the first recipient, with the places of the steps that all share.
    fn of_first(&self, trace: TraceId, (shared, after): &LaidOut, scale: &Scale) -> Vec<Span> {
        let message_ended = scale.nanos(self.began);
        let opened = message_ended.saturating_sub(nanos(self.envelope.open_for));
        let mut root = span(trace, trace.root(), None, self.name(), [opened, scale.end()]);
        root.kind = SpanKind::Server.into();
        let others = self.records().skip(1);
        root.links = others.map(|record| link(TraceId::of(record.id.0))).collect();
        let record = self.records().next();
        self.describe(&mut root, record);
        let mut children = Children { trace, spans: vec![root] };
        if !self.envelope.open_for.is_zero() {
            children.add("receive", [opened, message_ended]);
        }
        if let Some(record) = record {
            children.add_steps(record.evidence.shared(), shared);
            children.add_own(record, *after);
        }
        if let Some(commit) = self.commit {
            children.add("commit", commit.map(|moment| scale.nanos(moment)));
        }
        children.spans
    }

    /// Makes the trace of a further recipient: what was decided for it alone, from `after` on.
    fn of_other(
        &self,
        trace: TraceId,
        first: TraceId,
        record: &IntakeRecord,
        after: u64,
        scale: &Scale,
    ) -> Vec<Span> {
        let message_ended = scale.nanos(self.began);
        let opened = message_ended.saturating_sub(nanos(self.envelope.open_for));
        let mut root = span(trace, trace.root(), None, "recipient", [opened, scale.end()]);
        root.links = vec![link(first)];
        self.describe(&mut root, Some(record));
        let mut children = Children { trace, spans: vec![root] };
        children.add_own(record, after);
        children.spans
    }

    const fn name(&self) -> &'static str {
        if self.envelope.posted.is_some() { "posted message" } else { "SMTP transaction" }
    }

    /// Describes what became of the message for one recipient, by its record.
    fn describe(&self, root: &mut Span, record: Option<&IntakeRecord>) {
        let own = record.and_then(|record| record.verdict.reason());
        let reason = self.reply.reason.or(own);
        let recipients = self.envelope.recipients.len();
        let mut attributes = vec![
            text("gatepost.outcome", Verdict::of(reason).as_str()),
            number("gatepost.message.size", self.size),
            number("gatepost.recipients", u64::try_from(recipients).unwrap_or(u64::MAX)),
        ];
        attributes.extend(reason.map(|reason| text("gatepost.reason", reason.as_str())));
        let id = record.map(|record| record.id.to_string());
        attributes.extend(id.map(|id| text("gatepost.record.id", id)));
        let agent = record.and_then(|record| record.agent).map(AccountId::get);
        attributes.extend(agent.map(|id| number("gatepost.agent.id", id)));
        attributes.extend(self.reply.again.then(|| yes("gatepost.repeat")));
        root.attributes = attributes;
        if reason.is_some_and(Reason::is_temporary) {
            root.status = failed();
        }
    }
}

/// Spans below the first one of a trace.
struct Children {
    trace: TraceId,
    spans: Vec<Span>,
}

impl Children {
    fn add(&mut self, name: &str, times: [u64; 2]) -> Option<&mut Span> {
        let number = u64::try_from(self.spans.len()).unwrap_or(u64::MAX);
        let root: SpanId = self.trace.root();
        self.spans.push(span(self.trace, root.plus(number), Some(root), name, times));
        self.spans.last_mut()
    }

    /// Adds spans of the steps of one recipient, which begin at `start`.
    fn add_own(&mut self, record: &IntakeRecord, start: u64) {
        let own = record.evidence.own();
        self.add_steps(own, &laid_out(&timed(own), start).0);
    }

    fn add_steps(&mut self, steps: &[Step], places: &[[u64; 2]]) {
        for (step, times) in steps.iter().zip(places) {
            let Some(made) = self.add(step.facts.name(), *times) else { continue };
            if matches!(step.facts, Facts::Relay(_)) {
                made.kind = SpanKind::Client.into();
            }
            made.attributes.extend(word(&step.result).map(|word| text("gatepost.result", word)));
        }
    }
}

/// A result is a word of ours or of a standard (RFC 8601); anything else might be a stranger's.
fn word(result: &str) -> Option<&str> {
    let is_word = result.len() <= 32
        && result.bytes().all(|octet| octet.is_ascii_lowercase() || matches!(octet, b'_' | b'-'));
    is_word.then_some(result)
}

/// When a step runs. All but the last are taken by `verify`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Dkim,
    Arc,
    /// SPF and the name of the client: beside the keys.
    Beside,
    Dmarc,
    Alignment,
    Alone,
}

impl Turn {
    const fn of(facts: &Facts) -> Self {
        match facts {
            Facts::Dkim(_) => Self::Dkim,
            Facts::Arc(_) => Self::Arc,
            Facts::Spf(_) | Facts::Iprev(_) => Self::Beside,
            Facts::Dmarc(_) => Self::Dmarc,
            Facts::Alignment(_) => Self::Alignment,
            _ => Self::Alone,
        }
    }
}

/// Returns when each step ran, and how long it took in nanoseconds.
fn timed(steps: &[Step]) -> Vec<(Turn, u64)> {
    let took = |step: &Step| nanos(Duration::from_micros(step.micros));
    steps.iter().map(|step| (Turn::of(&step.facts), took(step))).collect()
}

/// Begin and end of each step, and the end of all; in nanoseconds.
type LaidOut = (Vec<[u64; 2]>, u64);

fn laid_out(steps: &[(Turn, u64)], start: u64) -> LaidOut {
    let of = |turn| steps.iter().filter(|step| step.0 == turn).map(|step| step.1).max();
    let of = |turn| of(turn).unwrap_or(0);
    let beside = of(Turn::Dkim).saturating_add(of(Turn::Arc)).max(of(Turn::Beside));
    let judged = beside.saturating_add(of(Turn::Dmarc));
    let (mut now, mut begun) = (start, None);
    let mut places = Vec::with_capacity(steps.len());
    for (turn, took) in steps {
        let after = match turn {
            Turn::Dkim | Turn::Beside => 0,
            Turn::Arc => of(Turn::Dkim),
            Turn::Dmarc => beside,
            Turn::Alignment => judged,
            Turn::Alone => {
                let end = now.saturating_add(*took);
                places.push([now, end]);
                now = end;
                continue;
            }
        };
        let first = *begun.get_or_insert(now);
        let place = first.saturating_add(after);
        places.push([place, place.saturating_add(*took)]);
        now = first.saturating_add(judged).saturating_add(of(Turn::Alignment));
    }
    (places, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_follow_each_other() {
        let (places, end) = laid_out(&[(Turn::Alone, 2), (Turn::Alone, 3)], 1_000);
        assert_eq!(places, [[1_000, 1_002], [1_002, 1_005]]);
        assert_eq!(end, 1_005);
        assert_eq!(laid_out(&[], 7), (Vec::new(), 7));
    }

    /// SPF and iprev run beside the keys, DMARC waits for the slowest of all, ARC for the keys.
    #[test]
    fn steps_of_verify_lie_beside_each_other() {
        let steps = [
            (Turn::Alone, 10),
            (Turn::Dkim, 100),
            (Turn::Alignment, 1),
            (Turn::Beside, 300),
            (Turn::Arc, 50),
            (Turn::Dmarc, 20),
            (Turn::Beside, 30),
            (Turn::Alone, 5),
        ];
        let (places, end) = laid_out(&steps, 0);
        let expected = [
            [0, 10],
            [10, 110],
            [330, 331],
            [10, 310],
            [110, 160],
            [310, 330],
            [10, 40],
            [331, 336],
        ];
        assert_eq!((places.as_slice(), end), (&expected[..], 336));
    }

    #[test]
    fn only_words_are_exported() {
        assert_eq!(word("dkim_missing"), Some("dkim_missing"));
        for other in ["a@b.example", "Pass", "two words", "http://x", "1.2.3.4", &"a".repeat(33)] {
            assert_eq!(word(other), None, "{other}");
        }
    }
}
