//! Agents: what each is configured to be. The schema of a configuration is made from the table of
//! its fields (`app/agents/schema`); here are only the words that explain them.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::super::description::Description;
use super::super::error::Code;
use super::super::schema::{
    Fields, count, date, flag, id, id_given, id_text, like, list, object, one_of, or_null, pattern,
    plain, reference, text, texts, with, within, word,
};
use super::super::verb::Verb::{Delete, Get, Post, Put};
use crate::app::agents::schema::{CALCULATED, FIELDS, Field, NAMES, Preset, Shape};
use crate::domain::agent_config::ConfigKind;
use crate::rules::{AccessRules, AgentRules};

const VERSIONS: &str = "/agent/{agentConfigId}/versions";
const VERSION: &str = "/agent/{agentConfigId}/versions/{versionId}";
const RESTORE: &str = "/agent/{agentConfigId}/versions/{versionId}/restore";
const TITLE: &str = "/agent/{agentConfigId}/versions/{versionId}/title";

/// Texts, by the places of fields.
type Words = &'static [(&'static str, &'static str)];

/// What each field of a configuration is, by its name; within another, with a point between them.
/// One without words is found by the test that everything is explained.
const WORDS: Words = &[
    ("type", "What kind of Agent it is; needed to publish."),
    ("title", "What the Agent is called; needed to publish."),
    ("description", "What the Agent is for; needed to publish."),
    ("welcomeMessage", "What it says first."),
    ("links", "Pages that it knows."),
    ("actions", "What it may do: names, or names with instructions."),
    ("actions.name", "What the action is called."),
    ("actions.instructions", "When to do it, and how."),
    ("timezone", "The time zone that it lives in."),
    ("agentVoice", "The voice that it speaks with."),
    ("agentLang", "The language that it speaks."),
    ("agentInstructions", "What it is told to do."),
    ("agentModel", "The model that it answers with."),
    ("agentThinking", "How much it thinks."),
    ("agentThinkingModel", "The model that it thinks with."),
    ("postConvoForceThinking", "Whether it always thinks after a conversation."),
    ("agentS2SEngine", "What turns speech into speech."),
    ("agentSttEngine", "What turns speech into text."),
    ("agentSttSmartFormatting", "Whether that text is formatted."),
    ("postAnswerDtmf", "Tones that are sent once a call is answered."),
    ("waitOnAnswer", "How long it waits once a call is answered, seconds."),
    ("backgroundAudio", "What is heard behind it: where the sound is, alone or with more."),
    ("backgroundAudio.url", "Where the sound is."),
    ("backgroundAudio.loop", "Whether it begins again when it has ended."),
    ("backgroundAudio.gain", "How much louder it is made, or softer."),
    ("backgroundAudio.startAfterGreeting", "Whether it begins after the greeting."),
    ("backgroundAudio.track", "On which track it is."),
    ("interruptionWordCount", "After how many words it lets itself be interrupted."),
    ("interruptionMinimumSpeakingTime", "After how much speech it does, seconds."),
    ("speakingTimeout", "After which silence somebody has finished, milliseconds."),
    ("speechProcessingDelay", "How long it waits before it takes up speech, milliseconds."),
    ("speechProcessingDelayInterruptionStep", "What each interruption adds to it, milliseconds."),
    ("speechProcessingDelayMaxMultiplier", "How many times as long it becomes at most."),
    ("callerResponseTimeout", "How long it waits for the caller to say something, seconds."),
    ("callerResponseTimeoutHangupCounter", "After how many of these waits it hangs up."),
    ("noContactInjection", "Whether it is told nothing of the contact."),
    ("noConvoHistory", "Whether it is told nothing of earlier conversations."),
    ("autoRecordingNotification", "Whether it says that a call is recorded, as a text."),
    ("recordingNotificationPhrase", "The words in which it says so."),
    ("preAnswerRingTime", "How long it lets a call ring, seconds."),
    ("preAnswerSkipProcessingResults", "Whether it passes over what was found while it rang."),
    ("cnamAutoRejectRegex", "Callers whose name this regular expression describes are rejected."),
    ("cnamAutoRejectCode", "The answer of SIP that they are rejected with."),
    ("cnamAutoTransferRegex", "Callers whose name this one describes are passed on."),
    ("cnamAutoTransferDestination", "To where they are passed on."),
    ("confirmTransfers", "Whether a transfer is confirmed first."),
    ("monitorTransfers", "Whether transfers are monitored."),
    ("attendedTransfers", "Whether transfers are attended."),
    ("attendedTransferBridgeTrigger", "What joins both sides of an attended transfer."),
    ("transferConfirmTimeout", "How long it waits for a transfer to be confirmed, seconds."),
    ("apps", "Apps that it uses; each is installed on the Agent first."),
    ("apps.appId", "The app."),
    ("apps.version", "Its version."),
    ("apps.instructions", "When to use it, and how."),
    ("apps.enabled", "Whether it is used."),
    ("heartbeatInstructions", "What it does by itself from time to time."),
    ("heartbeatEvery", "How often it does that."),
    ("heartbeatConfig", "More about that."),
    ("skills", "What it has learnt: names, or more about each."),
    ("computerDelegateAccountId", "The Agent that it hands work to; the caller reaches it, too."),
    ("reportingFields", "What is reported of each conversation."),
    ("reportingFields.key", "What it is called in data."),
    ("reportingFields.label", "What it is called where people read it."),
    ("reportingFields.instructions", "How it is found."),
    ("reportingFields.values", "What values it may have."),
    ("reportingFields.values.kind", "Of which kind they are."),
    ("reportingFields.values.choices", "The values, where they are choices."),
];

/// Better examples than any text.
const EXAMPLES: Words = &[
    ("title", "Call Screener"),
    ("description", "Answers the phone."),
    ("welcomeMessage", "Hello!"),
    ("links", "https://service.example/faq"),
    ("actions", "transfer"),
    ("timezone", "UTC"),
    ("agentVoice", "en-US Female"),
    ("backgroundAudio", "https://service.example/sea.mp3"),
    ("apps.appId", "crm"),
    ("apps.version", "v1"),
    ("heartbeatEvery", "1h"),
];

/// What the body of a change may name, each as it is described: none must be there.
static STAGED: LazyLock<Vec<String>> =
    LazyLock::new(|| NAMES.iter().map(|name| format!("{name}?")).collect());

/// What the area offers.
pub(super) fn operations(rules: &AccessRules) -> Vec<Description> {
    [staging(rules), reading(), versions(rules), version(rules)].concat()
}

/// The shapes that it shows more than once.
pub(super) fn shapes() -> Vec<(&'static str, Value)> {
    let about = "A configuration: all its fields, as they were set, else their defaults.";
    vec![("AgentConfig", object(about, shown()))]
}

fn staging(rules: &AccessRules) -> Vec<Description> {
    let revision = || vec![("revision?", count("Only if staging has it."))];
    let mut published = changed("Of what is live.");
    published.push(("previousVersionId", previous()));
    vec![
        Description::of(Post, "/agent", "Changes what is staged for an Agent")
            .about(
                "What is not sent keeps its value, null takes it away, a list is replaced. All \
                 mistakes are told at once, each with its place. Nothing of it counts before it is \
                 published. The fields are for whoever runs the Agent: here they are kept.",
            )
            .body(staged(&rules.agents))
            .sent(json!({
                "type": "chatAgent", "title": "Call Screener", "description": "Answers the phone.",
                "links": ["https://service.example/faq"], "timezone": null,
            }))
            .answer(200, "staging saved", changed("Of staging."))
            .fails(&[Code::NotFound, Code::Conflict]),
        Description::of(Post, "/agent/publish", "Publishes what is staged for an Agent")
            .about(
                "409 with all that is missing, if something is. What was live is kept as a \
                 version.",
            )
            .body(revision())
            .answer(200, "staging published", published)
            .fails(&[Code::NotFound, Code::Conflict]),
        Description::of(Post, "/agent/revert", "Makes what is staged what is live")
            .body(revision())
            .answer(200, "staging is what was published", changed("Of staging."))
            .fails(&[Code::NotFound, Code::Conflict]),
    ]
}

/// What a change came to.
fn changed(revision: &str) -> Fields {
    vec![
        ("campaignId", config_id("Of the live configuration.")),
        ("revision", count(revision)),
        ("changed", like(texts("The fields that are others now."), json!(["title"]))),
    ]
}

fn previous() -> Value {
    or_null(version_id("The version that what was live is kept as; null if nothing was replaced."))
}

fn reading() -> Vec<Description> {
    let fields = || {
        let (rules, about) =
            (or_null(reference("AgentConfig")), "What is set; null if nothing is.");
        vec![
            ("agentEventRules", with(rules, "description", about.into())),
            ("campaignId", or_null(config_id("Of the live configuration, also before it is set."))),
            ("agentConfigId", or_null(config_id("Of this one."))),
            ("revision", count("Grows with each change; 0 before the first.")),
            ("updatedAt", or_null(date("When it was changed last."))),
        ]
    };
    let mut whole = vec![
        ("id", config_id("Of the configuration.")),
        ("accountId", id("The Agent.")),
        ("kind", kind("Which of the Agent's two it is: what is staged, or what is live.")),
        ("revision", count("Grows with each change.")),
        ("updatedAt", date("When it was changed last.")),
    ];
    whole.extend(shown());
    vec![
        Description::of(Get, "/agentEventRules/staging", "Shows what is staged for an Agent")
            .answer(200, "staging found", fields()),
        Description::of(Get, "/agentEventRules/default", "Shows what is live of an Agent").answer(
            200,
            "live configuration found",
            fields(),
        ),
        Description::of(Get, "/agent/{agentConfigId}", "Shows a configuration by its id")
            .path(vec![("agentConfigId", config_id("What is staged for the Agent, or live."))])
            .answer(
                200,
                "configuration found",
                vec![("sponsorship", object("The configuration.", whole))],
            )
            .fails(&[Code::NotFound]),
    ]
}

fn versions(rules: &AccessRules) -> Vec<Description> {
    let path = || vec![("agentConfigId", config_id("The Agent's live configuration."))];
    let one = vec![
        ("title", like(text("What it is called."), "Holiday-2025")),
        ("versionId", version_id("The version.")),
        ("automatic", like(flag("Whether publishing made it; later ones replace it."), false)),
        ("createdAt", date("When it was made.")),
        ("snapshot?", reference("AgentConfig")),
    ];
    let made = vec![
        ("title", like(text("What it is called."), "Holiday-2025")),
        ("versionId", version_id("The version.")),
    ];
    let older = like(id_text("Only versions that are older than this one."), "1750195000123");
    vec![
        Description::of(Get, VERSIONS, "Lists the versions of an Agent")
            .path(path())
            .query(vec![
                ("includeData?", one_of("Whether to show what they hold.", &["true", "false"])),
                (
                    "limit?",
                    within("How many at most; all without it.", 1..=rules.limits.max_page.into()),
                ),
                ("before?", older),
            ])
            .answer(
                200,
                "versions found",
                vec![
                    ("versions", list("The newest first.", object("A version.", one))),
                    ("next", or_null(version_id("Go on before it; null if that were all."))),
                ],
            )
            .fails(&[Code::NotFound]),
        Description::of(Post, VERSIONS, "Keeps what is staged, or what is live, as a version")
            .path(path())
            .body(vec![
                ("title", title(&rules.agents)),
                ("source?", kind("What to keep; without it what is staged.")),
            ])
            .answer(201, "version created", vec![("createdVersion", object("The version.", made))])
            .fails(&[Code::NotFound, Code::Conflict]),
    ]
}

fn version(rules: &AccessRules) -> Vec<Description> {
    let path = || {
        let version = like(id_text("The version."), "1750195000123");
        let live = config_id("The Agent's live configuration.");
        vec![("agentConfigId", live), ("versionId", version)]
    };
    let which = || ("versionId", version_id("The version."));
    let restored = vec![
        which(),
        ("title", like(text("What it is called."), "Holiday-2025")),
        ("target", kind("What was written.")),
        ("agentConfigId", config_id("Of what was written.")),
        ("revision", count("Of what was written.")),
        ("changed", like(texts("The fields that are others now."), json!(["title"]))),
        ("previousVersionId", previous()),
    ];
    vec![
        Description::of(Post, VERSION, "Replaces what a version holds")
            .path(path())
            .body(vec![("snapshot", snapshot(&rules.agents))])
            .sent(json!({ "snapshot": { "type": "chatAgent", "title": "Call Screener" } }))
            .answer(200, "version replaced", vec![which()])
            .fails(&[Code::NotFound]),
        Description::of(Delete, VERSION, "Deletes a version")
            .path(path())
            .answer(200, "version deleted", vec![which()])
            .fails(&[Code::NotFound]),
        Description::of(Post, RESTORE, "Makes staging, or what is live, what a version holds")
            .about("In default it is in force at once, and what was live is kept as a version.")
            .path(path())
            .body(vec![("target?", kind("What to write; without it what is staged."))])
            .answer(
                200,
                "version restored",
                vec![("restored", object("What was restored.", restored))],
            )
            .fails(&[Code::NotFound, Code::Conflict]),
        Description::of(Put, TITLE, "Gives a version another title")
            .about("One that publishing made is then one that somebody keeps.")
            .path(path())
            .body(vec![("title", title(&rules.agents))])
            .answer(
                200,
                "version renamed",
                vec![which(), ("newTitle", like(text("What it is called now."), "Holiday-2025"))],
            )
            .fails(&[Code::NotFound, Code::Conflict]),
    ]
}

fn config_id(about: &str) -> Value {
    pattern(about, "^camp[0-9a-f]{32}$", "camp019a9e5c7c8070008000000000000001")
}

fn version_id(about: &str) -> Value {
    like(id(about), 1_750_195_000_123_i64)
}

fn kind(about: &str) -> Value {
    word(about, ConfigKind::ALL, ConfigKind::as_str)
}

fn title(rules: &AgentRules) -> Value {
    like(bounded(text("What to call it: one line."), rules), "Holiday-2025")
}

/// A line of at most so many octets has no more characters than these.
fn bounded(line: Value, rules: &AgentRules) -> Value {
    with(with(line, "minLength", json!(1)), "maxLength", json!(rules.max_title_bytes))
}

/// The fields of a change.
fn staged(rules: &AgentRules) -> Fields {
    STAGED.iter().map(|name| (name.as_str(), named(plain(name), rules))).collect()
}

fn named(name: &str, rules: &AgentRules) -> Value {
    if let Some(one) = FIELDS.iter().find(|one| one.name == name) {
        return field(one, name, Some(rules), true);
    }
    match name {
        "revision" => count("Only if staging has it."),
        name if CALCULATED.contains(&name) => {
            json!({ "not": {}, "description": "Is calculated, and refused: leave it out." })
        }
        // Explained by nobody: a test says so.
        _ => json!({}),
    }
}

/// A whole configuration, sent.
fn snapshot(rules: &AgentRules) -> Value {
    let one = |one: &Field| (one.name.to_owned(), field(one, one.name, Some(rules), true));
    let properties: Map<String, Value> = FIELDS.iter().map(one).collect();
    json!({
        "type": "object", "properties": properties, "additionalProperties": false,
        "description": "The fields of a configuration; those that are not sent have no value.",
    })
}

/// A whole configuration, as answers show it.
fn shown() -> Fields {
    let one = |one: &Field| {
        let is_nullable = matches!(one.preset, Preset::Null);
        (one.name, field(one, one.name, None, is_nullable))
    };
    FIELDS.iter().map(one).collect()
}

/// The value of a field that stands at `at`; of one that is sent, with the bounds of the rules.
fn field(field: &Field, at: &str, rules: Option<&AgentRules>, is_nullable: bool) -> Value {
    let schema = with(shape(field.shape, at, rules), "description", found(WORDS, at).into());
    let schema = if is_nullable { or_null(schema) } else { schema };
    let preset = field.preset.value();
    match field.preset {
        Preset::Null => schema,
        Preset::Empty => with(schema, "default", preset),
        _ => with(like(schema, preset.clone()), "default", preset),
    }
}

fn shape(one: Shape, at: &str, rules: Option<&AgentRules>) -> Value {
    match one {
        Shape::Line | Shape::Text => {
            let schema = json!({ "type": "string" });
            let schema = match found(EXAMPLES, at) {
                "" => schema,
                example => like(schema, example),
            };
            match (one, rules) {
                (Shape::Line, Some(rules)) => bounded(schema, rules),
                _ => schema,
            }
        }
        Shape::Word(words) => json!({ "type": "string", "enum": words }),
        Shape::Whole(low, high) => json!({ "type": "integer", "minimum": low, "maximum": high }),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Account => id_given("The id of an account."),
        Shape::List(items) => {
            let list = json!({ "type": "array", "items": shape(*items, at, rules) });
            match rules {
                Some(rules) => with(list, "maxItems", json!(rules.max_items)),
                None => list,
            }
        }
        Shape::Object(fields) => of_fields(fields, at, rules),
        Shape::Open => json!({ "type": "object", "additionalProperties": true }),
        Shape::Either(one, other) => {
            json!({ "anyOf": [shape(*one, at, rules), shape(*other, at, rules)] })
        }
    }
}

/// An object within a configuration.
fn of_fields(fields: &[Field], at: &str, rules: Option<&AgentRules>) -> Value {
    let one = |one: &Field| {
        let schema = field(one, &format!("{at}.{}", one.name), rules, !one.needed);
        (one.name.to_owned(), schema)
    };
    let properties: Map<String, Value> = fields.iter().map(one).collect();
    let required: Vec<&str> = fields.iter().filter(|one| one.needed).map(|one| one.name).collect();
    json!({
        "type": "object", "properties": properties, "required": required,
        "additionalProperties": false,
    })
}

/// What a list says of a place; nothing of one that it does not have.
fn found(words: Words, at: &str) -> &'static str {
    words.iter().find(|(name, _)| *name == at).map_or("", |(_, text)| *text)
}
