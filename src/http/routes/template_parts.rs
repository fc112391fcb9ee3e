//! Parts of templates and migrations, in requests and answers.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::app::agents::schema::{FieldName, Line, SomeFields};
use crate::domain::id::AccountId;
use crate::domain::template::{self, Approved, Content, Extent};
use crate::http::typed::Limit;
use crate::wire::{Date, Id, Named, Number, Revision};

/// A template without its content.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TemplateHead")]
pub struct Head {
    /// Id of the template.
    id: Id,
    /// Reseller or partner that owns the template.
    account_id: Number,
    /// Name of the template.
    name: String,
    /// Whether the template may be applied; a draft may not.
    enabled: bool,
    /// Grows with each change of the content.
    revision: Revision,
    /// Time at which the template was made.
    created_at: Date,
    /// Time of the last change.
    updated_at: Date,
}

/// A template.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Template {
    #[serde(flatten)]
    head: Head,
    /// Fields of a configuration that the template sets.
    #[schemars(example = json!({ "agentLang": "en-US" }))]
    config: SomeFields,
    fields: Locks,
    /// Integrations that must be set up on Agents.
    integrations: Vec<Integration>,
}

/// An integration, by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TemplateIntegration")]
#[serde(deny_unknown_fields)]
pub struct Integration {
    /// Name of the integration.
    #[schemars(example = &"crm")]
    slug: Line,
    /// Version of the integration.
    #[schemars(example = &"1")]
    version: Line,
}

/// Fields of a configuration, and whether each is locked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Locks(BTreeMap<String, Lock>);

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Lock {
    #[serde(default)]
    locked: bool,
}

impl JsonSchema for Locks {
    fn schema_name() -> Cow<'static, str> {
        "TemplateFields".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let locked = "Whether linked Agents may not change the field; false without it.";
        let one = json!({
            "type": "object", "additionalProperties": false,
            "properties": { "locked": { "type": "boolean", "description": locked } },
        });
        json_schema!({
            "type": "object", "additionalProperties": one,
            "propertyNames": generator.subschema_for::<FieldName>(),
            "description": "Fields of a configuration, and whether each is locked: linked Agents may not \
                            change a locked field.",
            "examples": [{ "agentLang": { "locked": true } }],
        })
    }
}

/// Fields changed by Agents that a template may overwrite: all, none, or the named ones.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum Overrides {
    All(bool),
    Of(Vec<FieldName>),
}

/// A migration of all linked Agents, or of some.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(inline, example = json!({ "dryRun": true }))]
pub struct Migrate {
    /// Whether to report only what would change.
    #[serde(default)]
    pub dry_run: bool,
    /// Fields of the configuration to migrate; all without it.
    #[schemars(extend("x-null" = true))]
    sections_to_migrate: Option<Vec<FieldName>>,
    /// Fields changed by customers that may be overwritten.
    #[schemars(extend("x-null" = true), example = false)]
    approve_overrides: Option<Overrides>,
    /// Agents to migrate; all linked ones without it.
    #[schemars(extend("x-null" = true, "minItems" = 1, "maxItems" = "templates.max_targets"))]
    pub target_account_ids: Option<Vec<Named<AccountId>>>,
    /// For a dry run: only Agents after this one (`next`, or the id of an Agent).
    pub after: Option<Named<AccountId>>,
    pub limit: Option<Limit>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
enum Status {
    Queued,
    Finished,
}

/// A migration of Agents to a template.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TemplateMigration")]
pub struct Migration {
    /// Always false.
    #[schemars(example = false)]
    dry_run: bool,
    /// State of the migration.
    status: Status,
    /// Revision of the template at the time of the request.
    revision: Revision,
    /// Fields to migrate; null for all.
    sections_to_migrate: Option<Vec<FieldName>>,
    /// Fields changed by customers that may be overwritten.
    #[schemars(example = false)]
    approve_overrides: Overrides,
    /// Agents to migrate; null for all linked ones.
    target_account_ids: Option<Vec<Number>>,
    /// Time of the request.
    requested_at: Date,
    /// Time at which the migration finished.
    finished_at: Option<Date>,
    /// Number of Agents examined.
    examined: u64,
    /// Number of Agents whose staging changed.
    changed: u64,
    /// Number of Agents that kept a value of their customer.
    overridden: u64,
    /// Number of Agents left unchanged: too large, or without an app that the template assigns.
    failed: u64,
    /// Last Agent that was left unchanged.
    last_failed_account_id: Option<Number>,
}

/// The link between a template and an Agent that it was applied to.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Link {
    /// The Agent.
    account_id: Number,
    /// Revision of the template that was last applied whole.
    revision: Revision,
    /// Time at which the template was first applied.
    linked_at: Date,
}

impl Migrate {
    /// Returns the extent of the migration.
    pub fn extent(self) -> Extent {
        let sections = self.sections_to_migrate;
        Extent {
            sections: sections.map(|names| names.into_iter().map(|FieldName(name)| name).collect()),
            approved: approved(self.approve_overrides),
        }
    }
}

/// Approves nothing by default.
pub(super) fn approved(overrides: Option<Overrides>) -> Approved {
    match overrides {
        None | Some(Overrides::All(false)) => Approved::Nothing,
        Some(Overrides::All(true)) => Approved::Everything,
        Some(Overrides::Of(names)) => {
            Approved::Fields(names.into_iter().map(|FieldName(name)| name).collect())
        }
    }
}

impl Locks {
    pub fn locked(self) -> BTreeMap<String, bool> {
        self.0.into_iter().map(|(name, lock)| (name, lock.locked)).collect()
    }
}

impl From<Integration> for template::Integration {
    fn from(Integration { slug: Line(slug), version: Line(version) }: Integration) -> Self {
        Self { slug, version }
    }
}

pub(super) fn integrations(all: &[template::Integration]) -> Vec<Integration> {
    let one = |one: &template::Integration| Integration {
        slug: Line(one.slug.clone()),
        version: Line(one.version.clone()),
    };
    all.iter().map(one).collect()
}

impl From<&template::Head> for Head {
    fn from(head: &template::Head) -> Self {
        Self {
            id: Id(head.id.0),
            account_id: head.account.into(),
            name: head.name.clone(),
            enabled: head.enabled,
            revision: Revision(head.revision),
            created_at: Date(head.created_at),
            updated_at: Date(head.updated_at),
        }
    }
}

impl From<template::Template> for Template {
    fn from(template: template::Template) -> Self {
        let Content { config, fields, integrations: all } = template.content;
        let locks = fields.into_iter().map(|(name, locked)| (name, Lock { locked }));
        Self {
            head: Head::from(&template.head),
            config: SomeFields(config),
            fields: Locks(locks.collect()),
            integrations: integrations(&all),
        }
    }
}

impl From<template::Migration> for Migration {
    fn from(migration: template::Migration) -> Self {
        let template::Migration { revision, extent, targets, asked_at, finished_at, tally } =
            migration;
        let names = |names: BTreeSet<String>| names.into_iter().map(FieldName).collect::<Vec<_>>();
        Self {
            dry_run: false,
            status: finished_at.map_or(Status::Queued, |_| Status::Finished),
            revision: Revision(revision),
            sections_to_migrate: extent.sections.map(names),
            approve_overrides: match extent.approved {
                Approved::Nothing => Overrides::All(false),
                Approved::Everything => Overrides::All(true),
                Approved::Fields(fields) => Overrides::Of(names(fields)),
            },
            target_account_ids: targets.map(|all| all.into_iter().map(Number::from).collect()),
            requested_at: Date(asked_at),
            finished_at: finished_at.map(Date),
            examined: tally.examined,
            changed: tally.changed,
            overridden: tally.overridden,
            failed: tally.failed,
            last_failed_account_id: tally.last_failed.map(Number::from),
        }
    }
}

impl From<template::Link> for Link {
    fn from(link: template::Link) -> Self {
        Self {
            account_id: link.agent.into(),
            revision: Revision(link.revision),
            linked_at: Date(link.linked_at),
        }
    }
}
