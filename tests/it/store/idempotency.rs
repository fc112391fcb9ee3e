//! A request with an `Idempotency-Key` changes something once, whoever dies and on any gateway.

use gatepost::domain::address::Address;
use gatepost::domain::audit::{Actor, Once};
use gatepost::domain::event::Category;
use gatepost::store::{NewDestination, Store, StoreError};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::scene::{Kind, Scene, address, at, destination};

on_both! {
    a_request_is_carried_out_once_and_its_answer_kept,
    what_changed_nothing_and_what_failed_is_not_remembered,
    one_request_may_change_several_things,
    of_many_gateways_one_carries_a_request_out,
    what_is_past_is_forgotten,
}

fn once(number: u8) -> Once {
    Once { digest: [number; 32], request: [7; 32], until: at(1000) }
}

/// Returns the operator, who carries out `once` as the request with this id.
fn actor(once: Once, request: u128) -> Actor {
    Actor { request: Some(Uuid::from_u128(request)), once: Some(once), ..Actor::OPERATOR }
}

fn senders(count: usize) -> Vec<Address> {
    (0..count).map(|number| address(&format!("s{number}@x.example"))).collect()
}

async fn a_request_is_carried_out_once_and_its_answer_kept(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, agent) = (&scene.store, scene.agent.id);
    assert_eq!(store.remembered_request([1; 32], at(0)).await.unwrap(), None);
    let first = actor(once(1), 1);
    let done = store.allow_senders(agent, &senders(1), None, 9, first.at(at(0))).await.unwrap();
    assert_eq!(done.unwrap().1, 1);
    let known = store.remembered_request([1; 32], at(0)).await.unwrap().unwrap();
    assert_eq!((known.request.as_slice(), known.answer), ([7; 32].as_slice(), None));
    for request in [2, 3] {
        let second = actor(Once { request: [8; 32], ..once(1) }, request);
        let again = store.allow_senders(agent, &senders(3), None, 9, second.at(at(1))).await;
        assert!(matches!(again, Err(StoreError::Repeated)), "{again:?}");
        let kept = store.keep_answer(&once(1), Uuid::from_u128(request), at(1), Some(b"lie")).await;
        assert!(!kept.unwrap(), "it is not that request's");
    }
    assert_eq!(store.policy(agent).await.unwrap().unwrap().allowlist_count, 1);
    assert!(store.keep_answer(&once(1), Uuid::from_u128(1), at(1), Some(b"yes")).await.unwrap());
    let known = store.remembered_request([1; 32], at(999)).await.unwrap().unwrap();
    assert_eq!(known.answer.as_deref(), Some(b"yes".as_slice()));
    assert_eq!(store.remembered_request([2; 32], at(0)).await.unwrap(), None);
}

async fn what_changed_nothing_and_what_failed_is_not_remembered(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, agent) = (&scene.store, scene.agent.id);
    let acting = actor(once(1), 1);
    let none = store.allow_senders(agent, &senders(9), None, 3, acting.at(at(0))).await.unwrap();
    assert_eq!(none, None, "too many");
    let hook = destination(agent, Category::Agent, "https://a.example/");
    let refused = store.insert_destination(&hook, 0, acting.at(at(0))).await.unwrap();
    assert_eq!(refused, NewDestination::TooMany);
    store.remove_senders(agent, &senders(1), acting.at(at(0))).await.unwrap();
    assert_eq!(store.remembered_request([1; 32], at(0)).await.unwrap(), None);
    // A request that changed nothing is remembered once its answer is kept.
    assert!(store.keep_answer(&once(1), Uuid::from_u128(1), at(0), None).await.unwrap());
    let second = actor(once(1), 2);
    let again = store.allow_senders(agent, &senders(1), None, 9, second.at(at(1))).await;
    assert!(matches!(again, Err(StoreError::Repeated)), "{again:?}");
}

async fn one_request_may_change_several_things(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, agent) = (&scene.store, scene.agent.id);
    let first = actor(once(1), 1);
    store.allow_senders(agent, &senders(1), None, 9, first.at(at(0))).await.unwrap();
    store.set_active(agent, false, first.at(at(1))).await.unwrap();
    store.set_active(agent, true, first.at(at(2))).await.unwrap();
    // One that does not say which request it is, is another one each time.
    let nameless = Actor { request: None, ..actor(once(2), 0) };
    store.set_active(agent, false, nameless.at(at(3))).await.unwrap();
    let again = store.set_active(agent, true, nameless.at(at(4))).await;
    assert!(matches!(again, Err(StoreError::Repeated)), "{again:?}");
}

async fn of_many_gateways_one_carries_a_request_out(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (second, agent) = (scene.open().await, scene.agent.id);
    let gateways: [Store; 2] = [scene.store.clone(), second];
    for round in 1..=10 {
        let mut racing = JoinSet::new();
        for (request, store) in (1..).zip(gateways.iter().cycle().take(6).cloned()) {
            racing.spawn(async move {
                let url = format!("https://a.example/{round}/{request}");
                let hook = destination(agent, Category::Agent, &url);
                let acting = actor(once(round), request);
                match store.insert_destination(&hook, 99, acting.at(at(0))).await {
                    Ok(made) => made == NewDestination::Created,
                    Err(StoreError::Repeated) => false,
                    Err(error) => panic!("{error:?}"),
                }
            });
        }
        let done = racing.join_all().await.into_iter().filter(|created| *created).count();
        assert_eq!(done, 1, "round {round}");
    }
    assert_eq!(scene.store.destinations(agent).await.unwrap().len(), 10);
}

async fn what_is_past_is_forgotten(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, agent) = (&scene.store, scene.agent.id);
    for number in 1..=5 {
        let once = Once { until: at(i64::from(number) * 10), ..once(number) };
        assert!(store.keep_answer(&once, Uuid::from_u128(1), at(0), Some(b"x")).await.unwrap());
    }
    assert!(store.remembered_request([3; 32], at(29)).await.unwrap().is_some());
    assert_eq!(store.remembered_request([3; 32], at(30)).await.unwrap(), None, "past");
    // An expired name is free again, even before its row is deleted.
    let acting = actor(Once { request: [9; 32], ..once(3) }, 2);
    store.allow_senders(agent, &senders(1), None, 9, acting.at(at(30))).await.unwrap();
    let known = store.remembered_request([3; 32], at(30)).await.unwrap().unwrap();
    assert_eq!((known.request.as_slice(), known.answer), ([9; 32].as_slice(), None));
    assert_eq!(store.forget_requests(at(40), 2).await.unwrap(), Some(2));
    assert_eq!(store.forget_requests(at(40), 2).await.unwrap(), Some(1));
    assert_eq!(store.forget_requests(at(40), 2).await.unwrap(), Some(0));
    let left = "SELECT COUNT(*) FROM idempotency_keys";
    assert_eq!(scene.count(left).await, 2, "the third is remembered anew, the fifth still");
}
