//! `/system`: the state of the gateway, for the partner alone.

use std::time::Duration;

use serde_json::json;

use super::House;
use crate::domain::reason::Reason;
use crate::domain::verdict::Verdict;
use crate::http::table::OPERATIONS;

#[tokio::test]
async fn the_state_has_checks_gauges_counts_and_durations() {
    let house = House::new().await;
    let metrics = &house.http.use_cases.system.metrics;
    metrics.message(Verdict::Accepted, 2_000, Some("TLSv1.3"), Duration::from_millis(2));
    metrics.message(
        Verdict::Refused(Reason::SenderNotAllowed),
        900,
        None,
        Duration::from_millis(1),
    );
    let shown = house.get("partner", "/system").await.success(200);
    let system = &shown["system"];
    assert_eq!(system["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&system["sessions"], &system["messageMemoryBytes"]), (&json!(3), &json!(4_096)));
    assert_eq!(system["certificates"][0]["listener"], "smtp");
    assert_eq!(system["checks"][0]["fault"], json!(null));
    assert_eq!(system["durations"]["accept"]["count"], 1);
    assert!(system["durations"]["accept"]["p50Micros"].as_u64().unwrap() > 1_000);
    assert_eq!(
        system["durations"]["dnsQuery"],
        json!({
            "count": 0, "p50Micros": null, "p95Micros": null, "p99Micros": null
        })
    );
    let minute = system["minutes"].as_array().unwrap().last().unwrap();
    assert_eq!((&minute["accepted"], &minute["refused"]), (&json!(1), &json!(1)));
    assert_eq!(
        system["messages"],
        json!([
            { "outcome": "accepted", "reason": "", "count": 1 },
            { "outcome": "refused", "reason": "sender_not_allowed", "count": 1 },
        ])
    );
    assert_eq!(system["sizes"][0], json!({ "upTo": 1_024, "count": 1 }));
    assert_eq!(system["sizes"].as_array().unwrap().last().unwrap()["upTo"], json!(null));
}

/// Deliveries of all accounts wait in one figure, which names none.
#[tokio::test]
async fn waiting_deliveries_are_counted_and_nobody_is_named() {
    let house = House::new().await;
    let hook = json!({ "url": "https://127.0.0.1/canary", "label": "canary", "type": "incoming" });
    house.post("org1", "/webhooks", hook).await.success(201);
    house.receive("agent1", "Subject: canary\r\n\r\nHello\r\n", 1).await;
    let shown = house.get("partner", "/system").await.success(200);
    assert_eq!(shown["system"]["waitingDeliveries"], 1);
    assert!(!shown.to_string().contains("canary"));
}

#[tokio::test]
async fn metrics_are_text_for_prometheus() {
    let house = House::new().await;
    let text = house.http.use_cases.system.text().await.unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("# TYPE gatepost_smtp_sessions gauge\ngatepost_smtp_sessions 3\n"));
    assert!(OPERATIONS.len() <= 125, "src/metrics/tests.rs counts series with so many");
    assert!(
        text.contains(&format!(
            "gatepost_build_info{{version=\"{}\"}} 1",
            env!("CARGO_PKG_VERSION")
        ))
    );
}

/// A request that is refused is counted, an unknown path is not: only what reaches an operation is, by
/// the names of the table.
#[tokio::test]
async fn requests_are_counted_by_operation_and_status() {
    let house = House::new().await;
    house.get("partner", "/system").await.success(200);
    for _ in 0..2 {
        assert_eq!(house.get("org1", "/system").await.status, 403);
    }
    assert_eq!(house.get("partner", "/canary").await.status, 404);
    let shown = house.get("partner", "/system").await.success(200);
    assert_eq!(
        shown["system"]["requests"],
        json!([
            { "name": "getSystem 2xx", "count": 1 },
            { "name": "getSystem 4xx", "count": 2 },
        ])
    );
}
