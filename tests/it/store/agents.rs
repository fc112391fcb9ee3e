//! Configurations of Agents and their versions, on both databases.

use gatepost::app::tenancy::record::account_record;
use gatepost::domain::agent_config::{AgentConfigs, Config, ConfigKind, Revisions, VersionId};
use gatepost::domain::audit::{Act, Change, Deed};
use gatepost::domain::delivery::Subject;
use gatepost::domain::event::{Category, EventName};
use gatepost::domain::id::AccountId;
use gatepost::store::{
    ConfigChange, ConfigEvent, ConfigOutcome, NewVersion, Store, StoreError, VersionOutcome,
    VersionTitle,
};
use serde_json::json;
use tokio::task::JoinSet;

use super::scene::{Kind, Scene, at, by};

on_both! {
    of_changes_decided_by_the_same_one_is_written,
    what_is_replaced_is_kept_and_the_oldest_go,
    versions_have_ids_that_rise_whatever_the_clock_does,
    a_change_is_told_to_those_above_with_the_version_that_it_kept,
    a_deleted_agent_takes_its_configurations_with_it,
    versions_are_bounded_however_many_are_made_at_once,
}

/// How many numbers [`change`] knows.
pub const CHANGES: u32 = 5;

fn config(title: &str) -> Config {
    json!({ "title": title }).as_object().unwrap().clone()
}

/// Writes one configuration, decided by these revisions.
async fn write(
    store: &Store,
    agent: AccountId,
    (kind, title): (ConfigKind, &str),
    (staging, live): (i64, i64),
    act: Act<'_>,
) -> Result<ConfigOutcome, StoreError> {
    let changed = ["title".to_owned()];
    let change = ConfigChange {
        kind,
        config: &config(title),
        decided_by: Revisions { staging, live },
        deed: Deed::AgentStaged,
        changes: &[Change::made("changed", "title")],
        event: (kind == ConfigKind::Default).then_some(ConfigEvent {
            name: EventName::AgentPublished,
            changed: &changed,
            version: None,
        }),
        keep_automatic: (kind == ConfigKind::Default).then_some(2),
    };
    store.configure_agent(agent, &change, act).await
}

async fn publish(
    store: &Store,
    agent: AccountId,
    title: &str,
) -> (AgentConfigs, Option<VersionId>) {
    let found = store.agent_configs(agent).await.unwrap();
    let at_now = found.map_or((0, 0), |found| (found.staging.revision, found.live.revision));
    let kind = (ConfigKind::Default, title);
    match write(store, agent, kind, at_now, by(at(5))).await.unwrap() {
        ConfigOutcome::Done(configs, kept) => (*configs, kept),
        refused => panic!("{refused:?}"),
    }
}

/// Makes the change of this number; what it is called, and how many entries it leaves the first time.
pub async fn change(scene: &Scene, number: u32, act: Act<'_>) -> Option<(&'static str, i64)> {
    let (store, agent) = (&scene.store, scene.agent.id);
    let first = store.agent_versions(agent, None, 1, false).await.unwrap();
    let id = first.first().map_or(VersionId::new(1).unwrap(), |one| one.id);
    let name = match number {
        0 => {
            let kind = (ConfigKind::Staging, "a");
            write(store, agent, kind, (0, 0), act).await.unwrap();
            "configure_agent"
        }
        1 => {
            store
                .insert_agent_version(
                    agent,
                    NewVersion { title: "a", snapshot: &config("a") },
                    1,
                    act,
                )
                .await
                .unwrap();
            "insert_agent_version"
        }
        2 => {
            store.replace_agent_version(agent, id, &config("b"), act).await.unwrap();
            "replace_agent_version"
        }
        3 => {
            store
                .rename_agent_version(agent, VersionTitle { id, title: "b" }, 1, act)
                .await
                .unwrap();
            "rename_agent_version"
        }
        4 => {
            store.delete_agent_version(agent, id, act).await.unwrap();
            "delete_agent_version"
        }
        _ => return None,
    };
    Some((name, 1))
}

/// Runs every statement.
pub async fn exercise(scene: &Scene) {
    for number in 0..CHANGES {
        change(scene, number, by(at(0))).await;
    }
    let (store, agent) = (&scene.store, scene.agent.id);
    for _ in 0..2 {
        publish(store, agent, "b").await;
    }
    let kept = store.agent_versions(agent, None, 9, true).await.unwrap();
    store.agent_version(agent, kept[0].id).await.unwrap().unwrap();
    let new = VersionTitle { id: kept[0].id, title: "x" };
    store.rename_agent_version(agent, new, 9, by(at(0))).await.unwrap();
}

async fn of_changes_decided_by_the_same_one_is_written(kind: Kind) {
    let scene = Scene::new(kind).await;
    let agent = scene.agent.id;
    assert_eq!(scene.store.agent_configs(agent).await.unwrap(), None);
    for round in 0..3 {
        let mut changes = JoinSet::new();
        for number in 0..6 {
            let store = if number % 2 == 0 { scene.store.clone() } else { scene.open().await };
            changes.spawn(async move {
                let title = format!("{round} {number}");
                let staged = (ConfigKind::Staging, &*title);
                let done = write(&store, agent, staged, (round, 0), by(at(1))).await.unwrap();
                matches!(done, ConfigOutcome::Done(..)).then_some(title)
            });
        }
        let written: Vec<String> = changes.join_all().await.into_iter().flatten().collect();
        assert_eq!(written.len(), 1, "{written:?}");
        let found = scene.store.agent_configs(agent).await.unwrap().unwrap();
        assert_eq!((found.staging.revision, found.live.is_set()), (round + 1, false));
        assert_eq!(found.staging.config, config(&written[0]));
    }
    // Nor is anything published that was decided by staging as it was.
    let live = (ConfigKind::Default, "x");
    let moved = write(&scene.store, agent, live, (2, 0), by(at(1))).await.unwrap();
    assert_eq!(moved, ConfigOutcome::Moved);
    assert_eq!(scene.count("SELECT COUNT(*) FROM agent_versions").await, 0);
    assert_eq!(scene.count("SELECT COUNT(*) FROM agent_configs").await, 2);
}

async fn what_is_replaced_is_kept_and_the_oldest_go(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, agent) = (&scene.store, scene.agent.id);
    let (first, kept) = publish(store, agent, "0").await;
    assert_eq!((first.live.revision, kept), (1, None), "nothing was there before");
    let new = NewVersion { title: "h", snapshot: &config("h") };
    let by_hand = store.insert_agent_version(agent, new, 9, by(at(1))).await.unwrap();
    for title in ["1", "2", "3"] {
        let (configs, kept) = publish(store, agent, title).await;
        assert_eq!(configs.live.config, config(title));
        assert_eq!(configs.live.id, first.live.id);
        let version = store.agent_version(agent, kept.unwrap()).await.unwrap().unwrap();
        assert_eq!((version.automatic, version.title), (true, kept.unwrap().automatic_title()));
    }
    let all = store.agent_versions(agent, None, 9, true).await.unwrap();
    let held: Vec<_> = all.iter().map(|one| one.snapshot.clone().unwrap()).collect();
    assert_eq!(held, [config("2"), config("1"), config("h")]);
    assert_eq!(all.last().unwrap().id, by_hand.unwrap());
    // Another Agent has none of it.
    assert_eq!(store.agent_versions(scene.other.id, None, 9, true).await.unwrap(), []);
    assert_eq!(store.agent_version(scene.other.id, all[0].id).await.unwrap(), None);
    let other = scene.other.id;
    assert!(!store.delete_agent_version(other, all[0].id, by(at(1))).await.unwrap());
    let done =
        store.replace_agent_version(other, all[0].id, &config("x"), by(at(1))).await.unwrap();
    assert_eq!(done, VersionOutcome::Missing);
    let named = VersionTitle { id: all[0].id, title: "x" };
    let done = store.rename_agent_version(other, named, 9, by(at(1))).await.unwrap();
    assert_eq!(done, VersionOutcome::Missing);
    assert_eq!(store.agent_versions(agent, None, 9, true).await.unwrap(), all);
}

async fn versions_have_ids_that_rise_whatever_the_clock_does(kind: Kind) {
    let scene = Scene::new(kind).await;
    let mut ids = Vec::new();
    for millis in [7, 7, 3, 100] {
        let new = NewVersion { title: "x", snapshot: &config("x") };
        let made = scene.store.insert_agent_version(scene.agent.id, new, 9, by(at(millis))).await;
        ids.push(made.unwrap().unwrap().get());
    }
    let first = at(7).millis();
    assert_eq!(ids, [first, first + 1, first + 2, at(100).millis()]);
    let page = scene.store.agent_versions(scene.agent.id, VersionId::new(ids[2]), 1, false).await;
    let page = page.unwrap();
    assert_eq!((page.len(), page[0].id.get(), &page[0].snapshot), (1, ids[1], &None));
}

async fn a_change_is_told_to_those_above_with_the_version_that_it_kept(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, agent) = (&scene.store, scene.agent.id);
    for (account, category) in [
        (&scene.organization, Category::Agent),
        (&scene.organization, Category::Contact),
        (&scene.other, Category::Agent),
    ] {
        scene.listen(account, category, "https://a.example/").await;
    }
    let staged = (ConfigKind::Staging, "a");
    write(store, agent, staged, (0, 0), by(at(1))).await.unwrap();
    assert_eq!(scene.count("SELECT COUNT(*) FROM deliveries").await, 0);
    publish(store, agent, "a").await;
    let (configs, kept) = publish(store, agent, "b").await;
    let claims = store.claim_deliveries(at(9), at(19), 10, &[]).await.unwrap();
    let mut told: Vec<_> = claims
        .iter()
        .map(|claim| match &claim.subject {
            Subject::Told(told) => told.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    told.sort_by_key(|one| one["revision"].as_i64());
    let wanted = |revision: i64, previous: Option<VersionId>| {
        json!({
            "accountId": agent.get(), "campaignId": configs.live.id.to_string(),
            "revision": revision, "changed": ["title"], "versionId": null,
            "previousVersionId": previous.map(VersionId::get),
        })
    };
    assert_eq!(told, [wanted(1, None), wanted(2, kept)]);
}

async fn a_deleted_agent_takes_its_configurations_with_it(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, agent) = (&scene.store, scene.agent.id);
    for title in ["a", "b", "c"] {
        publish(store, agent, title).await;
        publish(store, scene.other.id, title).await;
    }
    let deleting = store.delete_account(agent, false, 9, account_record, by(at(9)));
    deleting.await.unwrap();
    // Nothing is written any more.
    let staged = (ConfigKind::Staging, "x");
    let late = write(store, agent, staged, (0, 3), by(at(9))).await;
    assert_eq!(late.unwrap(), ConfigOutcome::Missing);
    let new = NewVersion { title: "x", snapshot: &config("x") };
    let late = store.insert_agent_version(agent, new, 9, by(at(9))).await;
    assert!(matches!(late, Err(StoreError::NoAccount)), "{late:?}");
    assert_eq!(store.with_leftovers(&[agent, scene.other.id]).await.unwrap().len(), 2);
    super::erasure::finish(store).await;
    assert_eq!(store.with_leftovers(&[agent]).await.unwrap(), []);
    assert_eq!(store.agent_configs(agent).await.unwrap(), None);
    assert_eq!(store.agent_versions(agent, None, 9, true).await.unwrap(), []);
    assert_eq!(store.agent_versions(scene.other.id, None, 9, true).await.unwrap().len(), 2);
}

async fn versions_are_bounded_however_many_are_made_at_once(kind: Kind) {
    let scene = Scene::new(kind).await;
    let mut makers = JoinSet::new();
    for number in 0..8 {
        let store = if number % 2 == 0 { scene.store.clone() } else { scene.open().await };
        let agent = scene.agent.id;
        makers.spawn(async move {
            let new = NewVersion { title: "x", snapshot: &config("x") };
            store.insert_agent_version(agent, new, 3, by(at(1))).await.unwrap()
        });
    }
    let made: Vec<VersionId> = makers.join_all().await.into_iter().flatten().collect();
    assert_eq!(made.len(), 3, "{made:?}");
    // An automatic one that is named counts among them.
    let (store, agent) = (&scene.store, scene.agent.id);
    publish(store, agent, "a").await;
    let (_, kept) = publish(store, agent, "b").await;
    let named = VersionTitle { id: kept.unwrap(), title: "n" };
    let done = store.rename_agent_version(agent, named, 3, by(at(1))).await.unwrap();
    assert_eq!(done, VersionOutcome::Full);
    assert!(store.delete_agent_version(agent, made[0], by(at(1))).await.unwrap());
    let done = store.rename_agent_version(agent, named, 3, by(at(1))).await.unwrap();
    assert_eq!(done, VersionOutcome::Done);
    let renamed = store.agent_version(agent, named.id).await.unwrap().unwrap();
    assert_eq!((renamed.automatic, &*renamed.title), (false, "n"));
}
