//! More of one sender than an Agent should be given at once is deferred, and nothing is lost
//! (contract §2, Replies: `rate_limited`).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use gatepost::domain::clock::{Clock, Timestamp};
use gatepost::testkit::smtp_client::Replies;
use serde_json::Value;

use crate::support::{TestGateway, letter_between, signed, signer};

const ALICE: &str = "alice@good.example";
const SUPPORT: &str = "support@agents.example";
const OPEN: &str = "open@agents.example";

/// A gateway with these rates, and its clock, which stands still.
async fn gateway(rates: &str) -> (TestGateway, Arc<AtomicI64>) {
    let mut gateway = TestGateway::start().await;
    // Within the time in which the signatures of the tests count, at the beginning of a minute.
    let now = gatepost::run::system_mint().clock().now().millis() / 60_000 * 60_000;
    let time = Arc::new(AtomicI64::new(now));
    let shown = Arc::clone(&time);
    let clock = Clock::new(move || Timestamp::from_millis(shown.load(Ordering::SeqCst)));
    let rates = format!("[rates]\n{rates}\n");
    gateway.restart_by(&[("intake.toml", &rates)], clock).await;
    (gateway, time)
}

async fn send(gateway: &TestGateway, to: &str, raw: &[u8]) -> Replies {
    gateway.send(ALICE, &[to], raw).await
}

fn is_put_off(replies: &Replies) -> bool {
    assert!(
        replies.accepted() || replies.settling().starts_with("450 4.2.1"),
        "{}",
        replies.settling()
    );
    !replies.accepted()
}

/// `sender recipient count` of the records of what was deferred.
async fn put_off(gateway: &TestGateway) -> Vec<String> {
    let records = gateway.get("/email/intake?reason=rate_limited").await;
    let mut lines = Vec::new();
    for record in records["intake"].as_array().unwrap() {
        let text = |name: &str| record[name].as_str().unwrap().to_owned();
        let id = text("id");
        let whole = gateway.get(&format!("/email/intake/{id}")).await;
        let steps = whole["intake"]["steps"].as_array().unwrap().clone();
        let step: Vec<&Value> = steps.iter().filter(|step| step["name"] == "rates").collect();
        assert_eq!(step.len(), 1, "{steps:?}");
        assert_eq!(
            (&record["verdict"], &record["messageUuid"]),
            (&"deferred".into(), &Value::Null)
        );
        lines.push(format!(
            "{} {} {}",
            text("sender"),
            text("recipient"),
            step[0]["inputs"]["over"]
        ));
    }
    lines.sort();
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn one_room_that_is_flooded_holds_up_no_other() {
    let (gateway, time) = gateway("room_messages_per_minute = 2").await;
    let first = signed("first");
    assert!(!is_put_off(&send(&gateway, SUPPORT, &first).await));
    // The same again is stored once and counted once, and a forger or a stranger counts nothing.
    for _ in 0..3 {
        assert!(!is_put_off(&send(&gateway, SUPPORT, &first).await));
    }
    for _ in 0..3 {
        let forged = send(&gateway, SUPPORT, letter_between(ALICE, SUPPORT, "x").as_bytes()).await;
        assert!(forged.settling().starts_with("550 5.7.20"), "{}", forged.settling());
        let unlisted = send(&gateway, "closed@agents.example", &signed("unlisted")).await;
        assert!(unlisted.settling().starts_with("550 5.7.1"), "{}", unlisted.settling());
    }
    assert!(!is_put_off(&send(&gateway, SUPPORT, &signed("second")).await));
    let third = signed("third");
    for _ in 0..3 {
        assert!(is_put_off(&send(&gateway, SUPPORT, &third).await));
    }
    // Another room of the sender, and another sender's room with the Agent.
    assert!(!is_put_off(&send(&gateway, OPEN, &signed("elsewhere")).await));
    let dora = letter_between("dora@good.example", SUPPORT, "from another");
    assert!(!is_put_off(&send(&gateway, SUPPORT, &signer().sign(dora.as_bytes()).unwrap()).await));
    assert_eq!(put_off(&gateway).await, [format!("{ALICE} {SUPPORT} \"room\"")]);
    let counted = "SELECT count FROM intake_records WHERE reason = 'rate_limited'";
    assert_eq!(gateway.count(counted).await, 3);

    // In its time it is taken.
    time.fetch_add(29_000, Ordering::SeqCst);
    assert!(is_put_off(&send(&gateway, SUPPORT, &third).await));
    time.fetch_add(1_000, Ordering::SeqCst);
    assert!(!is_put_off(&send(&gateway, SUPPORT, &third).await));
    assert_eq!(gateway.messages().await.len(), 5);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_to_all_is_held_up_for_all() {
    let (gateway, _) = gateway("sender_messages_per_minute = 2").await;
    let both = [OPEN, "open2@agents.example"];
    let one = gateway.send(ALICE, &both, &signed("to two is one")).await;
    assert!(!is_put_off(&one));
    assert!(!is_put_off(&send(&gateway, SUPPORT, &signed("two")).await));
    assert!(is_put_off(&send(&gateway, SUPPORT, &signed("three")).await));
    // Both recipients of what is put off have their record.
    assert!(is_put_off(&gateway.send(ALICE, &both, &signed("four")).await));
    let mut wanted = [OPEN, both[1], SUPPORT].map(|to| format!("{ALICE} {to} \"sender\""));
    wanted.sort();
    assert_eq!(put_off(&gateway).await, wanted);
    assert_eq!(gateway.messages().await.len(), 3);
    gateway.finish().await;
}
