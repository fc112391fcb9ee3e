//! `gatepost init`: creates the store, the partner account, its first key and a commented settings
//! file.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use serde_json::json;

use super::global_args::GlobalArgs;
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
    pub(super) async fn run(self, global: &GlobalArgs) -> Result<ExitCode, Failure> {
        telemetry::init(false);
        // First: no key may be made and then lost because the folder is not writable.
        let file = global.store.config.as_deref().unwrap_or(Path::new(DEFAULT_FILE));
        let wrote = write_template(file)?;
        let (place, rules) = (global.place()?, global.rules()?);
        let store = Store::create(place, &rules.store, run::system_mint()).await?;
        let tenancy = Tenancy::new(store, run::system_mint(), Arc::new(rules.access));
        let partner = tenancy.create_partner(&self.name).await?;
        let key = tenancy.create_key(partner.id, "first key").await?;
        if global.json {
            print_json(&json!({ "account": { "id": partner.id.get() }, "key": key.token }))?;
        } else {
            say!("partner account  {}", partner.id)?;
            say!("first key        {}", key.token)?;
            say!("\nThe key is shown only once; the store keeps only its hash.")?;
            if wrote {
                say!("Settings are explained in {}.", file.display())?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes the commented settings unless the file exists: settings are never overwritten. Returns
/// whether it wrote.
fn write_template(path: &Path) -> Result<bool, Failure> {
    // The file may later hold the database's password. Its folder may be read-only.
    let is_there = path.try_exists();
    let wrote = is_there.and_then(|there| {
        if there { Ok(false) } else { disk::write_first(path, TEMPLATE.as_bytes()) }
    });
    wrote.map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}
