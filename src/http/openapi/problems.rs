//! The errors in the description: which an operation can answer, and how each looks.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use uuid::Uuid;

use super::super::body::BodyRule;
use super::super::error::{Code, Problem};
use super::super::operation::Operation;
use super::super::schema::{count, list, object, one_of, put, text, uuid};

/// What any request can meet, whatever it asks for.
pub(super) const ANY: [Code; 10] = [
    Code::InvalidRequest,
    Code::Unauthorized,
    Code::Forbidden,
    Code::RequestTimeout,
    Code::PayloadTooLarge,
    Code::RateLimited,
    Code::Internal,
    Code::OriginalLost,
    Code::LoopDetected,
    Code::Unavailable,
];

/// All errors that an operation can answer, each once.
pub(in crate::http) fn codes(operation: &Operation) -> Vec<Code> {
    let mut codes = ANY.to_vec();
    let mut add = |condition: bool, code: Code| {
        if condition && !codes.contains(&code) {
            codes.push(code);
        }
    };
    add(operation.body() != BodyRule::None, Code::UnsupportedMediaType);
    add(operation.path.contains('{'), Code::NotFound);
    add(operation.need.once, Code::Conflict);
    add(operation.need.feature.is_some(), Code::FeatureRequired);
    add(operation.linked.is_some(), Code::LinkExpired);
    for code in operation.fails {
        add(true, *code);
    }
    codes
}

/// The answers of these codes: references to the components below.
pub(super) fn answers(codes: &[Code]) -> BTreeMap<String, Value> {
    let answer = |place: String| {
        let reference = json!({ "$ref": format!("#/components/responses/{place}") });
        (place, reference)
    };
    codes.iter().map(|code| answer(place(*code))).collect()
}

/// What any request can meet is said once for all statuses of its class.
fn place(code: Code) -> String {
    let status = code.status();
    match (ANY.contains(&code), status.is_client_error()) {
        (true, true) => "4XX".to_owned(),
        (true, false) => "5XX".to_owned(),
        (false, _) => status.as_u16().to_string(),
    }
}

/// One answer for each place, with an example for each code; a status that is a place of its own has
/// all codes of that status.
pub(super) fn components() -> BTreeMap<String, Value> {
    let places: BTreeSet<String> = Code::ALL.iter().map(|code| place(*code)).collect();
    let all = |name: String| {
        let has = |code: &&Code| place(**code) == name || code.status().as_str() == name;
        let codes: Vec<Code> = Code::ALL.iter().filter(has).copied().collect();
        (name, component(&codes))
    };
    places.into_iter().map(all).collect()
}

/// A code as the body of an error.
pub(super) fn example(code: Code) -> Value {
    Problem::new(code, about(code)).body(Uuid::nil())
}

fn component(codes: &[Code]) -> Value {
    let body = |code: &Code| {
        json!({
            "summary": about(*code),
            "value": example(*code),
        })
    };
    let examples: BTreeMap<&str, Value> =
        codes.iter().map(|code| (code.as_str(), body(code))).collect();
    let words: Vec<&str> = codes.iter().map(|code| about(*code)).collect();
    let mut headers = json!({ "X-Request-Id": { "$ref": "#/components/headers/X-Request-Id" } });
    if codes.iter().any(|code| matches!(code, Code::RateLimited | Code::Unavailable)) {
        let reference = json!({ "$ref": "#/components/headers/Retry-After" });
        put(&mut headers, "Retry-After", reference);
    }
    json!({
        "description": words.join(" "),
        "headers": headers,
        "content": { "application/problem+json": {
            "schema": { "$ref": "#/components/schemas/Problem" },
            "examples": examples,
        } },
    })
}

/// The shape of every error.
pub(super) fn shapes() -> Vec<(String, Value)> {
    let codes: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    let mistake = object(
        "A mistake in what was sent, or in what would be published.",
        vec![
            ("pointer", text("Where it is, as a JSON Pointer (RFC 6901).")),
            ("detail", text("What to do about it.")),
        ],
    );
    let fields = vec![
        ("type", text("Always about:blank: the status and code say what it is (RFC 9457).")),
        ("title", text("What kind of error, in a few words.")),
        ("status", count("The HTTP status once more.")),
        ("detail", text("What is wrong, and what to do.")),
        ("success", json!({ "const": false, "description": "Always false." })),
        ("message", text("The same as detail, as v2 has it.")),
        ("code", one_of("What kind of error, for programs.", &codes)),
        ("requestId", uuid("Of the request, as in X-Request-Id.")),
        ("errors?", list("The mistakes one by one, where there may be several.", mistake)),
    ];
    vec![("Problem".to_owned(), object("An error.", fields))]
}

/// What each code means to whoever reads it.
pub(super) const fn about(code: Code) -> &'static str {
    match code {
        Code::InvalidRequest => {
            "The request is malformed or contradicts itself: detail says where."
        }
        Code::Unauthorized => "The key is missing, unknown, revoked, or of an inactive account.",
        Code::Forbidden => "Outside the reach of the key, whether it exists or not.",
        Code::FeatureRequired => "The target does not have the feature that this needs.",
        Code::NotFound => "Nothing of this kind and name is in the target's scope.",
        Code::MailRefused => {
            "Nobody here takes this mail, nor will: the provider is told not to retry."
        }
        Code::MethodNotAllowed => "This path does not take this method.",
        Code::RequestTimeout => "The body did not come in time.",
        Code::Conflict => {
            "The state of the target does not allow it, or the Idempotency-Key was used for something \
             else."
        }
        Code::PayloadTooLarge => "The body is longer than may be.",
        Code::UnsupportedMediaType => "The body is not plain application/json.",
        Code::LinkExpired => "The time of the signed link is over.",
        Code::RangeNotSatisfiable => "Nothing of the file lies where the request asks for it.",
        Code::RateLimited => "Too many requests: Retry-After says when to go on.",
        Code::Internal => "A mistake of ours, which was logged.",
        Code::OriginalLost => "The original of the message is missing, or damaged.",
        Code::LoopDetected => "A webhook or a relay leads back to this gateway.",
        Code::Unavailable => "The store is down, or too much is under way: try again later.",
    }
}
