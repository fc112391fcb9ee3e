//! Compares records word for word: the evidence of the fixtures with `golden = true`, one of each
//! kind of step, result, answer and remark, in `fixtures/records.json`.

use std::collections::BTreeMap;

use gatepost::testkit::case::Case;
use gatepost::testkit::golden;
use serde_json::{Value, json};

#[derive(Default)]
pub struct Goldens {
    found: BTreeMap<String, Value>,
}

impl Goldens {
    /// Notes the record of a fixture, and what its message shows, if this is one of those.
    pub fn note(&mut self, case: &Case, record: &Value, messages: &[Value]) {
        if !case.script.golden {
            return;
        }
        let message = messages.iter().find(|message| message["uuid"] == record["messageUuid"]);
        let metadata = message.map_or(&Value::Null, |message| &message["metadata"]);
        let mut found = json!({
            "explanation": record["explanation"], "advice": record["advice"],
            "steps": record["steps"], "authentication": metadata["authentication"],
            "findings": metadata["findings"], "emailAutomation": metadata["emailAutomation"],
        });
        timeless(&mut found);
        self.found.insert(case.name.clone(), found);
    }

    /// All of them are as they should be.
    pub fn finish(self) {
        let lines: Vec<_> =
            self.found.iter().map(|(name, shown)| format!("{}:{shown}", json!(name))).collect();
        let text = format!("{{\n{}\n}}\n", lines.join(",\n"));
        golden::hold("fixtures/records.json", text.as_bytes()).unwrap();
    }
}

/// Without what is another one each time.
fn timeless(shown: &mut Value) {
    match shown {
        Value::Array(values) => values.iter_mut().for_each(timeless),
        Value::Object(fields) => {
            for (name, value) in fields {
                match name.as_str() {
                    "micros" | "ttl" if value.is_number() => *value = json!(0),
                    "arrived" => *value = json!(""),
                    _ => timeless(value),
                }
            }
        }
        _ => {}
    }
}
