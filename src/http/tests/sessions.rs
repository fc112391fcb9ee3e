//! The sessions of conversations over the wire, as a worker uses them.

use serde_json::{Value, json};

use crate::http::tests::{House, NOBODY};

fn keys(page: &Value) -> Vec<String> {
    let sessions = page["sessions"].as_array().unwrap();
    sessions.iter().map(|one| one["sessionKey"].as_str().unwrap().to_owned()).collect()
}

async fn reset(house: &House, caller: &str, key: &str) -> crate::http::tests::Reply {
    let body = json!({ "sessionKey": key, "reason": "asked for" });
    house.call(caller, "POST", "/computer/sessions/reset", Some(&body)).await
}

/// The session keys of the events that tell of messages, in their order.
async fn told(house: &House, caller: &str) -> Vec<(String, String)> {
    let events = house.get(caller, "/events?limit=100").await.success(200);
    let events = events["events"].as_array().unwrap().clone();
    let text = |value: &Value| value.as_str().unwrap_or("null").to_owned();
    let told = events.iter().filter(|event| event.get("sessionKey").is_some());
    told.map(|event| (text(&event["event"]), text(&event["sessionKey"]))).collect()
}

#[tokio::test]
async fn a_worker_finds_its_session_in_events_and_the_room_behind_it() {
    let house = House::new().await;
    let resolve = format!("/computer/accounts/{}/session/resolve", house.id("agent1"));
    let nothing = house.call("agent1", "POST", &resolve, None).await;
    nothing.problem(404, "not_found", "has received no message");
    let mail = house.receive("agent1", "From: a\r\n\r\nm1", 0).await;
    let key = mail.session.to_string();
    assert_eq!(key, format!("{}:{}", mail.room, mail.message), "it begins with its first message");
    for body in [None, Some(json!({})), Some(json!({ "sessionKey": key }))] {
        let found = house.call("agent1", "POST", &resolve, body.as_ref()).await.success(200);
        let room = mail.room.to_string();
        assert_eq!((&found["roomId"], &found["chatRef"]), (&json!(room), &json!(room)));
        let session = &found["session"];
        assert_eq!(session["sessionKey"], key.as_str());
        assert_eq!((&session["state"], &session["messages"]), (&json!("active"), &json!(1)));
        let read = house.get("agent1", &format!("/messages/{room}")).await;
        assert_eq!(read.texts(), ["m1"]);
    }
    // A session of another Agent, an unknown one, and a malformed key.
    let foreign = house.receive("agent2", "From: a\r\n\r\nx", 0).await.session.to_string();
    let unknown = format!("{}:{}", mail.room, uuid::Uuid::from_u128(7));
    let nobody = format!("{NOBODY}:{}:{}", house.id("agent1"), mail.message);
    for other in [foreign.clone(), unknown.clone(), nobody.clone()] {
        let body = json!({ "sessionKey": other });
        let reply = house.call("agent1", "POST", &resolve, Some(&body)).await;
        reply.problem(404, "not_found", "no such session");
        reset(&house, "agent1", &other).await.problem(404, "not_found", "no such session");
    }
    for odd in ["", "x", &mail.room.to_string(), &key.to_uppercase().replace(':', "::")] {
        let body = json!({ "sessionKey": odd });
        let reply = house.call("agent1", "POST", &resolve, Some(&body)).await;
        reply.problem(400, "invalid_request", "sessionKey must be");
        reset(&house, "agent1", odd).await.problem(400, "invalid_request", "sessionKey must be");
    }
    house.call("agent1", "POST", "/computer/sessions/reset", Some(&json!({}))).await.problem(
        400,
        "invalid_request",
        "sessionKey is missing",
    );
}

#[tokio::test]
async fn after_a_reset_the_next_message_comes_in_the_session_that_it_named() {
    let house = House::new().await;
    let first = house.receive("agent1", "From: a\r\n\r\nm1", 0).await;
    let key = first.session.to_string();
    assert_eq!(house.receive("agent1", "From: a\r\n\r\nm2", 0).await.session, first.session);
    let done = reset(&house, "org1", &key).await.success(200);
    let next = done["session"]["sessionKey"].as_str().unwrap().to_owned();
    assert_ne!(next, key);
    assert_eq!(
        (&done["session"]["messages"], &done["session"]["state"]),
        (&json!(0), &json!("active"))
    );
    let ended = &done["ended"];
    assert_eq!((&ended["sessionKey"], &ended["state"]), (&json!(key), &json!("ended")));
    assert_eq!((&ended["messages"], &ended["reason"]), (&json!(2), &json!("asked for")));
    // Repeating a reset changes nothing, nor does the reset of a session without a message.
    assert_eq!(reset(&house, "org1", &key).await.success(200)["ended"], *ended);
    let idle = reset(&house, "org1", &next).await.success(200);
    assert_eq!((&idle["ended"], &idle["session"]["sessionKey"]), (&Value::Null, &json!(next)));
    let third = house.receive("agent1", "From: a\r\n\r\nm3", 0).await;
    assert_eq!((third.session.to_string(), third.room), (next.clone(), first.room));
    // The old session still leads to the room.
    let resolve = format!("/computer/accounts/{}/session/resolve", house.id("agent1"));
    let body = json!({ "sessionKey": key });
    let found = house.call("agent1", "POST", &resolve, Some(&body)).await.success(200);
    assert_eq!(
        (&found["roomId"], &found["session"]["state"]),
        (&json!(first.room.to_string()), &json!("ended"))
    );
    // Every event about a message names the session in which it came.
    let told = told(&house, "agent1").await;
    let expected = [&key, &key, &key, &key, &next, &next];
    assert_eq!(told.iter().map(|(_, key)| key).collect::<Vec<_>>(), expected, "{told:?}");
    let of_room = format!("/computer/sessions?roomId={}", first.room);
    let page = house.get("agent1", &of_room).await;
    assert_eq!(keys(&page.success(200)), [next.clone(), key.clone()]);
    // `before` a session lists the older ones of its room.
    for (before, expected) in [(&next, vec![key.clone()]), (&key, vec![])] {
        let page = house.get("agent1", &format!("{of_room}&before={before}")).await;
        assert_eq!(keys(&page.success(200)), expected);
    }
    let other = house.receive("agent2", "From: a\r\n\r\nx", 0).await.session;
    let reply = house.get("org1", &format!("{of_room}&before={other}")).await;
    reply.problem(400, "invalid_request", "this list has no such session");
    let long = json!({ "sessionKey": third.session.to_string(), "reason": "x".repeat(501) });
    let reply = house.call("org1", "POST", "/computer/sessions/reset", Some(&long)).await;
    reply.problem(400, "invalid_request", "reason must have");
}

#[tokio::test]
async fn sessions_are_listed_to_whoever_may_read_their_rooms() {
    let house = House::new().await;
    let mut made = Vec::new();
    for agent in ["agent1", "agent2", "agent3", "agent4"] {
        made.push(house.receive(agent, "From: a\r\n\r\nx", 0).await.session.to_string());
    }
    let list = async |caller: &str, query: &str| {
        house.get(caller, &format!("/computer/sessions{query}")).await.success(200)
    };
    assert_eq!(keys(&list("partner", "").await), made.iter().rev().cloned().collect::<Vec<_>>());
    assert_eq!(keys(&list("org1", "").await), [made[1].clone(), made[0].clone()]);
    assert_eq!(keys(&list("agent3", "").await), [made[2].clone()]);
    let (mut query, mut read) = ("?limit=1".to_owned(), Vec::new());
    loop {
        let page = list("reseller1", &query).await;
        read.extend(keys(&page));
        let Some(next) = page["next"].as_str() else { break };
        query = format!("?limit=1&before={next}");
    }
    assert_eq!(read, [made[2].clone(), made[1].clone(), made[0].clone()]);
    // The key of a session works as a cursor, too.
    assert_eq!(keys(&list("reseller1", &format!("?before={}", made[2])).await), read[1..]);
    let unknown = format!("?before={}", made[3]);
    let unknown = house.get("reseller1", &format!("/computer/sessions{unknown}")).await;
    unknown.problem(400, "invalid_request", "this list has no such session");
    let room = made[3].rsplit_once(':').unwrap().0;
    let foreign = house.get("org1", &format!("/computer/sessions?roomId={room}")).await;
    foreign.problem(404, "not_found", "no such room");
    for (query, words) in [
        ("?roomId=1", "roomId must be"),
        ("?before=x", "/before must be a cursor or the key of a session"),
        ("?roomId=1:1&before=x", "/before must be a cursor or the key of a session"),
        ("?after=1-1:1", "\"after\" is not known here"),
        ("?limit=0", "limit must be"),
    ] {
        let reply = house.get("org1", &format!("/computer/sessions{query}")).await;
        reply.problem(400, "invalid_request", words);
    }
}
