//! Large raw messages lie in the blob store: durable before the row that names them, once for the
//! same bytes, and gone some time after nobody names them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use gatepost::domain::account::Account;
use gatepost::domain::clock::Timestamp;
use gatepost::domain::id::MessageId;
use gatepost::domain::message::Digest;
use gatepost::domain::secret::Secret;
use gatepost::domain::verdict::Verdict;
use gatepost::rules::StoreRules;
use gatepost::run;
use gatepost::store::{
    BlobPlace, Commit, Committed, Intake, S3Access, Store, StoreError, StorePlace, SweepCounts,
};
use tokio::net::TcpListener;

use super::scene::{Kind, Scene, at, by, record, subtree};
use crate::support::{PATIENCE, store_rules};

on_both! {
    a_lost_original_that_comes_again_is_kept_again,
    only_what_is_large_lies_apart,
    the_same_large_bytes_are_put_once,
    an_original_stays_until_the_last_who_names_it_goes,
    what_a_failed_commit_left_is_swept_after_its_grace,
    a_repeat_leaves_an_orphan_at_most,
    a_missing_or_damaged_original_is_said_so,
    without_its_blob_store_an_original_is_not_made_up,
    an_unwritable_folder_defers_and_is_noticed_at_the_start,
}

const THRESHOLD: usize = 4096;

pub fn rules() -> StoreRules {
    let mut rules = store_rules();
    rules.objects.above_bytes = THRESHOLD;
    rules
}

pub fn folder(scene: &Scene) -> PathBuf {
    scene.folder.path().join("blobs")
}

/// A handle on the scene's database with a folder for what is large.
pub async fn with_blobs(scene: &Scene) -> Store {
    let place = StorePlace::new(scene.location.clone(), Some(BlobPlace::Folder(folder(scene))));
    Store::open(place, &rules(), run::system_mint()).await.unwrap()
}

/// A message of this size for `agent`; answers its id too.
pub async fn large(
    scene: &Scene,
    agent: &Account,
    millis: i64,
    size: usize,
) -> (Intake, MessageId) {
    let mut intake = scene.intake(agent, millis).await;
    let accepted = intake.accepted.as_mut().unwrap();
    let mut raw = accepted.raw.to_vec();
    raw.resize(size, b'x');
    accepted.message.digest.0.copy_from_slice(digest(&SHA256, &raw).as_ref());
    accepted.raw = raw.into();
    let id = accepted.message.id;
    (intake, id)
}

pub async fn committed(store: &Store, intakes: Vec<Intake>) {
    let none = vec![None; intakes.len()];
    let done = store.commit(&Commit { intakes, now: at(0) }).await.unwrap();
    assert_eq!(done, Committed::Done(none));
}

fn raw_of(intake: &Intake) -> Bytes {
    intake.accepted.as_ref().unwrap().raw.clone()
}

/// Every file below, but the one that says whose they are.
pub fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if !path.ends_with("blobs/owner") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// So many hours from now: files have the times of this machine.
pub fn hours(number: u64) -> Timestamp {
    run::system_mint().clock().now().plus(Duration::from_secs(number * 3600))
}

pub fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

async fn only_what_is_large_lies_apart(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = with_blobs(&scene).await;
    let (small, small_id) = large(&scene, &scene.agent, 0, THRESHOLD).await;
    committed(&store, vec![small.clone()]).await;
    assert_eq!(files(&folder(&scene)).len(), 0);
    let (big, big_id) = large(&scene, &scene.agent, 1, THRESHOLD + 1).await;
    committed(&store, vec![big.clone()]).await;
    let found = files(&folder(&scene));
    assert_eq!(found.len(), 1);
    assert_eq!(std::fs::read(&found[0]).unwrap(), raw_of(&big));
    let hex = big.accepted.as_ref().unwrap().message.digest.to_string();
    let name = found[0].strip_prefix(folder(&scene)).unwrap().to_str().unwrap();
    assert!(name.starts_with(&format!("raw/{}/{hex}-", &hex[..2])), "{name}");
    assert_eq!(mode(&found[0]), 0o600);
    for private in found[0].ancestors().skip(1).take(3) {
        assert_eq!(mode(private), 0o700, "{}", private.display());
    }
    let apart = "SELECT COUNT(*) FROM contents WHERE object IS NOT NULL AND original IS NULL";
    assert_eq!(scene.count(apart).await, 1);
    let scope = subtree(&scene.agent);
    for (id, intake) in [(small_id, small), (big_id, big)] {
        let raw = store.raw_message(&scope, id).await.unwrap().unwrap();
        assert_eq!(raw, raw_of(&intake));
        assert_eq!(store.raw_message(&subtree(&scene.other), id).await.unwrap(), None);
    }
}

async fn the_same_large_bytes_are_put_once(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = with_blobs(&scene).await;
    let stranger = scene.stranger().await;
    let (first, _) = large(&scene, &scene.agent, 0, 5000).await;
    let shared = first.accepted.clone().unwrap();
    let again = async |agent| {
        let mut intake = scene.intake(agent, 0).await;
        let accepted = intake.accepted.as_mut().unwrap();
        accepted.message.digest = shared.message.digest;
        accepted.raw = shared.raw.clone();
        intake
    };
    let second = again(&scene.other).await;
    committed(&store, vec![first, second]).await;
    let third = again(&stranger).await;
    let id = third.record.message.unwrap();
    committed(&store, vec![third]).await;
    assert_eq!(files(&folder(&scene)).len(), 1);
    assert_eq!(scene.count("SELECT COUNT(*) FROM messages").await, 3);
    let raw = store.raw_message(&subtree(&stranger), id).await.unwrap();
    assert_eq!(raw.as_deref(), Some(shared.raw.as_ref()));
}

async fn an_original_stays_until_the_last_who_names_it_goes(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = with_blobs(&scene).await;
    let stranger = scene.stranger().await;
    let (first, id) = large(&scene, &scene.agent, 0, 5000).await;
    let mut second = scene.intake(&stranger, 1).await;
    let (raw, other) = (raw_of(&first), second.record.message.unwrap());
    let accepted = second.accepted.as_mut().unwrap();
    accepted.message.digest = first.accepted.as_ref().unwrap().message.digest;
    accepted.raw = raw.clone();
    committed(&store, vec![first]).await;
    committed(&store, vec![second]).await;
    assert_eq!(files(&folder(&scene)).len(), 1);
    assert!(store.erase_message(&subtree(&scene.agent), id, by(at(2))).await.unwrap());
    assert_eq!(store.raw_message(&subtree(&stranger), other).await.unwrap().unwrap(), raw);
    assert!(store.erase_message(&subtree(&stranger), other, by(at(3))).await.unwrap());
    assert_eq!(files(&folder(&scene)).len(), 0);
}

async fn what_a_failed_commit_left_is_swept_after_its_grace(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = with_blobs(&scene).await;
    let (good, id) = large(&scene, &scene.agent, 0, 5000).await;
    committed(&store, vec![good.clone()]).await;
    let named = files(&folder(&scene));
    // A duplicate record breaks a constraint at the very end of the transaction.
    let (bad, _) = large(&scene, &scene.agent, 1, 6000).await;
    let refused = Intake { record: record(&scene.agent, 0, Verdict::Accepted), accepted: None };
    let commit = Commit { intakes: vec![bad, refused.clone(), refused], now: at(0) };
    store.commit(&commit).await.unwrap_err();
    assert_eq!(scene.count("SELECT COUNT(*) FROM contents").await, 1);
    assert_eq!(files(&folder(&scene)).len(), 2);
    // A half-written file of a killed put, and a file that is not ours.
    let unfinished = PathBuf::from(format!("{}#1", named[0].display()));
    std::fs::write(&unfinished, "half").unwrap();
    let foreign = folder(&scene).join("raw/00/notes.txt");
    std::fs::write(&foreign, "mine").unwrap();

    for (hour, removed, left) in [(0, 0, 4), (23, 0, 4), (25, 2, 2), (26, 0, 2)] {
        let swept = store.sweep_objects(hours(hour)).await.unwrap();
        let seen = if hour == 26 { 2 } else { 3 };
        assert_eq!(swept, Some(SweepCounts { seen, removed }), "after {hour} hours");
        assert_eq!(files(&folder(&scene)).len(), left, "after {hour} hours");
    }
    assert!(foreign.exists() && !unfinished.exists());
    let raw = store.raw_message(&subtree(&scene.agent), id).await.unwrap().unwrap();
    assert_eq!(raw, raw_of(&good));
    // Erasing a message deletes rows only.
    scene.execute("DELETE FROM messages").await;
    scene.execute("DELETE FROM contents").await;
    let swept = store.sweep_objects(hours(25)).await.unwrap();
    assert_eq!(swept, Some(SweepCounts { seen: 2, removed: 1 }));
    assert_eq!(files(&folder(&scene)), [foreign]);
}

/// The sweeper of a store without objects has nothing to do.
#[tokio::test]
async fn postgres_keeps_everything_where_no_blob_store_is_named() {
    let scene = Scene::new(Kind::Postgres).await;
    let (intake, id) = large(&scene, &scene.agent, 0, 1_000_000).await;
    committed(&scene.store, vec![intake.clone()]).await;
    let raw = scene.store.raw_message(&subtree(&scene.agent), id).await.unwrap().unwrap();
    assert_eq!(raw, raw_of(&intake));
    assert_eq!(scene.store.sweep_objects(hours(25)).await.unwrap(), None);
}

/// Whether it is one is known in the transaction only.
async fn a_repeat_leaves_an_orphan_at_most(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = with_blobs(&scene).await;
    let (first, id) = large(&scene, &scene.agent, 0, 5000).await;
    let keys = first.accepted.as_ref().unwrap().arrival_keys.clone();
    committed(&store, vec![first.clone()]).await;
    for (size, expected) in [(5000, 1), (5001, 2)] {
        let (mut again, _) = large(&scene, &scene.agent, 1, size).await;
        let accepted = again.accepted.as_mut().unwrap();
        accepted.arrival_keys = keys.clone();
        if size == 5000 {
            accepted.raw = raw_of(&first);
            accepted.message.digest = first.accepted.as_ref().unwrap().message.digest;
        }
        let done = store.commit(&Commit { intakes: vec![again], now: at(1) }).await.unwrap();
        assert_eq!(done, Committed::Done(vec![Some(id)]));
        assert_eq!(files(&folder(&scene)).len(), expected);
    }
    let swept = store.sweep_objects(hours(25)).await.unwrap();
    assert_eq!(swept, Some(SweepCounts { seen: 2, removed: 1 }));
    let raw = store.raw_message(&subtree(&scene.agent), id).await.unwrap().unwrap();
    assert_eq!(raw, raw_of(&first));
}

async fn a_missing_or_damaged_original_is_said_so(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = with_blobs(&scene).await;
    let (intake, id) = large(&scene, &scene.agent, 0, 5000).await;
    committed(&store, vec![intake.clone()]).await;
    let file = files(&folder(&scene)).remove(0);
    let whole = std::fs::read(&file).unwrap();
    let mut flipped = whole.clone();
    flipped[4999] ^= 1;
    for (bytes, words) in [
        (Some(whole[..4999].to_vec()), "differs in size"),
        (Some(flipped), "damaged"),
        (None, "is missing"),
    ] {
        match bytes {
            Some(bytes) => std::fs::write(&file, bytes).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        let lost = store.raw_message(&subtree(&scene.agent), id).await.unwrap_err();
        assert!(matches!(lost, StoreError::Lost { .. }), "{lost:?}");
        assert!(lost.to_string().contains(words), "{lost}");
    }
    // Put back by the operator, it is there again.
    std::fs::write(&file, whole).unwrap();
    let raw = store.raw_message(&subtree(&scene.agent), id).await.unwrap().unwrap();
    assert_eq!(raw, raw_of(&intake));
}

async fn without_its_blob_store_an_original_is_not_made_up(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (intake, id) = large(&scene, &scene.agent, 0, 5000).await;
    committed(&with_blobs(&scene).await, vec![intake]).await;
    // SQLite has a folder of its own, PostgreSQL none at all.
    let elsewhere = scene.store.raw_message(&subtree(&scene.agent), id).await.unwrap_err();
    match kind {
        Kind::Sqlite => assert!(matches!(elsewhere, StoreError::Lost { .. }), "{elsewhere:?}"),
        Kind::Postgres => assert!(elsewhere.to_string().contains("--blobs"), "{elsewhere}"),
    }
}

/// The superuser of a test machine writes whatever the mode says: a file where the folder must be
/// stands in for it.
async fn an_unwritable_folder_defers_and_is_noticed_at_the_start(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = with_blobs(&scene).await;
    store.check_writable().await.unwrap();
    assert_eq!(files(&folder(&scene)).len(), 0, "a probe was left behind");
    std::fs::rename(folder(&scene), scene.folder.path().join("aside")).unwrap();
    std::fs::write(folder(&scene), "").unwrap();
    let refused = store.check_writable().await.unwrap_err();
    assert!(matches!(refused, StoreError::Blobs { .. }), "{refused:?}");
    let (intake, id) = large(&scene, &scene.agent, 0, 5000).await;
    let commit = Commit { intakes: vec![intake.clone()], now: at(0) };
    let failed = store.commit(&commit).await.unwrap_err();
    assert!(matches!(failed, StoreError::Objects(_)), "{failed:?}");
    assert_eq!(scene.count("SELECT COUNT(*) FROM messages").await, 0);
    let place = StorePlace::new(scene.location.clone(), Some(BlobPlace::Folder(folder(&scene))));
    let unusable = Store::open(place, &rules(), run::system_mint()).await.unwrap_err();
    assert!(matches!(unusable, StoreError::Blobs { .. }), "{unusable:?}");

    std::fs::remove_file(folder(&scene)).unwrap();
    std::fs::rename(scene.folder.path().join("aside"), folder(&scene)).unwrap();
    committed(&store, vec![intake.clone()]).await;
    let raw = store.raw_message(&subtree(&scene.agent), id).await.unwrap().unwrap();
    assert_eq!(raw, raw_of(&intake));
}

/// A bucket for which whoever listens there answers.
pub fn bucket_at(listener: &TcpListener) -> BlobPlace {
    let access = S3Access {
        endpoint: Some(format!("http://{}", listener.local_addr().unwrap())),
        access_key: Some(Secret::new("key")),
        secret_key: Some(Secret::new("hush")),
        region: None,
    };
    BlobPlace::parse("s3://mail/raw", access).unwrap()
}

/// A blob store that takes connections and says nothing costs its deadline and one place.
#[tokio::test]
async fn a_silent_blob_store_is_given_up_in_time() {
    let scene = Scene::new(Kind::Sqlite).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let policies = tempfile::tempdir().unwrap();
    let quick = "[objects]\nmax_puts = 1\nput_seconds = 1\n";
    std::fs::write(policies.path().join("store.toml"), quick).unwrap();
    let mut rules = gatepost::rules::Rules::load(policies.path()).unwrap().store;
    rules.objects.above_bytes = THRESHOLD;
    let place = StorePlace::new(scene.location.clone(), Some(bucket_at(&silent)));
    let store = Store::open(place, &rules, run::system_mint()).await.unwrap();
    let (one, _) = large(&scene, &scene.agent, 0, 5000).await;
    let (two, _) = large(&scene, &scene.agent, 0, 6000).await;
    let commit = |intake| Commit { intakes: vec![intake], now: at(0) };
    let (one, two) = (commit(one), commit(two));
    let both = async { tokio::join!(store.commit(&one), store.commit(&two)) };
    let (one, two) = tokio::time::timeout(PATIENCE, both).await.unwrap();
    for failed in [one.unwrap_err(), two.unwrap_err()] {
        assert!(matches!(failed, StoreError::Objects(_)), "{failed:?}");
        assert!(!format!("{failed:?} {store:?}").contains("hush"));
    }
    // The second one waited for the first one's place, and nothing else was held up meanwhile.
    silent.accept().await.unwrap();
    let more = std::future::poll_fn(|context| {
        std::task::Poll::Ready(silent.poll_accept(context).is_ready())
    });
    assert!(!more.await, "two puts at a time");
    scene.deliver(&scene.agent, 0).await;
}

/// Erased between the question whether it has a row and the transaction: it is put again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_erased_meanwhile_is_put_again() {
    let scene = Scene::new(Kind::Postgres).await;
    let store = with_blobs(&scene).await;
    let (first, _) = large(&scene, &scene.agent, 0, 5000).await;
    let mut second = scene.intake(&scene.other, 0).await;
    let accepted = second.accepted.as_mut().unwrap();
    accepted.raw = raw_of(&first);
    accepted.message.digest = Digest(first.accepted.as_ref().unwrap().message.digest.0);
    let (raw, id) = (raw_of(&first), second.record.message.unwrap());
    committed(&store, vec![first]).await;

    // The eraser holds the row. The commit found the row before its transaction, and now waits for
    // the lock.
    let mut eraser = scene.postgres().await;
    let erase = "BEGIN; DELETE FROM messages; DELETE FROM contents";
    sqlx::Executor::execute(&mut eraser, sqlx::raw_sql(erase)).await.unwrap();
    let committing = tokio::spawn({
        let store = store.clone();
        async move { committed(&store, vec![second]).await }
    });
    somebody_waits(&scene).await;
    sqlx::Executor::execute(&mut eraser, "COMMIT").await.unwrap();
    committing.await.unwrap();
    assert_eq!(files(&folder(&scene)).len(), 2);
    let found = store.raw_message(&subtree(&scene.other), id).await.unwrap().unwrap();
    assert_eq!(found, raw);
    let swept = store.sweep_objects(hours(25)).await.unwrap();
    assert_eq!(swept, Some(SweepCounts { seen: 2, removed: 1 }));
    assert!(store.raw_message(&subtree(&scene.other), id).await.is_ok());
}

/// Returns once a transaction waits for the lock of another.
async fn somebody_waits(scene: &Scene) {
    let waiting = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database()
                   AND wait_event_type = 'Lock'";
    let until_it_waits = async {
        while scene.count(waiting).await == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, until_it_waits).await.unwrap();
}

/// Somebody names the same original while its only message is erased: it stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_named_meanwhile_is_not_erased() {
    let scene = Scene::new(Kind::Postgres).await;
    let store = with_blobs(&scene).await;
    let (first, id) = large(&scene, &scene.agent, 0, 5000).await;
    committed(&store, vec![first]).await;
    // As a commit does: it holds the row by which it found the object, and writes its own.
    let mut beside = scene.postgres().await;
    let name = "BEGIN; SELECT object FROM contents FOR SHARE;
                INSERT INTO contents (content_id, octets, object_digest, object, packed, organization_id)
                SELECT gen_random_uuid(), octets, object_digest, object, packed, organization_id
                FROM contents";
    sqlx::Executor::execute(&mut beside, sqlx::raw_sql(name)).await.unwrap();
    let erasing = tokio::spawn({
        let (store, scope) = (store.clone(), subtree(&scene.agent));
        async move { store.erase_message(&scope, id, by(at(1))).await.unwrap() }
    });
    somebody_waits(&scene).await;
    sqlx::Executor::execute(&mut beside, "COMMIT").await.unwrap();
    assert!(erasing.await.unwrap());
    assert_eq!(scene.count("SELECT COUNT(*) FROM contents").await, 1);
    assert_eq!(files(&folder(&scene)).len(), 1);
}

/// An acceptance must not rest on an original that is lost, as long as its bytes are at hand.
async fn a_lost_original_that_comes_again_is_kept_again(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = with_blobs(&scene).await;
    let (first, id) = large(&scene, &scene.agent, 0, 5000).await;
    let raw = raw_of(&first);
    let digest = first.accepted.as_ref().unwrap().message.digest;
    committed(&store, vec![first]).await;
    std::fs::remove_file(&files(&folder(&scene))[0]).unwrap();
    assert!(store.raw_message(&subtree(&scene.agent), id).await.is_err());
    let mut second = scene.intake(&scene.other, 1).await;
    let accepted = second.accepted.as_mut().unwrap();
    (accepted.raw, accepted.message.digest) = (raw.clone(), digest);
    let other = second.record.message.unwrap();
    committed(&store, vec![second]).await;
    for (agent, id) in [(&scene.agent, id), (&scene.other, other)] {
        assert_eq!(store.raw_message(&subtree(agent), id).await.unwrap().unwrap(), raw);
    }
    assert_eq!(scene.count("SELECT COUNT(DISTINCT object) FROM contents").await, 1);
}
