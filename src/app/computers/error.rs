//! Errors of computers and sessions, each with the remedy.

use crate::app::vault::VaultError;
use crate::domain::app::AppRef;
use crate::domain::fault::{Fault, sentence};
use crate::store::StoreError;

use super::LONGEST_NAME;
use super::patch::PatchError;
use super::release::MOST_NAMED;
use super::sessions::LONGEST_REASON;

#[derive(Debug, thiserror::Error)]
pub enum ComputerError {
    #[error(
        "this Agent has no computer: create its record with POST \
         /computer/accounts/{{targetAccountId}}"
    )]
    NoComputer,
    #[error("this Agent's computer is not provisioned: provision it with POST …/provision")]
    NotProvisioned,
    #[error(
        "this Agent already has a computer: change its record with PUT, or remove it with DELETE"
    )]
    Exists,
    #[error("name must have at most {LONGEST_NAME} bytes and no control characters")]
    Name,
    #[error("{}", sentence(.0))]
    Configuration(Vec<Fault>),
    #[error(transparent)]
    Patch(#[from] PatchError),
    #[error(
        "the configuration is at revision {current}: read it again and send your change with that \
         revision"
    )]
    Stale { current: i64 },
    #[error(
        "the configuration was changed by another request at the same time: read it again and retry"
    )]
    Busy,
    #[error("this needs the key of the Agent's provisioned worker")]
    NotWorker,
    #[error("the key lost its right while this request waited: send it again to learn why")]
    NoRight,
    #[error("name 1 to {MOST_NAMED} secrets and apps: in secrets, in apps, or in both")]
    Named,
    #[error("the configuration of this Agent's computer has no secret {0:?}")]
    NoSecret(String),
    #[error("the app {0} is not installed on this Agent")]
    NoApp(AppRef),
    #[error("there is no such room in the scope of this request")]
    NoRoom,
    #[error("there is no such session in the scope of this request")]
    NoSession,
    #[error("this list has no such session")]
    NoPlace,
    #[error("this Agent has received no message yet")]
    NothingCame,
    #[error("reason must have at most {LONGEST_REASON} bytes and no control characters")]
    Reason,
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error(transparent)]
    Store(#[from] StoreError),
}
