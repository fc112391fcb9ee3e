//! Objects that a request names beside its target: a message, a record, a webhook, a key, a domain,
//! a member, an account to delete. One outside the target is answered like an unknown one, and
//! never used.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::http::tests::access::access_world::{AccessWorld, PICTURE, mark};
use crate::http::tests::access::asked::anonymous;
use crate::http::tests::access::matrix::{AGENT, tree};
use crate::http::tests::access::sample::{Sample, sample};
use crate::http::tests::access::tree::{Expected, Key, Named, Reach, rules};

/// Where a request names the object.
#[derive(Clone, Copy, Debug)]
enum Place {
    Path,
    Query(&'static str),
    Body(&'static str),
}

/// An object that an operation gets by name.
struct Thing {
    operation: &'static str,
    place: Place,
    /// The object of this kind that `node` has.
    of: fn(&AccessWorld, usize) -> Option<Value>,
    /// An object that no account has.
    nobody: fn() -> Value,
    refused: u16,
}

const fn thing(
    operation: &'static str,
    place: Place,
    of: fn(&AccessWorld, usize) -> Option<Value>,
    nobody: fn() -> Value,
    refused: u16,
) -> Thing {
    Thing { operation, place, of, nobody, refused }
}

fn no_uuid() -> Value {
    json!("0198c0de-0000-7000-8000-000000000000")
}

fn no_id() -> Value {
    json!(crate::http::tests::access::NOBODY)
}

fn no_name() -> Value {
    json!("nobody.example")
}

fn message(town: &AccessWorld, node: usize) -> Option<Value> {
    town.goods[node].mail.as_ref().map(|mail| json!(mail.message.to_string()))
}

fn record(town: &AccessWorld, node: usize) -> Option<Value> {
    town.goods[node].mail.as_ref().map(|mail| json!(mail.intake.to_string()))
}

fn room(town: &AccessWorld, node: usize) -> Option<Value> {
    town.goods[node].mail.as_ref().map(|mail| json!(mail.room.to_string()))
}

fn no_room() -> Value {
    json!(format!("{0}:{0}", crate::http::tests::access::NOBODY))
}

fn turn(town: &AccessWorld, node: usize) -> Option<Value> {
    town.goods[node].mail.as_ref().map(|mail| json!(format!("{}/{}", mail.room, mail.message)))
}

fn session(town: &AccessWorld, node: usize) -> Option<Value> {
    town.goods[node].mail.as_ref().map(|mail| json!(mail.session.to_string()))
}

fn no_session() -> Value {
    json!(format!("{}:{}", shown(&no_room()), shown(&no_uuid())))
}

fn no_turn() -> Value {
    json!(format!("{}/{}", shown(&no_room()), shown(&no_uuid())))
}

fn agent(town: &AccessWorld, node: usize) -> Option<Value> {
    (town.tree.nodes[node].kind == 'A').then(|| json!(town.tree.nodes[node].id))
}

fn parent(town: &AccessWorld, node: usize) -> Option<Value> {
    (town.tree.nodes[node].kind != 'A').then(|| json!(town.tree.nodes[node].id))
}

fn contact(town: &AccessWorld, node: usize) -> Option<Value> {
    town.tree.nodes[node].contact.map(|id| json!(id))
}

/// Any member of the account.
fn member(town: &AccessWorld, node: usize) -> Option<Value> {
    town.tree.people.iter().find(|person| person.at == node).map(|person| json!(person.id))
}

fn domain(town: &AccessWorld, node: usize) -> Option<Value> {
    town.goods[node].domain.as_ref().map(|domain| json!(domain))
}

fn address(town: &AccessWorld, node: usize) -> Option<Value> {
    town.goods[node].mail.as_ref().map(|_| json!(format!("{}@shared.example", mark(node))))
}

const THINGS: &[Thing] = &[
    thing("GET /agent/{agentConfigId}", Place::Path, config, no_config, 404),
    thing("GET /agent/{agentConfigId}/versions", Place::Path, config, no_config, 404),
    thing("POST /agent/{agentConfigId}/versions", Place::Path, config, no_config, 404),
    thing("POST /agent/{agentConfigId}/versions/{versionId}", Place::Path, config, no_config, 404),
    thing(
        "POST /agent/{agentConfigId}/versions/{versionId}/restore",
        Place::Path,
        config,
        no_config,
        404,
    ),
    thing(
        "PUT /agent/{agentConfigId}/versions/{versionId}/title",
        Place::Path,
        config,
        no_config,
        404,
    ),
    thing(
        "DELETE /agent/{agentConfigId}/versions/{versionId}",
        Place::Path,
        config,
        no_config,
        404,
    ),
    thing("GET /message/{messageUuid}", Place::Path, message, no_uuid, 404),
    thing("GET /messages/{uuid}/raw", Place::Path, message, no_uuid, 404),
    thing("GET /media/{uuid}/{filename}", Place::Path, message, no_uuid, 404),
    thing("POST /messages/{uuid}/outcome", Place::Path, message, no_uuid, 404),
    thing("GET /messages/{roomId}", Place::Path, room, no_room, 404),
    thing("GET /conversation/{roomId}/{uuid}", Place::Path, turn, no_turn, 404),
    thing("GET /email/intake/{id}", Place::Path, record, no_uuid, 404),
    thing("GET /email/intake", Place::Query("agentId"), agent, no_id, 403),
    thing("GET /email/intake", Place::Query("agent"), agent, no_id, 403),
    thing("GET /email/intake", Place::Query("agent"), contact, no_id, 403),
    thing("DELETE /messages/{messageUuid}", Place::Path, message, no_uuid, 404),
    thing("DELETE /contacts/{id}", Place::Path, contact, no_id, 404),
    thing("POST /agent/receiveMessage", Place::Body("targetAgent"), agent, no_id, 403),
    thing("POST /agent/receiveMessage", Place::Body("targetAgent"), contact, no_id, 403),
    thing("GET /computer/sessions", Place::Query("before"), session, no_session, 400),
    thing("POST /computer/sessions/reset", Place::Body("sessionKey"), session, no_session, 404),
    thing("POST /webhooks", Place::Body("id"), webhook, no_uuid, 404),
    thing("POST /webhooks/{id}/rotate", Place::Path, webhook, no_uuid, 404),
    thing("POST /webhooks/{id}/test", Place::Path, webhook, no_uuid, 404),
    thing("POST /webhooks/{id}/replay", Place::Path, webhook, no_uuid, 404),
    thing("GET /webhooks/{id}/deliveries", Place::Path, webhook, no_uuid, 404),
    thing("GET /deliveries/{id}", Place::Path, delivery, no_uuid, 404),
    thing("POST /deliveries/{id}/replay", Place::Path, delivery, no_uuid, 404),
    thing("DELETE /webhooks", Place::Query("id"), webhook, no_uuid, 404),
    thing("DELETE /webhooks", Place::Body("id"), webhook, no_uuid, 404),
    thing("DELETE /webhooks", Place::Body("url"), hooked, no_url, 404),
    thing("DELETE /email/addresses", Place::Query("address"), address, no_address, 404),
    thing("DELETE /email/addresses", Place::Body("address"), address, no_address, 404),
    thing("DELETE /tokens", Place::Query("id"), key, no_uuid, 404),
    thing("DELETE /tokens", Place::Body("id"), key, no_uuid, 404),
    thing("DELETE /tokens", Place::Body("token"), token, no_token, 404),
    thing("DELETE /domain", Place::Query("domain"), domain, no_name, 404),
    thing("DELETE /domain", Place::Body("domain"), domain, no_name, 404),
    thing("GET /domain/check", Place::Query("domain"), domain, no_name, 404),
    thing("GET /getAccountByExternalId", Place::Query("externalAccountId"), called, no_name, 404),
    thing("GET /member", Place::Query("targetMemberId"), member, no_id, 404),
    thing("PUT /member", Place::Body("targetMemberId"), member, no_id, 404),
    thing("DELETE /member", Place::Query("targetMemberId"), member, no_id, 404),
    thing("DELETE /member", Place::Body("targetMemberId"), member, no_id, 404),
    thing("POST /member", Place::Body("permittedAccountIds"), list_of_agent, no_list, 400),
    thing("DELETE /deleteAccount", Place::Body("targetAccountId"), agent, no_id, 403),
    thing("DELETE /deleteAccount", Place::Body("targetAccountId"), contact, no_id, 403),
    thing("DELETE /deleteOrganization", Place::Body("targetOrganizationId"), parent, no_id, 403),
];

fn config(town: &AccessWorld, node: usize) -> Option<Value> {
    town.goods[node].config.as_ref().map(|(config, _)| json!(config))
}

fn no_config() -> Value {
    json!(format!("camp{:032x}", 1))
}

fn webhook(town: &AccessWorld, node: usize) -> Option<Value> {
    Some(json!(town.goods[node].webhook))
}

fn delivery(town: &AccessWorld, node: usize) -> Option<Value> {
    town.goods[node].delivery.map(|id| json!(id))
}

fn hooked(_: &AccessWorld, node: usize) -> Option<Value> {
    Some(json!(format!("https://hooks.example/{}", mark(node))))
}

fn no_url() -> Value {
    json!("https://hooks.example/nobody")
}

fn no_address() -> Value {
    json!("nobody@shared.example")
}

fn key(town: &AccessWorld, node: usize) -> Option<Value> {
    Some(json!(town.goods[node].key))
}

fn token(town: &AccessWorld, node: usize) -> Option<Value> {
    Some(json!(town.keys[node].token))
}

fn no_token() -> Value {
    json!(format!("gp_{}", "A".repeat(43)))
}

fn called(_: &AccessWorld, node: usize) -> Option<Value> {
    Some(json!(mark(node)))
}

fn list_of_agent(town: &AccessWorld, node: usize) -> Option<Value> {
    agent(town, node).map(|id| json!([id]))
}

fn no_list() -> Value {
    json!([crate::http::tests::access::NOBODY])
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => shown(&list[0]),
        value => value.to_string(),
    }
}

impl Thing {
    fn request(&self, town: &AccessWorld, value: &Value, number: usize) -> Sample {
        let mut request = sample(self.operation, &town.goods[town.about], number);
        match self.place {
            Place::Path => {
                let path = self.operation.split_once(' ').unwrap().1;
                let path = path.replace("{filename}", &format!("0-{PICTURE}"));
                let path = path.replace("{roomId}/{uuid}", &shown(value));
                let path = path.replace("{roomId}", &shown(value));
                // The version belongs to the named configuration.
                let version = &town.goods[town.about].config.as_ref().unwrap().1;
                let path = path.replace("{agentConfigId}", &shown(value));
                let path = path.replace("{versionId}", version);
                let path = path.replace("{messageUuid}", &shown(value));
                request.path = path.replace("{uuid}", &shown(value)).replace("{id}", &shown(value));
            }
            Place::Query(name) => {
                request.query.retain(|(known, _)| known != name);
                // Named once, only in the query.
                request.body = None;
                request = request.asking(name, shown(value));
            }
            Place::Body(name) => {
                let about_it = self.operation.starts_with("DELETE ");
                request.body = request.body.filter(|_| !about_it);
                request = request.holding(name, value.clone());
            }
        }
        request
    }

    /// The answer, without the name of the requested object.
    async fn answer(
        &self,
        town: &mut AccessWorld,
        (key, target): (&Key, Named),
        value: &Value,
    ) -> (u16, String) {
        let mut request = self.request(town, value, 0);
        if let Some(id) = town.tree.id(target) {
            // The body uses the target's name for the object, so the query names the target.
            request = request.asking(self.target(), id);
        }
        let reply = town.send(self.operation, &request, &key.token).await;
        let mut headers = reply.clone();
        headers.headers.remove("content-length");
        (reply.status, anonymous(&headers).replace(&shown(value), "IT"))
    }

    fn target(&self) -> &'static str {
        match self.operation {
            "DELETE /deleteAccount" => "targetOrganizationId",
            "DELETE /deleteOrganization" => "targetResellerId",
            _ => "targetAccountId",
        }
    }
}

/// Accounts whose objects are certainly out of the request's reach. For webhooks these include the
/// accounts below the target.
fn elsewhere(town: &AccessWorld, operation: &str, reach: &Reach) -> Vec<usize> {
    let own = operation.contains("/webhooks") || operation.contains("/deliveries");
    let within = |node: usize| match own {
        true => node == reach.target,
        false => town.tree.shows(reach, node),
    };
    (0..town.tree.nodes.len()).filter(|node| !within(*node)).collect()
}

/// The asking keys: of each level, an administrator's, and that of a restricted member.
const ASKING: &[&str] = &["0", "1", "3", "6", "pm002mp", "pm004mp"];

/// Their targets: one of each kind, and another.
const TARGETS: [usize; 7] = [0, 1, 3, 4, 6, 7, 8];

#[tokio::test]
async fn what_is_elsewhere_is_answered_as_if_there_were_nothing() {
    let mut town = AccessWorld::of(tree()).await;
    let (rules, _) = rules();
    let before = town.rows().await;
    let keys: Vec<Key> = town.keys.clone();
    let keys: Vec<Key> =
        keys.into_iter().filter(|key| ASKING.contains(&key.what.as_str())).collect();
    let mut asked = BTreeSet::new();
    for thing in THINGS {
        let rule = &rules[thing.operation];
        for key in &keys {
            for target in TARGETS.map(Named::Node).into_iter().chain([Named::Nothing]) {
                let Expected::Allowed(reach) = town.tree.expected(rule, key, target) else {
                    continue;
                };
                let nothing = thing.answer(&mut town, (key, target), &(thing.nobody)()).await;
                let what = format!("{} {:?} by {}", thing.operation, thing.place, key.what);
                assert_eq!(nothing.0, thing.refused, "{what} on {target:?}: {}", nothing.1);
                for node in elsewhere(&town, thing.operation, &reach) {
                    // Members of an organization are shown with its Agents.
                    let home = town.tree.nodes[reach.target].up == Some(node);
                    if home && thing.operation.ends_with("/member") {
                        continue;
                    }
                    let Some(value) = (thing.of)(&town, node) else { continue };
                    let answer = thing.answer(&mut town, (key, target), &value).await;
                    assert_eq!(answer, nothing, "{what} on {target:?}, of {node}");
                    asked.insert((thing.operation, format!("{:?}", thing.place), node));
                }
            }
        }
        let after = town.rows().await;
        let changed: Vec<_> = before.symmetric_difference(&after).collect();
        assert!(changed.is_empty(), "{} changed {changed:#?}", thing.operation);
    }
    let places: BTreeSet<_> =
        asked.iter().map(|(operation, place, _)| (operation, place)).collect();
    assert!(places.len() >= THINGS.len() - 3, "{places:#?}");
}

#[tokio::test]
async fn a_member_who_may_more_is_not_changed_through_one_agent() {
    let mut town = AccessWorld::of(tree()).await;
    let before = town.rows().await;
    let token = town.keys[0].token.clone();
    // Tries to change a member of the whole organization, and one of this Agent alone.
    let (all, one) = (town.tree.people[2].id, town.tree.people[4].id);
    let other = town.tree.nodes[7].id;
    for (operation, id, field, value) in [
        ("PUT /member", all, "role", json!("member")),
        ("PUT /member", all, "permittedAccountIds", json!([other])),
        ("PUT /member", one, "permittedAccountIds", json!([])),
        ("PUT /member", one, "permittedAccountIds", json!([other])),
        ("DELETE /member", all, "targetMemberId", json!(all)),
    ] {
        let request = sample(operation, &town.goods[AGENT], 0).holding("targetMemberId", json!(id));
        let request =
            request.holding(field, value).asking("targetAccountId", town.tree.nodes[AGENT].id);
        let reply = town.send(operation, &request, &token).await;
        reply.problem(
            403,
            "forbidden",
            &format!("set targetAccountId to {}", town.tree.nodes[3].id),
        );
    }
    assert_eq!(town.rows().await, before);
    let remove =
        sample("DELETE /member", &town.goods[AGENT], 0).holding("targetMemberId", json!(one));
    let remove = remove.asking("targetAccountId", town.tree.nodes[AGENT].id);
    town.send("DELETE /member", &remove, &token).await.success(201);
}
