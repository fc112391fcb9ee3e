//! A member with `permittedAccountIds`, over every operation of the table: it sees and changes
//! objects of its Agents, and learns nothing of others (contract §4, threats E6).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::app::access::identity::Level;
use crate::app::access::need::{Effect, TargetType};
use crate::domain::account::AccountType;
use crate::domain::app::Use;
use crate::domain::id::{DeliveryId, DestinationId};
use crate::domain::member::Role;
use crate::domain::reason::Reason;
use crate::domain::verdict::Verdict;
use crate::http::operation::Operation;
use crate::http::request::body::BodyRule;
use crate::http::table::OPERATIONS;
use crate::http::tests::{House, NOBODY, Received, Reply};
use crate::http::verb::Verb;

const PICTURE: &str = "From: a\r\nContent-Type: image/png; name=a.png\r\n\r\nhello";

/// A house in which `few`, an administrator of org1, is restricted to agent1, and both Agents of
/// org1 have mail, records and webhooks.
struct Scene {
    house: House,
    few: i64,
    own: Goods,
    foreign: Goods,
}

/// Something of every kind that an Agent has.
struct Goods {
    mail: Received,
    webhook: DestinationId,
    /// A delivery that was given up.
    delivery: DeliveryId,
    /// An app that the Agent has installed and integrated.
    app: &'static str,
    /// Its live configuration, and a version of it.
    config: (String, i64),
    /// A template that may be applied to the Agent.
    template: String,
}

async fn scene() -> Scene {
    let mut house = House::new().await;
    let few = house.join("few", "org1", Role::Admin, &["agent1"]).await.id.get();
    for owner in ["agent1", "agent2", "org1"] {
        house.refuse(owner, Verdict::Refused(Reason::DkimMissing)).await;
        let url = format!("https://127.0.0.2/{owner}");
        let hook = json!({ "url": url, "label": owner, "type": "incoming" });
        house.call(owner, "POST", "/webhooks", Some(&hook)).await.success(201);
    }
    let own = goods(&house, "agent1", "reseller1").await;
    let foreign = goods(&house, "agent2", "reseller2").await;
    Scene { house, few, own, foreign }
}

async fn goods(house: &House, agent: &str, templates_of: &str) -> Goods {
    let mail = house.receive(agent, PICTURE, 0).await;
    house.give_up().await;
    let webhook = house.store.destinations(house.id(agent)).await.unwrap()[0].id;
    let delivery = house.made_for(webhook).await[0].id;
    let app = if agent == "agent1" { "crm/v1" } else { "calendar/v1" };
    house.post(agent, &format!("/apps/{app}"), json!({})).await.success(201);
    let data = json!({ "appData": { "key": agent } });
    house.put(agent, &format!("/integration/{app}"), data).await.success(200);
    let fields = json!({ "type": "chatAgent", "title": agent, "description": agent });
    let made = house.call(agent, "POST", "/agent", Some(&fields)).await.success(200);
    let config = made["campaignId"].as_str().unwrap().to_owned();
    house.call(agent, "POST", "/agent/publish", None).await.success(200);
    let path = format!("/agent/{config}/versions");
    let made = house.call(agent, "POST", &path, Some(&json!({ "title": "x" }))).await.success(201);
    let version = made["createdVersion"]["versionId"].as_i64().unwrap();
    let new = json!({ "name": "x", "config": { "title": "x" } });
    let made = house.call(templates_of, "POST", "/templates/createTemplate", Some(&new)).await;
    let template = made.success(201)["template"]["id"].as_str().unwrap().to_owned();
    let (path, enable) = (format!("/templates/{template}"), json!({ "enabled": true }));
    house.call(templates_of, "POST", &path, Some(&enable)).await.success(200);
    Goods { mail, webhook, delivery, app, config: (config, version), template }
}

impl Scene {
    /// Sends a request about objects of this Agent, valid for any caller with the right to it.
    async fn ask(&self, operation: &Operation, of: &Goods, target: Option<i64>) -> Reply {
        let id = match operation.path.split('/').nth(1) {
            Some("webhooks") => of.webhook.to_string(),
            Some("deliveries") => of.delivery.to_string(),
            _ => of.mail.intake.to_string(),
        };
        let account = target.unwrap_or_else(|| self.house.id("org1").get());
        let path = operation.path.replace("{targetAccountId}", &account.to_string());
        let path = path.replace("{uuid}", &of.mail.message.to_string());
        let path = path.replace("{messageUuid}", &of.mail.message.to_string());
        let path = path.replace("{roomId}", &of.mail.room.to_string());
        let path = path.replace("{filename}", "0-a.png").replace("{id}", &id);
        let path = path.replace("{slug}/{version}", of.app);
        // Installs an app that nobody has; names an unknown app instead of another Agent's.
        let app = match (operation.verb, of.app) {
            (Verb::Post, "crm/v1") => "webhook/v1",
            (Verb::Post, _) => "nothing/v1",
            (_, app) => app,
        };
        let path = path.replace("{appId}/{appVersion}", app);
        let path = path.replace("{type}", "postmark");
        let (config, version) = &of.config;
        let path = path.replace("{agentConfigId}", config);
        let path = path.replace("{versionId}", &version.to_string());
        let path = path.replace("{templateId}", &of.template);
        let mut query: Vec<String> =
            target.map(|id| format!("targetAccountId={id}")).into_iter().collect();
        if operation.path == "/member" && operation.verb == Verb::Get {
            query.push(format!("targetMemberId={}", self.few));
        }
        match operation.path {
            "/getAccountByExternalId" => query.push("externalAccountId=nobody".into()),
            "/messages/search" => query.push("q=hello".into()),
            "/searchAccounts" => query.push("accountType=account".into()),
            "/domain/check" => query.push("domain=nobody.example".into()),
            _ => {}
        }
        let path = if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) };
        let mut body = (operation.form.body != BodyRule::None).then(|| self.body(operation));
        if operation.path.ends_with("/config/patch") {
            let agent = self.house.id("agent1");
            let known = self.house.store.computer(agent).await.unwrap();
            let revision = known.map_or(1, |known| known.revision);
            body = Some(json!({ "revision": revision, "patch": {} }));
        }
        self.house.call("few", operation.verb.as_str(), &path, body.as_ref()).await
    }

    fn body(&self, operation: &Operation) -> Value {
        match (operation.verb, operation.path) {
            (_, "/templates/createTemplate") => json!({ "name": "x" }),
            (Verb::Post, "/templates/{templateId}") => json!({ "enabled": false }),
            (_, "/templates/{templateId}") => json!({}),
            (_, "/createAgentFromTemplate") => json!({ "templateId": self.own.template }),
            (_, "/agent") => json!({ "title": "new" }),
            (_, "/agent/publish" | "/agent/revert") => json!({}),
            (_, "/agent/{agentConfigId}/versions") => json!({ "title": "new" }),
            (_, "/agent/{agentConfigId}/versions/{versionId}") => {
                json!({ "snapshot": { "title": "new" } })
            }
            (_, "/agent/{agentConfigId}/versions/{versionId}/restore") => json!({}),
            (_, "/agent/{agentConfigId}/versions/{versionId}/title") => json!({ "title": "newer" }),
            (Verb::Put, "/email/inboundPolicy") => json!({ "mode": "open" }),
            (_, "/email/inboundPolicy/preview") => json!({ "mode": "open", "days": 1 }),
            (_, "/email/inboundWhitelist") => json!({ "email": "new@good.example" }),
            (Verb::Post, "/email/addresses") => json!({ "address": "new@partner.example" }),
            (Verb::Delete, "/email/addresses") => json!({ "address": "agent2@partner.example" }),
            (Verb::Post, "/webhooks") => {
                json!({ "url": "https://127.0.0.2/y", "label": "x", "type": "contact" })
            }
            (Verb::Post, "/webhookRelay/{type}") => json!({ "url": "https://127.0.0.2/relay" }),
            (_, "/webhooks/{id}/rotate" | "/webhooks/{id}/test" | "/deliveries/{id}/replay") => {
                json!({})
            }
            (_, "/webhooks/{id}/replay") => json!({ "since": 1 }),
            (Verb::Delete, "/webhooks") => json!({ "url": "https://127.0.0.2/agent2" }),
            (Verb::Post, "/tokens") => json!({ "type": "admin", "description": "x" }),
            (Verb::Delete, "/tokens") => json!({ "token": self.house.token("agent2") }),
            (Verb::Post, "/member") => json!({ "email": "new@good.example" }),
            (Verb::Delete, "/member") => json!({ "targetMemberId": self.few }),
            (_, "/member") => json!({ "targetMemberId": self.few, "permittedAccountIds": [] }),
            (_, "/agent/receiveMessage") => json!({
                "targetAgent": self.house.id("agent1").get(), "sourceAddress": "anna",
                "message": "Hello",
            }),
            (_, "/domain") => json!({ "domain": "new.example" }),
            (_, "/conversation/batch") => {
                let Received { room, message, .. } = self.own.mail;
                json!({ "items": [{ "roomId": room.to_string(), "uuid": message.to_string() }] })
            }
            (_, "/apps/{appId}/{appVersion}") => json!({ "settings": {} }),
            (_, "/integration/{slug}/{version}") => json!({ "appData": { "key": "new" } }),
            (_, "/features/assign") => json!({ "features": { "relays": true } }),
            (_, "/account") => json!({ "description": "x" }),
            (_, "/createReseller") => json!({ "resellerName": "x" }),
            (_, "/createOrganization" | "/updateOrganization") => json!({ "orgName": "x" }),
            (_, "/createAccount" | "/updateAccount") => json!({ "accountName": "x" }),
            (_, "/deleteOrganization") => {
                json!({ "targetOrganizationId": self.house.id("org1").get() })
            }
            (_, "/deleteAccount") => json!({ "targetAccountId": self.house.id("agent2").get() }),
            (_, "/logs/timeSeries") => {
                json!({ "metric": "accepted", "start": 1_794_900_000, "end": 1_795_100_000 })
            }
            (_, "/messages/{uuid}/outcome") => json!({ "agentOutcome": "x", "override": "y" }),
            (_, "/computer/sessions/reset") => {
                json!({ "sessionKey": self.own.mail.session.to_string() })
            }
            (Verb::Put, "/computer/accounts/{targetAccountId}") => json!({ "name": "x" }),
            (_, path) if path.starts_with("/computer/accounts/") => json!({}),
            (verb, path) => panic!("{verb:?} {path} has no body here: give it one"),
        }
    }

    /// The state that could be changed outside of agent1.
    async fn outside(&self) -> Vec<String> {
        let (house, mut state) = (&self.house, Vec::new());
        for name in ["partner", "reseller1", "org1", "agent2", "agent3"] {
            let id = house.id(name);
            let policy = house.tenancy.policy(id).await.ok();
            let senders =
                house.tenancy.allowed_senders(id, 100, None).await.ok().map(|page| page.senders);
            let addresses = house.tenancy.addresses(id).await.unwrap();
            let webhooks = house.store.destinations(id).await.unwrap();
            let relays = house.store.relays(id).await.unwrap();
            let members = house.store.members(id).await.unwrap();
            let computer = house.store.computer(id).await.unwrap();
            let keys = house.store.keys(id).await.unwrap();
            let configs = house.store.agent_configs(id).await.unwrap();
            let versions = house.store.agent_versions(id, None, 99, true).await.unwrap();
            let templates = house.store.templates([Some(id), None]).await.unwrap();
            let keys: Vec<_> = keys.iter().map(|key| (key.id, key.revoked_at)).collect();
            let mut apps = Vec::new();
            for of in Use::ALL {
                apps.extend(house.store.app_records(id, *of).await.unwrap());
            }
            state.push(format!(
                "{name} {policy:?} {senders:?} {addresses:?} {webhooks:?} {relays:?} {members:?} \
                 {keys:?} {apps:?} {computer:?} {configs:?} {versions:?} {templates:?}"
            ));
        }
        state
    }
}

/// Returns whether the operation needs a reseller's key or more, or a worker's, which is refused for
/// every target.
fn too_narrow(operation: &Operation, reply: &Reply) -> bool {
    if operation.need.worker {
        reply.problem(403, "forbidden", "needs the key of the Agent's provisioned worker");
        return true;
    }
    let narrow = operation.need.scope > Level::OrganizationAdmin;
    if narrow {
        reply.problem(403, "forbidden", "needs a key of");
    }
    narrow
}

/// Removes the request's id, so that equal refusals compare equal.
fn anonymous(reply: &Reply) -> String {
    let id = &reply.headers["x-request-id"];
    format!("{} {}", reply.status, reply.text().replace(id, "ID"))
}

#[tokio::test]
async fn other_agents_and_all_above_are_as_good_as_not_there() {
    let scene = scene().await;
    let before = scene.outside().await;
    let mut answers = BTreeSet::new();
    for operation in OPERATIONS {
        for name in ["agent2", "agent3", "org2", "reseller1", "partner"] {
            let target = Some(scene.house.id(name).get());
            let reply = scene.ask(operation, &scene.foreign, target).await;
            let what = format!("{:?} {} {name}", operation.verb, operation.path);
            if too_narrow(operation, &reply) {
                continue;
            }
            if operation.need.unrestricted {
                reply.problem(403, "forbidden", "restricted to some Agents");
                continue;
            }
            assert_eq!(reply.status, 403, "{what}: {}", reply.text());
            answers.insert(anonymous(&reply));
        }
    }
    assert_eq!(answers.len(), 1, "{answers:#?}");
    assert_eq!(scene.outside().await, before);
}

#[tokio::test]
async fn its_organization_shows_its_agents_only() {
    let scene = scene().await;
    let before = scene.outside().await;
    let org = scene.house.id("org1").get();
    for operation in OPERATIONS {
        let what = format!("{:?} {}", operation.verb, operation.path);
        for target in [None, Some(org)] {
            // Without a target a member acts on itself, if the operation takes a member.
            let itself = target.is_none() && operation.need.target == TargetType::Identity;
            if itself {
                continue;
            }
            let reply = scene.ask(operation, &scene.foreign, target).await;
            if too_narrow(operation, &reply) {
                continue;
            }
            let narrowed = operation.need.effect == Effect::Read && operation.need.narrows;
            if !narrowed {
                reply.problem(403, "forbidden", "restricted to some Agents");
            } else if operation.path == "/getAccountByExternalId" {
                reply.problem(404, "not_found", "");
            } else if operation.path.contains('{') {
                reply.problem(404, "not_found", "");
                assert_eq!(scene.ask(operation, &scene.own, target).await.status, 200, "{what}");
            } else {
                let shown = scene.ask(operation, &scene.own, target).await;
                assert_eq!(shown.status, 200, "{what}");
                let Received { message, intake, room, .. } = &scene.foreign.mail;
                for hidden in
                    [message.to_string(), intake.to_string(), room.to_string(), "agent2".to_owned()]
                {
                    assert!(!shown.text().contains(&hidden), "{what}: {hidden}");
                }
            }
        }
    }
    assert_eq!(scene.outside().await, before);
    let messages = scene.house.get("few", "/messages/recent").await.json();
    assert_eq!(messages.as_array().unwrap().len(), 1);
    assert_eq!(messages[0]["uuid"], scene.own.mail.message.to_string());
    // Neither the other Agent's records nor those without one.
    let records = scene.house.get("few", "/email/intake").await.success(200)["intake"].clone();
    assert_eq!(records.as_array().unwrap().len(), 2);
    let agent = scene.house.id("agent1").get();
    assert!(records.as_array().unwrap().iter().all(|record| record["agentId"] == agent));
}

#[tokio::test]
async fn its_agent_is_its_own() {
    let scene = scene().await;
    let before = scene.outside().await;
    let agent = Some(scene.house.id("agent1").get());
    for operation in OPERATIONS {
        let what = format!("{:?} {}", operation.verb, operation.path);
        let reply = scene.ask(operation, &scene.own, agent).await;
        if too_narrow(operation, &reply) {
            continue;
        }
        if operation.need.unrestricted {
            reply.problem(403, "forbidden", "restricted to some Agents");
            continue;
        }
        if !operation.need.target.takes(AccountType::Agent) {
            reply.problem(400, "invalid_request", "this operation needs");
            continue;
        }
        // Objects that these bodies name for removal are agent2's.
        let foreign = operation.verb == Verb::Delete && operation.path != "/email/inboundWhitelist"
            || ["/getAccountByExternalId", "/domain/check"].contains(&operation.path);
        let good = [200, 201, 202].contains(&reply.status);
        // The Agent has no computer until it is provisioned.
        let computer = operation.path.contains("{targetAccountId}");
        // The messages of its session were erased above.
        let foreign = foreign || computer || operation.path == "/computer/sessions/reset";
        // The Agent has no relay until one is set; relays of other Agents have the same names.
        let relay = operation.path.contains("{type}");
        let foreign = foreign || relay;
        assert!(good || foreign && reply.status == 404, "{what}: {}", reply.text());
        // Ids of another Agent's objects are unknown. (Integrations have names, not ids.)
        let names = operation.verb == Verb::Put && operation.path.starts_with("/integration");
        if operation.path.contains('{') && !names && !computer && !relay {
            let reply = scene.ask(operation, &scene.foreign, agent).await;
            reply.problem(404, "not_found", "");
        }
    }
    assert_eq!(scene.outside().await, before);
}

#[tokio::test]
async fn an_agent_that_a_filter_names_must_be_its_own() {
    let scene = scene().await;
    let ask = async |agent: &str| {
        scene.house.get("few", &format!("/email/intake?agent={}", scene.house.id(agent))).await
    };
    assert_eq!(ask("agent1").await.success(200)["intake"].as_array().unwrap().len(), 2);
    for agent in ["agent2", "agent3"] {
        ask(agent).await.problem(403, "forbidden", "does not reach this account");
    }
    assert_eq!(ask("org1").await.status, 403);
    // Cursors from lists of others lead to nothing more.
    let all = scene.house.get("org1", "/email/intake?limit=1").await.success(200);
    let next = all["next"].as_str().unwrap();
    let page = scene.house.get("few", &format!("/email/intake?after={next}")).await.success(200);
    let agent = scene.house.id("agent1").get();
    let records = page["intake"].as_array().unwrap();
    assert!(!records.is_empty() && records.iter().all(|record| record["agentId"] == agent));
}

/// Other members of its organization are answered like unknown ones.
#[tokio::test]
async fn other_members_are_not_told_from_nobody() {
    let mut scene = scene().await;
    let other = scene.house.join("other", "org1", Role::Member, &[]).await.id.get();
    let mut answers = BTreeSet::new();
    for target in [other, NOBODY] {
        for path in ["/account", "/tokens"] {
            let path = format!("{path}?targetAccountId={target}");
            answers.insert(anonymous(&scene.house.get("few", &path).await));
        }
        let body = json!({ "description": "x", "targetAccountId": target });
        let reply = scene.house.call("few", "POST", "/tokens", Some(&body)).await;
        reply.problem(403, "forbidden", "does not reach");
        answers.insert(anonymous(&reply));
    }
    assert_eq!(answers.len(), 1, "{answers:#?}");
}

/// It makes keys for itself and its Agents; these reach no further than itself.
#[tokio::test]
async fn its_keys_are_as_narrow_as_itself() {
    let scene = scene().await;
    let house = &scene.house;
    let create = async |target: Option<i64>| {
        let mut body = json!({ "description": "x" });
        if let Some(target) = target {
            body["targetAccountId"] = json!(target);
        }
        house.call("few", "POST", "/tokens", Some(&body)).await
    };
    let seen = async |token: &Value| {
        let token = token["token"]["token"].as_str().unwrap();
        let target = format!("/api/v2/messages/recent?token={token}");
        house.send("GET", &target, None).await.json().as_array().unwrap().len()
    };
    let (own, agent) = (create(None).await, create(Some(house.id("agent1").get())).await);
    for made in [own, agent] {
        assert_eq!(seen(&made.success(200)).await, 1);
    }
    for name in ["org1", "agent2"] {
        assert_eq!(create(Some(house.id(name).get())).await.status, 403, "{name}");
    }
    let other = house.get("org1", "/members").await.success(200)["members"][0]["id"].clone();
    assert_eq!(other, scene.few);
    // With two Agents it reaches both, and nothing else.
    let body = json!({ "targetMemberId": scene.few, "permittedAccountIds":
        [house.id("agent1").get(), house.id("agent2").get()] });
    house.call("org1", "PUT", "/member", Some(&body)).await.success(201);
    let both = house.get("few", "/messages/recent").await.json();
    assert_eq!(both.as_array().unwrap().len(), 2);
    house.get("few", "/webhooks").await.problem(403, "forbidden", "restricted to some Agents");
}
