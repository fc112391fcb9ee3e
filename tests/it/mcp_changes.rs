//! Tools that change something: where they are there, and where a change shows.

use gatepost::mcp::Changes;
use serde_json::{Value, json};

use crate::mcp::{CHANGING, client};
use crate::support::TestGateway;
use crate::support::mcp::Mcp;

#[tokio::test(flavor = "multi_thread")]
async fn a_change_counts_as_a_change_and_is_in_the_audit_log() {
    let gateway = TestGateway::with_settings(|settings| {
        settings.mcp = Some(Changes::Always);
        settings.rules.access.rates.writes_per_minute = 1;
    })
    .await;
    let mcp = client(&gateway);
    let inbox = gateway.house.agents["support"].id.get();
    let allow = |sender: &str| json!({ "inbox": inbox, "sender": sender });
    mcp.done("allow_sender", allow("carol@good.example")).await;
    let said = mcp.failed("allow_sender", allow("dave@good.example")).await;
    assert!(said.contains("too many requests to write") && said.contains("Retry-After"), "{said}");
    mcp.done("get_policy", json!({ "inbox": inbox })).await;
    let audit = gateway.get("/audit").await.to_string();
    assert!(
        audit.contains("carol@good.example") && !audit.contains("dave@good.example"),
        "{audit}"
    );
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_that_change_something_are_there_only_where_somebody_lets_them() {
    let gateway = TestGateway::start().await;
    let mcp = client(&gateway);
    let listed = names(&mcp).await;
    assert_eq!(listed.len(), 11, "{listed:?}");
    assert!(CHANGING.iter().all(|name| !listed.contains(&json!(name))), "{listed:?}");
    let inbox = gateway.house.agents["support"].id.get();
    let parameters = json!({
        "name": "allow_sender", "arguments": { "inbox": inbox, "sender": "carol@good.example" },
    });
    let refused = mcp.ask("tools/call", parameters).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("--mcp-changes"), "{refused}");
    let policy = mcp.done("get_policy", json!({ "inbox": inbox })).await;
    assert!(!policy.to_string().contains("carol@good.example"));
    gateway.finish().await;

    let none = TestGateway::with_settings(|settings| settings.mcp = None).await;
    assert_eq!(client(&none).post("{}", &[]).await.status, 404);
    none.finish().await;
}

async fn names(mcp: &Mcp) -> Vec<Value> {
    mcp.tools().await.iter().map(|tool| tool["name"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_made_for_it_changes_something_and_no_other_key_does() {
    let gateway = TestGateway::start().await;
    let inbox = gateway.house.agents["support"].id.get();
    let made = async |body: Value| {
        let (status, made) = gateway.request("POST", "/tokens", Some(body)).await;
        assert_eq!(status, 200, "{made}");
        let key = made["token"]["token"].as_str().unwrap();
        (made["token"]["mcpChanges"].clone(), Mcp::of(gateway.http, key))
    };
    let of_agent = |lets: Value| json!({ "description": "a model", "targetAccountId": inbox, "mcpChanges": lets });
    let (said, changing) = made(of_agent(json!(true))).await;
    assert_eq!((said, names(&changing).await.len()), (json!(true), 14));
    let whoami = changing.done("whoami", json!({})).await;
    assert_eq!(whoami["structuredContent"]["changes"], true);
    let allow = |sender: &str| json!({ "inbox": inbox, "sender": sender });
    changing.done("allow_sender", allow("carol@good.example")).await;
    let (said, reading) = made(of_agent(json!(false))).await;
    assert_eq!((said, names(&reading).await.len()), (json!(false), 11));
    let (said, plain) = made(json!({ "description": "x", "targetAccountId": inbox })).await;
    assert_eq!((said, names(&plain).await.len()), (json!(false), 11));
    let parameters = json!({ "name": "allow_sender", "arguments": allow("dave@good.example") });
    let refused = plain.ask("tools/call", parameters).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("mcpChanges"), "{refused}");
    // A key reaches no further than before, and the list of keys and the log say which may change.
    let elsewhere =
        json!({ "inbox": gateway.house.agents["open"].id.get(), "sender": "x@good.example" });
    changing.failed("allow_sender", elsewhere).await;
    let listed = gateway.get(&format!("/tokens?targetAccountId={inbox}")).await;
    let lets = listed["tokens"].as_array().unwrap().iter().map(|key| key["mcpChanges"].clone());
    assert_eq!(lets.collect::<Vec<_>>(), [json!(true), json!(false), json!(false)]);
    let audit = gateway.get("/audit").await.to_string();
    assert!(audit.contains("mcpChanges") && audit.contains("carol@good.example"), "{audit}");
    assert!(!audit.contains("dave@good.example"), "{audit}");
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_who_says_no_goes_before_every_key() {
    let gateway = TestGateway::with_settings(|settings| settings.mcp = Some(Changes::Never)).await;
    let body = json!({ "description": "a model", "mcpChanges": true });
    let (_, made) = gateway.request("POST", "/tokens", Some(body)).await;
    let mcp = Mcp::of(gateway.http, made["token"]["token"].as_str().unwrap());
    assert_eq!(names(&mcp).await.len(), 11);
    let whoami = mcp.done("whoami", json!({})).await;
    assert_eq!(whoami["structuredContent"]["changes"], false);
    gateway.finish().await;
}
