//! `/templates` and `/createAgentFromTemplate`: what many Agents are configured to be.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::super::answer::success;
use super::super::call::Call;
use super::super::error::Problem;
use super::super::state::Http;
use super::template_parts::{
    Wish, approved, approved_shape, content, foreseen, integrations_shape, is_named, name,
    update_of, wish,
};
use crate::domain::account::AccountType;
use crate::domain::agent_config::ConfigKind;
use crate::domain::id::TemplateId;
use crate::domain::template::{Head, Link, Migration, Template};

/// What a new template may say of itself.
pub const NEW: &[&str] = &["name", "config", "fields", "integrations"];

/// What may be changed of one, and the migration to it.
pub const CHANGE: &[&str] =
    &["name", "enabled", "config", "fields", "integrations", "revision", "migrate"];

/// Makes a draft.
pub(in super::super) async fn create(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let update = update_of(&call, &http.rules)?;
    let name = name(&call, &http.rules)?.ok_or_else(|| {
        Problem::invalid("field name is missing: send what the template is called")
    })?;
    let made = call.agents(&http).create_template(call.account().id, name, &update).await?;
    let fields = json!({ "template": whole(&made) });
    Ok(success(StatusCode::CREATED, "template created as a draft", fields))
}

/// The target's own, and those of the accounts above it.
pub(in super::super) async fn list(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let found = call.agents(&http).templates(call.account()).await?;
    let fields = json!({ "templates": found.iter().map(head).collect::<Vec<_>>() });
    Ok(success(StatusCode::OK, "templates found", fields))
}

/// One of them; for its owner with its last migration, for an Agent with what links them.
pub(in super::super) async fn show(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let id = template_id(&call)?;
    let agents = call.agents(&http);
    let template = agents.template(call.account(), id).await?;
    let migration = match template.head.account == call.account().id {
        true => agents.migration(id).await?,
        false => None,
    };
    let link = match call.account().kind {
        AccountType::Agent => agents.template_link(call.account().id).await?,
        _ => None,
    };
    let link = link.filter(|link| link.template == id);
    let fields = json!({
        "template": whole(&template),
        "migration": migration.as_ref().map(progress),
        "link": link.as_ref().map(link_shape),
    });
    Ok(success(StatusCode::OK, "template found", fields))
}

/// Changes parts of a template, or asks for a migration to it.
pub(in super::super) async fn update(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let id = template_id(&call)?;
    if let Some(wished) = wish(&call, &http.rules)? {
        return migrate(&http, &call, id, &wished).await;
    }
    let mut update = update_of(&call, &http.rules)?;
    update.name = name(&call, &http.rules)?.map(str::to_owned);
    let changed = call.agents(&http).update_template(call.account(), id, &update).await?;
    Ok(success(StatusCode::OK, "template updated", json!({ "template": whole(&changed) })))
}

async fn migrate(
    http: &Http,
    call: &Call,
    id: TemplateId,
    wish: &Wish,
) -> Result<Response, Problem> {
    let (owner, agents) = (call.account(), call.agents(http));
    let what = (&wish.extent, wish.targets.as_ref());
    if wish.dry_run {
        let page = (wish.after, wish.limit);
        let found = agents.foresee_migration(owner, id, what, page).await?;
        let fields = json!({ "migration": foreseen(&found) });
        return Ok(success(StatusCode::OK, "migration foreseen; nothing was changed", fields));
    }
    let asked = agents.ask_migration(owner, id, what).await?;
    let fields = json!({ "migration": progress(&asked) });
    Ok(success(StatusCode::ACCEPTED, "migration queued", fields))
}

/// Deletes a template, which others may no longer be linked with.
pub(in super::super) async fn remove(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let id = template_id(&call)?;
    let detach_all = is_named(&call, "detachAll")?;
    call.agents(&http).delete_template(call.account(), id, detach_all).await?;
    let fields = json!({ "templateId": id.to_string() });
    Ok(success(StatusCode::OK, "template deleted", fields))
}

/// Brings a template to one Agent, or takes the link between the two away.
pub(in super::super) async fn apply(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let agent = call.account().id;
    let id = call.body().required_text("templateId")?.parse::<TemplateId>();
    let id = id.map_err(|_| Problem::invalid("templateId must be a UUID, as answers show it"))?;
    let approved = approved(call.body().get("approveOverrides"), "/approveOverrides")?;
    if call.body().flag("detach")?.unwrap_or(false) {
        // What it locks is locked for whoever manages the Agent.
        let owner = call.agents(&http).owner_of_link(call.account(), id).await?;
        call.manages(&http, owner).await?;
        call.agents(&http).detach_template(agent, id).await?;
        let gone = json!({ "accountId": agent.get(), "templateId": id.to_string() });
        let message = "template detached; the configuration stays";
        return Ok(success(StatusCode::OK, message, json!({ "detached": gone })));
    }
    let done = call.agents(&http).apply_template(agent, id, &approved).await?;
    let staging = done.configs.of(ConfigKind::Staging);
    let fields = json!({
        "agent": {
            "accountId": agent.get(),
            "templateId": id.to_string(),
            "templateRevision": done.template.head.revision,
            "campaignId": done.configs.live.id.to_string(),
            "agentConfigId": staging.id.to_string(),
            "revision": staging.revision,
            "changed": done.plan.changed,
            "overrides": done.plan.overrides,
            "requiredIntegrations": integrations_shape(&done.required),
        },
    });
    Ok(success(StatusCode::CREATED, "template applied to staging", fields))
}

fn template_id(call: &Call) -> Result<TemplateId, Problem> {
    call.uuid("templateId").map(TemplateId)
}

fn head(head: &Head) -> Value {
    json!({
        "id": head.id.to_string(),
        "accountId": head.account.get(),
        "name": head.name,
        "enabled": head.enabled,
        "revision": head.revision,
        "createdAt": head.created_at.to_string(),
        "updatedAt": head.updated_at.to_string(),
    })
}

fn whole(template: &Template) -> Value {
    let mut shape = head(&template.head);
    if let (Value::Object(shape), Value::Object(content)) = (&mut shape, content(&template.content))
    {
        shape.extend(content);
    }
    shape
}

fn link_shape(link: &Link) -> Value {
    json!({
        "accountId": link.agent.get(),
        "revision": link.revision,
        "linkedAt": link.linked_at.to_string(),
    })
}

fn progress(migration: &Migration) -> Value {
    let targets = migration.targets.as_ref();
    let targets = targets.map(|all| all.iter().map(|agent| agent.get()).collect::<Vec<_>>());
    let tally = &migration.tally;
    json!({
        "dryRun": false,
        "status": if migration.finished_at.is_some() { "finished" } else { "queued" },
        "revision": migration.revision,
        "sectionsToMigrate": migration.extent.sections,
        "approveOverrides": approved_shape(&migration.extent.approved),
        "targetAccountIds": targets,
        "requestedAt": migration.asked_at.to_string(),
        "finishedAt": migration.finished_at.map(|at| at.to_string()),
        "examined": tally.examined,
        "changed": tally.changed,
        "overridden": tally.overridden,
        "failed": tally.failed,
        "lastFailedAccountId": tally.last_failed.map(|agent| agent.get()),
    })
}
