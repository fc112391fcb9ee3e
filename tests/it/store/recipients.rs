//! Answers for an address: cached by each gateway, and never older than the last change answered
//! before the question, on any gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gatepost::app::intake::{Directory, Resolved};
use gatepost::domain::account::AccountType;
use gatepost::domain::address::Address;
use gatepost::domain::domain_name::DomainName;
use gatepost::domain::policy::Mode;
use gatepost::rules::Rules;
use gatepost::store::{AccountCreation, AddressClaim, AnswersBy, Claimed};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::directory::create;
use super::scene::{Kind, Scene, account, address, address_claim, agent, at, by, own_address};

on_both! {
    the_next_answer_elsewhere_shows_every_change,
    no_answer_is_older_than_the_last_change_before_its_question,
    without_the_version_nothing_is_answered,
    postmaster_answers_wherever_a_domain_is_ours,
    every_spelling_of_an_address_is_asked_as_one,
}

async fn directory(scene: &Scene, postmaster: Option<Address>) -> Directory {
    let rules = Rules::defaults().unwrap().intake.directory;
    Directory::new(scene.open().await, postmaster, rules)
}

/// Describes an answer: unknown, inactive, or the Agent with its mode and how it was found.
fn shown(found: &Resolved) -> String {
    match found.listing.answering {
        None => "unknown".into(),
        Some(one) if !one.active => "inactive".into(),
        Some(one) => format!("{} {} {:?}", one.agent, one.mode, one.by),
    }
}

async fn the_next_answer_elsewhere_shows_every_change(kind: Kind) {
    let scene = Scene::new(kind).await;
    let elsewhere = directory(&scene, None).await;
    let (store, me, other) = (&scene.store, &scene.agent, &scene.other);
    let (mine, theirs) = (own_address(me), own_address(other));
    let anybody = format!("anybody@{}", mine.domain());
    let find = async |path: &str| {
        // The first may be asked of the store, the second is remembered.
        let first = shown(&elsewhere.find(path).await.unwrap());
        assert_eq!(shown(&elsewhere.find(path).await.unwrap()), first);
        first
    };
    let claim = async |agent, address: &Address, catch_all| {
        let claim = AddressClaim { catch_all, ..address_claim(agent, address) };
        assert_eq!(store.claim_address(&claim, by(at(0))).await.unwrap(), Claimed::Yes);
    };
    let second = address(&format!("second@{}", mine.domain()));
    let named = second.to_string();
    assert_eq!(find(&named).await, "unknown");
    claim(me, &second, false).await;
    assert_eq!(find(&named).await, format!("{} open Address", me.id));
    store.set_mode(me.id, Mode::Allowlist, by(at(1))).await.unwrap();
    assert_eq!(find(&named).await, format!("{} allowlist Address", me.id));
    for above in [me.id, scene.organization.id, scene.reseller.id, scene.partner.id] {
        store.set_active(above, false, by(at(0))).await.unwrap();
        assert_eq!(find(&named).await, "inactive");
        store.set_active(above, true, by(at(0))).await.unwrap();
        assert_eq!(find(&named).await, format!("{} allowlist Address", me.id));
    }
    assert!(store.release_address(me.id, &second, by(at(0))).await.unwrap());
    assert_eq!(find(&named).await, "unknown");
    claim(other, &second, false).await;
    assert_eq!(find(&named).await, format!("{} open Address", other.id));

    assert_eq!(find(&anybody).await, "unknown");
    claim(me, &mine, true).await;
    assert_eq!(find(&anybody).await, format!("{} allowlist CatchAll", me.id));
    claim(me, &mine, false).await;
    claim(other, &theirs, true).await;
    assert_eq!(find(&anybody).await, format!("{} open CatchAll", other.id));

    // A refusal belongs to the owner of the domain, and without one to the partner.
    let domain = DomainName::parse("later.example").unwrap();
    let whose = async || elsewhere.find("x@later.example").await.unwrap().listing.lineage;
    let partner = elsewhere.partner().await.unwrap();
    assert_eq!(partner, scene.partner.lineage);
    assert_eq!(whose().await, partner);
    store.claim_domain(&domain, scene.organization.id, by(at(0))).await.unwrap();
    assert_eq!(whose().await, scene.organization.lineage);
    store.remove_domain(&domain, scene.organization.id, by(at(0))).await.unwrap();
    assert_eq!(whose().await, partner);
    let fresh = address("x@later.example");
    let AccountCreation::Account(made) = create(store, &scene.organization, &fresh).await else {
        panic!("not made")
    };
    assert_eq!(find("x@later.example").await, format!("{} allowlist Address", made.id));
    assert_eq!(whose().await, made.lineage);
}

/// An address goes from Agent to Agent while gateways ask for it. What was answered must have been
/// true at some moment between the question and its answer.
async fn no_answer_is_older_than_the_last_change_before_its_question(kind: Kind) {
    const CHANGES: usize = 60;
    let scene = Arc::new(Scene::new(kind).await);
    let wanted = address(&format!("wanted@{}", own_address(&scene.agent).domain()));
    let agents = [scene.agent.clone(), scene.other.clone()];
    // After so many changes nobody has it, or one of the two in turn.
    let ids = agents.clone().map(|agent| agent.id);
    let holder = move |done: usize| (done % 2 == 1).then(|| ids[done / 2 % 2]);
    let [begun, done] = [0; 2].map(|none| Arc::new(AtomicUsize::new(none)));
    let asked = Arc::new(Semaphore::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..2 {
        let elsewhere = Arc::new(directory(&scene, None).await);
        for _ in 0..8 {
            let (elsewhere, wanted) = (Arc::clone(&elsewhere), wanted.to_string());
            let [begun, done] = [&begun, &done].map(Arc::clone);
            let asked = Arc::clone(&asked);
            tasks.spawn(async move {
                let mut exact = 0;
                loop {
                    let first = done.load(Ordering::SeqCst);
                    let found = elsewhere.find(&wanted).await.unwrap().listing.answering;
                    let last = begun.load(Ordering::SeqCst);
                    let found = found.map(|one| one.agent);
                    let possible = (first..=last).any(|changes| holder(changes) == found);
                    assert!(possible, "{found:?} after {first} to {last} changes");
                    exact += usize::from(first == last);
                    asked.add_permits(1);
                    // An answer from the cache never yields to other tasks by itself.
                    tokio::task::yield_now().await;
                    if first == CHANGES {
                        return exact;
                    }
                }
            });
        }
    }
    for change in 0..CHANGES {
        // Questions enough that some began after the last change and ended before this one.
        asked.forget_permits(usize::MAX);
        tokio::select! {
            enough = asked.acquire_many(32) => enough.unwrap().forget(),
            ended = tasks.join_next() => panic!("too early: {ended:?}"),
        }
        begun.store(change + 1, Ordering::SeqCst);
        let agent = &agents[change / 2 % 2];
        if change % 2 == 0 {
            let claim = address_claim(agent, &wanted);
            let claimed = scene.store.claim_address(&claim, by(at(0))).await.unwrap();
            assert_eq!(claimed, Claimed::Yes);
        } else {
            assert!(scene.store.release_address(agent.id, &wanted, by(at(0))).await.unwrap());
        }
        done.store(change + 1, Ordering::SeqCst);
    }
    assert_eq!(tasks.join_all().await.into_iter().filter(|exact| *exact > 0).count(), 16);
}

async fn without_the_version_nothing_is_answered(kind: Kind) {
    let scene = Scene::new(kind).await;
    let elsewhere = directory(&scene, None).await;
    let path = own_address(&scene.agent).to_string();
    let known = elsewhere.find(&path).await.unwrap();
    // The second question reads the version, and remembers it on SQLite.
    assert_eq!(elsewhere.find(&path).await.unwrap(), known);
    // There an answer is true until somebody can tell a change, which nobody can now.
    let check = async || match kind {
        Kind::Sqlite => assert_eq!(elsewhere.find(&path).await.unwrap(), known),
        Kind::Postgres => drop(elsewhere.find(&path).await.unwrap_err()),
    };
    scene.execute("ALTER TABLE directory RENAME TO elsewhere").await;
    check().await;
    directory(&scene, None).await.find(&path).await.unwrap_err();
    scene.store.set_active(scene.agent.id, false, by(at(0))).await.unwrap_err();
    scene.execute("ALTER TABLE elsewhere RENAME TO directory").await;
    assert_eq!(elsewhere.find(&path).await.unwrap(), known);
    // A change that cannot be told is none.
    scene.execute("DELETE FROM directory").await;
    check().await;
    directory(&scene, None).await.find(&path).await.unwrap_err();
    scene.store.set_active(scene.agent.id, false, by(at(0))).await.unwrap_err();
    assert!(scene.store.is_active(&scene.agent).await.unwrap());
}

async fn postmaster_answers_wherever_a_domain_is_ours(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (me, other) = (&scene.agent, &scene.other);
    let elsewhere = directory(&scene, Some(own_address(me))).await;
    let nowhere = directory(&scene, None).await;
    let stranger = scene.stranger().await;
    let foreign = own_address(&stranger).domain().clone();
    let found = async |path: &str| {
        let found = elsewhere.find(path).await.unwrap();
        let by = found.listing.answering.map(|one| (one.agent, one.by));
        (by, found.address.map(|address| address.to_string()), found.tag)
    };
    let stands_in = Some(own_address(me).to_string());
    for path in ["postmaster", "PostMaster"] {
        assert_eq!(found(path).await, (Some((me.id, AnswersBy::Address)), stands_in.clone(), None));
        assert_eq!(shown(&nowhere.find(path).await.unwrap()), "unknown");
    }
    for path in [format!("POSTMASTER@{foreign}"), format!("\"postmaster\"@{foreign}")] {
        let by = Some((me.id, AnswersBy::Postmaster));
        assert_eq!(found(&path).await, (by, stands_in.clone(), None), "{path}");
        assert_eq!(shown(&nowhere.find(&path).await.unwrap()), "unknown");
    }
    let tagged = format!("postmaster+x@{foreign}");
    let expected = (Some((me.id, AnswersBy::Postmaster)), stands_in.clone(), Some("x".to_owned()));
    assert_eq!(found(&tagged).await, expected);
    assert_eq!(found("postmaster@foreign.example").await.0, None);
    // Before the catch-all; not before an Agent that has the address itself.
    let claim = async |agent, address: &Address, catch_all| {
        let claim = AddressClaim { catch_all, ..address_claim(agent, address) };
        assert_eq!(scene.store.claim_address(&claim, by(at(0))).await.unwrap(), Claimed::Yes);
    };
    claim(&stranger, &own_address(&stranger), true).await;
    assert_eq!(
        found(&format!("postmaster@{foreign}")).await.0,
        Some((me.id, AnswersBy::Postmaster))
    );
    let own = address(&format!("postmaster@{}", own_address(other).domain()));
    claim(other, &own, false).await;
    assert_eq!(found(&own.to_string()).await.0, Some((other.id, AnswersBy::Address)));
    // The one that stands for it may itself be answered by a catch-all, or by nobody.
    scene.store.release_address(me.id, &own_address(me), by(at(0))).await.unwrap();
    assert_eq!(found("postmaster").await.0, None);
    claim(other, &own_address(other), true).await;
    assert_eq!(found("postmaster").await.0, Some((other.id, AnswersBy::CatchAll)));
    assert_eq!(
        found(&format!("postmaster@{foreign}")).await.0,
        Some((other.id, AnswersBy::Postmaster))
    );
}

async fn every_spelling_of_an_address_is_asked_as_one(kind: Kind) {
    let scene = Scene::new(kind).await;
    let elsewhere = directory(&scene, None).await;
    let organization =
        account(&scene.store, AccountType::Organization, Some(scene.reseller.id), "o");
    let me = agent(&scene.store, &organization.await, "desk").await;
    let own = address("boss@münchen.example");
    let domain_for = me.lineage.organization;
    let claim = AddressClaim { domain_for, ..address_claim(&me, &own) };
    assert_eq!(scene.store.claim_address(&claim, by(at(0))).await.unwrap(), Claimed::Yes);
    for (path, tag) in [
        ("boss@xn--mnchen-3ya.example", None),
        ("BOSS@XN--MNCHEN-3YA.EXAMPLE", None),
        ("Boss@München.Example", None),
        ("\"boss\"@münchen.example", None),
        ("boss+news@münchen.example", Some("news")),
        ("boss+a+b@xn--mnchen-3ya.example", Some("a+b")),
        ("\"boss+\"@münchen.example", Some("")),
    ] {
        let found = elsewhere.find(path).await.unwrap();
        assert_eq!(shown(&found), format!("{} open Address", me.id), "{path}");
        assert_eq!((found.address.as_ref(), found.tag.as_deref()), (Some(&own), tag), "{path}");
    }
    let long = format!("{}@münchen.example", "a".repeat(65));
    for path in [
        "boss@münchen.example.",
        "boss%other.example@münchen.example",
        "other.example!boss@münchen.example",
        "boss@[127.0.0.1]",
        "boss@[IPv6:::1]",
        "boss@127.0.0.1",
        "b.oss@münchen.example",
        "+boss@münchen.example",
        "boss",
        "",
        &long,
    ] {
        assert_eq!(shown(&elsewhere.find(path).await.unwrap()), "unknown", "{path}");
    }
}
