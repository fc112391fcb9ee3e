//! Clients that generators make from the served description: they compile, and read messages with a key.

use std::path::{Path, PathBuf};

use tokio::process::Command;

use crate::openapi::run;
use crate::support::{TestGateway, http, signed};

/// A gateway with a message, beside its description and the programs that read by the clients.
async fn gateway_with_a_message() -> TestGateway {
    let gateway = TestGateway::start().await;
    let (to, raw) = (["support@agents.example"], signed("for clients"));
    assert!(gateway.send("alice@good.example", &to, &raw).await.accepted());
    let served = http::get(&format!("http://{}/api/v2/openapi.json", gateway.http)).await;
    std::fs::write(gateway.folder.path().join("openapi.json"), served.body).unwrap();
    for file in ["read_messages.py", "read_messages.ts", "tsconfig.json"] {
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/support/generated");
        std::fs::copy(programs.join(file), gateway.folder.path().join(file)).unwrap();
    }
    gateway
}

/// A tool that `scripts/test` installs.
fn tool(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools").join(path)
}

/// Output of a program that runs in the gateway's folder and must succeed.
async fn said(gateway: &TestGateway, program: impl AsRef<Path>, arguments: &[&str]) -> String {
    let mut command = Command::new(program.as_ref());
    command.args(arguments).current_dir(gateway.folder.path());
    let (is_fine, text) = run(command).await;
    assert!(is_fine, "{} {arguments:?}: {text}", program.as_ref().display());
    text
}

/// The message is read by its types, and a key that is missing is an error of the description.
async fn reads(gateway: &TestGateway, program: impl AsRef<Path>, file: &str, null: &str) {
    let base = format!("http://{}/api/v2", gateway.http);
    let text = said(gateway, program, &[file, &base, &gateway.key]).await;
    let message = gateway.messages().await.remove(0);
    let [uuid, timestamp] = ["uuid", "timestamp"].map(|name| message[name].to_string());
    let uuid = uuid.trim_matches('"');
    assert_eq!(text, format!("{uuid} {timestamp} Alice Example {null}\nunauthorized\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn openapi_python_client_makes_a_client_that_reads_messages() {
    let gateway = gateway_with_a_message().await;
    let python = tool("python/bin/python");
    // It formats what it makes, unless it is told not to.
    std::fs::write(gateway.folder.path().join("client.yaml"), "post_hooks: []\n").unwrap();
    let make = ["-m", "openapi_python_client", "generate", "--path", "openapi.json"];
    let how = ["--config", "client.yaml", "--meta", "none", "--output-path", "gatepost_client"];
    said(&gateway, &python, &[&make[..], &how, &["--fail-on-warning"]].concat()).await;
    said(&gateway, &python, &["-m", "mypy", "read_messages.py"]).await;
    reads(&gateway, &python, "read_messages.py", "None").await;
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn openapi_ts_makes_a_client_that_reads_messages() {
    let gateway = gateway_with_a_message().await;
    let make = tool("node/node_modules/.bin/openapi-ts");
    said(&gateway, make, &["-i", "openapi.json", "-o", "client"]).await;
    said(&gateway, tool("node/node_modules/.bin/tsc"), &["-p", "."]).await;
    reads(&gateway, "node", "made/read_messages.js", "null").await;
    gateway.finish().await;
}
