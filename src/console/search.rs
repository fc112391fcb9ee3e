//! The search box: an id leads to its page, an address to its verdicts, words to messages.

use askama::Template;
use serde_json::Value;
use url::form_urlencoded::byte_serialize;
use uuid::Uuid;

use super::filters;
use super::frame::{Frame, Section};
use super::visit::{Answer, Visit};
use crate::domain::clock::Timestamp;
use crate::http::error::Problem;
use crate::http::in_process::shapes::Message;

#[derive(Template)]
#[template(path = "search.html", config = "src/console/templates/askama.toml")]
struct SearchPage {
    frame: Frame,
    now: Timestamp,
    messages: Vec<Message>,
}

/// Leads to what was searched, or shows messages with these words.
pub(super) async fn show(visit: Visit) -> Result<Answer, Problem> {
    let words = visit.query.get("q");
    if let Some(id) =
        words.split(|letter: char| !(letter.is_ascii_hexdigit() || letter == '-')).find_map(id)
    {
        return Ok(Answer::See(of_id(&visit, id).await));
    }
    let here = format!("/console/{}", visit.account);
    if words.contains('@') && !words.contains(' ') {
        let address: String = byte_serialize(words.as_bytes()).collect();
        return Ok(Answer::See(format!("{here}/live?sender={address}")));
    }
    if words.is_empty() {
        return Ok(Answer::See(format!("{here}/live")));
    }
    let messages = visit.ask(visit.on("searchMessages").with("q", words).with("limit", 50)).await?;
    let now = visit.console.http.mint.clock().now();
    Answer::page(&SearchPage { frame: visit.frame(Section::None).await?, now, messages })
}

/// An id in a longer text: of an SMTP reply (`[record 019a…]`), or pasted alone.
fn id(text: &str) -> Option<Uuid> {
    (text.len() == 36).then(|| text.parse().ok()).flatten()
}

/// The page of a message, or else of a record.
async fn of_id(visit: &Visit, id: Uuid) -> String {
    let is_message = visit.ask::<Value>(visit.on("getMessage").at(id)).await.is_ok();
    let page = if is_message { "messages" } else { "verdicts" };
    format!("/console/{}/{page}/{id}", visit.account)
}
