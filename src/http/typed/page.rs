//! Pages of lists: how clients request them, and links to the next ones.

use std::future::Future;

use axum::http::header::{HeaderValue, LINK};
use serde::Serialize;
use url::form_urlencoded;
use uuid::Uuid;

use crate::http::error::Problem;
use crate::http::request::call::Call;
use crate::http::typed::{Headed, Limit, ListPlace, Next, refused};
use crate::rules::{AccessLimits, AccessRules};
use crate::store::{Cursor, Direction, Page, StoreError};
use crate::wire::Texts;

/// The limit of a checked request, or the default.
pub(in crate::http) fn at_most(limit: Option<Limit>, rules: &AccessRules) -> u32 {
    limit.map_or(rules.limits.default_page, |Limit(limit)| limit)
}

/// Where the requested page begins; None begins at the newest row. `find` returns the cursor of an
/// id.
pub(in crate::http) async fn begin<R>(
    before: Option<ListPlace>,
    after: Option<ListPlace>,
    find: impl FnOnce(Uuid) -> R,
) -> Result<Option<(Direction, Cursor)>, Problem>
where
    R: Future<Output = Result<Option<Cursor>, StoreError>>,
{
    let (name, direction, spot) = match (before, after) {
        (None, None) => return Ok(None),
        (Some(spot), None) => ("before", Direction::Before, spot),
        (None, Some(spot)) => ("after", Direction::After, spot),
        (Some(_), Some(_)) => {
            return Err(Problem::invalid("before and after exclude each other: send one"));
        }
    };
    match spot {
        ListPlace::Next(Next(cursor)) => Ok(Some((Direction::Before, cursor))),
        ListPlace::Cursor(cursor) => Ok(Some((direction, cursor))),
        ListPlace::Id(id) => match find(id).await? {
            Some(cursor) => Ok(Some((direction, cursor))),
            None => Err(refused(name, &"this list has no such id")),
        },
    }
}

/// A row of a page, as JSON.
pub(in crate::http) fn text((cursor, row): (Cursor, impl Serialize)) -> (Cursor, String) {
    // No shape has a map with keys that are not texts.
    (cursor, serde_json::to_string(&row).unwrap_or_else(|_| "null".to_owned()))
}

/// The rows of a page, newest first, each as JSON.
pub(in crate::http) struct Rows {
    pub(in crate::http) texts: Vec<(Cursor, String)>,
    from: Option<(Direction, Cursor)>,
    more: bool,
    /// Where reading ended, if before the page was full and before the end of the list.
    until: Option<Cursor>,
}

/// A page being read, until it has enough rows or bytes.
pub(in crate::http) struct Filling<'l> {
    texts: Vec<(Cursor, String)>,
    from: Option<(Direction, Cursor)>,
    limit: u32,
    octets: usize,
    limits: &'l AccessLimits,
    pub(in crate::http) is_full: bool,
}

impl<'l> Filling<'l> {
    /// An empty page of at most `limit` rows, beginning at `from`.
    pub(in crate::http) fn new(
        limits: &'l AccessLimits,
        limit: u32,
        from: Option<(Direction, Cursor)>,
    ) -> Self {
        Self { texts: Vec::new(), from, limit, octets: 0, limits, is_full: false }
    }

    /// The number of rows to read next. One row beyond the page shows that there is another page.
    pub(in crate::http) fn step(&self) -> u32 {
        let has = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.limits.page_step.min(self.limit.saturating_sub(has).saturating_add(1))
    }

    /// Adds rows in reading order, until the page is full.
    pub(in crate::http) fn add<'r, T: 'r>(
        &mut self,
        rows: impl IntoIterator<Item = &'r T>,
        show: impl Fn(&T) -> (Cursor, String),
    ) {
        let wanted = usize::try_from(self.limit).unwrap_or(usize::MAX);
        for row in rows {
            self.is_full = self.texts.len() >= wanted || self.octets >= self.limits.max_page_bytes;
            if self.is_full {
                break;
            }
            let (cursor, text) = show(row);
            self.octets = self.octets.saturating_add(text.len());
            self.texts.push((cursor, text));
        }
    }

    /// Returns the rows of the page. `until` is where reading ended, if before the end of the list.
    pub(in crate::http) fn rows(mut self, until: Option<Cursor>) -> Rows {
        if matches!(self.from, Some((Direction::After, _))) {
            self.texts.reverse();
        }
        let until = until.filter(|_| !self.is_full);
        let more = self.is_full || until.is_some();
        Rows { texts: self.texts, from: self.from, more, until }
    }
}

/// Reads a page a few rows at a time, and ends it early when it becomes large. It ends at
/// `page.until` at the latest.
pub(in crate::http) async fn read<T, R>(
    rules: &AccessRules,
    page: Page,
    part: impl Fn(Page) -> R,
    show: impl Fn(&T) -> (Cursor, String),
) -> Result<Rows, Problem>
where
    R: Future<Output = Result<Vec<T>, StoreError>>,
{
    let newer = matches!(page.from, Some((Direction::After, _)));
    let direction = if newer { Direction::After } else { Direction::Before };
    let mut filling = Filling::new(&rules.limits, page.limit, page.from);
    let mut has_ended = false;
    while !filling.is_full && !has_ended {
        let limit = filling.step();
        let from = filling.texts.last().map(|(cursor, _)| (direction, *cursor)).or(page.from);
        let mut rows = part(Page { limit, from, until: page.until }).await?;
        has_ended = rows.len() < usize::try_from(limit).unwrap_or(usize::MAX);
        if newer {
            rows.reverse();
        }
        filling.add(&rows, &show);
    }
    Ok(filling.rows(page.until))
}

impl Rows {
    /// All rows as a JSON array.
    pub(in crate::http) fn array(&self) -> String {
        let texts: Vec<_> = self.texts.iter().map(|(_, text)| text.as_str()).collect();
        format!("[{}]", texts.join(","))
    }

    /// All rows as a field of an answer.
    pub(in crate::http) fn list<T>(&self) -> Result<Texts<T>, Problem> {
        Texts::of(self.array()).map_err(|error| Problem::internal(error.to_string()))
    }

    /// The cursor of the next page, for a list that shows the newest first. None for a page of
    /// newer rows: its links lead on.
    pub(in crate::http) fn next(&self) -> Option<Next> {
        let is_newer = matches!(self.from, Some((Direction::After, _)));
        self.older().filter(|_| !is_newer)
    }

    /// Where the rows older than this page begin.
    fn older(&self) -> Option<Next> {
        let is_newer = matches!(self.from, Some((Direction::After, _)));
        let last = self.texts.last().filter(|_| is_newer || self.more).map(|(cursor, _)| *cursor);
        self.until.filter(|_| !is_newer).or(last).map(Next)
    }

    /// All rows, oldest first, as a field of an answer.
    pub(in crate::http) fn oldest_first<T>(&self) -> Result<Texts<T>, Problem> {
        let texts: Vec<_> = self.texts.iter().rev().map(|(_, text)| text.as_str()).collect();
        let array = format!("[{}]", texts.join(","));
        Texts::of(array).map_err(|error| Problem::internal(error.to_string()))
    }

    /// The cursor of the next page, for a list that shows the oldest first; None on the last page.
    pub(in crate::http) fn newest_if_more(&self) -> Option<Cursor> {
        self.texts.first().map(|(cursor, _)| *cursor).filter(|_| self.more)
    }

    /// Adds the `Link` header to an answer.
    pub(in crate::http) fn linked<S>(&self, call: &Call, limit: u32, answer: S) -> Headed<S> {
        let link = self.link_value(call, limit);
        Headed { answer, headers: link.map(|link| (LINK, link)).into_iter().collect() }
    }

    /// The value of the `Link` header; None without links.
    fn link_value(&self, call: &Call, limit: u32) -> Option<HeaderValue> {
        let links = self.links(call, limit);
        HeaderValue::try_from(links.join(", ")).ok().filter(|_| !links.is_empty())
    }

    /// `next` if there are older rows. `prev` always: a client that keeps following it reads new
    /// rows, even after an empty page.
    fn links(&self, call: &Call, limit: u32) -> Vec<String> {
        let link = |(name, place): (&str, String), relation| {
            let own = [("limit", Some(limit.to_string())), (name, Some(place))];
            link(call, &own, relation)
        };
        let after = match self.from {
            Some((Direction::After, cursor)) => Some(cursor),
            _ => None,
        };
        let next = self.older().map(|next| link(("before", next.to_string()), "next"));
        let newest = self.texts.first().map(|(cursor, _)| *cursor).or(after);
        let newest = self.until.filter(|_| after.is_some()).or(newest);
        let prev = newest.map(|cursor| link(("after", cursor.to_string()), "prev"));
        next.into_iter().chain(prev).collect()
    }
}

/// Adds a `Link` header to the next page, which this parameter selects; other parameters of the
/// request stay. No header without `next`.
pub(in crate::http) fn followed<S>(
    call: &Call,
    next: Option<(&str, impl ToString)>,
    answer: S,
) -> Headed<S> {
    followed_with(call, next.map(|(name, place)| vec![(name, Some(place.to_string()))]), answer)
}

/// Does so with several parameters; those without a value are removed.
pub(in crate::http) fn followed_with<S>(
    call: &Call,
    next: Option<Vec<(&str, Option<String>)>>,
    answer: S,
) -> Headed<S> {
    let link = next.map(|own| link(call, &own, "next"));
    let link = link.and_then(|link| HeaderValue::try_from(link).ok());
    Headed { answer, headers: link.map(|link| (LINK, link)).into_iter().collect() }
}

/// One link of a `Link` header (RFC 8288): relative, so that it works behind any host name, and
/// without the token. Keeps the other parameters of the request, except those that select a page.
fn link(call: &Call, own: &[(&str, Option<String>)], relation: &str) -> String {
    let is_own = |name: &str| own.iter().any(|(one, _)| *one == name);
    let is_place = |name: &str| ["before", "after", "page"].contains(&name);
    let asked = call.query().pairs().filter(|(name, _)| !is_place(name) && !is_own(name));
    let own = own.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)));
    let query = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(asked)
        .extend_pairs(own)
        .finish();
    format!("<{}?{query}>; rel=\"{relation}\"", call.uri_path)
}
