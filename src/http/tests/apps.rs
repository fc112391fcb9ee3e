//! Apps on Agents and integrations of accounts: their life and state, and the secrecy of their
//! secrets.

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Row as _};

use crate::app::apps::{Apps, AppsError};
use crate::app::vault::{Vault, VaultError};
use crate::domain::app::AppRef;
use crate::http::tests::House;
use crate::http::tests::secrecy::Log;
use std::sync::Arc;

/// No part of it occurs anywhere else.
const SECRET: &str = "hunter2-canary-4711";

impl House {
    pub(super) async fn put(
        &self,
        caller: &str,
        path: &str,
        body: Value,
    ) -> crate::http::tests::Reply {
        self.call(caller, "PUT", path, Some(&body)).await
    }

    /// Every cell of every table as the database has it, one after the other, text as bytes.
    async fn dump(&self) -> Vec<u8> {
        let mut database = self.database().await;
        let columns =
            "SELECT t.name, c.name FROM sqlite_schema AS t, pragma_table_info(t.name) AS c
                       WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite%'";
        let columns = sqlx::query(columns).fetch_all(&mut database).await.unwrap();
        let mut dump = Vec::new();
        for column in columns {
            let (table, column): (String, String) = (column.get(0), column.get(1));
            let cells =
                format!("SELECT CAST({column} AS BLOB) FROM {table} WHERE {column} IS NOT NULL");
            for row in sqlx::query(AssertSqlSafe(cells)).fetch_all(&mut database).await.unwrap() {
                dump.extend(row.get::<Vec<u8>, _>(0));
                dump.push(b'\n');
            }
        }
        dump
    }
}

fn holds(octets: &[u8], text: &str) -> bool {
    octets.windows(text.len()).any(|window| window == text.as_bytes())
}

/// The app of this id and version in the list.
async fn listed(house: &House, caller: &str, id: &str, version: &str) -> Value {
    let list = house.get(caller, "/apps").await.success(200);
    assert_eq!(list["count"], list["apps"].as_array().unwrap().len());
    let apps = list["apps"].as_array().unwrap();
    let found = apps.iter().find(|app| app["appId"] == id && app["version"] == version);
    found.unwrap_or_else(|| panic!("{id} {version}: {list}")).clone()
}

#[tokio::test]
async fn an_app_is_installed_set_up_changed_and_removed() {
    let house = House::new().await;
    let path = "/apps/crm/v1";
    let before = listed(&house, "agent1", "crm", "v1").await;
    assert_eq!((&before["installed"], &before["setupComplete"]), (&json!(false), &json!(false)));
    assert_eq!((&before["settings"], &before["installedAt"]), (&Value::Null, &Value::Null));
    let token = json!({
        "name": "apiToken", "title": "API token", "type": "text", "required": true, "secret": true,
        "choices": [],
    });
    assert!(before["settingsSchema"].as_array().unwrap().contains(&token), "{before}");
    // Both versions are offered; an organization never has one installed.
    listed(&house, "org1", "crm", "v2").await;
    house.get("agent1", path).await.problem(404, "not_found", "install it with POST");
    house.put("agent1", path, json!({ "settings": {} })).await.problem(404, "not_found", "install");

    let made = house.call("agent1", "POST", path, None).await.success(201)["app"].clone();
    assert_eq!(made["missing"], json!(["apiToken", "baseUrl"]));
    assert_eq!((&made["installed"], &made["setupComplete"]), (&json!(true), &json!(false)));
    assert_eq!(made["settings"], json!({ "apiToken": { "present": false } }));
    house.post("agent1", path, json!({})).await.problem(
        409,
        "conflict",
        "is already installed: change",
    );

    let settings = json!({ "baseUrl": "https://crm.example/", "apiToken": SECRET });
    let kept = house.put("agent1", path, json!({ "settings": settings })).await.success(200);
    let shown = json!({ "baseUrl": "https://crm.example/", "apiToken": { "present": true } });
    assert_eq!((&kept["app"]["settings"], &kept["app"]["missing"]), (&shown, &json!([])));
    assert_eq!(kept["app"]["setupComplete"], true);
    assert_eq!(house.get("agent1", path).await.success(200)["app"], kept["app"]);
    assert_eq!(listed(&house, "agent1", "crm", "v1").await, kept["app"]);
    // A value may be written back as it was read; an omitted one stays, null removes it.
    for (settings, token) in [
        (shown.clone(), true),
        (json!({ "pipeline": "p" }), true),
        (json!({ "pipeline": null }), true),
        (json!({ "apiToken": null }), false),
    ] {
        let left = house.put("agent1", path, json!({ "settings": settings })).await.success(200);
        let mut expected = shown.clone();
        expected["apiToken"]["present"] = json!(token);
        if settings["pipeline"] == "p" {
            expected["pipeline"] = json!("p");
        }
        assert_eq!(left["app"]["settings"], expected);
        assert_eq!(left["app"]["setupComplete"], token);
    }
    let other = listed(&house, "agent2", "crm", "v1").await;
    assert_eq!(other["installed"], false, "it is its own Agent's");
    let gone = house.call("agent1", "DELETE", path, None).await.success(200);
    assert_eq!(gone["removed"], json!({ "appId": "crm", "version": "v1" }));
    house.call("agent1", "DELETE", path, None).await.problem(
        404,
        "not_found",
        "this version of the app is not installed",
    );
    house.get("agent1", path).await.problem(
        404,
        "not_found",
        "this version of the app is not installed",
    );
}

#[tokio::test]
async fn what_an_app_depends_on_is_said_and_counts() {
    let house = House::new().await;
    let settings = json!({ "settings": { "baseUrl": "https://t.example", "apiKey": SECRET } });
    let made = house.post("agent1", "/apps/tickets/v1", settings).await.success(201);
    let crm = |met: bool| json!([{ "type": "app", "name": "crm", "satisfied": met }]);
    assert_eq!((&made["app"]["missing"], &made["app"]["dependencies"]), (&json!([]), &crm(false)));
    assert_eq!(made["app"]["setupComplete"], false);
    // The dependency is installed but not set up; any version of it counts.
    house.post("agent1", "/apps/crm/v2", json!({})).await.success(201);
    assert_eq!(listed(&house, "agent1", "tickets", "v1").await["dependencies"], crm(false));
    let settings = json!({ "region": "eu", "clientId": "c", "clientSecret": SECRET });
    house.put("agent1", "/apps/crm/v2", json!({ "settings": settings })).await.success(200);
    let now = listed(&house, "agent1", "tickets", "v1").await;
    assert_eq!((&now["dependencies"], &now["setupComplete"]), (&crm(true), &json!(true)));

    // The feature is required from the next request on, and reported missing once it is gone.
    let computer = |on: Value| json!({ "features": { "computer": on } });
    let assign = format!("/features/assign?targetAccountId={}", house.id("org1"));
    house.post("partner", &assign, computer(json!(false))).await.success(200);
    let refused = house.post("agent1", "/apps/files/v1", json!({})).await;
    refused.problem(403, "feature_required", "\"computer\"");
    house.post("partner", &assign, computer(Value::Null)).await.success(200);
    let folder = json!({ "settings": { "folder": "/mail" } });
    let made = house.post("agent1", "/apps/files/v1", folder).await.success(201);
    assert_eq!(made["app"]["setupComplete"], true);
    house.post("partner", &assign, computer(json!(false))).await.success(200);
    let now = listed(&house, "agent1", "files", "v1").await;
    let missed = json!([{ "type": "feature", "name": "computer", "satisfied": false }]);
    assert_eq!((&now["dependencies"], &now["setupComplete"]), (&missed, &json!(false)));
}

#[tokio::test]
async fn data_of_an_integration_is_kept_and_not_shown() {
    let house = House::new().await;
    let path = "/integration/acme/v1";
    for who in ["agent1", "org1", "partner"] {
        house.get(who, path).await.problem(404, "not_found", "store data with PUT");
    }
    let body = json!({ "appData": { "key": SECRET, "deep": { "er": [SECRET] }, "n": 1 } });
    let kept = house.put("org1", path, body).await.success(200);
    let there = json!({ "present": true });
    let shown = json!({ "key": there, "deep": there, "n": there });
    let (id, version) = (&kept["appId"], &kept["appVersion"]);
    assert_eq!((id, version, &kept["appData"]), (&json!("acme"), &json!("v1"), &shown));
    assert_eq!(house.get("org1", path).await.success(200)["appData"], shown);
    house.get("agent1", path).await.problem(404, "not_found", "has no data");
    house.get("org1", "/integration/acme/v2").await.problem(404, "not_found", "has no data");
    let change = json!({ "appData": { "n": null, "deep": there } });
    let left = house.put("org1", path, change).await.success(200);
    assert_eq!(left["appData"], json!({ "key": there, "deep": there }));
    // Data without values is not stored, not even the first time.
    let gone = json!({ "appData": { "key": null, "deep": null } });
    for body in [gone, json!({ "appData": {} })] {
        assert_eq!(house.put("org1", path, body).await.success(200)["appData"], json!({}));
        house.get("org1", path).await.problem(404, "not_found", "has no data");
    }
    // Fields in the catalogue have types, and are shown unless they are secret.
    let path = "/integration/crm/v1";
    let body =
        json!({ "appData": { "baseUrl": "https://crm.example", "apiToken": SECRET, "x": 1 } });
    let shown = json!({ "baseUrl": "https://crm.example", "apiToken": there, "x": there });
    let kept = house.put("agent1", path, body).await.success(200);
    assert_eq!(kept["appData"], shown);
    let wrong = house.put("agent1", path, json!({ "appData": { "baseUrl": SECRET } })).await;
    wrong.problem(400, "invalid_request", "baseUrl must be a URL");
    for (data, words) in [
        (json!([]), "appData must be an object"),
        (json!({ "a b": 1 }), "the name of a field must have"),
        (json!({ "none": there }), "none has no stored value to keep"),
        (json!({ "x": "y".repeat(40_000) }), "at most 32768 bytes"),
        (Value::from_iter((0..65).map(|n| (format!("f{n}"), json!(n)))), "at most 64 fields"),
    ] {
        let reply = house.put("agent1", path, json!({ "appData": data })).await;
        reply.problem(400, "invalid_request", words);
    }
    assert_eq!(house.get("agent1", path).await.success(200)["appData"], shown);
}

#[tokio::test]
async fn no_secret_is_in_a_row_an_answer_or_a_log() {
    let house = House::new().await;
    let log = Log::default();
    let listening = log.listen();
    let mut replies = Vec::new();
    let key = json!({ "settings": { "serviceAccountKey": SECRET, "calendarId": "c" } });
    let tool = json!({ "settings": { "url": format!("https://x.example/{SECRET}") } });
    let wrong = json!({ "settings": { "baseUrl": SECRET, "apiToken": [SECRET] } });
    let data = json!({ "appData": { "key": SECRET, "baseUrl": { "password": SECRET } } });
    for (verb, path, body) in [
        ("POST", "/apps/calendar/v1", &key),
        ("PUT", "/apps/calendar/v1", &key),
        ("POST", "/apps/webhook/v1", &tool),
        ("POST", "/apps/crm/v1", &wrong),
        ("POST", "/apps/calendar/v1", &key),
        ("PUT", "/integration/acme/v1", &data),
        ("PUT", "/integration/crm/v1", &data),
        ("PUT", "/integration/acme/v1", &data),
        ("PUT", "/apps/calendar/v1", &json!({ "settings": { "calendarId": "d" } })),
    ] {
        replies.push(house.call("agent1", verb, path, Some(body)).await);
    }
    for path in ["/apps", "/apps/calendar/v1", "/apps/webhook/v1", "/integration/acme/v1"] {
        replies.push(house.get("agent1", path).await);
    }
    let audit = house.get("partner", "/audit").await;
    assert!(audit.text().contains("serviceAccountKey"), "the field is named: {}", audit.text());
    replies.push(audit);
    drop(listening);
    for reply in &replies {
        assert!(!reply.text().contains(SECRET), "{}", reply.text());
    }
    assert!(log.text().contains("to SQLite") && !log.text().contains(SECRET));
    let dump = house.dump().await;
    assert!(
        holds(&dump, "calendarId") && holds(&dump, "serviceAccountKey"),
        "what is no secret is there"
    );
    assert!(!holds(&dump, SECRET));
    // The secrets are stored: the vault opens each in its own place only.
    let app = AppRef::new("calendar", "v1").unwrap();
    let of = crate::domain::app::Use::Installed;
    let record = house.store.app_record(house.id("agent1"), of, &app).await.unwrap().unwrap();
    let vault = Vault::new(&[[7; 32]], crate::http::tests::mint());
    let open = vault.open(&record.place(), record.sealed.as_ref().unwrap()).unwrap();
    assert_eq!(open.expose(), json!({ "serviceAccountKey": SECRET }).to_string().as_bytes());
    let elsewhere = record.place().replace("app/", "integration/");
    let refused = vault.open(&elsewhere, record.sealed.as_ref().unwrap());
    assert_eq!(refused, Err(VaultError::NotOurs));
    // They are deleted with the account.
    let id = house.id("agent1").get();
    let delete = json!({ "targetAccountId": id });
    house.call("org1", "DELETE", "/deleteAccount", Some(&delete)).await.success(201);
    assert_eq!(house.store.app_records(house.id("agent1"), of).await.unwrap(), []);
}

#[tokio::test]
async fn without_a_key_no_secret_is_kept_and_with_another_none_is_lost() {
    let house = House::new().await;
    let account = house.residents["agent1"].account.clone();
    let held = house.http.use_cases.access.features(&account).await.unwrap();
    let apps = |keys: &[u8]| {
        let keys: Vec<[u8; 32]> = keys.iter().map(|octet| [*octet; 32]).collect();
        let rules = Arc::new(house.http.use_cases.apps.rules().clone());
        Apps::new(
            house.store.clone(),
            Vault::new(&keys, crate::http::tests::mint()),
            crate::http::tests::mint(),
            rules,
        )
    };
    let app = AppRef::new("crm", "v1").unwrap();
    let object = |value: Value| value.as_object().unwrap().clone();
    let (plain, secret) =
        (object(json!({ "pipeline": "p" })), object(json!({ "apiToken": SECRET })));
    let refused = apps(&[]).install(&account, &app, &secret, &held).await.unwrap_err();
    assert!(matches!(refused, AppsError::Vault(VaultError::NoKey)), "{refused:?}");
    apps(&[]).install(&account, &app, &plain, &held).await.unwrap();
    apps(&[1]).update(&account, &app, &secret, &held).await.unwrap();
    // With another vault key, changes that touch no secret succeed; a secret is set anew or
    // removed.
    let other = apps(&[2]);
    other.update(&account, &app, &object(json!({ "pipeline": "q" })), &held).await.unwrap();
    let token = object(json!({ "apiToken": { "present": true } }));
    other.update(&account, &app, &token, &held).await.unwrap();
    let state = apps(&[1]).update(&account, &app, &secret, &held).await.unwrap();
    assert!(state.record.unwrap().has("apiToken"));
    let data = object(json!({ "a": SECRET, "b": SECRET }));
    apps(&[1]).set_integration(account.id, &app, &data).await.unwrap();
    let one = object(json!({ "a": "new" }));
    let refused = other.set_integration(account.id, &app, &one).await.unwrap_err();
    assert!(matches!(refused, AppsError::Vault(VaultError::NotOurs)), "{refused:?}");
    let all = object(json!({ "a": "new", "b": null }));
    let record = other.set_integration(account.id, &app, &all).await.unwrap();
    assert_eq!(Vec::from_iter(record.secrets), ["a"]);
}

#[tokio::test]
async fn an_app_is_assigned_when_it_is_installed_and_stays_while_it_is_assigned() {
    let house = House::new().await;
    let apps = json!([{ "appId": "crm", "version": "v1", "instructions": "x" }]);
    let fields = json!({ "type": "chatAgent", "title": "A", "description": "x", "apps": apps });
    house.post("agent1", "/agent", fields.clone()).await.problem(409, "conflict", "crm/v1");
    house.post("agent1", "/apps/crm/v1", json!({})).await.success(201);
    house.post("agent1", "/agent", fields).await.success(200);
    house.post("agent1", "/agent/publish", json!({})).await.success(200);
    house.post("agent1", "/agent", json!({ "apps": [] })).await.success(200);
    let removed = house.call("agent1", "DELETE", "/apps/crm/v1", None).await;
    removed.problem(409, "conflict", "default");
    house.post("agent1", "/agent/publish", json!({})).await.success(200);
    house.call("agent1", "DELETE", "/apps/crm/v1", None).await.success(200);
    // A stored version still names the app, and is not restored.
    let live = house.get("agent1", "/agentEventRules/default").await.success(200);
    let versions = format!("/agent/{}/versions", live["campaignId"].as_str().unwrap());
    let kept = house.get("agent1", &versions).await.success(200);
    let one = format!("{versions}/{}/restore", kept["versions"][0]["versionId"]);
    let restored = house.post("agent1", &one, json!({ "target": "default" })).await;
    restored.problem(409, "conflict", "crm/v1");
}

#[tokio::test]
async fn names_that_are_none_and_apps_that_nobody_offers_are_not_there() {
    let house = House::new().await;
    for path in ["/apps/crm/v9", "/apps/crn/v1", "/apps/%2e%2e/v1", "/apps/a%20b/v1"] {
        let reply = house.post("agent1", path, json!({})).await;
        assert_eq!(reply.status, 404, "{path}: {}", reply.text());
    }
    let reply = house.put("agent1", "/integration/a%00/v1", json!({ "appData": {} })).await;
    reply.problem(404, "not_found", "integration");
    let reply = house.post("agent1", "/apps/crm/v1", json!({ "settings": { "x": 1 } })).await;
    reply.problem(400, "invalid_request", "no setting x: expected apiToken, baseUrl, pipeline");
    let reply = house.post("org1", "/apps/crm/v1", json!({})).await;
    reply.problem(400, "invalid_request", "an Agent");
}
