//! A restore is the whole backup, or nothing.

use std::path::Path;

use aws_lc_rs::digest::{SHA256, digest};
use gatepost::run;
use gatepost::store::{self, CompanionFiles, Location, OriginalsPlace};
use sqlx::migrate::Migrator;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _};
use tempfile::TempDir;

use crate::backup::reached;
use crate::support::process::{GATEPOST, failing, gatepost};
use crate::support::store_rules;

const ORIGINAL: &str = "blobs/original";

/// A folder with a store in `data`, which has one original beside it, and its backup in `copy`.
async fn backed_up() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    assert!(gatepost(here, &["init", "--data", "data"]).await.status.success());
    std::fs::create_dir_all(here.join("data/blobs")).unwrap();
    std::fs::write(here.join("data").join(ORIGINAL), "large").unwrap();
    let mut live = open(&here.join("data")).await;
    let insert = "INSERT INTO contents (content_id, object_digest, octets, packed, object,
                                        organization_id)
                  VALUES (randomblob(16), $1, 0, x'', 'original', 3)";
    let insert = sqlx::query(insert).bind(digest(&SHA256, b"large").as_ref().to_vec());
    insert.execute(&mut live).await.unwrap();
    live.close().await.unwrap();
    let output = gatepost(here, &["backup", "--data", "data", "--to", "copy"]).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    folder
}

async fn open(data: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(data.join("gatepost.db"));
    options.foreign_keys(false).connect().await.unwrap()
}

/// Changes the backup's database, and what is said about it, so that only a closer look tells.
async fn forge(here: &Path, sql: &'static str) {
    let mut database = open(&here.join("copy")).await;
    database.execute(sql).await.unwrap();
    database.close().await.unwrap();
    seal(here);
}

fn seal(here: &Path) {
    let octets = std::fs::read(here.join("copy/gatepost.db")).unwrap();
    let sum = digest(&SHA256, &octets);
    let hexadecimal: String = sum.as_ref().iter().map(|octet| format!("{octet:02x}")).collect();
    let line = format!("{hexadecimal}  gatepost.db\n");
    std::fs::write(here.join("copy/gatepost.db.sha256"), line).unwrap();
}

async fn refused_as(here: &Path, from: &str, words: &str) {
    let said = failing(here, &["restore", "--from", from, "--data", "none"]).await;
    assert!(said.contains(words), "{said}");
    assert!(!here.join("none").exists(), "{words}: something is left");
}

/// The backup is refused with these words, and leaves nothing behind.
async fn refused(here: &Path, words: &str) {
    refused_as(here, "copy", words).await;
}

#[tokio::test]
async fn a_backup_is_restored_whole() {
    let folder = backed_up().await;
    let here = folder.path();
    let output = gatepost(here, &["restore", "--from", "copy", "--data", "new", "--json"]).await;
    let restored: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let octets = here.join("copy/gatepost.db").metadata().unwrap().len() + 5;
    // No server ever ran on it, so that it has no certificate, and no key for secrets.
    let missing = &restored["missing"][0];
    assert!(missing.as_str().unwrap().starts_with("new/tls, because"), "{missing}");
    let expected = serde_json::json!({
        "to": "new", "messages": 0, "octets": octets, "objects": 1, "tls": 0, "secretsKey": false,
        "missing": [missing],
    });
    assert_eq!(restored, expected);
    assert_eq!(std::fs::read_to_string(here.join("new").join(ORIGINAL)).unwrap(), "large");
    let listed = gatepost(here, &["account", "list", "--data", "new"]).await;
    assert!(String::from_utf8_lossy(&listed.stdout).contains("Partner"));
}

#[tokio::test]
async fn nothing_is_overwritten() {
    let folder = backed_up().await;
    let here = folder.path();
    let before = std::fs::read(here.join("data/gatepost.db")).unwrap();
    let said = failing(here, &["restore", "--from", "copy", "--data", "data"]).await;
    assert!(said.contains("data is not empty: name a folder"), "{said}");
    assert_eq!(std::fs::read(here.join("data/gatepost.db")).unwrap(), before);
    std::fs::create_dir(here.join("other")).unwrap();
    std::fs::write(here.join("other/file"), "").unwrap();
    let said = failing(here, &["restore", "--from", "copy", "--data", "other"]).await;
    assert!(said.contains("other is not empty"), "{said}");
    assert_eq!(std::fs::read_dir(here.join("other")).unwrap().count(), 1);
}

/// A pipe in the place of the original holds the restore after its database is there and checked.
#[tokio::test]
async fn a_restore_that_was_killed_left_no_store() {
    let folder = backed_up().await;
    let here = folder.path();
    let pipe = here.join("copy").join(ORIGINAL);
    std::fs::remove_file(&pipe).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut command = tokio::process::Command::new(GATEPOST);
    command.args(["restore", "--from", "copy", "--data", "new"]).current_dir(here);
    let mut restoring = command.kill_on_drop(true).spawn().unwrap();
    let _writing = reached(&pipe).await;
    restoring.kill().await.unwrap();
    assert!(here.join("new/gatepost.db.part").exists());
    let said = failing(here, &["migrate", "--data", "new"]).await;
    assert!(said.contains("there is no store at new"), "{said}");
    let said = failing(here, &["restore", "--from", "copy", "--data", "new"]).await;
    assert!(said.contains("holds an unfinished backup or restore: remove that"), "{said}");
}

#[tokio::test]
async fn a_backup_that_was_changed_is_refused() {
    let folder = backed_up().await;
    let here = folder.path();
    let mut octets = std::fs::read(here.join("copy/gatepost.db")).unwrap();
    let last = octets.len() - 1;
    octets[last] ^= 1;
    std::fs::write(here.join("copy/gatepost.db"), octets).unwrap();
    refused(here, "copy/gatepost.db is damaged: the file was changed").await;
}

#[tokio::test]
async fn a_database_that_is_not_sound_is_refused() {
    let folder = backed_up().await;
    let here = folder.path();
    let mut octets = std::fs::read(here.join("copy/gatepost.db")).unwrap();
    // Every page but the first, which holds the schema.
    octets[4096..].fill(0xa5);
    std::fs::write(here.join("copy/gatepost.db"), octets).unwrap();
    seal(here);
    refused(here, "damaged").await;
}

#[tokio::test]
async fn a_row_that_refers_to_nothing_is_refused() {
    let folder = backed_up().await;
    forge(folder.path(), "INSERT INTO inbound_policies VALUES (77, 'open', 1, 0)").await;
    refused(folder.path(), "copy/gatepost.db is damaged: a row of inbound_policies").await;
}

#[tokio::test]
async fn an_original_that_is_missing_or_altered_is_named() {
    let folder = backed_up().await;
    let here = folder.path();
    std::fs::write(here.join("copy").join(ORIGINAL), "LARGE").unwrap();
    refused(here, "missing or damaged below copy/blobs: original").await;
    std::fs::remove_file(here.join("copy").join(ORIGINAL)).unwrap();
    refused(here, "missing or damaged below copy/blobs: original").await;
}

#[tokio::test]
async fn a_folder_without_a_backup_is_refused() {
    let folder = backed_up().await;
    let here = folder.path();
    for from in ["data", "nowhere", "copy/blobs"] {
        let said = failing(here, &["restore", "--from", from, "--data", "new"]).await;
        assert!(said.contains(&format!("no finished backup in {from}")), "{said}");
    }
    assert!(!here.join("new").exists());
}

/// Originals that are kept elsewhere are no part of a backup, and are not looked for.
#[tokio::test]
async fn originals_elsewhere_are_left_where_they_are() {
    let folder = backed_up().await;
    let here = folder.path();
    std::fs::remove_dir_all(here.join("data/blobs")).unwrap();
    let [live, new] = ["data", "new"].map(|name| Location::Folder(here.join(name)));
    let (to, elsewhere) = (here.join("bare"), OriginalsPlace::Elsewhere);
    let copied = store::back_up(&live, &to, elsewhere, CompanionFiles::default()).await.unwrap();
    assert_eq!((copied.messages, copied.objects), (0, 1));
    assert!(!to.join("blobs").exists());
    let (rules, mint) = (store_rules(), run::system_mint());
    let restored =
        store::restore(&to, &new, elsewhere, CompanionFiles::default(), &rules, mint).await;
    assert_eq!(restored.unwrap(), copied);
    refused_as(here, "bare", "missing or damaged below bare/blobs: original").await;
}

/// A backup of an older version is brought to this one, as a store is when it is opened.
#[tokio::test]
async fn an_older_backup_is_migrated() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::create_dir(here.join("old")).unwrap();
    let file = here.join("old/gatepost.db");
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let mut old = options.connect().await.unwrap();
    let all = Migrator::new(Path::new("migrations/sqlite")).await.unwrap();
    let newest = all.iter().map(|one| one.version).max().unwrap();
    all.run_to(newest - 1, &mut old).await.unwrap();
    old.close().await.unwrap();
    // It is copied as it is: an older server may be running on it.
    assert!(gatepost(here, &["backup", "--data", "old", "--to", "copy"]).await.status.success());
    let version = "SELECT MAX(version) FROM _sqlx_migrations";
    assert_eq!(crate::support::count(&here.join("old"), version).await, newest - 1);
    let output = gatepost(here, &["restore", "--from", "copy", "--data", "new"]).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(crate::support::count(&here.join("new"), version).await, newest);
}

/// Proves that a store with sealed secrets is not served without their key: a backup holds the key
/// by choice only, and a new key would open nothing.
#[tokio::test]
async fn a_store_with_secrets_is_not_served_without_their_key() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    assert!(gatepost(here, &["init", "--data", "data"]).await.status.success());
    let mut live = open(&here.join("data")).await;
    let relay = "INSERT INTO relays SELECT randomblob(16), id, 'smtp', 'https://a.example/', 1000,
                        x'01', x'02', '[]', 1, 0, 0 FROM accounts LIMIT 1";
    live.execute(relay).await.unwrap();
    live.close().await.unwrap();
    std::fs::write(here.join("data/secrets.key"), "the key").unwrap();
    let copied = gatepost(here, &["backup", "--data", "data", "--to", "copy"]).await;
    assert!(String::from_utf8_lossy(&copied.stdout).contains("secrets.key"), "{copied:?}");
    assert!(!here.join("copy/secrets.key").exists());
    let restored = gatepost(here, &["restore", "--from", "copy", "--data", "new"]).await;
    assert!(String::from_utf8_lossy(&restored.stdout).contains("secrets.key"), "{restored:?}");
    let serve = ["serve", "--data", "new", "--smtp", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let said = failing(here, &serve).await;
    assert!(said.contains("copy secrets.key from the old data folder"), "{said}");
    assert!(!here.join("new/secrets.key").exists());
}
