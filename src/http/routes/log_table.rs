//! The conversation log as a table (RFC 4180): read and written a few rows at a time, so that nobody
//! holds all of it. What goes wrong on the way breaks the answer off: a part does not look like the
//! whole.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use csv::{Terminator, WriterBuilder};
use futures_util::stream;

use super::super::Http;
use super::super::call::{Again, Call};
use super::super::error::Problem;
use super::logs::{Wanted, read};
use crate::app::mailbox::logs::cell;
use crate::domain::scope::Scope;
use crate::store::{LogRow, Page};

/// `false` where older rows of the time that was asked for are left out.
const COMPLETE: HeaderName = HeaderName::from_static("x-logs-complete");

/// What is still to be written.
struct Table {
    http: Arc<Http>,
    again: Again,
    scope: Scope,
    wanted: Wanted,
    /// `None` when it has come to its end.
    page: Option<Page>,
}

/// One page where one is asked for, else all rows.
pub(super) async fn table(
    http: Arc<Http>,
    call: &Call,
    wanted: Wanted,
) -> Result<Response, Problem> {
    let names: Vec<&str> = wanted.fields.iter().map(|field| field.name()).collect();
    let head = written([names]).map_err(|error| Problem::internal(error.to_string()))?;
    let is_page = ["page", "pageSize"].iter().any(|name| call.query().get(name).is_some());
    if is_page {
        let found = read(&http, call, &wanted).await?;
        let rows = lines(&found.rows).map_err(|error| Problem::internal(error.to_string()))?;
        return Ok(response(Body::from([head, rows].concat()), found.complete));
    }
    let (scope, most) = (call.target().scope.clone(), http.rules.logs.max_rows);
    let until = http.use_cases.mailbox.end_of_log(&scope, &wanted.filter, most).await?;
    let page = Some(Page { limit: http.rules.logs.step, from: None, until });
    let table = Table { http, again: call.again(), scope, wanted, page };
    let rows = stream::unfold((Some(head), table), async |(head, mut table)| {
        let piece = match head {
            Some(head) => Ok(head),
            None => table.next().await?,
        };
        Some((piece.map(Bytes::from), (None, table)))
    });
    Ok(response(Body::from_stream(rows), until.is_none()))
}

impl Table {
    /// The next rows, if the key still reads them.
    async fn next(&mut self) -> Option<io::Result<Vec<u8>>> {
        let page = self.page.take()?;
        let (mailbox, Wanted { filter, fields, .. }) = (&self.http.use_cases.mailbox, &self.wanted);
        let read = mailbox.logs(&self.scope, filter, &page, fields).await;
        let rows = match read {
            Ok(rows) => rows,
            Err(error) => return Some(Err(io::Error::other(error))),
        };
        // Asked when it has been read: what came after a key ended is shown to nobody.
        let may = self.again.ask(&self.http).await.is_ok_and(|(_, now)| now.scope == self.scope);
        if !may || self.http.shutdown.is_stopping() {
            return Some(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let is_full = u32::try_from(rows.len()).is_ok_and(|found| found >= page.limit);
        self.page = rows.last().filter(|_| is_full).map(|last| page.behind(last.place));
        Some(lines(&rows))
    }
}

fn lines(rows: &[LogRow]) -> io::Result<Vec<u8>> {
    written(rows.iter().map(|row| row.values.iter().map(cell).collect::<Vec<_>>()))
}

fn written<L, C>(lines: impl IntoIterator<Item = L>) -> io::Result<Vec<u8>>
where
    L: IntoIterator<Item = C>,
    C: AsRef<[u8]>,
{
    let mut writer = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new());
    for line in lines {
        writer.write_record(line).map_err(io::Error::other)?;
    }
    writer.into_inner().map_err(|error| io::Error::other(error.to_string()))
}

fn response(body: Body, complete: bool) -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/csv; charset=utf-8")),
        (CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"logs.csv\"")),
        (COMPLETE, HeaderValue::from_static(if complete { "true" } else { "false" })),
    ];
    (headers, body).into_response()
}
