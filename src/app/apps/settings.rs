//! Merging sent settings and data into a record. Pure: the caller opens secrets before and seals
//! them after.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use url::Url;

use crate::domain::app::{AppRecord, is_name};
use crate::rules::{App, Setting, SettingType};

/// In bytes.
const LONGEST_NAME: usize = 64;

/// A secret in responses: only whether it is set.
pub fn present(present: bool) -> Value {
    json!({ "present": present })
}

/// Whether a sent value is the placeholder that responses show for a secret. A client may send it
/// back; it keeps the secret.
pub fn is_placeholder(value: &Value) -> bool {
    *value == present(true) || *value == present(false)
}

/// Fields of a request, by what happens to them.
#[derive(Default)]
pub struct SortedFields {
    shown: Map<String, Value>,
    secrets: Map<String, Value>,
    /// Removed.
    gone: BTreeSet<String>,
    /// Unchanged; they must exist.
    kept: BTreeSet<String>,
}

pub(super) struct Merged {
    /// The record with the names of its secrets; `sealed` is still the old one.
    pub record: AppRecord,
    /// All secrets, to be sealed; `None` if none was touched.
    pub secrets: Option<Map<String, Value>>,
    pub changed: Vec<String>,
}

/// A mistake in a field; names the field, never the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// The name is repeated only if it is a valid one.
    #[error(
        "the app has no setting {}: expected {}",
        name.as_deref().unwrap_or("of this name"), known.join(", ")
    )]
    Unknown { name: Option<String>, known: Vec<String> },
    #[error(
        "the name of a field must have 1 to {LONGEST_NAME} letters, digits, '-', '_' and '.', a \
         letter or a digit first"
    )]
    Name,
    #[error("{name} {fault}")]
    Value { name: String, fault: ValueFault },
    #[error("{0} has no stored value to keep: send the value")]
    NothingKept(String),
}

/// A mistake in a value. Its text follows the name of the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueFault {
    #[error("must be {0}")]
    Shape(&'static str),
    #[error("must be one of {}", .0.join(", "))]
    Choice(Vec<String>),
    #[error("must have 1 to {longest} bytes; null removes it")]
    Length { longest: usize },
    #[error("has control characters: leave them out")]
    Control,
    /// In a setting that every reader of the settings sees.
    #[error("holds a password: leave it out of the URL")]
    Password,
}

/// Fails if a setting does not take a value.
fn fits(setting: &Setting, value: &Value, longest: usize) -> Result<(), ValueFault> {
    let shape = |shape| Err(ValueFault::Shape(shape));
    match (setting.of, value) {
        (SettingType::Text, Value::String(text)) => is_text(text, longest),
        (SettingType::Url, Value::String(text)) => is_text(text, longest).and_then(|()| {
            let url = Url::parse(text).ok().filter(|url| ["https", "http"].contains(&url.scheme()));
            match url {
                None => shape("a URL that begins with https:// or http://"),
                Some(url) if url.password().is_some() && !setting.secret => {
                    Err(ValueFault::Password)
                }
                Some(_) => Ok(()),
            }
        }),
        (SettingType::Number, Value::Number(_)) | (SettingType::Boolean, Value::Bool(_)) => Ok(()),
        (SettingType::Choice, Value::String(text)) if setting.choices.contains(text) => Ok(()),
        (SettingType::Choice, _) => Err(ValueFault::Choice(setting.choices.to_vec())),
        (SettingType::Text | SettingType::Url, _) => shape("a string"),
        (SettingType::Number, _) => shape("a number"),
        (SettingType::Boolean, _) => shape("true or false"),
    }
}

/// Line ends are allowed: values may be key files.
fn is_text(text: &str, longest: usize) -> Result<(), ValueFault> {
    if text.is_empty() || text.len() > longest {
        return Err(ValueFault::Length { longest });
    }
    match text.chars().any(|c| c.is_control() && !['\n', '\r', '\t'].contains(&c)) {
        true => Err(ValueFault::Control),
        false => Ok(()),
    }
}

impl SortedFields {
    /// Sorts the fields by the settings of `app`. A field that `app` lacks is a secret, or with
    /// `strict` an error.
    pub(super) fn of(
        fields: &Map<String, Value>,
        app: Option<&App>,
        strict: bool,
        longest: usize,
    ) -> Result<Self, SettingError> {
        let mut sorted = Self::default();
        for (name, value) in fields {
            let setting = app.and_then(|app| app.settings.get(name));
            if setting.is_none() && strict {
                let known = app.into_iter().flat_map(|app| app.settings.keys().cloned());
                let known: Vec<String> = known.collect();
                let name = is_name(name, LONGEST_NAME).then(|| name.clone());
                return Err(SettingError::Unknown { name, known });
            }
            if !is_name(name, LONGEST_NAME) {
                return Err(SettingError::Name);
            }
            let secret = setting.is_none_or(|setting| setting.secret);
            match value {
                Value::Null => drop(sorted.gone.insert(name.clone())),
                value if secret && *value == present(false) => {}
                value if secret && is_placeholder(value) => drop(sorted.kept.insert(name.clone())),
                sent => {
                    if let Some(setting) = setting {
                        let value = |fault| SettingError::Value { name: name.clone(), fault };
                        fits(setting, sent, longest).map_err(value)?;
                    }
                    let among = if secret { &mut sorted.secrets } else { &mut sorted.shown };
                    among.insert(name.clone(), sent.clone());
                }
            }
        }
        Ok(sorted)
    }

    /// Adds to the secrets each value that the record has in clear but the catalogue calls secret
    /// by now: so any change seals it.
    pub(super) fn take_new_secrets(&mut self, app: Option<&App>, record: &AppRecord) {
        for (name, value) in &record.shown {
            let setting = app.and_then(|app| app.settings.get(name));
            let taken = self.gone.contains(name) || self.secrets.contains_key(name);
            if setting.is_some_and(|setting| setting.secret) && !taken {
                self.kept.remove(name);
                self.secrets.insert(name.clone(), value.clone());
            }
        }
    }

    /// Whether the request adds, changes or removes secrets of the record.
    pub(super) fn touches_secrets(&self, record: &AppRecord) -> bool {
        let shown = self.shown.keys();
        !self.secrets.is_empty()
            || self.gone.iter().chain(shown).any(|name| record.secrets.contains(name))
    }

    /// Whether the request replaces or removes every one of these secrets.
    pub(super) fn replaces_all(&self, names: &BTreeSet<String>) -> bool {
        let replaced = |name: &String| {
            self.secrets.contains_key(name)
                || self.shown.contains_key(name)
                || self.gone.contains(name)
        };
        names.iter().all(replaced)
    }

    /// Merges the fields into a record. `known` has its secrets; `None` if none is touched. Fails
    /// with `NothingKept` on a placeholder for a secret that is not set.
    pub(super) fn merged_into(
        self,
        record: &AppRecord,
        known: Option<Map<String, Value>>,
    ) -> Result<Merged, SettingError> {
        if let Some(name) = self.kept.iter().find(|name| !record.has(name)) {
            return Err(SettingError::NothingKept(name.clone()));
        }
        let mut next = record.clone();
        let (mut secrets, mut changed) = (known, BTreeSet::new());
        for name in &self.gone {
            let shown = next.shown.remove(name).is_some();
            let secret = next.secrets.remove(name);
            secrets.as_mut().map(|secrets| secrets.remove(name));
            if shown || secret {
                changed.insert(name.clone());
            }
        }
        for (name, value) in self.shown {
            let secret = next.secrets.remove(&name);
            secrets.as_mut().map(|secrets| secrets.remove(&name));
            if next.shown.insert(name.clone(), value.clone()) != Some(value) || secret {
                changed.insert(name);
            }
        }
        for (name, value) in self.secrets {
            let shown = next.shown.remove(&name).is_some();
            next.secrets.insert(name.clone());
            let before = secrets.as_mut().and_then(|all| all.insert(name.clone(), value.clone()));
            if before != Some(value) || shown {
                changed.insert(name);
            }
        }
        Ok(Merged { record: next, secrets, changed: changed.into_iter().collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::app::{AppRef, Use};
    use crate::domain::clock::Timestamp;
    use crate::domain::id::AccountId;
    use crate::rules::Rules;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    fn app(id: &str, version: &str) -> App {
        let rules = Rules::defaults().unwrap().apps;
        rules.app(&AppRef::new(id, version).unwrap()).unwrap().clone()
    }

    fn record() -> AppRecord {
        let app = AppRef::new("crm", "v1").unwrap();
        let account = AccountId::new(7).unwrap();
        AppRecord::empty(account, Use::Installed, app, Timestamp::from_millis(0))
    }

    #[test]
    fn each_setting_is_of_its_type() {
        for (id, fields) in [
            ("crm", json!({ "baseUrl": "https://crm.example/api", "apiToken": "x" })),
            ("crm", json!({ "baseUrl": null, "apiToken": null })),
            (
                "calendar",
                json!({ "serviceAccountKey": "{\n\t\"k\": 1\r\n}", "defaultMinutes": 30 }),
            ),
            ("tickets", json!({ "priority": "high", "notifyCustomer": false })),
            ("webhook", json!({ "url": "https://u:hunter2@hooks.example/x" })),
        ] {
            SortedFields::of(&object(fields.clone()), Some(&app(id, "v1")), true, 100)
                .unwrap_or_else(|error| panic!("{fields}: {error}"));
        }
        let long = "hunter2".repeat(20);
        for (id, fields, expected) in [
            ("crm", json!({ "apikey": "hunter2" }), "the app has no setting apikey: expected apiT"),
            ("crm", json!({ "hunter2 x": 1 }), "the app has no setting of this name"),
            ("crm", json!({ "baseUrl": "hunter2" }), "baseUrl must be a URL"),
            ("crm", json!({ "baseUrl": "file:///hunter2" }), "baseUrl must be a URL"),
            ("crm", json!({ "baseUrl": "https://u:hunter2@crm.example" }), "holds a password"),
            ("crm", json!({ "apiToken": ["hunter2"] }), "apiToken must be a string"),
            ("crm", json!({ "apiToken": "hunter2\0" }), "apiToken has control characters"),
            ("crm", json!({ "apiToken": long }), "apiToken must have 1 to 100 bytes"),
            ("crm", json!({ "apiToken": "" }), "apiToken must have 1 to 100 bytes"),
            ("crm", json!({ "pipeline": { "present": true } }), "pipeline must be a string"),
            ("calendar", json!({ "defaultMinutes": "hunter2" }), "must be a number"),
            ("tickets", json!({ "priority": "hunter2" }), "must be one of low, normal, high"),
            ("tickets", json!({ "notifyCustomer": "hunter2" }), "must be true or false"),
        ] {
            let refused =
                SortedFields::of(&object(fields.clone()), Some(&app(id, "v1")), true, 100);
            let error = refused.err().unwrap_or_else(|| panic!("{fields} is taken")).to_string();
            assert!(error.contains(expected), "{fields}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn what_nobody_knows_is_a_secret() {
        let fields = object(json!({ "a": 1, "baseUrl": "https://crm.example" }));
        let unknown = SortedFields::of(&fields, None, false, 100).unwrap();
        assert_eq!((unknown.shown.len(), unknown.secrets.len()), (0, 2));
        let known = SortedFields::of(&fields, Some(&app("crm", "v1")), false, 100).unwrap();
        assert_eq!((known.shown.len(), known.secrets.len()), (1, 1));
        for name in ["a b", "", "a\0", &"a".repeat(65)] {
            assert!(
                SortedFields::of(&object(json!({ name: 1 })), None, false, 100).is_err(),
                "{name:?}"
            );
        }
    }

    /// Merges fields into a record and its secrets; returns both and the names of the changed
    /// fields.
    fn merge(
        record: &AppRecord,
        secrets: &Value,
        fields: Value,
    ) -> Result<(AppRecord, Value, Vec<String>), SettingError> {
        let app = app("crm", "v1");
        let mut sent = SortedFields::of(&object(fields), Some(&app), false, 100)?;
        sent.take_new_secrets(Some(&app), record);
        let known = sent.touches_secrets(record).then(|| object(secrets.clone()));
        let merged = sent.merged_into(record, known)?;
        let left = merged.secrets.map_or_else(|| secrets.clone(), Value::Object);
        Ok((merged.record, left, merged.changed))
    }

    #[test]
    fn what_is_left_out_stays_null_takes_away_and_the_same_changes_nothing() {
        let fields = json!({ "apiToken": "s", "other": [1], "pipeline": "p" });
        let (one, secrets, changed) = merge(&record(), &json!({}), fields.clone()).unwrap();
        assert_eq!(changed, ["apiToken", "other", "pipeline"]);
        assert_eq!(
            (&one.shown, &secrets),
            (&object(json!({ "pipeline": "p" })), &json!({ "apiToken": "s", "other": [1] }))
        );
        assert_eq!(Vec::from_iter(one.secrets.clone()), ["apiToken", "other"]);
        let kept = json!({ "apiToken": { "present": true }, "gone": { "present": false } });
        for same in [json!({}), fields, kept, json!({ "nothing": null })] {
            let (next, left, changed) = merge(&one, &secrets, same.clone()).unwrap();
            assert_eq!((next, left, changed), (one.clone(), secrets.clone(), vec![]), "{same}");
        }
        let fields = json!({ "apiToken": null, "pipeline": null, "other": "x" });
        let (two, left, changed) = merge(&one, &secrets, fields).unwrap();
        assert_eq!(changed, ["apiToken", "other", "pipeline"]);
        assert_eq!((two.shown.len(), left), (0, json!({ "other": "x" })));
        let error = merge(&two, &json!({}), json!({ "apiToken": { "present": true } }));
        assert_eq!(error.unwrap_err(), SettingError::NothingKept("apiToken".into()));
    }

    #[test]
    fn what_a_new_catalogue_calls_a_secret_is_sealed_by_any_change() {
        let mut was = record();
        was.shown.insert("apiToken".into(), json!("old"));
        was.shown.insert("pipeline".into(), json!("p"));
        for fields in [json!({}), json!({ "apiToken": { "present": true } })] {
            let (now, secrets, changed) = merge(&was, &json!({}), fields).unwrap();
            assert_eq!(now.shown, object(json!({ "pipeline": "p" })));
            assert_eq!((secrets, changed), (json!({ "apiToken": "old" }), vec!["apiToken".into()]));
            assert_eq!(Vec::from_iter(now.secrets), ["apiToken"]);
        }
        let (now, secrets, changed) = merge(&was, &json!({}), json!({ "apiToken": null })).unwrap();
        assert_eq!((secrets, changed), (json!({}), vec!["apiToken".into()]));
        assert!(!now.has("apiToken"));
    }

    #[test]
    fn a_secret_that_is_none_any_more_and_the_other_way_round_is_kept_once() {
        let mut was = record();
        was.secrets.insert("pipeline".into());
        was.shown.insert("apiToken".into(), json!("old"));
        let before = json!({ "pipeline": "p" });
        let fields = json!({ "pipeline": "p", "apiToken": "old" });
        let (now, secrets, changed) = merge(&was, &before, fields).unwrap();
        assert_eq!(changed, ["apiToken", "pipeline"]);
        assert_eq!(
            (now.shown, secrets),
            (object(json!({ "pipeline": "p" })), json!({ "apiToken": "old" }))
        );
        assert_eq!(Vec::from_iter(now.secrets), ["apiToken"]);
    }
}
