//! `fixtures/threats.toml` against what there is: every line of the catalogue of threats is proven
//! by something that exists and says what the line says, and `docs/threats.md` shows it.

use std::collections::{BTreeMap, BTreeSet};

use gatepost::domain::reason::Reason;
use gatepost::testkit::case::Case;
use serde::Deserialize;

use crate::support::{fixture, sources};

/// The catalogue: how many lines each of its parts has.
const LINES: &[(&str, usize)] = &[
    ("F", 11),
    ("G", 7),
    ("A", 24),
    ("B", 25),
    ("C", 19),
    ("D", 12),
    ("E", 16),
    ("H", 15),
    ("K", 20),
    ("W", 10),
    ("M", 7),
    ("S", 8),
];

#[derive(Deserialize)]
struct Register {
    /// By the issue that will prove them.
    waiting: BTreeMap<String, Vec<String>>,
    #[serde(flatten)]
    lines: BTreeMap<String, Line>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    tried: String,
    must: String,
    #[serde(default)]
    verdicts: BTreeSet<String>,
    #[serde(default)]
    cases: Vec<String>,
    #[serde(default)]
    transcripts: Vec<String>,
    #[serde(default)]
    tests: Vec<String>,
}

fn register() -> Register {
    toml::from_str(&sources::read("fixtures/threats.toml")).unwrap()
}

#[test]
fn every_line_of_the_catalogue_is_there_once() {
    let register = register();
    let catalogue = LINES
        .iter()
        .flat_map(|(part, lines)| (1..=*lines).map(move |number| format!("{part}{number}")));
    let waiting: Vec<String> = register.waiting.values().flatten().cloned().collect();
    let mut found: Vec<String> = register.lines.keys().chain(&waiting).cloned().collect();
    let mut wanted: Vec<String> = catalogue.collect();
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted, "twice, missing, or not in the catalogue");
    // Only lines of the parts H and K may still wait for a proof.
    for id in waiting {
        assert!(id.starts_with(['H', 'K']), "{id} is to be proven now");
    }
}

#[test]
fn every_line_is_proven_by_what_exists() {
    let cases = Case::all().unwrap();
    let expected: BTreeMap<&str, &str> =
        cases.iter().map(|case| (case.name.as_str(), case.script.expect.as_str())).collect();
    let (tests, mut wrong) = (sources::tests(), Vec::new());
    for (id, line) in &register().lines {
        let mut fault = |text: String| wrong.push(format!("{id}: {text}"));
        if [&line.tried, &line.must].iter().any(|text| text.is_empty() || text.contains('\n')) {
            fault("`tried` and `must` are one line each".into());
        }
        if line.cases.is_empty() && line.transcripts.is_empty() && line.tests.is_empty() {
            fault("nothing proves it".into());
        }
        let mut verdicts = BTreeSet::new();
        for case in &line.cases {
            match expected.get(case.as_str()) {
                Some(verdict) => drop(verdicts.insert((*verdict).to_owned())),
                None => fault(format!("there is no case {case}")),
            }
        }
        if verdicts != line.verdicts {
            fault(format!("its cases end as {verdicts:?}, not as {:?}", line.verdicts));
        }
        let known = |verdict: &str| {
            verdict == "accepted" || Reason::ALL.iter().any(|reason| reason.as_str() == verdict)
        };
        for verdict in line.verdicts.iter().filter(|verdict| !known(verdict)) {
            fault(format!("{verdict} is no verdict"));
        }
        for transcript in &line.transcripts {
            if !fixture("smtp").join(transcript).is_file() {
                fault(format!("there is no transcript {transcript}"));
            }
        }
        for test in line.tests.iter().filter(|test| !tests.contains(*test)) {
            fault(format!("there is no test {test}"));
        }
        for names in [&line.cases, &line.transcripts, &line.tests] {
            if names.iter().collect::<BTreeSet<_>>().len() != names.len() {
                fault("something is named twice".into());
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_page_has_each_line_with_its_proofs() {
    let (page, mut wrong) = (sources::read("docs/threats.md"), Vec::new());
    for (id, line) in &register().lines {
        let start = format!("| <a id=\"{}\"></a>{id} | ", id.to_lowercase());
        let rows: Vec<&str> = page.lines().filter(|row| row.starts_with(&start)).collect();
        let shown = rows.first().and_then(|row| row.rsplit(" | ").next()).unwrap_or_default();
        let named: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
        let proofs = [&line.cases, &line.transcripts, &line.tests];
        let is_proof = |name: &&str| proofs.iter().any(|all| all.iter().any(|one| one == name));
        if rows.len() != 1 || named.is_empty() || !named.iter().all(is_proof) {
            wrong.push(format!("{id}: {} rows: {shown}", rows.len()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
