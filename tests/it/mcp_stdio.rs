//! `gatepost mcp`: keys that stay unsaid, and calls that are cancelled. `mcp` has all tools through it.

use std::process::Stdio;

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

use crate::support::mcp::Mcp;
use crate::support::process::GATEPOST;
use crate::support::program::offer;
use crate::support::{PATIENCE, TestGateway};

#[tokio::test(flavor = "multi_thread")]
async fn a_key_in_the_url_is_refused_and_not_repeated() {
    for url in [
        "http://127.0.0.1:1/?token=gp_secret",
        "http://gp_secret@127.0.0.1:1",
        "http://u:gp_secret@127.0.0.1:1/mcp",
        "http://127.0.0.1:1#gp_secret",
        "gp_secret",
    ] {
        let arguments = ["GATEPOST_MCP_KEY=gp_x", GATEPOST, "mcp", "--url", url];
        let output = offer("env", arguments, b"").await;
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!output.status.success() && said.contains("--url"), "{url}: {said}");
        assert!(!said.contains("gp_secret"), "{url}: {said}");
    }
}

/// One reader at a time: the place of a call that is cancelled is free for the next.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_cancelled_ends_and_gives_its_place_back() {
    let rules = "[rates]\nreads_per_minute = 0\nwrites_per_minute = 0\nkeyless_per_minute = 0\n\
                 [events]\nmax_waiting_per_key = 1\n";
    let gateway = TestGateway::with_rules(&[("access.toml", rules)]).await;
    let mut relay = Command::new(GATEPOST)
        .args(["mcp", "--url", &format!("http://{}", gateway.http)])
        .env("GATEPOST_MCP_KEY", &gateway.key)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut input = relay.stdin.take().unwrap();
    let mut output = BufReader::new(relay.stdout.take().unwrap()).lines();
    let parameters = json!({
        "name": "wait_for_message", "arguments": { "seconds": 300 }, "_meta": { "progressToken": 1 },
    });
    let wait = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": parameters });
    input.write_all(format!("{wait}\n").as_bytes()).await.unwrap();
    let told = timeout(PATIENCE, output.next_line()).await.unwrap().unwrap().unwrap();
    assert!(told.contains("notifications/progress"), "{told}");
    let cancel = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 },
    });
    input.write_all(format!("{cancel}\n").as_bytes()).await.unwrap();
    let mcp = Mcp::of(gateway.http, &gateway.key);
    let place_free = async {
        while mcp.call("wait_for_message", json!({ "seconds": 1 })).await["isError"] == true {}
    };
    timeout(PATIENCE, place_free).await.expect("the place is given back");
    // Nothing answers a call that was cancelled.
    drop(input);
    let rest = timeout(PATIENCE, relay.wait_with_output()).await.unwrap().unwrap();
    assert!(rest.status.success());
    while let Some(line) = output.next_line().await.unwrap() {
        assert!(!line.contains("\"id\":7"), "{line}");
    }
    gateway.finish().await;
}
