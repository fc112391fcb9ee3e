//! The command line as people type it: what is shared by all commands, and how accounts are named.

use std::path::Path;

use gatepost::app::access::{Access, Denied};
use gatepost::domain::console_session::Browser;
use gatepost::rules::Rules;
use gatepost::run;
use gatepost::store::{Location, Store};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;

use crate::support::process::{self, GATEPOST, failing, gatepost};
use crate::support::{PATIENCE, postgres, store_rules};

/// Returns the output of a command that must succeed.
async fn said(here: &Path, words: &str) -> String {
    let output = gatepost(here, &words.split(' ').collect::<Vec<_>>()).await;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

async fn as_json(here: &Path, words: &str) -> Value {
    let said = said(here, &format!("{words} --json")).await;
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{words}: {error}: {said}"))
}

async fn mistake(here: &Path, words: &str) -> String {
    failing(here, &words.split(' ').collect::<Vec<_>>()).await
}

/// Partner 1, reseller 2, organization 3, and Agent 4, desk@agents.example.
async fn tree(here: &Path) {
    said(here, "init").await;
    for (kind, parent) in [("reseller", 1), ("organization", 2)] {
        said(here, &format!("account create --type {kind} --parent {parent} --name {kind}")).await;
    }
    let agent =
        "account create --type account --parent 3 --name desk --address desk@agents.example";
    said(here, agent).await;
}

#[tokio::test]
async fn an_agent_is_named_by_its_id_or_by_any_of_its_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    tree(here).await;
    for name in ["4", "desk@agents.example", "Desk+tag@Agents.example"] {
        let shown = as_json(here, &format!("account show {name}")).await;
        assert_eq!(shown["addresses"], json!(["desk@agents.example"]), "{name}");
        let allowed = as_json(here, &format!("policy allow {name} a@x.example b@x.example")).await;
        assert_eq!(allowed["allowlist"], json!(["a@x.example", "b@x.example"]), "{name}");
        let removed = as_json(here, &format!("policy remove {name} a@x.example b@x.example")).await;
        assert_eq!(removed["allowlistCount"], 0);
        let set = as_json(here, &format!("policy set {name} open")).await;
        assert_eq!((&set["accountId"], &set["mode"]), (&json!(4), &json!("open")));
        as_json(here, &format!("key create {name} --purpose one")).await;
        assert!(as_json(here, &format!("key list {name}")).await[0]["lastFour"].is_string());
    }
    let invited = "member invite 3 --email m@x.example --permit desk@agents.example";
    assert_eq!(as_json(here, invited).await["permittedAccountIds"], json!([4]));
    for (words, error) in [
        ("policy show 3", "account 3 is an organization, not an Agent"),
        ("policy show nobody@agents.example", "no Agent has the address nobody@agents.example"),
        ("policy show 99", "there is no account 99"),
        ("check Cargo.toml --agent 3", "cannot read Cargo.toml"),
    ] {
        let errors = mistake(here, words).await;
        assert!(errors.contains(error), "{words}: {errors}");
    }
    let output = gatepost(here, &["policy", "show", "desk"]).await;
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("expected the id of an account, or an address"), "{errors}");
}

/// The contract's spellings (contract §7), which help does not show.
#[tokio::test]
async fn what_the_contract_names_is_taken_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    tree(here).await;
    let allowed =
        as_json(here, "policy allow --account 4 --address a@x.example --address b@x.example").await;
    assert_eq!(allowed["allowlistCount"], 2);
    assert_eq!(as_json(here, "policy set --account 4 --mode open").await["mode"], "open");
    assert_eq!(as_json(here, "policy show --account=4").await["mode"], "open");
    let removed = as_json(here, "policy remove --address a@x.example --account 4").await;
    assert_eq!(removed["allowlist"], json!(["b@x.example"]));
    as_json(here, "key create --account 4 --purpose old").await;
    assert_eq!(as_json(here, "key list --account 4").await[0]["purpose"], "old");
    as_json(here, "member invite --account 3 --email m@x.example").await;
    assert_eq!(as_json(here, "member list --account 3").await[0]["email"], "m@x.example");
    said(here, "domain add more.example --account 3").await;
    assert_eq!(as_json(here, "domain list --account 3").await[1]["domain"], "more.example");
    said(here, "domain remove more.example --account 3").await;
    for words in ["policy set --help", "key create --help", "domain add --help"] {
        let help = said(here, words).await;
        assert!(!help.contains("--account") && !help.contains("--mode"), "{help}");
    }
}

/// The ticket of a link, as it is printed.
fn ticket(url: &str) -> &str {
    let (_, ticket) = url.split_once("/console/open?ticket=").unwrap();
    assert!(ticket.len() == 47 && ticket.starts_with("gps_"), "a ticket of {} signs", ticket.len());
    ticket
}

#[tokio::test]
async fn a_link_to_the_console_is_made_while_the_store_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    tree(here).await;
    let location = Location::Folder(here.join("gatepost-data"));
    let store = Store::open(&location, &store_rules(), run::system_mint()).await.unwrap();
    let shown = said(here, "console link 4 --minutes 1 --url https://a.example").await;
    let (url, about) = shown.trim_end().split_once('\n').unwrap();
    assert!(url.starts_with("https://a.example/console/open?"), "another host");
    ticket(url);
    assert!(about.contains("opens once, within 1 minute; the session then lasts 60 minutes"));
    // The address of an Agent names it, and so does a flag; the settings have the URL.
    let link = as_json(here, "console link --account desk@agents.example").await;
    let names: Vec<&String> = link.as_object().unwrap().keys().collect();
    assert_eq!(names, ["expires", "key", "url"]);
    let url = link["url"].as_str().unwrap();
    assert!(url.starts_with("http://127.0.0.1:8080/console/open?"), "another address");
    let keys = as_json(here, "key list 4").await;
    assert!(keys.as_array().unwrap().iter().any(|key| {
        key["id"] == link["key"] && key["purpose"] == "console link" && key["expires"].is_string()
    }));
    assert!(about.contains(&format!("key revoke {}", keys[0]["id"].as_str().unwrap())), "{keys}");
    std::fs::write(here.join("gatepost.toml"), "public-url = \"https://mx.example/\"\n").unwrap();
    let link = as_json(here, "console link 3").await;
    assert!(link["url"].as_str().unwrap().starts_with("https://mx.example/console/open?"));

    // The handle that was open before finds the ticket, once.
    opens_once(&store, ticket(url)).await;
    store.close().await;
    for (words, error) in [
        ("console link 99", "there is no account 99"),
        ("console link 4 --minutes 1441", "1 to 1440 minutes"),
        ("console link nobody@agents.example", "no Agent has the address"),
    ] {
        let errors = mistake(here, words).await;
        assert!(errors.contains(error), "{words}: {errors}");
    }
    for words in ["console link", "console link 4 --minutes 0", "console link 4 --url a.example"] {
        let output = gatepost(here, &words.split(' ').collect::<Vec<_>>()).await;
        assert_eq!(output.status.code(), Some(2), "{words}");
    }
}

/// Opens a ticket as a gateway does; another one comes too late.
async fn opens_once(store: &Store, ticket: &str) {
    let Rules { access, apps, .. } = Rules::defaults().unwrap();
    let access = Access::new(store.clone(), run::system_mint(), &access, &apps);
    let signed_in = access.open_link(ticket, Browser::default()).await.unwrap();
    assert_eq!(signed_in.caller.account.id.get(), 4);
    let again = access.open_link(ticket, Browser::default()).await;
    assert!(matches!(again, Err(Denied::NoKey)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_to_the_console_is_made_in_a_postgres_database() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let location = postgres::new_location().await;
    let Location::Postgres(url) = &location else { panic!("{location:?}") };
    let at = format!("--database-url {}", url.expose());
    said(here, &format!("init {at}")).await;
    for (kind, parent) in [("reseller", 1), ("organization", 2), ("account", 3)] {
        let create = format!("account create --type {kind} --parent {parent} --name {kind} {at}");
        said(here, &create).await;
    }
    let link = as_json(here, &format!("console link 4 {at}")).await;
    let store = Store::open(&location, &store_rules(), run::system_mint()).await.unwrap();
    opens_once(&store, ticket(link["url"].as_str().unwrap())).await;
    store.close().await;
}

/// Every result can be read by a program.
#[tokio::test]
async fn every_command_with_a_result_has_json() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    tree(here).await;
    let added = as_json(here, "domain add more.example 3").await;
    let domain = |account: Value, is_held: bool| {
        json!({
            "domain": "more.example",
            "accountId": account,
            "verified": is_held,
            "challenge": null,
        })
    };
    assert_eq!(added, domain(json!(3), true));
    assert_eq!(as_json(here, "domain remove more.example 3").await, domain(Value::Null, false));
    let key = as_json(here, "key create 4 --mcp-changes").await["id"].as_str().unwrap().to_owned();
    assert_eq!(as_json(here, "key list 4").await[0]["mcpChanges"], true);
    assert_eq!(as_json(here, &format!("key revoke {key}")).await, json!({ "revoked": key }));
    assert_eq!(as_json(here, "migrate").await, json!({ "store": "gatepost-data" }));
    // The flag of all commands stands wherever it is put.
    let shown = said(here, "--json --data gatepost-data account show 4").await;
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap()["name"], "desk");
}

#[tokio::test]
async fn the_flags_of_the_store_are_explained_apart_and_those_of_s3_where_they_help() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    for (words, has_store, has_s3) in [
        ("--help", true, true),
        ("serve --help", true, true),
        ("policy show --help", true, false),
        ("key list --help", true, false),
        ("demo --help", false, false),
    ] {
        let help = said(here, words).await;
        assert_eq!(help.contains("\nStore:\n"), has_store, "{words}: {help}");
        assert_eq!(help.contains("--s3-region"), has_s3, "{words}: {help}");
    }
    // Hidden, and still accepted.
    let errors = mistake(here, "account list --s3-region x --data nowhere").await;
    assert!(errors.contains("gatepost init"), "{errors}");
}

#[tokio::test]
async fn a_tree_is_shown_with_the_addresses_of_its_agents() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    tree(here).await;
    let shown = said(here, "account tree").await;
    let indents: Vec<_> = shown.lines().map(|line| line.len() - line.trim_start().len()).collect();
    assert_eq!(indents, [0, 2, 4, 6], "{shown}");
    assert!(shown.ends_with("desk  desk@agents.example\n"), "{shown}");
    let all = as_json(here, "account tree").await;
    assert_eq!(all[0]["accounts"][0]["accounts"][0]["accounts"][0]["name"], "desk", "{all}");
    let part = as_json(here, "account tree 3").await;
    assert_eq!(part, json!([all[0]["accounts"][0]["accounts"][0]]));
}

#[tokio::test]
async fn shells_and_man_know_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = said(here, &format!("completions {shell}")).await;
        assert!(script.contains("check-store") && script.contains("database-url"), "{shell}");
    }
    let made = as_json(here, "man pages").await;
    let pages: Vec<_> = std::fs::read_dir(here.join("pages")).unwrap().collect();
    assert_eq!(made, json!({ "folder": "pages", "pages": pages.len() }));
    let page = std::fs::read_to_string(here.join("pages/gatepost-policy-set.1")).unwrap();
    assert!(page.contains("open or allowlist"), "{page}");
    assert!(here.join("pages/gatepost.1").exists());
}

/// Returns the exit code and standard error of `gatepost account list` with this variable set.
async fn with_variable(here: &Path, name: &str, value: &str) -> (Option<i32>, String) {
    let mut command = Command::new(GATEPOST);
    command.args(["account", "list"]).current_dir(here).env(name, value);
    let output = timeout(PATIENCE, command.output()).await.unwrap().unwrap();
    process::keep(&["account", "list"], &output);
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[tokio::test]
async fn a_misspelled_variable_is_no_setting_that_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    tree(here).await;
    let (code, errors) = with_variable(here, "GATEPOST_SMPT", "127.0.0.1:25").await;
    assert_eq!(code, Some(2), "{errors}");
    let words = "GATEPOST_SMPT is not a variable of gatepost; the nearest is GATEPOST_SMTP";
    assert!(errors.contains(words), "{errors}");
    for (name, value) in
        [("GATEPOST_SMTP", "127.0.0.1:25"), ("GATEPOST_TEST_X", ""), ("GATEPOST_SERVICE_HOST", "h")]
    {
        let (code, errors) = with_variable(here, name, value).await;
        assert_eq!(code, Some(0), "{name}: {errors}");
    }
}

#[tokio::test]
async fn why_a_server_does_not_start_names_the_setting_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    tree(here).await;
    let free = "serve --smtp 127.0.0.1:0 --http localhost:0";
    for (words, error) in [
        (
            format!("{free} --smtp-tls-cert /nope.pem --smtp-tls-key /nope.key"),
            "--smtp-tls-cert: cannot read /nope.pem: no such file",
        ),
        ("serve --smtp nowhere.invalid:25".to_owned(), "--smtp: cannot resolve nowhere.invalid:25"),
    ] {
        let errors = mistake(here, &words).await;
        assert!(errors.contains(error), "{words}: {errors}");
    }
    for (key, error) in [
        ("grace-seconds = -5", "gatepost.toml, line 1: grace-seconds must be 0 or more"),
        ("smtp = \"everywhere\"", "gatepost.toml, line 1: expected HOST:PORT"),
    ] {
        std::fs::write(here.join("gatepost.toml"), format!("{key}\n")).unwrap();
        let errors = mistake(here, "account list").await;
        assert!(errors.contains(error), "{key}: {errors}");
    }
}

/// A world of `gatepost dev` is no store of a server.
#[tokio::test]
async fn the_folder_of_dev_is_not_the_one_that_a_variable_names() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(GATEPOST);
    command.args(["send", "--dev"]).current_dir(folder.path()).env("GATEPOST_DATA", "of-a-server");
    let output = timeout(PATIENCE, command.output()).await.unwrap().unwrap();
    process::keep(&["send", "--dev"], &output);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("/gatepost-dev") && !errors.contains("of-a-server"), "{errors}");
}

/// So that a password stands in no list of processes, and in no environment.
#[tokio::test]
async fn the_url_of_the_database_may_stand_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("url"), postgres::new_database().await + "\n").unwrap();
    said(here, "init --database-url-file url").await;
    let listed = as_json(here, "account list --database-url-file url").await;
    assert_eq!(listed[0]["id"], 1);
    // The settings file names it as well, and a flag goes before it.
    std::fs::write(here.join("gatepost.toml"), "database-url-file = \"url\"\n").unwrap();
    assert_eq!(as_json(here, "account list").await[0]["id"], 1);
    std::fs::remove_file(here.join("url")).unwrap();
    said(here, "init --data elsewhere").await;
    assert_eq!(as_json(here, "account list --data elsewhere").await.as_array().unwrap().len(), 1);
    std::fs::write(here.join("url"), "postgres://h/d").unwrap();
    let both = "account list --database-url-file url --database-url postgres://h/d";
    let errors = mistake(here, both).await;
    assert!(errors.contains("database-url is given, too"), "{errors}");
    let errors = mistake(here, "account list --database-url-file none").await;
    assert!(errors.contains("cannot read none"), "{errors}");
}
