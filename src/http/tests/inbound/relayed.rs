//! The account's own application is asked before the message is examined (contract §6).

use serde_json::json;

use crate::app::relay::RelayChange;
use crate::domain::policy::Mode;
use crate::domain::relay::RelayType;
use crate::http::tests::inbound::{PROVIDERS, Post, TO, refused, signed, step};
use crate::testkit::receiver::{Receiver, Reply};

pub(super) async fn set(post: &Post, kind: RelayType, receiver: &Receiver) {
    let url = Some(receiver.url("/hook").parse().unwrap());
    let change = RelayChange { url, ..RelayChange::default() };
    let relays = &post.house.http.use_cases.relays;
    relays.set(post.house.id("org1"), kind, &change).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_application_passes_refuses_or_defers_what_a_provider_posts() {
    let post = Post::open().await;
    let receiver = Receiver::start(post.house.http.mint.clock().clone()).await.unwrap();
    for (number, kind) in PROVIDERS.into_iter().enumerate() {
        let path = post.usual(kind).await;
        set(&post, kind, &receiver).await;
        receiver.script([202, 406, 500].map(Reply::status));
        let before = receiver.received().len();

        let passed = post.post(kind, &signed(&format!("passed-{kind}")), &[TO]);
        post.send(&path, &passed).await.success(200);
        assert_eq!(step(&post.record().await, "provider")["inputs"]["relayed"], true);
        let got = &receiver.received()[before];
        assert_eq!(got.body, passed.body, "{kind}: the body unchanged");
        assert_eq!(got.headers["content-type"], passed.headers[0].1);
        assert!(!got.headers.contains_key("authorization"), "{kind}: ours alone");
        assert!(got.headers.contains_key("webhook-signature"));

        let posting = post.post(kind, &signed(&format!("refused-{kind}")), &[TO]);
        refused(kind, &post.send(&path, &posting).await, "406");
        assert_eq!(post.record().await["reason"], "relay_refused");

        let posting = post.post(kind, &signed(&format!("deferred-{kind}")), &[TO]);
        post.send(&path, &posting).await.problem(503, "unavailable", "500");
        assert_eq!(post.record().await["reason"], "relay_unavailable");
        assert_eq!(post.messages().await, 3 * number + 1, "nothing is there before it passed");
        // The provider's retry, when the application is back.
        post.send(&path, &posting).await.success(200);
        assert_eq!(post.messages().await, 3 * number + 2);
        assert_eq!(receiver.received().len(), before + 4);

        // The application is asked before the policy decides.
        post.house.tenancy.set_mode(post.house.id("agent1"), Mode::Allowlist).await.unwrap();
        let posting = post.post(kind, &signed(&format!("stranger-{kind}")), &[TO]);
        refused(kind, &post.send(&path, &posting).await, "");
        assert_eq!(receiver.received().len(), before + 5);
        post.house.tenancy.set_mode(post.house.id("agent1"), Mode::Open).await.unwrap();

        // No application is asked about forged mail or unknown recipients.
        let mut forged = post.post(kind, &signed("forged"), &[TO]);
        forged.headers.retain(|(name, _)| name.starts_with("content"));
        forged.body = String::from_utf8(forged.body).unwrap().replace("Signature", "S").into();
        forged.body =
            String::from_utf8(forged.body).unwrap().replace("\"signature\"", "\"s\"").into();
        // A post of SNS without its signature is malformed.
        let status = if kind == RelayType::Ses { 400 } else { 401 };
        assert_eq!(post.send(&path, &forged).await.status, status, "{kind}");
        let nobody = post.post(kind, &signed("nobody"), &["nobody@partner.example"]);
        refused(kind, &post.send(&path, &nobody).await, "");
        assert_eq!(receiver.received().len(), before + 5);

        // Removing the relay ends only the question to the application, at once.
        let relays = &post.house.http.use_cases.relays;
        relays.remove(post.house.id("org1"), kind).await.unwrap();
        post.send(&path, &post.post(kind, &signed(&format!("alone-{kind}")), &[TO]))
            .await
            .success(200);
        assert_eq!(receiver.received().len(), before + 5);
        assert_eq!(step(&post.record().await, "provider")["inputs"]["relayed"], json!(false));
        assert_eq!(post.messages().await, 3 * number + 3);
    }
}

/// Proves that a provider that missed the "yes" and retries gets it again: the stored message
/// cannot be refused any more.
#[tokio::test(flavor = "multi_thread")]
async fn what_passed_once_is_not_asked_about_again() {
    let post = Post::open().await;
    let receiver = Receiver::start(post.house.http.mint.clock().clone()).await.unwrap();
    let path = post.usual(RelayType::Postmark).await;
    set(&post, RelayType::Postmark, &receiver).await;
    receiver.script([202, 406, 406].map(Reply::status));
    let posting = post.post(RelayType::Postmark, &signed("slow"), &[TO]);
    post.send(&path, &posting).await.success(200);
    post.send(&path, &posting).await.success(200);
    assert_eq!((post.messages().await, receiver.received().len()), (1, 1));
    // The answer covers neither another recipient nor a changed relay.
    let other = post.post(RelayType::Postmark, &signed("slow"), &["agent2@partner.example"]);
    refused(RelayType::Postmark, &post.send(&path, &other).await, "406");
    let change = RelayChange {
        url: Some(receiver.url("/another").parse().unwrap()),
        ..RelayChange::default()
    };
    let relays = &post.house.http.use_cases.relays;
    relays.set(post.house.id("org1"), RelayType::Postmark, &change).await.unwrap();
    refused(RelayType::Postmark, &post.send(&path, &posting).await, "406");
    assert_eq!((post.messages().await, receiver.received().len()), (1, 3));
}

/// A relay for mail over SMTP does not decide on posts of providers.
#[tokio::test(flavor = "multi_thread")]
async fn the_hop_of_smtp_is_not_that_of_a_provider() {
    let post = Post::open().await;
    let receiver = Receiver::start(post.house.http.mint.clock().clone()).await.unwrap();
    receiver.otherwise(Reply::status(406));
    set(&post, RelayType::Smtp, &receiver).await;
    let path = post.usual(RelayType::Ses).await;
    post.send(&path, &post.post(RelayType::Ses, &signed("ses"), &[TO])).await.success(200);
    assert_eq!((post.messages().await, receiver.received().len()), (1, 0));
}
