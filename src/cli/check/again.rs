//! What a record says otherwise than the same verdict reached again.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::told::Told;
use super::{Failure, say};
use crate::domain::evidence::{Evidence, Step};

/// A record, and what of it is not told by its evidence.
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
        found.differences.extend(all_differing(&facts(was), &facts(is)));
        found.rules.extend(all_differing(&rules(was), &rules(is)));
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

type Facts = Vec<(&'static str, Value)>;

/// Facts of the verdict beside the result of each step: what explanation and advice are made of,
/// and whose word was taken.
fn facts(evidence: &Evidence) -> Facts {
    let aligned = evidence.alignment().map(|found| {
        [
            ("causes of step alignment", json!(found.causes)),
            ("signer of step alignment", json!(found.signer)),
            ("selector of step alignment", json!(found.selector)),
            ("adkim of step alignment", json!(found.adkim)),
            ("record of step alignment", json!(found.record)),
        ]
    });
    let chain = evidence.chain().map(|found| {
        [
            ("sealer of step arc", json!(found.sealer)),
            ("standsIn of step arc", json!(found.stands_in)),
        ]
    });
    aligned.into_iter().flatten().chain(chain.into_iter().flatten()).collect()
}

/// The rules that steps keep.
fn rules(evidence: &Evidence) -> Facts {
    let dkim = evidence.dkim().map(|found| {
        [
            ("minRsaBits of step dkim", json!(found.rules.min_rsa_bits)),
            ("countTestingKeys of step dkim", json!(found.rules.count_testing_keys)),
            ("maxFutureSeconds of step dkim", json!(found.rules.max_future_seconds)),
            ("maxClockSeconds of step dkim", json!(found.rules.max_clock_seconds)),
        ]
    });
    let rule = evidence.alignment().map(|found| ("rule of step alignment", json!(found.rule)));
    dkim.into_iter().flatten().chain(rule).collect()
}

/// Compares what both have; that a step itself is gone is said already.
fn all_differing(was: &Facts, is: &Facts) -> Vec<String> {
    let pair = |(name, was): &(&str, Value)| {
        let (_, is) = is.iter().find(|(other, _)| other == name)?;
        differing(name, was, is)
    };
    was.iter().filter_map(pair).collect()
}

/// `{domain, selector}` of the first signature that counts and is aligned.
fn winner(evidence: &Evidence) -> Value {
    let mut signatures = evidence.dkim().into_iter().flat_map(|dkim| dkim.signatures.iter());
    let first = signatures.find(|one| one.aligned && one.counts);
    json!(first.map(|one| json!({ "domain": one.domain, "selector": one.selector })))
}
