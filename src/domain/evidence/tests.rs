use serde_json::{Value, json};

use super::{Evidence, Facts, Step};

/// Reads a step and serializes it again.
fn shown(step: &Value) -> Value {
    json!(serde_json::from_str::<Step>(&step.to_string()).unwrap())
}

fn step(name: &str, inputs: Value) -> Value {
    json!({"name": name, "result": "r", "detail": "d", "inputs": inputs, "dns": [], "micros": 7})
}

/// Records of an earlier build are shown as that build showed them.
#[test]
fn records_are_read_and_shown_as_they_were() {
    let text = std::fs::read_to_string("fixtures/records.json").unwrap();
    let records: Value = serde_json::from_str(&text).unwrap();
    let records = records.as_object().unwrap();
    assert!(records.len() > 30);
    for (name, record) in records {
        let evidence: Evidence = serde_json::from_str(&record["steps"].to_string()).unwrap();
        assert_eq!(json!(evidence), record["steps"], "{name}");
        assert!(!evidence.iter().any(|step| matches!(step.facts, Facts::Later(_))), "{name}");
    }
}

/// The kinds that are missing in those records.
#[test]
fn each_other_kind_is_shown_as_it_was_read() {
    let rates = json!({"over": "room", "signatureMessagesPerMinute": 1,
        "senderMessagesPerMinute": 2, "roomMessagesPerMinute": 3});
    let relay = json!({"type": "http", "relay": "id", "revision": 4, "accountId": null});
    let policy = json!({"sender": null, "mode": "open", "listed": false, "policyVersion": 9,
        "recipientActive": true, "recipientAnswers": false, "recipientTakesMail": true});
    for (name, inputs) in [
        ("framing", json!({"from": null})),
        ("loop", json!({"field": "Delivered-To", "address": "a@agent.example"})),
        ("policy", policy),
        ("provider", json!({"provider": "p", "proof": "hmac", "relayed": true})),
        ("rates", rates),
        ("receiveMessage", json!({"accountId": 5, "source": "sms"})),
        ("recipient", json!({"path": "a@agent.example"})),
        ("relay", relay),
        ("session", json!({"path": ""})),
        ("session", json!({"helo": "h", "protocol": "HTTP", "tls": null, "size": 6})),
        ("tlsReport", json!({"address": "tls-reports@agent.example"})),
    ] {
        let step = step(name, inputs);
        assert!(!step_is_of_later(&step), "{step}");
        assert_eq!(shown(&step), step);
    }
}

fn step_is_of_later(step: &Value) -> bool {
    let read: Step = serde_json::from_str(&step.to_string()).unwrap();
    matches!(read.facts, Facts::Later(_))
}

#[test]
fn a_step_of_a_later_version_is_shown_as_it_is() {
    let step = step("bimi", json!({"logo": {"url": "https://a.example", "sizes": [1, 2.5]}}));
    assert!(step_is_of_later(&step));
    assert_eq!(shown(&step), step);
}

/// Earlier versions did not have these fields.
#[test]
fn a_policy_without_the_newest_fields_is_read() {
    let old = json!({"sender": "a@b.example", "mode": "allowlist", "listed": true,
        "recipientActive": true});
    let shown = shown(&step("policy", old));
    assert_eq!(shown["inputs"]["policyVersion"], 0);
    assert_eq!(shown["inputs"]["recipientAnswers"], true);
}

#[test]
fn inputs_that_are_not_the_steps_are_refused_by_its_name() {
    let wrong = step("rates", json!({"over": 7})).to_string();
    let refusal = serde_json::from_str::<Step>(&wrong).unwrap_err().to_string();
    assert!(refusal.contains("the inputs of the step \"rates\": invalid type"), "{refusal}");
}

#[test]
fn an_answer_that_was_cut_marks_its_step() {
    let mut cut = step("framing", json!({"from": null}));
    let answer = json!({"name": "a.example", "type": "TXT", "ttl": 9, "answer": ["x"]});
    cut["dns"] = json!([answer]);
    assert_eq!(shown(&cut), cut);
    cut["dns"][0]["truncated"] = json!(true);
    assert_eq!(shown(&cut)["truncated"], true);
}

/// With two steps of one name, the first is found.
#[test]
fn the_finders_take_the_first_of_their_kind() {
    let named = |protocol| json!({"helo": "h", "protocol": protocol, "tls": null, "size": 6});
    let steps = json!([
        step("recipient", json!({"path": "a@b"})),
        step("session", named("SMTP")),
        step("session", named("HTTP"))
    ]);
    let evidence: Evidence = serde_json::from_str(&steps.to_string()).unwrap();
    assert_eq!(evidence.session().unwrap().protocol, "SMTP");
    assert!(evidence.step("recipient").is_some());
    assert!(evidence.spf().is_none() && evidence.step("spf").is_none());
}
