//! A blob store belongs to one database: to another one all its objects would be orphans.

use std::path::Path;

use gatepost::run;
use gatepost::store::{BlobPlace, Commit, Location, Store, StoreError, StorePlace, SweepCounts};

use super::objects::{committed, files, folder, hours, large, mode, rules, with_blobs};
use super::scene::{Kind, Scene, at};
use crate::support::process::failing;
use crate::support::store_rules;

on_both! {
    the_blobs_of_another_database_are_left_alone,
    objects_without_an_owner_are_left_alone,
    gateways_that_start_at_once_agree_on_the_owner,
}

fn place(scene: &Scene, blobs: &Path) -> StorePlace {
    StorePlace::new(scene.location.clone(), Some(BlobPlace::Folder(blobs.to_owned())))
}

async fn open(scene: &Scene, blobs: &Path) -> Store {
    Store::open(place(scene, blobs), &rules(), run::system_mint()).await.unwrap()
}

async fn the_blobs_of_another_database_are_left_alone(kind: Kind) {
    let (scene, other) = (Scene::new(kind).await, Scene::new(kind).await);
    let (store, blobs) = (with_blobs(&scene).await, folder(&scene));
    let (intake, _) = large(&scene, &scene.agent, 0, 5000).await;
    committed(&store, vec![intake]).await;
    let owner = std::fs::read_to_string(blobs.join("owner")).unwrap();
    assert_eq!(uuid::Uuid::parse_str(owner.trim()).unwrap().get_version_num(), 7);
    assert_eq!(mode(&blobs.join("owner")), 0o600);
    assert_eq!(store.identity().await.unwrap().to_string(), owner.trim());
    // A half-written file, which a sweep of the owner would delete.
    let before = files(&blobs);
    std::fs::write(format!("{}#1", before[0].display()), "half").unwrap();
    let before = files(&blobs);

    let stranger = open(&other, &blobs).await;
    let (intake, _) = large(&other, &other.agent, 0, 5000).await;
    let commit = Commit { intakes: vec![intake], now: at(0) };
    let created = Store::create(place(&other, &blobs), &rules(), run::system_mint()).await;
    for refused in [
        stranger.check_writable().await.unwrap_err(),
        stranger.commit(&commit).await.unwrap_err(),
        stranger.sweep_objects(hours(25)).await.unwrap_err(),
        created.unwrap_err(),
    ] {
        let StoreError::Foreign { identity, .. } = &refused else { panic!("{refused:?}") };
        let said = refused.to_string();
        assert!(said.contains(owner.trim()) && said.contains(&identity.to_string()), "{said}");
        assert_ne!(owner.trim(), identity.to_string());
    }
    assert_eq!(files(&blobs), before);
    assert_eq!(std::fs::read_to_string(blobs.join("owner")).unwrap(), owner);
    assert_eq!(other.count("SELECT COUNT(*) FROM messages").await, 0);

    let again = open(&scene, &blobs).await;
    again.check_writable().await.unwrap();
    let swept = again.sweep_objects(hours(25)).await.unwrap();
    assert_eq!(swept, Some(SweepCounts { seen: 1, removed: 1 }));
}

async fn objects_without_an_owner_are_left_alone(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, blobs) = (with_blobs(&scene).await, folder(&scene));
    let (intake, _) = large(&scene, &scene.agent, 0, 5000).await;
    committed(&store, vec![intake]).await;
    scene.execute("DELETE FROM messages; DELETE FROM contents").await;
    let owner = blobs.join("owner");
    let id = std::fs::read_to_string(&owner).unwrap();

    std::fs::remove_file(&owner).unwrap();
    let at_start = open(&scene, &blobs).await.check_writable().await.unwrap_err();
    // A server that runs finds out before it takes anything away.
    let running = store.sweep_objects(hours(25)).await.unwrap_err();
    for refused in [at_start, running] {
        assert!(matches!(refused, StoreError::Ownerless { .. }), "{refused:?}");
        assert!(refused.to_string().contains(id.trim()), "{refused}");
    }
    assert!(!owner.exists());
    for text in ["", "somebody", &"x".repeat(100_000)] {
        std::fs::write(&owner, text).unwrap();
        let refused = store.sweep_objects(hours(25)).await.unwrap_err();
        assert!(matches!(refused, StoreError::Foreign { .. }), "{refused:?}");
    }
    assert_eq!(files(&blobs).len(), 1);

    // As the error says.
    std::fs::write(&owner, format!("  {}", id.trim().to_uppercase())).unwrap();
    open(&scene, &blobs).await.check_writable().await.unwrap();
    let swept = store.sweep_objects(hours(25)).await.unwrap();
    assert_eq!(swept, Some(SweepCounts { seen: 1, removed: 1 }));
    // Nothing is lost where nothing is.
    std::fs::remove_file(&owner).unwrap();
    store.sweep_objects(hours(25)).await.unwrap();
    assert_eq!(std::fs::read_to_string(&owner).unwrap(), id);
}

async fn gateways_that_start_at_once_agree_on_the_owner(kind: Kind) {
    let (scene, other) = (Scene::new(kind).await, Scene::new(kind).await);
    let blobs = folder(&scene);
    // Where there is a place for blobs, it is asked for when the store is made.
    let known = scene.store.known_identity().await.unwrap();
    assert_eq!(known.is_some(), kind == Kind::Sqlite);
    let mut stores = Vec::new();
    for scene in [&scene, &other, &scene, &other, &scene, &other] {
        stores.push(open(scene, &blobs).await);
    }
    let starting: Vec<_> = stores
        .into_iter()
        .map(|store| tokio::spawn(async move { store.check_writable().await.is_ok() }))
        .collect();
    let mut started = Vec::new();
    for one in starting {
        started.push(one.await.unwrap());
    }
    for store in [&scene.store, &other.store] {
        assert_eq!(store.known_identity().await.unwrap(), Some(store.identity().await.unwrap()));
    }
    let first = started[0];
    assert_eq!(started, [first, !first, first, !first, first, !first]);
    for scene in [&scene, &other] {
        assert_eq!(scene.count("SELECT COUNT(*) FROM identity").await, 1);
    }
}

#[tokio::test]
async fn a_server_does_not_start_on_the_blobs_of_another_database() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    for data in ["one", "two"] {
        let location = Location::Folder(here.join(data));
        Store::create(location, &store_rules(), run::system_mint()).await.unwrap().close().await;
    }
    let sockets = ["--smtp", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let serve = [&["serve", "--data", "two", "--blobs", "one/blobs"], &sockets[..]].concat();
    let said = failing(here, &serve).await;
    assert!(said.contains("belongs to another database") && said.contains("one/blobs"), "{said}");
    let init = ["init", "--data", "three", "--blobs", "one/blobs"];
    let said = failing(here, &init).await;
    assert!(said.contains("belongs to another database"), "{said}");
}
