//! Errors in the description: those of each operation, with their shape.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use uuid::Uuid;

use crate::http::error::{Code, Problem};
use crate::http::operation::Operation;
use crate::http::request::body::BodyRule;
use crate::http::typed::schema::put;

/// Errors that any request can get.
pub(super) const ANY: &[Code] = &[
    Code::InvalidRequest,
    Code::Unauthorized,
    Code::Forbidden,
    Code::FeatureRequired,
    Code::RequestTimeout,
    Code::PayloadTooLarge,
    Code::RateLimited,
    Code::Internal,
    Code::OriginalLost,
    Code::LoopDetected,
    Code::Unavailable,
];

/// All errors of an operation, each once.
pub(in crate::http) fn codes(operation: &Operation) -> Vec<Code> {
    let mut codes = ANY.to_vec();
    let mut add = |condition: bool, code: Code| {
        if condition && !codes.contains(&code) {
            codes.push(code);
        }
    };
    add(operation.form.body != BodyRule::None, Code::UnsupportedMediaType);
    add(operation.path.contains('{'), Code::NotFound);
    add(operation.need.once, Code::Conflict);
    add(operation.linked.is_some(), Code::LinkExpired);
    for code in operation.fails {
        add(true, *code);
    }
    codes
}

/// Responses with these codes, as references to the components below.
pub(super) fn answers(codes: &[Code]) -> BTreeMap<String, Value> {
    let answer = |place: String| {
        let reference = json!({ "$ref": format!("#/components/responses/{place}") });
        (place, reference)
    };
    codes.iter().map(|code| answer(place(*code))).collect()
}

/// The response's name: general errors share one per status class, 4XX or 5XX.
fn place(code: Code) -> String {
    let status = code.status();
    match (ANY.contains(&code), status.is_client_error()) {
        (true, true) => "4XX".to_owned(),
        (true, false) => "5XX".to_owned(),
        (false, _) => status.as_u16().to_string(),
    }
}

/// One response per name, with an example for each code. A response named by a status has all codes
/// of that status.
pub(super) fn components() -> BTreeMap<String, Value> {
    let places: BTreeSet<String> = Code::ALL.iter().map(|code| place(*code)).collect();
    let all = |name: String| {
        let has = |code: &&Code| place(**code) == name || code.status().as_str() == name;
        let codes: Vec<Code> = Code::ALL.iter().filter(has).copied().collect();
        (name, component(&codes))
    };
    places.into_iter().map(all).collect()
}

fn component(codes: &[Code]) -> Value {
    let body = |code: &Code| {
        json!({
            "summary": code.about(),
            "value": Problem::new(*code, code.about()).body(Uuid::nil()),
        })
    };
    let examples: BTreeMap<&str, Value> =
        codes.iter().map(|code| (code.as_str(), body(code))).collect();
    let words: Vec<&str> = codes.iter().map(|code| code.about()).collect();
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
