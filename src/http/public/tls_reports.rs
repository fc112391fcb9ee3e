//! `POST /tls-reports`: senders report on the TLS that they met (RFC 8460 §5.4), without a key.
//!
//! Anybody may post anything: each report counts in the rate of requests without a key, whatever
//! becomes of it, is read within bounds, and is kept only if it is about a domain of an account.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, EXPECT};
use axum::response::Response;
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::app::access::need::Effect;
use crate::app::tls_reports::{HandedReport, MEDIA_TYPES, TlsReportError};
use crate::http::answer::file::success;
use crate::http::error::{Code, NOTHING_HERE, Problem};
use crate::http::passage::observe::Trace;
use crate::http::remote::Peer;
use crate::http::request::octets::{BodyBounds, BodyError, read_whole};
use crate::http::state::Http;

/// Path for reports.
pub(in crate::http) const PATH: &str = "/tls-reports";

/// Takes a report in.
pub(in crate::http) async fn take(
    State(http): State<Arc<Http>>,
    Extension(trace): Extension<Trace>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    trace.set_route(PATH);
    let nothing = || Problem::new(Code::NotFound, NOTHING_HERE);
    let reports = http.tls_reports.as_ref().ok_or_else(nothing)?;
    let from = http.proxies.client(peer, &headers);
    // Never given back: a report costs more than a wrong key.
    let admitted = http.limits.admit(None, from, Effect::Write, Instant::now());
    admitted.map_err(|refused| *refused.problem)?;
    check_type(&headers)?;
    // Held until the report is settled, as its octets are.
    let _place = reports.place()?;
    let (most, limits) = (reports.max_bytes(), &http.rules.limits);
    let bounds = BodyBounds { most, limits, expects: headers.contains_key(EXPECT) };
    // A report is never so large that it needs a place.
    let reading = read_whole(body, bounds, async || Ok(()));
    let read = timeout(limits.body(), reading).await.map_err(|_| {
        Problem::new(Code::RequestTimeout, "the report did not come in time: send it at once")
    })?;
    let (octets, _) = read.map_err(|error| match error {
        BodyError::TooLarge => TlsReportError::TooLarge { most }.into(),
        BodyError::CutShort => Problem::invalid("the report was cut short: send it again"),
        BodyError::NoPlace(problem) => problem,
    })?;
    let kept = reports.take(HandedReport { octets: octets.into(), signed_by: None }).await?;
    let message = if kept { "report kept" } else { "report kept before" };
    Ok(success(message, json!({})))
}

fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let media = text(CONTENT_TYPE).and_then(|value| value.split(';').next()).unwrap_or_default();
    let refuse = |detail: String| Err(Problem::new(Code::UnsupportedMediaType, detail));
    if !MEDIA_TYPES.iter().any(|one| media.trim().eq_ignore_ascii_case(one)) {
        return refuse(format!("send the report as Content-Type: {}", MEDIA_TYPES.join(" or ")));
    }
    // Packed twice it could unfold to any size.
    match text(CONTENT_ENCODING) {
        Some(coding) if !coding.eq_ignore_ascii_case("identity") => {
            refuse("send the report without Content-Encoding".to_owned())
        }
        _ => Ok(()),
    }
}
