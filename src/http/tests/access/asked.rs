//! One request, and the answer that the oracle expects.

use serde_json::json;

use crate::http::tests::Reply;
use crate::http::tests::access::access_world::{AccessWorld, mark, name};
use crate::http::tests::access::sample::{IN_PATH, Sample, sample};
use crate::http::tests::access::tree::{Expected, Key, Named, Reach, Rule};

/// Its body names an Agent beside the target.
const RECEIVE: &str = "POST /agent/receiveMessage";
/// Only the Agent's worker may.
pub(super) const RELEASE: &str = "POST /computer/accounts/{targetAccountId}/secrets/release";
/// Its body names a session of an Agent at or below the target.
const RESET: &str = "POST /computer/sessions/reset";

/// Removes the parts that differ between equal refusals: the request's id and its time.
pub(super) fn anonymous(reply: &Reply) -> String {
    let mut headers = reply.headers.clone();
    let id = headers.remove("x-request-id").unwrap();
    headers.remove("date");
    format!("{} {headers:?} {}", reply.status, reply.text().replace(&id, "ID"))
}

#[derive(Clone, Debug)]
pub(super) enum Place {
    Query(String),
    Number(String),
    Text(String),
}

/// All places where this operation may get its target.
pub(super) fn places(rule: &Rule, key: &Key) -> Vec<Place> {
    let query = rule.query.iter().cloned().map(Place::Query);
    // Half of the keys use each spelling: the same few lines read both for every operation.
    let text = key.token.ends_with(|c: char| c.is_ascii_uppercase());
    let spelled = |name: String| if text { Place::Text(name) } else { Place::Number(name) };
    query.chain(rule.body.iter().cloned().map(spelled)).collect()
}

pub(super) fn named(sample: Sample, place: &Place, id: Option<i64>) -> Sample {
    let sample = match id {
        Some(account) => Sample { account, ..sample },
        None => sample,
    };
    match (place, id) {
        (_, None) => sample,
        (Place::Query(name), Some(id)) => sample.asking(name, id),
        (Place::Number(name), Some(id)) => sample.holding(name, json!(id)),
        (Place::Text(name), Some(id)) => sample.holding(name, json!(id.to_string())),
    }
}

/// One request and what it must come to.
pub(super) struct Asked<'a> {
    pub(super) operation: &'a str,
    pub(super) rule: &'a Rule,
    pub(super) key: &'a Key,
    pub(super) named: Named,
    pub(super) place: &'a Place,
    pub(super) expected: Expected,
}

impl std::fmt::Display for Asked<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { operation, key, named, place, expected, .. } = self;
        let what = &key.what;
        write!(f, "{operation} by {what} ({:?}) on {named:?} in {place:?}: {expected:?}", key.owner)
    }
}

impl Asked<'_> {
    pub(super) fn check(&self, town: &AccessWorld, reply: &Reply) {
        let text = reply.text();
        let (status, code): (&[u16], _) = match self.expected {
            Expected::NoKey => (&[401], "unauthorized"),
            Expected::Forbidden => (&[403], "forbidden"),
            Expected::WrongKind => (&[400], "invalid_request"),
            // The path names the target; whether it has a computer depends on earlier requests.
            Expected::Allowed(_) if self.operation.contains(IN_PATH) => (&self.rule.done, ""),
            // The target's own things count, not those of accounts below it.
            Expected::Allowed(ref reach) if is_own(self.operation) => {
                match reach.target == town.about {
                    true => (&self.rule.done, ""),
                    false => (&[404], "not_found"),
                }
            }
            // A deletion succeeds once; resetting an ended session succeeds always.
            Expected::Allowed(ref reach)
                if self.operation.starts_with("DELETE /messages") || self.operation == RESET =>
            {
                match town.tree.shows(reach, town.about) {
                    true => (&self.rule.done, ""),
                    false => (&[404], "not_found"),
                }
            }
            // Each account has its own app of this name.
            Expected::Allowed(_) if is_of_apps(self.operation) => (&self.rule.done, ""),
            // No account assigns features to itself.
            Expected::Allowed(ref reach)
                if self.operation == "POST /features/assign"
                    && reach.target == town.tree.home(self.key.owner) =>
            {
                (&[403], "forbidden")
            }
            Expected::Allowed(_) if self.operation.starts_with("DELETE /contacts") => {
                (&[404], "not_found")
            }
            // Every account may have its own thing of this name.
            Expected::Allowed(_)
                if ["{type}", "{templateId}"].iter().any(|name| self.operation.contains(name)) =>
            {
                (&self.rule.done, "")
            }
            Expected::Allowed(ref reach) if self.operation.contains('{') => {
                match town.tree.shows(reach, town.about) {
                    true => (&[200], ""),
                    false => (&[404], "not_found"),
                }
            }
            // Below an organization are only Agents, which this operation does not delete.
            Expected::Allowed(ref reach)
                if self.operation == "DELETE /deleteOrganization"
                    && town.tree.nodes[reach.target].kind == 'O' =>
            {
                (&[400], "invalid_request")
            }
            // The body names an Agent below the target, if there is one.
            Expected::Allowed(ref reach) if self.operation == RECEIVE => {
                match town.addressee(reach).map(|agent| town.tree.is_awake(agent)) {
                    Some(true) => (&[200], ""),
                    Some(false) => (&[409], "conflict"),
                    None => (&[403], "forbidden"),
                }
            }
            Expected::Allowed(_) => (&self.rule.done, ""),
        };
        assert!(status.contains(&reply.status), "{self}: {} {text}", reply.status);
        if !code.is_empty() {
            assert_eq!(reply.json()["code"], code, "{self}: {text}");
        }
        let leaks = town.leaks(&text, &self.expected, self.key.owner);
        assert!(leaks.is_empty(), "{self}: {leaks:?} in {text}");
        let Expected::Allowed(reach) = &self.expected else { return };
        for node in 0..town.tree.nodes.len() {
            if let Some(due) = due(town, self.operation, reach, node) {
                assert!(text.contains(&due), "{self}: no {due} in {text}");
            }
        }
    }
}

/// Whether the operation is about one webhook, one delivery to it, or one configuration.
fn is_own(operation: &str) -> bool {
    let own = ["/webhooks/{id}", "/deliveries/{id}", "/agent/{agentConfigId}"];
    own.iter().any(|path| operation.contains(path))
}

/// Whether the operation is about an app, whose name is the same on every account.
fn is_of_apps(operation: &str) -> bool {
    operation.contains("/apps/{") || operation.contains("/integration/{")
}

/// Text that an answer must contain about this account, so that an empty answer is no proof.
fn due(town: &AccessWorld, operation: &str, reach: &Reach, node: usize) -> Option<String> {
    let tree = &town.tree;
    let kind = tree.nodes[node].kind;
    let shown = tree.shows(reach, node) && !tree.is_gone(node);
    let below = |wanted: char| (shown && kind == wanted).then(|| name(node));
    let own = (shown && node == reach.target && reach.person.is_none()).then(|| mark(node));
    match operation {
        "GET /messages/recent"
        | "GET /messages/search"
        | "GET /email/intake"
        | "GET /logs"
        | "GET /conversations"
        | "GET /contacts" => (shown && kind == 'A').then(|| mark(node)),
        "GET /agentEventRules/staging" | "GET /agentEventRules/default" => {
            own.filter(|_| kind == 'A')
        }
        "GET /webhooks"
        | "GET /email/inboundWhitelist"
        | "GET /email/addresses"
        | "GET /tokens"
        | "GET /integration/{slug}/{version}"
        | "GET /domains" => own,
        // The mark is a secret of the app.
        RELEASE => own,
        "GET /apps" | "GET /apps/{appId}/{appVersion}" => own.filter(|_| kind == 'A'),
        // A page holds only the last entries.
        "GET /audit" => own.filter(|_| kind == 'A'),
        "GET /account" => own.map(|_| name(node)),
        "GET /listResellers" => below('R'),
        "GET /listOrganizations" => below('O'),
        "GET /listAccounts" | "GET /searchAccounts" => below('A'),
        _ => None,
    }
}

impl AccessWorld {
    /// An Agent that a request of this reach may name.
    fn addressee(&self, reach: &Reach) -> Option<usize> {
        let nodes = 0..self.tree.nodes.len();
        let mut agents = nodes.filter(|node| self.tree.nodes[*node].kind == 'A');
        agents.find(|node| self.tree.shows(reach, *node) && !self.tree.is_gone(*node))
    }

    /// Provisions this Agent's computer, if an earlier request ended it, and makes the worker's key
    /// that of the new worker.
    pub(super) async fn employ_again(&mut self, node: usize) {
        let agent = self.house.store.account(self.account(node)).await.unwrap().unwrap();
        let (computer, _) = self.house.http.use_cases.computers.provision(&agent).await.unwrap();
        let job = computer.job.unwrap().id;
        sqlx::query("UPDATE keys SET worker_job = $1 WHERE account_id = $2 AND worker_job <> $1")
            .bind(job.as_bytes().as_slice())
            .bind(agent.id.get())
            .execute(&mut self.database)
            .await
            .unwrap();
    }

    /// Returns the answer; no earlier request had this `number`.
    pub(super) async fn ask(&mut self, asked: &Asked<'_>, number: usize) -> Reply {
        let id = self.tree.id(asked.named);
        let mut sample = sample(asked.operation, &self.goods[self.about], number);
        // A request without a target is about the caller's own account.
        sample.account = self.tree.nodes[self.tree.home(asked.key.owner)].id;
        let deletes = match asked.operation {
            "DELETE /deleteOrganization" => Some("targetOrganizationId"),
            "DELETE /deleteAccount" => Some("targetAccountId"),
            _ => None,
        };
        if let (Some(field), Expected::Allowed(reach)) = (deletes, &asked.expected) {
            let made = self.make_below(reach.target, asked.operation).await;
            sample = sample.holding(field, json!(made));
        }
        if let (RELEASE, Expected::Allowed(reach)) = (asked.operation, &asked.expected) {
            self.employ_again(reach.target).await;
        }
        if let (RECEIVE, Expected::Allowed(reach)) = (asked.operation, &asked.expected)
            && let Some(agent) = self.addressee(reach)
        {
            sample = sample.holding("targetAgent", json!(self.tree.nodes[agent].id));
        }
        let sample = named(sample, asked.place, id);
        let reply = self.send(asked.operation, &sample, &asked.key.token).await;
        if asked.operation == "DELETE /messages/{messageUuid}" && reply.status == 200 {
            // The next sample needs a message.
            self.write_again().await;
        }
        let of_version = "DELETE /agent/{agentConfigId}/versions/{versionId}";
        if asked.operation == of_version && reply.status == 200 {
            self.keep_version_again().await;
        }
        reply
    }
}
