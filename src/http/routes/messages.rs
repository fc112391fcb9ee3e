//! Messages: the latest of all Agents below the target, and the original of one.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::http::header::{HeaderName, HeaderValue};
use axum::response::Response;

use super::super::answer::{File, entity_tag, json, not_modified};
use super::super::call::{Call, Visit};
use super::super::downloads::Reader;
use super::super::error::Problem;
use super::super::page;
use super::super::range::Conditions;
use super::super::state::Http;
use crate::app::mailbox::record::MessageRecord;
use crate::domain::id::{MessageId, ThreadId};
use crate::domain::message::Message;
use crate::domain::scope::Scope;
use crate::domain::source::Source;
use crate::store::{Cursor, Page};
use crate::wire::uuid;

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
    let rows = page::read(&http.rules, page, part, shown).await?;
    let mut response = json(StatusCode::OK, rows.array());
    rows.link(&call, "/messages/recent", limit, &mut response);
    Ok(response)
}

/// A page of a room's records, or of one `thread` of it, as [`recent`] shows them.
pub(in super::super) async fn of_room(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let room = call.room()?;
    let limit = page::limit(&call, &http.rules)?;
    let thread = call.query().get("thread").map(|text| {
        let detail = "thread must be the id of a thread: metadata.threadId of a record";
        uuid(text).map(ThreadId).ok_or_else(|| Problem::invalid(detail))
    });
    let thread = thread.transpose()?;
    let page = Page { limit, from: page::from(&call)?, until: None };
    let (mailbox, scope) = (&http.use_cases.mailbox, &call.target().scope);
    if !mailbox.has_room(scope, room).await? {
        return Err(Problem::not_found("room"));
    }
    let part = |part: Page| async move { mailbox.room_messages(scope, room, thread, &part).await };
    let rows = page::read(&http.rules, page, part, shown).await?;
    let mut response = json(StatusCode::OK, rows.array());
    rows.link(&call, &format!("/messages/{room}"), limit, &mut response);
    Ok(response)
}

fn shown(message: &Message) -> (Cursor, String) {
    let cursor = Cursor { at: message.at, id: message.id.0 };
    (cursor, serde_json::to_string(&MessageRecord::of(message)).unwrap_or_default())
}

/// The original, octet for octet; beside it, as a header of the answer, the field that whoever
/// sends it on adds.
pub(in super::super) async fn raw(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let id = MessageId(call.uuid("uuid")?);
    original(&http, (&call.target().scope, call.reader()), id, call.conditions()).await
}

/// The same for whoever has a link to it.
pub(in super::super) async fn raw_by_link(
    http: Arc<Http>,
    visit: Visit,
) -> Result<Response, Problem> {
    original(&http, (&visit.scope, visit.reader), visit.message, &visit.conditions).await
}

async fn original(
    http: &Http,
    (scope, reader): (&Scope, Reader),
    id: MessageId,
    conditions: &Conditions,
) -> Result<Response, Problem> {
    let missing = || Problem::not_found("message");
    let mailbox = http.use_cases.mailbox.clone();
    let found = mailbox.original(scope, id).await?.ok_or_else(missing)?;
    let tag = entity_tag(&format!("{} original", found.digest));
    let mut response = if conditions.have(&tag) {
        not_modified(&tag)
    } else {
        let (kind, ending) = match found.source {
            Source::Email => ("message/rfc822", "eml"),
            // As it was posted, without the names of targets.
            Source::Sms | Source::Chat | Source::Call => ("application/json", "json"),
        };
        let place = http.downloads.place(reader).await?;
        let scope = scope.clone();
        let work = async move { Ok(mailbox.raw(&scope, id).await?) };
        let (raw, place) = place.during(work).await?;
        let (raw, name) = (raw.ok_or_else(missing)?, format!("{id}.{ending}"));
        File::saved(raw, kind.to_owned(), &name, tag).answer(conditions, place)
    };
    if let Some(Ok(value)) = found.marker.map(|marker| HeaderValue::try_from(marker.to_string())) {
        response.headers_mut().insert(DELIVERED, value);
    }
    Ok(response)
}
