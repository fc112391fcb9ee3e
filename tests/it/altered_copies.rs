//! A signature leaves fields open, and whoever has a copy of a signed message can send it first with
//! others in them. Such a copy is another message: the genuine one is never taken for a repeat of it
//! (contract §2, Repeats, threats C17).

use serde_json::{Value, json};

use crate::support::{TestGateway, letter, signer};

const FROM: &str = "alice@good.example";
const TO: [&str; 1] = ["support@agents.example"];

/// As many large providers sign.
const SIGNED: [&str; 6] = ["mime-version", "from", "date", "message-id", "subject", "to"];

const QUOTED: &str = "Content-Transfer-Encoding: quoted-printable\r\n";

fn genuine(subject: &str) -> String {
    let text = letter(subject).replacen("\r\n\r\n", &format!("\r\n{QUOTED}\r\n"), 1);
    let raw = signer().headers(SIGNED).sign(text.as_bytes()).unwrap();
    String::from_utf8(raw).unwrap()
}

/// Fields that a signature like this leaves open, each added.
const ADDED: [&str; 26] = [
    "Content-Disposition: attachment; filename=\"a.bin\"",
    "Content-ID: <a@good.example>",
    "Content-Language: tlh",
    "Content-Location: https://good.example/",
    "Content-Description: x",
    "Auto-Submitted: auto-replied",
    "Precedence: bulk",
    "List-Id: <a.good.example>",
    "List-Unsubscribe: <mailto:x@good.example>",
    "X-Auto-Response-Suppress: All",
    "In-Reply-To: <other@good.example>",
    "References: <other@good.example>",
    "Reply-To: x@evil.example",
    "Sender: x@evil.example",
    "Cc: x@evil.example",
    "Bcc: x@evil.example",
    "Resent-From: x@evil.example",
    "Disposition-Notification-To: x@evil.example",
    "Return-Path: <>",
    "X-Gatepost-Delivered: 0123456789abcdef0123456789abcdef",
    "X-Anything: x",
    "Received-Anything: x",
    "ARC-Anything: x",
    "Comments: x",
    "DKIM-Signature: x",
    "DKIM-Signature: v=1; a=rsa-sha256; d=mail.good.example; s=s1; h=from; bh=AAAA; b=AAAA",
];

/// Other changes that the signature does not show: to fields, their order, and the body as far as
/// its canonical form leaves room.
fn changed(genuine: &str) -> Vec<String> {
    let replaced = |old: &str, new: &str| {
        assert!(genuine.contains(old), "{old}");
        genuine.replacen(old, new, 1)
    };
    let plain = "Content-Type: text/plain; charset=utf-8\r\n";
    vec![
        replaced(QUOTED, ""),
        replaced(QUOTED, "Content-Transfer-Encoding: base64\r\n"),
        replaced(QUOTED, "Content-Transfer-Encoding:\r\n quoted-printable\r\n"),
        replaced(plain, "Content-Type: application/octet-stream\r\n"),
        replaced(plain, ""),
        replaced(&format!("{plain}{QUOTED}"), &format!("{QUOTED}{plain}")),
        replaced("Hello, this", "Hello,  this"),
        format!("{genuine}\r\n"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn an_altered_copy_never_makes_the_genuine_message_disappear() {
    let gateway = TestGateway::start().await;
    let changes = ADDED.len() + changed(&genuine("x")).len() + 1;
    for number in 0..changes {
        let genuine = genuine(&format!("number {number}"));
        // The last one is altered by its envelope alone, which makes a bounce of it.
        let (path, altered) = match ADDED.get(number) {
            Some(field) => (FROM, format!("{field}\r\n{genuine}")),
            None => match changed(&genuine).into_iter().nth(number - ADDED.len()) {
                Some(altered) => (FROM, altered),
                None => ("", genuine.clone()),
            },
        };
        for (path, raw) in [(path, &altered), (FROM, &genuine)] {
            let replies = gateway.send(path, &TO, raw.as_bytes()).await;
            let said = replies.settling();
            assert!(said.starts_with("250 2.0.0 accepted [record "), "{said}\n{altered}");
        }
    }
    let messages = gateway.messages().await;
    for number in 0..changes {
        let subject = json!(format!("number {number}"));
        let those = messages.iter().filter(|one| one["metadata"]["emailSubject"] == subject);
        let those: Vec<&Value> = those.collect();
        assert_eq!(those.len(), 2, "{subject}");
        // The newest first.
        let genuine = those[0];
        assert_eq!(genuine["message"], format!("Hello, this is number {number}."));
        assert_eq!(genuine["attachments"], json!([]), "{subject}");
        assert_eq!(genuine["metadata"]["emailAutomation"]["mayAutoReply"], true, "{subject}");
    }
    gateway.finish().await;
}

/// Fields that servers on the way add say nothing of the message.
#[tokio::test(flavor = "multi_thread")]
async fn traces_of_another_way_make_no_other_message() {
    let gateway = TestGateway::start().await;
    let genuine = genuine("traced");
    let replies = gateway.send(FROM, &TO, genuine.as_bytes()).await;
    assert!(replies.settling().starts_with("250 2.0.0 accepted [record "));
    for field in [
        "Received: from elsewhere.example\r\n by mx.example; Mon, 05 Jan 2026 10:00:01 +0000",
        "x-received: by 2002:a05:6402:1::1",
        "Return-Path: <alice@good.example>",
        "Delivered-To: support@agents.example",
        "Authentication-Results: mx.example; dkim=pass",
        "Received-SPF: pass",
        "ARC-Seal: i=1; a=rsa-sha256; t=1; cv=none; d=else.example; s=s; b=AAAA\r\n\
         ARC-Message-Signature: i=1; a=rsa-sha256; d=else.example; s=s; h=from; bh=AAAA; b=AAAA\r\n\
         ARC-Authentication-Results: i=1; mx.example; dkim=pass",
        "DKIM-Signature: v=1; a=rsa-sha256; d=else.example; s=s; h=from; bh=AAAA; b=AAAA",
        "DKIM-Signature: v=1; a=rsa-sha256; d=notgood.example; s=s; h=from; bh=AAAA; b=AAAA",
    ] {
        let raw = format!("{field}\r\n{genuine}");
        let replies = gateway.send(FROM, &TO, raw.as_bytes()).await;
        let said = replies.settling();
        assert!(said.starts_with("250 2.0.0 accepted before [record "), "{said}\n{field}");
        // The record of the repeat leads to the message.
        let record = said.split_once("[record ").unwrap().1.trim_end_matches(']');
        let record = gateway.get(&format!("/email/intake/{record}")).await;
        assert_eq!(record["intake"]["verdict"], "accepted");
        assert_eq!(record["intake"]["messageUuid"], gateway.messages().await[0]["uuid"]);
    }
    assert_eq!(gateway.messages().await.len(), 1);
    gateway.finish().await;
}

/// The recipient's tag is no part of a message: who sends one to two tags of an Agent, or has a copy
/// and sends it to another, makes no second one, and the tag of the first arrival stays.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_message_to_another_tag_is_a_repeat() {
    let gateway = TestGateway::start().await;
    let raw = genuine("tagged");
    for (to, said) in [
        ("support+first@agents.example", "250 2.0.0 accepted [record "),
        ("support+second@agents.example", "250 2.0.0 accepted before [record "),
        ("support@agents.example", "250 2.0.0 accepted before [record "),
    ] {
        let replies = gateway.send(FROM, &[to], raw.as_bytes()).await;
        assert!(replies.settling().starts_with(said), "{to}: {}", replies.settling());
    }
    let messages = gateway.messages().await;
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0]["metadata"]["emailTag"], "first");
    // The records have each as it was written.
    let records = gateway.get("/email/intake").await;
    let recipients: Vec<_> =
        records["intake"].as_array().unwrap().iter().map(|one| &one["recipient"]).collect();
    let written = ["support@", "support+second@", "support+first@"];
    assert_eq!(recipients, written.map(|to| json!(format!("{to}agents.example"))).each_ref());
    gateway.finish().await;
}

/// A blank breaks the signature that covers more fields. The copy proves less than the genuine
/// message, so it is another message.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_whose_better_signature_is_broken_is_another_message() {
    let gateway = TestGateway::start().await;
    let weak = signer().headers(["From", "Date"]).sign(letter("twice").as_bytes()).unwrap();
    let genuine = String::from_utf8(signer().headers(SIGNED).sign(&weak).unwrap()).unwrap();
    let broken = genuine.replacen("v=1;", "v= 1;", 1);
    assert_ne!(broken, genuine);
    for raw in [&broken, &genuine] {
        let replies = gateway.send(FROM, &TO, raw.as_bytes()).await;
        let said = replies.settling();
        assert!(said.starts_with("250 2.0.0 accepted [record "), "{said}\n{raw}");
    }
    let messages = gateway.messages().await;
    let open = |at: usize| &messages[at]["metadata"]["authentication"]["unsignedHeaders"];
    assert_eq!(messages.len(), 2);
    assert_ne!(open(0), open(1));
    gateway.finish().await;
}

/// A reply is that of all recipients: it says `before` only where nobody got anything new.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_new_to_one_recipient_is_accepted_as_new() {
    let gateway = TestGateway::start().await;
    let raw = genuine("for two");
    for (to, before) in [
        (["open@agents.example"].as_slice(), false),
        (&["open@agents.example", "open2@agents.example"], false),
        (&["open@agents.example", "open2@agents.example"], true),
    ] {
        let replies = gateway.send(FROM, to, raw.as_bytes()).await;
        let said = replies.settling();
        assert!(replies.accepted(), "{said}");
        assert_eq!(said.contains("accepted before"), before, "{said}");
    }
    assert_eq!(gateway.messages().await.len(), 2);
    gateway.finish().await;
}
