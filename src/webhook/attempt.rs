//! One POST of one delivery: prepare, send, read the outcome.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use tokio::time::Instant;

use super::outcome::{self, Answer};
use crate::app::delivery::payload;
use crate::domain::clock::Timestamp;
use crate::domain::delivery::{Attempt, Claim, Outcome};
use crate::domain::id::{AttemptId, Mint};
use crate::egress::client::{Client, EgressError, Response};
use crate::egress::signature;
use crate::rules::{PayloadRules, WebhookRules};

/// What every attempt needs, whatever it delivers. Cheap to clone.
#[derive(Clone)]
pub struct Sender {
    pub client: Client,
    pub mint: Mint,
    pub rules: std::sync::Arc<WebhookRules>,
}

/// A request, ready to send; of the same claim at the same time always the same.
#[derive(Clone, Debug)]
pub struct Request {
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Sender {
    /// Makes one attempt, and one line in the log. Never fails: what went wrong is the attempt.
    pub async fn attempt(&self, claim: &Claim) -> (Attempt, Outcome) {
        let at = self.mint.clock().now();
        let began = Instant::now();
        let request = prepare(claim, at, &self.rules.payload);
        let sent = self.client.post(&claim.destination.url, request.headers, request.body).await;
        let ended = self.conclude(claim, at, began.elapsed(), sent);
        log(claim, &ended);
        ended
    }

    /// The end of an attempt that our own fault cut short: it counts, so that an event which makes
    /// the program stumble comes to the end of its schedule like any other.
    pub fn stumbled(&self, claim: &Claim) -> (Attempt, Outcome) {
        let at = self.mint.clock().now();
        let (attempt, outcome) = self.conclude(claim, at, Duration::ZERO, Err(EgressError::Broken));
        let error = Some("the gateway could not make this request".to_owned());
        let ended = (Attempt { error, ..attempt }, outcome);
        log(claim, &ended);
        ended
    }

    fn conclude(
        &self,
        claim: &Claim,
        at: Timestamp,
        latency: Duration,
        sent: Result<Response, EgressError>,
    ) -> (Attempt, Outcome) {
        let id = AttemptId(self.mint.uuid());
        // The tail of a UUIDv7 is random (RFC 9562 §5.7), and luck need not be secret.
        let [.., high, low] = id.0.into_bytes();
        let luck = u16::from_be_bytes([high, low]);
        let (answer, response, error) = match sent {
            Ok(mut answer) => {
                answer.body.truncate(self.rules.attempt.kept_response_bytes);
                let status = Some(answer.status);
                (Answer { status, retry_after: answer.retry_after }, answer.body, None)
            }
            Err(error) => {
                (Answer { status: None, retry_after: None }, Vec::new(), Some(error.to_string()))
            }
        };
        let schedule = self.rules.schedule.retries();
        let now = self.mint.clock().now();
        let outcome = outcome::decide(answer, claim.attempts, &schedule, now, luck);
        let latency_ms = u32::try_from(latency.as_millis()).unwrap_or(u32::MAX);
        (Attempt { id, at, latency_ms, status: answer.status, response, error }, outcome)
    }
}

/// The body of the event, and the headers of Standard Webhooks beside those that v2 receivers
/// know: `X-Service-Signature` is the same `v1` signature, without the version before it.
pub fn prepare(claim: &Claim, at: Timestamp, rules: &PayloadRules) -> Request {
    let wanted = claim.destination.wants.payload;
    let body = payload::body(&claim.event, &claim.subject, wanted, rules);
    let id = claim.event.id.to_string();
    let secret = &claim.destination.secret;
    let fields = [
        ("webhook-id", id.clone()),
        ("webhook-timestamp", at.seconds().to_string()),
        ("webhook-signature", signature::header([secret], &id, at, &body)),
        ("x-service-event", claim.event.name.to_string()),
        ("x-service-timestamp", at.seconds().to_string()),
        ("x-service-signature-version", signature::VERSION.to_owned()),
        ("x-service-signature", signature::sign(secret, &id, at, &body)),
    ];
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static("gatepost"));
    for (name, value) in fields {
        // Ids, numbers and base64 are always fit for a header.
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    Request { headers, body }
}

/// Never the URL (its query may hold a secret), the body, or what the receiver answered.
fn log(claim: &Claim, (attempt, outcome): &(Attempt, Outcome)) {
    tracing::info!(
        delivery.id = %claim.delivery,
        destination.id = %claim.destination.id,
        event.id = %claim.event.id,
        event.name = %claim.event.name,
        attempt.number = claim.attempts.saturating_add(1),
        http.status = attempt.status,
        latency_ms = attempt.latency_ms,
        outcome = outcome::word(*outcome),
        error = attempt.error.as_deref(),
        "webhook attempt ended"
    );
}
