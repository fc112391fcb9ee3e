//! Audit entries of computers, configurations, templates, apps and relays.

use serde_json::{Value, json};

use crate::http::tests::audit::{Changes, HOOK, log};

impl Changes {
    pub(super) async fn computer(&mut self, id: i64) {
        let base = "/computer/accounts/{targetAccountId}";
        let new = json!({ "name": "x", "config": { "secrets": { "key": "a-secret" } } });
        let made = self.make(&format!("POST {base}"), id, new.clone(), &["computer.created"]).await;
        self.make(&format!("POST {base}"), id, new, &[]).await;
        let change = json!({ "name": "y" });
        self.make_once(&format!("PUT {base}"), id, change, &["computer.updated"]).await;
        let revision = &made["account"]["revision"];
        let patch =
            json!({ "revision": revision, "patch": { "secrets": { "other": "a-secret" } } });
        self.make_once(&format!("POST {base}/config/patch"), id, patch, &["computer.updated"])
            .await;
        let provisioned = &["computer.provisioned"];
        self.make_once(&format!("POST {base}/provision"), id, json!({}), provisioned).await;
        self.release(&format!("{base}/secrets/release")).await;
        let wipe = json!({ "wipeState": true });
        let deprovisioned = &["computer.deprovisioned"];
        self.make_once(&format!("POST {base}/deprovision"), id, wipe, deprovisioned).await;
        self.make_once(&format!("DELETE {base}"), id, Value::Null, &["computer.removed"]).await;
        let mail = self.house.receive("agent1", "From: a", 0).await;
        let key = json!({ "sessionKey": mail.session.to_string() });
        let reset = "POST /computer/sessions/reset";
        self.make_once(reset, id, key, &["session.reset"]).await;
    }

    /// Only the Agent's worker may, so another key makes this change.
    async fn release(&mut self, path: &str) {
        self.house.hire("worker", "agent1").await;
        self.entries = log(&self.house, "partner", "").await.len() + 1;
        self.made.insert(format!("POST {path}"));
        let path = path.replace("{targetAccountId}", &self.house.id("agent1").to_string());
        let reply = self.house.post("worker", &path, json!({ "secrets": ["key"] })).await;
        assert_eq!(reply.success(200)["secrets"], json!({ "key": "a-secret" }));
        let entries = log(&self.house, "partner", "").await;
        assert_eq!(
            (entries.len(), &entries[0]["action"]),
            (self.entries, &json!("secrets.released"))
        );
    }

    /// Changes to configurations are recorded by field name, without values.
    pub(super) async fn configuration(&mut self) {
        let id = self.house.id("agent1").get();
        let fields = json!({
            "type": "chatAgent", "title": "A", "description": "x", "agentInstructions": "a-secret",
        });
        let staged = &["agent.staged"];
        let made = self.make("POST /agent", id, fields.clone(), staged).await;
        self.make("POST /agent", id, fields.clone(), &[]).await;
        self.config = made["campaignId"].as_str().unwrap().to_owned();
        self.make_once("POST /agent/publish", id, json!({}), &["agent.published"]).await;
        self.make_once("POST /agent", id, json!({ "title": "B" }), staged).await;
        self.make_once("POST /agent/revert", id, json!({}), &["agent.reverted"]).await;
        let versions = "POST /agent/{agentConfigId}/versions";
        let made = self.make(versions, id, json!({ "title": "v" }), &["version.created"]).await;
        self.id = made["createdVersion"]["versionId"].to_string();
        let snapshot =
            json!({ "snapshot": { "type": "chatAgent", "title": "C", "description": "" } });
        let one = format!("{versions}/{{versionId}}");
        self.make_once(&one, id, snapshot, &["version.replaced"]).await;
        let (restore, live) = (format!("{one}/restore"), json!({ "target": "default" }));
        self.make_once(&restore, id, live, &["version.restored"]).await;
        let (rename, title) = (one.replace("POST", "PUT") + "/title", json!({ "title": "w" }));
        self.make_once(&rename, id, title, &["version.renamed"]).await;
        let remove = one.replace("POST", "DELETE");
        self.make_once(&remove, id, Value::Null, &["version.deleted"]).await;
        let entries = log(&self.house, "partner", "action=agent.staged").await;
        let named = json!({ "changed": ["agentInstructions", "description", "title", "type"] });
        assert_eq!(entries[1]["after"], named, "{entries:?}");
    }

    pub(super) async fn apps(&mut self) {
        let (id, app) = (self.house.id("agent1").get(), "/apps/{appId}/{appVersion}");
        let settings = json!({ "settings": { "apiToken": "a-secret", "pipeline": "a-secret" } });
        self.make_once(&format!("POST {app}"), id, settings, &["app.installed"]).await;
        let change = json!({ "settings": { "apiToken": "a-secret, too", "pipeline": null } });
        self.make_once(&format!("PUT {app}"), id, change, &["app.updated"]).await;
        self.make_once(&format!("DELETE {app}"), id, Value::Null, &["app.removed"]).await;
        for data in ["a-secret", "a-secret, too"] {
            let body = json!({ "appData": { "k": data } });
            let keep = "PUT /integration/{slug}/{version}";
            self.make_once(keep, id, body, &["integration.updated"]).await;
        }
        for on in [json!(false), Value::Null] {
            let body = json!({ "features": { "computer": on } });
            self.make_once("POST /features/assign", id, body, &["features.assigned"]).await;
        }
    }

    pub(super) async fn relays(&mut self) {
        let id = self.house.id("agent1").get();
        let set = "POST /webhookRelay/{type}";
        let relay = |path: &str| json!({ "url": format!("{HOOK}&one={path}") });
        self.id = "postmark".to_owned();
        let both = &["relay.added", "inbound.added"];
        self.make_once(set, id, relay("one"), both).await;
        self.make_once(set, id, relay("two"), &["relay.updated"]).await;
        let rotate = json!({ "rotateInboundKey": true });
        self.make(set, id, rotate, &["inbound.rotated"]).await;
        let secret = json!({ "verification": { "username": "u", "password": "a-secret" } });
        self.make_once(set, id, secret, &["inbound.updated"]).await;
        let removed = &["relay.removed"];
        self.make_once("DELETE /webhookRelay/{type}", id, Value::Null, removed).await;
        let close = "DELETE /webhookRelay/{type}/inboundKey";
        self.make_once(close, id, Value::Null, &["inbound.removed"]).await;
    }

    /// Changes to templates are recorded without values.
    pub(super) async fn templates(&mut self) {
        let (owner, agent) = (self.house.id("reseller1").get(), self.house.id("agent1").get());
        let new = json!({ "name": "T", "config": { "agentInstructions": "a-secret" } });
        let create = "POST /templates/createTemplate";
        let made = self.make(create, owner, new, &["template.created"]).await;
        self.id = made["template"]["id"].as_str().unwrap().to_owned();
        let (one, apply) = ("POST /templates/{templateId}", "POST /createAgentFromTemplate");
        let named = json!({ "templateId": self.id });
        self.make_once(one, owner, json!({ "enabled": true }), &["template.updated"]).await;
        self.make_once(apply, agent, named.clone(), &["template.applied"]).await;
        let asked = &["template.migrationAsked"];
        self.make_once(one, owner, json!({ "migrate": {} }), asked).await;
        let detach = json!({ "templateId": self.id, "detach": true });
        self.make_once(apply, agent, detach, &["template.detached"]).await;
        let gone = &["template.deleted"];
        self.make_once("DELETE /templates/{templateId}", owner, Value::Null, gone).await;
    }
}
