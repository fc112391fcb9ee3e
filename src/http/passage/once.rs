//! `Idempotency-Key` (contract §4): a creation that is sent again is carried out once, and answered
//! again as it was the first time.
//!
//! The caller, its right and its target are settled anew each time: whoever has lost them learns
//! nothing. That it happens once is the store's doing (`app::once`); here the request is named, and
//! its answer kept. What was refused (4xx) is not remembered: it may be sent again. A 5xx may have been
//! carried out all the same; then its repetition is a 409, which says to look.

use std::sync::Arc;

use axum::body::{HttpBody, to_bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::app::once::Known;
use crate::domain::audit::Once;
use crate::domain::repeats::Cause;
use crate::http::answer::file;
use crate::http::error::{Code, Problem};
use crate::http::operation::Operation;
use crate::http::request::call::Call;
use crate::http::state::Http;
use crate::store::StoreError;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Long enough for any client's; bounds what is hashed.
const LONGEST: usize = 255;

/// A request that is carried out once.
#[derive(Clone)]
pub(in crate::http) struct Asked {
    pub(in crate::http) once: Once,
    /// The caller's API key, which opens the answer.
    pub(in crate::http) token: String,
    /// The request that carries it out.
    pub(in crate::http) holder: Uuid,
}

/// The `Idempotency-Key` of a request, where the operation creates something. Elsewhere it is passed
/// over: to read, to set and to delete twice is the same as once.
pub(in crate::http) fn name<'h>(
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

/// All that a request asks for, in one spelling: the target is its id, wherever and however it was
/// named.
pub(in crate::http) fn asked(operation: &Operation, call: &Call) -> String {
    let target = |name: &str| {
        operation.aim.names().contains(&name) && !operation.body().names().contains(&name)
    };
    let query = call.query().pairs().filter(|(name, _)| !operation.aim.names().contains(name));
    let query: Map<String, Value> =
        query.map(|(name, value)| (name.to_owned(), value.into())).collect();
    let body = call.body().pairs().filter(|(name, _)| !target(name));
    let body: Map<String, Value> =
        body.map(|(name, value)| (name.to_owned(), value.clone())).collect();
    let path = call.segments();
    json!({ "target": call.target().id().get(), "path": path, "query": query, "body": body })
        .to_string()
}

/// Carries the request out, or answers as it was answered before.
pub(in crate::http) async fn perform(
    http: Arc<Http>,
    operation: &'static Operation,
    call: Call,
    asked: Asked,
) -> Result<Response, Problem> {
    if let Some(answered) = answered(&http, &asked).await? {
        return Ok(answered);
    }
    // To its end, even if the client is gone meanwhile: that is when it asks again.
    let work = tokio::spawn(async move {
        match (operation.handler)(Arc::clone(&http), call).await {
            Ok(response) => keep(&http, &asked, response).await,
            // Somebody may have been first at this moment.
            Err(problem) if problem.code == Code::Conflict => {
                answered(&http, &asked).await?.ok_or(problem)
            }
            Err(problem) => Err(problem),
        }
    });
    work.await.unwrap_or_else(|error| Err(Problem::internal(error.to_string())))
}

/// What it was answered, if it was carried out; 409 where that is not known, or where something else
/// was asked for.
async fn answered(http: &Http, asked: &Asked) -> Result<Option<Response>, Problem> {
    match http.use_cases.answers.known(&asked.once, &asked.token).await? {
        Known::New => Ok(None),
        Known::Answered(kept) => {
            Ok(Some(replay(&kept).ok_or_else(|| Problem::from(StoreError::Repeated))?))
        }
        Known::Unanswered => Err(StoreError::Repeated.into()),
        Known::Different => {
            let detail = "this Idempotency-Key was used for another request (another target, \
                          query or body): send a new key with a new request";
            Err(Problem::new(Code::Conflict, detail))
        }
    }
}

/// Status and body: the rest is the same for all, or anew for each.
fn replay(kept: &[u8]) -> Option<Response> {
    let (status, body) = kept.split_first_chunk()?;
    let status = StatusCode::from_u16(u16::from_be_bytes(*status)).ok()?;
    let mut response = file::json(status, String::from_utf8(body.to_vec()).ok()?);
    response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    Some(response)
}

/// Keeps the answer, and hands it on. What was done is done: where its answer cannot be kept, the
/// same request is told so. Where the same request was first, and left nothing to do here, its answer
/// is this one's, too.
async fn keep(http: &Http, asked: &Asked, response: Response) -> Result<Response, Problem> {
    let most = http.rules.idempotency.max_answer_bytes;
    let fits = response.body().size_hint().exact().and_then(|size| usize::try_from(size).ok());
    let fits = fits.is_some_and(|size| size <= most);
    let (parts, body) = response.into_parts();
    let (response, kept) = match fits {
        false => (Response::from_parts(parts, body), None),
        true => {
            // In memory already, and as large as it said.
            let body = to_bytes(body, most).await.unwrap_or_default();
            let kept = [parts.status.as_u16().to_be_bytes().as_slice(), &body].concat();
            (Response::from_parts(parts, body.into()), Some(kept))
        }
    };
    let answers = &http.use_cases.answers;
    match answers.keep(&asked.once, asked.holder, &asked.token, kept).await {
        Ok(true) => {}
        Ok(false) => return Ok(answered(http, asked).await?.unwrap_or(response)),
        Err(error) => {
            if let Some(left_out) = http.repeats.due(Cause::AnswerNotKept) {
                let error = &error as &(dyn std::error::Error + 'static);
                const SAID: &str = "the answer to a request with an Idempotency-Key was not kept";
                tracing::warn!(error, left_out, "{SAID}");
            }
        }
    }
    Ok(response)
}
