//! Masks secrets in an account's details before they are stored. Names of fields tell which they
//! are.

use serde_json::{Map, Value};

use crate::domain::secret::MASK;

/// Masks the texts in fields with names of secrets; numbers and flags stay.
pub(super) fn without_secrets(fields: &Map<String, Value>) -> Map<String, Value> {
    let kept = |(name, value): (&String, &Value)| {
        let value = if names_a_secret(name) { texts_masked(value) } else { secrets_masked(value) };
        (name.clone(), value)
    };
    fields.iter().map(kept).collect()
}

/// `details.rs` bounds the nesting before.
fn secrets_masked(value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(without_secrets(fields)),
        Value::Array(items) => items.iter().map(secrets_masked).collect(),
        value => value.clone(),
    }
}

/// Masks all values but null; the names of fields stay.
pub(super) fn masked(value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), masked(value))).collect()
        }
        _ => MASK.into(),
    }
}

/// Masks texts. Numbers and flags stay: `maxTokens` is no secret.
fn texts_masked(value: &Value) -> Value {
    match value {
        Value::String(_) => MASK.into(),
        Value::Array(items) => items.iter().map(texts_masked).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), texts_masked(value))).collect()
        }
        value => value.clone(),
    }
}

const SECRETS: &[&str] = &[
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

/// Words that end in `key` and mean no secret.
const NO_KEYS: &[&str] = &["monkey", "donkey", "turkey", "hockey", "jockey", "whiskey"];

/// `key` alone names many things (`reportingFields[].key`); `apiKey` is a secret.
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

/// Splits a name into words in lower case: `smtpPass`, `smtp_pass` and `SMTP-PASS` are two each.
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

    fn shown(settings: Value) -> Value {
        without_secrets(settings.as_object().unwrap()).into()
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
            let kept = shown(json!({ name: ["hunter2"] }));
            assert_eq!(kept, json!({ name: [MASK] }));
        }
        for name in ["monkey", "Monkeys", "key", "author", "compass", "passengers", "keyboard"] {
            let kept = json!({ name: "seen" });
            assert_eq!(shown(kept.clone()), kept);
        }
        let kept = json!({ "maxTokens": 500, "auth": { "on": true, "none": null } });
        assert_eq!(shown(kept.clone()), kept);
    }
}
