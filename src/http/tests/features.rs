//! Features of accounts: defaults, and assignments by accounts above, never more than these have.

use serde_json::{Value, json};

use crate::domain::member::Role;
use crate::http::table::OPERATIONS;
use crate::http::tests::table::filled;
use crate::http::tests::{House, NOBODY, Reply};

async fn assign(house: &House, caller: &str, target: &str, features: Value) -> Reply {
    let path = format!("/features/assign?targetAccountId={}", house.id(target));
    house.post(caller, &path, json!({ "features": features })).await
}

/// `enabled`, `granted`, `heldAbove` of a feature, as the account reads it.
async fn standing(house: &House, who: &str, feature: &str) -> (bool, Value, bool) {
    let all = house.get(who, "/features").await.success(200);
    assert_eq!(all["accountId"], house.id(who).get());
    let all = all["features"].as_array().unwrap();
    let one = all.iter().find(|one| one["feature"] == feature).unwrap();
    assert!(one["title"].is_string() && one["description"].is_string());
    assert_eq!(one["default"], true);
    let flag = |name: &str| one[name].as_bool().unwrap();
    (flag("enabled"), one["granted"].clone(), flag("heldAbove"))
}

#[tokio::test]
async fn what_is_taken_away_above_is_taken_away_below_and_comes_back() {
    let house = House::new().await;
    let accounts = ["partner", "reseller1", "org1", "agent1", "org2"];
    for who in accounts {
        for feature in ["api", "apps", "computer", "inboundEmail", "relays", "templates"] {
            assert_eq!(standing(&house, who, feature).await, (true, Value::Null, true), "{who}");
        }
    }
    let answer = assign(&house, "partner", "reseller1", json!({ "relays": false })).await;
    assert_eq!(answer.success(200)["features"][4]["enabled"], false);
    let none = Value::Null;
    for (who, expected) in [
        ("partner", (true, none.clone(), true)),
        ("reseller1", (false, json!(false), true)),
        ("org1", (false, none.clone(), false)),
        ("agent1", (false, none.clone(), false)),
        ("agent4", (true, none.clone(), true)),
    ] {
        assert_eq!(standing(&house, who, "relays").await, expected, "{who}");
    }
    // Assigned below, it takes effect once the account above has it again.
    assign(&house, "partner", "agent1", json!({ "relays": true })).await.success(200);
    assert_eq!(standing(&house, "agent1", "relays").await, (false, json!(true), false));
    assign(&house, "partner", "reseller1", json!({ "relays": null })).await.success(200);
    assert_eq!(standing(&house, "agent1", "relays").await, (true, json!(true), true));
    assert_eq!(standing(&house, "org2", "relays").await, (true, none, true));
    // Several at once.
    let both = json!({ "computer": false, "templates": false });
    assign(&house, "reseller1", "org1", both).await.success(200);
    for feature in ["computer", "templates"] {
        assert!(!standing(&house, "agent2", feature).await.0);
        assert!(standing(&house, "org2", feature).await.0);
    }
}

#[tokio::test]
async fn only_those_above_assign_and_only_what_they_have() {
    let mut house = House::new().await;
    house.join("boss", "reseller1", Role::Admin, &[]).await;
    house.join("clerk", "reseller1", Role::Member, &[]).await;
    house.join("few", "reseller1", Role::Admin, &["agent1"]).await;
    let on = || json!({ "relays": true });
    for (caller, target, words) in [
        ("org1", "agent1", "needs a key of reseller"),
        ("agent1", "agent1", "needs a key of reseller"),
        ("reseller1", "reseller1", "an account cannot assign features to itself"),
        ("partner", "partner", "an account cannot assign features to itself"),
        ("boss", "reseller1", "an account cannot assign features to itself"),
        ("reseller1", "partner", "does not reach"),
        ("reseller1", "org3", "does not reach"),
        ("clerk", "org1", "needs an administrator"),
        ("few", "agent1", "restricted to some Agents"),
    ] {
        assign(&house, caller, target, on()).await.problem(403, "forbidden", words);
    }
    assign(&house, "boss", "org1", on()).await.success(200);
    assign(&house, "partner", "reseller1", json!({ "relays": false })).await.success(200);
    for caller in ["reseller1", "boss"] {
        let reply = assign(&house, caller, "org1", on()).await;
        reply.problem(403, "feature_required", "cannot assign it");
        // An account may take away a feature that it lacks itself.
        assign(&house, caller, "org1", json!({ "relays": false })).await.success(200);
    }
    for (features, words) in [
        (json!({}), "must be an object of features"),
        (json!([]), "must be an object of features"),
        (json!({ "relays": 1 }), "/features/relays must be true, false or null"),
        (
            json!({ "relay": true }),
            "/features/relay is not known here: expected api, apps, computer",
        ),
    ] {
        let reply = assign(&house, "partner", "org1", features).await;
        reply.problem(400, "invalid_request", words);
    }
}

/// Only setting up needs the feature; showing and removing do not.
#[tokio::test]
async fn an_operation_is_refused_by_its_feature_after_its_reach_was_settled() {
    let house = House::new().await;
    house.post("agent1", "/apps/crm/v1", json!({})).await.success(201);
    assign(&house, "partner", "reseller1", json!({ "apps": false })).await.success(200);
    let data = || json!({ "appData": { "key": "x" } });
    for who in ["reseller1", "org1", "agent1"] {
        house.get(who, "/apps").await.success(200);
        let reply = house.put(who, "/integration/acme/v1", data()).await;
        reply.problem(403, "feature_required", "does not have the feature \"apps\"");
    }
    let path = "/apps/crm/v1";
    let none = json!({ "settings": {} });
    for (verb, body) in [("POST", None), ("PUT", Some(&none))] {
        let reply = house.call("agent1", verb, path, body).await;
        reply.problem(403, "feature_required", "\"apps\"");
    }
    house.get("agent1", path).await.success(200);
    house.call("agent1", "DELETE", path, None).await.success(200);
    // From above it is missing, too: the feature of the target counts.
    let at = |who: i64| format!("/integration/acme/v1?targetAccountId={who}");
    let reply = house.put("partner", &at(house.id("agent1").get()), data()).await;
    reply.problem(403, "feature_required", "\"apps\"");
    house.put("partner", &at(house.id("agent4").get()), data()).await.success(200);
    house.put("agent4", "/integration/acme/v1", data()).await.success(200);
    // A refusal reveals nothing out of reach, and the wrong kind of target is reported first.
    let mut answers = std::collections::BTreeSet::new();
    for target in [house.id("agent1").get(), house.id("agent3").get(), NOBODY] {
        let reply = house.put("agent4", &at(target), data()).await;
        reply.problem(403, "forbidden", "does not reach this account");
        let id = &reply.headers["x-request-id"];
        answers.insert(reply.text().replace(id, "ID"));
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
    house.post("org1", path, json!({})).await.problem(400, "invalid_request", "an Agent");
    // The account reads that it lacks the feature, and may use it once it is given back.
    assert!(!standing(&house, "agent1", "apps").await.0);
    assign(&house, "partner", "reseller1", json!({ "apps": null })).await.success(200);
    house.post("agent1", path, json!({})).await.success(201);
}

/// The plan of an organization, as an account above sets it.
async fn put_on(house: &House, organization: &str, plan: Value) {
    let path = format!("/updateOrganization?targetOrganizationId={}", house.id(organization));
    house.post("partner", &path, json!({ "productPlanId": plan })).await.success(200);
}

#[tokio::test]
async fn a_plan_that_the_rules_name_decides_what_was_not_assigned() {
    let house = House::new().await;
    let none = Value::Null;
    // A plan that nobody knows is kept, and decides nothing.
    put_on(&house, "org1", json!("gold")).await;
    assert_eq!(house.get("org1", "/features").await.success(200)["plan"], "gold");
    assert_eq!(standing(&house, "org1", "relays").await, (true, none.clone(), true));
    put_on(&house, "org1", json!("lean")).await;
    let shown = house.get("org1", "/features").await.success(200);
    let by_default: Vec<_> = shown["features"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["default"] == true)
        .map(|one| one["feature"].clone())
        .collect();
    assert_eq!(by_default, ["api", "inboundEmail"]);
    for who in ["org1", "agent1"] {
        let path = format!("/webhookRelay/smtp?targetAccountId={}", house.id(who));
        let relay = json!({ "url": "https://relay.example/", "timeout": 1000 });
        let reply = house.post(who, &path, relay).await;
        reply.problem(403, "feature_required", "does not have the feature \"relays\"");
    }
    // Others are not concerned.
    assert_eq!(standing(&house, "org2", "relays").await, (true, none.clone(), true));
    // An assignment goes before the plan, and reaches the Agents of the organization.
    assign(&house, "partner", "org1", json!({ "relays": true })).await.success(200);
    assert_eq!(standing(&house, "agent1", "relays").await, (true, none.clone(), true));
    put_on(&house, "org1", none.clone()).await;
    assign(&house, "partner", "org1", json!({ "relays": null })).await.success(200);
    assert_eq!(standing(&house, "org1", "relays").await, (true, none, true));
}

/// An account cannot leave its plan by itself.
#[tokio::test]
async fn nobody_gives_itself_another_plan() {
    let house = House::new().await;
    put_on(&house, "org1", json!("lean")).await;
    let body = json!({ "productPlanId": "gold" });
    let reply = house.post("org1", "/account", body.clone()).await;
    reply.problem(400, "invalid_request", "productPlanId");
    let path = format!("/updateOrganization?targetOrganizationId={}", house.id("org1"));
    let reply = house.post("org1", &path, body).await;
    assert_eq!(reply.status, 403, "{}", reply.text());
}

#[tokio::test]
async fn a_key_of_an_account_without_api_opens_nothing_and_says_why() {
    let mut house = House::new().await;
    house.join("clerk", "org1", Role::Member, &[]).await;
    let opens = async |house: &House, who: &str| {
        let status = house.get(who, "/account").await.status;
        assert!([200, 403].contains(&status), "{who}: {status}");
        status == 200
    };
    let off = json!({ "api": false });
    // By a denial and by a plan; at the account and above.
    for (target, by_plan) in [("org1", false), ("org1", true), ("reseller1", false)] {
        match by_plan {
            true => put_on(&house, target, json!("mute")).await,
            false => drop(assign(&house, "partner", target, off.clone()).await.success(200)),
        }
        for who in ["org1", "agent1", "clerk"] {
            let reply = house.get(who, "/account").await;
            reply.problem(403, "feature_required", "does not have the feature \"api\"");
        }
        assert_eq!(opens(&house, "reseller1").await, target != "reseller1");
        assert!(opens(&house, "partner").await && opens(&house, "agent4").await);
        // The feature of the account of the key counts, not that of the target.
        let path = format!("/messages/recent?targetAccountId={}", house.id("agent1"));
        assert_eq!(house.get("partner", &path).await.status, 200);
        match by_plan {
            true => put_on(&house, target, Value::Null).await,
            false => drop(assign(&house, "partner", target, json!({ "api": null })).await),
        }
        assert!(opens(&house, "agent1").await && opens(&house, "clerk").await);
    }
}

/// Every operation, whatever else is wrong with the request.
#[tokio::test]
async fn no_operation_is_open_to_a_key_without_api() {
    let house = House::new().await;
    assign(&house, "partner", "agent1", json!({ "api": false })).await.success(200);
    let own = house.id("agent1").get();
    for operation in OPERATIONS {
        for path in operation.paths() {
            let path = path.replace("{targetAccountId}", &own.to_string());
            let path = format!("{}?targetAccountId={own}", filled(&path));
            let reply = house.call("agent1", operation.verb.as_str(), &path, None).await;
            reply.problem(403, "feature_required", "\"api\"");
        }
    }
}
