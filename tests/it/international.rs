//! Addresses outside ASCII (RFC 6531): an Agent's, and its senders'.

use gatepost::app::tenancy::Claiming;
use gatepost::domain::address::Address;
use serde_json::json;

use crate::support::{TestGateway, signed};

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_reached_by_either_spelling_of_its_domain() {
    let gateway = TestGateway::start().await;
    let open = &gateway.house.agents["open"];
    let address = Address::parse("größe@Bücher.example").unwrap();
    gateway.tenancy.claim_address(open, &address, false, Claiming::ForOrganization).await.unwrap();

    let answer = gateway.get(&format!("/email/addresses?targetAccountId={}", open.id)).await;
    let shown = json!({ "address": "größe@xn--bcher-kva.example", "catchAll": false });
    assert!(answer["addresses"].as_array().unwrap().contains(&shown), "{answer}");

    for (recipient, reply) in [
        ("größe@bücher.example", "250 2.0.0"),
        ("GRößE+tag@xn--bcher-kva.example", "250 2.0.0"),
        // Case is folded in ASCII only, and nothing is composed.
        ("grÖße@bücher.example", "550 5.1.1"),
        ("gro\u{308}ße@bücher.example", "550 5.1.1"),
    ] {
        let raw = signed(&format!("to {}", recipient.escape_unicode()));
        let replies = gateway.send("alice@good.example", &[recipient], &raw).await;
        assert!(replies.settling().starts_with(reply), "{recipient}: {}", replies.settling());
    }
    assert_eq!(gateway.messages().await.len(), 2);
    gateway.finish().await;
}
