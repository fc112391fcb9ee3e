//! All that the server itself keeps in the folder `tls`, for a backup: its self-signed pair, and
//! what `acme` keeps. Files that an operator has put there are the operator's.

use std::path::{Path, PathBuf};

use crate::domain::secret::Secret;

use super::acme::{self, KeptError};
use super::self_signed;

/// Where `acme` keeps its account, key and chains, below the folder.
pub const ACME: &str = "acme";

/// The texts of these files, by their names in `folder`. A server may replace them meanwhile: each
/// is whole, and no chain is among them that is not of the key among them.
pub fn own_files(folder: &Path) -> Result<Vec<(PathBuf, Secret)>, KeptError> {
    let mut files = Vec::new();
    let name = PathBuf::from(self_signed::FILE);
    if let Some(text) = acme::read(&folder.join(&name))? {
        files.push((name, Secret::new(text)));
    }
    let kept = acme::all_kept(&folder.join(ACME))?;
    files.extend(kept.into_iter().map(|(name, text)| (Path::new(ACME).join(name), text)));
    Ok(files)
}
