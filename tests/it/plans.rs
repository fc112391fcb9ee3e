//! Plans and the feature `inboundEmail`, over SMTP: what is switched off is refused at RCPT, with its
//! reason, and nothing of it is stored.

use std::sync::Arc;

use reqwest::redirect::Policy;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::mcp::Mcp;
use crate::support::session::Session;
use crate::support::{PATIENCE, TestGateway, canary, http, letter, signed, signer};

const FROM: &str = "alice@good.example";
const OPEN: &str = "open@agents.example";
const PLANS: &[(&str, &str)] = &[("apps.toml", "[plans.silent]\nfeatures = [\"api\"]\n")];

/// A key of the partner, which stands above all accounts.
async fn key_above(gateway: &TestGateway) -> String {
    let key = gateway.tenancy.create_key(gateway.house.partner.id, "test").await.unwrap().token;
    canary::note(key.as_bytes());
    key
}

async fn post(gateway: &TestGateway, key: &str, path: String, body: Value) {
    let url = format!("http://{}/api/v2{path}&token={key}", gateway.http);
    let request = reqwest::Client::new().post(url).timeout(PATIENCE).body(body.to_string());
    let request = request.header("content-type", "application/json");
    let answer = http::read("POST", request.send().await.unwrap()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// Assigns `inboundEmail` to an account, or denies it.
async fn assign(gateway: &TestGateway, key: &str, account: i64, on: Value) {
    let path = format!("/features/assign?targetAccountId={account}");
    post(gateway, key, path, json!({ "features": { "inboundEmail": on } })).await;
}

async fn put_on(gateway: &TestGateway, key: &str, organization: i64, plan: Value) {
    let path = format!("/updateOrganization?targetOrganizationId={organization}");
    post(gateway, key, path, json!({ "productPlanId": plan })).await;
}

/// The reply to RCPT; an accepted message is sent to its end.
async fn takes_mail(gateway: &TestGateway, wanted: bool) {
    let mut session = Session::greeted(gateway.smtp).await;
    session.open().await;
    if wanted {
        session.rcpt(OPEN, "250").await;
        drop(session);
        let replies = gateway.send(FROM, &[OPEN], &signed("taken in")).await;
        assert!(replies.accepted(), "{}", replies.settling());
    } else {
        session.rcpt(OPEN, "550 5.2.1 mail is switched off for the recipient").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_without_inbound_email_refuses_mail_before_anything_is_stored() {
    let gateway = TestGateway::with_rules(PLANS).await;
    let key = key_above(&gateway).await;
    let house = &gateway.house;
    let (reseller, organization) = (house.reseller.id.get(), house.organization.id.get());
    let agent = house.agents["open"].id.get();
    takes_mail(&gateway, true).await;
    let stored = gateway.count("SELECT COUNT(*) FROM messages").await;
    let events = gateway.count("SELECT COUNT(*) FROM events").await;
    // At the Agent and above, by a denial.
    for account in [agent, organization, reseller] {
        assign(&gateway, &key, account, json!(false)).await;
        takes_mail(&gateway, false).await;
        assign(&gateway, &key, account, Value::Null).await;
    }
    // By a plan, unless the feature was assigned.
    put_on(&gateway, &key, organization, json!("silent")).await;
    takes_mail(&gateway, false).await;
    assert_eq!(gateway.count("SELECT COUNT(*) FROM messages").await, stored);
    assert_eq!(gateway.count("SELECT COUNT(*) FROM events").await, events);
    let records = gateway.get("/email/intake?reason=inbound_email_off").await;
    let record = &records["intake"][0];
    assert_eq!((&record["verdict"], &record["agentId"]), (&json!("refused"), &json!(agent)));
    let whole = gateway.get(&format!("/email/intake/{}", record["id"].as_str().unwrap())).await;
    let advice = whole["intake"]["advice"].as_str().unwrap();
    assert!(advice.contains("/features/assign"), "{whole}");
    assign(&gateway, &key, organization, json!(true)).await;
    takes_mail(&gateway, true).await;
    assign(&gateway, &key, organization, Value::Null).await;
    takes_mail(&gateway, false).await;
    // A plan that the rules do not name decides nothing.
    put_on(&gateway, &key, organization, json!("gold")).await;
    takes_mail(&gateway, true).await;
    gateway.finish().await;
}

/// Not only operations: the tools and pages ask some things that are none.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_without_api_enters_neither_mcp_nor_the_console() {
    let gateway = TestGateway::start().await;
    let key = key_above(&gateway).await;
    let organization = gateway.house.organization.id.get();
    let mcp = Mcp::of(gateway.http, &gateway.key);
    let sign_in = async || {
        let request = reqwest::Client::builder().redirect(Policy::none()).build().unwrap();
        let request = request.post(format!("http://{}/console/sign-in", gateway.http));
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let request = request.timeout(PATIENCE).body(format!("key={}", gateway.key));
        http::read("POST", request.send().await.unwrap()).await
    };
    let listed = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} });
    let entered = sign_in().await;
    let cookie = entered.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap();
    let sessions = gateway.count("SELECT COUNT(*) FROM console_sessions").await;
    mcp.tools().await;
    let denial = json!({ "features": { "api": false } });
    let path = format!("/features/assign?targetAccountId={organization}");
    post(&gateway, &key, path, denial).await;
    let answer = mcp.post(&listed.to_string(), &[]).await;
    assert_eq!(answer.status, 403, "{}", answer.text());
    assert!(answer.text().contains("does not have the feature \\\"api\\\""), "{}", answer.text());
    let page = sign_in().await;
    assert_eq!(page.status, 403, "{}", page.text());
    assert!(page.headers.get("set-cookie").is_none());
    assert_eq!(gateway.count("SELECT COUNT(*) FROM console_sessions").await, sessions);
    let shown = reqwest::Client::new().get(format!("http://{}/console", gateway.http));
    let shown = shown.header("cookie", cookie).timeout(PATIENCE);
    assert_eq!(shown.send().await.unwrap().status(), 403, "the session from before");
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_accepted_after_inbound_email_was_taken_away() {
    let gateway = Arc::new(TestGateway::start().await);
    let key = key_above(&gateway).await;
    let organization = gateway.house.organization.id.get();
    for round in 0..10 {
        let mut sending = JoinSet::new();
        for number in 0..8 {
            let gateway = Arc::clone(&gateway);
            let text = letter(&format!("round {round} number {number}"));
            let raw = signer().sign(text.as_bytes()).unwrap();
            sending.spawn(async move { gateway.send(FROM, &[OPEN], &raw).await });
        }
        // The first reply has come: others are on their way through the decision.
        sending.join_next().await.unwrap().unwrap();
        assign(&gateway, &key, organization, json!(false)).await;
        let stored = gateway.count("SELECT COUNT(*) FROM messages").await;
        while let Some(done) = sending.join_next().await {
            done.unwrap();
        }
        let later = gateway.count("SELECT COUNT(*) FROM messages").await;
        assert_eq!(later, stored, "a message was stored after the denial");
        takes_mail(&gateway, false).await;
        assign(&gateway, &key, organization, json!(true)).await;
    }
    Arc::into_inner(gateway).unwrap().finish().await;
}
