//! Accounts, inbound policies, allowlists and addresses.

use serde_json::{Value, json};

use crate::app::tenancy::Claiming;
use crate::domain::address::Address;
use crate::domain::domain_name::DomainName;
use crate::http::tests::House;

#[tokio::test]
async fn an_account_shows_what_decides_its_scope() {
    let house = House::new().await;
    let id = |name| json!(house.id(name).get());
    let own = house.get("agent1", "/account").await.success(200);
    assert_eq!(own["id"], id("agent1"));
    assert_eq!(own["username"], "agent1");
    assert_eq!(own["accountType"], "account");
    assert_eq!(own["organizationId"], id("org1"));
    assert_eq!(own["resellerId"], id("reseller1"));
    assert_eq!(own["partnerId"], id("partner"));
    assert_eq!(own["parentId"], id("org1"));
    assert_eq!((&own["superAdmin"], &own["active"]), (&json!(false), &json!(true)));
    assert!(own["timestamp"].as_i64().unwrap() > 1_700_000_000_000);
    assert!(own["details"].is_object());
    assert_eq!(own.get("permittedAccountIds"), None);
    let partner = house.get("partner", "/account").await.success(200);
    assert_eq!(partner["partnerId"], id("partner"));
    assert_eq!((&partner["organizationId"], &partner["parentId"]), (&Value::Null, &Value::Null));
    // A targeted read describes the target, an inactive one too.
    house.tenancy.set_active(house.id("org2"), false).await.unwrap();
    let path = format!("/account?targetAccountId={}", house.id("org2"));
    let other = house.get("reseller1", &path).await.success(200);
    assert_eq!((&other["accountType"], &other["active"]), (&json!("organization"), &json!(false)));
    assert_eq!(other["organizationId"], id("org2"));
}

#[tokio::test]
async fn a_policy_is_closed_until_opened() {
    let house = House::new().await;
    let shown = house.get("agent1", "/email/inboundPolicy").await.success(200)["policy"].clone();
    assert_eq!(shown["accountId"], house.id("agent1").get());
    assert_eq!((&shown["mode"], &shown["allowlistCount"]), (&json!("allowlist"), &json!(0)));
    let body = json!({ "mode": "open" });
    let set = house.call("agent1", "PUT", "/email/inboundPolicy", Some(&body)).await.success(200);
    assert_eq!(set["policy"]["mode"], "open");
    assert!(set["policy"]["updatedAt"].as_str().unwrap().ends_with('Z'));
    let path = format!("/email/inboundPolicy?targetAccountId={}", house.id("agent1"));
    assert_eq!(house.get("org1", &path).await.success(200)["policy"]["mode"], "open");
    let reply = house.get("org1", "/email/inboundPolicy").await;
    reply.problem(400, "invalid_request", "needs an Agent");
}

#[tokio::test]
async fn senders_are_added_listed_and_removed() {
    let house = House::new().await;
    let path = "/email/inboundWhitelist";
    let call =
        async |method: &str, body: Value| house.call("agent1", method, path, Some(&body)).await;
    let emails = json!(["Boss@Good.Example", "anna@münchen.example", "boss@good.example"]);
    let added = call("POST", json!({ "emails": emails, "note": "friends" })).await.success(200);
    let spelled = json!(["anna@xn--mnchen-3ya.example", "boss@good.example"]);
    assert_eq!((&added["added"], &added["existing"]), (&spelled, &json!([])));
    assert_eq!((&added["total"], &added["warnings"]), (&json!(2), &json!([])));
    let again = call("POST", json!({ "email": "BOSS@good.example" })).await.success(200);
    assert_eq!(again["existing"], json!(["boss@good.example"]));
    assert_eq!((&again["added"], &again["total"]), (&json!([]), &json!(2)));
    // A sender that looks like another is added, with a warning (threats A13).
    let odd = "b\u{43e}ss@good.example";
    let added = call("POST", json!({ "emails": [odd, odd] })).await.success(200);
    assert_eq!((&added["added"], &added["warnings"][0]["email"]), (&json!([odd]), &json!(odd)));
    assert_eq!(added["warnings"].as_array().unwrap().len(), 1, "{added}");
    call("DELETE", json!({ "email": odd })).await.success(200);

    let page = house.get("agent1", &format!("{path}?limit=1")).await;
    let link = "/api/v2/email/inboundWhitelist?limit=1&after=anna%40xn--mnchen-3ya.example";
    assert_eq!(page.headers["link"], format!("<{link}>; rel=\"next\""));
    let page = page.success(200);
    assert_eq!((&page["count"], &page["total"]), (&json!(1), &json!(2)));
    assert_eq!(page["whitelist"][0]["email"], spelled[0]);
    assert_eq!(page["whitelist"][0]["note"], "friends");
    let next = page["next"].as_str().unwrap();
    let rest = house.get("agent1", &format!("{path}?limit=1&after={next}")).await.success(200);
    assert_eq!((&rest["whitelist"][0]["email"], &rest["next"]), (&spelled[1], &Value::Null));

    let removed = call("DELETE", json!({ "emails": ["boss@good.example", "x@y.example"] })).await;
    let removed = removed.success(200);
    assert_eq!(removed["removed"], json!(["boss@good.example"]));
    assert_eq!((&removed["missing"], &removed["total"]), (&json!(["x@y.example"]), &json!(1)));
    let query = format!("{path}?email=anna%40m%C3%BCnchen.example");
    let removed = house.call("agent1", "DELETE", &query, None).await.success(200);
    assert_eq!(removed["total"], 0);
}

/// Proves that addresses accepted by an earlier version can be listed and removed, while new ones
/// are still refused.
#[tokio::test]
async fn addresses_that_are_refused_by_now_can_be_removed() {
    let house = House::new().await;
    let (path, agent) = ("/email/inboundWhitelist", house.id("agent1"));
    let odd = "boss\u{3164}@good.example";
    let old = Address::kept(odd).unwrap();
    assert!(Address::parse(odd).is_err());
    let plain = Address::parse("zoe@good.example").unwrap();
    house.tenancy.allow(agent, &[old, plain], None).await.unwrap();
    let page = house.get("agent1", &format!("{path}?limit=1")).await.success(200);
    assert_eq!((&page["whitelist"][0]["email"], &page["next"]), (&json!(odd), &json!(odd)));
    let escaped = "boss%E3%85%A4%40good.example";
    let rest = house.get("agent1", &format!("{path}?limit=1&after={escaped}")).await.success(200);
    assert_eq!(rest["whitelist"][0]["email"], "zoe@good.example");
    let records = house.get("agent1", &format!("/email/intake?sender={escaped}")).await;
    assert_eq!(records.success(200)["intake"], json!([]));

    let delete =
        async |path: &str, body: Value| house.call("agent1", "DELETE", path, Some(&body)).await;
    for (emails, words) in [
        (json!([odd, "zoe\u{3164}@good.example"]), "/emails/1 is refused"),
        (json!(["zoe @good.example", odd]), "/emails/0 is refused"),
    ] {
        delete(path, json!({ "emails": emails })).await.problem(400, "invalid_request", words);
    }
    let removed = delete(path, json!({ "emails": [odd, "x@y.example"] })).await.success(200);
    assert_eq!((&removed["removed"], &removed["total"]), (&json!([odd]), &json!(1)));
    delete(path, json!({ "email": odd })).await.problem(
        400,
        "invalid_request",
        "/email is refused",
    );
    house.call("agent1", "POST", path, Some(&json!({ "email": odd }))).await.problem(
        400,
        "invalid_request",
        "/email is refused",
    );

    let path = "/email/addresses";
    let old = Address::kept("desk\u{3164}@partner.example").unwrap();
    let account = house.tenancy.account(agent).await.unwrap();
    house.tenancy.claim_address(&account, &old, false, Claiming::Never).await.unwrap();
    let body = |address: &str| json!({ "address": address });
    let other = delete(path, body("agent1\u{3164}@partner.example")).await;
    other.problem(400, "invalid_request", "/address is refused");
    let left = delete(path, body(&old.to_string())).await.success(200);
    assert_eq!(left["addresses"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_wildcard_sender_is_refused_with_the_reason() {
    let house = House::new().await;
    let path = "/email/inboundWhitelist";
    let words = "is refused: an allowlist holds exact senders, no patterns, because";
    for pattern in
        ["*@boss.example", "sales-*@boss.example", "*@*", "*.boss.example", "@boss.example"]
    {
        let one = json!({ "email": pattern });
        let reply = house.call("agent1", "POST", path, Some(&one)).await;
        reply.problem(400, "invalid_request", &format!("/email {words}"));
        let some = json!({ "emails": ["a@boss.example", pattern] });
        let reply = house.call("agent1", "POST", path, Some(&some)).await;
        reply.problem(400, "invalid_request", &format!("/emails/1 {words}"));
        assert!(reply.text().contains("set the mode to open"), "{}", reply.text());
        let draft = json!({ "add": [pattern], "days": 1 });
        let reply =
            house.call("agent1", "POST", "/email/inboundPolicy/preview", Some(&draft)).await;
        reply.problem(400, "invalid_request", &format!("/add/0 {words}"));
    }
    assert_eq!(house.tenancy.policy(house.id("agent1")).await.unwrap().allowlist_count, 0);
    // One that an earlier version took can be removed, and tried without.
    let old = Address::parse("*@boss.example").unwrap();
    house.tenancy.allow(house.id("agent1"), &[old], None).await.unwrap();
    let body = json!({ "remove": ["*@boss.example"], "days": 1 });
    house.call("agent1", "POST", "/email/inboundPolicy/preview", Some(&body)).await.success(200);
    let body = json!({ "email": "*@boss.example" });
    let removed = house.call("agent1", "DELETE", path, Some(&body)).await.success(200);
    assert_eq!(removed["removed"], json!(["*@boss.example"]));
}

#[tokio::test]
async fn one_bad_sender_refuses_all() {
    let house = House::new().await;
    let path = "/email/inboundWhitelist";
    let many: Vec<_> = (0..1001).map(|number| format!("a{number}@good.example")).collect();
    for (body, words) in [
        (json!({ "emails": ["a@good.example", "*@good.example"] }), "/emails/1 is refused"),
        (json!({ "emails": ["a@good.example", "a@x,b@y"] }), "/emails/1 is refused"),
        (json!({ "emails": ["@", "a@b.example", "b"] }), "; /emails/2 is refused"),
        (json!({ "email": "Boss <boss@good.example>" }), "/email is refused"),
        (json!({ "email": " boss@good.example" }), "/email is refused"),
        (json!({ "emails": [] }), "1 to 1000"),
        (json!({ "emails": many }), "1 to 1000"),
        (json!({ "emails": ["a@good.example", 1] }), "/emails/1 must be a string"),
        (json!({ "emails": "a@good.example" }), "an array of 1 to 1000 items"),
        (json!({ "email": ["a@good.example"] }), "a string"),
        (
            json!({ "email": "a@good.example", "emails": ["b@good.example"] }),
            "send only email or emails",
        ),
        (json!({}), "/email is missing: send email or emails"),
        (json!({ "email": "a@good.example", "note": "x".repeat(501) }), "at most 500"),
        (json!({ "email": "a@good.example", "note": "a\r\nb" }), "control characters"),
    ] {
        let reply = house.call("agent1", "POST", path, Some(&body)).await;
        reply.problem(400, "invalid_request", words);
    }
    let policy = house.tenancy.policy(house.id("agent1")).await.unwrap();
    assert_eq!((policy.allowlist_count, policy.version), (0, 1));
    let reply = house.call("agent1", "DELETE", &format!("{path}?email=a%40b.example"), None).await;
    reply.success(200);
    let both = json!({ "email": "b@b.example" });
    let query = format!("{path}?email=a%40b.example");
    let reply = house.call("agent1", "DELETE", &query, Some(&both)).await;
    reply.problem(400, "invalid_request", "once");
}

#[tokio::test]
async fn addresses_lie_in_domains_of_the_tree() {
    let house = House::new().await;
    let path = "/email/addresses";
    let call = async |caller: &str, method: &str, body: Value| {
        house.call(caller, method, path, Some(&body)).await
    };
    let domain = DomainName::parse("org1.example").unwrap();
    house.tenancy.add_domain(&domain, house.id("org1")).await.unwrap();
    let given =
        call("agent1", "POST", json!({ "address": "Sales@org1.example", "catchAll": true }));
    assert_eq!(
        given.await.success(201)["addresses"],
        json!([
            { "address": "sales@org1.example", "catchAll": true },
            { "address": "agent1@partner.example", "catchAll": false },
        ])
    );
    let taken = call("agent2", "POST", json!({ "address": "sales@org1.example" })).await;
    taken.problem(409, "conflict", "the address of another Agent");
    // One answer for a domain of another account and for an unknown one.
    for (caller, address) in [("agent4", "x@org1.example"), ("agent4", "x@nobody.example")] {
        let reply = call(caller, "POST", json!({ "address": address })).await;
        reply.problem(403, "forbidden", "claim the domain first");
    }
    for (body, words) in [
        (json!({ "address": "a+tag@org1.example" }), "without the tag"),
        (json!({ "address": "nobody" }), "/address is refused"),
        (json!({ "address": 1 }), "a string"),
        (json!({ "address": "a@org1.example", "catchAll": "yes" }), "true or false"),
        (json!({ "catchAll": true }), "address is missing"),
    ] {
        call("agent1", "POST", body).await.problem(400, "invalid_request", words);
    }
    let foreign = call("agent2", "DELETE", json!({ "address": "sales@org1.example" })).await;
    foreign.problem(404, "not_found", "not an address of this Agent");
    let query = format!("{path}?address=sales%40org1.example");
    let left = house.call("agent1", "DELETE", &query, None).await.success(200);
    assert_eq!(left["addresses"].as_array().unwrap().len(), 1);
    let listed = house.get("agent1", path).await.success(200);
    assert_eq!(listed["addresses"], left["addresses"]);
    let nothing = house.call("agent1", "DELETE", path, None).await;
    nothing.problem(400, "invalid_request", "address is missing");
}

#[tokio::test]
async fn an_agent_has_as_many_addresses_as_the_rules_allow() {
    let house = House::with("[limits]\nmax_addresses = 2").await;
    let domain = DomainName::parse("org1.example").unwrap();
    house.tenancy.add_domain(&domain, house.id("org1")).await.unwrap();
    let path = "/email/addresses";
    let give = async |address: &str| {
        house.call("agent1", "POST", path, Some(&json!({ "address": address }))).await
    };
    give("a@org1.example").await.success(201);
    give("b@org1.example").await.problem(409, "conflict", "at most 2 addresses");
    give("a@org1.example").await.success(201);
    let listed = house.get("agent1", path).await.success(200);
    assert_eq!(listed["addresses"].as_array().unwrap().len(), 2);
}
