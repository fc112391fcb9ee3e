//! Cancellation over HTTP, where the notification is a request of its own.

use reqwest::Response;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::mcp::{Mcp, by_python, by_typescript, text};
use crate::support::{PATIENCE, TestGateway};

struct Client<'m> {
    mcp: &'m Mcp,
    session: String,
}

impl<'m> Client<'m> {
    async fn new(mcp: &'m Mcp) -> Self {
        let parameters = json!({
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        });
        let asked =
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": parameters });
        let answer = mcp.post(&asked.to_string(), &[]).await;
        let session = answer.headers["mcp-session-id"].to_str().unwrap().to_owned();
        Self { mcp, session }
    }

    /// Waits for a message for minutes. Returns the answer once it has begun to come.
    async fn wait(&self, id: u32) -> Response {
        let parameters = json!({
            "name": "wait_for_message", "arguments": { "seconds": 300 },
            "_meta": { "progressToken": 1 },
        });
        let asked =
            json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": parameters });
        let request = self.mcp.request(&asked.to_string()).header("mcp-session-id", &self.session);
        let mut answer = request.send().await.unwrap();
        let told = timeout(PATIENCE, answer.chunk()).await.unwrap().unwrap().unwrap();
        assert!(String::from_utf8_lossy(&told).contains("notifications/progress"), "{told:?}");
        answer
    }

    async fn cancel(&self, id: Value) {
        let parameters = json!({ "requestId": id });
        let sent = json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": parameters,
        });
        let session = [("mcp-session-id", self.session.as_str())];
        assert_eq!(self.mcp.post(&sent.to_string(), &session).await.status, 202);
    }
}

/// Reads an answer to its end.
async fn rest(answer: Response) -> String {
    timeout(PATIENCE, answer.text()).await.expect("the answer ends").unwrap()
}

/// Rules by which a key has one reader of events.
const ONE_READER: &str = "[rates]\nreads_per_minute = 0\nwrites_per_minute = 0\n\
     keyless_per_minute = 0\n[events]\nmax_waiting_per_key = 1\n";

/// A wait that a published client abandons gives its place back, while the client goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_a_published_client_abandons_gives_its_place_back() {
    let gateway = TestGateway::with_rules(&[("access.toml", ONE_READER)]).await;
    let url = Mcp::of(gateway.http, &gateway.key).url;
    let asked = |mode: &str| json!({ "mode": mode, "url": url, "key": gateway.key, "steps": [{ "do": "abandon" }] });
    for said in [
        by_python(&asked("auto")).await,
        by_python(&asked("legacy")).await,
        by_typescript(&asked("legacy")).await,
    ] {
        let came = &said["came"][0];
        let meanwhile = text(&came["meanwhile"]);
        assert!(meanwhile.contains("waiting for events"), "{came}");
        assert_eq!(came["free"]["structuredContent"]["timedOut"], true, "{came}");
    }
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_wait_ends_and_gives_its_place_back_and_no_other_does() {
    let gateway = TestGateway::with_rules(&[("access.toml", ONE_READER)]).await;
    let mcp = Mcp::of(gateway.http, &gateway.key);
    let (client, other) = (Client::new(&mcp).await, Client::new(&mcp).await);
    assert_ne!(client.session, other.session);
    let waiting = client.wait(7).await;
    // Another client of the same key, another key in the same session, a client without a session,
    // another number, and a number as a text.
    other.cancel(json!(7)).await;
    let second = gateway.tenancy.create_key(gateway.house.organization.id, "second").await.unwrap();
    let elsewhere = Mcp::of(gateway.http, &second.token);
    Client { mcp: &elsewhere, session: client.session.clone() }.cancel(json!(7)).await;
    Client { mcp: &mcp, session: String::new() }.cancel(json!(7)).await;
    client.cancel(json!(8)).await;
    client.cancel(json!("7")).await;
    let second = mcp.failed("wait_for_message", json!({ "seconds": 1 })).await;
    assert!(second.contains("Retry-After"), "{second}");
    client.cancel(json!(7)).await;
    let said = rest(waiting).await;
    assert!(said.contains("the request was cancelled"), "{said}");
    mcp.done("wait_for_message", json!({ "seconds": 1 })).await;
    // The number is free again, and a second request of one number is left alone.
    let waiting = client.wait(7).await;
    let listed = json!({ "jsonrpc": "2.0", "id": 7, "method": "resources/list" }).to_string();
    let session = [("mcp-session-id", client.session.as_str())];
    assert_eq!(mcp.post(&listed, &session).await.status, 200);
    client.cancel(json!(7)).await;
    assert!(rest(waiting).await.contains("the request was cancelled"));
    gateway.finish().await;
}
