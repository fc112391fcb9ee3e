//! Messages: the latest of all Agents below the target, those of a room, and the original of one.

use axum::http::header::{HeaderName, HeaderValue};
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::app::mailbox::conversations::RoomEntry;
use crate::app::mailbox::record::MessageRecord;
use crate::domain::clock::TimeRange;
use crate::domain::id::{MessageId, ThreadId};
use crate::domain::message::Message;
use crate::domain::source::Source;
use crate::http::answer::file::{File, entity_tag, not_modified};
use crate::http::request::call::{Call, FileRequest, Visit};
use crate::http::typed::{
    Download, Limit, ListPlace, MediaTypes, Problem, WithHeaders, page, successes,
};
use crate::store::{Cursor, Page};
use crate::wire::{Id, Moment, RoomId, Texts};

/// `domain::marker::FIELD` as an HTTP header name.
const DELIVERED: HeaderName = HeaderName::from_static("x-gatepost-delivered");

/// Newest first.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Records(Texts<MessageRecord<'static>>);

successes! { Records = OK "The newest first.", bare, pages; }

impl Records {
    /// A page of records as a bare array, as in v2, with `Link`.
    pub(super) fn page(rows: &page::Rows, call: &Call) -> Result<WithHeaders<Self>, Problem> {
        Ok(rows.linked(call, Self(rows.list()?)))
    }
}

/// The record of a message as a row of a page.
pub(super) fn row(message: &Message) -> page::Row {
    page::row(cursor(message), &MessageRecord::of(message))
}

/// The record of a message, or of a reply, as a row of a page.
fn entry_row(entry: &RoomEntry) -> page::Row {
    match &entry.reply {
        None => row(&entry.message),
        Some(reply) => page::row(entry.place(), &MessageRecord::of_reply(&entry.message, reply)),
    }
}

const fn cursor(message: &Message) -> Cursor {
    Cursor { at: message.at, id: message.id.0 }
}

/// The requested page, before or after a message.
pub(super) async fn requested(
    call: &Call,
    limit: Option<Limit>,
    before: Option<ListPlace>,
    after: Option<ListPlace>,
) -> Result<Page, Problem> {
    let find = |id| call.http.use_cases.mailbox.entry_place(&call.target.scope, id);
    page::requested(call, limit, before, after, find).await
}

/// Lists the latest messages of all Agents
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Recent {
    /// Only messages from then on.
    since: Option<Moment>,
    limit: Option<Limit>,
    /// Only older messages: a cursor of `Link`, or the id of a message.
    before: Option<ListPlace>,
    /// Only newer messages: a cursor of `Link`, or the id of a message.
    after: Option<ListPlace>,
}

pub async fn recent(call: Call, request: Recent) -> Result<WithHeaders<Records>, Problem> {
    let (mailbox, scope) = (&call.http.use_cases.mailbox, &call.target.scope);
    let mut page = requested(&call, request.limit, request.before, request.after).await?;
    let time = TimeRange { since: request.since.map(|Moment(at)| at), before: None };
    let most = call.http.rules.limits.max_walk;
    page.until = mailbox.end_of_recent(scope, time, &page, most).await?;
    let part = |part: Page| async move { mailbox.recent(scope, time, &part).await };
    Records::page(&page::read(&call, page, part, row).await?, &call)
}

/// Shows a message, or a reply that was recorded
///
/// Also served at /messages/{messageUuid}: there an id with a colon is a room's, and a UUID is a
/// message's.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Show {
    /// The message.
    message_uuid: Id,
}

/// The message, as lists show it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct OneRecord(#[schemars(with = "MessageRecord<'static>")] Box<RawValue>);

successes! { OneRecord = OK "The message.", bare; }

pub async fn show(call: Call, request: Show) -> Result<OneRecord, Problem> {
    let (mailbox, scope) = (&call.http.use_cases.mailbox, &call.target.scope);
    let found = mailbox.entry(scope, request.message_uuid.0).await?;
    let found = found.ok_or_else(|| Problem::not_found("message"))?;
    let record = match &found.reply {
        None => MessageRecord::of(&found.message),
        Some(reply) => MessageRecord::of_reply(&found.message, reply),
    };
    let record = to_raw_value(&record).map_err(Problem::internal)?;
    Ok(OneRecord(record))
}

/// Lists the messages of a room
///
/// With the replies that were recorded: their `direction` is `outbound`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OfRoom {
    /// The room: contact and Agent.
    room_id: RoomId,
    limit: Option<Limit>,
    /// Only older messages: a cursor of `Link`, or the id of a message.
    before: Option<ListPlace>,
    /// Only newer messages: a cursor of `Link`, or the id of a message.
    after: Option<ListPlace>,
    /// Only messages of this thread: `metadata.threadId` of a record.
    thread: Option<Id>,
}

pub async fn of_room(call: Call, request: OfRoom) -> Result<WithHeaders<Records>, Problem> {
    let (RoomId(room), thread) = (request.room_id, request.thread.map(|Id(id)| ThreadId(id)));
    let (mailbox, scope) = (&call.http.use_cases.mailbox, &call.target.scope);
    if mailbox.room_place(scope, room).await?.is_none() {
        return Err(Problem::not_found("room"));
    }
    let page = requested(&call, request.limit, request.before, request.after).await?;
    let part = |part: Page| async move { mailbox.room_entries(scope, room, thread, &part).await };
    Records::page(&page::read(&call, page, part, entry_row).await?, &call)
}

/// Fetches the original of a message
///
/// Mail is message/rfc822, byte for byte; a message of a platform is its JSON. The header
/// X-Gatepost-Delivered has the field to add when the message is sent on.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Raw {
    /// The message.
    uuid: Id,
}

/// An original.
#[derive(Debug)]
pub struct Original;

impl MediaTypes for Original {
    const TYPES: &'static [&'static str] = &["message/rfc822", "application/json"];
}

pub async fn raw(call: Call, request: Raw) -> Result<Download<Original>, Problem> {
    original(call.file_of(MessageId(request.uuid.0))).await.map(Download::of)
}

/// Returns the original to a client with a signed link.
pub(in crate::http) async fn raw_by_link(visit: Visit) -> Result<Response, Problem> {
    original(visit.file()).await
}

async fn original(file: FileRequest<'_>) -> Result<Response, Problem> {
    let FileRequest { http, message: id, scope, reader, conditions } = file;
    let missing = || Problem::not_found("message");
    let mailbox = http.use_cases.mailbox.clone();
    let found = mailbox.original(scope, id).await?.ok_or_else(missing)?;
    let tag = entity_tag(&format!("{} original", found.digest));
    let mut response = if conditions.have(&tag) {
        not_modified(&tag)
    } else {
        let (kind, ending) = match found.source {
            Source::Email => ("message/rfc822", "eml"),
            // As posted, without the names of targets.
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
