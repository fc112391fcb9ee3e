//! The command line, from an empty folder to a delivered message.

use std::path::Path;
use std::process::{Output, Stdio};

use gatepost::shutdown::Shutdown;
use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

use crate::support::process::{GATEPOST, Server};
use crate::support::{PATIENCE, all_messages, fixture, letter, local_dns};

async fn gatepost(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(GATEPOST);
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).kill_on_drop(true);
    timeout(PATIENCE, command.output()).await.unwrap().unwrap()
}

/// Standard output as JSON, of a command that must succeed.
async fn json(folder: &Path, arguments: &[&str]) -> Value {
    let output = gatepost(folder, arguments).await;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn id(value: &Value) -> String {
    value["id"].as_i64().unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn from_nothing_to_a_delivered_message() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let key = set_up(here).await;

    let helpers = Shutdown::default();
    let dns = local_dns(&helpers).await;
    let message = here.join("message.eml");
    std::fs::write(&message, letter("from the command line").replace("\r\n", "\n")).unwrap();
    let signing_key = fixture("keys/s1._domainkey.good.example.pem");
    let server = Server::start(&here.join("gatepost-data"), dns.addr()).await;
    let to = server.smtp.to_string();
    let send = |signed: bool| {
        let mut arguments = vec![
            "send",
            message.to_str().unwrap(),
            "--to",
            "desk+tag@agents.example",
            "--server",
            &to,
        ];
        if signed {
            arguments.extend(["--sign", signing_key.to_str().unwrap()]);
        }
        arguments
    };
    let refused = gatepost(here, &send(false)).await;
    assert_eq!(refused.status.code(), Some(1));
    let reply = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert!(reply.contains("550 5.7.20") && reply.contains("[record "), "{reply}");
    let accepted = gatepost(here, &send(true)).await;
    assert!(accepted.status.success(), "{}", String::from_utf8_lossy(&accepted.stdout));
    let messages = all_messages(server.http, &key).await;
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0]["metadata"]["emailTag"], "tag");
    assert_eq!(server.terminate().await, 0);

    check(here, &dns.addr().to_string()).await;
    assert!(helpers.finish(PATIENCE).await);
}

/// One Agent, desk@agents.example, that admits alice@good.example; answers the partner's key.
async fn set_up(here: &Path) -> String {
    let made = json(here, &["init", "--json"]).await;
    let (partner, key) = (id(&made["account"]), made["key"].as_str().unwrap().to_owned());
    assert!(key.starts_with("gp_"));
    assert!(here.join("gatepost.toml").exists());

    let create = |kind: &'static str, parent: String, name: &'static str| async move {
        let arguments =
            ["account", "create", "--type", kind, "--parent", &parent, "--name", name, "--json"];
        id(&json(here, &arguments).await)
    };
    let reseller = create("reseller", partner.clone(), "Reseller").await;
    let organization = create("organization", reseller, "Acme").await;
    let agent = json(
        here,
        &[
            "account",
            "create",
            "--type",
            "account",
            "--parent",
            &organization,
            "--name",
            "desk",
            "--address",
            "desk@agents.example",
            "--json",
        ],
    )
    .await;
    assert_eq!(agent["organizationId"].to_string(), organization);
    assert_eq!(agent["addresses"][0], "desk@agents.example");
    let agent = id(&agent);
    let domains = json(here, &["domain", "list", "--json"]).await;
    assert_eq!(domains[0]["accountId"].to_string(), organization);

    let allow =
        ["policy", "allow", "--account", &agent, "--address", "Alice@good.example", "--json"];
    let policy = json(here, &allow).await;
    assert_eq!(policy["mode"], "allowlist");
    assert_eq!(policy["allowlist"][0], "alice@good.example");
    key
}

/// `gatepost check` says what the server would.
async fn check(here: &Path, dns: &str) {
    for (case, agent, verdict, code) in [
        ("accepted/plain", "desk@agents.example", "accepted", 0),
        ("accepted/plain", "nobody@agents.example", "", 1),
        ("refused/dkim_missing/unsigned", "desk@agents.example", "refused", 1),
        ("refused/sender_not_allowed/unlisted", "desk@agents.example", "refused", 1),
    ] {
        let file = fixture(&format!("mail/{case}.eml"));
        let arguments = ["check", file.to_str().unwrap(), "--agent", agent, "--dns", dns, "--json"];
        let output = gatepost(here, &arguments).await;
        assert_eq!(output.status.code(), Some(code), "{case}");
        if !verdict.is_empty() {
            let said: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(said["verdict"], verdict, "{case}: {said}");
        }
    }
}

#[tokio::test]
async fn mistakes_are_said_plainly() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    for (arguments, code, words) in [
        (vec!["account", "list"], 1, "gatepost init"),
        (vec!["frobnicate"], 2, "frobnicate"),
        (vec!["account", "create", "--type", "robot", "--parent", "1", "--name", "x"], 2, "robot"),
        (vec!["serve", "--smtp", "everywhere"], 2, "everywhere"),
        (vec!["init", "--name", ""], 1, "a name has 1 to"),
    ] {
        let output = gatepost(here, &arguments).await;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
        assert!(errors.contains(words), "{arguments:?}: {errors}");
    }
    assert!(gatepost(here, &["init"]).await.status.success());
    let again = gatepost(here, &["init"]).await;
    assert_eq!(again.status.code(), Some(1));
    let orphan =
        ["account", "create", "--type", "account", "--parent", "1", "--name", "x", "--json"];
    let output = gatepost(here, &orphan).await;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        errors.contains("hangs below a organization") || errors.contains("organization"),
        "{errors}"
    );
}
