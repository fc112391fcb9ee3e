//! Each DKIM signature by us and by dkimpy, an independent implementation: the same, or listed with
//! the reason in `fixtures/dkim-differences.toml`. What counts for us verifies for it, without
//! exception.

use std::collections::{BTreeMap, BTreeSet};

use gatepost::domain::policy::Proof;
use gatepost::domain::reason::Reason;
use gatepost::testkit::case::{self, Case};
use gatepost::testkit::dns::Zone;
use serde::Deserialize;
use serde_json::json;
use tokio::process::Command;
use tokio::time::timeout;

use crate::support::corpus::{self, say};
use crate::support::examiner::{Examiner, NOW};
use crate::support::{PATIENCE, python, sources};

#[derive(Deserialize)]
struct Differences {
    difference: Vec<Difference>,
}

/// One signature of which the two say different things.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(deny_unknown_fields)]
struct Difference {
    /// A case of `fixtures/mail`, or the path of a message of the corpus.
    message: String,
    /// From the top, the first is 1.
    signature: usize,
    /// Our result, in the words of the evidence.
    ours: String,
    /// `pass` or `fail`.
    dkimpy: String,
    #[serde(default)]
    why: String,
}

#[derive(Default)]
struct Comparison {
    /// By name: the message, and the zone that has its keys.
    messages: BTreeMap<String, (Vec<u8>, String)>,
    signatures: usize,
    unread: usize,
    differences: Vec<Difference>,
    wrong: Vec<String>,
}

impl Comparison {
    /// Asks both about every message.
    async fn run(&mut self) {
        let theirs = self.by_dkimpy().await;
        let mut examiner = (String::new(), Examiner::over(Zone::default()).await);
        for (name, (raw, zone)) in &self.messages {
            if examiner.0 != *zone {
                examiner = (zone.clone(), Examiner::over(Zone::parse(zone).unwrap()).await);
            }
            let examined = examiner.1.examine(raw).await;
            let no_sender = examined.proof == Proof::Unproven(Reason::SenderInvalid);
            let ours = examined.results.as_ref().map(|results| &results.dkim);
            let Some(ours) = ours.filter(|ours| !ours.is_empty() || !no_sender) else {
                // Refused for its header section: no signature was verified, so none counts.
                self.unread += usize::from(!theirs[name].is_empty());
                continue;
            };
            if ours.len() != theirs[name].len().min(examiner.1.rules.authentication.max_signatures)
            {
                self.wrong.push(format!(
                    "{name}: we see {} signatures: {:?}",
                    ours.len(),
                    theirs[name]
                ));
            }
            for (at, (ours, (verified, why))) in ours.iter().zip(&theirs[name]).enumerate() {
                self.signatures += 1;
                let (counts, result) = (ours.counts, &*ours.result);
                if counts && !verified {
                    self.wrong.push(format!("{name}: {ours:?} counts, and dkimpy says: {why}"));
                }
                if counts != *verified {
                    self.differences.push(Difference {
                        message: name.clone(),
                        signature: at + 1,
                        ours: result.to_owned(),
                        dkimpy: if *verified { "pass" } else { "fail" }.to_owned(),
                        why: String::new(),
                    });
                }
            }
        }
    }

    async fn by_dkimpy(&self) -> BTreeMap<String, Vec<(bool, String)>> {
        let folder = tempfile::tempdir().unwrap();
        let mut asked = BTreeMap::new();
        for (number, (name, (raw, zone))) in self.messages.iter().enumerate() {
            let file = folder.path().join(number.to_string());
            std::fs::write(&file, raw).unwrap();
            asked.insert(name, (file, zone));
        }
        let zones: BTreeMap<&str, _> =
            self.messages.values().map(|(_, zone)| (zone.as_str(), texts(zone))).collect();
        let input = json!({ "now": NOW, "zones": zones, "messages": asked });
        let answer = python::run("dkim_results.py", input.to_string().as_bytes()).await;
        serde_json::from_slice(&answer).unwrap()
    }
}

/// The TXT records of a zone, by name.
fn texts(zone: &str) -> BTreeMap<String, &str> {
    let rows = zone.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    rows.filter(|row| row.len() > 3 && (row[1], row[2]) == ("TXT", "NOERROR"))
        .map(|row| (row[0].to_lowercase(), row[3]))
        .collect()
}

#[tokio::test]
async fn every_signature_is_what_dkimpy_says_or_the_difference_is_listed() {
    let mut comparison = Comparison::default();
    let cases = Case::groups().unwrap().remove(0).cases;
    for case in cases.iter().filter(|case| case.raw().len() < 1 << 20) {
        let zone = case::zone().to_owned();
        comparison.messages.insert(case.name.clone(), (case.raw(), zone));
    }
    let fixtures: BTreeSet<String> = comparison.messages.keys().cloned().collect();
    let corpus = corpus::messages();
    for message in corpus.iter().flatten().filter(|message| !message.zone.is_empty()) {
        let entry = (message.raw.clone(), message.zone.clone());
        comparison.messages.insert(message.path.clone(), entry);
    }
    comparison.run().await;
    let Comparison { wrong, signatures, unread, mut differences, messages } = comparison;
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    let listed = sources::read("fixtures/dkim-differences.toml");
    let mut listed = toml::from_str::<Differences>(&listed).unwrap().difference;
    assert!(listed.iter().all(|one| !one.why.is_empty()), "a difference has no reason");
    // Without the corpus its messages are not compared.
    listed.retain(|one| corpus.is_some() || fixtures.contains(&one.message));
    listed.iter_mut().for_each(|one| one.why.clear());
    listed.sort();
    differences.sort();
    assert_eq!(differences, listed, "found, and listed in fixtures/dkim-differences.toml");
    say(&format!(
        "dkimpy: compared {signatures} signatures of {} messages, {} of them of other people; {} \
         differ as listed; {unread} messages with signatures were refused before",
        messages.len(),
        messages.len() - fixtures.len(),
        differences.len()
    ));
    assert!(signatures >= 200, "{signatures}");
}

/// The script that makes the fixtures would make these very files, and holds all of them, those
/// made by hand too, against dkimpy and Python's mail parser.
#[tokio::test]
async fn the_fixtures_are_what_their_script_makes() {
    let script = sources::root().join("scripts/make-fixtures.py");
    let output = Command::new(python::interpreter())
        .args([script.as_os_str(), "--check".as_ref()])
        .kill_on_drop(true)
        .output();
    let output = timeout(PATIENCE, output).await.unwrap();
    let output =
        output.unwrap_or_else(|error| panic!("python: {error}: run the tests by scripts/test"));
    let said = String::from_utf8_lossy(&output.stdout);
    let failed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "make-fixtures.py --check: {said}{failed}");
}
