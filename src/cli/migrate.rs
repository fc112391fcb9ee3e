//! `gatepost migrate`: brings the store to this version before any server starts.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::global_args::GlobalArgs;
use super::{Failure, print_json, say};
use crate::telemetry;

/// Bring the store to this version, as `serve` does when it starts
#[derive(Args, Debug)]
pub(super) struct Migrate;

impl Migrate {
    pub(super) async fn run(self, global: &GlobalArgs) -> Result<ExitCode, Failure> {
        // The log says when it waits.
        telemetry::init(false);
        let location = global.location()?;
        global.open().await?.close().await;
        if global.json {
            print_json(&json!({ "store": location.to_string() }))?;
        } else {
            say!("the store at {location} is ready for this version")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
