//! `gatepost restore`: makes a store from a backup.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::beside::{self, BesideArgs};
use super::global_args::{GlobalArgs, place};
use super::{Failure, print_json, say};
use crate::app::vault::Vault;
use crate::config::ServeOptions;
use crate::run;
use crate::store::{
    self, BackupSummary, CompanionFiles, Location, OriginalsPlace, SECRETS_KEY, StorePlace, TLS,
};

/// Make a store from a backup, in a folder that is empty or not there yet
#[derive(Args, Debug)]
#[command(after_help = "Prints {\"to\":…,\"messages\":…,\"octets\":…,\"objects\":…,\"tls\":…,\
                         \"secretsKey\":…,\"missing\":[…]} with --json.")]
pub(super) struct Restore {
    /// The folder that `gatepost backup` wrote
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    #[command(flatten)]
    beside: BesideArgs,
}

/// The keys that a server on the store will use.
struct Served {
    path: PathBuf,
    /// None if the file does not exist.
    vault: Option<Vault>,
}

impl Restore {
    pub(super) async fn run(self, global: &GlobalArgs) -> Result<ExitCode, Failure> {
        let options = self.beside.options(global)?;
        let (place, rules) = (place(&options)?, global.rules()?);
        let location = &place.database;
        let mut beside = CompanionFiles { tls: beside::tls(&self.from)?, keys: None };
        let (path, mut own) = (self.from.join(SECRETS_KEY), None);
        if path.try_exists()? {
            let (keys, vault) = beside::keys(&path)?;
            (beside.keys, own) = (Some(keys), Some(vault));
        }
        let (tls, has_keys) = (beside.tls.len(), own.is_some());
        let served = served(&options, &place, own)?;
        let objects = OriginalsPlace::of(&place);
        let mint = run::system_mint();
        let restored =
            store::restore(&self.from, location, objects, beside, &rules.store, mint).await?;
        let mut missing = Vec::new();
        missing.extend(served.and_then(|served| no_keys(&restored, &served)));
        missing.extend(no_certificates(&options, &place, tls));
        missing.extend(no_originals(&restored, objects, &place));
        let (messages, octets) = (restored.messages, restored.octets);
        if global.json {
            print_json(&json!({
                "to": location.to_string(),
                "messages": messages,
                "octets": octets,
                "objects": restored.objects,
                "tls": tls,
                "secretsKey": has_keys,
                "missing": missing,
            }))?;
            return Ok(ExitCode::SUCCESS);
        }
        let from = self.from.display();
        say!("restored {from} to {location}: {messages} messages, {octets} bytes")?;
        if tls > 0 {
            say!("with tls/: {tls} files")?;
        }
        if has_keys {
            say!("with secrets.key")?;
        }
        for one in missing {
            say!("missing: {one}")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the keys that `serve` will read: the named file's, or else the restored ones.
fn served(
    options: &ServeOptions,
    place: &StorePlace,
    restored: Option<Vault>,
) -> Result<Option<Served>, Failure> {
    let named = options.secrets_key_file.as_deref();
    let Some(path) = run::secrets_key_file(named, place) else { return Ok(None) };
    let vault = match named {
        None => restored,
        Some(named) if named.try_exists()? => Some(beside::keys(named)?.1),
        Some(_) => None,
    };
    Ok(Some(Served { path, vault }))
}

fn no_keys(restored: &BackupSummary, served: &Served) -> Option<String> {
    let listed = beside::closed(restored, served.vault.as_ref())?;
    let path = served.path.display();
    Some(if served.vault.is_none() {
        format!(
            "{path}, which opens the secrets ({listed}): before you serve, copy secrets.key of \
             the old server there; if that key is lost, make a new one (openssl rand -base64 32) \
             and set those secrets again"
        )
    } else {
        format!(
            "a key in {path} that opens the secrets ({listed}): add the key that sealed them on \
             its own line, or set those secrets again"
        )
    })
}

fn no_certificates(options: &ServeOptions, place: &StorePlace, tls: usize) -> Vec<String> {
    let mut missing = Vec::new();
    if let (0, None, Location::Folder(data)) = (tls, &options.tls.smtp_cert, &place.database) {
        missing.push(format!(
            "{}, because the backup has no {TLS}/: before you serve, copy {TLS}/ of the old \
             server there. Otherwise the server makes a new self-signed key, and asks the \
             authority (ACME) for another certificate: then change the DANE records (TLSA) that \
             name the old key",
            data.join(TLS).display()
        ));
    }
    let gone = |folder: &&Path| !folder.exists();
    missing.extend(beside::acme_elsewhere(options, place).filter(gone).map(|folder| {
        format!(
            "{} (acme-folder), which no backup holds: copy the folder of the old server there, or \
             the server asks the authority for another certificate, with another key",
            folder.display()
        )
    }));
    missing
}

fn no_originals(
    restored: &BackupSummary,
    objects: OriginalsPlace,
    place: &StorePlace,
) -> Option<String> {
    let (OriginalsPlace::Elsewhere, Some(blobs), 1..) = (objects, &place.blobs, restored.objects)
    else {
        return None;
    };
    Some(format!(
        "large originals ({}), which are in {blobs} and not in the backup: put lost ones back \
         there; gatepost check-store lists them",
        restored.objects
    ))
}
