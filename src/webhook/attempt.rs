//! One POST of one delivery: prepares, sends, decides the outcome.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use tokio::time::Instant;
use url::Url;

use super::masked;
use super::outcome::{self, ReceiverResponse};
use crate::app::delivery::payload;
use crate::app::mailbox::links::Links;
use crate::domain::clock::Timestamp;
use crate::domain::delivery::{Attempt, Claim, Outcome};
use crate::domain::id::{AttemptId, Mint};
use crate::egress::client::{AfterResponse, Client, EgressError, Response};
use crate::egress::signature;
use crate::metrics::Metrics;
use crate::rules::{PayloadRules, WebhookRules};
use crate::traces::Traces;

/// Names the span of the attempt, for the receiver's own (W3C Trace Context).
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

/// The network, as attempts use it. Tests simulate one.
pub trait Post: Clone + Send + Sync + 'static {
    /// Sends `body` to a URL of a customer, within bounds of its own.
    fn post(
        &self,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
        behind: AfterResponse,
    ) -> impl Future<Output = Result<Response, EgressError>> + Send;
}

impl Post for Client {
    async fn post(
        &self,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
        behind: AfterResponse,
    ) -> Result<Response, EgressError> {
        self.post(url, headers, body, behind).await
    }
}

/// The parts that every attempt needs. Cheap to clone.
#[derive(Clone)]
pub struct Sender<P = Client> {
    pub client: P,
    pub mint: Mint,
    pub links: Links,
    pub rules: std::sync::Arc<WebhookRules>,
    pub metrics: Metrics,
    pub traces: Traces,
}

/// A request, ready to send. One claim at one time always makes the same request.
#[derive(Clone, Debug)]
pub struct Request {
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl<P: Post> Sender<P> {
    /// Makes one attempt, and logs one line. Never fails: errors are part of the attempt. `behind`
    /// says whether to keep the connection for the destination's next delivery.
    pub async fn attempt(&self, claim: &Claim, behind: AfterResponse) -> (Attempt, Outcome) {
        let clock = self.mint.clock();
        let (at, steady, began) = (clock.now(), clock.steady(), Instant::now());
        let request = prepare(claim, at, &self.rules.payload, &self.links);
        let Request { mut headers, body } = request;
        let parent = self.traces.traceparent(claim);
        if let Some(parent) = parent.and_then(|parent| HeaderValue::try_from(parent).ok()) {
            headers.insert(TRACE_PARENT, parent);
        }
        let sent = self.client.post(&claim.destination.url, headers, body, behind).await;
        // The time shown follows the clock as it is at the end, in case it was set meanwhile.
        let (attempt, outcome) = self.conclude(claim, clock.wall_of(steady), began.elapsed(), sent);
        self.ended(claim, &attempt, outcome);
        (attempt, outcome)
    }

    /// Ends an attempt that panicked. It counts as failed, so that an event that always panics
    /// exhausts its schedule like any other.
    pub fn panicked(&self, claim: &Claim) -> (Attempt, Outcome) {
        let at = self.mint.clock().now();
        let (attempt, outcome) = self.conclude(claim, at, Duration::ZERO, Err(EgressError::Broken));
        let error = Some("the gateway could not make this request".to_owned());
        let attempt = Attempt { error, ..attempt };
        self.ended(claim, &attempt, outcome);
        (attempt, outcome)
    }

    /// Measures and logs an attempt.
    fn ended(&self, claim: &Claim, attempt: &Attempt, outcome: Outcome) {
        let age = self.mint.clock().now().millis().saturating_sub(claim.event.at.millis());
        let age = Duration::from_millis(u64::try_from(age).unwrap_or(0));
        let (number, took) = (claim.attempts.saturating_add(1), attempt.latency_ms);
        let took = Duration::from_millis(took.into());
        let named = outcome::named(outcome);
        self.metrics.attempt(named, number, took, age);
        self.traces.attempt(claim, attempt, named.as_str());
        log(claim, attempt, outcome);
    }

    fn conclude(
        &self,
        claim: &Claim,
        at: Timestamp,
        latency: Duration,
        sent: Result<Response, EgressError>,
    ) -> (Attempt, Outcome) {
        let id = AttemptId(self.mint.uuid());
        let (answer, response, error) = match sent {
            Ok(answer) => {
                // A receiver that echoes its request must not make passwords readable.
                let most = self.rules.attempt.kept_response_bytes;
                let kept = masked::kept(&answer.body, &claim.destination.wants.headers, most);
                let status = Some(answer.status);
                (ReceiverResponse { status, retry_after: answer.retry_after }, kept, None)
            }
            Err(error) => (
                ReceiverResponse { status: None, retry_after: None },
                Vec::new(),
                Some(error.to_string()),
            ),
        };
        let schedule = self.rules.retries.schedule();
        let (now, luck) = (self.mint.clock().steady(), self.mint.luck());
        let outcome = outcome::decide(answer, claim.attempts, &schedule, now, luck);
        let latency_ms = u32::try_from(latency.as_millis()).unwrap_or(u32::MAX);
        (Attempt { id, at, latency_ms, status: answer.status, response, error }, outcome)
    }
}

/// Builds the request: the customer's own headers, those of Standard Webhooks, and those that v2
/// receivers know. `X-Service-Signature` is the first `v1` signature without its version. After a
/// rotation the former secrets sign beside the new one, each until its end.
pub fn prepare(claim: &Claim, at: Timestamp, rules: &PayloadRules, links: &Links) -> Request {
    let wanted = claim.destination.wants.payload;
    let body = payload::body(&claim.event, &claim.subject, wanted, rules, links);
    let id = claim.event.id.to_string();
    let secret = &claim.destination.secret;
    let former = claim.destination.former_secrets.iter().filter(|one| one.until > at);
    let secrets = std::iter::once(secret).chain(former.map(|one| &one.secret));
    let signatures = signature::header(secrets, &id, at, &body);
    let fields = [
        ("webhook-id", id.clone()),
        ("webhook-timestamp", at.seconds().to_string()),
        ("webhook-signature", signatures.clone()),
        ("x-service-event", claim.event.name.to_string()),
        ("x-service-timestamp", at.seconds().to_string()),
        ("x-service-signature-version", signature::VERSION.to_owned()),
        ("x-service-signature", signature::first_signature(&signatures).to_owned()),
    ];
    let mut headers = HeaderMap::new();
    // First, so that ours replace them.
    for header in &claim.destination.wants.headers {
        let name = HeaderName::from_bytes(header.name.as_bytes());
        if let (Ok(name), Ok(mut value)) = (name, HeaderValue::from_bytes(header.value.expose())) {
            value.set_sensitive(true);
            headers.insert(name, value);
        }
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static("gatepost"));
    for (name, value) in fields {
        // Ids, numbers and base64 are always valid values.
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    Request { headers, body }
}

/// Logs an attempt, at warn if it failed: without the URL (its query may hold a secret), the body or the response.
fn log(claim: &Claim, attempt: &Attempt, outcome: Outcome) {
    /// A level is a constant of its line.
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                delivery.id = %claim.delivery,
                destination.id = %claim.destination.id,
                event.id = %claim.event.id,
                event.name = %claim.event.name,
                attempt.number = claim.attempts.saturating_add(1),
                http.status = attempt.status,
                latency_ms = attempt.latency_ms,
                outcome = outcome::named(outcome).as_str(),
                error = attempt.error.as_deref(),
                "webhook attempt ended"
            )
        };
    }
    match outcome {
        Outcome::Delivered => line!(info),
        Outcome::RetryAt(_) | Outcome::Exhausted | Outcome::Gone => line!(warn),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::domain::destination::{CustomHeader, FormerSecret};
    use crate::domain::secret::Secret;
    use crate::rules::Rules;
    use crate::webhook::sample;

    const AT: Timestamp = Timestamp::from_millis(1_718_463_400_000);

    fn rules() -> PayloadRules {
        Rules::defaults().unwrap().webhooks.payload
    }

    fn header(name: &str, value: &str) -> CustomHeader {
        CustomHeader { name: name.into(), value: Secret::new(value) }
    }

    #[test]
    fn former_secrets_sign_until_their_time() {
        let mut destination = sample::destination(1, "https://a.example/");
        let former = |octet, seconds: i64| FormerSecret {
            secret: Secret::new([octet; 32]),
            until: Timestamp::from_millis(AT.millis() + 1000 * seconds),
        };
        destination.former_secrets = vec![former(2, 60), former(3, 1), former(4, 0)];
        let request = prepare(&sample::claim(1, &destination), AT, &rules(), &sample::links());
        let value = request.headers["webhook-signature"].to_str().unwrap();
        let id = "00000000-0000-0000-0000-000000000001";
        let signed = |octet| {
            let secret = Secret::new([octet; 32]);
            format!("v1,{}", signature::sign(&secret, id, AT, &request.body))
        };
        let v1: Vec<_> = value.split(' ').filter(|one| one.starts_with("v1,")).collect();
        assert_eq!(v1, [signed(9), signed(2), signed(3)]);
        // A receiver that reads one signature gets that of the current secret.
        let v2 = request.headers["x-service-signature"].to_str().unwrap();
        assert_eq!(format!("v1,{v2}"), signed(9));
    }

    #[test]
    fn custom_headers_are_added_and_take_the_place_of_none_of_ours() {
        let mut destination = sample::destination(1, "https://a.example/");
        let plain = prepare(&sample::claim(1, &destination), AT, &rules(), &sample::links());
        destination.wants.headers = vec![
            header("X-Api-Key", "canary"),
            header("Webhook-Id", "forged"),
            header("CONTENT-TYPE", "text/plain"),
            header("user-agent", "forged"),
            header("x-service-signature", "forged"),
            header("bad name", "x"),
            header("x-injected", "a\r\nwebhook-id: b"),
        ];
        let request = prepare(&sample::claim(1, &destination), AT, &rules(), &sample::links());
        assert_eq!(request.headers["x-api-key"], "canary");
        assert!(request.headers["x-api-key"].is_sensitive());
        assert!(!format!("{request:?}").contains("canary"));
        let mut rest = request.headers.clone();
        rest.remove("x-api-key");
        assert_eq!((rest, request.body), (plain.headers, plain.body));
    }

    #[test]
    fn the_headers_of_each_event_are_those_of_the_description() {
        let read = |file: &str| -> serde_json::Value {
            let file = std::fs::read(format!("fixtures/openapi/{file}.json")).unwrap();
            serde_json::from_slice(&file).unwrap()
        };
        let (frame, shapes) = (read("frame"), read("shapes"));
        let destination = sample::destination(1, "https://a.example/");
        let request = prepare(&sample::claim(1, &destination), AT, &rules(), &sample::links());
        // OpenAPI 3.1 describes the type of the body apart from the parameters.
        let sent = request.headers.keys().filter(|name| **name != CONTENT_TYPE);
        let sent: BTreeSet<String> = sent.map(ToString::to_string).collect();
        let webhooks = frame["webhooks"].as_object().unwrap();
        for (name, webhook) in webhooks {
            let told = webhook["post"]["parameters"].as_array().unwrap().iter();
            let told = told.map(|one| &one["$ref"].as_str().unwrap()[1..]);
            let told = told.map(|to| &shapes.pointer(to).unwrap()["name"]);
            let told = told.map(|name| name.as_str().unwrap().to_ascii_lowercase());
            assert_eq!(told.collect::<BTreeSet<_>>(), sent, "{name}");
        }
        assert!(!webhooks.is_empty());
    }
}
