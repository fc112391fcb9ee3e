//! Messages that an account's own platform hands in (`POST /agent/receiveMessage`): they have the
//! record, the events and the trace of mail, but no proof.

use serde_json::{Value, json};

use crate::app::delivery::catalog::catalog;
use crate::http::tests::{House, NOBODY, Reply};
use crate::schema::Shapes;

/// A text with all fields that it may have.
fn text() -> Value {
    json!({
        "targetAgent": "agent1",
        "sourceAddress": "+1 (555) 123-1234",
        "message": "Hello",
        "attachments": [{ "type": "image", "url": "https://example.com/image.png" }],
        "context": { "threadId": "abc123" },
        "metadata": { "key": "value" },
        "outboundMessageWebhookUrl": "https://hooks.example/hook",
        "name": "Anna",
        "toNumber": "+15559876543",
        "targetInbox": "junk",
    })
}

fn with(body: &Value, name: &str, value: Value) -> Value {
    let mut body = body.clone();
    body[name] = value;
    body
}

async fn post(house: &House, caller: &str, body: &Value) -> Reply {
    house.call(caller, "POST", "/agent/receiveMessage", Some(body)).await
}

#[tokio::test]
async fn a_text_leaves_what_mail_leaves_but_no_proof() {
    let house = House::new().await;
    let mail = house.receive("agent1", "From: a\r\n\r\nhello", 0).await;
    let answer = post(&house, "org1", &text()).await.success(200);
    let (uuid, room) = (&answer["messageUuid"], &answer["roomId"]);

    let messages = house.get("partner", "/messages/recent").await.json();
    let of_mail = &messages[1];
    assert_eq!(of_mail["uuid"], mail.message.to_string());
    let record = &messages[0];
    let keys =
        |record: &Value| -> Vec<String> { record.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(keys(record), keys(of_mail));
    for (name, expected) in [
        ("uuid", uuid.clone()),
        ("roomId", room.clone()),
        ("fromUser", json!("Anna")),
        ("toUser", json!("agent1")),
        ("message", json!("Hello")),
        ("source", json!("sms")),
        ("type", json!("sms")),
        ("eventType", json!("inbound-sms")),
        ("targetInbox", json!("junk")),
        ("fromNumber", json!("+15551231234")),
        ("toNumber", json!("+15559876543")),
        ("chatDialog", json!([{ "role": "user", "content": "Hello" }])),
        ("callDialog", Value::Null),
        ("missedCall", json!(false)),
    ] {
        assert_eq!(record[name], expected, "{name}");
    }
    assert_eq!(
        record["attachments"],
        json!([{
            "content-type": "application/octet-stream", "filename": "image.png",
            "content-url": "https://example.com/image.png", "attachmentType": "image",
        }])
    );
    let metadata = &record["metadata"];
    assert_eq!(metadata["key"], "value");
    assert_eq!(metadata["receivedContext"], json!({ "threadId": "abc123" }));
    assert_eq!(metadata["receivedThreadId"], "abc123");
    assert_eq!(metadata["receivedOutboundMessageWebhookUrl"], "https://hooks.example/hook");
    assert_ne!(record["from"], of_mail["from"]);

    // The original is what was posted, without the names of targets.
    let raw = metadata["receivedRawUrl"].as_str().unwrap().strip_prefix("/api/v2").unwrap();
    let raw = house.get("agent1", raw).await;
    assert_eq!(raw.headers["content-type"], "application/json");
    let mut expected = text();
    expected.as_object_mut().unwrap().remove("targetAgent");
    assert_eq!(raw.json(), expected);

    let records = house.get("agent1", "/email/intake").await.success(200)["intake"].clone();
    let record = &records[0];
    assert_eq!((&record["source"], &record["verdict"]), (&json!("sms"), &json!("accepted")));
    assert_eq!(
        (&record["sender"], &record["recipient"]),
        (&json!("sms:+15551231234"), &json!("agent1"))
    );
    assert_eq!((&record["messageUuid"], &records[1]["source"]), (uuid, &json!("email")));
    let id = record["id"].as_str().unwrap();
    let whole = house.get("agent1", &format!("/email/intake/{id}")).await.success(200);
    let steps = whole["intake"]["steps"].as_array().unwrap();
    let inputs = json!({ "accountId": house.id("org1").get(), "source": "sms" });
    assert_eq!((steps.len(), &steps[0]["inputs"]), (1, &inputs));
    let found = house.get("agent1", "/email/intake?sender=sms:%2B15551231234").await.success(200);
    assert_eq!(found["intake"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn its_events_are_as_the_catalogue_says() {
    let house = House::new().await;
    let again = with(&text(), "name", json!("Anna B"));
    for body in [text(), text(), again] {
        post(&house, "agent1", &body).await.success(200);
    }
    let events = house.get("agent1", "/events?limit=200").await.success(200)["events"].clone();
    let mut names = Vec::new();
    for event in events.as_array().unwrap() {
        let name = event["event"].as_str().unwrap();
        let entry = catalog().into_iter().find(|entry| entry.name.as_str() == name).unwrap();
        let schema = Shapes::of(&entry.schema).schema(&entry.schema["$defs"]["full"]);
        assert_eq!(schema.faults(event), Vec::<String>::new(), "{event}");
        if name == "message.received" {
            assert_eq!(event["from"], "+15551231234");
            assert_eq!(event["messageUuid"], event["data"]["message"]["uuid"]);
            assert!(event.get("subject").is_none());
        }
        if name.starts_with("contact.") {
            let contact = &event["data"]["contact"];
            assert_eq!((&contact["email"], &contact["source"]), (&Value::Null, &json!("sms")));
        }
        names.push(name.to_owned());
    }
    names.retain(|name| !name.starts_with("account."));
    assert_eq!(
        names,
        [
            "contact.created",
            "conversation.started",
            "message.received",
            "conversation.updated",
            "message.received",
            "contact.updated",
            "conversation.updated",
            "message.received",
        ]
    );
}

#[tokio::test]
async fn a_call_has_the_fields_of_calls() {
    let house = House::new().await;
    let turns = json!([{ "role": "assistant", "content": "Hi" }]);
    let call = json!({
        "targetAgent": house.id("agent1").get(), "sourceAddress": "+15551231234", "message": "",
        "source": "call", "duration": 9, "missedCall": true, "callDialog": turns,
        "voicemailRecording": "https://example.com/r.mp3", "diversion": "+1 555 000 1111",
        "summary": "Wants a call.", "agentOutcome": "voicemail", "cnamSpam": true,
    });
    post(&house, "partner", &call).await.success(200);
    let record = house.get("agent1", "/messages/recent").await.json()[0].clone();
    for name in [
        "duration",
        "missedCall",
        "callDialog",
        "voicemailRecording",
        "summary",
        "agentOutcome",
        "cnamSpam",
    ] {
        assert_eq!(record[name], call[name], "{name}");
    }
    assert_eq!(
        (&record["diversion"], &record["chatDialog"]),
        (&json!("+15550001111"), &Value::Null)
    );
    // A text from the same number is from another contact, in another room.
    post(&house, "agent1", &text()).await.success(200);
    let messages = house.get("agent1", "/messages/recent").await.json();
    assert_ne!(messages[0]["roomId"], messages[1]["roomId"]);
}

/// The agent's turns of a call stand in its dialog, and its log and metrics count them.
#[tokio::test]
async fn replies_to_a_call_stand_in_its_dialog_and_are_counted() {
    let house = House::new().await;
    let call = |seconds: u32, missed: bool, turns: Value| {
        json!({
            "targetAgent": "agent1", "sourceAddress": "+15551231234", "message": "", "source": "call",
            "duration": seconds, "missedCall": missed, "callDialog": turns,
        })
    };
    let caller = json!({ "role": "user", "content": "Where is it?" });
    let taken = post(&house, "agent1", &call(60, false, json!([caller]))).await.success(200);
    post(&house, "agent1", &call(0, true, json!([]))).await.success(200);
    let path = format!("/messages/{}/outcome", taken["messageUuid"].as_str().unwrap());
    for reply in ["It left on Monday.", "You are welcome."] {
        let outcome = json!({ "reply": reply, "agentOutcome": "answered", "override": "went on" });
        house.call("agent1", "POST", &path, Some(&outcome)).await.success(200);
    }
    let records = house.get("agent1", "/messages/recent").await.json();
    let said = |text: &str| json!({ "role": "assistant", "content": text });
    let dialog = json!([caller, said("It left on Monday."), said("You are welcome.")]);
    assert_eq!(records[1]["callDialog"], dialog);
    assert_eq!(
        (&records[1]["agentReplyCount"], &records[1]["chatDialog"]),
        (&json!(2), &Value::Null)
    );
    assert_eq!(
        (&records[0]["agentReplyCount"], &records[0]["callDialog"]),
        (&json!(0), &json!([]))
    );
    let metric = async |name: &str| {
        let asked = json!({ "metric": name, "start": "2026-11-17", "end": "2026-11-19T00:00:00Z" });
        let found = house.call("agent1", "POST", "/logs/timeSeries", Some(&asked)).await;
        found.success(200)["value"].clone()
    };
    for (name, value) in [("replies", 2.0), ("callDuration", 30.0), ("missedCalls", 1.0)] {
        assert_eq!(metric(name).await.as_f64(), Some(value), "{name}");
    }
    let grouped = json!({
        "metric": "replies", "groupBy": "agentOutcome", "start": "2026-11-17", "end": "2026-11-19T00:00:00Z",
    });
    let found = house.call("agent1", "POST", "/logs/timeSeries", Some(&grouped)).await.success(200);
    let groups = found["groups"].as_array().unwrap().iter();
    let answered = groups.clone().find(|group| group["key"] == "answered").unwrap();
    assert_eq!(answered["value"].as_f64(), Some(2.0), "{found}");
}

#[tokio::test]
async fn a_text_takes_the_rest_of_the_record() {
    let house = House::new().await;
    let mut body = text();
    let rest = json!({
        "summary": "Asked for an offer.", "agentOutcome": "qualified", "duration": 61,
        "missedCall": true, "isLive": true, "aiAgent": false, "notify": false,
        "bypassAgent": true, "selfCall": true, "callingUserIsContact": false, "campaign": true,
        "forcedCampaign": true, "aiLeadRating": 80, "aiLeadRatingReason": "named a budget",
    });
    let rest = rest.as_object().unwrap();
    body.as_object_mut().unwrap().extend(rest.clone());
    let uuid = post(&house, "agent1", &body).await.success(200)["messageUuid"].clone();
    let record = house.get("agent1", "/messages/recent").await.json()[0].clone();
    for (name, expected) in rest {
        assert_eq!(record[name], *expected, "{name}");
    }
    // The log filters by it and metrics count it.
    let fields = "uuid,agentOutcome,aiLeadRating,agentReplyCount,duration,missedCall";
    let path = format!("/logs?fields={fields}&agentOutcome=qualified");
    let rows = house.get("agent1", &path).await.success(200)["logs"].clone();
    let expected = json!([{
        "uuid": uuid, "agentOutcome": "qualified", "aiLeadRating": 80, "agentReplyCount": 0,
        "duration": 61, "missedCall": 1,
    }]);
    assert_eq!(rows, expected);
    // It has an outcome, which another one has to override.
    let path = format!("/messages/{}/outcome", uuid.as_str().unwrap());
    let other = json!({ "agentOutcome": "lost" });
    let reply = house.call("agent1", "POST", &path, Some(&other)).await;
    reply.problem(409, "conflict", "send override");
}

#[tokio::test]
async fn a_number_is_an_e164_number_or_refused_with_what_to_send() {
    let house = House::new().await;
    for (address, source) in
        [("5551231234", "sms"), ("(555) 123-1234", "call"), ("0049 89 123456", "call")]
    {
        let body = with(&text(), "sourceAddress", json!(address));
        for body in [with(&body, "source", json!(source)), body] {
            let refused = post(&house, "agent1", &body).await;
            refused.problem(400, "invalid_request", "send it in E.164, such as +15551231234");
        }
    }
    let body = with(&text(), "sourceAddress", json!("100200300400"));
    let refused = post(&house, "agent1", &body).await;
    refused.problem(400, "invalid_request", "if it is an id of a chat, send source chat");
    let body = with(&with(&text(), "sourceAddress", json!("+1555x")), "source", json!("sms"));
    let refused = post(&house, "agent1", &body).await;
    refused.problem(400, "invalid_request", "is not an E.164 telephone number");
    for diversion in ["5551231234", "+1555x"] {
        let call = with(&text(), "source", json!("call"));
        let refused = post(&house, "agent1", &with(&call, "diversion", json!(diversion))).await;
        refused.problem(400, "invalid_request", "diversion");
    }
    // Short codes and names are none; and a chat may know its people by numbers.
    for (address, source) in [("12345", "sms"), ("ACME", "sms"), ("100200300400", "chat")] {
        let body = with(&with(&text(), "sourceAddress", json!(address)), "source", json!(source));
        post(&house, "agent1", &body).await.success(200);
    }
}

/// A mail address that a platform names is only a name: nothing makes it a proven sender.
#[tokio::test]
async fn what_is_handed_in_is_never_taken_for_mail() {
    let house = House::new().await;
    house.receive("agent1", "From: a\r\n\r\nhello", 0).await;
    let body = with(&text(), "sourceAddress", json!("boss@good.example"));
    let room = post(&house, "agent1", &body).await.success(200)["roomId"].clone();
    let messages = house.get("agent1", "/messages/recent").await.json();
    assert_eq!((&messages[0]["source"], &messages[0]["roomId"]), (&json!("chat"), &room));
    assert_ne!(messages[1]["roomId"], room);
    post(&house, "agent1", &with(&body, "source", json!("email"))).await.problem(
        400,
        "invalid_request",
        "its signature is verified",
    );
    for name in ["authentication", "findings", "emailFrom", "emailSubject", "receivedSize"] {
        let body = with(&text(), "metadata", json!({ name: "x" }));
        post(&house, "agent1", &body).await.problem(400, "invalid_request", name);
    }
}

#[tokio::test]
async fn an_attachment_needs_no_type_and_may_say_more() {
    let house = House::new().await;
    let link = json!({ "url": "https://example.com/a.png", "name": "A", "size": 4 });
    post(&house, "org1", &with(&text(), "attachments", json!([link]))).await.success(200);
    let record = house.get("agent1", "/messages/recent").await.json()[0].clone();
    let shown = &record["attachments"][0];
    assert_eq!((&shown["attachmentType"], &shown["content-url"]), (&json!("file"), &link["url"]));
    let raw = record["metadata"]["receivedRawUrl"].as_str().unwrap().strip_prefix("/api/v2");
    let raw = house.get("agent1", raw.unwrap()).await.json();
    assert_eq!(raw["attachments"], json!([link]), "the original has it all");
}

#[tokio::test]
async fn what_is_not_in_order_is_refused_and_leaves_nothing() {
    let house = House::with(
        "[received]\nmax_text_bytes = 1024\nmax_object_bytes = 40\n\
                             max_attachments = 1\nmax_dialog_turns = 1\n",
    )
    .await;
    let link = json!({ "type": "image", "url": "https://example.com/a" });
    let turn = json!({ "role": "user", "content": "x" });
    for (field, value, detail) in [
        ("sourceAddress", json!(""), "sourceAddress is empty"),
        ("sourceAddress", json!("a\u{202e}b"), "invisible characters"),
        ("sourceAddress", json!("x".repeat(257)), "256"),
        ("source", json!("fax"), "must be sms, chat or call"),
        ("targetInbox", json!("spam"), "must be one of: inbox, junk"),
        ("message", json!(""), ""),
        ("message", json!("x".repeat(1025)), "1024"),
        ("message", json!(7), "a string"),
        ("context", json!([]), "an object"),
        ("metadata", json!({ "key": "x".repeat(40) }), "40 bytes"),
        ("attachments", json!([link, link]), "at most 1"),
        ("attachments", json!([{ "type": "image" }]), "/attachments/0/url is missing"),
        ("attachments", json!([{ "type": 7, "url": "https://example.com/" }]), "must be a string"),
        ("attachments", json!(["https://example.com/"]), "must be an object"),
        ("attachments", json!([{ "type": "x", "url": "http://example.com/" }]), "https"),
        ("attachments", json!([{ "type": "x", "url": "https://a:b@example.com/" }]), "https"),
        ("attachments", json!([{ "type": "x", "url": "javascript:alert(1)" }]), "https"),
        (
            "outboundMessageWebhookUrl",
            json!("https://169.254.169.254/x"),
            "outboundMessageWebhookUrl",
        ),
        ("diversion", json!("+15550001111"), "for calls"),
        ("duration", json!(-9), "duration"),
        ("duration", json!(604_801), "duration must be a whole number from 0 to 604800"),
        ("aiLeadRating", json!(101), "aiLeadRating"),
        ("isLive", json!("yes"), "isLive"),
        ("toNumber", json!("5551234567"), "toNumber is a telephone number without +"),
        ("toNumber", json!("+0"), "toNumber is not an E.164 telephone number"),
        ("callDialog", json!([turn]), "for calls"),
        ("chatDialog", json!([turn, turn]), "at most 1"),
        ("chatDialog", json!([{ "role": "user" }]), "/chatDialog/0/content is missing"),
        ("from", json!("x"), "not known"),
        ("targetAgent", json!([]), "targetAgent"),
        ("targetAgent", json!(house.id("org1").get()), "must be the id of an Agent"),
    ] {
        let mut body = with(&text(), "metadata", json!({}));
        body["context"] = json!({});
        if field == "message" {
            body["attachments"] = json!([]);
        }
        let reply = post(&house, "org1", &with(&body, field, value)).await;
        reply.problem(400, "invalid_request", detail);
    }
    assert_eq!(house.get("partner", "/messages/recent").await.json(), json!([]));
    assert_eq!(house.get("partner", "/email/intake").await.success(200)["intake"], json!([]));
}

#[tokio::test]
async fn the_agent_is_named_by_id_or_username_within_reach() {
    let house = House::new().await;
    let to = |agent: Value| with(&text(), "targetAgent", agent);
    for (caller, agent) in [
        ("org1", json!("agent4")),
        ("org1", json!("nobody")),
        ("org1", json!(house.id("agent4").get())),
        ("org1", json!(house.id("agent4").get().to_string())),
        ("org1", json!(NOBODY)),
        ("agent1", json!("agent2")),
        ("agent1", json!(house.id("agent2").get())),
    ] {
        let reply = post(&house, caller, &to(agent.clone())).await;
        reply.problem(403, "forbidden", "does not reach");
    }
    for agent in [
        json!("agent1"),
        json!(house.id("agent1").get()),
        json!(house.id("agent1").get().to_string()),
    ] {
        for caller in ["agent1", "org1", "reseller1", "partner"] {
            post(&house, caller, &to(agent.clone())).await.success(200);
        }
    }
    // Another Agent has this name, so the request must name the id.
    let new = json!({ "accountName": "agent1" });
    house.call("org1", "POST", "/createAccount", Some(&new)).await.success(201);
    post(&house, "org1", &to(json!("agent1"))).await.problem(409, "conflict", "send the id");
    post(&house, "agent1", &to(json!("agent1"))).await.success(200);

    let off = json!({ "active": false, "targetAccountId": house.id("agent1").get() });
    house.call("org1", "POST", "/updateAccount", Some(&off)).await.success(200);
    let id = json!(house.id("agent1").get());
    post(&house, "org1", &to(id)).await.problem(409, "conflict", "not active");
    assert_eq!(house.get("partner", "/messages/recent").await.json().as_array().unwrap().len(), 13);
}

#[tokio::test]
async fn an_idempotency_key_makes_it_once() {
    let house = House::new().await;
    let (key, body) = ("Idempotency-Key: one\r\n", text().to_string());
    let path = ("POST", "/agent/receiveMessage");
    let first = house.exact("agent1", path, key, Some(&body)).await;
    let second = house.exact("agent1", path, key, Some(&body)).await;
    assert_eq!(first.success(200), second.success(200));
    assert_eq!(second.headers["idempotency-replayed"], "true");
    let other = with(&text(), "message", json!("Other")).to_string();
    house.exact("agent1", path, key, Some(&other)).await.problem(
        409,
        "conflict",
        "another request",
    );
    assert_eq!(house.get("agent1", "/messages/recent").await.json().as_array().unwrap().len(), 1);
    // Without an Idempotency-Key a repeated text is another message: people repeat themselves.
    post(&house, "agent1", &text()).await.success(200);
    assert_eq!(house.get("agent1", "/messages/recent").await.json().as_array().unwrap().len(), 2);
}
