//! Errors of configurations, versions and templates, each with the remedy.

use crate::domain::agent_config::{ConfigId, ConfigKind};
use crate::domain::id::{AccountId, TemplateId};
use crate::store::{LockedFields, StoreError};

use crate::domain::fault::{Fault, sentence};

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("{}", sentence(.0))]
    Invalid(Vec<Fault>),
    /// The staged configuration, or a kept version, has mistakes and cannot be published.
    #[error("this cannot be published: {}", sentence(.0))]
    Incomplete(Vec<Fault>),

    // Configurations.
    #[error("the Agent has no configuration and no version with this id")]
    NoConfig,
    #[error("nothing is published yet: publish the staged configuration with POST /agent/publish")]
    NothingPublished,
    #[error("nothing is staged: write the staged configuration with POST /agent")]
    NothingStaged,
    #[error("nothing is published yet, so staging has nothing to revert to")]
    NothingToRevertTo,
    #[error(
        "{what} has revision {revision}, not {wanted}: read {what} again before you send the change"
    )]
    Stale { what: &'static str, revision: i64, wanted: i64 },
    #[error("the {0} was changed by another request at the same time: read it again and retry")]
    Busy(&'static str),
    #[error(
        "apps: {} is not installed on this Agent: install it with POST \
         /apps/{{appId}}/{{appVersion}}",
        .0.join(", ")
    )]
    NotInstalled(Vec<String>),
    #[error(
        "the template {} ({}) locks {}: leave these fields unchanged, or ask the owner of the \
         template to detach the Agent",
        .0.name, .0.template, .0.fields.join(", ")
    )]
    Locked(LockedFields),
    #[error("the configuration would have {length} bytes of JSON: at most {most} are allowed")]
    TooLarge { length: usize, most: usize },

    // Versions.
    #[error(
        "this is the id of the staged configuration: send the id of the live one, which has the \
         versions: {live}"
    )]
    StagedId { live: ConfigId },
    #[error("there is nothing in {0} to keep as a version")]
    NothingToKeep(ConfigKind),
    #[error("an Agent has at most {most} versions: delete one first")]
    TooManyVersions { most: u32 },

    // Templates.
    #[error(
        "there is no such template in the scope of this request: GET /templates lists all in scope"
    )]
    NoTemplate,
    #[error("an account has at most {most} templates: delete one first")]
    TooManyTemplates { most: u64 },
    #[error(
        "this template belongs to account {0}: to change it, set targetAccountId to that account"
    )]
    TemplateOf(AccountId),
    #[error(
        "the template is a draft: enable it first (POST /templates/{{templateId}} with enabled)"
    )]
    Draft,
    #[error(
        "Agents are linked with this template: detach them, or delete the template with detachAll, \
         which leaves their configurations as they are"
    )]
    InUse,
    #[error("the Agent is linked with the template {0}: detach it first")]
    LinkedWith(TemplateId),
    #[error("the Agent is not linked with this template: there is nothing to detach")]
    NotLinked,
    #[error("account {0} is not linked with this template: leave it out of targetAccountIds")]
    TargetNotLinked(AccountId),
    #[error(
        "a migration of this template is under way: GET /templates/{{templateId}} shows its \
         progress"
    )]
    MigrationUnderWay,

    #[error(transparent)]
    Store(#[from] StoreError),
}
