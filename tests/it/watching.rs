//! `gatepost events` and `gatepost webhook`, beside a server.

use std::process::Stdio;

use gatepost::run;
use gatepost::store::DestinationChange;
use gatepost::testkit::receiver::{Received, Reply};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::store::scene::{by, database, open};
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
        (&["events", "--follow", "--since", "2999-01-01"], 1, "lies in the future"),
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
async fn no_event_before_its_time_is_shown() {
    let gateway = TestGateway::start().await;
    assert!(gateway.send(FROM, &TO, &signed("long ago")).await.accepted());
    let mut database = database(&gateway.folder.path().join("store")).await;
    let older = "UPDATE events SET at = at - 65 * 60000";
    sqlx::query(older).execute(&mut database).await.unwrap();
    for (words, nothing) in [(["events"].as_slice(), true), (&["events", "--since", "2h"], false)] {
        assert_eq!(values(&gateway, words).await.is_empty(), nothing, "{words:?}");
    }
    // The organization of a contact and the account of a member are told, too.
    let organization = gateway.house.organization.id.to_string();
    let invited = json!({ "email": "carol@good.example", "role": "member" });
    let (status, answer) = gateway.request("POST", "/member", Some(invited)).await;
    assert_eq!(status, 201, "{answer}");
    for name in ["contact.created", "member.invited"] {
        let (_, line) = told(&gateway, &["events", "--since", "2h", "--event", name]).await;
        assert_eq!(line.split("  ").nth(2), Some(organization.as_str()), "{line}");
    }
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_goes_on_behind_what_retention_took() {
    let gateway = TestGateway::start().await;
    assert!(gateway.send(FROM, &TO, &signed("the first")).await.accepted());
    let words = ["--since", "1h", "--event", "email.received", "--json"];
    let (_child, mut lines) = follow(&gateway, &words);
    let first: Value = serde_json::from_str(&next(&mut lines).await).unwrap();
    gateway.counts("SELECT COUNT(*) FROM deliveries WHERE state = 'pending'", 0).await;
    let mut database = database(&gateway.folder.path().join("store")).await;
    for table in ["attempts", "deliveries", "events"] {
        let cut = sqlx::AssertSqlSafe(format!("DELETE FROM {table}"));
        sqlx::query(cut).execute(&mut database).await.unwrap();
    }
    assert!(gateway.send(FROM, &TO, &signed("the second")).await.accepted());
    let second: Value = serde_json::from_str(&next(&mut lines).await).unwrap();
    assert_eq!(second["subject"], "the second");
    // A place that is gone is before the oldest event that is kept.
    let id = first["id"].as_str().unwrap();
    let behind = values(&gateway, &["events", "--after", id, "--event", "email.received"]).await;
    assert_eq!(behind.iter().map(|one| &one["id"]).collect::<Vec<_>>(), [&second["id"]]);
    gateway.finish().await;
}

/// Nothing comes, so that it learns of the end by nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_ends_with_its_reader_its_account_or_a_signal() {
    let gateway = TestGateway::start().await;
    let agent = gateway.house.agents["support"].id.to_string();
    // The only event of this name below it.
    let created = [&agent, "--since", "1h", "--event", "account.created"];
    let (mut reading, mut lines) = follow(&gateway, &created);
    next(&mut lines).await;
    drop(lines);
    let code = async |child: &mut Child| timeout(PATIENCE, child.wait()).await.unwrap().unwrap();
    assert_eq!(code(&mut reading).await.code(), Some(0));

    let (mut stopped, mut lines) = follow(&gateway, &created);
    next(&mut lines).await;
    let process = stopped.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-TERM", &process]).status().await.unwrap().success());
    assert_eq!(code(&mut stopped).await.code(), Some(0));

    let words =
        [&agent, "--since", "1h", "--event", "account.created", "--event", "account.deleted"];
    let (mut deleted, mut lines) = follow(&gateway, &words);
    assert!(next(&mut lines).await.contains("account.created"));
    gateway.tenancy.delete_account(gateway.house.agents["support"].id, false).await.unwrap();
    assert!(next(&mut lines).await.contains("account.deleted"));
    assert_eq!(code(&mut deleted).await.code(), Some(1));
    for words in [["events", &agent].as_slice(), &["webhook", "list", &agent]] {
        let (ended, said) = told(&gateway, words).await;
        assert!(ended == Some(1) && said.contains("there is no account"), "{words:?}: {said}");
    }
    gateway.finish().await;
}

/// Events without a place, and no server that gives them one.
#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_is_shown_to_its_end_on_postgres() {
    let slow = "[events]\nplace_at_once = 1\nplace_batches = 1\nplace_pause_millis = 60000\n";
    let mut gateway = TestGateway::on_postgres_with(&[("access.toml", slow)]).await;
    for number in 0..9 {
        let message = signed(&format!("number {number}"));
        assert!(gateway.send(FROM, &TO, &message).await.accepted());
    }
    gateway.stop().await;
    let quick = "[events]\nplace_at_once = 1\nplace_batches = 1\nplace_pause_millis = 1\n";
    let folder = gateway.folder.path();
    std::fs::write(folder.join("policies/access.toml"), quick).unwrap();
    std::fs::write(folder.join("gatepost.toml"), "policies = \"policies\"\n").unwrap();
    let shown = values(&gateway, &["events", "--event", "email.received"]).await;
    assert_eq!(shown.len(), 9, "{shown:?}");
    gateway.finish().await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_test_of_a_webhook_ends_with_it() {
    let mut gateway = TestGateway::start().await;
    let hooks = values(&gateway, &["webhook", "list"]).await;
    let id = hooks[0][0]["id"].as_str().unwrap();
    gateway.stop().await;
    let account = gateway.house.organization.id;
    let disabled = async {
        gateway.counts("SELECT COUNT(*) FROM deliveries WHERE state = 'pending'", 1).await;
        let store = open(&gateway.folder.path().join("store")).await;
        let change = DestinationChange { disabled: Some(true), ..Default::default() };
        let act = by(run::system_mint().clock().now());
        store.update_destination(account, id.parse().unwrap(), &change, act).await.unwrap()
    };
    let test = ["webhook", "test", id];
    let ((ended, said), _) = tokio::join!(told(&gateway, &test), disabled);
    assert!(ended == Some(1) && said.contains("removed or disabled before"), "{said}");
    let (_, line) = told(&gateway, &["webhook", "list"]).await;
    assert!(line.contains("  disabled since 2"), "{line}");
    let replay = ["webhook", "replay", id, "--since", "1h"];
    for words in [test.as_slice(), &replay] {
        let (ended, said) = told(&gateway, words).await;
        assert!(ended == Some(1) && said.contains("this webhook is disabled"), "{words:?}: {said}");
    }
    gateway.tenancy.delete_account(account, true).await.unwrap();
    for words in [test.as_slice(), &replay] {
        let (ended, said) = told(&gateway, words).await;
        assert!(ended == Some(1) && said.contains("no webhook"), "{words:?}: {said}");
    }
    assert_eq!(values(&gateway, &["webhook", "list"]).await, [json!([])]);
    gateway.finish().await;
}
