//! The schema that this program knows, and its comparison with the one of a database.
//!
//! A migration expands or contracts. One that expands (new tables, indexes, columns that may be left
//! out) says in the name of its file from which schema on older gateways may use what it leaves:
//! `0015_labels_from_13.sql`. sqlx keeps the name in the database, so an older gateway, which does
//! not know the file, reads it there. Every other migration is for newer gateways only.

use include_dir::{Dir, include_dir};
use sqlx::migrate::{Migrate, MigrateError, Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, SqlSafeStr as _};

use super::error::StoreError;

pub static EMBEDDED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/migrations/sqlite");
pub static POSTGRES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/migrations/postgres");

/// Whether opening changes a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Make it if there is none, and migrate it.
    Create,
    Migrate,
    /// Nothing: it must have the schema of this version.
    AsIs,
}

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

/// The names of the migrations applied.
pub const NAMES: &str = "SELECT version, description FROM _sqlx_migrations";

/// The number and the name of a migration that was applied.
pub type Applied = (i64, String);

/// Whether the schema is the one that this program knows, or a newer one that it may use; false if
/// it is older. Fails with `Newer` if it is newer and not for this program. Changes nothing. The
/// table must exist; `names` are its [`NAMES`].
pub async fn is_current(
    database: &mut impl Migrate,
    known: &Migrator,
    names: &[Applied],
) -> Result<bool, StoreError> {
    if let Some(version) = database.dirty_version(TABLE).await? {
        return Err(MigrateError::Dirty(version).into());
    }
    check_newer(known, names)?;
    let applied = database.list_applied_migrations(TABLE).await?;
    let is_applied = |version, checksum: &[u8]| {
        applied.iter().any(|one| one.version == version && *one.checksum == *checksum)
    };
    Ok(known.iter().all(|one| is_applied(one.version, &one.checksum)))
}

/// Fails with `Newer` if a newer program made changes that this one must not meet.
pub fn check_newer(known: &Migrator, names: &[Applied]) -> Result<(), StoreError> {
    let newest = known.iter().map(|one| one.version).max().unwrap_or(0);
    let mut newer = names.iter().filter(|(version, _)| !known.version_exists(*version));
    match newer.find(|(_, name)| open_from(name).is_none_or(|oldest| newest < oldest)) {
        Some((version, _)) => Err(StoreError::Newer { version: *version }),
        None => Ok(()),
    }
}

/// Returns the schema from which on gateways may use what this migration leaves: `labels from 13`.
/// None if it contracts.
fn open_from(name: &str) -> Option<i64> {
    name.rsplit_once(" from ")?.1.parse().ok()
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

    fn names(names: &[(i64, &str)]) -> Vec<Applied> {
        names.iter().map(|(version, name)| (*version, (*name).to_owned())).collect()
    }

    #[test]
    fn a_newer_schema_is_used_as_far_as_it_only_expands() {
        let known = migrator(&POSTGRES);
        let newest = known.iter().map(|one| one.version).max().unwrap();
        let open = format!("labels from {newest}");
        let refused = |all: &[(i64, &str)]| match check_newer(&known, &names(all)) {
            Ok(()) => None,
            Err(StoreError::Newer { version }) => Some(version),
            Err(error) => panic!("{error:?}"),
        };
        assert_eq!(refused(&[(1, "installation")]), None);
        assert_eq!(refused(&[(1, "installation"), (9998, &open)]), None);
        assert_eq!(refused(&[(9998, &open), (9999, "names")]), Some(9999));
        assert_eq!(refused(&[(9998, &open), (9999, "words from 9998")]), Some(9998 + 1));
        assert_eq!(refused(&[(9999, "taken from before")]), Some(9999));
    }

    /// Words by which a column or a table demands something of older gateways, or takes it away.
    const DEMANDS: [&str; 10] = [
        "UNIQUE",
        "CHECK",
        "REFERENCES",
        "PRIMARY",
        "CONSTRAINT",
        "EXCLUDE",
        "GENERATED",
        "INHERITS",
        "PARTITION",
        "ATTACH",
    ];

    /// Whether it takes something away from an older gateway, or demands something of it. In doubt,
    /// it does.
    fn contracts(sql: &str) -> bool {
        let text = sql.lines().map(|line| match line.split_once("--") {
            // Two dashes in a text are no comment.
            Some((before, _)) if before.matches('\'').count() % 2 == 0 => before,
            _ => line,
        });
        let text = text.collect::<Vec<_>>().join(" ").to_uppercase();
        text.contains("/*") || text.split(';').any(|one| !only_adds(one))
    }

    fn only_adds(statement: &str) -> bool {
        let words = words(statement);
        let rest = match words.as_slice() {
            [] | ["CREATE", "INDEX", ..] => return true,
            // Its own rules bind nobody who does not know it; a reference binds its other table.
            ["CREATE", "TABLE", ..] => {
                return !["REFERENCES", "INHERITS", "PARTITION"]
                    .iter()
                    .any(|one| words.contains(one));
            }
            ["ALTER", "TABLE", _, rest @ ..] => rest.len(),
            _ => return false,
        };
        let Some(start) = statement.find(" ADD ") else { return false };
        let actions = actions(&statement[start..]);
        let all = actions.iter().map(|action| self::words(action).len()).sum::<usize>();
        // Nothing stands before the first one.
        all == rest && actions.iter().all(|action| is_free_column(action))
    }

    /// Splits at commas that are in no brackets.
    fn actions(text: &str) -> Vec<String> {
        let (mut depth, mut actions) = (0_i32, vec![String::new()]);
        for one in text.chars() {
            match one {
                '(' => depth += 1,
                ')' => depth -= 1,
                ',' if depth == 0 => {
                    actions.push(String::new());
                    continue;
                }
                _ => {}
            }
            actions.last_mut().unwrap().push(one);
        }
        actions
    }

    fn is_free_column(action: &str) -> bool {
        let words = words(action);
        let has = |pair: [&str; 2]| words.windows(2).any(|two| two == pair);
        let is_filled = words.contains(&"DEFAULT") && !has(["DEFAULT", "NULL"]);
        words.starts_with(&["ADD", "COLUMN"])
            && !DEMANDS.iter().any(|demand| words.contains(demand))
            && (!has(["NOT", "NULL"]) || is_filled)
    }

    fn words(text: &str) -> Vec<&str> {
        text.split(|one: char| one.is_whitespace() || "(),".contains(one))
            .filter(|word| !word.is_empty())
            .collect()
    }

    #[test]
    fn what_says_that_it_expands_does() {
        for (sql, expected) in [
            ("-- Labels.\nALTER TABLE messages ADD COLUMN label TEXT;", false),
            ("ALTER TABLE messages ADD COLUMN label TEXT NOT NULL DEFAULT '';", false),
            ("CREATE TABLE labels (id BIGINT NOT NULL); CREATE INDEX a ON labels (id);", false),
            ("ALTER TABLE messages ADD COLUMN label TEXT NOT NULL;", true),
            ("ALTER TABLE messages DROP COLUMN label;", true),
            ("ALTER TABLE messages RENAME COLUMN label TO word;", true),
            ("CREATE UNIQUE INDEX a ON messages (label);", true),
            ("DROP TABLE labels;", true),
            ("UPDATE messages SET label = '';", true),
            ("ALTER TABLE messages ADD COLUMN a TEXT, ADD COLUMN b DECIMAL(8, 2);", false),
            ("ALTER TABLE messages ADD COLUMN a TEXT NOT NULL DEFAULT ''; -- Not null.\n", false),
            ("CREATE TABLE labels (id BIGINT PRIMARY KEY, a TEXT UNIQUE CHECK (a <> ''));", false),
            ("ALTER TABLE messages ADD COLUMN a TEXT, DROP COLUMN b;", true),
            ("ALTER TABLE messages DROP COLUMN b, ADD COLUMN a TEXT;", true),
            (
                "ALTER TABLE messages ADD COLUMN a TEXT NOT NULL, ADD COLUMN b TEXT DEFAULT '';",
                true,
            ),
            ("ALTER TABLE messages ADD COLUMN a TEXT NOT NULL -- DEFAULT ''\n;", true),
            ("ALTER TABLE messages ADD COLUMN a TEXT NOT NULL /* DEFAULT '' */;", true),
            ("ALTER TABLE messages ADD COLUMN a TEXT NOT NULL DEFAULT NULL;", true),
            ("ALTER TABLE messages ADD COLUMN a TEXT UNIQUE;", true),
            ("ALTER TABLE messages ADD COLUMN a TEXT CHECK(a <> '');", true),
            ("ALTER TABLE messages ADD COLUMN a TEXT REFERENCES labels (id);", true),
            ("ALTER TABLE messages ADD CONSTRAINT a CHECK (label <> '');", true),
            ("ALTER TABLE messages ALTER COLUMN a SET NOT NULL;", true),
            ("CREATE TABLE labels (message BIGINT REFERENCES messages (id));", true),
            ("CREATE OR REPLACE FUNCTION told() RETURNS BIGINT LANGUAGE sql AS 'SELECT 1';", true),
            ("CREATE OR REPLACE VIEW labels AS SELECT 1;", true),
            ("CREATE TRIGGER a AFTER INSERT ON messages BEGIN SELECT 1; END;", true),
        ] {
            assert_eq!(contracts(sql), expected, "{sql}");
        }
        for folder in [&EMBEDDED, &POSTGRES] {
            for one in migrator(folder).iter() {
                let is_open = open_from(&one.description).is_some();
                assert!(!is_open || !contracts(one.sql.as_str()), "{}", one.version);
            }
        }
    }
}
