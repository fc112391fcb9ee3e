//! The span of one POST of a delivery. It is named before it is sent, because the request carries
//! its name.

use super::ids::{SpanId, TraceId};
use super::span::{Scale, Span, SpanKind, failed, number, span, text};
use crate::domain::delivery::{Attempt, Claim, Subject};
use crate::domain::message::Content;

/// Trace, id and parent of the span of an attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct WebhookSpan {
    pub(super) trace: TraceId,
    pub(super) id: SpanId,
    parent: Option<SpanId>,
}

impl WebhookSpan {
    pub(super) fn of(claim: &Claim) -> Self {
        let trace = TraceId::of(claim.event.id.row());
        // Each claim of a delivery has another fence, and makes one attempt.
        let fence = u64::try_from(claim.fence).unwrap_or(0);
        let id = SpanId::of(claim.delivery.0).plus(fence);
        // Other events begin with their delivery.
        let is_mail = matches!(&claim.subject, Subject::Message(message)
            if matches!(message.content, Content::Mail(_)));
        Self { trace, id, parent: is_mail.then(|| trace.root()) }
    }

    /// Returns the span of an attempt that ends with the scale.
    pub(super) fn ended(
        self,
        claim: &Claim,
        attempt: &Attempt,
        outcome: &'static str,
        scale: &Scale,
    ) -> Span {
        let took = std::time::Duration::from_millis(attempt.latency_ms.into());
        let times = [scale.before_end(took), scale.end()];
        let mut made = span(self.trace, self.id, self.parent, "webhook attempt", times);
        made.kind = SpanKind::Client.into();
        made.attributes = vec![
            text("http.request.method", "POST"),
            text("gatepost.outcome", outcome),
            number("gatepost.attempt", u64::from(claim.attempts).saturating_add(1)),
            text("gatepost.delivery.id", claim.delivery.to_string()),
            text("gatepost.destination.id", claim.destination.id.to_string()),
            text("gatepost.event.id", claim.event.id.to_string()),
            text("gatepost.event.name", claim.event.name.to_string()),
        ];
        let status = attempt.status.map(|status| number("http.response.status_code", status));
        made.attributes.extend(status);
        if outcome != "delivered" {
            made.status = failed();
        }
        made
    }
}
