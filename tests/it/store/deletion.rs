//! A deleted account does nothing any more, even for requests that run during the deletion.

use std::collections::BTreeSet;

use gatepost::app::tenancy::record::account_record;
use gatepost::domain::account::{Account, AccountType};
use gatepost::domain::audit::{Actor, Deed, Once};
use gatepost::domain::delivery::Subject;
use gatepost::domain::event::{Category, EventName};
use gatepost::domain::id::{KeyId, MemberId};
use gatepost::domain::key::{Key, KeyHash};
use gatepost::domain::policy::Mode;
use gatepost::store::{
    AccountCreation, AccountDeletion, AddressClaim, Claimed, Committed, KeyInsertion, NewAccount,
    Store, StoreError,
};
use serde_json::json;
use sqlx::Executor as _;
use tokio::task::JoinSet;

use super::accounts::{ids, new};
use super::scene::{
    Kind, Scene, account, address, address_claim, at, by, destination, domain_owner, everything,
    mint, own_address, subtree,
};
use super::silence::until_blocked;

on_both! {
    deleting_refuses_while_others_are_below,
    what_is_deleted_does_nothing_any_more,
    whoever_listens_above_hears_of_it,
    nothing_is_done_to_what_is_being_deleted,
    a_request_is_remembered_once_however_many_it_touches,
    a_policy_of_a_deleted_agent_is_not_changed,
}

pub async fn delete(store: &Store, account: &Account, cascade: bool) -> AccountDeletion {
    let deleting = store.delete_account(account.id, cascade, 50, account_record, by(at(9)));
    deleting.await.unwrap()
}

fn key(account: &Account, octet: u8) -> (Key, KeyHash) {
    let key = Key {
        id: KeyId(mint().uuid()),
        account: account.id,
        member: None,
        purpose: "test".into(),
        last_four: "abcd".into(),
        created_at: at(0),
        expires_at: None,
        last_used_at: None,
        revoked_at: None,
        worker_job: None,
        mcp_changes: false,
    };
    (key, KeyHash([octet; 32]))
}

async fn deleting_refuses_while_others_are_below(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, stranger) = (&scene.store, scene.stranger().await);
    let before = store.accounts(None).await.unwrap();
    assert_eq!(delete(store, &scene.organization, false).await, AccountDeletion::HasOthersBelow(2));
    assert_eq!(delete(store, &scene.reseller, false).await, AccountDeletion::HasOthersBelow(3));
    for cascade in [false, true] {
        assert_eq!(delete(store, &scene.partner, cascade).await, AccountDeletion::IsPartner);
    }
    let most =
        |most| store.delete_account(scene.reseller.id, true, most, account_record, by(at(9)));
    assert_eq!(most(2).await.unwrap(), AccountDeletion::HasOthersBelow(3));
    assert_eq!(store.accounts(None).await.unwrap(), before);
    scene.execute("UPDATE accounts SET details = '{\"email\":\"a@b.example\"}'").await;
    assert_eq!(most(3).await.unwrap(), AccountDeletion::Done { below: 3 });
    let known = "SELECT COUNT(deleted_at) * 100 + COUNT(*) FROM accounts WHERE details IS NOT NULL";
    assert_eq!(scene.count(known).await, 4, "theirs are gone for good, nobody else's");
    assert_eq!(most(3).await.unwrap(), AccountDeletion::Missing);
    let left = ids(&store.accounts(None).await.unwrap());
    let theirs: Vec<_> = stranger.lineage.ids().collect();
    assert_eq!(left, theirs, "nothing else went");
    // No id is given twice.
    let new = account(store, AccountType::Reseller, Some(scene.partner.id), "new").await;
    assert!(new.id > stranger.id);
}

async fn what_is_deleted_does_nothing_any_more(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, elsewhere) = (&scene.store, scene.open().await);
    let stranger = scene.stranger().await;
    for (octet, account) in [(1, &scene.organization), (2, &scene.agent), (3, &stranger)] {
        let (key, hash) = key(account, octet);
        store.insert_key(&key, hash, 9, by(at(0))).await.unwrap();
    }
    for account in [&scene.organization, &scene.agent, &stranger] {
        scene.listen(account, Category::Incoming, "https://a.example/").await;
    }
    let member = MemberId::new(77_777).unwrap();
    let invited = format!(
        "INSERT INTO members (id, account_id, email, role, permitted, created_at)
         VALUES ({member}, {}, 'a@b.example', 'admin', '[]', 0)",
        scene.organization.id
    );
    scene.execute(invited.leak()).await;
    assert!(elsewhere.member(member).await.unwrap().is_some());
    let (own, theirs) = (own_address(&scene.agent), own_address(&stranger));
    let under_way = scene.intake(&scene.agent, 0).await;
    scene.deliver(&scene.agent, 0).await;
    assert_eq!(delete(store, &scene.organization, true).await, AccountDeletion::Done { below: 2 });

    // On another gateway as well, from the commit on.
    for account in [&scene.organization, &scene.agent, &scene.other] {
        assert_eq!(elsewhere.account(account.id).await.unwrap(), None);
        assert!(!elsewhere.is_active(account).await.unwrap());
        assert_eq!(elsewhere.destinations(account.id).await.unwrap(), []);
        assert_eq!(elsewhere.addresses(account.id).await.unwrap(), []);
    }
    assert_eq!(
        elsewhere.account_even_deleted(scene.agent.id).await.unwrap(),
        Some(scene.agent.clone())
    );
    assert_eq!(elsewhere.member(member).await.unwrap(), None);
    for octet in [1, 2] {
        assert_eq!(elsewhere.key_holder(KeyHash([octet; 32])).await.unwrap(), None);
    }
    assert_eq!(elsewhere.look_up(Some(&own), None).await.unwrap().answering, None);
    assert_eq!(domain_owner(&elsewhere, own.domain()).await, None);
    let standing = scene.standing(&scene.agent, &own, "alice@good.example").await;
    assert!(!standing.answers && !standing.active);
    let asked = elsewhere.addressed(scene.agent.id, &own, &own).await.unwrap().unwrap();
    assert_eq!((asked.lineage, asked.standing), (scene.agent.lineage, standing));
    // A message decided before the deletion is not stored: it must be decided again.
    assert_eq!(scene.commit(vec![under_way], 9).await, Committed::Stale);
    // Nothing of it is claimed, and it is cancelled by and by, one destination at a time.
    for _ in 0..2 {
        assert!(elsewhere.claim_deliveries(at(9), at(99), 9, &[]).await.unwrap().is_empty());
    }
    let pending = "SELECT COUNT(*) FROM deliveries WHERE state = 'pending'";
    assert_eq!(scene.count(pending).await, 0);
    let entries = store
        .audit(&subtree(&scene.partner), &gatepost::store::AuditFilter::default(), &everything())
        .await
        .unwrap();
    let told: Vec<_> = entries.iter().filter(|entry| entry.deed == Deed::AccountDeleted).collect();
    let told: BTreeSet<_> = told.iter().flat_map(|entry| entry.lineage.ids().last()).collect();
    let gone = [&scene.organization, &scene.agent, &scene.other];
    assert_eq!(told, gone.map(|account| account.id).into_iter().collect());

    assert!(elsewhere.is_active(&stranger).await.unwrap());
    assert!(elsewhere.key_holder(KeyHash([3; 32])).await.unwrap().is_some());
    let answering = elsewhere.look_up(Some(&theirs), None).await.unwrap().answering;
    assert_eq!(answering.map(|found| found.agent), Some(stranger.id));
    scene.deliver(&stranger, 10).await;
    // The address and the domain are free for others.
    let claim = AddressClaim { domain_for: stranger.parent, ..address_claim(&stranger, &own) };
    assert_eq!(store.claim_address(&claim, by(at(9))).await.unwrap(), Claimed::Yes);
}

async fn whoever_listens_above_hears_of_it(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = &scene.store;
    for account in [&scene.partner, &scene.organization, &scene.agent] {
        scene.listen(account, Category::Onboarding, "https://a.example/").await;
    }
    scene.listen(&scene.partner, Category::Incoming, "https://a.example/").await;
    scene.deliver(&scene.agent, 0).await;
    let fresh = account(store, AccountType::Agent, Some(scene.organization.id), "fresh").await;
    delete(store, &scene.organization, true).await;
    let claims = store.claim_deliveries(at(99), at(100), 99, &[]).await.unwrap();
    let told: Vec<_> = claims
        .iter()
        .map(|claim| {
            assert_eq!(claim.destination.account, scene.partner.id);
            let subject = match &claim.subject {
                Subject::Told(told) => told["account"]["id"].as_i64(),
                _ => None,
            };
            (claim.event.name, subject)
        })
        .collect();
    let deleted = |account: &Account| (EventName::AccountDeleted, Some(account.id.get()));
    let mut expected = vec![
        // The event from before the deletion is still delivered.
        (EventName::EmailReceived, None),
        (EventName::AccountCreated, Some(fresh.id.get())),
        deleted(&fresh),
        deleted(&scene.other),
        deleted(&scene.agent),
        deleted(&scene.organization),
    ];
    let mut told = told;
    told.sort();
    expected.sort();
    assert_eq!(told, expected);
    let of_fresh = claims.iter().find_map(|claim| match &claim.subject {
        Subject::Told(told) if claim.event.name == EventName::AccountCreated => Some(told.clone()),
        _ => None,
    });
    assert_eq!(of_fresh, Some(json!({ "account": account_record(&fresh) })));
}

/// A change beside the deletion is made first and deleted with the rest, or refused.
async fn nothing_is_done_to_what_is_being_deleted(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, gateway) = (&scene.store, scene.open().await);
    for round in 0..6_u8 {
        let parent = Some(scene.reseller.id);
        let organization = account(store, AccountType::Organization, parent, "o").await;
        let agent = account(store, AccountType::Agent, Some(organization.id), "a").await;
        let mut tasks = JoinSet::new();
        let (one, org, doomed) = (gateway.clone(), organization.clone(), agent.clone());
        tasks.spawn(async move {
            let (key, hash) = key(&doomed, 100 + round);
            drop(one.insert_key(&key, hash, 9, by(at(1))).await);
            let hook = destination(doomed.id, Category::Agent, "https://a.example/");
            drop(one.insert_destination(&hook, 9, by(at(1))).await);
            let desk = address(&format!("desk@r{round}.example"));
            let claim = AddressClaim { domain_for: Some(org.id), ..address_claim(&doomed, &desk) };
            drop(one.claim_address(&claim, by(at(1))).await);
            for number in 0..3 {
                let new = new(AccountType::Agent, &org, &format!("late{number}"));
                drop(one.create_account(&new, 9, by(at(1))).await);
            }
        });
        let (two, doomed) = (store.clone(), organization.clone());
        tasks.spawn(async move {
            assert!(matches!(delete(&two, &doomed, true).await, AccountDeletion::Done { .. }));
        });
        tasks.join_all().await;
        let (below, all) = (organization.id, scene.partner.id);
        let count = async |sql: String| scene.count(sql.leak()).await;
        let alive =
            format!("deleted_at IS NULL AND partner_id = {all} AND organization_id = {below}");
        assert_eq!(count(format!("SELECT COUNT(*) FROM accounts WHERE {alive}")).await, 0);
        let theirs = format!("(SELECT id FROM accounts WHERE organization_id = {below})");
        for left in [
            "keys WHERE revoked_at IS NULL AND account_id",
            "addresses WHERE agent_id",
            "destinations WHERE removed_at IS NULL AND account_id",
            "domains WHERE account_id",
        ] {
            let sql = format!("SELECT COUNT(*) FROM {left} IN {theirs}");
            assert_eq!(count(sql).await, 0, "{left}");
        }
        let late = key(&agent, 200);
        let refused = store.insert_key(&late.0, late.1, 9, by(at(2))).await;
        assert!(matches!(refused, Ok(KeyInsertion::NoOwner)), "{refused:?}");
    }
}

async fn a_request_is_remembered_once_however_many_it_touches(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = &scene.store;
    let once = |octet: u8| Actor {
        request: Some(uuid::Uuid::from_u128(octet.into())),
        once: Some(Once { digest: [octet; 32], request: [0; 32], until: at(9) }),
        ..Actor::OPERATOR
    };
    let (create, remove) = (once(1), once(2));
    let new = NewAccount {
        first_agent: Some("first".into()),
        ..new(AccountType::Organization, &scene.reseller, "new")
    };
    let made = store.create_account(&new, 9, create.at(at(1))).await.unwrap();
    let AccountCreation::WithAgent(made) = made else { panic!("{made:?}") };
    let later = Actor { request: Some(uuid::Uuid::from_u128(9)), ..create.clone() };
    let again = store.create_account(&new, 9, later.at(at(2))).await;
    assert!(matches!(again, Err(StoreError::Repeated)), "{again:?}");
    let id = made.0.id;
    let deleting = store.delete_account(id, true, 9, account_record, remove.at(at(3)));
    assert_eq!(deleting.await.unwrap(), AccountDeletion::Done { below: 1 });
}

/// Nor by a request that would leave it as it is.
async fn a_policy_of_a_deleted_agent_is_not_changed(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (elsewhere, me) = (scene.open().await, scene.agent.id);
    let [alice, bob] = ["alice@good.example", "bob@good.example"].map(|text| [address(text)]);
    elsewhere.allow_senders(me, &alice, None, 9, by(at(0))).await.unwrap();
    delete(&scene.store, &scene.agent, false).await;
    for mode in [Mode::Open, Mode::Allowlist] {
        let refused = elsewhere.set_mode(me, mode, by(at(10))).await;
        assert!(matches!(refused, Err(StoreError::NoAccount)), "{mode}: {refused:?}");
    }
    let refused = elsewhere.allow_senders(me, &alice, None, 9, by(at(10))).await;
    assert!(matches!(refused, Err(StoreError::NoAccount)), "{refused:?}");
    let refused = elsewhere.remove_senders(me, &bob, by(at(10))).await;
    assert!(matches!(refused, Err(StoreError::NoAccount)), "{refused:?}");
}

/// A change that waits for the gate finds the Agent deleted behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_policy_is_not_changed_behind_a_deletion_that_is_under_way() {
    let scene = Scene::new(Kind::Postgres).await;
    let (store, me) = (scene.store.clone(), scene.agent.id);
    let mut deletion = scene.postgres().await;
    let delete = format!(
        "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('account', {me}));
         UPDATE accounts SET deleted_at = 1 WHERE id = {me}"
    );
    deletion.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(delete))).await.unwrap();
    let changing = tokio::spawn(async move { store.set_mode(me, Mode::Open, by(at(1))).await });
    until_blocked(&scene, 1).await;
    deletion.execute("COMMIT").await.unwrap();
    let refused = changing.await.unwrap();
    assert!(matches!(refused, Err(StoreError::NoAccount)), "{refused:?}");
}
