//! What a draft of a policy would change: over the records of the last days, and what is asked for
//! wrongly. Real messages are in `tests/it/preview.rs`.

use serde_json::{Value, json};

use super::House;
use crate::domain::reason::Reason;
use crate::domain::verdict::Verdict;

const PATH: &str = "/email/inboundPolicy/preview";
const BOSS: &str = "boss@good.example";

impl House {
    async fn preview(&self, body: Value) -> Value {
        self.call("agent1", "POST", PATH, Some(&body)).await.success(200)
    }
}

/// Of agent1: one accepted, one refused by the policy, two refused otherwise, one deferred.
async fn house(rules: &str) -> House {
    let house = House::with(rules).await;
    house.receive("agent1", "From: a\r\n\r\nhello", 0).await;
    house.refuse("agent1", Verdict::Refused(Reason::SenderNotAllowed)).await;
    house.refuse("agent1", Verdict::Refused(Reason::DkimMissing)).await;
    house.refuse("agent1", Verdict::Refused(Reason::UnknownRecipient)).await;
    house.refuse("agent1", Verdict::Deferred(Reason::DnsUnavailable)).await;
    house.refuse("agent2", Verdict::Refused(Reason::SenderNotAllowed)).await;
    house
}

#[tokio::test]
async fn records_are_weighed_by_the_policy_as_it_is_and_the_draft_over_it() {
    let house = house("").await;
    let tally =
        |accepted: u64| json!({"accepted": accepted, "refused": 4 - accepted, "deferred": 1});
    // Nobody is on the list: what was accepted while another policy was in force would not be.
    for (draft, would, changes) in [
        (json!({}), 0, json!([["accepted", "refused"]])),
        (json!({ "mode": "allowlist" }), 0, json!([["accepted", "refused"]])),
        (json!({ "mode": "open" }), 2, json!([["refused", "accepted"]])),
        (json!({ "mode": "open", "remove": [BOSS] }), 2, json!([["refused", "accepted"]])),
        (json!({ "add": ["Boss@GOOD.example", BOSS] }), 2, json!([["refused", "accepted"]])),
        (json!({ "add": ["other@good.example"] }), 0, json!([["accepted", "refused"]])),
    ] {
        let mut body = draft.clone();
        body["days"] = json!(90);
        let answer = house.preview(body).await;
        assert_eq!((&answer["examined"], &answer["complete"]), (&json!(5), &json!(true)));
        let counts = json!({ "was": tally(1), "would": tally(would), "changed": 1 });
        assert_eq!(answer["counts"], counts, "{draft}");
        let changed = answer["changed"].as_array().unwrap();
        let found: Vec<_> = changed.iter().map(|one| json!([one["was"], one["would"]])).collect();
        assert_eq!(json!(found), changes, "{draft}");
        let id = changed[0]["intakeId"].as_str().unwrap();
        let path = format!("/email/intake/{id}");
        let record = house.get("agent1", &path).await.success(200)["intake"].clone();
        for name in ["sender", "date"] {
            assert_eq!(changed[0][name], record[name], "{name}");
        }
        assert_eq!(changed[0]["was"], record["verdict"]);
        assert_eq!(changed[0]["wasReason"], record["reason"]);
    }
    // What is on the list now counts for the past.
    let listed = json!({ "email": BOSS });
    house.call("agent1", "POST", "/email/inboundWhitelist", Some(&listed)).await.success(200);
    for (draft, would, changed) in
        [(json!({ "days": 1 }), 2, 1), (json!({ "days": 1, "remove": [BOSS] }), 0, 1)]
    {
        let answer = house.preview(draft).await;
        assert_eq!(answer["counts"]["would"], tally(would));
        assert_eq!(answer["counts"]["changed"], changed);
    }
    // Nothing was saved.
    let policy = house.get("agent1", "/email/inboundPolicy").await.success(200)["policy"].clone();
    assert_eq!((&policy["mode"], &policy["allowlistCount"]), (&json!("allowlist"), &json!(1)));
}

#[tokio::test]
async fn a_preview_that_did_not_look_at_everything_says_so() {
    for (most, examined, complete) in [(1, 1, false), (4, 4, false), (5, 5, true), (6, 5, true)] {
        let house = house(&format!("[limits]\nmax_preview = {most}\n")).await;
        let answer = house.preview(json!({ "mode": "open", "days": 7 })).await;
        assert_eq!(answer["examined"], examined, "{most}");
        assert_eq!(answer["complete"], complete, "{most}");
        let last = house.get("agent1", "/email/intake").await.success(200);
        let oldest = &last["intake"][examined - 1]["date"];
        assert_eq!(&answer["since"] == oldest, !complete, "{answer} {oldest}");
    }
}

#[tokio::test]
async fn mistakes_are_named_and_change_nothing() {
    let house = House::new().await;
    let many: Vec<String> = (0..1001).map(|number| format!("a{number}@b.example")).collect();
    for (body, words) in [
        (json!({}), "send days, or eml"),
        (json!({ "mode": "open" }), "send days, or eml"),
        (json!({ "days": 1, "eml": "From: a@b.example" }), "exclude each other"),
        (json!({ "days": 0 }), "from 1 to 90"),
        (json!({ "days": 91 }), "from 1 to 90"),
        (json!({ "days": -1 }), "field days must be a whole number"),
        (json!({ "days": 1.5 }), "field days must be a whole number"),
        (json!({ "days": "1" }), "field days must be a whole number"),
        (json!({ "days": 1, "mode": "Open" }), "is not a mode"),
        (json!({ "days": 1, "add": "a@b.example" }), "field add must be an array of strings"),
        (json!({ "days": 1, "add": [BOSS, "x"] }), "add[1]: "),
        (json!({ "days": 1, "remove": [BOSS, "a@b.example", "@b"] }), "remove[2]: "),
        (json!({ "days": 1, "add": many }), "add must hold 1 to 1000 addresses"),
        (
            json!({ "days": 1, "add": [BOSS], "remove": ["a@b.example", "BOSS@good.example"] }),
            "remove[1]: boss@good.example is to be added, too",
        ),
        (json!({ "days": 1, "draft": {} }), "field \"draft\" is not known here"),
        (json!({ "eml": "" }), "the text of a message, or the base64"),
        (json!({ "eml": "no colon and no base64!" }), "the text of a message, or the base64"),
        (json!({ "eml": 1 }), "field eml must be a string"),
    ] {
        let reply = house.call("agent1", "POST", PATH, Some(&body)).await;
        reply.problem(400, "invalid_request", words);
    }
    house.get("agent1", PATH).await.problem(405, "method_not_allowed", "Allow");
}

#[tokio::test]
async fn a_message_may_be_as_large_as_mail_may_be_and_no_larger() {
    let house = House::with("[limits]\nmax_body_bytes = 1024\nmax_uploads = 1\n").await;
    let body = |size: usize| json!({ "eml": format!("X: {}\r\n", "x".repeat(size)) });
    // Beyond what other bodies may have: it is read and looked at.
    let answer = house.preview(body(100_000)).await;
    assert_eq!(answer["current"]["reason"], "sender_invalid", "{answer}");
    let too_large = house.http.use_cases.preview.max_message_bytes();
    let reply = house.call("agent1", "POST", PATH, Some(&body(too_large))).await;
    reply.problem(413, "payload_too_large", "a message has at most");
    // The others have their own limit, and places are given back.
    let long = json!({ "mode": "x".repeat(2000) });
    let reply = house.call("agent1", "PUT", "/email/inboundPolicy", Some(&long)).await;
    reply.problem(413, "payload_too_large", "at most 1024 octets");
    assert_eq!(house.http.uploads.available_permits(), 1);
}
