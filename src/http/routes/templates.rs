//! `/templates` and `/createAgentFromTemplate`: configurations shared by many Agents.

use std::sync::Arc;

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::app::agents::schema::{Line, SomeFields};
use crate::app::agents::{AgentPage, Forecast, MigrationTargets, TemplateUpdate};
use crate::domain::account::AccountType;
use crate::domain::agent_config::ConfigKind;
use crate::domain::id::TemplateId;
use crate::http::error::Problem;
use crate::http::request::call::Call;
use crate::http::routes::template_parts::{
    Head, Integration, Link, Locks, Migrate, Migration, Overrides, Template, approved, integrations,
};
use crate::http::state::Http;
use crate::http::typed::page;
use crate::http::typed::{Either, Success, successes};
use crate::wire::{CampaignId, Id, Named, Number, Revision};

/// Creates a template, as a draft
///
/// The target is the reseller or the partner that owns the template.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Create {
    /// Name of the template.
    name: Line,
    /// Fields of a configuration, as POST /agent takes them.
    #[schemars(example = json!({ "agentLang": "en-US" }))]
    config: Option<SomeFields>,
    fields: Option<Locks>,
    /// Integrations that must be set up on Agents.
    #[schemars(extend("uniqueItems" = true, "maxItems" = "templates.max_integrations"))]
    integrations: Option<Vec<Integration>>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Created {
    template: Template,
}

/// Creates a draft.
pub async fn create(http: Arc<Http>, call: Call, asked: Create) -> Result<Created, Problem> {
    let Line(name) = asked.name;
    let update = TemplateUpdate {
        config: asked.config.map(|SomeFields(config)| config),
        fields: asked.fields.map(Locks::locked),
        integrations: asked.integrations.map(|all| all.into_iter().map(Into::into).collect()),
        ..TemplateUpdate::default()
    };
    let made = call.agents(&http).create_template(call.account().id, &name, &update).await?;
    Ok(Created { template: made.into() })
}

/// Lists the templates of an account and of the accounts above it
#[derive(Debug, Deserialize, JsonSchema)]
pub struct List {}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Listed {
    /// Oldest first.
    templates: Vec<Head>,
}

pub async fn list(http: Arc<Http>, call: Call, _: List) -> Result<Listed, Problem> {
    let found = call.agents(&http).templates(call.account()).await?;
    Ok(Listed { templates: found.iter().map(Head::from).collect() })
}

/// Shows a template
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Show {
    /// The template.
    template_id: Id,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct TemplateAnswer {
    template: Template,
    /// Last migration, for the owner of the template.
    migration: Option<Migration>,
    /// Link to the template, for an Agent that it was applied to.
    link: Option<Link>,
}

/// Returns a template: for its owner with the last migration, for an Agent with its link.
pub async fn show(http: Arc<Http>, call: Call, asked: Show) -> Result<TemplateAnswer, Problem> {
    let (id, agents) = (TemplateId(asked.template_id.0), call.agents(&http));
    let template = agents.template(call.account(), id).await?;
    let migration = match template.head.account == call.account().id {
        true => agents.migration(id).await?,
        false => None,
    };
    let link = match call.account().kind {
        AccountType::Agent => agents.template_link(call.account().id).await?,
        _ => None,
    };
    let link = link.filter(|link| link.template == id).map(Link::from);
    Ok(TemplateAnswer {
        template: template.into(),
        migration: migration.map(Migration::from),
        link,
    })
}

/// Changes a template, or migrates Agents to it
///
/// Fields that are not sent stay. Linked Agents stay unchanged until a migration (migrate, sent
/// alone) brings the template to them; locks take effect at once.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct Update {
    /// The template.
    template_id: Id,
    /// Name of the template.
    name: Option<Line>,
    /// Whether the template may be applied.
    enabled: Option<bool>,
    /// Fields of a configuration, as POST /agent takes them.
    #[schemars(example = json!({ "agentLang": "en-US" }))]
    config: Option<SomeFields>,
    fields: Option<Locks>,
    /// Integrations that must be set up on Agents.
    #[schemars(extend("uniqueItems" = true, "maxItems" = "templates.max_integrations"))]
    integrations: Option<Vec<Integration>>,
    /// Refuses the change if the template has another revision.
    revision: Option<Revision>,
    migrate: Option<Migrate>,
}

/// The changed template, or the forecast of a migration.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Updated {
    /// The template, after a change.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Template")]
    template: Option<Template>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Forecast")]
    migration: Option<Forecast>,
}

impl Success for Updated {
    const STATUS: StatusCode = StatusCode::OK;
    const MESSAGE: &'static str = "template updated, or migration forecast without changes";

    fn message(&self) -> &'static str {
        match self.migration {
            Some(_) => "migration forecast; nothing was changed",
            None => "template updated",
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Queued {
    migration: Migration,
}

/// Changes parts of a template, or requests a migration to it.
pub async fn update(
    http: Arc<Http>,
    call: Call,
    asked: Update,
) -> Result<Either<Updated, Queued>, Problem> {
    let id = TemplateId(asked.template_id.0);
    let update = TemplateUpdate {
        name: asked.name.map(|Line(name)| name),
        enabled: asked.enabled,
        revision: asked.revision.map(|Revision(revision)| revision),
        config: asked.config.map(|SomeFields(config)| config),
        fields: asked.fields.map(Locks::locked),
        integrations: asked.integrations.map(|all| all.into_iter().map(Into::into).collect()),
    };
    match asked.migrate {
        Some(migrate) if update == TemplateUpdate::default() => {
            self::migrate(&http, &call, id, migrate).await
        }
        Some(_) => Err(Problem::invalid(
            "a migration applies the stored template: change the template first, then send migrate \
             alone",
        )),
        None => {
            let changed = call.agents(&http).update_template(call.account(), id, &update).await?;
            Ok(Either::This(Updated { template: Some(changed.into()), migration: None }))
        }
    }
}

async fn migrate(
    http: &Http,
    call: &Call,
    id: TemplateId,
    mut asked: Migrate,
) -> Result<Either<Updated, Queued>, Problem> {
    let (owner, agents) = (call.account(), call.agents(http));
    let after = asked.after.map(|Named(id)| id);
    let page = AgentPage { after, limit: page::at_most(asked.limit, &http.rules) };
    let targets = asked.target_account_ids.take();
    let targets = targets.map(|all| all.into_iter().map(|Named(id)| id).collect());
    let (is_dry, extent) = (asked.dry_run, asked.extent());
    let wanted = MigrationTargets { extent: &extent, agents: targets.as_ref() };
    if is_dry {
        let found = agents.forecast_migration(owner, id, &wanted, page).await?;
        return Ok(Either::This(Updated { template: None, migration: Some(found) }));
    }
    let asked = agents.ask_migration(owner, id, &wanted).await?;
    Ok(Either::That(Queued { migration: asked.into() }))
}

/// Deletes a template
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Remove {
    /// The template.
    template_id: Id,
    /// Whether to delete the template even if Agents are linked with it.
    #[serde(default)]
    detach_all: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Removed {
    /// Id of the template.
    template_id: Id,
}

/// Deletes a template. Fails while Agents are linked to it, unless `detachAll` is true.
pub async fn remove(http: Arc<Http>, call: Call, asked: Remove) -> Result<Removed, Problem> {
    let (template_id, agents) = (asked.template_id, call.agents(&http));
    agents.delete_template(call.account(), TemplateId(template_id.0), asked.detach_all).await?;
    Ok(Removed { template_id })
}

/// Applies a template to an Agent
///
/// Writes the template to the staging of the Agent. With detach, sent by the owner of the template
/// or from above it, the link is removed instead: the configuration stays, and its locks end.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Apply {
    /// The template.
    template_id: Id,
    /// Fields changed by the customer that may be overwritten.
    #[schemars(extend("x-null" = true), example = false)]
    approve_overrides: Option<Overrides>,
    /// Whether to remove the link instead.
    #[serde(default)]
    #[schemars(example = false)]
    detach: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Applied {
    agent: AppliedTo,
}

/// The result of applying a template.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct AppliedTo {
    /// The Agent.
    account_id: Number,
    /// The template.
    template_id: Id,
    /// Revision of the template.
    template_revision: Revision,
    /// Id of the live configuration, which did not change.
    campaign_id: CampaignId,
    /// Id of the staged configuration.
    agent_config_id: CampaignId,
    /// New revision of the staged configuration.
    revision: Revision,
    /// Fields of staging that changed.
    changed: Vec<String>,
    /// Fields changed by the customer that stayed.
    overrides: Vec<String>,
    /// Integrations that must be set up on the Agent.
    required_integrations: Vec<Integration>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Detached {
    detached: Former,
}

/// The link that was removed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Former {
    /// The Agent.
    account_id: Number,
    /// The template.
    template_id: Id,
}

successes! {
    Created = CREATED "template created as a draft";
    Listed = OK "templates found";
    TemplateAnswer = OK "template found";
    Queued = ACCEPTED "migration queued";
    Removed = OK "template deleted";
    Applied = CREATED "template applied to staging";
    Detached = OK "template detached; the configuration stays";
}

/// Applies a template to one Agent, or removes the link between them.
pub async fn apply(
    http: Arc<Http>,
    call: Call,
    asked: Apply,
) -> Result<Either<Applied, Detached>, Problem> {
    let (agent, template_id) = (call.account().id, asked.template_id);
    let (id, agents) = (TemplateId(template_id.0), call.agents(&http));
    let account_id = Number::from(agent);
    if asked.detach {
        // Its locks bind the Agent's managers, so only the owner of the template may remove the
        // link.
        let owner = agents.owner_of_link(call.account(), id).await?;
        call.manages(&http, owner).await?;
        agents.detach_template(agent, id).await?;
        return Ok(Either::That(Detached { detached: Former { account_id, template_id } }));
    }
    let done = agents.apply_template(agent, id, &approved(asked.approve_overrides)).await?;
    let staging = done.configs.of(ConfigKind::Staging);
    let agent = AppliedTo {
        account_id,
        template_id,
        template_revision: Revision(done.template.head.revision),
        campaign_id: CampaignId(done.configs.live.id),
        agent_config_id: CampaignId(staging.id),
        revision: Revision(staging.revision),
        changed: done.plan.changed,
        overrides: done.plan.overrides,
        required_integrations: integrations(&done.template.content.integrations),
    };
    Ok(Either::This(Applied { agent }))
}
