//! The files beside the store that backup and restore deal with: `tls/` and the keys of the vault.

use std::path::{Path, PathBuf};

use clap::Args;

use super::Failure;
use super::given::Given;
use crate::app::vault::Vault;
use crate::config::ServeOptions;
use crate::domain::secret::Secret;
use crate::run;
use crate::store::{Copied, Keys, Location, Place, Sealed, TLS};
use crate::tls::{ACME, own_files};

/// Where a server on the store has its own files, as `serve` takes it.
#[derive(Args, Debug)]
pub(super) struct BesideArgs {
    /// The file of the keys that seal secrets [default: DATA/secrets.key]
    #[arg(long, env = "GATEPOST_SECRETS_KEY_FILE", value_name = "FILE")]
    secrets_key_file: Option<PathBuf>,
    /// Where account, key and certificate by ACME are kept [default: DATA/tls/acme]
    #[arg(long, env = "GATEPOST_ACME_FOLDER", value_name = "DIR")]
    acme_folder: Option<PathBuf>,
}

impl BesideArgs {
    /// With what the settings file says.
    pub(super) fn options(&self, given: &Given) -> Result<ServeOptions, Failure> {
        let mut options = given.options()?;
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

/// Reads a file of keys, which must be there and hold some.
pub(super) fn keys(path: &Path) -> Result<(Keys, Vault), Failure> {
    let (text, vault) = run::read_secrets_key(path, &run::system_mint())?;
    let also = vault.clone();
    let opens = Box::new(move |sealed: &[u8]| also.has_key_of(sealed));
    Ok((Keys { path: path.to_owned(), text, opens }, vault))
}

/// Counts the secrets of a copy that these keys do not open, in words; `None` where they open all.
pub(super) fn closed(copy: &Copied, vault: Option<&Vault>) -> Option<String> {
    let opens = |mark: &[u8]| vault.is_some_and(|vault| vault.has_key_of(mark));
    let listed = Sealed::listed(copy.sealed.iter().filter(|one| !one.is_opened(opens)));
    (!listed.is_empty()).then_some(listed)
}

/// The folder of ACME, where the settings name one that is not in the folder of the store.
pub(super) fn acme_elsewhere<'a>(options: &'a ServeOptions, place: &Place) -> Option<&'a Path> {
    let folder = options.acme.folder.as_deref()?;
    let Location::Folder(data) = &place.database else { return None };
    let whole = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
    let own = whole(&data.join(TLS).join(ACME));
    (whole(folder) != own).then_some(folder)
}
