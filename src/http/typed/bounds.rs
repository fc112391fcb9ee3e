//! Bounds that an operator sets: a keyword of a schema whose value is a text (`"maximum": "limits.max_page"`)
//! has the number of that rule.

use serde_json::Value;

use crate::rules::AccessRules;

/// Keywords that may name a rule.
const KEYWORDS: [&str; 7] =
    ["minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "default"];

/// The rules, by their names.
#[derive(Debug)]
pub struct Bounds(Value);

impl Bounds {
    pub fn of(rules: &AccessRules) -> Self {
        Self(serde_json::to_value(rules).unwrap_or_default())
    }

    /// The number of a keyword.
    pub(super) fn number(&self, schema: &Value, keyword: &str) -> Option<i64> {
        match schema.get(keyword)? {
            Value::String(rule) => self.rule(rule)?.as_i64(),
            value => value.as_i64(),
        }
    }

    /// Puts their numbers in the place of names of rules.
    pub(super) fn fill(&self, schema: &mut Value) {
        match schema {
            Value::Object(fields) => {
                for (keyword, value) in fields {
                    match value.as_str().filter(|_| KEYWORDS.contains(&keyword.as_str())) {
                        Some(rule) => *value = self.rule(rule).cloned().unwrap_or_default(),
                        None => self.fill(value),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.fill(item)),
            _ => {}
        }
    }

    fn rule(&self, name: &str) -> Option<&Value> {
        self.0.pointer(&format!("/{}", name.replace('.', "/")))
    }
}
