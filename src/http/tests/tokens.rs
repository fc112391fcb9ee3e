//! Keys made, listed and revoked by their owners and by those above them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::app::tenancy::KeyTerms;
use crate::domain::key::KeyOwner;
use crate::domain::member::Role;
use crate::http::tests::{House, NOBODY, PATIENCE, Reply, Resident};

async fn create(house: &House, caller: &str, body: Value) -> Reply {
    house.call(caller, "POST", "/tokens", Some(&body)).await
}

async fn revoke(house: &House, caller: &str, body: Value) -> Reply {
    house.call(caller, "DELETE", "/tokens", Some(&body)).await
}

async fn listed(house: &House, caller: &str, target: i64) -> Vec<Value> {
    let reply = house.get(caller, &format!("/tokens?targetAccountId={target}")).await;
    reply.success(200)["tokens"].as_array().unwrap().clone()
}

async fn status(house: &House, token: &str) -> u16 {
    house.send("GET", &format!("/api/v2/account?token={token}"), None).await.status
}

#[tokio::test]
async fn a_key_is_made_shown_once_listed_and_revoked() {
    let house = House::new().await;
    let id = house.id("agent1").get();
    let body = json!({ "type": "admin", "description": "Main app", "targetAccountId": id });
    let made = create(&house, "org1", body).await.success(200)["token"].clone();
    let value = made["token"].as_str().unwrap();
    assert!(value.starts_with("gp_") && value.len() == 46);
    assert_eq!((&made["type"], &made["description"]), (&json!("admin"), &json!("Main app")));
    assert_eq!((&made["userId"], &made["expiresAt"]), (&json!(id), &Value::Null));
    assert!(made["timestamp"].as_str().unwrap().parse::<i64>().unwrap() > 1_700_000_000);
    assert_eq!(status(&house, value).await, 200);

    let list = house.get("org1", &format!("/tokens?targetAccountId={id}")).await;
    assert!(!list.text().contains(value));
    let tokens = list.success(200)["tokens"].as_array().unwrap().clone();
    assert_eq!(tokens.len(), 2, "its first one, and this");
    let shown = tokens.iter().find(|token| token["id"] == made["id"]).unwrap();
    let four = &value[42..];
    assert_eq!(shown["token"], format!("…{four}"));
    assert_eq!((&shown["lastFour"], &shown["userId"]), (&json!(four), &json!(id)));
    for field in ["id", "description", "type", "timestamp", "createdAt"] {
        assert!(shown[field].is_string(), "{field}: {shown}");
    }
    // Rotation: both keys are valid until the old one is revoked, here by the new one.
    let old = house.token("agent1").to_owned();
    assert_eq!(status(&house, &old).await, 200);
    let reply = house.send("DELETE", &format!("/api/v2/tokens?token={value}"), body_of(&old)).await;
    reply.success(200);
    assert_eq!((status(&house, &old).await, status(&house, value).await), (401, 200));
    // A key may revoke itself, and is named by id in query or body.
    let target = format!("/api/v2/tokens?token={value}&id={}", made["id"].as_str().unwrap());
    house.send("DELETE", &target, None).await.success(200);
    assert_eq!(status(&house, value).await, 401);
    assert_eq!(listed(&house, "org1", id).await, Vec::<Value>::new());
}

fn body_of(token: &str) -> Option<(&'static str, &'static str)> {
    let body = json!({ "token": token }).to_string();
    Some(("application/json", body.leak()))
}

#[tokio::test]
async fn what_is_not_asked_for_rightly_makes_no_key() {
    let house = House::new().await;
    let id = house.id("agent1").get();
    for (body, words) in [
        (json!({ "description": "x", "type": "user" }), "type must be"),
        (json!({ "description": "x", "type": 1 }), "/type must be one of: admin"),
        (
            json!({ "type": 1, "expiresAt": [] }),
            "/type must be one of: admin; /description is missing",
        ),
        (json!({ "type": "admin" }), "description is missing"),
        (json!({ "description": "x".repeat(201) }), "at most 200 bytes"),
        (json!({ "description": "a\nb" }), "no control characters"),
        (json!({ "description": "x", "expiresAt": "tomorrow" }), "expiresAt must be"),
        (json!({ "description": "x", "expiresAt": 1.5 }), "expiresAt must be"),
        (json!({ "description": "x", "expiresAt": -1 }), "expiresAt must be"),
        (json!({ "description": "x", "expiresAt": [] }), "expiresAt must be"),
        (json!({ "description": "x", "expiresAt": 1_700_000_000 }), "in the future"),
        (json!({ "description": "x", "userId": 1 }), "\"userId\" is not known"),
        (json!({ "description": "x", "scope": "partner" }), "\"scope\" is not known"),
    ] {
        create(&house, "agent1", body).await.problem(400, "invalid_request", words);
    }
    let nobody = json!({ "description": "x", "targetAccountId": NOBODY });
    create(&house, "agent1", nobody).await.problem(403, "forbidden", "does not reach");
    let above = json!({ "description": "x", "targetAccountId": house.id("org1").get() });
    create(&house, "agent1", above).await.problem(403, "forbidden", "does not reach");
    assert_eq!(listed(&house, "agent1", id).await.len(), 1, "the one that it had");
}

#[tokio::test]
async fn a_key_of_somebody_else_is_as_good_as_unknown() {
    let house = House::new().await;
    let foreign = house.token("agent3").to_owned();
    let id = listed(&house, "agent3", house.id("agent3").get()).await[0]["id"].clone();
    for body in [
        json!({ "token": foreign }),
        json!({ "id": id }),
        json!({ "token": format!("gp_{}", "A".repeat(43)) }),
        json!({ "token": "9fe4f9...." }),
        json!({ "token": "" }),
        json!({ "id": uuid::Uuid::nil().to_string() }),
    ] {
        let reply = revoke(&house, "org1", body).await;
        reply.problem(404, "not_found", "no such token in the scope of this request");
    }
    for body in [json!({}), json!({ "id": id, "token": foreign }), json!({ "id": "1" })] {
        let words = if body["id"] == "1" { "/id must be a UUID" } else { "name the token" };
        revoke(&house, "org1", body).await.problem(400, "invalid_request", words);
    }
    // In the query, `token` is the caller's key, also if the body names another.
    let (path, body) = (format!("/tokens?id={}", uuid::Uuid::nil()), json!({ "id": id }));
    let reply = house.call("org1", "DELETE", &path, Some(&body)).await;
    reply.problem(400, "invalid_request", "/id differs between query and body: send it once");
    assert_eq!(status(&house, &foreign).await, 200);
    // An account above finds a key below it by value alone.
    revoke(&house, "reseller1", json!({ "token": foreign })).await.success(200);
    assert_eq!(status(&house, &foreign).await, 401);
    revoke(&house, "reseller1", json!({ "token": foreign })).await.problem(404, "not_found", "");
}

#[tokio::test]
async fn a_key_that_expires_makes_none_that_outlives_it() {
    let mut house = House::new().await;
    let end = house.now().plus(Duration::from_secs(3600));
    let owner = KeyOwner::Account(house.id("org1"));
    let token = house
        .tenancy
        .issue_key(owner, KeyTerms { expires_at: Some(end), ..KeyTerms::of("short") })
        .await
        .unwrap()
        .token;
    let account = house.residents["org1"].account.clone();
    house.residents.insert("short", Resident { account, token });
    for body in [
        json!({ "description": "x" }),
        json!({ "description": "x", "expiresAt": null }),
        json!({ "description": "x", "expiresAt": end.seconds() + 1 }),
        json!({ "description": "x", "targetAccountId": house.id("agent1").get() }),
    ] {
        let reply = create(&house, "short", body).await;
        reply.problem(403, "forbidden", &format!("expires at {end}"));
    }
    let body = json!({ "description": "x", "expiresAt": end.seconds() });
    let made = create(&house, "short", body).await.success(200)["token"].clone();
    let shown = crate::domain::clock::Timestamp::from_millis(end.seconds() * 1000).to_string();
    assert_eq!(made["expiresAt"], shown);
    let body = json!({ "description": "x", "expiresAt": "2999-01-01" });
    create(&house, "org1", body).await.success(200);
}

#[tokio::test]
async fn an_expired_key_is_no_key() {
    let house = House::new().await;
    // Each look at the house's clock takes a millisecond, so the key expires soon.
    let end = house.now().plus(Duration::from_millis(3));
    let owner = KeyOwner::Account(house.id("org1"));
    let made = house
        .tenancy
        .issue_key(owner, KeyTerms { expires_at: Some(end), ..KeyTerms::of("short") })
        .await
        .unwrap();
    while house.now() < end {}
    let target = format!("/api/v2/account?token={}", made.token);
    house.send("GET", &target, None).await.problem(401, "unauthorized", "expired");
    let tokens = listed(&house, "org1", house.id("org1").get()).await;
    assert!(tokens.iter().all(|token| token["description"] != "short"), "{tokens:?}");
}

#[tokio::test]
async fn members_have_keys_of_their_own() {
    let mut house = House::new().await;
    let anna = house.join("anna", "org1", Role::Member, &[]).await.id.get();
    let eva = house.join("eva", "org1", Role::Admin, &[]).await.id.get();
    let org = house.id("org1").get();
    // Without a target a member acts on itself, whatever its role.
    let made = create(&house, "anna", json!({ "description": "phone" })).await.success(200);
    assert_eq!(made["token"]["userId"], anna);
    let own = house.get("anna", "/tokens").await.success(200)["tokens"].clone();
    assert_eq!(own.as_array().unwrap().len(), 2);
    for target in [org, eva, house.id("agent1").get()] {
        let body = json!({ "description": "x", "targetAccountId": target });
        create(&house, "anna", body).await.problem(403, "forbidden", "needs an administrator");
        let path = format!("/tokens?targetAccountId={target}");
        house.get("anna", &path).await.problem(403, "forbidden", "needs an administrator");
    }
    let evas = listed(&house, "eva", eva).await[0]["id"].clone();
    revoke(&house, "anna", json!({ "id": evas })).await.problem(404, "not_found", "token");
    // An administrator of the account makes keys for members, and so does the account's own key.
    for caller in ["eva", "org1", "partner"] {
        let body = json!({ "description": caller, "targetAccountId": anna });
        let made = create(&house, caller, body).await.success(200);
        assert_eq!(made["token"]["userId"], anna);
    }
    assert_eq!(listed(&house, "eva", anna).await.len(), 5);
    assert_eq!(listed(&house, "org1", org).await.len(), 1, "an account's list is its own");
    let elsewhere = house.join("elsewhere", "org2", Role::Admin, &[]).await.id.get();
    let body = json!({ "description": "x", "targetAccountId": elsewhere });
    create(&house, "eva", body).await.problem(403, "forbidden", "does not reach");
    let token = house.token("anna").to_owned();
    revoke(&house, "org1", json!({ "token": token })).await.success(200);
    assert_eq!(status(&house, &token).await, 401);
}

#[tokio::test]
async fn an_owner_has_as_many_keys_as_the_rules_say() {
    let house = House::with("[keys]\nmax_per_owner = 2\n").await;
    create(&house, "org1", json!({ "description": "x" })).await.success(200);
    let reply = create(&house, "org1", json!({ "description": "x" })).await;
    reply.problem(409, "conflict", "at most 2 keys in force: revoke one");
}

#[tokio::test]
async fn that_a_key_was_used_is_noted_in_time() {
    let house = House::new().await;
    let id = house.id("agent2").get();
    assert_eq!(listed(&house, "org1", id).await[0]["lastUsedAt"], Value::Null);
    house.get("agent2", "/account").await.success(200);
    let noted = async {
        loop {
            let used = listed(&house, "org1", id).await[0]["lastUsedAt"].clone();
            if used.is_string() {
                return used;
            }
            tokio::task::yield_now().await;
        }
    };
    let first = tokio::time::timeout(PATIENCE, noted).await.unwrap();
    for _ in 0..5 {
        house.get("agent2", "/account").await.success(200);
    }
    assert_eq!(listed(&house, "org1", id).await[0]["lastUsedAt"], first);
}
