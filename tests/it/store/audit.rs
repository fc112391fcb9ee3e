//! Nothing is changed without an entry in the audit log, and nothing secret is in it.

use std::collections::BTreeSet;

use gatepost::app::tenancy::record::account_record;
use gatepost::domain::address::Address;
use gatepost::domain::app::Use;
use gatepost::domain::audit::{Act, Actor, Change, Deed, Doer, Entry, Who};
use gatepost::domain::clock::TimeRange;
use gatepost::domain::delivery::{Extent, Outcome};
use gatepost::domain::domain_name::DomainName;
use gatepost::domain::event::Category;
use gatepost::domain::feature::Feature;
use gatepost::domain::id::{AuditId, KeyId};
use gatepost::domain::key::Key;
use gatepost::domain::member::Role;
use gatepost::domain::policy::Mode;
use gatepost::domain::relay::RelayType;
use gatepost::domain::scope::Scope;
use gatepost::domain::secret::Secret;
use gatepost::store::{
    AccountUpdate, AuditFilter, ComputerChange, Cursor, DeliveryFilter, DestinationChange,
    Direction, DomainLimits, KeyInsertion, List, MemberChange, NamedKey, Page, Receipt, Release,
    ReplayRequest, RevocableKeys, Rotation,
};
use uuid::Uuid;

use super::apps;
use super::console_sessions;
use super::keys::{keep, keep_for_secrets, key};
use super::members::member;
use super::scene::{
    Kind, Scene, account, address, address_claim, at, attempt, by, destination, everything,
    own_address, subtree,
};
use super::schema::sources;

on_both! {
    every_change_leaves_its_entry,
    a_page_is_of_its_scope_its_filter_and_its_time,
    refused_attempts_of_a_minute_are_one_entry,
    a_receiver_that_is_gone_is_noted,
}

const KEY: KeyId = KeyId(Uuid::from_u128(5));

/// Makes the change of this number to a webhook of the Agent; returns as `change` does.
async fn change_webhook(scene: &Scene, number: u32, act: Act<'_>) -> Option<(&'static str, i64)> {
    let Scene { store, agent, .. } = scene;
    if number == 0 {
        let new = destination(agent.id, Category::Incoming, "https://a.example/secret");
        store.insert_destination(&new, 9, act).await.unwrap();
        return Some(("insert_destination", 1));
    }
    let hook = store.destinations(agent.id).await.unwrap().remove(0).id;
    let name = match number {
        1 => {
            let label = DestinationChange { label: Some("new".into()), ..Default::default() };
            store.update_destination(agent.id, hook, &label, act).await.unwrap();
            "update_destination"
        }
        2 => {
            let secret = Secret::new([8; 32]);
            let rotation = Rotation { secret, overlap_until: None, max_former: 1 };
            store.rotate_secret(agent.id, hook, &rotation, act).await.unwrap();
            "rotate_secret"
        }
        3 => {
            store.test_destination(agent, hook, act).await.unwrap();
            for claim in store.claim_deliveries(at(1), at(9), 10, &[]).await.unwrap() {
                store.finish_delivery(&claim, &attempt(2, 500), Outcome::Exhausted).await.unwrap();
            }
            "test_destination"
        }
        4 => {
            let request = ReplayRequest { since: at(0), extent: Extent::Failed };
            store.request_replay(agent.id, hook, request, 9, act).await.unwrap();
            "request_replay"
        }
        5 => {
            let all = DeliveryFilter { state: None, since: None, until: None };
            let oldest = store.deliveries(hook, &all, &everything(), 1).await.unwrap().pop();
            store.replay_delivery(agent.id, oldest.unwrap().id, act).await.unwrap();
            "replay_delivery"
        }
        _ => return None,
    };
    Some((name, 1))
}

/// Makes the change of this number to the Agent's apps and features; returns as `change` does.
async fn change_app(scene: &Scene, number: u32, act: Act<'_>) -> Option<(&'static str, i64)> {
    let Scene { store, agent, .. } = scene;
    let new = apps::record(agent.id, Use::Installed, "crm");
    let name = match number {
        0 => {
            store.insert_app_record(&new, 9, act).await.unwrap();
            "insert_app_record"
        }
        1 => {
            store.update_app_record(&new, &["key".into()], act).await.unwrap();
            "update_app_record"
        }
        2 => {
            store.remove_app(agent.id, &new.app, act).await.unwrap();
            "remove_app"
        }
        3 => {
            let wanted = [(Feature::Apps, Some(true))];
            store.assign_features(agent.id, &wanted, act).await.unwrap();
            "assign_features"
        }
        _ => return None,
    };
    Some((name, 1))
}

/// Makes the change of this number to the Agent's computer, or resets a session; returns as
/// `change` does.
async fn change_computer(scene: &Scene, number: u32, act: Act<'_>) -> Option<(&'static str, i64)> {
    let Scene { store, agent, .. } = scene;
    let change = |name: &str| ComputerChange {
        name: Some(Some(name.to_owned())),
        ..ComputerChange::default()
    };
    let name = match number {
        0 => {
            store.create_computer(agent, &change("a"), act).await.unwrap();
            "create_computer"
        }
        1 => {
            let revision = store.computer(agent.id).await.unwrap().unwrap().revision;
            store.change_computer(agent.id, revision, &change("b"), act).await.unwrap();
            "change_computer"
        }
        2 => {
            store.provision_computer(agent, act).await.unwrap();
            "provision_computer"
        }
        3 => {
            let computer = store.computer(agent.id).await.unwrap().unwrap();
            let job = computer.job.unwrap().id;
            let (key, revision) = (store.keys(agent.id).await.unwrap()[0].id, computer.revision);
            let release = Release { agent: agent.id, key, job, revision, apps: &[] };
            store.record_release(release, &[Change::made("app", "crm/v1")], act).await.unwrap();
            "record_release"
        }
        4 => {
            store.deprovision_computer(agent.id, false, act).await.unwrap();
            "deprovision_computer"
        }
        5 => {
            store.remove_computer(agent.id, act).await.unwrap();
            "remove_computer"
        }
        6 => {
            let message = scene.deliver(agent, 0).await;
            let found = store.messages(&subtree(agent), &[message]).await.unwrap().remove(0);
            let key = found.session_key().unwrap();
            store.reset_session(&subtree(agent), key, None, act).await.unwrap();
            "reset_session"
        }
        _ => return None,
    };
    Some((name, 1))
}

/// Makes the change of this number; returns the name of the method, and how many entries it should
/// leave. None after the last change.
async fn change(scene: &Scene, number: u32, act: Act<'_>) -> Option<(&'static str, i64)> {
    let Scene { store, agent, organization, .. } = scene;
    let domain = DomainName::parse("new.example").unwrap();
    let senders: Vec<Address> = vec![address("a@x.example"), address("b@x.example")];
    let new = address(&format!("new@{}", own_address(agent).domain()));
    let hook = |category| destination(agent.id, category, "https://a.example/secret");
    match number {
        0 => drop(store.claim_domain(&domain, organization.id, act).await.unwrap()),
        1 => drop(store.remove_domain(&domain, organization.id, act).await.unwrap()),
        2 => drop(store.claim_address(&address_claim(agent, &new), act).await.unwrap()),
        3 => drop(store.release_address(agent.id, &new, act).await.unwrap()),
        4 => store.set_mode(agent.id, Mode::Allowlist, act).await.unwrap(),
        5 => drop(store.allow_senders(agent.id, &senders, None, 9, act).await.unwrap()),
        6 => drop(store.remove_senders(agent.id, &senders, act).await.unwrap()),
        7 => drop(store.insert_destination(&hook(Category::Agent), 9, act).await.unwrap()),
        8 => drop(store.insert_destination(&hook(Category::Contact), 9, act).await.unwrap()),
        9 => drop(store.remove_destinations(agent.id, None, None, None, act).await.unwrap()),
        10 => drop(store.set_active(agent.id, false, act).await.unwrap()),
        11 => drop(store.set_active(agent.id, true, act).await.unwrap()),
        12 => drop(store.revoke_key(NamedKey::Id(KEY), RevocableKeys::All, act).await.unwrap()),
        13 => {
            let limits = DomainLimits { claims: 9, domains: 9 };
            store.pending_claim(&domain, organization.id, "a", limits, act).await.unwrap();
        }
        14 => drop(store.prove_domain(&domain, organization.id, "a", act).await.unwrap()),
        15 => {
            let update = AccountUpdate { name: Some("new".into()), ..AccountUpdate::default() };
            store.update_account(agent.id, &update, 999, act).await.unwrap();
        }
        16 => {
            let message = scene.deliver(agent, 0).await;
            store.erase_message(&subtree(agent), message, act).await.unwrap();
        }
        17 => {
            let text = super::received::handed(agent, 0, "+15551231234");
            let Receipt::Stored(contact) = store.receive(&text).await.unwrap() else { panic!() };
            store.erase_contact(&subtree(organization), contact, act).await.unwrap();
        }
        18..22 => return Some(change_relay(scene, number - 18, act).await),
        22 => console_sessions::end_all(store, act).await,
        23 => super::outcomes::record_one(scene, act).await,
        24 => {
            let deleting = store.delete_account(organization.id, true, 9, account_record, act);
            deleting.await.unwrap();
        }
        _ => return None,
    }
    Some(match number {
        0 => ("claim_domain", 1),
        1 => ("remove_domain", 1),
        2 => ("claim_address", 1),
        3 => ("release_address", 1),
        4 => ("set_mode", 1),
        5 => ("allow_senders", 1),
        6 => ("remove_senders", 1),
        7 | 8 => ("insert_destination", 1),
        9 => ("remove_destinations", 3),
        10 | 11 => ("set_active", 1),
        12 => ("revoke_key", 1),
        13 => ("pending_claim", 1),
        14 => ("prove_domain", 1),
        15 => ("update_account", 1),
        16 => ("erase_message", 1),
        17 => ("erase_contact", 1),
        22 => ("end_console_session", 1),
        23 => ("record_outcome", 1),
        // Two Agents of the scene, one of the test, and their organization.
        _ => ("delete_account", 4),
    })
}

/// Changes to a relay, and to a provider's way in.
async fn change_relay(scene: &Scene, number: u32, act: Act<'_>) -> (&'static str, i64) {
    let Scene { store, agent, .. } = scene;
    match number {
        0 => drop(super::relays::add(scene, agent, act).await),
        1 => drop(store.remove_relay(agent.id, RelayType::Smtp, act).await.unwrap()),
        2 => drop(super::relays::open(scene, agent, act).await),
        _ => drop(store.remove_inbound_way(agent.id, RelayType::Postmark, act).await.unwrap()),
    }
    let made = ["put_relay", "remove_relay", "put_relay", "remove_inbound_way"];
    (made[usize::try_from(number).unwrap()], 1)
}

/// Those that make something new each time.
const ANEW: &[&str] = &[
    "insert_destination",
    "rotate_secret",
    "test_destination",
    "erase_message",
    "erase_contact",
    "reset_session",
    "record_outcome",
    "record_release",
];

async fn every_change_leaves_its_entry(kind: Kind) {
    let scene = Scene::new(kind).await;
    let entries = async || scene.count("SELECT COUNT(*) FROM audit_entries").await;
    keep_for_secrets(&scene.store, &scene.agent, 77).await;
    let (mut made, mut before) = (BTreeSet::new(), entries().await);
    account(&scene.store, scene.agent.kind, Some(scene.organization.id), "another").await;
    let new = Key { id: KEY, ..key(&scene.agent, None) };
    assert_eq!(keep(&scene.store, &new, 5).await, KeyInsertion::Inserted);
    let someone = member(&scene, &scene.organization, "a@good.example", &[]).await;
    let second = member(&scene, &scene.organization, "b@good.example", &[]).await;
    let role = MemberChange { role: Some(Role::Member), ..MemberChange::default() };
    for _ in 0..2 {
        scene.store.update_member(someone.id, &role, by(at(0))).await.unwrap();
        scene.store.remove_member(someone.id, by(at(0))).await.unwrap();
    }
    assert_eq!(second.role, Role::Admin, "somebody must stay");
    assert_eq!(entries().await, before + 6, "an account, a key, two members, two changes");
    before += 6;
    console_sessions::sign_in(&scene.store, &scene.other, &new).await;
    assert_eq!(entries().await, before + 4, "a key, its link and its session; a session");
    before += 4;
    made.extend(["create_account", "insert_key", "insert_member", "add_console_link"]);
    made.extend(["add_console_session", "update_member", "remove_member"]);
    let who = Who::Key {
        key: KeyId(Uuid::from_u128(9)),
        account: scene.organization.id,
        member: gatepost::domain::id::MemberId::new(77),
    };
    let (remote, request) = (Some("2001:db8::1".parse().unwrap()), Some(Uuid::from_u128(8)));
    let actor = Actor { remote, request, ..Actor::of(who) };
    let mut expected = 0;
    for number in 0_u32.. {
        let make = async |act| match number {
            0..6 => change_webhook(&scene, number, act).await,
            6..10 => change_app(&scene, number - 6, act).await,
            10..17 => change_computer(&scene, number - 10, act).await,
            number => match (number - 17).checked_sub(super::agents::CHANGES) {
                None => super::agents::change(&scene, number - 17, act).await,
                Some(number) => match number.checked_sub(super::templates::CHANGES) {
                    None => super::templates::change(&scene, number, act).await,
                    Some(number) => change(&scene, number, act).await,
                },
            },
        };
        let Some((name, left)) = make(actor.at(at(1))).await else { break };
        expected += left;
        assert_eq!(entries().await, before + expected, "{name}");
        // A repeated change writes no entry.
        if !ANEW.contains(&name) {
            make(actor.at(at(2))).await;
            assert_eq!(entries().await, before + expected, "{name}, again");
        }
        made.insert(name);
    }
    let filter =
        AuditFilter { doer: Some(Doer::User(scene.organization.id)), ..Default::default() };
    let told = scene.store.audit(&subtree(&scene.partner), &filter, &everything()).await.unwrap();
    assert_eq!(i64::try_from(told.len()).unwrap(), expected);
    for entry in &told {
        assert_eq!((&entry.actor, entry.at, entry.count), (&actor, at(1), 1));
        assert!(!format!("{entry:?}").contains("secret"), "{entry:?}");
    }
    // Every method that is told who does it is made above. `mark_read` is not told: that somebody
    // has read something changes no right and no content.
    let text = sources("src/store");
    let methods = text.split("    pub async fn ").skip(1).filter_map(|rest| {
        let (name, rest) = rest.split_once('(')?;
        rest.split_once(") -> Result")?.0.contains("act: Act<").then_some(name)
    });
    let mut methods: BTreeSet<&str> = methods.collect();
    assert!(methods.remove("count_denials"), "it makes nothing but an entry");
    assert_eq!(methods, made);
}

async fn a_page_is_of_its_scope_its_filter_and_its_time(kind: Kind) {
    let scene = Scene::new(kind).await;
    let Scene { store, partner, organization, agent, other, .. } = &scene;
    let whose = |account, member: Option<i64>| {
        let member = member.and_then(gatepost::domain::id::MemberId::new);
        Actor::of(Who::Key { key: KeyId(Uuid::from_u128(9)), account, member })
    };
    let doers = [whose(organization.id, None), whose(organization.id, Some(50)), Actor::GATEWAY];
    for (number, actor) in (1..).zip(&doers) {
        let active = number % 2 == 0;
        assert!(store.set_active(agent.id, active, actor.at(at(number))).await.unwrap());
    }
    store.set_active(other.id, false, by(at(9))).await.unwrap();
    let page = async |scope: &Scope, filter: AuditFilter| {
        let entries = store.audit(scope, &filter, &everything()).await.unwrap();
        let of = |entry: Entry| (entry.at, entry.lineage.agent);
        entries.into_iter().map(of).collect::<Vec<_>>()
    };
    let changed = AuditFilter { deed: Some(Deed::AccountUpdated), ..AuditFilter::default() };
    let mine =
        |times: &[i64]| times.iter().map(|time| (at(*time), Some(agent.id))).collect::<Vec<_>>();
    assert_eq!(page(&subtree(agent), changed.clone()).await, mine(&[3, 2, 1]));
    assert_eq!(page(&subtree(partner), changed.clone()).await.len(), 4);
    let only = subtree(partner).only(vec![agent.id]);
    assert_eq!(page(&only, changed.clone()).await, mine(&[3, 2, 1]));
    assert_eq!(page(&subtree(partner).only(Vec::new()), changed.clone()).await, []);
    for (doer, times) in [
        (Doer::User(organization.id), [2, 1].as_slice()),
        (Doer::User(gatepost::domain::id::AccountId::new(50).unwrap()), &[2]),
        (Doer::Key(KeyId(Uuid::from_u128(9))), &[2, 1]),
        (Doer::Key(KeyId(Uuid::from_u128(8))), &[]),
        (Doer::Gateway, &[3]),
    ] {
        let filter = AuditFilter { doer: Some(doer), ..changed.clone() };
        assert_eq!(page(&subtree(agent), filter).await, mine(times), "{doer:?}");
    }
    let (since, until) = (Some(at(2)), Some(at(3)));
    let filter = AuditFilter { since, until, ..changed.clone() };
    assert_eq!(page(&subtree(agent), filter).await, mine(&[2]));
    let newest = store.audit(&subtree(agent), &changed, &everything()).await.unwrap();
    let cursor = Cursor { at: newest[0].at, id: newest[0].id.0 };
    for (direction, times) in [(Direction::Before, [2].as_slice()), (Direction::After, &[])] {
        let from = Some((direction, cursor));
        let page = Page { limit: 1, from, until: None };
        let entries = store.audit(&subtree(agent), &changed, &page).await.unwrap();
        let entries: Vec<_> = entries.iter().map(|entry| (entry.at, Some(agent.id))).collect();
        assert_eq!(entries, mine(times));
    }
    let walk = Page { limit: 1, from: None, until: None };
    let scope = subtree(agent);
    for (scope, place) in [(&scope, Some(cursor)), (&subtree(other), None)] {
        assert_eq!(store.place_of(List::Audit, scope, cursor.id).await.unwrap(), place);
    }
    let end = store.end_of_walk(List::Audit, &scope, &walk, TimeRange::default(), 2).await.unwrap();
    assert_eq!(end.unwrap().at, at(2));
}

async fn refused_attempts_of_a_minute_are_one_entry(kind: Kind) {
    let scene = Scene::new(kind).await;
    let second = scene.open().await;
    let (id, account) = (AuditId(Uuid::from_u128(1 << 100)), scene.agent.id);
    let actor = Actor::of(Who::Key { key: KeyId(Uuid::from_u128(9)), account, member: None });
    for (store, millis, count) in [(&scene.store, 5, 3), (&second, 1, 1), (&scene.store, 9, 2)] {
        let operation = format!("GET /{millis}");
        store.count_denials(id, actor.at(at(millis)), &operation, count).await.unwrap();
    }
    let filter = AuditFilter { deed: Some(Deed::AccessDenied), ..AuditFilter::default() };
    let told = scene.store.audit(&subtree(&scene.partner), &filter, &everything()).await.unwrap();
    assert_eq!(told.len(), 1);
    let first = &told[0];
    assert_eq!((first.id, first.at, first.count, first.object.as_str()), (id, at(5), 6, "GET /5"));
    assert_eq!((first.lineage, &first.actor), (scene.agent.lineage, &actor));
    // Denials of an unknown account or of the operator leave no entry.
    let nobody = gatepost::domain::id::AccountId::new(9999).unwrap();
    let gone = Actor::of(Who::Key { key: KeyId(Uuid::nil()), account: nobody, member: None });
    for actor in [gone, Actor::OPERATOR] {
        let id = AuditId(Uuid::from_u128(2 << 100));
        scene.store.count_denials(id, actor.at(at(1)), "GET /", 1).await.unwrap();
    }
    let told = scene.store.audit(&subtree(&scene.partner), &filter, &everything()).await.unwrap();
    assert_eq!(told.len(), 1);
}

async fn a_receiver_that_is_gone_is_noted(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.listen(&scene.agent, Category::Incoming, "https://a.example/secret").await;
    scene.deliver(&scene.agent, 0).await;
    let claims = scene.store.claim_deliveries(at(1), at(9), 10, &[]).await.unwrap();
    let ended = scene.store.finish_delivery(&claims[0], &attempt(2, 410), Outcome::Gone).await;
    assert!(ended.unwrap().recorded);
    let filter = AuditFilter { doer: Some(Doer::Gateway), ..AuditFilter::default() };
    let told = scene.store.audit(&subtree(&scene.agent), &filter, &everything()).await.unwrap();
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].deed, told[0].at), (Deed::WebhookRemoved, at(2)));
}
