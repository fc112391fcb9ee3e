//! The state of deliveries, as their owner sees it, and replays.

use std::time::Duration;

use serde_json::{Value, json};

use crate::domain::account::AccountType;
use crate::domain::delivery::{Outcome, State, Subject};
use crate::domain::id::DestinationId;
use crate::http::tests::{House, NOBODY, Reply};
use crate::rules::RetainedKind;
use crate::store::DueAccount;

const MAIL: &str = "From: a\r\n\r\nhello";

async fn hook(house: &House, owner: &str, category: &str) -> DestinationId {
    let body = json!({ "url": "https://hooks.example/a", "label": "x", "type": category });
    let made = house.call(owner, "POST", "/webhooks", Some(&body)).await.success(201);
    DestinationId(made["webhook"]["id"].as_str().unwrap().parse().unwrap())
}

async fn list(house: &House, webhook: DestinationId, query: &str) -> Reply {
    house.get("org1", &format!("/webhooks/{webhook}/deliveries?{query}")).await
}

async fn again(house: &House, caller: &str, id: &Value) -> Reply {
    let path = format!("/deliveries/{}/replay", id.as_str().unwrap());
    house.call(caller, "POST", &path, Some(&json!({}))).await
}

/// Three deliveries: delivered, to be tried again, given up (the newest).
async fn three(house: &House) -> DestinationId {
    let webhook = hook(house, "org1", "incoming").await;
    house.receive("agent1", MAIL, 0).await;
    assert_eq!(house.attempt((Some(204), b""), Outcome::Delivered).await, 1);
    house.receive("agent2", MAIL, 0).await;
    let later = house.now().plus(Duration::from_secs(300));
    house.attempt((Some(401), b"who are \xffyou?\x01"), Outcome::RetryAt(later)).await;
    house.receive("agent1", MAIL, 0).await;
    house.attempt((None, b""), Outcome::Exhausted).await;
    webhook
}

#[tokio::test]
async fn what_became_of_deliveries_is_listed_the_newest_first() {
    let house = House::new().await;
    let webhook = three(&house).await;
    let listed = list(&house, webhook, "").await.success(200)["deliveries"].clone();
    let states: Vec<&Value> = listed.as_array().unwrap().iter().map(|one| &one["state"]).collect();
    assert_eq!(states, ["exhausted", "pending", "delivered"]);
    let times: Vec<&str> =
        listed.as_array().unwrap().iter().map(|one| one["createdAt"].as_str().unwrap()).collect();
    assert!(times.is_sorted_by(|one, other| one > other), "{times:?}");
    let pending = &listed[1];
    assert_eq!(pending["webhookId"], webhook.to_string());
    assert_eq!(pending["event"], "email.received");
    assert_eq!(pending["eventId"].as_str().unwrap().len(), 36);
    assert_eq!(pending["nextAttemptAt"].as_str().unwrap().len(), "2026-11-20T10:00:00.000Z".len());
    assert_eq!(
        (&listed[0]["nextAttemptAt"], &listed[2]["nextAttemptAt"]),
        (&json!(null), &json!(null))
    );
    let attempt = &pending["attempts"][0];
    assert_eq!((&attempt["status"], &attempt["latencyMs"]), (&json!(401), &json!(7)));
    assert_eq!(attempt["response"], "who are \u{fffd}you?\u{1}");
    assert!(attempt["error"].as_str().unwrap().contains("X-Api-Key"), "{attempt}");
    assert!(attempt["date"].is_string() && attempt["id"].is_string());
    let failed = &listed[0]["attempts"][0];
    assert_eq!(
        (&failed["status"], &failed["error"]),
        (&json!(null), &json!("no connection could be made"))
    );
    assert_eq!(listed[2]["attempts"][0]["error"], json!(null));
    let one = format!("/deliveries/{}", pending["id"].as_str().unwrap());
    assert_eq!(house.get("org1", &one).await.success(200)["delivery"], *pending);
    // The list contains nothing of the message itself.
    assert!(!listed.to_string().contains("good.example"), "{listed}");
}

#[tokio::test]
async fn a_list_is_narrowed_and_read_page_by_page() {
    let house = House::new().await;
    let webhook = three(&house).await;
    let all = list(&house, webhook, "").await.success(200)["deliveries"].clone();
    let ids = |listed: &Value| -> Vec<Value> {
        listed["deliveries"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect()
    };
    for (at, state) in ["exhausted", "pending", "delivered"].iter().enumerate() {
        let some = list(&house, webhook, &format!("state={state}")).await.success(200);
        assert_eq!(ids(&some), [all[at]["id"].clone()], "{state}");
    }
    let cancelled = list(&house, webhook, "state=cancelled").await.success(200);
    assert_eq!(cancelled["deliveries"], json!([]));
    let middle = all[1]["createdAt"].as_str().unwrap();
    let since = list(&house, webhook, &format!("since={middle}")).await.success(200);
    assert_eq!(ids(&since), [all[0]["id"].clone(), all[1]["id"].clone()]);
    let until = list(&house, webhook, &format!("until={middle}")).await.success(200);
    assert_eq!(ids(&until), [all[2]["id"].clone()]);
    // By links, forwards and backwards.
    let follow = async |reply: &Reply, relation: &str| {
        let link = reply.headers.get("link").cloned().unwrap_or_default();
        let found = link.split(", ").find(|link| link.contains(&format!("rel=\"{relation}\"")));
        let found = found.and_then(|link| link.split(['<', '>']).nth(1));
        let path = found.map(|path| path.replacen("/api/v2", "", 1))?;
        Some(house.get("org1", &path).await)
    };
    let mut page = list(&house, webhook, "limit=2&since=1").await;
    assert_eq!(ids(&page.success(200)), [all[0]["id"].clone(), all[1]["id"].clone()]);
    page = follow(&page, "next").await.unwrap();
    assert_eq!(ids(&page.success(200)), [all[2]["id"].clone()]);
    assert!(page.headers["link"].contains("since=1"), "{:?}", page.headers);
    assert!(follow(&page, "next").await.is_none());
    let newer = follow(&page, "prev").await.unwrap();
    assert_eq!(ids(&newer.success(200)), [all[0]["id"].clone(), all[1]["id"].clone()]);
    for (query, words) in [
        ("state=failed", "/state must be one of: pending, delivered"),
        ("since=x", "since must be"),
        ("limit=0", "limit must be"),
        ("before=x", "/before must be a cursor of an earlier answer, or an id"),
        ("state=failed&limit=1&until=x&after=1", "; /until must be Unix seconds, or a date like"),
        ("event=x", "\"event\" is not known here"),
    ] {
        list(&house, webhook, query).await.problem(400, "invalid_request", words);
    }
    house.get("org1", "/webhooks/7/deliveries").await.problem(400, "invalid_request", "a UUID");
}

#[tokio::test]
async fn a_page_that_has_become_large_ends_early() {
    let house = House::with("[limits]\nmax_page_bytes = 65536\npage_step = 1\n").await;
    let webhook = hook(&house, "org1", "incoming").await;
    for _ in 0..3 {
        house.receive("agent1", MAIL, 0).await;
    }
    house.attempt((Some(500), &[b'x'; 40_000]), Outcome::Exhausted).await;
    let page = list(&house, webhook, "").await;
    assert_eq!(page.success(200)["deliveries"].as_array().unwrap().len(), 2);
    assert!(page.headers["link"].contains("rel=\"next\""), "{:?}", page.headers);
}

#[tokio::test]
async fn one_is_sent_again_as_if_it_were_new() {
    let house = House::new().await;
    let webhook = three(&house).await;
    let listed = list(&house, webhook, "").await.success(200)["deliveries"].clone();
    again(&house, "org1", &listed[1]["id"]).await.problem(409, "conflict", "is pending");
    for old in [&listed[0], &listed[2]] {
        let new = again(&house, "org1", &old["id"]).await.success(200)["delivery"].clone();
        assert_eq!((&new["state"], &new["eventId"]), (&json!("pending"), &old["eventId"]));
        assert_eq!(new["attempts"], old["attempts"], "what was is kept");
        again(&house, "org1", &old["id"]).await.problem(409, "conflict", "nextAttemptAt");
    }
    let now = house.now();
    let lease = now.plus(Duration::from_secs(60));
    let claims = house.store.claim_deliveries(now, lease, 10, &[]).await.unwrap();
    assert_eq!(claims.len(), 2);
    assert!(claims.iter().all(|claim| claim.attempts == 0), "the whole schedule");
}

#[tokio::test]
async fn what_a_removed_or_disabled_webhook_was_sent_is_seen_and_not_sent_again() {
    let house = House::new().await;
    let webhook = three(&house).await;
    let listed = list(&house, webhook, "").await.success(200)["deliveries"].clone();
    let (id, given_up) = (webhook.to_string(), &listed[0]["id"]);
    let set = json!({ "id": id, "disabled": true });
    house.call("org1", "POST", "/webhooks", Some(&set)).await.success(200);
    again(&house, "org1", given_up).await.problem(409, "conflict", "enable it first");
    house.call("org1", "DELETE", &format!("/webhooks?id={id}"), None).await.success(200);
    again(&house, "org1", given_up).await.problem(409, "conflict", "was removed");
    let kept = list(&house, webhook, "").await.success(200)["deliveries"].clone();
    assert_eq!((&kept[0], &kept[2]), (&listed[0], &listed[2]));
    let one = format!("/deliveries/{}", given_up.as_str().unwrap());
    assert_eq!(house.get("org1", &one).await.success(200)["delivery"], listed[0]);
}

/// Deliveries of accounts above, below or beside the target are answered like unknown ones.
#[tokio::test]
async fn deliveries_of_others_are_as_good_as_not_there() {
    let house = House::new().await;
    let owners = ["reseller1", "org1", "agent1", "agent3"];
    let mut hooks = Vec::new();
    for owner in owners {
        hooks.push(hook(&house, owner, "incoming").await);
    }
    house.receive("agent1", MAIL, 0).await;
    house.receive("agent3", MAIL, 0).await;
    house.give_up().await;
    let mut ids = vec![json!("0198c0de-0000-7000-8000-000000000000")];
    for (owner, webhook) in owners.iter().zip(&hooks) {
        let made = house.made_for(*webhook).await;
        assert!(!made.is_empty(), "{owner}");
        let ids_of = made.iter().map(|one| json!(one.id.to_string()));
        ids.extend(ids_of.filter(|_| *owner != "org1"));
    }
    let mut answers = std::collections::BTreeSet::new();
    for id in &ids {
        let path = format!("/deliveries/{}", id.as_str().unwrap());
        for reply in [house.get("org1", &path).await, again(&house, "org1", id).await] {
            reply.problem(404, "not_found", "no such delivery");
            let request = &reply.headers["x-request-id"];
            answers.insert(reply.text().replace(request, "ID"));
        }
    }
    assert_eq!(answers.len(), 1, "{answers:#?}");
    // With the account below as the target, the delivery is found.
    let below = house.made_for(hooks[2]).await[0].id;
    let path = format!("/deliveries/{below}?targetAccountId={}", house.id("agent1"));
    house.get("org1", &path).await.success(200);
    let nobody = format!("/deliveries/{below}?targetAccountId={NOBODY}");
    house.get("org1", &nobody).await.problem(403, "forbidden", "");
}

#[tokio::test]
async fn of_an_erased_message_ids_are_left() {
    let house = House::new().await;
    let webhook = hook(&house, "org1", "incoming").await;
    house.receive("agent1", MAIL, 0).await;
    house.attempt((Some(500), b"you sent: hello"), Outcome::Exhausted).await;
    let before = list(&house, webhook, "").await.success(200)["deliveries"][0].clone();
    assert_eq!(before["attempts"][0]["response"], "you sent: hello");
    let due =
        DueAccount { account: house.id("agent1"), kind: AccountType::Agent, until: house.now() };
    let rows = house.store.expired(RetainedKind::Messages, &due, None, 9).await.unwrap();
    assert_eq!(rows.len(), 1);
    house.store.delete_expired(RetainedKind::Messages, &rows, 9).await.unwrap().unwrap();
    let after = list(&house, webhook, "").await.success(200)["deliveries"][0].clone();
    assert_eq!(after["attempts"][0]["response"], json!(null));
    assert_eq!((&after["id"], &after["eventId"]), (&before["id"], &before["eventId"]));
    assert_eq!(after["attempts"][0]["error"], before["attempts"][0]["error"]);
}

#[tokio::test]
async fn a_test_is_an_event_for_the_one_that_asked() {
    let house = House::new().await;
    let (asked, other) =
        (hook(&house, "org1", "contact").await, hook(&house, "org1", "onboarding").await);
    let path = format!("/webhooks/{asked}/test");
    // Without a body, as `curl -X POST` sends it.
    let made = house.call("org1", "POST", &path, None).await.success(201);
    let kept = house.made_for(asked).await;
    assert_eq!(made["delivery"]["id"], kept[0].id.to_string());
    assert_eq!(made["event"]["id"], kept[0].event.to_string());
    assert_eq!((kept.len(), kept[0].state, kept[0].erased), (1, State::Pending, false));
    assert_eq!(house.made_for(other).await, []);
    let now = house.now();
    let lease = now.plus(Duration::from_secs(60));
    let claim = house.store.claim_deliveries(now, lease, 10, &[]).await.unwrap().remove(0);
    assert_eq!(claim.event.name.as_str(), "webhook.test");
    assert_eq!(claim.event.lineage, house.residents["org1"].account.lineage);
    let Subject::Told(told) = claim.subject else { panic!("{:?}", claim.subject) };
    assert_eq!(told["accountId"], house.id("org1").get());
    assert_eq!(told["webhook"]["id"], asked.to_string());
}
