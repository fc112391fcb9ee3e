//! What a record says otherwise than the same verdict reached again.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::kept::{inputs, step, steps};
use super::told::Told;
use super::{Failure, say};

/// Facts of the verdict beside the result of each step: what explanation and advice are made of,
/// and whose word was taken. Records of an older version have fewer.
const FACTS: [(&str, &str); 7] = [
    ("alignment", "causes"),
    ("alignment", "signer"),
    ("alignment", "selector"),
    ("alignment", "adkim"),
    ("alignment", "record"),
    ("arc", "sealer"),
    ("arc", "standsIn"),
];
/// The rules that steps keep.
const RULES: [(&str, &str); 5] = [
    ("dkim", "minRsaBits"),
    ("dkim", "countTestingKeys"),
    ("dkim", "maxFutureSeconds"),
    ("dkim", "maxClockSeconds"),
    ("alignment", "rule"),
];

/// The outcome of the comparison, in words.
#[derive(Default)]
pub(super) struct Again {
    /// The verdict is not the same.
    pub(super) differences: Vec<String>,
    /// Steps that decide nothing ended otherwise, for want of one answer to one question.
    excused: Vec<String>,
    /// Rules that are others now.
    rules: Vec<String>,
    /// Steps that were not made again: what they came to is taken from the record.
    given: Vec<&'static str>,
    /// Not all answers were kept whole.
    truncated: bool,
}

impl Again {
    /// Compares the record `was` with the verdict reached again, `is`.
    pub(super) fn compare(was: &Map<String, Value>, is: &Map<String, Value>, told: &Told) -> Self {
        let mut found = Self::default();
        let null = Value::Null;
        for name in ["verdict", "reason", "sender"] {
            let (was, is) = (was.get(name).unwrap_or(&null), is.get(name).unwrap_or(&null));
            found.differences.extend(differing(name, was, is));
        }
        let result = |record, name| step(record, name).and_then(|step| step.get("result"));
        let names = steps(is).chain(steps(was)).filter_map(|step| step.get("name")?.as_str());
        let mut seen = HashSet::new();
        for name in names.filter(|name| seen.insert(*name)) {
            let (was, is) = (result(was, name), result(is, name));
            let what = format!("step {name}");
            let differs = differing(&what, was.unwrap_or(&null), is.unwrap_or(&null));
            match (differs, told.excuse(name)) {
                (Some(words), Some(why)) => found.excused.push(format!("{words} ({why})")),
                (differs, _) => found.differences.extend(differs),
            }
        }
        let winner = |record| winner(record).unwrap_or_default();
        let what = "the signature that authenticates";
        found.differences.extend(differing(what, &winner(was), &winner(is)));
        found.differences.extend(FACTS.iter().filter_map(|fact| kept(was, is, *fact)));
        found.rules.extend(RULES.iter().filter_map(|rule| kept(was, is, *rule)));
        found.given = super::GIVEN.into_iter().filter(|name| step(was, name).is_some()).collect();
        found.truncated = steps(was).any(|step| step.get("truncated").is_some());
        found
    }

    /// Adds `{same, differences, excused, rules, given, truncated}` to the verdict.
    pub(super) fn add_to(&self, shown: &mut Map<String, Value>) {
        for (name, value) in [
            ("same", json!(self.differences.is_empty())),
            ("differences", json!(self.differences)),
            ("excused", json!(self.excused)),
            ("rules", json!(self.rules)),
            ("given", json!(self.given)),
            ("truncated", json!(self.truncated)),
        ] {
            shown.insert(name.into(), value);
        }
    }

    /// Says so, behind the verdict.
    pub(super) fn tell(&self) -> Result<(), Failure> {
        if self.truncated {
            say!("\nThe record keeps not all DNS answers whole: what is missing is not there.")?;
        }
        for name in &self.given {
            match *name {
                "rates" => say!("\nThe rate is not recomputed: the step is the record's.")?,
                _ => say!("\nThe step {name} is not recomputed: it is the record's.")?,
            }
        }
        if !self.rules.is_empty() {
            say!("\nrules differ now: {}", self.rules.join("; "))?;
        }
        if !self.excused.is_empty() {
            say!("\ndifferent answers, not the verdict: {}", self.excused.join("; "))?;
        }
        match self.differences.as_slice() {
            [] => say!("\nthe same verdict"),
            some => say!("\nnot as in the record: {}", some.join("; ")),
        }
    }
}

fn differing(what: &str, was: &Value, is: &Value) -> Option<String> {
    (was != is).then(|| format!("{what} was {was}, is {is}"))
}

/// Compares an input of a step that the record keeps; that the step itself is gone is said already.
fn kept(
    was: &Map<String, Value>,
    is: &Map<String, Value>,
    (step, name): (&str, &str),
) -> Option<String> {
    let (was, is) = (inputs(was, step)?.get(name)?, inputs(is, step)?);
    differing(&format!("{name} of step {step}"), was, is.get(name).unwrap_or(&Value::Null))
}

/// `{domain, selector}` of the first signature that counts and is aligned.
fn winner(record: &Map<String, Value>) -> Option<Value> {
    let signatures = inputs(record, "dkim")?.get("signatures")?.as_array()?;
    let holds = |one: &Value, name| one.get(name) == Some(&Value::Bool(true));
    let first = signatures.iter().find(|one| holds(one, "aligned") && holds(one, "counts"))?;
    Some(json!({ "domain": first.get("domain"), "selector": first.get("selector") }))
}
