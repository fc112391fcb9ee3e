//! The mail domains of an account, with the record that proves each.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::frame::{Frame, Section};
use super::visit::{Answer, Visit};
use crate::http::error::Problem;

#[derive(Deserialize)]
struct Domains {
    domains: Vec<Domain>,
}

#[derive(Deserialize)]
struct Domain {
    domain: String,
    verified: bool,
    challenge: Option<String>,
}

#[derive(Template)]
#[template(path = "domains.html", config = "src/console/templates/askama.toml")]
struct DomainsPage {
    frame: Frame,
    domains: Vec<Domain>,
    /// The result of the last look in DNS; empty without one.
    found: String,
}

/// Lists the domains.
pub(super) async fn show(visit: Visit) -> Result<Answer, Problem> {
    page(&visit, String::new()).await
}

async fn page(visit: &Visit, found: String) -> Result<Answer, Problem> {
    let frame = visit.frame(Section::Domains).await?;
    if frame.is_agent() {
        const ABOVE: &str = "A domain belongs to an organization, a reseller or a partner";
        return frame.open_another(visit, "/domains", ABOVE).await;
    }
    let Domains { domains } = visit.ask(visit.on("listDomains")).await?;
    Answer::page(&DomainsPage { frame, domains, found })
}

/// Claims a domain, looks for its proof, or gives it up.
pub(super) async fn change(visit: Visit) -> Result<Answer, Problem> {
    let domain = visit.form.get("domain");
    if visit.form.get("do") == "remove" {
        visit.ask::<Value>(visit.on("removeDomain").with("domain", domain)).await?;
        return Ok(visit.see("/domains", "domain"));
    }
    let asked = visit.on("claimDomain").sends(json!({ "domain": domain }));
    let answer = visit.carry_out(asked).await?;
    let found = answer.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
    page(&visit, found).await
}
