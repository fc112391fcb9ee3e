//! Every statement of the store, run once: for whoever asks about all of them.

use gatepost::app::tenancy::record::account_record;
use gatepost::domain::account::AccountType;
use gatepost::domain::audit::{Actor, Deed, Doer, Once, Who};
use gatepost::domain::clock::TimeRange;
use gatepost::domain::contact::Handle;
use gatepost::domain::delivery::{Attempt, Outcome};
use gatepost::domain::domain_name::DomainName;
use gatepost::domain::event::{Category, EventName};
use gatepost::domain::id::{AccountId, AttemptId, AuditId, EventId, IntakeId, KeyId, MessageId};
use gatepost::domain::key::KeyHash;
use gatepost::domain::member::Role;
use gatepost::domain::reason::Reason;
use gatepost::domain::verdict::{self, Verdict};
use gatepost::rules::{RetainedKind, Share};
use gatepost::run;
use gatepost::store::{
    AccountDeletion, AccountFilter, AccountPage, AccountUpdate, AddressClaim, AuditFilter, Commit,
    Cursor, Direction, DomainLimits, DueAccount, EventFilter, Intake, IntakeFilter, KeyInsertion,
    List, Location, MemberChange, NamedKey, Page, PositionRange, RevocableKeys,
};
use uuid::Uuid;

use crate::support::store_rules;

use super::keys::{keep, key};
use super::members::member;
use super::scene::{Scene, address, address_claim, at, by, mint, own_address, record, subtree};

const LIMITS: DomainLimits = DomainLimits { claims: 9, domains: 9 };

/// Runs every statement of the store at least once.
pub async fn exercise(scene: &Scene) {
    let Scene { store, agent, .. } = scene;
    let own = own_address(agent);
    for category in [Category::Incoming, Category::Contact] {
        scene.listen(agent, category, "https://a.example/").await;
    }
    for millis in [0, 1] {
        scene.deliver(agent, millis).await;
    }
    super::sessions::exercise(scene).await;
    super::outcomes::exercise(scene).await;
    super::agents::exercise(scene).await;
    super::templates::exercise(scene).await;
    super::erasure::exercise(scene).await;
    let again = vec![scene.intake(agent, 2).await];
    store.arrived_before(&Commit { intakes: again, now: at(2) }).await.unwrap();
    store.known_identity().await.unwrap();
    store.link_key().await.unwrap();
    store.agent_of_message(MessageId(Uuid::nil())).await.unwrap();
    let refused = record(agent, 0, Verdict::Refused(Reason::UnknownRecipient));
    for _ in 0..2 {
        store.count_refusal(&refused, "192.0.2.0/24").await.unwrap();
    }
    let intakes = vec![Intake { record: record(agent, 0, refused.verdict), accepted: None }];
    store.note(&Commit { intakes, now: at(0) }).await.unwrap();
    lists(scene).await;
    super::logs::exercise(scene).await;
    log(scene).await;
    store.next_due(at(2)).await.unwrap();
    store.join().await.unwrap();
    store.beat().await.unwrap();
    store.apart(&store_rules(), Share::Beats).await.unwrap().beat().await.unwrap();
    store.shorten_waits().await.unwrap();
    let claims = store.claim_deliveries(at(2), at(9), 10, &[]).await.unwrap();
    store.release_deliveries(&claims).await.unwrap();
    let attempt = Attempt {
        id: AttemptId(mint().uuid()),
        at: at(3),
        latency_ms: 1,
        status: Some(410),
        response: Vec::new(),
        error: None,
    };
    store.finish_delivery(&claims[0], &attempt, Outcome::Gone).await.unwrap();
    store.leave().await.unwrap();
    assert!(store.holder().is_some());
    store.destinations(agent.id).await.unwrap();
    super::webhooks::exercise(scene).await;
    super::relays::exercise(scene).await;
    store.remove_destinations(agent.id, None, None, None, by(at(4))).await.unwrap();
    for kind in [None, Some(AccountType::Partner)] {
        store.accounts(kind).await.unwrap();
    }
    senders(scene).await;
    people(scene).await;
    domains(scene, own.domain()).await;
    store.release_address(agent.id, &own, by(at(0))).await.unwrap();
    let claim = AddressClaim { catch_all: true, ..address_claim(agent, &own) };
    store.claim_address(&claim, by(at(0))).await.unwrap();
    store.set_active(agent.id, true, by(at(0))).await.unwrap();
    store.ping().await.unwrap();
    requests(scene).await;
    objects(scene).await;
    retention(scene).await;
    super::health::exercise(scene).await;
    super::replays::exercise(scene).await;
    super::search::exercise(scene).await;
    super::apps::exercise(scene).await;
    accounts(scene).await;
}

/// The one that it has goes.
async fn domains(scene: &Scene, domain: &DomainName) {
    let Scene { store, organization, .. } = scene;
    let (new, limits) = (DomainName::parse("new.example").unwrap(), LIMITS);
    store.pending_claim(&new, organization.id, "a", limits, by(at(0))).await.unwrap();
    store.prove_domain(&new, organization.id, "a", by(at(0))).await.unwrap();
    store.remove_domain(&new, organization.id, by(at(0))).await.unwrap();
    store.domains(Some(organization.id)).await.unwrap();
    super::tls_reports::exercise(scene).await;
    store.is_domain_of(domain, organization.id).await.unwrap();
    store.owned_domains(Some(domain), 5).await.unwrap();
    store.remove_domain(domain, organization.id, by(at(0))).await.unwrap();
}

/// Runs the methods that answers to RCPT and decisions rest on.
async fn senders(scene: &Scene) {
    let Scene { store, agent, .. } = scene;
    store.backlog().await.unwrap();
    store.is_active(agent).await.unwrap();
    store.look_up(Some(&own_address(agent)), None).await.unwrap();
    store.directory_version().await.unwrap();
    store.addresses(agent.id).await.unwrap();
    let alice = [address("alice@good.example")];
    store.allow_senders(agent.id, &alice, None, 5, by(at(0))).await.unwrap();
    store.allowed_senders(agent.id, 5, Some(&alice[0])).await.unwrap();
    store.listed_among(agent.id, &alice.iter().cloned().collect()).await.unwrap();
    store.policy(agent.id).await.unwrap();
    store.remove_senders(agent.id, &alice, by(at(0))).await.unwrap();
}

/// Lists, changes and the deletion of accounts, with what a deleted one has left.
async fn accounts(scene: &Scene) {
    let Scene { store, partner, reseller, organization, agent, .. } = scene;
    let every = AccountFilter {
        active: Some(true),
        text: Some("desk".into()),
        since: Some(at(0)),
        before: Some(at(9)),
        external_id: Some("x".into()),
        plan: Some("p".into()),
        billing: Some("b".into()),
        subscribed: Some(false),
    };
    let (first, next) = (None, AccountId::new(1));
    for account in [partner, reseller, organization, agent] {
        for scope in [subtree(account), subtree(account).only(vec![agent.id])] {
            for (filter, after) in [(AccountFilter::default(), first), (every.clone(), next)] {
                let page = AccountPage { after, skip: 0, limit: 2 };
                let level = AccountType::Agent;
                store.list_accounts(&scope, level, &filter, page, 5).await.unwrap();
            }
            store.accounts_by_external_id(&scope, "x", 2).await.unwrap();
        }
    }
    store.account_even_deleted(agent.id).await.unwrap();
    store.reserve_account_id().await.unwrap();
    let details = serde_json::json!({ "email": "a@b.example" }).as_object().unwrap().clone();
    let external_id = Some(Some("x".to_owned()));
    let update = AccountUpdate { external_id, details, ..AccountUpdate::default() };
    store.update_account(agent.id, &update, 99, by(at(0))).await.unwrap();
    store.claim_domain(own_address(agent).domain(), organization.id, by(at(0))).await.unwrap();
    for account in [organization, reseller] {
        let deleting = store.delete_account(account.id, true, 9, account_record, by(at(0)));
        assert!(matches!(deleting.await.unwrap(), AccountDeletion::Done { .. }));
    }
    super::erasure::finish(store).await;
    store.with_leftovers(&[agent.id]).await.unwrap();
    store.delete_leftovers(organization.id, 9).await.unwrap();
}

/// Runs the methods that keep idempotent requests and count denied ones.
async fn requests(scene: &Scene) {
    let Scene { store, agent, .. } = scene;
    let once = Once { digest: [1; 32], request: [2; 32], until: at(1) };
    let who = Who::Key { key: KeyId(Uuid::nil()), account: agent.id, member: None };
    let actor = Actor { once: Some(once), ..Actor::of(who) };
    store.set_active(agent.id, false, actor.at(at(0))).await.unwrap();
    store.remembered_request(once.digest, at(0)).await.unwrap();
    store.keep_answer(&once, Uuid::nil(), at(2), None).await.unwrap();
    store.forget_requests(at(2), 9).await.unwrap();
    store.forget_secrets(at(2), None, 9).await.unwrap();
    store.count_denials(AuditId(Uuid::nil()), actor.at(at(0)), "GET /", 1).await.unwrap();
}

/// Keys and members, of everybody and named in every way.
async fn people(scene: &Scene) {
    let Scene { store, agent, organization, .. } = scene;
    let one = member(scene, organization, "a@good.example", &[agent]).await;
    let (id, hash) = (KeyId(Uuid::nil()), KeyHash([0; 32]));
    for (owner, member) in [(agent, None), (organization, Some(one.id))] {
        let mut new = key(owner, member);
        let maker = Who::Key { key: id, account: agent.id, member: None };
        let made = store.insert_key(&new, hash, 9, Actor::of(maker).at(at(0))).await.unwrap();
        assert_eq!(made, KeyInsertion::NoMaker);
        new.id = KeyId(mint().uuid());
        keep(store, &new, u8::from(member.is_some())).await;
        store.keys_in_force(new.owner(), at(0)).await.unwrap();
    }
    store.key_holder(hash).await.unwrap();
    store.key_holder_with_others(hash).await.unwrap();
    for share in [Share::Api, Share::Streams] {
        let apart = store.apart(&store_rules(), share).await.unwrap();
        assert_eq!(apart.key_holder(hash).await.unwrap(), store.key_holder(hash).await.unwrap());
    }
    store.keys(agent.id).await.unwrap();
    store.record_key_use(id, at(1), at(0)).await.unwrap();
    for account in [&scene.partner, &scene.reseller, organization, agent] {
        for scope in [subtree(account), subtree(account).only(vec![agent.id])] {
            for whose in [
                RevocableKeys::All,
                RevocableKeys::OfMember(one.id),
                RevocableKeys::InScope(&scope),
            ] {
                for named in [NamedKey::Id(id), NamedKey::Hash(KeyHash([9; 32]))] {
                    store.revoke_key(named, whose, by(at(0))).await.unwrap();
                }
            }
        }
    }
    super::console_sessions::exercise(scene, &one).await;
    store.member(one.id).await.unwrap();
    store.account_or_member(agent.id).await.unwrap();
    store.account_or_member_with_others(agent.id).await.unwrap();
    store.members(organization.id).await.unwrap();
    let change = MemberChange { role: Some(Role::Member), ..MemberChange::default() };
    store.update_member(one.id, &change, by(at(1))).await.unwrap();
    store.remove_member(one.id, by(at(2))).await.unwrap();
}

/// A large message, with the questions before its put and of the sweeper.
async fn objects(scene: &Scene) {
    let store = super::objects::with_blobs(scene).await;
    let agent = store.account(scene.agent.id).await.unwrap().unwrap();
    let (intake, _) = super::objects::large(scene, &agent, 0, 5000).await;
    super::objects::committed(&store, vec![intake]).await;
    let later = run::system_mint().clock().now().plus(std::time::Duration::from_secs(90_000));
    store.sweep_objects(later).await.unwrap();
}

/// Deletes everything, of every kind and at every level.
async fn retention(scene: &Scene) {
    let Scene { store, partner, agent, .. } = scene;
    assert_eq!(store.accounts_after(None, 10).await.unwrap().len(), 5);
    let due = [partner, agent].map(|account| DueAccount {
        account: account.id,
        kind: account.kind,
        until: at(9),
    });
    for kept in RetainedKind::ALL {
        store.with_expired(kept, &due).await.unwrap();
        for due in &due {
            let first = store.expired(kept, due, None, 1).await.unwrap();
            let from = first.first().map(|row| row.place);
            let rest = store.expired(kept, due, from, 9).await.unwrap();
            let rows = [first, rest].concat();
            assert!(
                rows.is_empty()
                    || due.account == agent.id
                    || kept == RetainedKind::Audit
                    || kept == RetainedKind::Events
            );
            let deleted = store.delete_expired(kept, &rows, 99).await.unwrap().unwrap();
            assert_eq!(usize::try_from(deleted.rows).unwrap(), rows.len());
        }
    }
    store.delete_arrivals(at(9), 9).await.unwrap();
}

/// Every list at every level, permitted or not, in every direction.
async fn lists(scene: &Scene) {
    let Scene { store, partner, reseller, organization, agent, .. } = scene;
    let cursor = Cursor { at: at(1), id: Uuid::nil() };
    for account in [partner, reseller, organization, agent] {
        for scope in [subtree(account), subtree(account).only(vec![agent.id])] {
            for from in [None, Some((Direction::Before, cursor)), Some((Direction::After, cursor))]
            {
                let mut page = Page { limit: 2, from, until: None };
                let time = TimeRange { since: Some(at(0)), before: Some(at(2)) };
                for list in [List::Messages, List::IntakeRecords, List::Audit] {
                    store.end_of_walk(list, &scope, &page, time, 2).await.unwrap();
                }
                page.until = scope.permitted().map(|_| cursor);
                store.audit(&scope, &AuditFilter::default(), &page).await.unwrap();
                store.past_verdicts(&scope, &page, at(0)).await.unwrap();
                for time in [TimeRange::default(), TimeRange { before: None, ..time }] {
                    store.recent_messages(&scope, time, &page).await.unwrap();
                }
                super::many_rooms::exercise(scene, &scope, &page).await;
                store.intake_records(&scope, &IntakeFilter::default(), &page).await.unwrap();
                page.until = Some(cursor);
                for filter in filters() {
                    store.intake_records(&scope, &filter, &page).await.unwrap();
                }
                for filter in log_filters() {
                    store.audit(&scope, &filter, &page).await.unwrap();
                }
            }
            let nil = Uuid::nil();
            store.intake_record(&scope, IntakeId(nil)).await.unwrap();
            store.raw_message(&scope, MessageId(nil)).await.unwrap();
            store.original(&scope, MessageId(nil)).await.unwrap();
        }
    }
}

/// The log of events at every level, with every kind of filter.
async fn log(scene: &Scene) {
    let Scene { store, partner, reseller, organization, agent, other, .. } = scene;
    let has_places = matches!(scene.location, Location::Folder(_));
    assert_eq!(store.place_events(99).await.unwrap() == 0, has_places);
    let (names, since) = (Some(vec![EventName::EmailReceived]), Some(at(0)));
    for account in [partner, reseller, organization, agent] {
        let few = vec![agent.id, other.id];
        for scope in [subtree(account), subtree(account).only(few)] {
            for (names, since) in [(None, None), (names.clone(), None), (None, since)] {
                let filter = EventFilter { names, since };
                store.events(&scope, &filter, 0, 2, 99).await.unwrap();
            }
            store.find_event(&scope, EventId(Uuid::nil())).await.unwrap();
            store.last_event(&scope, 9).await.unwrap();
            store.position_before(&scope, at(0)).await.unwrap();
        }
    }
    let placed = store.placed_after(0, 9).await.unwrap();
    store.events_named(&[placed[0].place.event]).await.unwrap();
    assert!(store.current_contents(PositionRange { after: 0, until: 9 }).await.unwrap().len() > 1);
}

/// Each that leaves entries of the audit log out, and one that leaves out none but by time.
fn log_filters() -> Vec<AuditFilter> {
    let any = AuditFilter::default();
    let time = AuditFilter { since: Some(at(-5)), until: Some(at(5)), ..any.clone() };
    let user = AccountId::new(1).unwrap();
    let doers = [Doer::Operator, Doer::Gateway, Doer::Key(KeyId(Uuid::nil())), Doer::User(user)];
    let by_doer = doers.map(|doer| AuditFilter { doer: Some(doer), ..time.clone() });
    let by_deed = AuditFilter { deed: Some(Deed::KeyCreated), ..any };
    by_doer.into_iter().chain([by_deed, time]).collect()
}

/// Each that leaves records out, within a time and without.
fn filters() -> Vec<IntakeFilter> {
    let any = IntakeFilter::default();
    let ever = [
        IntakeFilter {
            sender: Some(Handle::Mailbox(address("alice@good.example"))),
            ..any.clone()
        },
        IntakeFilter { recipient: Some("desk@agents.example".into()), ..any.clone() },
        IntakeFilter { verdict: Some(verdict::Outcome::Refused), ..any.clone() },
        IntakeFilter { reason: Some(Reason::DkimMissing), ..any },
    ];
    let then = ever.clone().map(|filter| IntakeFilter {
        since: Some(at(-5)),
        until: Some(at(5)),
        ..filter
    });
    [ever, then].concat()
}
