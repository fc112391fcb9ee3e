//! Secrets are released to the provisioned worker of their Agent, and to nobody else (threats S).

use std::net::Ipv4Addr;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::app::access::{Credential, Denied};
use crate::app::tenancy::KeyTerms;
use crate::domain::account::Account;
use crate::domain::audit::Actor;
use crate::domain::console_session::Browser;
use crate::domain::feature::Feature;
use crate::domain::id::AccountId;
use crate::domain::member::Role;
use crate::http::in_process::{Asked, InProcess};
use crate::http::passage::observe::Trace;
use crate::http::table::OPERATIONS;
use crate::http::tests::audit::refused;
use crate::http::tests::secrecy::Log;
use crate::http::tests::{House, NOBODY, Reply, Resident};

/// The value of every secret here.
const VALUE: &str = "canary-value-of-a-secret";
const ONLY_THE_WORKER: &str = "needs the key of the Agent's provisioned worker";

impl House {
    /// Provisions an Agent's computer, and gives the Agent the feature. Returns the worker's key.
    pub(super) async fn employ(&self, agent: &Account, purpose: &str) -> String {
        let act = Actor::OPERATOR.at(self.now());
        for account in agent.lineage.ids().skip(1) {
            let on = [(Feature::SecretRelease, Some(true))];
            self.store.assign_features(account, &on, act).await.unwrap();
        }
        self.http.use_cases.computers.provision(agent).await.unwrap();
        self.tenancy.issue_worker_key(agent.id, KeyTerms::of(purpose)).await.unwrap().token
    }

    /// Employs a worker of this Agent, and calls it `name`.
    pub(super) async fn hire(&mut self, name: &'static str, agent: &str) {
        let account = self.residents[agent].account.clone();
        let token = self.employ(&account, name).await;
        self.residents.insert(name, Resident { account, token });
    }
}

/// A house in which `worker` is agent1's worker and `other` is agent2's. Both Agents have secrets.
async fn staffed(rules: &str) -> House {
    let mut house = House::with(rules).await;
    for (worker, agent) in [("worker", "agent1"), ("other", "agent2")] {
        let value = format!("{VALUE} of {agent}");
        let id = house.id(agent);
        let config = json!({ "config": { "secrets": { "smtp": value, "more": value } } });
        house.post(agent, &format!("/computer/accounts/{id}"), config).await.success(201);
        let settings = json!({ "baseUrl": "https://crm.example/", "apiToken": value });
        let settings = json!({ "settings": settings });
        house.post(agent, "/apps/crm/v1", settings).await.success(201);
        house.hire(worker, agent).await;
    }
    house
}

fn path(agent: impl std::fmt::Display) -> String {
    format!("/computer/accounts/{agent}/secrets/release")
}

fn wanted() -> Value {
    json!({ "secrets": ["smtp"], "apps": ["crm/v1"] })
}

async fn ask(house: &House, caller: &str, agent: AccountId) -> Reply {
    let reply = house.post(caller, &path(agent), wanted()).await;
    assert_eq!(reply.text().contains(VALUE), reply.status == 200, "{}", reply.text());
    reply
}

/// The entries of these actions, as the partner reads them, the newest first.
async fn entries(house: &House, action: &str) -> Vec<Value> {
    let reply = house.get("partner", &format!("/audit?limit=200&action={action}")).await;
    reply.success(200)["audit"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_worker_is_given_all_that_it_names_or_nothing() {
    let house = staffed("").await;
    let agent = house.id("agent1");
    let value = format!("{VALUE} of agent1");
    let given = ask(&house, "worker", agent).await;
    assert_eq!(given.headers["cache-control"], "no-store");
    let given = given.success(200);
    assert_eq!(given["targetAccountId"], agent.get());
    assert_eq!(given["secrets"], json!({ "smtp": value }));
    let settings = json!({ "baseUrl": "https://crm.example/", "apiToken": value });
    assert_eq!(given["apps"], json!({ "crm/v1": settings }));
    // Names, never values.
    let told = &entries(&house, "secrets.released").await[0];
    assert_eq!(told["accountId"], agent.get());
    let after = json!({ "secrets": "smtp", "app": "crm/v1", "settings/crm/v1": "apiToken" });
    assert_eq!(told["after"], after, "{told}");
    let both = json!({ "secrets": ["smtp", "more"] });
    house.post("worker", &path(agent), both).await.success(200);
    let told = &entries(&house, "secrets.released").await[0];
    assert_eq!(told["after"], json!({ "secrets": ["more", "smtp"] }), "each name is there");
    let many: Vec<String> = (0..51).map(|number| number.to_string()).collect();
    for (body, status, code, words) in [
        (json!({ "secrets": ["smtp", "none"] }), 404, "not_found", "no secret \"none\""),
        (json!({ "secrets": ["smtp"], "apps": ["crm/v2"] }), 404, "not_found", "crm/v2"),
        (json!({ "secrets": [], "apps": [] }), 400, "invalid_request", "name 1 to 50"),
        (json!({ "secrets": many }), 400, "invalid_request", "name 1 to 50"),
        (json!({ "apps": ["crm"] }), 400, "invalid_request", "apps"),
        (json!({}), 400, "invalid_request", ""),
    ] {
        let reply = house.post("worker", &path(agent), body).await;
        reply.problem(status, code, words);
        assert!(!reply.text().contains(VALUE), "{}", reply.text());
    }
    assert_eq!(entries(&house, "secrets.released").await.len(), 2);
}

#[tokio::test]
async fn no_other_key_is_given_a_secret() {
    let mut house = staffed("").await;
    house.join("boss", "org1", Role::Admin, &[]).await;
    house.join("few", "org1", Role::Admin, &["agent1"]).await;
    let agent = house.id("agent1");
    let others = ["partner", "reseller1", "org1", "agent1", "agent2", "agent4", "boss", "few"];
    for caller in others {
        ask(&house, caller, agent).await.problem(403, "forbidden", ONLY_THE_WORKER);
    }
    let told = refused(&house, "partner", 8).await;
    let operation = "POST /computer/accounts/{targetAccountId}/secrets/release";
    assert!(told.iter().all(|entry| entry["object"] == operation), "{told:?}");
    assert_eq!(told.len(), others.len());
    assert_eq!(entries(&house, "secrets.released").await, [] as [Value; 0]);
}

#[tokio::test]
async fn a_worker_is_given_nothing_of_another_agent() {
    let house = staffed("").await;
    let (own, other) = (house.id("agent1"), house.id("agent2"));
    let foreign = ["agent2", "agent3", "org1", "partner"].map(|name| house.id(name).get());
    for id in foreign.into_iter().chain([NOBODY]) {
        let reply = house.post("worker", &path(id), wanted()).await;
        reply.problem(403, "forbidden", "does not reach this account");
        let named = format!("{}?targetAccountId={id}", path(own));
        house.post("worker", &named, wanted()).await.problem(400, "invalid_request", "named");
        let mut body = wanted();
        body["targetAccountId"] = json!(id);
        let reply = house.post("worker", &path(own), body).await;
        reply.problem(400, "invalid_request", "named differently");
    }
    let theirs = ask(&house, "other", other).await.success(200).to_string();
    assert!(theirs.contains("of agent2") && !theirs.contains("of agent1"), "{theirs}");
}

#[tokio::test]
async fn no_request_makes_a_workers_key() {
    let house = staffed("").await;
    let agent = house.id("agent1");
    for caller in ["partner", "org1", "agent1"] {
        let body = json!({ "type": "worker", "description": "x", "targetAccountId": agent.get() });
        let reply = house.post(caller, "/tokens", body.clone()).await;
        reply.problem(400, "invalid_request", "type");
        let body = json!({ "description": "x", "targetAccountId": agent.get() });
        let made = house.post(caller, "/tokens", body).await.success(200);
        assert_eq!(made["token"]["type"], "admin");
        let target =
            format!("/api/v2{}?token={}", path(agent), made["token"]["token"].as_str().unwrap());
        let body = wanted().to_string();
        let reply = house.send("POST", &target, Some(("application/json", &body))).await;
        reply.problem(403, "forbidden", ONLY_THE_WORKER);
    }
    // A worker makes no key at all, and ends none.
    let body = json!({ "description": "x" });
    house.post("worker", "/tokens", body).await.problem(403, "forbidden", "the worker who has");
    let listed = house.get("agent1", "/tokens").await.success(200);
    let types: Vec<_> =
        listed["tokens"].as_array().unwrap().iter().map(|key| &key["type"]).collect();
    assert_eq!(types.iter().filter(|kind| **kind == "worker").count(), 1, "{types:?}");
}

#[tokio::test]
async fn a_workers_key_ends_with_its_provisioning() {
    let mut house = staffed("").await;
    let agent = house.id("agent1");
    let computer = format!("/computer/accounts/{agent}");
    let refused = async |house: &House| {
        ask(house, "worker", agent).await.problem(403, "forbidden", ONLY_THE_WORKER);
    };
    ask(&house, "worker", agent).await.success(200);
    let deprovision = format!("{computer}/deprovision");
    house.post("org1", &deprovision, json!({})).await.success(202);
    refused(&house).await;
    let none = house.tenancy.issue_worker_key(agent, KeyTerms::of("x")).await;
    assert!(none.err().unwrap().to_string().contains("is not provisioned"));
    // It does not employ itself again, and is no other's worker.
    for caller in ["worker", "org1"] {
        let reply = house.post(caller, &format!("{computer}/provision"), json!({})).await;
        assert!([200, 202].contains(&reply.status), "{}", reply.text());
        refused(&house).await;
    }
    house.hire("second", "agent1").await;
    refused(&house).await;
    ask(&house, "second", agent).await.success(200);
    house.call("org1", "DELETE", &computer, None).await.success(200);
    ask(&house, "second", agent).await.problem(403, "forbidden", ONLY_THE_WORKER);
}

#[tokio::test]
async fn a_released_secret_stays_nowhere() {
    let house = staffed("").await;
    let agent = house.id("agent1");
    let log = Log::default();
    let listening = log.listen();
    let body = wanted().to_string();
    let lines = "Idempotency-Key: once\r\n";
    for _ in 0..2 {
        let reply = house.exact("worker", ("POST", &path(agent)), lines, Some(&body)).await;
        assert!(!reply.headers.contains_key("idempotency-replayed"));
        assert!(!format!("{:?}", reply.headers).contains(VALUE));
        assert!(reply.success(200).to_string().contains(VALUE));
    }
    drop(listening);
    let log = log.text();
    assert!(log.contains("/secrets/release") && !log.contains(VALUE), "{log}");
    for list in ["/audit?limit=200", "/events", "/computer/accounts", "/apps"] {
        let shown = house.get("agent1", list).await.success(200).to_string();
        assert!(!shown.contains(VALUE), "{list}: {shown}");
    }
    for entry in std::fs::read_dir(house._folder.path().join("data")).unwrap() {
        let file = entry.unwrap().path();
        let octets = if file.is_file() { std::fs::read(&file).unwrap() } else { Vec::new() };
        let found = octets.windows(VALUE.len()).any(|window| window == VALUE.as_bytes());
        assert!(!found, "{}", file.display());
    }
}

#[tokio::test]
async fn each_release_is_its_own_and_has_its_entry() {
    let house = staffed("").await;
    let agent = house.id("agent1");
    let body = json!({ "secrets": ["smtp"] }).to_string();
    for (number, value) in [(1, "one"), (2, "two")] {
        let computer = format!("/computer/accounts/{agent}");
        let config = json!({ "config": { "secrets": { "smtp": value } } });
        house.put("agent1", &computer, config).await.success(200);
        let lines = "Idempotency-Key: same\r\n";
        let reply = house.exact("worker", ("POST", &path(agent)), lines, Some(&body)).await;
        let id = reply.headers["x-request-id"].clone();
        assert_eq!(reply.success(200)["secrets"]["smtp"], value, "no earlier answer is kept");
        let told = entries(&house, "secrets.released").await;
        assert_eq!((told.len(), &told[0]["requestId"]), (number, &json!(id)));
    }
    // Without an entry there is no answer, though nothing else fails.
    let bar = "CREATE TRIGGER bar BEFORE INSERT ON audit_entries
               WHEN NEW.deed = 'secrets.released' BEGIN SELECT RAISE(ABORT, 'barred'); END";
    sqlx::query(bar).execute(&mut house.database().await).await.unwrap();
    ask(&house, "worker", agent).await.problem(503, "unavailable", "");
    house.get("worker", "/computer/accounts").await.success(200);
    assert_eq!(entries(&house, "secrets.released").await.len(), 2);
}

#[tokio::test]
async fn no_page_and_no_tool_is_given_a_secret() {
    let house = staffed("").await;
    let agent = house.id("agent1");
    let token = house.token("worker").to_owned();
    let (access, http) = (&house.http.use_cases.access, &house.http);
    let browser = Browser::default();
    let secret = access.sign_in(&token, browser).await.unwrap().secret;
    let release = OPERATIONS.iter().find(|operation| operation.need.worker).unwrap();
    for credential in [Credential::Session(secret), Credential::Key(token)] {
        let caller = access.authenticate(&credential).await.unwrap();
        let from = Ipv4Addr::LOCALHOST.into();
        let inside = InProcess::new(Arc::clone(http), caller, credential, from, &Trace::default());
        let status = inside.perform(Asked::of("getComputer").at(agent)).await.unwrap().status();
        assert_eq!(status, 200, "other operations are asked");
        let refused = inside.perform(Asked::of(release.id).at(agent).sends(wanted())).await;
        assert!(refused.is_err(), "{refused:?}");
    }
    assert_eq!(entries(&house, "secrets.released").await, [] as [Value; 0]);
}

#[tokio::test]
async fn nothing_is_released_without_the_feature_and_the_operators_word() {
    let house = House::new().await;
    for who in ["reseller1", "org1", "agent1"] {
        let all = house.get(who, "/features").await.success(200);
        let all = all["features"].as_array().unwrap();
        let one = all.iter().find(|one| one["feature"] == "secretRelease").unwrap();
        assert_eq!((&one["default"], &one["enabled"]), (&json!(false), &json!(false)));
    }
    let house = staffed("").await;
    let agent = house.id("agent1");
    for (on, status) in [(json!(false), 403), (json!(true), 200), (Value::Null, 403)] {
        let path = format!("/features/assign?targetAccountId={}", house.id("org1"));
        let body = json!({ "features": { "secretRelease": on } });
        house.post("partner", &path, body).await.success(200);
        let reply = ask(&house, "worker", agent).await;
        assert_eq!(reply.status, status, "{}", reply.text());
        if status == 403 {
            reply.problem(403, "feature_required", "\"secretRelease\"");
            refused(&house, "partner", 1).await;
        }
    }
    let path = format!("/features/assign?targetAccountId={}", house.id("org1"));
    let body = json!({ "features": { "secretRelease": true } });
    house.post("partner", &path, body).await.success(200);
    let access = &house.http.use_cases.access;
    let caller = access.caller(Some(house.token("worker"))).await.unwrap();
    let need = OPERATIONS.iter().find(|operation| operation.need.worker).unwrap().need;
    access.target(&caller, Some(agent), need).await.unwrap();
    let without = access.clone().releasing_secrets(false);
    let denied = without.target(&caller, Some(agent), need).await.unwrap_err();
    assert!(matches!(denied, Denied::ReleasesNothing), "{denied}");
}

#[tokio::test]
async fn releases_are_counted_as_changes() {
    // The set-up is made by others: the worker's key has made no change.
    let few = "[rates]\nreads_per_minute = 0\nwrites_per_minute = 3\nkeyless_per_minute = 0\n";
    let house = staffed(few).await;
    let agent = house.id("agent1");
    for left in [2, 1, 0] {
        let reply = ask(&house, "worker", agent).await;
        assert!(reply.headers["ratelimit"].starts_with(&format!("\"write\";r={left};t=")));
        reply.success(200);
    }
    ask(&house, "worker", agent).await.problem(429, "rate_limited", "too many requests to write");
}
