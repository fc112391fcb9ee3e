//! A valid request for each operation, still without a target.

use serde_json::{Value, json};

use crate::http::tests::access::NOBODY;
use crate::http::tests::access::access_world::{Goods, PICTURE};
use crate::http::tests::access::asked::RELEASE;

/// The target in the path of an operation.
pub(super) const IN_PATH: &str = "{targetAccountId}";

#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) body: Option<Value>,
    /// The account in the path, where the path names the target.
    pub(super) account: i64,
}

impl Sample {
    fn of(path: &str, account: i64) -> Self {
        Self { path: path.to_owned(), query: Vec::new(), body: None, account }
    }

    fn with(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    pub(super) fn asking(mut self, name: &str, value: impl ToString) -> Self {
        self.query.push((name.to_owned(), value.to_string()));
        self
    }

    pub(super) fn holding(mut self, name: &str, value: Value) -> Self {
        self.body.get_or_insert_with(|| json!({}))[name] = value;
        self
    }

    /// Returns path and query with this key.
    pub(super) fn target(&self, token: Option<&str>) -> String {
        let token = token.map(|token| ("token".to_owned(), token.to_owned()));
        let pairs = self.query.iter().chain(&token);
        let query: Vec<_> = pairs.map(|(name, value)| format!("{name}={value}")).collect();
        let path = self.path.replace(IN_PATH, &self.account.to_string());
        format!("/api/v2{path}?{}", query.join("&"))
    }
}

/// A request of this operation about an object of `agent`, or about a new object that only this
/// `number` makes.
pub(super) fn sample(operation: &str, agent: &Goods, number: usize) -> Sample {
    let mail = agent.mail.as_ref().expect("an Agent has mail");
    let path = path(operation, agent);
    let sample = Sample::of(&path, mail.room.agent.get());
    let (new, url) = (format!("new{number}"), format!("https://hooks.example/new{number}"));
    match operation {
        "POST /agent/receiveMessage" => sample.with(json!({
            "targetAgent": NOBODY.to_string(), "sourceAddress": new, "message": "Hello",
        })),
        "PUT /email/inboundPolicy" => sample.with(json!({ "mode": "open" })),
        "POST /email/inboundPolicy/preview" => sample.with(json!({ "mode": "open", "days": 1 })),
        "POST /email/inboundWhitelist" | "DELETE /email/inboundWhitelist" => {
            sample.with(json!({ "email": format!("{new}@good.example") }))
        }
        "POST /email/addresses" | "DELETE /email/addresses" => {
            sample.with(json!({ "address": format!("{new}@shared.example") }))
        }
        // The answer repeats the named object, so it must belong to nobody.
        "POST /conversation/batch" => {
            sample.with(json!({ "items": [{ "roomId": "1:1", "uuid": uuid::Uuid::nil() }] }))
        }
        "POST /account" => sample.with(json!({ "description": new })),
        "POST /createReseller" => sample.with(json!({ "resellerName": new })),
        "POST /createOrganization" => sample.with(json!({ "orgName": new })),
        "POST /createAccount" => sample.with(json!({ "accountName": new })),
        "POST /updateOrganization" => sample.with(json!({ "orgName": new })),
        "POST /updateAccount" => sample.with(json!({ "accountName": new })),
        "DELETE /deleteOrganization" => sample.with(json!({ "targetOrganizationId": NOBODY })),
        "DELETE /deleteAccount" => sample.with(json!({ "targetAccountId": NOBODY })),
        "GET /messages/search" => sample.asking("q", "subject:hello"),
        "GET /searchAccounts" => sample.asking("accountType", "account"),
        "GET /getAccountByExternalId" => sample.asking("externalAccountId", new),
        "GET /member" => sample.asking("targetMemberId", NOBODY),
        "POST /member" => sample.with(json!({ "email": format!("{new}@people.example") })),
        "PUT /member" => sample.with(json!({ "targetMemberId": NOBODY, "role": "admin" })),
        "DELETE /member" => sample.with(json!({ "targetMemberId": NOBODY })),
        "POST /tokens" => sample.with(json!({ "type": "admin", "description": new })),
        "DELETE /tokens" => sample.with(json!({ "id": uuid::Uuid::nil() })),
        "POST /logs/timeSeries" => {
            let time = (1_794_900_000, 1_795_100_000);
            let asked = json!({ "metric": "accepted", "groupBy": "accountId" });
            sample.with(asked).holding("start", time.0.into()).holding("end", time.1.into())
        }
        "GET /audit" => sample.asking("limit", 200),
        "GET /logs" | "GET /conversations" => sample.asking("pageSize", 200),
        "POST /domain" | "DELETE /domain" => {
            sample.with(json!({ "domain": format!("{new}.example") }))
        }
        "GET /domain/check" => sample.asking("domain", format!("{new}.example")),
        "POST /webhooks" => sample.with(json!({ "url": url, "label": new, "type": "incoming" })),
        // Leaves no former secret, because their number is limited.
        "POST /webhooks/{id}/rotate" => sample.with(json!({ "endFormer": true })),
        "POST /webhooks/{id}/replay" => sample.with(json!({ "since": 1 })),
        "DELETE /webhooks" => sample.with(json!({ "url": url })),
        // Its description names the owner, for the case that it is restored.
        "POST /agent/{agentConfigId}/versions/{versionId}" => {
            let fields = json!({ "type": "chatAgent", "title": new, "description": agent.mark });
            sample.with(json!({ "snapshot": fields }))
        }
        _ => set_up(operation, sample, (&new, &url), &mail.session.to_string()),
    }
}

/// The path of an operation, filled with objects of `agent`.
fn path(operation: &str, agent: &Goods) -> String {
    let mail = agent.mail.as_ref().expect("an Agent has mail");
    let path = operation.split_once(' ').unwrap().1.replace("{uuid}", &mail.message.to_string());
    let path = path.replace("{messageUuid}", &mail.message.to_string());
    let path = path.replace("{roomId}", &mail.room.to_string());
    // No mail of this world comes in by this provider.
    let path = path.replace("{type}", "postmark");
    let path = path.replace("{filename}", &format!("0-{PICTURE}"));
    // Removes an app that every Agent has; installs one that none has.
    let app = match operation.split_once(' ').unwrap().0 {
        "DELETE" => "webhook/v1",
        "POST" => "calendar/v1",
        _ => "crm/v1",
    };
    let path = path.replace("{appId}/{appVersion}", app).replace("{slug}/{version}", "crm/v1");
    let (config, version) = agent.config.as_ref().expect("an Agent is configured");
    let path = path.replace("{agentConfigId}", config).replace("{versionId}", version);
    let path = path.replace("{templateId}", &uuid::Uuid::nil().to_string());
    let id = match path.split('/').nth(1) {
        Some("webhooks") => agent.webhook.to_string(),
        Some("contacts") => NOBODY.to_string(),
        Some("deliveries") => agent.delivery.expect("it received mail").to_string(),
        _ => mail.intake.to_string(),
    };
    path.replace("{id}", &id)
}

/// The samples of operations that set something up.
fn set_up(operation: &str, sample: Sample, (new, url): (&str, &str), session: &str) -> Sample {
    match operation {
        // Existing configurations are recognised by title and description, so these stay.
        "POST /agent" => sample.with(json!({ "welcomeMessage": new })),
        "POST /agent/{agentConfigId}/versions" => sample.with(json!({ "title": new })),
        "PUT /agent/{agentConfigId}/versions/{versionId}/title" => {
            sample.with(json!({ "title": new }))
        }
        "POST /templates/createTemplate" | "POST /templates/{templateId}" => {
            sample.with(json!({ "name": new }))
        }
        "POST /createAgentFromTemplate" => sample.with(json!({ "templateId": uuid::Uuid::nil() })),
        "POST /apps/{appId}/{appVersion}" => sample,
        "PUT /apps/{appId}/{appVersion}" => sample.with(json!({ "settings": { "pipeline": new } })),
        "PUT /integration/{slug}/{version}" => {
            sample.with(json!({ "appData": { "apiToken": new } }))
        }
        // All accounts have the feature already.
        "POST /features/assign" => sample.with(json!({ "features": { "templates": true } })),
        "POST /webhookRelay/{type}" => sample.with(json!({ "url": url })),
        "PUT /computer/accounts/{targetAccountId}" => sample.with(json!({ "name": new })),
        "POST /computer/accounts/{targetAccountId}/config/patch" => {
            sample.with(json!({ "revision": 1, "patch": { "instructions": new } }))
        }
        "POST /messages/{uuid}/outcome" => {
            sample.with(json!({ "agentOutcome": new, "override": new }))
        }
        // Every Agent has it.
        RELEASE => sample.with(json!({ "apps": ["crm/v1"] })),
        "POST /computer/sessions/reset" => sample.with(json!({ "sessionKey": session })),
        _ => sample,
    }
}
