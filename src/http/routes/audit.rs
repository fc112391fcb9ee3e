//! `/audit`: who did what to an account and to all below it, and what was refused.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::super::answer;
use super::super::call::Call;
use super::super::error::Problem;
use super::super::page;
use super::super::state::Http;
use crate::app::access::Caller;
use crate::domain::audit::{Change, Deed, Doer, Entry, Who};
use crate::domain::id::{AccountId, KeyId};
use crate::store::{AuditFilter, Cursor, Page};
use crate::wire;

/// A page of entries, the newest first; `before` and `after` as for messages. One that passes over
/// many entries ends early, before it is full: `Link` leads on behind them.
pub(in super::super) async fn list(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let limit = page::limit(&call, &http.rules)?;
    let filter = filter(&call)?;
    let mut page = Page { limit, from: page::from(&call)?, until: None };
    let (log, scope, filter) = (&http.use_cases.audit, &call.target().scope, &filter);
    page.until = log.end_of_entries(scope, filter, &page, http.rules.limits.max_walk).await?;
    let part = |part: Page| async move { log.entries(scope, filter, &part).await };
    let caller = call.caller();
    let show =
        |entry: &Entry| (Cursor { at: entry.at, id: entry.id.0 }, shape(entry, caller).to_string());
    let rows = page::read(&http.rules, page, part, show).await?;
    // Written by hand, because the entries are text already.
    let text =
        format!(r#"{{"success":true,"message":"audit log found","audit":{}}}"#, rows.array());
    let mut response = answer::json(StatusCode::OK, text);
    rows.link(&call, "/audit", limit, &mut response);
    Ok(response)
}

fn filter(call: &Call) -> Result<AuditFilter, Problem> {
    let query = call.query();
    let deed = query.get("action").map(str::parse::<Deed>).transpose();
    Ok(AuditFilter {
        deed: deed.map_err(|error| Problem::invalid(format!("action: {error}")))?,
        doer: query.get("actor").map(doer).transpose()?,
        since: call.time("since")?,
        until: call.time("until")?,
    })
}

/// A key by its UUID, an account or a member by its id, or one of two words.
fn doer(text: &str) -> Result<Doer, Problem> {
    let key = wire::uuid(text).map(|id| Doer::Key(KeyId(id)));
    match text {
        "operator" => Ok(Doer::Operator),
        "gateway" => Ok(Doer::Gateway),
        _ => key.or_else(|| text.parse().ok().map(Doer::User)).ok_or_else(|| {
            Problem::invalid(
                "actor must be the id of a key, of an account or of a member, or one of: operator, \
                 gateway",
            )
        }),
    }
}

fn shape(entry: &Entry, caller: &Caller) -> Value {
    let account = entry.lineage.ids().last().map(AccountId::get);
    let seen = is_seen(&entry.actor.who, caller);
    json!({
        "id": entry.id.to_string(),
        "date": entry.at.to_string(),
        "timestamp": entry.at.seconds(),
        "action": entry.deed.as_str(),
        "accountId": account,
        "object": entry.object,
        "before": values(&entry.changes, |change| change.before.as_ref()),
        "after": values(&entry.changes, |change| change.after.as_ref()),
        "by": by(&entry.actor.who, seen),
        "remoteAddress": entry.actor.remote.filter(|_| seen).map(|address| address.to_string()),
        "requestId": entry.actor.request.map(|id| id.to_string()),
        "count": entry.count,
    })
}

/// Of an account above its own, a caller learns that it was that one: its keys, its members and
/// where they sit are that account's. A member who is restricted to some Agents learns so much of
/// itself and of them only.
fn is_seen(who: &Who, caller: &Caller) -> bool {
    let Who::Key { account, member, .. } = who else { return true };
    let Some(agents) = caller.permitted() else {
        let mut above = caller.account.lineage.ids().filter(|id| *id != caller.account.id);
        return !above.any(|above| above == *account);
    };
    let own = caller.member.as_ref().map(|member| member.id);
    *member == own || member.is_none() && agents.contains(account)
}

fn by(who: &Who, seen: bool) -> Value {
    let (word, key, account, member) = match who {
        Who::Operator => ("operator", None, None, None),
        Who::Gateway => ("gateway", None, None, None),
        Who::Key { key, account, member } => ("key", Some(key), Some(account.get()), *member),
    };
    json!({
        "type": word,
        "keyId": key.filter(|_| seen).map(ToString::to_string),
        "accountId": account,
        "memberId": member.filter(|_| seen).map(|member| member.get()),
    })
}

/// Values by field; of a field that is there several times, a list.
fn values<'e>(
    changes: &'e [Change],
    side: impl Fn(&'e Change) -> Option<&'e String>,
) -> Map<String, Value> {
    let mut values = Map::new();
    for change in changes {
        let Some(value) = side(change) else { continue };
        match values.get_mut(&change.field) {
            None => drop(values.insert(change.field.clone(), value.as_str().into())),
            Some(Value::Array(list)) => list.push(value.as_str().into()),
            Some(one) => *one = json!([one.take(), value]),
        }
    }
    values
}
