//! `/agent` and `/agentEventRules`: what an Agent is configured to be.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::super::answer::success;
use super::super::call::Call;
use super::super::error::Problem;
use super::super::state::Http;
use crate::app::agents::{Changed, schema};
use crate::domain::agent_config::{
    AgentConfig, AgentConfigs, Config, ConfigId, ConfigKind, IdError,
};

/// The name of the revision that a change was made for.
const REVISION: &str = "revision";

/// Writes fields of staging; those that are not sent keep their values.
pub(in super::super) async fn stage(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let revision = revision(&call)?;
    // The body may name the target, too.
    let sent = call.body().pairs().filter(|(name, _)| schema::NAMES.contains(name));
    let sent = sent.filter(|(name, _)| *name != REVISION);
    let fields: Config = sent.map(|(name, value)| (name.to_owned(), value.clone())).collect();
    if fields.is_empty() {
        return Err(Problem::invalid(
            "the body names no field of a configuration: send what changes",
        ));
    }
    check_delegate(&http, &call, &fields).await?;
    let changed = call.agents(&http).stage(call.account().id, &fields, revision).await?;
    let staging = changed.configs.staging.revision;
    Ok(success(StatusCode::OK, "staging saved", shape(&changed, staging)))
}

/// Puts in force what is staged.
pub(in super::super) async fn publish(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let revision = revision(&call)?;
    let changed = call.agents(&http).publish(call.account().id, revision).await?;
    let mut fields = shape(&changed, changed.configs.live.revision);
    if let Value::Object(fields) = &mut fields {
        let previous = changed.previous.map(|version| version.get());
        fields.insert("previousVersionId".to_owned(), json!(previous));
    }
    Ok(success(StatusCode::OK, "staging published", fields))
}

/// Makes staging what is in force.
pub(in super::super) async fn revert(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let revision = revision(&call)?;
    let changed = call.agents(&http).revert(call.account().id, revision).await?;
    let staging = changed.configs.staging.revision;
    Ok(success(StatusCode::OK, "staging is what was published", shape(&changed, staging)))
}

/// What is worked on.
pub(in super::super) async fn staging(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    show(&http, &call, ConfigKind::Staging, "staging found").await
}

/// What is in force.
pub(in super::super) async fn live(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    show(&http, &call, ConfigKind::Default, "live configuration found").await
}

/// One of the two by its id; 404 for a live one before anything was published.
pub(in super::super) async fn config(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let id = config_id(&call)?;
    let found = call.agents(&http).config(call.account().id, id).await?;
    let mut shown = Map::new();
    shown.insert("id".to_owned(), found.id.to_string().into());
    shown.insert("accountId".to_owned(), call.account().id.get().into());
    shown.insert("kind".to_owned(), found.kind.as_str().into());
    shown.insert(REVISION.to_owned(), found.revision.into());
    shown.insert("updatedAt".to_owned(), found.updated_at.to_string().into());
    shown.extend(schema::shown(&found.config));
    Ok(success(StatusCode::OK, "configuration found", json!({ "sponsorship": shown })))
}

/// The id of a configuration in the path.
pub(super) fn config_id(call: &Call) -> Result<ConfigId, Problem> {
    let id = call.path("agentConfigId").parse();
    id.map_err(|error: IdError| Problem::invalid(format!("agentConfigId in the path: {error}")))
}

/// An Agent that work is handed to is one that the caller reaches, too; one that stands there already
/// may stay, whoever put it there.
pub(super) async fn check_delegate(
    http: &Http,
    call: &Call,
    fields: &Config,
) -> Result<(), Problem> {
    let Some(wanted) = schema::delegate(fields) else { return Ok(()) };
    let configs = call.agents(http).configs(call.account().id).await?;
    let both = configs.into_iter().flat_map(|configs| [configs.staging, configs.live]);
    let known = both.filter_map(|one| schema::delegate(&one.config)).any(|one| one == wanted);
    if known { Ok(()) } else { call.neighbour(http, wanted).await }
}

async fn show(
    http: &Http,
    call: &Call,
    kind: ConfigKind,
    message: &str,
) -> Result<Response, Problem> {
    let configs = call.agents(http).configs(call.account().id).await?;
    let one = configs.as_ref().map(|configs| configs.of(kind));
    let set = one.filter(|one| one.is_set());
    let fields = json!({
        "agentEventRules": set.map(|one| schema::shown(&one.config)),
        "campaignId": configs.as_ref().map(campaign),
        "agentConfigId": one.map(|one| one.id.to_string()),
        REVISION: one.map_or(0, |one| one.revision),
        "updatedAt": set.map(|one: &AgentConfig| one.updated_at.to_string()),
    });
    Ok(success(StatusCode::OK, message, fields))
}

fn shape(changed: &Changed, revision: i64) -> Value {
    json!({
        "campaignId": campaign(&changed.configs),
        REVISION: revision,
        "changed": changed.fields,
    })
}

/// What clients call the live configuration.
fn campaign(configs: &AgentConfigs) -> String {
    configs.live.id.to_string()
}

fn revision(call: &Call) -> Result<Option<i64>, Problem> {
    let revision = call.body().number(REVISION)?;
    Ok(revision.map(|revision| i64::try_from(revision).unwrap_or(i64::MAX)))
}
