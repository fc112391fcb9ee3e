//! `/templates` and `/createAgentFromTemplate`: configurations shared by many Agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::app::agents::schema::{Line, SomeFields};
use crate::app::agents::{AgentPage, Forecast, MigrationTargets, TemplateUpdate};
use crate::domain::account::AccountType;
use crate::domain::agent_config::ConfigKind;
use crate::domain::id::TemplateId;
use crate::http::routes::template_parts::{
    Head, Integration, Link, Locks, Migrate, Migration, Overrides, Template, approved, integrations,
};
use crate::http::typed::{Call, Either, Problem, page, successes};
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

/// Creates a draft.
pub async fn create(call: Call, request: Create) -> Result<Created, Problem> {
    let Line(name) = request.name;
    let update = TemplateUpdate {
        config: request.config.map(|SomeFields(config)| config),
        fields: request.fields.map(Locks::locked),
        integrations: request.integrations.map(|all| all.into_iter().map(Into::into).collect()),
        ..TemplateUpdate::default()
    };
    let made = call.agents().create_template(call.account().id, &name, &update).await?;
    Ok(Created { template: made.into() })
}

/// Lists the templates of an account and of the accounts above it
#[derive(Debug, Deserialize, JsonSchema)]
pub struct List {}

pub async fn list(call: Call, _: List) -> Result<Listed, Problem> {
    let found = call.agents().templates(call.account()).await?;
    Ok(Listed { templates: found.iter().map(Head::from).collect() })
}

/// Shows a template
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Show {
    /// The template.
    template_id: Id,
}

/// Returns a template: for its owner with the last migration, for an Agent with its link.
pub async fn show(call: Call, request: Show) -> Result<TemplateAnswer, Problem> {
    let (id, agents) = (TemplateId(request.template_id.0), call.agents());
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

impl Updated {
    fn own_message(&self) -> &'static str {
        match self.migration {
            Some(_) => "migration forecast; nothing was changed",
            None => "template updated",
        }
    }
}

/// Changes parts of a template, or requests a migration to it; 400 for both.
pub async fn update(call: Call, request: Update) -> Result<Either<Updated, Queued>, Problem> {
    let id = TemplateId(request.template_id.0);
    let update = TemplateUpdate {
        name: request.name.map(|Line(name)| name),
        enabled: request.enabled,
        revision: request.revision.map(|Revision(revision)| revision),
        config: request.config.map(|SomeFields(config)| config),
        fields: request.fields.map(Locks::locked),
        integrations: request.integrations.map(|all| all.into_iter().map(Into::into).collect()),
    };
    match request.migrate {
        Some(migrate) if update == TemplateUpdate::default() => {
            self::migrate(&call, id, migrate).await
        }
        Some(_) => Err(Problem::invalid(
            "a migration applies the stored template: change the template first, then send migrate \
             alone",
        )),
        None => {
            let changed = call.agents().update_template(call.account(), id, &update).await?;
            Ok(Either::This(Updated { template: Some(changed.into()), migration: None }))
        }
    }
}

async fn migrate(
    call: &Call,
    id: TemplateId,
    mut request: Migrate,
) -> Result<Either<Updated, Queued>, Problem> {
    let (owner, agents) = (call.account(), call.agents());
    let after = request.after.map(|Named(id)| id);
    let page = AgentPage { after, limit: page::limit(call, request.limit) };
    let targets = request.target_account_ids.take();
    let targets = targets.map(|all| all.into_iter().map(|Named(id)| id).collect());
    let (is_dry, extent) = (request.dry_run, request.extent());
    let wanted = MigrationTargets { extent: &extent, agents: targets.as_ref() };
    if is_dry {
        let found = agents.forecast_migration(owner, id, &wanted, page).await?;
        return Ok(Either::This(Updated { template: None, migration: Some(found) }));
    }
    let request = agents.ask_migration(owner, id, &wanted).await?;
    Ok(Either::That(Queued { migration: request.into() }))
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

/// Deletes a template. Fails while Agents are linked to it, unless `detachAll` is true.
pub async fn remove(call: Call, request: Remove) -> Result<Removed, Problem> {
    let (template_id, agents) = (request.template_id, call.agents());
    agents.delete_template(call.account(), TemplateId(template_id.0), request.detach_all).await?;
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
    Created { template: Template } = CREATED "template created as a draft";
    Listed {
        /// Oldest first.
        templates: Vec<Head>
    } = OK "templates found";
    TemplateAnswer {
        template: Template,
        /// Last migration, for the owner of the template.
        migration: Option<Migration>,
        /// Link to the template, for an Agent that it was applied to.
        link: Option<Link>,
    } = OK "template found";
    Queued { migration: Migration } = ACCEPTED "migration queued";
    Removed {
        /// Id of the template.
        template_id: Id
    } = OK "template deleted";
    Applied { agent: AppliedTo } = CREATED "template applied to staging";
    Detached { detached: Former } = OK "template detached; the configuration stays";
    Updated {
        /// The template, after a change.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Template")]
        template: Option<Template>,
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Forecast")]
        migration: Option<Forecast>,
    } = OK "template updated, or migration forecast without changes", varies;
}

/// Applies a template to one Agent, or removes the link between them.
pub async fn apply(call: Call, request: Apply) -> Result<Either<Applied, Detached>, Problem> {
    let (agent, template_id) = (call.account().id, request.template_id);
    let (id, agents) = (TemplateId(template_id.0), call.agents());
    let account_id = Number::from(agent);
    if request.detach {
        // Its locks bind the Agent's managers, so only the owner of the template may remove the
        // link.
        let owner = agents.owner_of_link(call.account(), id).await?;
        call.manages(owner).await?;
        agents.detach_template(agent, id).await?;
        return Ok(Either::That(Detached { detached: Former { account_id, template_id } }));
    }
    let done = agents.apply_template(agent, id, &approved(request.approve_overrides)).await?;
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
