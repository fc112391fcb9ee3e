//! `GET /messages/search`: full-text search over the messages of all Agents below the target.

use axum::http::{HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::app::mailbox::search::SearchRequest;
use crate::domain::search::query::Query;
use crate::domain::source::Source;
use crate::http::routes::messages::{Records, requested, row};
use crate::http::typed::page::UnfinishedPage;
use crate::http::typed::{Call, Limit, ListPlace, Problem, WithHeaders, refused};
use crate::wire::{Moment, Word};

/// Finds messages
///
/// A page that has read as many messages as one request may ends before it is full, perhaps empty:
/// the header X-Search-Ended-Early says how to narrow q, and Link continues.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Find {
    /// Words of the message; "…" for a phrase, word* for a prefix.
    #[schemars(example = &"invoice")]
    q: String,
    /// Only messages from then on.
    since: Option<Moment>,
    /// Only messages before.
    until: Option<Moment>,
    /// Only messages of this channel.
    source: Option<Word<Source>>,
    limit: Option<Limit>,
    /// Only older messages: a cursor of `Link`, or the id of a message.
    before: Option<ListPlace>,
    /// Only newer messages: a cursor of `Link`, or the id of a message.
    after: Option<ListPlace>,
}

/// Returns a page of matching records, newest first. A page that reads many messages ends early: a
/// header says how to narrow the search, and `next` continues.
pub async fn messages(call: Call, request: Find) -> Result<WithHeaders<Records>, Problem> {
    let scope = &call.target.scope;
    let page = requested(&call, request.limit, request.before, request.after).await?;
    let request = SearchRequest {
        query: Query::parse(&request.q).map_err(|error| refused("q", &error))?,
        source: request.source.map(|Word(source)| source),
        since: request.since.map(|Moment(at)| at),
        until: request.until.map(|Moment(at)| at),
    };
    let mailbox = &call.http.use_cases.mailbox;
    let mut search = mailbox.search(scope, &request, page.from, call.http.rules.search);
    // A few messages at a time, until the page is full or large, or the search ends.
    let mut unfinished = UnfinishedPage::new(&call.http.rules.limits, page);
    while !unfinished.is_full {
        let step = usize::try_from(unfinished.step()).unwrap_or(usize::MAX);
        let messages = search.some(step).await?;
        if messages.is_empty() {
            break;
        }
        unfinished.add(&messages, row);
    }
    let is_early = !unfinished.is_full && search.until().is_some();
    let mut answer = Records::page(&unfinished.finish(search.until()), &call)?;
    if is_early {
        answer.headers.push((ENDED_EARLY, HeaderValue::from_static(NARROW)));
    }
    Ok(answer)
}

/// Sent with a page that ended before it was full.
const ENDED_EARLY: HeaderName = HeaderName::from_static("x-search-ended-early");
const NARROW: &str = "the search reached the limit of messages for one request: narrow it with a \
                      rarer word, since and until, or source; or follow next";
