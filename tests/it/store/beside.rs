//! Many at once: what one gateway promises, any number of them on one store must keep.

use std::collections::BTreeSet;
use std::sync::Arc;

use gatepost::domain::delivery::{Attempt, Outcome};
use gatepost::domain::event::Category;
use gatepost::domain::id::{AttemptId, DeliveryId};
use gatepost::domain::policy::Mode;
use gatepost::domain::reason::Reason;
use gatepost::domain::verdict::Verdict;
use gatepost::run;
use gatepost::store::{
    AddressClaim, Claimed, Commit, Committed, IntakeFilter, Location, NewDestination, Store,
};
use tokio::task::JoinSet;

use super::scene::{
    Kind, SENDER, Scene, address, address_claim, at, by, destination, everything, mint,
    own_address, record, subtree,
};
use crate::support::{postgres, store_rules};

on_both! {
    ten_gateways_start_at_once,
    the_same_message_on_all_gateways_is_stored_once,
    a_sender_is_made_a_contact_once_and_begins_each_conversation_once,
    nothing_is_committed_after_a_removal_was_answered,
    recipients_in_any_order_do_not_block_each_other,
    each_delivery_is_claimed_by_one,
    limits_hold_when_many_add_at_once,
    a_destination_that_ends_in_two_ways_at_once_ends,
    refusals_at_once_are_counted_in_one_record,
}

/// As many handles on the scene's store as there are gateways in a small cluster.
const GATEWAYS: usize = 4;

async fn gateways(scene: &Scene) -> Vec<Store> {
    let mut stores = Vec::new();
    for _ in 0..GATEWAYS {
        stores.push(scene.open().await);
    }
    stores
}

async fn all<T: Send + 'static>(mut tasks: JoinSet<T>) -> Vec<T> {
    let mut results = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        results.push(ended.unwrap());
    }
    results
}

async fn ten_gateways_start_at_once(kind: Kind) {
    let folder = tempfile::tempdir().unwrap();
    let location = match kind {
        Kind::Sqlite => Location::Folder(folder.path().join("store")),
        Kind::Postgres => postgres::new_location().await,
    };
    let mut tasks = JoinSet::new();
    for _ in 0..10 {
        let location = location.clone();
        tasks.spawn(async move {
            let store = Store::create(&location, &store_rules(), run::system_mint()).await.unwrap();
            store.ping().await.unwrap();
            store.check_writable().await.unwrap();
            store.close().await;
        });
    }
    all(tasks).await;
    Store::open(&location, &store_rules(), run::system_mint()).await.unwrap().close().await;
}

async fn the_same_message_on_all_gateways_is_stored_once(kind: Kind) {
    let scene = Scene::new(kind).await;
    let stores = gateways(&scene).await;
    for round in 0..10_u8 {
        let mut tasks = JoinSet::new();
        for (place, store) in stores.iter().enumerate() {
            let mut intake = scene.intake(&scene.agent, 0).await;
            // Each knows the message by a key of its own and by one that all know.
            let own = [round, u8::try_from(place).unwrap()].repeat(16).try_into().unwrap();
            let shared = [round; 32];
            let keys = if place % 2 == 0 { vec![own, shared] } else { vec![shared, own] };
            intake.accepted.as_mut().unwrap().arrival_keys = keys;
            let id = intake.record.message.unwrap();
            let (store, commit) = (store.clone(), Commit { intakes: vec![intake], now: at(0) });
            tasks.spawn(async move { (id, store.commit(&commit).await.unwrap()) });
        }
        let ended = all(tasks).await;
        let first: Vec<_> =
            ended.iter().filter(|(_, done)| *done == Committed::Done(vec![None])).collect();
        assert_eq!(first.len(), 1, "{ended:?}");
        let repeated = Committed::Done(vec![Some(first[0].0)]);
        assert_eq!(ended.iter().filter(|(_, done)| *done == repeated).count(), GATEWAYS - 1);
    }
    assert_eq!(scene.count("SELECT COUNT(*) FROM messages").await, 10);
    let lost = "SELECT COUNT(*) FROM arrivals WHERE message_id NOT IN (SELECT id FROM messages)";
    assert_eq!(scene.count(lost).await, 0);
}

async fn a_sender_is_made_a_contact_once_and_begins_each_conversation_once(kind: Kind) {
    let scene = Scene::new(kind).await;
    let stores = gateways(&scene).await;
    for round in 0..10 {
        let mut tasks = JoinSet::new();
        for number in 0..8 {
            let agent = if number % 2 == 0 { &scene.agent } else { &scene.other };
            let from = format!("new{round}@good.example");
            let intake = scene.intake_from(agent, 0, &from, Some("New")).await;
            let store = stores[number % GATEWAYS].clone();
            let commit = Commit { intakes: vec![intake], now: at(0) };
            tasks.spawn(async move { store.commit(&commit).await.unwrap() });
        }
        assert!(all(tasks).await.iter().all(|done| *done == Committed::Done(vec![None])));
    }
    let of = async |name: &str| {
        let sql = format!("SELECT COUNT(*) FROM events WHERE names LIKE '%{name}%'");
        scene.count(sql.leak()).await
    };
    assert_eq!(scene.count("SELECT COUNT(*) FROM contacts").await, 10);
    assert_eq!(of("contact.created").await, 10);
    assert_eq!(of("conversation.started").await, 20);
    assert_eq!(of("conversation.updated").await, 60);
}

/// Contract §2.5, on any gateway.
async fn nothing_is_committed_after_a_removal_was_answered(kind: Kind) {
    let scene = Scene::new(kind).await;
    let stores = gateways(&scene).await;
    let (agent, alice) = (&scene.agent, [address(SENDER)]);
    scene.store.set_mode(agent.id, Mode::Allowlist, by(at(0))).await.unwrap();
    let mut stale = 0;
    for _ in 0..10 {
        scene.store.allow_senders(agent.id, &alice, None, 10, by(at(0))).await.unwrap();
        let before = scene.count("SELECT COUNT(*) FROM messages").await;
        let mut tasks = JoinSet::new();
        for number in 0..8 {
            let mut commits = Vec::new();
            for _ in 0..20 {
                let intakes = vec![scene.intake(agent, 0).await];
                commits.push(Commit { intakes, now: at(0) });
            }
            let store = stores[number % GATEWAYS].clone();
            tasks.spawn(async move {
                for commit in &commits {
                    if store.commit(commit).await.unwrap() == Committed::Stale {
                        return Committed::Stale;
                    }
                }
                Committed::Done(vec![])
            });
        }
        while scene.count("SELECT COUNT(*) FROM messages").await < before + 8 {
            tokio::task::yield_now().await;
        }
        let (removed, _) = stores[0].remove_senders(agent.id, &alice, by(at(0))).await.unwrap();
        assert_eq!(removed, alice);
        let when_answered = scene.count("SELECT COUNT(*) FROM messages").await;
        let ended = all(tasks).await;
        stale += ended.iter().filter(|done| **done == Committed::Stale).count();
        assert_eq!(scene.count("SELECT COUNT(*) FROM messages").await, when_answered);
    }
    assert!(stale > 0, "no removal came between a decision and its commit");
}

async fn recipients_in_any_order_do_not_block_each_other(kind: Kind) {
    let scene = Scene::new(kind).await;
    let stores = gateways(&scene).await;
    let stranger = scene.stranger().await;
    let mut tasks = JoinSet::new();
    for number in 0..40 {
        let mut intakes = Vec::new();
        for agent in [&scene.agent, &stranger, &scene.other] {
            intakes.push(scene.intake(agent, 0).await);
        }
        intakes.rotate_left(number % 3);
        let ids: Vec<_> = intakes.iter().map(|intake| intake.record.message).collect();
        let (store, commit) = (stores[number % GATEWAYS].clone(), Commit { intakes, now: at(0) });
        tasks.spawn(async move {
            assert_eq!(store.commit(&commit).await.unwrap(), Committed::Done(vec![None; 3]));
            ids
        });
    }
    assert_eq!(all(tasks).await.concat().len(), 120);
    assert_eq!(scene.count("SELECT COUNT(*) FROM messages").await, 120);
}

async fn each_delivery_is_claimed_by_one(kind: Kind) {
    let scene = Arc::new(Scene::new(kind).await);
    scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    scene.listen(&scene.other, Category::Incoming, "https://b.example/").await;
    for millis in 0..50 {
        scene.deliver(&scene.agent, millis).await;
        scene.deliver(&scene.other, millis).await;
    }
    let mut tasks = JoinSet::new();
    for store in gateways(&scene).await {
        tasks.spawn(async move {
            let mut mine: Vec<DeliveryId> = Vec::new();
            while store.next_due(at(60)).await.unwrap().is_some() {
                let claims = store.claim_deliveries(at(60), at(999), 7, &[]).await.unwrap();
                mine.extend(claims.iter().map(|claim| claim.delivery));
            }
            mine
        });
    }
    let claimed = all(tasks).await.concat();
    assert_eq!(claimed.len(), 100);
    assert_eq!(claimed.into_iter().collect::<BTreeSet<_>>().len(), 100);
}

async fn limits_hold_when_many_add_at_once(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (mut listening, mut allowing, mut claiming, mut naming) =
        (JoinSet::new(), JoinSet::new(), JoinSet::new(), JoinSet::new());
    let agents = [scene.agent.clone(), scene.other.clone()];
    let stranger = scene.stranger().await;
    for (number, store) in gateways(&scene).await.into_iter().cycle().take(12).enumerate() {
        let (here, there, agent) = (store.clone(), store.clone(), scene.agent.id);
        let url = format!("https://a{number}.example/");
        let new = destination(agent, Category::Incoming, &url);
        listening.spawn(async move { here.insert_destination(&new, 5, by(at(0))).await.unwrap() });
        let sender = [address(&format!("a{number}@good.example"))];
        allowing.spawn(async move {
            there.allow_senders(agent, &sender, None, 5, by(at(0))).await.unwrap().is_some()
        });
        let (agent, there) = (agents[number % 2].clone(), store.clone());
        claiming.spawn(async move {
            let address = own_address(&agent);
            let claim = AddressClaim { catch_all: true, ..address_claim(&agent, &address) };
            store.claim_address(&claim, by(at(0))).await.unwrap()
        });
        // Each in a domain of its own, which no other claim waits for.
        let (agent, address) = (stranger.clone(), address(&format!("x@d{number}.example")));
        let domain_for = agent.lineage.organization;
        naming.spawn(async move {
            let claim = AddressClaim { domain_for, most: 5, ..address_claim(&agent, &address) };
            there.claim_address(&claim, by(at(0))).await.unwrap()
        });
    }
    let listening = all(listening).await;
    assert_eq!(listening.iter().filter(|new| **new == NewDestination::Created).count(), 5);
    assert_eq!(all(allowing).await.iter().filter(|added| **added).count(), 5);
    let claimed = all(claiming).await.iter().filter(|one| **one == Claimed::Yes).count();
    assert_eq!(claimed, 6, "one of the two is the catch-all");
    let named = all(naming).await.iter().filter(|one| **one == Claimed::Yes).count();
    assert_eq!(named, 4, "beside the one that it had");
    assert_eq!(scene.store.policy(scene.agent.id).await.unwrap().unwrap().allowlist_count, 5);
}

/// The receiver answers 410 on one gateway while somebody removes it on another: each holds what
/// the other wants next.
async fn a_destination_that_ends_in_two_ways_at_once_ends(kind: Kind) {
    let scene = Scene::new(kind).await;
    let stores = gateways(&scene).await;
    for round in 0..10 {
        let url = format!("https://a{round}.example/");
        let gone = scene.listen(&scene.agent, Category::Incoming, &url).await;
        for _ in 0..10 {
            scene.deliver(&scene.agent, 0).await;
        }
        let claims = scene.store.claim_deliveries(at(1), at(99), 20, &[]).await.unwrap();
        assert_eq!(claims.len(), 10);
        let mut tasks = JoinSet::new();
        for (number, claim) in claims.into_iter().enumerate() {
            let store = stores[number % GATEWAYS].clone();
            tasks.spawn(async move {
                let attempt = Attempt {
                    id: AttemptId(mint().uuid()),
                    at: at(2),
                    latency_ms: 1,
                    status: Some(410),
                    response: Vec::new(),
                    error: None,
                };
                store.finish_delivery(&claim, &attempt, Outcome::Gone).await.unwrap();
            });
        }
        let (store, account) = (stores[0].clone(), scene.agent.id);
        tasks.spawn(async move {
            store.remove_destinations(account, Some(gone.id), None, None, by(at(2))).await.unwrap();
        });
        all(tasks).await;
        assert_eq!(scene.store.destinations(scene.agent.id).await.unwrap(), []);
    }
    let waiting = "SELECT COUNT(*) FROM deliveries WHERE state = 'pending'";
    assert_eq!(scene.count(waiting).await, 0);
}

async fn refusals_at_once_are_counted_in_one_record(kind: Kind) {
    let scene = Scene::new(kind).await;
    let mut tasks = JoinSet::new();
    for (number, store) in gateways(&scene).await.into_iter().cycle().take(40).enumerate() {
        let refused = record(&scene.agent, 0, Verdict::Refused(Reason::UnknownRecipient));
        let network = ["192.0.2.0/24", "198.51.100.0/24"][number / GATEWAYS % 2];
        tasks
            .spawn(async move { (network, store.count_refusal(&refused, network).await.unwrap()) });
    }
    let counted: BTreeSet<_> = all(tasks).await.into_iter().collect();
    assert_eq!(counted.len(), 2, "one record for each network: {counted:?}");
    let (scope, filter, page) = (subtree(&scene.agent), IntakeFilter::default(), everything());
    let records = scene.store.intake_records(&scope, &filter, &page).await.unwrap();
    let records: BTreeSet<_> = records.iter().map(|one| (one.id, one.count)).collect();
    assert_eq!(records, counted.iter().map(|(_, id)| (*id, 20)).collect());
}
