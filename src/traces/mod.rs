//! Traces for the operator's collector, by OTLP: one for each transaction of mail, with the attempts
//! to deliver its events.
//!
//! `app::intake` hands in what became of a transaction, `webhook` what became of an attempt, both
//! after the fact: spans are made of the evidence and the times of its steps, so that the path of a
//! message has one shape, traced or not. [`Traces`] is a value that `run` hands down; the default
//! one traces nothing and costs one look at an `Option`. Ids are derived from the ids of records and
//! events ([`ids`]), so that nothing is stored and any gateway continues the trace of a message.
//! [`export`] sends batches in a task of its own.
//!
//! Never here: an address, a host, a subject, content, a key, or a word that a stranger chose;
//! waiting of those who hand in. Spans that find no place in the queue are dropped and counted.

mod attempt;
pub mod export;
pub mod ids;
mod span;
mod transaction;

use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use self::attempt::WebhookSpan;
use self::export::Exporter;
use self::ids::{Sampling, TraceId};
use self::span::{Scale, Span};
pub use self::transaction::Transaction;
use crate::domain::delivery::{Attempt, Claim};
use crate::domain::id::Mint;
use crate::metrics::{Metrics, SpanOutcome};

/// Hands spans to the exporter. Clones share its queue. The default traces nothing.
#[derive(Clone, Default)]
pub struct Traces(Option<Arc<Shared>>);

struct Shared {
    sampling: Sampling,
    mint: Mint,
    queue: Queue,
    metrics: Metrics,
}

/// Spans that wait for the exporter: no channel counts by their number, so permits do.
struct Queue {
    parts: mpsc::UnboundedSender<Vec<Span>>,
    places: Arc<Semaphore>,
}

/// The exporter's end of the queue.
struct Waiting {
    parts: mpsc::UnboundedReceiver<Vec<Span>>,
    places: Arc<Semaphore>,
}

impl Traces {
    /// Returns the value to hand down, and the exporter to run.
    pub fn new(settings: export::Settings, mint: Mint, metrics: Metrics) -> (Self, Exporter) {
        let places = Arc::new(Semaphore::new(settings.rules.queue.max_waiting_spans));
        let (sender, parts) = mpsc::unbounded_channel();
        let waiting = Waiting { parts, places: Arc::clone(&places) };
        let sampling = settings.sampling;
        let exporter = Exporter::new(settings, waiting, mint.clone(), metrics.clone());
        let queue = Queue { parts: sender, places };
        (Self(Some(Arc::new(Shared { sampling, mint, queue, metrics }))), exporter)
    }

    /// Traces a transaction that was answered.
    pub fn transaction(&self, transaction: &Transaction<'_>) {
        let Some(shared) = &self.0 else { return };
        let id = transaction.trace().unwrap_or_else(|| TraceId::of(shared.mint.uuid()));
        let scale = Scale::ending(shared.mint.clock().now(), Instant::now());
        let spans = transaction.spans(id, &scale, |trace| shared.sampling.takes(trace));
        shared.hand_over(spans);
    }

    /// Returns the value of `traceparent` (W3C Trace Context) for an attempt; None while nothing is
    /// traced. Of a trace that is not sampled its flag says so.
    pub fn traceparent(&self, claim: &Claim) -> Option<String> {
        let shared = self.0.as_ref()?;
        let span = WebhookSpan::of(claim);
        Some(span.trace.parent(span.id, shared.sampling.takes(span.trace)))
    }

    /// Traces an attempt that ended, `outcome` being the word of the log.
    pub fn attempt(&self, claim: &Claim, attempt: &Attempt, outcome: &'static str) {
        let Some(shared) = &self.0 else { return };
        let span = WebhookSpan::of(claim);
        if shared.sampling.takes(span.trace) {
            let scale = Scale::ending(shared.mint.clock().now(), Instant::now());
            shared.hand_over(vec![span.ended(claim, attempt, outcome, &scale)]);
        }
    }
}

impl Shared {
    fn hand_over(&self, spans: Vec<Span>) {
        let count = u32::try_from(spans.len()).unwrap_or(u32::MAX);
        if count == 0 {
            return;
        }
        let place = self.queue.places.try_acquire_many(count);
        // The exporter gives the places back when it takes the spans.
        let is_taken = place.is_ok_and(|place| {
            place.forget();
            self.queue.parts.send(spans).is_ok()
        });
        if !is_taken {
            self.metrics.spans(SpanOutcome::Dropped, count.into());
        }
    }
}

impl std::fmt::Debug for Traces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Traces")
    }
}
