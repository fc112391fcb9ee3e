//! The tree as it is made, changed and listed.

use gatepost::app::tenancy::details as fields;
use gatepost::app::tenancy::record::account_record;
use gatepost::domain::account::{Account, AccountType, Details};
use gatepost::domain::audit::Deed;
use gatepost::domain::id::AccountId;
use gatepost::domain::policy::Mode;
use gatepost::store::{
    AccountCreation, AccountDeletion, AccountFilter, AccountList, AccountPage, AccountUpdate,
    AccountUpdated, NewAccount, Page, Store,
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::scene::{Kind, Scene, account, at, by, everything, subtree};

on_both! {
    the_plan_of_an_account_made_before_is_known_after_the_upgrade,
    an_organization_may_come_with_its_first_agent,
    a_name_elsewhere_is_unique_below_one_parent,
    names_elsewhere_at_once_are_given_once,
    an_update_changes_what_it_names_and_says_so,
    what_is_known_of_an_account_is_bounded,
    accounts_are_listed_within_their_scope_page_by_page,
    a_filter_lets_through_what_it_says,
}

fn details(value: Value) -> Details {
    value.as_object().unwrap().clone()
}

pub fn new(kind: AccountType, parent: &Account, name: &str) -> NewAccount {
    NewAccount::plain(kind, name, Some(parent.id), account_record)
}

async fn list(
    scene: &Scene,
    top: &Account,
    kind: AccountType,
    filter: AccountFilter,
) -> AccountList {
    let page = AccountPage { after: None, skip: 0, limit: 100 };
    scene.store.list_accounts(&subtree(top), kind, &filter, page, 1000).await.unwrap()
}

pub fn ids(accounts: &[Account]) -> Vec<AccountId> {
    accounts.iter().map(|account| account.id).collect()
}

async fn an_organization_may_come_with_its_first_agent(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, reseller) = (&scene.store, &scene.reseller);
    let organization = NewAccount {
        external_id: Some("o-1".into()),
        details: details(json!({ "email": "a@b.example" })),
        first_agent: Some("first".into()),
        ..new(AccountType::Organization, reseller, "new")
    };
    let made = store.create_account(&organization, 9, by(at(1))).await.unwrap();
    let AccountCreation::WithAgent(made) = made else { panic!("{made:?}") };
    let (organization, agent) = *made;
    assert_eq!((agent.name.as_str(), agent.kind), ("first", AccountType::Agent));
    assert_eq!((agent.parent, agent.created_at), (Some(organization.id), at(1)));
    assert_eq!(agent.lineage, organization.lineage.with(AccountType::Agent, agent.id));
    for made in [&organization, &agent] {
        assert_eq!(store.account(made.id).await.unwrap().as_ref(), Some(made));
    }
    let policy = store.policy(agent.id).await.unwrap().unwrap();
    assert_eq!(policy.mode, Mode::Allowlist);
    // Neither, where one cannot be.
    let before = store.accounts(None).await.unwrap();
    let again = NewAccount {
        external_id: Some("o-1".into()),
        first_agent: Some("first".into()),
        ..new(AccountType::Organization, reseller, "again")
    };
    let made = store.create_account(&again, 9, by(at(1))).await.unwrap();
    assert_eq!(made, AccountCreation::ExternalIdTaken);
    assert_eq!(store.accounts(None).await.unwrap(), before);
}

async fn a_name_elsewhere_is_unique_below_one_parent(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, stranger) = (&scene.store, scene.stranger().await);
    let called = |id: &str| AccountUpdate {
        external_id: Some(Some(id.to_owned())),
        ..AccountUpdate::default()
    };
    let call = async |account: &Account, id: &str| {
        store.update_account(account.id, &called(id), 99, by(at(1))).await.unwrap()
    };
    assert!(matches!(call(&scene.agent, "x").await, AccountUpdated::Account(_)));
    assert_eq!(call(&scene.other, "x").await, AccountUpdated::ExternalIdTaken);
    assert_eq!(store.account(scene.other.id).await.unwrap(), Some(scene.other.clone()));
    // Another parent is another matter, the same name again is none.
    assert!(matches!(call(&stranger, "x").await, AccountUpdated::Account(_)));
    assert!(matches!(call(&scene.agent, "x").await, AccountUpdated::Account(_)));
    let found = async |top: &Account, only: Option<&Account>| {
        let scope = match only {
            None => subtree(top),
            Some(agent) => subtree(top).only(vec![agent.id]),
        };
        ids(&store.accounts_by_external_id(&scope, "x", 9).await.unwrap())
    };
    assert_eq!(found(&scene.partner, None).await, [scene.agent.id, stranger.id]);
    for top in [&scene.reseller, &scene.organization, &scene.agent] {
        assert_eq!(found(top, None).await, [scene.agent.id]);
    }
    assert_eq!(found(&scene.other, None).await, []);
    assert_eq!(found(&scene.organization, Some(&scene.other)).await, []);
    assert_eq!(found(&scene.organization, Some(&scene.agent)).await, [scene.agent.id]);
    // The external id of a deleted account is free.
    assert_eq!(
        super::deletion::delete(store, &scene.agent, false).await,
        AccountDeletion::Done { below: 0 }
    );
    assert_eq!(found(&scene.organization, None).await, []);
    assert!(matches!(call(&scene.other, "x").await, AccountUpdated::Account(_)));
    let gone = AccountUpdate { external_id: Some(None), ..AccountUpdate::default() };
    store.update_account(scene.other.id, &gone, 99, by(at(1))).await.unwrap();
    assert_eq!(found(&scene.reseller, None).await, []);
}

async fn names_elsewhere_at_once_are_given_once(kind: Kind) {
    let scene = Scene::new(kind).await;
    let mut tasks = JoinSet::new();
    for number in 0..8 {
        let store = scene.open().await;
        let new = NewAccount {
            external_id: Some("same".into()),
            ..new(AccountType::Agent, &scene.organization, &format!("a{number}"))
        };
        tasks.spawn(async move { store.create_account(&new, 9, by(at(1))).await.unwrap() });
    }
    let made = tasks.join_all().await;
    let first = made.iter().filter(|one| matches!(one, AccountCreation::Account(_))).count();
    assert_eq!(first, 1, "{made:?}");
    assert_eq!(made.iter().filter(|one| **one == AccountCreation::ExternalIdTaken).count(), 7);
}

async fn an_update_changes_what_it_names_and_says_so(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, agent) = (&scene.store, &scene.agent);
    let update = AccountUpdate {
        name: Some("renamed".into()),
        external_id: Some(Some("x".into())),
        active: Some(false),
        details: details(json!({ "email": "a@b.example", "settings": { "a": 1, "b": [2] } })),
    };
    let updated = store.update_account(agent.id, &update, 999, by(at(1))).await.unwrap();
    let AccountUpdated::Account(after) = updated else { panic!("{updated:?}") };
    assert_eq!(store.account(agent.id).await.unwrap().as_ref(), Some(after.as_ref()));
    // It stays where it is, and what it is.
    let same = |one: &Account| (one.id, one.kind, one.parent, one.lineage, one.created_at);
    assert_eq!(same(&after), same(agent));
    assert_eq!((after.name.as_str(), after.username.as_str()), ("renamed", "desk"));
    let update = AccountUpdate {
        details: details(json!({ "email": null, "settings": { "a": null, "b": [3] } })),
        ..AccountUpdate::default()
    };
    let updated = store.update_account(agent.id, &update, 999, by(at(2))).await.unwrap();
    let AccountUpdated::Account(last) = updated else { panic!("{updated:?}") };
    assert_eq!(Value::Object(last.details.clone()), json!({ "settings": { "b": [3] } }));
    assert_eq!((last.name.as_str(), last.active), ("renamed", false));
    // A repeated update is no change.
    store.update_account(agent.id, &update, 999, by(at(3))).await.unwrap();
    let page = Page { limit: 2, ..everything() };
    let entries = store
        .audit(&subtree(agent), &gatepost::store::AuditFilter::default(), &page)
        .await
        .unwrap();
    let told: Vec<_> = entries.iter().map(|entry| (entry.deed, entry.at)).collect();
    assert_eq!(told, [(Deed::AccountUpdated, at(2)), (Deed::AccountUpdated, at(1))]);
    let changes = |place: usize| -> Vec<_> {
        let changes = entries[place].changes.iter();
        changes
            .map(|one| (one.field.as_str(), one.before.as_deref(), one.after.as_deref()))
            .collect()
    };
    assert_eq!(changes(0)[0], ("settings", None, None), "that it changed, and nothing of what");
    assert_eq!(changes(0)[1], ("email", Some("\"a@b.example\""), None));
    let first = changes(1);
    assert_eq!(first[0], ("name", Some("desk"), Some("renamed")));
    assert_eq!(first[1], ("externalAccountId", None, Some("x")));
    assert_eq!(first[2], ("active", Some("true"), Some("false")));
    let nobody = AccountId::new(9999).unwrap();
    let missing = store.update_account(nobody, &update, 999, by(at(3))).await.unwrap();
    assert_eq!(missing, AccountUpdated::Missing);
}

async fn what_is_known_of_an_account_is_bounded(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, agent) = (&scene.store, &scene.agent);
    let write = async |text: &str, most: usize| {
        let details = details(json!({ "description": text }));
        let update = AccountUpdate { details, ..AccountUpdate::default() };
        store.update_account(agent.id, &update, most, by(at(1))).await.unwrap()
    };
    let size = json!({ "description": "x".repeat(10) }).to_string().len();
    assert_eq!(write(&"x".repeat(11), size).await, AccountUpdated::TooLarge);
    assert_eq!(store.account(agent.id).await.unwrap(), Some(agent.clone()));
    assert!(matches!(write(&"x".repeat(10), size).await, AccountUpdated::Account(_)));
    // When the bound was lowered since, it may shrink.
    assert!(matches!(write(&"x".repeat(9), 1).await, AccountUpdated::Account(_)));
    assert_eq!(write(&"x".repeat(10), 1).await, AccountUpdated::TooLarge);
}

async fn accounts_are_listed_within_their_scope_page_by_page(kind: Kind) {
    let scene = Scene::new(kind).await;
    let stranger = scene.stranger().await;
    let (store, organization) = (&scene.store, &scene.organization);
    let mut agents = vec![scene.agent.id, scene.other.id];
    for number in 0..7 {
        let (parent, name) = (Some(organization.id), format!("a{number}"));
        agents.push(account(store, AccountType::Agent, parent, &name).await.id);
    }
    let every = AccountFilter::default();
    for (top, kind, expected) in [
        (&scene.partner, AccountType::Partner, vec![scene.partner.id]),
        (
            &scene.partner,
            AccountType::Reseller,
            vec![scene.reseller.id, stranger.lineage.reseller.unwrap()],
        ),
        (&scene.partner, AccountType::Agent, [&agents[..2], &[stranger.id], &agents[2..]].concat()),
        (&scene.reseller, AccountType::Organization, vec![organization.id]),
        (&scene.reseller, AccountType::Agent, agents.clone()),
        (organization, AccountType::Agent, agents.clone()),
        (organization, AccountType::Reseller, vec![]),
    ] {
        let found = list(&scene, top, kind, every.clone()).await;
        assert_eq!(ids(&found.accounts), expected, "{kind} below {}", top.name);
        assert_eq!((found.total, found.next), (expected.len() as u64, None));
    }
    let page = async |after, skip, limit, most| {
        let page = AccountPage { after, skip, limit };
        let scope = subtree(organization);
        store.list_accounts(&scope, AccountType::Agent, &every, page, most).await.unwrap()
    };
    // By number, and from one to the next.
    let second = page(None, 3, 3, 1000).await;
    assert_eq!((ids(&second.accounts), second.total), (agents[3..6].to_vec(), 9));
    let third = page(second.next, 0, 4, 1000).await;
    assert_eq!((ids(&third.accounts), third.next), (agents[6..].to_vec(), None));
    assert_eq!(page(None, 9, 3, 1000).await.accounts, []);
    // However few are looked at for one request, all are found in the end.
    let (mut found, mut after) = (Vec::new(), None);
    for _ in 0..9 {
        let next = page(after, 0, 3, 2).await;
        found.extend(ids(&next.accounts));
        after = next.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found, agents);
    // A restricted member sees its Agents, in totals too.
    let scope = subtree(organization).only(vec![scene.other.id, stranger.id]);
    let whole = AccountPage { after: None, skip: 0, limit: 100 };
    let mine = store.list_accounts(&scope, AccountType::Agent, &every, whole, 5).await.unwrap();
    assert_eq!((ids(&mine.accounts), mine.total), (vec![scene.other.id], 1));
}

async fn a_filter_lets_through_what_it_says(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = &scene.store;
    let make = async |name: &str, external_id: Option<&str>, known: Value, active: bool| {
        let new = NewAccount {
            external_id: external_id.map(Into::into),
            details: details(known),
            active,
            ..new(AccountType::Organization, &scene.reseller, name)
        };
        let made = store.create_account(&new, 9, by(at(active.into()))).await.unwrap();
        let AccountCreation::Account(made) = made else { panic!("{made:?}") };
        made.id
    };
    let known = json!({ "productPlanId": "gold", "servicePremium": true });
    let gold = make("100% GOLD", Some("e-1"), known, true).await;
    let known = json!({ "externalBillingId": "b-1", "servicePremium": false });
    let billed = make("100x_silver", Some("e-2"), known, false).await;
    let plain = scene.organization.id;
    // Settings with a NUL character, which would make the account unreadable for a search, are
    // refused; with any others the account is found.
    let nul = json!({ "a": [{ "b": "\u{0}" }] });
    fields::checked("settings", &nul).unwrap_err();
    let odd = json!({ "a": ["\n\"'\\u0000 \u{1f600}"], "": { "b": 1.5 } });
    let odd = json!({ "settings": fields::checked("settings", &odd).unwrap() });
    let update = AccountUpdate { details: details(odd), ..AccountUpdate::default() };
    let updated = store.update_account(plain, &update, 999, by(at(0))).await.unwrap();
    assert!(matches!(updated, AccountUpdated::Account(_)));
    let any = AccountFilter::default;
    for (filter, expected) in [
        (any(), vec![plain, gold, billed]),
        (AccountFilter { active: Some(true), ..any() }, vec![plain, gold]),
        (AccountFilter { active: Some(false), ..any() }, vec![billed]),
        (AccountFilter { text: Some("gold".into()), ..any() }, vec![gold]),
        (AccountFilter { text: Some("0% G".into()), ..any() }, vec![gold]),
        (AccountFilter { text: Some("x_S".into()), ..any() }, vec![billed]),
        (AccountFilter { text: Some("%".into()), ..any() }, vec![gold]),
        (AccountFilter { text: Some("' OR 1=1".into()), ..any() }, vec![]),
        (AccountFilter { since: Some(at(1)), ..any() }, vec![gold]),
        (AccountFilter { before: Some(at(1)), ..any() }, vec![plain, billed]),
        (AccountFilter { external_id: Some("e-2".into()), ..any() }, vec![billed]),
        (AccountFilter { plan: Some("gold".into()), ..any() }, vec![gold]),
        (AccountFilter { billing: Some("b-1".into()), ..any() }, vec![billed]),
        (AccountFilter { subscribed: Some(true), ..any() }, vec![gold]),
        (AccountFilter { subscribed: Some(false), ..any() }, vec![plain, billed]),
        (AccountFilter { subscribed: Some(false), active: Some(true), ..any() }, vec![plain]),
    ] {
        let found = list(&scene, &scene.reseller, AccountType::Organization, filter.clone()).await;
        assert_eq!(ids(&found.accounts), expected, "{filter:?}");
        assert_eq!(found.total, expected.len() as u64, "{filter:?}");
    }
}

async fn the_plan_of_an_account_made_before_is_known_after_the_upgrade(kind: Kind) {
    let scene = Scene::new(kind).await;
    let organization = scene.organization.id;
    let known = async |store: &Store| {
        let all = store.assigned_features(&scene.agent.lineage).await.unwrap();
        all.into_iter().map(|one| (one.account, one.plan)).filter(|one| one.1.is_some()).collect()
    };
    let plan = |name: &str| vec![(organization, Some(name.to_owned()))];
    let details = Details::from_iter([("productPlanId".to_owned(), json!("basic"))]);
    let update = AccountUpdate { details, ..AccountUpdate::default() };
    scene.store.update_account(organization, &update, 999, by(at(1))).await.unwrap();
    let found: Vec<_> = known(&scene.store).await;
    assert_eq!(found, plan("basic"));
    // As an older version left it; the name of a field, as a value, is no plan.
    for statement in [
        "ALTER TABLE accounts DROP COLUMN plan",
        "DELETE FROM _sqlx_migrations WHERE version = 17",
        "UPDATE accounts SET details = '{\"description\":\"\\\"productPlanId\\\"\"}' WHERE kind = 'account'",
    ] {
        scene.execute(statement).await;
    }
    let found: Vec<_> = known(&scene.open().await).await;
    assert_eq!(found, plan("basic"));
}
