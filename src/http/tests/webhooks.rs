//! Webhook destinations.

use serde_json::{Value, json};

use crate::domain::member::Role;
use crate::http::tests::House;
use crate::shutdown::Shutdown;
use crate::testkit::dns::{DnsServer, Zone};

const PATH: &str = "/webhooks";

fn hook(url: &str, category: &str) -> Value {
    json!({ "url": url, "label": "Zapier Hook", "type": category })
}

#[tokio::test]
async fn a_secret_is_shown_once() {
    let house = House::new().await;
    let body = hook("https://hooks.example/a?b=c", "incoming");
    let made = house.call("org1", "POST", PATH, Some(&body)).await.success(201);
    let secret = made["secret"].as_str().unwrap();
    standardwebhooks::Webhook::new(secret).unwrap();
    assert!(secret.starts_with("whsec_"));
    let webhook = &made["webhook"];
    assert_eq!(webhook["url"], "https://hooks.example/a?b=c");
    assert_eq!((&webhook["label"], &webhook["type"]), (&json!("Zapier Hook"), &json!("incoming")));
    assert_eq!(webhook["userId"], house.id("org1").get());
    assert!(webhook["timestamp"].as_i64().unwrap() < 10_000_000_000);
    assert_eq!(made["webhooks"], json!([webhook]));
    let listed = house.get("org1", PATH).await;
    assert!(!listed.text().contains("whsec_") && !listed.text().contains(&secret[6..]));
    assert_eq!(listed.success(200)["webhooks"], json!([webhook]));
    let again = house.call("org1", "POST", PATH, Some(&body)).await;
    assert!(!again.text().contains("whsec_"));
    again.problem(409, "conflict", "already");
    let other = hook("https://hooks.example/a?b=c", "contact");
    house.call("org1", "POST", PATH, Some(&other)).await.success(201);
    // Other accounts do not see the webhook.
    assert_eq!(house.get("agent1", PATH).await.success(200)["webhooks"], json!([]));
    assert_eq!(house.get("partner", PATH).await.success(200)["webhooks"], json!([]));
}

#[tokio::test]
async fn a_url_goes_with_all_its_types_unless_one_is_named() {
    let house = House::new().await;
    let url = "https://hooks.example/a";
    let mut ids = Vec::new();
    for category in ["incoming", "contact", "conversation", "agent", "onboarding"] {
        let made = house.call("org1", "POST", PATH, Some(&hook(url, category))).await.success(201);
        ids.push(made["webhook"]["id"].as_str().unwrap().to_owned());
    }
    let delete = async |body: Value| house.call("org1", "DELETE", PATH, Some(&body)).await;
    let left =
        async || house.get("org1", PATH).await.success(200)["webhooks"].as_array().unwrap().len();
    let one = delete(json!({ "url": url, "type": "contact" })).await.success(200);
    assert_eq!((one["removed"].as_array().unwrap().len(), left().await), (1, 4));
    delete(json!({ "url": url, "id": ids[0] })).await.success(200);
    assert_eq!(left().await, 3);
    delete(json!({ "url": url, "id": ids[0] })).await.problem(404, "not_found", "no such webhook");
    delete(json!({ "url": url, "type": "contact" })).await.problem(404, "not_found", "no such");
    delete(json!({ "url": "https://hooks.example/b" })).await.problem(404, "not_found", "no such");
    house.call("agent1", "DELETE", PATH, Some(&json!({ "url": url }))).await.problem(
        404,
        "not_found",
        "no such",
    );
    for (body, words) in [
        (json!({}), "by url, or by id"),
        (json!({ "type": "contact" }), "by url, or by id"),
        (json!({ "url": "not a url" }), "url is not a URL"),
        (json!({ "url": url, "id": "7" }), "/id must be a UUID, as answers show it"),
        (json!({ "url": url, "type": "all" }), "/type must be one of: "),
    ] {
        delete(body).await.problem(400, "invalid_request", words);
    }
    let query = format!("{PATH}?url=https%3A%2F%2Fhooks.example%2Fa");
    let differs = json!({ "url": "https://hooks.example/b" });
    let reply = house.call("org1", "DELETE", &query, Some(&differs)).await;
    reply.problem(400, "invalid_request", "differs");
    let rest = house.call("org1", "DELETE", &query, None).await.success(200);
    assert_eq!((rest["removed"].as_array().unwrap().len(), left().await), (3, 0));
}

#[tokio::test]
async fn urls_are_guarded_and_fields_are_needed() {
    let house = House::new().await;
    for url in [
        "ftp://hooks.example/a",
        "https://10.0.0.1/",
        "https://169.254.169.254/latest",
        "https://[::1]/",
        "https://2130706434.0x/",
        "https://user:pass@hooks.example/",
        "https://hooks.example/#x",
        "//hooks.example",
        "https://hooks.example/a b",
        "",
    ] {
        let reply = house.call("org1", "POST", PATH, Some(&hook(url, "incoming"))).await;
        reply.problem(400, "invalid_request", "ask the operator");
    }
    // The operator allows this network, also over http.
    let own = hook("http://127.0.0.1:9/x", "incoming");
    house.call("org1", "POST", PATH, Some(&own)).await.success(201);
    for (body, words) in [
        (json!({ "label": "x", "type": "incoming" }), "/url is missing: send it, too"),
        (json!({ "url": "https://a.example/", "type": "incoming" }), "/label is missing"),
        (json!({ "url": "https://a.example/", "label": "x" }), "/type is missing"),
        (json!({ "label": "x" }), "/url is missing: send it, too; /type is missing: send it, too"),
        (
            json!({ "url": 1, "label": [], "id": "x" }),
            "/url must be a string; /label must be a string; /id must",
        ),
        (
            json!({ "b": 1, "a": 2, "url": 3 }),
            "fields \"a\", \"b\" are not known here: expected url, label",
        ),
        (hook("https://a.example/", "Incoming"), "conversation, incoming, contact"),
        (json!({ "url": 1, "label": "x", "type": "incoming" }), "must be a string"),
        (json!({ "url": "https://a.example/", "label": "a\nb", "type": "incoming" }), "label"),
    ] {
        house.call("org1", "POST", PATH, Some(&body)).await.problem(400, "invalid_request", words);
    }
}

#[tokio::test]
async fn an_account_has_so_many_and_no_more() {
    let house = House::with("[limits]\nmax_destinations = 1\n").await;
    let add =
        async |url: &str| house.call("org1", "POST", PATH, Some(&hook(url, "incoming"))).await;
    add("https://a.example/").await.success(201);
    add("https://b.example/").await.problem(409, "conflict", "at most 1");
}

#[tokio::test]
async fn only_administrators_hear_of_accounts_and_members() {
    let mut house = House::new().await;
    house.join("anna", "org1", Role::Member, &[]).await;
    house.join("boss", "org1", Role::Admin, &[]).await;
    let onboarding = hook("https://hooks.example/a", "onboarding");
    let reply = house.call("anna", "POST", PATH, Some(&onboarding)).await;
    reply.problem(403, "forbidden", "needs an administrator");
    assert_eq!(house.get("org1", PATH).await.success(200)["webhooks"], json!([]));
    house.call("boss", "POST", PATH, Some(&onboarding)).await.success(201);
    let incoming = hook("https://hooks.example/a", "incoming");
    house.call("anna", "POST", PATH, Some(&incoming)).await.success(201);
}

/// The house's operator allows 127.0.0.0/8.
#[tokio::test]
async fn http_and_odd_ports_are_refused_at_creation_outside_of_the_allowed_networks() {
    let zone = "inside.example\tA\tNOERROR\t127.1.2.3\n\
                outside.example\tA\tNOERROR\t93.184.216.34\n\
                crm.internal\tA\tNOERROR\t10.0.0.1\n";
    let dns = DnsServer::start(Zone::parse(zone).unwrap(), Shutdown::default()).await.unwrap();
    let house = House::asking(dns.addr(), "").await;
    let create = async |url: &str| {
        let body = json!({ "url": url, "label": "x", "type": "incoming" });
        house.call("org1", "POST", "/webhooks", Some(&body)).await
    };
    let (https, port, host) =
        ("must begin with https://", "port is not allowed", "host is not public");
    for (url, words) in [
        ("http://outside.example/", https),
        ("https://outside.example:22/", port),
        ("http://nobody.example/", https),
        ("https://nobody.example:22/", port),
        ("https://crm.internal/", host),
        ("http://93.184.216.34/", https),
        ("https://10.0.0.1/", host),
    ] {
        let refused = create(url).await;
        refused.problem(400, "invalid_request", words);
        // The remedy is the same in all cases.
        assert!(refused.text().contains("ask the operator"), "{url}: {}", refused.text());
        let relay = json!({ "url": url });
        let refused = house.call("org1", "POST", "/webhookRelay/smtp", Some(&relay)).await;
        refused.problem(400, "invalid_request", words);
    }
    for url in [
        "http://inside.example/",
        "https://inside.example:22/",
        "http://127.9.9.9:3000/",
        "https://outside.example/",
        "https://nobody.example:8443/",
    ] {
        create(url).await.success(201);
    }
}
