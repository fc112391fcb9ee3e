//! Messages: the latest of all Agents below the target, and the original of one.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::http::header::{HeaderName, HeaderValue, LINK};
use axum::response::Response;
use serde_json::Value;

use super::super::Http;
use super::super::answer::{download, json, place};
use super::super::call::Call;
use super::super::error::Problem;
use super::super::page;
use crate::app::mailbox::record::message_record;
use crate::domain::id::MessageId;
use crate::store::{Cursor, Direction, Page};

/// `domain::marker::FIELD`, as HTTP spells it.
const DELIVERED: HeaderName = HeaderName::from_static("x-gatepost-delivered");

/// A page of records, the newest first: a bare array, as v2 answers it. `Link` leads on: `next` to
/// older ones, `prev` to newer ones.
pub(in super::super) async fn recent(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let limit = page::limit(&call, &http.rules)?;
    let from = match (page::cursor(&call, "before")?, page::cursor(&call, "after")?) {
        (None, None) => None,
        (Some(cursor), None) => Some((Direction::Before, cursor)),
        (None, Some(cursor)) => Some((Direction::After, cursor)),
        (Some(_), Some(_)) => {
            return Err(Problem::invalid("before and after exclude each other: send one"));
        }
    };
    let mut rows = read(&http, &call, Page { limit, from, until: None }).await?;
    let newer = matches!(from, Some((Direction::After, _)));
    if newer {
        rows.records.reverse();
    }
    let texts: Vec<_> = rows.records.iter().map(|(_, text)| text.as_str()).collect();
    let mut response = json(StatusCode::OK, format!("[{}]", texts.join(",")));
    let links = links(&call, limit, &rows, from);
    if let Ok(value) = HeaderValue::try_from(links.join(", "))
        && !links.is_empty()
    {
        response.headers_mut().insert(LINK, value);
    }
    Ok(response)
}

/// `next` while there are older messages. `prev` always: whoever follows it again and again reads
/// what has come since, the empty page included.
fn links(call: &Call, limit: u32, rows: &Rows, from: Option<(Direction, Cursor)>) -> Vec<String> {
    let link = |place, relation| page::link(call, "/messages/recent", limit, place, relation);
    let after = match from {
        Some((Direction::After, cursor)) => Some(cursor),
        _ => None,
    };
    let older_exist = after.is_some() || rows.more;
    let last = rows.records.last().filter(|_| older_exist).map(|(cursor, _)| *cursor);
    let last = rows.until.filter(|_| after.is_none()).or(last);
    let next = last.map(|cursor| link(("before", cursor), "next"));
    let newest = rows.records.first().map(|(cursor, _)| *cursor).or(after);
    let newest = rows.until.filter(|_| after.is_some()).or(newest);
    let prev = newest.map(|cursor| link(("after", cursor), "prev"));
    next.into_iter().chain(prev).collect()
}

/// Records in the order in which they were read, and whether there are more that way.
struct Rows {
    records: Vec<(Cursor, String)>,
    more: bool,
    /// Where reading ended, if that was before the page was full and before the end of the list.
    until: Option<Cursor>,
}

/// Reads a page a few messages at a time, and ends it early when it has become large.
async fn read(http: &Http, call: &Call, page: Page) -> Result<Rows, Problem> {
    let limits = &http.rules.limits;
    let wanted = usize::try_from(page.limit).unwrap_or(usize::MAX);
    let newer = matches!(page.from, Some((Direction::After, _)));
    let direction = if newer { Direction::After } else { Direction::Before };
    let (mut records, mut octets, mut from) = (Vec::new(), 0_usize, page.from);
    let (mailbox, scope) = (&http.use_cases.mailbox, &call.target().scope);
    let until = mailbox.end_of_recent(scope, &page, limits.max_walk).await?;
    loop {
        let missing = wanted.saturating_sub(records.len()).saturating_add(1);
        let step = limits.page_step.min(u32::try_from(missing).unwrap_or(u32::MAX));
        let part = Page { limit: step, from, until };
        let mut messages = mailbox.recent(scope, &part).await?;
        let ended = messages.len() < usize::try_from(step).unwrap_or(usize::MAX);
        if newer {
            messages.reverse();
        }
        for message in messages {
            if records.len() >= wanted || octets >= limits.max_page_bytes {
                return Ok(Rows { records, more: true, until: None });
            }
            let cursor = Cursor { at: message.at, id: message.id.0 };
            let text = Value::Object(message_record(&message)).to_string();
            octets = octets.saturating_add(text.len());
            from = Some((direction, cursor));
            records.push((cursor, text));
        }
        if ended {
            return Ok(Rows { records, more: until.is_some(), until });
        }
    }
}

/// The original, octet for octet; beside it, as a header of the answer, the field that whoever
/// sends it on adds.
pub(in super::super) async fn raw(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let id = MessageId(call.uuid("uuid")?);
    let place = place(&http).await?;
    let raw = http.use_cases.mailbox.raw(&call.target().scope, id).await?;
    let raw = raw.ok_or_else(|| Problem::not_found("message"))?;
    let marker = http.use_cases.mailbox.marker(&call.target().scope, id).await?;
    let mut response = download(raw, "message/rfc822", &format!("{id}.eml"), place);
    if let Some(Ok(value)) = marker.map(|marker| HeaderValue::try_from(marker.to_string())) {
        response.headers_mut().insert(DELIVERED, value);
    }
    Ok(response)
}
