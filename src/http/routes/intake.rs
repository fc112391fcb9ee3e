//! `/email/intake`: what became of every message, and why.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::super::answer::success;
use super::super::call::Call;
use super::super::error::Problem;
use super::super::page;
use super::super::state::Http;
use crate::app::mailbox::intake::{intake_record, whole_intake_record};
use crate::domain::address::Address;
use crate::domain::contact::Handle;
use crate::domain::id::IntakeId;
use crate::domain::reason::Reason;
use crate::store::{Cursor, Direction, IntakeFilter, Page};

/// Verdicts that a filter may name.
const VERDICTS: [&str; 3] = ["accepted", "refused", "deferred"];
/// RFC 5321 §4.5.3.1.3: a path has at most 256 octets.
const LONGEST_PATH: usize = 256;

/// A page of records, the newest first; `after` goes on where the answer before ended. One that
/// passes over many records ends early, before it is full: `next` goes on behind them.
pub(in super::super) async fn list(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let limit = page::limit(&call, &http.rules)?;
    let from = page::cursor(&call, "after")?.map(|cursor| (Direction::Before, cursor));
    let filter = filter(&call)?;
    let agent = call.query().get("agent").map(str::parse).transpose();
    let agent = agent.map_err(|error| Problem::invalid(format!("agent: {error}")))?;
    let scope = match agent {
        Some(agent) => call.agent_within(&http, agent).await?,
        None => call.target().scope.clone(),
    };
    let mailbox = &http.use_cases.mailbox;
    let mut page = Page { limit: limit.saturating_add(1), from, until: None };
    let most = http.rules.limits.max_walk;
    page.until = mailbox.end_of_intake_records(&scope, &filter, &page, most).await?;
    let mut records = mailbox.intake_records(&scope, &filter, &page).await?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = records.len() > limit;
    records.truncate(limit);
    let last = records.last().map(|last| Cursor { at: last.at, id: last.id.0 });
    let next = if more { last } else { page.until };
    let fields = json!({
        "intake": records.iter().map(intake_record).collect::<Vec<_>>(),
        "next": next.map(|cursor| cursor.to_string()),
    });
    Ok(success(StatusCode::OK, "intake records found", fields))
}

/// One record with its evidence.
pub(in super::super) async fn show(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let id = IntakeId(call.uuid("id")?);
    let record = http.use_cases.mailbox.intake_record(&call.target().scope, id).await?;
    let record = record.ok_or_else(|| Problem::not_found("intake record"))?;
    let shown = json!({ "intake": whole_intake_record(&record) });
    Ok(success(StatusCode::OK, "intake record found", shown))
}

fn filter(call: &Call) -> Result<IntakeFilter, Problem> {
    let query = call.query();
    // An earlier version may have taken what is no address any more.
    let read = |text: &str| match Address::parse(text) {
        Ok(address) => Ok(Handle::Mailbox(address)),
        // `sms:+15551231234`, as a record of what came otherwise shows it.
        Err(error) => text.parse::<Handle>().map_err(|_| error),
    };
    let sender = query.get("sender").map(read).transpose();
    let recipient = query.get("recipient");
    if recipient.is_some_and(|path| path.len() > LONGEST_PATH) {
        return Err(Problem::invalid(format!("recipient has at most {LONGEST_PATH} octets")));
    }
    let verdict = query.get("verdict");
    if verdict.is_some_and(|verdict| !VERDICTS.contains(&verdict)) {
        return Err(Problem::invalid(format!("verdict must be one of: {}", VERDICTS.join(", "))));
    }
    let reason = query.get("reason").map(str::parse::<Reason>).transpose();
    Ok(IntakeFilter {
        sender: sender.map_err(|error| Problem::invalid(format!("sender: {error}")))?,
        recipient: recipient.map(str::to_owned),
        verdict: verdict.map(str::to_owned),
        reason: reason.map_err(|_| Problem::invalid(reasons()))?,
        since: call.time("since")?,
        until: call.time("until")?,
    })
}

fn reasons() -> String {
    let codes: Vec<_> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    format!("reason must be one of: {}", codes.join(", "))
}
