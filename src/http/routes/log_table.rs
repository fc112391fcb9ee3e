//! The conversation log as a table (RFC 4180), read and sent a few rows at a time, so the whole is
//! never in memory. An error on the way breaks the connection, so that a part cannot pass for the
//! whole.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use csv::{Terminator, WriterBuilder};
use futures_util::stream;

use crate::app::mailbox::logs::{NumberedPage, cell};
use crate::domain::scope::Scope;
use crate::http::error::Problem;
use crate::http::limits::turns::{Turn, to_the_end};
use crate::http::request::call::{AccessCheck, Call};
use crate::http::routes::log_filter::{LogQuery, page_too_far};
use crate::http::state::Http;
use crate::store::{LogRow, Page};

/// `false` if older rows of the requested time are left out.
const COMPLETE: HeaderName = HeaderName::from_static("x-logs-complete");

/// The rest of the table.
struct Table {
    http: Arc<Http>,
    access_check: AccessCheck,
    request: Arc<TableQuery>,
    /// None at the end.
    page: Option<Page>,
    /// Most rows still to send.
    left: u32,
    /// A key has one table at a time; each step takes a place of its own.
    turn: Arc<Turn>,
}

struct TableQuery {
    scope: Scope,
    wanted: LogQuery,
}

/// Returns the requested page, or else all rows in reach. The first rows are read before the
/// response begins, so that it can report errors of the request or the store.
pub(super) async fn table(call: &Call, wanted: LogQuery) -> Result<Response, Problem> {
    let names: Vec<&str> = wanted.fields.iter().map(|field| field.name()).collect();
    let head = written([names]).map_err(Problem::internal)?;
    let turn = Arc::new(call.turn_at_logs()?);
    let (number, size) = wanted.page;
    let request = Arc::new(TableQuery { scope: call.target.scope.clone(), wanted });
    let (mailbox, most) = (call.http.use_cases.mailbox.clone(), call.http.rules.logs.max_rows);
    let (of, held) = (Arc::clone(&request), (Arc::clone(&turn), call.http.logs.permit().await?));
    let page = NumberedPage { number: number.into(), size };
    let starting = async move { mailbox.log_start(&of.scope, &of.wanted.filter, page, most).await };
    let start = to_the_end(held, starting).await??;
    let left = if request.wanted.is_paged { size } else { u32::MAX };
    let (http, access_check) = (Arc::clone(&call.http), call.access_check.clone());
    let mut table = Table { http, access_check, request, page: start.page, left, turn };
    let first = table.rows().await?;
    if first.is_empty() && number > 1 && start.until.is_some() {
        return Err(page_too_far(most));
    }
    let first = lines(&first).map_err(Problem::internal)?;
    let rows = stream::unfold((Some([head, first].concat()), table), async |(first, mut table)| {
        let piece = match first {
            Some(first) => Ok(first),
            None => table.next().await?,
        };
        Some((piece.map(Bytes::from), (None, table)))
    });
    Ok(response(Body::from_stream(rows), start.until.is_none()))
}

impl Table {
    /// Returns the next rows, or an error if the key may no longer read them.
    async fn next(&mut self) -> Option<io::Result<Vec<u8>>> {
        self.page?;
        let rows = match self.rows().await {
            Ok(rows) => rows,
            Err(problem) => {
                return Some(Err(io::Error::other(problem.cause.unwrap_or(problem.detail))));
            }
        };
        // Checked after reading: rows after a key's end are shown to nobody.
        let access = self.access_check.repeat(&self.http).await;
        let may = access.is_ok_and(|(_, now)| now.scope == self.request.scope);
        if !may || self.http.shutdown.is_stopping() {
            return Some(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Some(lines(&rows))
    }

    /// Reads the next rows while holding a place.
    async fn rows(&mut self) -> Result<Vec<LogRow>, Problem> {
        let Some(page) = self.page.take() else { return Ok(Vec::new()) };
        let page = Page { limit: self.http.rules.logs.step.min(self.left), ..page };
        let held = (Arc::clone(&self.turn), self.http.logs.permit().await?);
        let (mailbox, request) = (self.http.use_cases.mailbox.clone(), Arc::clone(&self.request));
        let reading = async move {
            let LogQuery { filter, fields, .. } = &request.wanted;
            mailbox.logs(&request.scope, filter, &page, fields).await
        };
        let rows = to_the_end(held, reading).await??;
        let found = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        self.left = self.left.saturating_sub(found);
        let goes_on = found >= page.limit && self.left > 0;
        self.page = rows.last().filter(|_| goes_on).map(|last| page.behind(last.place));
        Ok(rows)
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
