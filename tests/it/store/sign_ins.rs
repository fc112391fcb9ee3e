//! Signing in to the web console: with a key, and by a link of the operator.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use gatepost::app::access::{Access, Denied, LinkError, SignedIn, Target, csrf, csrf_matches};
use gatepost::app::tenancy::{KeyTerms, Tenancy};
use gatepost::domain::account::Account;
use gatepost::domain::audit::Actor;
use gatepost::domain::clock::{Clock, Timestamp};
use gatepost::domain::console_session::Browser;
use gatepost::domain::id::{AccountId, ConsoleSessionId, Mint};
use gatepost::domain::key::KeyOwner;
use gatepost::rules::Rules;
use gatepost::store::Store;

use super::members::member;
use super::scene::{Kind, SECOND, START, Scene, mint, subtree};

on_both! {
    a_browser_signs_in_with_a_key_and_out_again,
    a_session_ends_with_its_time_and_never_after_its_key,
    a_revoked_key_ends_its_sessions_on_another_gateway,
    a_link_signs_one_browser_in,
    links_that_are_not_made_say_why,
    sessions_of_others_are_ended_within_reach,
}

const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// The use cases of one gateway, by a clock that stands still.
struct Gateway {
    access: Access,
    tenancy: Tenancy,
    now: Arc<AtomicI64>,
}

impl Gateway {
    fn new(store: &Store) -> Self {
        let now = Arc::new(AtomicI64::new(START));
        let reading = Arc::clone(&now);
        let clock = Clock::new(move || Timestamp::from_millis(reading.load(Ordering::SeqCst)));
        let random = |octets: &mut [u8]| aws_lc_rs::rand::fill(octets).unwrap();
        let mint = Mint::new(clock, Arc::new(random));
        let Rules { access, apps, .. } = Rules::defaults().unwrap();
        let access = Arc::new(access);
        Self {
            access: Access::new(store.clone(), mint.clone(), &access, &apps),
            tenancy: Tenancy::new(store.clone(), mint, access),
            now,
        }
    }

    fn at(&self, millis: i64) -> &Self {
        self.now.store(START + millis, Ordering::SeqCst);
        self
    }

    async fn token(&self, owner: KeyOwner, hours: Option<i64>) -> String {
        let expires_at = hours.map(|hours| Timestamp::from_millis(START + hours * HOUR));
        let terms = KeyTerms { expires_at, ..KeyTerms::of("test") };
        self.tenancy.issue_key(owner, terms).await.unwrap().token
    }

    async fn sign_in(&self, token: &str) -> SignedIn {
        self.access.sign_in(token, from()).await.unwrap()
    }

    async fn is_open(&self, signed_in: &SignedIn) -> bool {
        match self.access.session(Some(&signed_in.secret)).await {
            Ok(visitor) => {
                assert_eq!(visitor.session, signed_in.session);
                true
            }
            Err(Denied::NoKey) => false,
            Err(other) => panic!("{other:?}"),
        }
    }
}

fn from() -> Browser {
    let client = Some(format!("Browser\u{7}/1 {}", "ü".repeat(300)));
    Browser { remote: Some("192.0.2.7".parse().unwrap()), client, request: None }
}

fn target(account: &Account) -> Target {
    Target { account: account.clone(), member: None, scope: subtree(account) }
}

fn time(millis: i64) -> Timestamp {
    Timestamp::from_millis(START + millis)
}

async fn a_browser_signs_in_with_a_key_and_out_again(kind: Kind) {
    let scene = Scene::new(kind).await;
    let gateway = Gateway::new(&scene.store);
    let access = &gateway.access;
    let someone = member(&scene, &scene.organization, "a@good.example", &[&scene.agent]).await;
    let token = gateway.token(KeyOwner::Member(someone.id), None).await;
    let one = gateway.sign_in(&token).await;
    let caller = access.caller(Some(&token)).await.unwrap();
    assert_eq!(one.caller.member, Some(someone.clone()));
    assert_eq!((&one.caller.key.id, &one.caller.account), (&caller.key.id, &scene.organization));
    assert!(one.secret.len() == 47 && one.secret.starts_with("gps_"), "{}", one.secret.len());
    assert_eq!((one.session.member, one.session.key), (Some(someone.id), caller.key.id));
    assert_eq!(one.session.remote, from().remote);
    let client = one.session.client.clone().unwrap();
    assert!(client.starts_with("Browser/1 ü") && client.chars().count() == 200, "{client}");
    let visitor = access.session(Some(&one.secret)).await.unwrap();
    assert_eq!(visitor.caller.permitted(), Some(&[scene.agent.id][..]));
    assert_eq!((visitor.session, visitor.caller.member), (one.session.clone(), Some(someone)));

    // Neither opens what the other does, and nothing else opens anything.
    let turned = one.secret.replace("gps_", "gp_");
    let unknown = format!("gps_{}", "A".repeat(43));
    let as_key = token.replace("gp_", "gps_");
    for wrong in ["", "gps_", &turned, &unknown, &as_key, &token, &format!("{}x", one.secret)] {
        let denied = access.session(Some(wrong)).await;
        assert!(matches!(denied, Err(Denied::NoKey)), "{wrong:?}");
        assert!(!access.sign_out(wrong, &from()).await.unwrap());
    }
    assert!(matches!(access.session(None).await, Err(Denied::NoKey)));
    for wrong in ["", &one.secret, &turned, "gp_x"] {
        assert!(matches!(access.caller(Some(wrong)).await, Err(Denied::NoKey)));
        assert!(matches!(access.sign_in(wrong, from()).await, Err(Denied::NoKey)));
    }

    let two = gateway.sign_in(&token).await;
    let sent = csrf(&one.secret);
    assert!(sent.len() == 64 && sent.bytes().all(|octet| octet.is_ascii_hexdigit()), "{sent}");
    assert!(csrf_matches(&one.secret, &sent) && csrf_matches(&one.secret, &csrf(&one.secret)));
    for wrong in ["", &sent[..63], &sent.to_uppercase(), &csrf(&two.secret), &one.secret] {
        assert!(!csrf_matches(&one.secret, wrong), "{wrong}");
    }

    assert!(access.sign_out(&one.secret, &from()).await.unwrap());
    assert!(!access.sign_out(&one.secret, &from()).await.unwrap());
    assert!(!gateway.is_open(&one).await && gateway.is_open(&two).await);
}

async fn a_session_ends_with_its_time_and_never_after_its_key(kind: Kind) {
    let scene = Scene::new(kind).await;
    let gateway = Gateway::new(&scene.store);
    let owner = KeyOwner::Account(scene.agent.id);
    let (short, long) = (gateway.token(owner, Some(2)).await, gateway.token(owner, Some(24)).await);
    let ever = gateway.token(owner, None).await;
    let begun = [&short, &long, &ever];
    let mut sessions = Vec::new();
    for token in begun {
        sessions.push(gateway.at(HOUR).sign_in(token).await);
    }
    let ends: Vec<_> = sessions.iter().map(|one| one.session.expires_at).collect();
    assert_eq!(ends, [time(2 * HOUR), time(13 * HOUR), time(13 * HOUR)]);
    for (millis, open) in [
        (2 * HOUR - 1, [true, true, true]),
        (2 * HOUR, [false, true, true]),
        (13 * HOUR - 1, [false, true, true]),
        (13 * HOUR, [false, false, false]),
    ] {
        let gateway = gateway.at(millis);
        for (session, expected) in sessions.iter().zip(open) {
            assert_eq!(gateway.is_open(session).await, expected, "{millis}");
        }
    }
    assert!(matches!(gateway.access.sign_in(&short, from()).await, Err(Denied::NoKey)));
}

async fn a_revoked_key_ends_its_sessions_on_another_gateway(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (one, two) = (Gateway::new(&scene.store), Gateway::new(&scene.open().await));
    let someone = member(&scene, &scene.organization, "a@good.example", &[]).await;
    member(&scene, &scene.organization, "b@good.example", &[]).await;
    let mine = one.tenancy.create_key(scene.agent.id, "x").await.unwrap();
    let theirs = one.token(KeyOwner::Member(someone.id), None).await;
    let (mine, session) = (mine.key.id, one.sign_in(&mine.token).await);
    let of_member = one.sign_in(&theirs).await;
    assert!(two.is_open(&session).await && two.is_open(&of_member).await);
    one.tenancy.revoke_key(mine).await.unwrap();
    assert!(!two.is_open(&session).await && two.is_open(&of_member).await);
    one.tenancy.remove_member(&scene.organization, someone.id).await.unwrap();
    assert!(!two.is_open(&of_member).await);
}

async fn a_link_signs_one_browser_in(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (one, two) = (Gateway::new(&scene.store), Gateway::new(&scene.open().await));
    let link = one.access.link(scene.organization.id, 15, &Actor::OPERATOR).await.unwrap();
    assert_eq!((link.expires_at, link.session), (time(15 * MINUTE), Duration::from_secs(3600)));
    assert_eq!(
        (link.key.purpose.as_str(), link.key.expires_at),
        ("console link", Some(time(75 * MINUTE)),)
    );
    let denied = two.access.session(Some(&link.secret)).await;
    assert!(matches!(denied, Err(Denied::NoKey)), "a ticket is no session");
    assert!(!two.access.sign_out(&link.secret, &from()).await.unwrap());
    two.at(10 * MINUTE);
    let (a, b) = tokio::join!(
        one.access.open_link(&link.secret, from()),
        two.access.open_link(&link.secret, from())
    );
    assert!(a.is_ok() != b.is_ok(), "one of two at once");
    let again = one.access.open_link(&link.secret, from()).await;
    assert!(matches!(again, Err(Denied::NoKey)));
    let opened = a.or(b).unwrap();
    assert_ne!(opened.secret, link.secret);
    assert_eq!((&opened.caller.account, opened.caller.key.id), (&scene.organization, link.key.id));
    let gone = opened.session.expires_at.millis() - opened.session.created_at.millis();
    assert_eq!((gone, opened.session.remote), (60 * MINUTE, from().remote));
    assert!(one.is_open(&opened).await && two.is_open(&opened).await);
    one.tenancy.revoke_key(link.key.id).await.unwrap();
    assert!(!two.is_open(&opened).await);

    // One that waits too long, and one that is opened at the last moment.
    one.at(0);
    let late = one.access.link(scene.agent.id, 1, &Actor::OPERATOR).await.unwrap();
    let last = one.access.link(scene.agent.id, 1, &Actor::OPERATOR).await.unwrap();
    let opened = one.at(MINUTE - 1).access.open_link(&last.secret, from()).await.unwrap();
    let denied = one.at(MINUTE).access.open_link(&late.secret, from()).await;
    assert!(matches!(denied, Err(Denied::NoKey)));
    assert!(one.at(61 * MINUTE - 2).is_open(&opened).await);
    assert!(!one.at(61 * MINUTE - 1).is_open(&opened).await);
    for wrong in ["", "gps_x", &opened.secret] {
        let denied = one.access.open_link(wrong, from()).await;
        assert!(matches!(denied, Err(Denied::NoKey)), "{wrong}");
    }
}

async fn links_that_are_not_made_say_why(kind: Kind) {
    let scene = Scene::new(kind).await;
    let Gateway { access, .. } = Gateway::new(&scene.store);
    let link = async |account, minutes| match access.link(account, minutes, &Actor::OPERATOR).await
    {
        Ok(_) => panic!("a link"),
        Err(refused) => refused,
    };
    for minutes in [0, 1441, u64::MAX] {
        let refused = link(scene.agent.id, minutes).await;
        assert!(matches!(refused, LinkError::Minutes { most: 1440 }), "{refused:?}");
    }
    let nobody = AccountId::new(999_999).unwrap();
    assert!(matches!(link(nobody, 15).await, LinkError::NoAccount(id) if id == nobody));
    for _ in 0..100 {
        access.link(scene.agent.id, 15, &Actor::OPERATOR).await.unwrap();
    }
    let refused = link(scene.agent.id, 15).await;
    assert!(matches!(refused, LinkError::TooManyKeys { most: 100 }), "{refused:?}");
}

async fn sessions_of_others_are_ended_within_reach(kind: Kind) {
    let scene = Scene::new(kind).await;
    let gateway = Gateway::new(&scene.store);
    let access = &gateway.access;
    let someone = member(&scene, &scene.organization, "a@good.example", &[]).await;
    let of_agent = gateway.token(KeyOwner::Account(scene.agent.id), None).await;
    let of_member = gateway.token(KeyOwner::Member(someone.id), None).await;
    let mine = gateway.sign_in(&of_agent).await;
    let theirs = gateway.at(1).sign_in(&of_member).await;
    let (above, next) = (target(&scene.organization), target(&scene.other));
    let member = Target { member: Some(someone), ..above.clone() };
    let link = access.link(scene.agent.id, 15, &Actor::OPERATOR).await.unwrap();
    let links = access.links(&above).await.unwrap();
    assert_eq!(links.iter().map(|one| one.key).collect::<Vec<_>>(), [link.key.id]);
    assert_eq!(access.links(&next).await.unwrap(), []);
    assert_eq!(access.links(&member).await.unwrap(), []);
    let sessions = [theirs.session.clone(), mine.session.clone()];
    assert_eq!(access.sessions(&above).await.unwrap(), sessions);
    assert_eq!(access.sessions(&member).await.unwrap(), sessions[..1]);
    assert_eq!(access.sessions(&next).await.unwrap(), []);
    let actor = mine.caller.actor();
    for (target, id) in [
        (&next, mine.session.id),
        (&member, mine.session.id),
        (&above, ConsoleSessionId(mint().uuid())),
    ] {
        assert!(!access.end_session(target, id, &actor).await.unwrap());
    }
    assert!(access.end_session(&above, theirs.session.id, &actor).await.unwrap());
    assert!(!access.end_session(&above, theirs.session.id, &actor).await.unwrap());
    assert!(!gateway.is_open(&theirs).await && gateway.is_open(&mine).await);
}
