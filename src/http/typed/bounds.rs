//! Numbers set by the operator: if the value of a schema keyword is a text (`"maximum":
//! "limits.max_page"`), it names a rule, and the rule's number replaces it.

use serde_json::Value;

use crate::rules::{AccessRules, AgentRules};

/// Keywords that may name a rule.
const KEYWORDS: &[&str] =
    &["minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "default"];

/// The rules, by name.
#[derive(Debug)]
pub struct Bounds {
    rules: Value,
    /// The rules for configurations.
    pub(super) agents: AgentRules,
}

impl Bounds {
    pub fn of(rules: &AccessRules) -> Self {
        Self { rules: serde_json::to_value(rules).unwrap_or_default(), agents: rules.agents }
    }

    /// The number of a keyword; None if it is missing or no number.
    pub(super) fn number(&self, schema: &Value, keyword: &str) -> Option<i64> {
        match schema.get(keyword)? {
            Value::String(rule) => self.rule(rule)?.as_i64(),
            value => value.as_i64(),
        }
    }

    /// Replaces names of rules by their numbers; other texts stay.
    pub(super) fn fill(&self, schema: &mut Value) {
        match schema {
            Value::Object(fields) => {
                for (keyword, value) in fields {
                    let rule = value.as_str().filter(|_| KEYWORDS.contains(&keyword.as_str()));
                    match rule.and_then(|rule| self.rule(rule)) {
                        Some(number) => *value = number.clone(),
                        None => self.fill(value),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.fill(item)),
            _ => {}
        }
    }

    fn rule(&self, name: &str) -> Option<&Value> {
        self.rules.pointer(&format!("/{}", name.replace('.', "/")))
    }
}
