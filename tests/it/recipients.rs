//! Who answers to an address may change while a message is under way: the commit looks again
//! (contract §2.5).

use gatepost::app::tenancy::Claiming;
use gatepost::domain::account::Account;
use gatepost::domain::address::Address;

use crate::support::TestGateway;
use crate::support::session::Session;

async fn claim(gateway: &TestGateway, agent: &Account, address: &str, catch_all: bool) {
    let address = Address::parse(address).unwrap();
    gateway.tenancy.claim_address(agent, &address, catch_all, Claiming::Never).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_answers_is_looked_up_again_at_the_commit() {
    let gateway = TestGateway::start().await;
    let (open, closed) = (&gateway.house.agents["open"], &gateway.house.agents["closed"]);
    let own = "open@agents.example";
    claim(&gateway, open, own, true).await;

    let mut session = Session::with_recipient(gateway.smtp, "anyone+tag@agents.example").await;
    let reply = session.finish("while it is the catch-all").await;
    assert!(reply.starts_with("250"), "{reply}");

    let mut session = Session::with_recipient(gateway.smtp, "anyone@agents.example").await;
    claim(&gateway, open, own, false).await;
    let reply = session.finish("no catch-all any more").await;
    assert!(reply.starts_with("550 5.1.1"), "{reply}");

    claim(&gateway, open, own, true).await;
    let mut session = Session::with_recipient(gateway.smtp, "taken@agents.example").await;
    claim(&gateway, closed, "taken@agents.example", false).await;
    let reply = session.finish("the address is another Agent's now").await;
    assert!(reply.starts_with("550 5.1.1"), "{reply}");

    // The Agent's own address goes, and it answers to it as the catch-all all the same.
    claim(&gateway, open, "second@agents.example", false).await;
    let mut session = Session::with_recipient(gateway.smtp, "second@agents.example").await;
    let second = Address::parse("second@agents.example").unwrap();
    gateway.tenancy.release_address(open.id, &second).await.unwrap();
    let reply = session.finish("by the catch-all").await;
    assert!(reply.starts_with("250"), "{reply}");

    assert_eq!(gateway.messages().await.len(), 2);
    gateway.finish().await;
}
