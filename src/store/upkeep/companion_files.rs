//! Files that a backup holds beside the database and its originals: the server's own keys and
//! certificates (`tls/`) and, if the operator asks for them, the keys of the vault. They are small;
//! the caller reads and checks them. Finds secrets in the database that those keys do not open.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};
use sqlx::Row as _;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::backup_error::{BackupError, SUM};
use crate::domain::secret::Secret;

/// The folder of certificates, their keys, and the account at an authority.
pub const TLS: &str = "tls";
/// The keys of the vault, in the folder of a store and in that of a backup.
pub const SECRETS_KEY: &str = "secrets.key";

/// Counts sealed things of a kind by the first bytes of their sealed values, which name the key.
/// Relays and ways in have two sealed columns.
const SEALED: &str = "
    SELECT 'relays' AS kind, substr(headers, 1, 5) AS one, substr(secret, 1, 5) AS other,
           COUNT(*) AS things FROM relays GROUP BY 2, 3
    UNION ALL SELECT 'inbound keys', substr(key_sealed, 1, 5), substr(verification, 1, 5), COUNT(*)
    FROM inbound_ways GROUP BY 2, 3
    UNION ALL SELECT 'apps', substr(sealed, 1, 5), NULL, COUNT(*)
    FROM app_records WHERE sealed IS NOT NULL GROUP BY 2
    UNION ALL SELECT 'computers', substr(secrets, 1, 5), NULL, COUNT(*)
    FROM computers WHERE secrets IS NOT NULL GROUP BY 2";

/// Files that are copied along.
#[derive(Default)]
pub struct CompanionFiles {
    /// Files of the folder `tls`, by their names in it.
    pub tls: Vec<(PathBuf, Secret)>,
    pub keys: Option<VaultKeys>,
}

/// Whether a known key sealed a value that begins with these bytes.
pub type Opens = dyn Fn(&[u8]) -> bool + Send + Sync;

/// The file that holds the keys of the vault.
pub struct VaultKeys {
    /// The path that it was read from.
    pub path: PathBuf,
    pub text: Secret,
    pub opens: Box<Opens>,
}

/// Things of one kind that the same keys sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedSecrets {
    kind: String,
    marks: Vec<Vec<u8>>,
    things: u64,
}

impl SealedSecrets {
    /// Whether `opens` knows the keys of all sealed values.
    pub fn is_opened(&self, opens: impl Fn(&[u8]) -> bool) -> bool {
        self.marks.iter().all(|mark| opens(mark))
    }

    /// Lists how many things of each kind there are, in words.
    pub fn listed<'a>(all: impl IntoIterator<Item = &'a Self>) -> String {
        let mut kinds = BTreeMap::new();
        for one in all {
            *kinds.entry(&one.kind).or_insert(0) += one.things;
        }
        let words: Vec<_> =
            kinds.into_iter().map(|(kind, things)| format!("{kind}: {things}")).collect();
        words.join(", ")
    }
}

impl CompanionFiles {
    /// Returns all files, by their names in the folder of a store.
    pub(in crate::store) fn files(&self) -> impl Iterator<Item = (PathBuf, &Secret)> {
        self.tls_files().chain(self.keys.iter().map(|keys| (SECRETS_KEY.into(), &keys.text)))
    }

    fn tls_files(&self) -> impl Iterator<Item = (PathBuf, &Secret)> {
        self.tls.iter().map(|(name, text)| (Path::new(TLS).join(name), text))
    }

    /// Returns a line for each file of `tls`, as `sha256sum -c` reads it. The keys of the vault
    /// have none, because they may be put beside a backup, or removed from it, at any time.
    pub(in crate::store) fn sums(&self) -> String {
        let line =
            |(name, text): (PathBuf, &Secret)| format!("{}  {}\n", sum(text), name.display());
        self.tls_files().map(line).collect()
    }

    /// Fails if a file of `tls` in the backup is missing, or was changed or added since `sums`.
    pub(in crate::store) fn check(&self, from: &Path, sums: &str) -> Result<(), BackupError> {
        let listed = || sums.lines().filter_map(|line| line.split_once("  "));
        let is_changed = |(expected, listed): &(&str, &str)| {
            let is_same = |(name, text): (PathBuf, &Secret)| {
                name == Path::new(listed) && sum(text) == *expected
            };
            listed.starts_with(TLS) && !self.tls_files().any(is_same)
        };
        let is_added = |name: &PathBuf| listed().all(|(_, listed)| name != Path::new(listed));
        let damaged = |name: &Path, detail| BackupError::Damaged { at: from.join(name), detail };
        if let Some((_, changed)) = listed().find(is_changed) {
            let detail = format!(
                "the file was changed or is missing; to restore without the file, remove the file \
                 and its line in {SUM}"
            );
            return Err(damaged(Path::new(changed), detail));
        }
        if let Some(added) = self.tls_files().map(|(name, _)| name).find(is_added) {
            let detail = format!(
                "the file is not part of the backup ({SUM} has no line for it): remove the file"
            );
            return Err(damaged(&added, detail));
        }
        Ok(())
    }

    /// Returns the sealed things of the database. Fails with `OtherKeys` if `keys` opens none.
    pub(in crate::store) async fn sealed(
        &self,
        database: &mut SqliteConnection,
    ) -> Result<Vec<SealedSecrets>, BackupError> {
        let sealed = sealed(database).await?;
        let Some(keys) = &self.keys else { return Ok(sealed) };
        let marks = sealed.iter().flat_map(|one| &one.marks);
        if sealed.is_empty() || marks.into_iter().any(|mark| (keys.opens)(mark)) {
            return Ok(sealed);
        }
        Err(BackupError::OtherKeys {
            path: keys.path.clone(),
            listed: SealedSecrets::listed(&sealed),
        })
    }
}

fn sum(text: &Secret) -> String {
    let sum = digest(&SHA256, text.expose());
    sum.as_ref().iter().map(|octet| format!("{octet:02x}")).collect()
}

async fn sealed(database: &mut SqliteConnection) -> Result<Vec<SealedSecrets>, BackupError> {
    let rows = sqlx::query(SEALED).fetch_all(database).await?;
    let read = |row: &SqliteRow| {
        let (one, other): (Vec<u8>, Option<Vec<u8>>) = (row.try_get("one")?, row.try_get("other")?);
        let marks = [one].into_iter().chain(other).collect();
        let things: i64 = row.try_get("things")?;
        let things = u64::try_from(things).unwrap_or_default();
        Ok(SealedSecrets { kind: row.try_get("kind")?, marks, things })
    };
    rows.iter().map(read).collect()
}
