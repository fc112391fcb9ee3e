//! `POST /inbound/{type}/{inboundKey}`: mail providers post received mail here, and adapters their
//! records (`adapter`) (contract §6).
//!
//! No token, and none of `/api/v2`'s rules for bodies apply. The key in the path identifies the way
//! in, and `app::relay::providers` knows each provider's format and the responses that it expects.
//! For all providers 2xx means "done" and 5xx "retry". So our own failures, rates included, are
//! never a 4xx, after which some providers drop the message. A path with an unknown key gets the
//! response of an unknown path.
//!
//! Mailgun posts a raw message only to paths that end with `mime`, so
//! `/inbound/{type}/{inboundKey}/mime` does the same.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use axum::body::{Body, Bytes};
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, EXPECT};
use axum::http::request::Parts;
use axum::response::Response;
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::app::access::need::Effect;
use crate::app::relay::inbound::{InboundError, PostOutcome};
use crate::domain::causes::with_causes;
use crate::domain::id::IntakeId;
use crate::domain::key::KeyHash;
use crate::domain::relay::{Forwarded, RelayType, WayIn};
use crate::http::answer::file::success;
use crate::http::error::{Code, NOTHING_HERE, Problem};
use crate::http::limits::inbound_places::InboundPlace;
use crate::http::limits::rates::Rated;
use crate::http::limits::turns::to_the_end;
use crate::http::passage::observe::Trace;
use crate::http::public::adapter::{self, PostedRecord};
use crate::http::remote::Peer;
use crate::http::request::octets::{BodyBounds, BodyError, read_whole};
use crate::http::state::Http;

/// Its name in the log.
const ROUTE: &str = "/inbound/{type}/{inboundKey}";

/// Accepts a post of a provider: way in, places and body (`limits::inbound_places`), then the
/// decision, which goes on to its end if the provider disconnects. A retry finds its result.
pub(in crate::http) async fn post(
    State(http): State<Arc<Http>>,
    path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let trace = parts.extensions.get::<Trace>().cloned().unwrap_or_default();
    trace.set_route(ROUTE);
    let peer = parts.extensions.get::<Peer>().map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.0);
    let from = http.proxies.client(peer, &parts.headers);
    trace.set_client(from);
    let path = path.ok();
    let segments: Vec<_> = path.iter().flatten().map(|(_, value)| value.to_owned()).collect();
    let way = find_way_in(&http, &segments, from).await?;
    trace.set_caller(way.account.id);
    let kind = way.verification.kind();
    // A slow sender holds only a place for bodies, never one that received requests wait for.
    let coming = http.places.body(&way.account)?;
    let (body, large) = collect(&http, &parts.headers, body, &way).await?;
    let place = http.places.any(&way.account)?;
    drop(coming);
    let request = Forwarded { method: parts.method.to_string(), headers: fields(&parts), body };
    if kind == RelayType::Json {
        let key = segments.into_iter().next_back().unwrap_or_default();
        let record = PostedRecord { way, key, from, request };
        let work = async move { adapter::take(http, record, &trace).await };
        return to_the_end((place, large), work).await?;
    }
    let inbound = http.use_cases.inbound.clone();
    let work = async move { inbound.take(way, from, request).await };
    let taken = to_the_end((place, large), work).await?;
    answer(kind, taken)
}

/// Returns the way in of this path. Counts the request against the key's rate, or a failure against
/// the address. Fails with 404 if the path opens nothing, with 503 if a rate is exceeded or the
/// store fails.
async fn find_way_in(http: &Http, segments: &[String], from: IpAddr) -> Result<WayIn, Problem> {
    let nothing = || Problem::new(Code::NotFound, NOTHING_HERE);
    let [kind, key] = segments else { return Err(nothing()) };
    let kind = kind.parse::<RelayType>().ok().filter(|kind| kind.has_way_in());
    let hash = digest(&SHA256, key.as_bytes());
    let hash = KeyHash(<[u8; 32]>::try_from(hash.as_ref()).map_err(Problem::internal)?);
    let admitted = http.limits.admit(Some(hash), from, Effect::Write, Instant::now());
    let admitted = admitted.map_err(|refused| refused.problem.retryable())?;
    let found = match kind {
        Some(kind) => http.use_cases.inbound.way(kind, key).await,
        None => Ok(None),
    };
    match found {
        Ok(Some(way)) => {
            http.limits
                .count(admitted, Rated::Way(hash), Instant::now())
                .map_err(|refused| refused.problem.retryable())?;
            Ok(way)
        }
        Ok(None) => {
            http.limits.refuse(admitted, Instant::now());
            Err(nothing())
        }
        Err(error) => {
            http.limits.give_back(admitted, Instant::now());
            Err(Problem::unavailable(with_causes(&error)))
        }
    }
}

fn fields(parts: &Parts) -> Vec<(String, Vec<u8>)> {
    let headers = parts.headers.iter();
    headers.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect()
}

/// Reads the whole body. Returns a place as well if the body is large. Fails with 413 or 415 for a
/// body that no retry mends, otherwise with 503.
async fn collect(
    http: &Http,
    headers: &HeaderMap,
    body: Body,
    way: &WayIn,
) -> Result<(Bytes, Option<InboundPlace>), Problem> {
    // A compressed body could unfold to any size.
    let plain = headers.get(CONTENT_ENCODING).is_none_or(|value| {
        // RFC 9110 §8.4.1: codings are named in any case.
        value.as_bytes().eq_ignore_ascii_case(b"identity")
    });
    if !plain {
        let detail = "send the body without Content-Encoding";
        return Err(Problem::new(Code::UnsupportedMediaType, detail));
    }
    let limits = &http.rules.limits;
    let most = match way.verification.kind() {
        RelayType::Json => limits.max_body_bytes,
        _ => http.use_cases.inbound.max_request_bytes(),
    };
    let bounds = BodyBounds { most, limits, expects: headers.contains_key(EXPECT) };
    let reading = read_whole(body, bounds, || http.places.large(&way.account));
    let late = || Problem::invalid("the body did not come in time: send it again").retryable();
    let read = timeout(limits.body(), reading).await.map_err(|_| late())?;
    let (octets, place) = read.map_err(|error| match error {
        BodyError::TooLarge => {
            let detail =
                format!("the body has more than {most} bytes, the limit for requests of providers");
            Problem::new(Code::PayloadTooLarge, detail)
        }
        BodyError::CutShort => {
            Problem::invalid("the body was cut short: send it again").retryable()
        }
        BodyError::NoPlace(problem) => problem,
    })?;
    Ok((octets.into(), place))
}

/// Responses that providers understand: `app::relay::providers` has the sources.
fn answer(kind: RelayType, taken: Result<PostOutcome, InboundError>) -> Result<Response, Problem> {
    match taken {
        Ok(PostOutcome::Accepted(records)) => {
            let ids: Vec<String> = records.iter().map(ToString::to_string).collect();
            Ok(success("accepted", json!({ "verdict": "accepted", "intake": ids })))
        }
        Ok(PostOutcome::Noted(what)) => Ok(success(what, json!({}))),
        Ok(PostOutcome::Refused { words, records }) => {
            // Postmark retries after any other code.
            let code = match kind {
                RelayType::Postmark => Code::Forbidden,
                _ => Code::MailRefused,
            };
            Err(Problem::new(code, with_record(words, &records)))
        }
        Ok(PostOutcome::Deferred { words, records }) => {
            Err(Problem::new(Code::Unavailable, with_record(words, &records)))
        }
        Err(error) => Err(error.into()),
    }
}

fn with_record(words: String, records: &[IntakeId]) -> String {
    match records.first() {
        Some(record) => format!("{words} [record {record}]"),
        None => words,
    }
}
