//! `gatepost events` and `gatepost webhook`, beside a server.

use std::process::Stdio;

use gatepost::testkit::receiver::{Received, Reply};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::support::attempts::readdress;
use crate::support::process::{GATEPOST, gatepost};
use crate::support::{PATIENCE, TestGateway, canary, signed};

const FROM: &str = "alice@good.example";
const TO: [&str; 1] = ["support@agents.example"];

/// The exit code of a command on the store of `gateway`, and all that it said.
async fn told(gateway: &TestGateway, words: &[&str]) -> (Option<i32>, String) {
    let flags = gateway.store_flags();
    let mut all = words.to_vec();
    all.extend(flags.iter().map(String::as_str));
    let output = gatepost(gateway.folder.path(), &all).await;
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

/// The JSON values that a successful command printed, one a line.
async fn values(gateway: &TestGateway, words: &[&str]) -> Vec<Value> {
    let (code, said) = told(gateway, &[words, &["--json"]].concat()).await;
    assert_eq!(code, Some(0), "{words:?}: {said}");
    said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn follow(gateway: &TestGateway, words: &[&str]) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut child = Command::new(GATEPOST)
        .args(["events", "--follow"])
        .args(words)
        .args(gateway.store_flags())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines)
}

async fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    let line = timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().unwrap();
    canary::note(line.as_bytes());
    line
}

/// Shows what was there, then what comes, each once, and ends by Ctrl-C.
async fn events_are_shown_and_followed(gateway: TestGateway) {
    assert!(gateway.send(FROM, &TO, &signed("the first")).await.accepted());
    let received = gateway.receiver.wait_for(1, PATIENCE).await.unwrap();
    let name = ["events", "--event", "email.received"];
    let shown = values(&gateway, &name).await;
    let expected: Value = serde_json::from_slice(&received[0].body).unwrap();
    assert_eq!(shown.len(), 1, "{shown:?}");
    for place in ["/id", "/event", "/data/message/uuid", "/subject"] {
        assert_eq!(shown[0].pointer(place), expected.pointer(place), "{place}");
    }
    let id = shown[0]["id"].as_str().unwrap();
    let (_, line) = told(&gateway, &name).await;
    assert!(line.starts_with(&format!("{id}  2")) && line.contains("subject the first"), "{line}");
    for (words, nothing) in [
        (["events", "--event", "webhook.disabled"].as_slice(), true),
        (&["events", "--after", id, "--event", "email.received"], true),
        (&["events", "support@agents.example", "--event", "email.received"], false),
        (&["events", "--since", "2d", "--event", "email.received"], false),
    ] {
        assert_eq!(values(&gateway, words).await.is_empty(), nothing, "{words:?}");
    }

    let (mut child, mut lines) = follow(&gateway, &["--since", "1h", "--event", "email.received"]);
    assert!(next(&mut lines).await.contains("subject the first"));
    for subject in ["the second", "the third"] {
        assert!(gateway.send(FROM, &TO, &signed(subject)).await.accepted());
        let line = next(&mut lines).await;
        assert!(
            line.contains(&format!("email.received  from {FROM}, subject {subject}")),
            "{line}"
        );
    }
    let process = child.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-INT", &process]).status().await.unwrap().success());
    assert_eq!(timeout(PATIENCE, child.wait()).await.unwrap().unwrap().code(), Some(0));

    let nobody = uuid::Uuid::max().to_string();
    for (words, code, part) in [
        (["events", "--after", &nobody].as_slice(), 1, "unknown or expired event"),
        (&["events", "--after", "1"], 2, "not the id of an event"),
        (&["events", "--since", "yesterday"], 2, "like 10m, 3h or 2d"),
        (&["events", "--event", "email.recieved"], 2, "email.recieved"),
    ] {
        let (ended, said) = told(&gateway, words).await;
        assert!(ended == Some(code) && said.contains(part), "{words:?}: {said}");
    }
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_shown_and_followed_on_sqlite() {
    events_are_shown_and_followed(TestGateway::start().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_shown_and_followed_on_postgres() {
    events_are_shown_and_followed(TestGateway::on_postgres().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_listed_tested_and_gets_events_again() {
    let mut gateway = TestGateway::start().await;
    let hooks = values(&gateway, &["webhook", "list"]).await;
    let of_api = gateway.get("/webhooks").await;
    let account = of_api["webhooks"][0]["userId"].to_string();
    assert_eq!(hooks, [of_api["webhooks"].clone()]);
    assert_eq!(values(&gateway, &["webhook", "list", &account]).await, hooks);
    assert_eq!(values(&gateway, &["webhook", "list", TO[0]]).await, [json!([])]);
    let id = hooks[0][0]["id"].as_str().unwrap();
    let (_, line) = told(&gateway, &["webhook", "list"]).await;
    assert!(line.starts_with(id) && line.ends_with("  in use\n"), "{line}");

    let tested = values(&gateway, &["webhook", "test", id]).await;
    assert_eq!(tested[0]["status"], 200);
    let received = gateway.receiver.wait_for(1, PATIENCE).await.unwrap();
    assert_eq!(received[0].headers["webhook-id"], tested[0]["event"]["id"].as_str().unwrap());
    assert!(gateway.send(FROM, &TO, &signed("again")).await.accepted());
    gateway.receiver.wait_for(2, PATIENCE).await.unwrap();
    gateway.counts("SELECT COUNT(*) FROM deliveries WHERE state = 'pending'", 0).await;
    let (code, said) = told(&gateway, &["webhook", "replay", id, "--since", "1h", "--all"]).await;
    assert!(code == Some(0) && said.contains("all events since "), "{said}");
    let received = gateway.receiver.wait_for(3, PATIENCE).await.unwrap();
    let is_mail = |one: &&Received| {
        serde_json::from_slice::<Value>(&one.body).unwrap()["event"] == "email.received"
    };
    let mail = received.iter().filter(is_mail);
    let ids: Vec<_> = mail.map(|one| &one.headers["webhook-id"]).collect();
    assert_eq!(ids.len(), 2, "{ids:?}");
    assert_eq!(ids[0], ids[1]);
    gateway.receiver.script([Reply::status(500)]);
    let (code, said) = told(&gateway, &["webhook", "test", id]).await;
    assert!(code == Some(1) && said.contains(" answered 500"), "{said}");
    let (_, line) = told(&gateway, &["webhook", "list"]).await;
    assert!(line.contains("  failing since ") && line.contains(", failures: "), "{line}");

    let nobody = uuid::Uuid::nil().to_string();
    for (words, code, part) in [
        (["webhook", "test", &nobody].as_slice(), 1, "no webhook 0000"),
        (&["webhook", "replay", id], 2, "--since"),
        (&["webhook", "replay", "1", "--since", "1h"], 2, "gatepost webhook list"),
        (&["webhook", "replay", id, "--since", "2999-01-01"], 1, "lies in the future"),
    ] {
        let (ended, said) = told(&gateway, words).await;
        assert!(ended == Some(code) && said.contains(part), "{words:?}: {said}");
    }
    gateway.stop().await;
    let (code, said) = told(&gateway, &["webhook", "test", id, "--wait", "0"]).await;
    assert!(code == Some(1) && said.contains("check that a server runs"), "{said}");
    // A webhook that cannot be read is not a missing one.
    let label = hooks[0][0]["label"].as_str().unwrap().to_owned();
    readdress(&gateway.folder.path().join("store"), &[(label, "no URL".to_owned())]).await;
    let (code, said) = told(&gateway, &["webhook", "test", id]).await;
    assert!(
        code == Some(1) && said.contains("destinations") && !said.contains("no webhook"),
        "{said}"
    );
    gateway.finish().await;
}
