//! Sends spans to the collector, batch by batch, in a task of its own: OTLP over HTTP, in protobuf.
//!
//! The collector is named by the operator and no stranger's: it may be on any address, by http or
//! https (`Guard::of_operator`). Redirects and proxies of the environment are not followed, and an
//! answer is bounded in size and time, as for everybody.

use std::time::Duration;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};
use prost::Message as _;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::Waiting;
use super::ids::Sampling;
use super::span::{Span, text};
use crate::domain::domain_name::DomainName;
use crate::domain::id::Mint;
use crate::domain::repeats::{LogCause, Repeats};
use crate::egress::client::{Client, EgressError};
use crate::metrics::{Metrics, SpanOutcome};
use crate::rules::TraceRules;

/// Where spans are sent, and which.
#[derive(Clone)]
pub struct Settings {
    pub client: Client,
    /// The URL for traces, with its path.
    pub url: Url,
    /// Header fields that the operator added; sensitive.
    pub headers: HeaderMap,
    pub sampling: Sampling,
    pub hostname: DomainName,
    pub rules: TraceRules,
}

/// Why the collector did not take a batch.
#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error("the collector cannot be reached: {0}")]
    Unreachable(#[from] EgressError),
    #[error("the collector answered {status}{}", advice(*.status))]
    Answered { status: u16, retry_after: Option<Duration> },
}

impl ExportError {
    /// Whether to send the batch again, and the wait that the collector asked for (OTLP,
    /// §OTLP/HTTP Response).
    const fn may_pass(&self) -> Option<Option<Duration>> {
        match self {
            Self::Unreachable(_) => Some(None),
            Self::Answered { status: 429 | 502 | 503 | 504, retry_after } => Some(*retry_after),
            Self::Answered { .. } => None,
        }
    }
}

const fn advice(status: u16) -> &'static str {
    match status {
        401 | 403 => ": give its key by otlp.header",
        404 | 405 => ": name the address for OTLP over HTTP, usually of port 4318",
        _ => "",
    }
}

pub struct Exporter {
    settings: Settings,
    resource: Resource,
    waiting: Waiting,
    mint: Mint,
    metrics: Metrics,
    repeats: Repeats,
}

impl Exporter {
    pub(super) fn new(settings: Settings, waiting: Waiting, mint: Mint, metrics: Metrics) -> Self {
        let attributes = vec![
            text("service.name", "gatepost"),
            text("service.version", env!("CARGO_PKG_VERSION")),
            text("service.instance.id", mint.uuid().to_string()),
            text("host.name", settings.hostname.as_str()),
        ];
        let resource = Resource { attributes, ..Resource::default() };
        Self { settings, resource, waiting, mint, metrics, repeats: Repeats::default() }
    }

    /// Sends what is handed in until `end`, then what still waits, each batch once.
    pub async fn run(mut self, end: CancellationToken) {
        loop {
            let batch = self.next_batch(&end).await;
            if batch.is_empty() {
                return;
            }
            self.deliver(batch, &end).await;
        }
    }

    /// Returns the next batch; an empty one after the end, when nothing waits.
    async fn next_batch(&mut self, end: &CancellationToken) -> Vec<Span> {
        let first = tokio::select! {
            biased;
            part = self.waiting.parts.recv() => part,
            () = end.cancelled() => None,
        };
        let mut batch = self.take(first);
        let rules = &self.settings.rules.batch;
        let (most, every) = (rules.max_spans, rules.every());
        let filling = async {
            while batch.len() < most && !batch.is_empty() {
                let part = tokio::select! {
                    biased;
                    part = self.waiting.parts.recv() => part,
                    () = end.cancelled() => None,
                };
                let Some(part) = part else { return };
                batch.extend(self.take(Some(part)));
            }
        };
        // Late is full enough.
        let _full = timeout(every, filling).await;
        batch
    }

    /// Gives the places of spans back.
    fn take(&self, part: Option<Vec<Span>>) -> Vec<Span> {
        let part = part.unwrap_or_default();
        self.waiting.places.add_permits(part.len());
        part
    }

    /// Sends a batch until the collector takes it, or the schedule ends.
    async fn deliver(&self, batch: Vec<Span>, end: &CancellationToken) {
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let body = Bytes::from(self.request(batch).encode_to_vec());
        let schedule = self.settings.rules.retries.schedule();
        for failures in 0.. {
            let error = match self.send(body.clone()).await {
                Ok(refused) => return self.taken(count, refused),
                Err(error) => error,
            };
            if let Some(left_out) = self.repeats.due(LogCause::Traces) {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, left_out, "traces were not exported");
            }
            let again = error.may_pass().filter(|_| !end.is_cancelled());
            let wait = again.and_then(|asked| schedule.wait(failures, asked, self.mint.luck()));
            let Some(wait) = wait else { break };
            tokio::select! {
                () = sleep(wait) => {}
                () = end.cancelled() => {}
            }
        }
        self.metrics.spans(SpanOutcome::Failed, count);
    }

    /// Counts a batch that the collector took, and of which it refused so many.
    fn taken(&self, count: u64, refused: u64) {
        self.metrics.spans(SpanOutcome::Exported, count.saturating_sub(refused));
        self.metrics.spans(SpanOutcome::Refused, refused);
        if refused > 0
            && let Some(left_out) = self.repeats.due(LogCause::Traces)
        {
            tracing::warn!(refused, left_out, "the collector refused spans");
        }
    }

    /// Returns how many spans the collector refused.
    async fn send(&self, body: Bytes) -> Result<u64, ExportError> {
        let mut headers = self.settings.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        headers.insert(USER_AGENT, HeaderValue::from_static("gatepost"));
        let Settings { client, url, .. } = &self.settings;
        let answer = client.exchange(Method::POST, url, headers, body).await?;
        if !(200..300).contains(&answer.status) {
            let (status, retry_after) = (answer.status, answer.retry_after);
            return Err(ExportError::Answered { status, retry_after });
        }
        // An answer that is no protobuf comes with a success, and tells of no refusal.
        let answer = ExportTraceServiceResponse::decode(answer.body.as_slice()).unwrap_or_default();
        let refused = answer.partial_success.map_or(0, |partly| partly.rejected_spans);
        Ok(u64::try_from(refused).unwrap_or(0))
    }

    fn request(&self, spans: Vec<Span>) -> ExportTraceServiceRequest {
        let scope = InstrumentationScope {
            name: "gatepost".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() }];
        let resource = Some(self.resource.clone());
        let spans = ResourceSpans { resource, scope_spans, ..ResourceSpans::default() };
        ExportTraceServiceRequest { resource_spans: vec![spans] }
    }
}
