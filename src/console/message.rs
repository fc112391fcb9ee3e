//! One message: what a person sees beside what a model reads.

use askama::Template;
use axum::http::header::{CONTENT_SECURITY_POLICY, HeaderValue};
use axum::response::Response;
use serde_json::Value;

use super::deliveries::{self, Announcements, Announcer};
use super::filters;
use super::frame::{Frame, Section};
use super::shapes::{shown, spelled};
use super::visit::{Answer, Visit};
use crate::http::error::Problem;
use crate::http::in_process::shapes::{Finding, Message};

/// A page of the API for the frame of this page: nothing runs in it, and nothing loads.
const FRAMED: HeaderValue = HeaderValue::from_static(
    "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; img-src data:; \
     style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'",
);

#[derive(Template)]
#[template(path = "message.html", config = "src/console/templates/askama.toml")]
struct MessagePage {
    frame: Frame,
    message: Message,
    /// The text that a model reads, in pieces; those that a finding names are marked.
    pieces: Vec<Piece>,
    findings: Vec<Finding>,
    /// The file name of the HTML part; empty without one.
    html: String,
    proofs: Vec<(String, String)>,
    announced: Announcements,
}

/// A piece of the text that a model reads.
struct Piece {
    text: String,
    /// The findings about this piece; empty if there are none.
    about: String,
}

/// Cuts a text where findings begin and end: positions are in code points.
fn pieces(text: &str, findings: &[Finding]) -> Vec<Piece> {
    let count = text.chars().count();
    let end_of = |place: Option<u64>| {
        place.and_then(|place| usize::try_from(place).ok()).map(|place| place.min(count))
    };
    let named: Vec<(usize, usize, &str)> = findings
        .iter()
        .filter(|finding| finding.field == "message")
        .filter_map(|finding| Some((end_of(finding.start)?, end_of(finding.end)?, finding)))
        .map(|(start, end, finding)| (start, end, finding.kind.as_str()))
        .filter(|(start, end, _)| start < end)
        .collect();
    let mut cuts: Vec<usize> = named.iter().flat_map(|(start, end, _)| [*start, *end]).collect();
    cuts.extend([0, count]);
    cuts.sort_unstable();
    cuts.dedup();
    let mut letters = text.chars();
    let piece = |(start, end): (usize, usize)| {
        let covers = |(from, to, _): &&(usize, usize, &str)| *from <= start && end <= *to;
        let about: Vec<_> = named.iter().filter(covers).map(|(_, _, kind)| *kind).collect();
        Piece { text: letters.by_ref().take(end - start).collect(), about: about.join(", ") }
    };
    cuts.iter().copied().zip(cuts.iter().copied().skip(1)).map(piece).collect()
}

/// Shows a message.
pub(super) async fn show(visit: Visit) -> Result<Answer, Problem> {
    let asked = visit.on("getMessage").at(visit.segment("uuid"));
    let message: Message = visit.ask(asked).await?;
    let findings = message.findings();
    let pieces = pieces(&message.message, &findings);
    let html = message.text("emailHtml").rsplit('/').next().unwrap_or_default().to_owned();
    let proofs = message.fact("authentication").and_then(Value::as_object);
    let proofs = proofs.into_iter().flatten().map(|(name, value)| (spelled(name), shown(value)));
    let proofs = proofs.collect();
    let announcer = Announcer { agent: message.agent(), uuid: &message.uuid, date: &message.date };
    let announced = deliveries::of_message(&visit, &announcer).await;
    let frame = visit.frame(Section::Rooms).await?;
    Answer::page(&MessagePage { frame, message, pieces, findings, html, proofs, announced })
}

/// Erases the message.
pub(super) async fn change(visit: Visit) -> Result<Answer, Problem> {
    let asked = visit.on("eraseMessage").at(visit.segment("uuid"));
    visit.carry_out(asked).await?;
    Ok(visit.see("/live", "erased"))
}

/// The original, to save.
pub(super) async fn raw(visit: Visit) -> Result<Answer, Problem> {
    let asked = visit.on("getRawMessage").at(visit.segment("uuid"));
    Ok(Answer::File(visit.api.perform(asked).await?))
}

/// A part: HTML as a page for the frame of the message, anything else to save.
pub(super) async fn part(visit: Visit) -> Result<Answer, Problem> {
    let asked = visit.on("getMedia").at(visit.segment("uuid")).at(visit.segment("filename"));
    let mut file: Response = visit.api.perform(asked).await?;
    let policy = file.headers_mut().get_mut(CONTENT_SECURITY_POLICY);
    if let Some(policy) = policy.filter(|policy| policy.as_bytes().starts_with(SHOWN)) {
        *policy = FRAMED;
    }
    Ok(Answer::File(file))
}

/// How the policy of a page that is shown begins, unlike that of a file to save.
const SHOWN: &[u8] = b"sandbox allow-popups";
