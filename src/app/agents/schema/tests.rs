//! Cases of `fixtures/agent-config.cases.toml`, and properties of the whole table.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};

use super::*;
use crate::domain::fault::{SHOWN, sentence};
use crate::rules::Rules;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    case: Vec<Case>,
}

/// A configuration and all its faults, as `pointer detail`; the detail may be cut short.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    config: String,
    faults: Vec<String>,
}

fn rules() -> AgentRules {
    Rules::defaults().unwrap().access.agents
}

fn config(value: &Value) -> Config {
    value.as_object().unwrap().clone()
}

#[test]
fn every_case_has_exactly_its_faults() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/agent-config.cases.toml");
    let cases: Cases = toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(cases.case.len() > 30);
    let mut tried = BTreeSet::new();
    for case in cases.case {
        let value: Value = serde_json::from_str(&case.config).unwrap();
        let mut found = faults(&config(&value), "", &rules());
        found.sort_by(|one, other| one.pointer.cmp(&other.pointer));
        let told: Vec<_> =
            found.iter().map(|one| format!("{} {}", one.pointer, one.detail)).collect();
        let same = told.len() == case.faults.len()
            && told.iter().zip(&case.faults).all(|(one, wanted)| one.starts_with(wanted.as_str()));
        assert!(same, "{}: {told:#?}", case.name);
        tried.extend(value.as_object().unwrap().keys().cloned());
    }
    for field in FIELDS {
        assert!(tried.contains(field.name), "no case has {}", field.name);
    }
}

#[test]
fn the_table_is_consistent_and_its_defaults_fit() {
    let mut names = BTreeSet::new();
    for field in FIELDS {
        assert!(names.insert(field.name), "{} is there twice", field.name);
        let preset = Config::from_iter([(field.name.to_owned(), field.preset.value())]);
        assert_eq!(faults(&preset, "", &rules()), [], "{}", field.name);
    }
    assert!(CALCULATED.iter().all(|name| names.insert(name)), "a calculated field is set, too");
}

#[test]
fn faults_are_listed_up_to_a_bound_and_where_they_stand() {
    let words: Vec<_> = (0..1000).map(Value::from).collect();
    let found = faults(&config(&json!({ "links": words })), "/snapshot", &rules());
    assert_eq!((found.len(), found[3].pointer.as_str()), (LISTED, "/snapshot/links/3"));
    let words = vec![json!("x"); 1001];
    let found = faults(&config(&json!({ "links": words })), "", &rules());
    assert_eq!(sentence(&found), "/links must have at most 1000 entries");
    let long = "x".repeat(1000);
    let found =
        faults(&config(&json!({ "backgroundAudio": { "url": "u", long: 1 } })), "", &rules());
    assert_eq!(found[0].pointer.len(), "/backgroundAudio/".len() + SHOWN);
}

#[test]
fn what_is_not_set_is_shown_with_its_default() {
    let whole = shown(&config(&json!({
        "title": "x", "backgroundAudio": { "url": "https://a.example/a.mp3", "gain": 3 },
        "apps": [{ "appId": "a", "version": "v1", "instructions": "" }],
    })));
    assert_eq!(whole.keys().count(), FIELDS.len());
    assert_eq!((&whole["agentLang"], &whole["speakingTimeout"]), (&json!("en-US"), &json!(1200)));
    assert_eq!((&whole["timezone"], &whole["skills"]), (&Value::Null, &json!([])));
    let audio = json!({
        "url": "https://a.example/a.mp3", "gain": 3, "loop": true, "startAfterGreeting": true,
    });
    assert_eq!(whole["backgroundAudio"], audio);
    assert_eq!(whole["apps"][0]["enabled"], true);
    // A shown configuration can be sent back as it is.
    assert_eq!(faults(&whole, "", &rules()), []);
    let lacking: Vec<_> = missing(&Config::new()).into_iter().map(|one| one.pointer).collect();
    assert_eq!(lacking, ["/type", "/title", "/description"]);
}

#[test]
fn whom_work_is_handed_to_is_read() {
    let named = json!({ "computerDelegateAccountId": "17" });
    assert_eq!(delegate(&config(&named)), AccountId::new(17));
    assert_eq!(delegate(&Config::new()), None);
}
