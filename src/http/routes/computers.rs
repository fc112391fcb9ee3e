//! `/computer/accounts`: the computers of Agents. The target stands in the path.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::super::answer::success;
use super::super::call::Call;
use super::super::error::Problem;
use super::super::page;
use super::super::state::Http;
use super::super::target;
use crate::app::computers::{Health, Way, Written};
use crate::domain::clock::Clock;
use crate::domain::computer::{Computer, ComputerState};

/// The fields of a new record.
pub(in super::super) const CREATE: &[&str] = &["name", "config"];
/// Those of a changed one.
pub(in super::super) const UPDATE: &[&str] = &["name", "config", "revision"];

/// A page of the records of all Agents in scope, by the ids of these; `after` goes on from `next`.
pub(in super::super) async fn list(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let limit = page::limit(&call, &http.rules)?;
    let after = call.query().get("after");
    let after = after.map(|text| target::account_of_text("after", text)).transpose()?;
    let scope = &call.target().scope;
    let (found, more) = call.computers(&http).list(scope, after, limit).await?;
    let fields = json!({
        "accounts": found.iter().map(shape).collect::<Vec<_>>(),
        "next": found.last().filter(|_| more).map(|last| last.agent.get()),
    });
    Ok(success(StatusCode::OK, "computers found", fields))
}

/// The record of an Agent's computer.
pub(in super::super) async fn show(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let found = call.computers(&http).show(call.account().id).await?;
    Ok(success(StatusCode::OK, "computer found", json!({ "account": shape(&found) })))
}

/// Makes the record, which provisions nothing yet.
pub(in super::super) async fn create(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let made = call.computers(&http).create(call.account(), written(&call)?).await?;
    Ok(success(StatusCode::CREATED, "computer created", json!({ "account": shape(&made) })))
}

/// Puts what is given in the place of what was there, a configuration whole.
pub(in super::super) async fn update(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let revision = revision(&call)?;
    let computers = call.computers(&http);
    let new = computers.update(call.account().id, revision, written(&call)?).await?;
    Ok(success(StatusCode::OK, "computer updated", json!({ "account": shape(&new) })))
}

/// Removes the record with its configuration, provisioned or not.
pub(in super::super) async fn remove(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    call.computers(&http).remove(call.account().id).await?;
    Ok(success(StatusCode::OK, "computer removed", json!({})))
}

/// Where the computer stands; 404 unless it is provisioned.
pub(in super::super) async fn status(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let found = call.computers(&http).provisioned(call.account().id).await?;
    Ok(success(StatusCode::OK, "computer is provisioned", lifecycle(&found)))
}

/// Provisions it: 202, and 200 where it is already.
pub(in super::super) async fn provision(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let (new, changed) = call.computers(&http).provision(call.account()).await?;
    let (status, message) = match changed {
        true => (StatusCode::ACCEPTED, "computer is provisioned"),
        false => (StatusCode::OK, "computer was provisioned before"),
    };
    Ok(success(status, message, lifecycle(&new)))
}

/// Deprovisions it: 202, and 200 where there was nothing to do.
pub(in super::super) async fn deprovision(
    http: Arc<Http>,
    call: Call,
) -> Result<Response, Problem> {
    let wipe = call.body().flag("wipeState")?.unwrap_or_default();
    let (new, changed) = call.computers(&http).deprovision(call.account().id, wipe).await?;
    let (status, message) = match changed {
        true => (StatusCode::ACCEPTED, "computer is deprovisioned"),
        false => (StatusCode::OK, "computer was deprovisioned before"),
    };
    Ok(success(status, message, lifecycle(&new)))
}

/// How work reaches it.
pub(in super::super) async fn health(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let probe = match call.query().get("probe") {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(Problem::invalid("probe must be true or false")),
    };
    let health = call.computers(&http).health(call.account().id, probe).await?;
    let (state, findings) = judged(&health);
    let fields = json!({
        "targetAccountId": health.computer.agent.get(),
        "status": state,
        "state": health.computer.state.as_str(),
        "keyLastUsedAt": health.key_last_used.map(|at| at.to_string()),
        "webhooks": health.webhooks.iter().map(|one| way(one, http.mint.clock())).collect::<Vec<_>>(),
        "findings": findings,
    });
    Ok(success(StatusCode::OK, "health of the computer", fields))
}

/// In one word, and what there is to be said about it.
fn judged(health: &Health) -> (&'static str, Vec<Value>) {
    let finding = |code: &str, severity: &str, detail: &str| json!({ "code": code, "severity": severity, "detail": detail });
    let mut findings = Vec::new();
    let is_bad = |way: &Way| {
        way.destination.disabled.is_some() || way.destination.health.failing_since.is_some()
    };
    let provisioned = health.computer.state == ComputerState::Provisioned;
    if !provisioned {
        let detail = "the computer is not provisioned: POST …/provision does that";
        findings.push(finding("not_provisioned", "error", detail));
    }
    if health.webhooks.iter().any(is_bad) {
        let detail = "a webhook of the Agent is disabled or fails: GET /webhooks says why";
        findings.push(finding("webhook_failing", "warning", detail));
    }
    let is_fine = provisioned && findings.is_empty();
    let reached = health.webhooks.iter().any(|way| !is_bad(way));
    if !reached && health.key_in_use {
        let detail = "no webhook of the Agent tells of messages. A key of it was used lately: \
                      whether by a worker that reads GET /events, or by whoever asks for this, is \
                      not known";
        findings.push(finding("key_only", "warning", detail));
    } else if !reached {
        let detail = "no webhook of the Agent tells of messages, and no key of it was used lately: \
                      let the worker read GET /events with a key of the Agent, or add a webhook";
        findings.push(finding("no_way", "warning", detail));
    }
    let state = match (provisioned, findings.is_empty()) {
        (false, _) => "stopped",
        (true, true) => "healthy",
        (true, false) if is_fine && health.key_in_use => "unknown",
        (true, false) => "degraded",
    };
    (state, findings)
}

fn way(way: &Way, clock: &Clock) -> Value {
    let destination = &way.destination;
    let failing_since = destination.health.failing_since;
    json!({
        "id": destination.id.to_string(),
        "type": destination.category.as_str(),
        "disabled": destination.disabled.is_some(),
        "failures": destination.health.failures,
        "failingSince": failing_since.map(|at| clock.wall_of(at).to_string()),
        "lastDeliveredAt": way.last_delivered.map(|at| at.to_string()),
        "waiting": way.waiting,
    })
}

/// What a request writes of the record.
fn written(call: &Call) -> Result<Written, Problem> {
    let body = call.body();
    let name = match body.get("name") {
        Some(Value::Null) => Some(None),
        _ => body.text("name")?.map(|name| Some(name.to_owned())),
    };
    Ok(Written { name, config: object(call, "config")? })
}

/// An object in the body.
pub(super) fn object(call: &Call, name: &str) -> Result<Option<Map<String, Value>>, Problem> {
    match call.body().get(name) {
        None => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object.clone())),
        Some(_) => Err(Problem::invalid(format!("field {name} must be an object"))),
    }
}

/// The revision that a change is meant for, if it names one.
pub(super) fn revision(call: &Call) -> Result<Option<i64>, Problem> {
    let number = call.body().number("revision")?;
    number.map(i64::try_from).transpose().map_err(|_| {
        Problem::invalid("field revision must be a whole number, as GET …/config shows it")
    })
}

fn shape(computer: &Computer) -> Value {
    json!({
        "accountId": computer.agent.get(),
        "name": computer.name,
        "state": computer.state.as_str(),
        "createdAt": computer.created_at.to_string(),
        "updatedAt": computer.updated_at.to_string(),
        "revision": computer.revision,
        "job": job(computer),
    })
}

fn lifecycle(computer: &Computer) -> Value {
    json!({
        "targetAccountId": computer.agent.get(),
        "status": computer.state.as_str(),
        "account": shape(computer),
        "job": job(computer),
    })
}

/// What made it what it is: done by the time that it is told of.
fn job(computer: &Computer) -> Value {
    let kind = match computer.state {
        ComputerState::Created | ComputerState::Provisioned => "provision",
        ComputerState::Deprovisioned => "deprovision",
    };
    let shown = computer.job.map(|job| {
        json!({
            "id": job.id.to_string(),
            "type": kind,
            "status": "succeeded",
            "finishedAt": job.at.to_string(),
        })
    });
    shown.unwrap_or_default()
}
