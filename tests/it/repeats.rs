//! A repeated message makes no second message and no second event (contract §2, Repeats).

use serde_json::json;

use crate::support::{PATIENCE, TestGateway, letter, signed, signer};

const FROM: &str = "alice@good.example";
const TO: [&str; 1] = ["support@agents.example"];

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_is_accepted_and_makes_nothing_new() {
    let gateway = TestGateway::start().await;
    let message = signed("once");
    // Another server on the way adds a field above: the signature and what it signs stay.
    let by_another_way = [b"Received: from elsewhere.example\r\n".as_slice(), &message].concat();
    let (new, again) = ("250 2.0.0 accepted [record ", "250 2.0.0 accepted before [record ");
    for (raw, said) in [(&message, new), (&message, again), (&by_another_way, again)] {
        let replies = gateway.send(FROM, &TO, raw).await;
        assert!(replies.settling().starts_with(said), "{}", replies.settling());
    }
    assert_eq!(gateway.messages().await.len(), 1);
    let received = "SELECT COUNT(*) FROM events WHERE names LIKE '%email.received'";
    assert_eq!(gateway.count(received).await, 1);
    // Each arrival has its record, and all of them name the one message.
    let records = gateway.get("/email/intake?verdict=accepted").await;
    let records = records["intake"].as_array().unwrap().clone();
    assert_eq!(records.len(), 3);
    assert!(records.iter().all(|record| record["messageUuid"] == records[0]["messageUuid"]));
    // So has the log, with the time that each took.
    let timed = gateway.get("/logs?outcome=accepted&latencyMs__gt=0&fields=uuid").await;
    assert_eq!(
        (&timed["totalCount"], &timed["logs"][0]["uuid"]),
        (&json!(3), &timed["logs"][2]["uuid"])
    );
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_message_for_another_agent_is_its_own() {
    let gateway = TestGateway::start().await;
    let message = signed("for two");
    for to in ["support@agents.example", "open@agents.example"] {
        let replies = gateway.send(FROM, &[to], &message).await;
        assert!(replies.accepted(), "{}", replies.settling());
    }
    assert_eq!(gateway.messages().await.len(), 2);
    // They came in transactions of their own, which share nothing.
    assert_eq!(gateway.count("SELECT COUNT(*) FROM contents").await, 2);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_message_with_the_same_message_id_is_another_message() {
    let gateway = TestGateway::start().await;
    let first = letter("first");
    let second = first.replace("first", "second");
    for text in [&first, &second] {
        let raw = signer().sign(text.as_bytes()).unwrap();
        let replies = gateway.send(FROM, &TO, &raw).await;
        assert!(replies.accepted(), "{}", replies.settling());
    }
    assert_eq!(gateway.messages().await.len(), 2);
    gateway.receiver.wait_for(2, PATIENCE).await.unwrap();
    gateway.finish().await;
}

/// Spellings of one mailbox are one contact, and one conversation with the Agent.
#[tokio::test(flavor = "multi_thread")]
async fn a_sender_in_several_spellings_is_one_contact() {
    let gateway = TestGateway::start().await;
    let spellings = [FROM, "Alice@good.example", "alice@GOOD.Example", "\"alice\"@good.example"];
    for (number, spelling) in spellings.into_iter().enumerate() {
        let text = letter(&format!("spelling {number}")).replacen(FROM, spelling, 1);
        let raw = signer().sign(text.as_bytes()).unwrap();
        let replies = gateway.send(FROM, &TO, &raw).await;
        assert!(replies.accepted(), "{spelling}: {}", replies.settling());
    }
    let messages = gateway.messages().await;
    assert_eq!(messages.len(), spellings.len());
    for message in &messages {
        assert_eq!(message["metadata"]["emailFrom"], FROM, "{message:#}");
        assert_eq!(message["roomId"], messages[0]["roomId"]);
    }
    assert_eq!(gateway.count("SELECT COUNT(*) FROM contacts").await, 1);
    let other = letter("other").replacen(FROM, "alice+x@good.example", 1);
    let raw = signer().sign(other.as_bytes()).unwrap();
    let open = ["open@agents.example"];
    assert!(gateway.send(FROM, &open, &raw).await.accepted());
    assert_eq!(gateway.count("SELECT COUNT(*) FROM contacts").await, 2);
    gateway.finish().await;
}
