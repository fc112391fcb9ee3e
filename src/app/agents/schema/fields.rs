//! The table of fields. `type` to `apps` follow the published schema of the interface, the rest
//! what newer clients send. Ranges are wide: the consumer of a number knows better.

use super::Preset::{Empty, Flag as Yes, Null, Text as Words, Whole as Number};
use super::Shape::{Account, Either, Flag, Line, List, Object, Open, Text, Whole, Word};
use super::{Field, Preset, Shape};

/// A day: no wait within a conversation is longer.
const SECONDS: Shape = Whole(0, 86_400);
const MILLIS: Shape = Whole(0, 86_400_000);
/// A count or a factor.
const TIMES: Shape = Whole(0, 1000);
/// A SIP response other than success (RFC 3261 §7.2).
const SIP_REFUSAL: Shape = Whole(300, 699);

/// Fields that consumers of a configuration calculate; never set.
pub const CALCULATED: &[&str] =
    &["allowed", "reason", "missingRequirement", "activeEventRules", "effectiveReportingFields"];

const fn within(
    name: &'static str,
    about: &'static str,
    shape: Shape,
    needed: bool,
    preset: Preset,
) -> Field {
    Field { name, about, shape, preset, needed, example: "" }
}

const AUDIO: &[Field] = &[
    within("url", "URL of the sound.", Text, true, Null),
    within("loop", "Whether the sound repeats.", Flag, false, Yes(true)),
    within("gain", "How much louder the sound is.", Whole(-100, 100), false, Number(0)),
    within("startAfterGreeting", "Whether it starts after the greeting.", Flag, false, Yes(true)),
    within("track", "Track of the sound.", Word(&["bg", "fx"]), false, Null),
];

const ACTION: &[Field] = &[
    within("name", "Name of the action.", Line, true, Null),
    within("instructions", "When and how to take the action.", Text, false, Null),
];

const APP: &[Field] = &[
    Field { example: "crm", ..within("appId", "The app.", Line, true, Null) },
    Field { example: "v1", ..within("version", "Version of the app.", Line, true, Null) },
    within("instructions", "When and how to use the app.", Text, true, Null),
    within("enabled", "Whether the app is used.", Flag, false, Yes(true)),
];

const KINDS: &[&str] = &["boolean", "choices", "number", "text"];

const VALUES: &[Field] = &[
    within("kind", "Kind of the values.", Word(KINDS), true, Null),
    within("choices", "The choices, if the values are such.", List(&Text), false, Null),
];

const REPORTING: &[Field] = &[
    within("key", "Name of the value in data.", Line, true, Null),
    within("label", "Name of the value for people.", Line, false, Null),
    within("instructions", "How to find the value.", Text, false, Null),
    within("values", "Values that are possible.", Object(VALUES), false, Null),
];

/// Rows: description, name, shape, default, `needed` if publishing needs the field, example.
macro_rules! fields {
    ($(#[doc = $about:literal] $name:literal: $shape:expr, $preset:expr $(, $needed:ident)?
       $(=> $example:literal)?;)*) => {
        /// The fields of a configuration.
        pub const FIELDS: &[Field] = &[$(Field {
            name: $name,
            about: $about.trim_ascii(),
            shape: $shape,
            preset: $preset,
            needed: false $(|| fields!(@ $needed))?,
            example: concat!($($example)?),
        },)*];
    };
    (@ needed) => { true };
}

fields! {
    /// Kind of Agent; needed to publish.
    "type": Word(&["chatAgent"]), Null, needed;
    /// Name of the Agent; needed to publish.
    "title": Line, Null, needed => "Call Screener";
    /// Purpose of the Agent; needed to publish.
    "description": Text, Null, needed => "Answers the phone.";
    /// First words of the Agent.
    "welcomeMessage": Text, Null => "Hello!";
    /// Pages that the Agent knows.
    "links": List(&Text), Empty => "https://service.example/faq";
    /// Actions that the Agent may take: names, or names with instructions.
    "actions": List(&Either(&Line, &Object(ACTION))), Empty => "transfer";
    /// Time zone of the Agent.
    "timezone": Line, Null => "UTC";
    /// Voice of the Agent.
    "agentVoice": Line, Null => "en-US Female";
    /// Language of the Agent.
    "agentLang": Word(&["en-US", "multi", "es-MX", "es-ES", "es-US"]), Words("en-US");
    /// Instructions for the Agent.
    "agentInstructions": Text, Null;
    /// Model that answers.
    "agentModel": Line, Null;
    /// How much the Agent thinks.
    "agentThinking": Word(&["low"]), Null;
    /// Model that thinks.
    "agentThinkingModel": Line, Null;
    /// Whether the Agent always thinks after a conversation.
    "postConvoForceThinking": Flag, Yes(false);
    /// Engine that turns speech into speech.
    "agentS2SEngine": Word(&["openai", "gemini"]), Null;
    /// Engine that turns speech into text.
    "agentSttEngine": Word(&["google", "deepgram", "deepgramflux", "openai"]), Words("deepgram");
    /// Whether the text of speech is formatted.
    "agentSttSmartFormatting": Flag, Yes(true);
    /// Tones to send after a call is answered.
    "postAnswerDtmf": Text, Null;
    /// Wait after a call is answered, in seconds.
    "waitOnAnswer": SECONDS, Null;
    /// Sound in the background: its URL, alone or with settings.
    "backgroundAudio": Either(&Text, &Object(AUDIO)), Null => "https://service.example/sea.mp3";
    /// Words after which a caller interrupts the Agent.
    "interruptionWordCount": TIMES, Number(3);
    /// Speech after which a caller interrupts the Agent, in seconds.
    "interruptionMinimumSpeakingTime": SECONDS, Number(3);
    /// Silence that ends a turn to speak, in milliseconds.
    "speakingTimeout": MILLIS, Number(1200);
    /// Delay before speech is processed, in milliseconds.
    "speechProcessingDelay": MILLIS, Number(500);
    /// Time that each interruption adds to this delay, in milliseconds.
    "speechProcessingDelayInterruptionStep": MILLIS, Number(500);
    /// How many times as long this delay becomes at most.
    "speechProcessingDelayMaxMultiplier": TIMES, Number(4);
    /// Wait for the caller to speak, in seconds.
    "callerResponseTimeout": SECONDS, Number(13);
    /// Number of these waits after which the Agent hangs up.
    "callerResponseTimeoutHangupCounter": TIMES, Number(3);
    /// Whether the Agent is told nothing about the contact.
    "noContactInjection": Flag, Yes(false);
    /// Whether the Agent is told nothing about earlier conversations.
    "noConvoHistory": Flag, Yes(false);
    /// Whether the Agent announces that a call is recorded: "true" or "false".
    "autoRecordingNotification": Text, Words("true");
    /// Words of this announcement.
    "recordingNotificationPhrase": Text, Words("This call is being recorded.");
    /// Ringing before a call is answered, in seconds.
    "preAnswerRingTime": SECONDS, Null;
    /// Whether results that came during the ringing are skipped.
    "preAnswerSkipProcessingResults": Flag, Yes(false);
    /// Regular expression for names of callers to reject.
    "cnamAutoRejectRegex": Text, Null;
    /// SIP status for callers that are rejected.
    "cnamAutoRejectCode": SIP_REFUSAL, Number(603);
    /// Regular expression for names of callers to transfer.
    "cnamAutoTransferRegex": Text, Null;
    /// Destination of these callers.
    "cnamAutoTransferDestination": Text, Null;
    /// Whether transfers are confirmed first.
    "confirmTransfers": Flag, Yes(false);
    /// Whether transfers are monitored.
    "monitorTransfers": Flag, Yes(false);
    /// Whether transfers are attended.
    "attendedTransfers": Flag, Yes(false);
    /// Trigger that joins both sides of an attended transfer.
    "attendedTransferBridgeTrigger": Text, Null;
    /// Wait for a transfer to be confirmed, in seconds.
    "transferConfirmTimeout": SECONDS, Number(30);
    /// Apps that the Agent uses; install each on the Agent first.
    "apps": List(&Object(APP)), Empty;
    /// Task that the Agent does from time to time.
    "heartbeatInstructions": Text, Null;
    /// Time between these tasks.
    "heartbeatEvery": Either(&Line, &Whole(0, 31_536_000)), Null => "1h";
    /// More settings of these tasks.
    "heartbeatConfig": Open, Null;
    /// Skills of the Agent: names, or objects with more about each.
    "skills": List(&Either(&Line, &Open)), Empty;
    /// Agent to hand work to; the caller must reach this Agent, too.
    "computerDelegateAccountId": Account, Null;
    /// Values to report of each conversation.
    "reportingFields": List(&Object(REPORTING)), Empty;
}
