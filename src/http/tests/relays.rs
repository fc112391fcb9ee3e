//! `/webhookRelay`: settings, and the values that are shown or hidden.

use serde_json::{Value, json};

use crate::app::relay::{RelayChange, Relays};
use crate::app::vault::Vault;
use crate::domain::member::Role;
use crate::domain::relay::RelayType;
use crate::domain::secret::MASK;
use crate::egress::guard::Guard;
use crate::http::tests::House;
use crate::rules::Rules;

const SMTP: &str = "/webhookRelay/smtp";
const SES: &str = "/webhookRelay/ses";
const MAILGUN: &str = "/webhookRelay/mailgun";
const JSON: &str = "/webhookRelay/json";

async fn set(house: &House, path: &str, body: Value) -> Value {
    house.call("org1", "POST", path, Some(&body)).await.success(200)
}

async fn refused(house: &House, path: &str, body: Value, words: &str) {
    house.call("org1", "POST", path, Some(&body)).await.problem(400, "invalid_request", words);
}

/// The key of a way in, as its URL has it.
fn key(config: &Value, kind: &str) -> String {
    let url = config["inboundUrl"].as_str().unwrap();
    let key = url.strip_prefix(&format!("/inbound/{kind}/")).unwrap();
    // Mailgun posts whole messages only to a path with this end.
    let key = if kind == "mailgun" { key.strip_suffix("/mime").unwrap() } else { key };
    assert!(key.len() == 47 && key.starts_with("gpi_"), "{key}");
    key.to_owned()
}

#[tokio::test]
async fn a_relay_is_set_changed_and_deleted() {
    let house = House::new().await;
    let types = house.get("org1", "/webhookRelay/types").await.success(200);
    let names: Vec<_> = types["types"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["mailgun", "sendgrid", "postmark", "ses", "smtp", "json"]);
    assert_eq!(house.get("org1", "/webhookRelay").await.success(200)["configs"], json!([]));
    house.get("org1", SMTP).await.problem(404, "not_found", "no such relay");
    house.get("org1", "/webhookRelay/twilioSMS").await.problem(404, "not_found", "relay type");
    let made = set(
        &house,
        SMTP,
        json!({
            "url": "https://app.example/in?x=1", "timeout": 5000, "successStatusCodes": [202, 200, 202],
            "headers": [{ "Authorization": "Bearer xyz" }, { "X-Customer-ID": "abc123" }],
        }),
    );
    let made = made.await;
    standardwebhooks::Webhook::new(made["secret"].as_str().unwrap()).unwrap();
    let config = json!({
        "type": "smtp", "url": "https://app.example/in?x=1", "timeout": 5000,
        "headers": [{ "Authorization": MASK }, { "X-Customer-ID": MASK }],
        "successStatusCodes": [200, 202],
    });
    assert_eq!(house.get("org1", "/webhookRelay").await.success(200)["configs"], json!([config]));
    let shown = house.get("org1", SMTP).await;
    assert!(!shown.text().contains("xyz") && !shown.text().contains("whsec_"));
    assert_eq!(shown.success(200)["config"]["attempts"], json!([]));
    // An omitted or masked value stays; a new value replaces it.
    let changed = set(
        &house,
        SMTP,
        json!({
            "url": "https://app.example/b", "headers": [{ "authorization": MASK }, { "X-New": "n" }],
        }),
    );
    let changed = changed.await;
    assert_eq!(changed.get("secret"), None);
    let (config, headers) =
        (&changed["config"], json!([{ "authorization": MASK }, { "X-New": MASK }]));
    assert_eq!((&config["timeout"], &config["headers"]), (&json!(5000), &headers));
    let agent = house.residents["agent1"].account.clone();
    let relays = &house.http.use_cases.relays;
    let relay = relays.nearest(RelayType::Smtp, &agent.lineage).await.unwrap().unwrap();
    assert_eq!(relay.headers[0].value.expose(), b"Bearer xyz");
    // No other account has this relay.
    house.get("agent1", SMTP).await.problem(404, "not_found", "no such relay");
    house.get("agent3", SMTP).await.problem(404, "not_found", "no such relay");
    house.call("org1", "DELETE", SMTP, None).await.success(200);
    house.call("org1", "DELETE", SMTP, None).await.problem(404, "not_found", "no such relay");
    assert_eq!(relays.nearest(RelayType::Smtp, &agent.lineage).await.unwrap(), None);
}

#[tokio::test]
async fn what_cannot_be_set_is_refused_by_name() {
    let house = House::new().await;
    let url = "https://app.example/";
    let with = |name: &str, value: Value| json!({ "url": url, name: value });
    refused(&house, SMTP, json!({}), "url is required").await;
    refused(&house, SMTP, json!({ "timeout": 500 }), "url is required").await;
    for bad in ["ftp://app.example/", "https://10.0.0.1/", "https://a:b@app.example/", "x"] {
        refused(&house, SMTP, json!({ "url": bad }), "/url is refused").await;
    }
    for timeout in [99, 30_001] {
        refused(&house, SMTP, with("timeout", timeout.into()), "timeout must be 100 to 30000")
            .await;
    }
    refused(&house, SMTP, with("timeout", json!("soon")), "timeout").await;
    for codes in [json!([406]), json!([199]), json!([600]), json!(["200"]), json!(200)] {
        refused(&house, SMTP, with("successStatusCodes", codes), "successStatusCodes").await;
    }
    let many: Vec<u16> = (200..221).collect();
    refused(&house, SMTP, with("successStatusCodes", many.into()), "at most 20").await;
    for headers in [
        json!([{ "Host": "evil.example" }]),
        json!([{ "Content-Length": "0" }]),
        json!([{ "Transfer-Encoding": "chunked" }]),
        json!([{ "Webhook-Signature": "v1,x" }]),
        json!([{ "X-Gatepost-Recipient": "x" }]),
        json!([{ "X-A": "a\r\nHost: evil.example" }]),
        json!([{ "X-A": "1" }, { "x-a": "2" }]),
        json!([{ "X-A": "1", "X-B": "2" }]),
        json!([{ "X-A": MASK }]),
        json!({ "X-A": "1" }),
        Value::from((0..21).map(|n| json!({ format!("X-{n}"): "x" })).collect::<Vec<_>>()),
    ] {
        refused(&house, SMTP, with("headers", headers), "headers").await;
    }
    refused(&house, SMTP, with("rotateInboundKey", true.into()), "no inbound key").await;
    refused(&house, SMTP, with("verification", json!({})), "no inbound key").await;
    refused(&house, SMTP, with("secret", json!("x")), "secret").await;
    refused(&house, MAILGUN, json!({ "url": url }), "HTTP webhook signing key").await;
    refused(
        &house,
        MAILGUN,
        with("verification", json!({ "signingKey": 1 })),
        "/verification/signingKey must be a string",
    )
    .await;
    refused(&house, MAILGUN, with("verification", json!({ "publicKey": "x" })), "publicKey").await;
    let unknown = json!({ "url": url });
    let unknown = house.call("org1", "POST", "/webhookRelay/twilioSMS", Some(&unknown)).await;
    unknown.problem(404, "not_found", "relay type");
    assert_eq!(house.get("org1", "/webhookRelay").await.success(200)["configs"], json!([]));
}

#[tokio::test]
async fn a_way_in_has_a_key_that_rotates_and_outlives_its_relay() {
    let house = House::new().await;
    let relays = &house.http.use_cases.relays;
    let opens = async |key: &str| {
        let way = relays.way(RelayType::Mailgun, key).await.unwrap();
        way.map(|way| way.account.id)
    };
    let given = json!({ "verification": { "signingKey": "mailgun-signing-key" } });
    let made = set(&house, MAILGUN, given).await;
    assert_eq!(made.get("secret"), None, "there is no relay yet");
    let config = &made["config"];
    assert_eq!(
        (&config["url"], &config["verification"]["signingKey"]),
        (&Value::Null, &MASK.into())
    );
    let first = key(config, "mailgun");
    assert_eq!(opens(&first).await, Some(house.id("org1")));
    let (turned, short) = (first.replace("gpi_", "gpi-"), first[..46].to_owned());
    for other in [short, turned, String::new(), format!("{first}x"), "gpi_".repeat(12)] {
        assert_eq!(opens(&other).await, None, "{other}");
    }
    assert_eq!(relays.way(RelayType::Postmark, &first).await.unwrap(), None);
    // The relay is set and removed; the way in stays.
    let made = set(&house, MAILGUN, json!({ "url": "https://app.example/" })).await;
    assert!(made["secret"].is_string());
    assert_eq!(key(&made["config"], "mailgun"), first);
    house.call("org1", "DELETE", MAILGUN, None).await.success(200);
    house.call("org1", "DELETE", MAILGUN, None).await.problem(404, "not_found", "no such relay");
    let left = house.get("org1", MAILGUN).await.success(200)["config"].clone();
    assert_eq!((key(&left, "mailgun"), &left["url"]), (first.clone(), &Value::Null));
    let rotated = set(&house, MAILGUN, json!({ "rotateInboundKey": true })).await;
    let second = key(&rotated["config"], "mailgun");
    assert_eq!((opens(&first).await, opens(&second).await), (None, Some(house.id("org1"))));
    let masked = json!({ "verification": { "signingKey": MASK } });
    set(&house, MAILGUN, masked).await;
    assert_eq!(opens(&second).await, Some(house.id("org1")));
    // Nothing of the key is stored in clear, or in the audit log.
    let kept =
        house.store.inbound_way(house.id("org1"), RelayType::Mailgun).await.unwrap().unwrap();
    assert!(!format!("{kept:?}").contains("gpi_"));
    let audit = house.get("org1", "/audit").await;
    assert!(!audit.text().contains(&second[..44]) && !audit.text().contains("signing-key"));
    // Each provider has a way in of its own.
    for (kind, verification) in [
        ("sendgrid", json!({ "publicKey": null })),
        ("postmark", json!({ "username": null, "password": null })),
        ("ses", json!({ "topicArn": null })),
    ] {
        let path = format!("/webhookRelay/{kind}");
        let made = set(&house, &path, json!({ "rotateInboundKey": true })).await;
        key(&made["config"], kind);
        assert_eq!(made["config"]["verification"], verification);
    }
}

#[tokio::test]
async fn an_inbound_key_that_is_deleted_opens_nothing_any_more() {
    let house = House::new().await;
    let relays = &house.http.use_cases.relays;
    let opens = async |key: &str| relays.way(RelayType::Mailgun, key).await.unwrap().is_some();
    let close =
        async |path: &str| house.call("org1", "DELETE", &format!("{path}/inboundKey"), None).await;
    close(MAILGUN).await.problem(404, "not_found", "no such inbound key");
    close(SMTP).await.problem(404, "not_found", "no such inbound key");
    let proof = json!({ "signingKey": "mailgun-signing-key" });
    let given = json!({ "url": "https://app.example/", "verification": proof });
    let first = key(&set(&house, MAILGUN, given).await["config"], "mailgun");
    assert!(opens(&first).await);
    // The key of another account, and that of another provider, are not the ones meant.
    let other = format!("{MAILGUN}/inboundKey");
    house.call("agent1", "DELETE", &other, None).await.problem(404, "not_found", "inbound key");
    close(SES).await.problem(404, "not_found", "no such inbound key");
    assert!(opens(&first).await);
    close(MAILGUN).await.success(200);
    assert!(!opens(&first).await);
    close(MAILGUN).await.problem(404, "not_found", "no such inbound key");
    let shown = house.get("org1", MAILGUN).await.success(200)["config"].clone();
    assert_eq!((&shown["url"], shown.get("inboundUrl")), (&json!("https://app.example/"), None));
    // The verification went with the key: a new key needs it once more, and is another one.
    refused(&house, MAILGUN, json!({ "rotateInboundKey": true }), "HTTP webhook signing key").await;
    let made = set(&house, MAILGUN, json!({ "verification": proof })).await;
    let second = key(&made["config"], "mailgun");
    assert_ne!(first, second);
    assert_eq!((opens(&first).await, opens(&second).await), (false, true));
    let audit = house.get("org1", "/audit?action=inbound.removed").await.success(200);
    assert_eq!(audit["audit"].as_array().unwrap().len(), 1, "{audit}");
}

#[tokio::test]
async fn what_is_sent_twice_is_done_once_and_a_restricted_member_has_only_its_agents() {
    let mut house = House::new().await;
    house.join("few", "org1", Role::Admin, &["agent1"]).await;
    let own = format!("{SMTP}?targetAccountId={}", house.id("agent1").get());
    let foreign = format!("{SMTP}?targetAccountId={}", house.id("agent2").get());
    let body = json!({ "url": "https://app.example/" });
    house.call("few", "POST", &own, Some(&body)).await.success(200);
    house.call("few", "POST", &foreign, Some(&body)).await.problem(403, "forbidden", "");
    house.call("few", "POST", SMTP, Some(&body)).await.problem(403, "forbidden", "restricted");
    let rotate = json!({ "verification": { "signingKey": "k" }, "rotateInboundKey": true });
    let key_of = "Idempotency-Key: once\r\n";
    let mut keys = Vec::new();
    for _ in 0..2 {
        let text = rotate.to_string();
        let reply = house.exact("org1", ("POST", MAILGUN), key_of, Some(&text)).await;
        keys.push(key(&reply.success(200)["config"], "mailgun"));
    }
    assert_eq!(keys[0], keys[1]);
}

/// The way in of an adapter comes with a secret, which is shown once, as that of a relay is.
#[tokio::test]
async fn the_secret_of_an_adapter_is_shown_when_its_key_is_made_and_never_again() {
    let house = House::new().await;
    let refuse = async |body: Value, words: &str| refused(&house, JSON, body, words).await;
    let rotate = || json!({ "rotateInboundKey": true });
    let with = |name: &str, value: Value| {
        let mut body = rotate();
        body[name] = value;
        body
    };
    for body in [
        json!({ "url": "https://app.example/" }),
        with("url", json!("https://app.example/")),
        with("timeout", json!(500)),
        with("headers", json!([])),
        with("successStatusCodes", json!([200])),
        json!({ "rotateInboundKey": false }),
    ] {
        refuse(body, "ask no application").await;
    }
    for (name, words) in [("secret", "is not known here"), ("signingKey", "json uses no field")] {
        refuse(with("verification", json!({ name: "whsec_eA==" })), words).await;
    }
    let made = set(&house, JSON, rotate()).await;
    assert_eq!(made["message"], "inbound key set; its secret is shown only once");
    let (first, secret) = (key(&made["config"], "json"), made["secret"].clone());
    standardwebhooks::Webhook::new(secret.as_str().unwrap()).unwrap();
    assert_eq!(
        (&made["config"]["url"], &made["config"]["verification"]),
        (&Value::Null, &json!({}))
    );
    // Nothing changes: it can be sent back as it was shown.
    let same = set(&house, JSON, json!({ "verification": {} })).await;
    assert_eq!((same.get("secret"), key(&same["config"], "json")), (None, first.clone()));
    for path in [JSON, "/webhookRelay", "/audit"] {
        let shown = house.get("org1", path).await;
        assert!(!shown.text().contains("whsec_") && shown.status == 200, "{path}");
    }
    let again = set(&house, JSON, rotate()).await;
    assert_ne!((key(&again["config"], "json"), &again["secret"]), (first, &secret));
    house.call("org1", "DELETE", JSON, None).await.problem(404, "not_found", "no such relay");
    let path = format!("{JSON}/inboundKey");
    house.call("agent1", "DELETE", &path, None).await.problem(404, "not_found", "inbound key");
    house.call("org1", "DELETE", &path, None).await.success(200);
    house.get("org1", JSON).await.problem(404, "not_found", "no such relay");
    let audit = house.get("org1", "/audit?action=inbound.rotated").await.success(200);
    assert_eq!(audit["audit"].as_array().unwrap().len(), 1, "{audit}");
}

/// Proves that, as after a restore with another vault key, sealed settings are shown without their
/// secrets, can be set once more, and can be deleted. Other changes are refused: they may have
/// reached the one gateway that lacks the key.
async fn part_of_it_is_refused(house: &House, url: &str) {
    let key_alone = json!({ "signingKey": "anew" });
    for (path, partly) in [
        (MAILGUN, json!({ "url": url })),
        (MAILGUN, json!({ "rotateInboundKey": true })),
        (MAILGUN, json!({ "url": url, "headers": [], "verification": key_alone })),
        (MAILGUN, json!({ "url": url, "verification": key_alone, "rotateInboundKey": true })),
        (SES, json!({ "url": url })),
        (SES, json!({ "verification": { "topicArn": null } })),
        (SMTP, json!({ "url": url, "timeout": 8000 })),
    ] {
        let reply = house.call("org1", "POST", path, Some(&partly)).await;
        reply.problem(409, "conflict", "sealed with a key");
    }
}

/// The way in of an adapter has nothing to be shown, and takes a new secret with its new key.
async fn an_adapter_takes_a_new_secret(house: &House, theirs: &Relays) {
    let rotate = RelayChange { rotate_key: true, ..RelayChange::default() };
    theirs.set(house.id("agent1"), RelayType::Json, &rotate).await.unwrap();
    let (same, anew) = (json!({ "verification": {} }), json!({ "rotateInboundKey": true }));
    let reply = house.call("agent1", "POST", JSON, Some(&same)).await;
    reply.problem(409, "conflict", "send rotateInboundKey: true");
    let made = house.call("agent1", "POST", JSON, Some(&anew)).await.success(200);
    assert!(made["secret"].is_string());
}

#[tokio::test]
async fn what_another_key_sealed_can_be_set_once_more() {
    let house = House::new().await;
    let (rules, vault) = (Rules::defaults().unwrap(), Vault::new(&[[8; 32]], house.mint.clone()));
    let guard = Guard::new(Vec::new(), &rules.webhooks);
    let theirs = crate::http::tests::relays(&house.store, &vault, &house.mint, (&rules, &guard));
    let sealed = RelayChange {
        url: Some("https://app.example/old".parse().unwrap()),
        headers: Some(vec![("X-A".to_owned(), "value".to_owned())]),
        success: Some(vec![204]),
        ..RelayChange::default()
    };
    let signing = [("signingKey".to_owned(), Some("key".to_owned()))];
    let posted = RelayChange { verification: Some(signing.into()), ..sealed.clone() };
    let org = house.id("org1");
    for (kind, change) in [(RelayType::Mailgun, &posted), (RelayType::Smtp, &sealed)] {
        theirs.set(org, kind, change).await.unwrap();
    }
    let topic = [("topicArn".to_owned(), Some("arn:aws:sns:eu-west-1:1:mail".to_owned()))];
    let pinned = RelayChange { verification: Some(topic.into()), ..RelayChange::default() };
    theirs.set(org, RelayType::Ses, &pinned).await.unwrap();
    an_adapter_takes_a_new_secret(&house, &theirs).await;
    let (relay, way) = (
        house.store.relay(org, RelayType::Mailgun).await.unwrap().unwrap(),
        house.store.inbound_way(org, RelayType::Mailgun).await.unwrap().unwrap(),
    );
    // Settings in clear are shown.
    let config = |kind: &str| {
        json!({
            "type": kind, "url": "https://app.example/old", "timeout": 10000, "headers": [],
            "successStatusCodes": [204],
        })
    };
    let listed = house.get("org1", "/webhookRelay").await.success(200)["configs"].clone();
    let ses = json!({ "type": "ses", "url": null, "timeout": null, "headers": [], "successStatusCodes": [] });
    assert_eq!(listed, json!([config("mailgun"), ses, config("smtp")]));
    let shown = house.get("org1", MAILGUN).await.success(200)["config"].clone();
    assert_eq!((&shown["url"], shown.get("inboundUrl")), (&config("")["url"], None));
    // As for a new way in, the verification is required, and a mask keeps nothing.
    let url = "https://app.example/old";
    part_of_it_is_refused(&house, url).await;
    let before = house.store.inbound_way(org, RelayType::Ses).await.unwrap().unwrap();
    let open = json!({ "verification": { "topicArn": null }, "rotateInboundKey": true });
    set(&house, SES, open).await;
    let after = house.store.inbound_way(org, RelayType::Ses).await.unwrap().unwrap();
    assert_ne!(before.key_hash, after.key_hash);
    let whole = |key: &str| {
        let verification = json!({ "signingKey": key });
        json!({
            "url": url, "headers": [], "verification": verification, "rotateInboundKey": true,
        })
    };
    refused(&house, MAILGUN, whole(MASK), "HTTP webhook signing key").await;
    refused(&house, SMTP, json!({ "url": url, "headers": [{ "X-A": MASK }] }), "headers").await;
    let again = whole("anew");
    let made = set(&house, MAILGUN, again).await;
    assert!(made["secret"].is_string(), "nobody knows the old one");
    assert_eq!(made["config"]["successStatusCodes"], json!([204]));
    let relays = &house.http.use_cases.relays;
    let opened = relays.way(RelayType::Mailgun, &key(&made["config"], "mailgun")).await.unwrap();
    assert_eq!(opened.unwrap().account.id, org);
    let now = house.store.relay(org, RelayType::Mailgun).await.unwrap().unwrap();
    assert_eq!((now.id, now.revision), (relay.id, relay.revision + 1));
    let now = house.store.inbound_way(org, RelayType::Mailgun).await.unwrap().unwrap();
    assert_eq!((now.id, now.revision), (way.id, way.revision + 1));
    assert_ne!((now.key_hash, now.last_four), (way.key_hash, way.last_four));
    // The relay over SMTP can be removed, and set again.
    house.call("org1", "DELETE", SMTP, None).await.success(200);
    assert!(set(&house, SMTP, json!({ "url": url })).await["secret"].is_string());
}
