//! Secrets of destinations, and how long they are kept: read from the columns themselves.

use gatepost::app::tenancy::record::account_record;
use gatepost::domain::app::Use;
use gatepost::domain::audit::Change;
use gatepost::domain::delivery::Outcome;
use gatepost::domain::destination::CustomHeader;
use gatepost::domain::event::Category;
use gatepost::domain::feature::Feature;
use gatepost::domain::id::{DestinationId, MessageId};
use gatepost::domain::key::{Key, KeyHash};
use gatepost::domain::secret::Secret;
use gatepost::store::{
    AccountDeletion, DestinationChange, ForgottenSecrets, KeyInsertion, NamedKey, Release,
    ReleaseNote, RevocableKeys, Rotated, Rotation,
};
use uuid::Uuid;

use super::apps;
use super::keys::{self, keep, keep_for_secrets};
use super::scene::{DAY, Kind, SECOND, Scene, at, attempt, by};

on_both! {
    a_removed_destination_keeps_no_secret,
    former_secrets_that_have_ended_are_forgotten,
    links_are_signed_by_one_secret_of_the_database,
    a_message_has_an_agent_while_all_above_are_active,
    a_release_is_of_what_was_read_and_for_the_present_worker,
}

const WITH_SECRETS: &str = "SELECT COUNT(*) FROM destinations
    WHERE length(secret) > 0 OR former_secrets <> '[]' OR headers <> '[]'";

async fn rotate(scene: &Scene, id: DestinationId, number: u8, (now, until): (i64, i64)) {
    let secret = Secret::new([number; 32]);
    let rotation = Rotation { secret, overlap_until: Some(at(until)), max_former: 4 };
    let rotated = scene.store.rotate_secret(scene.agent.id, id, &rotation, by(at(now))).await;
    assert!(matches!(rotated.unwrap(), Rotated::Done(_)));
}

/// One with all that there may be.
async fn full_of_secrets(scene: &Scene, category: Category) -> DestinationId {
    let hook = scene.listen(&scene.agent, category, "https://a.example/").await;
    rotate(scene, hook.id, 1, (0, DAY)).await;
    let header = CustomHeader { name: "X-A".into(), value: Secret::new("password") };
    let change = DestinationChange { headers: Some(vec![header]), ..Default::default() };
    scene.store.update_destination(scene.agent.id, hook.id, &change, by(at(0))).await.unwrap();
    hook.id
}

async fn a_removed_destination_keeps_no_secret(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, me) = (&scene.store, scene.agent.id);
    let by_hand = full_of_secrets(&scene, Category::Contact).await;
    let gone = full_of_secrets(&scene, Category::Incoming).await;
    let with_account = full_of_secrets(&scene, Category::Agent).await;
    assert_eq!(scene.count(WITH_SECRETS).await, 3);
    let removed = store.remove_destinations(me, Some(by_hand), None, None, by(at(1))).await;
    assert_eq!(removed.unwrap()[0].id, by_hand);
    assert_eq!(scene.count(WITH_SECRETS).await, 2);
    scene.deliver(&scene.agent, 2).await;
    let claims = store.claim_deliveries(at(2), at(60 * SECOND), 9, &[]).await.unwrap();
    let answered = attempt(3, 410);
    assert_eq!((claims.len(), claims[0].destination.id), (1, gone));
    assert!(store.finish_delivery(&claims[0], &answered, Outcome::Gone).await.unwrap().halts);
    assert_eq!(scene.count(WITH_SECRETS).await, 1);
    let deleted = store.delete_account(me, false, 0, account_record, by(at(4))).await;
    assert_eq!(deleted.unwrap(), AccountDeletion::Done { below: 0 });
    assert_eq!(scene.count(WITH_SECRETS).await, 0);
    for id in [by_hand, gone, with_account] {
        let known = store.destination(me, id).await.unwrap().unwrap();
        assert!(known.removed);
        assert_eq!(known.destination.wants.headers, []);
    }
}

async fn former_secrets_that_have_ended_are_forgotten(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = &scene.store;
    let first = scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await.id;
    let second = scene.listen(&scene.agent, Category::Contact, "https://a.example/").await.id;
    scene.listen(&scene.agent, Category::Agent, "https://a.example/").await;
    rotate(&scene, first, 1, (0, 10)).await;
    rotate(&scene, first, 2, (1, 20)).await;
    rotate(&scene, second, 3, (2, 30)).await;
    let kept = "SELECT COUNT(*) FROM destinations WHERE former_secrets <> '[]'";
    let forget = async |now: i64, after| store.forget_secrets(at(now), after, 1).await.unwrap();
    // Those that still sign stay, each until its time.
    for (now, of_first, of_second) in [(9, 0, 0), (10, 1, 0), (11, 0, 0), (29, 1, 0)] {
        let one = forget(now, None).await;
        assert_eq!(
            one,
            ForgottenSecrets { destinations: of_first, more_behind: Some(first) },
            "{now}"
        );
        let other = forget(now, one.more_behind).await;
        let expected = ForgottenSecrets { destinations: of_second, more_behind: Some(second) };
        assert_eq!(other, expected, "{now}");
        let end = ForgottenSecrets { destinations: 0, more_behind: None };
        assert_eq!(forget(now, other.more_behind).await, end);
        let signing = store.destinations(scene.agent.id).await.unwrap();
        let ends = signing.iter().flat_map(|one| &one.former_secrets).map(|one| one.until);
        let ends: Vec<_> = ends.collect();
        assert!(ends.iter().all(|until| *until > at(now)), "{now}: {ends:?}");
    }
    assert_eq!(scene.count(kept).await, 1);
    assert_eq!(forget(30, None).await.destinations, 1);
    assert_eq!(scene.count(kept).await, 0);
}

async fn links_are_signed_by_one_secret_of_the_database(kind: Kind) {
    let (scene, other) = (Scene::new(kind).await, Scene::new(kind).await);
    // Two gateways at once: one of them makes it.
    let beside = scene.open().await;
    let (first, second) = tokio::join!(scene.store.link_key(), beside.link_key());
    let secret = first.unwrap();
    assert_eq!(second.unwrap(), secret);
    assert_eq!(scene.store.link_key().await.unwrap(), secret);
    assert_eq!(secret.expose().len(), 32);
    assert_ne!(other.store.link_key().await.unwrap(), secret);
    assert_eq!(scene.count("SELECT COUNT(*) FROM link_keys").await, 1);
}

async fn a_message_has_an_agent_while_all_above_are_active(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, agent) = (&scene.store, scene.agent.id);
    let id = scene.deliver(&scene.agent, 1).await;
    assert_eq!(store.agent_of_message(id).await.unwrap(), Some(agent));
    assert_eq!(store.agent_of_message(MessageId(Uuid::nil())).await.unwrap(), None);
    for above in [&scene.agent, &scene.organization, &scene.partner] {
        for (active, expected) in [(false, None), (true, Some(agent))] {
            store.set_active(above.id, active, by(at(1))).await.unwrap();
            assert_eq!(store.agent_of_message(id).await.unwrap(), expected, "{active}");
        }
    }
}

async fn a_release_is_of_what_was_read_and_for_the_present_worker(kind: Kind) {
    let scene = Scene::new(kind).await;
    let Scene { store, agent, .. } = &scene;
    let (computer, _) = store.provision_computer(agent, by(at(1))).await.unwrap();
    let job = computer.job.unwrap().id;
    // The key of the worker says so, however it is found.
    let new = Key { worker_job: Some(job), ..keys::key(agent, None) };
    assert_eq!(keep(store, &new, 3).await, KeyInsertion::Inserted);
    assert_eq!(store.key_holder(KeyHash([3; 32])).await.unwrap().unwrap().key, new);
    assert_eq!(store.key_holder_with_others(KeyHash([3; 32])).await.unwrap().unwrap().key, new);
    assert!(store.keys(agent.id).await.unwrap().contains(&new));
    let app = apps::record(agent.id, Use::Installed, "crm");
    store.insert_app_record(&app, 9, by(at(1))).await.unwrap();
    let read = store.app_records(agent.id, Use::Installed).await.unwrap();
    let names = [Change::made("secrets", "key")];
    let entries = async || {
        scene.count("SELECT COUNT(*) FROM audit_entries WHERE deed = 'secrets.released'").await
    };
    let (key, revision) = (keep_for_secrets(store, agent, 4).await, computer.revision);
    let release = Release { agent: agent.id, key, job, revision, apps: &read };
    let record = async |release| store.record_release(release, &names, by(at(2))).await.unwrap();
    assert_eq!((record(release).await, entries().await), (ReleaseNote::Recorded, 1));
    let stale = Release { revision: computer.revision - 1, ..release };
    assert_eq!(record(stale).await, ReleaseNote::Changed);
    store.update_app_record(&read[0], &["key".into()], by(at(3))).await.unwrap();
    assert_eq!(record(release).await, ReleaseNote::Changed);
    store.remove_app(agent.id, &app.app, by(at(4))).await.unwrap();
    assert_eq!(record(release).await, ReleaseNote::Changed);
    let alone = Release { apps: &[], ..release };
    assert_eq!(record(alone).await, ReleaseNote::Recorded);
    // Rights that ended while the release waited.
    let on = |on| [(Feature::SecretRelease, on)];
    for (active, granted) in [(false, Some(true)), (true, Some(false)), (true, Some(true))] {
        let act = by(at(4));
        store.set_active(scene.organization.id, active, act).await.unwrap();
        store.assign_features(scene.organization.id, &on(granted), act).await.unwrap();
        let wanted = match active && granted == Some(true) {
            true => ReleaseNote::Recorded,
            false => ReleaseNote::NoRight,
        };
        assert_eq!(record(alone).await, wanted, "{active} {granted:?}");
    }
    let ended = KeyHash([4; 32]);
    let named = NamedKey::Hash(ended);
    store.revoke_key(named, RevocableKeys::All, by(at(4))).await.unwrap().unwrap();
    assert_eq!(record(alone).await, ReleaseNote::NoRight);
    let alone = Release { key: keep_for_secrets(store, agent, 5).await, ..alone };
    // Another provisioning has another worker.
    let other = Release { job: Uuid::nil(), ..alone };
    assert_eq!(record(other).await, ReleaseNote::NoWorker);
    store.deprovision_computer(agent.id, false, by(at(5))).await.unwrap();
    assert_eq!(record(alone).await, ReleaseNote::NoWorker);
    store.provision_computer(agent, by(at(6))).await.unwrap();
    assert_eq!(record(alone).await, ReleaseNote::NoWorker);
    store.remove_computer(agent.id, by(at(7))).await.unwrap();
    assert_eq!((record(alone).await, entries().await), (ReleaseNote::NoWorker, 3));
    // No key is made for a worker who was dismissed.
    let late = Key { worker_job: Some(job), ..keys::key(agent, None) };
    assert_eq!(keep(store, &late, 6).await, KeyInsertion::NoWorker);
}
