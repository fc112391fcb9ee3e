//! Templates, the Agents that they are applied to, and what many do at once, on both databases.

use std::collections::BTreeMap;
use std::sync::Arc;

use gatepost::domain::account::AccountType;
use gatepost::domain::agent_config::{AgentConfigs, Config, ConfigKind, Revisions};
use gatepost::domain::app::Use;
use gatepost::domain::audit::{Act, Deed};
use gatepost::domain::id::{AccountId, TemplateId};
use gatepost::domain::template::{Approved, Content, Extent, Integration, Template, owners};
use gatepost::store::{
    ApplyOutcome, ConfigChange, ConfigOutcome, MigrationOutcome, MigrationScope, NewTemplate,
    Store, TemplateApplication, TemplateChange, TemplateDeletion, TemplateOutcome,
    TemplateProgress, TemplateStep,
};
use serde_json::json;
use sqlx::AssertSqlSafe;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::deletion::delete;
use super::scene::{Kind, Scene, account, at, by};
use super::silence::until_blocked;

on_both! {
    what_is_kept_is_what_was_made,
    of_updates_decided_by_the_same_one_is_written,
    what_a_template_locks_is_not_written,
    a_migration_comes_to_each_agent_once_whoever_goes_on_with_it,
    apps_that_it_brings_are_installed,
    no_agent_is_linked_with_a_template_that_is_gone,
    a_deleted_account_takes_its_templates_and_links_with_it,
}

/// How many numbers [`change`] knows.
pub const CHANGES: u32 = 6;
const SIZE: usize = 9999;
const EVERYWHERE: MigrationScope<'static> = MigrationScope {
    extent: &Extent { sections: None, approved: Approved::Nothing },
    targets: None,
};

const fn named(content: &Content) -> NewTemplate<'_> {
    NewTemplate { name: "t", content }
}

const fn application(
    template: TemplateId,
    max_config_bytes: usize,
) -> TemplateApplication<'static> {
    TemplateApplication { template, approved: &Approved::Nothing, max_config_bytes }
}

fn step(max_config_bytes: usize, links_at_once: u32, millis: i64) -> TemplateStep {
    TemplateStep { max_config_bytes, links_at_once, now: at(millis) }
}

fn content(title: &str, locked: &[&str]) -> Content {
    Content {
        config: json!({ "title": title }).as_object().unwrap().clone(),
        fields: locked.iter().map(|name| ((*name).to_owned(), true)).collect::<BTreeMap<_, _>>(),
        integrations: vec![Integration { slug: "crm".into(), version: "1".into() }],
    }
}

async fn made(store: &Store, owner: AccountId, title: &str) -> Template {
    let content = content(title, &[]);
    let made = store.insert_template(owner, named(&content), 99, by(at(0))).await.unwrap().unwrap();
    changed(store, owner, &made, (Some(true), &content)).await
}

async fn changed(
    store: &Store,
    owner: AccountId,
    template: &Template,
    (enabled, content): (Option<bool>, &Content),
) -> Template {
    let change = TemplateChange { name: None, enabled, content, revision: template.head.revision };
    match store.update_template(owner, template.head.id, &change, by(at(1))).await.unwrap() {
        TemplateOutcome::Done(template) => *template,
        refused => panic!("{refused:?}"),
    }
}

async fn apply(store: &Store, agent: AccountId, id: TemplateId) -> ApplyOutcome {
    store.apply_template(agent, application(id, SIZE), by(at(2))).await.unwrap()
}

async fn stage(store: &Store, agent: AccountId, title: &str) -> ConfigOutcome {
    let config: Config = json!({ "title": title }).as_object().unwrap().clone();
    let found = store.agent_configs(agent).await.unwrap();
    let change = ConfigChange {
        kind: ConfigKind::Staging,
        config: &config,
        decided_by: found.as_ref().map_or_else(Revisions::default, AgentConfigs::revisions),
        deed: Deed::AgentStaged,
        changes: &[],
        event: None,
        keep_automatic: None,
    };
    store.configure_agent(agent, &change, by(at(3))).await.unwrap()
}

async fn staged(store: &Store, agent: AccountId) -> String {
    let configs = store.agent_configs(agent).await.unwrap().unwrap();
    configs.staging.config["title"].as_str().unwrap().to_owned()
}

/// Works on everything until there is nothing to be done.
async fn finish(store: &Store) {
    loop {
        let some = store.templates_with_work(None, 9).await.unwrap();
        if some.is_empty() {
            return;
        }
        for id in some {
            store.work_on_template(id, step(SIZE, 1, 9)).await.unwrap();
        }
    }
}

/// Makes the change of this number; what it is called, and how many entries it leaves the first time.
pub async fn change(scene: &Scene, number: u32, act: Act<'_>) -> Option<(&'static str, i64)> {
    let (store, owner, agent) = (&scene.store, scene.reseller.id, scene.agent.id);
    let first = store.templates(owners(&scene.reseller.lineage)).await.unwrap();
    let id = first.first().map_or(TemplateId(Uuid::nil()), |head| head.id);
    let content = content("secret", &[]);
    let name = match number {
        0 => {
            store.insert_template(owner, named(&content), 1, act).await.unwrap();
            "insert_template"
        }
        1 => {
            let (enabled, content) = (Some(true), &content);
            let change = TemplateChange { name: Some("u"), enabled, content, revision: 1 };
            store.update_template(owner, id, &change, act).await.unwrap();
            "update_template"
        }
        2 => {
            store.apply_template(agent, application(id, SIZE), act).await.unwrap();
            "apply_template"
        }
        3 => {
            store.ask_migration(owner, id, EVERYWHERE, act).await.unwrap();
            "ask_migration"
        }
        4 => {
            store.detach_template(agent, id, act).await.unwrap();
            "detach_template"
        }
        5 => {
            store.delete_template(owner, id, true, act).await.unwrap();
            "delete_template"
        }
        _ => return None,
    };
    Some((name, 1))
}

/// Runs every statement.
pub async fn exercise(scene: &Scene) {
    let (store, owner, agent) = (&scene.store, scene.reseller.id, scene.agent.id);
    for number in 0..CHANGES {
        change(scene, number, by(at(0))).await;
    }
    let template = made(store, owner, "x").await;
    let id = template.head.id;
    store.template(owners(&scene.agent.lineage), id).await.unwrap().unwrap();
    assert!(matches!(apply(store, agent, id).await, ApplyOutcome::Done(_)));
    assert!(matches!(stage(store, agent, "y").await, ConfigOutcome::Done(..)));
    store.template_link(agent).await.unwrap().unwrap();
    assert_eq!(store.template_links(id, 0, 9).await.unwrap().len(), 1);
    let both = [agent, scene.other.id].into();
    assert_eq!(store.linked_with_template(id, &both).await.unwrap(), [agent].into());
    let extent = Extent { sections: None, approved: Approved::Everything };
    let scope = MigrationScope { extent: &extent, targets: None };
    store.ask_migration(owner, id, scope, by(at(0))).await.unwrap();
    finish(store).await;
    store.template_migration(id).await.unwrap().unwrap();
    store.delete_template(owner, id, true, by(at(0))).await.unwrap();
    finish(store).await;
}

async fn what_is_kept_is_what_was_made(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, owner) = (&scene.store, scene.reseller.id);
    let content = content("a", &["title"]);
    let made = store.insert_template(owner, named(&content), 1, by(at(0))).await.unwrap().unwrap();
    assert!(!made.head.enabled);
    let none = store.insert_template(owner, named(&content), 1, by(at(0))).await.unwrap();
    assert_eq!(none, None, "there are as many as there may be");
    let elsewhere = scene.open().await;
    for account in [&scene.reseller, &scene.organization, &scene.agent] {
        let found = elsewhere.template(owners(&account.lineage), made.head.id).await.unwrap();
        assert_eq!(found.as_ref(), Some(&made));
        let list = elsewhere.templates(owners(&account.lineage)).await.unwrap();
        assert_eq!(list, std::slice::from_ref(&made.head));
    }
    for lineage in [&scene.stranger().await.lineage, &scene.partner.lineage] {
        if lineage.reseller != Some(owner) {
            let found = elsewhere.template(owners(lineage), made.head.id).await.unwrap();
            assert_eq!(found, None);
        }
    }
    assert_eq!(apply(store, scene.agent.id, made.head.id).await, ApplyOutcome::Disabled);
}

async fn of_updates_decided_by_the_same_one_is_written(kind: Kind) {
    let scene = Scene::new(kind).await;
    let owner = scene.reseller.id;
    let template = made(&scene.store, owner, "a").await;
    let mut changes = JoinSet::new();
    for number in 0..6 {
        let store = if number % 2 == 0 { scene.store.clone() } else { scene.open().await };
        let id = template.head.id;
        changes.spawn(async move {
            let content = content(&format!("new {number}"), &[]);
            let change =
                TemplateChange { name: None, enabled: None, content: &content, revision: 1 };
            store.update_template(owner, id, &change, by(at(5))).await.unwrap()
        });
    }
    let all = changes.join_all().await;
    let done = all.iter().filter(|one| matches!(one, TemplateOutcome::Done(_))).count();
    let moved = all.iter().filter(|one| **one == TemplateOutcome::Moved).count();
    assert_eq!((done, moved), (1, 5), "{all:?}");
}

async fn what_a_template_locks_is_not_written(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, owner, agent) = (&scene.store, scene.partner.id, scene.agent.id);
    let template = made(store, owner, "ours").await;
    let id = template.head.id;
    stage(store, agent, "mine").await;
    assert!(matches!(apply(store, agent, id).await, ApplyOutcome::Done(_)));
    assert_eq!(staged(store, agent).await, "ours");
    // Unlocked fields belong to the customer.
    assert!(matches!(stage(store, agent, "mine").await, ConfigOutcome::Done(..)));
    let locks = content("ours", &["title"]);
    changed(store, owner, &template, (None, &locks)).await;
    for gateway in [store.clone(), scene.open().await] {
        let ConfigOutcome::Locked(locked) = stage(&gateway, agent, "other").await else {
            panic!("it is locked from the answer on");
        };
        assert_eq!((locked.template, locked.fields), (id, vec!["title".to_owned()]));
    }
    // Back to what the template has it may go, and others are not meant.
    assert!(matches!(stage(store, agent, "ours").await, ConfigOutcome::Done(..)));
    assert!(matches!(stage(store, agent, "mine").await, ConfigOutcome::Locked(_)));
    assert!(matches!(stage(store, scene.other.id, "mine").await, ConfigOutcome::Done(..)));
    let second = made(store, owner, "second").await.head.id;
    assert_eq!(apply(store, agent, second).await, ApplyOutcome::LinkedWith(id));
    assert!(!store.detach_template(agent, second, by(at(4))).await.unwrap());
    assert!(store.detach_template(agent, id, by(at(4))).await.unwrap());
    assert_eq!(staged(store, agent).await, "ours", "the configuration stays");
    assert!(matches!(stage(store, agent, "mine").await, ConfigOutcome::Done(..)));
    // Too much for an Agent is refused whole.
    let tight = store.apply_template(agent, application(second, 5), by(at(5))).await.unwrap();
    assert!(matches!(tight, ApplyOutcome::TooLarge(_)), "{tight:?}");
    assert_eq!(store.template_link(agent).await.unwrap(), None);
}

async fn a_migration_comes_to_each_agent_once_whoever_goes_on_with_it(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, owner) = (&scene.store, scene.reseller.id);
    let template = made(store, owner, "old").await;
    let id = template.head.id;
    let mut agents = vec![scene.agent.id, scene.other.id];
    for number in 0..4 {
        let parent = Some(scene.organization.id);
        agents.push(account(store, AccountType::Agent, parent, &format!("a{number}")).await.id);
    }
    for agent in &agents {
        assert!(matches!(apply(store, *agent, id).await, ApplyOutcome::Done(_)));
    }
    stage(store, agents[1], "the customer's").await;
    changed(store, owner, &template, (None, &content("new", &[]))).await;
    let asked = store.ask_migration(owner, id, EVERYWHERE, by(at(3))).await;
    assert!(matches!(asked.unwrap(), MigrationOutcome::Done(_)));
    let again = store.ask_migration(owner, id, EVERYWHERE, by(at(3))).await;
    assert_eq!(again.unwrap(), MigrationOutcome::UnderWay);
    assert_eq!(staged(store, agents[0]).await, "old", "it is only asked for");
    // One that was detached meanwhile is passed over, as is a change after it was asked for.
    assert!(store.detach_template(agents[5], id, by(at(4))).await.unwrap());
    let now = store.template(owners(&scene.agent.lineage), id).await.unwrap().unwrap();
    changed(store, owner, &now, (None, &content("newest", &[]))).await;
    // One that got the newest meanwhile is not taken back.
    assert!(matches!(apply(store, agents[2], id).await, ApplyOutcome::Done(_)));
    let mut gateways = JoinSet::new();
    for _ in 0..3 {
        let store = scene.open().await;
        gateways.spawn(async move {
            while store.work_on_template(id, step(SIZE, 9, 9)).await.unwrap()
                != TemplateProgress::Done
            {}
        });
    }
    gateways.join_all().await;
    for (agent, expected) in
        agents.iter().zip(["new", "the customer's", "newest", "new", "new", "old"])
    {
        assert_eq!(staged(store, *agent).await, expected);
    }
    let migration = store.template_migration(id).await.unwrap().unwrap();
    let tally = &migration.tally;
    let counts = (tally.examined, tally.changed, tally.overridden, tally.failed);
    assert_eq!((counts, migration.finished_at), ((5, 3, 1, 0), Some(at(9))));
    let told = "SELECT COUNT(*) FROM audit_entries WHERE deed = 'template.migrated'";
    assert_eq!(scene.count(told).await, 3);
    assert_eq!(store.templates_with_work(None, 9).await.unwrap(), []);
    // A migration of two Agents fails for the one that would become too large, and for that one
    // only.
    let few = [agents[1], agents[2]].into();
    let all = Extent { sections: None, approved: Approved::Everything };
    let scope = MigrationScope { extent: &all, targets: Some(&few) };
    let asked = store.ask_migration(owner, id, scope, by(at(10))).await.unwrap();
    assert!(matches!(asked, MigrationOutcome::Done(_)), "{asked:?}");
    store.work_on_template(id, step(3, 9, 11)).await.unwrap();
    finish(store).await;
    assert_eq!(staged(store, agents[1]).await, "the customer's");
    assert_eq!(staged(store, agents[2]).await, "newest");
    assert_eq!(staged(store, agents[3]).await, "new");
    let tally = store.template_migration(id).await.unwrap().unwrap().tally;
    assert_eq!((tally.examined, tally.failed, tally.last_failed), (2, 1, Some(agents[1])));
}

async fn apps_that_it_brings_are_installed(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, owner, agent) = (&scene.store, scene.reseller.id, scene.agent.id);
    let template = made(store, owner, "old").await;
    let id = template.head.id;
    for agent in [agent, scene.other.id] {
        assert!(matches!(apply(store, agent, id).await, ApplyOutcome::Done(_)));
    }
    let mut newer = content("new", &[]);
    newer.config.insert("apps".into(), json!([{ "appId": "crm", "version": "v1" }]));
    changed(store, owner, &template, (None, &newer)).await;
    let lacking = ApplyOutcome::NotInstalled(vec!["crm/v1".into()]);
    assert_eq!(apply(store, agent, id).await, lacking);
    assert_eq!(staged(store, agent).await, "old");
    let app = super::apps::record(scene.other.id, Use::Installed, "crm");
    store.insert_app_record(&app, 9, by(at(3))).await.unwrap();
    store.ask_migration(owner, id, EVERYWHERE, by(at(4))).await.unwrap();
    finish(store).await;
    assert_eq!(staged(store, agent).await, "old");
    assert_eq!(staged(store, scene.other.id).await, "new");
    let tally = store.template_migration(id).await.unwrap().unwrap().tally;
    let counts = (tally.examined, tally.changed, tally.failed, tally.last_failed);
    assert_eq!(counts, (2, 1, 1, Some(agent)));
    let app = super::apps::record(agent, Use::Installed, "crm");
    store.insert_app_record(&app, 9, by(at(5))).await.unwrap();
    assert!(matches!(apply(store, agent, id).await, ApplyOutcome::Done(_)));
}

async fn no_agent_is_linked_with_a_template_that_is_gone(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (owner, agent) = (scene.reseller.id, scene.agent.id);
    for _ in 0..4 {
        let id = made(&scene.store, owner, "a").await.head.id;
        let (one, other) = (scene.store.clone(), scene.open().await);
        let (applied, gone) = tokio::join!(
            tokio::spawn(async move { apply(&one, agent, id).await }),
            tokio::spawn(async move {
                other.delete_template(owner, id, false, by(at(5))).await.unwrap()
            }),
        );
        let linked = scene.store.template_link(agent).await.unwrap().map(|link| link.template);
        match (applied.unwrap(), gone.unwrap()) {
            (ApplyOutcome::Done(_), TemplateDeletion::Linked) => assert_eq!(linked, Some(id)),
            (ApplyOutcome::NoTemplate, TemplateDeletion::Done) => assert_eq!(linked, None),
            both => panic!("{both:?}"),
        }
        if linked.is_some() {
            let done = scene.store.delete_template(owner, id, true, by(at(6))).await.unwrap();
            assert_eq!(done, TemplateDeletion::Done);
            assert_eq!(scene.store.template_link(agent).await.unwrap(), None);
        }
    }
    finish(&scene.store).await;
    let left = "SELECT (SELECT COUNT(*) FROM templates) + (SELECT COUNT(*) FROM template_links)";
    assert_eq!(scene.count(left).await, 0);
}

async fn a_deleted_account_takes_its_templates_and_links_with_it(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = &scene.store;
    let (above, own) =
        (made(store, scene.partner.id, "p").await, made(store, scene.reseller.id, "r").await);
    assert!(matches!(apply(store, scene.agent.id, above.head.id).await, ApplyOutcome::Done(_)));
    assert!(matches!(apply(store, scene.other.id, own.head.id).await, ApplyOutcome::Done(_)));
    store.ask_migration(scene.reseller.id, own.head.id, EVERYWHERE, by(at(3))).await.unwrap();
    delete(store, &scene.reseller, true).await;
    let elsewhere = scene.open().await;
    let found = elsewhere.templates(owners(&scene.reseller.lineage)).await.unwrap();
    assert_eq!(found, [above.head], "the partner's stays");
    finish(&elsewhere).await;
    let left =
        "SELECT 100 * (SELECT COUNT(*) FROM templates) + (SELECT COUNT(*) FROM template_links)
                + (SELECT COUNT(*) FROM template_migrations)";
    assert_eq!(scene.count(left).await, 100);
}

/// As a deletion does, that goes on behind the gate of an account: whoever changes something below
/// locks none of the rows that it deletes before the gate is open.
#[tokio::test]
async fn no_row_is_locked_before_the_gates_are_passed() {
    let scene = Arc::new(Scene::new(Kind::Postgres).await);
    let (owner, agent) = (scene.reseller.id, scene.agent.id);
    let template = made(&scene.store, owner, "a").await;
    let id = template.head.id;
    let app = super::apps::record(agent, Use::Installed, "crm");
    scene.store.insert_app_record(&app, 9, by(at(3))).await.unwrap();
    apply(&scene.store, agent, id).await;
    let close =
        format!("BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('account', {owner}))");
    for number in 0..6 {
        let mut deleting = scene.postgres().await;
        sqlx::raw_sql(AssertSqlSafe(close.clone())).execute(&mut deleting).await.unwrap();
        let (beside, app, template) = (Arc::clone(&scene), app.clone(), template.clone());
        let changing = tokio::spawn(async move {
            let store = &beside.store;
            match number {
                0 => drop(stage(store, agent, "b").await),
                1 => drop(changed(store, owner, &template, (None, &content("b", &[]))).await),
                2 => drop(store.ask_migration(owner, id, EVERYWHERE, by(at(4))).await),
                3 => drop(store.update_app_record(&app, &["key".into()], by(at(4))).await),
                4 => drop(store.remove_app(agent, &app.app, by(at(4))).await),
                _ => drop(store.detach_template(agent, id, by(at(4))).await),
            }
        });
        until_blocked(&scene, 1).await;
        for table in ["templates", "template_links", "agent_configs", "app_records"] {
            let lock = format!("SELECT * FROM {table} FOR UPDATE NOWAIT");
            let locked = sqlx::raw_sql(AssertSqlSafe(lock)).execute(&mut deleting).await;
            assert!(locked.is_ok(), "{number}: {table}: {locked:?}");
        }
        sqlx::raw_sql("COMMIT").execute(&mut deleting).await.unwrap();
        changing.await.unwrap();
    }
    assert_eq!(scene.store.template_link(agent).await.unwrap(), None);
}

/// While the links of a deleted template are removed, the Agent is given another template.
#[tokio::test]
async fn an_agent_that_gets_another_template_meanwhile_keeps_it() {
    let scene = Scene::new(Kind::Postgres).await;
    let (owner, agent) = (scene.reseller.id, scene.agent.id);
    let old = made(&scene.store, owner, "old").await.head.id;
    let new = made(&scene.store, owner, "new").await.head.id;
    assert!(matches!(apply(&scene.store, agent, old).await, ApplyOutcome::Done(_)));
    scene.store.delete_template(owner, old, true, by(at(3))).await.unwrap();
    let mut beside = scene.before_audit().await;
    let store = scene.store.clone();
    let applying = tokio::spawn(async move { apply(&store, agent, new).await });
    until_blocked(&scene, 1).await;
    let store = scene.store.clone();
    let removing = tokio::spawn(async move { store.work_on_template(old, step(SIZE, 9, 9)).await });
    until_blocked(&scene, 2).await;
    sqlx::raw_sql("COMMIT").execute(&mut beside).await.unwrap();
    assert!(matches!(applying.await.unwrap(), ApplyOutcome::Done(_)));
    removing.await.unwrap().unwrap();
    finish(&scene.store).await;
    let linked = scene.store.template_link(agent).await.unwrap().map(|link| link.template);
    assert_eq!(linked, Some(new));
    assert_eq!(scene.count("SELECT COUNT(*) FROM templates").await, 1);
}
