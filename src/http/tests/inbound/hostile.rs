//! Forged or misdirected posts (threats H7, E8, E12).

use std::time::Duration;

use crate::app::relay::RelayChange;
use crate::app::relay::providers::Certificate;
use crate::domain::relay::RelayType;
use crate::http::tests::inbound::{
    FROM, MAILGUN_KEY, PROVIDERS, Post, SENDGRID, SNS, TO, of_mailgun, refused, signed,
};
use crate::http::tests::secrecy::Log;
use crate::testkit::provider::{
    MailEnvelope, MailgunProof, Posting, SendgridKey, Sns, mailgun, mailgun_signature, postmark,
    sendgrid, ses,
};

/// All paths that open nothing get one answer.
#[tokio::test]
async fn what_opens_nothing_is_not_there_and_no_key_is_told() {
    let post = Post::open().await;
    let log = Log::default();
    let listening = log.listen();
    let mut answers = Vec::new();
    for kind in PROVIDERS {
        let path = post.usual(kind).await;
        let bare = path.strip_suffix("/mime").unwrap_or(&path);
        let key = bare.rsplit('/').next().unwrap().to_owned();
        let other = if kind == RelayType::Ses { "mailgun" } else { "ses" };
        let posting = post.post(kind, &signed("x"), &[TO]);
        for wrong in [
            format!("/inbound/{kind}/{}x", &key[..key.len() - 1]),
            format!("/inbound/{kind}/gpi_{}", "A".repeat(43)),
            format!("/inbound/{kind}/x"),
            format!("/inbound/{other}/{key}"),
            format!("/inbound/smtp/{key}"),
            format!("/inbound/fax/{key}"),
            format!("/inbound/{kind}/{}", "x".repeat(5000)),
        ] {
            let reply = post.send(&wrong, &posting).await;
            reply.problem(404, "not_found", "there is nothing at this path");
            answers.push((reply.json()["detail"].clone(), reply.json()["title"].clone()));
        }
        post.house.send("GET", &path, None).await.problem(405, "method_not_allowed", "Allow");
        let reply = post.send(&path, &posting).await;
        reply.success(200);
        assert!(!format!("{:?}{}", reply.headers, reply.text()).contains(&key));
        // A rotated key opens nothing from then on.
        let change = RelayChange { rotate_key: true, ..RelayChange::default() };
        let relays = &post.house.http.use_cases.relays;
        relays.set(post.house.id("org1"), kind, &change).await.unwrap();
        post.send(&path, &posting).await.problem(404, "not_found", "nothing at this path");
    }
    drop(listening);
    let nowhere = post.house.send("POST", "/inbound", Some(("text/plain", ""))).await.json();
    answers.push((nowhere["detail"].clone(), nowhere["title"].clone()));
    answers.dedup();
    assert_eq!(answers.len(), 1);
    let log = log.text();
    assert!(!log.contains("gpi_"), "{log}");
    assert!(log.contains("http.route=\"/inbound/{type}/{inboundKey}\""), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_mailgun_did_not_sign_is_nobodys() {
    let post = Post::open().await;
    let (now, raw) = (post.now(), signed("forged"));
    let hours = |hours: u64| Duration::from_secs(hours * 3600);

    let path = post.usual(RelayType::Mailgun).await;
    let seconds = now.seconds().to_string();
    let by = |key: &[u8], token: &str| mailgun_signature(key, &seconds, token);
    let (right, other) = (by(MAILGUN_KEY.as_bytes(), "a"), by(b"another", "a"));
    for (timestamp, token, signature) in [
        (&*seconds, "a", &*other),
        (&seconds, "b", &right),
        ("1", "a", &right),
        (&seconds, "a", ""),
        (&seconds, "a", &right[..63]),
        (&seconds, "a", &right.replace(|_: char| true, "é")),
    ] {
        let proof = MailgunProof { timestamp, token, signature };
        let posting = Posting::multipart(&mailgun(proof, &raw, FROM, TO));
        post.send(&path, &posting).await.problem(401, "unauthorized", "signing key");
    }
    let bare = Posting::multipart(&[("body-mime", &raw[..]), ("recipient", TO.as_bytes())]);
    post.send(&path, &bare).await.problem(401, "unauthorized", "signing key");
    let old = of_mailgun(&raw, TO, now.minus(hours(13)), "c");
    post.send(&path, &old).await.problem(401, "unauthorized", "too old");
    // A valid signature from the future: our clock may be behind, so the mail is deferred.
    let ahead = of_mailgun(&raw, TO, now.plus(hours(1)), "d");
    post.send(&path, &ahead).await.problem(503, "unavailable", "Retry-After");
    // A signature that was used proves no other message.
    post.send(&path, &of_mailgun(&raw, TO, now, "once")).await.success(200);
    let stolen = of_mailgun(&signed("stolen"), TO, now, "once");
    post.send(&path, &stolen).await.problem(401, "unauthorized", "was already used");
    post.send(&path, &of_mailgun(&raw, TO, now, "once")).await.success(200);
    assert_eq!(post.messages().await, 1);
    // The account's administrator sees the failure, counted.
    let list = post.house.get("org1", "/email/intake?reason=malformed").await.success(200);
    let told = list["intake"][0]["explanation"].as_str().unwrap();
    assert!(told.contains("signing key"), "{list}");
    assert_eq!(list["intake"].as_array().unwrap().len(), 1, "{list}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_sendgrid_did_not_sign_is_nobodys() {
    let post = Post::open().await;
    let (now, raw) = (post.now(), signed("forged"));
    let hours = |hours: u64| Duration::from_secs(hours * 3600);
    let mail = || sendgrid(&raw, MailEnvelope { from: FROM, to: &[TO] });

    let path = post.usual(RelayType::Sendgrid).await;
    let signature = SENDGRID.sign(mail(), now).unwrap();
    let mut changed = signature.clone();
    *changed.body.last_mut().unwrap() = b' ';
    let by_another = SendgridKey::generate().unwrap().sign(mail(), now).unwrap();
    for wrong in [mail(), changed, by_another] {
        post.send(&path, &wrong).await.problem(401, "unauthorized", "public key");
    }
    let old = SENDGRID.sign(mail(), now.minus(hours(97))).unwrap();
    post.send(&path, &old).await.problem(401, "unauthorized", "too old");
    post.send(&path, &signature).await.success(200);
    let given = std::iter::once(("publicKey".to_owned(), Some("AAAA".to_owned()))).collect();
    let change = RelayChange { verification: Some(given), ..RelayChange::default() };
    let relays = &post.house.http.use_cases.relays;
    let set = relays.set(post.house.id("org1"), RelayType::Sendgrid, &change).await;
    assert!(set.unwrap_err().to_string().contains("not a SendGrid key"));
    assert_eq!(post.messages().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_posted_without_the_login_is_nobodys() {
    let post = Post::open().await;
    let raw = signed("forged");

    let path = post.usual(RelayType::Postmark).await;
    let text = String::from_utf8(raw.clone()).unwrap();
    for login in ["Basic dTpx", "Basic !", "Bearer dTpw", "dTpw"] {
        let wrong = postmark(&text, FROM, TO).with("Authorization", login);
        post.send(&path, &wrong).await.problem(401, "unauthorized", "USER:PASSWORD");
    }
    let without = postmark(&text, FROM, TO);
    post.send(&path, &without).await.problem(401, "unauthorized", "USER:PASSWORD");
    assert_eq!(post.messages().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_sns_did_not_sign_is_nobodys() {
    let post = Post::open().await;
    let (now, raw) = (post.now(), signed("forged"));
    let hours = |hours: u64| Duration::from_secs(hours * 3600);
    let between = MailEnvelope { from: FROM, to: &[TO] };

    let path = post.usual(RelayType::Ses).await;
    let message = ses(&raw, between);
    let change = |name: &'static str, value: &'static str| {
        let change = |body: &mut serde_json::Value| body[name] = value.into();
        SNS.post("Notification", &message, now, change).unwrap()
    };
    let mut altered = SNS.notification(&message, now).unwrap();
    let body = String::from_utf8(altered.body).unwrap();
    altered.body = body.replace("165545c9", "265545c9").into_bytes();
    post.send(&path, &altered).await.problem(401, "unauthorized", "not from Amazon");
    let other = change("TopicArn", "arn:aws:sns:eu-west-1:666:mail");
    post.send(&path, &other).await.problem(401, "unauthorized", "another topic");
    let old = SNS.notification(&message, now.minus(hours(97))).unwrap();
    post.send(&path, &old).await.problem(401, "unauthorized", "too old");
    for url in [
        "https://sns.eu-west-1.amazonaws.com.evil.example/SimpleNotificationService-00.pem",
        "https://evil.example/SimpleNotificationService-00.pem",
        "http://sns.eu-west-1.amazonaws.com/SimpleNotificationService-00.pem",
        "https://sns.eu-west-1.amazonaws.com:444/SimpleNotificationService-00.pem",
        "https://u@sns.eu-west-1.amazonaws.com/SimpleNotificationService-00.pem",
        "https://sns.eu-west-1.amazonaws.com/../evil.pem",
        "https://sns.a.b.amazonaws.com/SimpleNotificationService-00.pem",
        "https://bucket.s3.amazonaws.com/SimpleNotificationService-00.pem",
        "https://sns.s3.amazonaws.com/SimpleNotificationService-00.pem",
        "https://sns.s3-us-west-2.amazonaws.com/SimpleNotificationService-00.pem",
        "https://sns.s3-accelerate.amazonaws.com/SimpleNotificationService-00.pem",
        "https://127.0.0.1/SimpleNotificationService-00.pem",
    ] {
        let reply = post.send(&path, &change("SigningCertURL", url)).await;
        reply.problem(401, "unauthorized", "SigningCertURL");
        assert!(
            crate::http::tests::inbound::ASKED.lock().unwrap().iter().all(|asked| asked != url),
            "{url}"
        );
    }
    let absent = "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-ff.pem";
    post.send(&path, &change("SigningCertURL", absent)).await.problem(503, "unavailable", "");
    // A host on the way answers with a page instead of the certificate.
    let page = "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-ff.pem";
    post.send(&path, &change("SigningCertURL", page)).await.problem(503, "unavailable", "");
    let stranger = Sns::new(&crate::http::tests::inbound::pem(), "sns.evil.example").unwrap();
    assert!(
        Certificate::from_pem(stranger.certificate().as_bytes(), "sns.eu-west-1.amazonaws.com")
            .is_err()
    );
    assert_eq!(post.messages().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_modes_are_refused_with_what_to_switch_on() {
    let post = Post::open().await;
    let (now, raw) = (post.now(), signed("mode"));
    let between = MailEnvelope { from: FROM, to: &[TO] };
    let seconds = now.seconds().to_string();
    let signature = mailgun_signature(MAILGUN_KEY.as_bytes(), &seconds, "t");
    let proof = MailgunProof { timestamp: &seconds, token: "t", signature: &signature };
    let mut parsed = mailgun(proof, b"Hello", FROM, TO);
    parsed.last_mut().unwrap().0 = "body-plain";
    let taken_apart = Posting::multipart(&[
        ("headers", b"From: a@b.example\n".as_slice()),
        ("envelope", br#"{"to":["agent1@partner.example"],"from":"a@b.example"}"#),
        ("text", b"Hello"),
    ]);
    let text = String::from_utf8(raw.clone()).unwrap();
    let body = String::from_utf8(postmark(&text, FROM, TO).body).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&body).unwrap();
    json.as_object_mut().unwrap().remove("RawEmail");
    let login = postmark("", FROM, TO).with("Authorization", "Basic dTpw");
    let without = Posting { body: json.to_string().into_bytes(), ..login };
    let mut in_s3: serde_json::Value = serde_json::from_str(&ses(&raw, between)).unwrap();
    in_s3.as_object_mut().unwrap().remove("content");
    let by_sha1 = |body: &mut serde_json::Value| body["SignatureVersion"] = "1".into();
    let by_sha1 = SNS.post("Notification", &ses(&raw, between), now, by_sha1).unwrap();
    let in_s3 = SNS.notification(&in_s3.to_string(), now).unwrap();
    let delivery = SNS.notification("{}", now).unwrap().with("x-amz-sns-rawdelivery", "true");
    let of = |kind, posting, words| (kind, posting, words);
    for (kind, posting, words) in [
        of(RelayType::Mailgun, Posting::urlencoded(&parsed), "/mime"),
        of(RelayType::Sendgrid, SENDGRID.sign(taken_apart, now).unwrap(), "raw, full MIME"),
        of(RelayType::Postmark, without, "Include raw email content"),
        of(RelayType::Ses, in_s3, "SNS action"),
        of(RelayType::Ses, by_sha1, "SignatureVersion of the topic to 2"),
        of(RelayType::Ses, delivery, "raw message delivery"),
    ] {
        let path = post.usual(kind).await;
        refused(kind, &post.send(&path, &posting).await, words);
        // Counted, like a refusal at RCPT: the first one of a minute says why.
        let list = post.house.get("org1", "/email/intake?reason=malformed").await.success(200);
        let records = list["intake"].as_array().unwrap();
        assert_eq!(records.len(), 1, "{list}");
        assert!(records[0]["explanation"].as_str().unwrap().contains("/mime"), "{list}");
    }
    assert_eq!(post.messages().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_said_so_and_sizes_are_bounded() {
    let limits = "[limits]\nmax_body_bytes = 4096\nmax_drained_bytes = 0\n";
    let post = Post::with(limits).await;
    for kind in PROVIDERS {
        let path = post.usual(kind).await;
        // Mailgun posts forms; what SendGrid's signature does not cover is not read.
        let other = match kind {
            RelayType::Mailgun => [400, 406, 406],
            RelayType::Sendgrid => [401; 3],
            _ => [400; 3],
        };
        let bodies = [
            ("multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data"),
            ("application/json", "{\"RawEmail\": 7}"),
            ("text/plain", ""),
        ];
        for ((content_type, body), expected) in bodies.into_iter().zip(other) {
            let mut posting = post.post(kind, &signed("x"), &[TO]);
            posting.headers[0].1 = content_type.to_owned();
            posting.body = body.as_bytes().to_vec();
            let status = post.send(&path, &posting).await.status;
            assert_eq!(status, expected, "{kind}: {content_type}");
        }
        let packed = post.post(kind, &signed("x"), &[TO]).with("Content-Encoding", "gzip");
        post.send(&path, &packed).await.problem(415, "unsupported_media_type", "");
        // A coding has one meaning in any case; this message fails for another reason.
        let plain = post.post(kind, &signed("x"), &[TO]).with("Content-Encoding", "Identity");
        assert_ne!(post.send(&path, &plain).await.status, 415, "{kind}");
        let most = post.house.http.use_cases.inbound.max_request_bytes() + 1;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nExpect: 100-continue\r\n\
             Content-Length: {most}\r\n\r\n"
        );
        post.house.exchange(head.as_bytes()).await.problem(413, "payload_too_large", "bytes");
    }
    // Large, but within the limit: it takes a place for large bodies.
    let path = post.usual(RelayType::Mailgun).await;
    let long = signed(&"long ".repeat(10)).len();
    assert!(long < 4096);
    let raw = [signed("long"), vec![b'x'; 5000], b"\r\n".to_vec()].concat();
    let reply = post.send(&path, &of_mailgun(&raw, TO, post.now(), "long")).await;
    refused(RelayType::Mailgun, &reply, "");
    assert_eq!(post.record().await["reason"], "dkim_failed");
}

/// Proves that one organization's mail never makes another's wait.
#[tokio::test(flavor = "multi_thread")]
async fn no_organization_takes_the_places_of_another() {
    let post = Post::with("[limits]\nmax_body_bytes = 4096\n").await;
    let one = post.usual(RelayType::Postmark).await;
    let two = post.way_of("org2", RelayType::Postmark, &[]).await;
    let org1 = post.house.store.account(post.house.id("org1")).await.unwrap().unwrap();
    let places = &post.house.http.places;
    let mut held = Vec::new();
    while let Ok(place) = places.any(&org1) {
        held.push(place);
    }
    assert_eq!(held.len(), post.house.http.use_cases.inbound.rules().requests.max_at_once / 4);
    let large = places.large(&org1).await.unwrap();
    let to = ["agent3@partner.example"];
    let mail = |raw: &[u8], to: &[&str]| post.post(RelayType::Postmark, raw, to);
    let reply = post.send(&one, &mail(&signed("waits"), &[TO])).await;
    reply.problem(503, "unavailable", "Retry-After");
    // Nor for bodies that are late.
    while let Ok(place) = places.body(&org1) {
        held.push(place);
    }
    post.send(&two, &mail(&signed("small"), &to)).await.success(200);
    let raw = [signed("large"), vec![b'x'; 5000], b"\r\n".to_vec()].concat();
    refused(RelayType::Postmark, &post.send(&two, &mail(&raw, &to)).await, "");
    drop((held, large));
    post.send(&one, &mail(&signed("waits"), &[TO])).await.success(200);
    assert_eq!(post.messages().await, 2);
}

/// After a 4xx some providers drop the message, so an exceeded rate gets 503.
#[tokio::test(flavor = "multi_thread")]
async fn a_rate_puts_off_and_drops_nothing() {
    let rates = "[rates]\nwrites_per_minute = 2\nkeyless_per_minute = 3\n";
    let post = Post::with(rates).await;
    let path = post.usual(RelayType::Ses).await;
    let posting = post.post(RelayType::Ses, &signed("rate"), &[TO]);
    for _ in 0..2 {
        post.send(&path, &posting).await.success(200);
    }
    let reply = post.send(&path, &posting).await;
    reply.problem(503, "unavailable", "Retry-After");
    assert!(reply.headers.contains_key("retry-after"));
    for _ in 0..3 {
        let wrong = format!("/inbound/ses/gpi_{}", "B".repeat(43));
        post.send(&wrong, &posting).await.problem(404, "not_found", "");
    }
    let wrong = format!("/inbound/ses/gpi_{}", "C".repeat(43));
    post.send(&wrong, &posting).await.problem(503, "unavailable", "valid key");
}
