//! Compares the schema of a database with the one that this program knows.

use sqlx::migrate::{Migrate, MigrateError, Migrator};

use super::error::StoreError;

/// The table in which sqlx records the migrations applied.
pub const TABLE: &str = "_sqlx_migrations";

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
