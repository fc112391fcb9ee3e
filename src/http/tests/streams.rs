//! The common cost of many streams, by counting bodies and statements, not time.

use serde_json::{Value, json};

use crate::domain::member::Role;
use crate::domain::scope::Scope;
use crate::http::tests::House;
use crate::http::tests::events::Reader;
use crate::http::tests::secrecy::Log;
use crate::store::EventFilter;

const MAIL: &str = "From: boss@good.example\r\nSubject: s\r\n\r\nhello";
/// While statements are counted, no timer fires.
const RULES: &str = "[events]\nmax_waiting_per_key = 100\nheartbeat_seconds = 300\n\
                     check_seconds = 60\nring_seconds = 60\n";

/// The number of log lines with this text.
fn count(log: &Log, text: &str) -> usize {
    log.text().lines().filter(|line| line.contains(text)).count()
}

/// Threats H13: for any number of followers, an event is made once, and their look-ups are shared.
#[tokio::test]
async fn an_event_is_made_once_for_all_who_follow_and_they_ask_together() {
    let mut house = House::with(RULES).await;
    house.join("few", "org1", Role::Admin, &["agent1"]).await;
    let own = format!("&targetAccountId={}", house.id("agent1"));
    let mut readers = Vec::new();
    for number in 0..10 {
        for (caller, query) in [
            ("agent1", ""),
            ("org1", ""),
            ("reseller1", "&type=incoming"),
            ("partner", own.as_str()),
            ("few", "&type=incoming"),
        ] {
            readers.push(Reader::open(&house, caller, query, "").await);
            // The stream has begun by now.
            if number == 0 {
                house.receive("agent1", MAIL, 0).await;
                for reader in &mut readers {
                    reader.events(1).await;
                }
            }
        }
    }
    let followers = readers.len();
    let mut log = Log::default();
    let listening = log.listen();
    let received = house.receive("agent1", MAIL, 0).await;
    let wanted = format!("\"messageUuid\":\"{}\"", received.message);
    for reader in &mut readers {
        reader.until(&wanted).await;
    }
    drop(listening);
    let events = house.get("agent1", "/events?limit=200").await.success(200);
    let of_it = |event: &&Value| {
        event["data"]["message"]["uuid"] == received.message.to_string()
            || event["messageUuid"] == received.message.to_string()
    };
    let told = events["events"].as_array().unwrap().iter().filter(of_it).count();
    assert!(told >= 2 && followers == 50, "{told} events for {followers}");
    assert_eq!(count(&log, "building the body of an event"), told, "once for all");
    // Without sharing, each of these would run once or more per follower.
    for statement in ["keys.hash = given.wanted", "= given.wanted", "given.low AND events.position"]
    {
        let asked = count(&log, statement);
        assert!((1..=8).contains(&asked), "{statement}: {asked} times for {followers}");
    }
    for statement in ["WHERE hash = $1", "FROM (SELECT id, names, position FROM events"] {
        assert_eq!(count(&log, statement), 0, "{statement}");
    }
    log = Log::default();
    assert_eq!(log.text(), "");
}

/// Proves that an event prepared before an erasure is not shown after it.
#[tokio::test]
async fn what_was_made_for_all_is_not_shown_once_it_is_erased() {
    let house = House::with(RULES).await;
    let events = house.http.use_cases.events.clone();
    let org = house.residents["org1"].account.clone();
    let key = house.http.use_cases.access.caller(Some(house.token("org1"))).await.unwrap().key;
    let scope = Scope::subtree(org.id, org.kind);
    let waiting = events.wait(key.id, org.id, &scope).unwrap();
    // The reader is registered, so it hears of all later events.
    waiting.changed().await;
    let shown = async |after: i64| {
        let bounds = crate::app::delivery::EventLogBounds { events: 100, octets: 1 << 20 };
        let part = events.read_on(&scope, &EventFilter::ALL, after, bounds).await.unwrap();
        let of = |event: &crate::app::delivery::RenderedEvent| {
            String::from_utf8(event.body.to_vec()).unwrap()
        };
        part.events.iter().map(of).collect::<String>()
    };
    let next = async || {
        let after = house.store.last_position().await.unwrap();
        let received = house.receive("agent1", MAIL, 0).await;
        while !shown(after).await.contains(&received.message.to_string()) {
            waiting.changed().await;
        }
        assert!(shown(after).await.contains("\"message\":\"hello"), "{}", shown(after).await);
        (after, received)
    };
    // A message.
    let (after, first) = next().await;
    let path = format!("/messages/{}", first.message);
    house.call("agent1", "DELETE", &path, None).await.success(200);
    let left = shown(after).await;
    assert!(left.contains("\"erased\":true") && !left.contains("hello"), "{left}");
    // A contact, with all that it wrote.
    let (after, _) = next().await;
    let contacts = house.get("org1", "/contacts").await.json();
    let contact = contacts.pointer("/contacts/0/id").unwrap().clone();
    house.call("org1", "DELETE", &format!("/contacts/{contact}"), None).await;
    let left = shown(after).await;
    assert!(left.contains("\"erased\":true") && !left.contains("hello"), "{left}");
    assert!(!left.contains("good.example"), "{left}");
    // An account.
    let (after, _) = next().await;
    let body = json!({ "targetAccountId": house.id("agent1").get() });
    house.call("org1", "DELETE", "/deleteAccount", Some(&body)).await;
    let left = shown(after).await;
    assert!(left.contains("\"erased\":true") && !left.contains("hello"), "{left}");
}

/// A bounded number of events, bytes and seconds is kept; a reader behind these misses nothing.
#[tokio::test]
async fn who_is_behind_what_is_kept_reads_the_store_and_misses_nothing() {
    let rules = "[events]\nring_events = 2\nmax_chunk_bytes = 1\nring_bytes = 65536\n";
    let house = House::with(rules).await;
    let mut readers = Vec::new();
    for query in ["", "&type=incoming"] {
        readers.push(Reader::open(&house, "org1", query, "").await);
    }
    let mut sent = Vec::new();
    for number in 0..12 {
        let agent = if number % 3 == 0 { "agent2" } else { "agent1" };
        sent.push(house.receive(agent, MAIL, 0).await.message.to_string());
        if number % 4 == 0 {
            house.receive("agent3", MAIL, 0).await;
        }
    }
    for mut reader in readers {
        let mut came = Vec::new();
        while came.len() < sent.len() {
            let events = reader.events(1).await;
            let received = events.iter().filter(|event| event["event"] == "email.received");
            came.extend(received.map(|event| event["messageUuid"].as_str().unwrap().to_owned()));
        }
        assert_eq!(came, sent);
    }
}
