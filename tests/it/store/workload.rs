//! The work that waits, as operators see it.

use gatepost::domain::clock::Timestamp;
use gatepost::domain::event::Category;
use gatepost::store::GatewayVersion;

use super::scene::{Kind, Scene, at};

on_both! { #[tokio::test]
    deliveries_that_wait_are_counted_with_the_time_of_the_first,
    those_that_nobody_may_take_now_are_not_late,
    thousands_that_rest_hide_none_that_is_late,
    gateways_count_while_they_live,
}

async fn deliveries_that_wait_are_counted_with_the_time_of_the_first(kind: Kind) {
    let scene = Scene::new(kind).await;
    let none = scene.store.backlog().await.unwrap();
    assert_eq!((none.waiting, none.due), (0, None));
    scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    scene.deliver(&scene.agent, 1_000).await;
    scene.deliver(&scene.agent, 2_000).await;
    let backlog = scene.store.backlog().await.unwrap();
    assert_eq!(backlog.waiting, 2);
    let due = backlog.due.unwrap();
    assert_eq!(scene.store.next_due(at(i64::MAX / 2)).await.unwrap(), Some(due));
    let connections = scene.store.pool_load();
    assert!(
        connections.idle <= connections.open && connections.open <= connections.most,
        "{connections:?}"
    );
}

async fn those_that_nobody_may_take_now_are_not_late(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.listen_in_order(&scene.agent, Category::Incoming).await;
    scene.deliver(&scene.agent, 1_000).await;
    let backlog = scene.store.backlog().await.unwrap();
    assert_eq!((backlog.waiting, backlog.due), (1, None));
    scene.listen(&scene.agent, Category::Incoming, "https://rests.example/").await;
    scene.deliver(&scene.agent, 2_000).await;
    assert!(scene.store.backlog().await.unwrap().due.is_some());
    scene.execute("UPDATE destinations SET rests_until = 9000000000000 WHERE ordered = 0").await;
    let backlog = scene.store.backlog().await.unwrap();
    assert_eq!((backlog.waiting, backlog.due), (3, None));
    // Due from the end of the rest on: an attempt may be made.
    scene.execute("UPDATE deliveries SET next_attempt_at = 5").await;
    scene.execute("UPDATE destinations SET rests_until = 7 WHERE ordered = 0").await;
    assert_eq!(scene.store.backlog().await.unwrap().due, Some(Timestamp::from_millis(7)));
    scene.execute("UPDATE deliveries SET next_attempt_at = 9").await;
    assert_eq!(scene.store.backlog().await.unwrap().due, Some(Timestamp::from_millis(9)));
}

async fn thousands_that_rest_hide_none_that_is_late(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.listen(&scene.agent, Category::Incoming, "https://rests.example/").await;
    scene.deliver(&scene.agent, 1_000).await;
    scene.execute("UPDATE destinations SET rests_until = 9000000000000").await;
    let id = match kind {
        Kind::Sqlite => "randomblob(16)",
        Kind::Postgres => "gen_random_uuid()",
    };
    let more = format!(
        "INSERT INTO deliveries (id, event_id, event_number, destination_id, state,
                                 next_attempt_at, created_at, organization_id)
         WITH RECURSIVE copies (number) AS (
             SELECT 1 UNION ALL SELECT number + 1 FROM copies WHERE number < 12000)
         SELECT {id}, event_id, event_number, destination_id, state, next_attempt_at - 1000,
                created_at, organization_id
         FROM deliveries CROSS JOIN copies"
    );
    let first = scene.store.next_due(at(i64::MAX / 2)).await.unwrap();
    scene.execute(more.leak()).await;
    assert_eq!(scene.store.backlog().await.unwrap().due, None);
    scene.listen(&scene.agent, Category::Incoming, "https://awake.example/").await;
    scene.deliver(&scene.agent, 2_000).await;
    let backlog = scene.store.backlog().await.unwrap();
    assert_eq!(backlog.waiting, 10_000);
    assert!(backlog.due >= first && first.is_some(), "{backlog:?}");
}

async fn gateways_count_while_they_live(kind: Kind) {
    let scene = Scene::new(kind).await;
    assert_eq!(scene.store.living_gateways().await.unwrap(), []);
    scene.store.join().await.unwrap();
    let own = GatewayVersion { version: env!("CARGO_PKG_VERSION").to_owned(), gateways: 1 };
    assert_eq!(scene.store.living_gateways().await.unwrap(), std::slice::from_ref(&own));
    // An older gateway does not say which version it is.
    let older = "INSERT INTO gateways (id, beat, steady, wall) VALUES (7, 0, 0, 0), (8, 0, 0, 0)";
    scene.execute(older).await;
    let older = GatewayVersion { version: String::new(), gateways: 2 };
    assert_eq!(scene.store.living_gateways().await.unwrap(), [older, own]);
    scene.execute("DELETE FROM gateways WHERE id IN (7, 8)").await;
    scene.store.leave().await.unwrap();
    assert_eq!(scene.store.living_gateways().await.unwrap(), []);
}
