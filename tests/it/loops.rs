//! A message that an Agent's application sends on is refused on its return by its delivery marker
//! (contract §2, Replies; threats C14); a message with a similar header is not.

use gatepost::app::tenancy::Claiming;
use gatepost::domain::address::Address;
use gatepost::testkit::smtp_client::{Replies, Transaction, deliver};
use serde_json::{Value, json};

use crate::support::{PATIENCE, TestGateway, http, signed};

const FROM: &str = "alice@good.example";
const TO: &str = "support@agents.example";
const FIELD: &str = "X-Gatepost-Delivered";

/// `raw` with this field in front, as a forwarder adds it: the signature stays valid.
fn marked(value: &str, raw: &[u8]) -> Vec<u8> {
    [format!("{FIELD}: {value}\r\n").as_bytes(), raw].concat()
}

fn marker(message: &Value) -> String {
    let marker = &message["metadata"]["emailDeliveryMarker"];
    assert_eq!(marker["name"], FIELD, "{message}");
    marker["value"].as_str().unwrap().to_owned()
}

async fn send(gateway: &TestGateway, to: &[&str], raw: &[u8]) -> Replies {
    gateway.send(FROM, to, raw).await
}

/// The record that a reply names.
async fn record(gateway: &TestGateway, replies: &Replies) -> Value {
    let reply = replies.settling();
    let id = reply.split_once("[record ").unwrap().1.split_once(']').unwrap().0.to_owned();
    gateway.get(&format!("/email/intake/{id}")).await["intake"].clone()
}

fn step<'r>(record: &'r Value, name: &str) -> &'r Value {
    let steps = record["steps"].as_array().unwrap();
    steps.iter().find(|step| step["name"] == name).unwrap_or_else(|| panic!("no {name}: {record}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_back_to_the_same_address_is_refused_and_another_agent_gets_it() {
    let gateway = TestGateway::start().await;
    let original = signed("round");
    assert!(send(&gateway, &[TO], &original).await.accepted());
    // The event tells the application how to mark what it sends on; so does the raw message.
    let event = &gateway.receiver.wait_for(1, PATIENCE).await.unwrap()[0].body;
    let event: Value = serde_json::from_slice(event).unwrap();
    let token = marker(&event["data"]["message"]);
    let uuid = event["messageUuid"].as_str().unwrap();
    let url = format!("http://{}/api/v2/messages/{uuid}/raw?token={}", gateway.http, gateway.key);
    let answer = http::get(&url).await;
    assert_eq!(answer.headers["x-gatepost-delivered"], token.as_str());
    let raw = answer.body;
    assert_eq!(raw, original, "the original is not altered");

    // The tag changes nothing about where it has been.
    for to in [TO, "SUPPORT+tag@agents.example"] {
        let replies = send(&gateway, &[to], &marked(&token, &raw)).await;
        assert!(replies.settling().starts_with("554 5.4.6"), "{}", replies.settling());
        let record = record(&gateway, &replies).await;
        assert_eq!(record["reason"], "loop_detected");
        assert_eq!(step(&record, "loop")["inputs"], json!({ "field": FIELD, "address": TO }));
        assert_eq!(step(&record, "automation")["inputs"]["deliveryMarkers"], 1);
    }
    // The marker counts in any message, in upper case, and among other markers.
    let other = marked("0123456789abcdef0123456789abcdef", &signed("another"));
    let other = marked("rubbish", &marked(&token.to_uppercase(), &other));
    let replies = send(&gateway, &[TO], &other).await;
    assert!(replies.settling().starts_with("554 5.4.6"), "{}", replies.settling());
    // A loop is ended before anybody is asked who sent it.
    let unsigned = marked(&token, b"From: a@nobody.example\r\nSubject: x\r\n\r\nx\r\n");
    let replies = send(&gateway, &[TO], &unsigned).await;
    assert!(replies.settling().starts_with("554 5.4.6"), "{}", replies.settling());

    // One Agent's copy may reach another, which then has been reached, too.
    let onward = marked(&token, &raw);
    assert!(send(&gateway, &["open@agents.example"], &onward).await.accepted());
    let stored = gateway.messages().await;
    let second = marker(&stored[0]);
    assert_ne!(second, token);
    assert_eq!(stored[0]["metadata"]["emailAutomation"]["mayAutoReply"], false);
    let replies = send(&gateway, &["open@agents.example"], &marked(&second, &onward)).await;
    assert!(replies.settling().starts_with("554 5.4.6"), "{}", replies.settling());
    // Nothing but markers of this address: nothing happens.
    let forged = marked("ffffffffffffffffffffffffffffffff", &signed("forged"));
    let replies = send(&gateway, &[TO], &forged).await;
    assert!(replies.accepted(), "{}", replies.settling());
    assert_eq!(step(&record(&gateway, &replies).await, "loop")["result"], "pass");
    assert_eq!(gateway.messages().await.len(), 3);
    gateway.finish().await;
}

/// Recipients of one transaction are judged each for itself, and no record names another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_loop_of_one_recipient_keeps_nothing_from_the_others() {
    let gateway = TestGateway::start().await;
    let [open, open2] = ["open@agents.example", "open2@agents.example"];
    assert!(send(&gateway, &[open, open2], &signed("for both")).await.accepted());
    let stored = gateway.messages().await;
    let second = gateway.house.agents["open2"].id.get();
    let mut both = stored.iter().map(marker).collect::<Vec<_>>();
    if stored[0]["to"] == second {
        both.swap(0, 1);
    }
    assert_ne!(both[0], both[1]);

    // To one of them it comes back, in whatever place: the other one gets it, once.
    for (to, messages) in [([open, open2], 3), ([open2, open], 4)] {
        let raw = marked(&both[1], &signed("back to one"));
        for _ in 0..2 {
            let replies = send(&gateway, &to, &raw).await;
            assert!(replies.accepted(), "{}", replies.settling());
            let accepted = record(&gateway, &replies).await;
            assert_eq!(
                (&accepted["verdict"], &accepted["recipient"]),
                (&"accepted".into(), &open.into())
            );
            assert_eq!(step(&accepted, "loop")["result"], "pass");
            assert!(!accepted.to_string().contains(open2), "{accepted}");
        }
        assert_eq!(gateway.messages().await.len(), messages);
    }
    let list = gateway.get("/email/intake?reason=loop_detected").await["intake"].clone();
    let returns = list.as_array().unwrap();
    assert_eq!(returns.len(), 4);
    for one in returns {
        assert_eq!((&one["recipient"], &one["messageUuid"]), (&open2.into(), &Value::Null));
        let whole = gateway.get(&format!("/email/intake/{}", one["id"].as_str().unwrap())).await;
        assert_eq!(step(&whole["intake"], "loop")["inputs"]["address"], open2);
        assert!(!whole.to_string().contains(open), "{whole}");
    }
    // If the message is refused for the other recipient, that refusal is the reply, and the loop is
    // not mentioned.
    let forged = format!("From: {FROM}\r\nSubject: x\r\n\r\nx\r\n");
    let replies = send(&gateway, &[open2, open], &marked(&both[1], forged.as_bytes())).await;
    assert!(replies.settling().starts_with("550 5.7.20"), "{}", replies.settling());
    // Only to all of them is the transaction a loop.
    let to_all = marked(&both[0], &marked(&both[1], &signed("back to both")));
    let replies = send(&gateway, &[open, open2], &to_all).await;
    assert!(replies.settling().starts_with("554 5.4.6"), "{}", replies.settling());
    assert_eq!(gateway.messages().await.len(), 4);
    gateway.finish().await;
}

/// Where anybody can be written to, each address that was asked for has a marker of its own.
#[tokio::test(flavor = "multi_thread")]
async fn at_a_catch_all_the_address_that_was_asked_for_counts() {
    let gateway = TestGateway::start().await;
    let open = &gateway.house.agents["open"];
    let own = Address::parse("open@agents.example").unwrap();
    gateway.tenancy.claim_address(open, &own, true, Claiming::Never).await.unwrap();
    assert!(send(&gateway, &["one@agents.example"], &signed("caught")).await.accepted());
    let token = marker(&gateway.messages().await[0]);
    let back = marked(&token, &signed("caught again"));
    let replies = send(&gateway, &["one@agents.example"], &back).await;
    assert!(replies.settling().starts_with("554 5.4.6"), "{}", replies.settling());
    assert!(send(&gateway, &["two@agents.example"], &back).await.accepted());
    gateway.finish().await;
}

/// The marker is the installation's: every gateway of it knows it, now and after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn the_marker_is_known_to_every_gateway_and_outlives_the_process() {
    let mut gateway = TestGateway::on_postgres().await;
    assert!(send(&gateway, &[TO], &signed("before")).await.accepted());
    let token = marker(&gateway.messages().await[0]);
    let second = gateway.second().await;
    let raw = marked(&token, &signed("by another way"));
    let to = [TO.to_owned()];
    let transaction = Transaction { helo: "client.example", from: FROM, to: &to, raw: &raw };
    let replies = deliver(second.smtp, &transaction).await.unwrap();
    assert!(replies.settling().starts_with("554 5.4.6"), "{}", replies.settling());
    assert!(second.stop(PATIENCE).await);
    gateway.restart().await;
    let replies = send(&gateway, &[TO], &marked(&token, &signed("after"))).await;
    assert!(replies.settling().starts_with("554 5.4.6"), "{}", replies.settling());
    gateway.finish().await;
}
