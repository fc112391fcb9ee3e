//! Erased content is unreadable once the request is answered, and only its tombstone stays.

use serde_json::{Value, json};

use crate::domain::member::Role;
use crate::http::tests::House;

const MAIL: &str = "From: boss@good.example\r\nSubject: secret\r\n\r\nhello";

async fn uuids(house: &House, caller: &str) -> Vec<String> {
    let messages = house.get(caller, "/messages/recent").await.json();
    let uuid = |message: &Value| message["uuid"].as_str().unwrap().to_owned();
    messages.as_array().unwrap().iter().map(uuid).collect()
}

async fn delete(house: &House, caller: &str, path: &str) -> crate::http::tests::Reply {
    house.call(caller, "DELETE", path, None).await
}

#[tokio::test]
async fn a_message_is_gone_at_once_and_its_record_tells_nothing_of_it() {
    let mut house = House::new().await;
    house.join("few", "org1", Role::Member, &["agent1"]).await;
    let (first, second) =
        (house.receive("agent1", MAIL, 0).await, house.receive("agent1", MAIL, 0).await);
    let path = format!("/messages/{}", first.message);
    for stranger in ["agent2", "org2", "reseller2"] {
        delete(&house, stranger, &path).await.problem(404, "not_found", "message");
    }
    delete(&house, "few", &path).await.problem(403, "forbidden", "restricted to some Agents");
    let own = format!("{path}?targetAccountId={}", house.id("agent1"));
    delete(&house, "few", &own).await.success(200);
    delete(&house, "agent1", &path).await.problem(404, "not_found", "message");
    house.get("agent1", &format!("{path}/raw")).await.problem(404, "not_found", "message");
    assert_eq!(uuids(&house, "partner").await, [second.message.to_string()]);

    let path = format!("/email/intake/{}", first.intake);
    let record = house.get("agent1", &path).await.success(200)["intake"].clone();
    assert_eq!(record["messageUuid"], first.message.to_string());
    assert_eq!((&record["verdict"], &record["sender"]), (&json!("accepted"), &Value::Null));
    assert_eq!((&record["headers"], &record["steps"]), (&json!(""), &json!([])));
    assert!(!record.to_string().contains("good.example"), "{record}");
    let path = format!("/email/intake/{}", second.intake);
    let other = house.get("agent1", &path).await.success(200)["intake"].clone();
    assert_eq!(other["sender"], "boss@good.example");
    // Later readers learn that it is erased.
    let events = house.get("agent1", "/events").await.success(200)["events"].clone();
    let of_first = |event: &&Value| event["messageUuid"] == first.message.to_string();
    let event = events.as_array().unwrap().iter().find(of_first).unwrap();
    assert_eq!(event["data"]["erased"], true);
}

#[tokio::test]
async fn a_contact_goes_with_all_that_is_theirs_and_may_come_again() {
    let mut house = House::new().await;
    house.join("few", "org1", Role::Admin, &["agent1"]).await;
    for agent in ["agent1", "agent2", "agent3"] {
        house.receive(agent, MAIL, 0).await;
    }
    let contact = house.get("agent1", "/messages/recent").await.json()[0]["from"].clone();
    let path = format!("/contacts/{contact}");
    for stranger in ["org2", "reseller2"] {
        delete(&house, stranger, &path).await.problem(404, "not_found", "contact");
    }
    delete(&house, "agent1", &path).await.problem(403, "forbidden", "needs a key of");
    delete(&house, "few", &path).await.problem(403, "forbidden", "restricted to some Agents");
    delete(&house, "org1", "/contacts/x").await.problem(400, "invalid_request", "/id must be");
    let erased = delete(&house, "org1", &path).await.success(200);
    assert_eq!(erased["erased"], json!({ "contactId": contact, "complete": true }));
    delete(&house, "org1", &path).await.problem(404, "not_found", "contact");
    assert!(uuids(&house, "org1").await.is_empty());
    assert_eq!(uuids(&house, "org2").await.len(), 1, "another organization's contact");
    let intake = house.get("org1", "/email/intake").await.success(200).to_string();
    assert!(!intake.contains("good.example"), "{intake}");
    // If the sender writes again, it is a new contact.
    house.receive("agent1", MAIL, 0).await;
    let again = house.get("agent1", "/messages/recent").await.json()[0].clone();
    assert_ne!(again["from"], contact);
}

#[tokio::test]
async fn what_a_deleted_agent_had_is_unreadable_at_once_and_gone_soon() {
    let house = House::new().await;
    let mail = house.receive("agent1", MAIL, 0).await;
    let gone = json!({ "targetAccountId": house.id("agent1").get() });
    house.call("org1", "DELETE", "/deleteAccount", Some(&gone)).await.success(201);
    assert!(uuids(&house, "partner").await.is_empty());
    let raw = format!("/messages/{}/raw", mail.message);
    house.get("partner", &raw).await.problem(404, "not_found", "message");
    while house.http.use_cases.erasures.round().await.unwrap() {}
    let left = house.store.erasures(0, 9).await.unwrap();
    assert_eq!(left, Vec::<i64>::new());
}
