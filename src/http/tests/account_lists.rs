//! Lists of accounts, searches, and accounts found by external id.

use serde_json::{Value, json};

use crate::http::tests::{House, NOBODY};

fn ids(list: &Value) -> Vec<i64> {
    list.as_array().unwrap().iter().map(|one| one["id"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn each_level_lists_what_is_directly_below_it() {
    let house = House::new().await;
    let id = |name: &str| house.id(name).get();
    for (caller, path, noun, expected) in [
        ("partner", "/listResellers", "resellers", vec!["reseller1", "reseller2"]),
        ("reseller1", "/listOrganizations", "organizations", vec!["org1", "org2"]),
        ("org1", "/listAccounts", "accounts", vec!["agent1", "agent2"]),
        ("org2", "/listAccounts", "accounts", vec!["agent3"]),
    ] {
        let answer = house.get(caller, path).await.success(200);
        let expected: Vec<i64> = expected.into_iter().map(id).collect();
        assert_eq!(ids(&answer[noun]), expected, "{path}");
        assert_eq!(answer["totalAccounts"], expected.len());
        assert_eq!((&answer["pageNumber"], &answer["next"]), (&json!(0), &Value::Null));
        assert_eq!(answer[noun][0]["parentId"], id(caller));
    }
    let target = |name: &str, of: &str| format!("target{name}Id={}", id(of));
    let path = format!("/listAccounts?{}", target("Organization", "org3"));
    let answer = house.get("partner", &path).await.success(200);
    assert_eq!(ids(&answer["accounts"]), [id("agent4")]);
    for (caller, path, words) in [
        ("reseller1", path, "does not reach"),
        ("org1", format!("/listAccounts?targetAccountId={NOBODY}"), "does not reach"),
        ("org1", format!("/listAccounts?{}", target("Account", "reseller1")), "does not reach"),
        ("org1", "/listOrganizations".into(), "needs a key of reseller"),
        ("agent1", "/listAccounts".into(), "needs a key of organization"),
        ("agent1", "/searchAccounts?accountType=account".into(), "needs a key of organization"),
    ] {
        house.get(caller, &path).await.problem(403, "forbidden", words);
    }
    let reply = house.get("partner", "/listAccounts").await;
    reply.problem(400, "invalid_request", "organization");
}

#[tokio::test]
async fn pages_are_counted_from_zero_and_bounded() {
    let house = House::with("[limits]\nmax_page = 5\ndefault_page = 2\nmax_walk = 6\n").await;
    let mut agents = vec![house.id("agent1").get(), house.id("agent2").get()];
    for number in 0..6 {
        let body = json!({ "accountName": format!("a{number}") });
        let made = house.post("org1", "/createAccount", body).await.success(201);
        agents.push(made["account"]["id"].as_i64().unwrap());
    }
    let list =
        async |query: &str| house.get("org1", &format!("/listAccounts?{query}")).await.success(200);
    let first = list("pagination=true").await;
    assert_eq!((ids(&first["accounts"]), &first["pageSize"]), (agents[..2].to_vec(), &json!(2)));
    let second = list("pagination=true&page=1&pageSize=3").await;
    assert_eq!(ids(&second["accounts"]), agents[3..6]);
    assert_eq!((&second["pageNumber"], &second["pageSize"]), (&json!(1), &json!(3)));
    assert_eq!(ids(&list("page=1&pageSize=3").await["accounts"]), agents[3..6]);
    // Without pagination the page is as large as allowed, and `next` leads to the rest.
    for query in ["", "pagination=false", "pagination=false&page=3"] {
        let (mut found, mut after) = (Vec::new(), String::new());
        while found.len() < agents.len() {
            let page = list(&format!("{query}&{after}")).await;
            assert!(page["accounts"].as_array().unwrap().len() <= 5);
            found.extend(ids(&page["accounts"]));
            let Some(next) = page["next"].as_i64() else { break };
            after = format!("after={next}");
        }
        assert_eq!(found, agents, "{query}");
    }
    // So does `Link`.
    let mut path = "/listAccounts?pagination=true&page=1&pageSize=3".to_owned();
    let mut found = Vec::new();
    loop {
        let reply = house.get("org1", &path).await;
        let page = reply.success(200);
        found.extend(ids(&page["accounts"]));
        let Some(next) = reply.link("next") else {
            assert_eq!(page["next"], Value::Null);
            break;
        };
        path = format!("/listAccounts?pagination=true&pageSize=3&after={}", page["next"]);
        assert_eq!(next, path);
    }
    assert_eq!(found, agents[3..]);
    for (query, words) in [
        ("pageSize=6", "from 1 to 5"),
        ("pageSize=0", "from 1 to 5"),
        ("page=4&pageSize=2", "from 0 to 3"),
        ("page=-1", "whole number"),
        ("page=01", "whole number"),
        ("page=1.0", "whole number"),
        ("page=1&page=1", "twice"),
        ("after=0", "after"),
        ("active=yes", "active must be true or false"),
        ("pagination=1", "pagination must be true or false"),
        ("limit=1", "limit"),
    ] {
        let reply = house.get("org1", &format!("/listAccounts?{query}")).await;
        reply.problem(400, "invalid_request", words);
    }
}

#[tokio::test]
async fn a_search_finds_what_is_kept_and_says_what_is_not() {
    let house = House::new().await;
    let id = |name: &str| house.id(name).get();
    let update = format!("/updateOrganization?targetOrganizationId={}", id("org2"));
    let body = json!({
        "externalAccountId": "ext_1", "productPlanId": "gold", "servicePremium": true,
        "externalBillingId": "bill", "orgName": "Second & Co", "active": false,
    });
    house.post("reseller1", &update, body).await.success(200);
    let (org1, org2, org3) = (id("org1"), id("org2"), id("org3"));
    for (query, expected) in [
        ("", vec![org1, org2, org3]),
        ("&queryText=second%20%26", vec![org2]),
        ("&queryText=%25", vec![]),
        ("&active=false", vec![org2]),
        ("&externalAccountId=ext_1", vec![org2]),
        ("&productPlanId=gold", vec![org2]),
        ("&billingId=bill", vec![org2]),
        ("&subscribed=true", vec![org2]),
        ("&subscribed=false", vec![org1, org3]),
        ("&createdStart=1795000000", vec![org1, org2, org3]),
        ("&createdStart=1795000001", vec![]),
        ("&createdEnd=1795000000", vec![org1, org2, org3]),
        ("&createdEnd=1794999999", vec![]),
        ("&createdStart=2026-11-18T11:06:40Z", vec![org1, org2, org3]),
        ("&createdStart=2026-11-18T11:06:41Z", vec![]),
        ("&createdEnd=2026-11-18T11:06:40Z", vec![org1, org2, org3]),
        ("&createdEnd=2026-11-18", vec![]),
        ("&pagination=true&page=1&pageSize=2", vec![org3]),
    ] {
        let path = format!("/searchAccounts?accountType=organization{query}");
        let answer = house.get("partner", &path).await.success(200);
        assert_eq!(ids(&answer["accounts"]), expected, "{query}");
        let total = if query.contains("page=1") { 3 } else { expected.len() };
        assert_eq!(answer["totalAccounts"], total, "{query}");
    }
    let mine =
        house.get("reseller2", "/searchAccounts?accountType=organization&canceled=false").await;
    assert_eq!(ids(&mine.success(200)["accounts"]), [org3]);
    let mine = house.get("org1", "/searchAccounts?accountType=account").await.success(200);
    assert_eq!((ids(&mine["accounts"]).len(), &mine["totalAccounts"]), (2, &json!(2)));
    for (query, words) in [
        ("", "/accountType is missing: send one of: partner, reseller, organization, account"),
        ("accountType=user", "accountType must be one of"),
        ("accountType=account&canceled=true", "/canceled must be false"),
        (
            "accountType=account&allTimeVoiceMinutesMin=1",
            "/allTimeVoiceMinutesMin must be left out",
        ),
        ("accountType=account&createdStart=x", "/createdStart must be Unix seconds"),
        ("accountType=account&createdEnd=-1", "/createdEnd must be Unix seconds"),
        ("accountType=account&name=x", "name"),
    ] {
        let reply = house.get("partner", &format!("/searchAccounts?{query}")).await;
        reply.problem(400, "invalid_request", words);
    }
}

#[tokio::test]
async fn a_name_elsewhere_leads_back_within_reach_only() {
    let house = House::new().await;
    let id = |name: &str| house.id(name).get();
    for agent in ["agent1", "agent3", "agent4"] {
        let path = format!("/updateAccount?targetAccountId={}", id(agent));
        let body = json!({ "externalAccountId": "acct_123abc" });
        house.post("partner", &path, body).await.success(200);
    }
    let path = "/getAccountByExternalId?externalAccountId=acct_123abc";
    for (caller, query, expected) in [
        ("org1", String::new(), "agent1"),
        ("agent1", String::new(), "agent1"),
        ("reseller2", String::new(), "agent4"),
        ("partner", format!("&targetAccountId={}", id("org2")), "agent3"),
    ] {
        let answer = house.get(caller, &format!("{path}{query}")).await.success(200);
        assert_eq!(answer["account"]["id"], id(expected), "{caller}");
    }
    for caller in ["partner", "reseller1"] {
        house.get(caller, path).await.problem(
            409,
            "conflict",
            "set targetAccountId to one of their parents",
        );
    }
    house.get("agent2", path).await.problem(404, "not_found", "no account in the scope");
    let unknown = "/getAccountByExternalId?externalAccountId=acct";
    house.get("partner", unknown).await.problem(404, "not_found", "no account in the scope");
    let none = house.get("partner", "/getAccountByExternalId").await;
    none.problem(400, "invalid_request", "externalAccountId is missing");
    // Accounts below one parent must have different external ids.
    let path = format!("/updateAccount?targetAccountId={}", id("agent2"));
    let body = json!({ "externalAccountId": "acct_123abc" });
    house.post("org1", &path, body).await.problem(409, "conflict", "below the same parent");
}
