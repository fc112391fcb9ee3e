//! Secrets for a worker, from the command line on: none is released before the operator says so.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gatepost::store::Location;
use serde_json::{Value, json};

use crate::support::process::{Server, failing, gatepost};
use crate::support::{PATIENCE, http, local_dns, postgres};

const VALUE: &str = "the value of a secret";

/// Returns the output of a command with further arguments `at` that must succeed.
pub async fn as_json(here: &Path, words: &str, at: &[&str]) -> Value {
    let words: Vec<&str> = words.split(' ').chain(at.iter().copied()).chain(["--json"]).collect();
    let output = gatepost(here, &words).await;
    let errors = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{words:?}: {errors}"))
}

async fn post(server: &Server, key: &str, path: &str, body: Value) -> (u16, String) {
    let mark = if path.contains('?') { '&' } else { '?' };
    let url = format!("http://{}/api/v2{path}{mark}token={key}", server.http);
    let request = reqwest::Client::new().post(url).timeout(PATIENCE).body(body.to_string());
    let request = request.header("content-type", "application/json");
    let answer = http::read("POST", request.send().await.unwrap()).await;
    (answer.status.as_u16(), answer.text())
}

async fn nothing_is_released_unasked(location: Location, here: &Path, at: &[&str]) {
    let partner = as_json(here, "init", at).await["key"].as_str().unwrap().to_owned();
    for (kind, parent) in [("reseller", 1), ("organization", 2), ("account", 3)] {
        let create = format!("account create --type {kind} --parent {parent} --name {kind}");
        as_json(here, &create, at).await;
    }
    let helpers = gatepost::shutdown::Shutdown::default();
    let dns = local_dns(&helpers).await;
    std::fs::write(here.join("keys"), STANDARD.encode([7; 32])).unwrap();
    std::fs::create_dir(here.join("policies")).unwrap();
    let keys = here.join("keys").display().to_string();
    let sealed = ["--secrets-key-file", &keys];
    let server = Server::start_with(&location, here, dns.addr(), &sealed).await;
    for account in [2, 3, 4] {
        let path = format!("/features/assign?targetAccountId={account}");
        let on = json!({ "features": { "secretRelease": true } });
        assert_eq!(post(&server, &partner, &path, on).await.0, 200);
    }
    let config = json!({ "config": { "secrets": { "smtp": VALUE } } });
    assert_eq!(post(&server, &partner, "/computer/accounts/4", config).await.0, 201);
    let create = ["key", "create", "4", "--worker"];
    let refused = failing(here, &[&create, at].concat()).await;
    assert!(refused.contains("the computer of account 4 is not provisioned"), "{refused}");
    let provision = "/computer/accounts/4/provision";
    assert_eq!(post(&server, &partner, provision, json!({})).await.0, 202);
    let worker = as_json(here, "key create 4 --worker", at).await;
    let worker = worker["key"].as_str().unwrap();
    let listed = as_json(here, "key list 4", at).await;
    assert_eq!(listed[0]["type"], "worker");

    let release = ("/computer/accounts/4/secrets/release", json!({ "secrets": ["smtp"] }));
    let (status, text) = post(&server, worker, release.0, release.1.clone()).await;
    assert_eq!(status, 403, "{text}");
    assert!(text.contains("feature_required") && text.contains("--release-secrets"), "{text}");
    assert_eq!(server.terminate().await, 0);

    let on = ["--secrets-key-file", &keys, "--release-secrets"];
    let server = Server::start_with(&location, here, dns.addr(), &on).await;
    let (status, text) = post(&server, worker, release.0, release.1.clone()).await;
    assert_eq!(status, 200, "{text}");
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["secrets"]["smtp"], VALUE);
    assert_eq!(post(&server, &partner, release.0, release.1).await.0, 403);
    assert_eq!(server.terminate().await, 0);
    assert!(helpers.finish(PATIENCE).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_released_before_the_operator_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("gatepost-data");
    nothing_is_released_unasked(Location::Folder(data), folder.path(), &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_released_from_postgres_before_the_operator_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let location = postgres::new_location().await;
    let Location::Postgres(url) = &location else { panic!("{location:?}") };
    let at = ["--database-url", url.expose()].map(str::to_owned);
    let at: Vec<&str> = at.iter().map(String::as_str).collect();
    nothing_is_released_unasked(location, folder.path(), &at).await;
}
