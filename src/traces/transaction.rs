//! The spans of one transaction: from MAIL to the reply, with a span for each step of the evidence,
//! and one for the commit.
//!
//! The evidence has how long each step took, not when it began. They are laid out as they run:
//! `verify` looks up SPF and the name of the client beside the keys of DKIM, DMARC after them, and
//! everything else is done one after the other.

use std::time::Duration;

use tokio::time::Instant;

use super::ids::{SpanId, TraceId};
use super::span::{Scale, Span, SpanKind, failed, link, nanos, number, span, text, yes};
use crate::domain::evidence::Step;
use crate::domain::id::AccountId;
use crate::domain::intake_record::IntakeRecord;
use crate::domain::ports::{Envelope, IntakeReply};
use crate::domain::reason::Reason;
use crate::domain::verdict::Verdict;
use crate::store::Intake;

/// Steps that `verify` takes beside each other.
const VERIFIED: &[&str] = &["dkim", "spf", "iprev", "arc", "dmarc", "alignment"];

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
        if is_sampled(first) {
            spans.extend(self.of_first(first, scale));
        }
        for record in self.records().skip(1) {
            let trace = TraceId::of(record.id.0);
            if is_sampled(trace) {
                spans.extend(self.of_other(trace, first, record, scale));
            }
        }
        spans
    }

    fn of_first(&self, trace: TraceId, scale: &Scale) -> Vec<Span> {
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
            let after = children.add_steps(record.evidence.shared(), message_ended);
            children.add_steps(record.evidence.own(), after);
        }
        if let Some(commit) = self.commit {
            children.add("commit", commit.map(|moment| scale.nanos(moment)));
        }
        children.spans
    }

    /// Makes the trace of a further recipient: what was decided for it alone.
    fn of_other(
        &self,
        trace: TraceId,
        first: TraceId,
        record: &IntakeRecord,
        scale: &Scale,
    ) -> Vec<Span> {
        let message_ended = scale.nanos(self.began);
        let opened = message_ended.saturating_sub(nanos(self.envelope.open_for));
        let mut root = span(trace, trace.root(), None, "recipient", [opened, scale.end()]);
        root.links = vec![link(first)];
        self.describe(&mut root, Some(record));
        let mut children = Children { trace, spans: vec![root] };
        let (_, after) = laid_out(&timed(record.evidence.shared()), message_ended);
        children.add_steps(record.evidence.own(), after);
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

    /// Adds spans of steps that begin at `start`. Returns their end.
    fn add_steps(&mut self, steps: &[Step], start: u64) -> u64 {
        let (places, end) = laid_out(&timed(steps), start);
        for (step, times) in steps.iter().zip(places) {
            let name = step.facts.name();
            let Some(made) = self.add(name, times) else { continue };
            if name == "relay" {
                made.kind = SpanKind::Client.into();
            }
            made.attributes.extend(word(&step.result).map(|word| text("gatepost.result", word)));
        }
        end
    }
}

/// A result is a word of ours or of a standard (RFC 8601); anything else might be a stranger's.
fn word(result: &str) -> Option<&str> {
    let is_word = result.len() <= 32
        && result.bytes().all(|octet| octet.is_ascii_lowercase() || matches!(octet, b'_' | b'-'));
    is_word.then_some(result)
}

/// Returns the name of each step, and how long it took in nanoseconds.
fn timed(steps: &[Step]) -> Vec<(&str, u64)> {
    let took = |step: &Step| nanos(Duration::from_micros(step.micros));
    steps.iter().map(|step| (step.facts.name(), took(step))).collect()
}

/// Returns begin and end of each step, by its name and time, and the end of all; in nanoseconds.
fn laid_out(steps: &[(&str, u64)], start: u64) -> (Vec<[u64; 2]>, u64) {
    let of = |name: &str| steps.iter().find(|step| step.0 == name).map_or(0, |step| step.1);
    let proven = of("dkim").saturating_add(of("arc"));
    let beside = proven.max(of("spf")).max(of("iprev"));
    let judged = beside.saturating_add(of("dmarc"));
    let (mut now, mut begun) = (start, None);
    let mut places = Vec::with_capacity(steps.len());
    for (name, took) in steps {
        if VERIFIED.contains(name) {
            let first = *begun.get_or_insert(now);
            let after = match *name {
                "arc" => of("dkim"),
                "dmarc" => beside,
                "alignment" => judged,
                _ => 0,
            };
            let place = first.saturating_add(after);
            places.push([place, place.saturating_add(*took)]);
            now = first.saturating_add(judged).saturating_add(of("alignment"));
        } else {
            let end = now.saturating_add(*took);
            places.push([now, end]);
            now = end;
        }
    }
    (places, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_follow_each_other() {
        let (places, end) = laid_out(&[("scan", 2), ("policy", 3)], 1_000);
        assert_eq!(places, [[1_000, 1_002], [1_002, 1_005]]);
        assert_eq!(end, 1_005);
        assert_eq!(laid_out(&[], 7), (Vec::new(), 7));
    }

    /// SPF and iprev run beside the keys, DMARC waits for the slowest of all, ARC for the keys.
    #[test]
    fn steps_of_verify_lie_beside_each_other() {
        let steps = [
            ("scan", 10),
            ("dkim", 100),
            ("alignment", 1),
            ("spf", 300),
            ("arc", 50),
            ("dmarc", 20),
            ("iprev", 30),
            ("content", 5),
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
