//! The audit log of the web console, and its links that nobody has opened.

use std::collections::BTreeSet;

use gatepost::domain::audit::{Actor, Entry, Who};
use gatepost::domain::scope::Scope;
use gatepost::store::{AuditFilter, NamedKey, RevocableKeys, Store};
use uuid::Uuid;

use super::console_sessions::{add, add_to, ids, link, opening, session, sign_out};
use super::keys::{keep, key};
use super::members::member;
use super::scene::{Kind, Scene, at, by, everything, subtree};

on_both! {
    links_are_listed_until_they_are_opened_and_withdrawn_within_reach,
    what_begins_and_ends_is_in_the_audit_log,
}

async fn links_are_listed_until_they_are_opened_and_withdrawn_within_reach(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, second) = (&scene.store, scene.open().await);
    let (_, one) = link(store, &scene.agent, 1).await;
    let (_, two) = link(store, &scene.organization, 2).await;
    let someone = member(&scene, &scene.organization, "a@good.example", &[]).await;
    let (organization, agent) = (subtree(&scene.organization), subtree(&scene.agent));
    let next = subtree(&scene.other);
    let links = async |reach, now: i64| {
        let listed = second.console_links(reach, at(now)).await.unwrap();
        listed.into_iter().map(|link| link.id).collect::<BTreeSet<_>>()
    };
    for (reach, expected) in [
        (RevocableKeys::All, BTreeSet::from([one.id, two.id])),
        (RevocableKeys::InScope(&organization), [one.id, two.id].into()),
        (RevocableKeys::InScope(&agent), [one.id].into()),
        (RevocableKeys::InScope(&next), [].into()),
        (RevocableKeys::OfMember(someone.id), [].into()),
    ] {
        assert_eq!(links(reach, 29).await, expected, "{reach:?}");
        assert_eq!(ids(store, reach, 29).await, [], "it is no session");
        for link in [&one, &two] {
            if !expected.contains(&link.id) {
                let withdrawn = store.end_console_session(link.id, reach, by(at(5))).await;
                assert_eq!(withdrawn.unwrap(), None, "{reach:?}");
            }
        }
    }
    assert_eq!(links(RevocableKeys::All, 30).await, [].into(), "it is too late to open them");
    let reach = RevocableKeys::InScope(&organization);
    assert_eq!(
        store.end_console_session(one.id, reach, by(at(6))).await.unwrap(),
        Some(one.clone())
    );
    assert_eq!(store.end_console_session(one.id, reach, by(at(7))).await.unwrap(), None);
    assert_eq!(second.open_console_ticket(&opening(1, 10), at(8)).await.unwrap(), None);
    second.open_console_ticket(&opening(2, 11), at(9)).await.unwrap().unwrap();
    assert_eq!(links(reach, 10).await, [].into());
    assert_eq!(ids(store, reach, 10).await, [two.id]);
    let told = told(store, &organization).await;
    assert_eq!(told[0], ("consoleSession.begun", two.id.to_string()));
    assert_eq!(told[1], ("consoleLink.withdrawn", one.id.to_string()));
}

/// Actions of the console in the audit log, with their objects, the newest first.
async fn told(store: &Store, scope: &Scope) -> Vec<(&'static str, String)> {
    let told = store.audit(scope, &AuditFilter::default(), &everything()).await.unwrap();
    let of_console = told.into_iter().filter(|entry| entry.deed.as_str().starts_with("console"));
    of_console.map(|entry| (entry.deed.as_str(), entry.object)).collect()
}

async fn what_begins_and_ends_is_in_the_audit_log(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, scope) = (&scene.store, subtree(&scene.organization));
    let someone = member(&scene, &scene.organization, "a@good.example", &[]).await;
    let own = key(&scene.organization, Some(someone.id));
    keep(store, &own, 1).await;
    let (first, next) = (session(&own, 1, 100), session(&own, 2, 100));
    assert!(add(store, &first, 1).await);
    assert!(add_to(store, &next, 2, 1).await, "and it ends the first");
    assert!(sign_out(store, 2).await && !sign_out(store, 2).await);
    let (linked, ticket) = link(store, &scene.agent, 3).await;
    store.open_console_ticket(&opening(3, 4), at(7)).await.unwrap().unwrap();
    assert!(store.open_console_ticket(&opening(3, 5), at(8)).await.unwrap().is_none());
    let [first, next, link] = [&first, &next, &ticket].map(|one| one.id.to_string());
    let expected = [
        ("consoleSession.begun", link.clone()),
        ("consoleSession.ended", next.clone()),
        ("consoleSession.ended", first.clone()),
        ("consoleSession.begun", next),
        ("consoleSession.begun", first),
        ("consoleLink.created", link),
    ];
    let mut found = told(store, &scope).await;
    // Those of one moment come in any order.
    found[2..4].sort_by_key(|(deed, _)| std::cmp::Reverse(*deed));
    assert_eq!(found, expected);
    // Each as its key, from the address of its browser.
    let told = store.audit(&scope, &AuditFilter::default(), &everything()).await.unwrap();
    let (member, remote) = (Some(someone.id), Some("192.0.2.9".parse().unwrap()));
    let by_key = Who::Key { key: own.id, account: scene.organization.id, member };
    let actor = Actor { remote, request: Some(Uuid::from_u128(7)), ..Actor::of(by_key) };
    let fields = |entry: &Entry| {
        entry.changes.iter().map(|one| one.field.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!((&told[1].actor, fields(&told[1])), (&actor, "keyId remoteAddress".to_owned()));
    let by_link = Who::Key { key: linked.id, account: scene.agent.id, member: None };
    let remote = Some("2001:db8::7".parse().unwrap());
    assert_eq!(told[0].actor, Actor { remote, who: by_link, ..actor });
    assert_eq!((fields(&told[0]), told[0].at), ("keyId expiresAt".to_owned(), at(7)));
    // No secret, and nothing that finds one.
    for octet in 1..5_u8 {
        let text = format!("{told:?}");
        assert!(!text.contains(&format!("{octet:02x}").repeat(32)), "{text}");
        assert!(!text.contains("Browser/"), "the browser chooses it: {text}");
    }
    // Where nothing begins, nothing is said.
    store.revoke_key(NamedKey::Id(own.id), RevocableKeys::All, by(at(9))).await.unwrap();
    assert!(!add(store, &session(&own, 10, 100), 6).await);
    assert_eq!(self::told(store, &scope).await.len(), expected.len());
}
