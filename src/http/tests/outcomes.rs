//! Outcomes of messages (`POST /messages/{uuid}/outcome`), as readers see them.

use serde_json::{Value, json};

use crate::app::delivery::catalog::catalog;
use crate::http::tests::{House, Reply};
use crate::schema::Shapes;

fn answered() -> Value {
    json!({
        "reply": "Yes, it left on Monday.", "agentOutcome": "answered",
        "summary": "Asked where the parcel is.", "aiLeadRating": 70,
        "aiLeadRatingReason": "asked for a second offer",
    })
}

async fn post(house: &House, caller: &str, uuid: &str, body: &Value) -> Reply {
    house.call(caller, "POST", &format!("/messages/{uuid}/outcome"), Some(body)).await
}

#[tokio::test]
async fn what_an_agent_did_is_in_the_record() {
    let house = House::new().await;
    let mail = house.receive("agent1", "From: a\r\n\r\nWhere is it?", 0).await;
    let uuid = mail.message.to_string();
    let before = house.get("agent1", &format!("/message/{uuid}")).await.json();
    assert_eq!((&before["agentReplyCount"], &before["agentOutcome"]), (&json!(0), &Value::Null));
    let done = post(&house, "agent1", &uuid, &answered()).await.success(200);
    assert!(done["message"].as_str().unwrap().contains("nothing was sent"));
    let record = house.get("agent1", &format!("/message/{uuid}")).await.json();
    assert_eq!(done["record"], record);
    for (name, expected) in [
        ("agentOutcome", json!("answered")),
        ("summary", json!("Asked where the parcel is.")),
        ("aiLeadRating", json!(70)),
        ("aiLeadRatingReason", json!("asked for a second offer")),
        ("aiAgentOverride", Value::Null),
        ("agentReplyCount", json!(1)),
        ("direction", json!("inbound")),
        (
            "chatDialog",
            json!([
                { "role": "user", "content": "Where is it?" },
                { "role": "assistant", "content": "Yes, it left on Monday." },
            ]),
        ),
    ] {
        assert_eq!(record[name], expected, "{name}");
    }
}

#[tokio::test]
async fn a_reply_is_a_record_of_its_room() {
    let house = House::new().await;
    let mail = house.receive("agent1", "From: a\r\n\r\nWhere is it?", 0).await;
    let (uuid, room) = (mail.message.to_string(), mail.room.to_string());
    let done = post(&house, "agent1", &uuid, &answered()).await.success(200);
    let record = house.get("agent1", &format!("/message/{uuid}")).await.json();
    let entries = house.get("agent1", &format!("/messages/{room}")).await.json();
    let [reply, message] = entries.as_array().unwrap().as_slice() else { panic!("{entries}") };
    assert_eq!(*message, record);
    let keys = |one: &Value| -> Vec<String> { one.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(keys(reply), keys(message));
    for (name, expected) in [
        ("uuid", done["replyUuid"].clone()),
        ("direction", json!("outbound")),
        ("eventType", json!("outbound-email")),
        ("message", json!("Yes, it left on Monday.")),
        ("from", message["to"].clone()),
        ("fromUser", json!("agent1")),
        ("to", message["from"].clone()),
        ("toUser", message["fromUser"].clone()),
        ("roomId", json!(room)),
        ("agentOutcome", Value::Null),
        ("agentReplyCount", json!(0)),
    ] {
        assert_eq!(reply[name], expected, "{name}");
    }
    let thread = &message["metadata"]["threadId"];
    let answers = json!({ "threadId": thread, "replyToMessageUuid": uuid });
    assert_eq!(reply["metadata"], answers);
    // Page by page, it is there once, in both directions.
    let mut path = format!("/messages/{room}?limit=1");
    let mut seen = Vec::new();
    for _ in 0..2 {
        let page = house.get("agent1", &path).await;
        seen.push(page.json()[0]["uuid"].clone());
        let link = page.headers["link"].to_owned();
        let next = link.split(',').find(|one| one.contains("rel=\"next\""));
        let Some(next) = next else { break };
        let next = next.trim().trim_start_matches("</api/v2").split('>').next().unwrap();
        next.clone_into(&mut path);
    }
    assert_eq!(seen, [reply["uuid"].clone(), message["uuid"].clone()]);

    let alone = format!("/message/{}", reply["uuid"].as_str().unwrap());
    assert_eq!(house.get("org1", &alone).await.json(), *reply);
    house.get("agent2", &alone).await.problem(404, "not_found", "no such message");
    let newer = format!("/messages/{room}?after={uuid}");
    assert_eq!(house.get("agent1", &newer).await.json(), json!([reply]));
    let older = format!("/messages/{room}?before={}", reply["uuid"].as_str().unwrap());
    assert_eq!(house.get("agent1", &older).await.json(), json!([message]));
}

#[tokio::test]
async fn threads_show_who_said_what_and_lists_have_what_came_in() {
    let house = House::new().await;
    let mail = house.receive("agent1", "From: a\r\n\r\nWhere is it?", 0).await;
    let (uuid, room) = (mail.message.to_string(), mail.room.to_string());
    let done = post(&house, "agent1", &uuid, &answered()).await.success(200);
    let shown = house.get("agent1", &format!("/conversation/{room}/{uuid}")).await.success(200);
    let turns = |turns: &Value| -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let turns = turns.as_array().unwrap().iter();
        turns.map(|turn| (text(&turn["role"]), text(&turn["message"]))).collect()
    };
    let said = [("user", "Where is it?"), ("assistant", "Yes, it left on Monday.")];
    let said = said.map(|(role, text)| (role.to_owned(), text.to_owned()));
    assert_eq!(turns(&shown["conversation"]), said);
    let items = json!({ "items": [{ "roomId": room, "uuid": uuid }] });
    let batch = house.call("agent1", "POST", "/conversation/batch", Some(&items)).await;
    assert_eq!(turns(&batch.success(200)["results"][0]["conversation"]), said);
    let recent = house.get("org1", "/messages/recent").await.json();
    assert_eq!(recent, json!([done["record"]]));
}

#[tokio::test]
async fn an_outcome_is_told_as_conversation_updated() {
    let house = House::new().await;
    let mail = house.receive("agent1", "From: a\r\n\r\nHello", 0).await;
    post(&house, "agent1", &mail.message.to_string(), &answered()).await.success(200);
    let events = house.get("agent1", "/events?limit=100").await.success(200)["events"].clone();
    let told: Vec<&Value> = events
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["event"] == "conversation.updated")
        .collect();
    let [event] = told.as_slice() else { panic!("{told:?}") };
    let entry = catalog().into_iter().find(|one| one.name.as_str() == "conversation.updated");
    let entry = entry.unwrap();
    let schema = Shapes::of(&entry.schema).schema(&entry.schema["$defs"]["full"]);
    assert_eq!(schema.faults(event), Vec::<String>::new(), "{event}");
    let message = &event["data"]["message"];
    assert_eq!(message["uuid"], mail.message.to_string());
    assert_eq!(message["agentOutcome"], "answered");
    assert_eq!(event["sessionKey"], mail.session.to_string());
    // Once the message is erased, it has ids alone.
    let path = format!("/message/{}", mail.message);
    house.call("agent1", "DELETE", &path, None).await.success(200);
    let events = house.get("agent1", "/events?limit=100").await.success(200)["events"].clone();
    let last = events.as_array().unwrap().iter().find(|one| one["id"] == event["id"]).unwrap();
    assert_eq!(last["data"]["erased"], true);
    assert_eq!(last["data"]["messageUuid"], mail.message.to_string());
    assert!(!last.to_string().contains("answered"), "{last}");
}

#[tokio::test]
async fn another_outcome_is_a_conflict_unless_it_overrides() {
    let house = House::new().await;
    let mail = house.receive("agent1", "From: a\r\n\r\nHello", 0).await;
    let uuid = mail.message.to_string();
    post(&house, "agent1", &uuid, &answered()).await.success(200);
    let other = json!({ "agentOutcome": "escalated" });
    post(&house, "agent1", &uuid, &other).await.problem(409, "conflict", "has an outcome already");
    let other = json!({ "agentOutcome": "escalated", "override": "it called again" });
    let done = post(&house, "org1", &uuid, &other).await.success(200)["record"].clone();
    assert_eq!(done["agentOutcome"], "escalated");
    assert_eq!(done["aiAgentOverride"], "it called again");
    assert_eq!(done["summary"], "Asked where the parcel is.", "what is left out stays");
    assert_eq!(done["agentReplyCount"], 1);
    // These are no outcomes.
    for (body, words) in [
        (json!({}), "nothing to record"),
        (json!({ "override": "x" }), "nothing to record"),
        (json!({ "reply": " " }), "reply is empty"),
        (json!({ "summary": "" }), "summary is empty"),
        (json!({ "agentOutcome": "a\nb" }), "agentOutcome"),
        (json!({ "aiLeadRating": 101 }), "aiLeadRating"),
        (json!({ "aiLeadRating": 7.5 }), "aiLeadRating"),
        (json!({ "reply": "x".repeat(32_769) }), "reply"),
        (json!({ "outcome": "x" }), "outcome"),
    ] {
        post(&house, "agent1", &uuid, &body).await.problem(400, "invalid_request", words);
    }
    // Messages of others are not there.
    post(&house, "agent2", &uuid, &answered()).await.problem(404, "not_found", "no such message");
    let nobody = uuid::Uuid::nil().to_string();
    post(&house, "agent1", &nobody, &answered()).await.problem(404, "not_found", "no such message");
}

#[tokio::test]
async fn the_same_outcome_is_recorded_once() {
    let house = House::new().await;
    let mail = house.receive("agent1", "From: a\r\n\r\nHello", 0).await;
    let path = format!("/messages/{}/outcome", mail.message);
    let body = json!({ "reply": "Hi", "override": "always" }).to_string();
    let ask = || house.exact("agent1", ("POST", &path), "Idempotency-Key: k\r\n", Some(&body));
    let first = ask().await.success(200);
    assert_eq!(ask().await.success(200), first);
    assert_eq!(first["record"]["agentReplyCount"], 1);
    let entries = house.get("agent1", &format!("/messages/{}", mail.room)).await.json();
    assert_eq!(entries.as_array().unwrap().len(), 2);
}
