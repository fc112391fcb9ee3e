//! Accounts over the API of a running server, and what becomes of their mail: over real SMTP, before
//! and after they are switched off and deleted.

use std::path::Path;

use gatepost::app::tenancy::Claiming;
use gatepost::domain::address::Address;
use gatepost::domain::id::AccountId;
use gatepost::domain::policy::Mode;
use serde_json::{Value, json};

use crate::support::process::gatepost;
use crate::support::session::Session;
use crate::support::{PATIENCE, TestGateway, signed};

const FROM: &str = "alice@good.example";

/// Makes an Agent of the organization over the API, in `open` mode, at this address.
async fn make(gateway: &TestGateway, name: &str, address: &str) -> AccountId {
    let organization = gateway.house.organization.id;
    let path = format!("/createAccount?targetOrganizationId={organization}");
    let body = json!({ "accountName": name, "externalAccountId": name });
    let (status, made) = gateway.request("POST", &path, Some(body)).await;
    assert_eq!(status, 201, "{made}");
    let id = made["account"]["id"].as_i64().and_then(AccountId::new).unwrap();
    let agent = gateway.tenancy.account(id).await.unwrap();
    let address = Address::parse(address).unwrap();
    gateway.tenancy.claim_address(&agent, &address, false, Claiming::Never).await.unwrap();
    gateway.tenancy.set_mode(id, Mode::Open).await.unwrap();
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_follows_what_is_done_to_its_account() {
    let gateway = TestGateway::start().await;
    let to = ["new@agents.example"];
    let agent = make(&gateway, "new", to[0]).await;
    let own = gateway.tenancy.create_key(agent, "its own").await.unwrap().token;
    assert!(gateway.send(FROM, &to, &signed("one")).await.accepted());
    assert_eq!(gateway.messages().await[0]["toUser"], "new");

    let update = format!("/updateAccount?targetAccountId={agent}");
    let switch = async |active: bool| {
        let body = json!({ "active": active });
        let (status, answer) = gateway.request("POST", &update, Some(body)).await;
        assert_eq!((status, &answer["updatedSettings"]), (200, &json!(["active"])), "{answer}");
    };
    switch(false).await;
    let replies = gateway.send(FROM, &to, &signed("asleep")).await;
    assert!(replies.settling().starts_with("550 5.2.1"), "{}", replies.settling());
    switch(true).await;
    assert!(gateway.send(FROM, &to, &signed("awake")).await.accepted());

    // One that is under way when its Agent is deleted is refused for the same reason.
    let mut session = Session::with_recipient(gateway.smtp, to[0]).await;
    let key_works = async || {
        let url = format!("http://{}/api/v2/account?token={own}", gateway.http);
        let asking = reqwest::Client::new().get(url).timeout(PATIENCE).send();
        asking.await.unwrap().status().as_u16()
    };
    assert_eq!(key_works().await, 200);
    let gone = json!({ "targetAccountId": agent.get() });
    let (status, answer) = gateway.request("DELETE", "/deleteAccount", Some(gone.clone())).await;
    assert_eq!((status, &answer["deletedBelow"]), (201, &json!(0)), "{answer}");
    assert_eq!(key_works().await, 401);
    let reply = session.finish("under way").await;
    assert!(reply.starts_with("550 5.1.1"), "{reply}");
    let replies = gateway.send(FROM, &to, &signed("gone")).await;
    assert!(replies.settling().starts_with("550 5.1.1"), "{}", replies.settling());
    let (status, _) = gateway.request("DELETE", "/deleteAccount", Some(gone)).await;
    assert_eq!(status, 403);

    // The intake records still give the reason of the refusals.
    let records = gateway.get("/email/intake").await;
    let reasons: Vec<&Value> =
        records["intake"].as_array().unwrap().iter().map(|record| &record["reason"]).collect();
    assert!(reasons.contains(&&json!("unknown_recipient")), "{records}");
    let listed = gateway.get("/listAccounts").await;
    let named = listed["accounts"].as_array().unwrap().iter().any(|one| one["id"] == agent.get());
    assert!(!named, "{listed}");
    let path = "/getAccountByExternalId?externalAccountId=new";
    assert_eq!(gateway.request("GET", path, None).await.0, 404);
    gateway.finish().await;
}

/// The next reply and the next request, on every gateway.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_deleted_on_one_gateway_is_gone_on_the_other() {
    let gateway = TestGateway::on_postgres().await;
    let second = gateway.second().await;
    let agent = make(&gateway, "new", "new@agents.example").await;
    let key = gateway.tenancy.create_key(agent, "its own").await.unwrap().token;
    let ask = async || {
        let url = format!("http://{}/api/v2/account?token={key}", second.http);
        let asking = reqwest::Client::new().get(url).timeout(PATIENCE).send();
        asking.await.unwrap().status().as_u16()
    };
    let mut session = Session::greeted(second.smtp).await;
    session.open().await;
    session.rcpt("new@agents.example", "250").await;
    assert_eq!(ask().await, 200);
    let body = json!({ "targetAccountId": agent.get().to_string() });
    let (status, answer) = gateway.request("DELETE", "/deleteAccount", Some(body)).await;
    assert_eq!(status, 201, "{answer}");
    session.rcpt("new@agents.example", "550 5.1.1").await;
    assert_eq!(ask().await, 401);
    assert!(second.stop(PATIENCE).await);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_makes_renames_and_deletes() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let partner = json_of(here, &["init", "--json"]).await["account"]["id"].to_string();
    let create = async |kind: &str, parent: &str, name: &str| {
        let external = format!("ext-{name}");
        let arguments = [
            "account",
            "create",
            "--type",
            kind,
            "--parent",
            parent,
            "--name",
            name,
            "--external-id",
            &external,
            "--json",
        ];
        json_of(here, &arguments).await
    };
    let reseller = create("reseller", &partner, "r").await["id"].to_string();
    let organization = create("organization", &reseller, "o").await["id"].to_string();
    let agent = create("account", &organization, "a").await;
    assert_eq!(agent["externalAccountId"], "ext-a");
    assert_eq!(agent["addresses"], json!([]));
    let id = agent["id"].to_string();
    let arguments = ["account", "update", &id, "--name", "b", "--external-id", "", "--json"];
    let renamed = json_of(here, &arguments).await;
    assert_eq!((&renamed["name"], &renamed["externalAccountId"]), (&json!("b"), &Value::Null));

    let refused = gatepost(here, &["account", "delete", &organization]).await;
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("1 account is below"), "{said}");
    let arguments = ["account", "delete", &reseller, "--cascade", "--json"];
    assert_eq!(json_of(here, &arguments).await["deletedBelow"], 2);
    let left = json_of(here, &["account", "list", "--json"]).await;
    assert_eq!(left.as_array().unwrap().len(), 1, "{left}");
    let shown = gatepost(here, &["account", "show", &id]).await;
    assert_eq!(shown.status.code(), Some(1));
    let refused = gatepost(here, &["account", "delete", &partner, "--cascade"]).await;
    assert_eq!(refused.status.code(), Some(1));
}

/// Standard output as JSON, of a command that must succeed.
async fn json_of(folder: &Path, arguments: &[&str]) -> Value {
    let output = gatepost(folder, arguments).await;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}
