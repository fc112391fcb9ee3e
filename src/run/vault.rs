//! The keys of the vault: a file that its operator keeps apart from the database and its backups.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::app::vault::{KEY_LEN, Vault};
use crate::domain::id::Mint;
use crate::store::{Location, Place};

/// Beside the embedded store, made there the first time.
const FILE: &str = "secrets.key";

/// Why there is no vault.
#[derive(Debug, thiserror::Error)]
pub enum VaultFileError {
    #[error("cannot read {path}, which should hold the keys of the vault")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot keep a key for secrets in {path}")]
    Keep { path: PathBuf, source: io::Error },
    #[error(
        "{path}: line {line} is no key: 32 random octets in base64, one key a line, the one that \
         seals first (openssl rand -base64 32)"
    )]
    Line { path: PathBuf, line: usize },
    #[error("{path} holds no key: 32 random octets in base64 (openssl rand -base64 32)")]
    Empty { path: PathBuf },
}

/// The vault over the keys of this file. Where none is named, the embedded store has one beside it;
/// gateways on PostgreSQL, which must have the same one, keep no secrets without it.
pub(super) fn open(
    named: Option<&Path>,
    place: &Place,
    mint: &Mint,
) -> Result<Vault, VaultFileError> {
    let path = match (named, &place.database) {
        (Some(path), _) => path.to_owned(),
        (None, Location::Folder(folder)) => kept(folder, mint)?,
        (None, Location::Postgres(_)) => return Ok(Vault::new(&[], mint.clone())),
    };
    let text = fs::read_to_string(&path)
        .map_err(|source| VaultFileError::Read { path: path.clone(), source })?;
    Ok(Vault::new(&keys(&path, &text)?, mint.clone()))
}

/// One key a line; empty lines and those that begin with `#` say nothing.
fn keys(path: &Path, text: &str) -> Result<Vec<[u8; KEY_LEN]>, VaultFileError> {
    let mut keys = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let octets = STANDARD.decode(line).ok().and_then(|octets| octets.try_into().ok());
        let wrong = || VaultFileError::Line { path: path.to_owned(), line: number + 1 };
        keys.push(octets.ok_or_else(wrong)?);
    }
    if keys.is_empty() {
        return Err(VaultFileError::Empty { path: path.to_owned() });
    }
    Ok(keys)
}

/// The file beside the embedded store, for its owner only.
fn kept(folder: &Path, mint: &Mint) -> Result<PathBuf, VaultFileError> {
    let path = folder.join(FILE);
    let keep = |source| VaultFileError::Keep { path: path.clone(), source };
    if !path.try_exists().map_err(keep)? {
        // Its mode is 0600 from the beginning. Who starts at the same moment makes one too:
        // whichever is there first is kept.
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(keep)?;
        writeln!(file, "# Keys of the vault: not in any backup of the database, so keep a copy.")
            .and_then(|()| writeln!(file, "{}", STANDARD.encode(mint.secret())))
            .and_then(|()| file.as_file().sync_all())
            .map_err(keep)?;
        match file.persist_noclobber(&path) {
            Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(keep(error.error));
            }
            _ => {}
        }
        let durable = fs::File::open(folder).and_then(|folder| folder.sync_all());
        durable.map_err(keep)?;
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::system_mint;
    use super::*;

    #[test]
    fn the_embedded_store_has_a_key_of_its_own_that_stays() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::from(Location::Folder(folder.path().to_owned()));
        let sealed = open(None, &place, &system_mint()).unwrap().seal("p", b"x").unwrap();
        let again = open(None, &place, &system_mint()).unwrap();
        assert_eq!(again.open("p", &sealed).unwrap().expose(), b"x");
        let mode = fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_holds_no_key_is_refused_by_its_line() {
        let path = Path::new("keys");
        let key = STANDARD.encode([1; KEY_LEN]);
        assert_eq!(keys(path, &format!("# new\n\n {key} \n{key}\n")).unwrap().len(), 2);
        let error = keys(path, &format!("{key}\nhunter2\n")).unwrap_err().to_string();
        assert!(error.contains("line 2") && !error.contains("hunter2"), "{error}");
        assert!(keys(path, "# nothing\n").unwrap_err().to_string().contains("no key"));
    }
}
