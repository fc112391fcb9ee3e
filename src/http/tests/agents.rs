//! The configuration of an Agent: staging, publishing, versions.

use serde_json::{Value, json};

use crate::domain::agent_config::ConfigKind;
use crate::domain::audit::{Actor, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::member::Role;
use crate::http::tests::{House, NOBODY, Reply};
use crate::store::{ConfigChange, ConfigOutcome};

/// A configuration that can be published.
fn whole(title: &str) -> Value {
    json!({ "type": "chatAgent", "title": title, "description": "Answers the phone." })
}

impl House {
    async fn configure(&self, path: &str, body: Value) -> Reply {
        self.call("agent1", "POST", path, Some(&body)).await
    }

    async fn rules(&self, kind: &str) -> Value {
        self.get("agent1", &format!("/agentEventRules/{kind}")).await.success(200)
    }

    /// Stages and publishes; returns the id of the live configuration.
    async fn published(&self, title: &str) -> String {
        let staged = self.configure("/agent", whole(title)).await.success(200);
        self.configure("/agent/publish", json!({})).await.success(200);
        staged["campaignId"].as_str().unwrap().to_owned()
    }

    /// The events of an Agent's configuration, the oldest first.
    async fn told(&self) -> Vec<Value> {
        let events = self.get("agent1", "/events?type=agent").await.success(200);
        events["events"].as_array().unwrap().clone()
    }

    async fn versions(&self, live: &str, query: &str) -> Vec<Value> {
        let path = format!("/agent/{live}/versions{query}");
        let versions = self.get("agent1", &path).await.success(200)["versions"].clone();
        versions.as_array().unwrap().clone()
    }
}

#[tokio::test]
async fn what_is_staged_is_live_once_it_is_published() {
    let house = House::new().await;
    let empty = house.rules("staging").await;
    assert_eq!((&empty["agentEventRules"], &empty["campaignId"]), (&Value::Null, &Value::Null));
    house.configure("/agent/publish", json!({})).await.problem(
        409,
        "conflict",
        "nothing is staged",
    );
    house.configure("/agent/revert", json!({})).await.problem(
        409,
        "conflict",
        "nothing is published",
    );
    house.configure("/agent", json!({})).await.problem(400, "invalid_request", "has no field");

    let staged = house.configure("/agent", json!({ "title": "A", "links": ["x", "y"] })).await;
    let staged = staged.success(200);
    assert_eq!((&staged["revision"], &staged["changed"]), (&json!(1), &json!(["links", "title"])));
    let live = staged["campaignId"].as_str().unwrap();
    assert!(live.starts_with("camp") && live.len() == 36, "{live}");
    let lacking = house.configure("/agent/publish", json!({})).await;
    lacking.problem(409, "conflict", "/type is missing");
    let pointers: Vec<_> = lacking.json()["errors"].as_array().unwrap().clone();
    assert_eq!((&pointers[1]["pointer"], pointers.len()), (&json!("/description"), 2));
    let path = format!("/agent/{live}");
    house.get("agent1", &path).await.problem(404, "not_found", "nothing is published yet");

    // An omitted field stays, a list is replaced, null removes.
    let more =
        json!({ "type": "chatAgent", "description": "d", "links": ["z"], "timezone": "UTC" });
    house.configure("/agent", more).await.success(200);
    house.configure("/agent", json!({ "timezone": null })).await.success(200);
    let shown = house.rules("staging").await;
    let rules = &shown["agentEventRules"];
    assert_eq!((&rules["title"], &rules["links"]), (&json!("A"), &json!(["z"])));
    assert_eq!((&rules["timezone"], &rules["agentLang"]), (&Value::Null, &json!("en-US")));
    assert_eq!((&shown["revision"], &shown["campaignId"]), (&json!(3), &json!(live)));
    assert_ne!(shown["agentConfigId"], live);
    assert_eq!(house.rules("default").await["agentEventRules"], Value::Null);

    let done = house.configure("/agent/publish", json!({ "revision": 3 })).await.success(200);
    assert_eq!((&done["revision"], &done["previousVersionId"]), (&json!(1), &Value::Null));
    let now = house.rules("default").await;
    assert_eq!((&now["agentEventRules"], &now["agentConfigId"]), (rules, &json!(live)));
    let read = house.get("agent1", &path).await.success(200)["sponsorship"].clone();
    assert_eq!(
        (&read["id"], &read["title"], &read["kind"]),
        (&json!(live), &json!("A"), &json!("default"))
    );
    let staging = format!("/agent/{}", shown["agentConfigId"].as_str().unwrap());
    let read = house.get("agent1", &staging).await.success(200)["sponsorship"].clone();
    assert_eq!((&read["kind"], &read["revision"]), (&json!("staging"), &json!(3)));

    house.configure("/agent", json!({ "title": "B" })).await.success(200);
    let back = house.configure("/agent/revert", json!({})).await.success(200);
    assert_eq!((&back["revision"], &back["changed"]), (&json!(5), &json!(["title"])));
    assert_eq!(&house.rules("staging").await["agentEventRules"], rules);
}

#[tokio::test]
async fn mistakes_are_told_all_at_once_and_nothing_is_changed() {
    let house = House::new().await;
    let wrong = json!({
        "title": "", "links": ["a", 1], "apps": [{ "appId": "a" }], "allowed": true, "revision": -1,
    });
    let reply = house.configure("/agent", wrong).await;
    reply.problem(400, "invalid_request", "/links/1 must be a string");
    let errors = reply.json()["errors"].clone();
    let pointers: Vec<_> =
        errors.as_array().unwrap().iter().map(|one| one["pointer"].as_str().unwrap()).collect();
    let apps = ["/apps/0/instructions", "/apps/0/version"];
    let expected = ["/allowed", apps[0], apps[1], "/links/1", "/revision", "/title"];
    let mut sorted = pointers.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, expected);
    assert!(reply.text().contains("is calculated"), "{}", reply.text());
    house.configure("/agent", json!({ "voice": "x" })).await.problem(
        400,
        "invalid_request",
        "\"voice\"",
    );
    assert_eq!(house.rules("staging").await["revision"], 0);
    let house = House::with("[agents]\nmax_config_bytes = 1024").await;
    let long = json!({ "agentInstructions": "x".repeat(600) });
    house.configure("/agent", long.clone()).await.success(200);
    // Existing text counts towards the limit.
    let more = json!({ "welcomeMessage": "y".repeat(600) });
    let reply = house.configure("/agent", more).await;
    reply.problem(400, "invalid_request", "at most 1024");
    assert_eq!(house.rules("staging").await["revision"], 1);
}

#[tokio::test]
async fn a_change_for_another_revision_is_a_conflict() {
    let house = House::new().await;
    house.published("A").await;
    for (path, body) in [
        ("/agent", json!({ "title": "B", "revision": 7 })),
        ("/agent/publish", json!({ "revision": 7 })),
        ("/agent/revert", json!({ "revision": 7 })),
    ] {
        house.configure(path, body).await.problem(409, "conflict", "has revision 1, not 7");
    }
    house.configure("/agent", json!({ "title": "B", "revision": 1 })).await.success(200);
    assert_eq!(house.rules("staging").await["revision"], 2);
}

#[tokio::test]
async fn who_listens_hears_of_what_is_live_and_of_nothing_twice() {
    let house = House::new().await;
    let live = house.published("A").await;
    // Repeating a change emits no event.
    house.configure("/agent/publish", json!({})).await.success(200);
    house.configure("/agent", json!({ "title": "B" })).await.success(200);
    house.configure("/agent/revert", json!({})).await.success(200);
    house.configure("/agent/revert", json!({})).await.success(200);
    house.configure("/agent", json!({ "title": "C" })).await.success(200);
    let done = house.configure("/agent/publish", json!({})).await.success(200);
    let (previous, versions) = (&done["previousVersionId"], house.versions(&live, "").await);
    assert_eq!((&versions[0]["versionId"], versions.len()), (previous, 1));
    assert_eq!(versions[0]["title"], format!("Auto-{previous}"));
    let told = house.told().await;
    let names: Vec<_> = told.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["agent.published", "agent.reverted", "agent.published"]);
    let first = json!({
        "accountId": house.id("agent1").get(), "campaignId": live, "revision": 1,
        "changed": ["description", "title", "type"], "versionId": null, "previousVersionId": null,
    });
    assert_eq!(told[0]["data"], first);
    assert_eq!(told[1]["data"]["changed"], json!(["title"]));
    assert_eq!(&told[2]["data"]["previousVersionId"], previous);
}

#[tokio::test]
async fn versions_are_kept_read_replaced_restored_renamed_and_deleted() {
    let house = House::new().await;
    let live = house.published("A").await;
    let path = format!("/agent/{live}/versions");
    house.configure("/agent", json!({ "title": "B" })).await.success(200);
    let made = house.configure(&path, json!({ "title": "Holiday-2025" })).await.success(201);
    let staged = made["createdVersion"]["versionId"].as_i64().unwrap();
    assert_eq!(made["createdVersion"]["title"], "Holiday-2025");
    let kept = house.configure(&path, json!({ "title": "live", "source": "default" })).await;
    let kept = kept.success(201)["createdVersion"]["versionId"].as_i64().unwrap();
    assert!(kept > staged && staged > 1_700_000_000_000);
    let plain = house.versions(&live, "").await;
    assert_eq!((&plain[0]["versionId"], plain[0].get("snapshot")), (&json!(kept), None));
    let data = house.versions(&live, "?includeData=true").await;
    assert_eq!(
        (&data[0]["snapshot"]["title"], &data[1]["snapshot"]["title"]),
        (&json!("A"), &json!("B"))
    );
    // Page by page.
    let first = house.get("agent1", &format!("{path}?limit=1")).await;
    let next = format!("{path}?limit=1&before={kept}");
    assert_eq!(first.headers["link"], format!("</api/v2{next}>; rel=\"next\""));
    assert_eq!(first.success(200)["next"], kept);
    let rest = house.get("agent1", &next).await;
    assert_eq!(rest.headers.get("link"), None);
    let rest = rest.success(200);
    assert_eq!((&rest["versions"][0]["versionId"], &rest["next"]), (&json!(staged), &Value::Null));

    let one = format!("{path}/{staged}");
    let bad = json!({ "snapshot": { "title": 1, "links": [2] } });
    let reply = house.configure(&one, bad).await;
    reply.problem(400, "invalid_request", "/snapshot/title must be a string");
    let incomplete = json!({ "snapshot": { "title": "C", "timezone": null } });
    let replaced = house.configure(&one, incomplete).await.success(200);
    assert_eq!(replaced["versionId"], staged);
    let restore = format!("{one}/restore");
    let reply = house.configure(&restore, json!({ "target": "default" })).await;
    reply.problem(409, "conflict", "/type is missing");
    let restored = house.configure(&restore, json!({})).await.success(200)["restored"].clone();
    assert_eq!((&restored["target"], &restored["versionId"]), (&json!("staging"), &json!(staged)));
    let staging = house.rules("staging").await["agentEventRules"].clone();
    assert_eq!((&staging["title"], &staging["type"]), (&json!("C"), &Value::Null));

    let (title, name) = (format!("{one}/title"), json!({ "title": "N" }));
    let renamed = house.call("agent1", "PUT", &title, Some(&name)).await.success(200);
    assert_eq!(renamed["newTitle"], "N");
    for (place, words) in [("/restore", "target"), ("", "snapshot")] {
        let body = json!({ words: "elsewhere" });
        house.configure(&format!("{one}{place}"), body).await.problem(
            400,
            "invalid_request",
            words,
        );
    }
    house.call("agent1", "DELETE", &one, None).await.success(200);
    for (verb, path, body) in [
        ("DELETE", one.clone(), None),
        ("POST", one.clone(), Some(json!({ "snapshot": {} }))),
        ("POST", restore, Some(json!({}))),
        ("PUT", format!("{one}/title"), Some(json!({ "title": "x" }))),
    ] {
        let reply = house.call("agent1", verb, &path, body.as_ref()).await;
        reply.problem(404, "not_found", "no version with this id");
    }
    assert_eq!(house.versions(&live, "").await.len(), 1);
}

#[tokio::test]
async fn a_version_that_is_made_live_is_announced_and_keeps_what_was() {
    let house = House::new().await;
    let live = house.published("A").await;
    let path = format!("/agent/{live}/versions");
    let made = house.configure(&path, json!({ "title": "first" })).await.success(201);
    let version = made["createdVersion"]["versionId"].clone();
    house.configure("/agent", json!({ "title": "B" })).await.success(200);
    house.configure("/agent/publish", json!({})).await.success(200);
    let restore = format!("{path}/{version}/restore");
    let done = house.configure(&restore, json!({ "target": "default" })).await.success(200);
    assert_eq!(house.rules("default").await["agentEventRules"]["title"], "A");
    assert_eq!(house.rules("staging").await["agentEventRules"]["title"], "B");
    let told = house.told().await.pop().unwrap();
    assert_eq!((&told["event"], &told["data"]["versionId"]), (&json!("agent.published"), &version));
    let previous = &done["restored"]["previousVersionId"];
    assert_eq!(
        (&told["data"]["previousVersionId"], &told["data"]["revision"]),
        (previous, &json!(3))
    );
    let kept = house.versions(&live, "?includeData=true").await;
    assert_eq!((&kept[0]["versionId"], &kept[0]["snapshot"]["title"]), (previous, &json!("B")));
}

#[tokio::test]
async fn versions_are_bounded_those_that_publishing_makes_by_themselves() {
    let house = House::with("[agents]\nmax_versions = 2\nmax_automatic_versions = 2").await;
    let live = house.published("0").await;
    let path = format!("/agent/{live}/versions");
    for title in ["1", "2", "3", "4"] {
        house.published(title).await;
    }
    let automatic = house.versions(&live, "?includeData=true").await;
    let titles: Vec<_> = automatic.iter().map(|one| &one["snapshot"]["title"]).collect();
    assert_eq!(titles, ["3", "2"]);
    // A renamed version counts as one made by a request.
    let name = format!("{path}/{}/title", automatic[1]["versionId"]);
    house.call("agent1", "PUT", &name, Some(&json!({ "title": "two" }))).await.success(200);
    house.configure(&path, json!({ "title": "x" })).await.success(201);
    house.configure(&path, json!({ "title": "y" })).await.problem(
        409,
        "conflict",
        "at most 2 versions",
    );
    let name = format!("{path}/{}/title", automatic[0]["versionId"]);
    let reply = house.call("agent1", "PUT", &name, Some(&json!({ "title": "three" }))).await;
    reply.problem(409, "conflict", "at most 2 versions");
    house.published("5").await;
    assert_eq!(house.versions(&live, "").await.len(), 4);
    for title in ["", " ", "a\nb", &"x".repeat(201)] {
        let reply = house.configure(&path, json!({ "title": title })).await;
        reply.problem(400, "invalid_request", "one line of 1 to 200 bytes");
    }
}

#[tokio::test]
async fn ids_are_looked_for_in_the_target_alone() {
    let house = House::new().await;
    let live = house.published("A").await;
    let staging = house.rules("staging").await["agentConfigId"].as_str().unwrap().to_owned();
    let reply = house.get("agent1", &format!("/agent/{staging}/versions")).await;
    reply.problem(404, "not_found", &live);
    house.get("agent2", &format!("/agent/{live}")).await.problem(
        404,
        "not_found",
        "no configuration",
    );
    let path = format!("/agent/{live}?targetAccountId={}", house.id("agent2"));
    house.get("org1", &path).await.problem(404, "not_found", "no configuration");
    let path = format!("/agent/{live}?targetAccountId={}", house.id("agent1"));
    house.get("org1", &path).await.success(200);
    house.get("org1", &format!("/agent/{live}")).await.problem(
        400,
        "invalid_request",
        "needs an Agent",
    );
    for (path, words) in [
        ("/agent/camp1", "/agentConfigId must be \"camp\" and 32 hexadecimal digits"),
        (&*format!("/agent/{live}/versions?before=x"), "/before must be a whole number"),
        (&*format!("/agent/{live}/versions?includeData=1"), "/includeData must be true or false"),
    ] {
        house.get("agent1", path).await.problem(400, "invalid_request", words);
    }
    let reply = house.call("agent1", "DELETE", &format!("/agent/{live}/versions/01"), None).await;
    reply.problem(400, "invalid_request", "/versionId must be a whole number");
    // Fixed names beside the id in the path keep their meaning.
    house.get("agent1", "/agent/publish").await.problem(405, "method_not_allowed", "Allow");
    house.get("agent1", "/agent/receiveMessage").await.problem(405, "method_not_allowed", "Allow");
}

#[tokio::test]
async fn work_is_handed_only_to_an_agent_that_the_caller_reaches() {
    let mut house = House::new().await;
    house.join("few", "org1", Role::Admin, &["agent1"]).await;
    let ask = async |caller: &str, id: i64| {
        let body = json!({
            "computerDelegateAccountId": id, "targetAccountId": house.id("agent1").get(),
        });
        house.call(caller, "POST", "/agent", Some(&body)).await
    };
    // Foreign and unknown Agents get one answer, and so do neighbours out of reach.
    let neighbour = house.id("agent2").get();
    for id in [house.id("agent3").get(), NOBODY] {
        ask("org1", id).await.problem(403, "forbidden", "does not reach this account");
    }
    ask("partner", house.id("agent3").get()).await.problem(403, "forbidden", "does not reach");
    for caller in ["few", "agent1"] {
        ask(caller, neighbour).await.problem(403, "forbidden", "does not reach this account");
    }
    ask("org1", neighbour).await.success(200);
    // Sending the present value again needs no right to the delegate.
    ask("few", neighbour).await.success(200);
    let version = json!({ "title": "x", "targetAccountId": house.id("agent1").get() });
    let live = house.rules("staging").await["campaignId"].as_str().unwrap().to_owned();
    let path = format!("/agent/{live}/versions");
    let made = house.call("few", "POST", &path, Some(&version)).await.success(201);
    let one = format!("{path}/{}", made["createdVersion"]["versionId"]);
    let snapshot = json!({ "snapshot": { "computerDelegateAccountId": house.id("agent3").get() } });
    house.configure(&one, snapshot).await.problem(403, "forbidden", "does not reach this account");
}

/// Proves that publishing checks a staged configuration again: an older program may have accepted
/// it.
#[tokio::test]
async fn what_is_a_mistake_by_now_is_not_published() {
    let house = House::new().await;
    house.published("A").await;
    let (agent, mut config) = (house.id("agent1"), whole("B"));
    config["gone"] = json!(1);
    let found = house.store.agent_configs(agent).await.unwrap().unwrap();
    let change = ConfigChange {
        kind: ConfigKind::Staging,
        config: config.as_object().unwrap(),
        decided_by: found.revisions(),
        deed: Deed::AgentStaged,
        changes: &[],
        event: None,
        keep_automatic: None,
    };
    let act = Actor::OPERATOR.at(Timestamp::from_millis(1));
    let done = house.store.configure_agent(agent, &change, act).await.unwrap();
    assert!(matches!(done, ConfigOutcome::Done(..)), "{done:?}");
    let refused = house.configure("/agent/publish", json!({})).await;
    refused.problem(409, "conflict", "/gone is not known here");
    assert_eq!(house.rules("default").await["agentEventRules"]["title"], "A");
}
