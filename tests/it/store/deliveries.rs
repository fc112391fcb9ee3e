//! The outgoing work: who is told, who claims, what a late or lost claimant can do.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use gatepost::domain::delivery::{Claim, Outcome, Subject, TAKEN_OF_EACH};
use gatepost::domain::event::{Category, EventName};
use gatepost::domain::id::DestinationId;
use gatepost::store::{NewDestination, SomeCategories};

use super::scene::{Kind, SECOND, SENDER, Scene, at, attempt, by, destination};

on_both! {
    what_cannot_be_read_is_put_off_and_the_others_are_delivered,
    every_level_of_the_lineage_hears_of_its_category_and_no_stranger_does,
    a_claim_is_one_claimants_until_its_lease_ends,
    the_end_of_an_attempt_counts_once_however_often_it_is_told,
    released_claims_are_due_at_once,
    busy_destinations_are_passed_over_and_the_longest_due_comes_first,
    gone_retires_the_destination_once_and_cancels_what_waits,
    destinations_are_unique_bounded_and_removed_by_what_is_given,
    the_backlog_of_a_busy_destination_costs_a_claim_nothing,
    one_with_a_backlog_among_many_is_not_starved,
    a_long_backlog_of_a_removed_destination_is_cancelled_by_and_by,
    the_bell_rings_for_commits_that_bring_deliveries_and_for_no_others,
}

const LEASE: i64 = 60 * SECOND;

async fn claim(scene: &Scene, millis: i64, busy: &[DestinationId]) -> Vec<Claim> {
    scene.store.claim_deliveries(at(millis), at(millis + LEASE), 100, busy).await.unwrap()
}

async fn every_level_of_the_lineage_hears_of_its_category_and_no_stranger_does(kind: Kind) {
    let scene = Scene::new(kind).await;
    // Those that listen to accounts being made must not hear of it.
    let stranger = scene.stranger().await;
    let mut wanted = BTreeSet::new();
    let levels = [&scene.partner, &scene.reseller, &scene.organization, &scene.agent];
    for account in levels {
        for category in [Category::Incoming, Category::Contact, Category::Conversation] {
            let made = scene.listen(account, category, "https://a.example/").await;
            wanted.insert((made.id, category));
        }
        scene.listen(account, Category::Onboarding, "https://a.example/").await;
    }
    scene.listen(&scene.other, Category::Incoming, "https://a.example/").await;
    scene.listen(&stranger, Category::Incoming, "https://a.example/").await;

    let message = scene.deliver(&scene.agent, 0).await;
    let claims = claim(&scene, 0, &[]).await;
    assert_eq!(claims.len(), wanted.len());
    let told: BTreeSet<_> =
        claims.iter().map(|claim| (claim.destination.id, claim.event.name.category())).collect();
    assert_eq!(told, wanted);
    for claim in &claims {
        assert_eq!(claim.destination.category, claim.event.name.category());
        assert_eq!((claim.attempts, claim.fence), (0, 1));
        assert_eq!(claim.event.lineage, scene.agent.lineage);
        match &claim.subject {
            Subject::Message(found) => assert_eq!(found.id, message),
            Subject::Contact(found) => assert_eq!(found.handle.to_string(), SENDER),
            Subject::Told(told) => panic!("{told}"),
            Subject::Erased => panic!("{:?} was erased", claim.event),
        }
    }
    let names: BTreeSet<_> = claims.iter().map(|claim| claim.event.name).collect();
    let first = [EventName::ConversationStarted, EventName::ContactCreated];
    assert!(first.iter().all(|name| names.contains(name)), "{names:?}");
}

/// The bell wakes the dispatcher, which then asks the queue.
async fn the_bell_rings_for_commits_that_bring_deliveries_and_for_no_others(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, bell) = (&scene.store, scene.store.bell());
    let has_rung = || bell.notified().now_or_never().is_some();
    scene.deliver(&scene.agent, 0).await;
    assert!(!has_rung(), "nobody listens");
    scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    assert!(!has_rung(), "nothing is due");
    scene.deliver(&scene.other, 1).await;
    assert!(!has_rung(), "it is not theirs");
    scene.deliver(&scene.agent, 2).await;
    assert!(has_rung() && !has_rung(), "once");
    let claims = claim(&scene, 2, &[]).await;
    let done = attempt(3, 204);
    store.finish_delivery(&claims[0], &done, Outcome::Delivered).await.unwrap();
    assert!(!has_rung(), "an end brings nothing");
    let again = store.replay_delivery(scene.agent.id, claims[0].delivery, by(at(4))).await;
    assert!(again.is_ok() && has_rung(), "to be sent again");
}

async fn a_claim_is_one_claimants_until_its_lease_ends(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    scene.deliver(&scene.agent, 0).await;
    assert_eq!(claim(&scene, -1, &[]).await, []);
    let first = claim(&scene, 0, &[]).await.remove(0);
    assert_eq!(claim(&scene, LEASE - 1, &[]).await, []);
    assert_eq!(scene.store.next_due(at(1)).await.unwrap(), None);
    let second = claim(&scene, LEASE, &[]).await.remove(0);
    assert_eq!((second.delivery, second.fence), (first.delivery, first.fence + 1));

    // The first comes back late: nothing of what it says counts any more.
    let late = attempt(LEASE + 1, 410);
    for outcome in [Outcome::Gone, Outcome::Delivered, Outcome::RetryAt(at(0))] {
        assert!(!scene.store.finish_delivery(&first, &late, outcome).await.unwrap().recorded);
    }
    assert!(scene.store.release_deliveries(&[first]).await.is_ok());
    assert_eq!(claim(&scene, LEASE + 2, &[]).await, []);
    assert_eq!(scene.count("SELECT COUNT(*) FROM attempts").await, 0);
    assert_eq!(scene.store.destinations(scene.agent.id).await.unwrap().len(), 1);

    let done = attempt(LEASE + 3, 200);
    assert!(
        scene.store.finish_delivery(&second, &done, Outcome::Delivered).await.unwrap().recorded
    );
    assert!(
        !scene.store.finish_delivery(&second, &done, Outcome::Delivered).await.unwrap().recorded
    );
    assert_eq!(claim(&scene, 10 * LEASE, &[]).await, []);
    let kept = "SELECT COUNT(*) FROM attempts WHERE status = 200 AND latency_ms = 12";
    assert_eq!(scene.count(kept).await, 1);
}

async fn the_end_of_an_attempt_counts_once_however_often_it_is_told(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    scene.deliver(&scene.agent, 0).await;
    let first = claim(&scene, 0, &[]).await.remove(0);
    let (failed, retry) = (attempt(0, 500), Outcome::RetryAt(at(5 * SECOND)));
    assert!(scene.store.finish_delivery(&first, &failed, retry).await.unwrap().recorded);
    assert!(!scene.store.finish_delivery(&first, &failed, retry).await.unwrap().recorded);
    assert_eq!(scene.store.next_due(at(1)).await.unwrap(), Some(at(5 * SECOND)));
    let second = claim(&scene, 5 * SECOND, &[]).await.remove(0);
    assert_eq!(second.attempts, 1);
    let end = attempt(6 * SECOND, 500);
    assert!(scene.store.finish_delivery(&second, &end, Outcome::Exhausted).await.unwrap().recorded);
    assert_eq!(claim(&scene, 10 * LEASE, &[]).await, []);
    let exhausted = "SELECT COUNT(*) FROM deliveries WHERE state = 'exhausted' AND attempts = 2";
    assert_eq!(scene.count(exhausted).await, 1);
}

async fn released_claims_are_due_at_once(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    scene.deliver(&scene.agent, 0).await;
    let first = claim(&scene, 0, &[]).await;
    scene.store.release_deliveries(&first).await.unwrap();
    let again = claim(&scene, 1, &[]).await;
    assert_eq!(again.len(), 1);
    assert!(again[0].fence > first[0].fence);
    assert_eq!(again[0].attempts, 0);
}

async fn busy_destinations_are_passed_over_and_the_longest_due_comes_first(kind: Kind) {
    let scene = Scene::new(kind).await;
    let slow = scene.listen(&scene.agent, Category::Incoming, "https://slow.example/").await;
    let fast = scene.listen(&scene.other, Category::Incoming, "https://fast.example/").await;
    for millis in [0, 1, 2] {
        scene.deliver(&scene.agent, millis).await;
    }
    scene.deliver(&scene.other, 3).await;
    let claims = claim(&scene, 9, &[slow.id]).await;
    assert_eq!(claims.iter().map(|claim| claim.destination.id).collect::<Vec<_>>(), [fast.id]);
    assert_eq!(claim(&scene, 9, &[slow.id]).await, []);
    let two = scene.store.claim_deliveries(at(9), at(LEASE), 2, &[]).await.unwrap();
    let times: Vec<_> = two.iter().map(|claim| claim.event.at).collect();
    assert_eq!(times, [at(0), at(1)]);
}

async fn gone_retires_the_destination_once_and_cancels_what_waits(kind: Kind) {
    let scene = Scene::new(kind).await;
    let gone = scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    let kept = scene.listen(&scene.agent, Category::Incoming, "https://b.example/").await;
    for millis in 0..3 {
        scene.deliver(&scene.agent, millis).await;
    }
    let claims = claim(&scene, 9, &[kept.id]).await;
    assert_eq!(claims.len(), 3);
    let answer = attempt(10, 410);
    assert!(
        scene.store.finish_delivery(&claims[0], &answer, Outcome::Gone).await.unwrap().recorded
    );
    let second = attempt(11, 410);
    assert!(
        !scene.store.finish_delivery(&claims[1], &second, Outcome::Gone).await.unwrap().recorded
    );
    let left = scene.store.destinations(scene.agent.id).await.unwrap();
    assert_eq!(left.iter().map(|one| one.id).collect::<Vec<_>>(), [kept.id]);
    let cancelled = "SELECT COUNT(*) FROM deliveries WHERE state = 'cancelled'";
    assert_eq!(scene.count(cancelled).await, 3);
    assert_eq!(scene.count("SELECT COUNT(*) FROM audit_entries WHERE actor = 'gateway'").await, 1);
    assert_eq!(claim(&scene, LEASE * 2, &[]).await.len(), 3);
    scene.deliver(&scene.agent, 20).await;
    let of_gone = scene.count("SELECT COUNT(*) FROM deliveries WHERE state <> 'pending'").await;
    assert_eq!(of_gone, 3);
    // A URL that is added again is a new destination.
    let again = scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    assert_ne!(again.id, gone.id);
}

async fn destinations_are_unique_bounded_and_removed_by_what_is_given(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, me) = (&scene.store, scene.agent.id);
    let first = scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    let twin = destination(me, Category::Incoming, "https://a.example/");
    let made = store.insert_destination(&twin, 1, by(at(0))).await.unwrap();
    assert_eq!(made, NewDestination::Exists(Box::new(first.clone())));
    let more = destination(me, Category::Contact, "https://a.example/");
    assert_eq!(
        store.insert_destination(&more, 1, by(at(0))).await.unwrap(),
        NewDestination::TooMany
    );
    assert_eq!(
        store.insert_destination(&more, 2, by(at(0))).await.unwrap(),
        NewDestination::Created
    );
    scene.listen(&scene.other, Category::Incoming, "https://a.example/").await;
    scene.deliver(&scene.agent, 0).await;

    let none = store.remove_destinations(scene.other.id, Some(first.id), None, None, by(at(1)));
    assert_eq!(none.await.unwrap(), []);
    let url = first.url.clone();
    let incoming = SomeCategories { first: Category::Incoming, others: &[] };
    let one = store.remove_destinations(me, None, Some(&url), Some(incoming), by(at(1)));
    assert_eq!(one.await.unwrap(), [first]);
    assert_eq!(claim(&scene, 2, &[more.id]).await, []);
    let rest = store.remove_destinations(me, None, Some(&url), None, by(at(2))).await.unwrap();
    assert_eq!(rest, [more]);
    assert_eq!(store.destinations(me).await.unwrap(), []);
    assert_eq!(store.destinations(scene.other.id).await.unwrap().len(), 1);
}

/// One row that cannot be read must not keep all others from being delivered.
async fn what_cannot_be_read_is_put_off_and_the_others_are_delivered(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    for millis in 0..5 {
        scene.deliver(&scene.agent, millis).await;
    }
    let mut damage = vec![
        "UPDATE contents SET packed = (SELECT digest FROM messages ORDER BY at LIMIT 1)
           WHERE content_id = (SELECT content_id FROM messages ORDER BY at LIMIT 1)",
        "UPDATE events SET names = REPLACE(names, 'email.received', 'no.such')
           WHERE at = (SELECT MIN(at) + 1 FROM messages)",
    ];
    let mut good = vec![at(2), at(3), at(4)];
    if kind == Kind::Sqlite {
        // Neither a missing row nor an id that is none can be in PostgreSQL.
        damage.extend([
            "PRAGMA foreign_keys = OFF",
            "DELETE FROM events WHERE names LIKE '%email.received'
               AND at = (SELECT MIN(at) + 2 FROM messages)",
            "UPDATE deliveries SET id = x'01'
             WHERE next_attempt_at = (SELECT MAX(at) FROM messages)",
        ]);
        good = vec![at(3)];
    }
    scene.execute(damage.join(";").leak()).await;
    let claims = claim(&scene, 9, &[]).await;
    assert_eq!(claims.iter().map(|claim| claim.event.at).collect::<Vec<_>>(), good);
    let bad = 5 - good.len();
    let put_off = "SELECT COUNT(*) FROM deliveries JOIN attempts ON delivery_id = deliveries.id
                   WHERE state = 'pending' AND error IS NOT NULL";
    assert_eq!(scene.count(put_off).await, i64::try_from(bad).unwrap());
    assert_eq!(claim(&scene, LEASE * 2, &[]).await.len(), good.len());
    // A gateway that is older than another knows the event later; damage stays, and is given up.
    let known = "UPDATE events SET names = REPLACE(names, 'no.such', 'email.received')";
    scene.execute(known).await;
    let mut millis = LEASE * 4;
    for _ in 0..50 {
        millis += 3_700 * SECOND;
        let claims = claim(&scene, millis, &[]).await;
        assert_eq!(claims.len(), good.len() + 1);
        scene.store.release_deliveries(&claims).await.unwrap();
    }
    let given_up = "SELECT COUNT(*) FROM deliveries WHERE state = 'exhausted' AND attempts = 48";
    assert_eq!(scene.count(given_up).await, i64::try_from(bad).unwrap() - 1);
}

/// A claim holds the only writing connection: a dead destination's backlog must not make it slow
/// for everybody. Without the step from destination to destination this takes thirty times as long.
async fn the_backlog_of_a_busy_destination_costs_a_claim_nothing(kind: Kind) {
    let scene = Scene::new(kind).await;
    let dead = scene.listen(&scene.agent, Category::Incoming, "https://dead.example/").await;
    scene.deliver(&scene.agent, 0).await;
    fill(&scene, kind, 100_000).await;
    let mut quickest = Duration::MAX;
    for _ in 0..20 {
        let begun = Instant::now();
        assert_eq!(claim(&scene, 9, &[dead.id]).await, []);
        quickest = quickest.min(begun.elapsed());
    }
    // A claim that walks the backlog takes longer every time; what else runs here does not.
    assert!(quickest.as_millis() < 30, "{quickest:?}");
}

/// So many more deliveries like the one that waits longest.
/// However many destinations wait, a claim takes its share of each: nothing that is due is left
/// unseen where a destination gave fewer than that.
async fn one_with_a_backlog_among_many_is_not_starved(kind: Kind) {
    let scene = Scene::new(kind).await;
    let big = scene.listen(&scene.agent, Category::Incoming, "https://big.example/").await;
    for millis in 1..=20 {
        scene.deliver(&scene.agent, millis).await;
    }
    for number in 0..30 {
        let url = format!("https://{number}.example/");
        scene.listen(&scene.agent, Category::Incoming, &url).await;
    }
    scene.deliver(&scene.agent, 30).await;
    // 21 of the one, one of each other: 51 in all, fewer than may be claimed.
    let first = claim(&scene, 40, &[]).await;
    let of_big = |claims: &[Claim]| claims.iter().filter(|c| c.destination.id == big.id).count();
    assert!(of_big(&first) >= TAKEN_OF_EACH, "{}", of_big(&first));
    assert_eq!(first.len() - of_big(&first), 30);
    let mut rest = 0;
    while rest + of_big(&first) < 21 {
        let more = claim(&scene, 40, &[]).await;
        assert!(!more.is_empty(), "{rest}");
        rest += of_big(&more);
    }
    assert!(claim(&scene, 40, &[]).await.is_empty());
}

async fn fill(scene: &Scene, kind: Kind, count: u32) {
    let (id, numbers) = match kind {
        Kind::Sqlite => (
            "randomblob(16)",
            format!(
                "(WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {count})
                  SELECT n FROM n)"
            ),
        ),
        Kind::Postgres => ("gen_random_uuid()", format!("generate_series(1, {count})")),
    };
    let fill = format!(
        "INSERT INTO deliveries (id, event_id, event_number, destination_id, state,
                                 next_attempt_at, created_at, organization_id)
         SELECT {id}, event_id, event_number, destination_id, state, next_attempt_at, created_at,
                organization_id
         FROM (SELECT * FROM deliveries WHERE state = 'pending' ORDER BY next_attempt_at LIMIT 1)
             AS one, {numbers} AS numbers"
    );
    scene.execute(fill.leak()).await;
    if kind == Kind::Postgres {
        scene.execute("ANALYZE deliveries").await;
    }
}

/// Removed by its account, or by its receiver.
async fn a_long_backlog_of_a_removed_destination_is_cancelled_by_and_by(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.listen(&scene.other, Category::Incoming, "https://live.example/").await;
    let cancelled = "SELECT COUNT(*) FROM deliveries WHERE state = 'cancelled'";
    for (by_receiver, before) in [(false, 0), (true, 1201)] {
        let dead = scene.listen(&scene.agent, Category::Incoming, "https://dead.example/").await;
        scene.deliver(&scene.agent, before).await;
        fill(&scene, kind, 1200).await;
        let held = claim(&scene, before, &[]).await;
        assert_eq!(held.len(), 100);
        scene.deliver(&scene.other, before + 1).await;
        if by_receiver {
            let answer = attempt(before + 2, 410);
            let done = scene.store.finish_delivery(&held[0], &answer, Outcome::Gone).await;
            assert!(done.unwrap().recorded);
        } else {
            let me = scene.agent.id;
            let removed = scene.store.remove_destinations(me, Some(dead.id), None, None, by(at(2)));
            assert_eq!(removed.await.unwrap(), std::slice::from_ref(&dead));
        }
        assert_eq!(scene.store.destinations(scene.agent.id).await.unwrap(), []);
        let at_once = 500 + i64::from(by_receiver);
        assert_eq!(scene.count(cancelled).await, before + at_once);
        // None of it is handed out, even when leases have ended, and nobody else waits for it.
        let live = claim(&scene, before + 3, &[]).await;
        assert_eq!(live.len(), 1);
        assert_ne!(live[0].destination.id, dead.id);
        let done = attempt(before + 4, 200);
        assert!(
            scene
                .store
                .finish_delivery(&live[0], &done, Outcome::Delivered)
                .await
                .unwrap()
                .recorded
        );
        assert_eq!(scene.count(cancelled).await, before + at_once + 500);
        assert_eq!(claim(&scene, 2 * LEASE, &[]).await, []);
        assert_eq!(scene.count(cancelled).await, before + 1201);
        assert_eq!(scene.count("SELECT COUNT(*) FROM destinations WHERE draining = 1").await, 0);
        // A delivery under way was cancelled with the rest: its result is not recorded.
        let late = attempt(before + 5, 200);
        assert!(
            !scene
                .store
                .finish_delivery(&held[1], &late, Outcome::Delivered)
                .await
                .unwrap()
                .recorded
        );
    }
    assert_eq!(scene.count("SELECT COUNT(*) FROM deliveries WHERE state = 'pending'").await, 0);
}
