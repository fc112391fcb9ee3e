//! Rooms, their messages and threads, many conversations at once, and contacts.

use serde_json::{Value, json};

use crate::http::tests::{House, Reply};

fn list<'a>(body: &'a Value, name: &str) -> Vec<&'a Value> {
    body[name].as_array().unwrap().iter().collect()
}

async fn batch(house: &House, caller: &str, body: Value) -> Reply {
    house.call(caller, "POST", "/conversation/batch", Some(&body)).await
}

#[tokio::test]
async fn a_room_shows_its_own_messages_only() {
    let house = House::new().await;
    let first = house.receive("agent1", "From: a\r\n\r\nm1", 0).await;
    let other = house.receive("agent2", "From: a\r\n\r\nfor another", 0).await;
    for number in 2..=4 {
        house.receive("agent1", &format!("From: a\r\n\r\nm{number}"), 0).await;
    }
    let path = format!("/messages/{}", first.room);
    assert_eq!(house.get("agent1", &path).await.texts(), ["m4", "m3", "m2", "m1"]);
    assert_eq!(house.get("partner", &path).await.texts(), ["m4", "m3", "m2", "m1"]);
    let page = house.get("org1", &format!("{path}?limit=3")).await;
    assert_eq!(page.texts(), ["m4", "m3", "m2"]);
    let next = page.headers["link"].split_once('>').unwrap().0.to_owned();
    let next = next.strip_prefix("</api/v2").unwrap();
    assert_eq!(house.get("org1", next).await.texts(), ["m1"]);
    let record = &page.json()[0];
    assert_eq!(record["roomId"], first.room.to_string());
    // Each message is a thread of its own here: none names another.
    let thread = record["metadata"]["threadId"].as_str().unwrap();
    assert_eq!(thread, record["uuid"].as_str().unwrap());
    assert_eq!(house.get("org1", &format!("{path}?thread={thread}")).await.texts(), ["m4"]);
    let elsewhere = format!("/messages/{}?thread={thread}", other.room);
    assert_eq!(house.get("org1", &elsewhere).await.texts().len(), 0);
    // The contact is shared by both Agents, in different rooms.
    assert_eq!((first.room.contact, first.room.agent), (other.room.contact, house.id("agent1")));
    house.get("agent2", &path).await.problem(404, "not_found", "no such room");
    house.get("agent1", "/messages/1:1").await.problem(404, "not_found", "no such room");
    for wrong in ["1", "1:", "x:1", "01:1", "1:1:1", "0:1"] {
        let reply = house.get("agent1", &format!("/messages/{wrong}")).await;
        reply.problem(400, "invalid_request", "roomId");
    }
    let wrong = house.get("agent1", &format!("{path}?thread=x")).await;
    wrong.problem(400, "invalid_request", "thread");
}

#[tokio::test]
async fn a_message_is_read_by_its_uuid_beside_rooms_and_neither_is_taken_for_the_other() {
    let house = House::new().await;
    let mail = house.receive("agent1", "From: a\r\n\r\nm1", 0).await;
    let [message, room] = [mail.message.to_string(), mail.room.to_string()];
    let one = house.get("org1", &format!("/messages/{message}")).await.json();
    assert_eq!((one["uuid"].as_str(), one["roomId"].as_str()), (Some(&*message), Some(&*room)));
    assert_eq!(house.get("org1", &format!("/message/{message}")).await.json(), one);
    assert_eq!(house.get("org1", &format!("/messages/{room}")).await.json(), json!([one]));
    // Each path takes the parameters of what it leads to, and names what is not there.
    let limited = house.get("org1", &format!("/messages/{message}?limit=1")).await;
    limited.problem(400, "invalid_request", "limit");
    for caller in ["agent2", "org2"] {
        let reply = house.get(caller, &format!("/messages/{message}")).await;
        reply.problem(404, "not_found", "no such message");
    }
    let other = house.get("org1", &format!("/messages/{}", message.replace('-', ""))).await;
    other.problem(400, "invalid_request", "roomId");
    let path = format!("/message/{message}");
    house.call("agent1", "DELETE", &path, None).await.success(200);
    house.get("org1", &path).await.problem(404, "not_found", "no such message");
}

#[tokio::test]
async fn conversations_are_listed_as_v2_lists_them() {
    let house = House::new().await;
    let one = house.receive("agent1", "From: a\r\n\r\nfirst", 0).await;
    let two = house.receive("agent2", "From: a\r\n\r\n  second\r\nline  ", 0).await;
    house.receive("agent1", "From: a\r\n\r\nlater", 0).await;
    house.receive("agent4", "From: a\r\n\r\nforeign", 0).await;
    let shown = house.get("org1", "/conversations?pagination=true").await.json();
    assert_eq!((&shown["pageSize"], &shown["pageNumber"]), (&json!(20), &json!(0)));
    assert_eq!((&shown["totalRooms"], &shown["next"]), (&json!(2), &Value::Null));
    let rooms = list(&shown, "rooms");
    assert_eq!(rooms[0]["roomId"], one.room.to_string());
    let room = rooms[1].as_object().unwrap();
    for (name, expected) in [
        ("roomId", json!(two.room.to_string())),
        ("id", json!(two.room.contact.get())),
        ("agentId", json!(house.id("agent2").get())),
        ("name", json!("The Boss")),
        ("address", json!("boss@good.example")),
        ("source", json!("email")),
        ("image", Value::Null),
        ("servicePhoneNumber", Value::Null),
        ("unregistered", json!(false)),
        ("unregisteredDisplayName", Value::Null),
        ("destinationInboxType", json!("inbox")),
        ("lastMessage", json!("second line")),
        ("lastMessageUuid", json!(two.message.to_string())),
        ("chatAgentCampaignId", Value::Null),
        ("messages", json!(1)),
        ("unread", json!(1)),
    ] {
        assert_eq!(room[name], expected, "{name}");
    }
    assert!(room["lastMessageTimestamp"].as_i64().unwrap() > 1_700_000_000);
    assert_eq!((&rooms[0]["messages"], &rooms[0]["unread"]), (&json!(2), &json!(2)));
    let page = house.get("org1", "/conversations?page=1&pageSize=1").await.json();
    assert_eq!((&page["totalRooms"], &page["rooms"][0]), (&json!(2), rooms[1]));
    let first = house.get("org1", "/conversations?pageSize=1").await;
    let next = first.json()["next"].as_str().unwrap().to_owned();
    for before in [next, one.room.to_string()] {
        let rest = house.get("org1", &format!("/conversations?before={before}")).await.json();
        assert_eq!(list(&rest, "rooms"), [rooms[1]]);
    }
    let linked = house.get("org1", &first.link("next").unwrap()).await.json();
    assert_eq!(list(&linked, "rooms"), [rooms[1]]);
    let foreign = house.get("agent2", &format!("/conversations?before={}", one.room)).await;
    foreign.problem(400, "invalid_request", "/before is refused: this list has no such room");
    let junk = house.get("org1", "/junkConversations").await.json();
    assert_eq!((&junk["totalRooms"], list(&junk, "rooms").len()), (&json!(0), 0));
    for (query, words) in [
        ("pagination=false", "page by page"),
        ("pagination=1", "page by page"),
        ("pageSize=0", "1 to 200"),
        ("page=500", "0 to 499: for later rooms"),
        ("page=-1", "whole number"),
        ("unread=yes", "true or false"),
        ("before=x", "/before must be a room"),
    ] {
        let reply = house.get("org1", &format!("/conversations?{query}")).await;
        reply.problem(400, "invalid_request", words);
    }
}

#[tokio::test]
async fn a_batch_answers_each_item_and_marks_what_was_read() {
    let house = House::new().await;
    let one = house.receive("agent1", "From: a\r\n\r\nm1", 0).await;
    let newer = house.receive("agent1", "From: a\r\n\r\nm2", 0).await;
    let two = house.receive("agent2", "From: a\r\n\r\nm3", 0).await;
    let foreign = house.receive("agent4", "From: a\r\n\r\nforeign", 0).await;
    let item = |room: &dyn ToString, uuid: &dyn ToString| json!({ "roomId": room.to_string(), "uuid": uuid.to_string() });
    let items = [
        item(&one.room, &one.message),
        // A message of another room, and one out of reach, are answered alike.
        item(&one.room, &two.message),
        item(&foreign.room, &foreign.message),
        item(&"1:x", &one.message),
        item(&two.room, &two.message),
    ];
    let unread = async || {
        let rooms = house.get("org1", "/conversations?unread=true").await.json();
        list(&rooms, "rooms").iter().map(|room| room["unread"].clone()).collect::<Vec<_>>()
    };
    let asked = batch(&house, "org1", json!({ "items": items })).await.success(200);
    assert_eq!(asked["stats"], json!({ "requested": 5, "ok": 2, "failed": 3 }));
    let results = list(&asked, "results");
    let ok: Vec<_> = results.iter().map(|one| one["success"].as_bool().unwrap()).collect();
    assert_eq!(ok, [true, false, false, false, true]);
    for (result, item) in results.iter().zip(&items) {
        assert_eq!((&result["roomId"], &result["uuid"]), (&item["roomId"], &item["uuid"]));
    }
    assert_eq!(results[1]["message"], results[2]["message"]);
    assert_eq!(
        (&results[1]["conversation"], &results[3]["conversation"]),
        (&json!([]), &json!([]))
    );
    let turn = &results[0]["conversation"][0];
    assert_eq!((&turn["message"], &turn["role"]), (&json!("m1"), &json!("user")));
    assert_eq!(turn["uuid"], one.message.to_string());
    assert!(turn["timestamp"].is_i64() && turn["date"].is_string());
    // Nothing is marked without `markRead`; with it, up to the named message, and never back.
    assert_eq!(unread().await, [json!(1), json!(2)]);
    batch(&house, "org1", json!({ "items": items, "markRead": true })).await.success(200);
    assert_eq!(unread().await, [json!(1)]);
    let latest = json!({ "items": [item(&newer.room, &newer.message)], "markRead": true });
    batch(&house, "agent1", latest).await.success(200);
    batch(&house, "org1", json!({ "items": items, "markRead": true })).await.success(200);
    assert_eq!(unread().await, Vec::<Value>::new());
    let many: Vec<Value> = (0..201).map(|_| items[0].clone()).collect();
    for (body, words) in [
        (json!({ "items": many }), "1 to 200"),
        (json!({ "items": [] }), "1 to 200"),
        (json!({ "items": {} }), "an array"),
        (json!({ "items": [{ "roomId": "1:1" }] }), "/items/0/uuid is missing"),
        (json!({ "items": [{ "roomId": "1:1", "uuid": "x", "agentId": 1 }] }), "\"agentId\""),
        (json!({ "items": items, "markRead": 1 }), "true or false"),
    ] {
        batch(&house, "org1", body).await.problem(400, "invalid_request", words);
    }
    let all = batch(&house, "org1", json!({ "items": many[..200] })).await.success(200);
    assert_eq!(all["stats"]["ok"], 200);
}

#[tokio::test]
async fn what_is_too_much_beside_the_others_is_read_alone() {
    let house = House::with("[limits]\nmax_page_bytes = 65536\n").await;
    let long = house.receive("agent1", &format!("From: a\r\n\r\n{}", "x".repeat(70_000)), 0).await;
    let short = house.receive("agent2", "From: a\r\n\r\nshort", 0).await;
    let items: Vec<Value> = [&long, &short]
        .map(|one| json!({ "roomId": one.room.to_string(), "uuid": one.message.to_string() }))
        .to_vec();
    let asked =
        batch(&house, "org1", json!({ "items": items, "markRead": true })).await.success(200);
    let results = list(&asked, "results");
    assert_eq!((&results[0]["success"], &results[1]["success"]), (&json!(false), &json!(true)));
    assert!(results[0]["message"].as_str().unwrap().contains("request it alone"));
    // Messages that were not shown stay unread, until their thread is requested alone.
    let unread = house.get("org1", "/conversations?unread=true").await.json();
    assert_eq!(unread["rooms"][0]["roomId"], long.room.to_string());
    let only = json!({ "items": items[..1], "markRead": true });
    let asked = batch(&house, "org1", only).await.success(200);
    assert_eq!(asked["stats"], json!({ "requested": 1, "ok": 0, "failed": 1 }));
    let unread = house.get("org1", "/conversations?unread=true").await.json();
    assert_eq!(unread["rooms"], json!([]));
    let path = format!("/conversation/{}/{}", long.room, long.message);
    let alone = house.get("org1", &path).await.success(200);
    assert_eq!(alone["conversation"][0]["message"].as_str().unwrap().len(), 70_000);
    assert_eq!(
        (&alone["threadId"], &alone["next"]),
        (&json!(long.message.to_string()), &Value::Null)
    );
    // From another room or account, the message does not exist.
    for (caller, room) in [("org1", short.room), ("agent2", long.room), ("org2", long.room)] {
        let path = format!("/conversation/{room}/{}", long.message);
        house.get(caller, &path).await.problem(404, "not_found", "no such message");
    }
    let foreign = format!("{path}?after=older.1-{}", "0".repeat(32));
    house.get("org1", &foreign).await.problem(400, "invalid_request", "/after");
    let path = format!("/conversation/1/{}", long.message);
    house.get("org1", &path).await.problem(400, "invalid_request", "roomId");
}

#[tokio::test]
async fn contacts_are_those_of_the_target() {
    let house = House::new().await;
    let one = house.receive("agent1", "From: a\r\n\r\nm1", 0).await;
    house.receive("agent4", "From: a\r\n\r\nm2", 0).await;
    let contacts = house.get("agent1", "/contacts").await.success(200);
    let contact = &list(&contacts, "contacts")[0];
    for (name, expected) in [
        ("id", json!(one.room.contact.get())),
        ("name", json!("The Boss")),
        ("email", json!("boss@good.example")),
        ("address", json!("boss@good.example")),
        ("source", json!("email")),
        ("organizationId", json!(house.id("org1").get())),
    ] {
        assert_eq!(contact[name], expected, "{name}");
    }
    assert_eq!(contact["firstSeen"], contact["lastSeen"]);
    for (caller, count) in [("org1", 1), ("agent2", 0), ("reseller1", 1), ("partner", 2)] {
        let found = house.get(caller, "/contacts").await.success(200);
        assert_eq!(
            (list(&found, "contacts").len(), &found["next"]),
            (count, &Value::Null),
            "{caller}"
        );
    }
    let paged = house.get("partner", "/contacts?limit=1").await;
    let first = paged.success(200);
    let rest = house.get("partner", &format!("/contacts?limit=1&before={}", first["next"])).await;
    let rest = rest.success(200);
    let link = paged.link("next").unwrap();
    assert_eq!(house.get("partner", &link).await.success(200), rest);
    assert_eq!((list(&rest, "contacts")[0], &rest["next"]), (*contact, &Value::Null));
    house.get("org1", "/contacts?before=x").await.problem(400, "invalid_request", "before");
}

#[tokio::test]
async fn contacts_are_found_by_their_address() {
    let house = House::new().await;
    house.receive("agent1", "From: a\r\n\r\nm1", 0).await;
    house.receive("agent4", "From: a\r\n\r\nm2", 0).await;
    let text = json!({
        "targetAgent": house.id("agent1").get(), "sourceAddress": "+15551231234", "message": "Hi",
    });
    house.post("agent1", "/agent/receiveMessage", text).await.success(200);
    let find = async |caller: &str, address: &str| {
        let found = house.get(caller, &format!("/contacts?address={address}")).await.success(200);
        assert_eq!(found["next"], Value::Null);
        list(&found, "contacts").iter().map(|one| one["address"].clone()).collect::<Vec<_>>()
    };
    for caller in ["agent1", "org1", "reseller1"] {
        assert_eq!(find(caller, "boss@good.example").await, ["boss@good.example"], "{caller}");
        // As everywhere, the spelling of a mailbox has no case.
        assert_eq!(find(caller, "Boss@GOOD.example").await, ["boss@good.example"], "{caller}");
        assert_eq!(find(caller, "sms:%2B15551231234").await, ["+15551231234"], "{caller}");
        let as_dialled = find(caller, "sms:%2B1%20(555)%20123-1234").await;
        assert_eq!(as_dialled, ["+15551231234"], "{caller}");
        assert_eq!(find(caller, "nobody@good.example").await.len(), 0);
    }
    assert_eq!(find("agent2", "boss@good.example").await.len(), 0);
    assert_eq!(find("partner", "boss@good.example").await.len(), 2);
    let paged = house.get("partner", "/contacts?limit=1&address=boss@good.example").await;
    let (link, first) = (paged.link("next").unwrap(), paged.success(200));
    let rest = house.get("partner", &link).await.success(200);
    assert_ne!(list(&rest, "contacts")[0]["id"], list(&first, "contacts")[0]["id"]);
    assert_eq!(rest["next"], Value::Null);
    house.get("org1", "/contacts?address=x").await.problem(400, "invalid_request", "/address");
    for path in ["/contacts?address", "/email/intake?sender"] {
        for (sender, why) in [
            ("sms:5551231234", "without + and its country code: send it in E.164"),
            ("call:%2B0", "is not an E.164 telephone number"),
            ("chat:", "is empty"),
        ] {
            let refused = house.get("org1", &format!("{path}={sender}")).await;
            refused.problem(400, "invalid_request", why);
        }
    }
}
