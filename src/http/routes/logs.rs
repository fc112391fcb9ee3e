//! `GET /logs`: the conversation log, filtered by any of its fields, as JSON page by page or as a
//! table.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::super::answer::{large, success};
use super::super::call::Call;
use super::super::error::Problem;
use super::super::state::Http;
use super::super::turns::to_the_end;
use super::log_filter::{Wanted, behind, wanted};
use super::log_table;
use crate::app::mailbox::logs::log_record;
use crate::domain::log_field::LogField;

/// A page; as `text/csv` all rows that are looked at where no page is asked for.
pub(in super::super) async fn list(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let wanted = wanted(&call, &http.rules.logs)?;
    match call.query().get("format") {
        None | Some("json") => page(http, &call, wanted).await,
        Some("csv") => log_table::table(http, &call, wanted).await,
        Some(_) => Err(Problem::invalid("format must be json or csv")),
    }
}

async fn page(http: Arc<Http>, call: &Call, wanted: Wanted) -> Result<Response, Problem> {
    let (number, size) = wanted.page;
    let turn = call.turn_at_logs(&http)?;
    // A large page is held in memory whole, until it is sent.
    let held = match size > http.rules.limits.max_page {
        true => Some(http.downloads.place(call.reader()).await?),
        false => None,
    };
    let (scope, most) = (call.target().scope.clone(), http.rules.logs.max_rows);
    let (mailbox, permit) = (http.use_cases.mailbox.clone(), http.logs.permit().await?);
    let reading = async move {
        let Wanted { filter, fields, page, .. } = &wanted;
        let found = mailbox.log_page(&scope, filter, *page, fields, most).await;
        (found, wanted)
    };
    let (found, wanted) = to_the_end((turn, permit), reading).await?;
    let found = found?;
    if found.rows.is_empty() && number > 1 && !found.complete {
        return Err(behind(most));
    }
    let pages = found.total.div_ceil(size.into());
    let logs: Vec<Value> =
        found.rows.iter().map(|row| log_record(row, &wanted.fields).into()).collect();
    let mut fields = json!({
        "count": logs.len(),
        "logs": logs,
        "totalCount": found.total,
        "totalCountIsLowerBound": !found.complete,
        "pagination": {
            "page": number,
            "pageSize": size,
            "totalPages": pages,
            "pageCount": pages,
            "totalCount": found.total,
            "hasMore": number < pages,
        },
    });
    if let (true, Value::Object(fields)) = (wanted.describes, &mut fields) {
        let names = LogField::ALL.iter().map(|field| field.name());
        fields.insert("schema".into(), names.collect::<Vec<_>>().into());
        fields.insert("fields".into(), LogField::ALL.iter().map(described).collect());
    }
    Ok(match held {
        Some(place) => large("logs found", fields, place),
        None => success(StatusCode::OK, "logs found", fields),
    })
}

fn described(field: &LogField) -> Value {
    let operators = field.kind().ops().iter().map(|op| op.as_str());
    json!({
        "name": field.name(),
        "type": field.kind().as_str(),
        "listed": field.is_listed(),
        "description": field.about(),
        "operators": operators.collect::<Vec<_>>(),
    })
}
