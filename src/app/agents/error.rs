//! Errors of configurations, versions and templates, each with the remedy.

use crate::domain::agent_config::{ConfigId, ConfigKind};
use crate::domain::id::{AccountId, TemplateId};
use crate::store::{Locked, StoreError};

use crate::domain::fault::{Fault, sentence};

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("{}", sentence(.0))]
    Invalid(Vec<Fault>),
    /// The staged configuration, or a kept version, has mistakes and cannot be published.
    #[error("this cannot be published: {}", sentence(.0))]
    Incomplete(Vec<Fault>),

    // Configurations.
    #[error("the Agent has no configuration and no version of this id")]
    NoConfig,
    #[error("nothing was published yet: POST /agent/publish publishes what is staged")]
    NothingPublished,
    #[error("nothing is staged: POST /agent writes what is")]
    NothingStaged,
    #[error("nothing was published that staging could go back to")]
    NothingToRevertTo,
    #[error("{what} has revision {revision}, not {wanted}: read it, and decide again")]
    Stale { what: &'static str, revision: i64, wanted: i64 },
    #[error("the {0} was changed by another request at the same time: read it again and retry")]
    Busy(&'static str),
    #[error(
        "apps: {} is not installed on this Agent: POST /apps/{{appId}}/{{appVersion}} installs it",
        .0.join(", ")
    )]
    NotInstalled(Vec<String>),
    #[error(
        "the template {} ({}) locks {}: leave as it is what it locks; whoever manages the template \
         may detach the Agent",
        .0.name, .0.template, .0.fields.join(", ")
    )]
    Locked(Locked),
    #[error("the configuration would have {length} octets of JSON: at most {most}")]
    TooLarge { length: usize, most: usize },

    // Versions.
    #[error("this is the id of what is staged; versions hang on what is live: {live}")]
    StagedId { live: ConfigId },
    #[error("there is nothing in {0} that could be kept")]
    NothingToKeep(ConfigKind),
    #[error("an Agent has at most {most} versions: delete one first")]
    TooManyVersions { most: u32 },

    // Templates.
    #[error("there is no such template here: GET /templates lists those there are")]
    NoTemplate,
    #[error("an account has at most {most} templates: delete one first")]
    TooManyTemplates { most: u64 },
    #[error("this template belongs to account {0}: set targetAccountId to that to change it")]
    TemplateOf(AccountId),
    #[error(
        "the template is a draft: enable it first (POST /templates/{{templateId}} with enabled)"
    )]
    Draft,
    #[error(
        "Agents are linked with this template: detach them, or delete it with detachAll, which lets \
         them keep what they have"
    )]
    InUse,
    #[error("the Agent is linked with the template {0}: detach it first")]
    LinkedWith(TemplateId),
    #[error("the Agent is not linked with this template: there is nothing to detach")]
    NotLinked,
    #[error("account {0} is not linked with this template: leave it out of targetAccountIds")]
    TargetNotLinked(AccountId),
    #[error(
        "a migration of this template is under way: GET /templates/{{templateId}} shows how far it \
         has come"
    )]
    MigrationUnderWay,

    #[error(transparent)]
    Store(#[from] StoreError),
}
