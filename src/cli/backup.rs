//! `gatepost backup`: copies the embedded store, while servers run on it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::beside::{self, BesideArgs};
use super::global_args::{GlobalArgs, place};
use super::{Failure, print_json, say};
use crate::app::vault::Vault;
use crate::run;
use crate::store::{self, CompanionFiles, Location, OriginalsPlace, VaultKeys};

/// Copy the embedded store and the server's certificates, while servers run on it
#[derive(Args, Debug)]
#[command(after_help = "Prints {\"to\":…,\"messages\":…,\"octets\":…,\"objects\":…,\"tls\":…,\
                         \"secretsKey\":…} with --json.")]
pub(super) struct Backup {
    /// The target: a folder that is empty or not there yet
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Include the keys that seal secrets: anyone with the backup can then open them
    #[arg(long)]
    with_secrets_key: bool,
    #[command(flatten)]
    beside: BesideArgs,
}

impl Backup {
    pub(super) async fn run(self, global: &GlobalArgs) -> Result<ExitCode, Failure> {
        let options = self.beside.options(global)?;
        let place = place(&options)?;
        let objects = OriginalsPlace::of(&place);
        let key_file = run::secrets_key_file(options.secrets_key_file.as_deref(), &place);
        let (mut beside, mut vault) = (CompanionFiles::default(), None);
        // On PostgreSQL, `store::back_up` fails and says what to do.
        if let Location::Folder(data) = &place.database {
            let keys = self.keys(key_file.as_deref())?;
            (beside.keys, vault) = keys.unzip();
            beside.tls = beside::tls(data)?;
        }
        let tls = beside.tls.len();
        let copied = store::back_up(&place.database, &self.to, objects, beside).await?;
        if let (OriginalsPlace::Elsewhere, Some(blobs)) = (objects, &place.blobs) {
            eprintln!(
                "gatepost: the large originals in {blobs} are not part of the backup: back them \
                 up separately, after it"
            );
        }
        if let Some(folder) = beside::acme_elsewhere(&options, &place) {
            eprintln!(
                "gatepost: the ACME account and certificates in {} are not part of the backup: \
                 copy them, too",
                folder.display()
            );
        }
        if let Some(vault) = vault
            && let Some(closed) = beside::closed(&copied, Some(&vault))
        {
            eprintln!("gatepost: secrets.key does not open all sealed secrets ({closed})");
        }
        let (to, messages, octets) = (self.to.display(), copied.messages, copied.octets);
        if global.json {
            print_json(&json!({
                "to": to.to_string(),
                "messages": messages,
                "octets": octets,
                "objects": copied.objects,
                "tls": tls,
                "secretsKey": self.with_secrets_key,
            }))?;
            return Ok(ExitCode::SUCCESS);
        }
        say!("backed up to {to}: {messages} messages, {octets} bytes")?;
        if tls > 0 {
            say!("with tls/ and its private keys: {tls} files")?;
        }
        let sealed = "the sealed secrets of relays, apps and computers";
        match key_file {
            _ if self.with_secrets_key => {
                say!("with secrets.key: anyone who has this backup can open {sealed}")?;
            }
            Some(path) => say!(
                "{} is not part of the backup: keep a copy elsewhere, because without that file \
                 {sealed} are lost (--with-secrets-key includes the file)",
                path.display()
            )?,
            None => {}
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Returns the keys of the vault if `--with-secrets-key` is set; fails if their file is
    /// missing.
    fn keys(&self, path: Option<&Path>) -> Result<Option<(VaultKeys, Vault)>, Failure> {
        let Some(path) = path.filter(|_| self.with_secrets_key) else { return Ok(None) };
        if !path.try_exists()? {
            return Err(format!(
                "--with-secrets-key: {} is missing: name the file with --secrets-key-file, or \
                 leave the flag out",
                path.display()
            )
            .into());
        }
        Ok(Some(beside::keys(path)?))
    }
}
