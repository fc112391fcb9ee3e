//! Accepted, refused, deferred: the answer to each provider, and the rows left behind.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::domain::policy::Mode;
use crate::domain::relay::RelayType;
use crate::http::tests::inbound::relayed::set;
use crate::http::tests::inbound::{
    ASKED, FROM, PROVIDERS, Post, SENDGRID, SNS, TO, of_mailgun, refused, signed, step, tagged,
};
use crate::testkit::provider::{MailEnvelope, Sns, sendgrid, ses};
use crate::testkit::receiver::Receiver;

/// An hour ahead of the clock of the house (Unix seconds).
const HOUR_AHEAD: i64 = 1_795_000_000 + 3600;

#[tokio::test(flavor = "multi_thread")]
async fn what_a_provider_posts_is_mail_as_if_it_had_come_over_smtp() {
    let post = Post::open().await;
    for (number, kind) in PROVIDERS.into_iter().enumerate() {
        let path = post.usual(kind).await;
        let raw = signed(kind.as_str());
        let answer = post.send(&path, &post.post(kind, &raw, &[TO])).await.success(200);
        assert_eq!(
            (&answer["verdict"], &answer["message"]),
            (&json!("accepted"), &json!("accepted"))
        );
        assert_eq!(post.messages().await, number + 1);
        let record = post.record().await;
        assert_eq!(answer["intake"], json!([record["id"]]));
        assert_eq!((&record["verdict"], &record["recipient"]), (&json!("accepted"), &json!(TO)));
        assert_eq!((&record["sender"], &record["envelopeFrom"]), (&json!(FROM), &json!(FROM)));
        let proof = step(&record, "provider");
        assert_eq!(
            (&proof["result"], &proof["inputs"]["provider"]),
            (&json!("pass"), &json!(kind.as_str()))
        );
        assert_eq!(proof["inputs"]["relayed"], false);
        assert_eq!(step(&record, "session")["inputs"]["protocol"], "HTTP");
        let said = if kind == RelayType::Mailgun { "127.0.0.1" } else { "192.0.2.7" };
        assert_eq!(record["remoteAddress"], said, "{kind}");
        let uuid = record["messageUuid"].as_str().unwrap();
        let whole = post.house.get("org1", &format!("/messages/{uuid}/raw")).await;
        assert_eq!(whole.body, raw, "{kind}: octet by octet");

        // A retry makes nothing new, and gets the verdict on the first post.
        let again = post.send(&path, &post.post(kind, &raw, &[TO])).await;
        assert_eq!(again.success(200)["verdict"], "accepted");
        assert_eq!(post.messages().await, number + 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_is_refused_by_name_where_mail_is_switched_off() {
    let post = Post::open().await;
    let assign = async |on: Value| {
        let path = format!("/features/assign?targetAccountId={}", post.house.id("agent1"));
        let body = json!({ "features": { "inboundEmail": on } });
        post.house.post("partner", &path, body).await.success(200);
    };
    assign(json!(false)).await;
    for kind in PROVIDERS {
        let path = post.usual(kind).await;
        let posting = post.post(kind, &signed(kind.as_str()), &[TO]);
        refused(kind, &post.send(&path, &posting).await, "does not have the feature inboundEmail");
        assert_eq!(post.record().await["reason"], "inbound_email_off", "{kind}");
    }
    assert_eq!(post.messages().await, 0);
    assign(Value::Null).await;
    let path = post.usual(PROVIDERS[0]).await;
    let posting = post.post(PROVIDERS[0], &signed("on"), &[TO]);
    post.send(&path, &posting).await.success(200);
    assert_eq!(post.messages().await, 1);
}

/// Mailgun posts whole messages only to paths that end with `mime`, also in a form of one line.
#[tokio::test(flavor = "multi_thread")]
async fn mailgun_posts_behind_mime_and_in_either_form() {
    use crate::testkit::provider::{MailgunProof, Posting, mailgun, mailgun_signature};
    let post = Post::open().await;
    let path = post.usual(RelayType::Mailgun).await;
    let bare = path.strip_suffix("/mime").unwrap();
    let raw = signed("urlencoded");
    let timestamp = post.now().seconds().to_string();
    let signature =
        mailgun_signature(crate::http::tests::inbound::MAILGUN_KEY.as_bytes(), &timestamp, "t");
    let proof = MailgunProof { timestamp: &timestamp, token: "t", signature: &signature };
    let fields = mailgun(proof, &raw, FROM, TO);
    post.send(&path, &Posting::urlencoded(&fields)).await.success(200);
    // With the line ends of a text.
    let text = String::from_utf8(signed("line ends")).unwrap().replace("\r\n", "\n");
    post.send(bare, &of_mailgun(text.as_bytes(), TO, post.now(), "u")).await.success(200);
    assert_eq!(post.messages().await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_policy_refuses_is_refused_for_good() {
    let post = Post::open().await;
    let agent = post.house.id("agent1");
    post.house.tenancy.set_mode(agent, Mode::Allowlist).await.unwrap();
    for kind in PROVIDERS {
        let path = post.usual(kind).await;
        let reply = post.send(&path, &post.post(kind, &signed("stranger"), &[TO])).await;
        let record = post.record().await;
        assert_eq!(record["reason"], "sender_not_allowed");
        refused(kind, &reply, record["id"].as_str().unwrap());
        let unsigned = format!("From: {FROM}\r\nTo: {TO}\r\nSubject: x\r\n\r\nx\r\n");
        let reply = post.send(&path, &post.post(kind, unsigned.as_bytes(), &[TO])).await;
        refused(kind, &reply, "");
        assert_eq!(post.record().await["reason"], "dkim_missing");
        // A bare CR, which no SMTP session accepts.
        let bare = [signed("bare"), b"a\rb\r\n".to_vec()].concat();
        refused(kind, &post.send(&path, &post.post(kind, &bare, &[TO])).await, "bare CR");
        assert_eq!(post.record().await["reason"], "malformed");
    }
    assert_eq!(post.messages().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn trouble_of_ours_is_told_to_come_again_and_loses_nothing() {
    let post = Post::open().await;
    let slow = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/fixtures/mail/deferred/dns_unavailable/key_servfail.eml"
    ))
    .unwrap();
    let mut paths = Vec::new();
    for kind in PROVIDERS {
        let path = post.usual(kind).await;
        let reply = post.send(&path, &post.post(kind, slow.as_bytes(), &[TO])).await;
        reply.problem(503, "unavailable", "record");
        assert!(reply.headers.contains_key("retry-after"));
        assert_eq!(post.record().await["reason"], "dns_unavailable");
        // Our clock is behind, or the signer's is ahead.
        let ahead = tagged(kind.as_str(), &format!("t={HOUR_AHEAD}; "));
        let reply = post.send(&path, &post.post(kind, &ahead, &[TO])).await;
        reply.problem(503, "unavailable", "record");
        assert_eq!(post.record().await["reason"], "dkim_not_yet_valid");
        paths.push((kind, path, post.post(kind, &signed("down"), &[TO])));
    }
    post.house.store.close().await;
    for (kind, path, posting) in paths {
        let reply = post.send(&path, &posting).await;
        reply.problem(503, "unavailable", "Retry-After");
        assert!(reply.headers.contains_key("retry-after"), "{kind}");
    }
    drop(post.dns);
}

/// One post for several recipients: nothing is lost, and nothing doubled.
#[tokio::test(flavor = "multi_thread")]
async fn several_recipients_get_it_once_each_and_one_answer_stands_for_all() {
    let post = Post::open().await;
    let [one, two] = ["agent1@partner.example", "agent2@partner.example"];
    // agent3 is org2's, agent4 another reseller's: treated as unknown.
    let foreign = ["agent3@partner.example", "agent4@partner.example", "nobody@partner.example"];
    for kind in [RelayType::Sendgrid, RelayType::Ses] {
        let before = post.messages().await;
        let path = post.usual(kind).await;
        let raw = signed(&format!("for-all-{kind}"));
        let all = [one, foreign[0], two, one, foreign[2]];
        let answer = post.send(&path, &post.post(kind, &raw, &all)).await.success(200);
        assert_eq!(answer["verdict"], "accepted");
        assert_eq!(post.messages().await, before + 2);
        for foreign in foreign {
            let reply = post.send(&path, &post.post(kind, &raw, &[foreign])).await;
            refused(kind, &reply, "");
            let path = "/email/intake?reason=unknown_recipient";
            let list = post.house.get("org1", path).await.success(200);
            assert_eq!(list["intake"].as_array().unwrap().len(), 1, "counted: {list}");
            assert_eq!(list["intake"][0]["agentId"], json!(null));
        }
        // A recipient that refuses does not concern one that accepts.
        post.house.tenancy.set_mode(post.house.id("agent2"), Mode::Allowlist).await.unwrap();
        let raw = signed(&format!("for-one-{kind}"));
        post.send(&path, &post.post(kind, &raw, &[two, one])).await.success(200);
        assert_eq!(post.messages().await, before + 3);
        refused(kind, &post.send(&path, &post.post(kind, &raw, &[two])).await, "");
        refused(kind, &post.send(&path, &post.post(kind, &raw, &[])).await, "no recipient");
        let list = post.house.get("org1", "/email/intake?reason=malformed").await.success(200);
        let told = list["intake"][0]["explanation"].as_str().unwrap();
        assert!(told.contains("no recipient"), "{list}");
        post.house.tenancy.set_mode(post.house.id("agent2"), Mode::Open).await.unwrap();
    }
}

/// No recipient is dropped silently, however many there are. A relay for mail over SMTP does not
/// separate them.
#[tokio::test(flavor = "multi_thread")]
async fn more_recipients_than_a_transaction_has_come_in_several() {
    let post = Post::open().await;
    let receiver = Receiver::start(post.house.http.mint.clock().clone()).await.unwrap();
    set(&post, RelayType::Smtp, &receiver).await;
    let path = post.usual(RelayType::Sendgrid).await;
    let raw = signed("many");
    let tagged = |most| (0..most).map(|n| format!("agent{}+{n}@partner.example", n % 2 + 1));
    let nobody: Vec<_> = (0..150).map(|n| format!("nobody{n}@partner.example")).collect();
    let two: Vec<_> = tagged(2).collect();
    let all: Vec<_> = nobody.iter().chain(&two).map(String::as_str).collect();
    let answer = post.send(&path, &post.post(RelayType::Sendgrid, &raw, &all)).await;
    let answer = answer.success(200);
    assert_eq!(post.messages().await, 2);
    // One counted record of the unknown recipients, and one record that the two Agents share.
    let ids = answer["intake"].as_array().unwrap();
    assert_eq!(ids.iter().filter_map(Value::as_str).collect::<BTreeSet<_>>().len(), 2);
    assert_eq!(receiver.received().len(), 0);
    let all: Vec<_> = tagged(1001).collect();
    let all: Vec<_> = all.iter().map(String::as_str).collect();
    let reply = post.send(&path, &post.post(RelayType::Sendgrid, &raw, &all)).await;
    refused(RelayType::Sendgrid, &reply, "more than 1000 recipients) [record");
}

/// Strangers choose the text of an envelope.
#[tokio::test(flavor = "multi_thread")]
async fn an_envelope_that_is_none_is_kept_cut_and_on_one_line() {
    let post = Post::open().await;
    let path = post.usual(RelayType::Sendgrid).await;
    let raw = signed("envelope");
    let odd =
        ["a\r\nb@partner.example".to_owned(), format!("{}@partner.example", "x".repeat(9000))];
    for to in &odd {
        let reply = post.send(&path, &post.post(RelayType::Sendgrid, &raw, &[to.as_str()])).await;
        refused(RelayType::Sendgrid, &reply, "");
    }
    let list = post.house.get("org1", "/email/intake?reason=unknown_recipient").await.success(200);
    let kept = list["intake"][0]["recipient"].as_str().unwrap();
    assert_eq!(kept, "a\\r\\nb@partner.example");
    for (from, kept) in [
        ("evil\nX: y@b.example".to_owned(), "evil\\nX: y@b.example".to_owned()),
        ("y".repeat(5000), "y".repeat(254)),
    ] {
        let raw = signed(&format!("envelope {}", from.len()));
        let between = MailEnvelope { from: &from, to: &[TO] };
        let posting = SENDGRID.sign(sendgrid(&raw, between), post.now()).unwrap();
        post.send(&path, &posting).await.success(200);
        assert_eq!(post.record().await["envelopeFrom"], kept);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_is_confirmed_at_amazon_and_nowhere_else() {
    let post = Post::open().await;
    let path = post.usual(RelayType::Ses).await;
    let asks = post.send(&path, &SNS.confirmation(post.now()).unwrap()).await;
    assert_eq!(asks.success(200)["message"], "the subscription is confirmed");
    assert!(ASKED.lock().unwrap().iter().any(|url| url == Sns::CONFIRM));
    let ends = SNS.post("UnsubscribeConfirmation", "You have chosen", post.now(), |_| {}).unwrap();
    post.send(&path, &ends).await.success(200);
    for elsewhere in [
        "https://sns.eu-west-1.amazonaws.com.evil.example/?x",
        "http://127.0.0.1:1/",
        "https://s3.amazonaws.com/",
        "https://sns.s3.amazonaws.com/?x",
        "https://sns.s3-us-west-2.amazonaws.com/?x",
        "https://sns.s3-accelerate.amazonaws.com/?x",
    ] {
        let change = |body: &mut Value| body["SubscribeURL"] = elsewhere.into();
        let asks = SNS.post("SubscriptionConfirmation", "x", post.now(), change).unwrap();
        post.send(&path, &asks).await.problem(401, "unauthorized", "SubscribeURL");
        assert!(ASKED.lock().unwrap().iter().all(|url| url != elsewhere));
    }
    // At Amazon, which does not answer: SNS tries again.
    let change = |body: &mut Value| {
        body["SubscribeURL"] = "https://sns.eu-west-1.amazonaws.com/?Action=Other".into();
    };
    let asks = SNS.post("SubscriptionConfirmation", "x", post.now(), change).unwrap();
    post.send(&path, &asks).await.problem(503, "unavailable", "");
    let between = MailEnvelope { from: FROM, to: &[TO] };
    let told = SNS.notification(&ses(&signed("topic"), between), post.now()).unwrap();
    post.send(&path, &told).await.success(200);
}
