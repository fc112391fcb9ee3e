//! Clients of MCP: the published ones, and one that sends exactly what a test says.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use reqwest::RequestBuilder;
use serde_json::{Value, json};

use super::program::offer;
use super::{PATIENCE, http};

/// Where `scripts/test` puts the published clients.
fn tools() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools/mcp")
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/support").join(name)
}

/// Takes steps by the official Python client.
pub async fn by_python(asked: &Value) -> Value {
    let python = tools().join("python/bin/python");
    by(&python, &script("mcp_client.py"), asked).await
}

/// Takes steps by the official TypeScript client.
pub async fn by_typescript(asked: &Value) -> Value {
    let mut asked = asked.clone();
    asked["sdk"] = json!(tools().join("node/node_modules/@modelcontextprotocol/sdk"));
    by(Path::new("node"), &script("mcp_client.mjs"), &asked).await
}

/// A file of the published conformance suite or of the Inspector, which have a Node of their own.
fn suites(file: &str) -> PathBuf {
    tools().join("suites/node_modules").join(file)
}

/// Runs these scenarios of the published conformance suite against `/mcp` of a server, through a
/// proxy at `port` that adds the key. Returns the result of each: `{scenario, passed, said}`.
pub async fn conformance(mcp: &Mcp, port: u16, scenarios: &[&str]) -> Vec<Value> {
    let asked = json!({
        "suite": suites("@modelcontextprotocol/conformance/dist/index.js"),
        "url": mcp.url, "key": mcp.key, "port": port, "scenarios": scenarios,
    });
    let said = by(&suites("node/bin/node"), &script("mcp_conformance.mjs"), &asked).await;
    said.as_array().unwrap().clone()
}

/// The result of one request by the published Inspector.
pub async fn inspect(mcp: &Mcp, request: &[&str]) -> Value {
    let inspector = suites("@modelcontextprotocol/inspector/cli/build/index.js");
    let bearer = format!("Authorization: Bearer {}", mcp.key);
    let server = [&mcp.url, "--transport", "http", "--header", &bearer];
    let arguments = [Path::new(&inspector).as_os_str()]
        .into_iter()
        .chain(server.into_iter().chain(request.iter().copied()).map(OsStr::new));
    let output = offer(suites("node/bin/node"), arguments, b"").await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{request:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

async fn by(program: &Path, script: &Path, asked: &Value) -> Value {
    let output = offer(program, [script], asked.to_string().as_bytes()).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", script.display());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// A client of one server with one key.
pub struct Mcp {
    pub url: String,
    pub key: String,
}

impl Mcp {
    pub fn of(server: SocketAddr, key: &str) -> Self {
        Self { url: format!("http://{server}/mcp"), key: key.to_owned() }
    }

    /// The answer to one POST with these further header fields.
    pub async fn post(&self, body: &str, fields: &[(&str, &str)]) -> http::Answer {
        let mut request = self.request(body).timeout(PATIENCE);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        http::read("POST", request.send().await.unwrap()).await
    }

    /// One POST, without a bound of its time.
    pub fn request(&self, body: &str) -> RequestBuilder {
        let request = reqwest::Client::new()
            .post(&self.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(body.to_owned());
        match self.key.as_str() {
            "" => request,
            key => request.header("authorization", format!("Bearer {key}")),
        }
    }

    /// The message that answers a request, which must be 200.
    pub async fn ask(&self, method: &str, parameters: Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": parameters });
        let answer = self.post(&request.to_string(), &[]).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        serde_json::from_str(&answer.text()).unwrap()
    }

    /// The result of a tool, failed or not.
    pub async fn call(&self, name: &str, arguments: Value) -> Value {
        let called = self.ask("tools/call", json!({ "name": name, "arguments": arguments })).await;
        called.get("result").cloned().unwrap_or_else(|| panic!("{name}: {called}"))
    }

    /// The result of a tool that must not fail.
    pub async fn done(&self, name: &str, arguments: Value) -> Value {
        let result = self.call(name, arguments).await;
        assert_eq!(result["isError"], false, "{name}: {result}");
        result
    }

    /// The words of a tool that must fail.
    pub async fn failed(&self, name: &str, arguments: Value) -> String {
        let result = self.call(name, arguments).await;
        assert_eq!(result["isError"], true, "{name}: {result}");
        text(&result).to_owned()
    }

    pub async fn tools(&self) -> Vec<Value> {
        let listed = self.ask("tools/list", json!({})).await;
        listed["result"]["tools"].as_array().unwrap().clone()
    }
}

/// The text of a result.
pub fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}
