//! Several gateways on one PostgreSQL database.

use gatepost::testkit::smtp_client::{Transaction, deliver};
use serde_json::json;

use crate::support::{PATIENCE, TestGateway, all_messages, signed};

#[tokio::test(flavor = "multi_thread")]
async fn two_gateways_share_one_truth() {
    let gateway = TestGateway::on_postgres().await;
    let second = gateway.second().await;
    let to = ["support@agents.example".to_owned()];
    let raw = signed("over two ways");
    for address in [gateway.smtp, second.smtp, gateway.smtp] {
        let (helo, from) = ("client.example", "alice@good.example");
        let transaction = Transaction { helo, from, to: &to, raw: &raw };
        assert!(deliver(address, &transaction).await.unwrap().accepted());
    }
    for http in [gateway.http, second.http] {
        assert_eq!(all_messages(http, &gateway.key).await.len(), 1);
    }
    let arrived = gateway.receiver.wait_for(1, PATIENCE).await.unwrap();
    assert!(arrived[0].verified);
    assert!(second.stop(PATIENCE).await);
    assert_eq!(gateway.receiver.received().len(), 1, "the same event came twice");
    gateway.finish().await;
}

/// An acceptance is decided by what the gateway remembers, and committed by what is so.
#[tokio::test(flavor = "multi_thread")]
async fn what_another_gateway_changed_counts_for_a_sender_that_is_remembered() {
    let gateway = TestGateway::on_postgres().await;
    let second = gateway.second().await;
    let agent = gateway.house.agents["support"].id;
    let at = |path: &str| format!("{path}?targetAccountId={agent}");
    let to = ["support@agents.example".to_owned()];
    let from = "alice@good.example";
    let sent = async |subject: &str| {
        let raw = signed(subject);
        let transaction = Transaction { helo: "client.example", from, to: &to, raw: &raw };
        deliver(second.smtp, &transaction).await.unwrap().settling().to_owned()
    };
    assert!(sent("first").await.starts_with("250"));
    let (list, entry) = (at("/email/inboundWhitelist"), Some(json!({ "email": from })));
    let relays = at("/webhookRelay/smtp");
    let relay = json!({ "url": "https://relay.example/hook" });
    for (method, path, body, expected) in [
        ("DELETE", &list, entry.clone(), "550 5.7.1"),
        ("POST", &list, entry, "250 2.0.0"),
        // Nobody is there to be asked.
        ("POST", &relays, Some(relay), "451 4"),
    ] {
        let (status, answer) = gateway.request(method, path, body).await;
        assert!((200..300).contains(&status), "{method} {path}: {answer}");
        let reply = sent(&format!("after {method} {path}")).await;
        assert!(reply.starts_with(expected), "{method} {path}: {reply}");
    }
    assert!(second.stop(PATIENCE).await);
    gateway.finish().await;
}
