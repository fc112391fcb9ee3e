//! Every operation of the table × every key × every target × every place that names the target,
//! against an oracle that knows the tree only from `TREE`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{House, NOBODY, Received, Reply, TREE};
use crate::app::access::identity::Level;
use crate::app::access::need::Effect;
use crate::domain::account::AccountType;
use crate::domain::key::KeyOwner;
use crate::http::body::BodyRule;
use crate::http::router::{OPERATIONS, Operation, Verb};

/// Its one part has the name that the paths here ask for.
const PICTURE: &str = "From: a\r\nContent-Type: image/png; name=a.png\r\n\r\nhello";

/// Where a request names its target.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Query,
    BodyNumber,
    BodyText,
}

/// The oracle: `target` is `caller` or lies below it.
fn reaches(caller: &str, target: &str) -> bool {
    let parent = |name: &str| TREE.iter().find(|(own, _, _)| *own == name).map(|(_, up, _)| *up);
    let mut at = Some(target);
    while let Some(name) = at.filter(|name| !name.is_empty()) {
        if name == caller {
            return true;
        }
        at = parent(name);
    }
    false
}

fn kind(name: &str) -> AccountType {
    TREE.iter().find(|(own, _, _)| *own == name).unwrap().2
}

/// Whatever the target is, no key of an Agent does what needs an organization's.
fn too_narrow(operation: &Operation, caller: &str) -> bool {
    kind(caller) == AccountType::Agent && operation.need.scope > Level::Agent
}

fn places(operation: &Operation) -> &'static [Place] {
    match operation.body {
        BodyRule::None => &[Place::Query],
        _ => &[Place::Query, Place::BodyNumber, Place::BodyText],
    }
}

/// A body that the operation takes.
fn sample(operation: &Operation) -> Option<Value> {
    let body = match (operation.verb, operation.path) {
        (Verb::Put, "/email/inboundPolicy") => json!({ "mode": "open" }),
        (_, "/email/inboundPolicy/preview") => json!({ "mode": "open", "days": 1 }),
        (_, "/email/inboundWhitelist") => json!({ "email": "new@good.example" }),
        (_, "/email/addresses") => json!({ "address": "new@partner.example" }),
        (_, "/domain") => json!({ "domain": "new.example" }),
        (Verb::Post, "/webhooks") => {
            json!({ "url": "https://hooks.example/x", "label": "x", "type": "incoming" })
        }
        (Verb::Post, "/tokens") => json!({ "type": "admin", "description": "x" }),
        (Verb::Delete, "/tokens") => json!({ "id": uuid::Uuid::nil().to_string() }),
        (Verb::Post, "/member") => json!({ "email": "new@good.example" }),
        (_, "/member") => json!({ "targetMemberId": NOBODY }),
        (Verb::Delete, "/webhooks") => json!({ "url": "https://hooks.example/x" }),
        _ => return None,
    };
    Some(body)
}

fn path(operation: &Operation, of_agent1: &Received) -> String {
    let uuid = of_agent1.message.to_string();
    let path = operation.path.replace("{uuid}", &uuid).replace("{filename}", "0-a.png");
    let path = path.replace("{id}", &of_agent1.intake.to_string());
    let named = operation.verb == Verb::Get && operation.path == "/member";
    if named { format!("{path}?targetMemberId={NOBODY}") } else { path }
}

impl House {
    async fn ask(
        &self,
        operation: &Operation,
        path: &str,
        caller: &str,
        target: Option<i64>,
        place: Place,
    ) -> Reply {
        let mut path = path.to_owned();
        let mut body = (operation.body != BodyRule::None).then(|| sample(operation)).flatten();
        assert!(body.is_some() || operation.need.effect == Effect::Read, "{}", operation.path);
        match (target, place, &mut body) {
            (None, _, _) => {}
            (Some(id), Place::BodyNumber, Some(body)) => body["targetAccountId"] = json!(id),
            (Some(id), Place::BodyText, Some(body)) => {
                body["targetAccountId"] = json!(id.to_string());
            }
            (Some(id), _, _) => {
                let mark = if path.contains('?') { '&' } else { '?' };
                path.push_str(&format!("{mark}targetAccountId={id}"));
            }
        }
        self.call(caller, operation.verb.as_str(), &path, body.as_ref()).await
    }

    /// Everything that an operation of the table can change.
    async fn state(&self) -> Vec<String> {
        let mut state = Vec::new();
        for (name, resident) in &self.residents {
            let id = resident.account.id;
            let policy = self.tenancy.policy(id).await.ok();
            let senders = match policy {
                Some(_) => Some(self.tenancy.allowed_senders(id, 100, None).await.unwrap()),
                None => None,
            };
            let addresses = self.tenancy.addresses(id).await.unwrap();
            let webhooks = self.store.destinations(id).await.unwrap();
            let owner = KeyOwner::Account(id);
            let keys = self.tenancy.keys_in_force(owner).await.unwrap().len();
            let members = self.store.members(id).await.unwrap();
            let domains = self.tenancy.domains(Some(id)).await.unwrap();
            state.push(format!(
                "{name} {policy:?} {senders:?} {addresses:?} {webhooks:?} {keys} {members:?} {domains:?}"
            ));
        }
        state
    }
}

/// What may differ between two refusals: the request's own id and the second it was made in.
fn anonymous(reply: &Reply) -> String {
    let mut headers = reply.headers.clone();
    let id = headers.remove("x-request-id").unwrap();
    headers.remove("date");
    format!("{} {headers:?} {}", reply.status, reply.text().replace(&id, "ID"))
}

#[tokio::test]
async fn what_is_out_of_reach_is_refused_alike_and_changes_nothing() {
    let house = House::new().await;
    let received = house.receive("agent1", PICTURE, 0).await;
    let before = house.state().await;
    let (mut answers, mut asked) = (BTreeSet::new(), 0);
    for operation in OPERATIONS {
        let path = path(operation, &received);
        for (caller, _, _) in TREE {
            let foreign = TREE.iter().filter(|(target, _, _)| !reaches(caller, target));
            let foreign = foreign.map(|(target, _, _)| house.id(target).get());
            for target in foreign.chain([NOBODY]) {
                for place in places(operation) {
                    let reply = house.ask(operation, &path, caller, Some(target), *place).await;
                    if too_narrow(operation, caller) {
                        reply.problem(403, "forbidden", "needs a key of");
                        continue;
                    }
                    reply.problem(403, "forbidden", "the key does not reach this account");
                    answers.insert(anonymous(&reply));
                    asked += 1;
                }
            }
        }
    }
    assert_eq!(answers.len(), 1, "{answers:#?}");
    assert!(asked > OPERATIONS.len() * TREE.len(), "{asked}");
    assert_eq!(house.state().await, before);
}

#[tokio::test]
async fn what_is_within_reach_is_answered_by_the_targets_kind_and_scope() {
    let house = House::new().await;
    let received = house.receive("agent1", PICTURE, 0).await;
    for operation in OPERATIONS {
        let path = path(operation, &received);
        for (caller, _, _) in TREE {
            let own = [(caller, None)].into_iter();
            let named = TREE.iter().filter(|(target, _, _)| reaches(caller, target));
            let named = named.map(|(target, _, _)| (*target, Some(house.id(target).get())));
            for (target, id) in own.chain(named) {
                for place in places(operation) {
                    let reply = house.ask(operation, &path, caller, id, *place).await;
                    if too_narrow(operation, caller) {
                        reply.problem(403, "forbidden", "needs a key of");
                        continue;
                    }
                    check(operation, target, &reply, &format!("{caller} {target} {place:?}"));
                }
            }
        }
    }
}

fn check(operation: &Operation, target: &str, reply: &Reply, what: &str) {
    let what = format!("{:?} {} {what}: {}", operation.verb, operation.path, reply.text());
    if !operation.need.target.takes(kind(target)) {
        assert_eq!(reply.status, 400, "{what}");
        assert!(reply.text().contains("this operation needs"), "{what}");
        return;
    }
    let expected: &[u16] = match operation.need.effect {
        // What is named in the path belongs to agent1.
        Effect::Read if operation.path == "/member" => &[404],
        Effect::Read if operation.path.contains('{') && !reaches(target, "agent1") => &[404],
        Effect::Read => &[200],
        // Whether it is there already depends on what was asked before.
        Effect::Write => &[200, 201, 404, 409],
    };
    assert!(expected.contains(&reply.status), "{what}");
    if operation.path == "/account" {
        assert_eq!(reply.json()["accountType"], kind(target).as_str(), "{what}");
        assert_eq!(reply.json()["name"], target, "{what}");
    }
    if operation.path == "/messages/recent" {
        let count = usize::from(reaches(target, "agent1"));
        assert_eq!(reply.json().as_array().unwrap().len(), count, "{what}");
    }
}

#[tokio::test]
async fn nothing_is_done_without_a_key_in_force() {
    let house = House::new().await;
    let received = house.receive("agent1", PICTURE, 0).await;
    let revoked = house.tenancy.create_key(house.id("agent1"), "old").await.unwrap();
    house.tenancy.revoke_key(revoked.key.id).await.unwrap();
    let before = house.state().await;
    let mut answers = BTreeSet::new();
    for operation in OPERATIONS {
        let path = format!("/api/v2{}", path(operation, &received));
        let body = sample(operation).map(|body| body.to_string());
        let mark = if path.contains('?') { '&' } else { '?' };
        for query in ["", "token=", &format!("token={}", revoked.token)] {
            let target = format!("{path}{mark}{query}");
            let body = body.as_deref().map(|body| ("application/json", body));
            let reply = house.send(operation.verb.as_str(), &target, body).await;
            reply.problem(401, "unauthorized", "query parameter token");
            answers.insert(anonymous(&reply));
        }
    }
    assert_eq!(answers.len(), 1, "{answers:#?}");
    assert_eq!(house.state().await, before);
}

#[tokio::test]
async fn a_key_sleeps_while_its_account_or_one_above_is_inactive() {
    let house = House::new().await;
    for switched in ["agent1", "org1", "reseller1", "partner"] {
        house.tenancy.set_active(house.id(switched), false).await.unwrap();
        for (caller, _, _) in TREE {
            let expected = if reaches(switched, caller) { 401 } else { 200 };
            let reply = house.get(caller, "/account").await;
            assert_eq!(reply.status, expected, "{switched} off, {caller} asks");
        }
        house.tenancy.set_active(house.id(switched), true).await.unwrap();
        assert_eq!(house.get("agent1", "/account").await.status, 200);
    }
}

/// Threats E13: a link or an image in a mail can make a reader send a GET.
#[test]
fn no_get_changes_anything_and_no_line_is_there_twice() {
    let mut lines = BTreeSet::new();
    for operation in OPERATIONS {
        let asks = operation.verb == Verb::Get || operation.path.ends_with("/preview");
        assert_eq!(asks, operation.need.effect == Effect::Read, "{}", operation.path);
        assert!(lines.insert((operation.verb, operation.path)), "{}", operation.path);
    }
}
