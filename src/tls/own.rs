//! The server's own files in the folder `tls`, for a backup: its self-signed pair, and the files of
//! `acme` but open orders. Files of the operator are not among them.

use std::path::{Path, PathBuf};

use crate::domain::secret::Secret;

use super::acme::{self, FolderError};
use super::self_signed;

/// The subfolder of `acme` with account, key and chains.
pub const ACME: &str = "acme";

/// Returns these files by their names in `folder`. A server may replace them meanwhile: each is
/// whole, and every chain fits the key.
pub fn own_files(folder: &Path) -> Result<Vec<(PathBuf, Secret)>, FolderError> {
    let mut files = Vec::new();
    let name = PathBuf::from(self_signed::FILE);
    if let Some(text) = acme::read(&folder.join(&name))? {
        files.push((name, Secret::new(text)));
    }
    let acme_files = acme::all_files(&folder.join(ACME))?;
    files.extend(acme_files.into_iter().map(|(name, text)| (Path::new(ACME).join(name), text)));
    Ok(files)
}
