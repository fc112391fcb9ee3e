//! The log of a server: what an operator finds in it, and how it is set.

use std::net::SocketAddr;
use std::path::Path;

use gatepost::rules::Rules;
use gatepost::run::rules as all_rules;
use gatepost::store::Location;
use gatepost::testkit::receiver::Reply;
use gatepost::testkit::smtp_client::{Transaction, deliver};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::mcp::Mcp;
use crate::support::ports::free_port;
use crate::support::process::{Server, failing, gatepost};
use crate::support::site::Site;
use crate::support::{PATIENCE, http, rules, signed};

const TO: &str = "support@agents.example";

fn lines(log: &str, message: &str) -> Vec<Value> {
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let fields = lines.map(|line| {
        let mut fields = line["fields"].clone();
        fields["level"] = line["level"].clone();
        fields
    });
    fields.filter(|fields| fields["message"] == message).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_attempts_start_and_end_have_a_line_each() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("store");
    let site = Site::build(&Location::Folder(data.clone()), &all_rules(None).unwrap()).await;
    site.leave_store().await;
    site.receiver.script([Reply::status(500)]);
    let log = folder.path().join("log");
    let arguments = ["--log-json", "--log-level", "info"];
    let server = Server::start_logging(&data, site.dns.addr(), &arguments, &log).await;
    let said: Value = serde_json::from_str(&server.said).unwrap();
    assert_eq!(said["message"], "gatepost is ready");
    assert_eq!(said["smtp"], json!(server.smtp));
    let send = async |from: &str, raw: &[u8]| {
        let to = [TO.to_owned()];
        let sent = Transaction { helo: "client.example", from, to: &to, raw };
        deliver(server.smtp, &sent).await.unwrap().accepted()
    };
    assert!(send("alice@good.example", &signed("canary-subject")).await);
    assert!(!send("eve@evil.example", b"From: eve@evil.example\r\n\r\ncanary-text\r\n").await);
    site.receiver.wait_for(1, PATIENCE).await.unwrap();
    assert_eq!(server.terminate().await, 0);

    let log = std::fs::read_to_string(log).unwrap();
    let decided = lines(&log, "message decided");
    let outcomes: Vec<_> = decided.iter().map(|line| &line["outcome"]).collect();
    assert_eq!(outcomes, ["accepted", "refused"], "{log}");
    assert_eq!(decided[1]["reason"], "dkim_missing");
    for line in &decided {
        assert_eq!(line["level"], "INFO");
        let names = ["record.id", "agent.id", "bytes", "took_ms", "recipients", "client.address"];
        for name in names {
            assert!(!line[name].is_null(), "{name} is not in {line}");
        }
    }
    // The session logs neither again: a message has one line.
    let of_client = log.lines().filter(|line| line.contains("client.address"));
    assert_eq!(of_client.count(), 2, "{log}");
    let attempts = lines(&log, "webhook attempt ended");
    assert_eq!((&attempts[0]["level"], &attempts[0]["http.status"]), (&json!("WARN"), &json!(500)));
    let serves = lines(&log, "gatepost serves");
    assert_eq!(serves[0]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(serves[0]["store"], data.to_str().unwrap());
    for (name, start) in [("database", "SQLite 3."), ("certificates", "smtp until ")] {
        assert!(serves[0][name].as_str().unwrap().starts_with(start), "{}", serves[0]);
    }
    assert_eq!(lines(&log, "gatepost has stopped").len(), 1);
    for canary in ["canary", &site.key, &site.secret] {
        assert!(!log.contains(canary), "{canary} is in the log");
    }
    site.finish().await;
}

const KEY: &str = "s1._domainkey.good.example";

/// A site whose DNS has no answer for the key of the sender.
async fn without_answers(data: &Path, rules: &Rules) -> Site {
    let site = Site::build(&Location::Folder(data.to_owned()), rules).await;
    site.leave_store().await;
    site.dns.change(|zone| {
        zone.remove(KEY, "TXT").unwrap();
        zone.insert(KEY, "TXT", "TIMEOUT", "").unwrap();
    });
    site
}

/// Sends a message of that sender; it must be deferred.
async fn put_off(smtp: SocketAddr, raw: &[u8]) {
    let to = [TO.to_owned()];
    let from = "alice@good.example";
    let sent = Transaction { helo: "client.example", from, to: &to, raw };
    let reply = deliver(smtp, &sent).await.unwrap();
    assert!(!reply.accepted(), "{reply:?}");
}

/// A message on which there is no answer in time is deferred, and counted and logged like others.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_without_an_answer_in_time_has_its_line_and_counts() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("store");
    let rules = rules(folder.path(), &[("smtp.toml", "[deadlines]\nanswer_seconds = 1\n")]);
    let site = without_answers(&data, &rules).await;
    let log = folder.path().join("log");
    let policies = folder.path().join("policies").display().to_string();
    let metrics = format!("127.0.0.1:{}", free_port());
    let arguments = ["--log-json", "--policies", &policies, "--metrics", &metrics];
    let server = Server::start_logging(&data, site.dns.addr(), &arguments, &log).await;
    let raw = signed("canary-subject");
    put_off(server.smtp, &raw).await;
    let counted = http::get(&format!("http://{metrics}/metrics")).await.text();
    let line = r#"gatepost_messages_total{outcome="deferred",reason="store_unavailable"} 1"#;
    assert!(counted.contains(line), "{counted}");
    assert_eq!(server.terminate().await, 0);
    let log = std::fs::read_to_string(log).unwrap();
    let decided = lines(&log, "message decided");
    assert_eq!(decided.len(), 1, "{log}");
    assert_eq!(decided[0]["outcome"], "deferred");
    assert_eq!(decided[0]["reason"], "store_unavailable");
    assert!(decided[0]["took_ms"].as_u64().unwrap() >= 1_000, "{}", decided[0]);
    assert_eq!(decided[0]["bytes"], raw.len());
    site.finish().await;
}

/// It is no refused command as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_a_stop_cuts_while_it_is_decided_has_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("store");
    let site = without_answers(&data, &all_rules(None).unwrap()).await;
    let log = folder.path().join("log");
    let arguments = ["--log-json", "--grace-seconds", "0"];
    let server = Server::start_logging(&data, site.dns.addr(), &arguments, &log).await;
    let (smtp, raw) = (server.smtp, signed("canary-subject"));
    let stopping = async {
        let asked = async {
            while site.dns.queries_for(KEY) == 0 {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, asked).await.unwrap();
        server.terminate().await
    };
    let ((), ended) = tokio::join!(put_off(smtp, &raw), stopping);
    assert_eq!(ended, 0);
    let log = std::fs::read_to_string(log).unwrap();
    let decided = lines(&log, "message decided");
    assert_eq!((decided.len(), &decided[0]["outcome"]), (1, &json!("deferred")), "{log}");
    assert!(lines(&log, "command refused").is_empty(), "{log}");
    site.finish().await;
}

/// The SDK of MCP would log each request, with what it asks for, and each answer.
#[tokio::test(flavor = "multi_thread")]
async fn no_filter_brings_what_tools_are_asked_for_into_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("store");
    let site = Site::build(&Location::Folder(data.clone()), &all_rules(None).unwrap()).await;
    site.leave_store().await;
    let log = folder.path().join("log");
    let modules =
        ["", "::service", "::handler::server", "::transport::streamable_http_server::tower"];
    let filter = modules.map(|module| format!("rmcp{module}=trace")).join(",");
    let arguments = ["--log-filter", &format!("gatepost=info,{filter}")];
    let server = Server::start_logging(&data, site.dns.addr(), &arguments, &log).await;
    let to = [TO.to_owned()];
    let raw = signed("canary-subject");
    let from = "alice@good.example";
    let sent = Transaction { helo: "client.example", from, to: &to, raw: &raw };
    assert!(deliver(server.smtp, &sent).await.unwrap().accepted());
    let mcp = Mcp::of(server.http, &site.key);
    mcp.done("search_messages", json!({ "query": "canary-query" })).await;
    let shown = mcp.done("recent_messages", json!({})).await;
    assert!(shown.to_string().contains("canary-subject"));
    mcp.failed("read_message", json!({ "uuid": "canary-uuid" })).await;
    assert_eq!(server.terminate().await, 0);
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("/mcp"), "{log}");
    for canary in ["canary", "rmcp", &site.key] {
        assert!(!log.contains(canary), "{canary} is in the log: {log}");
    }
    site.finish().await;
}

/// An API in clear is for this machine, or behind a proxy with TLS that the settings name.
#[tokio::test(flavor = "multi_thread")]
async fn an_api_in_clear_beyond_the_machine_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("store");
    let site = Site::build(&Location::Folder(data.clone()), &all_rules(None).unwrap()).await;
    site.leave_store().await;
    for (arguments, warned) in [
        (&["--http", "0.0.0.0:0"][..], true),
        (&["--http", "0.0.0.0:0", "--public-url", "https://api.example"], false),
        (&["--http", "127.0.0.1:0"], false),
    ] {
        let log = folder.path().join("log");
        let arguments = [&["--log-json"], arguments].concat();
        let server = Server::start_logging_at(&data, site.dns.addr(), &arguments, &log).await;
        assert_eq!(server.terminate().await, 0);
        let text = std::fs::read_to_string(&log).unwrap();
        assert_eq!(text.contains("beyond this machine"), warned, "{arguments:?}: {text}");
        std::fs::remove_file(&log).unwrap();
    }
    site.finish().await;
}

#[tokio::test]
async fn a_filter_that_is_none_is_refused_with_an_example() {
    let folder = tempfile::tempdir().unwrap();
    let said = failing(folder.path(), &["serve", "--log-filter", "gatepost=loud"]).await;
    assert!(said.contains("\"gatepost=loud\" is no filter of the log"), "{said}");
    assert!(said.contains("ROOM=LEVEL"), "{said}");
}

/// A collector reads each line, also the last one of a server that cannot start.
#[tokio::test]
async fn the_file_of_settings_makes_the_log_json_to_its_last_line() {
    let folder = tempfile::tempdir().unwrap();
    let settings = "smtp = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\n[log]\njson = true\n";
    std::fs::write(folder.path().join("own.toml"), settings).unwrap();
    let arguments = ["serve", "--config", "own.toml", "--data", "missing"];
    let output = gatepost(folder.path(), &arguments).await;
    assert_eq!(output.status.code(), Some(1));
    let log = String::from_utf8(output.stderr).unwrap();
    let ended = lines(&log, "the server has ended");
    assert_eq!(ended[0]["level"], "ERROR");
    assert!(ended[0]["error"].as_str().unwrap().contains("there is no store"), "{log}");

    std::fs::write(folder.path().join("own.toml"), "[log]\nlevel = \"loud\"\n").unwrap();
    let said = failing(folder.path(), &arguments).await;
    assert!(said.contains("own.toml") && said.contains("loud"), "{said}");
}
