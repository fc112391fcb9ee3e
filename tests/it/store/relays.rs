//! Relays, ways in and attempts: written by whoever saw what was there, gone at once, and part of
//! what a commit rests on.

use std::time::Duration;

use gatepost::domain::account::{Account, Lineage};
use gatepost::domain::audit::{Act, Change, Deed};
use gatepost::domain::id::{RelayAttemptId, RelayId, WayId};
use gatepost::domain::key::KeyHash;
use gatepost::domain::relay::{HopOutcome, RelayAttempt, RelayType, Relayed};
use gatepost::store::{AccountDeletion, Committed, RelayNote, RelayPut, SealedRelay, SealedWay};

use super::deletion::delete;
use super::scene::{Kind, Scene, at, by, mint};

on_both! {
    a_change_is_made_to_what_was_seen_or_not_at_all,
    the_nearest_one_counts_for_each_account,
    a_way_in_is_found_by_its_newest_key_and_outlives_its_relay,
    a_way_in_that_is_removed_stays_closed_to_changes_of_what_it_was,
    the_last_attempts_of_each_relay_are_kept,
    nothing_is_committed_by_the_word_of_another_relay,
    a_deleted_account_leaves_none,
    of_what_is_sealed_there_are_samples,
    ways_in_outlive_the_migration_that_made_room_for_adapters,
}

fn relay(account: &Account, kind: RelayType, revision: i64) -> SealedRelay {
    SealedRelay {
        id: RelayId(mint().uuid()),
        account: account.id,
        kind,
        url: "https://app.example/a?b=c".parse().unwrap(),
        timeout: Duration::from_millis(1500),
        headers: vec![0, 1],
        secret: vec![2, 255],
        success: vec![200, 204],
        revision,
        created_at: at(1),
        updated_at: at(2),
    }
}

fn way(account: &Account, octet: u8) -> SealedWay {
    SealedWay {
        id: WayId(mint().uuid()),
        account: account.id,
        kind: RelayType::Postmark,
        key_hash: KeyHash([octet; 32]),
        key: vec![octet],
        last_four: "abcd".into(),
        verification: vec![9],
        revision: 1,
        created_at: at(1),
        rotated_at: None,
    }
}

fn note(deed: Deed) -> RelayNote {
    RelayNote { deed, changes: vec![Change::made("origin", "https://app.example")] }
}

fn put(account: &Account, relay: Option<SealedRelay>, was: Option<Relayed>) -> RelayPut {
    let kind = relay.as_ref().map_or(RelayType::Postmark, |relay| relay.kind);
    let notes = vec![note(if was.is_some() { Deed::RelayUpdated } else { Deed::RelayAdded })];
    RelayPut {
        account: account.id,
        kind,
        relay,
        way: None,
        relay_before: was,
        way_revision_before: None,
        notes,
    }
}

/// Sets a relay of mail where there is none; `false` where there is one.
pub async fn add(scene: &Scene, account: &Account, act: Act<'_>) -> bool {
    let new = put(account, Some(relay(account, RelayType::Smtp, 1)), None);
    scene.store.put_relay(&new, act).await.unwrap()
}

/// Opens a way in where there is none; `false` where there is one.
pub async fn open(scene: &Scene, account: &Account, act: Act<'_>) -> bool {
    let new = RelayPut { way: Some(way(account, 1)), ..put(account, None, None) };
    scene.store.put_relay(&new, act).await.unwrap()
}

fn tried(relay: &SealedRelay, millis: i64) -> RelayAttempt {
    RelayAttempt {
        id: RelayAttemptId(mint().uuid()),
        relay: relay.id,
        account: relay.account,
        at: at(millis),
        outcome: HopOutcome::Deferred,
        status: None,
        took: Duration::from_millis(7),
        error: Some("no answer came in time".into()),
    }
}

/// Every statement about relays, once.
pub async fn exercise(scene: &Scene) {
    let Scene { store, agent, .. } = scene;
    add(scene, agent, by(at(0))).await;
    let made = store.relay(agent.id, RelayType::Smtp).await.unwrap().unwrap();
    store.relays(agent.id).await.unwrap();
    store.nearest_relay(RelayType::Smtp, &agent.lineage).await.unwrap();
    store.insert_relay_attempt(&tried(&made, 0), 1).await.unwrap();
    store.relay_attempts(made.id, 1).await.unwrap();
    assert!(open(scene, agent, by(at(0))).await);
    store.inbound_way(agent.id, RelayType::Postmark).await.unwrap();
    store.inbound_ways(agent.id).await.unwrap();
    store.inbound_way_by_key(RelayType::Postmark, KeyHash([1; 32])).await.unwrap();
    store.sealed_samples().await.unwrap();
    store.remove_relay(agent.id, RelayType::Smtp, by(at(0))).await.unwrap();
    assert!(store.remove_inbound_way(agent.id, RelayType::Postmark, by(at(0))).await.unwrap());
}

async fn a_change_is_made_to_what_was_seen_or_not_at_all(kind: Kind) {
    let scene = Scene::new(kind).await;
    let Scene { store, agent, .. } = &scene;
    let first = relay(agent, RelayType::Smtp, 1);
    let set = async |new: &SealedRelay, was| {
        let change = put(agent, Some(new.clone()), was);
        store.put_relay(&change, by(at(0))).await.unwrap()
    };
    assert!(!set(&first, Some(first.relayed())).await, "there is none");
    assert!(set(&first, None).await);
    assert_eq!(store.relay(agent.id, RelayType::Smtp).await.unwrap(), Some(first.clone()));
    let second = SealedRelay {
        revision: 2,
        url: "https://b.example/".parse().unwrap(),
        timeout: Duration::from_secs(3),
        headers: vec![7],
        secret: vec![8],
        success: Vec::new(),
        updated_at: at(9),
        ..first.clone()
    };
    assert!(!set(&relay(agent, RelayType::Smtp, 1), None).await, "there is one");
    assert!(set(&second, Some(first.relayed())).await);
    assert!(!set(&second, Some(first.relayed())).await, "it is another revision by now");
    assert_eq!(store.relays(agent.id).await.unwrap(), std::slice::from_ref(&second));
    assert_eq!(store.relay(agent.id, RelayType::Ses).await.unwrap(), None);
    for expected in [true, false] {
        let removed = store.remove_relay(agent.id, RelayType::Smtp, by(at(0))).await.unwrap();
        assert_eq!(removed, expected);
    }
    assert_eq!(store.relays(agent.id).await.unwrap(), []);
}

async fn the_nearest_one_counts_for_each_account(kind: Kind) {
    let scene = Scene::new(kind).await;
    let Scene { store, agent, other, organization, reseller, partner, .. } = &scene;
    let nearest = async |lineage: &Lineage| {
        let found = store.nearest_relay(RelayType::Smtp, lineage).await.unwrap();
        found.map(|relay| relay.account)
    };
    let foreign = scene.stranger().await;
    assert_eq!(nearest(&agent.lineage).await, None);
    for above in [partner, reseller, organization, agent] {
        assert!(add(&scene, above, by(at(0))).await);
        assert_eq!(nearest(&agent.lineage).await, Some(above.id));
        let own = scene.standing(agent, &super::scene::own_address(agent), "a@x.example").await;
        let found = store.nearest_relay(RelayType::Smtp, &agent.lineage).await.unwrap();
        assert_eq!(own.relay, found.map(|relay| relay.relayed()));
        let listing = store.look_up(Some(&super::scene::own_address(agent)), None).await.unwrap();
        assert!(listing.answering.unwrap().relayed);
    }
    assert_eq!(nearest(&other.lineage).await, Some(organization.id));
    let far = nearest(&foreign.lineage).await;
    assert!(far != Some(agent.id) && far != Some(organization.id), "{far:?}");
    // No relay of another type is found.
    assert_eq!(store.nearest_relay(RelayType::Ses, &agent.lineage).await.unwrap(), None);
}

async fn a_way_in_is_found_by_its_newest_key_and_outlives_its_relay(kind: Kind) {
    let scene = Scene::new(kind).await;
    let Scene { store, agent, .. } = &scene;
    let (first, postmark) = (way(agent, 1), RelayType::Postmark);
    let both =
        RelayPut { way: Some(first.clone()), ..put(agent, Some(relay(agent, postmark, 1)), None) };
    assert!(store.put_relay(&both, by(at(0))).await.unwrap());
    let by_key =
        async |octet: u8| store.inbound_way_by_key(postmark, KeyHash([octet; 32])).await.unwrap();
    assert_eq!((by_key(1).await, by_key(2).await), (Some(first.clone()), None));
    let foreign = store.inbound_way_by_key(RelayType::Ses, KeyHash([1; 32])).await.unwrap();
    assert_eq!(foreign, None, "a key is of its provider");
    let second = SealedWay {
        key_hash: KeyHash([2; 32]),
        revision: 2,
        rotated_at: Some(at(5)),
        ..first.clone()
    };
    let was = store.relay(agent.id, postmark).await.unwrap().map(|relay| relay.relayed());
    let rotated = RelayPut {
        way: Some(second.clone()),
        way_revision_before: Some(1),
        ..put(agent, None, was)
    };
    assert!(store.put_relay(&rotated, by(at(0))).await.unwrap());
    assert!(!store.put_relay(&rotated, by(at(0))).await.unwrap(), "it is another revision by now");
    assert_eq!((by_key(1).await, by_key(2).await), (None, Some(second.clone())));
    assert!(store.remove_relay(agent.id, postmark, by(at(0))).await.unwrap());
    assert_eq!(store.inbound_way(agent.id, postmark).await.unwrap(), Some(second.clone()));
    assert_eq!(store.inbound_ways(agent.id).await.unwrap(), [second]);
}

async fn ways_in_outlive_the_migration_that_made_room_for_adapters(kind: Kind) {
    let scene = Scene::new(kind).await;
    assert!(open(&scene, &scene.agent, by(at(0))).await);
    let before = scene.store.inbound_ways(scene.agent.id).await.unwrap();
    scene.execute("DELETE FROM _sqlx_migrations WHERE version = 18").await;
    let store = scene.open().await;
    assert_eq!(store.inbound_ways(scene.agent.id).await.unwrap(), before);
    let adapter = SealedWay { kind: RelayType::Json, ..way(&scene.agent, 2) };
    let new = RelayPut {
        kind: RelayType::Json,
        way: Some(adapter.clone()),
        ..put(&scene.agent, None, None)
    };
    assert!(store.put_relay(&new, by(at(0))).await.unwrap());
    let found = store.inbound_way_by_key(RelayType::Json, KeyHash([2; 32])).await.unwrap();
    assert_eq!(found, Some(adapter));
}

async fn a_way_in_that_is_removed_stays_closed_to_changes_of_what_it_was(kind: Kind) {
    let scene = Scene::new(kind).await;
    let Scene { store, agent, other, .. } = &scene;
    let postmark = RelayType::Postmark;
    let first = way(agent, 1);
    let own =
        RelayPut { way: Some(first.clone()), ..put(agent, Some(relay(agent, postmark, 1)), None) };
    assert!(store.put_relay(&own, by(at(0))).await.unwrap());
    assert!(!store.remove_inbound_way(other.id, postmark, by(at(0))).await.unwrap());
    assert!(!store.remove_inbound_way(agent.id, RelayType::Ses, by(at(0))).await.unwrap());
    let was = store.relay(agent.id, postmark).await.unwrap().map(|relay| relay.relayed());
    for expected in [true, false] {
        let removed = store.remove_inbound_way(agent.id, postmark, by(at(0))).await.unwrap();
        assert_eq!(removed, expected);
    }
    let by_key = store.inbound_way_by_key(postmark, KeyHash([1; 32])).await.unwrap();
    assert_eq!((by_key, store.inbound_ways(agent.id).await.unwrap()), (None, Vec::new()));
    assert!(store.relay(agent.id, postmark).await.unwrap().is_some(), "the relay stays");
    // A change that read the way before it was removed brings no key back.
    let late = RelayPut {
        way: Some(SealedWay { revision: 2, ..first }),
        way_revision_before: Some(1),
        ..put(agent, None, was)
    };
    assert!(!store.put_relay(&late, by(at(0))).await.unwrap());
    let new = RelayPut { way: Some(way(agent, 2)), ..put(agent, None, was) };
    assert!(store.put_relay(&new, by(at(0))).await.unwrap());
}

async fn the_last_attempts_of_each_relay_are_kept(kind: Kind) {
    let scene = Scene::new(kind).await;
    let Scene { store, agent, other, .. } = &scene;
    assert!(add(&scene, agent, by(at(0))).await && add(&scene, other, by(at(0))).await);
    let of =
        async |account: &Account| store.relay(account.id, RelayType::Smtp).await.unwrap().unwrap();
    let (mine, theirs) = (of(agent).await, of(other).await);
    let mut all = Vec::new();
    for number in 0..5 {
        let one = RelayAttempt {
            outcome: HopOutcome::Passed,
            status: Some(200),
            error: None,
            ..tried(&mine, number)
        };
        store.insert_relay_attempt(&one, 3).await.unwrap();
        all.insert(0, one);
    }
    let own = tried(&theirs, 9);
    store.insert_relay_attempt(&own, 3).await.unwrap();
    assert_eq!(store.relay_attempts(mine.id, 9).await.unwrap(), all[..3]);
    assert_eq!(store.relay_attempts(mine.id, 2).await.unwrap(), all[..2]);
    assert_eq!(store.relay_attempts(theirs.id, 9).await.unwrap(), [own]);
    assert!(store.remove_relay(agent.id, RelayType::Smtp, by(at(0))).await.unwrap());
    // One that was under way meanwhile leaves nothing.
    store.insert_relay_attempt(&tried(&mine, 6), 3).await.unwrap();
    assert_eq!(store.relay_attempts(mine.id, 9).await.unwrap(), []);
}

/// A gateway that is newer has migrated the database beside this one, which has prepared its reads.
#[tokio::test]
async fn relays_are_read_on_when_another_gateway_adds_columns() {
    let scene = Scene::new(Kind::Postgres).await;
    let Scene { store, agent, .. } = &scene;
    assert!(add(&scene, agent, by(at(0))).await);
    let own = RelayPut { way: Some(way(agent, 1)), ..put(agent, None, None) };
    assert!(store.put_relay(&own, by(at(0))).await.unwrap());
    let made = store.relay(agent.id, RelayType::Smtp).await.unwrap().unwrap();
    store.insert_relay_attempt(&tried(&made, 0), 1).await.unwrap();
    let read = async || {
        // More often than there are connections.
        for _ in 0..20 {
            let nearest = store.nearest_relay(RelayType::Smtp, &agent.lineage).await.unwrap();
            assert_eq!(nearest.as_ref(), Some(&made));
            assert_eq!(store.relays(agent.id).await.unwrap(), std::slice::from_ref(&made));
            assert_eq!(store.inbound_ways(agent.id).await.unwrap().len(), 1);
            assert_eq!(store.relay_attempts(made.id, 9).await.unwrap().len(), 1);
        }
    };
    read().await;
    let newer = "ALTER TABLE relays ADD COLUMN newer BIGINT;
                 ALTER TABLE inbound_ways ADD COLUMN newer BIGINT;
                 ALTER TABLE relay_attempts ADD COLUMN newer BIGINT";
    scene.execute(newer).await;
    read().await;
}

async fn nothing_is_committed_by_the_word_of_another_relay(kind: Kind) {
    let scene = Scene::new(kind).await;
    let Scene { store, agent, organization, .. } = &scene;
    let elsewhere = scene.open().await;
    for step in 0..4 {
        let decided = scene.intake(agent, step).await;
        match step {
            0 => assert!(add(&scene, organization, by(at(0))).await),
            1 => assert!(add(&scene, agent, by(at(0))).await),
            2 => {
                let old = store.relay(agent.id, RelayType::Smtp).await.unwrap().unwrap();
                let new = SealedRelay { revision: 2, ..old.clone() };
                let change = put(agent, Some(new), Some(old.relayed()));
                assert!(elsewhere.put_relay(&change, by(at(0))).await.unwrap());
            }
            _ => {
                let act = by(at(0));
                assert!(elsewhere.remove_relay(agent.id, RelayType::Smtp, act).await.unwrap());
            }
        }
        assert_eq!(scene.commit(vec![decided], step).await, Committed::Stale, "step {step}");
        scene.deliver(agent, 10 + step).await;
    }
}

async fn a_deleted_account_leaves_none(kind: Kind) {
    let scene = Scene::new(kind).await;
    let Scene { store, agent, organization, .. } = &scene;
    for account in [agent, organization] {
        assert!(add(&scene, account, by(at(0))).await);
        let made = store.relay(account.id, RelayType::Smtp).await.unwrap().unwrap();
        store.insert_relay_attempt(&tried(&made, 0), 9).await.unwrap();
        let octet = if account.id == agent.id { 1 } else { 2 };
        let own = RelayPut { way: Some(way(account, octet)), ..put(account, None, None) };
        assert!(store.put_relay(&own, by(at(0))).await.unwrap());
    }
    assert_eq!(delete(store, agent, false).await, AccountDeletion::Done { below: 0 });
    assert_eq!(store.relays(agent.id).await.unwrap(), []);
    assert_eq!(store.inbound_ways(agent.id).await.unwrap(), []);
    let gone = store.inbound_way_by_key(RelayType::Postmark, KeyHash([1; 32])).await.unwrap();
    assert_eq!(gone, None);
    assert_eq!(scene.count("SELECT COUNT(*) FROM relay_attempts").await, 1);
    assert_eq!(store.relays(organization.id).await.unwrap().len(), 1);
    assert_eq!(store.inbound_ways(organization.id).await.unwrap().len(), 1);
}

async fn of_what_is_sealed_there_are_samples(kind: Kind) {
    let scene = Scene::new(kind).await;
    let Scene { store, agent, organization, .. } = &scene;
    assert_eq!(store.sealed_samples().await.unwrap(), Vec::<Vec<u8>>::new());
    assert!(add(&scene, organization, by(at(0))).await);
    assert_eq!(store.sealed_samples().await.unwrap(), [[0_u8, 1]]);
    let last = RelayId(uuid::Uuid::from_u128(u128::MAX));
    let newest = SealedRelay { id: last, headers: vec![5], ..relay(agent, RelayType::Smtp, 1) };
    let ways = RelayPut { way: Some(way(agent, 7)), ..put(agent, None, None) };
    for put in [put(agent, Some(newest), None), ways] {
        assert!(store.put_relay(&put, by(at(0))).await.unwrap());
    }
    assert_eq!(store.sealed_samples().await.unwrap(), [[5_u8], [7]]);
}
