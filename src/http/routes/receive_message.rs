//! `POST /agent/receiveMessage`: a message from the account's own platform.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};
use url::Url;

use super::super::answer::success;
use super::super::body::Fields;
use super::super::call::Call;
use super::super::error::Problem;
use super::super::query::quoted;
use super::super::state::Http;
use super::super::target::account_of_json;
use crate::domain::account::Account;
use crate::domain::contact::{Handle, HandleError, line_or_number, plain_line};
use crate::domain::message::{self, Linked, Received};
use crate::domain::source::{Inbox, Source};
use crate::rules::ReceivedRules;

/// Of an attachment whose platform does not say.
const UNTYPED: &str = "file";

/// The fields of the operation.
pub(in super::super) const FIELDS: &[&str] = &[
    "targetAgent",
    "sourceAddress",
    "message",
    "attachments",
    "context",
    "metadata",
    "outboundMessageWebhookUrl",
    "source",
    "name",
    "threadId",
    "targetInbox",
    "toNumber",
    "chatDialog",
    "duration",
    "missedCall",
    "callDialog",
    "voicemailRecording",
    "diversion",
    "summary",
    "agentOutcome",
    "cnamSpam",
];

/// Of these, those of calls alone.
const OF_CALLS: [&str; 8] = [
    "duration",
    "missedCall",
    "callDialog",
    "voicemailRecording",
    "diversion",
    "summary",
    "agentOutcome",
    "cnamSpam",
];

/// Who it is for is no part of what was said: the same for two Agents is the same.
const TARGETS: [&str; 2] = ["targetAgent", "targetAccountId"];

/// As long as browsers take; bounds what a record shows.
const LONGEST_URL: usize = 2048;

/// Stores it, and answers when that is durable.
pub(in super::super) async fn receive(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let body = call.body();
    let received = Reader { body, rules: http.rules.received, http: &http }.received()?;
    let inbox = body.text("targetInbox")?.map(str::parse::<Inbox>).transpose();
    let inbox = inbox.map_err(|error| Problem::invalid(format!("targetInbox: {error}")))?;
    let said = body.pairs().filter(|(name, _)| !TARGETS.contains(name));
    let said: Map<String, Value> =
        said.map(|(name, value)| (name.to_owned(), value.clone())).collect();
    let raw = Bytes::from(Value::Object(said).to_string());
    let agent = agent(&http, &call).await?;
    let inbox = inbox.unwrap_or(Inbox::Priority);
    let stored = call.reception(&http).receive(&agent, received, inbox, raw).await?;
    let fields = json!({ "messageUuid": stored.0.to_string(), "roomId": stored.1.to_string() });
    Ok(success(StatusCode::OK, "message received", fields))
}

/// The Agent that the body names, by its id or its username, in the scope of the target.
async fn agent(http: &Http, call: &Call) -> Result<Account, Problem> {
    let detail = "field targetAgent is missing: send the username or the id of an Agent";
    let named = call.body().get("targetAgent").ok_or_else(|| Problem::invalid(detail))?;
    let id = account_of_json("targetAgent", named);
    match (named.as_str(), id) {
        (_, Ok(id)) => call.agent_named(http, "targetAgent", id).await,
        (Some(username), Err(_)) => {
            Ok(call.reception(http).agent_called(&call.target().scope, username).await?)
        }
        (None, Err(problem)) => Err(problem),
    }
}

/// Reads the body.
struct Reader<'r> {
    body: &'r Fields,
    rules: ReceivedRules,
    http: &'r Http,
}

impl Reader<'_> {
    fn received(&self) -> Result<Received, Problem> {
        let body = self.body;
        let handle = self.handle()?;
        let source = handle.source();
        self.fits(source)?;
        let context = self.object("context")?;
        let thread = match body.text("threadId")? {
            Some(thread) => Some(thread),
            // v2 has it there.
            None => context.get("threadId").and_then(Value::as_str),
        };
        let thread = thread.map(plain_line).transpose().map_err(wrong("threadId"))?;
        let attachments = self.attachments()?;
        let text = body.required_text("message")?.to_owned();
        if text.len() > self.rules.max_text_bytes {
            return Err(Problem::invalid(format!(
                "field message has at most {} octets: send less",
                self.rules.max_text_bytes
            )));
        }
        if text.is_empty() && attachments.is_empty() && source != Source::Call {
            return Err(Problem::invalid("message is empty, and nothing is attached: send a text"));
        }
        Ok(Received {
            handle,
            name: self.line("name", plain_line)?,
            text,
            to: self.line("toNumber", line_or_number)?,
            thread,
            attachments,
            context,
            metadata: self.metadata()?,
            outbound_url: self.outbound_url()?,
            chat_dialog: self.dialogue("chatDialog")?,
            call: self.call()?,
        })
    }

    fn handle(&self) -> Result<Handle, Problem> {
        let source = self.body.text("source")?.map(str::parse::<Source>).transpose();
        let source = source.map_err(|error| Problem::invalid(format!("source: {error}")))?;
        if source == Some(Source::Email) {
            let detail = "source email is not taken here: mail is proven by its signature, or it is \
                          not mail. Send it to the Agent's address, or hand it in as chat";
            return Err(Problem::invalid(detail));
        }
        let address = self.body.required_text("sourceAddress")?;
        Handle::elsewhere(source, address).map_err(wrong("sourceAddress"))
    }

    /// What belongs to another source would be lost, or misunderstood.
    fn fits(&self, source: Source) -> Result<(), Problem> {
        let is_call = source == Source::Call;
        let foreign = if is_call { ["chatDialog"].as_slice() } else { OF_CALLS.as_slice() };
        match foreign.iter().find(|name| self.body.get(name).is_some()) {
            None => Ok(()),
            Some(name) => Err(Problem::invalid(format!(
                "field {name} is {}: this is a message of source {source}",
                if is_call { "for texts and chats" } else { "for calls (source call)" }
            ))),
        }
    }

    fn call(&self) -> Result<message::Call, Problem> {
        let recording = self.body.text("voicemailRecording")?;
        let recording = recording.map(|text| https("voicemailRecording", text)).transpose()?;
        Ok(message::Call {
            duration: self.body.number("duration")?,
            missed: self.body.flag("missedCall")?.unwrap_or_default(),
            cnam_spam: self.body.flag("cnamSpam")?.unwrap_or_default(),
            dialog: self.dialogue("callDialog")?,
            recording,
            diversion: self.line("diversion", line_or_number)?,
            summary: self.text("summary")?,
            outcome: self.line("agentOutcome", plain_line)?,
        })
    }

    fn line(
        &self,
        name: &'static str,
        read: fn(&str) -> Result<String, HandleError>,
    ) -> Result<Option<String>, Problem> {
        self.body.text(name)?.map(read).transpose().map_err(wrong(name))
    }

    fn text(&self, name: &str) -> Result<Option<String>, Problem> {
        let text = self.body.text(name)?;
        match text.filter(|text| text.len() > self.rules.max_text_bytes) {
            None => Ok(text.map(str::to_owned)),
            Some(_) => Err(Problem::invalid(format!(
                "field {name} has at most {} octets: send less",
                self.rules.max_text_bytes
            ))),
        }
    }

    fn object(&self, name: &str) -> Result<Map<String, Value>, Problem> {
        let Some(value) = self.body.get(name) else { return Ok(Map::new()) };
        let most = self.rules.max_object_bytes;
        match value {
            Value::Object(fields) if value.to_string().len() <= most => Ok(fields.clone()),
            _ => Err(Problem::invalid(format!(
                "field {name} must be an object of at most {most} octets of JSON"
            ))),
        }
    }

    /// What a reader would take for ours, and for proven, is no name of the platform's.
    fn metadata(&self) -> Result<Map<String, Value>, Problem> {
        let metadata = self.object("metadata")?;
        let ours = |name: &&String| {
            let capital = |prefix: &str| {
                let rest = name.strip_prefix(prefix);
                rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
            };
            ["authentication", "findings"].contains(&name.as_str())
                || capital("email")
                || capital("received")
        };
        match metadata.keys().find(ours) {
            None => Ok(metadata),
            Some(name) => Err(Problem::invalid(format!(
                "metadata.{} is a name that this service gives a meaning: choose another",
                quoted(name)
            ))),
        }
    }

    /// Kept and shown; nothing is ever sent to it. Judged as a webhook's URL is, so that whoever
    /// reads it may use it as one.
    fn outbound_url(&self) -> Result<Option<String>, Problem> {
        const NAME: &str = "outboundMessageWebhookUrl";
        let Some(text) = self.body.text(NAME)? else { return Ok(None) };
        if text.len() > LONGEST_URL {
            return Err(Problem::invalid(format!("{NAME} has at most {LONGEST_URL} octets")));
        }
        let url = self.http.guard.destination(text);
        let url = url.map_err(|error| Problem::invalid(format!("{NAME}: {error}")))?;
        Ok(Some(url.to_string()))
    }

    fn attachments(&self) -> Result<Vec<Linked>, Problem> {
        const SHAPE: &str = "attachments must be an array of {\"url\": \"https://…\", \"type\": …}";
        let shape = || Problem::invalid(SHAPE);
        let Some(value) = self.body.get("attachments") else { return Ok(Vec::new()) };
        let items = value.as_array().ok_or_else(shape)?;
        let most = self.rules.max_attachments;
        if items.len() > most {
            return Err(Problem::invalid(format!("attachments has at most {most} entries")));
        }
        let linked = |item: &Value| {
            // What else is told of it stays in the original.
            let url = item.get("url").and_then(Value::as_str).ok_or_else(shape)?;
            let kind = match item.get("type") {
                None | Some(Value::Null) => UNTYPED,
                Some(kind) => kind.as_str().ok_or_else(shape)?,
            };
            let kind = plain_line(kind).map_err(wrong("attachments.type"))?;
            Ok(Linked { kind, url: https("attachments.url", url)? })
        };
        items.iter().map(linked).collect()
    }

    fn dialogue(&self, name: &'static str) -> Result<Option<Value>, Problem> {
        let Some(value) = self.body.get(name) else { return Ok(None) };
        let turns = value.as_array().map(Vec::as_slice).unwrap_or_default();
        let fits = value.is_array() && turns.len() <= self.rules.max_dialog_turns;
        let is_turn = |turn: &Value| texts_of(turn, ["role", "content"]).is_some();
        if fits && turns.iter().all(is_turn) {
            return Ok(Some(value.clone()));
        }
        Err(Problem::invalid(format!(
            "{name} must be an array of at most {} turns, each {{\"role\": …, \"content\": …}}",
            self.rules.max_dialog_turns
        )))
    }
}

/// The texts of an object that has these fields and no other.
fn texts_of<'v>(value: &'v Value, names: [&str; 2]) -> Option<[&'v str; 2]> {
    let fields = value.as_object().filter(|fields| fields.len() == names.len())?;
    let [one, other] = names.map(|name| fields.get(name).and_then(Value::as_str));
    Some([one?, other?])
}

/// Nobody here fetches it: what it leads to is for whoever does.
fn https(name: &str, text: &str) -> Result<String, Problem> {
    let url = Url::parse(text).ok().filter(|url| {
        let plain = url.username().is_empty() && url.password().is_none();
        url.scheme() == "https" && url.has_host() && plain && text.len() <= LONGEST_URL
    });
    let url = url.ok_or_else(|| {
        Problem::invalid(format!(
            "{name} must be an https URL of at most {LONGEST_URL} octets, without a user"
        ))
    })?;
    Ok(url.to_string())
}

fn wrong(name: &'static str) -> impl Fn(HandleError) -> Problem {
    move |error| Problem::invalid(format!("{name} {error}"))
}
