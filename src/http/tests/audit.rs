//! The audit log names every actor, and holds no secrets.

mod set_up;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::app::access::need::Effect;
use crate::domain::audit::{Actor, Who};
use crate::domain::member::Role;
use crate::domain::policy::Mode;
use crate::http::table::OPERATIONS;
use crate::http::tests::{House, NOBODY, PATIENCE, Reply};

const HOOK: &str = "http://127.0.0.1:9/a-secret-path?and=a-secret-query";

async fn log(house: &House, caller: &str, query: &str) -> Vec<Value> {
    let reply = house.get(caller, &format!("/audit?limit=200&{query}")).await.success(200);
    reply["audit"].as_array().unwrap().clone()
}

/// Makes changes with the partner's key, one by one, and checks the entries of each.
struct Changes {
    house: House,
    made: BTreeSet<String>,
    entries: usize,
    /// The value of `{id}`.
    id: String,
    /// The value of `{agentConfigId}`.
    config: String,
}

impl Changes {
    /// Performs an operation on this target, and expects entries of these deeds, newest first.
    async fn make(
        &mut self,
        operation: &str,
        target: impl ToString,
        body: Value,
        deeds: &[&str],
    ) -> Value {
        let (verb, path) = operation.split_once(' ').unwrap();
        let mark = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{mark}targetAccountId={}", target.to_string());
        let path = path.replace("{id}", &self.id).replace("{messageUuid}", &self.id);
        let path = path.replace("{uuid}", &self.id);
        let path = path.replace("{appId}/{appVersion}", "crm/v1");
        let path = path.replace("{slug}/{version}", "acme/v1");
        let path = path.replace("{targetAccountId}", &target.to_string());
        let path = path.replace("{type}", &self.id);
        let path = path.replace("{agentConfigId}", &self.config).replace("{versionId}", &self.id);
        let path = path.replace("{templateId}", &self.id);
        let lines = "X-Forwarded-For: 192.0.2.7\r\n";
        let body = (!body.is_null()).then(|| body.to_string());
        let reply = self.house.exact("partner", (verb, &path), lines, body.as_deref()).await;
        let what = format!("{operation} {body:?}: {}", reply.text());
        assert!(reply.status < 300 || deeds.is_empty() && reply.status < 500, "{what}");
        self.entries += deeds.len();
        let entries = log(&self.house, "partner", "").await;
        assert_eq!(entries.len(), self.entries, "{what}");
        let key = self.house.store.keys(self.house.id("partner")).await.unwrap()[0].id;
        for (entry, deed) in entries.iter().zip(deeds) {
            assert_eq!(entry["action"], *deed, "{what}");
            assert_eq!(entry["requestId"], reply.headers["x-request-id"].as_str());
            assert_eq!(entry["remoteAddress"], "192.0.2.7");
            let partner = self.house.id("partner").get();
            let by = json!({
                "type": "key", "keyId": key.to_string(), "accountId": partner, "memberId": null,
            });
            assert_eq!(entry["by"], by);
        }
        self.made.insert(operation.split('?').next().unwrap().to_owned());
        reply.json()
    }

    /// Does the same as `make`, then repeats the request, which changes nothing.
    async fn make_once(&mut self, operation: &str, target: i64, body: Value, deeds: &[&str]) {
        self.make(operation, target, body.clone(), deeds).await;
        self.make(operation, target, body, &[]).await;
    }

    async fn agent(&mut self) {
        let id = self.house.id("agent1").get();
        let changed = &["policy.changed"];
        self.make_once("PUT /email/inboundPolicy", id, json!({ "mode": "open" }), changed).await;
        let list = "/email/inboundWhitelist";
        let both = json!({ "emails": ["a@x.example", "b@x.example"], "note": "n" });
        self.make_once(&format!("POST {list}"), id, both.clone(), &["senders.allowed"]).await;
        let both = json!({ "emails": both["emails"] });
        self.make_once(&format!("DELETE {list}"), id, both, &["senders.removed"]).await;
        let address = json!({ "address": "new@partner.example" });
        let add = "POST /email/addresses";
        self.make_once(add, id, address.clone(), &["address.added"]).await;
        let all = json!({ "address": "new@partner.example", "catchAll": true });
        self.make_once(add, id, all, &["address.added"]).await;
        self.make_once("DELETE /email/addresses", id, address, &["address.removed"]).await;
        // Content leaves no entry: its intake record names the actor.
        let message = json!({ "targetAgent": id, "sourceAddress": "anna", "message": "Hello" });
        let receive = "POST /agent/receiveMessage";
        let room = self.make(receive, id, message.clone(), &[]).await["roomId"].clone();
        let made = self.make(receive, id, message, &[]).await;
        self.id = made["messageUuid"].as_str().unwrap().to_owned();
        let record = "POST /messages/{uuid}/outcome";
        let outcome = json!({ "reply": "a-secret", "agentOutcome": "answered" });
        self.make(record, id, outcome, &["outcome.recorded"]).await;
        self.make_once("DELETE /messages/{messageUuid}", id, Value::Null, &["message.erased"])
            .await;
        let contact = room.as_str().unwrap().split_once(':').unwrap().0;
        self.id = contact.to_owned();
        let org = self.house.id("org1").get();
        self.make_once("DELETE /contacts/{id}", org, Value::Null, &["contact.erased"]).await;
        self.computer(id).await;
        let hook = |kind: &str| json!({ "url": HOOK, "label": "x", "type": kind });
        for kind in ["incoming", "contact"] {
            self.make_once("POST /webhooks", id, hook(kind), &["webhook.added"]).await;
        }
        self.webhook(id).await;
        // Two objects, two entries.
        let removed = &["webhook.removed", "webhook.removed"];
        self.make_once("DELETE /webhooks", id, json!({ "url": HOOK }), removed).await;
    }

    async fn webhook(&mut self, id: i64) {
        let webhook = self.house.store.destinations(self.house.id("agent1")).await.unwrap()[0].id;
        self.id = webhook.to_string();
        let change = json!({
            "id": self.id, "label": "y", "ordered": true, "payload": "thin",
            "headers": [{ "X-Api-Key": "a-secret" }],
        });
        self.make_once("POST /webhooks", id, change, &["webhook.updated"]).await;
        for _ in 0..2 {
            let rotated = &["webhook.rotated"];
            self.make("POST /webhooks/{id}/rotate", id, json!({}), rotated).await;
            self.make("POST /webhooks/{id}/test", id, json!({}), &["webhook.tested"]).await;
        }
        let since = json!({ "since": "2026-11-01" });
        self.make_once("POST /webhooks/{id}/replay", id, since, &["webhook.replayed"]).await;
        self.house.give_up().await;
        self.id = self.house.made_for(webhook).await[0].id.to_string();
        let replayed = &["delivery.replayed"];
        self.make_once("POST /deliveries/{id}/replay", id, json!({}), replayed).await;
    }

    async fn people(&mut self) {
        let id = self.house.id("org1").get();
        let domain = json!({ "domain": "new.example" });
        self.make_once("POST /domain", id, domain.clone(), &["domain.claimed"]).await;
        self.make_once("DELETE /domain", id, domain, &["domain.removed"]).await;
        let new = json!({ "type": "admin", "description": "x" });
        let made = self.make("POST /tokens", id, new, &["key.created"]).await;
        let named = json!({ "id": made["token"]["id"] });
        self.make_once("DELETE /tokens", id, named, &["key.revoked"]).await;
        let mut members = Vec::new();
        for email in ["a@x.example", "b@x.example"] {
            let new = json!({ "email": email, "role": "admin" });
            let made = self.make("POST /member", id, new.clone(), &["member.invited"]).await;
            self.make("POST /member", id, new, &[]).await;
            members.push(made["member"]["id"].clone());
        }
        let change = json!({ "targetMemberId": members[0], "role": "member" });
        self.make_once("PUT /member", id, change, &["member.updated"]).await;
        let named = json!({ "targetMemberId": members[0] });
        self.make_once("DELETE /member", id, named, &["member.removed"]).await;
    }

    async fn accounts(&mut self) {
        let id = |house: &House, name: &str| house.id(name).get();
        let [partner, reseller, organization] =
            ["partner", "reseller1", "org1"].map(|name| id(&self.house, name));
        let created = &["account.created"];
        let new = json!({ "resellerName": "New", "email": "r@x.example" });
        self.make("POST /createReseller", partner, new, created).await;
        let new = json!({
            "orgName": "New", "accountName": "First", "externalAccountId": "e",
            "integrations": [{ "appId": "a", "appVersion": "v", "appData": { "k": "a-secret" } }],
        });
        let both = &["account.created", "account.created"];
        let made = self.make("POST /createOrganization", reseller, new.clone(), both).await;
        self.make("POST /createOrganization", reseller, new, &[]).await;
        let new = json!({ "accountName": "New" });
        let agent = self.make("POST /createAccount", organization, new, created).await;
        let (agent, org) = (&agent["account"]["id"], &made["organization"]["id"]);
        let updated = &["account.updated"];
        let change = json!({ "name": "Other", "settings": { "apiToken": "a-secret" } });
        self.make_once("POST /account", organization, change, updated).await;
        let (agent, org) = (agent.as_i64().unwrap(), org.as_i64().unwrap());
        let change = json!({ "orgName": "Other", "email": "o@x.example" });
        self.make_once("POST /updateOrganization", org, change, updated).await;
        let change = json!({ "accountName": "Other", "active": false });
        self.make_once("POST /updateAccount", agent, change, updated).await;
        let gone = json!({ "targetAccountId": agent });
        let body = gone.to_string();
        self.delete("DELETE /deleteAccount", &body, 1).await;
        let gone = json!({ "targetOrganizationId": org, "cascade": true });
        self.delete("DELETE /deleteOrganization", &gone.to_string(), 2).await;
    }

    /// Names the object in the body, without a target.
    async fn delete(&mut self, operation: &str, body: &str, gone: usize) {
        for left in [gone, 0] {
            let (verb, path) = operation.split_once(' ').unwrap();
            let reply = self.house.exact("partner", (verb, path), "", Some(body)).await;
            assert_eq!(reply.status == 403, left == 0, "{}", reply.text());
            assert!(left == 0 || reply.status < 300, "{}", reply.text());
            self.entries += left;
            let entries = log(&self.house, "partner", "").await;
            let deleted = entries.iter().filter(|entry| entry["action"] != "access.denied");
            assert_eq!(deleted.clone().count(), self.entries, "{operation}");
            assert!(deleted.take(left).all(|entry| entry["action"] == "account.deleted"));
        }
        self.made.insert(operation.to_owned());
    }
}

#[tokio::test]
async fn every_operation_that_changes_something_leaves_its_entries() {
    let house = House::new().await;
    let entries = log(&house, "partner", "").await.len();
    let mut changes =
        Changes { house, made: BTreeSet::new(), entries, id: String::new(), config: String::new() };
    changes.agent().await;
    changes.apps().await;
    changes.relays().await;
    changes.configuration().await;
    changes.templates().await;
    changes.people().await;
    changes.accounts().await;
    let Changes { house, made, .. } = changes;
    let changing = OPERATIONS.iter().filter(|operation| operation.need.effect == Effect::Write);
    let changing: BTreeSet<String> = changing.map(|operation| operation.name()).collect();
    assert_eq!(changing, made, "each operation that changes something is made above");
    let text = Value::from(log(&house, "partner", "").await).to_string();
    for secret in ["gp_", "whsec_", "a-secret", "gatepost-verify"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    for resident in house.residents.values() {
        assert!(!text.contains(&resident.token[3..]));
    }
}

#[tokio::test]
async fn an_entry_tells_what_was_and_what_is() {
    let house = House::new().await;
    let id = house.id("agent1").get();
    let path = format!("/email/inboundPolicy?targetAccountId={id}");
    let body = json!({ "mode": "open" });
    let reply = house.call("partner", "PUT", &path, Some(&body)).await;
    reply.success(200);
    let whitelist = format!("/email/inboundWhitelist?targetAccountId={id}");
    for emails in [json!(["a@x.example", "b@x.example", "c@x.example"]), json!(["d@x.example"])] {
        let body = json!({ "emails": emails });
        house.call("partner", "POST", &whitelist, Some(&body)).await.success(200);
    }
    // A long list is cut to its first entries and the number of the others.
    let many: Vec<_> = (0..25).map(|number| format!("s{number:02}@x.example")).collect();
    for (verb, side) in [("POST", "after"), ("DELETE", "before")] {
        let body = json!({ "emails": many });
        house.call("partner", verb, &whitelist, Some(&body)).await.success(200);
        let newest = log(&house, "partner", &format!("targetAccountId={id}")).await.swap_remove(0);
        assert_eq!(newest[side], json!({ "email": many[..20], "more": "5" }), "{newest}");
    }
    let entries = log(&house, "partner", &format!("targetAccountId={id}")).await;
    let entries = &entries[2..];
    assert_eq!(entries[0]["after"], json!({ "email": "d@x.example" }));
    let three = json!({ "email": ["a@x.example", "b@x.example", "c@x.example"] });
    assert_eq!((&entries[1]["before"], &entries[1]["after"]), (&json!({}), &three));
    let set = &entries[2];
    assert_eq!(set["before"], json!({ "mode": "allowlist" }));
    assert_eq!(set["after"], json!({ "mode": "open" }));
    assert_eq!((&set["object"], &set["count"]), (&json!(id.to_string()), &json!(1)));
    assert_eq!(set["date"].as_str().unwrap().len(), "2026-11-20T10:00:00.000Z".len());
    assert!(set["timestamp"].is_i64());
    assert_eq!(set["remoteAddress"], "127.0.0.1");
    // An actor above is shown by account alone.
    let seen = log(&house, "agent1", "").await;
    let partner = house.id("partner").get();
    let above = json!({ "type": "key", "keyId": null, "accountId": partner, "memberId": null });
    assert_eq!((&seen[4]["by"], &seen[4]["remoteAddress"]), (&above, &Value::Null));
    let made = seen.last().unwrap();
    assert_eq!(made["action"], "account.created");
    assert_eq!(made["by"]["type"], "operator");
    // No other account sees any of it.
    for other in ["agent2", "org2", "reseller2"] {
        let entries = log(&house, other, "").await;
        assert!(entries.iter().all(|entry| entry["accountId"] != id), "{other}");
    }
}

#[tokio::test]
async fn a_restricted_member_is_shown_of_itself_and_its_agents_who_it_was() {
    let mut house = House::new().await;
    house.join("few", "org1", Role::Admin, &["agent1"]).await;
    house.join("other", "org1", Role::Admin, &["agent1"]).await;
    let path = format!("/email/inboundPolicy?targetAccountId={}", house.id("agent1"));
    let mut modes = ["open", "allowlist"].into_iter().cycle();
    for (caller, seen) in
        [("few", true), ("agent1", true), ("other", false), ("org1", false), ("partner", false)]
    {
        let body = json!({ "mode": modes.next() });
        house.call(caller, "PUT", &path, Some(&body)).await.success(200);
        let entry = log(&house, "few", "action=policy.changed").await.swap_remove(0);
        let by = &entry["by"];
        assert_eq!(by["accountId"], house.id(caller).get());
        assert_eq!((by["keyId"].is_string(), entry["remoteAddress"].is_string()), (seen, seen));
        assert_eq!(by["memberId"].is_i64(), caller == "few", "{entry}");
    }
    // Nor does its key's id show for another Agent.
    let account = house.id("agent2");
    let key = house.store.keys(account).await.unwrap()[0].id;
    let remote = Some("192.0.2.7".parse().unwrap());
    let actor = Actor { remote, ..Actor::of(Who::Key { key, account, member: None }) };
    let act = actor.at(house.now());
    house.store.set_mode(house.id("agent1"), Mode::Allowlist, act).await.unwrap();
    let entry = log(&house, "few", "action=policy.changed").await.swap_remove(0);
    assert_eq!(
        (&entry["by"]["accountId"], &entry["by"]["keyId"]),
        (&json!(account.get()), &Value::Null)
    );
    assert_eq!(entry["remoteAddress"], Value::Null);
}

#[tokio::test]
async fn a_log_is_read_page_by_page_and_narrowed() {
    let house = House::new().await;
    let all = log(&house, "partner", "").await;
    assert!(all.len() > 20);
    let (mut path, mut read) = ("/audit?limit=7".to_owned(), Vec::new());
    loop {
        let reply = house.get("partner", &path).await;
        read.extend(reply.success(200)["audit"].as_array().unwrap().clone());
        let link = reply.headers.get("link").cloned().unwrap_or_default();
        let next = link.split(", ").find(|link| link.contains("rel=\"next\""));
        let Some(next) = next else { break };
        path = next.split(['<', '>']).nth(1).unwrap().replacen("/api/v2", "", 1);
    }
    assert_eq!(read, all);
    // The body has the cursor of the next page, too; the id of an entry works as well.
    let page = house.get("partner", "/audit?limit=7").await;
    let next = page.json()["next"].as_str().unwrap().to_owned();
    assert!(page.link("next").unwrap().ends_with(&format!("&before={next}")), "{next}");
    let (older, id) = (format!("before={next}"), all[6]["id"].as_str().unwrap());
    for (query, expected) in [
        (older, &all[7..]),
        (format!("before={id}"), &all[7..]),
        (format!("after={id}"), &all[..6]),
    ] {
        assert_eq!(log(&house, "partner", &query).await, expected, "{query}");
    }
    assert_eq!(house.get("partner", "/audit?limit=200").await.json()["next"], Value::Null);
    // Going to newer entries uses the links; `next` leads to older ones.
    let newer = house.get("partner", &format!("/audit?after={id}")).await;
    assert_eq!((newer.json()["next"].clone(), newer.link("prev").is_some()), (Value::Null, true));
    for (caller, id) in [("partner", "019a9e5c-7c80-7000-8000-000000000001"), ("org2", id)] {
        let reply = house.get(caller, &format!("/audit?before={id}")).await;
        reply.problem(400, "invalid_request", "this list has no such id");
    }
    let made = log(&house, "partner", "action=key.created").await;
    assert_eq!(made.len(), house.residents.len());
    assert!(made.iter().all(|entry| entry["action"] == "key.created"));
    let id = house.id("agent1").get();
    let body = json!({ "mode": "open" });
    house.call("agent1", "PUT", "/email/inboundPolicy", Some(&body)).await.success(200);
    let key = house.store.keys(house.id("agent1")).await.unwrap()[0].id;
    for (actor, expected) in [
        (key.to_string(), 1),
        (id.to_string(), 1),
        (house.id("agent2").to_string(), 0),
        ("operator".into(), all.len()),
        ("gateway".into(), 0),
    ] {
        let query = format!("by={actor}");
        assert_eq!(log(&house, "partner", &query).await.len(), expected, "{query}");
    }
    let reply = house.get("partner", "/audit?action=key.created&by=operator&limit=2").await;
    let link = &reply.headers["link"];
    assert!(link.contains("action=key.created&by=operator&limit=2&before="), "{link}");
    let first = all.last().unwrap()["timestamp"].as_i64().unwrap();
    assert_eq!(log(&house, "partner", &format!("until={first}")).await.len(), 0);
    assert!(log(&house, "partner", &format!("since={first}")).await.len() > all.len());
    for (query, words) in [
        ("action=key.eaten", "action"),
        ("by=me", "/by must be the id of a key"),
        ("by=01", "/by must be"),
        ("since=yesterday", "since must be"),
        ("until=", "until must be"),
        ("before=x", "/before must be a cursor"),
        ("limit=0", "limit"),
    ] {
        let reply = house.get("partner", &format!("/audit?{query}")).await;
        reply.problem(400, "invalid_request", words);
    }
}

/// Waits until entries of refused attempts count so many, and returns them.
pub(super) async fn refused(house: &House, caller: &str, count: i64) -> Vec<Value> {
    let waiting = async {
        loop {
            let entries = log(house, caller, "action=access.denied").await;
            let counts = entries.iter().map(|entry| entry["count"].as_i64().unwrap());
            if counts.sum::<i64>() >= count {
                return entries;
            }
        }
    };
    timeout(PATIENCE, waiting).await.expect("they are written")
}

/// The answer without the request's id and date.
fn shown(reply: &Reply) -> (u16, Vec<(String, String)>, String) {
    let id = &reply.headers["x-request-id"];
    let headers =
        reply.headers.iter().filter(|(name, _)| *name != "x-request-id" && *name != "date");
    let headers = headers.map(|(name, value)| (name.clone(), value.clone())).collect();
    (reply.status, headers, reply.text().replace(id, ""))
}

#[tokio::test]
async fn refused_attempts_are_counted_and_foreign_ones_look_like_unknown_ones() {
    let house = House::new().await;
    let mut attempts = 0;
    let caller = "agent1";
    for target in
        [house.id("agent3").get(), NOBODY, house.id("org1").get(), house.id("partner").get()]
    {
        let foreign = house.id("agent4").get();
        for operation in OPERATIONS.iter().filter(|one| !one.path.contains("targetAccountId")) {
            let name = operation.target_names[0];
            let path = crate::http::tests::table::filled(operation.path);
            let verb = operation.verb.as_str();
            let one = house.call(caller, verb, &format!("{path}?{name}={target}"), None).await;
            let other = house.call(caller, verb, &format!("{path}?{name}={foreign}"), None).await;
            assert_eq!(shown(&one), shown(&other), "{verb} {path} {target}");
            one.problem(403, "forbidden", "");
            attempts += 2;
        }
    }
    // One entry per key, operation and minute, so that none hides another.
    let mut entries = refused(&house, caller, attempts).await;
    for operation in OPERATIONS.iter().filter(|one| !one.path.contains("targetAccountId")) {
        let of = |entry: &Value| entry["object"] == operation.name();
        let entry = entries.swap_remove(entries.iter().position(of).expect("one"));
        assert_eq!(entry["count"], 4 * 2, "{entry}");
        assert_eq!(entry["accountId"], house.id(caller).get(), "of whoever tried");
        assert_eq!((&entry["before"], &entry["after"]), (&json!({}), &json!({})));
        assert_eq!(entry["by"]["accountId"], house.id(caller).get());
    }
    assert_eq!(entries, [] as [Value; 0]);
    for other in ["agent3", "agent4"] {
        assert_eq!(log(&house, other, "action=access.denied").await.len(), 0, "{other}");
    }
    // Requests within reach, and malformed ones, do not count.
    house.get(caller, "/email/inboundPolicy").await.success(200);
    house.get(caller, "/account?targetAccountId=x").await.problem(400, "invalid_request", "");
    house.send("GET", "/api/v2/account?token=gp_x", None).await.problem(401, "unauthorized", "");
    // Another parameter names an Agent: a foreign, an unknown, or a neighbouring one.
    let id = house.id("agent1").get();
    for agent in [house.id("agent4").get(), NOBODY, house.id("agent2").get()] {
        let path = format!("/email/intake?targetAccountId={id}&agent={agent}");
        let reply = house.get("org1", &path).await;
        reply.problem(403, "forbidden", "does not reach this account");
    }
    let entries = refused(&house, "org1", 4 - 1).await;
    let of_org = |entry: &&Value| entry["by"]["accountId"] == house.id("org1").get();
    let own: Vec<&Value> = entries.iter().filter(of_org).collect();
    assert!(own.iter().all(|entry| entry["object"] == "GET /email/intake"), "{own:?}");
}
