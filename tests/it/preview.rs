//! A policy is tried before it is set: on the mail that came, and on a message from a file.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gatepost::domain::clock::{Clock, Timestamp};
use gatepost::run;
use serde_json::{Value, json};

use crate::support::{TestGateway, letter, signer};

const FROM: &str = "alice@good.example";
const AGENT: &str = "support";
const TO: [&str; 1] = ["support@agents.example"];

async fn preview(gateway: &TestGateway, body: Value) -> Value {
    let agent = gateway.house.agents[AGENT].id;
    let path = format!("/email/inboundPolicy/preview?targetAccountId={agent}");
    let (status, answer) = gateway.request("POST", &path, Some(body)).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

/// A signed letter from somebody at good.example.
fn letter_from(sender: &str, subject: &str) -> Vec<u8> {
    let text = letter(subject).replace(FROM, sender);
    signer().sign(text.as_bytes()).unwrap()
}

async fn mail_is_weighed(gateway: TestGateway) {
    let stranger = "stranger@good.example";
    let to = async |sender: &str| {
        gateway.send(sender, &TO, &letter_from(sender, "weighed")).await.settling().to_owned()
    };
    assert!(to(FROM).await.starts_with("250"));
    assert!(to(stranger).await.starts_with("550 5.7.1"));
    let unsigned = letter("unsigned");
    gateway.send(FROM, &TO, unsigned.as_bytes()).await;
    let expected = [
        (json!({}), 0, Value::Null, "refused"),
        (json!({ "mode": "open" }), 1, json!(stranger), "accepted"),
        (json!({ "add": ["Stranger@good.example"] }), 1, json!(stranger), "accepted"),
        (json!({ "remove": [FROM] }), 1, json!(FROM), "refused"),
    ];
    for (draft, changed, sender, would) in expected {
        let mut body = draft.clone();
        body["days"] = json!(1);
        let answer = preview(&gateway, body).await;
        assert_eq!((&answer["examined"], &answer["complete"]), (&json!(3), &json!(true)));
        assert_eq!(answer["counts"]["changed"], changed, "{draft}: {answer}");
        if changed > 0 {
            assert_eq!(answer["changed"][0]["sender"], sender, "{draft}");
            assert_eq!(answer["changed"][0]["would"], would, "{draft}");
        }
    }
    // Nothing was saved: the next message is decided as before.
    assert!(to(stranger).await.starts_with("550 5.7.1"));
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_that_came_is_weighed_on_sqlite() {
    mail_is_weighed(TestGateway::start().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_that_came_is_weighed_on_postgres() {
    mail_is_weighed(TestGateway::on_postgres().await).await;
}

/// To the millisecond: what is as old as `days` is looked at, and nothing older.
#[tokio::test(flavor = "multi_thread")]
async fn days_reach_back_exactly_so_far() {
    const DAY: i64 = 86_400_000;
    let mut gateway = TestGateway::start().await;
    let began = run::system_mint().clock().now().millis();
    let now = Arc::new(AtomicI64::new(began));
    let clock = Arc::clone(&now);
    let clock = Clock::new(move || Timestamp::from_millis(clock.load(Ordering::SeqCst)));
    gateway.restart_by(&[], clock).await;
    assert!(gateway.send(FROM, &TO, &letter_from(FROM, "then")).await.accepted());
    for (age, days, examined) in [
        (DAY - 1, 1, 1),
        (DAY, 1, 1),
        (DAY + 1, 1, 0),
        (DAY + 1, 2, 1),
        (2 * DAY, 2, 1),
        (2 * DAY + 1, 2, 0),
        (2 * DAY + 1, 90, 1),
    ] {
        now.store(began + age, Ordering::SeqCst);
        let answer = preview(&gateway, json!({ "days": days })).await;
        assert_eq!(answer["examined"], examined, "{age} ms, {days} days: {answer}");
        let since = Timestamp::from_millis(began + age - days * DAY);
        assert_eq!(answer["since"], since.to_string());
    }
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_shares_nothing_with_previews_and_its_line_ends_with_them() {
    let framing = ("smtp.toml", "[framing]\nbare_line_ends = \"normalize\"\n");
    let gateway = TestGateway::with_rules(&[framing]).await;
    let raw = letter_from(FROM, "apart");
    let key = "s1._domainkey.good.example";
    let text = String::from_utf8(raw.clone()).unwrap();
    let answer = preview(&gateway, json!({ "eml": text })).await;
    assert_eq!(answer["current"]["verdict"], "accepted");
    let asked = gateway.dns.queries_for(key);
    assert!(asked > 0);
    // Again: the preview remembers, and mail asks for itself.
    preview(&gateway, json!({ "eml": text })).await;
    assert_eq!(gateway.dns.queries_for(key), asked);
    assert!(gateway.send(FROM, &TO, &raw).await.accepted());
    assert!(gateway.dns.queries_for(key) > asked);
    let mixed = text.replacen("\r\n\r\n", "\r\n\n", 1);
    let answer = preview(&gateway, json!({ "eml": mixed })).await;
    assert_eq!(answer["current"]["verdict"], "accepted", "{answer}");
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_from_a_file_is_examined_and_leaves_nothing() {
    let gateway = TestGateway::start().await;
    let stranger = letter_from("stranger@good.example", "from a file");
    let text = String::from_utf8(stranger.clone()).unwrap();
    let spellings = [text.clone(), text.replace("\r\n", "\n"), STANDARD.encode(&stranger)];
    for eml in spellings {
        let answer = preview(&gateway, json!({ "mode": "open", "eml": eml })).await;
        assert_eq!(answer["examined"], 1);
        let change = &answer["changed"][0];
        assert_eq!((&change["was"], &change["would"]), (&json!("refused"), &json!("accepted")));
        assert_eq!(change["wasReason"], "sender_not_allowed");
        assert_eq!(
            (&change["intakeId"], &change["sender"]),
            (&Value::Null, &json!("stranger@good.example"))
        );
        let (current, draft) = (&answer["current"], &answer["draft"]);
        assert_eq!(
            (&current["verdict"], &draft["verdict"]),
            (&json!("refused"), &json!("accepted"))
        );
        assert_eq!(current["recipient"], TO[0]);
        let names = |record: &Value| -> Vec<String> {
            let steps = record["steps"].as_array().unwrap().iter();
            steps.map(|step| step["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(current), names(draft));
        assert_eq!(names(current).last().map(String::as_str), Some("policy"));
        let steps = current["steps"].as_array().unwrap();
        let dkim = steps.iter().find(|step| step["name"] == "dkim").unwrap();
        assert_eq!(dkim["dns"][0]["name"], "s1._domainkey.good.example");
    }
    // Bytes that are no UTF-8 come in base64; a forged message is refused either way.
    let forged = [b"From: alice@good.example\r\nX: ".as_slice(), b"\xff\r\n\r\nx\r\n"].concat();
    let eml = STANDARD.encode(forged);
    let answer = preview(&gateway, json!({ "mode": "open", "eml": eml })).await;
    assert_eq!(answer["changed"], json!([]));
    assert_eq!(answer["counts"]["would"]["refused"], 1);
    assert_eq!(answer["draft"]["reason"], "dkim_missing", "{answer:#}");
    for table in
        ["SELECT COUNT(*) FROM records WHERE recorded = 1", "SELECT COUNT(*) FROM messages"]
    {
        assert_eq!(gateway.count(table).await, 0, "{table}");
    }
    gateway.finish().await;
}
