//! A clock of ours that is wrong refuses nobody for good (contract §2.4).

use std::time::Duration;

use gatepost::domain::clock::Clock;
use gatepost::run;

use crate::support::{TestGateway, signed};

#[tokio::test(flavor = "multi_thread")]
async fn an_hour_behind_good_mail_waits_and_comes_in_when_the_clock_is_right() {
    let mut gateway = TestGateway::start().await;
    let slow = Clock::new(|| run::system_mint().clock().now().minus(Duration::from_hours(1)));
    gateway.restart_by(&[], slow).await;
    let (from, to) = ("alice@good.example", ["support@agents.example"]);
    let raw = signed("by a right clock");
    let replies = gateway.send(from, &to, &raw).await;
    let reply = replies.settling();
    assert!(reply.starts_with("451 4.7.5 by our clock"), "{reply}");
    let page = gateway.get("/email/intake?reason=dkim_not_yet_valid&verdict=deferred").await;
    let id = page["intake"][0]["id"].as_str().unwrap();
    assert!(reply.contains(id), "{reply}");
    let record = gateway.get(&format!("/email/intake/{id}")).await;
    let advice = record["intake"]["advice"].as_str().unwrap();
    assert!(advice.contains("if it hits many senders, that of this server"), "{advice}");
    assert!(gateway.messages().await.is_empty());
    // With a right clock the deferred message is accepted.
    gateway.restart().await;
    assert!(gateway.send(from, &to, &raw).await.accepted());
    gateway.finish().await;
}
