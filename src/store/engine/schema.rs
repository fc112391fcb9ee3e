//! The schema that this program knows, and its comparison with the one of a database.

use include_dir::{Dir, include_dir};
use sqlx::migrate::{Migrate, MigrateError, Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, SqlSafeStr as _};

use super::error::StoreError;

pub static EMBEDDED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/migrations/sqlite");
pub static POSTGRES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/migrations/postgres");

/// The table in which sqlx records the migrations applied.
pub const TABLE: &str = "_sqlx_migrations";

/// Returns the migrations in files `NUMBER_SUBJECT.sql` of the folder. Not by `sqlx::migrate!`: its
/// crate of macros builds both databases a second time, for the compiler.
pub fn migrator(folder: &'static Dir<'_>) -> Migrator {
    let migration = |file: &'static include_dir::File<'_>| {
        let (number, subject) = file.path().file_stem()?.to_str()?.split_once('_')?;
        let sql = AssertSqlSafe(file.contents_utf8()?).into_sql_str();
        let subject = subject.replace('_', " ").into();
        Some(Migration::new(number.parse().ok()?, subject, MigrationType::Simple, sql, false))
    };
    Migrator::with_migrations(folder.files().filter_map(migration).collect())
}

/// Whether the schema is the one that this program knows; false if it is older. Fails with `Newer`
/// if it is newer. Changes nothing. The table must exist.
pub async fn is_current(database: &mut impl Migrate, known: &Migrator) -> Result<bool, StoreError> {
    if let Some(version) = database.dirty_version(TABLE).await? {
        return Err(MigrateError::Dirty(version).into());
    }
    let applied = database.list_applied_migrations(TABLE).await?;
    if let Some(newer) = applied.iter().find(|one| !known.version_exists(one.version)) {
        return Err(StoreError::Newer { version: newer.version });
    }
    let is_applied = |version, checksum: &[u8]| {
        applied.iter().any(|one| one.version == version && *one.checksum == *checksum)
    };
    Ok(known.iter().all(|one| is_applied(one.version, &one.checksum)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[tokio::test]
    async fn every_file_of_both_folders_is_a_migration() -> Result<(), MigrateError> {
        let facts = |migrator: &Migrator| -> Vec<_> {
            let of = |one: &Migration| (one.version, one.description.clone(), one.checksum.clone());
            migrator.iter().map(of).collect()
        };
        for (folder, path) in [(&EMBEDDED, "migrations/sqlite"), (&POSTGRES, "migrations/postgres")]
        {
            let known = migrator(folder);
            assert_eq!(known.iter().count(), folder.files().count());
            // sqlx's own reader, at run time.
            assert_eq!(facts(&known), facts(&Migrator::new(Path::new(path)).await?));
        }
        Ok(())
    }
}
