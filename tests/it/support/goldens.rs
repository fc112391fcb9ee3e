//! Compares records word for word: the evidence of some fixtures, one of each kind of step, result,
//! answer and remark, in `fixtures/records.json`. `GATEPOST_BLESS=1` writes it anew; what changed is then
//! for the reader of the difference.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

pub struct Goldens {
    expected: BTreeMap<String, Value>,
    found: BTreeMap<String, Value>,
}

impl Goldens {
    pub fn read() -> Self {
        let text = std::fs::read_to_string(file()).unwrap();
        Self { expected: serde_json::from_str(&text).unwrap(), found: BTreeMap::new() }
    }

    /// Notes the record of a fixture, and what its message shows, if this is one of those.
    pub fn compare(&mut self, name: &str, record: &Value, messages: &[Value]) {
        if !self.expected.contains_key(name) {
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
        self.found.insert(name.to_owned(), found);
    }

    /// All of them were seen, as they should be.
    pub fn finish(self) {
        if std::env::var_os("GATEPOST_BLESS").is_some() {
            let lines: Vec<_> =
                self.found.iter().map(|(name, shown)| format!("{}:{shown}", json!(name))).collect();
            std::fs::write(file(), format!("{{\n{}\n}}\n", lines.join(",\n"))).unwrap();
            return;
        }
        for (name, expected) in &self.expected {
            assert_eq!(self.found.get(name), Some(expected), "{name}");
        }
    }
}

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/records.json")
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
