//! The DNS as the verdict of a record saw it: one zone, made of what each step was told.

use serde_json::Value;

use super::super::Failure;
use crate::testkit::dns::{Zone, unescaped};

/// The steps whose answers decide, in this order: what they were told is in the zone, whatever others
/// were told.
const DECISIVE: [&str; 3] = ["dkim", "arc", "dmarc"];
/// The steps that are recorded and decide nothing. Each asks for itself.
const INFORMATIVE: [&str; 2] = ["spf", "iprev"];

/// What was told, without what contradicts it.
#[derive(Default)]
pub(super) struct Told {
    pub(super) zone: Zone,
    conflicts: Vec<Conflict>,
}

/// A step was told something else than the one before it.
struct Conflict {
    step: String,
    question: String,
    first: String,
}

/// The answer to one question, as the first step was told it.
struct Known<'r> {
    step: &'r str,
    name: String,
    kind: &'r str,
    answer: &'r Value,
}

impl Told {
    /// Reads the answers of these steps. What they did not ask for does not exist.
    pub(super) fn of<'r>(steps: impl Iterator<Item = &'r Value>) -> Result<Self, Failure> {
        let name_of = |step: &'r Value| step.get("name").and_then(Value::as_str);
        let mut steps: Vec<_> =
            steps.map(|step| (name_of(step).unwrap_or_default(), step)).collect();
        let place = |name| DECISIVE.iter().position(|one| *one == name);
        steps.sort_by_key(|(name, _)| place(*name).unwrap_or(DECISIVE.len()));
        let mut told = Self::default();
        let mut known: Vec<Known<'_>> = Vec::new();
        for (step, fields) in steps {
            for answer in fields.get("dns").and_then(Value::as_array).into_iter().flatten() {
                let text = |name: &str| answer.get(name).and_then(Value::as_str);
                let (Some(name), Some(kind)) = (text("name"), text("type")) else {
                    return Err(format!("an answer has no name or no type: {answer}").into());
                };
                let this = answer.get("answer").unwrap_or(&Value::Null);
                let name = name.to_ascii_lowercase();
                match known.iter().find(|other| other.name == name && other.kind == kind) {
                    None => {
                        add(&mut told.zone, &name, kind, this).map_err(|error| {
                            format!("the answer {answer} cannot be read: {error}")
                        })?;
                        known.push(Known { step, name, kind, answer: this });
                    }
                    Some(first) if !alike(first.answer, this) => told.conflicts.push(Conflict {
                        step: step.to_owned(),
                        question: format!("{kind} {name}"),
                        first: first.step.to_owned(),
                    }),
                    Some(_) => {}
                }
            }
        }
        Ok(told)
    }

    /// Why `step` may end otherwise than in the record, where it decides nothing: it had another
    /// answer than there is in the zone. Of DMARC `adkim=` decides, and is compared by itself; its
    /// result goes by what SPF found, too.
    pub(super) fn excuse(&self, step: &str) -> Option<String> {
        let of = if step == "dmarc" { "spf" } else { step };
        let conflict = self.conflicts.iter().find(|conflict| conflict.step == of);
        let conflict = conflict.filter(|_| INFORMATIVE.contains(&of))?;
        let Conflict { step, question, first } = conflict;
        Some(format!("{step} had another answer to {question} than {first}"))
    }
}

/// Whether two answers come to the same zone: in whatever order, for whatever passing reason.
fn alike(one: &Value, other: &Value) -> bool {
    fn sorted(answer: &Value) -> Option<Vec<String>> {
        let mut records: Vec<_> = answer.as_array()?.iter().map(Value::to_string).collect();
        records.sort_unstable();
        Some(records)
    }
    match (sorted(one), sorted(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one == other || (is_passing(one) && is_passing(other)),
    }
}

fn is_passing(answer: &Value) -> bool {
    answer.as_str().is_some_and(|word| word.starts_with("temporary failure"))
}

/// One answer, as `verify` writes it down.
fn add(zone: &mut Zone, name: &str, kind: &str, answer: &Value) -> Result<(), Failure> {
    match answer {
        Value::String(word) if word == "NXDOMAIN" => zone.insert(name, kind, "NXDOMAIN", "")?,
        Value::String(word) if word == "no such record" && kind == "TXT" => {
            zone.insert_texts(name, &[])?;
        }
        Value::String(word) if word == "no such record" => {
            zone.insert(name, kind, "NOERROR", "")?
        }
        // Nobody could be asked about it, so nobody will be.
        Value::String(word) if word == "not a domain name" => {}
        Value::String(_) if is_passing(answer) => zone.insert(name, kind, "SERVFAIL", "")?,
        Value::Array(records) => {
            let texts = records.iter().map(|one| one.as_str().ok_or("a record is a string"));
            let texts = texts.collect::<Result<Vec<_>, _>>()?;
            if kind == "TXT" {
                let octets = texts.iter().map(|text| unescaped(text).ok_or("broken escape"));
                zone.insert_texts(name, &octets.collect::<Result<Vec<_>, _>>()?)?;
            } else {
                for text in texts {
                    zone.insert(name, kind, "NOERROR", text)?;
                }
            }
        }
        _ => return Err("expected records, or why there are none".into()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn step(name: &str, dns: Value) -> Value {
        json!({ "name": name, "dns": dns })
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
        let told = Told::of(steps.iter()).unwrap();
        // The keys come first, wherever their step stands.
        let of_spf = "spf had another answer to TXT k.example than arc";
        assert_eq!(told.excuse("spf").as_deref(), Some(of_spf));
        assert_eq!(told.excuse("dmarc").as_deref(), Some(of_spf), "DMARC goes by SPF");
        for step in ["iprev", "dkim", "arc", "alignment", "policy"] {
            assert_eq!(told.excuse(step), None, "{step}");
        }
        let broken = step("spf", json!([{ "name": "a.example" }]));
        assert!(Told::of([broken].iter()).is_err());
    }

    #[test]
    fn what_the_keys_were_told_twice_excuses_nothing() {
        let steps = [
            step("dkim", json!([answer("k.example", "TXT", json!(["p=x"]))])),
            step("arc", json!([answer("k.example", "TXT", json!("NXDOMAIN"))])),
        ];
        let told = Told::of(steps.iter()).unwrap();
        assert_eq!((told.excuse("dkim"), told.excuse("arc")), (None, None));
    }
}
