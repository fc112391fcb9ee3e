//! More of one sender than an Agent should be given at once is deferred, and nothing is lost
//! (contract §2, Replies: `rate_limited`).

use gatepost::domain::clock::Clock;
use gatepost::testkit::smtp_client::Replies;
use serde_json::Value;

use crate::support::session::Session;
use crate::support::{TestGateway, letter_between, signed, signer};

const ALICE: &str = "alice@good.example";
const SUPPORT: &str = "support@agents.example";
const OPEN: &str = "open@agents.example";

/// A gateway with these rates, whose records are all of one minute.
async fn gateway(rates: &str) -> TestGateway {
    let mut gateway = TestGateway::start().await;
    let now = gatepost::run::system_mint().clock().now();
    let clock = Clock::new(move || now);
    let rates = format!("[rates]\n{rates}\n");
    gateway.restart_by(&[("intake.toml", &rates)], clock).await;
    gateway
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
    let gateway = gateway("room_messages_per_minute = 2").await;
    let first = signed("first");
    assert!(!is_put_off(&send(&gateway, SUPPORT, &first).await));
    // A repeat is stored and counted once; forged or refused mail is not counted.
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
    gateway.counts(counted, 3).await;

    // A repeat of accepted mail gets the same reply by any route, and makes nothing new.
    let another_way = [b"Received: from elsewhere.example\r\n".as_slice(), &first].concat();
    for again in [&first, &another_way] {
        assert!(!is_put_off(&send(&gateway, SUPPORT, again).await));
    }
    assert!(is_put_off(&send(&gateway, SUPPORT, &third).await));
    gateway.counts(counted, 4).await;
    assert_eq!(gateway.messages().await.len(), 4);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_to_all_is_held_up_for_all() {
    let gateway = gateway("sender_messages_per_minute = 2").await;
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

/// Proves that altered copies of one signed message, whose Subject the signature leaves open, use
/// up only their own rate.
#[tokio::test(flavor = "multi_thread")]
async fn copies_of_one_signature_leave_the_room_to_its_sender() {
    let gateway = gateway("signature_messages_per_minute = 2\nroom_messages_per_minute = 4").await;
    let signer = signer().headers(["From", "Date", "Message-ID"]);
    let original = signer.sign(letter_between(ALICE, SUPPORT, "SUBJECT").as_bytes()).unwrap();
    let original = String::from_utf8(original).unwrap();
    let copy = |subject: &str| {
        original.replacen("Subject: SUBJECT", &format!("Subject: {subject}"), 1).into_bytes()
    };
    let mut taken = 0;
    for number in 0..20 {
        let replies = send(&gateway, SUPPORT, &copy(&number.to_string())).await;
        taken += usize::from(!is_put_off(&replies));
    }
    assert_eq!(taken, 2);
    assert_eq!(put_off(&gateway).await, [format!("{ALICE} {SUPPORT} \"signature\"")]);
    // Another Agent of the same list has its own, and the sender's own mail has the rest.
    assert!(!is_put_off(&send(&gateway, OPEN, &copy("for all")).await));
    assert!(!is_put_off(&send(&gateway, SUPPORT, &copy("0")).await), "it is there");
    for subject in ["third", "fourth"] {
        assert!(!is_put_off(&send(&gateway, SUPPORT, &signed(subject)).await));
    }
    assert!(is_put_off(&send(&gateway, SUPPORT, &signed("fifth")).await));
    assert_eq!(gateway.messages().await.len(), 5);
    gateway.finish().await;
}

/// Nobody can tell which of the copies is the genuine one; but it comes from elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn the_genuine_message_comes_in_beside_its_altered_copies() {
    let gateway = gateway("signature_messages_per_minute = 1").await;
    let signer = signer().headers(["From", "Date", "Message-ID"]);
    let genuine = signer.sign(letter_between(ALICE, SUPPORT, "genuine").as_bytes()).unwrap();
    let genuine = String::from_utf8(genuine).unwrap();
    let mut taken = 0;
    for number in 0..9 {
        let copy = genuine.replacen("Subject: genuine", &format!("Subject: {number}"), 1);
        taken += usize::from(!is_put_off(&send(&gateway, SUPPORT, copy.as_bytes()).await));
    }
    assert_eq!(taken, 1);
    assert!(is_put_off(&send(&gateway, SUPPORT, genuine.as_bytes()).await));
    let mut session = Session::connect_from([127, 0, 7, 1].into(), gateway.smtp).await;
    session.expect("220 ").await;
    session.begin(SUPPORT).await;
    assert!(session.say("DATA").await.starts_with("354"));
    let said = session.say(&format!("{genuine}.")).await;
    assert!(said.starts_with("250 2.0.0 accepted [record "), "{said}");
    assert_eq!(gateway.messages().await[0]["metadata"]["emailSubject"], "genuine");
    gateway.finish().await;
}

/// One full room holds up nobody else in the transaction, and one to whom it comes back is told
/// when the others are.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_put_off_where_nobody_has_room() {
    let gateway = gateway("room_messages_per_minute = 1").await;
    let [first, second] = [OPEN, "open2@agents.example"];
    assert!(!is_put_off(&send(&gateway, first, &signed("one")).await));
    assert!(!is_put_off(&gateway.send(ALICE, &[first, second], &signed("two")).await));
    assert!(is_put_off(&gateway.send(ALICE, &[first, second], &signed("three")).await));
    let messages = gateway.messages().await;
    let of_second = gateway.house.agents["open2"].id.get();
    let of_second = messages.iter().find(|message| message["to"] == of_second).unwrap();
    let marker = of_second["metadata"]["emailDeliveryMarker"]["value"].as_str().unwrap();
    let back = [format!("X-Gatepost-Delivered: {marker}\r\n").as_bytes(), &signed("back")].concat();
    assert!(is_put_off(&gateway.send(ALICE, &[second, first], &back).await));
    let returned = "SELECT COUNT(*) FROM intake_records WHERE reason = 'loop_detected'";
    assert_eq!(gateway.count(returned).await, 0);
    let counted = "SELECT SUM(count) FROM intake_records WHERE reason = 'rate_limited'";
    gateway.counts(counted, 3).await;
    assert_eq!(messages.len(), 3);
    gateway.finish().await;
}

/// An acceptance may rest on what is remembered, since its commit reads it again; a deferral has no commit.
#[tokio::test(flavor = "multi_thread")]
async fn a_sender_over_its_rate_is_refused_once_it_is_removed() {
    let gateway = gateway("room_messages_per_minute = 1").await;
    assert!(!is_put_off(&send(&gateway, SUPPORT, &signed("one")).await));
    assert!(is_put_off(&send(&gateway, SUPPORT, &signed("two")).await));
    let agent = gateway.house.agents["support"].id;
    let path = format!("/email/inboundWhitelist?targetAccountId={agent}");
    let body = Some(serde_json::json!({ "email": ALICE }));
    assert_eq!(gateway.request("DELETE", &path, body).await.0, 200);
    let replies = send(&gateway, SUPPORT, &signed("three")).await;
    assert!(replies.settling().starts_with("550 5.7.1"), "{}", replies.settling());
    gateway.finish().await;
}
