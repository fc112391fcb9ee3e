//! A program that is older than the database touches nothing and says so, and none is migrated
//! twice at a time.

use std::path::Path;
use std::process::Stdio;

use gatepost::run;
use gatepost::store::{Location, Store};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Executor as _};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

use crate::support::process::{GATEPOST, failing, gatepost};
use crate::support::{PATIENCE, canary, postgres, store_rules};

const NEWER: &str = "newer gatepost (schema 9999)";
const SERVE: [&str; 5] = ["serve", "--smtp", "127.0.0.1:0", "--http", "127.0.0.1:0"];

async fn refused(here: &Path, command: &[&str], store: &[&str], words: &str) {
    let said = failing(here, &[command, store].concat()).await;
    assert!(said.contains(words), "{command:?}: {said}");
}

#[tokio::test]
async fn a_newer_folder_is_refused_by_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    assert!(gatepost(here, &["init", "--data", "data"]).await.status.success());
    assert!(gatepost(here, &["backup", "--data", "data", "--to", "copy"]).await.status.success());
    for data in ["data", "copy"] {
        let file = here.join(data).join("gatepost.db");
        let mut database = SqliteConnectOptions::new().filename(file).connect().await.unwrap();
        let newer = "INSERT INTO _sqlx_migrations
                         (version, description, installed_on, success, checksum, execution_time)
                     VALUES (9999, 'newer', 0, 1, x'00', 0)";
        database.execute(newer).await.unwrap();
        database.close().await.unwrap();
    }
    let store = ["--data", "data"];
    for command in [&SERVE[..], &["migrate"], &["backup", "--to", "new"], &["account", "list"]] {
        refused(here, command, &store, NEWER).await;
        assert!(!here.join("new").exists());
    }
    let sum = "cd copy && sha256sum gatepost.db >gatepost.db.sha256";
    let sealed = Command::new("sh").args(["-c", sum]).current_dir(here).status().await;
    assert!(sealed.unwrap().success());
    refused(here, &["restore", "--from", "copy"], &["--data", "new"], NEWER).await;
    assert!(!here.join("new").exists());
}

#[tokio::test]
async fn a_newer_postgres_is_refused_by_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let url = postgres::new_database().await;
    let location = Location::parse(None, Some(&url)).unwrap();
    Store::create(&location, &store_rules(), run::system_mint()).await.unwrap().close().await;
    let newer = "INSERT INTO _sqlx_migrations
                     (version, description, success, checksum, execution_time)
                 VALUES (9999, 'newer', true, '\\x00', 0)";
    postgres::connect(&url).await.execute(newer).await.unwrap();
    let store = ["--database-url", &url];
    for command in [&SERVE[..], &["migrate"], &["account", "list"]] {
        refused(here, command, &store, NEWER).await;
    }
}

#[tokio::test]
async fn a_postgres_is_backed_up_by_its_own_tools() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    // Nobody is asked: the answer is the same whatever is there.
    let store = ["--database-url", "postgres://me:hush@127.0.0.1:1/mail"];
    for command in [&["backup", "--to", "copy"], &["restore", "--from", "copy"]] {
        let said = failing(here, &[&command[..], &store].concat()).await;
        assert!(said.contains("pg_dump") && said.contains("policies folder"), "{said}");
        assert!(!said.contains("hush"), "{said}");
    }
    assert!(!here.join("copy").exists());
}

/// Somebody who waits wants to know what for.
#[tokio::test]
async fn who_waits_for_the_migration_of_another_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let url = postgres::new_database().await;
    let mut other = postgres::connect(&url).await;
    let lock = "SELECT pg_advisory_lock(hashtextextended('gatepost migration', 0))";
    other.execute(lock).await.unwrap();
    let mut command = Command::new(GATEPOST);
    command.args(["init", "--database-url", &url]).current_dir(folder.path()).kill_on_drop(true);
    command.env_remove("GATEPOST_LOG").stdout(Stdio::null()).stderr(Stdio::piped());
    let mut waiting = command.spawn().unwrap();
    let mut lines = BufReader::new(waiting.stderr.take().unwrap()).lines();
    loop {
        let line = timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap();
        let line = line.expect("it ended without waiting");
        canary::keep("init", line.as_bytes(), None);
        if line.contains("waiting for another gateway to migrate the store") {
            break;
        }
    }
    other.close().await.unwrap();
    while timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().is_some() {}
    assert!(timeout(PATIENCE, waiting.wait()).await.unwrap().unwrap().success());
}
