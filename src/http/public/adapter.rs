//! A post of an account's own adapter (relay type `json`): a record as `receiveMessage` takes it,
//! signed by Standard Webhooks (contract §6).
//!
//! Once the signature is verified, the request is that operation, made by the account of the way in:
//! its parser, its checks, its commit. `webhook-id` is its `Idempotency-Key`. What is refused is
//! recorded, as posts of providers are: whoever runs the adapter may never see its answers.

use std::net::IpAddr;
use std::sync::Arc;

use axum::response::Response;

use serde::Deserialize;

use crate::app::access::Credential;
use crate::app::relay::inbound::{RefusedPost, signed_by};
use crate::domain::relay::{Forwarded, RelayType, WayIn};
use crate::domain::source::Source;
use crate::http::error::{Code, Problem};
use crate::http::in_process::{Asked, InProcess};
use crate::http::passage::observe::Trace;
use crate::http::state::Http;
use crate::wire::Word;

/// A request to the way in of an adapter, not verified yet.
pub(super) struct PostedRecord {
    pub(super) way: WayIn,
    /// The inbound key.
    pub(super) key: String,
    pub(super) from: IpAddr,
    pub(super) request: Forwarded,
}

/// Verifies the request, and submits its record. Fails as `receiveMessage` does, but with 503 where
/// the adapter has to come again.
pub(super) async fn take(
    http: Arc<Http>,
    posted: PostedRecord,
    trace: &Trace,
) -> Result<Response, Problem> {
    let inbound = http.use_cases.inbound.clone();
    let PostedRecord { way, from, request, .. } = &posted;
    let id = inbound.signed(way, *from, request).await?;
    let submitted = submit(http, &posted, &id, trace).await;
    match submitted {
        Err(problem) if matches!(problem.code, Code::RateLimited | Code::RequestTimeout) => {
            Err(problem.retryable())
        }
        // Its message may be stored: no record says that it was refused.
        Err(problem) if problem.may_be_done => Err(problem),
        Err(problem) if problem.code.status().is_client_error() => {
            let (proof, source) = (signed_by(RelayType::Json).proof, source_of(&request.body));
            let (words, size) = (problem.detail.as_str(), request.body.len());
            inbound.record_refusal(way, *from, RefusedPost { words, size, proof, source }).await;
            Err(problem)
        }
        other => other,
    }
}

/// The channel that a record names, which is never mail.
fn source_of(record: &[u8]) -> Source {
    #[derive(Deserialize)]
    struct Named {
        source: Word<Source>,
    }
    let named =
        serde_json::from_slice::<Named>(record).ok().map(|Named { source: Word(source) }| source);
    named.filter(|source| *source != Source::Email).unwrap_or(Source::Chat)
}

async fn submit(
    http: Arc<Http>,
    posted: &PostedRecord,
    id: &str,
    trace: &Trace,
) -> Result<Response, Problem> {
    let credential = Credential::Inbound(posted.key.clone());
    let caller = http.use_cases.access.authenticate(&credential).await?;
    let adapter = InProcess::new(http, caller, credential, posted.from, trace);
    let record = posted.request.body.clone();
    adapter.perform(Asked::of("receiveMessage").sends_octets(record).once(id)).await
}
