//! One server at a time on an embedded store.

use serde_json::{Value, json};

use crate::support::process::{Server, failing, gatepost};
use crate::support::{PATIENCE, http, local_dns};

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_on_one_store_is_refused_and_told_of_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    assert!(gatepost(here, &["init", "--json"]).await.status.success());
    let helpers = gatepost::shutdown::Shutdown::default();
    let dns = local_dns(&helpers).await;
    let data = here.join("gatepost-data");
    let first = Server::start(&data, dns.addr()).await;
    let serve = ["serve", "--smtp", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let said = failing(here, &serve).await;
    let (_, since) = said
        .split_once(&format!("is served by process {}, since 20", first.id()))
        .unwrap_or_else(|| panic!("it names the first: {said}"));
    assert!(
        since.contains("Z: stop that server first") && !since.trim_end().contains('\n'),
        "{said}"
    );
    let alive = format!("http://{}/healthz", first.http);
    assert_eq!(http::get(&alive).await.status, 200);

    // Commands are no servers.
    let listed = gatepost(here, &["account", "list", "--json"]).await;
    assert_eq!(serde_json::from_slice::<Value>(&listed.stdout).unwrap()[0]["id"], 1);
    assert!(gatepost(here, &["backup", "--to", "copy"]).await.status.success());
    // A copy is another store, whatever its files say.
    assert!(gatepost(here, &["restore", "--from", "copy", "--data", "new"]).await.status.success());
    std::fs::copy(here.join("gatepost-data/secrets.key"), here.join("new/secrets.key")).unwrap();
    let beside = Server::start(&here.join("new"), dns.addr()).await;
    assert_eq!(beside.terminate().await, 0);

    // The file of a dead process is no obstacle, nor is that of one that ended.
    first.kill().await;
    assert_eq!(Server::start(&data, dns.addr()).await.terminate().await, 0);
    assert_eq!(Server::start(&data, dns.addr()).await.terminate().await, 0);
    assert!(helpers.finish(PATIENCE).await);
}

/// Proves that reading `/readyz` does not make the server's process drop its SQLite locks on the
/// database file. Otherwise the next command that closes the store would take itself for the last
/// user and delete the live log.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_takes_nothing_from_a_server_that_was_asked_whether_it_is_ready() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let made = gatepost(here, &["init", "--json"]).await;
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let (key, account) = (made["key"].as_str().unwrap(), &made["account"]["id"]);
    let helpers = gatepost::shutdown::Shutdown::default();
    let dns = local_dns(&helpers).await;
    let data = here.join("gatepost-data");
    let server = Server::start(&data, dns.addr()).await;
    for _ in 0..2 {
        assert_eq!(http::get(&format!("http://{}/readyz", server.http)).await.status, 200);
        assert!(gatepost(here, &["account", "list", "--json"]).await.status.success());
    }
    let url = format!("http://{}/api/v2/tokens?token={key}", server.http);
    let body = json!({ "type": "admin", "description": "x", "targetAccountId": account });
    let request = reqwest::Client::new().post(url).timeout(PATIENCE);
    let request = request.header("content-type", "application/json").body(body.to_string());
    let answer = http::read("POST", request.send().await.unwrap()).await;
    assert_eq!(answer.status, 200);
    let answer: Value = serde_json::from_slice(&answer.body).unwrap();
    let token = answer["token"]["token"].as_str().unwrap();
    server.kill().await;
    let server = Server::start(&data, dns.addr()).await;
    let url = format!("http://{}/api/v2/account?token={token}", server.http);
    assert_eq!(http::get(&url).await.status, 200, "an acknowledged change is lost");
    assert_eq!(server.terminate().await, 0);
    assert!(helpers.finish(PATIENCE).await);
}
