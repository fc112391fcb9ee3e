//! `GET /messages/search`: full-text search over the messages of all Agents below the target.

use std::sync::Arc;

use axum::http::{HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::app::mailbox::search::{Search, SearchRequest};
use crate::domain::search::query::Query;
use crate::domain::source::Source;
use crate::http::error::Problem;
use crate::http::request::call::Call;
use crate::http::routes::messages::{Records, between, shown};
use crate::http::state::Http;
use crate::http::typed::page::{self, Filling, Rows};
use crate::http::typed::{Headed, Limit, ListPlace, refused};
use crate::store::{Cursor, Direction};
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
pub async fn messages(
    http: Arc<Http>,
    call: Call,
    asked: Find,
) -> Result<Headed<Records>, Problem> {
    let limit = page::at_most(asked.limit, &http.rules);
    let scope = &call.target().scope;
    let from = between(&http, scope, (asked.before, asked.after)).await?;
    let asked = SearchRequest {
        query: Query::parse(&asked.q).map_err(|error| refused("q", &error))?,
        source: asked.source.map(|Word(source)| source),
        since: asked.since.map(|Moment(at)| at),
        until: asked.until.map(|Moment(at)| at),
    };
    let search = http.use_cases.mailbox.search(scope, &asked, from, http.rules.search);
    let (rows, is_early) = read(&http, search, limit, from).await?;
    let mut answer = Records::page(&rows, &call, limit)?;
    if is_early {
        answer.headers.push((ENDED_EARLY, HeaderValue::from_static(NARROW)));
    }
    Ok(answer)
}

/// Sent with a page that ended before it was full.
const ENDED_EARLY: HeaderName = HeaderName::from_static("x-search-ended-early");
const NARROW: &str = "the search reached the limit of messages for one request: narrow it with a \
                      rarer word, since and until, or source; or follow next";

/// Reads a few messages at a time until the page is full or large, or the search ends. Also returns
/// whether it ended before the end of the list.
async fn read(
    http: &Http,
    mut search: Search<'_>,
    limit: u32,
    from: Option<(Direction, Cursor)>,
) -> Result<(Rows, bool), Problem> {
    let mut filling = Filling::new(&http.rules.limits, limit, from);
    while !filling.is_full {
        let messages = search.some(usize::try_from(filling.step()).unwrap_or(usize::MAX)).await?;
        if messages.is_empty() {
            break;
        }
        filling.add(&messages, shown);
    }
    let is_early = !filling.is_full && search.until().is_some();
    Ok((filling.rows(search.until()), is_early))
}
