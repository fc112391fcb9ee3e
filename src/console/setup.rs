//! Setup: what is missing until the first message comes in, each with the line to paste.

use askama::Template;
use serde_json::Value;

use super::frame::{Frame, Section};
use super::visit::{Answer, Visit};
use crate::http::error::Problem;

/// One thing that must be there.
struct Check {
    /// `good`, `wait` for a missing thing, or `none` where the caller may not see it.
    tone: &'static str,
    title: &'static str,
    words: String,
    /// The line to paste, or empty.
    paste: String,
    /// The page that mends it, and its words; empty without one.
    page: &'static str,
    button: &'static str,
}

#[derive(Template)]
#[template(path = "setup.html", config = "src/console/templates/askama.toml")]
struct SetupPage {
    frame: Frame,
    checks: Vec<Check>,
}

/// Shows the checks of an Agent.
pub(super) async fn show(visit: Visit) -> Result<Answer, Problem> {
    let frame = visit.frame(Section::Setup).await?;
    if !frame.is_agent() {
        return frame.open_another(
            "What an Agent needs to get its first message is checked for each Agent",
        );
    }
    let addresses = found(&visit, "listAddresses", "/addresses").await;
    let first = addresses.as_ref().and_then(|list| text(list.first()?, "address"));
    let checks = vec![
        address(addresses.as_deref()),
        domain(first.as_deref()),
        sender(&visit).await,
        webhook(&visit).await,
        message(&visit, first.as_deref()).await,
    ];
    Answer::page(&SetupPage { frame, checks })
}

/// The list at this place of an answer; None where the caller may not read it.
async fn found(visit: &Visit, operation: &'static str, place: &str) -> Option<Vec<Value>> {
    let answer: Value = visit.ask(visit.on(operation)).await.ok()?;
    answer.pointer(place)?.as_array().cloned()
}

fn text(value: &Value, name: &str) -> Option<String> {
    value.get(name).and_then(Value::as_str).map(str::to_owned)
}

const UNSEEN: &str = "Your key does not show this.";

fn address(addresses: Option<&[Value]>) -> Check {
    let (tone, words) = match addresses {
        None => ("none", UNSEEN.to_owned()),
        Some([]) => ("wait", "The Agent has no address, so every recipient is unknown.".to_owned()),
        Some(list) => {
            let named: Vec<_> = list.iter().filter_map(|one| text(one, "address")).collect();
            ("good", named.join(", "))
        }
    };
    let (title, page, button) = ("An address", "/accounts", "Add an address");
    Check { tone, title, words, paste: String::new(), page, button }
}

/// The record that the DNS of the address needs: this server asks no DNS for it.
fn domain(address: Option<&str>) -> Check {
    let domain = address.and_then(|address| address.rsplit('@').next());
    let (tone, words) = match domain {
        None => ("wait", "Needs an address first.".to_owned()),
        Some(domain) => {
            ("none", format!("Mail to {domain} comes here once its MX record names this server:"))
        }
    };
    let paste = domain.map_or_else(String::new, |domain| {
        format!("{domain}. MX 10 (the host name of this server)\ndig +short MX {domain}")
    });
    Check { tone, title: "The MX record", words, paste, page: "", button: "" }
}

async fn sender(visit: &Visit) -> Check {
    let answer: Option<Value> = visit.ask(visit.on("getInboundPolicy")).await.ok();
    let policy = answer.as_ref().and_then(|answer| answer.get("policy"));
    let mode = policy.and_then(|policy| text(policy, "mode"));
    let listed = policy.and_then(|policy| policy.get("allowlistCount")).and_then(Value::as_u64);
    let (tone, words) = match (mode.as_deref(), listed) {
        (Some("open"), _) => ("good", "Every proven sender may write (mode open).".to_owned()),
        (Some(_), Some(0)) => {
            ("wait", "Nobody is on the list, so every message is refused.".into())
        }
        (Some(_), Some(count)) => ("good", format!("{count} on the list.")),
        _ => ("none", UNSEEN.to_owned()),
    };
    let (title, page, button) = ("A sender who may write", "/policy", "Add a sender");
    Check { tone, title, words, paste: String::new(), page, button }
}

async fn webhook(visit: &Visit) -> Check {
    let (tone, words) = match found(visit, "listWebhooks", "/webhooks").await.as_deref() {
        None => ("none", UNSEEN.to_owned()),
        Some([]) => (
            "wait",
            "None of this Agent's own. One of an account above hears of its mail, too; a reader of \
             the events needs none:"
                .to_owned(),
        ),
        Some(list) => ("good", format!("{} of this Agent.", list.len())),
    };
    let paste = if tone == "good" { "" } else { "gatepost events --follow " };
    let paste = match paste {
        "" => String::new(),
        line => format!("{line}{}", visit.account),
    };
    Check { tone, title: "A webhook", words, paste, page: "/webhooks", button: "Create a webhook" }
}

async fn message(visit: &Visit, address: Option<&str>) -> Check {
    let asked = visit.on("listIntakeRecords").with("limit", 1);
    let answer: Option<Value> = visit.ask(asked).await.ok();
    let records = answer.as_ref().and_then(|answer| answer.get("intake")).and_then(Value::as_array);
    let verdict = records.and_then(|records| text(records.first()?, "verdict"));
    let (tone, words) = match verdict {
        Some(verdict) => ("good", format!("The latest one was {verdict}.")),
        None => ("wait", "None has come in yet. Send one from a mail account of yours, or:".into()),
    };
    let to = address.unwrap_or("AGENT@DOMAIN");
    let paste = format!("swaks --to {to} --server THIS-SERVER:25 --header 'Subject: Hello'");
    let paste = if tone == "good" { String::new() } else { paste };
    Check { tone, title: "The first message", words, paste, page: "/live", button: "Watch for it" }
}
