//! `GET /logs`: the conversation log, filtered by any of its fields, as JSON pages or as a table.

use axum::response::Response;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;

use crate::app::mailbox::logs::{LogPage, LogRecord, NumberedPage};
use crate::domain::log_field::{LogField, Op};
use crate::http::answer::file::large;
use crate::http::limits::downloads::DownloadPlace;
use crate::http::limits::turns::to_the_end;
use crate::http::routes::log_filter::{Format, List, LogQuery, page_too_far, parse};
use crate::http::routes::log_table;
use crate::http::typed::description::DescribedSuccess;
use crate::http::typed::page::followed;
use crate::http::typed::{Answers, Call, Problem, WithHeaders, successes, text};
use crate::wire::Word;

/// The place of the page.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Pagination {
    /// Number of the page, from 1.
    page: u32,
    /// Maximum number of rows on a page.
    page_size: u32,
    /// Number of pages.
    total_pages: u64,
    /// Alias of totalPages.
    page_count: u64,
    /// Number of rows that match.
    total_count: u64,
    /// Whether there is another page.
    has_more: bool,
}

/// A field.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Field {
    /// The name of the field.
    #[schemars(example = &"outcome")]
    name: &'static str,
    /// The type of its values.
    #[schemars(example = &"string")]
    r#type: &'static str,
    /// Whether answers show the field by default.
    listed: bool,
    /// The meaning of the field.
    description: &'static str,
    /// The operators of filters on this field.
    operators: Vec<Word<Op>>,
}

successes! {
    LogsAnswer {
        /// Number of rows on this page.
        count: usize,
        /// Newest first.
        logs: Vec<LogRecord>,
        /// Number of rows that match.
        total_count: u64,
        /// Whether older rows were left out.
        total_count_is_lower_bound: bool,
        pagination: Pagination,
        /// The names of all fields.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Vec<String>")]
        schema: Option<Vec<&'static str>>,
        /// All fields, explained.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Vec<Field>")]
        fields: Option<Vec<Field>>,
    } = OK "logs found", pages;
}

/// A page, with a place if it is large; or a table.
#[derive(Debug)]
pub enum Logs {
    Page(WithHeaders<LogsAnswer>, Option<DownloadPlace>),
    Table(Response),
}

impl Answers for Logs {
    fn described(generator: &mut SchemaGenerator) -> Vec<DescribedSuccess> {
        let mut answers = LogsAnswer::described(generator);
        answers.iter_mut().for_each(|answer| answer.also = Some("text/csv"));
        answers
    }

    fn response(self) -> Result<Response, Problem> {
        match self {
            Self::Page(page, None) => page.response(),
            Self::Page(WithHeaders { answer, headers }, Some(place)) => {
                let mut response = large("application/json", text(&answer)?, place);
                response.headers_mut().extend(headers);
                Ok(response)
            }
            Self::Table(table) => Ok(table),
        }
    }
}

/// Returns a page of JSON, or a `text/csv` table: of one page if requested, else of all rows in
/// reach.
pub async fn list(call: Call, request: List) -> Result<Logs, Problem> {
    let format = request.format;
    let wanted = parse(request, &call.http.rules.logs)?;
    match format {
        Some(Format::Csv) => log_table::table(&call, wanted).await.map(Logs::Table),
        Some(Format::Json) | None => page(&call, wanted).await,
    }
}

/// Takes the key's turn, then for a large page a place for downloads, then a place for the log.
async fn page(call: &Call, wanted: LogQuery) -> Result<Logs, Problem> {
    let (number, size) = wanted.page;
    let turn = call.turn_at_logs()?;
    // A large page is held whole in memory until it is sent, or until it is read for nobody.
    let held = match size > call.http.rules.limits.max_page {
        true => Some(call.http.downloads.place(call.reader()).await?),
        false => None,
    };
    let (scope, most) = (call.target.scope.clone(), call.http.rules.logs.max_rows);
    let (mailbox, permit) = (call.http.use_cases.mailbox.clone(), call.http.logs.permit().await?);
    let reading = async move {
        let LogQuery { filter, fields, .. } = &wanted;
        let page = NumberedPage { number: number.into(), size };
        let found = mailbox.log_page(&scope, filter, page, fields, most).await;
        (found, wanted, held)
    };
    let (found, wanted, held) = to_the_end((turn, permit), reading).await?;
    let found = found?;
    if found.rows.is_empty() && number > 1 && !found.complete {
        return Err(page_too_far(most));
    }
    let page = shape(&found, &wanted);
    let next = page.pagination.has_more.then(|| number.saturating_add(1));
    Ok(Logs::Page(followed(call, "page", next, page), held))
}

fn shape(found: &LogPage, wanted: &LogQuery) -> LogsAnswer {
    let (page, page_size) = wanted.page;
    let pages = found.total.div_ceil(page_size.into());
    let all = || LogField::ALL.iter();
    LogsAnswer {
        count: found.rows.len(),
        logs: found.rows.iter().map(|row| LogRecord::of(row, &wanted.fields)).collect(),
        total_count: found.total,
        total_count_is_lower_bound: !found.complete,
        pagination: Pagination {
            page,
            page_size,
            total_pages: pages,
            page_count: pages,
            total_count: found.total,
            has_more: u64::from(page) < pages,
        },
        schema: wanted.describes.then(|| all().map(|field| field.name()).collect()),
        fields: wanted.describes.then(|| all().map(described).collect()),
    }
}

fn described(field: &LogField) -> Field {
    Field {
        name: field.name(),
        r#type: field.kind().as_str(),
        listed: field.is_listed(),
        description: field.about(),
        operators: field.kind().ops().iter().copied().map(Word).collect(),
    }
}
