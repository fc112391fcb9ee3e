//! Files beside the store in backup and restore: `tls/` and the keys of the vault.

use std::path::{Path, PathBuf};

use clap::Args;

use super::Failure;
use super::global_args::GlobalArgs;
use crate::app::vault::Vault;
use crate::config::ServeOptions;
use crate::domain::secret::Secret;
use crate::run;
use crate::store::{BackupSummary, Location, SealedSecrets, StorePlace, TLS, VaultKeys};
use crate::tls::{ACME, own_files};

/// Places of a server's own files, with the flags of `serve`.
#[derive(Args, Debug)]
pub(super) struct BesideArgs {
    /// The file with the keys that seal secrets [default: DATA/secrets.key]
    #[arg(long, env = "GATEPOST_SECRETS_KEY_FILE", value_name = "FILE")]
    secrets_key_file: Option<PathBuf>,
    /// The folder of the ACME account, key and certificates [default: DATA/tls/acme]
    #[arg(long, env = "GATEPOST_ACME_FOLDER", value_name = "DIR")]
    acme_folder: Option<PathBuf>,
}

impl BesideArgs {
    /// Returns the settings of the file, overridden by these flags.
    pub(super) fn options(&self, global: &GlobalArgs) -> Result<ServeOptions, Failure> {
        let mut options = global.options()?;
        let (file, folder) = (self.secrets_key_file.clone(), self.acme_folder.clone());
        options.secrets_key_file = file.or(options.secrets_key_file);
        options.acme.folder = folder.or(options.acme.folder);
        Ok(options)
    }
}

/// The server's own files in the folder `tls` of a store or of a backup.
pub(super) fn tls(folder: &Path) -> Result<Vec<(PathBuf, Secret)>, Failure> {
    Ok(own_files(&folder.join(TLS))?)
}

/// Reads a file of keys; fails if it is missing or has no key.
pub(super) fn keys(path: &Path) -> Result<(VaultKeys, Vault), Failure> {
    let (text, vault) = run::read_secrets_key(path, &run::system_mint())?;
    let also = vault.clone();
    let opens = Box::new(move |sealed: &[u8]| also.has_key_of(sealed));
    Ok((VaultKeys { path: path.to_owned(), text, opens }, vault))
}

/// Counts, in words, the secrets of a copy that these keys do not open; None if they open all.
pub(super) fn closed(copy: &BackupSummary, vault: Option<&Vault>) -> Option<String> {
    let opens = |mark: &[u8]| vault.is_some_and(|vault| vault.has_key_of(mark));
    let listed = SealedSecrets::listed(copy.sealed.iter().filter(|one| !one.is_opened(opens)));
    (!listed.is_empty()).then_some(listed)
}

/// Returns the ACME folder if the settings place it outside the store's folder.
pub(super) fn acme_elsewhere<'a>(
    options: &'a ServeOptions,
    place: &StorePlace,
) -> Option<&'a Path> {
    let folder = options.acme.folder.as_deref()?;
    let Location::Folder(data) = &place.database else { return None };
    let whole = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
    let own = whole(&data.join(TLS).join(ACME));
    (whole(folder) != own).then_some(folder)
}
