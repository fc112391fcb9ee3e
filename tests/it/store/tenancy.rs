//! Accounts, keys, addresses, policies.

use gatepost::app::tenancy::record::account_record;
use gatepost::domain::account::AccountType;
use gatepost::domain::address::Address;
use gatepost::domain::id::AccountId;
use gatepost::domain::policy::Mode;
use gatepost::store::{AccountCreation, AddressClaim, AnswersBy, Claimed, HeldAddress, NewAccount};
use tokio::task::JoinSet;

use super::scene::{Kind, Scene, address, at, by, domain_owner, own_address};

on_both! {
    an_account_hangs_below_the_level_directly_above,
    an_account_works_while_it_and_all_above_are_active,
    an_address_has_one_agent_and_a_domain_one_catch_all,
    an_agent_is_made_with_its_addresses_or_not_at_all,
    an_agent_has_a_bounded_number_of_addresses,
    an_allowlist_is_bounded_and_every_change_of_it_raises_the_version,
    who_asks_beside_others_hears_of_the_own_recipient,
}

/// Each of many questions in one statement gets the answer for its own Agent and sender.
async fn who_asks_beside_others_hears_of_the_own_recipient(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (listed, unlisted) = (address("alice@good.example"), address("bob@good.example"));
    let allowed = std::slice::from_ref(&listed);
    scene.store.allow_senders(scene.agent.id, allowed, None, 9, by(at(1))).await.unwrap();
    let mut asking = JoinSet::new();
    for number in 0..60 {
        let (store, agents) = (scene.store.clone(), [scene.agent.clone(), scene.other.clone()]);
        let sender = if number % 3 == 0 { &listed } else { &unlisted }.clone();
        asking.spawn(async move {
            let agent = &agents[number % 2];
            let heard = store.addressed(agent.id, &own_address(agent), &sender).await;
            let heard = heard.unwrap().unwrap();
            assert_eq!((heard.lineage, &heard.username), (agent.lineage, &agent.username));
            assert_eq!(heard.standing.listed, number % 6 == 0, "{number}");
            assert!(heard.standing.answers && heard.standing.active);
        });
    }
    asking.join_all().await;
    let nobody = AccountId::new(9999).unwrap();
    assert_eq!(scene.store.addressed(nobody, &listed, &listed).await.unwrap(), None);
    let no_agent = scene.store.addressed(scene.organization.id, &listed, &listed).await;
    assert_eq!(no_agent.unwrap(), None);
}

async fn an_account_hangs_below_the_level_directly_above(kind: Kind) {
    let scene = Scene::new(kind).await;
    let kinds = [
        AccountType::Partner,
        AccountType::Reseller,
        AccountType::Organization,
        AccountType::Agent,
    ];
    let parents = [
        None,
        Some(scene.partner.id),
        Some(scene.reseller.id),
        Some(scene.organization.id),
        Some(scene.agent.id),
        AccountId::new(9999),
    ];
    for (level, kind) in kinds.into_iter().enumerate() {
        for (place, parent) in parents.into_iter().enumerate() {
            let new = NewAccount::plain(kind, "x", parent, account_record);
            let made = scene.store.create_account(&new, 9, by(at(0))).await;
            // The scene has its partner, and a store has one.
            let as_it_should = match &made {
                Ok(AccountCreation::Account(_)) => place == level && level > 0,
                Ok(AccountCreation::HasPartner) => place == level && level == 0,
                Ok(AccountCreation::NoParent) => place != level,
                _ => false,
            };
            assert!(as_it_should, "{kind} below {parent:?}: {made:?}");
        }
    }
    let lineage = scene.agent.lineage;
    assert_eq!(
        lineage.ids().collect::<Vec<_>>(),
        [scene.partner.id, scene.reseller.id, scene.organization.id, scene.agent.id]
    );
    let store = &scene.store;
    assert_eq!(store.account(scene.agent.id).await.unwrap(), Some(scene.agent.clone()));
    let all = store.accounts(None).await.unwrap();
    assert!(all.is_sorted_by_key(|account| account.id));
    let agents = store.accounts(Some(AccountType::Agent)).await.unwrap();
    assert!(agents.len() >= 2 && agents.iter().all(|one| one.kind == AccountType::Agent));
    let policy = store.policy(agents.last().unwrap().id).await.unwrap().unwrap();
    assert_eq!((policy.mode, policy.allowlist_count), (Mode::Allowlist, 0));
    assert_eq!(store.policy(scene.organization.id).await.unwrap(), None);
}

async fn an_account_works_while_it_and_all_above_are_active(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = &scene.store;
    for id in [scene.partner.id, scene.reseller.id, scene.organization.id, scene.agent.id] {
        assert!(store.is_active(&scene.agent).await.unwrap());
        assert!(store.set_active(id, false, by(at(0))).await.unwrap());
        assert!(!store.is_active(&scene.agent).await.unwrap(), "{id}");
        assert!(store.set_active(id, true, by(at(0))).await.unwrap());
    }
    assert!(!store.set_active(AccountId::new(9999).unwrap(), false, by(at(0))).await.unwrap());
    store.set_active(scene.agent.id, false, by(at(0))).await.unwrap();
    assert!(store.is_active(&scene.other).await.unwrap());
}

async fn an_address_has_one_agent_and_a_domain_one_catch_all(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, me, other) = (&scene.store, &scene.agent, &scene.other);
    let stranger = scene.stranger().await;
    let (desk, shop) = (own_address(me), own_address(other));
    let claim = async |agent, address, catch_all, domain_for| {
        let claim = AddressClaim { agent, address, catch_all, domain_for, most: 9 };
        store.claim_address(&claim, by(at(0))).await.unwrap()
    };
    assert_eq!(claim(other, &desk, false, None).await, Claimed::InUse);
    assert_eq!(claim(&stranger, &desk, false, None).await, Claimed::DomainNotOurs);
    let nobody = address("x@nobody.example");
    assert_eq!(claim(me, &nobody, false, None).await, Claimed::DomainNotOurs);
    // A claim on the way that fails leaves no domain behind.
    let foreign = Some(stranger.lineage.organization.unwrap());
    assert_eq!(claim(me, &nobody, false, foreign).await, Claimed::DomainNotOurs);
    assert_eq!(domain_owner(store, nobody.domain()).await, None);

    assert_eq!(claim(me, &desk, true, None).await, Claimed::Yes);
    assert_eq!(claim(other, &shop, true, None).await, Claimed::CatchAllInUse);
    assert_eq!(store.addresses(me.id).await.unwrap(), [held(&desk, true)]);
    let found = async |local: &str| {
        let text = format!("{local}@{}", desk.domain());
        let found = store.look_up(Some(&address(&text)), None).await.unwrap().answering;
        found.map(|found| (found.agent, found.by))
    };
    assert_eq!(found("other").await, Some((other.id, AnswersBy::Address)));
    assert_eq!(found("anybody").await, Some((me.id, AnswersBy::CatchAll)));
    assert_eq!(claim(me, &desk, false, None).await, Claimed::Yes);
    assert_eq!(found("anybody").await, None);
    assert_eq!(claim(other, &shop, true, None).await, Claimed::Yes);
    assert_eq!(found("anybody").await, Some((other.id, AnswersBy::CatchAll)));
    assert_eq!(found("desk").await, Some((me.id, AnswersBy::Address)));
    assert!(!store.release_address(other.id, &desk, by(at(0))).await.unwrap());
    assert!(store.release_address(me.id, &desk, by(at(0))).await.unwrap());
    assert_eq!(store.addresses(me.id).await.unwrap(), []);
}

fn held(address: &Address, catch_all: bool) -> HeldAddress {
    HeldAddress { address: address.clone(), catch_all }
}

fn new_agent(scene: &Scene) -> NewAccount {
    let parent = Some(scene.organization.id);
    NewAccount::plain(AccountType::Agent, "x", parent, account_record)
}

async fn an_agent_is_made_with_its_addresses_or_not_at_all(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (mine, free) = (own_address(&scene.agent), address("x@free.example"));
    let new = NewAccount { addresses: vec![free.clone(), mine.clone()], ..new_agent(&scene) };
    let before = scene.store.accounts(None).await.unwrap();
    let made = scene.store.create_account(&new, 9, by(at(0))).await.unwrap();
    assert_eq!(made, AccountCreation::Refused(mine, Claimed::InUse));
    assert_eq!(scene.store.accounts(None).await.unwrap(), before);
    assert_eq!(domain_owner(&scene.store, free.domain()).await, None);
    let new = NewAccount { addresses: vec![free.clone()], ..new };
    let made = scene.store.create_account(&new, 9, by(at(0))).await.unwrap();
    let AccountCreation::Account(made) = made else { panic!("{made:?}") };
    assert_eq!(scene.store.addresses(made.id).await.unwrap(), [held(&free, false)]);
    let owner = domain_owner(&scene.store, free.domain()).await;
    assert_eq!(owner, Some(scene.organization.id));
}

async fn an_agent_has_a_bounded_number_of_addresses(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, me) = (&scene.store, &scene.agent);
    let own = own_address(me);
    let others = ["a", "b"].map(|local| address(&format!("{local}@{}", own.domain())));
    let claim = async |address, catch_all, most| {
        let claim = AddressClaim { agent: me, address, catch_all, domain_for: None, most };
        store.claim_address(&claim, by(at(0))).await.unwrap()
    };
    assert_eq!(claim(&others[0], false, 1).await, Claimed::TooMany);
    assert_eq!(claim(&others[0], false, 2).await, Claimed::Yes);
    assert_eq!(claim(&others[1], false, 2).await, Claimed::TooMany);
    // One that it has may change, even when the limit was lowered; what is given back makes room.
    assert_eq!(claim(&own, true, 1).await, Claimed::Yes);
    assert_eq!(store.addresses(me.id).await.unwrap().len(), 2);
    assert!(store.release_address(me.id, &others[0], by(at(0))).await.unwrap());
    assert_eq!(claim(&others[1], false, 2).await, Claimed::Yes);

    let new = NewAccount {
        addresses: ["x@free.example", "y@free.example"].map(address).to_vec(),
        ..new_agent(&scene)
    };
    let refused = AccountCreation::Refused(address("y@free.example"), Claimed::TooMany);
    assert_eq!(store.create_account(&new, 1, by(at(0))).await.unwrap(), refused);
    assert_eq!(domain_owner(store, address("x@free.example").domain()).await, None);
}

async fn an_allowlist_is_bounded_and_every_change_of_it_raises_the_version(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, me) = (&scene.store, scene.agent.id);
    let version = async || store.policy(me).await.unwrap().unwrap().version;
    let list = |names: &[&str]| -> Vec<_> {
        names.iter().map(|name| address(&format!("{name}@good.example"))).collect()
    };
    let before = version().await;
    let (two, three) = (list(&["b", "a"]), list(&["a", "b", "c"]));
    let added = store.allow_senders(me, &two, Some("note"), 2, by(at(1))).await.unwrap();
    assert_eq!(added, Some((two.clone(), 2)));
    assert_eq!(version().await, before + 1);
    // An address that is listed changes nothing; a list that is too long adds nothing.
    let again = store.allow_senders(me, &two, None, 2, by(at(2))).await.unwrap();
    assert_eq!(again, Some((vec![], 2)));
    assert_eq!(store.allow_senders(me, &three, None, 2, by(at(2))).await.unwrap(), None);
    assert_eq!(version().await, before + 1);
    let (one, more) = (list(&["c"]), three[0].clone());
    assert_eq!(store.allow_senders(me, &three, None, 3, by(at(2))).await.unwrap(), Some((one, 3)));
    let page = store.allowed_senders(me, 1, Some(&more)).await.unwrap();
    assert_eq!((page.len(), &page[0].address), (1, &three[1]));
    assert_eq!((page[0].note.as_deref(), page[0].added_at), (Some("note"), at(1)));
    let all = store.allowed_senders(me, 10, None).await.unwrap();
    assert_eq!(all.into_iter().map(|one| one.address).collect::<Vec<_>>(), three);

    let standing = scene.standing(&scene.agent, &own_address(&scene.agent), "a@good.example").await;
    assert!(standing.listed && standing.active && standing.answers);
    assert_eq!((standing.mode, standing.policy_version), (Mode::Open, version().await));
    let gone = list(&["a", "x"]);
    let removed = store.remove_senders(me, &gone, by(at(3))).await.unwrap();
    assert_eq!(removed, (list(&["a"]), 2));
    assert_eq!(store.remove_senders(me, &gone, by(at(4))).await.unwrap(), (vec![], 2));
    assert_eq!(version().await, before + 3);
    store.set_mode(me, Mode::Allowlist, by(at(5))).await.unwrap();
    let policy = store.policy(me).await.unwrap().unwrap();
    assert_eq!((policy.mode, policy.version), (Mode::Allowlist, before + 4));
    assert_eq!((policy.allowlist_count, policy.updated_at), (2, at(5)));
    let nobody = AccountId::new(9999).unwrap();
    assert_eq!(store.standing(nobody, &three[0], &three[0]).await.unwrap(), None);
}
