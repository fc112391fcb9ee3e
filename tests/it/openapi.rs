//! The description of the API: it is valid OpenAPI 3.1 by its published schema, it is served to
//! everybody, and a running server keeps to it whatever a generator of requests makes of it.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;

use crate::support::python::interpreter;
use crate::support::{TestGateway, http, signed};

/// Bounds the generator; it is done in a part of it.
const PATIENCE: Duration = Duration::from_secs(600);

/// What it holds against: what a server may never do, and what each operation declares.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_schema_conformance";

/// Events are not waited for: the generator would, again and again.
const RULES: &str = "[rates]\nreads_per_minute = 0\nwrites_per_minute = 0\n\
                     keyless_per_minute = 0\n[events]\nmax_wait_seconds = 1\n";

async fn run(mut command: Command) -> (bool, String) {
    let command = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = tokio::time::timeout(PATIENCE, command).await.expect("it ends in time").unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[tokio::test]
async fn the_description_is_valid_openapi() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/openapi.json");
    let mut command = Command::new(interpreter());
    command.args(["-m", "openapi_spec_validator", "--schema", "3.1"]).arg(file);
    let (is_valid, text) = run(command).await;
    assert!(is_valid, "{text}");
}

#[tokio::test]
async fn everybody_reads_the_description() {
    let gateway = TestGateway::start().await;
    let served = http::get(&format!("http://{}/api/v2/openapi.json", gateway.http)).await;
    assert_eq!(served.headers["content-type"], "application/json");
    let served: Value = serde_json::from_slice(&served.body).unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/openapi.json");
    let published: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert_eq!(
        served["paths"].as_object().unwrap().len(),
        published["paths"].as_object().unwrap().len()
    );
    assert_eq!(served["info"], published["info"]);
    let page = http::get(&format!("http://{}/docs", gateway.http)).await;
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    gateway.finish().await;
}

/// Threats: nothing that anybody sends is answered with a mistake of ours.
#[tokio::test]
async fn a_server_keeps_to_its_description_whatever_is_sent() {
    let gateway = TestGateway::with_rules(&[("access.toml", RULES)]).await;
    for subject in ["one", "two", "three"] {
        let (to, raw) = (["support@agents.example"], signed(subject));
        assert!(gateway.send("alice@good.example", &to, &raw).await.accepted(), "{subject}");
    }
    let config = gateway.folder.path().join("schemathesis.toml");
    let text = format!(
        "[auth.openapi.token]\napi_key = \"{}\"\n[warnings]\nenabled = false\n",
        gateway.key
    );
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new(interpreter());
    command
        .args(["-m", "schemathesis.cli", "--config-file"])
        .arg(&config)
        .arg("run")
        .arg(format!("http://{}/api/v2/openapi.json", gateway.http))
        .args(["--checks", CHECKS, "--phases", "examples,coverage,fuzzing"])
        .args(["--max-examples", "8", "--seed", "1", "--generation-deterministic"])
        .args(["--generation-database", "none", "--no-shrink", "--request-timeout", "30"])
        .args(["--max-time", "240", "--continue-on-failure", "--no-color"]);
    let (is_fine, text) = run(command).await;
    assert!(is_fine, "{text}");
    assert!(!text.contains(&gateway.key), "the key is in what it writes");
    gateway.finish().await;
}
