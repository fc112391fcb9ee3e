//! Every refusal names the record that explains it, and the words about a refused sender say
//! nothing of the list.

use std::collections::BTreeSet;

use serde_json::json;

use crate::store::scene::database;
use crate::support::{PATIENCE, TestGateway, letter, signer};

const FROM: &str = "alice@good.example";

fn record(reply: &str) -> &str {
    let found = reply.split_once("[record ").and_then(|(_, rest)| rest.split_once(']'));
    found.unwrap_or_else(|| panic!("no record in {reply:?}")).0
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_hundred_recipients_one_record_is_named_and_each_agent_has_one() {
    let gateway = TestGateway::start().await;
    // Tags lead to the same Agent, which is told once.
    let name = |n: usize| format!("{}+{n}@agents.example", ["open", "open2"][n % 2]);
    let all: Vec<String> = (0..100).map(name).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let unsigned = letter("to everybody");
    let replies = gateway.send(FROM, &all, unsigned.as_bytes()).await;
    let reply = replies.settling();
    assert!(reply.starts_with("550 5.7.20"), "{reply}");
    let shown = gateway.get(&format!("/email/intake/{}", record(reply))).await;
    assert_eq!(shown["intake"]["reason"], "dkim_missing");
    let advice = shown["intake"]["advice"].as_str().unwrap();
    assert!(advice.contains("for good.example"), "{advice}");
    let list = gateway.get("/email/intake?reason=dkim_missing&limit=200").await;
    let agents: BTreeSet<_> =
        list["intake"].as_array().unwrap().iter().map(|one| one["agentId"].as_i64()).collect();
    let both = ["open", "open2"].map(|name| Some(gateway.house.agents[name].id.get()));
    assert_eq!((agents, list["intake"].as_array().unwrap().len()), (both.into(), 2));
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_at_rcpt_names_its_counted_record() {
    let gateway = TestGateway::start().await;
    let unsigned = letter("to nobody");
    let mut ids = Vec::new();
    for local in ["nobody", "nobody2"] {
        let to = format!("{local}@agents.example");
        let replies = gateway.send(FROM, &[&to], unsigned.as_bytes()).await;
        let reply = &replies.recipients[0];
        assert!(reply.starts_with("550 5.1.1"), "{reply}");
        ids.push(record(reply).to_owned());
    }
    let shown = gateway.get(&format!("/email/intake/{}", ids[1])).await;
    assert_eq!(shown["intake"]["reason"], "unknown_recipient");
    assert!(shown["intake"]["advice"].as_str().unwrap().contains("spelling"));
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_the_list_holds_the_words_to_a_stranger_are_the_same() {
    let gateway = TestGateway::start().await;
    let agent = gateway.house.agents["closed"].id;
    let path = format!("/email/inboundWhitelist?targetAccountId={agent}");
    let (mut replies, mut words) = (Vec::new(), Vec::new());
    for (number, listed) in
        [None, Some("bob@good.example"), Some("alicf@good.example")].into_iter().enumerate()
    {
        if let Some(email) = listed {
            let body = Some(json!({ "email": email }));
            assert_eq!(gateway.request("POST", &path, body).await.0, 200);
        }
        let raw = signer().sign(letter(&format!("number {number}")).as_bytes()).unwrap();
        let sent = gateway.send(FROM, &["closed@agents.example"], &raw).await;
        let reply = sent.settling().to_owned();
        let id = record(&reply).to_owned();
        let shown = gateway.get(&format!("/email/intake/{id}")).await;
        let shown = &shown["intake"];
        assert_eq!(shown["reason"], "sender_not_allowed");
        replies.push(reply.replace(&id, "ID"));
        words.push(format!("{} {}", shown["explanation"], shown["advice"]));
    }
    for all in [replies, words] {
        assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "{all:#?}");
        assert!(!all[0].contains('@'), "{}", all[0]);
    }
    gateway.finish().await;
}

/// Nobody's refusal waits for the disk; who looks for its record waits, and finds it.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_writer_delays_no_refusal_and_its_record_is_there_for_who_looks() {
    let gateway = TestGateway::start().await;
    let mut writer = database(&gateway.folder.path().join("store")).await;
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut writer).await.unwrap();
    let unsigned = letter("to be refused");
    let mut ids = Vec::new();
    for to in ["open@agents.example", "open2@agents.example"] {
        let sent = gateway.send(FROM, &[to], unsigned.as_bytes()).await;
        assert!(sent.settling().starts_with("550 5.7.20"), "{}", sent.settling());
        ids.push(record(sent.settling()).to_owned());
    }
    sqlx::raw_sql("ROLLBACK").execute(&mut writer).await.unwrap();
    let both = async {
        let path = "/email/intake?reason=dkim_missing";
        while gateway.get(path).await["intake"].as_array().unwrap().len() < 2 {}
    };
    tokio::time::timeout(PATIENCE, both).await.unwrap();
    let found = gateway.get(&format!("/email/intake/{}", ids[1])).await;
    assert_eq!(found["intake"]["reason"], "dkim_missing");
    gateway.finish().await;
}
