//! `GET /messages/search`: full-text search over the messages of all Agents below the target.

use std::sync::Arc;

use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;

use super::super::answer::json;
use super::super::call::Call;
use super::super::error::Problem;
use super::super::page::{self, Rows};
use super::super::state::Http;
use crate::app::mailbox::record::MessageRecord;
use crate::app::mailbox::search::{Asked, Search};
use crate::domain::search::query::Query;
use crate::domain::source::Source;
use crate::store::{Cursor, Direction};

/// A page of records that match, the newest first, and `Link` as for recent messages. A page that
/// looks at many messages ends early, before it is full or even empty: `next` goes on behind them, and
/// a header says how to be answered sooner.
pub(in super::super) async fn messages(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let limit = page::limit(&call, &http.rules)?;
    let from = page::from(&call)?;
    let asked = asked(&call)?;
    let scope = &call.target().scope;
    let search = http.use_cases.mailbox.search((scope, &asked), from, http.rules.search);
    let (rows, is_early) = read(&http, search, limit, from).await?;
    let mut response = json(StatusCode::OK, rows.array());
    if is_early {
        response.headers_mut().insert(ENDED_EARLY, HeaderValue::from_static(NARROW));
    }
    rows.link(&call, "/messages/search", limit, &mut response);
    Ok(response)
}

/// On a page that ended before it was full.
const ENDED_EARLY: HeaderName = HeaderName::from_static("x-search-ended-early");
const NARROW: &str = "as many messages were read as one request may: narrow it by a rarer word, by \
                      since and until, or by source; or follow next";

/// What is looked for.
fn asked(call: &Call) -> Result<Asked, Problem> {
    let query = call.query();
    let text = query.get("q").ok_or_else(|| Problem::invalid("q is missing: what to look for"))?;
    let source = query.get("source").map(str::parse::<Source>).transpose();
    Ok(Asked {
        query: Query::parse(text).map_err(|error| Problem::invalid(error.to_string()))?,
        source: source.map_err(|error| Problem::invalid(format!("source: {error}")))?,
        since: call.time("since")?,
        until: call.time("until")?,
    })
}

/// A few messages at a time, until the page is full, or large, or the search has ended; and whether
/// that was before the end of the list.
async fn read(
    http: &Http,
    mut search: Search<'_>,
    limit: u32,
    from: Option<(Direction, Cursor)>,
) -> Result<(Rows, bool), Problem> {
    let limits = &http.rules.limits;
    let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
    let step = usize::try_from(limits.page_step).unwrap_or(usize::MAX);
    let (mut texts, mut octets, mut is_full) = (Vec::new(), 0_usize, false);
    while !is_full {
        // One more than the page holds says that there is another page.
        let missing = wanted.saturating_sub(texts.len()).saturating_add(1);
        let messages = search.some(step.min(missing)).await?;
        if messages.is_empty() {
            break;
        }
        for message in &messages {
            is_full = texts.len() >= wanted || octets >= limits.max_page_bytes;
            if is_full {
                break;
            }
            let text = serde_json::to_string(&MessageRecord::of(message)).unwrap_or_default();
            octets = octets.saturating_add(text.len());
            texts.push((Cursor { at: message.at, id: message.id.0 }, text));
        }
    }
    let until = if is_full { None } else { search.until() };
    if matches!(from, Some((Direction::After, _))) {
        texts.reverse();
    }
    Ok((Rows::new(texts, from, is_full, until), until.is_some()))
}
