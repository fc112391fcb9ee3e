//! Replays: exhausted deliveries, or all since a time, made ready in steps.

use std::collections::BTreeSet;

use gatepost::domain::delivery::{Attempt, Claim, Extent, Outcome};
use gatepost::domain::destination::Destination;
use gatepost::domain::event::{Category, EventName};
use gatepost::domain::id::{AttemptId, DeliveryId};
use gatepost::run;
use gatepost::store::{DestinationChange, ReplayRequest, Replayed, Store};
use sqlx::Executor as _;

use super::scene::{Kind, SECOND, Scene, at, by, mint};
use crate::support::store_rules;

on_both! {
    what_was_given_up_since_then_is_sent_again,
    all_since_then_is_sent_in_order_whether_it_was_made_before_or_not,
    a_replay_goes_on_by_groups,
    a_replay_ends_with_its_destination,
    one_replay_holds_up_no_other_and_no_claim,
    all_ends_where_later_events_begin,
    what_a_clock_ahead_gave_up_is_sent_again,
}

const LEASE: i64 = 60 * SECOND;

async fn claim(store: &Store, millis: i64) -> Vec<Claim> {
    store.claim_deliveries(at(millis), at(millis + LEASE), 100, &[]).await.unwrap()
}

async fn end(scene: &Scene, claim: &Claim, millis: i64, outcome: Outcome) {
    let attempt = Attempt {
        id: AttemptId(mint().uuid()),
        at: at(millis),
        latency_ms: 0,
        status: Some(500),
        response: Vec::new(),
        error: None,
    };
    assert!(scene.store.finish_delivery(claim, &attempt, outcome).await.unwrap().recorded);
}

async fn ask(scene: &Scene, of: &Destination, since: i64, extent: Extent, millis: i64) {
    let asked = ReplayRequest { since: at(since), extent };
    let done = scene.store.request_replay(of.account, of.id, asked, 9, by(at(millis))).await;
    assert!(matches!(done.unwrap(), Replayed::Accepted(_)));
}

fn times(claims: &[Claim]) -> Vec<i64> {
    claims.iter().map(|one| one.event.at.millis() - at(0).millis()).collect()
}

fn sorted(mut times: Vec<i64>) -> Vec<i64> {
    times.sort_unstable();
    times
}

/// A handle that does so much at a time.
async fn by_groups_of(scene: &Scene, replay_at_once: u32) -> Store {
    let mut rules = store_rules();
    rules.deliveries.replay_at_once = replay_at_once;
    Store::open(&scene.location, &rules, run::system_mint()).await.unwrap()
}

const JOBS: &str = "SELECT COUNT(*) FROM replays";

async fn what_was_given_up_since_then_is_sent_again(kind: Kind) {
    let scene = Scene::new(kind).await;
    let one = scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    let other = scene.listen(&scene.agent, Category::Incoming, "https://b.example/").await;
    for millis in 0..4 {
        scene.deliver(&scene.agent, millis).await;
    }
    for claimed in claim(&scene.store, 10).await {
        let well = claimed.event.at == at(2) && claimed.destination.id == one.id;
        let outcome = if well { Outcome::Delivered } else { Outcome::Exhausted };
        end(&scene, &claimed, 11, outcome).await;
    }
    ask(&scene, &one, 1, Extent::Failed, 12).await;
    let again = claim(&scene.store, 13).await;
    assert_eq!(sorted(times(&again)), [1, 3]);
    assert!(again.iter().all(|claim| claim.destination.id == one.id && claim.attempts == 0));
    // That replay has ended: it does not send them a third time.
    for claimed in &again {
        end(&scene, claimed, 14, Outcome::Exhausted).await;
    }
    assert_eq!(claim(&scene.store, 15).await, []);
    assert_eq!(scene.count(JOBS).await, 0);
    assert_eq!(scene.count("SELECT COUNT(*) FROM attempts").await, 10);
    ask(&scene, &other, 0, Extent::Failed, 16).await;
    assert_eq!(claim(&scene.store, 17).await.len(), 4);
}

async fn all_since_then_is_sent_in_order_whether_it_was_made_before_or_not(kind: Kind) {
    let scene = Scene::new(kind).await;
    for millis in 0..3 {
        scene.deliver(&scene.agent, millis).await;
        scene.deliver(&scene.other, 100 + millis).await;
    }
    let late = scene.listen_in_order(&scene.organization, Category::Incoming).await;
    scene.listen(&scene.agent, Category::Contact, "https://contact.example/").await;
    scene.store.test_destination(&scene.organization, late.id, by(at(3))).await.unwrap();
    for millis in 4..7 {
        scene.deliver(&scene.agent, millis).await;
    }
    // A test; of the ordered ones the first is delivered, the second given up, the third waits.
    let mut ended: BTreeSet<DeliveryId> = BTreeSet::new();
    for outcome in [Outcome::Delivered, Outcome::Exhausted] {
        for claimed in claim(&scene.store, 10).await {
            end(&scene, &claimed, 11, outcome).await;
            ended.insert(claimed.delivery);
        }
    }
    assert_eq!(ended.len(), 3);
    ask(&scene, &late, 1, Extent::All, 200).await;
    // An event after the request is delivered once only.
    scene.deliver(&scene.agent, 300).await;
    let mut seen = Vec::new();
    for round in 0..20 {
        let now = 301 + round * LEASE;
        for claimed in claim(&scene.store, now).await {
            assert_eq!(claimed.event.name, EventName::EmailReceived);
            end(&scene, &claimed, now, Outcome::Delivered).await;
            seen.push(claimed);
        }
    }
    let of = |agent| -> Vec<i64> {
        let of = |claim: &&Claim| claim.event.lineage.agent == Some(agent);
        times(&seen.iter().filter(of).cloned().collect::<Vec<_>>())
    };
    // One was on its way while the log got its places.
    assert_eq!(of(scene.agent.id), [6, 1, 2, 4, 5, 6, 300]);
    assert_eq!(of(scene.other.id), [100, 101, 102]);
    assert_eq!(scene.count(JOBS).await, 0);
    let twice = "SELECT COUNT(*) FROM (SELECT event_id FROM deliveries
                 GROUP BY event_id, event_number, destination_id HAVING COUNT(*) > 1) AS twice";
    assert_eq!(scene.count(twice).await, 0);
    // All of it once more: nothing is made anew.
    let before = scene.count("SELECT COUNT(*) FROM deliveries").await;
    ask(&scene, &late, 0, Extent::All, 400).await;
    claim(&scene.store, 30 * LEASE).await;
    assert_eq!(claim(&scene.store, 30 * LEASE).await.len(), 2);
    assert_eq!(scene.count("SELECT COUNT(*) FROM deliveries").await, before + 1);
    assert_eq!(scene.count("SELECT COUNT(*) FROM deliveries WHERE state = 'pending'").await, 10);
}

async fn a_replay_goes_on_by_groups(kind: Kind) {
    for extent in [Extent::Failed, Extent::All] {
        let scene = Scene::new(kind).await;
        let one = scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
        for millis in 0..7 {
            scene.deliver(&scene.agent, millis).await;
        }
        for claimed in claim(&scene.store, 10).await {
            end(&scene, &claimed, 11, Outcome::Exhausted).await;
        }
        ask(&scene, &one, 0, extent, 12).await;
        let store = by_groups_of(&scene, 2).await;
        let mut found = Vec::new();
        let mut steps = 0;
        while scene.count(JOBS).await > 0 {
            let claims = claim(&store, 13).await;
            assert!(claims.len() <= 2, "{claims:?}");
            found.extend(times(&claims));
            steps += 1;
        }
        assert_eq!(sorted(found), [0, 1, 2, 3, 4, 5, 6]);
        // Two at a time; of the log of the Agent 9 rows, from where it begins. Before that, on
        // PostgreSQL, all 14 of the log have got their places.
        let least = match (extent, kind) {
            (Extent::Failed, _) => 4,
            (Extent::All, Kind::Sqlite) => 1 + 5,
            (Extent::All, Kind::Postgres) => 7 + 1 + 5,
        };
        assert!((least..=30).contains(&steps), "{extent:?}: {steps}");
    }
}

async fn a_replay_ends_with_its_destination(kind: Kind) {
    let scene = Scene::new(kind).await;
    let me = scene.agent.id;
    let gone = scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    let off = scene.listen(&scene.agent, Category::Incoming, "https://b.example/").await;
    scene.deliver(&scene.agent, 0).await;
    for claimed in claim(&scene.store, 1).await {
        end(&scene, &claimed, 2, Outcome::Exhausted).await;
    }
    for one in [&gone, &off] {
        for extent in [Extent::Failed, Extent::All] {
            ask(&scene, one, 0, extent, 3).await;
        }
    }
    scene.store.remove_destinations(me, Some(gone.id), None, None, by(at(4))).await.unwrap();
    let change = DestinationChange { disabled: Some(true), ..Default::default() };
    scene.store.update_destination(me, off.id, &change, by(at(4))).await.unwrap();
    for _ in 0..4 {
        assert_eq!(claim(&scene.store, 5).await, []);
    }
    assert_eq!(scene.count(JOBS).await, 0);
    assert_eq!(scene.count("SELECT COUNT(*) FROM deliveries WHERE state = 'pending'").await, 0);
}

async fn one_replay_holds_up_no_other_and_no_claim(kind: Kind) {
    let scene = Scene::new(kind).await;
    let one = scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    let other = scene.listen(&scene.agent, Category::Incoming, "https://b.example/").await;
    for millis in 0..3 {
        scene.deliver(&scene.agent, millis).await;
    }
    for claimed in claim(&scene.store, 10).await {
        end(&scene, &claimed, 11, Outcome::Exhausted).await;
    }
    let store = by_groups_of(&scene, 1).await;
    for of in [&one, &other] {
        ask(&scene, of, 0, Extent::Failed, 12).await;
    }
    if kind == Kind::Postgres {
        // While another gateway works on replays, this one claims.
        let mut beside = scene.postgres().await;
        let gate = "SELECT pg_advisory_lock(hashtextextended('replays', 0))";
        beside.execute(gate).await.unwrap();
        assert_eq!(claim(&store, 13).await, []);
        beside.execute("SELECT pg_advisory_unlock_all()").await.unwrap();
        // Where nothing has an order, a replay waits for no claim.
        let claims = "SELECT pg_advisory_lock_shared(hashtextextended('rooms', 0))";
        beside.execute(claims).await.unwrap();
        let found = claim(&store, 13).await;
        assert_eq!(found.iter().map(|one| one.destination.id).collect::<Vec<_>>(), [one.id]);
    } else {
        assert_eq!(claim(&store, 13).await[0].destination.id, one.id);
    }
    assert_eq!(claim(&store, 13).await[0].destination.id, other.id);
    // One that cannot be read is dropped, and the other goes on.
    let damage = match kind {
        Kind::Sqlite => {
            "PRAGMA ignore_check_constraints = 1;
             UPDATE replays SET what = 'x'
             WHERE id = (SELECT id FROM replays ORDER BY id LIMIT 1)"
        }
        Kind::Postgres => {
            "ALTER TABLE replays DROP CONSTRAINT replays_what_check;
             UPDATE replays SET what = 'x'
             WHERE id = (SELECT id FROM replays ORDER BY id LIMIT 1)"
        }
    };
    scene.execute(damage).await;
    let mut found = Vec::new();
    for _ in 0..6 {
        found.extend(claim(&store, 13).await.iter().map(|one| one.destination.id));
    }
    assert_eq!(found, [other.id; 2]);
    assert_eq!(scene.count(JOBS).await, 0);
}

async fn all_ends_where_later_events_begin(kind: Kind) {
    let scene = Scene::new(kind).await;
    let one = scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    scene.deliver(&scene.agent, 0).await;
    end(&scene, &claim(&scene.store, 1).await[0], 2, Outcome::Delivered).await;
    ask(&scene, &one, 0, Extent::All, 3).await;
    for number in 0..12 {
        scene.deliver(&scene.agent, 2 * 3600 * SECOND + number).await;
    }
    let store = by_groups_of(&scene, 2).await;
    scene.store.place_events(1000).await.unwrap();
    // The groups of what came later are left.
    let mut found = Vec::new();
    for _ in 0..8 {
        found.extend(times(&claim(&store, 4).await));
    }
    assert_eq!((scene.count(JOBS).await, found), (0, vec![0]));
}

/// The clock of the gateway that gave it up is ahead of that which was asked.
async fn what_a_clock_ahead_gave_up_is_sent_again(kind: Kind) {
    let scene = Scene::new(kind).await;
    let one = scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    scene.deliver(&scene.agent, 0).await;
    end(&scene, &claim(&scene.store, 1).await[0], 30 * SECOND, Outcome::Exhausted).await;
    ask(&scene, &one, 0, Extent::Failed, 2).await;
    assert_eq!(times(&claim(&scene.store, 3).await), [0]);
}

/// Runs every statement of a replay, at every level.
pub async fn exercise(scene: &Scene) {
    let Scene { store, partner, reseller, organization, agent, .. } = scene;
    for account in [partner, reseller, organization, agent] {
        let mut wanted = scene.listen_in_order(account, Category::Conversation).await;
        for extent in [Extent::Failed, Extent::All] {
            scene.deliver(agent, 0).await;
            if let Some(one) = claim(store, 1).await.first() {
                end(scene, one, 1, Outcome::Exhausted).await;
                wanted = one.destination.clone();
            }
            ask(scene, &wanted, 0, extent, 2).await;
            for _ in 0..3 {
                claim(store, 3).await;
            }
        }
    }
}
