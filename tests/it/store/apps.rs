//! Apps of accounts, and assigned features.

use std::collections::BTreeSet;

use gatepost::app::tenancy::record::account_record;
use gatepost::domain::account::AccountType;
use gatepost::domain::app::{AppRecord, AppRef, Use};
use gatepost::domain::audit::{Actor, Deed, Once};
use gatepost::domain::feature::{Assigned, Feature};
use gatepost::domain::id::AccountId;
use gatepost::store::{
    AccountCreation, AccountDeletion, AppRecordInsertion, AppRemoval, AuditFilter, NewAccount,
    StoreError,
};
use serde_json::json;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::scene::{Kind, Scene, at, by, everything, subtree};

on_both! {
    a_record_is_its_accounts_and_of_one_use,
    an_account_keeps_so_many_of_a_use_and_a_repetition_is_told_apart,
    of_changes_at_once_one_counts,
    features_are_given_denied_and_left_alone,
    what_is_deleted_keeps_no_secret_and_gets_none,
    a_request_installs_once,
    an_account_is_made_with_what_it_keeps_or_not_at_all,
}

/// With a setting and a secret.
pub fn record(account: AccountId, of: Use, id: &str) -> AppRecord {
    let app = AppRef::new(id, "v1").unwrap();
    let mut record = AppRecord::empty(account, of, app, at(1));
    record.shown.insert("region".into(), json!("e\u{fc}"));
    record.secrets.insert("key".into());
    record.sealed = Some(vec![0, 255, 7]);
    record
}

/// Every statement of theirs.
pub async fn exercise(scene: &Scene) {
    let Scene { store, agent, .. } = scene;
    let one = record(agent.id, Use::Installed, "crm");
    store.insert_app_record(&one, 9, by(at(1))).await.unwrap();
    store.app_records(agent.id, Use::Installed).await.unwrap();
    store.app_record(agent.id, Use::Installed, &one.app).await.unwrap();
    store.update_app_record(&one, &[], by(at(2))).await.unwrap();
    store.remove_app(agent.id, &one.app, by(at(3))).await.unwrap();
    let data = record(agent.id, Use::Integration, "crm");
    store.insert_app_record(&data, 9, by(at(3))).await.unwrap();
    let bare = AppRecord::empty(agent.id, Use::Integration, data.app.clone(), at(3));
    assert!(store.update_app_record(&bare, &[], by(at(3))).await.unwrap());
    for wanted in [Some(true), None] {
        store.assign_features(agent.id, &[(Feature::Apps, wanted)], by(at(4))).await.unwrap();
    }
    store.assigned_features(&agent.lineage).await.unwrap();
}

async fn a_record_is_its_accounts_and_of_one_use(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, elsewhere) = (&scene.store, scene.open().await);
    let (me, other) = (scene.agent.id, scene.other.id);
    let crm = record(me, Use::Installed, "crm");
    let all = [
        crm.clone(),
        // Upper case comes first on both databases.
        record(me, Use::Installed, "ZZ"),
        record(me, Use::Integration, "crm"),
        record(other, Use::Installed, "crm"),
    ];
    for new in &all {
        let kept = store.insert_app_record(new, 9, by(at(1))).await.unwrap();
        assert_eq!(kept, AppRecordInsertion::Inserted);
    }
    let mine = elsewhere.app_records(me, Use::Installed).await.unwrap();
    assert_eq!(mine, [all[1].clone(), crm.clone()]);
    let mut next = crm.clone();
    next.shown.clear();
    next.secrets = BTreeSet::new();
    next.sealed = None;
    assert!(store.update_app_record(&next, &["key".into()], by(at(5))).await.unwrap());
    let found = elsewhere.app_record(me, Use::Installed, &crm.app).await.unwrap().unwrap();
    assert_eq!(found, AppRecord { revision: 2, updated_at: at(5), ..next.clone() });
    // An integration of which nothing is left is no row.
    let kept = record(other, Use::Integration, "gone");
    store.insert_app_record(&kept, 9, by(at(5))).await.unwrap();
    let bare = AppRecord::empty(other, Use::Integration, kept.app.clone(), at(5));
    assert!(store.update_app_record(&bare, &["key".into()], by(at(5))).await.unwrap());
    assert_eq!(elsewhere.app_record(other, kept.of, &kept.app).await.unwrap(), None);
    assert!(!store.update_app_record(&bare, &[], by(at(5))).await.unwrap());
    // By the revision before it, nothing is changed; nor is what is not there.
    assert!(!store.update_app_record(&next, &[], by(at(6))).await.unwrap());
    let nothing = record(me, Use::Installed, "none");
    assert!(!store.update_app_record(&nothing, &[], by(at(6))).await.unwrap());
    let removed = store.remove_app(me, &crm.app, by(at(7))).await.unwrap();
    assert_eq!(removed, AppRemoval::Removed);
    let removed = store.remove_app(me, &crm.app, by(at(8))).await.unwrap();
    assert_eq!(removed, AppRemoval::Missing);
    assert_eq!(elsewhere.app_record(me, Use::Installed, &crm.app).await.unwrap(), None);
    // The others are as they were.
    assert_eq!(elsewhere.app_records(me, Use::Integration).await.unwrap(), [all[2].clone()]);
    assert_eq!(elsewhere.app_records(other, Use::Installed).await.unwrap(), [all[3].clone()]);
    let told = store.audit(&subtree(&scene.agent), &AuditFilter::default(), &everything()).await;
    let told = told.unwrap();
    let deeds: Vec<_> = told.iter().map(|entry| (entry.deed, entry.object.as_str())).collect();
    let installed = Deed::AppInstalled;
    assert_eq!(
        deeds[..5],
        [
            (Deed::AppRemoved, "crm/v1"),
            (Deed::AppUpdated, "crm/v1"),
            (Deed::IntegrationUpdated, "crm/v1"),
            (installed, "ZZ/v1"),
            (installed, "crm/v1"),
        ]
    );
    // Names of fields, and nothing of what stands in them.
    let fields = |number: usize| {
        let after = told[number].changes.iter().map(|change| change.after.as_deref());
        after.collect::<Vec<_>>()
    };
    assert_eq!((fields(4), fields(1)), (vec![Some("region"), Some("key")], vec![Some("key")]));
    assert!(told.iter().take(4).flat_map(|one| &one.changes).all(|one| one.before.is_none()));
}

async fn an_account_keeps_so_many_of_a_use_and_a_repetition_is_told_apart(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, me) = (&scene.store, scene.agent.id);
    let insert = async |of, id: &str| {
        store.insert_app_record(&record(me, of, id), 2, by(at(1))).await.unwrap()
    };
    assert_eq!(insert(Use::Installed, "a").await, AppRecordInsertion::Inserted);
    assert_eq!(insert(Use::Installed, "b").await, AppRecordInsertion::Inserted);
    assert_eq!(insert(Use::Installed, "c").await, AppRecordInsertion::TooMany);
    assert_eq!(insert(Use::Installed, "b").await, AppRecordInsertion::Exists);
    assert_eq!(insert(Use::Integration, "c").await, AppRecordInsertion::Inserted);
    assert_eq!(scene.count("SELECT COUNT(*) FROM app_records").await, 3);
    // Many gateways at once: no more than there is room for.
    let other = scene.other.id;
    let mut tasks = JoinSet::new();
    for number in 0..6 {
        let gateway = scene.open().await;
        tasks.spawn(async move {
            let new = record(other, Use::Installed, &format!("app{number}"));
            gateway.insert_app_record(&new, 2, by(at(2))).await.unwrap()
        });
    }
    let kept = tasks.join_all().await;
    assert_eq!(
        kept.iter().filter(|one| **one == AppRecordInsertion::Inserted).count(),
        2,
        "{kept:?}"
    );
    assert_eq!(store.app_records(other, Use::Installed).await.unwrap().len(), 2);
}

async fn of_changes_at_once_one_counts(kind: Kind) {
    let scene = Scene::new(kind).await;
    let one = record(scene.agent.id, Use::Installed, "crm");
    scene.store.insert_app_record(&one, 9, by(at(1))).await.unwrap();
    let mut tasks = JoinSet::new();
    for number in 0..6 {
        let (gateway, mut next) = (scene.open().await, one.clone());
        next.shown.insert("region".into(), json!(number));
        tasks.spawn(async move {
            let done = gateway.update_app_record(&next, &["region".into()], by(at(2))).await;
            done.unwrap().then_some(number)
        });
    }
    let done: Vec<i32> = tasks.join_all().await.into_iter().flatten().collect();
    let found = scene.store.app_record(one.account, one.of, &one.app).await.unwrap().unwrap();
    assert_eq!((done.len(), found.revision), (1, 2));
    assert_eq!(found.shown["region"], done[0]);
}

async fn features_are_given_denied_and_left_alone(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, elsewhere) = (&scene.store, scene.open().await);
    let stranger = scene.stranger().await;
    let (agent, organization) = (&scene.agent, &scene.organization);
    let both = [(Feature::Relays, Some(false)), (Feature::Apps, Some(true))];
    store.assign_features(organization.id, &both, by(at(1))).await.unwrap();
    store.assign_features(agent.id, &[(Feature::Relays, Some(true))], by(at(2))).await.unwrap();
    store.assign_features(stranger.id, &both, by(at(2))).await.unwrap();
    let grants = async |of: &gatepost::domain::account::Account| {
        let all = elsewhere.assigned_features(&of.lineage).await.unwrap();
        // Each account of the lineage, whether anything was said of it or not.
        assert_eq!(all.len(), of.lineage.ids().count());
        let each = |one: Assigned| {
            let account = one.account;
            one.features.into_iter().map(move |(feature, granted)| (account, feature, granted))
        };
        all.into_iter().flat_map(each).collect::<Vec<_>>()
    };
    let grant = |account, feature, granted| (account, feature, granted);
    let above = [
        grant(organization.id, Feature::Apps, true),
        grant(organization.id, Feature::Relays, false),
    ];
    assert_eq!(grants(organization).await, above);
    let own = grant(agent.id, Feature::Relays, true);
    assert_eq!(grants(agent).await, [above.as_slice(), &[own]].concat());
    assert_eq!(grants(&scene.reseller).await, []);
    // Turned round, and left to the default; the same again says nothing.
    let entries = async || scene.count("SELECT COUNT(*) FROM audit_entries").await;
    let before = entries().await;
    let changed = [(Feature::Relays, Some(true)), (Feature::Apps, None)];
    for _ in 0..2 {
        store.assign_features(organization.id, &changed, by(at(3))).await.unwrap();
        assert_eq!(entries().await, before + 1);
    }
    let turned = [grant(organization.id, Feature::Relays, true)];
    assert_eq!(grants(organization).await, turned);
    let filter = AuditFilter { deed: Some(Deed::FeaturesAssigned), ..AuditFilter::default() };
    let told = store.audit(&subtree(organization), &filter, &everything()).await.unwrap();
    let changes: Vec<_> = told[0]
        .changes
        .iter()
        .map(|change| (change.field.as_str(), change.before.as_deref(), change.after.as_deref()))
        .collect();
    let expected = [("relays", Some("false"), Some("true")), ("apps", Some("true"), None)];
    assert_eq!(changes, expected);
}

async fn what_is_deleted_keeps_no_secret_and_gets_none(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, stranger) = (&scene.store, scene.stranger().await);
    for account in [&scene.agent, &scene.organization, &stranger] {
        let new = record(account.id, Use::Integration, "crm");
        store.insert_app_record(&new, 9, by(at(1))).await.unwrap();
        store.assign_features(account.id, &[(Feature::Apps, Some(true))], by(at(1))).await.unwrap();
    }
    let deleting = store.delete_account(scene.organization.id, true, 9, account_record, by(at(2)));
    assert_eq!(deleting.await.unwrap(), AccountDeletion::Done { below: 2 });
    assert_eq!(scene.count("SELECT COUNT(*) FROM app_records").await, 1);
    assert_eq!(scene.count("SELECT COUNT(*) FROM feature_grants").await, 1);
    let late =
        store.insert_app_record(&record(scene.agent.id, Use::Installed, "crm"), 9, by(at(3))).await;
    assert!(matches!(late, Err(StoreError::NoAccount)), "{late:?}");
    let wanted = [(Feature::Apps, Some(false))];
    let late = store.assign_features(scene.agent.id, &wanted, by(at(3))).await;
    assert!(matches!(late, Err(StoreError::NoAccount)), "{late:?}");
    assert_eq!(scene.count("SELECT COUNT(*) FROM app_records").await, 1);
    // A change beside the deletion is made before it, or refused.
    for round in 0..4 {
        let agent = super::scene::account(
            store,
            scene.agent.kind,
            stranger.parent,
            &format!("doomed{round}"),
        )
        .await;
        let (gateway, id) = (scene.open().await, agent.id);
        let adding = tokio::spawn(async move {
            let new = record(id, Use::Installed, "crm");
            drop(gateway.insert_app_record(&new, 9, by(at(4))).await);
            let next = AppRecord { sealed: Some(vec![9]), ..new };
            drop(gateway.update_app_record(&next, &["key".into()], by(at(4))).await);
        });
        let deleting = store.delete_account(id, false, 9, account_record, by(at(5)));
        assert_eq!(deleting.await.unwrap(), AccountDeletion::Done { below: 0 });
        adding.await.unwrap();
        assert_eq!(store.app_records(id, Use::Installed).await.unwrap(), []);
    }
}

async fn a_request_installs_once(kind: Kind) {
    let scene = Scene::new(kind).await;
    let once = Once { digest: [1; 32], request: [2; 32], until: at(9) };
    let request = |number| Actor {
        once: Some(once),
        request: Some(Uuid::from_u128(number)),
        ..Actor::OPERATOR
    };
    let store = &scene.store;
    let (one, two) = ("crm", "calendar");
    let new = record(scene.agent.id, Use::Installed, one);
    store.insert_app_record(&new, 9, request(1).at(at(1))).await.unwrap();
    let other = record(scene.agent.id, Use::Installed, two);
    let again = store.insert_app_record(&other, 9, request(2).at(at(2))).await;
    assert!(matches!(again, Err(StoreError::Repeated)), "{again:?}");
    assert_eq!(store.app_records(scene.agent.id, Use::Installed).await.unwrap(), [new]);
}

async fn an_account_is_made_with_what_it_keeps_or_not_at_all(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, elsewhere) = (&scene.store, scene.open().await);
    let (first, second) =
        (store.reserve_account_id().await.unwrap(), elsewhere.reserve_account_id().await.unwrap());
    assert!(first > scene.other.id && second > first, "ids of one sequence, each given once");
    let make = async |id, name: &str, external: &str| {
        let plain = super::accounts::new(AccountType::Agent, &scene.organization, name);
        let integrations = vec![record(id, Use::Integration, "crm")];
        let external_id = Some(external.to_owned());
        let new = NewAccount { id: Some(id), integrations, external_id, ..plain };
        store.create_account(&new, 9, by(at(1))).await.unwrap()
    };
    let made = make(first, "one", "x").await;
    assert!(matches!(&made, AccountCreation::Account(made) if made.id == first), "{made:?}");
    let kept = elsewhere.app_records(first, Use::Integration).await.unwrap();
    assert_eq!(kept, [record(first, Use::Integration, "crm")]);
    assert_eq!(make(second, "two", "x").await, AccountCreation::ExternalIdTaken);
    assert_eq!(elsewhere.app_records(second, Use::Integration).await.unwrap(), []);
    // A reserved id that was not used is never given to another account.
    let plain = super::accounts::new(AccountType::Agent, &scene.organization, "three");
    let third = store.create_account(&plain, 9, by(at(2))).await.unwrap();
    assert!(matches!(&third, AccountCreation::Account(third) if third.id > second), "{third:?}");
}
