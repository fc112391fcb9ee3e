//! A creation with an `Idempotency-Key` is carried out once (contract §4).

use std::collections::BTreeSet;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::domain::audit::{Actor, Once, Who};
use crate::domain::destination::{Destination, Health, Wants};
use crate::domain::event::Category;
use crate::domain::id::DestinationId;
use crate::domain::secret::Secret;
use crate::http::table::OPERATIONS;
use crate::http::tests::{House, Reply};

fn hook(path: &str) -> String {
    json!({ "url": format!("http://127.0.0.1:9/{path}"), "label": "x", "type": "incoming" })
        .to_string()
}

/// Posts a webhook with this `Idempotency-Key`.
async fn post(house: &House, caller: &str, name: &str, body: &str) -> Reply {
    let lines = format!("Idempotency-Key: {name}\r\n");
    house.exact(caller, ("POST", "/webhooks"), &lines, Some(body)).await
}

async fn webhooks(house: &House, caller: &str) -> usize {
    let reply = house.get(caller, "/webhooks").await.success(200);
    reply["webhooks"].as_array().unwrap().len()
}

fn was_replayed(reply: &Reply) -> bool {
    reply.headers.get("idempotency-replayed").is_some_and(|value| value == "true")
}

#[tokio::test]
async fn the_same_request_is_answered_again_and_carried_out_once() {
    let house = House::new().await;
    let first = post(&house, "org1", "k-1", &hook("a")).await;
    assert!(!was_replayed(&first));
    let made = first.success(201);
    assert!(made["secret"].as_str().unwrap().starts_with("whsec_"));
    let id = house.id("org1");
    // One request in several spellings.
    for (path, body) in [
        ("/webhooks".to_owned(), hook("a")),
        (
            "/webhooks".to_owned(),
            r#" {"type":"incoming", "url":"http:\u002f/127.0.0.1:9/a","label":"x"}"#.to_owned(),
        ),
        (format!("/webhooks?targetAccountId={id}"), hook("a")),
        ("/webhooks".to_owned(), hook("a").replace('{', &format!("{{\"targetAccountId\":{id},"))),
        (
            "/webhooks".to_owned(),
            hook("a").replace('{', &format!("{{\"targetAccountId\":\"{id}\",")),
        ),
    ] {
        let lines = "idempotency-key: k-1\r\n";
        let again = house.exact("org1", ("POST", &path), lines, Some(&body)).await;
        assert!(was_replayed(&again), "{path} {body}: {}", again.text());
        assert_eq!(again.success(201), made);
        assert_eq!(again.headers["content-type"], first.headers["content-type"]);
        assert_ne!(again.headers["x-request-id"], first.headers["x-request-id"]);
    }
    assert_eq!(webhooks(&house, "org1").await, 1);
    // Without the header it is another request.
    let reply = house.exact("org1", ("POST", "/webhooks"), "", Some(&hook("a"))).await;
    reply.problem(409, "conflict", "already");
    let url = json!({ "url": "http://127.0.0.1:9/a" });
    house.call("org1", "DELETE", "/webhooks", Some(&url)).await.success(200);
    assert!(was_replayed(&post(&house, "org1", "k-1", &hook("a")).await));
    assert_eq!(webhooks(&house, "org1").await, 0, "it is not made again");
}

#[tokio::test]
async fn another_request_under_the_same_name_is_a_conflict() {
    let house = House::new().await;
    post(&house, "org1", "k", &hook("a")).await.success(201);
    post(&house, "org1", "k", &hook("b")).await.problem(409, "conflict", "another request");
    let below = format!("/webhooks?targetAccountId={}", house.id("agent1"));
    let lines = "Idempotency-Key: k\r\n";
    let reply = house.exact("org1", ("POST", &below), lines, Some(&hook("a"))).await;
    reply.problem(409, "conflict", "another request");
    assert_eq!(webhooks(&house, "org1").await, 1);
    assert_eq!(webhooks(&house, "agent1").await, 0);
    // Another API key or operation, or other letters, make another name.
    post(&house, "org2", "k", &hook("b")).await.success(201);
    let target = format!("/email/inboundWhitelist?targetAccountId={}", house.id("agent1"));
    let body = Some(r#"{"email":"a@x.example"}"#);
    house.exact("org1", ("POST", &target), lines, body).await.success(200);
    let again = house.exact("org1", ("POST", &target), lines, body).await;
    assert!(was_replayed(&again));
    assert_eq!(again.success(200)["added"], json!(["a@x.example"]), "as the first time");
    post(&house, "org1", "K", &hook("c")).await.success(201);
}

#[tokio::test]
async fn what_failed_is_not_remembered() {
    let house = House::new().await;
    let bad = hook("a").replace("http://127.0.0.1:9", "https://10.0.0.1");
    post(&house, "org1", "k", &bad).await.problem(400, "invalid_request", "url");
    post(&house, "org1", "k", "{").await.problem(400, "invalid_request", "JSON");
    post(&house, "org1", "k", &hook("a")).await.success(201);
    post(&house, "org1", "other", &hook("a")).await.problem(409, "conflict", "already");
    post(&house, "org1", "other", &hook("b")).await.success(201);
    let foreign = format!("/webhooks?targetAccountId={}", house.id("org2"));
    for _ in 0..2 {
        let lines = "Idempotency-Key: third\r\n";
        let reply = house.exact("org1", ("POST", &foreign), lines, Some(&hook("a"))).await;
        reply.problem(403, "forbidden", "reach");
    }
    post(&house, "org1", "third", &hook("c")).await.success(201);
    assert_eq!(webhooks(&house, "org1").await, 3);
    // An answer to a request that changed nothing is remembered, too.
    let target = ("POST", "/email/inboundWhitelist");
    let body = Some(r#"{"email":"a@x.example"}"#);
    for (name, added, replayed) in
        [("1", 1, false), ("2", 0, false), ("2", 0, true), ("1", 1, true)]
    {
        let lines = format!("Idempotency-Key: {name}\r\n");
        let reply = house.exact("agent1", target, &lines, body).await;
        assert_eq!(was_replayed(&reply), replayed);
        assert_eq!(reply.success(200)["added"].as_array().unwrap().len(), added, "{name}");
    }
    // A caller who lost the right is refused, instead of getting the stored answer.
    let key = house.store.keys(house.id("org1")).await.unwrap()[0].id;
    house.tenancy.revoke_key(key).await.unwrap();
    post(&house, "org1", "k", &hook("a")).await.problem(401, "unauthorized", "key");
}

#[tokio::test]
async fn a_name_is_sent_once_in_visible_ascii() {
    let house = House::new().await;
    let longest = "x".repeat(255);
    for (lines, fits) in [
        (format!("Idempotency-Key: {longest}\r\n"), true),
        ("Idempotency-Key: \"8e03978e-40d5-43e8-bc93-6894a57f9324\"\r\n".into(), true),
        ("Idempotency-Key:   !~   \r\n".into(), true),
        (format!("Idempotency-Key: {longest}x\r\n"), false),
        ("Idempotency-Key:\r\n".into(), false),
        ("Idempotency-Key: a b\r\n".into(), false),
        ("Idempotency-Key: a\tb\r\n".into(), false),
        ("Idempotency-Key: ä\r\n".into(), false),
        ("Idempotency-Key: a\r\nIdempotency-Key: a\r\n".into(), false),
        ("Idempotency-Key: a\r\nidempotency-key: b\r\n".into(), false),
    ] {
        let url = Uuid::from_u128(house.mint.clock().now().millis().unsigned_abs().into());
        for operation in OPERATIONS.iter().filter(|operation| operation.need.once) {
            let place = (operation.verb.as_str(), operation.path);
            let reply = house.exact("agent1", place, &lines, Some("{}")).await;
            assert_eq!(reply.text().contains("visible ASCII"), !fits, "{lines} {}", reply.text());
            assert!(reply.status >= 400 && reply.status < 500);
        }
        let body = hook(&url.to_string());
        let reply = house.exact("org1", ("POST", "/webhooks"), &lines, Some(&body)).await;
        assert_eq!(reply.status, if fits { 201 } else { 400 }, "{lines}");
        // Other operations ignore the header.
        let mode = Some(r#"{"mode":"open"}"#);
        let reply = house.exact("agent1", ("PUT", "/email/inboundPolicy"), &lines, mode).await;
        assert!(!was_replayed(&reply));
        reply.success(200);
    }
}

/// The identity, in the store, of a request of org1 to make the webhook `a`.
async fn once(house: &House, name: &str) -> (Once, Who) {
    let caller = house.http.use_cases.access.caller(Some(house.token("org1"))).await.unwrap();
    let body: Value = serde_json::from_str(&hook("a")).unwrap();
    let asked = json!({
        "target": caller.account.id.get(), "path": [], "query": {}, "body": body,
    });
    let operation = "POST /webhooks";
    let answers = &house.http.use_cases.answers;
    (answers.request(caller.key.id, operation, name, &asked.to_string()), caller.actor().who)
}

#[tokio::test]
async fn a_crash_before_the_answer_was_kept_is_told_and_nothing_is_done_twice() {
    let house = House::new().await;
    // As after a crash between the commit and the answer.
    let (once, who) = once(&house, "k").await;
    let now = house.mint.clock().now();
    let made = Destination {
        id: DestinationId(house.mint.uuid()),
        account: house.id("org1"),
        url: "http://127.0.0.1:9/a".parse().unwrap(),
        category: Category::Incoming,
        label: "x".into(),
        wants: Wants::default(),
        secret: Secret::new([1; 32]),
        secret_rotated_at: None,
        former_secrets: Vec::new(),
        disabled: None,
        health: Health::default(),
        created_at: now,
    };
    let actor = Actor { request: Some(house.mint.uuid()), once: Some(once), ..Actor::of(who) };
    house.store.insert_destination(&made, 9, actor.at(now)).await.unwrap();
    for _ in 0..2 {
        let reply = post(&house, "org1", "k", &hook("a")).await;
        reply.problem(409, "conflict", "check the result");
    }
    post(&house, "org1", "k", &hook("b")).await.problem(409, "conflict", "another request");
    assert_eq!(webhooks(&house, "org1").await, 1);
}

#[tokio::test]
async fn an_answer_is_at_rest_only_as_what_the_key_opens() {
    let house = House::with("[idempotency]\nmax_answer_bytes = 1024\n").await;
    let made = post(&house, "org1", "k", &hook("a")).await.success(201);
    let secret = made["secret"].as_str().unwrap();
    let (once, _) = once(&house, "k").await;
    let now = house.mint.clock().now();
    let kept = house.store.remembered_request(once.digest, now).await.unwrap().unwrap();
    assert_eq!(kept.request, once.request, "the test spells the request as the API does");
    let sealed = String::from_utf8_lossy(kept.answer.as_ref().unwrap()).into_owned();
    assert!(!sealed.contains(&secret[6..]) && !sealed.contains("success"), "{sealed}");
    let answers = &house.http.use_cases.answers;
    for other in ["org2", "partner"] {
        let known = answers.state(&once, house.token(other)).await.unwrap();
        assert_eq!(known, crate::app::idempotency::RequestState::Unanswered, "{other}");
    }
    // An answer that is too large is not kept; the request is still carried out once.
    let long = hook(&"b".repeat(900));
    post(&house, "org1", "long", &long).await.success(201);
    post(&house, "org1", "long", &long).await.problem(409, "conflict", "lost, or too large");
    assert_eq!(webhooks(&house, "org1").await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_at_the_same_time_one_is_carried_out() {
    let house = House::new().await;
    for round in 0..5 {
        let (name, body) = (format!("k-{round}"), hook(&round.to_string()));
        let all = (0..8).map(|_| post(&house, "org1", &name, &body));
        let all = futures_util::future::join_all(all).await;
        let performed = all.iter().filter(|reply| reply.status == 201 && !was_replayed(reply));
        assert_eq!(performed.count(), 1, "{all:?}");
        let mut answers = BTreeSet::new();
        for reply in all {
            match reply.status {
                201 => drop(answers.insert(reply.success(201)["secret"].to_string())),
                _ => reply.problem(409, "conflict", "Idempotency-Key"),
            }
        }
        assert_eq!(answers.len(), 1, "{answers:?}");
        assert!(was_replayed(&post(&house, "org1", &name, &body).await));
        assert_eq!(webhooks(&house, "org1").await, round + 1);
    }
}

/// Proves that the loser of a race changes nothing and gets the winner's answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_that_leave_each_other_nothing_to_do_there_is_one_answer() {
    let house = House::new().await;
    for (round, place, noun) in (0..5).flat_map(|round| {
        let noun = [("/email/inboundWhitelist", "email"), ("/email/addresses", "address")];
        noun.map(|(path, noun)| (round, ("POST", path), noun))
    }) {
        let lines = format!("Idempotency-Key: k-{round}\r\n");
        let body = json!({ noun: format!("new{round}@partner.example") }).to_string();
        let all = (0..8).map(|_| house.exact("agent1", place, &lines, Some(&body)));
        let all = futures_util::future::join_all(all).await;
        let (done, others): (Vec<_>, Vec<_>) =
            all.iter().partition(|reply| reply.status < 300 && !was_replayed(reply));
        assert_eq!(done.len(), 1, "{all:?}");
        for reply in others {
            match reply.status {
                409 => reply.problem(409, "conflict", "Idempotency-Key"),
                _ => assert_eq!((reply.status, reply.json()), (done[0].status, done[0].json())),
            }
        }
    }
}
