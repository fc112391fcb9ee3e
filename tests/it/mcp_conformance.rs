//! The MCP server as programs of others judge it, the published conformance suite and the Inspector;
//! and the operator's switches of the program.

use std::collections::BTreeSet;

use gatepost::mcp::Changes;
use gatepost::shutdown::Shutdown;
use gatepost::store::Location;
use serde_json::{Value, json};

use crate::mcp::{accepted, client};
use crate::secret_release::as_json;
use crate::support::mcp::{Mcp, conformance, inspect, text};
use crate::support::ports::free_port;
use crate::support::process::Server;
use crate::support::{PATIENCE, TestGateway, local_dns, signed};

/// The scenarios for every server. The others ask for tools, prompts and sessions of the suite's own.
const SCENARIOS: [&str; 5] =
    ["server-initialize", "ping", "tools-list", "resources-list", "dns-rebinding-protection"];

#[tokio::test(flavor = "multi_thread")]
async fn the_published_suite_finds_nothing() {
    let port = free_port();
    let gateway = TestGateway::with_settings(|settings| {
        settings.mcp = Some(Changes::Always);
        settings.cors_origin = vec![format!("http://127.0.0.1:{port}")];
    })
    .await;
    accepted(&gateway, &signed("for the suite")).await;
    let came = conformance(&client(&gateway), port, &SCENARIOS).await;
    assert_eq!(came.len(), SCENARIOS.len());
    for one in came {
        assert_eq!(one["passed"], true, "{}: {}", one["scenario"], one["said"].as_str().unwrap());
    }
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inspector_lists_calls_and_reads() {
    let gateway = TestGateway::with_settings(|settings| settings.mcp = Some(Changes::Always)).await;
    accepted(&gateway, &signed("for the Inspector")).await;
    let mcp = client(&gateway);
    let listed = inspect(&mcp, &["--method", "tools/list"]).await;
    assert_eq!(listed["tools"], json!(mcp.tools().await));
    let call =
        ["--method", "tools/call", "--tool-name", "recent_messages", "--tool-arg", "limit=1"];
    let called = inspect(&mcp, &call).await;
    assert!(text(&called).contains("| subject: for the Inspector"), "{called}");
    let resources = inspect(&mcp, &["--method", "resources/list"]).await;
    let uri = resources["resources"][0]["uri"].as_str().unwrap();
    let read = inspect(&mcp, &["--method", "resources/read", "--uri", uri]).await;
    assert!(read["contents"][0]["text"].as_str().unwrap().contains("for the Inspector"), "{read}");
    gateway.finish().await;
}

/// A field of all rows that a tool lists, page by page.
async fn every(mcp: &Mcp, tool: &str, mut asked: Value, names: (&str, &str, &str)) -> Vec<Value> {
    let ((rows, field, cursor), mut found) = (names, Vec::new());
    loop {
        let page = mcp.done(tool, asked.clone()).await["structuredContent"].clone();
        let listed = page.pointer(rows).and_then(Value::as_array);
        let listed = listed.unwrap_or_else(|| panic!("{tool}: {page}")).iter();
        found.extend(listed.map(|row| row[field].clone()));
        if page["next"].is_null() {
            return found;
        }
        asked[cursor] = page["next"].clone();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_cursor_leads_to_the_next_page_and_ends() {
    let gateway = TestGateway::with_settings(|settings| {
        settings.rules.access.limits.max_page = 2;
        settings.rules.access.limits.default_page = 2;
    })
    .await;
    for number in 0..5 {
        accepted(&gateway, &signed(&format!("letter {number}"))).await;
    }
    let mcp = client(&gateway);
    let (mut seen, mut pages, mut parameters) = (Vec::new(), 0, json!({}));
    loop {
        let page = mcp.ask("resources/list", parameters).await["result"].clone();
        pages += 1;
        let listed = page["resources"].as_array().unwrap().iter();
        seen.extend(listed.map(|one| {
            let uri = one["uri"].as_str().unwrap();
            uri.strip_prefix("gatepost://messages/").unwrap().to_owned()
        }));
        let Some(cursor) = page.get("nextCursor") else { break };
        parameters = json!({ "cursor": cursor });
    }
    assert_eq!((pages, seen.len()), (3, 5));
    let room = gateway.get("/messages/recent?limit=1").await[0]["roomId"].clone();
    for (tool, asked) in [
        ("search_messages", json!({ "query": "letter", "limit": 2 })),
        ("read_conversation", json!({ "room": room, "limit": 2 })),
    ] {
        let found = every(&mcp, tool, asked, ("/messages", "uuid", "before")).await;
        assert_eq!(json!(found), json!(seen), "{tool}: the newest first");
    }
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), 5);
    let names = ("/inboxes", "id", "after");
    let one_by_one = every(&mcp, "list_inboxes", json!({ "limit": 1 }), names).await;
    assert!(one_by_one.len() > 2, "{one_by_one:?}");
    assert_eq!(one_by_one, every(&mcp, "list_inboxes", json!({ "limit": 2 }), names).await);
    let inbox = gateway.house.agents["support"].id.get();
    let senders = json!({ "inbox": inbox, "limit": 2 });
    let senders =
        every(&mcp, "get_policy", senders, ("/untrusted/senders", "email", "after")).await;
    let listed = gateway.get(&format!("/email/inboundPolicy?targetAccountId={inbox}")).await;
    assert_eq!(json!(senders.len()), listed["policy"]["allowlistCount"]);
    let wrong = mcp.ask("resources/list", json!({ "cursor": "no cursor" })).await;
    assert!(wrong["error"]["message"].as_str().unwrap().contains("cursor"), "{wrong}");
    gateway.finish().await;
}

/// By the flags of `gatepost serve`.
#[tokio::test(flavor = "multi_thread")]
async fn the_operator_switches_changes_on_and_the_server_off() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let key = as_json(here, "init", &[]).await["key"].as_str().unwrap().to_owned();
    let location = Location::Folder(here.join("gatepost-data"));
    let helpers = Shutdown::default();
    let dns = local_dns(&helpers).await;
    std::fs::create_dir(here.join("policies")).unwrap();
    for (arguments, changes) in
        [(&[][..], Some(false)), (&["--mcp-changes"], Some(true)), (&["--no-mcp"], None)]
    {
        let server = Server::start_with(&location, here, dns.addr(), arguments).await;
        let mcp = Mcp::of(server.http, &key);
        let Some(changes) = changes else {
            assert_eq!(mcp.post("{}", &[]).await.status, 404);
            assert_eq!(server.terminate().await, 0);
            continue;
        };
        let told = mcp.done("whoami", json!({})).await;
        assert_eq!(told["structuredContent"]["changes"], changes, "{told}");
        let is_read = |tool: &Value| tool["annotations"]["readOnlyHint"] == true;
        assert_eq!(mcp.tools().await.iter().all(is_read), !changes);
        let allow = json!({ "name": "allow_sender", "arguments": { "sender": "a@b.example" } });
        let called = mcp.ask("tools/call", allow).await;
        assert_eq!(called.get("error").is_some(), !changes, "{called}");
        assert_eq!(server.terminate().await, 0);
    }
    assert!(helpers.finish(PATIENCE).await);
}
