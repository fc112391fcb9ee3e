//! What a record says otherwise than the same verdict reached again.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::told::Told;
use super::{Failure, say};
use crate::domain::evidence::{Evidence, Step};

/// Facts of the verdict beside the result of each step: what explanation and advice are made of,
/// and whose word was taken.
const FACTS: &[(&str, &str)] = &[
    ("alignment", "causes"),
    ("alignment", "signer"),
    ("alignment", "selector"),
    ("alignment", "adkim"),
    ("alignment", "record"),
    ("arc", "sealer"),
    ("arc", "standsIn"),
];
/// The rules that steps keep.
const RULES: &[(&str, &str)] = &[
    ("dkim", "minRsaBits"),
    ("dkim", "countTestingKeys"),
    ("dkim", "maxFutureSeconds"),
    ("dkim", "maxClockSeconds"),
    ("alignment", "rule"),
];

/// A record as it is shown, and its evidence.
#[derive(Clone, Copy)]
pub(super) struct Verdict<'v> {
    pub(super) fields: &'v Map<String, Value>,
    pub(super) evidence: &'v Evidence,
}

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
    pub(super) fn compare(was: Verdict<'_>, is: Verdict<'_>, told: &Told) -> Self {
        let mut found = Self::default();
        let null = Value::Null;
        for name in ["verdict", "reason", "sender"] {
            let of = |verdict: Verdict<'_>| verdict.fields.get(name).unwrap_or(&null).clone();
            found.differences.extend(differing(name, &of(was), &of(is)));
        }
        let (was, is) = (was.evidence, is.evidence);
        let mut seen = HashSet::new();
        for name in is.iter().chain(was.iter()).map(|step| step.facts.name()) {
            if !seen.insert(name) {
                continue;
            }
            let result = |of: &Evidence| json!(of.step(name).map(|step| step.result.clone()));
            match (differing(&format!("step {name}"), &result(was), &result(is)), told.excuse(name))
            {
                (Some(words), Some(why)) => found.excused.push(format!("{words} ({why})")),
                (differs, _) => found.differences.extend(differs),
            }
        }
        let what = "the signature that authenticates";
        found.differences.extend(differing(what, &winner(was), &winner(is)));
        found.differences.extend(FACTS.iter().filter_map(|fact| kept(was, is, *fact)));
        found.rules.extend(RULES.iter().filter_map(|rule| kept(was, is, *rule)));
        let is_given = |name: &&str| was.step(name).is_some();
        found.given = super::GIVEN.into_iter().filter(is_given).collect();
        found.truncated = was.iter().any(Step::is_truncated);
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

/// Compares an input that both have; that the step itself is gone is said already.
fn kept(was: &Evidence, is: &Evidence, (step, name): (&str, &str)) -> Option<String> {
    let inputs = |of: &Evidence| of.step(step).map(|step| json!(step.facts));
    let (was, is) = (inputs(was)?, inputs(is)?);
    differing(&format!("{name} of step {step}"), was.get(name)?, is.get(name)?)
}

/// `{domain, selector}` of the first signature that counts and is aligned.
fn winner(evidence: &Evidence) -> Value {
    let mut signatures = evidence.dkim().into_iter().flat_map(|dkim| dkim.signatures.iter());
    let first = signatures.find(|one| one.aligned && one.counts);
    json!(first.map(|one| json!({ "domain": one.domain, "selector": one.selector })))
}
