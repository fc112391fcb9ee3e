//! Two databases, one contract: no method and no column that only one of them has.

use std::collections::BTreeSet;
use std::path::Path;

use gatepost::run;
use gatepost::store::{Store, StoreError};
use sqlx::{Connection as _, Executor as _, Row as _};

use super::scene::{Kind, Scene, database};
use crate::support::sources::files;
use crate::support::{postgres, store_rules};

/// The text of all files below a folder.
pub fn sources(folder: &str) -> String {
    files(folder, "rs").into_iter().map(|(_, text)| text).collect()
}

#[test]
fn every_method_of_the_store_is_in_the_suite() {
    let (store, suite) = (sources("src/store"), sources("tests/it/store"));
    let methods: Vec<&str> = store
        .split("    pub async fn ")
        .skip(1)
        .filter_map(|rest| rest.split(['(', '<']).next())
        .collect();
    assert!(methods.len() > 35, "{methods:?}");
    for method in methods {
        let called = [format!(".{method}("), format!("Store::{method}(")];
        // Never resolves unless a disk fails under it.
        let called = method == "broken" || called.iter().any(|call| suite.contains(call));
        assert!(called, "no test of the suite calls {method}");
    }
}

/// Transactions that are not run again after a conflict, and why.
const RUN_ONCE: &[(&str, &str)] = &[
    ("check_commit", "a question, which is asked again"),
    ("check_writable", "a question"),
    ("database_facts", "a question"),
    ("decide_identity", "inserts one row, and the first wins"),
    ("link_key", "inserts one row, and the first wins"),
    ("forget_words", "SQLite only, where no other transaction writes"),
    ("index_messages", "several transactions, and its task comes again"),
    ("erase_rest", "a step of `try_erase_some`, which is run again"),
];

#[test]
fn every_transaction_is_run_again_after_a_conflict() {
    let store = sources("src/store");
    let begun = store.match_indices(".begin().await?").filter_map(|(place, _)| {
        // In the macro that runs them again.
        let before = &store[..place];
        let method = before.rsplit("async fn ").next()?.split(['(', '<']).next();
        method.filter(|_| !before.ends_with("$base"))
    });
    let begun: BTreeSet<&str> = begun.collect();
    for (method, why) in RUN_ONCE {
        assert!(begun.contains(method), "{method} begins none: {why}");
    }
    for method in begun {
        let is_repeated = store.contains(&format!("retry_conflicts!(self.{method}("));
        let is_known = RUN_ONCE.iter().any(|(known, _)| *known == method);
        assert!(is_repeated || is_known, "{method} gives up after a conflict: use transact!");
    }
}

#[tokio::test]
async fn both_databases_have_the_same_tables_columns_and_indexes() {
    let (sqlite, postgres) = (Scene::new(Kind::Sqlite).await, Scene::new(Kind::Postgres).await);
    let (sqlite, postgres) = (of_sqlite(&sqlite).await, of_postgres(&postgres).await);
    assert!(sqlite.len() > 120, "{sqlite:?}");
    let only: Vec<_> = sqlite.symmetric_difference(&postgres).collect();
    assert!(only.is_empty(), "{only:#?}");
}

/// `table.column TYPE` with null or not, `table foreign key`, and the indexes with their columns.
async fn of_sqlite(scene: &Scene) -> BTreeSet<String> {
    let columns = "SELECT m.name || '.' || c.name || ' ' || c.type || ' '
               || CASE WHEN c.\"notnull\" = 1 OR c.pk > 0 THEN 'NOT NULL' ELSE 'NULL' END
               || COALESCE(' DEFAULT ' || c.dflt_value, '')
        FROM sqlite_schema AS m, pragma_table_info(m.name) AS c
        WHERE m.type = 'table' AND m.name NOT LIKE '\\_sqlx%' ESCAPE '\\'
          AND m.name NOT LIKE 'sqlite%' AND m.name <> 'user_ids'
        UNION ALL
        SELECT m.name || '.' || f.\"from\" || ' REFERENCES ' || f.\"table\" || '.' || f.\"to\"
        FROM sqlite_schema AS m, pragma_foreign_key_list(m.name) AS f WHERE m.type = 'table'
        UNION ALL
        SELECT m.name || ' INDEX ' || (SELECT GROUP_CONCAT(name, ', ') FROM
                   (SELECT name FROM pragma_index_info(i.name) ORDER BY seqno))
               || CASE WHEN i.\"unique\" = 1 THEN ' UNIQUE' ELSE '' END
               || CASE WHEN i.partial = 1 THEN ' PARTIAL' ELSE '' END
        FROM sqlite_schema AS m, pragma_index_list(m.name) AS i
        WHERE m.type = 'table' AND m.name NOT LIKE '\\_sqlx%' ESCAPE '\\'
        UNION ALL
        SELECT m.name || ' INDEX id UNIQUE' FROM sqlite_schema AS m, pragma_table_info(m.name) AS c
        WHERE m.type = 'table' AND c.pk = 1 AND c.type = 'INTEGER' AND c.name = 'id'
          AND m.name <> 'contacts'
        UNION ALL
        SELECT 'inbound_policies INDEX agent_id UNIQUE'
        UNION ALL
        SELECT 'computers INDEX agent_id UNIQUE'
        UNION ALL
        SELECT 'erasures INDEX subject UNIQUE'";
    let rows = sqlx::query(columns).fetch_all(&mut database(&scene.path()).await).await.unwrap();
    twins(rows.iter().map(|row| row.get(0)).collect())
}

/// But for the index of full-text search: FTS5 beside the entries here, a tsvector in them there.
fn twins(mut all: BTreeSet<String>) -> BTreeSet<String> {
    all.retain(|one| {
        let own = ["number ", "tokens "].map(|name| format!("search_entries.{name}"));
        let of_index = ["search_entries INDEX", "search_words"];
        let of_index = of_index.iter().any(|name| one.starts_with(name));
        !of_index && !own.iter().any(|name| one.starts_with(name))
    });
    all
}

async fn of_postgres(scene: &Scene) -> BTreeSet<String> {
    let columns = "SELECT table_name || '.' || column_name || ' '
               || CASE data_type WHEN 'bigint' THEN 'INTEGER' WHEN 'text' THEN 'TEXT'
                    WHEN 'uuid' THEN 'BLOB' WHEN 'bytea' THEN 'BLOB' ELSE data_type END
               || CASE is_nullable WHEN 'NO' THEN ' NOT NULL' ELSE ' NULL' END
               || COALESCE(' DEFAULT ' || REPLACE(column_default, '::text', ''), '')
        FROM information_schema.columns
        WHERE table_schema = 'public' AND table_name NOT LIKE '\\_sqlx%'
          AND table_name NOT IN (SELECT table_name FROM information_schema.views
                                 WHERE table_schema = 'public')
        UNION ALL
        SELECT c.conrelid::regclass || '.' || a.attname || ' REFERENCES '
               || c.confrelid::regclass || '.' || b.attname
        FROM pg_constraint AS c
        CROSS JOIN unnest(c.conkey, c.confkey) AS k (own, other)
        JOIN pg_attribute AS a ON a.attrelid = c.conrelid AND a.attnum = k.own
        JOIN pg_attribute AS b ON b.attrelid = c.confrelid AND b.attnum = k.other
        WHERE c.contype = 'f'
        UNION ALL
        SELECT i.indrelid::regclass || ' INDEX ' || (
                   SELECT string_agg(a.attname, ', ' ORDER BY k.place)
                   FROM unnest(i.indkey) WITH ORDINALITY AS k (number, place)
                   JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.number)
               || CASE WHEN i.indisunique THEN ' UNIQUE' ELSE '' END
               || CASE WHEN i.indpred IS NOT NULL THEN ' PARTIAL' ELSE '' END
        FROM pg_index AS i JOIN pg_class AS t ON t.oid = i.indrelid
        WHERE t.relnamespace = 'public'::regnamespace AND t.relname NOT LIKE '\\_sqlx%'";
    let rows = sqlx::query(columns).fetch_all(&mut scene.postgres().await).await.unwrap();
    twins(rows.iter().map(|row| row.get(0)).collect())
}

/// Compares the parts that no catalogue shows in comparable words: checks, predicates, comments.
#[test]
fn migrations_are_twins_statement_by_statement() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let names = |kind: &str| -> BTreeSet<_> {
        let entries = std::fs::read_dir(folder.join(kind)).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    };
    assert_eq!(names("sqlite"), names("postgres"));
    for name in names("sqlite") {
        let read = |kind: &str| std::fs::read_to_string(folder.join(kind).join(&name)).unwrap();
        let words = |text: String| -> Vec<String> {
            let lines = text.lines().filter(|line| !line.trim_start().starts_with("--"));
            let text =
                lines.collect::<Vec<_>>().join(" ").replace(") STRICT, WITHOUT ROWID;", ");");
            let text = text.replace(") STRICT;", ");");
            let text = text.replace(" COLLATE \"C\"", "").replace("BIGINT", "INTEGER");
            let text = text.replace("BYTEA", "BLOB").replace("UUID", "BLOB");
            // SQLite has one way to keep bytes.
            let statements = text.split(';').filter(|one| !one.contains("SET STORAGE"));
            let statements = statements
                .filter(|one| !["user_ids", "event_numbers"].iter().any(|name| one.contains(name)))
                // Each database has functions of its own to read JSON.
                .filter(|one| !one.contains("productPlanId"))
                // The index of full-text search, and the end of its trigger.
                .filter(|one| !one.contains("search_entries") && !one.contains("search_words"))
                .filter(|one| one.trim() != "END");
            statements.map(|one| one.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
        };
        let (sqlite, postgres) = (words(read("sqlite")), words(read("postgres")));
        match sqlite.iter().find(|one| one.contains("_anew (")) {
            // SQLite changes no CHECK and makes its table anew, PostgreSQL changes the CHECK alone.
            Some(table) => {
                let checks = postgres.iter().filter_map(|one| Some(one.split_once(" CHECK ")?.1));
                let checks: Vec<_> = checks.collect();
                assert!(!checks.is_empty(), "{name:?}");
                assert!(checks.iter().all(|check| table.contains(check)), "{name:?}: {checks:?}");
            }
            None => assert_eq!(sqlite, postgres, "{name:?}"),
        }
    }
}

#[tokio::test]
async fn a_database_without_a_store_or_with_a_newer_one_is_said_so() {
    let location = postgres::new_location().await;
    let missing = Store::open(&location, &store_rules(), run::system_mint()).await.unwrap_err();
    assert!(matches!(missing, StoreError::Missing { .. }), "{missing:?}");
    assert!(missing.to_string().contains("gatepost init"), "{missing}");

    let scene = Scene::new(Kind::Postgres).await;
    let newer = "INSERT INTO _sqlx_migrations
                     (version, description, installed_on, success, checksum, execution_time)
                 VALUES (9999, 'newer', now(), true, '', 0)";
    scene.execute(newer).await;
    let refused =
        Store::open(&scene.location, &store_rules(), run::system_mint()).await.unwrap_err();
    assert!(matches!(refused, StoreError::Newer { .. }), "{refused:?}");
    assert!(refused.to_string().contains("newer"), "{refused}");
}

#[tokio::test]
async fn a_store_that_is_opened_as_it_is_stays_as_it_is() {
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let scene = Scene::new(kind).await;
        let rules = store_rules();
        let open = || Store::open_as_is(&scene.location, &rules, run::system_mint());
        open().await.unwrap().close().await;
        scene
            .execute(
                "DELETE FROM _sqlx_migrations
                 WHERE version = (SELECT MAX(version) FROM _sqlx_migrations)",
            )
            .await;
        let count = "SELECT COUNT(*) FROM _sqlx_migrations";
        let before = scene.count(count).await;
        let refused = open().await.unwrap_err();
        assert!(matches!(refused, StoreError::Older { .. }), "{refused:?}");
        assert_eq!(scene.count(count).await, before);
    }
}

/// As when the server is restarted: what was under way fails, what comes after goes through.
#[tokio::test]
async fn lost_connections_are_replaced() {
    let scene = Scene::new(Kind::Postgres).await;
    scene.deliver(&scene.agent, 0).await;
    let mut other = scene.postgres().await;
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    other.execute(end).await.unwrap();
    other.close().await.unwrap();
    scene.deliver(&scene.agent, 1).await;
    assert_eq!(scene.count("SELECT COUNT(*) FROM messages").await, 2);
}
