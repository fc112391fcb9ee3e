//! Forms: what is in them counts, and nothing else.

use super::Browser;
use crate::http::tests::House;

#[tokio::test]
async fn a_link_begins_a_draft_and_adds_nobody_that_the_form_leaves_out() {
    let house = House::new().await;
    let browser = Browser::of(&house, "agent1").await;
    let page = format!("/console/{}/policy?add=stranger%40evil.example", house.id("agent1"));
    assert!(browser.get(&page).await.text().contains("stranger@evil.example"));
    let saved = browser.submit(&page, &[("do", "save"), ("mode", "open"), ("add", "")]).await;
    assert_eq!(saved.status, 303, "{}", saved.text());
    let list = house.get("agent1", "/email/inboundWhitelist").await.success(200);
    assert_eq!(list["total"], 0);
    let policy = house.get("agent1", "/email/inboundPolicy").await.success(200);
    assert_eq!(policy["policy"]["mode"], "open");
}

#[tokio::test]
async fn a_form_that_is_refused_shows_why_and_keeps_what_was_typed() {
    let house = House::new().await;
    let browser = Browser::of(&house, "agent1").await;
    let at = |page: &str| format!("/console/{}{page}", house.id("agent1"));
    let typed = [("do", "save"), ("add", "no address <b>")];
    let refused = browser.submit(&at("/policy"), &typed).await;
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("no address &#60;b&#62;</textarea>"), "{}", refused.text());
    let days = [("do", "key"), ("description", "x"), ("days", "7 days")];
    let refused = browser.submit(&at("/keys"), &days).await;
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("days must be a whole number"), "{}", refused.text());
    let keys = house.get("agent1", "/tokens").await.success(200);
    assert_eq!(keys["tokens"].as_array().map(Vec::len), Some(1), "no key was made");
    let long = "a".repeat(100_000);
    let refused = browser.submit(&at("/accounts"), &[("do", "release"), ("address", &long)]).await;
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("too long"));
    // Nobody without a session sends a long form.
    let form = super::encoded(&[("key", &long)]);
    let refused = super::send(&house, "POST", "/console/sign-in", "", Some(&form)).await;
    assert_eq!(refused.status, 413);
}

#[tokio::test]
async fn the_box_of_a_new_key_lets_tools_change_something_and_no_box_does_not() {
    let house = House::new().await;
    let browser = Browser::of(&house, "agent1").await;
    let page = format!("/console/{}/keys", house.id("agent1"));
    let key = |purpose| [("do", "key"), ("description", purpose), ("days", "")];
    assert_eq!(browser.submit(&page, &key("reads")).await.status, 200);
    let changes = [&key("changes")[..], &[("mcp", "yes")]].concat();
    assert_eq!(browser.submit(&page, &changes).await.status, 200);
    let keys = house.get("agent1", "/tokens").await.success(200)["tokens"].clone();
    for (purpose, lets) in [("reads", false), ("changes", true)] {
        let key = keys.as_array().unwrap().iter().find(|key| key["description"] == purpose);
        assert_eq!(key.unwrap()["mcpChanges"], lets, "{keys}");
    }
    assert_eq!(browser.get(&page).await.text().matches("MCP may change").count(), 1);
}

#[tokio::test]
async fn an_address_that_looks_like_another_is_told_before_it_is_on_the_list() {
    const DOUBTFUL: &str = "b\u{43e}ss@good.example";
    let house = House::new().await;
    let browser = Browser::of(&house, "agent1").await;
    let page = format!("/console/{}/policy", house.id("agent1"));
    let tried = browser.submit(&page, &[("do", "try"), ("add", DOUBTFUL)]).await.text();
    assert!(tried.contains("look closely") && !tried.contains("was added"), "{tried}");
    let list = house.get("agent1", "/email/inboundWhitelist").await.success(200);
    assert_eq!(list["total"], 0);
    let saved = browser.submit(&page, &[("do", "save"), ("add", DOUBTFUL)]).await.text();
    assert!(saved.contains("look closely") && saved.contains("was added"), "{saved}");
    // In the list it is told again.
    assert!(browser.get(&page).await.text().contains("look closely"));
    let plain = browser.submit(&page, &[("do", "try"), ("add", "boss@good.example")]).await.text();
    assert_eq!(plain.matches("look closely").count(), 1, "{plain}");
}

#[tokio::test]
async fn a_page_of_agents_leads_to_them_from_the_account_above() {
    let house = House::new().await;
    let browser = Browser::of(&house, "org1").await;
    for page in ["policy", "agent", "setup"] {
        let shown = browser.get(&format!("/console/{}/{page}", house.id("org1"))).await.text();
        for agent in ["agent1", "agent2"] {
            let link = format!("href=\"/console/{}/{page}\">{agent}</a>", house.id(agent));
            assert!(shown.contains(&link), "{page}: {shown}");
        }
        assert!(!shown.contains("agent4"), "of another organization: {shown}");
    }
}
