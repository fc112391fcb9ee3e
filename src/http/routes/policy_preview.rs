//! `/email/inboundPolicy/preview`: what a draft of a policy would change, before anybody sets it.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::super::answer::success;
use super::super::call::Call;
use super::super::error::{Code, Problem};
use super::super::state::Http;
use super::super::turns::Place;
use super::inbound_whitelist::addresses;
use crate::app::intake::preview::{Changed, Days, Looked, Tally};
use crate::app::mailbox::intake::whole_intake_record;
use crate::domain::address::Address;
use crate::domain::contact::Handle;
use crate::domain::draft::Draft;
use crate::domain::intake_record::IntakeRecord;
use crate::domain::policy::Mode;
use crate::domain::reason::Reason;
use crate::domain::verdict::Verdict;
use crate::mail::line_ends::as_received;
use crate::rules::{AccessRules, BareLineEnds};

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What the draft would have changed in the last `days`, or would make of the message `eml`.
pub(in super::super) async fn preview(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let draft = draft(&call, &http.rules)?;
    match (call.body().number("days")?, call.body().text("eml")?.is_some()) {
        (Some(days), false) => past(&http, &call, &draft, days).await,
        (None, true) => message(&http, call, &draft).await,
        (Some(_), true) => Err(Problem::invalid("days and eml exclude each other: send one")),
        (None, false) => Err(Problem::invalid("name what to look at: send days, or eml")),
    }
}

fn draft(call: &Call, rules: &AccessRules) -> Result<Draft, Problem> {
    let body = call.body();
    let mode = body.text("mode")?.map(str::parse::<Mode>).transpose();
    let mode = mode.map_err(|error| Problem::invalid(format!("mode: {error}")))?;
    let list = |name: &str| match body.texts(name)? {
        None => Ok(Vec::new()),
        Some(texts) => addresses(name, &texts, rules),
    };
    let (add, remove) = (list("add")?, list("remove")?);
    Draft::new(mode, add, remove.iter().cloned()).map_err(|both| {
        let index = remove.iter().position(|address| *address == both).unwrap_or(0);
        Problem::invalid(format!(
            "remove[{index}]: {both} is to be added, too; nothing was changed"
        ))
    })
}

async fn past(http: &Http, call: &Call, draft: &Draft, days: u64) -> Result<Response, Problem> {
    let preview = &http.use_cases.preview;
    let agent = call.account();
    let kept = preview.days(&agent.lineage);
    if !(1..=kept).contains(&days) {
        let detail =
            format!("days must be a whole number from 1 to {kept}: so long records are kept");
        return Err(Problem::invalid(detail));
    }
    let most = http.rules.limits.max_preview;
    let found = preview.past((agent, &call.target().scope), draft, days, most).await?;
    let Days { was, would, changed, complete, since } = found;
    let fields = json!({
        "examined": was.total(),
        "complete": complete,
        "since": since.to_string(),
        "changed": changed.iter().map(change).collect::<Vec<_>>(),
        "counts": counts(was, would, changed.len()),
    });
    Ok(success(StatusCode::OK, "inbound policy previewed; nothing was changed", fields))
}

/// The octets of a message, with its place: given back when the last who looks at them is done,
/// even where the request has ended before that.
struct Held {
    octets: Vec<u8>,
    _place: Place,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.octets
    }
}

async fn message(http: &Http, mut call: Call, draft: &Draft) -> Result<Response, Problem> {
    let preview = &http.use_cases.preview;
    let (most, bare) = (preview.max_message_bytes(), preview.bare_line_ends());
    let agent = call.account().clone();
    let place = call.place(http).await?;
    let read = tokio::task::spawn_blocking(move || {
        let octets = octets(&call, most, bare)?;
        Ok::<_, Problem>(Bytes::from_owner(Held { octets, _place: place }))
    });
    let raw = read.await.map_err(|error| Problem::internal(error.to_string()))??;
    let Looked { current, draft } = preview.message(&agent, draft, &raw).await?;
    drop(raw);
    let (was, would) = (current.verdict, draft.verdict);
    let (mut before, mut after) = (Tally::default(), Tally::default());
    before.count(was);
    after.count(would);
    let changed = (was != would).then(|| {
        let sender = current.sender.as_ref().and_then(Handle::mailbox);
        entry(Value::Null, sender, &current.at.to_string(), was, would)
    });
    let changed: Vec<Value> = changed.into_iter().collect();
    let fields = json!({
        "examined": 1,
        "complete": true,
        "counts": counts(before, after, changed.len()),
        "changed": changed,
        "current": shown(&current),
        "draft": shown(&draft),
    });
    Ok(success(StatusCode::OK, "inbound policy previewed; nothing was changed", fields))
}

/// The message in `eml`: its text, or its base64, which has no colon in its first line, where a
/// header section has one.
fn octets(call: &Call, most: usize, bare: BareLineEnds) -> Result<Vec<u8>, Problem> {
    let eml = call.body().required_text("eml")?;
    let is_text = eml.lines().next().is_some_and(|line| line.contains(':'));
    let raw = if is_text {
        eml.as_bytes().to_vec()
    } else {
        let packed: Vec<u8> = eml.bytes().filter(|octet| !octet.is_ascii_whitespace()).collect();
        let decoded = BASE64.decode(packed).ok().filter(|raw| !raw.is_empty());
        decoded.ok_or_else(|| {
            Problem::invalid("eml must be the text of a message, or the base64 of its octets")
        })?
    };
    let raw = as_received(raw, bare);
    if raw.len() > most {
        let detail = format!("a message has at most {most} octets: send less");
        return Err(Problem::new(Code::PayloadTooLarge, detail));
    }
    Ok(raw)
}

/// A record that is not in the store, so that it has no id.
fn shown(record: &IntakeRecord) -> Map<String, Value> {
    let mut shown = whole_intake_record(record);
    shown.insert("id".into(), Value::Null);
    shown
}

fn change(changed: &Changed) -> Value {
    let Changed { past, would } = changed;
    let id = Value::from(past.id.to_string());
    entry(id, past.sender.as_ref(), &past.at.to_string(), past.verdict, *would)
}

fn entry(id: Value, sender: Option<&Address>, date: &str, was: Verdict, would: Verdict) -> Value {
    let reason = |verdict: Verdict| verdict.reason().map(Reason::as_str);
    json!({
        "intakeId": id,
        "sender": sender.map(Address::to_string),
        "date": date,
        "was": was.as_str(),
        "wasReason": reason(was),
        "would": would.as_str(),
        "wouldReason": reason(would),
    })
}

fn counts(was: Tally, would: Tally, changed: usize) -> Value {
    let shown = |tally: Tally| {
        json!({
            "accepted": tally.accepted, "refused": tally.refused, "deferred": tally.deferred,
        })
    };
    json!({ "was": shown(was), "would": shown(would), "changed": changed })
}
