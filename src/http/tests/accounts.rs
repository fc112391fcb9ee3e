//! Accounts as v2 clients make, change and delete them.

use serde_json::{Value, json};

use crate::domain::member::Role;
use crate::http::tests::{House, NOBODY, Reply};

const FORBIDDEN: &str = "the key does not reach this account";

impl House {
    pub(super) async fn post(&self, caller: &str, path: &str, body: Value) -> Reply {
        self.call(caller, "POST", path, Some(&body)).await
    }

    async fn delete(&self, caller: &str, path: &str, body: Value) -> Reply {
        self.call(caller, "DELETE", path, Some(&body)).await
    }

    /// The record of an account, as the partner reads it; `None` if it is not there.
    async fn record(&self, id: &Value) -> Option<Value> {
        let reply = self.get("partner", &format!("/account?targetAccountId={id}")).await;
        (reply.status == 200).then(|| reply.success(200))
    }
}

#[tokio::test]
async fn a_tree_is_made_from_the_top() {
    let house = House::new().await;
    let body = json!({
        "resellerName": "Acme Solar", "email": "admin@acmesolar.com", "productPlanId": "base",
        "hipaaEnabledDefault": false, "resellerStatus": "enabled",
    });
    let made = house.post("partner", "/createReseller", body).await.success(201);
    let reseller = made["organization"].clone();
    assert_eq!(reseller["accountType"], "reseller");
    assert_eq!(reseller["resellerName"], "Acme Solar");
    assert_eq!(reseller["parentId"], house.id("partner").get());
    assert_eq!(reseller["productPlanId"], "base");
    assert_eq!(reseller["resellerStatus"], "enabled");

    let target = format!("targetResellerId={}", reseller["id"]);
    let secret = "tokenxxxx-canary";
    let body = json!({
        "orgName": "Acme", "accountName": "Acme Support", "externalAccountId": "ext-1",
        "hipaaSetting": "inherit", "orgAccountType": "customer", "servicePremium": true,
        "numberingProviders": [{ "providerId": "Twilio", "config": { "authToken": secret } }],
        "integrations": [{ "appId": "a", "appVersion": "v1", "appData": { "apiToken": secret } }],
    });
    let reply = house.post("partner", &format!("/createOrganization?{target}"), body).await;
    assert!(!reply.text().contains(secret), "{}", reply.text());
    let made = reply.success(201);
    let (organization, agent) = (&made["organization"], &made["account"]);
    assert_eq!(organization["orgName"], "Acme");
    assert_eq!(organization["externalAccountId"], "ext-1");
    assert_eq!(organization["servicePremium"], true);
    assert_eq!(organization["integrations"][0]["appData"]["apiToken"], "********");
    let target = format!("targetAccountId={}", organization["id"]);
    let kept = house.get("partner", &format!("/integration/a/v1?{target}")).await.success(200);
    assert_eq!(kept["appData"], json!({ "apiToken": { "present": true } }));
    assert_eq!(agent["accountName"], "Acme Support");
    assert_eq!(agent["parentId"], organization["id"]);
    assert_eq!(agent["organizationId"], organization["id"]);
    for record in [&reseller, organization, agent] {
        let read = house.record(&record["id"]).await.unwrap();
        for (name, value) in record.as_object().unwrap() {
            assert_eq!(&read[name], value, "{name}");
        }
    }

    // As in v2: the organization by either name, or by both if they agree.
    let id = &organization["id"];
    for query in [
        format!("targetOrganizationId={id}"),
        format!("targetAccountId={id}"),
        format!("targetAccountId={id}&targetOrganizationId={id}"),
    ] {
        let body = json!({ "accountName": "Desk", "externalBillingId": "b" });
        let made = house.post("partner", &format!("/createAccount?{query}"), body).await;
        let made = made.success(201);
        assert_eq!(made["account"]["parentId"], *id, "{query}");
        assert_eq!(made["account"]["externalBillingId"], "b");
        assert_eq!(made["account"]["accountType"], "account");
    }
    let other = house.id("org1");
    let differing = format!("/createAccount?targetAccountId={id}&targetOrganizationId={other}");
    house.post("partner", &differing, json!({})).await.problem(400, "invalid_request", "differ");
    // Needs neither a name nor, with the organization's own key, a target.
    let made = house.post("org1", "/createAccount", json!({})).await.success(201);
    assert_eq!(made["account"]["accountName"], "Agent");
    let nothing = house.call("org1", "POST", "/createAccount", None).await;
    nothing.problem(400, "invalid_request", "a body is missing");
    let body = json!({ "resellerName": "Asleep", "resellerStatus": "disabled" });
    let made = house.post("partner", "/createReseller", body).await.success(201);
    assert_eq!(made["organization"]["active"], false);
    assert_eq!(made["organization"]["resellerStatus"], "disabled");
}

#[tokio::test]
async fn nobody_makes_or_changes_what_is_not_its_own() {
    let house = House::new().await;
    let before = house.store.accounts(None).await.unwrap();
    let name = |field: &str| json!({ field: "new" });
    let id = |name: &str| house.id(name).get();
    for (caller, path, target, body) in [
        ("reseller1", "/createOrganization", id("reseller2"), name("orgName")),
        ("reseller1", "/createOrganization", id("partner"), name("orgName")),
        ("reseller1", "/createOrganization", NOBODY, name("orgName")),
        ("org1", "/createAccount", id("org2"), name("accountName")),
        ("org1", "/createAccount", id("org3"), name("accountName")),
        ("org1", "/createAccount", NOBODY, name("accountName")),
        ("org1", "/updateOrganization", id("org2"), name("orgName")),
        ("org1", "/updateAccount", id("agent3"), name("accountName")),
        ("org1", "/account", id("reseller1"), name("name")),
        ("agent1", "/account", id("agent2"), name("name")),
        ("agent1", "/account", NOBODY, name("name")),
    ] {
        for target in [json!(target), json!(target.to_string())] {
            let query = format!("{path}?targetAccountId={}", target.to_string().replace('"', ""));
            house.post(caller, &query, body.clone()).await.problem(403, "forbidden", FORBIDDEN);
            let mut body = body.clone();
            body["targetAccountId"] = target;
            house.post(caller, path, body).await.problem(403, "forbidden", FORBIDDEN);
        }
    }
    // Refused for every target.
    for (caller, path, body) in [
        ("reseller1", "/createReseller", name("resellerName")),
        ("org1", "/createOrganization", name("orgName")),
        ("agent1", "/createAccount", name("accountName")),
        ("agent1", "/updateOrganization", name("orgName")),
    ] {
        house.post(caller, path, body).await.problem(403, "forbidden", "needs a key of");
    }
    // Within reach, but of the wrong level.
    let query = format!("/createAccount?targetAccountId={}", id("agent1"));
    let reply = house.post("org1", &query, json!({})).await;
    reply.problem(400, "invalid_request", "organization");
    assert_eq!(house.store.accounts(None).await.unwrap(), before);
}

#[tokio::test]
async fn what_a_body_may_not_say_is_refused_by_name() {
    let house = House::new().await;
    let before = house.store.accounts(None).await.unwrap();
    for (path, body, words) in [
        ("/createAccount", json!({ "superAdmin": true }), "superAdmin"),
        ("/createAccount", json!({ "accountType": "partner" }), "accountType"),
        ("/createAccount", json!({ "id": 1 }), "id"),
        ("/createAccount", json!({ "parentId": 1 }), "parentId"),
        ("/createAccount", json!({ "permittedAccountIds": [] }), "permittedAccountIds"),
        ("/createAccount", json!({ "createdAt": 1 }), "createdAt"),
        ("/createAccount", json!({ "__proto__": {} }), "__proto__"),
        ("/createAccount", json!({ "active": false }), "active"),
        ("/createAccount", json!({ "accountName": 1 }), "accountName must be a string"),
        ("/createAccount", json!({ "accountName": " " }), "1 to 200 bytes"),
        ("/createAccount", json!({ "accountName": "a\nb" }), "control characters"),
        ("/createAccount", json!({ "accountName": "x".repeat(201) }), "1 to 200 bytes"),
        (
            "/createAccount",
            json!({ "externalAccountId": "" }),
            "externalAccountId must have 1 to 200",
        ),
        ("/createAccount", json!({ "integrations": {} }), "integrations must be an array"),
        ("/account", json!({ "resellerId": 1 }), "resellerId"),
        ("/account", json!({ "parentId": 1 }), "parentId"),
        ("/account", json!({ "resellerStatus": "enabled" }), "resellerStatus"),
        ("/account", json!({ "servicePremium": true }), "servicePremium"),
        ("/account", json!({ "accountName": "x" }), "orgName"),
        ("/account", json!({ "name": "x", "orgName": "y" }), "differ"),
        ("/account", json!({ "email": "nobody" }), "email"),
        ("/account", json!({ "settings": { "x": "y".repeat(2001) } }), "at most 2000 bytes"),
        ("/account", json!({}), "the request changes nothing"),
        ("/updateOrganization", json!({ "parentId": 1 }), "parentId"),
        ("/updateOrganization", json!({ "smsEnabled": "yes" }), "smsEnabled must be true or false"),
        ("/updateOrganization", json!({ "smsBrandId": 1 }), "smsBrandId must be a string"),
    ] {
        house.post("org1", path, body).await.problem(400, "invalid_request", words);
    }
    assert_eq!(house.store.accounts(None).await.unwrap(), before);
}

#[tokio::test]
async fn an_update_keeps_what_it_is_told() {
    let house = House::new().await;
    let body = json!({
        "orgName": "Renamed", "firstName": "Ada", "email": "Ada@Example.com",
        "settings": { "metrics": [{ "name": "a" }], "crm": { "apiKey": "canary" } },
    });
    let reply = house.post("org1", "/account", body).await;
    assert!(!reply.text().contains("canary"));
    let answer = reply.success(200);
    assert_eq!(answer["name"], "Renamed");
    assert_eq!(answer["updatedSettings"], json!(["orgName", "email", "firstName", "settings"]));
    assert_eq!(answer["failedSettings"], json!([]));
    let body = json!({ "settings": { "metrics": [], "more": true }, "firstName": null });
    house.post("org1", "/account", body).await.success(200);
    let read = house.get("org1", "/account").await.success(200);
    let crm = json!({ "apiKey": "********" });
    assert_eq!(read["settings"], json!({ "metrics": [], "more": true, "crm": crm }));
    assert_eq!((&read["email"], read.get("firstName")), (&json!("ada@example.com"), None));

    let target = format!("targetOrganizationId={}", house.id("org1"));
    let update = format!("/updateOrganization?{target}");
    let body = json!({ "servicePremium": true, "externalAccountId": "AC_1", "active": true });
    let answer = house.post("reseller1", &update, body).await.success(200);
    assert_eq!(answer["updatedSettings"], json!(["active", "externalAccountId", "servicePremium"]));
    assert_eq!(answer["organization"]["externalAccountId"], "AC_1");
    // The name is taken; the organization's own key may not even ask.
    let theirs = format!("/updateOrganization?targetOrganizationId={}", house.id("org2"));
    let body = json!({ "externalAccountId": "AC_1", "orgName": "other" });
    let reply = house.post("reseller1", &theirs, body.clone()).await;
    reply.problem(409, "conflict", "below the same parent");
    house.post("org2", "/updateOrganization", body).await.problem(403, "forbidden", "above this");
    let org2 = house.get("org2", "/account").await.success(200);
    assert_eq!((&org2["name"], &org2["externalAccountId"]), (&json!("org2"), &Value::Null));

    // The contract with an account above.
    for (name, value) in [
        ("productPlanId", json!("gold")),
        ("offeredProductPlanId", json!("gold")),
        ("servicePremium", json!(true)),
        ("externalBillingId", json!("b")),
        ("hipaaSetting", json!("off")),
        ("orgAccountType", json!("internal")),
    ] {
        let body = json!({ name: value });
        let reply = house.post("org2", "/updateOrganization", body.clone()).await;
        reply.problem(403, "forbidden", name);
        house.post("reseller1", &theirs, body).await.success(200);
    }
    let billing = json!({ "externalBillingId": "b" });
    house.post("agent1", "/updateAccount", billing).await.problem(403, "forbidden", "above");

    let agent = format!("/updateAccount?targetAccountId={}", house.id("agent1"));
    let off = json!({ "active": false });
    house.post("agent1", "/updateAccount", off.clone()).await.problem(403, "forbidden", "above");
    house.post("org1", &agent, off).await.success(200);
    assert_eq!(house.get("agent1", "/account").await.status, 401);
    let on = json!({ "active": true, "accountName": "Support Team" });
    let answer = house.post("org1", &agent, on).await.success(200);
    assert_eq!(answer["updatedSettings"], json!(["accountName", "active"]));
    assert_eq!(house.get("agent1", "/account").await.success(200)["accountName"], "Support Team");
}

/// v2 has no updateReseller: the partner switches a reseller by `POST /account`.
#[tokio::test]
async fn a_reseller_is_switched_by_who_is_above_it_and_never_by_itself() {
    let mut house = House::new().await;
    house.join("chief", "reseller1", Role::Admin, &[]).await;
    house.join("clerk", "reseller1", Role::Admin, &["agent1"]).await;
    let [id, other] = ["reseller1", "reseller2"].map(|name| house.id(name).get());
    let (target, foreign) = (format!("?targetAccountId={id}"), format!("?targetAccountId={other}"));
    for (caller, query, words) in [
        ("reseller1", "", "above this one"),
        ("reseller1", target.as_str(), "above this one"),
        ("chief", "", "above this one"),
        ("chief", target.as_str(), "above this one"),
        ("clerk", target.as_str(), "restricted"),
        ("reseller2", target.as_str(), FORBIDDEN),
        ("reseller1", foreign.as_str(), FORBIDDEN),
        ("org1", target.as_str(), FORBIDDEN),
        ("agent1", target.as_str(), FORBIDDEN),
        ("partner", "", "above this one"),
    ] {
        for active in [false, true] {
            // All fields or none: another field in the body may be set by anybody.
            let body = json!({ "active": active, "description": "x" });
            let reply = house.post(caller, &format!("/account{query}"), body).await;
            reply.problem(403, "forbidden", words);
        }
    }
    let path = format!("/account{target}");
    for (active, status, words) in [(false, 401, "disabled"), (true, 200, "enabled")] {
        let answer = house.post("partner", &path, json!({ "active": active })).await.success(200);
        assert_eq!(answer["updatedSettings"], json!(["active"]));
        assert_eq!((&answer["active"], &answer["resellerStatus"]), (&json!(active), &json!(words)));
        for caller in ["reseller1", "chief", "org1", "agent1"] {
            let reply = house.get(caller, "/account").await;
            assert_eq!(reply.status, status, "{caller} {active}");
        }
        // An inactive account cannot activate itself.
        let itself = house.post("reseller1", "/account", json!({ "active": true })).await;
        assert_eq!(itself.status, if active { 403 } else { 401 });
        let query = format!("/audit?targetAccountId={id}&action=account.updated&limit=1");
        let entry = house.get("partner", &query).await.success(200)["audit"][0].clone();
        assert_eq!(entry["before"], json!({ "active": (!active).to_string() }), "{entry}");
        assert_eq!(entry["after"], json!({ "active": active.to_string() }), "{entry}");
        assert_eq!(entry["by"]["accountId"], house.id("partner").get());
    }
}

#[tokio::test]
async fn what_is_deleted_lies_below_the_target() {
    let house = House::new().await;
    let before = house.store.accounts(None).await.unwrap();
    let id = |name: &str| house.id(name).get();
    for (caller, path, field, query, gone) in [
        ("org1", "/deleteAccount", "targetAccountId", "", id("agent3")),
        ("org1", "/deleteAccount", "targetAccountId", "", NOBODY),
        ("org1", "/deleteAccount", "targetAccountId", "", id("org1")),
        ("org1", "/deleteAccount", "targetAccountId", "", id("partner")),
        ("reseller1", "/deleteOrganization", "targetOrganizationId", "", id("org3")),
        ("reseller1", "/deleteOrganization", "targetOrganizationId", "", id("reseller1")),
        ("reseller1", "/deleteOrganization", "targetOrganizationId", "", NOBODY),
        // The caller reaches the account, but the named target does not.
        ("reseller1", "/deleteAccount", "targetAccountId", "targetOrganizationId", id("agent3")),
    ] {
        let context = id("org1");
        let query = if query.is_empty() { String::new() } else { format!("?{query}={context}") };
        let reply = house.delete(caller, &format!("{path}{query}"), json!({ field: gone })).await;
        reply.problem(403, "forbidden", FORBIDDEN);
    }
    let reply = house.delete("agent1", "/deleteAccount", json!({ "targetAccountId": 1 })).await;
    reply.problem(403, "forbidden", "needs a key of organization");
    for (path, body, words) in [
        ("/deleteAccount", json!({}), "targetAccountId is missing"),
        ("/deleteAccount", json!({ "cascade": true }), "targetAccountId is missing"),
        ("/deleteAccount", json!({ "targetAccountId": "01" }), "targetAccountId"),
        ("/deleteAccount", json!({ "targetAccountId": id("org1") }), "use deleteOrganization"),
        ("/deleteOrganization", json!({ "targetOrganizationId": id("agent1") }), "deleteAccount"),
        ("/deleteOrganization", json!({ "targetOrganizationId": 1.0 }), "whole number"),
    ] {
        let reply = house.delete("reseller1", path, body).await;
        reply.problem(400, "invalid_request", words);
    }
    let root = json!({ "targetOrganizationId": id("partner"), "cascade": true });
    house.delete("partner", "/deleteOrganization", root).await.problem(403, "forbidden", FORBIDDEN);
    assert_eq!(house.store.accounts(None).await.unwrap(), before);
}

#[tokio::test]
async fn what_is_deleted_is_gone_for_everybody() {
    let house = House::new().await;
    let id = |name: &str| house.id(name).get();
    let query = format!("/deleteAccount?targetOrganizationId={}", id("org1"));
    let body = json!({ "targetAccountId": id("agent1").to_string() });
    house.delete("org1", &query, body.clone()).await.success(201);
    assert_eq!(house.get("agent1", "/account").await.status, 401);
    house.delete("org1", &query, body).await.problem(403, "forbidden", FORBIDDEN);
    let reply = house.get("org1", &format!("/account?targetAccountId={}", id("agent1"))).await;
    reply.problem(403, "forbidden", FORBIDDEN);

    let query = format!("/deleteOrganization?targetResellerId={}", id("reseller1"));
    let mut body = json!({ "targetOrganizationId": id("org1") });
    let reply = house.delete("partner", &query, body.clone()).await;
    reply.problem(409, "conflict", "1 account is below");
    body["cascade"] = json!("yes");
    let reply = house.delete("partner", &query, body.clone()).await;
    reply.problem(400, "invalid_request", "cascade must be true or false");
    body["cascade"] = json!(true);
    let answer = house.delete("partner", &query, body).await.success(201);
    assert_eq!(answer["deletedBelow"], 1);
    for caller in ["org1", "agent2"] {
        assert_eq!(house.get(caller, "/account").await.status, 401, "{caller}");
    }
    // A reseller is an organization to v2. The remaining tree stays intact.
    let body = json!({ "targetOrganizationId": id("reseller1"), "cascade": true });
    let answer = house.delete("partner", "/deleteOrganization", body).await.success(201);
    assert_eq!(answer["deletedBelow"], 2);
    for caller in ["partner", "reseller2", "org3", "agent4"] {
        house.get(caller, "/account").await.success(200);
    }
    let left = house.store.accounts(None).await.unwrap();
    assert_eq!(left.len(), 4);
}

#[tokio::test]
async fn a_tree_that_is_too_large_is_deleted_part_by_part() {
    let house = House::with("[limits]\nmax_cascade = 2\n").await;
    let id = |name: &str| house.id(name).get();
    let delete = async |name: &str| {
        let body = json!({ "targetOrganizationId": id(name), "cascade": true });
        house.delete("partner", "/deleteOrganization", body).await
    };
    delete("reseller1").await.problem(409, "conflict", "more than 2 accounts are below");
    delete("org1").await.success(201);
    delete("reseller1").await.success(201);
}
