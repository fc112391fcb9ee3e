//! The DNS as the verdict of a record saw it: one zone, built from the answers to each step.

use super::super::Failure;
use crate::domain::evidence::Step;
use crate::domain::evidence::dns::{DnsOutcome, UsedAnswer};
use crate::testkit::dns::{Zone, unescaped};

/// Deciding steps, in order: their answers enter the zone before those of other steps.
const DECISIVE: &[&str] = &["dkim", "arc", "dmarc"];
/// Recorded steps that decide nothing. Each makes its own queries.
const INFORMATIVE: &[&str] = &["spf", "iprev"];

/// The zone of all answers, and the conflicts among them: the first answer wins.
#[derive(Default)]
pub(super) struct RecordedDns {
    pub(super) zone: Zone,
    conflicts: Vec<Conflict>,
}

/// A step got another answer than an earlier one.
struct Conflict {
    step: String,
    question: String,
    first: String,
}

/// The answer to one question, as the first step got it.
struct FirstAnswer<'r> {
    step: &'r str,
    name: String,
    kind: &'r str,
    outcome: &'r DnsOutcome,
}

impl RecordedDns {
    /// Reads the answers of these steps. Names that they did not query do not exist.
    pub(super) fn of<'r>(steps: impl Iterator<Item = &'r Step>) -> Result<Self, Failure> {
        let mut steps: Vec<_> = steps.map(|step| (step.facts.name(), step)).collect();
        let place = |name| DECISIVE.iter().position(|one| *one == name);
        steps.sort_by_key(|(name, _)| place(*name).unwrap_or(DECISIVE.len()));
        let mut answers = Self::default();
        let mut known: Vec<FirstAnswer<'_>> = Vec::new();
        for (step, dns) in steps.into_iter().map(|(name, step)| (name, &step.dns)) {
            for UsedAnswer { name, kind, told: outcome, .. } in dns {
                let name = name.to_ascii_lowercase();
                match known.iter().find(|other| other.name == name && other.kind == kind) {
                    None => {
                        add(&mut answers.zone, &name, kind, outcome).map_err(|error| {
                            format!("cannot read the answer to {kind} {name}: {error}")
                        })?;
                        known.push(FirstAnswer { step, name, kind, outcome });
                    }
                    Some(first) if !alike(first.outcome, outcome) => {
                        answers.conflicts.push(Conflict {
                            step: step.to_owned(),
                            question: format!("{kind} {name}"),
                            first: first.step.to_owned(),
                        })
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(answers)
    }

    /// Explains why the result of `step`, if it decides nothing, may differ from the record: its
    /// DNS answer conflicted with the zone. For DMARC only `adkim=` decides, and it is compared by
    /// itself; its result also depends on SPF.
    pub(super) fn excuse(&self, step: &str) -> Option<String> {
        let of = if step == "dmarc" { "spf" } else { step };
        let conflict = self.conflicts.iter().find(|conflict| conflict.step == of);
        let conflict = conflict.filter(|_| INFORMATIVE.contains(&of))?;
        let Conflict { step, question, first } = conflict;
        Some(format!("{step} had another answer to {question} than {first}"))
    }
}

/// Whether two answers yield the same zone: any order, and any temporary error, are equal.
fn alike(one: &DnsOutcome, other: &DnsOutcome) -> bool {
    match (one, other) {
        (DnsOutcome::Records(one), DnsOutcome::Records(other)) => {
            let (mut one, mut other) = (one.clone(), other.clone());
            one.sort_unstable();
            other.sort_unstable();
            one == other
        }
        _ => one == other || (one.is_temporary() && other.is_temporary()),
    }
}

/// Adds one answer, in the notation of `verify`.
fn add(zone: &mut Zone, name: &str, kind: &str, outcome: &DnsOutcome) -> Result<(), Failure> {
    match outcome {
        DnsOutcome::Records(texts) if kind == "TXT" => {
            let octets = texts.iter().map(|text| unescaped(text).ok_or("broken escape"));
            zone.insert_texts(name, &octets.collect::<Result<Vec<_>, _>>()?)?;
        }
        DnsOutcome::Records(texts) => {
            for text in texts {
                zone.insert(name, kind, "NOERROR", text)?;
            }
        }
        outcome if *outcome == DnsOutcome::NAME_UNKNOWN => {
            zone.insert(name, kind, "NXDOMAIN", "")?
        }
        outcome if *outcome == DnsOutcome::NO_RECORD && kind == "TXT" => {
            zone.insert_texts(name, &[])?
        }
        outcome if *outcome == DnsOutcome::NO_RECORD => zone.insert(name, kind, "NOERROR", "")?,
        // No query could be made for it, so none will be.
        outcome if *outcome == DnsOutcome::UNASKABLE => {}
        outcome if outcome.is_temporary() => zone.insert(name, kind, "SERVFAIL", "")?,
        _ => return Err("expected records, or the reason why there are none".into()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn step(name: &str, dns: Value) -> Step {
        let inputs = match name {
            "dkim" => json!({ "fields": 0, "considered": 0, "signatures": [], "minRsaBits": 0,
                "countTestingKeys": false, "maxFutureSeconds": 0, "maxClockSeconds": 0 }),
            "spf" => json!({ "client": "", "helo": "", "reversePath": "", "identity": "",
                "receiver": "" }),
            "dmarc" => json!({ "from": "", "dkim": [], "spf": "", "alignedByList": false }),
            _ => json!({ "client": "" }),
        };
        let step = json!({ "name": name, "result": "", "inputs": inputs, "dns": dns });
        serde_json::from_value(step).unwrap()
    }

    fn answer(name: &str, kind: &str, answer: Value) -> Value {
        json!({ "name": name, "type": kind, "answer": answer })
    }

    #[test]
    fn another_answer_excuses_what_decides_nothing() {
        let failed = json!("temporary failure: timeout");
        let other = json!("temporary failure: SERVFAIL");
        let two = |order: [&str; 2]| answer("h.example", "A", json!(order));
        let steps = [
            step("spf", json!([answer("K.example", "TXT", failed.clone())])),
            step("dkim", json!([answer("a.example", "TXT", failed)])),
            step("arc", json!([answer("k.example", "TXT", json!(["p=x"]))])),
            step("dmarc", json!([answer("A.example", "TXT", other), two(["1.1.1.1", "2.2.2.2"])])),
            step("iprev", json!([two(["2.2.2.2", "1.1.1.1"])])),
        ];
        let answers = RecordedDns::of(steps.iter()).unwrap();
        // The answers to the keys come first, wherever their step stands.
        let of_spf = "spf had another answer to TXT k.example than arc";
        assert_eq!(answers.excuse("spf").as_deref(), Some(of_spf));
        assert_eq!(answers.excuse("dmarc").as_deref(), Some(of_spf), "DMARC goes by SPF");
        for step in ["iprev", "dkim", "arc", "alignment", "policy"] {
            assert_eq!(answers.excuse(step), None, "{step}");
        }
        let broken = step("spf", json!([answer("a.example", "TXT", json!("perhaps"))]));
        assert!(RecordedDns::of([broken].iter()).is_err());
    }

    #[test]
    fn what_the_keys_were_told_twice_excuses_nothing() {
        let steps = [
            step("dkim", json!([answer("k.example", "TXT", json!(["p=x"]))])),
            step("arc", json!([answer("k.example", "TXT", json!("NXDOMAIN"))])),
        ];
        let answers = RecordedDns::of(steps.iter()).unwrap();
        assert_eq!((answers.excuse("dkim"), answers.excuse("arc")), (None, None));
    }
}
