//! `Idempotency-Key` (contract §4): a repeated creation is carried out once, and gets the first
//! response again.
//!
//! Caller, rights and target are checked again each time: a caller that has lost them learns
//! nothing. The store ensures the single execution (`app::idempotency`); this file identifies the
//! request and stores its response. A refusal (4xx) is not stored: the client may retry. A 5xx may
//! have been carried out; a repeat then gets a 409, which says to look.

use std::sync::Arc;

use axum::body::{HttpBody, to_bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::app::idempotency::RequestState;
use crate::domain::audit::Once;
use crate::domain::repeats::LogCause;
use crate::http::answer::file;
use crate::http::error::{Code, Problem};
use crate::http::operation::Operation;
use crate::http::request::call::Call;
use crate::http::state::Http;
use crate::store::StoreError;

pub(in crate::http) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
pub(in crate::http) const IDEMPOTENCY_REPLAYED: HeaderName =
    HeaderName::from_static("idempotency-replayed");

/// Longest key in bytes: enough for any client, and bounds the hashing.
const LONGEST: usize = 255;

/// A request to carry out once.
#[derive(Clone)]
pub(in crate::http) struct IdempotentRequest {
    pub(in crate::http) once: Once,
    /// The secret of the caller's credential, which decrypts the stored response.
    pub(in crate::http) secret: String,
    /// The request that carries it out.
    pub(in crate::http) holder: Uuid,
}

/// Returns the `Idempotency-Key` of a creation, if there is one; fails with 400 if it is malformed
/// or sent twice. Other operations ignore it: reading, setting or deleting twice has the effect of
/// once.
pub(in crate::http) fn key_name<'h>(
    operation: &Operation,
    headers: &'h HeaderMap,
) -> Result<Option<&'h str>, Problem> {
    if !operation.need.once {
        return Ok(None);
    }
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let wrong = || {
        let detail = format!(
            "Idempotency-Key: send it once, 1 to {LONGEST} visible ASCII characters without spaces"
        );
        Problem::invalid(detail)
    };
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => {
            let octets = value.as_bytes();
            let plain =
                (1..=LONGEST).contains(&octets.len()) && octets.iter().all(u8::is_ascii_graphic);
            plain.then(|| value.to_str().ok()).flatten().map(Some).ok_or_else(wrong)
        }
        (Some(_), Some(_)) => Err(wrong()),
    }
}

/// The request in canonical form. The target is its id, wherever and under whichever name it was
/// sent.
pub(in crate::http) fn canonical(operation: &Operation, call: &Call) -> String {
    let target = |name: &str| {
        operation.target_names.contains(&name) && !operation.form.body.names().contains(&name)
    };
    let query = call.query.pairs().filter(|(name, _)| !operation.target_names.contains(name));
    let query: Map<String, Value> =
        query.map(|(name, value)| (name.to_owned(), value.into())).collect();
    let body = call.body.pairs().filter(|(name, _)| !target(name));
    let body: Map<String, Value> =
        body.map(|(name, value)| (name.to_owned(), value.clone())).collect();
    let path = &call.path;
    json!({ "target": call.target.id().get(), "path": path, "query": query, "body": body })
        .to_string()
}

/// Carries the request out, or returns the stored response. Of two requests at once, the loser
/// gets the winner's response, or 409 while that is not stored.
pub(in crate::http) async fn perform(
    operation: &'static Operation,
    call: Call,
    request: IdempotentRequest,
) -> Result<Response, Problem> {
    let http = Arc::clone(&call.http);
    if let Some(stored) = stored_response(&http, &request).await? {
        return Ok(stored);
    }
    // Goes on even if the client is gone: that client will repeat the request.
    let work = tokio::spawn(async move {
        match (operation.handler)(call).await {
            Ok(response) => keep(&http, &request, response).await,
            // Another request with this key may have been first just now.
            Err(problem) if problem.code == Code::Conflict => {
                stored_response(&http, &request).await?.ok_or(problem)
            }
            Err(problem) => Err(problem),
        }
    });
    work.await.unwrap_or_else(|error| Err(Problem::internal(error)))
}

/// Returns the stored response, or None if the request is new. Fails with 409 if the response is
/// unknown, or if the key was used for another request.
async fn stored_response(
    http: &Http,
    request: &IdempotentRequest,
) -> Result<Option<Response>, Problem> {
    match http.use_cases.answers.state(&request.once, &request.secret).await? {
        RequestState::New => Ok(None),
        RequestState::Answered(kept) => {
            Ok(Some(replay(&kept).ok_or_else(|| Problem::from(StoreError::Repeated))?))
        }
        RequestState::Unanswered => Err(StoreError::Repeated.into()),
        RequestState::Different => {
            let detail = "this Idempotency-Key (webhook-id at /inbound) was used for another \
                          request (another target, query or body): send a new one with a new \
                          request";
            Err(Problem::new(Code::Conflict, detail))
        }
    }
}

/// Restores status and body: other headers are general, or made anew. None for unreadable bytes.
fn replay(kept: &[u8]) -> Option<Response> {
    let (status, body) = kept.split_first_chunk()?;
    let status = StatusCode::from_u16(u16::from_be_bytes(*status)).ok()?;
    let mut response = file::json(status, String::from_utf8(body.to_vec()).ok()?);
    response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    Some(response)
}

/// Stores the response and returns it. The work is done: if the response cannot be stored, the
/// client still gets it, and the failure is logged. If another request with this key was first, its
/// stored response is returned instead.
async fn keep(
    http: &Http,
    request: &IdempotentRequest,
    response: Response,
) -> Result<Response, Problem> {
    let most = http.rules.idempotency.max_answer_bytes;
    let fits = response.body().size_hint().exact().and_then(|size| usize::try_from(size).ok());
    let fits = fits.is_some_and(|size| size <= most);
    let (parts, body) = response.into_parts();
    let (response, kept) = match fits {
        false => (Response::from_parts(parts, body), None),
        true => {
            // In memory already, and of the size that it declared.
            let body = to_bytes(body, most).await.unwrap_or_default();
            let kept = [parts.status.as_u16().to_be_bytes().as_slice(), &body].concat();
            (Response::from_parts(parts, body.into()), Some(kept))
        }
    };
    let answers = &http.use_cases.answers;
    match answers.keep_response(&request.once, request.holder, &request.secret, kept).await {
        Ok(true) => {}
        Ok(false) => return Ok(stored_response(http, request).await?.unwrap_or(response)),
        Err(error) => {
            if let Some(left_out) = http.repeats.due(LogCause::AnswerNotKept) {
                let error = &error as &(dyn std::error::Error + 'static);
                const SAID: &str = "cannot store the answer to a request with an Idempotency-Key";
                tracing::warn!(error, left_out, "{SAID}");
            }
        }
    }
    Ok(response)
}
