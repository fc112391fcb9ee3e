//! Every page for every caller and every account: what the API allows, and nothing foreign.

use std::iter;

use super::Browser;
use crate::console::table::ROWS;
use crate::domain::reason::Reason;
use crate::domain::verdict::Verdict;
use crate::http::tests::{House, TREE};

/// Whether `account` is `caller` or below it in the tree.
fn reaches(caller: &str, account: &str) -> bool {
    let parent = |name: &&str| TREE.iter().find(|(known, ..)| known == name).map(|(_, of, _)| *of);
    iter::successors(Some(account), parent).any(|above| above == caller)
}

#[tokio::test]
async fn a_page_is_shown_to_those_who_reach_its_account_and_to_nobody_else() {
    let house = House::new().await;
    let (mut messages, mut records) = (Vec::new(), Vec::new());
    let agents = ["agent1", "agent2", "agent3", "agent4"];
    for agent in agents {
        let raw = format!("Subject: x\r\n\r\nmarker-of-{agent}");
        messages.push(house.receive(agent, &raw, 1).await);
        records.push(house.refuse(agent, Verdict::Refused(Reason::DkimMissing)).await);
    }
    let callers: Vec<&str> = TREE.iter().map(|(name, ..)| *name).collect();
    for caller in &callers {
        let browser = Browser::of(&house, caller).await;
        for (account, _, _) in TREE {
            let agent = agents.iter().position(|agent| agent == account).unwrap_or(0);
            for row in ROWS {
                let id = house.id(account).to_string();
                let record = records[agent].to_string();
                let (room, uuid) = (&messages[agent].room, messages[agent].message.to_string());
                let path = row
                    .path
                    .replace("{account}", &id)
                    .replace("{uuid}", &uuid)
                    .replace("{room}", &room.to_string())
                    .replace("{filename}", "1-a.png");
                let id = if path.contains("verdicts") { &record } else { &uuid };
                let search = if path.ends_with("/search") { "?q=marker" } else { "" };
                let path = format!("{}{search}", path.replace("{id}", id));
                // A stream has no end.
                if path.ends_with("/stream") && reaches(caller, account) {
                    continue;
                }
                let page = browser.get(&path).await;
                let text = page.text();
                if !reaches(caller, account) {
                    assert!(matches!(page.status, 403 | 404), "{caller} {path}: {}", page.status);
                }
                assert_ne!(page.status, 500, "{caller} {path}: {text}");
                for foreign in agents.iter().filter(|agent| !reaches(caller, agent)) {
                    assert!(!text.contains(&format!("marker-of-{foreign}")), "{caller} {path}");
                }
            }
        }
    }
}

#[tokio::test]
async fn the_owner_of_an_agent_sees_its_pages() {
    let house = House::new().await;
    let received =
        house.receive("agent1", "Subject: x\r\n\r\nhello <script>alert(1)</script>", 1).await;
    let browser = Browser::of(&house, "org1").await;
    for account in ["org1", "agent1"] {
        let at = |page: String| format!("/console/{}{page}", house.id(account));
        let message = browser.get(&at(format!("/messages/{}", received.message))).await;
        assert_eq!(message.status, 200, "{}", message.text());
        assert!(message.text().contains("hello &#60;script&#62;"), "{}", message.text());
        assert!(!message.text().contains("<script>alert"), "{}", message.text());
        let verdict = browser.get(&at(format!("/verdicts/{}", received.intake))).await;
        assert_eq!(verdict.status, 200, "{}", verdict.text());
        let room = browser.get(&at(format!("/rooms/{}", received.room))).await;
        assert!(room.text().contains("hello"), "{}", room.text());
        let found = browser.get(&at("/search?q=hello".into())).await;
        assert!(found.text().contains(&received.message.to_string()), "{}", found.text());
        let by_id = browser.get(&at(format!("/search?q=%5Brecord+{}%5D", received.message))).await;
        assert_eq!(by_id.headers["location"], at(format!("/messages/{}", received.message)));
        for page in ["/live", "/rooms", "/sessions"] {
            assert_eq!(browser.get(&at(page.into())).await.status, 200, "{page}");
        }
    }
}
