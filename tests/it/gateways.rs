//! Several gateways on one PostgreSQL database.

use gatepost::testkit::smtp_client::{Transaction, deliver};

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
