//! `gatepost restore`: a store from a backup.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::{Failure, StoreArgs, print_json, say};
use crate::run;
use crate::store::{self, Objects};

/// Make a store from a backup, in a folder that is empty or not there yet
#[derive(Args, Debug)]
pub(super) struct Restore {
    /// The folder that `gatepost backup` wrote
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    /// Print {"to":…,"messages":…,"octets":…,"objects":…}
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

impl Restore {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let (place, rules) = (self.store.place()?, self.store.rules()?);
        let location = &place.database;
        let restoring = store::restore(
            &self.from,
            location,
            Objects::of(&place),
            &rules.store,
            run::system_mint(),
        );
        let restored = restoring.await?;
        let (messages, octets) = (restored.messages, restored.octets);
        if self.json {
            print_json(&json!({
                "to": location.to_string(),
                "messages": messages,
                "octets": octets,
                "objects": restored.objects,
            }))?;
        } else {
            let from = self.from.display();
            say!("restored {from} to {location}: {messages} messages, {octets} octets")?;
            say!(
                "before you serve it, copy secrets.key from the old data folder into it, or name the \
                 file with --secrets-key-file"
            )?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
