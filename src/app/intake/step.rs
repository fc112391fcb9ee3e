//! One step of the evidence. All steps have one shape, those of `verify` too, so that a reader of
//! `GET /email/intake/{id}` finds the same fields in each (contract §4).

use std::time::Instant;

use serde_json::{Value, json};

/// `{name, result, detail, inputs, dns, micros}` of a step that asks no DNS; `inputs` is an object.
pub(super) fn step(name: &str, result: &str, detail: &str, inputs: Value, began: Instant) -> Value {
    json!({
        "name": name,
        "result": result,
        "detail": detail,
        "inputs": inputs,
        "dns": [],
        "micros": u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX),
    })
}
