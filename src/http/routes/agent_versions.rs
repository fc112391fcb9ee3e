//! `/agent/{agentConfigId}/versions`: stored configurations of an Agent. The path names the Agent
//! by the id of its live configuration.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::app::agents::schema::{Line, SomeFields, WholeConfig};
use crate::domain::agent_config::{AgentVersion, ConfigKind, VersionId};
use crate::domain::id::AccountId;
use crate::http::routes::agents::check_delegate;
use crate::http::typed::{Call, Problem, WithHeaders, page, successes};
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
pub async fn list(call: Call, request: List) -> Result<WithHeaders<Listed>, Problem> {
    let AgentRules { max_versions, max_automatic_versions, .. } = call.http.rules.agents;
    let limit = request.limit.unwrap_or(max_versions.saturating_add(max_automatic_versions));
    let before = request.before.map(|Named(id)| id);
    let agent = agent_with_live(&call, request.agent_config_id).await?;
    let page = call.agents().versions(agent, before, limit, request.include_data).await?;
    let versions = page.versions.iter().map(shape).collect();
    let answer = Listed { versions, next: page.next.map(Number::from) };
    Ok(page::followed(&call, "before", page.next, answer))
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

pub async fn create(call: Call, request: Create) -> Result<Created, Problem> {
    let (Line(title), source) = (request.title, kind(request.source));
    let agent = agent_with_live(&call, request.agent_config_id).await?;
    let id = call.agents().keep_version(agent, &title, source).await?;
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

pub async fn replace(call: Call, request: Replace) -> Result<Replaced, Problem> {
    let (Named(id), SomeFields(snapshot)) = (request.version_id, request.snapshot);
    let agent = agent_with_live(&call, request.agent_config_id).await?;
    check_delegate(&call, &snapshot).await?;
    call.agents().replace_version(agent, id, &snapshot, "/snapshot").await?;
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

pub async fn restore(call: Call, request: Restore) -> Result<HasBeenRestored, Problem> {
    let (Named(id), target) = (request.version_id, kind(request.target));
    let agent = agent_with_live(&call, request.agent_config_id).await?;
    let done = call.agents().restore_version(agent, id, target).await?;
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

pub async fn rename(call: Call, request: Rename) -> Result<Renamed, Problem> {
    let (Named(id), Line(title)) = (request.version_id, request.title);
    let agent = agent_with_live(&call, request.agent_config_id).await?;
    call.agents().rename_version(agent, id, &title).await?;
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

successes! {
    Listed {
        /// Newest first.
        versions: Vec<Version>,
        /// Send it as `before` to get the next page; null on the last page.
        #[schemars(example = ID)]
        next: Option<Number>,
    } = OK "versions found", pages;
    Created { created_version: New } = CREATED "version created";
    Replaced {
        /// Id of the version.
        #[schemars(example = ID)]
        version_id: Number,
    } = OK "version replaced";
    HasBeenRestored { restored: Restored } = OK "version restored";
    Renamed {
        /// Id of the version.
        #[schemars(example = ID)]
        version_id: Number,
        /// New title of the version.
        #[schemars(example = TITLE)]
        new_title: String,
    } = OK "version renamed";
    Removed {
        /// Id of the version.
        #[schemars(example = ID)]
        version_id: Number,
    } = OK "version deleted";
}

pub async fn remove(call: Call, request: Remove) -> Result<Removed, Problem> {
    let Named(id) = request.version_id;
    let agent = agent_with_live(&call, request.agent_config_id).await?;
    call.agents().delete_version(agent, id).await?;
    Ok(Removed { version_id: id.into() })
}

/// Returns the Agent; fails with 404 unless the path names its live configuration.
async fn agent_with_live(call: &Call, CampaignId(id): CampaignId) -> Result<AccountId, Problem> {
    let agent = call.account().id;
    call.agents().live(agent, id).await?;
    Ok(agent)
}

fn kind(request: Option<Word<ConfigKind>>) -> ConfigKind {
    request.map_or(ConfigKind::Staging, |Word(kind)| kind)
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
