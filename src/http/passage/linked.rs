//! Requests with a signed link instead of a key (contract §4: signed media links work without a
//! token).
//!
//! Only for operations marked in the table, and only without a token: a token, if there is one,
//! decides alone and the link is ignored. The signature is checked before any lookup. A wrong link
//! gets the 401 of a missing key, and counts as a failure of its address. A valid link opens one
//! part of one message, nothing else.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::HttpBody as _;
use tokio::time::Instant;

use crate::app::access::need::Effect;
use crate::app::mailbox::links::{Linked, Opening};
use crate::domain::id::MessageId;
use crate::domain::network::Network;
use crate::http::answer::range::Conditions;
use crate::http::error::{Code, Problem};
use crate::http::limits::downloads::Reader;
use crate::http::operation::MatchedRequest;
use crate::http::passage::observe::Trace;
use crate::http::request::call::Visit;
use crate::http::request::query::{self, EXPIRES, Query, SIGNATURE};
use crate::http::state::Http;
use crate::wire::uuid;

/// The claims of a link, unchecked.
#[derive(Debug)]
pub(in crate::http) struct SignedLink {
    expires: String,
    signature: String,
}

impl SignedLink {
    /// Reads a query without a token; both parameters must be there, once each.
    pub(in crate::http) fn read(raw_query: &str) -> Option<Self> {
        let expires = query::without_token(raw_query, EXPIRES)?;
        Some(Self { expires, signature: query::without_token(raw_query, SIGNATURE)? })
    }
}

/// Returns the request that this link opens. Fails with 401 if we did not make the link, with 410
/// if it has expired, with 404 if its message is gone, with 429 after too many from its address.
pub(in crate::http) async fn visit(
    http: Arc<Http>,
    request: MatchedRequest,
    signed: SignedLink,
    from: IpAddr,
    trace: &Trace,
) -> Result<Visit, Problem> {
    let MatchedRequest { operation, segments, parts, body } = request;
    let path = segments.unwrap_or_default();
    let segment = |name: &str| path.iter().find(|(known, _)| known == name);
    let message = segment("uuid").and_then(|(_, text)| uuid(text)).map(MessageId);
    let filename = segment("filename").map(|(_, text)| text.as_str());
    let what = match filename {
        None => Some(Linked::Raw),
        Some(filename) => part(filename).map(|(number, name)| Linked::Part(number, name)),
    };
    let opening = message.zip(what).map_or(Opening::Never, |(message, what)| {
        http.use_cases.links.check(message, what, &signed.expires, &signed.signature)
    });
    let (Some(message), Opening::Now | Opening::Expired) = (message, opening) else {
        let refused =
            http.limits.admit(None, from, Effect::Read, Instant::now()).map_err(|refused| {
                trace.set_quota(refused.quota);
                *refused.problem
            })?;
        http.limits.refuse(refused, Instant::now());
        const DETAIL: &str = "this link was not made here, or was changed: copy the whole link, or \
                              send a key as the query parameter token";
        return Err(Problem::new(Code::Unauthorized, DETAIL));
    };
    http.limits.open(from, Instant::now())?;
    if opening == Opening::Expired {
        let detail = "this link has expired: read the event again, which has a new link, or use \
                      this path with a key";
        return Err(Problem::new(Code::LinkExpired, detail));
    }
    let raw_query = parts.uri.query().unwrap_or_default();
    let limit = http.rules.limits.max_query_bytes;
    let query = Query::parse(raw_query, limit, &operation.known(), &[])?;
    if !body.is_end_stream() {
        return Err(Problem::invalid("this operation takes no body: use the query"));
    }
    let scope = http.use_cases.access.link_scope(message).await?;
    let scope = scope.ok_or_else(|| Problem::not_found("message"))?;
    let filename = filename.unwrap_or_default().to_owned();
    let (reader, conditions) = (Reader::Link(Network::of_client(from)), Conditions::of(&parts));
    Ok(Visit { http, message, scope, filename, reader, query, conditions })
}

/// The part's number, which the record puts before its name, and the name.
pub(in crate::http) fn part(filename: &str) -> Option<(u32, &str)> {
    let (number, name) = filename.split_once('-')?;
    let canonical = number.bytes().all(|digit| digit.is_ascii_digit());
    Some((number.parse().ok().filter(|_| canonical)?, name))
}
