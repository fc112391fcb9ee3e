//! `/agent/{agentConfigId}/versions`: stored configurations of an Agent. The path names the Agent
//! by the id of its live configuration.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::app::agents::schema::{Line, SomeFields, WholeConfig};
use crate::domain::agent_config::{AgentVersion, ConfigKind, VersionId};
use crate::domain::id::AccountId;
use crate::http::error::Problem;
use crate::http::request::call::Call;
use crate::http::routes::agents::check_delegate;
use crate::http::state::Http;
use crate::http::typed::page;
use crate::http::typed::{Headed, successes};
use crate::rules::AgentRules;
use crate::wire::{CampaignId, Date, Named, Number, Revision, Word};

const TITLE: &str = "Holiday-2025";
const ID: i64 = 1_750_195_000_123;

/// Lists the versions of an Agent
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct List {
    /// Id of the live configuration of the Agent.
    agent_config_id: CampaignId,
    /// Whether to include the configurations.
    #[serde(default)]
    include_data: bool,
    /// How many at most; all without it.
    #[schemars(extend("minimum" = 1, "maximum" = "limits.max_page"))]
    limit: Option<u32>,
    /// Only older versions: `next`, or the id of a version.
    before: Option<Named<VersionId>>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Listed {
    /// Newest first.
    versions: Vec<Version>,
    /// Send it as `before` to get the next page; null on the last page.
    #[schemars(example = ID)]
    next: Option<Number>,
}

/// A version.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Version {
    /// Title of the version.
    #[schemars(example = TITLE)]
    title: String,
    /// Id of the version.
    #[schemars(example = ID)]
    version_id: Number,
    /// Whether publishing made the version; later ones replace such versions.
    #[schemars(example = false)]
    automatic: bool,
    /// Time at which the version was made.
    created_at: Date,
    /// The configuration, with includeData.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "WholeConfig")]
    snapshot: Option<WholeConfig>,
}

/// Returns versions, newest first. Without a limit all of them, as v2 clients expect.
pub async fn list(http: Arc<Http>, call: Call, asked: List) -> Result<Headed<Listed>, Problem> {
    let AgentRules { max_versions, max_automatic_versions, .. } = http.rules.agents;
    let limit = asked.limit.unwrap_or(max_versions.saturating_add(max_automatic_versions));
    let before = asked.before.map(|Named(id)| id);
    let agent = named(&http, &call, asked.agent_config_id).await?;
    let page = call.agents(&http).versions(agent, before, limit, asked.include_data).await?;
    let versions = page.versions.iter().map(shape).collect();
    let answer = Listed { versions, next: page.next.map(Number::from) };
    let next = page.next.map(|last| ("before", last));
    Ok(page::followed(&call, next, answer))
}

/// Keeps the staged or the live configuration as a version
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Create {
    /// Id of the live configuration of the Agent.
    agent_config_id: CampaignId,
    /// Title of the version.
    #[schemars(example = TITLE)]
    title: Line,
    /// Configuration to keep: staging without it.
    source: Option<Word<ConfigKind>>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Created {
    created_version: New,
}

/// A new version.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct New {
    /// Title of the version.
    #[schemars(example = TITLE)]
    title: String,
    /// Id of the version.
    #[schemars(example = ID)]
    version_id: Number,
}

pub async fn create(http: Arc<Http>, call: Call, asked: Create) -> Result<Created, Problem> {
    let (Line(title), source) = (asked.title, kind(asked.source));
    let agent = named(&http, &call, asked.agent_config_id).await?;
    let id = call.agents(&http).keep_version(agent, &title, source).await?;
    Ok(Created { created_version: New { title, version_id: id.into() } })
}

/// Replaces the configuration that a version holds
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(example = json!({ "snapshot": { "type": "chatAgent", "title": "Call Screener" } }))]
pub struct Replace {
    /// Id of the live configuration of the Agent.
    agent_config_id: CampaignId,
    /// The version.
    version_id: Named<VersionId>,
    /// The new configuration; fields that are not sent have no value.
    snapshot: SomeFields,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Replaced {
    /// Id of the version.
    #[schemars(example = ID)]
    version_id: Number,
}

pub async fn replace(http: Arc<Http>, call: Call, asked: Replace) -> Result<Replaced, Problem> {
    let (Named(id), SomeFields(snapshot)) = (asked.version_id, asked.snapshot);
    let agent = named(&http, &call, asked.agent_config_id).await?;
    check_delegate(&http, &call, &snapshot).await?;
    call.agents(&http).replace_version(agent, id, &snapshot, "/snapshot").await?;
    Ok(Replaced { version_id: id.into() })
}

/// Restores a version to staging or to the live configuration
///
/// With target default the version goes live at once, and the former live configuration is kept as
/// a version.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Restore {
    /// Id of the live configuration of the Agent.
    agent_config_id: CampaignId,
    /// The version.
    version_id: Named<VersionId>,
    /// Configuration to write: staging without it.
    target: Option<Word<ConfigKind>>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct HasBeenRestored {
    restored: Restored,
}

/// The result of restoring a version.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Restored {
    /// Id of the version.
    #[schemars(example = ID)]
    version_id: Number,
    /// Title of the version.
    #[schemars(example = TITLE)]
    title: String,
    /// Configuration that was written.
    target: Word<ConfigKind>,
    /// Id of this configuration.
    agent_config_id: CampaignId,
    /// New revision of this configuration.
    revision: Revision,
    /// Fields that changed.
    #[schemars(example = ["title"])]
    changed: Vec<String>,
    /// Version that keeps the former live configuration; null if nothing was replaced.
    #[schemars(example = ID)]
    previous_version_id: Option<Number>,
}

pub async fn restore(
    http: Arc<Http>,
    call: Call,
    asked: Restore,
) -> Result<HasBeenRestored, Problem> {
    let (Named(id), target) = (asked.version_id, kind(asked.target));
    let agent = named(&http, &call, asked.agent_config_id).await?;
    let done = call.agents(&http).restore_version(agent, id, target).await?;
    let written = done.changed.configs.of(target);
    let restored = Restored {
        version_id: done.version.into(),
        title: done.title,
        target: Word(target),
        agent_config_id: CampaignId(written.id),
        revision: Revision(written.revision),
        previous_version_id: done.changed.previous.map(Number::from),
        changed: done.changed.fields,
    };
    Ok(HasBeenRestored { restored })
}

/// Renames a version
///
/// A version made by publishing is kept from then on like one made by a request.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rename {
    /// Id of the live configuration of the Agent.
    agent_config_id: CampaignId,
    /// The version.
    version_id: Named<VersionId>,
    /// New title of the version.
    #[schemars(example = TITLE)]
    title: Line,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Renamed {
    /// Id of the version.
    #[schemars(example = ID)]
    version_id: Number,
    /// New title of the version.
    #[schemars(example = TITLE)]
    new_title: String,
}

pub async fn rename(http: Arc<Http>, call: Call, asked: Rename) -> Result<Renamed, Problem> {
    let (Named(id), Line(title)) = (asked.version_id, asked.title);
    let agent = named(&http, &call, asked.agent_config_id).await?;
    call.agents(&http).rename_version(agent, id, &title).await?;
    Ok(Renamed { version_id: id.into(), new_title: title })
}

/// Deletes a version
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Remove {
    /// Id of the live configuration of the Agent.
    agent_config_id: CampaignId,
    /// The version.
    version_id: Named<VersionId>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Removed {
    /// Id of the version.
    #[schemars(example = ID)]
    version_id: Number,
}

successes! {
    Listed = OK "versions found", pages;
    Created = CREATED "version created";
    Replaced = OK "version replaced";
    HasBeenRestored = OK "version restored";
    Renamed = OK "version renamed";
    Removed = OK "version deleted";
}

pub async fn remove(http: Arc<Http>, call: Call, asked: Remove) -> Result<Removed, Problem> {
    let Named(id) = asked.version_id;
    let agent = named(&http, &call, asked.agent_config_id).await?;
    call.agents(&http).delete_version(agent, id).await?;
    Ok(Removed { version_id: id.into() })
}

/// Returns the Agent; fails with 404 unless the path names its live configuration.
async fn named(http: &Http, call: &Call, CampaignId(id): CampaignId) -> Result<AccountId, Problem> {
    let agent = call.account().id;
    call.agents(http).live(agent, id).await?;
    Ok(agent)
}

fn kind(asked: Option<Word<ConfigKind>>) -> ConfigKind {
    asked.map_or(ConfigKind::Staging, |Word(kind)| kind)
}

fn shape(version: &AgentVersion) -> Version {
    Version {
        title: version.title.clone(),
        version_id: version.id.into(),
        automatic: version.automatic,
        created_at: Date(version.created_at),
        snapshot: version.snapshot.as_ref().map(WholeConfig::of),
    }
}
