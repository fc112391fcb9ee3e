//! `/agent` and `/agentEventRules`: the configuration of an Agent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::app::agents::Changed as Outcome;
use crate::app::agents::schema::{self, SomeFields, WholeConfig};
use crate::http::typed::{Call, Problem, successes};

use crate::domain::agent_config::{Config, ConfigKind};
use crate::wire::{CampaignId, Date, Number, Revision, Word};

/// Changes the staged configuration of an Agent
///
/// A field that is not sent keeps its value, null removes the value, and a list is replaced. All
/// mistakes are reported at once, each with its place. Changes take effect when they are published.
/// The fields are for the platform that runs the Agent; this server only stores them.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(
    extend("minProperties" = 1),
    example = json!({
        "type": "chatAgent", "title": "Call Screener", "description": "Answers the phone.",
        "links": ["https://service.example/faq"], "timezone": null,
    })
)]
pub struct Stage {
    /// Refuses the change if staging has another revision.
    revision: Option<Revision>,
    #[serde(flatten)]
    fields: SomeFields,
}

/// The result of a change.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Changed {
    /// Id of the live configuration.
    campaign_id: CampaignId,
    /// New revision of the configuration that changed.
    revision: Revision,
    /// Fields that changed.
    #[schemars(example = ["title"])]
    changed: Vec<String>,
}

/// Writes fields of staging; other fields keep their values.
pub async fn stage(call: Call, request: Stage) -> Result<Staged, Problem> {
    let SomeFields(fields) = request.fields;
    if fields.is_empty() {
        return Err(Problem::invalid(
            "the body has no field of a configuration: send the fields to change",
        ));
    }
    check_delegate(&call, &fields).await?;
    let revision = request.revision.map(|Revision(revision)| revision);
    let changed = call.agents().stage(call.account().id, &fields, revision).await?;
    Ok(Staged(changed_in(ConfigKind::Staging, &changed)))
}

/// Publishes the staged configuration of an Agent
///
/// Answers 409 with all missing fields, if there are any. The configuration that was live is kept
/// as a version.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Publish {
    /// Refuses to publish if staging has another revision.
    revision: Option<Revision>,
}

/// Makes the staged configuration live.
pub async fn publish(call: Call, request: Publish) -> Result<Published, Problem> {
    let revision = request.revision.map(|Revision(revision)| revision);
    let done = call.agents().publish(call.account().id, revision).await?;
    let changed = changed_in(ConfigKind::Default, &done);
    Ok(Published { changed, previous_version_id: done.previous.map(Number::from) })
}

/// Resets the staged configuration to the live one
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Revert {
    /// Refuses to revert if staging has another revision.
    revision: Option<Revision>,
}

/// Replaces staging by the live configuration.
pub async fn revert(call: Call, request: Revert) -> Result<Reverted, Problem> {
    let revision = request.revision.map(|Revision(revision)| revision);
    let changed = call.agents().revert(call.account().id, revision).await?;
    Ok(Reverted(changed_in(ConfigKind::Staging, &changed)))
}

/// Shows the staged configuration of an Agent
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ShowStaging {}

/// One of the two configurations of an Agent.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigurationAnswer {
    /// The configuration; null before the first change.
    agent_event_rules: Option<WholeConfig>,
    /// Id of the live configuration; null before the first change of staging.
    campaign_id: Option<CampaignId>,
    /// Id of this configuration.
    agent_config_id: Option<CampaignId>,
    /// Grows with each change; 0 before the first.
    revision: Revision,
    /// Time of the last change.
    updated_at: Option<Date>,
}

pub async fn staging(call: Call, _: ShowStaging) -> Result<StagingFound, Problem> {
    show(&call, ConfigKind::Staging).await.map(StagingFound)
}

/// Shows the live configuration of an Agent
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ShowLive {}

pub async fn live(call: Call, _: ShowLive) -> Result<LiveFound, Problem> {
    show(&call, ConfigKind::Default).await.map(LiveFound)
}

/// Shows a configuration by id
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Show {
    /// Id of the staged or the live configuration.
    agent_config_id: CampaignId,
}

/// A configuration with its id.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Sponsorship {
    /// Id of the configuration.
    id: CampaignId,
    /// The Agent.
    account_id: Number,
    /// Whether the configuration is staged or live (default).
    kind: Word<ConfigKind>,
    /// Grows with each change.
    revision: Revision,
    /// Time of the last change.
    updated_at: Date,
    #[serde(flatten)]
    config: WholeConfig,
}

successes! {
    Staged: Changed = OK "staging saved";
    Published {
        #[serde(flatten)]
        changed: Changed,
        /// Version that keeps the former live configuration; null if nothing was replaced.
        #[schemars(example = 1_750_195_000_123_i64)]
        previous_version_id: Option<Number>,
    } = OK "staging published";
    Reverted: Changed = OK "staging reset to the live configuration";
    StagingFound: ConfigurationAnswer = OK "staging found";
    LiveFound: ConfigurationAnswer = OK "live configuration found";
    AgentAnswer { sponsorship: Sponsorship } = OK "configuration found";
}

/// Returns a configuration by id; 404 for a live one before the first publication.
pub async fn config(call: Call, request: Show) -> Result<AgentAnswer, Problem> {
    let account = call.account().id;
    let found = call.agents().config(account, request.agent_config_id.0).await?;
    let sponsorship = Sponsorship {
        id: CampaignId(found.id),
        account_id: account.into(),
        kind: Word(found.kind),
        revision: Revision(found.revision),
        updated_at: Date(found.updated_at),
        config: WholeConfig::of(&found.config),
    };
    Ok(AgentAnswer { sponsorship })
}

/// Fails unless the caller reaches the Agent that work is delegated to. A delegate that is set
/// already may stay, whoever set it.
pub(super) async fn check_delegate(call: &Call, fields: &Config) -> Result<(), Problem> {
    let Some(wanted) = schema::delegate(fields) else { return Ok(()) };
    let configs = call.agents().configs(call.account().id).await?;
    let both = configs.into_iter().flat_map(|configs| [configs.staging, configs.live]);
    let known = both.filter_map(|one| schema::delegate(&one.config)).any(|one| one == wanted);
    if known { Ok(()) } else { call.neighbour(wanted).await }
}

async fn show(call: &Call, kind: ConfigKind) -> Result<ConfigurationAnswer, Problem> {
    let configs = call.agents().configs(call.account().id).await?;
    let one = configs.as_ref().map(|configs| configs.of(kind));
    let set = one.filter(|one| one.is_set());
    Ok(ConfigurationAnswer {
        agent_event_rules: set.map(|one| WholeConfig::of(&one.config)),
        campaign_id: configs.as_ref().map(|configs| CampaignId(configs.live.id)),
        agent_config_id: one.map(|one| CampaignId(one.id)),
        revision: Revision(one.map_or(0, |one| one.revision)),
        updated_at: set.map(|one| Date(one.updated_at)),
    })
}

fn changed_in(kind: ConfigKind, changed: &Outcome) -> Changed {
    Changed {
        campaign_id: CampaignId(changed.configs.live.id),
        revision: Revision(changed.configs.of(kind).revision),
        changed: changed.fields.clone(),
    }
}
