//! Outcomes that a model records: a call that is made again records nothing twice, and another outcome
//! in between makes it no repeat.

use serde_json::{Value, json};

use crate::mcp::{accepted, client, started};
use crate::support::signed;

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_records_nothing_twice_and_what_was_replaced_meanwhile_is_no_repeat() {
    let gateway = started().await;
    accepted(&gateway, &signed("question")).await;
    let mcp = client(&gateway);
    let message = async || gateway.get("/messages/recent").await[0].clone();
    let uuid = message().await["uuid"].clone();
    let first = json!({ "uuid": uuid, "outcome": "answered ", "reply": "On Monday.",
        "override": "corrected" });
    let second = json!({ "uuid": uuid, "outcome": "escalated", "override": "called again" });
    let record = async |arguments: &Value| {
        mcp.done("record_outcome", arguments.clone()).await["structuredContent"].clone()
    };
    let is = async |outcome: &str, replies: u32| {
        let kept = message().await;
        assert_eq!(kept["agentOutcome"], outcome);
        assert_eq!(kept["agentReplyCount"], replies);
    };
    let once = record(&first).await;
    assert_eq!(record(&first).await, once, "a repeat");
    is("answered", 1).await;
    record(&second).await;
    is("escalated", 1).await;
    let anew = record(&first).await;
    assert_eq!(anew["replies"], 2);
    assert_ne!(anew["replyUuid"], once["replyUuid"]);
    is("answered", 2).await;
    // Without a reason the outcome that is there stays, and the model hears of it.
    let plain = json!({ "uuid": uuid, "outcome": "ignored" });
    let said = mcp.failed("record_outcome", plain).await;
    assert!(said.contains("override"), "{said}");
    is("answered", 2).await;
    // Each outcome that was recorded is in the audit log, and no repeat.
    let audit = gateway.get("/audit?action=outcome.recorded").await;
    assert_eq!(audit["audit"].as_array().unwrap().len(), 3, "{audit}");
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rating_is_recorded_and_another_one_is_no_repeat() {
    let gateway = started().await;
    accepted(&gateway, &signed("an offer")).await;
    let mcp = client(&gateway);
    let message = async || gateway.get("/messages/recent").await[0].clone();
    let uuid = message().await["uuid"].clone();
    let rated = |rating: u32, why: &str| {
        let (why, again) = (json!(why), json!("rated"));
        json!({ "uuid": uuid, "rating": rating, "ratingReason": why, "override": again })
    };
    let shown = |kept: &Value| (kept["aiLeadRating"].clone(), kept["aiLeadRatingReason"].clone());
    mcp.done("record_outcome", rated(80, "named a budget")).await;
    assert_eq!(shown(&message().await), (json!(80), json!("named a budget")));
    mcp.done("record_outcome", rated(20, "has none")).await;
    assert_eq!(shown(&message().await), (json!(20), json!("has none")));
    // The first one again: it was replaced meanwhile, so it is recorded anew.
    mcp.done("record_outcome", rated(80, "named a budget")).await;
    assert_eq!(shown(&message().await), (json!(80), json!("named a budget")));
    let said = mcp.failed("record_outcome", rated(101, "more than all")).await;
    assert!(said.contains("100"), "{said}");
    gateway.finish().await;
}
