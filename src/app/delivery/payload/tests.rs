//! The contents of bodies in each mode, and how they are cut.

use serde_json::{Value, json};

use super::*;
use crate::domain::agent_outcome::Reply;
use crate::domain::evidence::finding::Finding;
use crate::domain::id::ReplyId;
use crate::domain::message::Attachment;
use crate::rules::Rules;
use crate::webhook::sample;

fn rules() -> PayloadRules {
    Rules::defaults().unwrap().webhooks.payload
}

fn read(name: EventName, subject: &Subject, max: usize) -> Value {
    let rules = PayloadRules { max_text_bytes: max, ..rules() };
    let body = body(&sample::event(name, 1), subject, Payload::Full, &rules, &sample::links());
    serde_json::from_slice(&body).unwrap()
}

fn message(text: &str) -> Subject {
    Subject::Message(Box::new(sample::message(text)))
}

#[test]
fn email_received_names_its_message_at_the_top() {
    let subject = Subject::Message(Box::new(sample::message("Hello")));
    let event = read(EventName::EmailReceived, &subject, 20_000);
    let message = sample::message("Hello");
    let mut record = MessageRecord::of(&message);
    record.add_links(&message, &sample::links());
    let expected = json!({
        "id": "00000000-0000-0000-0000-000000000001",
        "event": "email.received",
        "type": "email.received",
        "timestamp": "2024-06-15T14:56:35.123Z",
        "roomId": "41:7",
        "sessionKey": "41:7:00000000-0000-0000-0000-0000000000cc",
        "messageUuid": "00000000-0000-0000-0000-0000000000aa",
        "messageTimestamp": 1_718_463_395,
        "targetAccountId": 7,
        "from": "boss@good.example",
        "subject": "Hi",
        "data": {
            "roomId": "41:7",
            "message": serde_json::to_value(record).unwrap(),
        },
    });
    assert_eq!(event, expected);
}

#[test]
fn conversations_and_contacts_carry_their_noun() {
    let event = read(EventName::ConversationStarted, &message("Hello"), 20_000);
    assert_eq!(event["data"]["roomId"], "41:7");
    assert_eq!(event["data"]["message"]["message"], "Hello");
    let keys: Vec<_> = event.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["data", "event", "id", "sessionKey", "timestamp", "type"]);
    assert_eq!(event["sessionKey"], "41:7:00000000-0000-0000-0000-0000000000cc");
    let event = read(EventName::ContactCreated, &Subject::Contact(sample::contact()), 20_000);
    let expected = json!({
        "id": 41,
        "name": "The Boss",
        "email": "boss@good.example",
        "address": "boss@good.example",
        "source": "email",
        "organizationId": 3,
        "firstSeen": "1970-01-01T00:00:00.000Z",
        "lastSeen": "2024-06-15T14:56:35.123Z",
    });
    assert_eq!(event["data"], json!({ "contact": expected }));
}

#[test]
fn long_text_is_cut_on_a_character_everywhere() {
    let whole = "ü".repeat(60);
    let event = read(EventName::EmailReceived, &message(&whole), 120);
    assert_eq!(event["data"]["message"].get("truncated"), None);
    let event = read(EventName::EmailReceived, &message(&whole), 101);
    let record = &event["data"]["message"];
    let cut = "ü".repeat(50);
    assert_eq!(record["message"], cut);
    assert_eq!(record["chatDialog"][0]["content"], cut);
    assert_eq!(record["metadata"]["emailStrippedText"], cut);
    assert_eq!(record["truncated"], true);
    assert!(!event.to_string().contains(&"ü".repeat(51)));
}

#[test]
fn a_text_above_twenty_thousand_octets_is_cut_and_says_so() {
    let whole = show(Payload::Full, &rules(), &message(&"x".repeat(20_000)));
    assert_eq!((whole.get("truncated"), whole["data"]["message"].get("truncated")), (None, None));
    let cut = show(Payload::Full, &rules(), &message(&"x".repeat(20_001)));
    let record = &cut["data"]["message"];
    assert_eq!(record["message"].as_str().unwrap().len(), 20_000);
    assert_eq!((&cut["truncated"], &record["truncated"]), (&json!(true), &json!(true)));
    let url = "/api/v2/message/00000000-0000-0000-0000-0000000000aa?targetAccountId=7";
    assert_eq!(cut["url"], url);
}

#[test]
fn a_dialogue_that_is_left_out_is_null() {
    let call = || Subject::Message(Box::new(sample::received()));
    let dialogue =
        |max| read(EventName::ConversationUpdated, &call(), max)["data"]["message"].clone();
    assert_eq!(dialogue(17)["callDialog"].as_array().unwrap().len(), 2);
    let cut = dialogue(16);
    assert_eq!((&cut["callDialog"], &cut["truncated"]), (&Value::Null, &json!(true)));
}

/// A message of which these replies were recorded, and a summary.
fn answered(text: &str, replies: &[&str], summary: &str) -> Subject {
    let mut message = sample::message(text);
    let reply = |text: &&str| Reply {
        id: ReplyId(uuid::Uuid::nil()),
        at: sample::message("").at,
        text: (*text).to_owned(),
    };
    message.outcome.replies = replies.iter().map(reply).collect();
    message.outcome.summary = Some(summary.to_owned());
    Subject::Message(Box::new(message))
}

#[test]
fn a_cut_event_keeps_its_replies_and_the_newest_of_them_longest() {
    let turns = |event: &Value| event["data"]["message"]["chatDialog"].clone();
    let turn = |role: &str, text: &str| json!({ "role": role, "content": text });
    let subject = answered(&"x".repeat(101), &["first", &"y".repeat(101)], &"z".repeat(101));
    let event = read(EventName::ConversationUpdated, &subject, 100);
    let (x, y, z) = ("x".repeat(100), "y".repeat(100), "z".repeat(100));
    let said = json!([turn("user", &x), turn("assistant", "first"), turn("assistant", &y)]);
    assert_eq!(turns(&event), said);
    let record = &event["data"]["message"];
    assert_eq!((&record["summary"], &record["truncated"]), (&json!(z), &json!(true)));
    let short = answered("x", &["first"], "z");
    let event = read(EventName::ConversationUpdated, &short, 100);
    assert_eq!(event["data"]["message"].get("truncated"), None);

    let long = "\u{1}".repeat(10_000);
    let rules = PayloadRules { max_body_bytes: 250_000, ..rules() };
    let event = show(Payload::Full, &rules, &answered(&long, &[&long, "newest"], &long));
    assert_eq!(turns(&event), json!([turn("assistant", "newest")]));
    let rules = PayloadRules { max_body_bytes: 30_000, ..rules };
    let event = show(Payload::Full, &rules, &answered(&long, &[&long, "newest"], &long));
    assert_eq!(event["data"]["message"]["summary"].as_str().unwrap().len(), 1000);
}

#[test]
fn the_same_rows_give_the_same_bytes() {
    let event = sample::event(EventName::EmailReceived, 1);
    for payload in Payload::ALL {
        let once = || body(&event, &message("x"), *payload, &rules(), &sample::links());
        assert_eq!(once(), once());
    }
}

#[test]
fn an_erased_message_leaves_its_ids_and_no_content() {
    let event = read(EventName::EmailReceived, &Subject::Erased, 100);
    assert_eq!(event["messageUuid"], "00000000-0000-0000-0000-0000000000aa");
    assert_eq!(event["targetAccountId"], 7);
    assert_eq!((&event["from"], &event["sessionKey"]), (&Value::Null, &Value::Null));
    assert_eq!(event["data"]["erased"], true);
    assert_eq!(event["data"].get("message"), None);
}

fn show(payload: Payload, rules: &PayloadRules, subject: &Subject) -> Value {
    let event = sample::event(EventName::EmailReceived, 1);
    let text = body(&event, subject, payload, rules, &sample::links());
    assert!(text.len() <= rules.max_body_bytes, "{}", text.len());
    serde_json::from_slice(&text).unwrap()
}

fn with_attachment(text: &str) -> Subject {
    let mut message = sample::message(text);
    for (part, filename, listed) in [(1, "a.html", false), (2, "b.pdf", true)] {
        message.mailed_mut().mail.attachments.push(Attachment {
            part,
            content_type: "text/html".into(),
            filename: filename.into(),
            size: 5,
            listed,
        });
    }
    Subject::Message(Box::new(message))
}

#[test]
fn a_summary_has_no_text_but_its_beginning_and_no_content_beside_it() {
    let rules = PayloadRules { preview_bytes: 10, ..rules() };
    let mut subject = with_attachment("Top. Secret plans");
    if let Subject::Message(message) = &mut subject {
        message.mailed_mut().mail.findings = vec![Finding {
            kind: "hidden_text".into(),
            detail: "hides \"wire it\"".into(),
            field: "message".into(),
            start: Some(5),
            end: Some(9),
            charset: None,
        }];
    }
    let whole = show(Payload::Full, &rules, &subject).to_string();
    let event = show(Payload::Summary, &rules, &subject);
    let record = &event["data"]["message"];
    assert_eq!(record["message"], "Top. Secre");
    let remark = json!({ "kind": "hidden_text", "field": "message", "start": 5, "end": 9 });
    assert_eq!(record["metadata"]["findings"], json!([remark]));
    assert_eq!((&record["attachments"], &record["attachmentCount"]), (&json!([]), &json!(1)));
    assert_eq!(event["subject"], "Hi");
    let url = "/api/v2/message/00000000-0000-0000-0000-0000000000aa?targetAccountId=7";
    assert_eq!((&event["truncated"], &event["url"]), (&json!(true), &json!(url)));
    for hidden in ["plans", "b.pdf", "a.html", "wire it", "signature=", "signedUrlsExpire"] {
        assert!(whole.contains(hidden) && !event.to_string().contains(hidden), "{hidden}");
    }
    let short = show(Payload::Summary, &rules, &message("Short"));
    assert_eq!(short.get("truncated"), None);
    assert_eq!(short["data"]["message"]["message"], "Short");
}

#[test]
fn a_full_body_has_links_that_need_no_key_beside_those_that_do() {
    let event = show(Payload::Full, &rules(), &with_attachment("Hello"));
    let record = &event["data"]["message"];
    let metadata = &record["metadata"];
    let base = "/api/v2/media/00000000-0000-0000-0000-0000000000aa/";
    assert_eq!(record["attachments"][0]["content-url"], format!("{base}2-b.pdf"));
    for (link, path) in [
        (&record["attachments"][0]["signed-url"], format!("{base}2-b.pdf")),
        (&metadata["emailHtmlSignedUrl"], format!("{base}1-a.html")),
        (&metadata["emailRawSignedUrl"], metadata["emailRawUrl"].as_str().unwrap().to_owned()),
    ] {
        // A day later, rounded up to a whole minute.
        let said = link.as_str().unwrap().strip_prefix(&path).unwrap();
        let signature = said.strip_prefix("?expires=1718549820&signature=").unwrap();
        assert_eq!(signature.len(), 43, "{link}");
    }
    assert_eq!(metadata["signedUrlsExpire"], "2024-06-16T14:57:00.000Z");
    let plain = show(Payload::Full, &rules(), &message("Hello"));
    let metadata = &plain["data"]["message"]["metadata"];
    assert_eq!(
        (&metadata["emailHtml"], &metadata["emailHtmlSignedUrl"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn links_go_before_evidence_and_attachments() {
    let mut long = sample::message("Hello");
    for part in 2..102 {
        long.mailed_mut().mail.attachments.push(Attachment {
            part,
            content_type: "application/pdf".into(),
            filename: "b.pdf".into(),
            size: 5,
            listed: true,
        });
    }
    let subject = Subject::Message(Box::new(long));
    let whole = show(Payload::Full, &rules(), &subject).to_string();
    let rules = PayloadRules { max_body_bytes: whole.len() - 1000, ..rules() };
    let event = show(Payload::Full, &rules, &subject);
    let record = &event["data"]["message"];
    assert_eq!(record["attachments"].as_array().unwrap().len(), 100);
    assert_eq!(record["attachments"][99].get("signed-url"), None);
    assert!(record["attachments"][99]["content-url"].is_string());
    assert!(record["metadata"]["authentication"].is_object());
    assert!(record["metadata"]["emailRawSignedUrl"].is_string());
    assert_eq!((&record["truncated"], &event["truncated"]), (&json!(true), &json!(true)));
}

#[test]
fn a_thin_body_has_ids_and_nothing_that_needs_protecting() {
    let subject = with_attachment("Top. Secret plans");
    let event = show(Payload::Thin, &rules(), &subject);
    let uuid = "00000000-0000-0000-0000-0000000000aa";
    let expected = json!({
        "id": "00000000-0000-0000-0000-000000000001",
        "event": "email.received",
        "type": "email.received",
        "timestamp": "2024-06-15T14:56:35.123Z",
        "roomId": "41:7",
        "sessionKey": "41:7:00000000-0000-0000-0000-0000000000cc",
        "messageUuid": uuid,
        "messageTimestamp": 1_718_463_395,
        "targetAccountId": 7,
        "from": null,
        "subject": null,
        "data": { "accountId": 7, "roomId": "41:7", "messageUuid": uuid, "contactId": 41 },
    });
    assert_eq!(event, expected);
    let told = json!({ "member": { "id": 5, "email": "a@good.example" }, "redirectUrl": "x" });
    let event = sample::event(EventName::MemberInvited, 1);
    let event = Event { message: None, contact: None, ..event };
    let thin = body(&event, &Subject::Told(told), Payload::Thin, &rules(), &sample::links());
    let thin: Value = serde_json::from_slice(&thin).unwrap();
    assert_eq!(thin["data"], json!({ "accountId": 7, "memberId": 5 }));
}

#[test]
fn what_is_too_long_is_cut_step_by_step_and_says_where_the_whole_is() {
    // Each control character takes six bytes in JSON.
    let text = "\u{1}".repeat(20_000);
    let mut rules = rules();
    let mut left = usize::MAX;
    let steps = [
        (380_000, ""),
        (250_000, "the dialogue"),
        (130_000, "the stripped text"),
        (20_000, "most of the text"),
        (4096, "all but ids"),
    ];
    for (max, gone) in steps {
        rules.max_body_bytes = max;
        let event = show(Payload::Full, &rules, &message(&text));
        assert_eq!(event.get("truncated").is_some(), !gone.is_empty(), "{max}");
        assert_eq!(event.get("url").is_some(), !gone.is_empty(), "{max}");
        let length = event["data"]["message"]["message"].as_str().map_or(0, str::len);
        assert!(length <= left);
        left = length;
        assert_eq!(event["messageUuid"], "00000000-0000-0000-0000-0000000000aa");
    }
    assert_eq!(left, 0, "ids are left");
    // Nothing that a step can cut, and events without a message.
    let mut long = sample::message("x");
    long.mailed_mut().mail.subject = Some("s".repeat(300_000));
    rules.max_body_bytes = 262_144;
    let event = show(Payload::Full, &rules, &Subject::Message(Box::new(long)));
    assert_eq!((&event["subject"], &event["truncated"]), (&Value::Null, &json!(true)));
    let told = Subject::Told(json!({ "account": { "id": 7, "notes": "n".repeat(300_000) } }));
    let event = Event { message: None, ..sample::event(EventName::AccountCreated, 1) };
    let cut = body(&event, &told, Payload::Full, &rules, &sample::links());
    let cut: Value = serde_json::from_slice(&cut).unwrap();
    assert_eq!(cut["url"], "/api/v2/account?targetAccountId=7");
    assert_eq!(cut["data"]["accountId"], 7);
    for (name, url) in [
        (EventName::MemberInvited, json!("/api/v2/members?targetAccountId=7")),
        (EventName::WebhookDisabled, json!("/api/v2/webhooks?targetAccountId=7")),
        (EventName::AccountDeleted, Value::Null),
        (EventName::ContactCreated, Value::Null),
    ] {
        let event = Event { name, ..event.clone() };
        let cut: Value =
            serde_json::from_slice(&body(&event, &told, Payload::Full, &rules, &sample::links()))
                .unwrap();
        assert_eq!((&cut["url"], &cut["truncated"]), (&url, &json!(true)), "{name}");
    }
}
