//! Two versions beside each other on one store: a schema that only grew serves the older one, too,
//! and one that did more refuses it (docs/upgrade.md).

#![expect(clippy::print_stderr, reason = "a test that takes long says how far it is")]

use std::path::Path;
use std::time::Duration;

use gatepost::shutdown::Shutdown;
use gatepost::store::Location;
use sqlx::Executor as _;
use sqlx::migrate::Migrator;
use tempfile::TempDir;
use tokio::task::block_in_place;

use crate::support::audit::assert_nothing_lost;
use crate::support::mailers::{HASTE, Mailers, NO_RATES};
use crate::support::process::{GATEPOST, Server, failing, gatepost};
use crate::support::site::Site;
use crate::support::{PATIENCE, local_dns, postgres, rules};

/// Later than any migration of ours.
/// One table of those in use: of two, this and a commit could each wait for the other.
const EXPANDS: &str = "ALTER TABLE messages ADD COLUMN label TEXT;
    ALTER TABLE messages ADD COLUMN plan BIGINT NOT NULL DEFAULT 0;
    CREATE TABLE labels (id BIGINT NOT NULL, label TEXT NOT NULL);
    CREATE INDEX messages_by_label ON messages (label);";
const CONTRACTS: &str = "DROP TABLE labels;";

/// The migrations of a next version: ours, and these.
fn next_version(kind: &str, further: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations").join(kind);
    for file in std::fs::read_dir(ours).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
    }
    for (name, sql) in further {
        std::fs::write(folder.path().join(name), sql).unwrap();
    }
    folder
}

/// The number of our last migration, as a later one names it.
fn newest() -> i64 {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations/postgres");
    let names = std::fs::read_dir(ours).unwrap().map(|file| file.unwrap().file_name());
    names.map(|name| name.to_str().unwrap()[..4].parse().unwrap()).max().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_run_on_a_schema_that_grew_and_refuse_one_that_shrank() {
    let location = postgres::new_location().await;
    let Location::Postgres(url) = &location else { panic!("not on PostgreSQL") };
    let folder = tempfile::tempdir().unwrap();
    let site = Site::build(&location, &rules(folder.path(), &[HASTE, NO_RATES])).await;
    site.leave_store().await;
    let start = async || Server::start_on(&location, folder.path(), site.dns.addr()).await;
    let mailers = Mailers::start_paced(100_000, 4, Duration::from_millis(5));
    let further = async || mailers.reach(mailers.acknowledged() + 60).await;
    let running = start().await;
    mailers.arrived(running.smtp);
    further().await;

    let open = format!("9998_labels_from_{}.sql", newest());
    let grown = next_version("postgres", &[(&open, EXPANDS)]);
    let mut database = postgres::connect(url.expose()).await;
    let next = Migrator::new(grown.path()).await.unwrap();
    next.run_direct(None, &mut database, false).await.unwrap();
    further().await;
    let started = start().await;
    mailers.arrived(started.smtp);
    further().await;

    let shrunk = [(open.as_str(), EXPANDS), ("9999_labels_go.sql", CONTRACTS)];
    let shrunk = next_version("postgres", &shrunk);
    let last = Migrator::new(shrunk.path()).await.unwrap();
    last.run_direct(None, &mut database, false).await.unwrap();
    let serve = ["serve", "--smtp", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let command = [&serve[..], &["--database-url", url.expose()]].concat();
    let said = failing(folder.path(), &command).await;
    assert!(said.contains("newer gatepost (schema 9999)"), "{said}");
    // Those that run do not look at it again.
    further().await;
    let in_doubt = mailers.stop().await;
    assert_nothing_lost(running.http, &site.key, &site.receiver, &in_doubt).await;
    for gateway in [running, started] {
        assert_eq!(gateway.terminate().await, 0);
    }
    site.finish().await;
}

/// So that one may go back to the version before.
#[tokio::test]
async fn an_embedded_store_that_grew_is_opened_copied_and_restored_by_the_older_version() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    assert!(gatepost(here, &["init", "--data", "data"]).await.status.success());
    let open = format!("9998_labels_from_{}.sql", newest());
    let expands = EXPANDS.replace("BIGINT", "INTEGER");
    let grown = next_version("sqlite", &[(&open, &expands)]);
    let url = format!("sqlite:{}", here.join("data/gatepost.db").display());
    let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
    Migrator::new(grown.path()).await.unwrap().run(&pool).await.unwrap();
    pool.close().await;
    for command in [
        &["account", "list", "--data", "data"][..],
        &["backup", "--data", "data", "--to", "copy"],
        &["restore", "--from", "copy", "--data", "new"],
        &["account", "list", "--data", "new"],
    ] {
        let output = gatepost(here, command).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {said}");
    }
}

/// With this build in both parts, so that `scripts/soak upgrade` goes on working.
#[tokio::test(flavor = "multi_thread")]
async fn gateways_are_replaced_one_by_one_and_nothing_is_lost() {
    replace_all(GATEPOST, 30).await;
}

pub async fn soak(old: &str) {
    replace_all(old, 300).await;
}

/// Every gateway of another build is replaced under load, one after the other, so many messages
/// apart.
async fn replace_all(old: &str, apart: usize) {
    let database = block_in_place(|| postgres::start(&["fsync=on"]));
    let location = Location::parse(None, Some(&database.url)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    // The older version makes the store; the accounts are made by this one, once it has grown.
    let init = ["init", "--database-url", &database.url];
    let made = std::process::Command::new(old).args(init).current_dir(folder.path()).output();
    assert!(made.unwrap().status.success(), "the older binary cannot make a store");
    // The site makes a partner of its own, and a store has only one.
    let without_accounts = "TRUNCATE accounts CASCADE";
    postgres::connect(&database.url).await.execute(without_accounts).await.unwrap();
    let helpers = Shutdown::default();
    let dns_before = local_dns(&helpers).await;
    let rules = rules(folder.path(), &[HASTE, NO_RATES]);
    let mut running = Vec::new();
    for _ in 0..3 {
        let dns = dns_before.addr();
        running.push(Server::start_build(old, &location, folder.path(), dns).await);
    }
    let site = Site::build(&location, &rules).await;
    site.leave_store().await;
    let mailers = Mailers::start_paced(1_000_000, 6, Duration::from_millis(20));
    running.iter().for_each(|server| mailers.arrived(server.smtp));
    mailers.reach(apart).await;
    for (place, one) in running.iter_mut().enumerate() {
        let dns = dns_before.addr();
        let new = Server::start_build(GATEPOST, &location, folder.path(), dns).await;
        mailers.arrived(new.smtp);
        mailers.reach(mailers.acknowledged() + apart).await;
        let old = std::mem::replace(one, new);
        mailers.left(old.smtp);
        assert_eq!(old.terminate().await, 0);
        mailers.reach(mailers.acknowledged() + apart).await;
        eprintln!("{} of 3 replaced: {} acknowledged", place + 1, mailers.acknowledged());
    }
    let in_doubt = mailers.stop().await;
    let http = running[0].http;
    let (again, requests) = assert_nothing_lost(http, &site.key, &site.receiver, &in_doubt).await;
    eprintln!("{} acknowledged, {again} came again, {requests} deliveries", in_doubt.len());
    for gateway in running {
        assert_eq!(gateway.terminate().await, 0);
    }
    site.finish().await;
    assert!(helpers.finish(PATIENCE).await);
}
