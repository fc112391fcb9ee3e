//! Compares a record with the verdict reached again.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::recorded_dns::RecordedDns;
use super::{Failure, say};
use crate::domain::evidence::{Evidence, Step};

/// Facts compared beside the results of steps: the sources of explanation and advice, and the
/// signers that were trusted.
const FACTS: &[(&str, &str)] = &[
    ("alignment", "causes"),
    ("alignment", "signer"),
    ("alignment", "selector"),
    ("alignment", "adkim"),
    ("alignment", "record"),
    ("arc", "sealer"),
    ("arc", "standsIn"),
];
/// Rules that are kept with a step.
const RULES: &[(&str, &str)] = &[
    ("dkim", "minRsaBits"),
    ("dkim", "countTestingKeys"),
    ("dkim", "maxFutureSeconds"),
    ("dkim", "maxClockSeconds"),
    ("alignment", "rule"),
];

/// A record in its API form, with its evidence.
#[derive(Clone, Copy)]
pub(super) struct ReachedVerdict<'v> {
    pub(super) fields: &'v Map<String, Value>,
    pub(super) evidence: &'v Evidence,
}

/// The outcome of the comparison, in words.
#[derive(Default)]
pub(super) struct Comparison {
    /// Differences that make the verdict another one.
    pub(super) differences: Vec<String>,
    /// Differences in steps that decide nothing, explained by conflicting DNS answers.
    excused: Vec<String>,
    /// Rules with other values today.
    rules: Vec<String>,
    /// Steps copied from the record instead of repeated.
    copied: Vec<&'static str>,
    /// Some DNS answers were not kept whole.
    truncated: bool,
}

impl Comparison {
    /// Compares the record `was` with the repeated verdict `is`.
    pub(super) fn of(
        was: ReachedVerdict<'_>,
        is: ReachedVerdict<'_>,
        answers: &RecordedDns,
    ) -> Self {
        let mut found = Self::default();
        let null = Value::Null;
        for name in ["verdict", "reason", "sender"] {
            let of =
                |verdict: ReachedVerdict<'_>| verdict.fields.get(name).unwrap_or(&null).clone();
            found.differences.extend(differing(name, &of(was), &of(is)));
        }
        let (was, is) = (was.evidence, is.evidence);
        let mut seen = HashSet::new();
        for name in is.iter().chain(was.iter()).map(|step| step.facts.name()) {
            if !seen.insert(name) {
                continue;
            }
            let result = |of: &Evidence| json!(of.step(name).map(|step| step.result.clone()));
            match (
                differing(&format!("step {name}"), &result(was), &result(is)),
                answers.excuse(name),
            ) {
                (Some(words), Some(why)) => found.excused.push(format!("{words} ({why})")),
                (differs, _) => found.differences.extend(differs),
            }
        }
        let what = "the signature that authenticates";
        found.differences.extend(differing(
            what,
            &first_aligned_signature(was),
            &first_aligned_signature(is),
        ));
        found.differences.extend(differing_facts(was, is, FACTS));
        found.rules.extend(differing_facts(was, is, RULES));
        let is_copied = |name: &&str| was.step(name).is_some();
        found.copied = super::COPIED.into_iter().filter(is_copied).collect();
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
            ("given", json!(self.copied)),
            ("truncated", json!(self.truncated)),
        ] {
            shown.insert(name.into(), value);
        }
    }

    /// Prints the comparison, after the verdict.
    pub(super) fn print(&self) -> Result<(), Failure> {
        if self.truncated {
            say!("\nThe record does not hold all DNS answers in full: the rest counts as absent.")?;
        }
        for name in &self.copied {
            match *name {
                "rates" => say!("\nThe rate is not recomputed, but taken from the record.")?,
                _ => say!("\nThe step {name} is not recomputed, but taken from the record.")?,
            }
        }
        if !self.rules.is_empty() {
            say!("\nrules that changed since the record: {}", self.rules.join("; "))?;
        }
        if !self.excused.is_empty() {
            say!("\nanswers differ, the verdict does not: {}", self.excused.join("; "))?;
        }
        match self.differences.as_slice() {
            [] => say!("\nthe same verdict"),
            some => say!("\ndiffers from the record: {}", some.join("; ")),
        }
    }
}

fn differing(what: &str, was: &Value, is: &Value) -> Option<String> {
    (was != is).then(|| format!("{what} was {was}, is {is}"))
}

/// Compares inputs of steps, by step and name. A step that either side lacks is left out: that
/// difference is reported already.
fn differing_facts(
    was: &Evidence,
    is: &Evidence,
    facts: &'static [(&str, &str)],
) -> impl Iterator<Item = String> {
    facts.iter().filter_map(|(step, name)| {
        let inputs = |of: &Evidence| of.step(step).map(|step| json!(step.facts));
        let (was, is) = (inputs(was)?, inputs(is)?);
        differing(&format!("{name} of step {step}"), was.get(name)?, is.get(name)?)
    })
}

/// Returns `{domain, selector}` of the first signature that counts and is aligned.
fn first_aligned_signature(evidence: &Evidence) -> Value {
    let mut signatures = evidence.dkim().into_iter().flat_map(|dkim| dkim.signatures.iter());
    let first = signatures.find(|one| one.aligned && one.counts);
    json!(first.map(|one| json!({ "domain": one.domain, "selector": one.selector })))
}
