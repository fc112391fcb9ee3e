//! An Agent's configuration: what is staged against what is live, its versions and its apps.

use askama::Template;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::filters;
use super::frame::{Frame, Section};
use super::shapes::{shown, spelled};
use super::visit::{Answer, Visit};
use crate::http::error::Problem;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    agent_event_rules: Option<Map<String, Value>>,
    campaign_id: Option<String>,
    revision: u64,
    updated_at: Option<String>,
}

/// A field whose staged value differs from the live one.
struct Difference {
    name: String,
    live: String,
    staged: String,
}

#[derive(Default, Deserialize)]
struct Versions {
    versions: Vec<Version>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    version_id: i64,
    title: String,
    created_at: String,
}

#[derive(Default, Deserialize)]
struct Apps {
    apps: Vec<App>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct App {
    app_id: String,
    version: String,
    title: String,
    installed: bool,
    #[serde(default)]
    setup_complete: bool,
}

#[derive(Template)]
#[template(path = "agent.html", config = "src/console/templates/askama.toml")]
struct AgentPage {
    frame: Frame,
    staged: Config,
    live: Config,
    differences: Vec<Difference>,
    versions: Vec<Version>,
    apps: Vec<App>,
    computer: Vec<(String, String)>,
}

/// Shows the configuration.
pub(super) async fn show(visit: Visit) -> Result<Answer, Problem> {
    let frame = visit.frame(Section::Agent).await?;
    if !frame.is_agent() {
        return frame.open_another(&visit, "/agent", "A configuration belongs to an Agent").await;
    }
    let staged: Config = visit.ask(visit.on("getStagedAgent")).await?;
    let live: Config = visit.ask(visit.on("getLiveAgent")).await?;
    let differences = differences(&staged, &live);
    let versions = match live.campaign_id.as_deref() {
        None => Vec::new(),
        Some(id) => {
            let asked = visit.on("listAgentVersions").at(id).with("limit", 20);
            visit.ask::<Versions>(asked).await.unwrap_or_default().versions
        }
    };
    let apps: Apps = visit.ask(visit.on("listApps")).await.unwrap_or_default();
    let apps = apps.apps.into_iter().filter(|app| app.installed).collect();
    let asked = visit.on("getComputerHealth").at(visit.account);
    let health: Map<String, Value> = visit.ask(asked).await.unwrap_or_default();
    let told = health.iter().filter(|(name, _)| !matches!(name.as_str(), "success" | "message"));
    let computer = told.map(|(name, value)| (spelled(name), shown(value))).collect();
    Answer::page(&AgentPage { frame, staged, live, differences, versions, apps, computer })
}

fn differences(staged: &Config, live: &Config) -> Vec<Difference> {
    let empty = Map::new();
    let (staged, live) = (
        staged.agent_event_rules.as_ref().unwrap_or(&empty),
        live.agent_event_rules.as_ref().unwrap_or(&empty),
    );
    let names: std::collections::BTreeSet<&String> = staged.keys().chain(live.keys()).collect();
    let value =
        |of: &Map<String, Value>, name: &String| shown(of.get(name).unwrap_or(&Value::Null));
    let difference = |name: &String| Difference {
        name: spelled(name),
        live: value(live, name),
        staged: value(staged, name),
    };
    let all = names.into_iter().map(difference);
    all.filter(|difference| difference.live != difference.staged).collect()
}

/// Publishes the staged configuration, reverts it, or brings a version back to staging.
pub(super) async fn change(visit: Visit) -> Result<Answer, Problem> {
    let revision = visit.form.get("revision").parse::<u64>();
    let body = revision.map_or(json!({}), |revision| json!({ "revision": revision }));
    match visit.form.get("do") {
        "publish" => {
            visit.carry_out(visit.on("publishAgent").sends(body)).await?;
            Ok(visit.see("/agent", "published"))
        }
        "revert" => {
            visit.carry_out(visit.on("revertAgent").sends(body)).await?;
            Ok(visit.see("/agent", "reverted"))
        }
        "restore" => {
            let (config, version) = (visit.form.get("config"), visit.form.get("version"));
            let asked = visit.on("restoreAgentVersion").at(config).at(version);
            visit.carry_out(asked).await?;
            Ok(visit.see("/agent", "restored"))
        }
        _ => Err(Problem::invalid("this button is not known here: open the page again")),
    }
}
