//! `gatepost init`: the store, the partner account, its first key, a commented settings file.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use serde_json::json;

use super::given::Given;
use super::{Failure, print_json, say};
use crate::app::tenancy::Tenancy;
use crate::config::{DEFAULT_FILE, TEMPLATE};
use crate::disk;
use crate::run;
use crate::store::Store;
use crate::telemetry;

/// Create the store, the partner account and its first key
#[derive(Args, Debug)]
#[command(after_help = "Prints {\"account\":{\"id\":…},\"key\":\"gp_…\"} with --json.")]
pub(super) struct Init {
    /// The partner's name
    #[arg(long, default_value = "Partner")]
    name: String,
}

impl Init {
    pub(super) async fn run(self, given: &Given) -> Result<ExitCode, Failure> {
        telemetry::init(false);
        // First, so that a key is never made and then lost to a folder that cannot be written to.
        let file = given.store.config.as_deref().unwrap_or(Path::new(DEFAULT_FILE));
        let wrote = write_template(file)?;
        let (place, rules) = (given.place()?, given.rules()?);
        let store = Store::create(place, &rules.store, run::system_mint()).await?;
        let tenancy = Tenancy::new(store, run::system_mint(), Arc::new(rules.access));
        let partner = tenancy.create_partner(&self.name).await?;
        let key = tenancy.create_key(partner.id, "first key").await?;
        if given.json {
            print_json(&json!({ "account": { "id": partner.id.get() }, "key": key.token }))?;
        } else {
            say!("partner account  {}", partner.id)?;
            say!("first key        {}", key.token)?;
            say!("\nThe key is shown this once; only its hash is kept.")?;
            if wrote {
                say!("Settings are explained in {}.", file.display())?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes the commented settings unless there is a file already: settings are never overwritten.
fn write_template(path: &Path) -> Result<bool, Failure> {
    // It may come to hold the database's password. Its folder, perhaps, is not ours to write.
    let is_there = path.try_exists();
    let wrote = is_there.and_then(|there| {
        if there { Ok(false) } else { disk::write_first(path, TEMPLATE.as_bytes()) }
    });
    wrote.map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}
