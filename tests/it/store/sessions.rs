//! Sessions of rooms, and the computers that work in them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gatepost::app::computers::{Computers, WrittenFields};
use gatepost::app::tenancy::record::account_record;
use gatepost::app::vault::Vault;
use gatepost::domain::app::Use;
use gatepost::domain::clock::TimeRange;
use gatepost::domain::computer::{ComputerState, Configuration};
use gatepost::domain::id::{MessageId, SessionId};
use gatepost::domain::message::Message;
use gatepost::domain::session::SessionKey;
use gatepost::rules::RetainedKind;
use gatepost::store::{
    Committed, ComputerChange, ComputerOutcome, Cursor, DueAccount, ErasureProgress, Release,
    ResetSession, RoomPlace, Store,
};
use serde_json::json;

use super::erasure::limits;
use super::keys::keep_for_secrets;
use super::scene::{Kind, Scene, at, by, everything, mint, subtree};
use crate::support::PATIENCE;

on_both! {
    a_room_has_one_session_until_it_is_reset,
    whatever_comes_while_sessions_are_reset_is_in_one_of_them,
    sessions_go_with_what_came_in_them,
    a_session_ends_no_earlier_than_what_came_in_it,
    sessions_are_listed_by_their_rooms_latest_messages,
    a_computer_is_changed_by_one_at_a_time,
    secrets_of_a_computer_that_are_damaged_are_not_written_over,
}

async fn of(scene: &Scene, id: MessageId) -> Message {
    scene.store.messages(&subtree(&scene.partner), &[id]).await.unwrap().remove(0)
}

async fn deliver(scene: &Scene, millis: i64) -> SessionKey {
    let id = scene.deliver(&scene.agent, millis).await;
    of(scene, id).await.session_key().unwrap()
}

async fn reset(scene: &Scene, key: SessionKey, millis: i64) -> Option<ResetSession> {
    let scope = subtree(&scene.agent);
    scene.store.reset_session(&scope, key, Some("why"), by(at(millis))).await.unwrap()
}

async fn a_room_has_one_session_until_it_is_reset(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, scope) = (&scene.store, subtree(&scene.agent));
    // Two of one group, in a room that begins with them.
    let group = vec![scene.intake(&scene.agent, 0).await, scene.intake(&scene.agent, 1).await];
    assert_eq!(scene.commit(group, 1).await, Committed::Done(vec![None, None]));
    let first = deliver(&scene, 2).await;
    let all = store.recent_messages(&scope, TimeRange::default(), &everything()).await.unwrap();
    assert!(all.len() == 3 && all.iter().all(|one| one.session == Some(first.id)));
    // To another Agent it is another room.
    let other = scene.deliver(&scene.other, 3).await;
    assert_ne!(of(&scene, other).await.session, Some(first.id));

    let session = store.session(&scope, first).await.unwrap().unwrap();
    assert_eq!((session.messages, session.started_at, session.last_at), (3, at(0), Some(at(2))));
    let done = reset(&scene, first, 5).await.unwrap();
    let (ended, next) = (done.ended.unwrap(), done.current.key);
    assert_eq!((ended.key, ended.messages), (first, 3));
    assert_eq!(store.session(&scope, first).await.unwrap().unwrap(), ended);
    // Again, and one in which nothing came yet.
    assert_eq!(reset(&scene, first, 6).await.unwrap().ended, Some(ended.clone()));
    assert_eq!(reset(&scene, next, 6).await.unwrap().ended, None);
    assert_eq!(deliver(&scene, 7).await, next);
    assert_eq!(reset(&scene, first, 8).await.unwrap().current.key, next, "it ended before");
    assert_eq!(deliver(&scene, 8).await, next);
    // Not by whoever does not reach it, nor what never was.
    for foreign in [subtree(&scene.other), subtree(&scene.organization).only(vec![scene.other.id])]
    {
        assert_eq!(store.reset_session(&foreign, next, None, by(at(9))).await.unwrap(), None);
        assert_eq!(store.session(&foreign, next).await.unwrap(), None);
        assert_eq!(store.room_session(&foreign, next.room).await.unwrap(), None);
    }
    let unknown = SessionKey { id: SessionId(uuid::Uuid::nil()), ..next };
    assert_eq!(reset(&scene, unknown, 9).await, None);
    assert_eq!(store.ended_sessions(next.room, None, 9).await.unwrap(), [ended]);
}

/// Gateways that take in mail, beside two that reset whatever goes on.
async fn whatever_comes_while_sessions_are_reset_is_in_one_of_them(kind: Kind) {
    const EACH: i64 = 25;
    let scene = Arc::new(Scene::new(kind).await);
    deliver(&scene, 0).await;
    let mut writers = Vec::new();
    for gateway in 0..3 {
        let (scene, store) = (Arc::clone(&scene), scene.open().await);
        writers.push(tokio::spawn(async move {
            for number in 0..EACH {
                let millis = 1 + gateway * EACH + number;
                let intake = scene.intake(&scene.agent, millis).await;
                let commit = gatepost::store::Commit { intakes: vec![intake], now: at(millis) };
                assert_eq!(store.commit(&commit).await.unwrap(), Committed::Done(vec![None]));
            }
        }));
    }
    let mut resetting = Vec::new();
    for _ in 0..2 {
        let (scene, store) = (Arc::clone(&scene), scene.open().await);
        resetting.push(tokio::spawn(async move {
            let (scope, mut ended) = (subtree(&scene.agent), Vec::new());
            for _ in 0..EACH {
                let current =
                    store.list_sessions(&scope, None, 1).await.unwrap().sessions.remove(0);
                let done =
                    store.reset_session(&scope, current.key, None, by(at(999))).await.unwrap();
                let Some(one) = done.unwrap().ended else { continue };
                // An ended session gets no more messages.
                assert_eq!(count(&store, &scene, one.key).await, one.messages, "{one:?}");
                ended.push((one.key, one.messages));
            }
            ended
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let mut ended = BTreeMap::new();
    for task in resetting {
        ended.extend(task.await.unwrap().into_iter().map(|(key, count)| (key.id, (key, count))));
    }
    let scope = subtree(&scene.agent);
    let current = scene.store.list_sessions(&scope, None, 9).await.unwrap().sessions.remove(0);
    ended.insert(current.key.id, (current.key, current.messages));
    let all =
        scene.store.recent_messages(&scope, TimeRange::default(), &everything()).await.unwrap();
    assert_eq!(i64::try_from(all.len()).unwrap(), 1 + 3 * EACH);
    let known: BTreeSet<SessionId> = ended.keys().copied().collect();
    assert!(all.iter().all(|one| known.contains(&one.session.unwrap())), "in one that there is");
    for (key, messages) in ended.values() {
        assert_eq!(count(&scene.store, &scene, *key).await, *messages, "{key}");
    }
}

async fn count(store: &Store, scene: &Scene, key: SessionKey) -> u64 {
    let all = store
        .recent_messages(&subtree(&scene.agent), TimeRange::default(), &everything())
        .await
        .unwrap();
    u64::try_from(all.iter().filter(|one| one.session == Some(key.id)).count()).unwrap()
}

async fn sessions_go_with_what_came_in_them(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, scope) = (&scene.store, subtree(&scene.agent));
    let delete = async |until: i64| {
        let due = DueAccount { account: scene.agent.id, kind: scene.agent.kind, until: at(until) };
        let rows = store.expired(RetainedKind::Messages, &due, None, 99).await.unwrap();
        store.delete_expired(RetainedKind::Messages, &rows, 99).await.unwrap().unwrap();
    };
    let first = deliver(&scene, 0).await;
    reset(&scene, first, 10).await.unwrap();
    let second = deliver(&scene, 20).await;
    reset(&scene, second, 30).await.unwrap();
    let third = deliver(&scene, 40).await;
    delete(5).await;
    let left = store.ended_sessions(third.room, None, 9).await.unwrap();
    assert_eq!(left.iter().map(|one| one.key).collect::<Vec<_>>(), [second]);
    delete(99).await;
    assert_eq!(scene.count("SELECT COUNT(*) FROM sessions").await, 0);
    assert_eq!(store.session(&scope, third).await.unwrap(), None, "nor is there a room");
    // A room that begins anew has another one.
    let fourth = deliver(&scene, 100).await;
    assert!(fourth.room == third.room && fourth.id != third.id);
    reset(&scene, fourth, 110).await.unwrap();
    assert!(
        store
            .erase_contact(&subtree(&scene.organization), fourth.room.contact, by(at(200)))
            .await
            .unwrap()
    );
    assert_eq!(store.session(&scope, fourth).await.unwrap(), None, "from the answer on");
    assert_eq!(reset(&scene, fourth, 210).await, None);
    assert_eq!(store.list_sessions(&scope, None, 9).await.unwrap().sessions, []);
    while store.erase_some(fourth.room.contact.get(), limits(9, 9999), at(300)).await.unwrap()
        != ErasureProgress::Done
    {}
    assert_eq!(scene.count("SELECT COUNT(*) FROM sessions").await, 0);
    // A deleted account has no computer.
    store.provision_computer(&scene.agent, by(at(0))).await.unwrap();
    store.delete_account(scene.agent.id, false, 9, account_record, by(at(400))).await.unwrap();
    assert_eq!(store.computer(scene.agent.id).await.unwrap(), None);
    assert!(store.provision_computer(&scene.agent, by(at(500))).await.is_err());
}

/// The clock of the gateway that took the mail in is ahead of that which ends the session.
async fn a_session_ends_no_earlier_than_what_came_in_it(kind: Kind) {
    let scene = Scene::new(kind).await;
    let first = deliver(&scene, 0).await;
    assert_eq!(deliver(&scene, 100).await, first);
    let done = reset(&scene, first, 50).await.unwrap();
    let ended = done.ended.unwrap();
    assert_eq!(ended.ended.as_ref().map(|ended| ended.at), Some(at(100)));
    assert_eq!(done.current.started_at, at(100));
    // The first message goes, and the room begins with the second, which came in it.
    let due = DueAccount { account: scene.agent.id, kind: scene.agent.kind, until: at(5) };
    let rows = scene.store.expired(RetainedKind::Messages, &due, None, 9).await.unwrap();
    assert_eq!(rows.len(), 1);
    scene.store.delete_expired(RetainedKind::Messages, &rows, 9).await.unwrap().unwrap();
    let left = scene.store.session(&subtree(&scene.agent), first).await.unwrap();
    assert_eq!(left, Some(ended));
}

/// A reset of a session outside the scope waits for no lock on the contact, and takes none.
#[tokio::test]
async fn a_reset_locks_no_contact_out_of_reach() {
    let scene = Scene::new(Kind::Postgres).await;
    let key = deliver(&scene, 0).await;
    let mut other = scene.postgres().await;
    let hold = "BEGIN; SELECT id FROM contacts FOR UPDATE";
    sqlx::raw_sql(hold).execute(&mut other).await.unwrap();
    let foreign = subtree(&scene.other);
    let asking = scene.store.reset_session(&foreign, key, None, by(at(1)));
    let asked = tokio::time::timeout(PATIENCE, asking).await;
    assert_eq!(asked.expect("it waits for a lock").unwrap(), None);
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
    assert!(reset(&scene, key, 2).await.unwrap().ended.is_some());
}

async fn sessions_are_listed_by_their_rooms_latest_messages(kind: Kind) {
    let scene = Scene::new(kind).await;
    let mut expected = Vec::new();
    // Each moment is in two rooms of its contact, as after a message to two Agents.
    for (millis, from) in [(0, "a@good.example"), (0, "b@good.example"), (5, "c@good.example")] {
        for agent in [&scene.agent, &scene.other] {
            let intake = scene.intake_from(agent, millis, from, None).await;
            let id = intake.record.message.unwrap();
            scene.commit(vec![intake], millis).await;
            let message = of(&scene, id).await;
            let place = (message.at, message.contact.get(), message.agent.get());
            expected.push((place, message.session_key().unwrap()));
        }
    }
    expected.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
    let both = vec![scene.agent.id, scene.other.id];
    for (scope, agents) in [
        (subtree(&scene.partner), both.clone()),
        (subtree(&scene.reseller), both.clone()),
        (subtree(&scene.organization).only(both.clone()), both),
        (subtree(&scene.organization).only(vec![scene.other.id]), vec![scene.other.id]),
        (subtree(&scene.agent), vec![scene.agent.id]),
        (subtree(&scene.organization).only(Vec::new()), Vec::new()),
    ] {
        let due: Vec<SessionKey> = expected
            .iter()
            .map(|(_, key)| *key)
            .filter(|key| agents.contains(&key.room.agent))
            .collect();
        let (mut read, mut before): (Vec<SessionKey>, Option<RoomPlace>) = (Vec::new(), None);
        loop {
            let page = scene.store.list_sessions(&scope, before, 1).await.unwrap();
            read.extend(page.sessions.iter().map(|one| one.key));
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(read, due, "{scope:?}");
    }
}

async fn a_computer_is_changed_by_one_at_a_time(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, agent) = (&scene.store, &scene.agent);
    let config = |label: &str| ComputerChange {
        config: Some(Configuration {
            authored: json!({ "labels": { "a": label } }).as_object().unwrap().clone(),
            sealed: Some(b"sealed".to_vec()),
        }),
        changed: vec!["labels".into()],
        ..ComputerChange::default()
    };
    assert!(store.create_computer(agent, &config("x"), by(at(0))).await.unwrap());
    assert!(!store.create_computer(agent, &config("y"), by(at(1))).await.unwrap());
    let made = store.computer(agent.id).await.unwrap().unwrap();
    assert_eq!((made.state, made.job), (ComputerState::Created, None));
    let first = made.revision;
    // One of several concurrent changes of a revision is made; the others are stale.
    let mut tasks = Vec::new();
    for number in 0..6 {
        let (store, agent, change) = (scene.open().await, agent.id, config(&number.to_string()));
        tasks.push(tokio::spawn(async move {
            store.change_computer(agent, first, &change, by(at(2))).await.unwrap()
        }));
    }
    let (mut done, mut stale) = (Vec::new(), 0);
    for task in tasks {
        match task.await.unwrap() {
            ComputerOutcome::Done(new) => done.push(*new),
            ComputerOutcome::Stale(current) => stale += current - first,
            ComputerOutcome::Missing => panic!("it is there"),
        }
    }
    assert_eq!((done.len(), stale, done[0].revision), (1, 5, first + 1));
    assert_eq!(store.computer(agent.id).await.unwrap().unwrap(), done[0]);
    // All concurrent provisions succeed, but only one reports a change.
    let mut tasks = Vec::new();
    for _ in 0..6 {
        let (store, agent) = (scene.open().await, scene.other.clone());
        tasks.push(tokio::spawn(async move {
            store.provision_computer(&agent, by(at(3))).await.unwrap()
        }));
    }
    let mut changed = 0;
    for task in tasks {
        let (computer, did) = task.await.unwrap();
        assert_eq!(computer.state, ComputerState::Provisioned);
        changed += u32::from(did);
    }
    assert_eq!(changed, 1);
    let listed = store.list_computers(&subtree(&scene.organization), None, 9).await.unwrap();
    assert_eq!(listed.iter().map(|one| one.agent).collect::<Vec<_>>(), [agent.id, scene.other.id]);
    let only = subtree(&scene.organization).only(vec![scene.other.id]);
    assert_eq!(store.list_computers(&only, Some(agent.id), 9).await.unwrap().len(), 1);
    let (wiped, did) =
        store.deprovision_computer(agent.id, true, by(at(4))).await.unwrap().unwrap();
    assert_eq!((wiped.config, wiped.revision, did), (Configuration::default(), first + 2, true));
    assert!(store.remove_computer(agent.id, by(at(5))).await.unwrap());
    assert!(!store.remove_computer(agent.id, by(at(5))).await.unwrap());
    assert_eq!(store.deprovision_computer(agent.id, true, by(at(6))).await.unwrap(), None);
    let missing = store.change_computer(agent.id, first, &config("z"), by(at(6))).await.unwrap();
    assert_eq!(missing, ComputerOutcome::Missing);
    // Made again, it is none of those that somebody may have read of the one before.
    assert!(store.create_computer(agent, &config("x"), by(at(6))).await.unwrap());
    for old in first..=first + 2 {
        let stale = store.change_computer(agent.id, old, &config("z"), by(at(7))).await.unwrap();
        assert!(matches!(stale, ComputerOutcome::Stale(_)), "{old}: {stale:?}");
    }
}

async fn secrets_of_a_computer_that_are_damaged_are_not_written_over(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, agent) = (&scene.store, &scene.agent);
    let vault = Vault::new(&[[7; 32]], mint().clone());
    let computers = Computers::new(store.clone(), vault.clone(), mint().clone(), PATIENCE);
    let authored = json!({ "secrets": { "a": "********" } }).as_object().unwrap().clone();
    let sealed = vault.seal(&format!("computer/{}", agent.id), b"no JSON").unwrap();
    let config = Configuration { authored: authored.clone(), sealed: Some(sealed) };
    let change = ComputerChange { config: Some(config), ..ComputerChange::default() };
    assert!(store.create_computer(agent, &change, by(at(0))).await.unwrap());
    let made = store.computer(agent.id).await.unwrap().unwrap();
    let labels = json!({ "labels": { "a": "b" } }).as_object().unwrap().clone();
    let whole = WrittenFields { name: None, config: Some(authored) };
    for changed in [
        computers.patch(agent.id, made.revision, &labels, &[]).await,
        computers.update(agent.id, None, whole).await,
    ] {
        let error = changed.unwrap_err().to_string();
        assert!(error.contains("computers: the decrypted secrets are not a JSON"), "{error}");
    }
    assert_eq!(store.computer(agent.id).await.unwrap().unwrap(), made);
}

/// Every statement about sessions and computers, from all places.
pub async fn exercise(scene: &Scene) {
    let Scene { store, agent, organization, partner, reseller, .. } = scene;
    let key = deliver(scene, 1).await;
    let place = RoomPlace { at: at(9), contact: 1 << 40, agent: 1 << 40 };
    let few = vec![agent.id, scene.other.id];
    for account in [partner, reseller, organization, agent] {
        for scope in [subtree(account), subtree(account).only(few.clone())] {
            for before in [None, Some(place)] {
                store.list_sessions(&scope, before, 2).await.unwrap();
            }
            store.list_computers(&scope, Some(agent.id), 2).await.unwrap();
        }
    }
    reset(scene, key, 2).await.unwrap();
    let next = deliver(scene, 3).await;
    let cursor = Cursor { at: at(9), id: uuid::Uuid::max() };
    for before in [None, Some(cursor)] {
        store.ended_sessions(key.room, before, 2).await.unwrap();
    }
    store.session(&subtree(agent), key).await.unwrap();
    store.room_session(&subtree(agent), next.room).await.unwrap();
    let change = ComputerChange { name: Some(Some("x".into())), ..ComputerChange::default() };
    store.create_computer(agent, &change, by(at(0))).await.unwrap();
    let change = ComputerChange { name: Some(None), ..ComputerChange::default() };
    store.change_computer(agent.id, at(0).millis(), &change, by(at(0))).await.unwrap();
    let (computer, _) = store.provision_computer(agent, by(at(0))).await.unwrap();
    let job = computer.job.unwrap().id;
    let apps = [super::apps::record(agent.id, Use::Installed, "crm")];
    let key = keep_for_secrets(store, agent, 77).await;
    let revision = computer.revision;
    let release = Release { agent: agent.id, key, job, revision, apps: &apps };
    store.record_release(release, &[], by(at(0))).await.unwrap();
    store.deprovision_computer(agent.id, true, by(at(0))).await.unwrap();
    store.computer(agent.id).await.unwrap();
    store.remove_computer(agent.id, by(at(0))).await.unwrap();
}
