//! The computers of Agents over the wire: records, life, configuration, and the target in the path.

use std::time::Duration;

use serde_json::{Value, json};

use crate::http::tests::targets::NO_TEXTS;
use crate::http::tests::{House, NOBODY};

fn path(house: &House, agent: &str, rest: &str) -> String {
    format!("/computer/accounts/{}{rest}", house.id(agent))
}

#[tokio::test]
async fn a_record_is_made_changed_and_removed() {
    let house = House::new().await;
    let own = path(&house, "agent1", "");
    for rest in ["", "/config", "/status", "/runtime/health"] {
        let reply = house.get("agent1", &path(&house, "agent1", rest)).await;
        reply.problem(404, "not_found", "computer");
    }
    let body = json!({ "name": "Mail desk", "config": { "instructions": "Answer." } });
    let made = house.call("org1", "POST", &own, Some(&body)).await.success(201);
    let account = &made["account"];
    assert_eq!(account["accountId"], house.id("agent1").get());
    assert_eq!((&account["name"], &account["state"]), (&json!("Mail desk"), &json!("created")));
    let first = account["revision"].as_i64().unwrap();
    assert_eq!(account["job"], Value::Null);
    house.call("org1", "POST", &own, None).await.problem(
        409,
        "conflict",
        "change its record with PUT",
    );
    // A record alone is no computer that runs.
    let status = path(&house, "agent1", "/status");
    house.get("agent1", &status).await.problem(404, "not_found", "provision");

    let renamed = house.call("agent1", "PUT", &own, Some(&json!({ "name": null }))).await;
    let renamed = renamed.success(200);
    assert_eq!(
        (&renamed["account"]["name"], &renamed["account"]["revision"]),
        (&Value::Null, &json!(first))
    );
    let whole = json!({ "config": { "pollSeconds": 5 }, "revision": first });
    let written = house.call("agent1", "PUT", &own, Some(&whole)).await.success(200);
    assert_eq!(written["account"]["revision"], first + 1);
    let words = format!("revision {}", first + 1);
    house.call("agent1", "PUT", &own, Some(&whole)).await.problem(409, "conflict", &words);
    let config = house.get("agent1", &path(&house, "agent1", "/config")).await.success(200);
    assert_eq!(config["authoredConfig"], json!({ "pollSeconds": 5 }), "a PUT replaces it whole");
    for (body, words) in [
        (json!({ "name": "x".repeat(201) }), "name must have"),
        (json!({ "name": 1 }), "/name must be a string"),
        (json!({ "config": [] }), "/config must be an object"),
        (
            json!({ "config": { "pollSeconds": 0, "events": ["x"] }, "revision": "1" }),
            "/config/pollSeconds must be a whole number from 1 to 3600; /revision must be",
        ),
        (json!({ "config": { "labels": { "a b": "x" } } }), "/config/labels/a b needs a name of"),
        (json!({ "revision": -1 }), "/revision must be a whole number, not negative"),
        (json!({ "speed": 1 }), "\"speed\" is not known here"),
    ] {
        let reply = house.call("agent1", "PUT", &own, Some(&body)).await;
        reply.problem(400, "invalid_request", words);
    }
    house.call("agent1", "DELETE", &own, None).await.success(200);
    house.call("agent1", "DELETE", &own, None).await.problem(404, "not_found", "no computer");
    let put = house.call("agent1", "PUT", &own, Some(&json!({ "name": "x" }))).await;
    put.problem(404, "not_found", "no computer");
    // A revision read from the previous record must not overwrite the next record's configuration.
    house.call("org1", "POST", &own, Some(&body)).await.success(201);
    for old in [first, first + 1] {
        let whole = json!({ "config": {}, "revision": old });
        let reply = house.call("agent1", "PUT", &own, Some(&whole)).await;
        reply.problem(409, "conflict", "is at revision");
    }
}

#[tokio::test]
async fn a_computer_is_provisioned_and_deprovisioned_as_often_as_one_likes() {
    let house = House::new().await;
    let at = |rest: &str| path(&house, "agent1", rest);
    let gone = house.call("agent1", "POST", &at("/deprovision"), None).await;
    gone.problem(404, "not_found", "no computer");
    let first = house.call("org1", "POST", &at("/provision"), None).await.success(202);
    assert_eq!(
        (&first["status"], &first["job"]["type"]),
        (&json!("provisioned"), &json!("provision"))
    );
    let again = house.call("org1", "POST", &at("/provision"), Some(&json!({}))).await.success(200);
    assert_eq!(again["job"], first["job"]);
    let status = house.get("agent1", &at("/status")).await.success(200);
    assert_eq!((&status["status"], &status["job"]), (&json!("provisioned"), &first["job"]));
    // Provisioning does not change the revision of the configuration.
    let revision = first["account"]["revision"].as_i64().unwrap();
    let patch = json!({ "revision": revision, "patch": { "labels": { "a": "b" } } });
    house.call("agent1", "POST", &at("/config/patch"), Some(&patch)).await.success(200);

    let kept =
        house.call("agent1", "POST", &at("/deprovision"), Some(&json!({}))).await.success(202);
    assert_eq!(
        (&kept["status"], &kept["account"]["revision"]),
        (&json!("deprovisioned"), &json!(revision + 1))
    );
    house.call("agent1", "POST", &at("/deprovision"), None).await.success(200);
    house.get("agent1", &at("/status")).await.problem(404, "not_found", "provision");
    let config = house.get("agent1", &at("/config")).await.success(200);
    assert_eq!(config["authoredConfig"]["labels"], json!({ "a": "b" }), "its state is kept");
    let wiped = json!({ "wipeState": true });
    house.call("agent1", "POST", &at("/deprovision"), Some(&wiped)).await.success(202);
    let config = house.get("agent1", &at("/config")).await.success(200);
    assert_eq!(
        (&config["authoredConfig"], &config["revision"]),
        (&json!({}), &json!(revision + 2))
    );
    let odd =
        house.call("agent1", "POST", &at("/deprovision"), Some(&json!({ "wipeState": 1 }))).await;
    odd.problem(400, "invalid_request", "/wipeState must be true or false");
    house.call("agent1", "POST", &at("/provision"), None).await.success(202);
    house.get("agent1", &at("/status")).await.success(200);
}

#[tokio::test]
async fn a_configuration_is_patched_by_revision_and_shows_no_secret() {
    let house = House::new().await;
    let at = |rest: &str| path(&house, "agent1", rest);
    let made = house.call("agent1", "POST", &at("/provision"), None).await.success(202);
    let first = made["account"]["revision"].as_i64().unwrap();
    // Patches at the revision that is `later` changes after the first.
    let patch = async |later: i64, patch: Value, replaced: &[&str]| {
        let body = json!({ "revision": first + later, "patch": patch, "replacePaths": replaced });
        house.call("agent1", "POST", &at("/config/patch"), Some(&body)).await
    };
    let begun = json!({ "labels": { "a": "1", "b": "2" }, "secrets": { "one": "hunter2" } });
    let done = patch(0, begun, &[]).await;
    assert!(!done.text().contains("hunter2"));
    let done = done.success(200);
    assert_eq!(
        (&done["revision"], &done["agentIds"]),
        (&json!(first + 1), &json!([house.id("agent1").get()]))
    );
    assert_eq!(done["authoredConfig"]["secrets"], json!({ "one": "********" }));
    assert_eq!(done["effectiveConfig"]["pollSeconds"], 30);
    // Merges, and replaces where requested; the mask keeps the stored value.
    let second = json!({ "labels": { "a": null, "c": "3" }, "secrets": { "one": "********", "two": "hunter3" } });
    let done = patch(1, second, &[]).await.success(200);
    assert_eq!(done["authoredConfig"]["labels"], json!({ "b": "2", "c": "3" }));
    assert_eq!(done["authoredConfig"]["secrets"], json!({ "one": "********", "two": "********" }));
    let done = patch(2, json!({ "labels": { "d": "4" } }), &["/labels"]).await.success(200);
    assert_eq!(done["authoredConfig"]["labels"], json!({ "d": "4" }));
    // A patch without a change keeps the revision; a new value of a secret does not.
    assert_eq!(patch(3, json!({}), &[]).await.success(200)["revision"], first + 3);
    assert_eq!(
        patch(3, json!({ "secrets": { "one": "new" } }), &[]).await.success(200)["revision"],
        first + 4
    );
    let words = format!("is at revision {}", first + 4);
    patch(3, json!({}), &[]).await.problem(409, "conflict", &words);
    let latest = first + 4;
    for (body, words) in [
        (json!({}), "/revision is missing: send a whole number, not negative; /patch is missing"),
        (json!({ "revision": "5", "patch": [] }), "/patch must be an object"),
        (json!({ "revision": "5", "patch": {} }), "/revision must be a whole number"),
        (json!({ "revision": latest, "patch": {}, "replacePaths": ["/labels"] }), "replacePaths"),
        (
            json!({ "revision": latest, "patch": {}, "replacePaths": ["", 1] }),
            "/replacePaths/1 must be",
        ),
        (
            json!({ "revision": latest, "patch": { "secrets": { "x": "********" } } }),
            "/patch/secrets/x is ********",
        ),
        (
            json!({ "revision": latest, "patch": { "x": 1, "labels": 1 } }),
            "/patch/labels must be an object of strings; /patch/x is not",
        ),
    ] {
        let reply = house.call("agent1", "POST", &at("/config/patch"), Some(&body)).await;
        reply.problem(400, "invalid_request", words);
    }
    let schema = house.get("agent1", &at("/config/schema")).await.success(200);
    assert_eq!(schema["schema"]["$schema"], "https://json-schema.org/draft/2020-12/schema");
    // Nothing in the database is the secret.
    let folder = house._folder.path().join("data");
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.path().is_file() {
            let octets = std::fs::read(entry.path()).unwrap();
            assert!(!octets.windows(7).any(|window| window == b"hunter3"), "{entry:?}");
        }
    }
}

#[tokio::test]
async fn records_are_listed_page_by_page_and_health_tells_of_ways() {
    let house = House::new().await;
    for agent in ["agent1", "agent2", "agent3", "agent4"] {
        house.call("partner", "POST", &path(&house, agent, "/provision"), None).await.success(202);
    }
    let ids = |page: &Value| -> Vec<i64> {
        let accounts = page["accounts"].as_array().unwrap();
        accounts.iter().map(|one| one["accountId"].as_i64().unwrap()).collect()
    };
    let of = |names: &[&str]| names.iter().map(|name| house.id(name).get()).collect::<Vec<_>>();
    let first = house.get("reseller1", "/computer/accounts?limit=2").await;
    let link = first.headers["link"].clone();
    let first = first.success(200);
    assert_eq!(ids(&first), of(&["agent1", "agent2"]));
    let after = format!("/computer/accounts?limit=2&after={}", first["next"]);
    assert_eq!(link, format!("</api/v2{after}>; rel=\"next\""));
    let rest = house.get("reseller1", &after).await;
    assert_eq!(rest.headers.get("link"), None);
    let rest = rest.success(200);
    assert_eq!((ids(&rest), &rest["next"]), (of(&["agent3"]), &Value::Null));
    assert_eq!(ids(&house.get("agent4", "/computer/accounts").await.success(200)), of(&["agent4"]));
    let odd = house.get("org1", "/computer/accounts?after=01").await;
    odd.problem(400, "invalid_request", "after");

    let health = path(&house, "agent1", "/runtime/health");
    let shown = house.get("org1", &health).await.success(200);
    assert_eq!((&shown["status"], &shown["webhooks"]), (&json!("degraded"), &json!([])));
    assert_eq!(shown["findings"][0]["code"], "no_way");
    let hook = json!({ "url": "https://127.0.0.2/work", "label": "worker", "type": "incoming" });
    house.call("agent1", "POST", "/webhooks", Some(&hook)).await.success(201);
    house.receive("agent1", "From: a", 0).await;
    let shown = house.get("org1", &format!("{health}?probe=true")).await.success(200);
    assert_eq!(
        (&shown["status"], &shown["webhooks"][0]["waiting"]),
        (&json!("healthy"), &json!(1))
    );
    house.give_up().await;
    let shown = house.get("org1", &format!("{health}?probe=false")).await.success(200);
    assert_eq!(
        (&shown["webhooks"][0]["waiting"], &shown["webhooks"][0]["lastDeliveredAt"]),
        (&Value::Null, &Value::Null)
    );
    assert!(!shown.to_string().contains("127.0.0.2"), "where it leads is told by GET /webhooks");
    for odd in ["1", "", "True", "%22true%22"] {
        let reply = house.get("org1", &format!("{health}?probe={odd}")).await;
        reply.problem(400, "invalid_request", "/probe must be true or false");
    }
}

#[tokio::test]
async fn nobody_makes_a_computer_healthy_by_asking_how_it_is() {
    let house = House::new().await;
    house.call("org1", "POST", &path(&house, "agent1", "/provision"), None).await.success(202);
    let health = path(&house, "agent1", "/runtime/health");
    let key = house.store.keys(house.id("agent1")).await.unwrap()[0].id;
    // The last use of the key is hours ago.
    let long_ago = house.now().minus(Duration::from_secs(3 * 3600));
    assert!(house.store.record_key_use(key, long_ago, long_ago).await.unwrap());
    let shown = house.get("org1", &health).await.success(200);
    assert_eq!(
        (&shown["status"], &shown["keyLastUsedAt"]),
        (&json!("degraded"), &json!(long_ago.to_string()))
    );
    assert_eq!(shown["findings"][0]["code"], "no_way");
    // The Agent asks for its own health, and the use of its key is noted.
    for _ in 0..2 {
        let shown = house.get("agent1", &health).await.success(200);
        assert!(["degraded", "unknown"].contains(&shown["status"].as_str().unwrap()), "{shown}");
        let now = house.now();
        house.store.record_key_use(key, now, now).await.unwrap();
    }
    let shown = house.get("agent1", &health).await.success(200);
    assert_eq!(shown["status"], "unknown", "whose key is used may read no events");
    assert_eq!(shown["findings"][0]["code"], "key_only");
    let hook = json!({ "url": "https://127.0.0.2/work", "label": "worker", "type": "incoming" });
    house.call("agent1", "POST", "/webhooks", Some(&hook)).await.success(201);
    assert_eq!(house.get("agent1", &health).await.success(200)["status"], "healthy");
}

#[tokio::test]
async fn the_path_names_one_account_in_one_spelling() {
    let house = House::new().await;
    let (mine, other) = (house.id("agent1").get(), house.id("agent2").get());
    for rest in ["", "/config", "/config/schema", "/status", "/runtime/health"] {
        // An empty text would make another path, and no path has braces.
        for odd in NO_TEXTS.iter().copied().filter(|odd| !matches!(*odd, "" | "{}")) {
            let reply = house.get("partner", &format!("/computer/accounts/{odd}{rest}")).await;
            reply.problem(400, "invalid_request", "targetAccountId");
        }
        let own = path(&house, "agent1", rest);
        for target in [other, NOBODY] {
            let reply = house.get("partner", &format!("{own}?targetAccountId={target}")).await;
            reply.problem(400, "invalid_request", "named differently");
        }
        let agreed = house.get("partner", &format!("{own}?targetAccountId={mine}")).await;
        assert!([200, 404].contains(&agreed.status), "{}", agreed.text());
        // One answer for targets out of reach and for unknown ones, before anything is read.
        for target in ["agent2", "agent4", "org1"] {
            let reply = house.get("agent1", &path(&house, target, rest)).await;
            reply.problem(403, "forbidden", "does not reach this account");
        }
        let reply = house.get("agent1", &format!("/computer/accounts/{NOBODY}{rest}")).await;
        reply.problem(403, "forbidden", "does not reach this account");
        // In reach, but no Agent.
        let reply = house.get("org1", &path(&house, "org1", rest)).await;
        reply.problem(400, "invalid_request", "an Agent");
    }
    let provision = path(&house, "agent1", "/provision");
    for (query, body) in [
        (format!("?targetAccountId={other}"), json!({})),
        (String::new(), json!({ "targetAccountId": other })),
        (String::new(), json!({ "targetAccountId": other.to_string() })),
        (format!("?targetAccountId={mine}"), json!({ "targetAccountId": NOBODY })),
        (String::new(), json!({ "targetAccountId": "01" })),
        (String::new(), json!({ "targetAccountId": 1.5 })),
        (String::new(), json!({ "targetAccountId": null })),
        (format!("?targetAccountId={mine}&targetAccountId={mine}"), json!({})),
        (format!("?targetAccountId=0{mine}"), json!({})),
    ] {
        let reply = house.call("org1", "POST", &format!("{provision}{query}"), Some(&body)).await;
        assert_eq!(reply.status, 400, "{query} {body}: {}", reply.text());
    }
    assert_eq!(house.store.computer(house.id("agent1")).await.unwrap(), None);
    for (query, body) in [
        (format!("?targetAccountId={mine}"), json!({ "targetAccountId": mine.to_string() })),
        (String::new(), json!({ "targetAccountId": mine })),
    ] {
        let reply = house.call("org1", "POST", &format!("{provision}{query}"), Some(&body)).await;
        assert!([200, 202].contains(&reply.status), "{}", reply.text());
    }
}
