//! What v2 clients tell of an account beside its name: fields that decide nothing here, and are
//! checked, kept and shown again. One table says of which type each of them is.
//!
//! Secrets among them (credentials of providers, keys of apps) are not kept: in their place stands
//! [`MASK`], which says that there was one.

use serde_json::{Map, Value};

use crate::domain::address::{Address, AddressError};
use crate::domain::secret::MASK;

/// The longest text of one field, in octets; all of them together are bounded by
/// `max_account_bytes` of `policies/access.toml`.
const LONGEST_TEXT: usize = 2000;

/// How deep objects and arrays may stand in one another: an event carries them some levels deeper,
/// and the reader of JSON stops at 128.
const DEEPEST: usize = 32;

/// Of which type a field is.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    /// A mailbox.
    Email,
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Any object; secrets are known by their names.
    Object,
    /// Objects that have these texts, may have these flags, and have this object of credentials.
    List(&'static [&'static str], &'static [&'static str], &'static str),
}

/// The fields, by their names in v2.
const FIELDS: &[(&str, Kind)] = &[
    ("email", Kind::Email),
    ("firstName", Kind::Text),
    ("lastName", Kind::Text),
    ("description", Kind::Text),
    ("image", Kind::Text),
    ("businessName", Kind::Text),
    ("businessAddress", Kind::Text),
    ("productPlanId", Kind::Text),
    ("offeredProductPlanId", Kind::Text),
    ("externalBillingId", Kind::Text),
    ("smsBrandId", Kind::Text),
    ("smsCampaignId", Kind::Text),
    ("smsEnabled", Kind::Flag),
    ("servicePremium", Kind::Flag),
    ("hipaaEnabledDefault", Kind::Flag),
    ("hipaaSetting", Kind::Word(&["on", "off", "inherit"])),
    ("orgAccountType", Kind::Word(&["internal", "customer"])),
    ("settings", Kind::Object),
    ("numberingProviders", Kind::List(&["providerId"], &["default"], "config")),
    ("integrations", Kind::List(&["appId", "appVersion"], &[], "appData")),
];

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("field {name}{fault}")]
pub struct DetailError {
    pub name: String,
    pub fault: DetailFault,
}

/// What is wrong with it; the words go on behind its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DetailFault {
    #[error(" is not known of accounts")]
    Unknown,
    #[error(" must be {0}")]
    Shape(String),
    #[error(": {0}")]
    Email(AddressError),
    #[error(" {0}")]
    Text(TextFault),
    /// Of a part of an object or an array.
    #[error(": {0} in it {1}")]
    Within(&'static str, TextFault),
    #[error(": objects and arrays nest at most {DEEPEST} deep: flatten it")]
    TooDeep,
}

/// Why a text is none of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextFault {
    #[error("has at most {LONGEST_TEXT} octets")]
    TooLong,
    #[error("has control characters: leave them out")]
    Control,
}

/// A field as it is kept; null, which takes it away, stays null.
pub fn checked(name: &str, value: &Value) -> Result<Value, DetailError> {
    let kept = kept(name, value);
    kept.map_err(|fault| DetailError { name: name.to_owned(), fault })
}

fn kept(name: &str, value: &Value) -> Result<Value, DetailFault> {
    let (_, kind) = FIELDS.iter().find(|(known, _)| *known == name).ok_or(DetailFault::Unknown)?;
    let wrong = |shape: &str| Err(DetailFault::Shape(shape.to_owned()));
    if value.is_object() || value.is_array() {
        fit(value, 1)?;
    }
    match (kind, value) {
        (_, Value::Null) => Ok(Value::Null),
        (Kind::Text, Value::String(text)) => {
            unfit(text).map_or_else(|| Ok(value.clone()), |why| Err(DetailFault::Text(why)))
        }
        (Kind::Email, Value::String(text)) => match Address::parse(text) {
            Ok(address) => Ok(address.to_string().into()),
            Err(error) => Err(DetailFault::Email(error)),
        },
        (Kind::Flag, Value::Bool(_)) => Ok(value.clone()),
        (Kind::Word(words), Value::String(word)) if words.contains(&word.as_str()) => {
            Ok(value.clone())
        }
        (Kind::Object, Value::Object(fields)) => Ok(Value::Object(without_secrets(fields))),
        (Kind::List(texts, flags, secret), Value::Array(items)) => {
            let items = items.iter().map(|item| listed(item, texts, flags, secret));
            let items = items.collect::<Option<Vec<_>>>();
            items.map(Value::from).map_or_else(|| wrong(&list_shape(texts, flags, secret)), Ok)
        }
        (Kind::Text | Kind::Email, _) => wrong("a string"),
        (Kind::Flag, _) => wrong("true or false"),
        (Kind::Word(words), _) => wrong(&format!("one of {}", words.join(", "))),
        (Kind::Object, _) => wrong("an object"),
        (Kind::List(texts, flags, secret), _) => wrong(&list_shape(texts, flags, secret)),
    }
}

/// Line ends are for addresses and descriptions.
fn unfit(text: &str) -> Option<TextFault> {
    let control = |c: char| c.is_control() && c != '\n';
    if text.len() > LONGEST_TEXT {
        return Some(TextFault::TooLong);
    }
    text.chars().any(control).then_some(TextFault::Control)
}

/// Nothing in it may be what a database cannot look into (PostgreSQL: no NUL in JSON), or what is
/// too deep to be read back.
fn fit(value: &Value, depth: usize) -> Result<(), DetailFault> {
    if depth > DEEPEST && (value.is_object() || value.is_array()) {
        return Err(DetailFault::TooDeep);
    }
    let text = |what: &'static str, text: &str| match unfit(text) {
        None => Ok(()),
        Some(why) => Err(DetailFault::Within(what, why)),
    };
    match value {
        Value::String(string) => text("a string", string),
        Value::Array(items) => items.iter().try_for_each(|item| fit(item, depth + 1)),
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| {
            text("a field name", name)?;
            fit(value, depth + 1)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn list_shape(texts: &[&str], flags: &[&str], secret: &str) -> String {
    let names: Vec<&str> = texts.iter().chain(flags).chain([&secret]).copied().collect();
    format!("an array of objects with {}", names.join(", "))
}

/// An item of a list; of its credentials only the names are kept.
fn listed(item: &Value, texts: &[&str], flags: &[&str], secret: &str) -> Option<Value> {
    let fields = item.as_object()?;
    let text = |name: &str| fields.get(name)?.as_str().filter(|text| unfit(text).is_none());
    let known = |name: &str| texts.contains(&name) || flags.contains(&name) || name == secret;
    let whole = texts.iter().all(|name| text(name).is_some())
        && flags.iter().all(|name| fields.get(*name).is_none_or(Value::is_boolean))
        && fields.keys().all(|name| known(name));
    let credentials = fields.get(secret).filter(|value| value.is_object() && whole)?;
    let mut kept = fields.clone();
    kept.insert(secret.to_owned(), masked(credentials));
    Some(Value::Object(kept))
}

fn without_secrets(fields: &Map<String, Value>) -> Map<String, Value> {
    let kept = |(name, value): (&String, &Value)| {
        let value = if names_a_secret(name) { hushed(value) } else { searched(value) };
        (name.clone(), value)
    };
    fields.iter().map(kept).collect()
}

/// Nesting is bounded by [`DEEPEST`].
fn searched(value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(without_secrets(fields)),
        Value::Array(items) => items.iter().map(searched).collect(),
        value => value.clone(),
    }
}

/// Nothing but the names of fields.
fn masked(value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), masked(value))).collect()
        }
        _ => MASK.into(),
    }
}

/// Numbers and flags stay: `maxTokens` is none.
fn hushed(value: &Value) -> Value {
    match value {
        Value::String(_) => MASK.into(),
        Value::Array(items) => items.iter().map(hushed).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), hushed(value))).collect()
        }
        value => value.clone(),
    }
}

/// Parts of names of secrets.
const SECRETS: [&str; 11] = [
    "token",
    "secret",
    "password",
    "passphrase",
    "passwd",
    "passcode",
    "credential",
    "authorization",
    "bearer",
    "cookie",
    "private",
];

/// Words that end in `key` and are none.
const NO_KEYS: [&str; 6] = ["monkey", "donkey", "turkey", "hockey", "jockey", "whiskey"];

/// `key` alone is a name of things (`reportingFields[].key`); an `apiKey` is a secret.
fn names_a_secret(name: &str) -> bool {
    let words = words(name);
    let name = name.to_ascii_lowercase();
    let is = |word: &String| ["pass", "pwd", "auth"].contains(&word.as_str());
    let key = |word: &String| {
        let one = word.strip_suffix('s').unwrap_or(word);
        one.ends_with("key") && !NO_KEYS.contains(&one)
    };
    SECRETS.iter().any(|part| name.contains(part))
        || ["config", "appdata"].contains(&name.as_str())
        || words.iter().any(is)
        || (words.last().is_some_and(key) && name != "key")
}

/// `smtpPass`, `smtp_pass` and `SMTP-PASS` are two words each, in small letters.
fn words(name: &str) -> Vec<String> {
    let (mut words, mut small) = (vec![String::new()], false);
    for letter in name.chars() {
        if !letter.is_ascii_alphanumeric() || (small && letter.is_ascii_uppercase()) {
            words.push(String::new());
        }
        small = letter.is_ascii_lowercase() || letter.is_ascii_digit();
        if let Some(word) = words.last_mut().filter(|_| letter.is_ascii_alphanumeric()) {
            word.push(letter.to_ascii_lowercase());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// So many objects, one in the other.
    fn nested(depth: usize) -> Value {
        (1..depth).fold(json!({}), |inner, _| json!({ "a": inner }))
    }

    #[test]
    fn each_field_is_of_its_type() {
        for (name, value) in [
            ("email", json!("Ada@Example.com")),
            ("description", json!("two\nlines")),
            ("smsEnabled", json!(true)),
            ("hipaaSetting", json!("inherit")),
            ("settings", json!({ "metrics": [{ "name": "a", "scale": 100 }], "key": "x" })),
            ("settings", json!({ "heartbeatConfig": { "every": 5 } })),
            ("settings", nested(32)),
            ("settings", json!({ "a": ["two\nlines"] })),
            ("integrations", json!([])),
            ("businessName", Value::Null),
        ] {
            let kept = checked(name, &value).unwrap();
            assert!(kept == value || name == "email", "{name}: {kept}");
        }
        for (name, value, expected) in [
            ("email", json!("nobody"), "field email"),
            ("email", json!(1), "field email must be a string"),
            ("description", json!("\u{0}"), "control characters"),
            ("description", json!("x".repeat(2001)), "at most 2000 octets"),
            ("smsEnabled", json!("true"), "must be true or false"),
            ("hipaaSetting", json!("On"), "must be one of on, off, inherit"),
            ("settings", json!([]), "must be an object"),
            ("integrations", json!({}), "must be an array of objects with appId, appVersion"),
            ("integrations", json!([{ "appId": "a", "appVersion": "1" }]), "appData"),
            ("integrations", json!([{ "appId": 1, "appVersion": "1", "appData": {} }]), "appData"),
            (
                "numberingProviders",
                json!([{ "providerId": "x", "config": {}, "__proto__": {} }]),
                "providerId, default, config",
            ),
            ("superAdmin", json!(true), "not known"),
            (
                "settings",
                json!({ "a": [{ "b": "\u{0}" }] }),
                "settings: a string in it has control",
            ),
            (
                "settings",
                json!({ "a": { "\u{0}": 1 } }),
                "settings: a field name in it has control",
            ),
            ("settings", json!({ "apiKey": "\u{0}" }), "control characters"),
            ("settings", json!({ "a": "x".repeat(2001) }), "at most 2000 octets"),
            ("settings", nested(33), "at most 32 deep"),
            (
                "integrations",
                json!([{ "appId": "a", "appVersion": "1", "appData": { "a\u{0}": 1 } }]),
                "integrations: a field name in it has control",
            ),
            (
                "numberingProviders",
                json!([{ "providerId": "x", "config": { "a": ["\u{0}"] } }]),
                "numberingProviders: a string in it has control",
            ),
        ] {
            let error = checked(name, &value).unwrap_err().to_string();
            assert!(error.contains(expected), "{name}: {error}");
        }
    }

    #[test]
    fn of_a_secret_only_its_place_is_kept() {
        let canary = "hunter2";
        let deep = json!({ "a": { "sid": canary, "n": [1, canary], "none": null } });
        for (name, value) in [
            ("integrations", json!([{ "appId": "a", "appVersion": "v1", "appData": deep }])),
            (
                "numberingProviders",
                json!([{ "providerId": "x", "default": true, "config": { "authToken": canary } }]),
            ),
            (
                "settings",
                json!({ "crm": [{ "apiKey": canary, "Password": canary, "access_token": [canary],
                                  "clientSecret": { "x": canary } }] }),
            ),
        ] {
            let kept = checked(name, &value).unwrap();
            assert!(!kept.to_string().contains(canary), "{kept}");
            assert!(kept.to_string().contains(MASK), "{kept}");
            assert_eq!(checked(name, &kept), Ok(kept.clone()), "what was read may be written back");
        }
    }

    #[test]
    fn a_secret_is_known_by_its_name() {
        for name in [
            "pass",
            "smtpPass",
            "smtp_pass",
            "passwd",
            "dbPwd",
            "passcode",
            "auth",
            "basicAuth",
            "Authorization",
            "bearer",
            "sessionCookie",
            "privatePem",
            "credential",
            "apiKeys",
            "apikey",
            "accessTokens",
            "SECRETS",
            "keys",
        ] {
            let kept = checked("settings", &json!({ name: ["hunter2"] })).unwrap();
            assert_eq!(kept, json!({ name: [MASK] }));
        }
        for name in ["monkey", "Monkeys", "key", "author", "compass", "passengers", "keyboard"] {
            let kept = json!({ name: "seen" });
            assert_eq!(checked("settings", &kept), Ok(kept.clone()));
        }
        let kept = json!({ "maxTokens": 500, "auth": { "on": true, "none": null } });
        assert_eq!(checked("settings", &kept), Ok(kept.clone()));
    }
}
