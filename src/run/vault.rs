//! The keys of the vault: a file that the operator keeps apart from the database and its backups.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tracing::error;

use super::RunError;
use crate::app::vault::{KEY_LEN, Vault};
use crate::disk;
use crate::domain::id::Mint;
use crate::domain::secret::Secret;
use crate::store::{Location, SECRETS_KEY, Store, StorePlace};

#[derive(Debug, thiserror::Error)]
pub enum VaultFileError {
    #[error("cannot read the secrets keys in {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write a new secrets key to {path}")]
    Keep { path: PathBuf, source: io::Error },
    #[error(
        "{path}: line {line} is not a key: expected 32 random bytes in base64, one key a line, \
         the key that seals first (openssl rand -base64 32)"
    )]
    Line { path: PathBuf, line: usize },
    /// A new key would open none of the existing secrets.
    #[error(
        "{path} is missing, but the store holds secrets that its key sealed (of relays, apps or \
         computers): copy secrets.key from the old data folder, or name the file with \
         --secrets-key-file. If it is lost, make a new one (openssl rand -base64 32), and set \
         those secrets again"
    )]
    Missing { path: PathBuf },
    #[error("{path} holds no key: expected 32 random bytes in base64 (openssl rand -base64 32)")]
    Empty { path: PathBuf },
}

/// Opens the vault with the keys of the named file. Without one, the embedded store uses the file
/// beside it, and makes it the first time; gateways on PostgreSQL, which would all need the same
/// file, keep no secrets. Logs an error if the store holds secrets that no key opens.
pub(super) async fn open(
    named: Option<&Path>,
    place: &StorePlace,
    store: &Store,
    mint: &Mint,
) -> Result<Vault, RunError> {
    let sealed = store.sealed_samples().await?;
    let vault = load(named, place, !sealed.is_empty(), mint)?;
    if holds_foreign(&vault, &sealed) {
        error!(
            "the store holds secrets sealed by a key that this gateway does not have: add that key \
             to the file of --secrets-key-file (secrets.key of the data folder where it was made; \
             all gateways of a database need the same keys); until then the relays, apps and \
             computers with those secrets cannot use them"
        );
    }
    Ok(vault)
}

/// Whether the keys open all secrets of the store. Fails as a start would; makes no file.
pub async fn check_secrets(
    named: Option<&Path>,
    place: &StorePlace,
    store: &Store,
    mint: &Mint,
) -> Result<bool, RunError> {
    let sealed = store.sealed_samples().await?;
    if sealed.is_empty() {
        return Ok(true);
    }
    let Some(path) = secrets_key_file(named, place) else { return Ok(false) };
    if !path.exists() {
        return Err(VaultFileError::Missing { path }.into());
    }
    let (_, vault) = read_secrets_key(&path, mint)?;
    Ok(!holds_foreign(&vault, &sealed))
}

/// Whether one of these was sealed by none of the vault's keys.
fn holds_foreign(vault: &Vault, sealed: &[Vec<u8>]) -> bool {
    !sealed.iter().all(|one| vault.has_key_of(one))
}

/// Returns the file of keys: the named one, or the one beside the embedded store.
pub fn secrets_key_file(named: Option<&Path>, place: &StorePlace) -> Option<PathBuf> {
    match (named, &place.database) {
        (Some(path), _) => Some(path.to_owned()),
        (None, Location::Folder(folder)) => Some(folder.join(SECRETS_KEY)),
        (None, Location::Postgres(_)) => None,
    }
}

/// Reads the file of keys. Returns its text, and the vault with these keys.
pub fn read_secrets_key(path: &Path, mint: &Mint) -> Result<(Secret, Vault), VaultFileError> {
    let text = fs::read_to_string(path)
        .map_err(|source| VaultFileError::Read { path: path.to_owned(), source })?;
    let vault = Vault::new(&keys(path, &text)?, mint.clone());
    Ok((Secret::new(text), vault))
}

fn load(
    named: Option<&Path>,
    place: &StorePlace,
    holds_sealed: bool,
    mint: &Mint,
) -> Result<Vault, VaultFileError> {
    let Some(path) = secrets_key_file(named, place) else {
        return Ok(Vault::new(&[], mint.clone()));
    };
    if named.is_none() {
        make_file(&path, holds_sealed, mint)?;
    }
    Ok(read_secrets_key(&path, mint)?.1)
}

/// Reads one key a line; ignores empty lines and lines that begin with `#`.
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

/// Makes the file beside the embedded store, readable by its owner only. Fails if secrets are
/// sealed already.
fn make_file(path: &Path, holds_sealed: bool, mint: &Mint) -> Result<(), VaultFileError> {
    let keep = |source| VaultFileError::Keep { path: path.to_owned(), source };
    if !path.try_exists().map_err(keep)? {
        if holds_sealed {
            return Err(VaultFileError::Missing { path: path.to_owned() });
        }
        let key = STANDARD.encode(mint.secret());
        let text =
            format!("# Keys of the vault: in no backup by default, so keep a copy apart.\n{key}\n");
        // Another process may make one at the same moment: the first one stays.
        disk::write_first(path, text.as_bytes()).map_err(keep)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::system_mint;
    use super::*;

    #[test]
    fn the_embedded_store_has_a_key_of_its_own_that_stays() {
        let folder = tempfile::tempdir().unwrap();
        let place = StorePlace::from(Location::Folder(folder.path().to_owned()));
        let sealed = load(None, &place, false, &system_mint()).unwrap().seal("p", b"x").unwrap();
        let again = load(None, &place, true, &system_mint()).unwrap();
        assert_eq!(again.open("p", &sealed).unwrap().expose(), b"x");
        let mode = fs::metadata(folder.path().join(SECRETS_KEY)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn no_key_is_made_where_another_has_sealed_something() {
        let folder = tempfile::tempdir().unwrap();
        let place = StorePlace::from(Location::Folder(folder.path().to_owned()));
        let error = load(None, &place, true, &system_mint()).unwrap_err().to_string();
        assert!(error.contains("copy secrets.key") && error.contains("--secrets-key-file"));
        assert!(!folder.path().join(SECRETS_KEY).exists());
        // An operator who lost the key makes one by hand; one who kept it elsewhere names it.
        let named = folder.path().join("named");
        fs::write(&named, STANDARD.encode([1; KEY_LEN])).unwrap();
        load(Some(&named), &place, true, &system_mint()).unwrap();
        fs::copy(&named, folder.path().join(SECRETS_KEY)).unwrap();
        load(None, &place, true, &system_mint()).unwrap();
    }

    #[test]
    fn what_no_key_here_opens_is_noticed() {
        let vault = |octets: &[u8]| {
            let keys: Vec<_> = octets.iter().map(|octet| [*octet; KEY_LEN]).collect();
            Vault::new(&keys, system_mint())
        };
        let (one, two) = (vault(&[1]).seal("p", b"").unwrap(), vault(&[2]).seal("p", b"").unwrap());
        assert!(!holds_foreign(&vault(&[3]), &[]));
        assert!(holds_foreign(&vault(&[1]), &[one.clone(), two.clone()]));
        assert!(!holds_foreign(&vault(&[2, 1]), &[one.clone(), two]));
        assert!(holds_foreign(&vault(&[]), &[one]), "one gateway of several has no file of keys");
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
