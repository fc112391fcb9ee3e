//! The configuration of a computer: one table of settings. The table makes the schema for clients
//! (JSON Schema 2020-12), the check of what they write, and the effective values.
//!
//! The bounds are part of the interface, since the schema shows them: no operator changes them.

use serde_json::{Map, Value, json};

use crate::domain::event::{About, Category, EventName};
use crate::domain::fault::{Fault, join};

/// Bytes of a configuration as JSON: the cost of each read.
pub(super) const LONGEST: usize = 65_536;
/// Faults that one error lists.
const MOST_FAULTS: usize = 20;

struct Setting {
    name: &'static str,
    about: &'static str,
    kind: Kind,
}

enum Kind {
    Text {
        most: usize,
    },
    Number {
        least: i64,
        most: i64,
        otherwise: i64,
    },
    /// Names of events about messages.
    Events,
    /// An object of texts.
    Texts {
        entries: usize,
        most: usize,
        secret: bool,
    },
}

const SETTINGS: &[Setting] = &[
    Setting {
        name: "instructions",
        about: "Instructions for the worker.",
        kind: Kind::Text { most: 20_000 },
    },
    Setting {
        name: "maxConcurrency",
        about: "Number of sessions that the worker handles at a time.",
        kind: Kind::Number { least: 1, most: 100, otherwise: 1 },
    },
    Setting {
        name: "pollSeconds",
        about: "Seconds that the worker waits between two requests for GET /events.",
        kind: Kind::Number { least: 1, most: 3600, otherwise: 30 },
    },
    Setting { name: "events", about: "The events that the worker handles.", kind: Kind::Events },
    Setting {
        name: "labels",
        about: "Labels of your own, to find the computer by.",
        kind: Kind::Texts { entries: 50, most: 256, secret: false },
    },
    Setting {
        name: SECRETS,
        about: "Names and values that are stored sealed: answers show the names, never a value.",
        kind: Kind::Texts { entries: 50, most: 4096, secret: true },
    },
];

/// The setting whose values are secrets.
pub(super) const SECRETS: &str = "secrets";
/// In characters, of a name in an object of texts.
const LONGEST_NAME: usize = 64;

pub(super) fn schema(mask: &str) -> Value {
    let property = |setting: &Setting| (setting.name.to_owned(), setting.schema(mask));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of a computer Agent",
        "type": "object",
        "properties": SETTINGS.iter().map(property).collect::<Map<_, _>>(),
        "additionalProperties": false,
    })
}

/// Returns up to `MOST_FAULTS` faults of a configuration. `at` is its JSON Pointer in the request.
pub(super) fn faults(config: &Map<String, Value>, at: &str) -> Vec<Fault> {
    // First: this bounds the cost of all other checks.
    if Value::Object(config.clone()).to_string().len() > LONGEST {
        return vec![Fault::new(
            at,
            format!(
                "makes a configuration of more than {LONGEST} bytes: send less, or remove settings"
            ),
        )];
    }
    let mut faults = Vec::new();
    for (name, value) in config {
        if faults.len() >= MOST_FAULTS {
            break;
        }
        match SETTINGS.iter().find(|setting| setting.name == name) {
            Some(setting) => setting.check(&join(at, name), value, &mut faults),
            None => {
                let known: Vec<_> = SETTINGS.iter().map(|setting| setting.name).collect();
                let known = known.join(", ");
                let detail = format!("is not a setting: use one of {known}");
                faults.push(Fault::new(&join(at, name), detail));
            }
        }
    }
    faults.truncate(MOST_FAULTS);
    faults
}

/// Returns the written settings and the defaults of the others. Settings without a default are left
/// out, so the result is a valid configuration.
pub(super) fn effective(authored: &Map<String, Value>) -> Map<String, Value> {
    let of = |setting: &Setting| {
        let written = authored.get(setting.name).cloned();
        Some((setting.name.to_owned(), written.or_else(|| setting.otherwise())?))
    };
    SETTINGS.iter().filter_map(of).collect()
}

/// Cuts a text from a request to the length that an error repeats.
pub(super) fn shown(text: &str) -> &str {
    text.get(..text.floor_char_boundary(2 * LONGEST_NAME)).unwrap_or_default()
}

fn events() -> impl Iterator<Item = &'static EventName> {
    EventName::ALL.iter().filter(|name| name.about() == About::Message)
}

impl Setting {
    /// Returns the default, if the setting has one.
    fn otherwise(&self) -> Option<Value> {
        match self.kind {
            Kind::Text { .. } => None,
            Kind::Number { otherwise, .. } => Some(otherwise.into()),
            Kind::Events => {
                let came = events().filter(|name| name.category() == Category::Incoming);
                Some(came.map(|name| name.as_str()).collect())
            }
            Kind::Texts { .. } => Some(json!({})),
        }
    }

    fn schema(&self, mask: &str) -> Value {
        let (about, otherwise) = (self.about, self.otherwise());
        match &self.kind {
            Kind::Text { most } => json!({
                "type": "string", "description": about, "maxLength": most,
            }),
            Kind::Number { least, most, .. } => json!({
                "type": "integer", "description": about, "minimum": least, "maximum": most,
                "default": otherwise,
            }),
            Kind::Events => json!({
                "type": "array", "description": about, "uniqueItems": true, "default": otherwise,
                "maxItems": events().count(),
                "items": { "enum": events().map(|name| name.as_str()).collect::<Vec<_>>() },
            }),
            Kind::Texts { entries, most, secret } => {
                let mut value = json!({ "type": "string", "maxLength": most });
                if let (true, Value::Object(value)) = (*secret, &mut value) {
                    value.insert("writeOnly".into(), true.into());
                    let about =
                        format!("Answers show {mask} in its place; send {mask} to keep the value.");
                    value.insert("description".into(), about.into());
                }
                json!({
                    "type": "object", "description": about, "maxProperties": entries,
                    "propertyNames": { "pattern": format!("^[A-Za-z0-9_.-]{{1,{LONGEST_NAME}}}$") },
                    "additionalProperties": value, "default": otherwise,
                })
            }
        }
    }

    fn check(&self, at: &str, value: &Value, faults: &mut Vec<Fault>) {
        match (&self.kind, value) {
            (Kind::Text { most }, Value::String(text)) => bounded(at, text, *most, faults),
            (Kind::Text { .. }, _) => faults.push(Fault::new(at, "must be a string")),
            (Kind::Number { least, most, .. }, value) => {
                let fits = value.as_i64().is_some_and(|number| (*least..=*most).contains(&number));
                if !fits {
                    let detail = format!("must be a whole number from {least} to {most}");
                    faults.push(Fault::new(at, detail));
                }
            }
            (Kind::Events, value) => check_events(at, value, faults),
            (Kind::Texts { entries, most, .. }, Value::Object(texts)) => {
                if texts.len() > *entries {
                    faults.push(Fault::new(at, format!("must have at most {entries} entries")));
                }
                for (name, value) in texts.iter().take(*entries) {
                    if faults.len() >= MOST_FAULTS {
                        return;
                    }
                    let at = join(at, name);
                    let plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
                    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(plain) {
                        let detail =
                            format!("needs a name of 1 to {LONGEST_NAME} letters, digits, _ . -");
                        faults.push(Fault::new(&at, detail));
                    }
                    match value.as_str() {
                        Some(text) => bounded(&at, text, *most, faults),
                        None => faults.push(Fault::new(&at, "must be a string")),
                    }
                }
            }
            (Kind::Texts { .. }, _) => {
                faults.push(Fault::new(at, "must be an object of strings"));
            }
        }
    }
}

fn bounded(at: &str, text: &str, most: usize, faults: &mut Vec<Fault>) {
    // Characters, as JSON Schema counts.
    if text.chars().count() > most {
        faults.push(Fault::new(at, format!("must have at most {most} characters")));
    }
}

fn check_events(at: &str, value: &Value, faults: &mut Vec<Fault>) {
    let Some(items) = value.as_array() else {
        faults.push(Fault::new(at, "must be an array of event names"));
        return;
    };
    let most = events().count();
    if items.len() > most {
        faults.push(Fault::new(at, format!("must have at most {most} entries")));
    }
    for (number, item) in items.iter().take(most).enumerate() {
        if faults.len() >= MOST_FAULTS {
            return;
        }
        let known = events().any(|name| item == name.as_str());
        if !known {
            let names: Vec<_> = events().map(|name| name.as_str()).collect();
            let detail = format!("must be one of {}", names.join(", "));
            faults.push(Fault::new(&format!("{at}/{number}"), detail));
        } else if items.iter().take(number).any(|other| other == item) {
            faults.push(Fault::new(&format!("{at}/{number}"), "is sent twice: send it once"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(config: Value) -> Vec<String> {
        let faults = faults(config.as_object().unwrap(), "");
        faults.iter().map(|fault| format!("{} {}", fault.pointer, fault.detail)).collect()
    }

    #[test]
    fn each_fault_is_named_with_its_place() {
        for (config, expected) in [
            (json!({ "instructions": 1 }), "/instructions must be a string"),
            (
                json!({ "instructions": "ü".repeat(20_001) }),
                "/instructions must have at most 20000",
            ),
            (
                json!({ "maxConcurrency": 0 }),
                "/maxConcurrency must be a whole number from 1 to 100",
            ),
            (json!({ "maxConcurrency": 1.0 }), "/maxConcurrency must be a whole number"),
            (json!({ "pollSeconds": 3601 }), "/pollSeconds must be a whole number from 1 to 3600"),
            (json!({ "pollSeconds": null }), "/pollSeconds must be a whole number"),
            (json!({ "events": "email.received" }), "/events must be an array"),
            (json!({ "events": ["x"] }), "/events/0 must be one of"),
            (json!({ "events": ["email.received", "email.received"] }), "/events/1 is sent twice"),
            (json!({ "labels": [] }), "/labels must be an object"),
            (json!({ "labels": { "a/b~": "x" } }), "/labels/a~1b~0 needs a name"),
            (json!({ "labels": { "": "x" } }), "/labels/ needs a name"),
            (json!({ "labels": { "a": 1 } }), "/labels/a must be a string"),
            (json!({ "secrets": { "a": "x".repeat(4097) } }), "/secrets/a must have at most 4096"),
            (json!({ "speed": 1 }), "/speed is not a setting: use one of instructions,"),
        ] {
            let found = wrong(config.clone());
            assert_eq!(found.len(), 1, "{config}: {found:?}");
            assert!(found[0].starts_with(expected), "{config}: {found:?}");
        }
        let many: Map<_, _> = (0..51).map(|n| (format!("l{n}"), json!("x"))).collect();
        assert_eq!(wrong(json!({ "labels": many })), ["/labels must have at most 50 entries"]);
        let whole: Map<_, _> =
            (0..17).map(|n| (format!("s{n}"), json!("x".repeat(4000)))).collect();
        assert_eq!(
            wrong(json!({ "secrets": whole })),
            [" makes a configuration of more than 65536 bytes: send less, or remove settings"]
        );
        // Nothing else in a longer one is checked.
        let long = json!({ "speed": "x".repeat(LONGEST), "events": 1 });
        assert_eq!(
            wrong(long),
            [" makes a configuration of more than 65536 bytes: send less, or remove settings"]
        );
        let unknown: Map<_, _> = (0..99).map(|n| (format!("u{n}"), json!(1))).collect();
        assert_eq!(faults(&unknown, "").len(), MOST_FAULTS);
        let odd: Map<_, _> = (0..50).map(|n| (format!("l{n}"), json!(1))).collect();
        assert_eq!(wrong(json!({ "labels": odd, "secrets": odd })).len(), MOST_FAULTS);
        // Each of 3000 equal names is not compared with all others.
        let most = events().count();
        let found = wrong(json!({ "events": vec!["email.received"; 3000] }));
        assert_eq!(found[0], format!("/events must have at most {most} entries"));
        assert_eq!(found.len(), most.min(MOST_FAULTS), "{found:?}");
        assert_eq!(wrong(json!({})), Vec::<String>::new());
    }

    #[test]
    fn the_schema_tells_of_each_setting_and_its_default_is_in_effect() {
        let schema = schema("***");
        let effective = effective(&Map::new());
        let properties = schema["properties"].as_object().unwrap();
        assert_eq!(properties.len(), SETTINGS.len());
        for (name, property) in properties {
            assert_eq!(effective.get(name), property.get("default"), "{name}");
            assert!(property["description"].is_string(), "{name}");
        }
        assert_eq!(faults(&effective, ""), []);
        assert_eq!(schema["properties"]["events"]["maxItems"], events().count());
        assert_eq!(schema["properties"]["secrets"]["additionalProperties"]["writeOnly"], true);
    }
}
