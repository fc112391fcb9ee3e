//! The computer of an Agent: stands for the worker that takes the Agent's mail as work.

use serde_json::{Map, Value};
use uuid::Uuid;

use super::clock::Timestamp;
use super::id::AccountId;
use super::words::words;

words! {
    ComputerState {
        /// Recorded, never provisioned.
        Created = "created",
        Provisioned = "provisioned",
        /// No longer provisioned; the configuration may be kept.
        Deprovisioned = "deprovisioned",
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Computer {
    pub agent: AccountId,
    pub name: Option<String>,
    pub state: ComputerState,
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// The job that led to the present state.
    pub job: Option<Job>,
    pub config: Configuration,
    /// Grows with each change of the configuration only.
    pub revision: i64,
}

impl Computer {
    /// Tells whether it is provisioned, by this job.
    pub fn is_provisioned_by(&self, job: Uuid) -> bool {
        self.state == ComputerState::Provisioned && self.job.is_some_and(|last| last.id == job)
    }
}

/// A job that was requested and done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    pub id: Uuid,
    pub at: Timestamp,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configuration {
    /// The configuration as written, with a mask in place of each secret.
    pub authored: Map<String, Value>,
    /// The secrets, sealed by the vault; None if there are none.
    pub sealed: Option<Vec<u8>>,
}
