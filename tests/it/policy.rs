//! The policy as its owner uses it over HTTP, and its promise: no sender is accepted after its
//! removal was answered (contract §2.5).

use std::sync::Arc;

use serde_json::json;
use tokio::task::JoinSet;

use crate::support::{TestGateway, letter, signer};

const FROM: &str = "alice@good.example";
const TO: [&str; 1] = ["support@agents.example"];
const WHITELIST: &str = "/email/inboundWhitelist";

#[tokio::test(flavor = "multi_thread")]
async fn the_safe_order_of_the_readme() {
    let gateway = TestGateway::start().await;
    let agent = gateway.house.agents["closed"].id;
    let at = |path: &str| format!("{path}?targetAccountId={agent}");
    let to = ["closed@agents.example"];
    let sign = |subject: &str| signer().sign(letter(subject).as_bytes()).unwrap();

    let policy = gateway.get(&at("/email/inboundPolicy")).await;
    assert_eq!(policy["policy"]["mode"], "allowlist");
    assert_eq!(policy["policy"]["allowlistCount"], 0);
    let replies = gateway.send(FROM, &to, &sign("closed")).await;
    assert!(replies.settling().starts_with("550 5.7.1"), "{}", replies.settling());

    let body = json!({ "email": "Alice@GOOD.example" });
    let (status, added) = gateway.request("POST", &at(WHITELIST), Some(body)).await;
    assert_eq!((status, &added["added"]), (200, &json!([FROM])), "{added}");
    let replies = gateway.send(FROM, &to, &sign("listed")).await;
    assert!(replies.accepted(), "{}", replies.settling());

    let open = json!({ "mode": "open" });
    let (status, policy) = gateway.request("PUT", &at("/email/inboundPolicy"), Some(open)).await;
    assert_eq!((status, &policy["policy"]["mode"]), (200, &json!("open")), "{policy}");
    let wrong = json!({ "mode": "Open" });
    let (status, _) = gateway.request("PUT", &at("/email/inboundPolicy"), Some(wrong)).await;
    assert_eq!(status, 400);
    // In open mode the list does not count, but it stays.
    let body = json!({ "email": FROM });
    let (status, removed) = gateway.request("DELETE", &at(WHITELIST), Some(body)).await;
    assert_eq!((status, &removed["removed"]), (200, &json!([FROM])), "{removed}");
    let replies = gateway.send(FROM, &to, &sign("open")).await;
    assert!(replies.accepted(), "{}", replies.settling());
    assert_eq!(gateway.messages().await.len(), 2);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_accepted_after_a_removal_was_answered() {
    let gateway = Arc::new(TestGateway::start().await);
    let agent = gateway.house.agents["support"].id;
    let path = format!("{WHITELIST}?targetAccountId={agent}");
    for round in 0..10 {
        let mut sending = JoinSet::new();
        for number in 0..8 {
            let gateway = Arc::clone(&gateway);
            let text = letter(&format!("round {round} number {number}"));
            let raw = signer().sign(text.as_bytes()).unwrap();
            sending.spawn(async move { gateway.send(FROM, &TO, &raw).await });
        }
        // The first reply has come: others are on their way through the decision.
        sending.join_next().await.unwrap().unwrap();
        let body = Some(json!({ "email": FROM }));
        let (status, _) = gateway.request("DELETE", &path, body.clone()).await;
        assert_eq!(status, 200);
        let stored = gateway.count("SELECT COUNT(*) FROM messages").await;
        while let Some(done) = sending.join_next().await {
            done.unwrap();
        }
        let later = gateway.count("SELECT COUNT(*) FROM messages").await;
        assert_eq!(later, stored, "a message was stored after the removal");
        let (status, _) = gateway.request("POST", &path, body).await;
        assert_eq!(status, 200);
    }
    let gateway = Arc::into_inner(gateway).unwrap();
    gateway.finish().await;
}
