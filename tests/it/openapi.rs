//! The description of the API: it is valid OpenAPI 3.1 by its published schema, it is served to
//! everybody, and a running server keeps to it whatever a generator of requests makes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::python::interpreter;
use crate::support::{TestGateway, http, signed};

/// Bounds the generator, which takes minutes where many tests share a core.
const PATIENCE: Duration = Duration::from_secs(1800);

/// The checks: faults that no server may have, and the declarations of each operation.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_schema_conformance";

/// Events are not waited for: the generator would, again and again.
const RULES: &str = "[rates]\nreads_per_minute = 0\nwrites_per_minute = 0\n\
                     keyless_per_minute = 0\n[events]\nmax_wait_seconds = 1\n";

/// Whether a program succeeds, and all that it says.
pub async fn run(mut command: Command) -> (bool, String) {
    let command = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = tokio::time::timeout(PATIENCE, command).await.expect("it ends in time").unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[tokio::test]
async fn everybody_reads_the_description_which_is_valid_openapi() {
    let gateway = TestGateway::start().await;
    let served = http::get(&format!("http://{}/api/v2/openapi.json", gateway.http)).await;
    assert_eq!(served.headers["content-type"], "application/json");
    let file = gateway.folder.path().join("openapi.json");
    std::fs::write(&file, &served.body).unwrap();
    let mut command = Command::new(interpreter());
    command.args(["-m", "openapi_spec_validator", "--schema", "3.1"]).arg(file);
    let (is_valid, text) = run(command).await;
    assert!(is_valid, "{text}");
    let page = http::get(&format!("http://{}/docs", gateway.http)).await;
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'self'; "), "{policy}");
    gateway.finish().await;
}

/// Returns pairs of an example in the description and the value that takes its place: an Agent that
/// has mail, that mail, its room and its session. Without them the generator would ask only for
/// missing things.
async fn examples(gateway: &TestGateway) -> Vec<(Value, Value)> {
    let agent = gateway.house.agents["support"].id;
    let mail = gateway.messages().await.remove(0);
    assert_eq!(mail["to"], agent.get(), "{mail}");
    let sessions = gateway.get("/computer/sessions").await;
    let uuid = "019a9e5c-7c80-7000-8000-000000000001";
    vec![
        (json!(7), json!(agent.get())),
        (json!("7"), json!(agent.to_string())),
        (json!(uuid), mail["uuid"].clone()),
        (json!("41:7"), mail["roomId"].clone()),
        (json!(format!("41:7:{uuid}")), sessions["sessions"][0]["sessionKey"].clone()),
    ]
}

/// Puts these in the places of examples.
fn settle(value: &mut Value, known: &[(Value, Value)], is_example: bool) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                let is_example = is_example || ["example", "examples"].contains(&name.as_str());
                settle(inner, known, is_example);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|one| settle(one, known, is_example)),
        scalar if is_example => {
            if let Some((_, here)) = known.iter().find(|(there, _)| there == scalar) {
                *scalar = here.clone();
            }
        }
        _ => {}
    }
}

/// The operations of a document, as the generator calls them.
fn operations(document: &Value) -> BTreeSet<String> {
    let paths = document["paths"].as_object().unwrap();
    let of = |(path, methods): (&String, &Value)| {
        let methods = methods.as_object().unwrap().keys().filter(|name| *name != "parameters");
        methods.map(|name| format!("{} {path}", name.to_uppercase())).collect::<Vec<_>>()
    };
    paths.iter().flat_map(of).collect()
}

/// Runs the generator; returns the statuses of each operation.
async fn generate(gateway: &TestGateway, name: &str, which: [&str; 2]) -> Statuses {
    let at = |file: &str| gateway.folder.path().join(format!("{name}.{file}"));
    let mut command = Command::new(interpreter());
    command.args(["-m", "schemathesis.cli", "--config-file"]);
    command.arg(gateway.folder.path().join("schemathesis.toml")).arg("run");
    command.arg(gateway.folder.path().join("openapi.json")).args(which);
    command.arg("--url").arg(format!("http://{}/api/v2", gateway.http));
    // Without a time limit of its own, which would be spent on repetitions and end in peace.
    command.args(["--checks", CHECKS, "--phases", "examples,coverage,fuzzing"]);
    command.args(["--max-examples", "3", "--seed", "1", "--generation-deterministic"]);
    command.args(["--no-shrink", "--request-timeout", "30", "--continue-on-failure"]);
    command.args(["--no-color", "--report", "json,ndjson", "--report-json-path"]);
    command.arg(at("json")).arg("--report-ndjson-path").arg(at("ndjson"));
    let (is_fine, text) = run(command).await;
    assert!(is_fine, "{name}: {text}");
    assert!(!text.contains(&gateway.key), "the key is in what it writes");
    let report: Value = serde_json::from_slice(&std::fs::read(at("json")).unwrap()).unwrap();
    assert_eq!(report["stop_reason"], "completed", "{report}");
    let counts = &report["operations"];
    assert_eq!(counts["tested"], counts["selected"], "{counts}");
    let events = std::fs::read_to_string(at("ndjson")).unwrap();
    let mut statuses = Statuses::new();
    for event in events.lines().filter(|line| !line.is_empty()) {
        let event: Value = serde_json::from_str(event).unwrap();
        let Some(recorder) = event.pointer("/ScenarioFinished/recorder") else { continue };
        let label = recorder["label"].as_str().unwrap().to_owned();
        let answered = recorder["interactions"].as_object().unwrap().values();
        let answered = answered.filter_map(|one| one.pointer("/response/status_code")?.as_u64());
        statuses.entry(label).or_default().extend(answered);
    }
    assert_eq!(counts["tested"], statuses.len(), "{counts}: {statuses:?}");
    statuses
}

type Statuses = BTreeMap<String, BTreeSet<u64>>;

/// Threats: nothing that anybody sends is answered with a mistake of ours.
#[tokio::test]
async fn a_server_keeps_to_its_description_whatever_is_sent() {
    let gateway = TestGateway::with_rules(&[("access.toml", RULES)]).await;
    for subject in ["one", "two", "three"] {
        let (to, raw) = (["support@agents.example"], signed(subject));
        assert!(gateway.send("alice@good.example", &to, &raw).await.accepted(), "{subject}");
    }
    let config = format!(
        "[auth.openapi.token]\napi_key = \"{}\"\n[warnings]\nenabled = false\n",
        gateway.key
    );
    std::fs::write(gateway.folder.path().join("schemathesis.toml"), config).unwrap();
    let served = http::get(&format!("http://{}/api/v2/openapi.json", gateway.http)).await;
    let mut document: Value = serde_json::from_slice(&served.body).unwrap();
    settle(&mut document, &examples(&gateway).await, false);
    let file = gateway.folder.path().join("openapi.json");
    std::fs::write(file, document.to_string()).unwrap();
    // Deletions go last, because the other operations need accounts, keys and mail.
    let others = generate(&gateway, "others", ["--exclude-method", "DELETE"]).await;
    gateway.get("/account").await;
    let taking = generate(&gateway, "taking", ["--include-method", "DELETE"]).await;
    let tested: BTreeSet<String> = others.keys().chain(taking.keys()).cloned().collect();
    assert_eq!(tested, operations(&document), "every one of them is asked");
    // Most are about things that are there; what is not, needs an id that nobody made here, or the
    // key of a reseller.
    let good = |all: &BTreeSet<u64>| all.iter().any(|status| (200..300).contains(status));
    let without: Vec<_> = others.iter().filter(|(_, all)| !good(all)).collect();
    assert!(2 * without.len() < others.len(), "no success of {without:#?}");
    gateway.finish().await;
}
