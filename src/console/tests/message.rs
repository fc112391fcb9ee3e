//! The page of a message: its events, and what became of them.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::Browser;
use crate::domain::delivery::Outcome;
use crate::domain::member::Role;
use crate::http::tests::{House, PATIENCE};

const MAIL: &str = "Subject: x\r\n\r\nhello";

async fn hook(house: &House, owner: &str, kind: &str, label: &str) -> String {
    let url = format!("https://hooks.example/{label}");
    let body = json!({ "url": url, "label": label, "type": kind });
    let made = house.call(owner, "POST", "/webhooks", Some(&body)).await.success(201);
    made["webhook"]["id"].as_str().expect("an id").to_owned()
}

/// The part of the page about events.
fn events(page: &str) -> &str {
    let (_, rest) = page.split_once("id=\"events\"").unwrap_or_else(|| panic!("{page}"));
    rest.split("</section>").next().unwrap_or_default()
}

#[tokio::test]
async fn a_message_shows_its_events_with_the_deliveries_that_the_caller_may_see() {
    let mut house = House::new().await;
    house.join("few", "org1", Role::Admin, &["agent1"]).await;
    let of_org = hook(&house, "org1", "incoming", "of-the-organization").await;
    let of_agent = hook(&house, "agent1", "conversation", "of-the-agent").await;
    hook(&house, "agent1", "agent", "of-no-message").await;
    let first = house.receive("agent1", MAIL, 1).await;
    let later = house.now().plus(Duration::from_secs(300));
    house.attempt((Some(418), b"a teapot"), Outcome::RetryAt(later)).await;
    let second = house.receive("agent1", MAIL, 1).await;
    house.attempt((Some(204), b""), Outcome::Delivered).await;
    for (caller, page, sees) in [
        ("org1", "org1", &[(&of_agent, "agent1"), (&of_org, "org1")][..]),
        ("partner", "agent1", &[(&of_agent, "agent1"), (&of_org, "org1")][..]),
        ("agent1", "agent1", &[(&of_agent, "agent1")][..]),
        ("few", "org1", &[(&of_agent, "agent1")][..]),
    ] {
        let browser = Browser::of(&house, caller).await;
        let at = |message| format!("/console/{}/messages/{message}", house.id(page));
        let verdict = format!("/console/{}/verdicts/{}", house.id(page), first.intake);
        let of_verdict = browser.get(&verdict).await.text();
        let shown = browser.get(&at(first.message)).await;
        assert_eq!(shown.status, 200, "{}", shown.text());
        let text = shown.text();
        let part = events(&text);
        assert_eq!(events(&of_verdict), part, "{caller}: the verdict and its message");
        for name in ["contact.created", "conversation.started", "email.received"] {
            assert_eq!(
                part.matches(&format!("<code>{name}</code>")).count(),
                1,
                "{caller}: {part}"
            );
        }
        for (webhook, owner) in sees {
            let link = format!("/console/{}/webhooks/{webhook}", house.id(owner));
            assert!(part.contains(&link), "{caller}: {part}");
        }
        assert_eq!(part.matches("<details").count(), sees.len(), "{caller}: {part}");
        assert_eq!(part.matches("1 attempt, last: 418").count(), sees.len(), "{caller}: {part}");
        assert!(part.contains("a teapot") && part.contains("next attempt"), "{caller}: {part}");
        assert!(!part.contains("of-no-message"), "{caller}: {part}");
        let shown = browser.get(&at(second.message)).await.text();
        let part = events(&shown);
        assert!(part.contains("<code>conversation.updated</code>"), "{caller}: {part}");
        assert!(!part.contains("418") && part.contains("last: 204"), "{caller}: {part}");
    }
    let browser = Browser::of(&house, "org1").await;
    let shown = browser.get(&format!("/console/{}/webhooks/{of_org}", house.id("org1"))).await;
    for part in ["1 waiting", "the oldest was made", "class=\"plot\"", r##"fill="#000002""##] {
        assert!(shown.text().contains(part), "{part} is not in\n{}", shown.text());
    }
    // Nobody is noted as denied for looking at a page.
    let browser = Browser::of(&house, "agent1").await;
    let beyond = browser.get(&format!("/console/{}/live", house.id("org1"))).await;
    assert_eq!(beyond.status, 403);
    let denied = async {
        loop {
            let found = house.get("partner", "/audit?action=access.denied").await.success(200);
            let entries = found["audit"].as_array().expect("a list").clone();
            if !entries.is_empty() {
                return entries;
            }
        }
    };
    let denied: Vec<Value> = timeout(PATIENCE, denied).await.expect("it is noted");
    let agent = house.id("agent1").get();
    assert!(denied.iter().all(|entry| entry["object"] == "GET /account"), "{denied:?}");
    assert!(denied.iter().all(|entry| entry["by"]["accountId"] == agent), "{denied:?}");
}

#[tokio::test]
async fn a_contact_is_erased_from_its_room_by_those_above_the_agent() {
    let house = House::new().await;
    let room = house.receive("agent1", MAIL, 1).await.room;
    let agent = Browser::of(&house, "agent1").await;
    let page = format!("/console/{}/rooms/{room}", house.id("agent1"));
    assert!(!agent.get(&page).await.text().contains("Erase the contact"));
    assert_eq!(agent.submit(&page, &[]).await.status, 403);
    assert_eq!(agent.get(&page).await.status, 200);
    let above = Browser::of(&house, "org1").await;
    let erased = above.submit(&page, &[]).await;
    assert_eq!(erased.status, 303, "{}", erased.text());
    let contacts = house.get("org1", "/contacts").await.success(200);
    assert_eq!(contacts["contacts"], json!([]));
    assert_eq!(house.get("org1", "/messages/recent").await.json(), json!([]));
}

#[tokio::test]
async fn the_source_of_a_message_is_shown_as_it_came() {
    let house = House::new().await;
    let long = "line of a body\r\n".repeat(20_000);
    let head = "Subject: one\r\n\ttwo <b>\r\nX-Odd: a: b\r\nno field";
    let browser = Browser::of(&house, "org1").await;
    for (raw, is_cut) in
        [(format!("{head}\r\n\r\nbody & end"), false), (format!("{head}\r\n\r\n{long}"), true)]
    {
        let message = house.receive("agent1", &raw, 1).await.message;
        let page = format!("/console/{}/messages/{message}", house.id("agent1"));
        assert!(browser.get(&page).await.text().contains(&format!("{page}/source")));
        let shown = browser.get(&format!("{page}/source")).await;
        assert_eq!(shown.status, 200, "{}", shown.text());
        let text = shown.text();
        for part in [
            "<dt>Subject</dt><dd class=\"mono lines\">one\n\ttwo &#60;b&#62;</dd>",
            "<dt>X-Odd</dt><dd class=\"mono lines\">a: b</dd>",
            "<dt></dt><dd class=\"mono lines\">no field</dd>",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert_eq!(text.contains("The rest is not shown"), is_cut, "{text}");
        assert_eq!(text.contains("body &#38; end"), !is_cut, "{text}");
        assert!(text.len() < 300_000, "{}", text.len());
    }
}

#[tokio::test]
async fn the_source_of_a_text_is_as_it_was_posted() {
    let house = House::new().await;
    let agent = house.id("agent1");
    let address = "+1 (555) 123-1234";
    let body =
        json!({ "targetAgent": "agent1", "sourceAddress": address, "message": "Hello: you" });
    house.call("agent1", "POST", "/agent/receiveMessage", Some(&body)).await.success(200);
    let messages = house.get("agent1", "/messages/recent").await.json();
    let uuid = messages[0]["uuid"].as_str().unwrap_or_else(|| panic!("{messages}"));
    let browser = Browser::of(&house, "org1").await;
    let shown = browser.get(&format!("/console/{agent}/messages/{uuid}/source")).await;
    let text = shown.text();
    assert_eq!(shown.status, 200, "{text}");
    assert!(text.contains("As it was posted") && !text.contains("Header fields"), "{text}");
    assert!(text.contains("Hello: you") && text.contains("sourceAddress"), "{text}");
}
