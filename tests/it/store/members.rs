//! Members: who is one, what restricts it, and who must stay.

use std::collections::BTreeSet;

use gatepost::domain::account::Account;
use gatepost::domain::event::Category;
use gatepost::domain::id::{AccountId, LARGEST_USER_ID, MemberId};
use gatepost::domain::member::{Member, Role};
use gatepost::store::{AuditFilter, MemberChange, MemberOutcome, MemberTarget, NewMember, Store};
use serde_json::json;
use tokio::task::JoinSet;

use super::keys::{keep, key};
use super::scene::{Kind, Scene, address, at, by, everything, subtree};

on_both! {
    a_member_is_made_told_changed_and_removed,
    an_id_is_of_an_account_or_of_a_member_of_one,
    an_address_is_one_members_of_an_account_at_a_time,
    who_manages_one_agent_changes_nobody_who_acts_on_more,
    a_list_of_agents_holds_agents_below_the_account,
    a_list_of_agents_is_not_shortened_by_deleting_them,
    the_last_administrator_stays,
    of_two_who_remove_each_other_one_stays,
    an_account_has_a_bounded_number_of_members,
}

fn new(account: &Account, email: &str, role: Role, permitted: &[&Account]) -> NewMember {
    let permitted = ids(permitted);
    NewMember { account: account.id, email: address(email), role, permitted }
}

fn ids(accounts: &[&Account]) -> BTreeSet<AccountId> {
    accounts.iter().map(|account| account.id).collect()
}

async fn insert(store: &Store, new: &NewMember) -> MemberOutcome {
    let told = |member: &Member| json!({ "member": member.id.get() });
    store.insert_member(new, 9, &told, by(at(0))).await.unwrap()
}

fn done(membership: MemberOutcome) -> Member {
    match membership {
        MemberOutcome::Done(member) => *member,
        refused => panic!("{refused:?}"),
    }
}

/// An administrator of this account, restricted to these Agents.
pub async fn member(scene: &Scene, account: &Account, email: &str, only: &[&Account]) -> Member {
    done(insert(&scene.store, &new(account, email, Role::Admin, only)).await)
}

async fn an_id_is_of_an_account_or_of_a_member_of_one(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, organization) = (&scene.store, &scene.organization);
    let one = member(&scene, organization, "a@good.example", &[&scene.agent]).await;
    let other = member(&scene, organization, "b@good.example", &[]).await;
    let of = async |id: i64| {
        let id = AccountId::new(id).unwrap();
        let found = store.account_or_member(id).await.unwrap();
        let shared = tokio::join!(
            store.account_or_member_with_others(id),
            store.account_or_member_with_others(scene.partner.id)
        );
        assert_eq!(shared.0.unwrap(), found);
        assert_eq!(shared.1.unwrap().unwrap().0, scene.partner);
        found
    };
    for account in [&scene.partner, &scene.reseller, organization, &scene.agent] {
        assert_eq!(of(account.id.get()).await, Some((account.clone(), None)));
    }
    for member in [&one, &other] {
        let expected = Some((organization.clone(), Some(member.clone())));
        assert_eq!(of(member.id.get()).await, expected);
    }
    assert_eq!(of(LARGEST_USER_ID).await, None);
    store.remove_member(one.id, by(at(1))).await.unwrap();
    assert_eq!(of(one.id.get()).await, None);
    scene.execute("UPDATE accounts SET deleted_at = 1 WHERE name = 'organization'").await;
    assert_eq!((of(organization.id.get()).await, of(other.id.get()).await), (None, None));
}

async fn a_member_is_made_told_changed_and_removed(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, organization) = (&scene.store, &scene.organization);
    for account in [organization, &scene.partner] {
        scene.listen(account, Category::Onboarding, "https://a.example/").await;
    }
    scene.listen(&scene.agent, Category::Onboarding, "https://b.example/").await;
    let made = new(organization, "Anna@Good.Example", Role::Member, &[&scene.agent]);
    let made = done(insert(store, &made).await);
    assert_eq!(made.email, address("anna@good.example"));
    assert_eq!((made.account, made.lineage), (organization.id, organization.lineage));
    assert_eq!((made.role, &made.permitted[..]), (Role::Member, &[scene.agent.id][..]));
    // Ids of members, accounts and contacts are of one sequence.
    assert_eq!(store.account(AccountId::new(made.id.get()).unwrap()).await.unwrap(), None);
    assert_eq!(store.member(made.id).await.unwrap(), Some(made.clone()));
    assert_eq!(store.members(organization.id).await.unwrap(), std::slice::from_ref(&made));
    assert_eq!(store.members(scene.reseller.id).await.unwrap(), []);
    let told = format!(
        "SELECT COUNT(*) FROM deliveries JOIN events ON events.id = event_id
         WHERE names = 'member.invited' AND told = '{{\"member\":{}}}'",
        made.id
    );
    assert_eq!(scene.count(told.leak()).await, 2, "its organization and its partner hear of it");

    let change = MemberChange {
        email: Some(address("eva@good.example")),
        role: Some(Role::Admin),
        permitted: Some(BTreeSet::new()),
    };
    let changed = done(store.update_member(made.id, &change, by(at(1))).await.unwrap());
    assert!(changed.is_unrestricted_administrator());
    assert_eq!(store.member(made.id).await.unwrap(), Some(changed.clone()));
    let same = store.update_member(made.id, &MemberChange::default(), by(at(2))).await.unwrap();
    assert_eq!(done(same), changed);

    member(&scene, organization, "boss@good.example", &[]).await;
    keep(store, &key(organization, Some(made.id)), 1).await;
    assert_eq!(done(store.remove_member(made.id, by(at(3))).await.unwrap()), changed);
    assert_eq!(store.member(made.id).await.unwrap(), None);
    let revoked = store.keys(organization.id).await.unwrap();
    assert_eq!(revoked[0].revoked_at, Some(at(3)));
    let gone = MemberOutcome::NoMember;
    assert_eq!(store.remove_member(made.id, by(at(4))).await.unwrap(), gone);
    assert_eq!(store.update_member(made.id, &change, by(at(4))).await.unwrap(), gone);

    let log =
        store.audit(&subtree(organization), &AuditFilter::default(), &everything()).await.unwrap();
    let id = made.id.to_string();
    let of_it: Vec<_> = log.iter().rev().filter(|entry| entry.object == id).collect();
    let deeds: Vec<_> = of_it.iter().map(|entry| entry.deed.as_str()).collect();
    assert_eq!(deeds, ["member.invited", "member.updated", "member.removed"]);
    let fields: Vec<_> = of_it[1].changes.iter().map(|change| change.field.as_str()).collect();
    assert_eq!(fields, ["email", "role", "permittedAccountIds"]);
}

async fn an_address_is_one_members_of_an_account_at_a_time(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, organization) = (&scene.store, &scene.organization);
    let mut tasks = JoinSet::new();
    for email in ["anna@good.example", "ANNA@good.example", "anna@GOOD.example"] {
        let (store, new) = (scene.open().await, new(organization, email, Role::Admin, &[]));
        tasks.spawn(async move { insert(&store, &new).await });
    }
    let ended = tasks.join_all().await;
    let taken = ended.iter().filter(|one| **one == MemberOutcome::EmailTaken).count();
    assert_eq!(taken, 2, "{ended:?}");
    let anna = store.members(organization.id).await.unwrap()[0].id;
    let eva = member(&scene, organization, "eva@good.example", &[]).await.id;
    let change =
        MemberChange { email: Some(address("Anna@good.example")), ..MemberChange::default() };
    let refused = store.update_member(eva, &change, by(at(1))).await.unwrap();
    assert_eq!(refused, MemberOutcome::EmailTaken);
    done(store.update_member(anna, &change, by(at(1))).await.unwrap());
    // Elsewhere it is free, and here once she is gone.
    member(&scene, &scene.reseller, "anna@good.example", &[]).await;
    done(store.remove_member(anna, by(at(2))).await.unwrap());
    member(&scene, organization, "anna@good.example", &[]).await;
}

async fn who_manages_one_agent_changes_nobody_who_acts_on_more(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, organization, agent) = (&scene.store, &scene.organization, scene.agent.id);
    let one = member(&scene, organization, "a@good.example", &[&scene.agent]).await.id;
    let target = MemberTarget { id: one, agent: Some(agent) };
    let change =
        |list: &[&Account]| MemberChange { permitted: Some(ids(list)), ..MemberChange::default() };
    let acts_on_more = MemberOutcome::ActsOnMore(organization.id);
    let wider = change(&[&scene.agent, &scene.other]);
    assert_eq!(store.update_member(target, &wider, by(at(1))).await.unwrap(), acts_on_more);
    done(store.update_member(target, &change(&[&scene.agent]), by(at(1))).await.unwrap());
    // Her organization gives her another Agent, after the caller has looked at her.
    done(store.update_member(one, &wider, by(at(2))).await.unwrap());
    let narrower = change(&[&scene.agent]);
    assert_eq!(store.update_member(target, &narrower, by(at(3))).await.unwrap(), acts_on_more);
    assert_eq!(store.remove_member(target, by(at(3))).await.unwrap(), acts_on_more);
    done(store.update_member(one, &narrower, by(at(4))).await.unwrap());
    done(store.remove_member(target, by(at(5))).await.unwrap());
}

async fn a_list_of_agents_holds_agents_below_the_account(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, organization) = (&scene.store, &scene.organization);
    let stranger = scene.stranger().await;
    let someone = member(&scene, organization, "a@good.example", &[&scene.other]).await.id;
    for foreign in [&stranger, organization, &scene.reseller] {
        let list = [&scene.agent, foreign];
        let refused = insert(store, &new(organization, "b@good.example", Role::Admin, &list)).await;
        assert_eq!(refused, MemberOutcome::NotAnAgent(foreign.id));
        let change = MemberChange { permitted: Some(ids(&list)), ..MemberChange::default() };
        let refused = store.update_member(someone, &change, by(at(1))).await.unwrap();
        assert_eq!(refused, MemberOutcome::NotAnAgent(foreign.id));
    }
    // An unknown id, and a member's id.
    for id in [AccountId::new(9999).unwrap(), AccountId::new(someone.get()).unwrap()] {
        let permitted = Some(BTreeSet::from([id]));
        let change = MemberChange { permitted, ..MemberChange::default() };
        let refused = store.update_member(someone, &change, by(at(1))).await.unwrap();
        assert_eq!(refused, MemberOutcome::NotAnAgent(id));
    }
    let untouched = store.member(someone).await.unwrap().unwrap();
    assert_eq!(untouched.permitted, [scene.other.id]);
    member(&scene, &scene.reseller, "c@good.example", &[&scene.agent]).await;
    member(&scene, &scene.partner, "d@good.example", &[&stranger, &scene.agent]).await;
    // Agents have no members of their own.
    for nowhere in [scene.agent.id, AccountId::new(9999).unwrap()] {
        let new =
            NewMember { account: nowhere, ..new(organization, "e@good.example", Role::Admin, &[]) };
        assert_eq!(insert(store, &new).await, MemberOutcome::NoAccount);
    }
}

/// Contract §4: deleting an Agent never shortens a list. An emptied one would restrict nothing.
async fn a_list_of_agents_is_not_shortened_by_deleting_them(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = &scene.store;
    let someone = member(&scene, &scene.organization, "a@good.example", &[&scene.agent]).await;
    scene.execute("UPDATE accounts SET deleted_at = 1 WHERE name = 'desk'").await;
    let kept = store.member(someone.id).await.unwrap().unwrap();
    assert_eq!(kept.permitted, [scene.agent.id]);
    keep(store, &key(&scene.organization, Some(someone.id)), 1).await;
    let hash = gatepost::domain::key::KeyHash([1; 32]);
    let holder = store.key_holder(hash).await.unwrap().unwrap();
    assert_eq!(holder.member.unwrap().permitted, [scene.agent.id]);
    // An Agent that was in the list may stay; an added one must exist.
    let change = |accounts: &[&Account]| MemberChange {
        permitted: Some(ids(accounts)),
        ..MemberChange::default()
    };
    let both = change(&[&scene.agent, &scene.other]);
    let changed = done(store.update_member(someone.id, &both, by(at(1))).await.unwrap());
    assert_eq!(changed.permitted, [scene.agent.id, scene.other.id]);
    let one = change(&[&scene.other]);
    done(store.update_member(someone.id, &one, by(at(2))).await.unwrap());
    let refused = store.update_member(someone.id, &both, by(at(3))).await.unwrap();
    assert_eq!(refused, MemberOutcome::NotAnAgent(scene.agent.id));
}

async fn the_last_administrator_stays(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, organization) = (&scene.store, &scene.organization);
    let boss = member(&scene, organization, "boss@good.example", &[]).await.id;
    // None of these could take its place.
    let restricted = member(&scene, organization, "a@good.example", &[&scene.agent]).await.id;
    done(insert(store, &new(organization, "b@good.example", Role::Member, &[])).await);
    member(&scene, &scene.reseller, "c@good.example", &[]).await;
    let demote = MemberChange { role: Some(Role::Member), ..MemberChange::default() };
    let restrict =
        MemberChange { permitted: Some(ids(&[&scene.agent])), ..MemberChange::default() };
    let refused = MemberOutcome::LastAdministrator;
    assert_eq!(store.remove_member(boss, by(at(1))).await.unwrap(), refused);
    for change in [&demote, &restrict] {
        assert_eq!(store.update_member(boss, change, by(at(1))).await.unwrap(), refused);
    }
    let promote = MemberChange { permitted: Some(BTreeSet::new()), ..MemberChange::default() };
    done(store.update_member(restricted, &promote, by(at(2))).await.unwrap());
    done(store.update_member(boss, &demote, by(at(3))).await.unwrap());
    assert_eq!(store.remove_member(restricted, by(at(4))).await.unwrap(), refused);
    done(store.remove_member(boss, by(at(4))).await.unwrap());
}

async fn of_two_who_remove_each_other_one_stays(kind: Kind) {
    let scene = Scene::new(kind).await;
    let demote = MemberChange { role: Some(Role::Member), ..MemberChange::default() };
    let (one, other) = (scene.open().await, scene.open().await);
    for round in 0..10 {
        let mut pair: Vec<MemberId> = Vec::new();
        for name in ["a", "b"] {
            let email = format!("{name}{round}@good.example");
            pair.push(member(&scene, &scene.reseller, &email, &[]).await.id);
        }
        let before: Vec<_> = scene.store.members(scene.reseller.id).await.unwrap();
        for older in before.iter().filter(|member| !pair.contains(&member.id)) {
            done(scene.store.remove_member(older.id, by(at(0))).await.unwrap());
        }
        let (first, second) = tokio::join!(
            one.remove_member(pair[0], by(at(1))),
            other.update_member(pair[1], &demote, by(at(1))),
        );
        let ended = [first.unwrap(), second.unwrap()];
        let refused = ended.iter().filter(|one| **one == MemberOutcome::LastAdministrator).count();
        assert_eq!(refused, 1, "{ended:?}");
        let left = scene.store.members(scene.reseller.id).await.unwrap();
        let left = left.iter().filter(|one| one.is_unrestricted_administrator()).count();
        assert_eq!(left, 1);
    }
}

async fn an_account_has_a_bounded_number_of_members(kind: Kind) {
    let scene = Scene::new(kind).await;
    let told = |_: &Member| json!({});
    let mut tasks = JoinSet::new();
    for number in 0..6 {
        let email = format!("m{number}@good.example");
        let new = new(&scene.organization, &email, Role::Member, &[]);
        let store = scene.open().await;
        tasks.spawn(async move { store.insert_member(&new, 2, &told, by(at(0))).await.unwrap() });
    }
    let ended = tasks.join_all().await;
    let refused = ended.iter().filter(|one| **one == MemberOutcome::TooMany).count();
    assert_eq!(refused, 4, "{ended:?}");
    assert_eq!(scene.store.members(scene.organization.id).await.unwrap().len(), 2);
}
