//! `gatepost migrate`: the store, brought to this version before any server starts.

use std::process::ExitCode;

use clap::Args;

use super::{Failure, StoreArgs, say};
use crate::telemetry;

/// Bring the store to this version, as `serve` does when it starts
#[derive(Args, Debug)]
pub(super) struct Migrate {
    #[command(flatten)]
    store: StoreArgs,
}

impl Migrate {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        // What it waits for, it says in the log.
        telemetry::init(false);
        let location = self.store.location()?;
        self.store.open().await?.close().await;
        say!("the store at {location} is ready for this version")?;
        Ok(ExitCode::SUCCESS)
    }
}
