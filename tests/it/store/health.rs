//! Destinations that fail: they rest and are probed, and are disabled in the end. Under a clock that
//! is moved.

use gatepost::domain::audit::{Actor, Deed};
use gatepost::domain::delivery::{Attempt, Claim, Outcome, Subject};
use gatepost::domain::destination::{Destination, Health};
use gatepost::domain::event::{Category, EventName};
use gatepost::domain::id::AttemptId;
use gatepost::store::{AuditFilter, DestinationChange, Finished, Store};
use tokio::task::JoinSet;

use super::scene::{Kind, SECOND, Scene, at, by, everything, mint, subtree};
use crate::support::PATIENCE;

on_both! {
    after_ten_failures_a_destination_rests_and_is_probed,
    one_gateway_probes_and_a_lost_probe_is_made_again,
    a_straggler_changes_nothing_beside_a_probe,
    a_probe_that_is_given_back_is_made_at_once,
    what_fails_before_a_probe_leaves_it_to_the_next_claim,
    a_rest_that_begins_during_a_claim_counts,
    an_ordered_destination_is_probed_by_one_delivery,
    a_success_ends_a_row_of_failures_and_writes_nothing_else,
    after_five_days_of_failure_a_destination_is_disabled,
    an_outage_weeks_ago_is_no_reason,
    a_destination_is_disabled_and_enabled_by_hand,
}

const LEASE: i64 = 60 * SECOND;
const HOUR: i64 = 3600 * SECOND;

async fn claim(store: &Store, millis: i64, limit: usize) -> Vec<Claim> {
    store.claim_deliveries(at(millis), at(millis + LEASE), limit, &[]).await.unwrap()
}

async fn end(scene: &Scene, claim: &Claim, millis: i64, outcome: Outcome) -> Finished {
    let delivered = outcome == Outcome::Delivered;
    let attempt = Attempt {
        id: AttemptId(mint().uuid()),
        at: at(millis),
        latency_ms: 0,
        status: Some(if delivered { 200 } else { 503 }),
        response: Vec::new(),
        error: None,
    };
    scene.store.finish_delivery(claim, &attempt, outcome).await.unwrap()
}

/// Fails, and is due again a year later.
async fn fail(scene: &Scene, claim: &Claim, millis: i64) -> Finished {
    end(scene, claim, millis, Outcome::RetryAt(at(9000 * HOUR))).await
}

async fn read(scene: &Scene) -> Destination {
    scene.store.destinations(scene.agent.id).await.unwrap().remove(0)
}

const GOES: Finished = Finished { recorded: true, halts: false };
const HALTS: Finished = Finished { recorded: true, halts: true };

/// A destination with so much to deliver, the first ten of which have failed at this time.
async fn resting(kind: Kind, ordered: bool, count: i64) -> Scene {
    resting_beside(kind, ordered, count, 0).await.0
}

/// Returns such a scene, and `more` deliveries that were claimed before the destination rested.
async fn resting_beside(kind: Kind, ordered: bool, count: i64, more: usize) -> (Scene, Vec<Claim>) {
    let scene = Scene::new(kind).await;
    if ordered {
        scene.listen_in_order(&scene.agent, Category::Incoming).await;
    } else {
        scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    }
    for number in 0..count {
        let from = format!("sender{number}@good.example");
        let intake = scene.intake_from(&scene.agent, number, &from, None).await;
        scene.commit(vec![intake], number).await;
    }
    let mut claims = claim(&scene.store, count, 10 + more).await;
    assert_eq!(claims.len(), 10 + more);
    let more = claims.split_off(10);
    for (number, one) in claims.iter().enumerate() {
        let expected = if number < 9 { GOES } else { HALTS };
        assert_eq!(fail(&scene, one, 0).await, expected, "{number}");
    }
    assert_eq!(read(&scene).await.health.failures, 10);
    (scene, more)
}

async fn after_ten_failures_a_destination_rests_and_is_probed(kind: Kind) {
    let scene = resting(kind, false, 30).await;
    let store = &scene.store;
    assert_eq!(claim(store, 4_999, 100).await, []);
    // Its waiting deliveries stay due, and other destinations are served.
    assert!(store.next_due(at(4_999)).await.unwrap() < Some(at(4_999)));
    scene.listen(&scene.other, Category::Incoming, "https://other.example/").await;
    scene.deliver(&scene.other, 100).await;
    let other = claim(store, 4_999, 100).await;
    assert_eq!(other.len(), 1);
    assert_eq!(end(&scene, &other[0], 4_999, Outcome::Delivered).await, GOES);

    let mut now = 5_000;
    for rest in [10, 20, 40, 80, 160, 300, 300] {
        let probe = claim(store, now, 100).await;
        assert_eq!(probe.len(), 1, "one probe at {now}");
        assert_eq!(claim(store, now + 1, 100).await, []);
        assert_eq!(fail(&scene, &probe[0], now).await, HALTS);
        assert_eq!(read(&scene).await.health.rests_until, Some(at(now + rest * SECOND)));
        now += rest * SECOND;
        assert_eq!(claim(store, now - 1, 100).await, []);
    }
    let untouched = "SELECT COUNT(*) FROM deliveries WHERE state = 'pending' AND attempts = 0";
    assert_eq!(scene.count(untouched).await, 30 - 10 - 7);
    let probe = claim(store, now, 100).await;
    assert_eq!(end(&scene, &probe[0], now, Outcome::Delivered).await, GOES);
    assert_eq!(read(&scene).await.health, Health::default());
    assert_eq!(claim(store, now + 1, 100).await.len(), 30 - 10 - 8);
}

async fn one_gateway_probes_and_a_lost_probe_is_made_again(kind: Kind) {
    let scene = resting(kind, false, 20).await;
    let mut now = 5_000;
    for _ in 0..5 {
        let mut tasks = JoinSet::new();
        for _ in 0..4 {
            let store = scene.open().await;
            tasks.spawn(async move { claim(&store, now, 100).await.len() });
        }
        // One of four gateways gets the probe, and dies with it.
        assert_eq!(tasks.join_all().await.iter().sum::<usize>(), 1);
        assert_eq!(claim(&scene.store, now + LEASE - 1, 100).await, []);
        now += LEASE;
    }
    let probe = claim(&scene.store, now, 100).await;
    assert_eq!(end(&scene, &probe[0], now, Outcome::Delivered).await, GOES);
    assert_eq!(claim(&scene.store, now + 1, 100).await.len(), 9);
}

async fn a_straggler_changes_nothing_beside_a_probe(kind: Kind) {
    let (scene, stragglers) = resting_beside(kind, false, 20, 1).await;
    let probe = claim(&scene.store, 5_000, 100).await;
    assert_eq!(probe.len(), 1);
    let before = read(&scene).await.health;
    assert_eq!((before.failures, before.rests_until), (10, Some(at(5_000 + LEASE))));
    assert_eq!(fail(&scene, &stragglers[0], 5_001).await, HALTS);
    assert_eq!(read(&scene).await.health, before);
    assert_eq!(claim(&scene.store, 5_002, 100).await, []);
    assert_eq!(end(&scene, &probe[0], 5_003, Outcome::Delivered).await, GOES);
    assert_eq!(read(&scene).await.health, Health::default());
}

async fn a_probe_that_is_given_back_is_made_at_once(kind: Kind) {
    let scene = resting(kind, false, 15).await;
    let store = &scene.store;
    let unmade = claim(store, 5_000, 100).await;
    store.release_deliveries(&unmade).await.unwrap();
    let lost = claim(store, 5_001, 100).await;
    assert_eq!(lost.len(), 1);
    // A gateway whose probe another one has claimed since gives nothing back.
    let now = 5_001 + LEASE;
    let probe = claim(store, now, 100).await;
    assert_eq!(probe.len(), 1);
    store.release_deliveries(&lost).await.unwrap();
    assert_eq!(claim(store, now + 1, 100).await, []);
    assert_eq!(fail(&scene, &probe[0], now + 2).await, HALTS);
    // Nor does one that has failed since.
    store.release_deliveries(&probe).await.unwrap();
    assert_eq!(claim(store, now + 3, 100).await, []);
}

/// The events cannot be read at all, and then the one of the probe cannot.
async fn what_fails_before_a_probe_leaves_it_to_the_next_claim(kind: Kind) {
    let scene = resting(kind, false, 15).await;
    let store = &scene.store;
    scene.execute("ALTER TABLE events RENAME COLUMN told TO hidden").await;
    assert!(store.claim_deliveries(at(5_000), at(5_000 + LEASE), 100, &[]).await.is_err());
    scene.execute("ALTER TABLE events RENAME COLUMN hidden TO told").await;
    let probe = claim(store, 5_001, 100).await;
    assert_eq!(probe.len(), 1);
    store.release_deliveries(&probe).await.unwrap();
    let unreadable =
        "UPDATE events SET names = REPLACE(names, 'email.received', 'no.such') WHERE id = (
        SELECT event_id FROM deliveries WHERE state = 'pending' AND attempts = 0
        ORDER BY next_attempt_at, id LIMIT 1)";
    scene.execute(unreadable).await;
    assert_eq!(claim(store, 5_002, 100).await, []);
    let next = claim(store, 5_003, 100).await;
    assert_eq!(next.len(), 1);
    assert_ne!(next[0].delivery, probe[0].delivery);
}

/// Between the moment when deliveries are found and that when their destination is read it begins
/// to rest, or has rested.
async fn a_rest_that_begins_during_a_claim_counts(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    for millis in 0..5 {
        scene.deliver(&scene.agent, millis).await;
    }
    let beside = match kind {
        Kind::Sqlite => {
            "CREATE TRIGGER beside AFTER UPDATE OF fence ON deliveries
             BEGIN UPDATE destinations SET rests_until = last_failure_at; END"
        }
        Kind::Postgres => {
            "CREATE FUNCTION beside() RETURNS trigger LANGUAGE plpgsql AS
                 'BEGIN UPDATE destinations SET rests_until = last_failure_at; RETURN NULL; END';
             CREATE TRIGGER beside AFTER UPDATE OF fence ON deliveries
                 FOR EACH ROW EXECUTE FUNCTION beside()"
        }
    };
    scene.execute(beside).await;
    let leased = "SELECT COUNT(*) FROM deliveries WHERE lease_until > 0";
    scene.execute("UPDATE destinations SET last_failure_at = 9007199254740991").await;
    assert_eq!(claim(&scene.store, 10, 100).await, []);
    assert_eq!(scene.count(leased).await, 0);
    let untouched = "SELECT COUNT(*) FROM destinations WHERE rests_until = 9007199254740991";
    assert_eq!(scene.count(untouched).await, 1);
    scene.execute("UPDATE destinations SET rests_until = 0, last_failure_at = 1").await;
    assert_eq!(claim(&scene.store, 10, 100).await.len(), 1);
    assert_eq!(scene.count(leased).await, 1);
    assert_eq!(read(&scene).await.health.rests_until, Some(at(10 + LEASE)));
}

async fn an_ordered_destination_is_probed_by_one_delivery(kind: Kind) {
    let scene = resting(kind, true, 15).await;
    // Some of before it wanted order, too.
    scene
        .execute(
            "UPDATE deliveries SET room = NULL, arrived = NULL WHERE attempts = 0 AND id IN (
                       SELECT id FROM deliveries WHERE attempts = 0 ORDER BY id LIMIT 2)",
        )
        .await;
    let probe = claim(&scene.store, 5_000, 100).await;
    assert_eq!(probe.len(), 1);
    assert_eq!(claim(&scene.store, 5_001, 100).await, []);
    assert_eq!(end(&scene, &probe[0], 5_002, Outcome::Delivered).await, GOES);
    assert_eq!(claim(&scene.store, 5_003, 100).await.len(), 4);
}

async fn a_success_ends_a_row_of_failures_and_writes_nothing_else(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    for millis in 0..25 {
        scene.deliver(&scene.agent, millis).await;
    }
    let claims = claim(&scene.store, 30, 100).await;
    for (number, one) in claims.iter().enumerate() {
        let well = number % 10 == 9;
        let outcome = if well { Outcome::Delivered } else { Outcome::RetryAt(at(HOUR)) };
        assert_eq!(end(&scene, one, 40, outcome).await, GOES);
    }
    let health = read(&scene).await.health;
    assert_eq!((health.failures, health.failing_since), (5, Some(at(40))));
    assert_eq!((health.last_failure_at, health.rests_until), (Some(at(40)), None));
    // Nothing is written while all is well: a row that nobody may change is no obstacle.
    scene.execute("UPDATE destinations SET failures = 0, failing_since = NULL").await;
    let refuse = match kind {
        Kind::Sqlite => {
            "CREATE TRIGGER refuse BEFORE UPDATE ON destinations
             BEGIN SELECT RAISE(ABORT, 'written'); END"
        }
        Kind::Postgres => {
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
                 'BEGIN RAISE ''written''; END';
             CREATE TRIGGER refuse BEFORE UPDATE ON destinations
                 FOR EACH ROW EXECUTE FUNCTION refuse()"
        }
    };
    scene.execute(refuse).await;
    for one in claim(&scene.store, HOUR, 100).await {
        assert_eq!(end(&scene, &one, HOUR, Outcome::Delivered).await, GOES);
    }
    assert_eq!(scene.count("SELECT COUNT(*) FROM deliveries WHERE state = 'pending'").await, 0);
}

/// One message at each of these hours, whose delivery fails: what is said of the last one.
async fn failing(scene: &Scene, hours: &[i64]) -> Finished {
    let mut last = GOES;
    for hour in hours {
        scene.deliver(&scene.agent, hour * HOUR).await;
        let claims = claim(&scene.store, hour * HOUR, 100).await;
        let incoming = |one: &&Claim| one.event.name == EventName::EmailReceived;
        let one = claims.iter().find(incoming).unwrap();
        last = fail(scene, one, hour * HOUR).await;
    }
    last
}

async fn after_five_days_of_failure_a_destination_is_disabled(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = &scene.store;
    let dead = scene.listen(&scene.agent, Category::Incoming, "https://dead.example/s3cret").await;
    for account in [&scene.organization, &scene.agent] {
        scene.listen(account, Category::Onboarding, "https://ops.example/").await;
    }
    assert_eq!(failing(&scene, &[0, 47, 94, 119]).await, GOES);
    assert_eq!(failing(&scene, &[120]).await, HALTS);

    let found = store.destinations(scene.agent.id).await.unwrap();
    let found = found.into_iter().find(|one| one.id == dead.id).unwrap();
    let disabled = found.disabled.unwrap();
    assert_eq!(disabled.at, at(120 * HOUR));
    assert!(disabled.reason.contains("120 hours"), "{}", disabled.reason);
    assert_eq!(found.health.failing_since, Some(at(0)));

    // Those who look after it are told, once, and without what is secret.
    let told = claim(store, 121 * HOUR, 100).await;
    assert_eq!(told.len(), 2);
    for one in &told {
        assert_eq!(one.event.name, EventName::WebhookDisabled);
        let Subject::Told(data) = &one.subject else { panic!("{:?}", one.subject) };
        assert_eq!(data["webhook"]["id"], dead.id.to_string());
        assert_eq!(data["webhook"]["origin"], "https://dead.example");
        assert_eq!(data["failingSince"], at(0).to_string());
        assert_eq!(data["lastStatus"], 503);
        assert!(!data.to_string().contains("s3cret"), "{data}");
        assert!(end(&scene, one, 121 * HOUR, Outcome::Delivered).await.recorded);
    }
    let (scope, all) = (subtree(&scene.agent), AuditFilter::default());
    let entries = store.audit(&scope, &all, &everything()).await.unwrap();
    let entries: Vec<_> =
        entries.iter().filter(|entry| entry.deed == Deed::WebhookDisabled).collect();
    assert_eq!(entries.len(), 1);
    assert_eq!(
        (entries[0].object.clone(), entries[0].actor.clone()),
        (dead.id.to_string(), Actor::GATEWAY)
    );

    // The waiting deliveries end as exhausted; no new ones are made.
    let exhausted = "SELECT COUNT(*) FROM deliveries WHERE state = 'exhausted'";
    assert_eq!(scene.count(exhausted).await, 5);
    scene.deliver(&scene.agent, 122 * HOUR).await;
    assert_eq!(claim(store, 9001 * HOUR, 100).await, []);
    assert_eq!(scene.count("SELECT COUNT(*) FROM destinations WHERE draining = 1").await, 0);
    assert_eq!(scene.count(exhausted).await, 5);
}

async fn an_outage_weeks_ago_is_no_reason(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    assert_eq!(failing(&scene, &[0, 40, 400, 440, 480, 519]).await, GOES);
    assert_eq!(read(&scene).await.health.failing_since, Some(at(400 * HOUR)));
    assert_eq!(failing(&scene, &[520]).await, HALTS);
    assert!(read(&scene).await.disabled.is_some());
}

async fn a_destination_is_disabled_and_enabled_by_hand(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, me) = (&scene.store, scene.agent.id);
    let one = scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    scene.listen(&scene.organization, Category::Onboarding, "https://ops.example/").await;
    for millis in 0..3 {
        scene.deliver(&scene.agent, millis).await;
    }
    let held = claim(store, 10, 1).await;
    let change = |disabled| DestinationChange { disabled: Some(disabled), ..Default::default() };
    for millis in [11, 12] {
        let off = store.update_destination(me, one.id, &change(true), by(at(millis))).await;
        assert_eq!(off.unwrap().unwrap().disabled.unwrap().at, at(11));
    }
    let told = claim(store, 13, 100).await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].event.name, EventName::WebhookDisabled);
    assert!(!end(&scene, &held[0], 14, Outcome::Delivered).await.recorded);
    let exhausted = "SELECT COUNT(*) FROM deliveries WHERE state = 'exhausted'";
    assert_eq!(scene.count(exhausted).await, 3);
    scene.execute("UPDATE destinations SET failures = 12, failing_since = 1").await;

    store.update_destination(me, one.id, &change(false), by(at(20))).await.unwrap();
    let on = read(&scene).await;
    assert_eq!((on.disabled, on.health), (None, Health::default()));
    scene.deliver(&scene.agent, 21).await;
    let claims = claim(store, 22, 100).await;
    assert_eq!(claims.iter().map(|one| one.event.at).collect::<Vec<_>>(), [at(21)]);
    assert_eq!(scene.count(exhausted).await, 3);
    let deeds = "SELECT COUNT(*) FROM audit_entries
                 WHERE deed IN ('webhook.disabled', 'webhook.enabled')";
    assert_eq!(scene.count(deeds).await, 2);
}

/// Runs every statement about how destinations fare.
pub async fn exercise(scene: &Scene) {
    scene.listen_in_order(&scene.agent, Category::Incoming).await;
    let one = scene.listen(&scene.agent, Category::Incoming, "https://fares.example/").await;
    failing(scene, &[0, 47, 94]).await;
    scene.execute("UPDATE destinations SET rests_until = 1 WHERE failures > 0").await;
    failing(scene, &[119, 120]).await;
    for disabled in [true, false] {
        let change = DestinationChange { disabled: Some(disabled), ..Default::default() };
        scene.store.update_destination(one.account, one.id, &change, by(at(0))).await.unwrap();
    }
}

/// A claim that waits has seen that what waits for a destination is to be given up; while it waits
/// the destination is enabled, and gets new events.
#[tokio::test]
async fn what_comes_after_enabling_is_not_given_up() {
    let scene = Scene::new(Kind::Postgres).await;
    let hook = scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    let set = async |disabled: bool, millis: i64| {
        let change = DestinationChange { disabled: Some(disabled), ..Default::default() };
        let act = by(at(millis));
        scene.store.update_destination(scene.agent.id, hook.id, &change, act).await.unwrap();
    };
    set(true, 1).await;
    scene.execute("UPDATE destinations SET draining = 1").await;
    let mut replaying = scene.postgres().await;
    let close = "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('rooms', 0))";
    sqlx::raw_sql(close).execute(&mut replaying).await.unwrap();
    let store = scene.store.clone();
    let claiming = tokio::spawn(async move { claim(&store, 9, 100).await });
    let waits = "SELECT COUNT(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
                 WHERE NOT granted AND datname = current_database()";
    let waiting = async {
        while scene.count(waits).await == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap();
    set(false, 2).await;
    // Two rather than one: what is claimed at once, and what is not.
    scene.deliver(&scene.agent, 3).await;
    scene.deliver(&scene.agent, 10).await;
    sqlx::raw_sql("COMMIT").execute(&mut replaying).await.unwrap();
    assert_eq!(claiming.await.unwrap().len(), 1);
    let pending = "SELECT COUNT(*) FROM deliveries WHERE state = 'pending'";
    assert_eq!(scene.count(pending).await, 2);
}
