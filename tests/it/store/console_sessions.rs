//! Sessions of the web console: bound to a key, opened once from a link, ended within reach.

use std::net::IpAddr;
use std::sync::Arc;

use gatepost::app::mailbox::retention::Retention;
use gatepost::app::tenancy::record::account_record;
use gatepost::domain::account::Account;
use gatepost::domain::audit::Act;
use gatepost::domain::clock::{Clock, Timestamp};
use gatepost::domain::console_session::{Browser, ConsoleSession};
use gatepost::domain::id::{ConsoleSessionId, KeyId};
use gatepost::domain::key::{Key, KeyHash, SessionHash};
use gatepost::domain::member::Member;
use gatepost::rules::Rules;
use gatepost::store::{
    AuditFilter, KeyInsertion, NamedKey, NewConsoleLink, RevocableKeys, Store, TicketOpening,
};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::keys::{keep, key};
use super::members::member;
use super::scene::{Kind, Scene, at, by, everything, mint, subtree};

on_both! {
    a_session_is_found_while_it_and_its_key_are_valid,
    a_session_opens_nothing_while_one_behind_its_key_is_gone,
    a_ticket_is_no_session_and_opens_once,
    a_ticket_opens_nothing_without_its_key,
    sessions_are_listed_and_ended_within_reach,
    the_oldest_sessions_of_a_key_end_beyond_the_most,
    a_deleted_account_takes_its_sessions_along,
    what_is_expired_is_deleted_and_nothing_else,
}

const MOST: u32 = 9;

fn hash(octet: u8) -> SessionHash {
    SessionHash([octet; 32])
}

/// A session of this key, from now on.
pub fn session(key: &Key, begins: i64, ends: i64) -> ConsoleSession {
    ConsoleSession {
        id: ConsoleSessionId(mint().uuid()),
        key: key.id,
        account: key.account,
        member: key.member,
        is_ticket: false,
        created_at: at(begins),
        expires_at: at(ends),
        remote: Some("192.0.2.7".parse().unwrap()),
        client: Some("Browser/1 (ü)".into()),
    }
}

pub async fn add(store: &Store, session: &ConsoleSession, octet: u8) -> bool {
    add_to(store, session, octet, MOST).await
}

pub async fn add_to(store: &Store, session: &ConsoleSession, octet: u8, most: u32) -> bool {
    let actor = browser(session.remote).actor(session.who());
    let act = actor.at(session.created_at);
    store.add_console_session(session, hash(octet), most, act).await.unwrap()
}

fn browser(remote: Option<IpAddr>) -> Browser {
    Browser { remote, client: None, request: Some(Uuid::from_u128(7)) }
}

pub async fn sign_out(store: &Store, octet: u8) -> bool {
    let from = browser(Some("192.0.2.9".parse().unwrap()));
    store.end_own_console_session(hash(octet), &from, at(6)).await.unwrap()
}

async fn found(store: &Store, octet: u8, now: i64) -> Option<ConsoleSession> {
    store.console_session(hash(octet), at(now)).await.unwrap().map(|found| found.session)
}

/// A link of this account under these hashes of 32 times a byte.
pub async fn link(store: &Store, account: &Account, octet: u8) -> (Key, ConsoleSession) {
    let key = Key { expires_at: Some(at(90)), ..key(account, None) };
    let ticket =
        ConsoleSession { is_ticket: true, remote: None, client: None, ..session(&key, 0, 30) };
    let new = NewConsoleLink {
        key: &key,
        key_hash: KeyHash([octet; 32]),
        most_keys: 9,
        ticket: &ticket,
        ticket_hash: hash(octet),
    };
    let made = store.add_console_link(new, by(at(0))).await.unwrap();
    assert_eq!(made, KeyInsertion::Inserted);
    (key, ticket)
}

pub fn opening(ticket: u8, octet: u8) -> TicketOpening {
    TicketOpening {
        ticket: hash(ticket),
        hash: hash(octet),
        expires_at: at(80),
        browser: Browser {
            client: Some("Browser/2".into()),
            ..browser(Some("2001:db8::7".parse().unwrap()))
        },
    }
}

async fn a_session_is_found_while_it_and_its_key_are_valid(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, second) = (&scene.store, scene.open().await);
    let someone = member(&scene, &scene.organization, "a@good.example", &[&scene.agent]).await;
    let own = key(&scene.agent, None);
    let theirs = Key { expires_at: Some(at(50)), ..key(&scene.organization, Some(someone.id)) };
    keep(store, &own, 1).await;
    keep(store, &theirs, 2).await;
    let (mine, other) = (session(&own, 0, 100), session(&theirs, 0, 100));
    assert!(add(store, &mine, 1).await && add(&second, &other, 2).await);
    for store in [store, &second] {
        let holder = store.console_session(hash(1), at(99)).await.unwrap().unwrap();
        assert_eq!((&holder.session, &holder.holder.account), (&mine, &scene.agent));
        assert_eq!((holder.holder.key, holder.holder.member), (own.clone(), None));
        assert_eq!(found(store, 1, 100).await, None, "it has expired");
        let holder = store.console_session(hash(2), at(49)).await.unwrap().unwrap();
        assert_eq!((&holder.session, holder.holder.member), (&other, Some(someone.clone())));
        assert_eq!(found(store, 2, 50).await, None, "its key has");
        assert_eq!(found(store, 3, 0).await, None);
        let elsewhere = store.key_holder(KeyHash([3; 32])).await.unwrap();
        assert_eq!(elsewhere, None, "a session's hash is no key's");
    }
    // A key that one gateway revokes ends its sessions at the next look of another.
    store.revoke_key(NamedKey::Id(own.id), RevocableKeys::All, by(at(5))).await.unwrap().unwrap();
    assert_eq!(found(&second, 1, 6).await, None);
    assert!(!add(&second, &session(&own, 6, 100), 4).await, "and none begins");
    // A browser that signs out ends its own session, once, and no ticket.
    link(store, &scene.agent, 7).await;
    assert!(sign_out(&second, 2).await);
    assert_eq!(found(store, 2, 6).await, None);
    for octet in [2, 7, 8] {
        assert!(!sign_out(store, octet).await, "{octet}");
    }
    let tickets = "SELECT COUNT(*) FROM console_sessions WHERE ticket = 1";
    assert_eq!(scene.count(tickets).await, 1);
}

async fn a_session_opens_nothing_while_one_behind_its_key_is_gone(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, second) = (&scene.store, scene.open().await);
    let someone = member(&scene, &scene.organization, "a@good.example", &[]).await;
    member(&scene, &scene.organization, "b@good.example", &[]).await;
    let (own, theirs) = (key(&scene.agent, None), key(&scene.organization, Some(someone.id)));
    keep(store, &own, 1).await;
    keep(store, &theirs, 2).await;
    assert!(add(store, &session(&own, 0, 100), 1).await);
    assert!(add(store, &session(&theirs, 0, 100), 2).await);
    let both =
        async || [found(&second, 1, 9).await.is_some(), found(&second, 2, 9).await.is_some()];
    let listed = async || store.console_sessions(RevocableKeys::All, at(9)).await.unwrap().len();
    for id in [scene.organization.id, scene.reseller.id, scene.partner.id] {
        store.set_active(id, false, by(at(1))).await.unwrap();
        assert_eq!((both().await, listed().await), ([false; 2], 0), "{id}");
        store.set_active(id, true, by(at(2))).await.unwrap();
        assert_eq!((both().await, listed().await), ([true; 2], 2), "{id}");
    }
    store.set_active(scene.agent.id, false, by(at(3))).await.unwrap();
    assert_eq!((both().await, listed().await), ([false, true], 1));
    store.remove_member(someone.id, by(at(4))).await.unwrap();
    assert_eq!((both().await, listed().await), ([false; 2], 0));
    assert!(!add(&second, &session(&theirs, 5, 100), 3).await);
}

async fn a_ticket_is_no_session_and_opens_once(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, second) = (&scene.store, scene.open().await);
    let (key, ticket) = link(store, &scene.organization, 1).await;
    assert_eq!(found(store, 1, 1).await, None, "it is no session");
    assert_eq!(store.console_sessions(RevocableKeys::All, at(1)).await.unwrap(), []);
    // Nor does a session open as a ticket.
    let own = self::key(&scene.organization, None);
    keep(store, &own, 2).await;
    assert!(add(store, &session(&own, 0, 100), 2).await);
    assert_eq!(store.open_console_ticket(&opening(2, 3), at(1)).await.unwrap(), None);
    assert_eq!(store.open_console_ticket(&opening(9, 3), at(1)).await.unwrap(), None);
    assert_eq!(store.open_console_ticket(&opening(1, 3), at(30)).await.unwrap(), None, "too late");

    let mut tasks = JoinSet::new();
    for octet in 10..18 {
        let store = if octet % 2 == 0 { store.clone() } else { second.clone() };
        tasks.spawn(
            async move { store.open_console_ticket(&opening(1, octet), at(29)).await.unwrap() },
        );
    }
    let mut opened: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
    assert_eq!(opened.len(), 1, "one of those who open it at once");
    let holder = opened.remove(0);
    let expected = ConsoleSession {
        is_ticket: false,
        created_at: at(29),
        expires_at: at(80),
        remote: Some("2001:db8::7".parse().unwrap()),
        client: Some("Browser/2".into()),
        ..ticket
    };
    assert_eq!((&holder.session, &holder.holder.key), (&expected, &key));
    let mut open = 0;
    for octet in 10..18 {
        open += usize::from(found(&second, octet, 79).await.is_some());
        assert_eq!(found(&second, octet, 80).await, None);
    }
    assert_eq!((open, found(&second, 1, 31).await), (1, None));
    assert_eq!(second.open_console_ticket(&opening(1, 20), at(29)).await.unwrap(), None);
    let scope = subtree(&scene.organization);
    let told = store.audit(&scope, &AuditFilter::default(), &everything()).await.unwrap();
    let made: Vec<_> = told
        .iter()
        .filter(|entry| ["consoleLink.created", "key.created"].contains(&entry.deed.as_str()))
        .map(|entry| entry.object.clone())
        .collect();
    assert_eq!(made[1..], [ticket.id.to_string(), key.id.to_string()]);
}

async fn a_ticket_opens_nothing_without_its_key(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, second) = (&scene.store, scene.open().await);
    let (revoked, _) = link(store, &scene.agent, 1).await;
    link(store, &scene.other, 2).await;
    store.revoke_key(NamedKey::Id(revoked.id), RevocableKeys::All, by(at(1))).await.unwrap();
    store.set_active(scene.other.id, false, by(at(1))).await.unwrap();
    for ticket in [1, 2] {
        let opened = second.open_console_ticket(&opening(ticket, 9), at(2)).await.unwrap();
        assert_eq!(opened, None, "{ticket}");
        assert_eq!(found(store, 9, 2).await, None);
    }
    // A link that nobody could open is still there once its account is active again.
    store.set_active(scene.other.id, true, by(at(3))).await.unwrap();
    let opened = second.open_console_ticket(&opening(2, 9), at(4)).await.unwrap();
    assert_eq!(opened.unwrap().holder.account, scene.other);
    // A key that is too many, or of nobody, makes no ticket.
    let doomed = Account { id: scene.stranger().await.id, ..scene.agent.clone() };
    store.delete_account(doomed.id, false, 9, account_record, by(at(5))).await.unwrap();
    for (account, most_keys, refused) in
        [(&scene.agent, 0, KeyInsertion::TooMany), (&doomed, 9, KeyInsertion::NoOwner)]
    {
        let key = key(account, None);
        let ticket = ConsoleSession { is_ticket: true, ..session(&key, 0, 30) };
        let (key_hash, ticket_hash) = (KeyHash([7; 32]), hash(7));
        let new = NewConsoleLink { key: &key, key_hash, most_keys, ticket: &ticket, ticket_hash };
        assert_eq!(store.add_console_link(new, by(at(6))).await.unwrap(), refused);
    }
    assert_eq!(scene.count("SELECT COUNT(*) FROM console_sessions").await, 2);
}

pub async fn ids(store: &Store, reach: RevocableKeys<'_>, now: i64) -> Vec<ConsoleSessionId> {
    let listed = store.console_sessions(reach, at(now)).await.unwrap();
    listed.iter().map(|one| one.id).collect()
}

async fn sessions_are_listed_and_ended_within_reach(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, stranger) = (&scene.store, scene.stranger().await);
    let someone = member(&scene, &scene.organization, "a@good.example", &[]).await;
    let other = member(&scene, &scene.organization, "b@good.example", &[]).await;
    let keys = [
        key(&scene.agent, None),
        key(&scene.organization, Some(someone.id)),
        key(&scene.partner, None),
        key(&stranger, None),
    ];
    let mut sessions = Vec::new();
    for (key, octet) in keys.iter().zip(1_u8..) {
        keep(store, key, octet).await;
        let one = session(key, octet.into(), 100 + i64::from(octet));
        assert!(add(store, &one, octet).await);
        sessions.push(one);
    }
    let [agents, members, partners, strangers] = [0, 1, 2, 3].map(|place| sessions[place].id);
    let (partner, organization) = (subtree(&scene.partner), subtree(&scene.organization));
    let only = organization.clone().only(vec![scene.agent.id]);
    let none = organization.clone().only(Vec::new());
    let (agent, next) = (subtree(&scene.agent), subtree(&scene.other));
    for (reach, expected) in [
        (RevocableKeys::All, &[strangers, partners, members, agents][..]),
        (RevocableKeys::InScope(&partner), &[strangers, partners, members, agents]),
        (RevocableKeys::InScope(&organization), &[members, agents]),
        (RevocableKeys::InScope(&agent), &[agents]),
        (RevocableKeys::InScope(&only), &[agents]),
        (RevocableKeys::InScope(&none), &[]),
        (RevocableKeys::InScope(&next), &[]),
        (RevocableKeys::OfMember(someone.id), &[members]),
        (RevocableKeys::OfMember(other.id), &[]),
    ] {
        assert_eq!(ids(store, reach, 50).await, expected, "{reach:?}");
        for one in [agents, members, partners, strangers] {
            if !expected.contains(&one) {
                let ended = store.end_console_session(one, reach, by(at(50))).await.unwrap();
                assert_eq!(ended, None, "{reach:?}");
            }
        }
    }
    // Each as it was added; those that have expired are not there.
    let listed = store.console_sessions(RevocableKeys::OfMember(someone.id), at(50)).await.unwrap();
    assert_eq!(listed, [sessions[1].clone()]);
    assert_eq!(ids(store, RevocableKeys::All, 102).await, [strangers, partners]);

    let second = scene.open().await;
    let reach = RevocableKeys::InScope(&organization);
    let ended = second.end_console_session(members, reach, by(at(51))).await.unwrap();
    assert_eq!(ended, Some(sessions[1].clone()));
    assert_eq!(found(store, 2, 51).await, None);
    assert_eq!(store.end_console_session(members, reach, by(at(52))).await.unwrap(), None);
    let expired = store.end_console_session(agents, reach, by(at(101))).await.unwrap();
    assert_eq!(expired, None);
    assert!(found(store, 1, 52).await.is_some());
    let told = store.audit(&organization, &AuditFilter::default(), &everything()).await.unwrap();
    assert_eq!(told[0].deed.as_str(), "consoleSession.ended");
    assert_eq!(told[0].object, members.to_string());
    let fields: Vec<_> = told[0].changes.iter().map(|one| one.field.as_str()).collect();
    assert_eq!(fields, ["keyId", "remoteAddress"]);
}

async fn the_oldest_sessions_of_a_key_end_beyond_the_most(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = &scene.store;
    let (one, two) = (key(&scene.agent, None), key(&scene.agent, None));
    keep(store, &one, 1).await;
    keep(store, &two, 2).await;
    assert!(add(store, &session(&two, 0, 100), 200).await);
    for octet in 0..5_u8 {
        let new = session(&one, octet.into(), 100);
        assert!(add_to(store, &new, octet, 3).await);
    }
    let open = async |octet| found(store, octet, 50).await.is_some();
    let left = [open(0).await, open(1).await, open(2).await, open(3).await, open(4).await];
    assert_eq!(left, [false, false, true, true, true]);
    assert!(open(200).await, "another key's");
}

async fn a_deleted_account_takes_its_sessions_along(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, second) = (&scene.store, scene.open().await);
    let stranger = scene.stranger().await;
    for (account, octet) in [(&scene.organization, 1), (&scene.agent, 2), (&stranger, 3)] {
        let key = key(account, None);
        keep(store, &key, octet).await;
        assert!(add(store, &session(&key, 0, 100), octet).await);
    }
    link(store, &scene.agent, 4).await;
    let late = key(&scene.agent, None);
    keep(store, &late, 5).await;
    store.delete_account(scene.organization.id, true, 9, account_record, by(at(5))).await.unwrap();
    assert_eq!((found(&second, 1, 6).await, found(&second, 2, 6).await), (None, None));
    assert_eq!(second.open_console_ticket(&opening(4, 6), at(6)).await.unwrap(), None);
    assert!(!add(&second, &session(&late, 6, 100), 7).await);
    assert_eq!(scene.count("SELECT COUNT(*) FROM console_sessions").await, 1);
    assert!(found(&second, 3, 6).await.is_some());
    // Nor does one stay that begins beside the deletion.
    let doomed = key(&stranger, None);
    keep(store, &doomed, 8).await;
    let mut tasks = JoinSet::new();
    for octet in 20..28 {
        let (store, new) = (second.clone(), session(&doomed, 6, 100));
        tasks.spawn(async move {
            let _added = add(&store, &new, octet).await;
        });
    }
    store.delete_account(stranger.id, false, 9, account_record, by(at(7))).await.unwrap();
    tasks.join_all().await;
    assert_eq!(scene.count("SELECT COUNT(*) FROM console_sessions").await, 0);
}

async fn what_is_expired_is_deleted_and_nothing_else(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = &scene.store;
    let own = key(&scene.agent, None);
    keep(store, &own, 1).await;
    for octet in 1..=5_u8 {
        assert!(add(store, &session(&own, 0, 10 * i64::from(octet)), octet).await);
    }
    link(store, &scene.other, 30).await;
    let delete = async |now: Timestamp| store.delete_console_sessions(now, 2).await.unwrap();
    assert_eq!(delete(at(9)).await, Some(0));
    assert_eq!(delete(at(30)).await, Some(2));
    assert_eq!(delete(at(30)).await, Some(2), "one, and the ticket");
    assert_eq!(delete(at(30)).await, Some(0));
    // A pass of retention does so, too.
    let rules = Arc::new(Rules::defaults().unwrap().retention);
    let mut retention = Retention::new(store.clone(), Clock::new(|| at(40)), rules);
    assert_eq!(retention.pass().await.console_sessions, 1);
    assert_eq!(retention.pass().await.console_sessions, 0);
    assert!(found(store, 5, 40).await.is_some());
    assert_eq!(scene.count("SELECT COUNT(*) FROM console_sessions").await, 1);
}

/// Begins an open session, one that has expired at once, and a ticket, under hashes of 32 times
/// these bytes.
pub async fn begin(store: &Store, key: &Key, [open, expired, ticket]: [u8; 3]) {
    keep(store, key, open).await;
    assert!(add(store, &session(key, 0, 9), open).await);
    assert!(add(store, &session(key, 0, 0), expired).await);
    let unopened = ConsoleSession { is_ticket: true, ..session(key, 0, 9) };
    assert!(add(store, &unopened, ticket).await);
}

/// Makes a link of this account and opens it, and signs in with this key.
pub async fn sign_in(store: &Store, account: &Account, key: &Key) {
    let (_, ticket) = link(store, account, 7).await;
    let opened = store.open_console_ticket(&opening(7, 8), at(0)).await.unwrap();
    assert_eq!(opened.unwrap().session.id, ticket.id);
    assert!(add(store, &session(key, 0, 9), 9).await);
}

/// Ends every session that is open.
pub async fn end_all(store: &Store, act: Act<'_>) {
    for one in store.console_sessions(RevocableKeys::All, act.at).await.unwrap() {
        store.end_console_session(one.id, RevocableKeys::All, act).await.unwrap();
    }
}

/// Runs every statement of console sessions.
pub async fn exercise(scene: &Scene, someone: &Member) {
    let Scene { store, agent, organization, .. } = scene;
    let own = key(agent, None);
    keep(store, &own, 210).await;
    add(store, &session(&own, 0, 9), 210).await;
    let absent = Key { id: KeyId(Uuid::nil()), ..own.clone() };
    add(store, &session(&absent, 0, 9), 211).await;
    link(store, organization, 212).await;
    store.open_console_ticket(&opening(212, 213), at(1)).await.unwrap().unwrap();
    found(store, 210, 1).await;
    let nobodys = ConsoleSessionId(Uuid::nil());
    for account in [&scene.partner, &scene.reseller, organization, agent] {
        for scope in [subtree(account), subtree(account).only(vec![agent.id])] {
            for reach in [
                RevocableKeys::All,
                RevocableKeys::OfMember(someone.id),
                RevocableKeys::InScope(&scope),
            ] {
                store.console_sessions(reach, at(1)).await.unwrap();
                store.console_links(reach, at(1)).await.unwrap();
                store.end_console_session(nobodys, reach, by(at(1))).await.unwrap();
            }
        }
    }
    let listed = store.console_sessions(RevocableKeys::All, at(1)).await.unwrap();
    let ended = store.end_console_session(listed[0].id, RevocableKeys::All, by(at(1))).await;
    assert!(ended.unwrap().is_some());
    sign_out(store, 210).await;
    store.delete_console_sessions(at(99), 9).await.unwrap();
}
