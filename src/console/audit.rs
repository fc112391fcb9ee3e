//! The audit log: who did what, with the values before and after.

use askama::Template;
use serde::Deserialize;
use url::form_urlencoded::byte_serialize;

use super::filters;
use super::frame::{Frame, Section};
use super::shapes::AuditEntry;
use super::visit::{Answer, Visit};
use crate::domain::audit::Deed;
use crate::domain::words::Words;
use crate::http::error::Problem;

/// Entries of a page.
const ROWS: u32 = 50;

#[derive(Deserialize)]
struct Entries {
    audit: Vec<AuditEntry>,
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "audit.html", config = "src/console/templates/askama.toml")]
struct AuditPage {
    frame: Frame,
    entries: Vec<AuditEntry>,
    action: String,
    by: String,
    /// The query of the next page; empty on the last one.
    older: String,
}

impl AuditPage {
    fn actions(&self) -> Vec<&'static str> {
        Deed::all().iter().map(|deed| deed.word()).collect()
    }

    fn is_action(&self, word: &str) -> bool {
        self.action == word
    }
}

/// Shows a page of the log, newest first.
pub(super) async fn show(visit: Visit) -> Result<Answer, Problem> {
    let sent = |name| visit.query.get(name).to_owned();
    let (action, by) = (sent("action"), sent("by"));
    let asked = visit.on("listAuditEntries").with("limit", ROWS).with("action", &action);
    let asked = asked.with("by", &by).with("before", visit.query.get("before"));
    let found: Entries = visit.ask(asked).await?;
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let older = found.next.map_or_else(String::new, |next| {
        format!("before={}&action={}&by={}", encoded(&next), encoded(&action), encoded(&by))
    });
    let frame = visit.frame(Section::Audit).await?;
    Answer::page(&AuditPage { frame, entries: found.audit, action, by, older })
}
