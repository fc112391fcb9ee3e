//! Changes of webhooks: settings, updates, rotated secrets, replays.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::domain::destination::Destination;
use crate::domain::event::Category;
use crate::domain::id::DestinationId;
use crate::domain::member::Role;
use crate::egress::signature;
use crate::http::tests::{House, Reply};
use crate::store::MemberChange;

const PATH: &str = "/webhooks";
const NOBODY: &str = "0198c0de-0000-7000-8000-000000000000";

async fn post(house: &House, caller: &str, path: &str, body: Value) -> Reply {
    house.call(caller, "POST", path, Some(&body)).await
}

/// Makes a webhook of org1; returns its id.
async fn hook(house: &House, fields: Value) -> String {
    let mut body = json!({ "url": "https://hooks.example/a", "label": "x", "type": "incoming" });
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let made = post(house, "org1", PATH, body).await.success(201);
    made["webhook"]["id"].as_str().unwrap().to_owned()
}

async fn stored(house: &House, id: &str) -> Destination {
    let id = DestinationId(id.parse().unwrap());
    house.store.destination(house.id("org1"), id).await.unwrap().unwrap().destination
}

#[tokio::test]
async fn a_webhook_says_how_it_wants_its_events() {
    let house = House::new().await;
    let plain = hook(&house, json!({ "type": "contact" })).await;
    let wishes = json!({
        "ordered": true, "payload": "summary",
        "headers": [{ "X-Api-Key": "a-secret value" }, { "X-Tenant": "7" }],
    });
    let id = hook(&house, wishes).await;
    let listed = house.get("org1", PATH).await;
    assert!(!listed.text().contains("a-secret"), "{}", listed.text());
    let listed = listed.success(200)["webhooks"].clone();
    let quiet = json!({
        "ordered": false, "payload": "full", "headers": [], "disabled": null, "failures": 0,
        "failingSince": null, "secretRotatedAt": null, "formerSecretUntil": null,
    });
    for (field, value) in quiet.as_object().unwrap() {
        assert_eq!((&listed[0]["id"], &listed[0][field]), (&json!(plain), value), "{field}");
    }
    let masked = json!([{ "X-Api-Key": "********" }, { "X-Tenant": "********" }]);
    assert_eq!(
        (&listed[1]["ordered"], &listed[1]["payload"], &listed[1]["headers"]),
        (&json!(true), &json!("summary"), &masked)
    );
    let kept = stored(&house, &id).await.wants.headers;
    assert_eq!(kept[0].value.expose(), b"a-secret value");
}

#[tokio::test]
async fn wishes_that_cannot_be_met_are_refused_by_name() {
    let house = House::new().await;
    let many: Vec<Value> = (0..21).map(|n| json!({ format!("X-{n}"): "x" })).collect();
    for (field, value, words) in [
        ("ordered", json!("yes"), "/ordered must be true or false"),
        ("payload", json!("short"), "/payload must be one of: full, summary, thin"),
        ("payload", json!(null), "/payload must be one of"),
        ("headers", json!({ "X-A": "b" }), "headers must be an array"),
        ("headers", json!([{ "X-A": "b" }, {}]), "/headers/1 must be an object of one name"),
        ("headers", json!([{ "X-A": "b", "X-B": "c" }]), "/headers/0 must be an object of one"),
        ("headers", json!([{ "X-A": 1 }]), "/headers/0/X-A must be a string"),
        ("headers", json!(["X-A: b"]), "/headers/0 must be an object of one name"),
        ("headers", json!([{ "X-A": "b\r\nX-B: c" }]), "headers[0]: the value may have only"),
        ("headers", json!([{ "X-A": "b" }, { "x-a": "c" }]), "headers[1]: the name is sent twice"),
        ("headers", json!([{ "Authorization": "Bearer x" }]), "such as X-Api-Key: deliveries are"),
        ("headers", json!([{ "Content-Length": "0" }]), "content-* cannot be set"),
        ("headers", json!([{ "webhook-id": "0" }]), "webhook-* cannot be set"),
        ("headers", json!([{ "X-A": "********" }]), "keeps an existing value, but none"),
        ("headers", json!(many), "headers: too many: send at most 20"),
        ("disabled", json!(true), "disabled is only for updates"),
        ("secret", json!("whsec_x"), "field \"secret\" is not known here"),
    ] {
        let mut body = json!({ "url": "https://a.example/", "label": "x", "type": "incoming" });
        body[field] = value;
        let reply = post(&house, "org1", PATH, body).await;
        reply.problem(400, "invalid_request", words);
    }
    assert_eq!(house.get("org1", PATH).await.success(200)["webhooks"], json!([]));
}

#[tokio::test]
async fn an_update_changes_what_is_given_and_nothing_else() {
    let house = House::new().await;
    let headers = json!([{ "X-Api-Key": "one" }, { "X-Tenant": "7" }]);
    let id = hook(&house, json!({ "payload": "thin", "headers": headers })).await;
    let before = stored(&house, &id).await;
    let update = async |change: Value| {
        let mut body = json!({ "id": id });
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        post(&house, "org1", PATH, body).await
    };
    let changed = update(json!({ "label": "y" })).await;
    assert!(!changed.text().contains("whsec_"));
    let changed = changed.success(200);
    assert_eq!(
        (&changed["webhook"]["label"], &changed["webhook"]["id"]),
        (&json!("y"), &json!(id))
    );
    assert_eq!(changed["webhooks"], json!([changed["webhook"]]));
    let after = stored(&house, &id).await;
    assert_eq!(after, Destination { label: "y".into(), ..before.clone() });
    // A masked value that is sent back stays; a header that is left out is removed.
    let shown = changed["webhook"]["headers"].clone();
    update(json!({ "headers": shown, "ordered": true })).await.success(200);
    assert_eq!(stored(&house, &id).await.wants.headers, before.wants.headers);
    let one = json!([{ "x-api-key": "********" }, { "X-New": "n" }]);
    update(json!({ "headers": one, "payload": "full" })).await.success(200);
    let wants = stored(&house, &id).await.wants;
    assert_eq!((wants.ordered, wants.payload.as_str()), (true, "full"));
    let values: Vec<&[u8]> = wants.headers.iter().map(|one| one.value.expose()).collect();
    assert_eq!(values, [b"one".as_slice(), b"n"]);
    update(json!({ "headers": [] })).await.success(200);
    assert_eq!(stored(&house, &id).await.wants.headers, []);
    // URL and type identify a webhook, so they do not change.
    let same = json!({ "url": "https://hooks.example/a", "type": "incoming" });
    update(same).await.success(200);
    let before = stored(&house, &id).await;
    for (change, words) in [
        (json!({ "url": "https://hooks.example/b" }), "url cannot change"),
        (json!({ "url": "x" }), "url cannot change"),
        (json!({ "type": "contact" }), "type cannot change"),
        (json!({ "label": "a\nb" }), "label"),
        (json!({ "label": null }), "/label must be a string"),
        (json!({ "disabled": "no" }), "/disabled must be true or false"),
        (json!({ "headers": [{ "Host": "x" }] }), "headers[0]: host cannot be set"),
    ] {
        update(change).await.problem(400, "invalid_request", words);
    }
    let reply = post(&house, "org1", PATH, json!({ "id": "7" })).await;
    reply.problem(400, "invalid_request", "/id must be a UUID");
    assert_eq!(stored(&house, &id).await, before);
}

/// Webhooks of accounts above, below or beside the target, removed or unknown, get one answer.
#[tokio::test]
async fn webhooks_of_others_are_as_good_as_not_there() {
    let house = House::new().await;
    let mut ids = vec![NOBODY.to_owned()];
    for owner in ["reseller1", "agent1", "org2", "org1"] {
        let body = json!({ "url": "https://hooks.example/x", "label": "x", "type": "incoming" });
        let made = post(&house, owner, PATH, body).await.success(201);
        ids.push(made["webhook"]["id"].as_str().unwrap().to_owned());
    }
    let own = ids.last().unwrap().clone();
    let url = json!({ "url": "https://hooks.example/x" });
    house.call("org1", "DELETE", PATH, Some(&url)).await.success(200);
    let mut answers = BTreeSet::new();
    for id in &ids {
        let mut replies = vec![
            post(&house, "org1", PATH, json!({ "id": id, "label": "y", "type": "contact" })).await,
            post(&house, "org1", &format!("/webhooks/{id}/rotate"), json!({})).await,
            post(&house, "org1", &format!("/webhooks/{id}/test"), json!({})).await,
            post(&house, "org1", &format!("/webhooks/{id}/replay"), json!({ "since": 1 })).await,
        ];
        // Deliveries of a removed webhook can still be read.
        if *id != own {
            replies.push(house.get("org1", &format!("/webhooks/{id}/deliveries")).await);
        }
        for reply in replies {
            let request = &reply.headers["x-request-id"];
            reply.problem(404, "not_found", "there is no such webhook in the scope");
            answers.insert(reply.text().replace(request, "ID"));
        }
    }
    assert_eq!(answers.len(), 1, "{answers:#?}");
    let kept = house.get("org1", &format!("/webhooks/{own}/deliveries")).await.success(200);
    assert_eq!(kept["deliveries"], json!([]));
}

#[tokio::test]
async fn a_disabled_webhook_gets_nothing_until_it_is_enabled() {
    let house = House::new().await;
    let id = hook(&house, json!({})).await;
    let destination = DestinationId(id.parse().unwrap());
    let set = async |disabled: bool| {
        let body = json!({ "id": id, "disabled": disabled });
        post(&house, "org1", PATH, body).await.success(200)["webhook"].clone()
    };
    let off = set(true).await;
    let since = off["disabled"]["since"].clone();
    assert!(off["disabled"]["reason"].as_str().unwrap().contains("by a request"), "{off}");
    assert_eq!(set(true).await["disabled"]["since"], since, "it is already");
    house.receive("agent1", "From: a\r\n\r\nx", 0).await;
    assert_eq!(house.made_for(destination).await, []);
    for (path, body) in [("test", json!({})), ("replay", json!({ "since": 1 }))] {
        let reply = post(&house, "org1", &format!("/webhooks/{id}/{path}"), body).await;
        reply.problem(409, "conflict", "enable it first");
    }
    assert_eq!(set(false).await["disabled"], json!(null));
    house.receive("agent1", "From: a\r\n\r\ny", 0).await;
    assert_eq!(house.made_for(destination).await.len(), 1);
}

#[tokio::test]
async fn a_secret_is_rotated_with_an_overlap() {
    let house = House::new().await;
    let id = hook(&house, json!({})).await;
    let rotate =
        async |body: Value| post(&house, "org1", &format!("/webhooks/{id}/rotate"), body).await;
    let mut secrets = vec![signature::secret_text(&stored(&house, &id).await.secret)];
    for turn in 1..=4 {
        let rotated = rotate(json!({})).await.success(200);
        let secret = rotated["secret"].as_str().unwrap().to_owned();
        assert!(secret.starts_with("whsec_") && !secrets.contains(&secret), "{secret}");
        let kept = stored(&house, &id).await;
        assert_eq!(signature::secret_text(&kept.secret), secret);
        let former: Vec<String> =
            kept.former_secrets.iter().map(|one| signature::secret_text(&one.secret)).collect();
        secrets.reverse();
        assert_eq!(former, secrets, "{turn}: the newest first");
        secrets.reverse();
        let at = kept.secret_rotated_at.unwrap();
        let day = std::time::Duration::from_secs(86_400);
        assert_eq!(kept.former_secrets[0].until, at.plus(day));
        assert_eq!(rotated["formerSecretUntil"], at.plus(day).to_string());
        let webhook = &rotated["webhook"];
        assert_eq!(webhook["formerSecretUntil"], rotated["formerSecretUntil"]);
        assert_eq!(webhook["secretRotatedAt"], at.to_string());
        secrets.push(secret);
    }
    rotate(json!({})).await.problem(409, "conflict", "4 former secrets still sign");
    rotate(json!({ "endFormer": 1 })).await.problem(400, "invalid_request", "true or false");
    let listed = house.get("org1", PATH).await.text();
    assert!(secrets.iter().all(|secret| !listed.contains(&secret[6..])));
    // `endFormer` ends a leaked secret at once.
    let ended = rotate(json!({ "endFormer": true })).await.success(200);
    assert_eq!(ended["formerSecretUntil"], json!(null));
    assert!(ended["message"].as_str().unwrap().contains("no previous secret signs"));
    assert_eq!(stored(&house, &id).await.former_secrets, []);
    rotate(json!({})).await.success(200);
}

#[tokio::test]
async fn a_rotation_whose_answer_was_lost_is_asked_for_again() {
    let house = House::new().await;
    let id = hook(&house, json!({})).await;
    let path = format!("/webhooks/{id}/rotate");
    let ask = async || {
        let lines = "Idempotency-Key: r-1\r\n";
        house.exact("org1", ("POST", &path), lines, None).await
    };
    let (first, again) = (ask().await.success(200), ask().await.success(200));
    assert_eq!(first, again);
    assert_eq!(stored(&house, &id).await.former_secrets.len(), 1);
}

#[tokio::test]
async fn what_hears_of_members_is_for_administrators() {
    let mut house = House::new().await;
    // The last administrator stays one.
    house.join("boss", "org1", Role::Admin, &[]).await;
    let anna = house.join("anna", "org1", Role::Admin, &[]).await.id;
    let id = hook(&house, json!({ "type": "onboarding" })).await;
    post(&house, "org1", &format!("/webhooks/{id}/test"), json!({})).await.success(201);
    house.give_up().await;
    let delivery = house.made_for(DestinationId(id.parse().unwrap())).await[0].id;
    let all = async || {
        let path = |end: &str| format!("/webhooks/{id}/{end}");
        let one = format!("/deliveries/{delivery}");
        [
            post(&house, "anna", PATH, json!({ "id": id, "label": "y" })).await,
            post(&house, "anna", &path("rotate"), json!({})).await,
            post(&house, "anna", &path("test"), json!({})).await,
            post(&house, "anna", &path("replay"), json!({ "since": 1 })).await,
            house.get("anna", &path("deliveries")).await,
            house.get("anna", &one).await,
            post(&house, "anna", &format!("{one}/replay"), json!({})).await,
        ]
    };
    let beside = hook(&house, json!({ "type": "contact" })).await;
    let listed = async || {
        let listed = house.get("anna", PATH).await.success(200)["webhooks"].clone();
        let ids = listed.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().into());
        ids.collect::<BTreeSet<String>>()
    };
    assert_eq!(listed().await, BTreeSet::from([id.clone(), beside.clone()]));
    for reply in all().await {
        assert!(reply.status < 300, "{}", reply.text());
    }
    // A member loses the right with the next request.
    let change = MemberChange { role: Some(Role::Member), ..MemberChange::default() };
    let act = crate::domain::audit::Actor::OPERATOR.at(house.now());
    house.store.update_member(anna, &change, act).await.unwrap();
    let before = stored(&house, &id).await;
    for reply in all().await {
        reply.problem(403, "forbidden", "needs an administrator");
    }
    assert_eq!(listed().await, BTreeSet::from([beside.clone()]));
    let url = "https://hooks.example/a";
    for named in [json!({ "id": id }), json!({ "url": url, "type": "onboarding" })] {
        let reply = house.call("anna", "DELETE", PATH, Some(&named)).await;
        reply.problem(403, "forbidden", "needs an administrator");
    }
    // Webhooks that she may not change stay, and are not mentioned.
    let reply = house.call("anna", "DELETE", PATH, Some(&json!({ "url": url }))).await;
    let removed = reply.success(200);
    assert_eq!(
        (&removed["removed"][0]["id"], &removed["removed"][1]),
        (&json!(beside), &json!(null))
    );
    assert_eq!(removed["webhooks"], json!([]));
    let again = house.call("anna", "DELETE", PATH, Some(&json!({ "url": url }))).await;
    again.problem(404, "not_found", "");
    assert_eq!(house.get("boss", PATH).await.success(200)["webhooks"][0]["id"], json!(id));
    assert_eq!(stored(&house, &id).await, before);
    assert_eq!(before.category, Category::Onboarding);
}

#[tokio::test]
async fn a_replay_is_accepted_once_and_so_many_wait() {
    let house = House::new().await;
    let id = hook(&house, json!({})).await;
    let ask =
        async |body: Value| post(&house, "org1", &format!("/webhooks/{id}/replay"), body).await;
    let first = ask(json!({ "since": 1_700_000_000 })).await.success(202)["replay"].clone();
    assert_eq!(
        (&first["only"], &first["since"]),
        (&json!("failed"), &json!("2023-11-14T22:13:20.000Z"))
    );
    let same = json!({ "since": "2023-11-14T22:13:20Z", "only": "failed" });
    assert_eq!(ask(same).await.success(202)["replay"], first);
    let all = ask(json!({ "since": 1_700_000_000, "only": "all" })).await.success(202);
    assert_ne!(all["replay"]["id"], first["id"]);
    for (body, words) in [
        (json!({}), "/since is missing: send Unix seconds, or a date like 2026-11-20"),
        (json!({ "since": "yesterday" }), "since must be"),
        (json!({ "since": -1 }), "since must be"),
        (json!({ "since": null }), "since must be"),
        (json!({ "since": "2999-01-01" }), "lies in the future"),
        (json!({ "since": 1, "only": "some" }), "/only must be one of: failed, all"),
    ] {
        ask(body).await.problem(400, "invalid_request", words);
    }
    for since in 1..=6 {
        ask(json!({ "since": since })).await.success(202);
    }
    ask(json!({ "since": 7 })).await.problem(409, "conflict", "8 replays of this webhook");
}
