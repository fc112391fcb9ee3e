//! `POST /agent/receiveMessage`: a message from the account's own platform.

use axum::body::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

use crate::app::intake::reception::Submission;
use crate::app::relay::inbound;
use crate::domain::account::Account;
use crate::domain::agent_outcome::HIGHEST_RATING;
use crate::domain::contact::{Handle, HandleError, dialled, line_or_number, plain_line};
use crate::domain::fault::{Fault, join};
use crate::domain::id::AccountId;
use crate::domain::message::{self, Linked, Received};
use crate::domain::source::{Inbox, Source};
use crate::http::state::Http;
use crate::http::typed::{Call, Problem, refused_url, successes, wrong};
use crate::wire::{Id, Named, RoomId, Word};

/// The type of an attachment without one.
const UNTYPED: &str = "file";

/// Longest URL in bytes: browsers take no more. Bounds the records.
const LONGEST_URL: usize = 2048;

/// Fields that are not part of the stored message, which is the same for any Agent.
const TARGETS: &[&str] = &["targetAgent", "targetAccountId"];

/// Submits a message from your own platform
///
/// Answered once the message is stored durably.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("examples" = [
    { "targetAgent": "support", "sourceAddress": "+15551231234", "message": "Hello" }
]))]
pub struct Receive {
    /// The channel. Without it, a telephone number is sms, and everything else chat.
    #[schemars(extend("enum" = ["sms", "chat", "call"], "x-expected" = CHANNELS))]
    source: Option<Word<Source>>,
    /// The Agent, by id or username.
    target_agent: Target,
    /// The sender: a telephone number, or a name.
    #[schemars(example = &"+15551231234")]
    source_address: String,
    /// The text.
    #[schemars(extend("maxLength" = "received.max_text_bytes"), example = &"Hello")]
    message: String,
    /// Files of the message.
    #[schemars(extend("maxItems" = "received.max_attachments"), example = &[(); 0])]
    attachments: Option<Vec<File>>,
    /// Other facts from the platform; `threadId` may also be here.
    context: Option<Map<String, Value>>,
    /// Stored, and shown with the message.
    metadata: Option<Map<String, Value>>,
    /// The https URL where the platform wants answers; stored, but nothing is sent there.
    #[schemars(extend("maxLength" = LONGEST_URL), example = &LINK)]
    outbound_message_webhook_url: Option<String>,
    /// The name of the sender.
    name: Option<String>,
    /// The thread's name on the platform.
    thread_id: Option<String>,
    /// The inbox that shows the message.
    target_inbox: Option<Word<Inbox>>,
    /// The number or name that the message was sent to.
    to_number: Option<String>,
    /// For chats: the dialogue before.
    #[schemars(extend("maxItems" = "received.max_dialog_turns"), example = &[(); 0])]
    chat_dialog: Option<Vec<DialogueTurn>>,
    /// The length in seconds.
    #[schemars(extend("maximum" = "received.max_duration_seconds"))]
    duration: Option<u64>,
    /// Whether nobody took the call.
    missed_call: Option<bool>,
    /// For calls: the dialogue, turn by turn.
    #[schemars(extend("maxItems" = "received.max_dialog_turns"), example = &[(); 0])]
    call_dialog: Option<Vec<DialogueTurn>>,
    /// For calls: the https URL of a recording.
    #[schemars(extend("maxLength" = LONGEST_URL), example = &LINK)]
    voicemail_recording: Option<String>,
    /// For calls: the number that the call was diverted from.
    diversion: Option<String>,
    /// A summary.
    #[schemars(extend("maxLength" = "received.max_text_bytes"))]
    summary: Option<String>,
    /// The outcome, in a word or a line.
    agent_outcome: Option<String>,
    /// A rating of the contact as a lead.
    #[schemars(extend("minimum" = 0, "maximum" = HIGHEST_RATING))]
    ai_lead_rating: Option<u8>,
    /// Why it is rated so, in a line.
    ai_lead_rating_reason: Option<String>,
    /// Whether people take part just now; without it false.
    is_live: Option<bool>,
    /// Whether an Agent is in charge; without it true.
    ai_agent: Option<bool>,
    /// Whether people are to be notified; without it true.
    notify: Option<bool>,
    /// Whether the Agent is to stay out of it; without it false.
    bypass_agent: Option<bool>,
    /// Whether a number called itself; without it false.
    self_call: Option<bool>,
    /// Whether the caller is the contact; without it true.
    calling_user_is_contact: Option<bool>,
    /// Whether it belongs to a campaign; without it false.
    campaign: Option<bool>,
    /// Whether a campaign was forced on it; without it false.
    forced_campaign: Option<bool>,
    /// For calls: whether the caller is a known nuisance.
    cnam_spam: Option<bool>,
}

const CHANNELS: &str = "sms, chat or call; send mail to the Agent's address, where its signature \
                        is verified, or submit it as chat";
const LINK: &str = "https://files.example/a.pdf";

/// The Agent, by id or username.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline, extend("examples" = ["support"], "x-expected" = "the username or the id of an Agent"))]
enum Target {
    Id(Named<AccountId>),
    Username(String),
}

/// A file; other facts about it stay in the original.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(inline, extend("additionalProperties" = true))]
struct File {
    /// The https URL of the file.
    #[schemars(extend("maxLength" = LONGEST_URL), example = &LINK)]
    url: String,
    /// The type.
    #[serde(rename = "type")]
    #[schemars(extend("x-null" = true))]
    kind: Option<String>,
}

/// A turn of a dialogue.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
struct DialogueTurn {
    /// The speaker.
    role: String,
    /// The text.
    content: String,
}

successes! {
    Stored {
        /// The message.
        message_uuid: Id,
        /// The room of the message.
        room_id: RoomId,
    } = OK "message received";
}

pub async fn receive(call: Call, request: Receive) -> Result<Stored, Problem> {
    let sent = call.body.pairs().filter(|(name, _)| !TARGETS.contains(name));
    let sent: Map<String, Value> =
        sent.map(|(name, value)| (name.to_owned(), value.clone())).collect();
    let raw = Bytes::from(Value::Object(sent).to_string());
    let inbox = request.target_inbox.map_or(Inbox::Priority, |Word(inbox)| inbox);
    let (target, received) = request.received(&call.http).await?;
    let agent = agent(&call, target).await?;
    let posted = call.caller.way_in.map(inbound::signed_by);
    let submission = Submission { received, inbox, raw, posted };
    let stored = call.reception().receive(&agent, submission).await?;
    Ok(Stored { message_uuid: Id(stored.0.0), room_id: RoomId(stored.1) })
}

/// Returns the Agent named by the body, in the scope of the target.
async fn agent(call: &Call, target: Target) -> Result<Account, Problem> {
    match target {
        Target::Id(Named(id)) => Ok(call.agent_named("targetAgent", id).await?.account),
        Target::Username(username) => {
            Ok(call.reception().agent_called(&call.target.scope, &username).await?)
        }
    }
}

impl Receive {
    /// Returns the checked message and its target.
    async fn received(self, http: &Http) -> Result<(Target, Received), Problem> {
        let (rules, flags) = (&http.rules.received, self.flags());
        let source = self.source.map(|Word(source)| source);
        let handle = handle(source, &self.source_address)?;
        let source = handle.source();
        self.fits(source)?;
        for (name, text) in [("message", Some(&self.message)), ("summary", self.summary.as_ref())] {
            bounded(name, text.map_or(0, String::len), rules.max_text_bytes)?;
        }
        let objects = [("context", &self.context), ("metadata", &self.metadata)];
        for (name, object) in objects {
            let text = object.as_ref().map(serde_json::to_string);
            let length = text.map_or(0, |text| text.map_or(usize::MAX, |text| text.len()));
            bounded(name, length, rules.max_object_bytes)?;
        }
        let context = self.context.unwrap_or_default();
        // v2 sends the thread in `context`.
        let thread = self.thread_id.as_deref();
        let thread = thread.or_else(|| context.get("threadId").and_then(Value::as_str));
        let thread = thread.map(plain_line).transpose().map_err(misspelt("threadId"))?;
        let attachments = self.attachments.unwrap_or_default();
        let attachments = attachments
            .iter()
            .enumerate()
            .map(|(place, file)| file.linked(place))
            .collect::<Result<Vec<_>, _>>()?;
        if self.message.is_empty() && attachments.is_empty() && source != Source::Call {
            return Err(Problem::invalid("message is empty and has no attachments: send a text"));
        }
        let recording = self.voicemail_recording.as_deref();
        let outbound_url = match self.outbound_message_webhook_url.as_deref() {
            Some(text) => Some(outbound_url(http, text).await?),
            None => None,
        };
        let received = Received {
            handle,
            name: line("name", self.name, plain_line)?,
            text: self.message,
            to: line(
                "toNumber",
                self.to_number,
                if source == Source::Chat { line_or_number } else { dialled },
            )?,
            thread,
            attachments,
            context,
            metadata: not_ours(self.metadata.unwrap_or_default())?,
            outbound_url,
            chat_dialog: self.chat_dialog.map(dialog),
            call: message::Call {
                duration: self.duration,
                missed: self.missed_call.unwrap_or_default(),
                cnam_spam: self.cnam_spam.unwrap_or_default(),
                dialog: self.call_dialog.map(dialog),
                recording: recording.map(|url| https("voicemailRecording", url)).transpose()?,
                diversion: line("diversion", self.diversion, dialled)?,
                summary: self.summary,
                outcome: line("agentOutcome", self.agent_outcome, plain_line)?,
            },
            flags,
            lead_rating: self.ai_lead_rating,
            lead_rating_reason: line("aiLeadRatingReason", self.ai_lead_rating_reason, plain_line)?,
        };
        Ok((self.target_agent, received))
    }

    const fn flags(&self) -> message::Flags {
        message::Flags {
            is_live: self.is_live,
            ai_agent: self.ai_agent,
            notify: self.notify,
            bypass_agent: self.bypass_agent,
            self_call: self.self_call,
            calling_user_is_contact: self.calling_user_is_contact,
            campaign: self.campaign,
            forced_campaign: self.forced_campaign,
        }
    }

    /// Fails if a field belongs to another source: it would be lost, or misunderstood.
    fn fits(&self, source: Source) -> Result<(), Problem> {
        let of_chats = [("chatDialog", self.chat_dialog.is_some())];
        let of_calls = [
            ("callDialog", self.call_dialog.is_some()),
            ("voicemailRecording", self.voicemail_recording.is_some()),
            ("diversion", self.diversion.is_some()),
            ("cnamSpam", self.cnam_spam.is_some()),
        ];
        let is_call = source == Source::Call;
        let foreign = if is_call { of_chats.as_slice() } else { of_calls.as_slice() };
        match foreign.iter().find(|(_, there)| *there) {
            None => Ok(()),
            Some((name, _)) => {
                let others = if is_call { "texts and chats" } else { "calls (source call)" };
                let detail = format!("is only for {others}, and source is {source}: leave it out");
                Err(wrong(name, detail))
            }
        }
    }
}

impl File {
    fn linked(&self, place: usize) -> Result<Linked, Problem> {
        let kind = plain_line(self.kind.as_deref().unwrap_or(UNTYPED));
        let kind = kind.map_err(misspelt(&format!("attachments/{place}/type")))?;
        Ok(Linked { kind, url: https(&format!("attachments/{place}/url"), &self.url)? })
    }
}

/// Returns the sender's handle. Digits may be an id of a chat: its source says so.
fn handle(source: Option<Source>, text: &str) -> Result<Handle, Problem> {
    const NAME: &str = "sourceAddress";
    Handle::elsewhere(source, text).map_err(|error| match (source, error) {
        (None, HandleError::NoCountryCode) => {
            wrong(NAME, format!("{error}; if it is an id of a chat, send source chat"))
        }
        (_, error) => misspelt(NAME)(error),
    })
}

fn dialog(turns: Vec<DialogueTurn>) -> Value {
    // A struct of texts is always JSON.
    serde_json::to_value(turns).unwrap_or_default()
}

fn line(
    name: &'static str,
    text: Option<String>,
    read: fn(&str) -> Result<String, HandleError>,
) -> Result<Option<String>, Problem> {
    text.as_deref().map(read).transpose().map_err(misspelt(name))
}

fn bounded(name: &str, octets: usize, most: usize) -> Result<(), Problem> {
    if octets <= most {
        return Ok(());
    }
    Err(wrong(name, format!("must have at most {most} bytes: send less")))
}

/// Refuses metadata names that a reader would take for ours, and so for proven facts.
fn not_ours(metadata: Map<String, Value>) -> Result<Map<String, Value>, Problem> {
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
        Some(name) => Err(Problem::mistaken(vec![Fault {
            pointer: join("/metadata", name),
            detail: "is a reserved name: choose another".to_owned(),
        }])),
    }
}

/// Checks a URL that is stored and shown. Nothing is ever sent to it, but it is checked like a
/// webhook's, so that readers may use it as one.
async fn outbound_url(http: &Http, text: &str) -> Result<String, Problem> {
    const NAME: &str = "outboundMessageWebhookUrl";
    bounded(NAME, text.len(), LONGEST_URL)?;
    let url = http.urls.destination(text).await;
    let url = url.map_err(|error| refused_url(NAME, &error))?;
    Ok(url.to_string())
}

/// Checks an https URL that is never fetched here: readers must judge its target themselves.
fn https(name: &str, text: &str) -> Result<String, Problem> {
    let url = Url::parse(text).ok().filter(|url| {
        let plain = url.username().is_empty() && url.password().is_none();
        url.scheme() == "https" && url.has_host() && plain && text.len() <= LONGEST_URL
    });
    let url = url.ok_or_else(|| {
        wrong(
            name,
            format!("must be an https URL of at most {LONGEST_URL} bytes, without a user name"),
        )
    })?;
    Ok(url.to_string())
}

fn misspelt(name: &str) -> impl Fn(HandleError) -> Problem {
    move |error| wrong(name, error.to_string())
}
