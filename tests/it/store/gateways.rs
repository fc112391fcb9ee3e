//! Gateways that join a store, live and die: what they had claimed, and the time that they share.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

use gatepost::domain::clock::{Clock, Timestamp};
use gatepost::domain::delivery::{Claim, Outcome};
use gatepost::domain::event::Category;
use gatepost::domain::id::Mint;
use gatepost::run;
use gatepost::store::{Finished, GatewayChanges, Redelivery, Store, StoreError};

use super::scene::{Kind, SECOND, Scene, at, attempt, by};
use crate::support::store_rules;

on_both! {
    what_a_dead_gateway_had_claimed_is_free,
    a_probe_of_a_dead_gateway_is_made_again,
    what_rests_is_left_alone_whoever_died,
    what_a_dead_gateway_had_claimed_in_a_room_is_free,
    what_is_sent_again_waits_for_no_dead_gateway,
    what_a_gateway_that_left_had_claimed_is_free_at_once,
    a_gateway_that_was_buried_goes_on_under_another_name,
    a_gateway_joins_under_a_free_id_or_not_at_all,
    steady_time_goes_on_from_gateway_to_gateway,
    what_waits_longer_than_anything_may_is_due,
}

const LEASE: i64 = 60 * SECOND;
const SILENT: u32 = 3;
const YEAR: i64 = 365 * 86_400 * SECOND;

async fn claim(store: &Store, millis: i64) -> Vec<Claim> {
    store.claim_deliveries(at(millis), at(millis + LEASE), 100, &[]).await.unwrap()
}

/// A gateway that joined, beside the scene's own handle.
async fn gateway(scene: &Scene) -> Store {
    let store = scene.open().await;
    store.join().await.unwrap();
    store
}

/// Lets `store` see that nobody else lives. The embedded store has no two gateways at a time.
async fn see_them_die(kind: Kind, store: &Store) {
    if kind == Kind::Sqlite {
        return;
    }
    // The first look finds out that they are there; so many more, that they say nothing.
    for _ in 0..SILENT {
        assert_eq!(store.beat().await.unwrap(), GatewayChanges::default());
        assert_eq!(claim(store, 5).await, [], "not dead yet");
    }
    let death = GatewayChanges { died: 1, ..GatewayChanges::default() };
    assert_eq!(store.beat().await.unwrap(), death);
    assert_eq!(store.beat().await.unwrap(), GatewayChanges::default(), "it dies once");
}

async fn what_a_dead_gateway_had_claimed_is_free(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    scene.deliver(&scene.agent, 0).await;
    let first = gateway(&scene).await;
    let lost = claim(&first, 1).await;
    assert_eq!(lost.len(), 1);
    let second = gateway(&scene).await;
    if kind == Kind::Postgres {
        // As long as it beats, at whatever pace, nobody takes anything from it.
        for _ in 0..3 * SILENT {
            assert_eq!(second.beat().await.unwrap(), GatewayChanges::default());
            first.beat().await.unwrap();
        }
        assert_eq!(claim(&second, 4).await, []);
    }
    see_them_die(kind, &second).await;
    let taken = claim(&second, 5).await;
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].delivery, lost[0].delivery);
    assert_eq!(claim(&second, 6).await, [], "its own claim is not free");
    // It was only silent.
    let finish = async |store: &Store, claim: &Claim| {
        store.finish_delivery(claim, &attempt(7, 200), Outcome::Delivered).await.unwrap()
    };
    assert_eq!(finish(&first, &lost[0]).await, Finished { recorded: false, halts: false });
    assert_eq!(finish(&second, &taken[0]).await, Finished { recorded: true, halts: false });
    assert_eq!(scene.count("SELECT COUNT(*) FROM attempts").await, 1);
}

async fn a_probe_of_a_dead_gateway_is_made_again(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    for number in 0..3 {
        scene.deliver(&scene.agent, number).await;
    }
    scene.execute("UPDATE destinations SET failures = 10, rests_until = 4").await;
    let first = gateway(&scene).await;
    assert_eq!(claim(&first, 4).await.len(), 1);
    let second = gateway(&scene).await;
    see_them_die(kind, &second).await;
    let probe = claim(&second, 5).await;
    assert_eq!(probe.len(), 1, "one at a time");
    assert_eq!(claim(&second, 6).await, []);
    second.finish_delivery(&probe[0], &attempt(7, 200), Outcome::Delivered).await.unwrap();
    let left = scene.count("SELECT COUNT(*) FROM destinations WHERE prober <> 0").await;
    assert_eq!((claim(&second, 8).await.len(), left), (2, 0));
}

async fn what_a_dead_gateway_had_claimed_in_a_room_is_free(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.listen_in_order(&scene.agent, Category::Incoming).await;
    for number in 0..3 {
        scene.deliver(&scene.agent, number).await;
    }
    let first = gateway(&scene).await;
    let head = claim(&first, 4).await;
    assert_eq!(head.len(), 1);
    let second = gateway(&scene).await;
    see_them_die(kind, &second).await;
    let again = claim(&second, 5).await;
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].delivery, head[0].delivery);
}

/// It has its place before what is under way: if by a dead gateway, then nothing is.
async fn what_is_sent_again_waits_for_no_dead_gateway(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.listen_in_order(&scene.agent, Category::Incoming).await;
    for number in 0..3 {
        scene.deliver(&scene.agent, number).await;
    }
    let first = gateway(&scene).await;
    let done = claim(&first, 4).await.remove(0);
    first.finish_delivery(&done, &attempt(4, 200), Outcome::Delivered).await.unwrap();
    assert_eq!(claim(&first, 5 * SECOND).await.len(), 1);
    let second = gateway(&scene).await;
    see_them_die(kind, &second).await;
    let again = second.replay_delivery(scene.agent.id, done.delivery, by(at(6 * SECOND))).await;
    assert_eq!(again.unwrap(), Redelivery::Done);
    let again = claim(&second, 10 * SECOND).await;
    assert_eq!(again.iter().map(|one| one.delivery).collect::<Vec<_>>(), [done.delivery]);
}

/// Nobody waits for its beat to stand still, and it counts as no death.
async fn what_a_gateway_that_left_had_claimed_is_free_at_once(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    scene.deliver(&scene.agent, 0).await;
    let first = gateway(&scene).await;
    assert_eq!(claim(&first, 1).await.len(), 1);
    if kind == Kind::Sqlite {
        first.leave().await.unwrap();
        assert_eq!(claim(&gateway(&scene).await, 2).await.len(), 1);
        return;
    }
    let second = gateway(&scene).await;
    second.beat().await.unwrap();
    first.leave().await.unwrap();
    assert_eq!(claim(&second, 2).await, []);
    let departure = GatewayChanges { left: 1, ..GatewayChanges::default() };
    assert_eq!(second.beat().await.unwrap(), departure);
    assert_eq!(claim(&second, 3).await.len(), 1);
    assert_eq!(second.beat().await.unwrap(), GatewayChanges::default(), "it leaves once");
}

/// It begins nothing as soon as others may bury it; if none did, it goes on with what it had.
async fn a_gateway_that_was_buried_goes_on_under_another_name(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    scene.deliver(&scene.agent, 0).await;
    let (first, _, source) = told(&scene, 0, 0).await;
    assert_eq!(first.holder(), Some(0), "it has not joined");
    first.join().await.unwrap();
    let name = first.holder();
    assert!(name > Some(0));
    assert_eq!(claim(&first, 1).await.len(), 1);
    let silence = i64::try_from(store_rules().gateways.silence().as_millis()).unwrap();
    source.fetch_add(silence - 1, Ordering::SeqCst);
    assert_eq!(first.holder(), name);
    source.fetch_add(1, Ordering::SeqCst);
    if kind == Kind::Sqlite {
        assert_eq!(first.holder(), name, "nobody else is there");
        return;
    }
    assert_eq!(first.holder(), None);
    assert_eq!(first.beat().await.unwrap(), GatewayChanges::default());
    assert_eq!(first.holder(), name, "nobody has buried it");
    let second = gateway(&scene).await;
    see_them_die(kind, &second).await;
    source.fetch_add(silence, Ordering::SeqCst);
    assert_eq!(first.holder(), None);
    assert_eq!(
        first.beat().await.unwrap(),
        GatewayChanges { was_marked_dead: true, ..GatewayChanges::default() }
    );
    let other = first.holder();
    assert!(other > Some(0) && other != name, "{other:?} {name:?}");
    assert_eq!(claim(&second, 5).await.len(), 1, "what it had claimed before is free");
    // Its later claims stay its own while it beats.
    scene.deliver(&scene.agent, 6).await;
    assert_eq!(claim(&first, 7).await.len(), 1);
    for _ in 0..3 * SILENT {
        first.beat().await.unwrap();
        second.beat().await.unwrap();
        assert_eq!(claim(&second, 8).await, []);
    }
}

/// Without an id of its own it would claim as nobody, or as the dead gateway that it was.
async fn a_gateway_joins_under_a_free_id_or_not_at_all(kind: Kind) {
    let scene = Scene::new(kind).await;
    // The id that is drawn by octets of 7, and those behind it.
    let taken = "WITH RECURSIVE n (id) AS (
                     SELECT 58950532 UNION ALL SELECT id + 1 FROM n WHERE id < 58950547)
                 INSERT INTO gateways (id, beat, steady, wall) SELECT id, 0, 0, 0 FROM n";
    scene.execute(taken).await;
    let (octet, step) = (Arc::new(AtomicU8::new(7)), Arc::new(AtomicU8::new(0)));
    let (next, by) = (Arc::clone(&octet), Arc::clone(&step));
    let random = move |octets: &mut [u8]| {
        octets.fill(next.fetch_add(by.load(Ordering::SeqCst), Ordering::SeqCst));
    };
    let mint = Mint::new(run::system_mint().clock().clone(), Arc::new(random));
    let store = Store::open(&scene.location, &store_rules(), mint).await.unwrap();
    let refused = store.join().await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    assert_eq!(store.holder(), Some(0), "it has not joined");
    step.store(1, Ordering::SeqCst);
    store.join().await.unwrap();
    assert_eq!(store.holder(), Some(67_372_037), "it drew again");
}

/// A handle whose wall clock and whose steady source are these.
async fn told(scene: &Scene, wall: i64, source: i64) -> (Store, Clock, Arc<AtomicI64>) {
    let (now, steady) = (Arc::new(AtomicI64::new(wall)), Arc::new(AtomicI64::new(source)));
    let read = |of: &Arc<AtomicI64>| {
        let of = Arc::clone(of);
        move || Timestamp::from_millis(of.load(Ordering::SeqCst))
    };
    let clock = Clock::beside(read(&now), read(&steady));
    let random = |octets: &mut [u8]| aws_lc_rs::rand::fill(octets).unwrap();
    let mint = Mint::new(clock.clone(), Arc::new(random));
    let store = Store::open(&scene.location, &store_rules(), mint).await.unwrap();
    (store, clock, steady)
}

/// Nobody tries a destination whose rest begins with a failure: it belongs to no dead gateway.
async fn what_rests_is_left_alone_whoever_died(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    scene.deliver(&scene.agent, 0).await;
    scene.deliver(&scene.agent, 1).await;
    let (_first, second) = (gateway(&scene).await, gateway(&scene).await);
    for _ in 0..=SILENT {
        second.beat().await.unwrap();
    }
    // at(9)
    scene.execute("UPDATE destinations SET failures = 10, rests_until = 1750000000009").await;
    assert_eq!(claim(&second, 8).await, []);
    assert_eq!(claim(&second, 9).await.len(), 1, "its probe");
}

async fn steady_time_goes_on_from_gateway_to_gateway(kind: Kind) {
    let scene = Scene::new(kind).await;
    // The first has whatever its clock says, here a year too much.
    let (first, clock, source) = told(&scene, YEAR, YEAR).await;
    first.join().await.unwrap();
    let begun = clock.steady();
    assert_eq!(begun, Timestamp::from_millis(YEAR));
    source.fetch_add(10 * SECOND, Ordering::SeqCst);
    // On the embedded store the first beat is kept, then every tenth.
    first.beat().await.unwrap();
    // The next one goes on from there, under a clock that is right. (PostgreSQL's own clock says how
    // long nobody was there; the embedded store has only that which was set back.)
    let (second, clock, source) = told(&scene, 0, 0).await;
    let since = clock.steady().millis() - begun.millis();
    assert!((10 * SECOND..60 * SECOND).contains(&since), "{since}");
    second.join().await.unwrap();
    let before = clock.steady();
    assert_eq!(clock.look(std::time::Duration::from_secs(1)), None, "that is no step");
    source.fetch_add(SECOND, Ordering::SeqCst);
    assert_eq!(clock.steady().millis() - before.millis(), SECOND);
    if kind == Kind::Postgres {
        // A gateway that is behind catches up with one beat.
        second.beat().await.unwrap();
        first.beat().await.unwrap();
    }
}

async fn what_waits_longer_than_anything_may_is_due(kind: Kind) {
    let scene = Scene::new(kind).await;
    let listening = scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    for number in 0..2 {
        scene.deliver(&scene.agent, number).await;
    }
    assert_eq!(scene.store.shorten_waits().await.unwrap(), 0);
    let claims = claim(&scene.store, 2).await;
    let ends = [at(2 * YEAR * 1000), at(3 * SECOND)];
    for (claim, due) in claims.iter().zip(ends) {
        let outcome = Outcome::RetryAt(due);
        scene.store.finish_delivery(claim, &attempt(3, 503), outcome).await.unwrap();
    }
    scene.execute("UPDATE destinations SET rests_until = 9000000000000000").await;
    assert_eq!(scene.store.shorten_waits().await.unwrap(), 2);
    let now = run::system_mint().clock().now().millis();
    let due = scene.store.next_due(Timestamp::from_millis(now)).await.unwrap();
    assert_eq!(due, Some(at(3 * SECOND)), "what may wait so long waits");
    let rests = scene.store.destinations(scene.agent.id).await.unwrap().remove(0);
    assert_eq!(rests.id, listening.id);
    assert!(rests.health.rests_until.unwrap().millis() <= now);
}
