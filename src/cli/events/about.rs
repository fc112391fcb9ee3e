//! A short summary of an event.

use serde_json::Value;

use crate::cli::plain;

/// Details in a summary: label and JSON Pointer.
const ABOUT: &[(&str, &str)] = &[
    ("from", "/from"),
    ("subject", "/subject"),
    ("room", "/data/roomId"),
    ("contact", "/data/contact/address"),
    ("name", "/data/account/name"),
    ("member", "/data/member/email"),
    ("webhook", "/data/webhook/origin"),
    ("reason", "/data/reason"),
    ("mode", "/data/mode"),
    ("added", "/data/added"),
    ("removed", "/data/removed"),
];

/// Summarises the body of an event.
pub fn about(body: &Value) -> String {
    let told = ABOUT.iter().filter_map(|(label, pointer)| {
        let is = body.pointer(pointer).filter(|is| !is.is_null())?;
        Some(format!("{label} {}", is.as_str().map_or_else(|| is.to_string(), plain::line)))
    });
    told.collect::<Vec<_>>().join(", ")
}
