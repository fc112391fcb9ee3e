//! The table of fields: what is publicly known of the interface's (`type` to `apps` as its schema
//! has them, the rest as newer clients send them). Ranges are wide: what uses a number knows better.

use super::Preset::{Empty, Flag as Yes, Null, Text as Words, Whole as Number};
use super::Shape::{Account, Either, Flag, Line, List, Object, Open, Text, Whole, Word};
use super::{Field, Preset, Shape};

/// A day: no wait within a conversation is longer.
const SECONDS: Shape = Whole(0, 86_400);
const MILLIS: Shape = Whole(0, 86_400_000);
/// How often, or how many times as long.
const TIMES: Shape = Whole(0, 1000);
/// An answer of SIP that is none of success (RFC 3261 §7.2).
const SIP_REFUSAL: Shape = Whole(300, 699);

/// Calculated by what uses a configuration, and never set.
pub const CALCULATED: &[&str] =
    &["allowed", "reason", "missingRequirement", "activeEventRules", "effectiveReportingFields"];

const fn within(name: &'static str, shape: Shape, needed: bool, preset: Preset) -> Field {
    Field { name, shape, preset, needed }
}

const AUDIO: &[Field] = &[
    within("url", Text, true, Null),
    within("loop", Flag, false, Yes(true)),
    within("gain", Whole(-100, 100), false, Number(0)),
    within("startAfterGreeting", Flag, false, Yes(true)),
    within("track", Word(&["bg", "fx"]), false, Null),
];

const ACTION: &[Field] =
    &[within("name", Line, true, Null), within("instructions", Text, false, Null)];

const APP: &[Field] = &[
    within("appId", Line, true, Null),
    within("version", Line, true, Null),
    within("instructions", Text, true, Null),
    within("enabled", Flag, false, Yes(true)),
];

const VALUES: &[Field] = &[
    within("kind", Word(&["boolean", "choices", "number", "text"]), true, Null),
    within("choices", List(&Text), false, Null),
];

const REPORTING: &[Field] = &[
    within("key", Line, true, Null),
    within("label", Line, false, Null),
    within("instructions", Text, false, Null),
    within("values", Object(VALUES), false, Null),
];

/// One table for what is read by name and what a body may name.
macro_rules! fields {
    ($($name:literal: $shape:expr, $preset:expr $(, $needed:ident)?;)*) => {
        /// The fields of a configuration.
        pub const FIELDS: &[Field] = &[$(Field {
            name: $name,
            shape: $shape,
            preset: $preset,
            needed: false $(|| fields!(@ $needed))?,
        },)*];

        /// What the body of a change may name: the fields; those that are calculated, to say so; and
        /// the revision that the change was made for.
        pub const NAMES: &[&str] = &[
            $($name,)* "allowed", "reason", "missingRequirement", "activeEventRules",
            "effectiveReportingFields", "revision",
        ];
    };
    (@ needed) => { true };
}

fields! {
    "type": Word(&["chatAgent"]), Null, needed;
    "title": Line, Null, needed;
    "description": Text, Null, needed;
    "welcomeMessage": Text, Null;
    "links": List(&Text), Empty;
    "actions": List(&Either(&Line, &Object(ACTION))), Empty;
    "timezone": Line, Null;
    "agentVoice": Line, Null;
    "agentLang": Word(&["en-US", "multi", "es-MX", "es-ES", "es-US"]), Words("en-US");
    "agentInstructions": Text, Null;
    "agentModel": Line, Null;
    "agentThinking": Word(&["low"]), Null;
    "agentThinkingModel": Line, Null;
    "postConvoForceThinking": Flag, Yes(false);
    "agentS2SEngine": Word(&["openai", "gemini"]), Null;
    "agentSttEngine": Word(&["google", "deepgram", "deepgramflux", "openai"]), Words("deepgram");
    "agentSttSmartFormatting": Flag, Yes(true);
    "postAnswerDtmf": Text, Null;
    "waitOnAnswer": SECONDS, Null;
    "backgroundAudio": Either(&Text, &Object(AUDIO)), Null;
    "interruptionWordCount": TIMES, Number(3);
    "interruptionMinimumSpeakingTime": SECONDS, Number(3);
    "speakingTimeout": MILLIS, Number(1200);
    "speechProcessingDelay": MILLIS, Number(500);
    "speechProcessingDelayInterruptionStep": MILLIS, Number(500);
    "speechProcessingDelayMaxMultiplier": TIMES, Number(4);
    "callerResponseTimeout": SECONDS, Number(13);
    "callerResponseTimeoutHangupCounter": TIMES, Number(3);
    "noContactInjection": Flag, Yes(false);
    "noConvoHistory": Flag, Yes(false);
    "autoRecordingNotification": Text, Words("true");
    "recordingNotificationPhrase": Text, Words("This call is being recorded.");
    "preAnswerRingTime": SECONDS, Null;
    "preAnswerSkipProcessingResults": Flag, Yes(false);
    "cnamAutoRejectRegex": Text, Null;
    "cnamAutoRejectCode": SIP_REFUSAL, Number(603);
    "cnamAutoTransferRegex": Text, Null;
    "cnamAutoTransferDestination": Text, Null;
    "confirmTransfers": Flag, Yes(false);
    "monitorTransfers": Flag, Yes(false);
    "attendedTransfers": Flag, Yes(false);
    "attendedTransferBridgeTrigger": Text, Null;
    "transferConfirmTimeout": SECONDS, Number(30);
    "apps": List(&Object(APP)), Empty;
    "heartbeatInstructions": Text, Null;
    "heartbeatEvery": Either(&Line, &Whole(0, 31_536_000)), Null;
    "heartbeatConfig": Open, Null;
    "skills": List(&Either(&Line, &Open)), Empty;
    "computerDelegateAccountId": Account, Null;
    "reportingFields": List(&Object(REPORTING)), Empty;
}
