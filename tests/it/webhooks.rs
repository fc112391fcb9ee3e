//! Deliveries through the whole program: retried, cancelled by 410, kept across a restart.

use gatepost::testkit::receiver::Reply;
use serde_json::Value;

use crate::support::{PATIENCE, TestGateway, signed};

const FROM: &str = "alice@good.example";
const TO: [&str; 1] = ["support@agents.example"];

#[tokio::test(flavor = "multi_thread")]
async fn an_event_has_the_fields_that_v2_clients_read() {
    let gateway = TestGateway::start().await;
    assert!(gateway.send(FROM, &TO, &signed("an event")).await.accepted());
    let received = gateway.receiver.wait_for(1, PATIENCE).await.unwrap();
    let event: Value = serde_json::from_slice(&received[0].body).unwrap();
    let messages = gateway.messages().await;
    let message = &messages[0];
    assert_eq!(event["event"], "email.received");
    assert_eq!(event["type"], "email.received");
    assert_eq!(event["id"], received[0].headers["webhook-id"].as_str());
    assert_eq!(event["roomId"], message["roomId"]);
    assert_eq!(event["messageUuid"], message["uuid"]);
    assert_eq!(event["messageTimestamp"], message["timestamp"]);
    assert_eq!(event["targetAccountId"], gateway.house.agents["support"].id.get());
    assert_eq!(event["from"], FROM);
    assert_eq!(event["subject"], "an event");
    assert_eq!(event["data"]["message"]["uuid"], message["uuid"]);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_work_survives_a_restart() {
    let mut gateway = TestGateway::start().await;
    // The first attempt fails; the second is due five seconds later, in another process' life.
    gateway.receiver.script([Reply::status(500)]);
    assert!(gateway.send(FROM, &TO, &signed("later")).await.accepted());
    gateway.receiver.wait_for(1, PATIENCE).await.unwrap();
    gateway.restart().await;
    let received = gateway.receiver.wait_for(2, PATIENCE).await.unwrap();
    assert_eq!(received[0].headers["webhook-id"], received[1].headers["webhook-id"]);
    // Each attempt makes its own links, which may begin in another minute.
    let bodies = [0, 1].map(|at| {
        let mut event: Value = serde_json::from_slice(&received[at].body).unwrap();
        let metadata = event["data"]["message"]["metadata"].as_object_mut().unwrap();
        metadata.retain(|name, _| !name.contains("igned"));
        assert!(metadata.contains_key("emailSubject"));
        event
    });
    assert_eq!(bodies[0], bodies[1]);
    assert!(received.iter().all(|request| request.verified));
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gone_removes_the_destination() {
    let mut gateway = TestGateway::start().await;
    gateway.receiver.script([Reply::status(410)]);
    assert!(gateway.send(FROM, &TO, &signed("one")).await.accepted());
    gateway.receiver.wait_for(1, PATIENCE).await.unwrap();
    // A stop waits for the attempt under way, and so for its result in the store.
    gateway.restart().await;
    let hooks = gateway.get("/webhooks").await;
    assert_eq!(hooks["webhooks"], Value::Array(Vec::new()));
    let noted = "SELECT COUNT(*) FROM audit_entries WHERE deed = 'webhook.removed'";
    assert_eq!(gateway.count(noted).await, 1);
    assert!(gateway.send(FROM, &TO, &signed("two")).await.accepted());
    assert_eq!(gateway.count("SELECT COUNT(*) FROM deliveries").await, 1);
    gateway.finish().await;
}
