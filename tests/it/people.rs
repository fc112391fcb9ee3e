//! Keys and members through the whole program: over HTTP on two gateways, in events, by operators.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};

use crate::store::scene::database;
use crate::support::process::{failing, gatepost};
use crate::support::{PATIENCE, TestGateway, all_messages, http, signed};

/// Status and body of a request with this key.
async fn ask(
    at: SocketAddr,
    key: &str,
    method: &str,
    path: &str,
    body: Option<Value>,
) -> (u16, Value) {
    let separator = if path.contains('?') { '&' } else { '?' };
    let url = format!("http://{at}/api/v2{path}{separator}token={key}");
    let mut request =
        reqwest::Client::new().request(method.parse().unwrap(), url).timeout(PATIENCE);
    if let Some(body) = body {
        request = request.header("content-type", "application/json").body(body.to_string());
    }
    let answer = http::read(method, request.send().await.unwrap()).await;
    (answer.status.as_u16(), serde_json::from_slice(&answer.body).unwrap())
}

async fn member(gateway: &TestGateway, email: &str, role: &str, only: &[&str]) -> i64 {
    let only: Vec<i64> = only.iter().map(|name| gateway.house.agents[*name].id.get()).collect();
    let body = json!({ "email": email, "role": role, "permittedAccountIds": only });
    let (status, answer) = gateway.request("POST", "/member", Some(body)).await;
    assert_eq!(status, 201, "{answer}");
    answer["member"]["id"].as_i64().unwrap()
}

/// A key of a member or an account, made by the organization's.
async fn key(gateway: &TestGateway, target: i64) -> (String, String) {
    let body = json!({ "type": "admin", "description": "x", "targetAccountId": target });
    let (status, answer) = gateway.request("POST", "/tokens", Some(body)).await;
    assert_eq!(status, 200, "{answer}");
    let text = |field: &str| answer["token"][field].as_str().unwrap().to_owned();
    (text("id"), text("token"))
}

/// Threats E7: whatever ends a key, the next request with it is a 401, whichever gateway is asked.
/// An embedded store has one gateway at a time, so this is PostgreSQL's alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_ended_on_one_gateway_opens_nothing_on_another_postgres() {
    let mut gateway = TestGateway::on_postgres().await;
    let second = gateway.second().await;
    let boss = member(&gateway, "boss@good.example", "admin", &[]).await;
    let anna = member(&gateway, "anna@good.example", "member", &["open"]).await;
    let agent = gateway.house.agents["open"].id;
    let organization = gateway.house.organization.id;
    let mut statuses = Vec::new();
    for how in ["by id", "by value", "member removed", "account switched off", "one above"] {
        let target = if how == "member removed" { anna } else { agent.get() };
        let (id, token) = key(&gateway, target).await;
        assert_eq!(ask(second.http, &token, "GET", "/account", None).await.0, 200, "{how}");
        match how {
            "by id" => {
                let body = Some(json!({ "id": id }));
                assert_eq!(gateway.request("DELETE", "/tokens", body).await.0, 200);
            }
            "by value" => {
                let body = Some(json!({ "token": token }));
                assert_eq!(gateway.request("DELETE", "/tokens", body).await.0, 200);
            }
            "member removed" => {
                let body = Some(json!({ "targetMemberId": anna }));
                assert_eq!(gateway.request("DELETE", "/member", body).await.0, 201);
            }
            "account switched off" => {
                gateway.tenancy.set_active(agent, false).await.unwrap();
            }
            _ => {
                gateway.tenancy.set_active(agent, true).await.unwrap();
                gateway.tenancy.set_active(organization, false).await.unwrap();
            }
        }
        statuses.push(ask(second.http, &token, "GET", "/account", None).await.0);
        // A key of the Agent that is switched off is not made again.
        gateway.tenancy.set_active(agent, true).await.unwrap();
        gateway.tenancy.set_active(organization, true).await.unwrap();
    }
    assert_eq!(statuses, [401; 5]);
    let (_, rest) = gateway.request("GET", "/members", None).await;
    assert_eq!(rest["members"][0]["id"], boss);
    assert!(second.stop(PATIENCE).await);
    gateway.stop().await;
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restricted_member_reads_the_mail_of_its_agents() {
    let gateway = TestGateway::start().await;
    let anna = member(&gateway, "anna@good.example", "admin", &["open"]).await;
    let (_, token) = key(&gateway, anna).await;
    for to in ["open", "open2", "support"] {
        let address = format!("{to}@agents.example");
        let sent = gateway.send("alice@good.example", &[&address], &signed(to)).await;
        assert!(sent.accepted());
    }
    assert_eq!(gateway.messages().await.len(), 3);
    let own = all_messages(gateway.http, &token).await;
    assert_eq!(own.len(), 1);
    assert_eq!(own[0]["to"], gateway.house.agents["open"].id.get());
    let (_, records) = ask(gateway.http, &token, "GET", "/email/intake", None).await;
    assert_eq!(records["intake"].as_array().unwrap().len(), 1);
    let raw = format!("/messages/{}/raw", gateway.messages().await[0]["uuid"].as_str().unwrap());
    let (status, _) = ask(gateway.http, &token, "GET", &raw, None).await;
    assert_eq!(status, 404, "the newest is not its own");
    gateway.finish().await;
}

/// A note that a key was used waits for the one writer; the request that used it does not.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_writer_delays_no_request_by_a_note_of_its_key() {
    let gateway = TestGateway::start().await;
    let agent = gateway.house.agents["open"].id.get();
    let (id, token) = key(&gateway, agent).await;
    let mut writer = database(&gateway.folder.path().join("store")).await;
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut writer).await.unwrap();
    for _ in 0..20 {
        assert_eq!(ask(gateway.http, &token, "GET", "/account", None).await.0, 200);
    }
    sqlx::raw_sql("ROLLBACK").execute(&mut writer).await.unwrap();
    let path = format!("/tokens?targetAccountId={agent}");
    let noted = async {
        loop {
            let tokens = ask(gateway.http, &token, "GET", &path, None).await.1["tokens"].clone();
            let shown = tokens.as_array().unwrap().iter().find(|one| one["id"] == id.as_str());
            if shown.unwrap()["lastUsedAt"].is_string() {
                break;
            }
        }
    };
    tokio::time::timeout(PATIENCE, noted).await.unwrap();
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invitation_reaches_the_webhooks_of_the_organization() {
    let gateway = TestGateway::start().await;
    let url = gateway.receiver.url("/people");
    let hook = json!({ "url": url, "label": "people", "type": "onboarding" });
    let (status, hook) = gateway.request("POST", "/webhooks", Some(hook)).await;
    assert_eq!(status, 201, "{hook}");
    gateway.receiver.trust(hook["secret"].as_str().unwrap());
    let body = json!({
        "email": "anna@good.example",
        "redirectUrl": "https://service.io/welcome",
        "sendWelcomeEmail": true,
    });
    let (status, invited) = gateway.request("POST", "/member", Some(body)).await;
    assert_eq!(status, 201, "{invited}");
    let received = gateway.receiver.wait_for(1, PATIENCE).await.unwrap();
    assert!(received[0].verified && received[0].path == "/people");
    let event: Value = serde_json::from_slice(&received[0].body).unwrap();
    assert_eq!(event["event"], "member.invited");
    let organization = gateway.house.organization.id.get();
    let expected = json!({
        "member": invited["member"],
        "redirectUrl": "https://service.io/welcome",
        "sendWelcomeEmail": true,
        "invitedBy": { "accountId": organization, "memberId": null },
    });
    assert_eq!(event["data"], expected);
    gateway.finish().await;
}

/// Standard output as JSON, of a command that must succeed.
async fn said(here: &Path, command: &str) -> Value {
    let output = gatepost(here, &command.split(' ').collect::<Vec<_>>()).await;
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn operators_manage_members_and_their_keys() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let mut parent = said(here, "init --json").await["account"]["id"].clone();
    let mut tree = vec![parent.clone()];
    for kind in ["reseller", "organization", "account"] {
        let create = format!("account create --type {kind} --parent {parent} --name {kind} --json");
        parent = said(here, &create).await["id"].clone();
        tree.push(parent.clone());
    }
    let (organization, agent) = (&tree[2], &tree[3]);
    let invite = format!("member invite {organization} --email Boss@good.example");
    let boss = said(here, &format!("{invite} --role admin --json")).await;
    assert_eq!((&boss["email"], &boss["role"]), (&json!("boss@good.example"), &json!("admin")));
    let invite = format!("member invite {agent} --email anna@good.example --json");
    let anna = said(here, &invite).await;
    assert_eq!(anna["permittedAccountIds"], json!([agent]));
    assert_eq!((&anna["organizationId"], &anna["role"]), (organization, &json!("member")));
    let id = &anna["id"];
    let update = format!("member update {id} --role admin --unrestricted --json");
    let changed = said(here, &update).await;
    assert_eq!(changed["permittedAccountIds"], json!([]));
    let list = format!("member list {organization}");
    assert_eq!(said(here, &format!("{list} --json")).await, json!([boss, changed]));
    let output = gatepost(here, &list.split(' ').collect::<Vec<_>>()).await;
    assert!(String::from_utf8(output.stdout).unwrap().contains("boss@good.example"));

    let create = format!("key create --member {id} --purpose phone --expires-in-days 2 --json");
    let key = said(here, &create).await;
    let names: Vec<&String> = key.as_object().unwrap().keys().collect();
    assert_eq!(names, ["id", "key"]);
    let keys = said(here, &format!("key list --member {id} --json")).await;
    assert_eq!((&keys[0]["id"], &keys[0]["member"]), (&key["id"], id));
    assert!(keys[0]["expires"].is_string() && keys[0]["lastUsed"].is_null());
    let list = format!("key list {organization}");
    let output = gatepost(here, &list.split(' ').collect::<Vec<_>>()).await;
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("expires 2") && shown.contains("never used"), "{shown}");

    let remove = format!("member remove {id}");
    let removed = gatepost(here, &remove.split(' ').collect::<Vec<_>>()).await;
    assert!(removed.status.success());
    let keys = said(here, &format!("{list} --json")).await;
    assert!(keys[0]["revoked"].is_string());
    let last = format!("member remove {}", boss["id"]);
    let refused = failing(here, &last.split(' ').collect::<Vec<_>>()).await;
    assert!(refused.contains("last administrator"), "{refused}");
    for wrong in ["key create", "key create 1 --member 2", "key list"] {
        let output = gatepost(here, &wrong.split(' ').collect::<Vec<_>>()).await;
        assert_eq!(output.status.code(), Some(2), "{wrong}");
    }
}
