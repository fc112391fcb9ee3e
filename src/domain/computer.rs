//! The computer of an Agent: what stands for the worker that takes its mail as work.

use serde_json::{Map, Value};
use uuid::Uuid;

use super::clock::Timestamp;
use super::id::AccountId;
use super::words::words;

words! {
    /// What a computer is at the moment.
    ComputerState {
        /// Recorded, and never provisioned.
        Created = "created",
        Provisioned = "provisioned",
        /// It was, and is no more; what it was configured with may be kept.
        Deprovisioned = "deprovisioned",
    }
}

/// The record of an Agent's computer.
#[derive(Clone, Debug, PartialEq)]
pub struct Computer {
    pub agent: AccountId,
    pub name: Option<String>,
    pub state: ComputerState,
    pub created_at: Timestamp,
    /// When anything of it changed last.
    pub updated_at: Timestamp,
    /// What made it what it is.
    pub job: Option<Job>,
    pub config: Configuration,
    /// Rises with every change of the configuration, and with nothing else.
    pub revision: i64,
}

/// What somebody asked for, and was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    pub id: Uuid,
    pub at: Timestamp,
}

/// What a computer is configured with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configuration {
    /// As it was written, with a mask in the place of each secret.
    pub authored: Map<String, Value>,
    /// The secrets, sealed; none if there are none.
    pub sealed: Option<Vec<u8>>,
}
