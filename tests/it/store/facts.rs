//! Facts that `gatepost doctor` asks the store for.

use gatepost::domain::event::Category;
use gatepost::domain::instant;
use gatepost::run;
use gatepost::store::{DatabaseFacts, OriginalsFault, StoreError};

use super::objects::{folder, with_blobs};
use super::scene::{Kind, Scene};

on_both! { #[tokio::test]
    the_database_says_how_it_is_set_up,
    originals_are_written_read_and_removed,
    deliveries_of_a_message_are_found,
}

async fn the_database_says_how_it_is_set_up(kind: Kind) {
    let scene = Scene::new(kind).await;
    match (kind, scene.store.database_facts().await.unwrap()) {
        (Kind::Sqlite, DatabaseFacts::Embedded { version }) => {
            assert!(version.starts_with("3."), "{version}");
        }
        (Kind::Postgres, DatabaseFacts::Postgres(facts)) => {
            assert_eq!((&*facts.encoding, &*facts.isolation), ("UTF8", "read committed"));
            assert!(["on", "off"].contains(&&*facts.fsync), "{facts:?}");
            assert!(facts.may_migrate && !facts.is_standby, "{facts:?}");
            assert_eq!(facts.tables_without_rights, 0);
            assert!(facts.max_connections > facts.reserved_connections, "{facts:?}");
            let now = run::system_mint().clock().now();
            let off = now.millis().abs_diff(facts.clock.millis());
            assert!(off < 3_600_000, "{facts:?} at {now}");
            assert!(facts.clock > instant::parse("2026-01-01T00:00:00Z").unwrap(), "{facts:?}");
        }
        (_, facts) => panic!("{facts:?}"),
    }
}

async fn originals_are_written_read_and_removed(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = with_blobs(&scene).await;
    let at = store.exercise_originals().await.unwrap().unwrap();
    assert_eq!(at, folder(&scene).display().to_string());
    let other = uuid::Uuid::from_u128(7).to_string();
    std::fs::write(folder(&scene).join("owner"), &other).unwrap();
    match store.exercise_originals().await {
        Err(OriginalsFault::Owner(StoreError::Foreign { owner, .. })) => assert_eq!(owner, other),
        found => panic!("{found:?}"),
    }
    std::fs::remove_dir_all(folder(&scene)).unwrap();
    std::fs::write(folder(&scene), "no folder").unwrap();
    let found = store.exercise_originals().await;
    assert!(matches!(found, Err(OriginalsFault::Owner(_) | OriginalsFault::Put(_))), "{found:?}");
}

async fn deliveries_of_a_message_are_found(kind: Kind) {
    let scene = Scene::new(kind).await;
    let quiet = scene.deliver(&scene.agent, 1_000).await;
    let destination = scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    let heard = scene.deliver(&scene.agent, 2_000).await;
    assert_eq!(scene.store.deliveries_of(quiet, 1).await.unwrap(), []);
    let found = scene.store.deliveries_of(heard, 1).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].destination, found[0].attempts.len()), (destination.id, 0));
}
