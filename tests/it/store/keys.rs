//! Keys: who is behind them, how many there are, when they stop.

use std::sync::{Arc, LazyLock, Mutex};

use gatepost::domain::account::Account;
use gatepost::domain::audit::{Actor, Who};
use gatepost::domain::feature::Feature;
use gatepost::domain::id::{AccountId, KeyId, LARGEST_USER_ID, MemberId};
use gatepost::domain::key::{Key, KeyHash, KeyOwner, SessionHash};
use gatepost::domain::member::Member;
use gatepost::store::{AuditFilter, KeyHolder, KeyInsertion, NamedKey, RevocableKeys, Store};
use tokio::task::JoinSet;
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, SubscriberExt as _};

use super::members::member;
use super::scene::{Kind, Scene, at, by, everything, mint, subtree};

on_both! {
    a_key_is_found_with_whoever_holds_it_until_it_is_revoked,
    a_key_opens_nothing_while_one_behind_it_is_gone,
    a_look_up_is_the_same_statement_whatever_the_key,
    an_owner_has_a_bounded_number_of_keys_in_force,
    a_key_is_revoked_where_it_is_looked_for,
    a_revoked_key_makes_no_other,
    a_use_is_noted_once_in_a_while,
}

/// A key of this account, or of this member of it.
pub fn key(account: &Account, member: Option<MemberId>) -> Key {
    Key {
        id: KeyId(mint().uuid()),
        account: account.id,
        member,
        purpose: "test".into(),
        last_four: "abcd".into(),
        created_at: at(0),
        expires_at: None,
        last_used_at: None,
        revoked_at: None,
        worker_job: None,
        mcp_changes: false,
    }
}

/// Inserts the key under a hash of 32 times this byte.
pub async fn keep(store: &Store, key: &Key, octet: u8) -> KeyInsertion {
    store.insert_key(key, KeyHash([octet; 32]), 9, by(at(0))).await.unwrap()
}

/// Keeps a key of this Agent that may have secrets, if the Agent's worker asks.
pub async fn keep_for_secrets(store: &Store, agent: &Account, octet: u8) -> KeyId {
    for account in agent.lineage.ids().skip(1) {
        let on = [(Feature::SecretRelease, Some(true))];
        store.assign_features(account, &on, by(at(0))).await.unwrap();
    }
    let new = key(agent, None);
    assert_eq!(keep(store, &new, octet).await, KeyInsertion::Inserted);
    new.id
}

async fn holder(store: &Store, octet: u8) -> Option<(Key, Account, Option<Member>)> {
    let found = store.key_holder(KeyHash([octet; 32])).await.unwrap();
    // A lookup that shares its statement with others finds the same key.
    let (shared, none) = tokio::join!(
        store.key_holder_with_others(KeyHash([octet; 32])),
        store.key_holder_with_others(KeyHash([99; 32]))
    );
    assert_eq!((&shared.unwrap(), none.unwrap()), (&found, None));
    found.map(|KeyHolder { key, account, member, has_api }| {
        assert!(has_api, "by default");
        (key, account, member)
    })
}

async fn a_key_is_found_with_whoever_holds_it_until_it_is_revoked(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, second) = (&scene.store, scene.open().await);
    let someone = member(&scene, &scene.reseller, "a@good.example", &[]).await;
    let own = key(&scene.agent, None);
    let of_member = Key {
        expires_at: Some(at(7)),
        purpose: "phone".into(),
        mcp_changes: true,
        ..key(&scene.reseller, Some(someone.id))
    };
    assert_eq!(keep(store, &own, 1).await, KeyInsertion::Inserted);
    assert_eq!(keep(store, &of_member, 2).await, KeyInsertion::Inserted);
    let twin = Key { id: KeyId(mint().uuid()), ..own.clone() };
    store.insert_key(&twin, KeyHash([1; 32]), 9, by(at(0))).await.unwrap_err();
    for store in [store, &second] {
        assert_eq!(holder(store, 1).await, Some((own.clone(), scene.agent.clone(), None)));
        let expected = (of_member.clone(), scene.reseller.clone(), Some(someone.clone()));
        assert_eq!(holder(store, 2).await, Some(expected));
        assert_eq!(holder(store, 3).await, None);
    }
    // A key that one gateway revokes is unknown to the next lookup on another.
    let named = NamedKey::Id(own.id);
    let gone = Key { revoked_at: Some(at(5)), ..own.clone() };
    let revoked = store.revoke_key(named, RevocableKeys::All, by(at(5))).await.unwrap();
    assert_eq!(revoked, Some(gone.clone()));
    assert_eq!(holder(&second, 1).await, None);
    assert_eq!(second.revoke_key(named, RevocableKeys::All, by(at(6))).await.unwrap(), None);
    assert_eq!(store.keys(scene.agent.id).await.unwrap(), [gone]);
    assert_eq!(store.keys(scene.other.id).await.unwrap(), []);
    let told =
        store.audit(&subtree(&scene.agent), &AuditFilter::default(), &everything()).await.unwrap();
    let deeds: Vec<_> =
        told.iter().map(|entry| (entry.deed.as_str(), entry.object.clone())).collect();
    let id = own.id.to_string();
    assert_eq!(deeds[0], ("key.revoked", id.clone()));
    assert!(deeds.contains(&("key.created", id)));
}

async fn a_key_opens_nothing_while_one_behind_it_is_gone(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = &scene.store;
    let someone = member(&scene, &scene.organization, "a@good.example", &[]).await;
    keep(store, &key(&scene.agent, None), 1).await;
    keep(store, &key(&scene.organization, Some(someone.id)), 2).await;
    for id in [scene.organization.id, scene.reseller.id, scene.partner.id] {
        store.set_active(id, false, by(at(1))).await.unwrap();
        assert_eq!((holder(store, 1).await, holder(store, 2).await), (None, None), "{id}");
        store.set_active(id, true, by(at(2))).await.unwrap();
        assert!(holder(store, 1).await.is_some() && holder(store, 2).await.is_some(), "{id}");
    }
    for name in ["organization", "reseller", "partner"] {
        let delete = format!("UPDATE accounts SET deleted_at = 1 WHERE name = '{name}'");
        scene.execute(delete.leak()).await;
        assert_eq!((holder(store, 1).await, holder(store, 2).await), (None, None), "{name}");
        scene.execute("UPDATE accounts SET deleted_at = NULL").await;
    }
    store.set_active(scene.agent.id, false, by(at(3))).await.unwrap();
    assert!(holder(store, 1).await.is_none() && holder(store, 2).await.is_some());
    // The keys of a removed member open nothing, even if their rows are intact.
    scene.execute("UPDATE members SET removed_at = 1").await;
    assert_eq!(holder(store, 2).await, None);
    scene.execute("UPDATE members SET removed_at = NULL").await;
    member(&scene, &scene.organization, "b@good.example", &[]).await;
    store.remove_member(someone.id, by(at(4))).await.unwrap();
    assert_eq!(holder(store, 2).await, None);
    let again = key(&scene.organization, Some(someone.id));
    assert_eq!(keep(store, &again, 3).await, KeyInsertion::NoOwner);
    scene.execute("UPDATE accounts SET deleted_at = 1 WHERE name = 'desk'").await;
    assert_eq!(keep(store, &key(&scene.agent, None), 4).await, KeyInsertion::NoOwner);
}

/// The texts of the statements that this thread runs.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<String>>>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Asked {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if event.metadata().target().starts_with("gatepost::store") {
            event.record(&mut &*self);
        }
    }
}

impl Visit for &Asked {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "sql" {
            self.0.lock().unwrap().push(value.to_owned());
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

/// With a single subscriber in the process, tracing asks the thread that comes to a line first
/// whether anybody listens there, and other tests' threads have nobody.
static SECOND: LazyLock<tracing::Dispatch> =
    LazyLock::new(|| tracing::Dispatch::new(tracing_subscriber::registry()));

/// Threats E9: how near a guess comes changes nothing about the work that it makes.
async fn a_look_up_is_the_same_statement_whatever_the_key(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = &scene.store;
    let someone = member(&scene, &scene.organization, "a@good.example", &[]).await;
    let (agent, organization) = (&scene.agent, &scene.organization);
    let expired = Key { expires_at: Some(at(0)), ..key(agent, None) };
    let revoked = key(agent, None);
    keep(store, &key(agent, None), 1).await;
    keep(store, &key(organization, Some(someone.id)), 2).await;
    keep(store, &expired, 3).await;
    keep(store, &revoked, 4).await;
    store.revoke_key(NamedKey::Id(revoked.id), RevocableKeys::All, by(at(1))).await.unwrap();
    super::console_sessions::begin(store, &key(agent, None), [5, 6, 7]).await;
    LazyLock::force(&SECOND);
    let asked = Asked::default();
    let subscriber = tracing_subscriber::registry().with(asked.clone());
    let listening = tracing::subscriber::set_default(subscriber);
    let near = |octet: u8| {
        let mut hash = [1; 32];
        hash[31] = octet;
        KeyHash(hash)
    };
    let hashes = [1, 2, 3, 4, 5].map(|octet| KeyHash([octet; 32]));
    for hash in hashes.into_iter().chain([near(0), near(2)]) {
        store.key_holder(hash).await.unwrap();
    }
    // Nor does which secret of a session is guessed.
    for octet in [5, 6, 7, 8] {
        store.console_session(SessionHash([octet; 32]), at(1)).await.unwrap();
    }
    // Nor does whose id is asked for: an account's, a member's, nobody's.
    for id in [agent.id.get(), someone.id.get(), LARGEST_USER_ID] {
        store.account_or_member(AccountId::new(id).unwrap()).await.unwrap();
    }
    drop(listening);
    let asked = asked.0.lock().unwrap();
    assert_eq!(asked.len(), 14, "{asked:#?}");
    for alike in [&asked[..7], &asked[7..11], &asked[11..]] {
        assert!(alike.iter().all(|one| *one == alike[0]), "{asked:#?}");
    }
}

async fn an_owner_has_a_bounded_number_of_keys_in_force(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = &scene.store;
    let someone = member(&scene, &scene.organization, "a@good.example", &[]).await;
    let make = async |key: &Key, octet: u8, now: i64| {
        store.insert_key(key, KeyHash([octet; 32]), 2, by(at(now))).await.unwrap()
    };
    let ends = Key { expires_at: Some(at(10)), ..key(&scene.organization, None) };
    let stays = key(&scene.organization, None);
    assert_eq!(make(&ends, 1, 0).await, KeyInsertion::Inserted);
    assert_eq!(make(&stays, 2, 0).await, KeyInsertion::Inserted);
    assert_eq!(make(&key(&scene.organization, None), 3, 9).await, KeyInsertion::TooMany);
    // A member's keys are its own, and an account's are those of no member.
    let until = Some(at(10));
    let of_member = Key { expires_at: until, ..key(&scene.organization, Some(someone.id)) };
    assert_eq!(make(&of_member, 4, 9).await, KeyInsertion::Inserted);
    let owner = KeyOwner::Account(scene.organization.id);
    assert_eq!(store.keys_in_force(owner, at(9)).await.unwrap().len(), 2);
    assert_eq!(store.keys_in_force(owner, at(10)).await.unwrap(), [stays]);
    let own = store.keys_in_force(KeyOwner::Member(someone.id), at(9)).await.unwrap();
    assert_eq!(own, [of_member]);
    assert_eq!(store.keys(scene.organization.id).await.unwrap().len(), 3);
    // One that expired makes room; however many ask at once, no more than that.
    let mut tasks = JoinSet::new();
    for octet in 10..18 {
        let (store, new) = (scene.open().await, key(&scene.organization, None));
        tasks.spawn(async move {
            store.insert_key(&new, KeyHash([octet; 32]), 2, by(at(10))).await.unwrap()
        });
    }
    let ended = tasks.join_all().await;
    assert_eq!(ended.iter().filter(|one| **one == KeyInsertion::Inserted).count(), 1, "{ended:?}");
    assert_eq!(store.keys_in_force(owner, at(10)).await.unwrap().len(), 2);
    // It piles up in no count: it is revoked as of when it expired, and nobody else's is.
    let all = store.keys(scene.organization.id).await.unwrap();
    let revoked: Vec<_> = all.iter().filter(|one| one.revoked_at.is_some()).collect();
    assert_eq!(revoked, [&Key { revoked_at: Some(at(10)), ..ends }]);
}

async fn a_key_is_revoked_where_it_is_looked_for(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = &scene.store;
    let someone = member(&scene, &scene.organization, "a@good.example", &[]).await;
    let other = member(&scene, &scene.organization, "b@good.example", &[]).await;
    let (mine, theirs) = (key(&scene.agent, None), key(&scene.organization, Some(someone.id)));
    keep(store, &mine, 1).await;
    keep(store, &theirs, 2).await;
    let (agent, next) = (subtree(&scene.agent), subtree(&scene.other));
    let only = subtree(&scene.organization).only(vec![scene.other.id]);
    let none = subtree(&scene.organization).only(Vec::new());
    for (named, whose) in [
        (NamedKey::Id(mine.id), RevocableKeys::InScope(&next)),
        (NamedKey::Hash(KeyHash([1; 32])), RevocableKeys::InScope(&next)),
        (NamedKey::Id(mine.id), RevocableKeys::InScope(&only)),
        (NamedKey::Id(theirs.id), RevocableKeys::InScope(&only)),
        (NamedKey::Id(theirs.id), RevocableKeys::InScope(&none)),
        (NamedKey::Id(theirs.id), RevocableKeys::InScope(&agent)),
        (NamedKey::Id(theirs.id), RevocableKeys::OfMember(other.id)),
        (NamedKey::Id(mine.id), RevocableKeys::OfMember(someone.id)),
        (NamedKey::Hash(KeyHash([9; 32])), RevocableKeys::All),
    ] {
        let revoked = store.revoke_key(named, whose, by(at(1))).await.unwrap();
        assert_eq!(revoked, None, "{named:?} {whose:?}");
    }
    let revoke = async |named, whose| store.revoke_key(named, whose, by(at(1))).await.unwrap();
    let found = revoke(NamedKey::Hash(KeyHash([1; 32])), RevocableKeys::InScope(&agent)).await;
    assert_eq!(found.unwrap().id, mine.id);
    let found = revoke(NamedKey::Id(theirs.id), RevocableKeys::OfMember(someone.id)).await;
    assert_eq!(found.unwrap().id, theirs.id);
}

async fn a_revoked_key_makes_no_other(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = &scene.store;
    let maker = key(&scene.organization, None);
    keep(store, &maker, 1).await;
    let who = Who::Key { key: maker.id, account: scene.organization.id, member: None };
    let actor = Actor::of(who);
    let make = async |octet: u8| {
        let new = key(&scene.agent, None);
        store.insert_key(&new, KeyHash([octet; 32]), 9, actor.at(at(1))).await.unwrap()
    };
    assert_eq!(make(2).await, KeyInsertion::Inserted);
    store.revoke_key(NamedKey::Id(maker.id), RevocableKeys::All, by(at(2))).await.unwrap();
    assert_eq!(make(3).await, KeyInsertion::NoMaker);
    assert_eq!(store.keys(scene.agent.id).await.unwrap().len(), 1);
}

async fn a_use_is_noted_once_in_a_while(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = &scene.store;
    let own = key(&scene.agent, None);
    keep(store, &own, 1).await;
    let used = async || store.keys(scene.agent.id).await.unwrap()[0].last_used_at;
    assert_eq!(used().await, None);
    // A use is noted again only if the last note is not after the time that the caller gives.
    assert!(store.record_key_use(own.id, at(100), at(50)).await.unwrap());
    assert!(!store.record_key_use(own.id, at(101), at(51)).await.unwrap());
    assert_eq!(used().await, Some(at(100)));
    assert!(store.record_key_use(own.id, at(150), at(100)).await.unwrap());
    assert_eq!(used().await, Some(at(150)));
    assert!(!store.record_key_use(KeyId(uuid::Uuid::nil()), at(9), at(9)).await.unwrap());
}
