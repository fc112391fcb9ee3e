//! Errors of apps and integrations, each with the remedy; none repeats a value that was sent.

use crate::app::vault::VaultError;
use crate::domain::agent_config::ConfigKind;
use crate::domain::app::AppRef;
use crate::domain::feature::Feature;
use crate::store::StoreError;

use super::settings::SettingError;

#[derive(Debug, thiserror::Error)]
pub enum AppsError {
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error("at most {most} fields are kept of one app")]
    TooManyFields { most: usize },
    #[error("what is kept of one app has at most {most} octets: send less")]
    TooLarge { most: usize },
    #[error("the catalogue has no such app in this version: GET /apps lists what it has")]
    NotOffered,
    #[error("{0} is not in the catalogue any more: it can only be removed")]
    Withdrawn(AppRef),
    #[error(
        "the Agent has no such app in this version: install it by POST, GET /apps lists what there \
         is"
    )]
    NotInstalled,
    #[error("{0} is installed: change its settings by PUT, or remove it first")]
    Installed(AppRef),
    #[error("an Agent has at most {most} apps: remove one first")]
    TooManyApps { most: u64 },
    #[error("the configuration {kind} of this Agent assigns {app}: take it out of its apps first")]
    Assigned { app: AppRef, kind: ConfigKind },
    #[error("the account keeps no data of this integration: PUT keeps some")]
    NoIntegration,
    #[error("an account has at most {most} integrations: send fewer")]
    TooManySent { most: u64 },
    #[error("integrations has {0} twice: send all its data at once")]
    Twice(AppRef),
    #[error("an account has at most {most} integrations: use one that is there")]
    TooManyIntegrations { most: u64 },
    #[error("changed by another request at the same time: read it again and retry")]
    Busy,
    #[error("the account does not have the feature {0}")]
    Feature(Feature),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error(transparent)]
    Store(#[from] StoreError),
}
