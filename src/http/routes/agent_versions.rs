//! `/agent/{agentConfigId}/versions`: configurations of an Agent that are kept to come back to. They
//! are named by the id of its live configuration.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::super::answer::success;
use super::super::call::Call;
use super::super::error::Problem;
use super::super::page;
use super::super::state::Http;
use super::agents::{check_delegate, config_id};
use crate::app::agents::schema;
use crate::domain::agent_config::{AgentVersion, ConfigKind, IdError, VersionId};
use crate::domain::id::AccountId;
use crate::rules::AgentRules;

/// The versions, the newest first; with `includeData`, what they hold.
pub(in super::super) async fn list(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let AgentRules { max_versions, max_automatic_versions, .. } = http.rules.agents;
    let limit = match call.query().get("limit") {
        Some(_) => page::limit(&call, &http.rules)?,
        // Clients of v2 ask for all.
        None => max_versions.saturating_add(max_automatic_versions),
    };
    let with_data = match call.query().get("includeData") {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(Problem::invalid("includeData must be true or false")),
    };
    let before = call.query().get("before").map(str::parse).transpose();
    let before = before.map_err(|error: IdError| Problem::invalid(format!("before: {error}")))?;
    let agent = named(&http, &call).await?;
    let page = call.agents(&http).versions(agent, before, limit, with_data).await?;
    let fields = json!({
        "versions": page.versions.iter().map(shape).collect::<Vec<_>>(),
        "next": page.next.map(VersionId::get),
    });
    Ok(success(StatusCode::OK, "versions found", fields))
}

/// Keeps what is staged, or what is in force.
pub(in super::super) async fn create(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let title = title(&call, &http)?;
    let source = kind(&call, "source")?;
    let agent = named(&http, &call).await?;
    let id = call.agents(&http).keep_version(agent, (title, source)).await?;
    let made = json!({ "createdVersion": { "title": title, "versionId": id.get() } });
    Ok(success(StatusCode::CREATED, "version created", made))
}

/// Replaces what a version holds.
pub(in super::super) async fn replace(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let id = version_id(&call)?;
    let detail = "field snapshot must be an object: the fields of a configuration";
    let snapshot = call.body().get("snapshot").and_then(Value::as_object);
    let snapshot = snapshot.ok_or_else(|| Problem::invalid(detail))?;
    let agent = named(&http, &call).await?;
    check_delegate(&http, &call, snapshot).await?;
    call.agents(&http).replace_version(agent, id, (snapshot, "/snapshot")).await?;
    Ok(success(StatusCode::OK, "version replaced", json!({ "versionId": id.get() })))
}

/// Makes staging, or what is in force, what a version holds.
pub(in super::super) async fn restore(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let id = version_id(&call)?;
    let target = kind(&call, "target")?;
    let agent = named(&http, &call).await?;
    let restored = call.agents(&http).restore_version(agent, id, target).await?;
    let written = restored.changed.configs.of(target);
    let fields = json!({
        "restored": {
            "versionId": restored.version.get(),
            "title": restored.title,
            "target": target.as_str(),
            "agentConfigId": written.id.to_string(),
            "revision": written.revision,
            "changed": restored.changed.fields,
            "previousVersionId": restored.changed.previous.map(VersionId::get),
        },
    });
    Ok(success(StatusCode::OK, "version restored", fields))
}

/// Gives a version another title.
pub(in super::super) async fn rename(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let id = version_id(&call)?;
    let title = title(&call, &http)?;
    let agent = named(&http, &call).await?;
    call.agents(&http).rename_version(agent, id, title).await?;
    let fields = json!({ "versionId": id.get(), "newTitle": title });
    Ok(success(StatusCode::OK, "version renamed", fields))
}

/// Deletes a version.
pub(in super::super) async fn remove(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let id = version_id(&call)?;
    let agent = named(&http, &call).await?;
    call.agents(&http).delete_version(agent, id).await?;
    Ok(success(StatusCode::OK, "version deleted", json!({ "versionId": id.get() })))
}

/// The Agent, whose live configuration the path names.
async fn named(http: &Http, call: &Call) -> Result<AccountId, Problem> {
    let agent = call.account().id;
    call.agents(http).live(agent, config_id(call)?).await?;
    Ok(agent)
}

fn version_id(call: &Call) -> Result<VersionId, Problem> {
    let id = call.path("versionId").parse();
    id.map_err(|error: IdError| Problem::invalid(format!("versionId in the path: {error}")))
}

fn title<'c>(call: &'c Call, http: &Http) -> Result<&'c str, Problem> {
    let title = call.body().required_text("title")?;
    let most = http.rules.agents.max_title_bytes;
    if schema::is_line(title, most) {
        return Ok(title);
    }
    Err(Problem::invalid(format!("title must be one line of 1 to {most} octets")))
}

/// Which configuration a field of the body names; staging where it is absent.
fn kind(call: &Call, field: &str) -> Result<ConfigKind, Problem> {
    let word = call.body().text(field)?.unwrap_or(ConfigKind::Staging.as_str());
    word.parse().map_err(|error| Problem::invalid(format!("{field}: {error}")))
}

fn shape(version: &AgentVersion) -> Value {
    let mut shape = Map::new();
    let mut put = |name: &str, value: Value| shape.insert(name.to_owned(), value);
    put("title", version.title.as_str().into());
    put("versionId", version.id.get().into());
    put("automatic", version.automatic.into());
    put("createdAt", version.created_at.to_string().into());
    if let Some(snapshot) = &version.snapshot {
        put("snapshot", Value::Object(schema::shown(snapshot)));
    }
    Value::Object(shape)
}
