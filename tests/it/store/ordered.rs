//! An `ordered` destination: the events of a room one by one, in order, whatever happens to one of
//! them or to whoever sends it; and no room waits for another.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use gatepost::domain::delivery::{Attempt, Claim, Outcome};
use gatepost::domain::event::Category;
use gatepost::domain::id::AttemptId;
use gatepost::run;
use gatepost::store::{Committed, Store};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::scene::{Kind, SECOND, Scene, at, by, mint};
use crate::support::store_rules;

on_both! {
    a_room_goes_one_by_one_and_holds_up_no_other,
    a_replay_goes_before_what_waits_and_beside_nothing,
    what_is_no_longer_sent_lets_the_next_go,
    rooms_that_wait_have_their_turns_and_delay_no_other_destination,
    many_gateways_keep_the_order_through_failures_and_lost_leases,
}

const LEASE: i64 = 60 * SECOND;
const ALICE: &str = "alice@good.example";
const BOB: &str = "bob@good.example";

async fn claim(store: &Store, millis: i64) -> Vec<Claim> {
    store.claim_deliveries(at(millis), at(millis + LEASE), 100, &[]).await.unwrap()
}

async fn end(store: &Store, claim: &Claim, millis: i64, outcome: Outcome) -> bool {
    let delivered = outcome == Outcome::Delivered;
    let attempt = Attempt {
        id: AttemptId(mint().uuid()),
        at: at(millis),
        latency_ms: 0,
        status: Some(if delivered { 200 } else { 500 }),
        response: Vec::new(),
        error: None,
    };
    store.finish_delivery(claim, &attempt, outcome).await.unwrap().recorded
}

/// Messages of these senders, one each millisecond.
async fn arrive(scene: &Scene, senders: &[&str], from: i64) {
    for (millis, sender) in (from..).zip(senders) {
        let intake = scene.intake_from(&scene.agent, millis, sender, None).await;
        assert_eq!(scene.commit(vec![intake], millis).await, Committed::Done(vec![None]));
    }
}

/// When what is claimed happened.
fn times(claims: &[Claim]) -> Vec<i64> {
    let mut times: Vec<_> =
        claims.iter().map(|one| one.event.at.millis() - at(0).millis()).collect();
    times.sort_unstable();
    times
}

async fn a_room_goes_one_by_one_and_holds_up_no_other(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.listen_in_order(&scene.agent, Category::Incoming).await;
    arrive(&scene, &[ALICE, BOB, ALICE, BOB, ALICE], 0).await;
    let store = &scene.store;
    let first = claim(store, 10).await;
    assert_eq!(times(&first), [0, 1]);
    assert_eq!(claim(store, 11).await, []);

    // Alice's first waits for its retry: so do the others of her room, and Bob's next goes.
    let retry = Outcome::RetryAt(at(300 * SECOND));
    assert!(end(store, &first[0], 12, retry).await);
    assert!(end(store, &first[1], 12, Outcome::Delivered).await);
    let second = claim(store, 13).await;
    assert_eq!(times(&second), [3]);
    assert!(end(store, &second[0], 14, Outcome::Delivered).await);
    assert_eq!(claim(store, 15).await, []);
    assert_eq!(claim(store, 299 * SECOND).await, []);

    // Its claimant is lost; the same one comes again, and nothing passes it.
    let lost = claim(store, 300 * SECOND).await;
    assert_eq!(times(&lost), [0]);
    let again = claim(store, 300 * SECOND + LEASE).await;
    assert_eq!(times(&again), [0]);
    assert!(!end(store, &lost[0], 361 * SECOND, Outcome::Delivered).await);
    assert_eq!(claim(store, 361 * SECOND).await, []);
    store.release_deliveries(&again).await.unwrap();
    let again = claim(store, 362 * SECOND).await;
    assert_eq!(times(&again), [0]);
    assert!(end(store, &again[0], 363 * SECOND, Outcome::Delivered).await);

    for time in [2, 4] {
        let next = claim(store, 364 * SECOND).await;
        assert_eq!(times(&next), [time]);
        assert!(end(store, &next[0], 364 * SECOND, Outcome::Delivered).await);
    }
    assert_eq!(claim(store, 1000 * SECOND).await, []);
}

/// A replayed delivery goes before the waiting deliveries of its room, and never beside a delivery
/// of that room that is under way.
async fn a_replay_goes_before_what_waits_and_beside_nothing(kind: Kind) {
    let scene = Scene::new(kind).await;
    let account = scene.agent.id;
    scene.listen_in_order(&scene.agent, Category::Incoming).await;
    arrive(&scene, &[ALICE, ALICE, ALICE, ALICE, BOB], 0).await;
    let store = &scene.store;
    let mut ended = Vec::new();
    for time in 0..2 {
        let mut claims = claim(store, 10).await;
        let one = claims.remove(0);
        assert_eq!(times(std::slice::from_ref(&one)), [time]);
        store.release_deliveries(&claims).await.unwrap();
        assert!(end(store, &one, 11, Outcome::Delivered).await);
        ended.push(one.delivery);
    }
    let under_way = claim(store, 20).await;
    assert_eq!(times(&under_way), [2, 4]);
    // The later one first: their places are as they were.
    for (millis, id) in [(21, ended[1]), (22, ended[0])] {
        store.replay_delivery(account, id, by(at(millis))).await.unwrap();
    }
    assert_eq!(claim(store, 23).await, []);
    assert_eq!(claim(store, 20 + LEASE - 1).await, []);
    assert!(end(store, &under_way[0], 30, Outcome::Delivered).await);
    for time in [0, 1, 3] {
        let next = claim(store, 20 + LEASE).await;
        let next: Vec<Claim> =
            next.into_iter().filter(|one| one.delivery != under_way[1].delivery).collect();
        assert_eq!(times(&next), [time]);
        assert!(end(store, &next[0], 20 + LEASE, Outcome::Delivered).await);
    }
}

async fn what_is_no_longer_sent_lets_the_next_go(kind: Kind) {
    let scene = Scene::new(kind).await;
    let ordered = scene.listen_in_order(&scene.agent, Category::Incoming).await;
    arrive(&scene, &[ALICE, ALICE, ALICE], 0).await;
    let store = &scene.store;
    let first = claim(store, 10).await;
    assert!(end(store, &first[0], 11, Outcome::Exhausted).await);
    let second = claim(store, 12).await;
    assert_eq!(times(&second), [1]);
    // Others have no order, and no room.
    let plain = scene.listen(&scene.agent, Category::Incoming, "https://plain.example/").await;
    arrive(&scene, &[ALICE, ALICE], 20).await;
    let plainly = claim(store, 30).await;
    assert_eq!(times(&plainly), [20, 21]);
    assert!(plainly.iter().all(|one| one.destination.id == plain.id));
    let removed = scene.agent.id;
    store.remove_destinations(removed, Some(ordered.id), None, None, by(at(31))).await.unwrap();
    assert_eq!(claim(store, 32).await, []);
    assert_eq!(scene.count("SELECT COUNT(*) FROM deliveries WHERE state = 'cancelled'").await, 4);
}

/// A claim looks at some rooms, and the next one goes on behind them.
async fn rooms_that_wait_have_their_turns_and_delay_no_other_destination(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.listen_in_order(&scene.agent, Category::Incoming).await;
    let senders: Vec<String> = (0..25).map(|n| format!("sender{n}@good.example")).collect();
    arrive(&scene, &senders.iter().map(String::as_str).collect::<Vec<_>>(), 0).await;
    let mut rules = store_rules();
    rules.deliveries.rooms_at_once = 4;
    let store = Store::open(&scene.location, &rules, run::system_mint()).await.unwrap();
    // Each claim looks at four rooms and leases their deliveries, so that seven claims reach every
    // room once.
    let mut seen = Vec::new();
    for _ in 0..7 {
        let claims = claim(&store, 100).await;
        assert!((1..=4).contains(&claims.len()), "{}", claims.len());
        seen.extend(times(&claims));
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..25).collect::<Vec<_>>());
    // While they wait, those of another destination go at once.
    let plain = scene.listen_in_order(&scene.other, Category::Incoming).await;
    for millis in 200..210 {
        scene.deliver(&scene.other, millis).await;
        let claims = claim(&store, 300).await;
        assert_eq!(times(&claims), [millis]);
        assert_eq!(claims[0].destination.id, plain.id);
        assert!(end(&store, &claims[0], 300, Outcome::Delivered).await);
    }
    // One of them is due: within a round it is found.
    arrive(&scene, &["late@good.example"], 400).await;
    let mut found = Vec::new();
    for _ in 0..7 {
        found.extend(times(&claim(&store, 401).await));
    }
    assert_eq!(found, [400]);
    // The walk over the rooms keeps its position while its destination is passed over as busy.
    let busy = claim(&store, 2 * LEASE).await[0].destination.id;
    for _ in 0..6 {
        let now = (at(2 * LEASE), at(3 * LEASE));
        assert_eq!(store.claim_deliveries(now.0, now.1, 100, &[busy]).await.unwrap(), []);
        claim(&store, 2 * LEASE).await;
    }
    assert_eq!(claim(&store, 2 * LEASE).await, []);
}

/// By room, the times of the events that any gateway delivered, in the order of their recording.
type Record = Arc<Mutex<BTreeMap<String, Vec<i64>>>>;

const ROOMS: usize = 5;
const EACH: usize = 12;

/// Every seventh claim is lost, every fifth fails.
async fn work(store: Store, clock: Arc<AtomicI64>, record: Record, seed: usize) {
    let mut number = seed;
    loop {
        let now = clock.fetch_add(1, Ordering::SeqCst);
        let claims = store.claim_deliveries(at(now), at(now + LEASE), 3, &[]).await.unwrap();
        let mut rooms: Vec<_> = claims.iter().map(|one| one.event.room().unwrap()).collect();
        rooms.sort_by_key(ToString::to_string);
        rooms.dedup();
        assert_eq!(rooms.len(), claims.len(), "two of one room at once");
        if claims.is_empty() {
            let done: usize = record.lock().await.values().map(Vec::len).sum();
            if done == ROOMS * EACH {
                return;
            }
            clock.fetch_add(LEASE / 4, Ordering::SeqCst);
        }
        for claim in claims {
            number += 1;
            if number.is_multiple_of(7) {
                continue;
            }
            let retry = number.is_multiple_of(5);
            let outcome =
                if retry { Outcome::RetryAt(at(now + SECOND)) } else { Outcome::Delivered };
            // Held until it is recorded, so that nobody is recorded in between.
            let mut record = record.lock().await;
            if end(&store, &claim, now, outcome).await && !retry {
                let room = claim.event.room().unwrap().to_string();
                record.entry(room).or_default().push(claim.event.at.millis());
            }
        }
    }
}

async fn many_gateways_keep_the_order_through_failures_and_lost_leases(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.listen_in_order(&scene.organization, Category::Incoming).await;
    let senders: Vec<String> =
        (0..ROOMS * EACH).map(|n| format!("sender{}@good.example", n % ROOMS)).collect();
    arrive(&scene, &senders.iter().map(String::as_str).collect::<Vec<_>>(), 0).await;
    let (clock, record) = (Arc::new(AtomicI64::new(1000)), Record::default());
    let mut tasks = JoinSet::new();
    for seed in 0..4 {
        let store = scene.open().await;
        tasks.spawn(work(store, Arc::clone(&clock), Arc::clone(&record), seed));
    }
    tasks.join_all().await;
    for (room, times) in record.lock().await.iter() {
        assert_eq!(times.len(), EACH, "{room}");
        assert!(times.is_sorted(), "{room}: {times:?}");
    }
}
