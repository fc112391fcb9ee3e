//! The command line, from an empty folder to a delivered message.

use std::path::Path;
use std::process::Stdio;

use gatepost::domain::address::Address;
use gatepost::domain::audit::Actor;
use gatepost::rules::Rules;
use gatepost::run;
use gatepost::shutdown::Shutdown;
use gatepost::store::{Location, Store};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;

use crate::support::process::{self, GATEPOST, Server, gatepost};
use crate::support::site::Site;
use crate::support::{
    PATIENCE, all_messages, fixture, http, letter, local_dns, postgres, store_rules,
};

/// Standard output as JSON, of a command that must succeed.
async fn answered(folder: &Path, arguments: &[&str]) -> Value {
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
    let data = here.join("gatepost-data");
    let server = Server::start(&data, dns.addr()).await;
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

    let marker = &messages[0]["metadata"]["emailDeliveryMarker"];
    let marker = ["name", "value"].map(|part| marker[part].as_str().unwrap()).join(": ");
    check(here, &dns.addr().to_string(), &marker).await;
    read(here, &messages[0]).await;
    assert!(helpers.finish(PATIENCE).await);
}

/// One Agent, desk@agents.example, that admits alice@good.example; answers the partner's key.
async fn set_up(here: &Path) -> String {
    let made = answered(here, &["init", "--json"]).await;
    let (partner, key) = (id(&made["account"]), made["key"].as_str().unwrap().to_owned());
    assert!(key.starts_with("gp_"));
    assert!(here.join("gatepost.toml").exists());

    let create = |kind: &'static str, parent: String, name: &'static str| async move {
        let arguments =
            ["account", "create", "--type", kind, "--parent", &parent, "--name", name, "--json"];
        id(&answered(here, &arguments).await)
    };
    let reseller = create("reseller", partner.clone(), "Reseller").await;
    let organization = create("organization", reseller, "Acme").await;
    let words = format!(
        "account create --type account --parent {organization} --name desk \
         --address desk@agents.example --json"
    );
    let agent = answered(here, &words.split(' ').collect::<Vec<_>>()).await;
    assert_eq!(agent["organizationId"].to_string(), organization);
    assert_eq!(agent["addresses"][0], "desk@agents.example");
    let agent = id(&agent);
    let domains = answered(here, &["domain", "list", "--json"]).await;
    assert_eq!(domains[0]["accountId"].to_string(), organization);

    let allow = ["policy", "allow", "desk@agents.example", "Alice@good.example", "--json"];
    let policy = answered(here, &allow).await;
    assert_eq!(policy["mode"], "allowlist");
    assert_eq!(policy["allowlist"][0], "alice@good.example");
    assert_eq!(policy["warnings"], Value::Array(Vec::new()));
    look_alikes(here, &agent).await;
    key
}

/// An entry that may be taken for another is made, and said so; one that an earlier version took
/// can be removed.
async fn look_alikes(here: &Path, agent: &str) {
    let policy = |action| ["policy", action, agent];
    let odd = "b\u{43e}ss@good.example";
    let allowed = answered(here, &[&policy("allow")[..], &[odd, "--json"]].concat()).await;
    assert_eq!(allowed["warnings"][0]["email"], odd, "{allowed}");
    let allowed = gatepost(here, &[&policy("allow")[..], &[odd]].concat()).await;
    let said = String::from_utf8(allowed.stdout).unwrap();
    assert!(said.contains(&format!("warning    {odd}: ")), "{said}");
    let old = "boss\u{3164}@good.example";
    let refused = gatepost(here, &[&policy("remove")[..], &[old]].concat()).await;
    assert_eq!(refused.status.code(), Some(1), "it is not on the list");
    let location = Location::Folder(here.join("gatepost-data"));
    let store = Store::open(location, &store_rules(), run::system_mint()).await.unwrap();
    let (of, now) = (agent.parse().unwrap(), run::system_mint().clock().now());
    let kept = [Address::kept(old).unwrap()];
    store.allow_senders(of, &kept, None, 9, Actor::OPERATOR.at(now)).await.unwrap().unwrap();
    store.close().await;
    let both = [&policy("remove")[..], &[old, odd, "--json"]].concat();
    assert_eq!(answered(here, &both).await["allowlistCount"], 1);
}

/// The command line shows records and messages as the API does.
async fn read(here: &Path, message: &Value) {
    let records = answered(here, &["intake", "list", "--json"]).await;
    let verdicts = records.as_array().unwrap().iter().map(|one| one["verdict"].clone());
    assert_eq!(verdicts.collect::<Vec<_>>(), ["accepted", "refused"], "{records}");
    let (newest, oldest) = (records[0]["id"].as_str().unwrap(), records[1]["id"].as_str().unwrap());
    let of_agent = ["intake", "list", "desk@agents.example", "--limit", "1", "--json"];
    assert_eq!(answered(here, &of_agent).await, json!([records[0]]));
    let before = ["intake", "list", "--before", newest, "--json"];
    assert_eq!(answered(here, &before).await, json!([records[1]]));
    let refused = ["intake", "list", "--verdict", "refused", "--json"];
    assert_eq!(answered(here, &refused).await, json!([records[1]]));
    let whole = answered(here, &["intake", "show", oldest, "--json"]).await;
    assert_eq!((&whole["id"], &whole["reason"]), (&records[1]["id"], &json!("dkim_missing")));
    assert!(whole["steps"].as_array().unwrap().len() > 2 && whole["advice"].is_string());
    let uuid = message["uuid"].as_str().unwrap();
    let listed = answered(here, &["message", "list", "--json"]).await;
    assert_eq!(listed, json!([message]), "the record of the API");
    assert_eq!(answered(here, &["message", "show", uuid, "--json"]).await, *message);
    assert_eq!(answered(here, &["message", "list", "--before", uuid, "--json"]).await, json!([]));
    assert_eq!(answered(here, &["message", "list", "1", "--json"]).await, listed);
    for (words, part) in [
        (
            vec!["intake", "list"],
            "refused   dkim_missing          alice@good.example to desk+tag@agents",
        ),
        (vec!["intake", "show", oldest], "dkim       none"),
        (vec!["message", "list"], "alice@good.example to "),
        (vec!["message", "show", uuid], "subject     from the command line"),
    ] {
        let output = gatepost(here, &words).await;
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains(part), "{words:?}: {said}");
    }
    let nobody = uuid::Uuid::nil().to_string();
    for (words, code, part) in [
        (vec!["intake", "show", &nobody], 1, "no intake record 0000"),
        (vec!["message", "list", "--before", &nobody], 1, "no message 0000"),
        (vec!["message", "show", "1"], 2, "gatepost message list"),
        (vec!["intake", "list", "--limit", "501"], 2, "501"),
    ] {
        let output = gatepost(here, &words).await;
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {errors}");
        assert!(errors.contains(part), "{words:?}: {errors}");
    }
}

/// `gatepost check` says what the server would.
async fn check(here: &Path, dns: &str, marker: &str) {
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
    // Nobody has sent it: the sender of the envelope is the From, unless another one is said.
    let file = fixture("mail/accepted/plain.eml");
    let check = ["check", file.to_str().unwrap(), "--dns", dns];
    for (more, assumed) in [
        (&[][..], "from alice@good.example (the From of the file), by localhost at 127.0.0.1"),
        (
            &["--from", "b@c.example", "--ip", "192.0.2.7"],
            "from b@c.example, by localhost at 192.0.2.7",
        ),
        (&["--from", "", "--remote", "192.0.2.8", "--helo", "mx"], "from <>, by mx at 192.0.2.8"),
    ] {
        let output = gatepost(here, &[&check[..], more].concat()).await;
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.starts_with("Assumed envelope: ") && said.contains(assumed), "{said}");
    }
    // A message that no session accepts, whoever signed it.
    let original = std::fs::read_to_string(fixture("mail/accepted/plain.eml")).unwrap();
    let framed = here.join("framed.eml");
    std::fs::write(&framed, original.replacen("\r\n\r\n", "\r\n\r\n\0", 1)).unwrap();
    let output = gatepost(here, &["check", framed.to_str().unwrap(), "--dns", dns]).await;
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("framing    fail") && said.contains("malformed"), "{said}");
    // A message that returns is recognised by the address given in `--agent`.
    let returning = here.join("returning.eml");
    let original = std::fs::read(fixture("mail/accepted/plain.eml")).unwrap();
    std::fs::write(&returning, [format!("{marker}\r\n").as_bytes(), &original].concat()).unwrap();
    let file = returning.to_str().unwrap();
    let arguments =
        ["check", file, "--agent", "Desk+x@agents.example", "--dns", dns, "--from", "a@b.example"];
    let output = gatepost(here, &arguments).await;
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("loop_detected") && said.contains("automation person"), "{said}");
}

#[tokio::test]
async fn the_store_may_be_a_postgres_database() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let url = postgres::new_database().await;
    let on = |command: &[&'static str]| -> Vec<String> {
        let options = ["--database-url", &url];
        command.iter().copied().chain(options).map(ToOwned::to_owned).collect()
    };
    let run = async |arguments: Vec<String>| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        gatepost(here, &arguments).await
    };
    let missing = run(on(&["migrate"])).await;
    assert!(String::from_utf8_lossy(&missing.stderr).contains("gatepost init"));
    assert!(run(on(&["init"])).await.status.success());
    assert!(run(on(&["migrate"])).await.status.success());
    let listed = run(on(&["account", "list", "--json"])).await;
    assert!(String::from_utf8_lossy(&listed.stdout).contains("\"partner\""));
    assert!(!here.join("gatepost-data").exists());
    let both = run(on(&["account", "list", "--data", "x"])).await;
    let errors = String::from_utf8_lossy(&both.stderr).into_owned();
    assert_eq!(both.status.code(), Some(1));
    assert!(errors.contains("use one of them"), "{errors}");
}

/// Not even which store it is, which it needs only where there may be a marker of it.
#[tokio::test(flavor = "multi_thread")]
async fn to_check_a_message_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let url = postgres::new_database().await;
    let location = Location::parse(None, Some(&url)).unwrap();
    let site = Site::build(&location, &Rules::defaults().unwrap()).await;
    let file = folder.path().join("marked.eml");
    let marker = format!("X-Gatepost-Delivered: {}", "a".repeat(32));
    std::fs::write(&file, format!("{marker}\r\n{}", letter("marked"))).unwrap();
    let (file, dns) = (file.to_str().unwrap(), site.dns.addr().to_string());
    let fixed = ["check", file, "--agent", "support@agents.example", "--json"];
    let more = ["--dns", &dns, "--database-url", &url];
    let checked = gatepost(folder.path(), &[&fixed[..], &more].concat()).await;
    let said: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(said["reason"], "dkim_missing", "{said}");
    let rows = "SELECT (SELECT COUNT(*) FROM identity) + (SELECT COUNT(*) FROM records WHERE recorded = 1)";
    let mut database = postgres::connect(&url).await;
    let written: i64 = sqlx::query_scalar(rows).fetch_one(&mut database).await.unwrap();
    assert_eq!(written, 0);
    site.leave_store().await;
    site.finish().await;
}

#[tokio::test]
async fn mistakes_are_said_plainly() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    for (arguments, code, words) in [
        (vec!["account", "list"], 1, "gatepost init"),
        (vec!["frobnicate"], 2, "frobnicate"),
        (vec!["account", "create", "--type", "robot", "--parent", "1", "--name", "x"], 2, "robot"),
        (vec!["serve", "--smtp", "everywhere"], 2, "expected HOST:PORT, like 127.0.0.1:2525"),
        (vec!["serve", "--grace-seconds", "-5"], 2, "must be 0 or more"),
        (vec!["domain", "add", "not a domain", "1"], 2, "not a domain"),
        (
            vec!["key", "revoke", "nonsense"],
            2,
            "not a key id; list them with `gatepost key list ID`",
        ),
        (vec!["policy", "allow", "1", "A <a@b.example>"], 2, "letters"),
        (vec!["policy", "allow", "1", "*@boss.example"], 2, "exact senders, no patterns, because"),
        (vec!["init", "--name", ""], 1, "a name must have 1 to"),
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
        errors.contains("an Agent's parent must be an organization; account 1 is a partner"),
        "{errors}"
    );
}

#[tokio::test]
async fn an_agent_has_as_many_addresses_as_the_rules_allow() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("gatepost.toml"), "policies = \"mine\"\n").unwrap();
    std::fs::create_dir(here.join("mine")).unwrap();
    std::fs::write(here.join("mine/access.toml"), "[limits]\nmax_addresses = 1\n").unwrap();
    assert!(gatepost(here, &["init"]).await.status.success());
    for (kind, parent) in [("reseller", "1"), ("organization", "2")] {
        let create = ["account", "create", "--type", kind, "--parent", parent, "--name", kind];
        assert!(gatepost(here, &create).await.status.success());
    }
    let create = ["account", "create", "--type", "account", "--parent", "3", "--name", "desk"];
    let addresses = ["--address", "a@agents.example", "--address", "b@agents.example"];
    let refused = gatepost(here, &[create.as_slice(), &addresses].concat()).await;
    assert_eq!(refused.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(errors.contains("at most 1 addresses"), "{errors}");
    assert!(gatepost(here, &[create.as_slice(), &addresses[..2]].concat()).await.status.success());
}

/// `| head` is no failure; a result that nobody got is.
#[tokio::test]
async fn output_that_cannot_be_written_is_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    assert!(gatepost(folder.path(), &["init"]).await.status.success());
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for (output, code) in [(Stdio::from(closed), 0), (Stdio::from(full), 1)] {
        let mut command = Command::new(GATEPOST);
        command.args(["account", "list"]).current_dir(folder.path()).stdout(output);
        let ended = timeout(PATIENCE, command.status()).await.unwrap().unwrap();
        assert_eq!(ended.code(), Some(code));
    }
}

#[tokio::test]
async fn init_writes_the_settings_where_it_is_told_and_loses_no_key() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let lost = gatepost(here, &["init", "--config", "no/such/folder.toml"]).await;
    assert_eq!(lost.status.code(), Some(1));
    assert!(!here.join("gatepost-data").exists(), "a key was made that nobody saw");
    let made = answered(here, &["init", "--config", "mine.toml", "--json"]).await;
    assert!(made["key"].as_str().unwrap().starts_with("gp_"));
    assert!(here.join("mine.toml").exists());
    let again = gatepost(here, &["init", "--config", "mine.toml"]).await;
    assert_eq!(again.status.code(), Some(1));
}

/// A setting is taken from the flag, else from the variable, else from the file.
#[tokio::test]
async fn a_flag_wins_over_its_variable_and_the_variable_over_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    for name in ["flag", "variable", "file"] {
        let data = ["init", "--name", name, "--data", name];
        assert!(gatepost(here, &data).await.status.success());
    }
    std::fs::write(here.join("gatepost.toml"), "data = \"file\"\n").unwrap();
    for (arguments, variable, expected) in [
        (vec!["account", "list", "--json"], None, "file"),
        (vec!["account", "list", "--json"], Some("variable"), "variable"),
        (vec!["account", "list", "--json", "--data", "flag"], Some("variable"), "flag"),
    ] {
        let mut command = Command::new(GATEPOST);
        command.args(&arguments).current_dir(here).env_remove("GATEPOST_DATA");
        command.envs(variable.map(|folder| ("GATEPOST_DATA", folder)));
        let output = timeout(PATIENCE, command.output()).await.unwrap().unwrap();
        process::keep(&arguments, &output);
        let accounts: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(accounts[0]["name"], expected);
    }
}

/// Commands beside a running server take effect at once; both signals end it with 0.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_operator_changes_holds_at_once_for_a_running_server() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let key = answered(here, &["init", "--json"]).await["key"].as_str().unwrap().to_owned();
    let create = async |kind: &str, parent: &str, more: &[&str]| {
        let fixed = ["account", "create", "--type", kind, "--parent", parent, "--name", kind];
        id(&answered(here, &[&fixed, more, &["--json"]].concat()).await)
    };
    let reseller = create("reseller", "1", &[]).await;
    let organization = create("organization", &reseller, &[]).await;
    let agent = create("account", &organization, &["--address", "desk@agents.example"]).await;
    let listed = answered(here, &["account", "list", "--json"]).await;
    assert_eq!(listed[3]["addresses"][0], "desk@agents.example");
    let helpers = Shutdown::default();
    let dns = local_dns(&helpers).await;
    let server = Server::start(&here.join("gatepost-data"), dns.addr()).await;
    // A store of its own, and an address that is taken.
    answered(here, &["init", "--data", "other", "--json"]).await;
    let taken = server.smtp.to_string();
    let busy = ["serve", "--data", "other", "--smtp", &taken, "--http", "127.0.0.1:0"];
    let errors = process::failing(here, &busy).await;
    assert!(errors.contains(&server.smtp.to_string()), "{errors}");

    let message = here.join("message.eml");
    let signing_key = fixture("keys/s1._domainkey.good.example.pem");
    let to = server.smtp.to_string();
    let send = async || {
        std::fs::write(&message, letter("at once")).unwrap();
        let fixed = ["send", message.to_str().unwrap(), "--to", "desk@agents.example"];
        let more = ["--server", &to, "--sign", signing_key.to_str().unwrap()];
        let output = gatepost(here, &[fixed, more].concat()).await;
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let sender = ["alice@good.example"];
    for (command, more, expected) in [
        ("show", &[][..], "550 5.7.1 "),
        ("allow", &sender, "250 "),
        ("remove", &sender, "550 5.7.1 "),
        ("set", &["open"], "250 "),
        ("set", &["allowlist"], "550 5.7.1 "),
    ] {
        answered(here, &[&["policy", command, &agent, "--json"], more].concat()).await;
        let reply = send().await;
        assert!(reply.contains(expected), "after {command} {more:?}: {reply}");
    }
    for (command, expected) in [("deactivate", "550 5.2.1 "), ("activate", "550 5.7.1 ")] {
        assert!(gatepost(here, &["account", command, &organization]).await.status.success());
        let reply = send().await;
        assert!(reply.contains(expected), "after {command}: {reply}");
    }
    let url = format!("http://{}/api/v2/account?token={key}", server.http);
    assert_eq!(http::get(&url).await.status, 200);
    let keys = answered(here, &["key", "list", "1", "--json"]).await;
    let revoke = ["key", "revoke", keys[0]["id"].as_str().unwrap()];
    assert!(gatepost(here, &revoke).await.status.success());
    assert_eq!(http::get(&url).await.status, 401);
    assert_eq!(server.interrupt().await, 0);
    assert!(helpers.finish(PATIENCE).await);
}
