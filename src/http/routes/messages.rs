//! Messages: the latest of all Agents below the target, and the original of one.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::http::header::{HeaderName, HeaderValue};
use axum::response::Response;
use serde_json::Value;

use super::super::Http;
use super::super::answer::{download, json, place};
use super::super::call::Call;
use super::super::error::Problem;
use super::super::page;
use crate::app::mailbox::record::message_record;
use crate::domain::id::MessageId;
use crate::domain::message::Message;
use crate::domain::source::Source;
use crate::store::{Cursor, Page};

/// `domain::marker::FIELD`, as HTTP spells it.
const DELIVERED: HeaderName = HeaderName::from_static("x-gatepost-delivered");

/// A page of records, the newest first: a bare array, as v2 answers it. `Link` leads on: `next` to
/// older ones, `prev` to newer ones.
pub(in super::super) async fn recent(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let limit = page::limit(&call, &http.rules)?;
    let mut page = Page { limit, from: page::from(&call)?, until: None };
    let (mailbox, scope) = (&http.use_cases.mailbox, &call.target().scope);
    page.until = mailbox.end_of_recent(scope, &page, http.rules.limits.max_walk).await?;
    let part = |part: Page| async move { mailbox.recent(scope, &part).await };
    let show = |message: &Message| {
        let cursor = Cursor { at: message.at, id: message.id.0 };
        (cursor, Value::Object(message_record(message)).to_string())
    };
    let rows = page::read(&http.rules, page, part, show).await?;
    let mut response = json(StatusCode::OK, rows.array());
    rows.link(&call, "/messages/recent", limit, &mut response);
    Ok(response)
}

/// The original, octet for octet; beside it, as a header of the answer, the field that whoever
/// sends it on adds.
pub(in super::super) async fn raw(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let id = MessageId(call.uuid("uuid")?);
    let place = place(&http).await?;
    let raw = http.use_cases.mailbox.raw(&call.target().scope, id).await?;
    let raw = raw.ok_or_else(|| Problem::not_found("message"))?;
    let marker = http.use_cases.mailbox.marker(&call.target().scope, id).await?;
    let source = http.use_cases.mailbox.source(&call.target().scope, id).await?;
    let (kind, ending) = match source {
        None | Some(Source::Email) => ("message/rfc822", "eml"),
        // As it was posted, without the names of targets.
        Some(_) => ("application/json", "json"),
    };
    let mut response = download(raw, kind, &format!("{id}.{ending}"), place);
    if let Some(Ok(value)) = marker.map(|marker| HeaderValue::try_from(marker.to_string())) {
        response.headers_mut().insert(DELIVERED, value);
    }
    Ok(response)
}
