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
    #[error("one app can have at most {most} fields: send fewer")]
    TooManyFields { most: usize },
    #[error("the fields of one app must have at most {most} bytes together: send less")]
    TooLarge { most: usize },
    #[error("the catalogue does not have this version of the app: GET /apps lists the catalogue")]
    NotOffered,
    #[error("{0} is no longer in the catalogue: it can only be removed")]
    Withdrawn(AppRef),
    #[error(
        "this version of the app is not installed on the Agent: install it with POST; GET /apps \
         lists the catalogue"
    )]
    NotInstalled,
    #[error("{0} is already installed: change its settings with PUT, or remove it first")]
    Installed(AppRef),
    #[error("an Agent has at most {most} apps: remove one first")]
    TooManyApps { most: u64 },
    #[error(
        "the configuration {kind} of this Agent uses {app}: remove it from the apps there first"
    )]
    Assigned { app: AppRef, kind: ConfigKind },
    #[error("the account has no data for this integration: store data with PUT")]
    NoIntegration,
    #[error("an account has at most {most} integrations: send fewer")]
    TooManySent { most: u64 },
    #[error("integrations has {0} twice: send all its data in one entry")]
    Twice(AppRef),
    #[error("an account has at most {most} integrations: change an existing one")]
    TooManyIntegrations { most: u64 },
    #[error("the app was changed by another request at the same time: read it again and retry")]
    Busy,
    #[error("the account does not have the feature {0}")]
    Feature(Feature),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error(transparent)]
    Store(#[from] StoreError),
}
