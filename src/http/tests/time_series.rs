//! `POST /logs/timeSeries`: metrics by name, and by definition.

use serde_json::{Value, json};

use crate::domain::member::Role;
use crate::domain::reason::Reason;
use crate::domain::verdict::Verdict;
use crate::http::tests::letters::letter;
use crate::http::tests::{House, Reply};

async fn ask(house: &House, caller: &str, more: Value) -> Reply {
    let mut body = json!({ "start": "2026-11-17", "end": "2026-11-19T00:00:00Z" });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    house.call(caller, "POST", "/logs/timeSeries", Some(&body)).await
}

/// agent1 has two messages, one of them sent to a webhook, and three refusals; agent2 has one.
async fn house(rules: &str) -> House {
    let house = House::with(rules).await;
    house.receive("agent1", &letter(), 0).await;
    for (owner, url) in [("agent1", "https://127.0.0.2/a"), ("partner", "https://127.0.0.2/p")] {
        let hook = json!({ "url": url, "label": "x", "type": "incoming" });
        house.call(owner, "POST", "/webhooks", Some(&hook)).await.success(201);
    }
    house.receive("agent1", &letter(), 0).await;
    for reason in [Reason::DkimMissing, Reason::DkimMissing, Reason::SenderNotAllowed] {
        house.refuse("agent1", Verdict::Refused(reason)).await;
    }
    house.give_up().await;
    house.receive("agent2", &letter(), 0).await;
    house
}

#[tokio::test]
async fn what_everybody_wants_to_know_is_there() {
    let mut house = house("").await;
    house.join("few", "org1", Role::Member, &["agent2"]).await;
    for (caller, metric, value, events) in [
        ("agent1", "accepted", json!(2), 2),
        ("org1", "accepted", json!(3), 3),
        ("few", "accepted", json!(1), 1),
        ("agent3", "accepted", json!(0), 0),
        ("agent1", "refused", json!(3), 3),
        ("agent1", "deferred", json!(0), 0),
        ("agent1", "latency", json!(null), 0),
        ("agent1", "latencyMax", json!(null), 0),
        // Deliveries to the partner's webhook are counted for the partner alone.
        ("agent1", "deliveries", json!(1), 5),
        ("org1", "deliveries", json!(1), 6),
        ("partner", "deliveries", json!(3), 6),
        ("agent1", "exhausted", json!(1), 5),
        ("agent1", "delivered", json!(0), 5),
        ("partner", "pending", json!(1), 6),
        ("few", "deliveries", json!(0), 1),
    ] {
        let found = ask(&house, caller, json!({ "metric": metric })).await.success(200);
        assert_eq!(found["value"], value, "{caller} {metric}");
        assert_eq!(found["eventCount"], events, "{caller} {metric}");
        assert_eq!(found["metric"]["name"], metric);
        assert_eq!(
            (&found["start"], &found["endDate"]),
            (&json!(1_794_873_600), &json!("2026-11-19T00:00:00.000Z"))
        );
        let series = found["series"].as_array().unwrap();
        assert_eq!(series.len(), 2);
        assert_eq!(series[0]["start"], "2026-11-17T00:00:00.000Z");
        assert_eq!((&series[0]["eventCount"], &series[1]["value"]), (&json!(0), &value));
        assert_eq!(series[1]["timestamp"], 1_794_960_000);
    }
    // Refused, by reason and day, in one call.
    let asked = json!({ "metric": "refused", "groupBy": "reason" });
    let found = ask(&house, "org1", asked).await.success(200);
    let groups = found["groups"].as_array().unwrap();
    let shown: Vec<_> =
        groups.iter().map(|one| (one["key"].clone(), one["value"].clone())).collect();
    let expected = [(json!("dkim_missing"), json!(2)), (json!("sender_not_allowed"), json!(1))];
    assert_eq!(shown, expected);
    assert_eq!(groups[0]["series"][1]["value"], 2);
    let asked = json!({ "metric": "accepted", "groupBy": "accountId" });
    let found = ask(&house, "org1", asked).await.success(200);
    assert_eq!(found["groups"][0]["key"], house.id("agent1").get());
    assert_eq!(found["groups"][1]["value"], 1);
}

#[tokio::test]
async fn a_definition_is_calculated_as_it_says() {
    let house = house("").await;
    let value = async |definition: Value| {
        let asked = json!({ "definition": definition });
        ask(&house, "agent1", asked).await.success(200)["value"].clone()
    };
    let refused = json!({ "outcome": { "op": "eq", "value": "refused" } });
    for (definition, expected) in [
        (json!({}), json!(5)),
        (json!({ "formula": "1", "aggregation": "count", "filters": refused }), json!(3)),
        (json!({ "formula": 1, "aggregation": "sum" }), json!(5)),
        // A rate is an average, scaled.
        (
            json!({ "formula": "outcome == 'refused'", "aggregation": "avg", "scale": 100 }),
            json!(60),
        ),
        (
            json!({ "formula": "(outcome == \"refused\") / 7", "aggregation": "avg", "precision": 2 }),
            json!(0.09),
        ),
        (json!({ "formula": "size - 1", "aggregation": "min" }), json!(99)),
        (json!({ "formula": "-size", "aggregation": "max" }), json!(-100)),
        (json!({ "formula": "size / deliveries", "aggregation": "avg" }), json!(100)),
        (json!({ "formula": "size / 0", "aggregation": "avg" }), json!(null)),
        (json!({ "filters": { "reason": { "op": "isset", "value": true } } }), json!(3)),
        (json!({ "filters": { "reason": { "op": "isset", "value": "false||json" } } }), json!(2)),
        (
            json!({ "filters": { "reason": { "op": "in", "value": "[\"dkim_missing\", \"x\"]||json" } } }),
            json!(2),
        ),
        (
            json!({ "filters": { "size": [{ "op": "gt", "value": 99 }, { "op": "lt", "value": "100" }] } }),
            json!(0),
        ),
        (json!({ "filters": { "latencyMs": { "op": "gte", "value": 0.5 } } }), json!(0)),
        (json!({ "minimumSampleSize": 5 }), json!(5)),
        (json!({ "minimumSampleSize": 6 }), json!(null)),
    ] {
        assert_eq!(value(definition.clone()).await, expected, "{definition}");
    }
    let whole = json!({ "name": "n", "title": "T", "filters": refused, "formula": "1",
        "fieldTypes": { "size": "number" }, "aggregation": "count", "scale": 1, "format": "percent",
        "precision": 0, "dateFilter": "timestamp", "minimumSampleSize": 9 });
    let asked = json!({ "metric": whole, "interval": "month" });
    let found = ask(&house, "agent1", asked).await.success(200);
    assert_eq!(found["metric"], whole);
    assert_eq!((&found["value"], &found["eventCount"]), (&json!(null), &json!(3)));
    assert_eq!(found["belowMinimumSample"], true);
    assert_eq!(found["series"][0]["start"], "2026-11-01T00:00:00.000Z");
}

#[tokio::test]
async fn what_cannot_be_calculated_is_refused_with_the_reason() {
    let house = house("").await;
    for (asked, said) in [
        (json!({ "start": null }), "/start must be Unix seconds"),
        (json!({}), "/metric is missing: send metric or definition"),
        (json!({ "metric": "x" }), "is not known: expected one of accepted"),
        (json!({ "metric": 1 }), "must be a name, or a definition"),
        (
            json!({ "metric": "accepted", "definition": {} }),
            "/definition is one field too many: send only metric or definition",
        ),
        (json!({ "metric": "accepted", "start": null }), "start must be Unix seconds"),
        (json!({ "metric": "accepted", "end": 1 }), "start lies after end"),
        (
            json!({ "metric": "accepted", "interval": "year" }),
            "/interval must be one of: hour, day",
        ),
        (json!({ "metric": "accepted", "groupBy": "sender" }), "/groupBy must be one of: reason"),
        (
            json!({ "metric": { "sql": "x" } }),
            "/metric/sql is not known here: expected aggregation",
        ),
        (
            json!({ "metric": { "formula": "1; DROP TABLE x" } }),
            "character 2: expected an operator",
        ),
        (
            json!({ "metric": { "aggregation": "p95" } }),
            "/metric/aggregation must be one of: avg, count",
        ),
        (json!({ "metric": { "scale": 1e10 } }), "scale must be a number"),
        (json!({ "metric": { "precision": 11 } }), "precision must be a whole number from 0 to 10"),
        (json!({ "metric": { "minimumSampleSize": -1 } }), "minimumSampleSize must be"),
        (
            json!({ "metric": { "title": "x".repeat(201) } }),
            "/metric/title must be a string of at most 200 characters",
        ),
        (json!({ "metric": { "dateFilter": "yesterday" } }), "dateFilter must be"),
        (
            json!({ "metric": { "fieldTypes": { "x": "number" } } }),
            "\"x\" is not a field of the log",
        ),
        (json!({ "metric": { "filters": [] } }), "/metric/filters must be an object"),
        (json!({ "metric": { "filters": { "x": [] } } }), "\"x\" is not a field of the log"),
        (json!({ "metric": { "filters": { "size": {} } } }), "/metric/filters/size/op is missing"),
        (json!({ "metric": { "filters": { "size": 1 } } }), "/metric/filters/size must be {\"op\""),
        (
            json!({ "metric": { "filters": { "size": { "op": "like", "value": 1 } } } }),
            "/metric/filters/size/op must be one of: eq",
        ),
        (json!({ "metric": { "filters": { "size": { "op": "eq" } } } }), "expected {\"op\""),
        (
            json!({ "metric": { "filters": { "size": { "op": "eq", "value": null } } } }),
            "use isset",
        ),
        (
            json!({ "metric": { "filters": { "size": { "op": "eq", "value": "x" } } } }),
            "whole number",
        ),
        (
            json!({ "metric": { "filters": { "size": { "op": "eq", "value": "{||json" } } } }),
            "a value must be",
        ),
    ] {
        ask(&house, "agent1", asked).await.problem(400, "invalid_request", said);
    }
}

#[tokio::test]
async fn what_one_request_calculates_is_bounded() {
    let rules = "[logs]\nmax_metric_rows = 5\nmax_buckets = 3\nmax_groups = 1\nmax_points = 3\n";
    let house = house(rules).await;
    let accepted = json!({ "metric": "accepted" });
    assert_eq!(ask(&house, "agent1", accepted.clone()).await.success(200)["value"], 2);
    let too_many = ask(&house, "org1", accepted).await;
    too_many.problem(400, "invalid_request", "more than 5 records");
    let hours = json!({ "metric": "accepted", "interval": "hour" });
    ask(&house, "agent1", hours).await.problem(400, "invalid_request", "more than 3 buckets");
    let groups = json!({ "metric": "refused", "groupBy": "reason" });
    ask(&house, "agent1", groups).await.problem(400, "invalid_request", "more than 1 groups");
}
