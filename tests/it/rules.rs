//! The operator's rules against their own cases: `policies/*.cases.toml`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gatepost::app::intake::{Examination, judge};
use gatepost::domain::message::Digest;
use gatepost::domain::policy::{Mode, Proof};
use gatepost::domain::reason::Reason;
use gatepost::rules::Rules;
use gatepost::store::Standing;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    #[serde(default)]
    decision: Vec<Decision>,
    #[serde(default)]
    retry: Vec<Retry>,
    #[serde(default)]
    refused: Vec<Refused>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Decision {
    about: String,
    proof: String,
    mode: String,
    listed: bool,
    #[serde(default = "yes")]
    active: bool,
    #[serde(default = "yes")]
    takes_mail: bool,
    #[serde(default = "yes")]
    answers: bool,
    #[serde(default)]
    looping: bool,
    verdict: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Retry {
    about: String,
    attempts: u32,
    retry_after: Option<u64>,
    luck: u16,
    wait: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refused {
    text: String,
    because: String,
}

fn yes() -> bool {
    true
}

fn policies() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("policies")
}

fn cases(name: &str) -> Cases {
    let path = policies().join(format!("{name}.cases.toml"));
    let text = std::fs::read_to_string(&path).unwrap();
    toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The rule files, without their cases.
fn names() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(policies())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".toml").map(str::to_owned))
        .filter(|name| !name.ends_with(".cases"))
        .collect();
    names.sort();
    names
}

#[test]
fn decisions_are_as_their_cases_say() {
    let cases = cases("intake").decision;
    assert!(cases.len() >= 10);
    for case in cases {
        let proof = match case.proof.as_str() {
            "authenticated" => Proof::Authenticated,
            code => match code.parse::<Reason>().unwrap() {
                reason if reason.is_temporary() => Proof::Undecidable(reason),
                reason => Proof::Unproven(reason),
            },
        };
        let examination = Examination {
            proof,
            looping: case.looping,
            sender: None,
            automation: None,
            markers: Vec::new(),
            mail: None,
            detail: None,
            explanation: None,
            size: 0,
            digest: Digest([0; 32]),
            headers: Vec::new(),
            arrival_keys: Vec::new(),
            signatures: Vec::new(),
            results: None,
            steps: Default::default(),
        };
        let standing = Standing {
            answers: case.answers,
            active: case.active,
            takes_mail: case.takes_mail,
            mode: case.mode.parse::<Mode>().unwrap(),
            policy_version: 1,
            listed: case.listed,
            relay: None,
        };
        let verdict = judge(&examination, &standing, None).map_or("accepted", Reason::as_str);
        assert_eq!(verdict, case.verdict, "{}", case.about);
    }
}

#[test]
fn retries_are_as_their_cases_say() {
    let schedule = Rules::defaults().unwrap().webhooks.retries.schedule();
    let cases = cases("webhooks").retry;
    assert!(!cases.is_empty());
    for case in cases {
        let asked = case.retry_after.map(Duration::from_secs);
        let wait = schedule.wait(case.attempts, asked, case.luck);
        assert_eq!(wait, case.wait.map(Duration::from_secs), "{}", case.about);
    }
}

#[test]
fn mistakes_in_every_rule_file_are_refused_by_name() {
    for name in names() {
        let cases = cases(&name).refused;
        assert!(!cases.is_empty(), "{name}.cases.toml refuses nothing");
        for case in cases {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join(format!("{name}.toml")), &case.text).unwrap();
            let error = Rules::load(folder.path()).unwrap_err().to_string();
            assert!(error.contains(&case.because), "{name}: {}: {error}", case.text);
        }
    }
}

/// Every number says what it is for, in the line above it or in the block that it belongs to.
#[test]
fn every_rule_is_explained() {
    for name in names() {
        let text = std::fs::read_to_string(policies().join(format!("{name}.toml"))).unwrap();
        let mut explained = false;
        for line in text.lines() {
            match line.trim() {
                "" => explained = false,
                line if line.starts_with('#') => explained = true,
                line if line.starts_with('[') => explained = false,
                line => assert!(explained, "{name}.toml: {line} is not explained"),
            }
        }
    }
}
