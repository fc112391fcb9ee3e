//! Destinations that change, and what is seen of their deliveries and sent again.

use std::collections::BTreeSet;

use gatepost::domain::delivery::{Attempt, Claim, Extent, Outcome, State, Subject};
use gatepost::domain::destination::{CustomHeader, Destination, Payload};
use gatepost::domain::event::{Category, EventName};
use gatepost::domain::id::{DeliveryId, DestinationId};
use gatepost::domain::secret::Secret;
use gatepost::store::{
    Cursor, DeliveryFilter, DeliveryRecord, DestinationChange, Direction, Page, Redelivery,
    ReplayRequest, Replayed, Rotated, Rotation, StoreError, Tested,
};

use super::scene::{self, DAY, Kind, SECOND, Scene, at, by, everything};

on_both! {
    a_destination_is_changed_by_its_account_alone,
    former_secrets_sign_until_their_time_and_are_so_many,
    a_disabled_destination_is_offered_nothing_until_it_is_enabled,
    a_test_is_one_delivery_to_the_one_that_asked,
    replays_wait_once_each_and_so_many,
    deliveries_are_listed_in_order_with_their_newest_attempts,
    one_is_sent_again_and_no_late_claimant_counts,
    nothing_is_sent_again_to_what_was_removed_meanwhile,
}

const LEASE: i64 = 60 * SECOND;

async fn claim(scene: &Scene, millis: i64) -> Vec<Claim> {
    scene.store.claim_deliveries(at(millis), at(millis + LEASE), 100, &[]).await.unwrap()
}

/// One whose answer is no text.
fn attempt(millis: i64, status: u16) -> Attempt {
    Attempt { response: vec![0xff, 0], ..scene::attempt(millis, status) }
}

async fn finish(scene: &Scene, claim: &Claim, millis: i64, outcome: Outcome) -> bool {
    scene.store.finish_delivery(claim, &attempt(millis, 500), outcome).await.unwrap().recorded
}

async fn listed(scene: &Scene, destination: DestinationId) -> Vec<DeliveryRecord> {
    let all = DeliveryFilter::default();
    scene.store.deliveries(destination, &all, &everything(), 9).await.unwrap()
}

async fn incoming(scene: &Scene) -> Destination {
    scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await
}

async fn a_destination_is_changed_by_its_account_alone(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, me) = (&scene.store, scene.agent.id);
    let old = incoming(&scene).await;
    let change = DestinationChange {
        label: Some("new".into()),
        ordered: Some(true),
        payload: Some(Payload::Thin),
        headers: Some(vec![CustomHeader { name: "X-A".into(), value: Secret::new("\"s\\") }]),
        disabled: None,
    };
    for account in [scene.organization.id, scene.other.id] {
        let refused = store.update_destination(account, old.id, &change, by(at(1))).await;
        assert_eq!(refused.unwrap(), None);
        assert_eq!(store.destination(account, old.id).await.unwrap(), None);
    }
    let entries = "SELECT COUNT(*) FROM audit_entries WHERE deed = 'webhook.updated'";
    for _ in 0..2 {
        let new = store.update_destination(me, old.id, &change, by(at(1))).await.unwrap().unwrap();
        assert_eq!(store.destinations(me).await.unwrap(), std::slice::from_ref(&new));
        assert_eq!(store.all_destinations().await.unwrap(), std::slice::from_ref(&new));
        assert_eq!((new.label.as_str(), new.wants.ordered), ("new", true));
        assert_eq!(Some(new.wants.headers), change.headers);
        assert_eq!(scene.count(entries).await, 1, "to say it again changes nothing");
    }
    let none = DestinationChange::default();
    let same = store.update_destination(me, old.id, &none, by(at(2))).await.unwrap().unwrap();
    assert_eq!(same.wants.payload, Payload::Thin);
    let secrets = "SELECT COUNT(*) FROM audit_entries WHERE changes LIKE '%\"s%'";
    assert_eq!(scene.count(secrets).await, 0);
    store.remove_destinations(me, Some(old.id), None, None, by(at(3))).await.unwrap();
    assert_eq!(store.update_destination(me, old.id, &change, by(at(4))).await.unwrap(), None);
    assert!(store.destination(me, old.id).await.unwrap().unwrap().removed);
    assert!(store.destination_of_any(old.id).await.unwrap().unwrap().removed);
    assert_eq!(store.all_destinations().await.unwrap(), []);
}

fn rotation(number: u8, until: Option<i64>) -> Rotation {
    Rotation { secret: Secret::new([number; 32]), overlap_until: until.map(at), max_former: 2 }
}

async fn former_secrets_sign_until_their_time_and_are_so_many(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, me) = (&scene.store, scene.agent.id);
    let old = incoming(&scene).await;
    let rotate = async |number: u8, now: i64, until: Option<i64>| {
        let (rotation, act) = (rotation(number, until), by(at(now)));
        store.rotate_secret(me, old.id, &rotation, act).await.unwrap()
    };
    let refused =
        store.rotate_secret(scene.organization.id, old.id, &rotation(1, None), by(at(0))).await;
    assert_eq!(refused.unwrap(), Rotated::NoDestination);
    for (number, now) in [(1, 0), (2, 10)] {
        let Rotated::Done(new) = rotate(number, now, Some(now + DAY)).await else { panic!() };
        assert_eq!(store.destinations(me).await.unwrap(), [*new.clone()]);
        assert_eq!((new.secret, new.secret_rotated_at), (Secret::new([number; 32]), Some(at(now))));
        assert_eq!(new.former_secrets[0].until, at(now + DAY));
    }
    assert_eq!(rotate(3, 20, Some(20 + DAY)).await, Rotated::TooMany(at(DAY)));
    // The first has ended by then.
    let Rotated::Done(new) = rotate(3, DAY, Some(2 * DAY)).await else { panic!() };
    let former: Vec<_> = new.former_secrets.iter().map(|one| one.secret.expose()[0]).collect();
    assert_eq!(former, [2, 1]);
    let claimed = {
        scene.deliver(&scene.agent, DAY).await;
        claim(&scene, DAY).await.remove(0).destination
    };
    assert_eq!(claimed, *new);
    let Rotated::Done(ended) = rotate(4, DAY + 1, None).await else { panic!() };
    assert_eq!(ended.former_secrets, []);
    let noted = "SELECT COUNT(*) FROM audit_entries WHERE deed = 'webhook.rotated'";
    assert_eq!(scene.count(noted).await, 4);
}

async fn a_disabled_destination_is_offered_nothing_until_it_is_enabled(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, me) = (&scene.store, scene.agent.id);
    let hook = incoming(&scene).await;
    scene.execute("UPDATE destinations SET failures = 3, failing_since = 1, rests_until = 5").await;
    let set = async |disabled: bool, millis: i64| {
        let change = DestinationChange { disabled: Some(disabled), ..Default::default() };
        store.update_destination(me, hook.id, &change, by(at(millis))).await.unwrap().unwrap()
    };
    let off = set(true, 1).await.disabled.unwrap();
    assert_eq!(off.at, at(1));
    assert_eq!(store.destinations(me).await.unwrap()[0].disabled, Some(off.clone()));
    scene.deliver(&scene.agent, 2).await;
    assert_eq!(listed(&scene, hook.id).await, []);
    let tested = store.test_destination(&scene.agent, hook.id, by(at(3))).await.unwrap();
    assert_eq!(tested, Tested::Disabled);
    let wish = ReplayRequest { since: at(0), extent: Extent::All };
    let replay = store.request_replay(me, hook.id, wish, 9, by(at(3))).await.unwrap();
    assert_eq!(replay, Replayed::Disabled);
    let on = set(false, 4).await;
    assert_eq!((on.disabled, on.health), (None, hook.health));
    assert_eq!(store.destinations(me).await.unwrap()[0].health, hook.health);
    scene.deliver(&scene.agent, 5).await;
    assert_eq!(claim(&scene, 6).await.len(), 1);
}

async fn a_test_is_one_delivery_to_the_one_that_asked(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = &scene.store;
    let hook = scene.listen(&scene.agent, Category::Contact, "https://a.example/").await;
    for account in [&scene.agent, &scene.organization] {
        scene.listen(account, Category::Onboarding, "https://b.example/").await;
    }
    let foreign = store.test_destination(&scene.organization, hook.id, by(at(1))).await.unwrap();
    assert_eq!(foreign, Tested::NoDestination);
    let tested = store.test_destination(&scene.agent, hook.id, by(at(1))).await.unwrap();
    let Tested::Sent(event, delivery) = tested else { panic!("{tested:?}") };
    let claims = claim(&scene, 1).await;
    assert_eq!(claims.len(), 1);
    let claim = &claims[0];
    assert_eq!((claim.event.id, claim.delivery, claim.destination.id), (event, delivery, hook.id));
    assert_eq!((claim.event.name, claim.event.at), (EventName::WebhookTest, at(1)));
    assert_eq!(claim.event.lineage, scene.agent.lineage);
    assert!(matches!(claim.subject, Subject::Told(_)), "{:?}", claim.subject);
    // Once only, if it is asked for so.
    let once = gatepost::domain::audit::Once { digest: [1; 32], request: [2; 32], until: at(DAY) };
    let actor = gatepost::domain::audit::Actor::OPERATOR;
    let actor = gatepost::domain::audit::Actor { once: Some(once), ..actor };
    assert!(store.test_destination(&scene.agent, hook.id, actor.at(at(2))).await.is_ok());
    let again = store.test_destination(&scene.agent, hook.id, actor.at(at(3))).await;
    assert!(matches!(again, Err(StoreError::Repeated)), "{again:?}");
    assert_eq!(listed(&scene, hook.id).await.len(), 2);
}

async fn replays_wait_once_each_and_so_many(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, me) = (&scene.store, scene.agent.id);
    let hook = incoming(&scene).await;
    let ask = async |since: i64, extent: Extent| {
        let request = ReplayRequest { since: at(since), extent };
        store.request_replay(me, hook.id, request, 2, by(at(9))).await.unwrap()
    };
    let first = ask(1, Extent::Failed).await;
    assert!(matches!(first, Replayed::Accepted(_)), "{first:?}");
    assert_ne!(ask(1, Extent::All).await, first);
    assert_eq!(ask(1, Extent::Failed).await, first);
    assert_eq!(ask(2, Extent::Failed).await, Replayed::TooMany);
    assert_eq!(scene.count("SELECT COUNT(*) FROM replays").await, 2);
    let noted = "SELECT COUNT(*) FROM audit_entries WHERE deed = 'webhook.replayed'";
    assert_eq!(scene.count(noted).await, 2);
    let other = scene.other.id;
    let request = ReplayRequest { since: at(1), extent: Extent::All };
    let foreign = store.request_replay(other, hook.id, request, 9, by(at(9))).await.unwrap();
    assert_eq!(foreign, Replayed::NoDestination);
}

async fn deliveries_are_listed_in_order_with_their_newest_attempts(kind: Kind) {
    let scene = Scene::new(kind).await;
    let hook = incoming(&scene).await;
    let beside = scene.listen(&scene.agent, Category::Contact, "https://a.example/").await;
    // Two of the same moment.
    for millis in [0, 1, 1, 2] {
        scene.deliver(&scene.agent, millis).await;
    }
    let mut due = 3;
    for _ in 0..4 {
        for claim in claim(&scene, due).await {
            let next = Outcome::RetryAt(at(due + SECOND));
            assert!(finish(&scene, &claim, due, next).await);
        }
        // So many failures would make it rest.
        scene.execute("UPDATE destinations SET failures = 0, rests_until = 0").await;
        due += SECOND;
        // Or it would rest after so many failures.
        scene.execute("UPDATE destinations SET failures = 0, rests_until = 0").await;
    }
    let last = claim(&scene, due).await;
    let last = last.iter().find(|claim| claim.event.at == at(2)).unwrap();
    assert!(finish(&scene, last, due, Outcome::Exhausted).await);
    let read = async |filter: DeliveryFilter, page: Page| {
        scene.store.deliveries(hook.id, &filter, &page, 3).await.unwrap()
    };
    let all = read(DeliveryFilter::default(), everything()).await;
    let places: Vec<_> = all.iter().map(|one| (one.created_at, one.id.0)).collect();
    assert!(places.is_sorted_by(|one, other| one > other), "{places:?}");
    let times: Vec<_> = all.iter().map(|one| one.created_at).collect();
    assert_eq!(times, [at(2), at(1), at(1), at(0)]);
    assert_eq!((all[0].state, all[0].next_attempt_at), (State::Exhausted, None));
    assert_eq!((all[1].state, all[1].next_attempt_at), (State::Pending, Some(at(due))));
    assert!(
        all.iter()
            .all(|one| one.destination == hook.id && one.name == Some(EventName::EmailReceived))
    );
    let tried: Vec<_> = all[0].attempts.iter().map(|attempt| attempt.at).collect();
    assert_eq!(tried, [at(due - 2 * SECOND), at(due - SECOND), at(due)], "the newest three");
    assert_eq!(all[0].attempts[0].response, [0xff, 0]);
    assert_eq!(listed(&scene, beside.id).await[0].name, Some(EventName::ContactCreated));
    // Page by page, in both directions, in each state.
    for (state, count) in [(None, 4), (Some(State::Pending), 3), (Some(State::Exhausted), 1)] {
        let filter = DeliveryFilter { state, ..Default::default() };
        for direction in [Direction::Before, Direction::After] {
            let (mut from, mut seen) = (None, BTreeSet::new());
            if direction == Direction::After {
                from = Some((direction, Cursor { at: at(-1), id: uuid::Uuid::nil() }));
            }
            loop {
                let page = read(filter, Page { limit: 1, from, until: None }).await;
                let Some(one) = page.first() else { break };
                assert!(seen.insert(one.id.0), "{state:?} {direction:?}");
                from = Some((direction, Cursor { at: one.created_at, id: one.id.0 }));
            }
            assert_eq!(seen.len(), count, "{state:?} {direction:?}");
        }
    }
    let some = DeliveryFilter { since: Some(at(1)), until: Some(at(2)), state: None };
    assert_eq!(read(some, everything()).await, all[1..3]);
    let (account, id) = (scene.agent.id, all[0].id);
    assert_eq!(scene.store.delivery(account, id, 3).await.unwrap().as_ref(), Some(&all[0]));
    for other in [scene.organization.id, scene.other.id] {
        assert_eq!(scene.store.delivery(other, id, 3).await.unwrap(), None);
    }
}

async fn one_is_sent_again_and_no_late_claimant_counts(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, me) = (&scene.store, scene.agent.id);
    let hook = incoming(&scene).await;
    scene.deliver(&scene.agent, 0).await;
    let first = claim(&scene, 0).await.remove(0);
    let replay = async |account, millis: i64| {
        store.replay_delivery(account, first.delivery, by(at(millis))).await.unwrap()
    };
    assert_eq!(replay(me, 1).await, Redelivery::Pending);
    assert!(finish(&scene, &first, 2, Outcome::Exhausted).await);
    assert_eq!(replay(scene.organization.id, 3).await, Redelivery::NoDelivery);
    assert_eq!(replay(me, 3).await, Redelivery::Done);
    assert_eq!(replay(me, 4).await, Redelivery::Pending);
    // The holder of the former claim is too late.
    assert!(!finish(&scene, &first, 4, Outcome::Delivered).await);
    let second = claim(&scene, 4).await.remove(0);
    assert_eq!((second.attempts, second.event.id), (0, first.event.id));
    assert!(second.fence > first.fence);
    assert!(finish(&scene, &second, 5, Outcome::Delivered).await);
    assert_eq!(replay(me, 6).await, Redelivery::Done, "what was delivered, too");
    let noted = "SELECT COUNT(*) FROM audit_entries WHERE deed = 'delivery.replayed'";
    assert_eq!(scene.count(noted).await, 2);
    let third = claim(&scene, 7).await.remove(0);
    assert!(finish(&scene, &third, 8, Outcome::Exhausted).await);
    scene.execute("UPDATE destinations SET disabled_at = 1, disabled_reason = 'x'").await;
    assert_eq!(replay(me, 9).await, Redelivery::Disabled);
    store.remove_destinations(me, Some(hook.id), None, None, by(at(10))).await.unwrap();
    assert_eq!(replay(me, 11).await, Redelivery::Removed);
    let unknown = DeliveryId(uuid::Uuid::nil());
    let none = store.replay_delivery(me, unknown, by(at(12))).await.unwrap();
    assert_eq!(none, Redelivery::NoDelivery);
}

/// However a removal and what makes new work for the destination meet, nothing is left to be sent.
async fn nothing_is_sent_again_to_what_was_removed_meanwhile(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, me) = (scene.store.clone(), scene.agent.id);
    let hook = incoming(&scene).await;
    for millis in 0..20 {
        scene.deliver(&scene.agent, millis).await;
    }
    let claims = claim(&scene, 30).await;
    for claim in &claims {
        assert!(finish(&scene, claim, 31, Outcome::Exhausted).await);
    }
    let mut work = tokio::task::JoinSet::new();
    for (number, claim) in claims.into_iter().enumerate() {
        let (store, agent, hook) = (store.clone(), scene.agent.clone(), hook.id);
        work.spawn(async move {
            if number == 10 {
                let removed =
                    store.remove_destinations(me, Some(hook), None, None, by(at(40))).await;
                assert_eq!(removed.unwrap().len(), 1);
            }
            store.replay_delivery(me, claim.delivery, by(at(40))).await.unwrap();
            store.test_destination(&agent, hook, by(at(40))).await.unwrap();
        });
    }
    while let Some(done) = work.join_next().await {
        done.unwrap();
    }
    assert_eq!(claim(&scene, 50).await, []);
    let pending = "SELECT COUNT(*) FROM deliveries WHERE state = 'pending'";
    assert_eq!(scene.count(pending).await, 0);
}

/// Runs every statement about destinations that change, in each state and direction of its list.
pub async fn exercise(scene: &Scene) {
    let Scene { store, agent, .. } = scene;
    let hook = scene.listen(agent, Category::Incoming, "https://b.example/").await;
    store.destination(agent.id, hook.id).await.unwrap();
    for disabled in [true, false] {
        let change = DestinationChange { disabled: Some(disabled), ..Default::default() };
        store.update_destination(agent.id, hook.id, &change, by(at(4))).await.unwrap();
    }
    let rotation =
        Rotation { secret: Secret::new([1; 32]), overlap_until: Some(at(9)), max_former: 4 };
    store.rotate_secret(agent.id, hook.id, &rotation, by(at(4))).await.unwrap();
    let wish = ReplayRequest { since: at(0), extent: Extent::Failed };
    store.request_replay(agent.id, hook.id, wish, 9, by(at(4))).await.unwrap();
    let tested = store.test_destination(agent, hook.id, by(at(4))).await.unwrap();
    let Tested::Sent(_, delivery) = tested else { panic!("{tested:?}") };
    store.delivery(agent.id, delivery, 9).await.unwrap();
    store.replay_delivery(agent.id, delivery, by(at(4))).await.unwrap();
    let cursor = Cursor { at: at(1), id: uuid::Uuid::nil() };
    for from in [None, Some((Direction::Before, cursor)), Some((Direction::After, cursor))] {
        for (state, time) in [(None, None), (Some(State::Pending), Some(at(0)))] {
            let filter = DeliveryFilter { state, since: time, until: time };
            let page = Page { limit: 2, from, until: None };
            store.deliveries(hook.id, &filter, &page, 9).await.unwrap();
        }
    }
}
