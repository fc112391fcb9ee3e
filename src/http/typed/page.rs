//! Pages of lists: how clients request them, and links to the next ones.

use std::future::Future;

use axum::http::header::{HeaderValue, LINK};
use serde::Serialize;
use url::form_urlencoded;
use uuid::Uuid;

use crate::http::error::Problem;
use crate::http::request::call::Call;
use crate::http::typed::{Limit, ListPlace, Next, WithHeaders, refused};
use crate::rules::AccessLimits;
use crate::store::{Cursor, Direction, Page, StoreError};
use crate::wire::Texts;

/// The limit of a checked request, or the default.
pub(in crate::http) fn limit(call: &Call, limit: Option<Limit>) -> u32 {
    limit.map_or(call.http.rules.limits.default_page, |Limit(limit)| limit)
}

/// The requested page; without a place, it begins at the newest row. `find` returns the cursor of
/// an id. Fails with 400 for two places, or for an id that is not in the list.
pub(in crate::http) async fn requested<R>(
    call: &Call,
    limit: Option<Limit>,
    before: Option<ListPlace>,
    after: Option<ListPlace>,
    find: impl FnOnce(Uuid) -> R,
) -> Result<Page, Problem>
where
    R: Future<Output = Result<Option<Cursor>, StoreError>>,
{
    let mut page = Page { limit: self::limit(call, limit), from: None, until: None };
    let (name, direction, place) = match (before, after) {
        (None, None) => return Ok(page),
        (Some(place), None) => ("before", Direction::Before, place),
        (None, Some(place)) => ("after", Direction::After, place),
        (Some(_), Some(_)) => {
            return Err(Problem::invalid("before and after exclude each other: send one"));
        }
    };
    page.from = Some(match place {
        ListPlace::Next(Next(cursor)) => (Direction::Before, cursor),
        ListPlace::Cursor(cursor) => (direction, cursor),
        ListPlace::Id(id) => match find(id).await? {
            Some(cursor) => (direction, cursor),
            None => return Err(refused(name, &"this list has no such id")),
        },
    });
    Ok(page)
}

pub(in crate::http) struct Row {
    place: Cursor,
    /// None for one that is not shown.
    json: Option<String>,
}

pub(in crate::http) fn row(place: Cursor, record: &impl Serialize) -> Row {
    shown_row(place, Some(record))
}

/// Without a record the row is not shown. It counts all the same: a page that is not full is taken
/// for the last one.
pub(in crate::http) fn shown_row(place: Cursor, record: Option<&impl Serialize>) -> Row {
    // No shape has a map with keys that are not texts.
    let json = |record| serde_json::to_string(record).unwrap_or_else(|_| "null".to_owned());
    Row { place, json: record.map(json) }
}

/// The rows of a page, newest first.
pub(in crate::http) struct Rows {
    rows: Vec<Row>,
    page: Page,
    more: bool,
    /// Where reading ended, if before the page was full and before the end of the list.
    until: Option<Cursor>,
}

/// A page being read, until it has enough rows or bytes.
pub(in crate::http) struct UnfinishedPage<'l> {
    rows: Vec<Row>,
    page: Page,
    octets: usize,
    limits: &'l AccessLimits,
    pub(in crate::http) is_full: bool,
}

impl<'l> UnfinishedPage<'l> {
    /// An empty page of at most `page.limit` rows, beginning at `page.from`.
    pub(in crate::http) const fn new(limits: &'l AccessLimits, page: Page) -> Self {
        Self { rows: Vec::new(), page, octets: 0, limits, is_full: false }
    }

    /// The number of rows to read next. One row beyond the page shows that there is another page.
    pub(in crate::http) fn step(&self) -> u32 {
        let has = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        self.limits.page_step.min(self.page.limit.saturating_sub(has).saturating_add(1))
    }

    /// Adds rows in reading order, until the page is full.
    pub(in crate::http) fn add<T>(&mut self, found: &[T], row: impl Fn(&T) -> Row) {
        let wanted = usize::try_from(self.page.limit).unwrap_or(usize::MAX);
        for one in found {
            self.is_full = self.rows.len() >= wanted || self.octets >= self.limits.max_page_bytes;
            if self.is_full {
                break;
            }
            let row = row(one);
            self.octets = self.octets.saturating_add(row.json.as_ref().map_or(0, String::len));
            self.rows.push(row);
        }
    }

    /// Returns the rows of the page. `until` is where reading ended, if before the end of the list.
    pub(in crate::http) fn finish(mut self, until: Option<Cursor>) -> Rows {
        if is_newer(&self.page) {
            self.rows.reverse();
        }
        let until = until.filter(|_| !self.is_full);
        let more = self.is_full || until.is_some();
        Rows { rows: self.rows, page: self.page, more, until }
    }
}

/// Whether this is a page of newer rows.
const fn is_newer(page: &Page) -> bool {
    matches!(page.from, Some((Direction::After, _)))
}

/// Reads a page a few rows at a time, and ends it early when it becomes large. It ends at
/// `page.until` at the latest.
pub(in crate::http) async fn read<T, R>(
    call: &Call,
    page: Page,
    part: impl Fn(Page) -> R,
    row: impl Fn(&T) -> Row,
) -> Result<Rows, Problem>
where
    R: Future<Output = Result<Vec<T>, StoreError>>,
{
    let newer = is_newer(&page);
    let direction = if newer { Direction::After } else { Direction::Before };
    let mut unfinished = UnfinishedPage::new(&call.http.rules.limits, page);
    let mut has_ended = false;
    while !unfinished.is_full && !has_ended {
        let limit = unfinished.step();
        let from = unfinished.rows.last().map(|last| (direction, last.place)).or(page.from);
        let mut found = part(Page { limit, from, until: page.until }).await?;
        has_ended = found.len() < usize::try_from(limit).unwrap_or(usize::MAX);
        if newer {
            found.reverse();
        }
        unfinished.add(&found, &row);
    }
    Ok(unfinished.finish(page.until))
}

impl Rows {
    /// All rows as a field of an answer.
    pub(in crate::http) fn list<T>(&self) -> Result<Texts<T>, Problem> {
        list(self.rows.iter().filter_map(|row| row.json.as_deref()))
    }

    /// All rows, oldest first, as a field of an answer.
    pub(in crate::http) fn oldest_first<T>(&self) -> Result<Texts<T>, Problem> {
        list(self.rows.iter().rev().filter_map(|row| row.json.as_deref()))
    }

    fn newest(&self) -> Option<Cursor> {
        self.rows.first().map(|row| row.place)
    }

    /// The cursor of the next page, for a list that shows the newest first. None for a page of
    /// newer rows: its links lead on.
    pub(in crate::http) fn next(&self) -> Option<Next> {
        self.older().filter(|_| !is_newer(&self.page))
    }

    /// Where the rows older than this page begin.
    fn older(&self) -> Option<Next> {
        let is_newer = is_newer(&self.page);
        let last = self.rows.last().filter(|_| is_newer || self.more).map(|row| row.place);
        self.until.filter(|_| !is_newer).or(last).map(Next)
    }

    /// The cursor of the next page, for a list that shows the oldest first; None on the last page.
    pub(in crate::http) fn newest_if_more(&self) -> Option<Cursor> {
        self.newest().filter(|_| self.more)
    }

    /// Adds the `Link` header to an answer: `next` if there are older rows, and `prev` always. A
    /// client that keeps following it reads new rows, even after an empty page.
    pub(in crate::http) fn linked<S>(&self, call: &Call, answer: S) -> WithHeaders<S> {
        let link = |name: &str, place: String, relation| {
            let limit = ("limit", Some(self.page.limit.to_string()));
            link(call, &[limit, (name, Some(place))], relation)
        };
        let after = self.page.from.filter(|_| is_newer(&self.page)).map(|(_, cursor)| cursor);
        let next = self.older().map(|next| link("before", next.to_string(), "next"));
        let newest = self.newest().or(after);
        let newest = self.until.filter(|_| after.is_some()).or(newest);
        let prev = newest.map(|cursor| link("after", cursor.to_string(), "prev"));
        with_links(next.into_iter().chain(prev).collect(), answer)
    }
}

/// JSON texts as a list of an answer.
pub(in crate::http) fn list<'t, T>(
    texts: impl Iterator<Item = &'t str>,
) -> Result<Texts<T>, Problem> {
    let array = format!("[{}]", texts.collect::<Vec<_>>().join(","));
    Texts::of(array).map_err(Problem::internal)
}

/// Adds a `Link` header to the next page, which this parameter selects; other parameters of the
/// request stay. No header without `next`.
pub(in crate::http) fn followed<S>(
    call: &Call,
    parameter: &str,
    next: Option<impl ToString>,
    answer: S,
) -> WithHeaders<S> {
    followed_with(call, next.map(|next| vec![(parameter, Some(next.to_string()))]), answer)
}

/// Like `followed`, with several parameters; those without a value are left out of the link.
pub(in crate::http) fn followed_with<S>(
    call: &Call,
    next: Option<Vec<(&str, Option<String>)>>,
    answer: S,
) -> WithHeaders<S> {
    with_links(next.iter().map(|own| link(call, own, "next")).collect(), answer)
}

fn with_links<S>(links: Vec<String>, answer: S) -> WithHeaders<S> {
    let value = HeaderValue::try_from(links.join(", ")).ok().filter(|value| !value.is_empty());
    WithHeaders { answer, headers: value.map(|value| (LINK, value)).into_iter().collect() }
}

/// One link of a `Link` header (RFC 8288): relative, so that it works behind any host name, and
/// without the token. Keeps the other parameters of the request, except those that select a page.
fn link(call: &Call, own: &[(&str, Option<String>)], relation: &str) -> String {
    let is_own = |name: &str| own.iter().any(|(one, _)| *one == name);
    let is_place = |name: &str| ["before", "after", "page"].contains(&name);
    let asked = call.query.pairs().filter(|(name, _)| !is_place(name) && !is_own(name));
    let own = own.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)));
    let query = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(asked)
        .extend_pairs(own)
        .finish();
    format!("<{}?{query}>; rel=\"{relation}\"", call.uri_path)
}
