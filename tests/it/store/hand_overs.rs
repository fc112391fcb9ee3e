//! Counts the statements of a group of commits, and of a change of an allowlist: none of them is for
//! each message, or for each sender.

use aws_lc_rs::digest::{SHA256, digest};
use gatepost::domain::event::Category;
use gatepost::domain::thread::{ThreadKey, ThreadKeys};

use super::many_rooms::Counter;
use super::scene::{Kind, Scene, address, at, by};

/// Commits so many messages at once, each of a sender and a thread of its own and told to two
/// destinations, and half of them to two more; answers the statements.
async fn cost(scene: &Scene, counter: &Counter, names: &str, messages: usize) -> usize {
    let mut intakes = Vec::new();
    for number in 0..messages {
        let agent = if number % 2 == 0 { &scene.agent } else { &scene.other };
        let from = format!("{names}{number}@good.example");
        let mut intake = scene.intake_from(agent, 0, &from, Some("Alice")).await;
        let hash = digest(&SHA256, from.as_bytes());
        let own = ThreadKey(*hash.as_ref().first_chunk().unwrap());
        let accepted = intake.accepted.as_mut().unwrap();
        accepted.message.thread = ThreadKeys { own: Some(own), named: vec![own] };
        intakes.push(intake);
    }
    let before = counter.statements();
    scene.commit(intakes, 0).await;
    counter.statements() - before
}

async fn a_group_costs_as_many_statements_whatever_its_size(kind: Kind) {
    let counter = Counter::default();
    let _listening = counter.listen();
    let scene = Scene::new(kind).await;
    for (account, category) in [
        (&scene.organization, Category::Incoming),
        (&scene.partner, Category::Contact),
        (&scene.agent, Category::Incoming),
        (&scene.agent, Category::Conversation),
    ] {
        scene.listen(account, category, "https://a.example/").await;
    }
    let few = cost(&scene, &counter, "few", 2).await;
    // SQLite is given 128 rows at a time.
    let many = cost(&scene, &counter, "many", 30).await;
    assert_eq!(few, many);
    // Beside BEGIN and COMMIT.
    let most = if kind == Kind::Sqlite { 10 } else { 11 };
    assert!(few <= most, "{few} statements");
}

/// The gate of the Agent is closed meanwhile, and its mail waits.
async fn an_allowlist_changes_by_as_many_statements_whatever_the_senders(kind: Kind) {
    let counter = Counter::default();
    let _listening = counter.listen();
    let scene = Scene::new(kind).await;
    let (store, me) = (&scene.store, scene.agent.id);
    let cost = async |count: usize| {
        let sender = |number| address(&format!("s{number}@of{count}.example"));
        let senders: Vec<_> = (0..count).rev().map(sender).collect();
        // One of them comes twice.
        let named = [&senders[..], &senders[..1]].concat();
        let before = counter.statements();
        let added = store.allow_senders(me, &named, Some("note"), 999, by(at(1))).await.unwrap();
        let removed = store.remove_senders(me, &named, by(at(2))).await.unwrap();
        let statements = counter.statements() - before;
        let all = senders.len() as u64;
        assert_eq!((added, removed), (Some((senders.clone(), all)), (senders, 0)));
        statements
    };
    assert_eq!(cost(2).await, cost(100).await);
}

on_both! {
    #[tokio::test]
    a_group_costs_as_many_statements_whatever_its_size,
    an_allowlist_changes_by_as_many_statements_whatever_the_senders,
}
