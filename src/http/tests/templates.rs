//! Templates: drafts, applying one to an Agent, locks, and migrations of many Agents.

use serde_json::{Value, json};

use crate::http::tests::{House, Reply};

impl House {
    async fn template(&self, owner: &str, body: Value) -> String {
        let made = self.call(owner, "POST", "/templates/createTemplate", Some(&body)).await;
        let made = made.success(201)["template"].clone();
        assert_eq!((&made["enabled"], &made["revision"]), (&json!(false), &json!(1)));
        made["id"].as_str().unwrap().to_owned()
    }

    async fn change(&self, owner: &str, id: &str, body: Value) -> Reply {
        self.call(owner, "POST", &format!("/templates/{id}"), Some(&body)).await
    }

    async fn enabled(&self, owner: &str, body: Value) -> String {
        let id = self.template(owner, body).await;
        self.change(owner, &id, json!({ "enabled": true })).await.success(200);
        id
    }

    async fn apply(&self, caller: &str, agent: &str, body: Value) -> Reply {
        let mut body = body;
        body["targetAccountId"] = self.id(agent).get().into();
        self.call(caller, "POST", "/createAgentFromTemplate", Some(&body)).await
    }

    async fn set(&self, agent: &str, body: Value) -> Reply {
        self.call(agent, "POST", "/agent", Some(&body)).await
    }

    async fn staged(&self, agent: &str) -> Value {
        self.get(agent, "/agentEventRules/staging").await.success(200)["agentEventRules"].clone()
    }

    /// Finds only this template, titled Desk, which is applied to no Agent.
    async fn finds(&self, who: &str, id: &str) {
        let list = self.get(who, "/templates").await.success(200)["templates"].clone();
        assert_eq!((&list[0]["id"], list.as_array().unwrap().len()), (&json!(id), 1), "{who}");
        let shown = self.get(who, &format!("/templates/{id}")).await.success(200);
        assert_eq!(shown["template"]["config"]["title"], "Desk");
        assert_eq!((&shown["migration"], &shown["link"]), (&Value::Null, &Value::Null));
    }

    async fn finds_none(&self, all: &[&str], id: &str) {
        for who in all {
            let found = self.get(who, &format!("/templates/{id}")).await;
            found.problem(404, "not_found", "no such template");
            let list = self.get(who, "/templates").await.success(200)["templates"].clone();
            assert_eq!(list, json!([]), "{who}");
        }
    }

    /// Runs migrations until none is left.
    async fn migrated(&self) {
        while self.http.use_cases.agents.migration_round().await.unwrap() {}
    }
}

#[tokio::test]
async fn a_template_is_applied_to_one_agent_once_it_is_enabled() {
    let house = House::new().await;
    let config = json!({ "title": "Desk", "agentLang": "multi", "links": ["https://a.example"] });
    let integrations = json!([{ "slug": "crm", "version": "1" }]);
    let new = json!({ "name": "T", "config": config, "integrations": integrations });
    let id = house.template("reseller1", new).await;
    let path = format!("/templates/{id}");
    // Only the owner sees a draft.
    house.finds("reseller1", &id).await;
    house.finds_none(&["org1", "agent1", "agent3"], &id).await;
    house.set("agent1", json!({ "title": "Mine", "timezone": "UTC" })).await.success(200);
    let named = json!({ "templateId": id });
    house.apply("org1", "agent1", named.clone()).await.problem(409, "conflict", "is a draft");
    house.change("reseller1", &id, json!({ "enabled": true })).await.success(200);
    for below in ["reseller1", "org1", "agent1", "agent3"] {
        house.finds(below, &id).await;
    }
    house.finds_none(&["partner", "reseller2", "org3", "agent4"], &id).await;
    // A template locks fields for the Agent, so its own key does not choose it.
    let own = house.apply("agent1", "agent1", named.clone()).await;
    own.problem(403, "forbidden", "needs a key of organization");
    house.apply("reseller2", "agent1", named.clone()).await.problem(403, "forbidden", "");
    house.apply("org3", "agent4", named.clone()).await.problem(
        404,
        "not_found",
        "no such template",
    );
    house.apply("org1", "org1", named.clone()).await.problem(
        400,
        "invalid_request",
        "needs an Agent",
    );

    let applied = house.apply("org1", "agent1", named.clone()).await.success(201)["agent"].clone();
    assert_eq!(applied["changed"], json!(["agentLang", "links", "title"]));
    assert_eq!((&applied["overrides"], &applied["revision"]), (&json!([]), &json!(2)));
    assert_eq!(applied["requiredIntegrations"], integrations);
    let staged = house.staged("agent1").await;
    let fields = (&staged["title"], &staged["timezone"], &staged["agentLang"]);
    assert_eq!(fields, (&json!("Desk"), &json!("UTC"), &json!("multi")));
    let live = house.get("agent1", "/agentEventRules/default").await.success(200);
    assert_eq!(live["agentEventRules"], Value::Null, "staging alone");
    let link = house.get("agent1", &path).await.success(200)["link"].clone();
    assert_eq!(
        (&link["revision"], &link["accountId"]),
        (&json!(1), &json!(house.id("agent1").get()))
    );
    assert_eq!(house.get("agent2", &path).await.success(200)["link"], Value::Null);

    // Applied again: changes of the Agent stay, unless overriding them is approved.
    house.set("agent1", json!({ "title": "Mine" })).await.success(200);
    let again = house.apply("org1", "agent1", named).await.success(201)["agent"].clone();
    assert_eq!((&again["changed"], &again["overrides"]), (&json!([]), &json!(["title"])));
    let approved = json!({ "templateId": id, "approveOverrides": ["title"] });
    let again = house.apply("org1", "agent1", approved).await.success(201)["agent"].clone();
    assert_eq!((&again["changed"], &again["overrides"]), (&json!(["title"]), &json!([])));
}

#[tokio::test]
async fn what_a_template_locks_an_agent_does_not_change() {
    let house = House::new().await;
    let whole = json!({ "type": "chatAgent", "title": "Old", "description": "d" });
    let staged = house.set("agent1", whole).await.success(200);
    house.call("agent1", "POST", "/agent/publish", None).await.success(200);
    let live = staged["campaignId"].as_str().unwrap().to_owned();
    let versions = format!("/agent/{live}/versions");
    let kept = house.call("agent1", "POST", &versions, Some(&json!({ "title": "v" }))).await;
    let version = kept.success(201)["createdVersion"]["versionId"].clone();
    let locks = json!({ "title": { "locked": true }, "links": { "locked": false } });
    let new = json!({ "name": "Strict", "config": { "title": "Ours" }, "fields": locks });
    let id = house.enabled("partner", new).await;
    house.apply("org1", "agent1", json!({ "templateId": id })).await.success(201);

    let told = format!("the template Strict ({id}) locks title");
    house.set("agent1", json!({ "title": "Mine" })).await.problem(409, "conflict", &told);
    house.set("agent1", json!({ "title": null })).await.problem(409, "conflict", &told);
    house.call("agent1", "POST", "/agent/revert", None).await.problem(409, "conflict", &told);
    for target in ["staging", "default"] {
        let path = format!("{versions}/{version}/restore");
        let back = house.call("agent1", "POST", &path, Some(&json!({ "target": target }))).await;
        // The live configuration equals the version, so nothing changes.
        if target == "staging" {
            back.problem(409, "conflict", &told);
        } else {
            back.success(200);
        }
    }
    // Sending the present value is no change; unlocked fields are free.
    house.set("agent1", json!({ "title": "Ours", "links": ["x"] })).await.success(200);
    house.call("agent1", "POST", "/agent/publish", None).await.success(200);
    // A lock takes effect at once.
    let locks = json!({ "links": { "locked": true } });
    let unset = house.change("partner", &id, json!({ "fields": locks })).await;
    unset.problem(400, "invalid_request", "/fields/links is locked, but config does not have it");
    let locks = json!({ "fields": locks, "config": { "links": ["x"] } });
    house.change("partner", &id, locks).await.success(200);
    let unset = house.change("partner", &id, json!({ "config": { "links": null } })).await;
    unset.problem(400, "invalid_request", "/fields/links is locked, but config does not have it");
    house.set("agent1", json!({ "title": "Mine" })).await.success(200);
    house.set("agent1", json!({ "links": ["y"] })).await.problem(409, "conflict", "locks links");

    let detach = json!({ "templateId": id, "detach": true });
    // Callers that the lock binds may not end it.
    for (caller, words) in [("agent1", ""), ("org1", "of reseller"), ("reseller1", "reach")] {
        let refused = house.apply(caller, "agent1", detach.clone()).await;
        refused.problem(403, "forbidden", words);
    }
    house.set("agent1", json!({ "links": ["y"] })).await.problem(409, "conflict", "locks links");
    let gone = house.apply("partner", "agent1", detach.clone()).await.success(200);
    let gone = gone["detached"].clone();
    assert_eq!(gone["templateId"], json!(id));
    assert_eq!(house.staged("agent1").await["title"], "Mine", "the configuration stays");
    house.set("agent1", json!({ "links": ["y"] })).await.success(200);
    house.apply("org1", "agent1", detach).await.problem(404, "not_found", "nothing to detach");
}

#[tokio::test]
async fn a_migration_is_foreseen_and_then_brought_to_all() {
    let house = House::new().await;
    let id = house.enabled("reseller1", json!({ "name": "T", "config": { "title": "a" } })).await;
    let path = format!("/templates/{id}");
    for (org, agent) in [("org1", "agent1"), ("org1", "agent2"), ("org2", "agent3")] {
        house.apply(org, agent, json!({ "templateId": id })).await.success(201);
    }
    house.set("agent2", json!({ "title": "theirs" })).await.success(200);
    let newer = json!({ "config": { "title": "b", "timezone": "UTC" }, "revision": 1 });
    let changed = house.change("reseller1", &id, newer.clone()).await.success(200);
    assert_eq!(changed["template"]["revision"], 2);
    house.change("reseller1", &id, newer).await.problem(409, "conflict", "has revision 2, not 1");
    assert_eq!(house.staged("agent1").await["title"], "a", "not before a migration");

    let [one, two, three] = ["agent1", "agent2", "agent3"].map(|name| house.id(name).get());
    let dry = json!({ "migrate": { "dryRun": true, "limit": 2 } });
    let foreseen = house.change("reseller1", &id, dry).await.success(200)["migration"].clone();
    let both = json!(["timezone", "title"]);
    let expected = json!([
        { "accountId": one, "changed": both, "overrides": [], "tooLarge": false },
        { "accountId": two, "changed": ["timezone"], "overrides": ["title"], "tooLarge": false },
    ]);
    assert_eq!((&foreseen["agents"], &foreseen["next"]), (&expected, &json!(two)));
    let rest = json!({ "migrate": { "dryRun": true, "after": two, "approveOverrides": true } });
    let rest = house.change("reseller1", &id, rest).await.success(200)["migration"].clone();
    assert_eq!((&rest["agents"][0]["accountId"], &rest["next"]), (&json!(three), &Value::Null));
    assert_eq!(house.get("reseller1", &path).await.success(200)["migration"], Value::Null);

    let asked = house.change("reseller1", &id, json!({ "migrate": {} })).await.success(202);
    assert_eq!(
        (&asked["migration"]["status"], &asked["migration"]["examined"]),
        (&json!("queued"), &json!(0))
    );
    let twice = house.change("reseller1", &id, json!({ "migrate": {} })).await;
    twice.problem(409, "conflict", "is under way");
    house.migrated().await;
    let done = house.get("reseller1", &path).await.success(200)["migration"].clone();
    let tally = (&done["status"], &done["examined"], &done["changed"], &done["overridden"]);
    assert_eq!(tally, (&json!("finished"), &json!(3), &json!(3), &json!(1)));
    assert_eq!(house.get("agent1", &path).await.success(200)["migration"], Value::Null);
    for (agent, title) in [("agent1", "b"), ("agent2", "theirs"), ("agent3", "b")] {
        let staged = house.staged(agent).await;
        assert_eq!((&staged["title"], &staged["timezone"]), (&json!(title), &json!("UTC")));
    }
    // Migrates some sections of some Agents, over their own changes.
    house
        .change("reseller1", &id, json!({ "config": { "title": "c", "timezone": null } }))
        .await
        .success(200);
    let some = json!({ "migrate": {
        "sectionsToMigrate": ["title"], "approveOverrides": ["title"], "targetAccountIds": [two],
    } });
    house.change("reseller1", &id, some).await.success(202);
    house.migrated().await;
    let staged = house.staged("agent2").await;
    assert_eq!((&staged["title"], &staged["timezone"]), (&json!("c"), &json!("UTC")));
    assert_eq!(house.staged("agent1").await["title"], "b");
    // Agents of others are answered like Agents without the template.
    for other in [house.id("agent4").get(), crate::http::tests::NOBODY] {
        let asked = json!({ "migrate": { "targetAccountIds": [other] } });
        let refused = house.change("reseller1", &id, asked).await;
        refused.problem(409, "conflict", "is not linked with this template");
    }
}

#[tokio::test]
async fn a_template_assigns_only_apps_that_its_agents_have() {
    let house = House::new().await;
    let id = house.enabled("reseller1", json!({ "name": "T", "config": { "title": "a" } })).await;
    for agent in ["agent1", "agent2"] {
        house.apply("org1", agent, json!({ "templateId": id })).await.success(201);
    }
    house.post("agent1", "/apps/crm/v1", json!({})).await.success(201);
    let apps = json!([{ "appId": "crm", "version": "v1", "instructions": "x" }]);
    let newer = json!({ "config": { "title": "b", "apps": apps } });
    house.change("reseller1", &id, newer).await.success(200);
    for agent in ["agent2", "agent3"] {
        let org = if agent == "agent3" { "org2" } else { "org1" };
        let refused = house.apply(org, agent, json!({ "templateId": id })).await;
        refused.problem(409, "conflict", "crm/v1 is not installed on this Agent");
    }
    house.change("reseller1", &id, json!({ "migrate": {} })).await.success(202);
    house.migrated().await;
    let path = format!("/templates/{id}");
    let done = house.get("reseller1", &path).await.success(200)["migration"].clone();
    let tally = ["examined", "changed", "failed"].map(|name| done[name].as_u64().unwrap());
    assert_eq!(tally, [2, 1, 1]);
    assert_eq!(done["lastFailedAccountId"], house.id("agent2").get());
    for (agent, title) in [("agent1", "b"), ("agent2", "a")] {
        assert_eq!(house.staged(agent).await["title"], title);
    }
}

#[tokio::test]
async fn a_migration_goes_no_further_once_its_template_is_disabled() {
    let house = House::new().await;
    let id = house.enabled("reseller1", json!({ "name": "T", "config": { "title": "a" } })).await;
    house.apply("org1", "agent1", json!({ "templateId": id })).await.success(201);
    house.change("reseller1", &id, json!({ "config": { "title": "b" } })).await.success(200);
    house.change("reseller1", &id, json!({ "migrate": {} })).await.success(202);
    house.change("reseller1", &id, json!({ "enabled": false })).await.success(200);
    house.migrated().await;
    let path = format!("/templates/{id}");
    let ended = house.get("reseller1", &path).await.success(200)["migration"].clone();
    assert_eq!((&ended["status"], &ended["examined"]), (&json!("finished"), &json!(0)));
    assert_eq!(house.staged("agent1").await["title"], "a");
    // Once the template is enabled again, another migration may be requested.
    house.change("reseller1", &id, json!({ "enabled": true })).await.success(200);
    house.change("reseller1", &id, json!({ "migrate": {} })).await.success(202);
    house.migrated().await;
    assert_eq!(house.staged("agent1").await["title"], "b");
}

#[tokio::test]
async fn what_is_foreseen_of_long_configurations_comes_in_short_pages() {
    let house = House::with("[limits]\nmax_page_bytes = 65536\npage_step = 1\n").await;
    let long = json!({ "agentInstructions": "x".repeat(20_000) });
    let id = house.enabled("reseller1", json!({ "name": "T", "config": long })).await;
    let agents = [("org1", "agent1"), ("org1", "agent2"), ("org2", "agent3")];
    for (org, agent) in agents {
        house.apply(org, agent, json!({ "templateId": id })).await.success(201);
    }
    let all: Vec<i64> = agents.iter().map(|(_, agent)| house.id(agent).get()).collect();
    // Examining one Agent, with its staged and its applied fields, takes 40,000 bytes.
    for targets in [Value::Null, json!(all)] {
        let (mut seen, mut after) = (Vec::new(), json!({ "dryRun": true }));
        after["targetAccountIds"] = targets;
        loop {
            let page = house.change("reseller1", &id, json!({ "migrate": after })).await;
            let page = page.success(200)["migration"].clone();
            assert_eq!(page["agents"].as_array().unwrap().len(), 1);
            seen.push(page["agents"][0]["accountId"].as_i64().unwrap());
            if page["next"].is_null() {
                break;
            }
            after["after"] = page["next"].clone();
        }
        assert_eq!(seen, all);
    }
}

#[tokio::test]
async fn a_template_is_its_owners_alone_and_goes_when_nobody_is_linked() {
    let house = House::new().await;
    let id = house.enabled("reseller1", json!({ "name": "T", "config": { "title": "a" } })).await;
    let path = format!("/templates/{id}");
    let name = json!({ "name": "U" });
    house.change("org1", &id, name.clone()).await.problem(403, "forbidden", "needs a key of");
    house.change("reseller2", &id, name.clone()).await.problem(404, "not_found", "no such");
    house.change("partner", &id, name.clone()).await.problem(404, "not_found", "no such");
    let reseller = house.id("reseller1").get();
    let above = json!({ "name": "U", "targetResellerId": reseller });
    house.change("partner", &id, above).await.success(200);
    let org = json!({ "name": "U", "targetAccountId": house.id("org1").get() });
    let wrong = house.change("reseller1", &id, org).await;
    wrong.problem(400, "invalid_request", "type \"reseller\" or \"partner\"");
    let partners = house.enabled("partner", json!({ "name": "P" })).await;
    let refused = house.change("reseller1", &partners, name).await;
    let whose = format!("belongs to account {}", house.id("partner").get());
    refused.problem(404, "not_found", &whose);

    let locks = json!({ "fields": { "title": { "locked": true } } });
    house.change("reseller1", &id, locks).await.success(200);
    house.apply("org1", "agent1", json!({ "templateId": id })).await.success(201);
    let linked = house.call("reseller1", "DELETE", &path, None).await;
    linked.problem(409, "conflict", "detachAll");
    let all = format!("{path}?detachAll=true");
    house.call("reseller1", "DELETE", &all, None).await.success(200);
    house.call("reseller1", "DELETE", &all, None).await.problem(404, "not_found", "no such");
    house.get("agent1", &path).await.problem(404, "not_found", "no such");
    house.set("agent1", json!({ "title": "Mine" })).await.success(200);
    let other = house.enabled("partner", json!({ "name": "T", "config": { "title": "b" } })).await;
    house.apply("org1", "agent1", json!({ "templateId": other })).await.success(201);
    house.migrated().await;
    let found = house.get("agent1", &format!("/templates/{other}")).await.success(200);
    assert_ne!(found["link"], Value::Null, "only the links of the one that was deleted went");
}

#[tokio::test]
async fn mistakes_in_a_template_are_told_by_their_place() {
    let house = House::with("[templates]\nmax_per_account = 1\nmax_integrations = 2").await;
    let create = async |body: Value| {
        house.call("reseller1", "POST", "/templates/createTemplate", Some(&body)).await
    };
    let one = json!({ "slug": "a", "version": "1" });
    let lines = json!([{ "slug": "a\nb", "version": "1" }]);
    for (body, place) in [
        (
            json!({ "config": { "links": 1 } }),
            "/name is missing: send one line of 1 to 200 bytes; /config/links must be an array",
        ),
        (json!({ "name": "" }), "/name must be one line"),
        (json!({ "name": "x", "config": [] }), "/config must be an object"),
        (json!({ "name": "x", "config": { "links": 1 } }), "/config/links must be an array"),
        (json!({ "name": "x", "config": { "allowed": true } }), "/config/allowed is calculated"),
        (
            json!({ "name": "x", "config": { "computerDelegateAccountId": 7 } }),
            "/config/computerDelegateAccountId belongs to each Agent",
        ),
        (
            json!({ "name": "x", "fields": { "title": { "locked": true } } }),
            "/fields/title is locked, but config does not have it",
        ),
        (json!({ "name": "x", "fields": { "no": {} } }), "/fields/no is not known here"),
        (json!({ "name": "x", "fields": { "title": { "lock": true } } }), "/fields/title/lock"),
        (json!({ "name": "x", "fields": { "title": { "locked": 1 } } }), "/fields/title/locked"),
        (json!({ "name": "x", "integrations": [{ "slug": "a" }] }), "/integrations/0/version"),
        (json!({ "name": "x", "integrations": lines }), "/integrations/0/slug must be one line"),
        (json!({ "name": "x", "integrations": [one, one] }), "/integrations/1 is there twice"),
        (json!({ "name": "x", "integrations": [one, one, one] }), "an array of at most 2 items"),
    ] {
        create(body).await.problem(400, "invalid_request", place);
    }
    let id = house.template("reseller1", json!({ "name": "x" })).await;
    create(json!({ "name": "y" })).await.problem(409, "conflict", "at most 1 templates");
    for (migrate, place) in [
        (json!(1), "/migrate must be an object"),
        (json!({ "dry": true }), "/migrate/dry is not known"),
        (json!({ "sectionsToMigrate": ["no"] }), "/migrate/sectionsToMigrate/0"),
        (
            json!({ "approveOverrides": 1 }),
            "/migrate/approveOverrides must be true or false, or an",
        ),
        (json!({ "approveOverrides": ["no"] }), "/migrate/approveOverrides/0 must be the name of"),
        (json!({ "targetAccountIds": [] }), "/migrate/targetAccountIds"),
        (json!({ "targetAccountIds": ["x"] }), "/migrate/targetAccountIds/0"),
        (json!({ "limit": 0 }), "/migrate/limit"),
    ] {
        let refused = house.change("reseller1", &id, json!({ "migrate": migrate })).await;
        refused.problem(400, "invalid_request", place);
    }
    let both = house.change("reseller1", &id, json!({ "migrate": {}, "name": "z" })).await;
    both.problem(400, "invalid_request", "change the template first");
    let draft = house.change("reseller1", &id, json!({ "migrate": {} })).await;
    draft.problem(409, "conflict", "is a draft");
    let apply = house.apply("org1", "agent1", json!({ "templateId": "x" })).await;
    apply.problem(400, "invalid_request", "templateId must be a UUID");
}
