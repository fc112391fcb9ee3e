//! Events that wait for their place in the log, which only those of PostgreSQL do.

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::{PATIENCE, TestGateway, signed};

const FROM: &str = "alice@good.example";
const TO: &str = "support@agents.example";
/// A place at a time, a minute between two.
const SLOW: &str = "[events]\nplace_at_once = 1\nplace_batches = 1\nplace_pause_millis = 60000\n";
const QUICK: &str = "[events]\nplace_at_once = 1\nplace_pause_millis = 1\n";

/// A gateway to which so many messages have come.
async fn with_mail(rules: &str, messages: usize) -> TestGateway {
    let gateway = TestGateway::on_postgres_with(&[("access.toml", rules)]).await;
    for number in 0..messages {
        let message = signed(&format!("number {number}"));
        assert!(gateway.send(FROM, &[TO], &message).await.accepted());
    }
    gateway
}

async fn number(gateway: &TestGateway, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(&mut gateway.postgres().await).await.unwrap()
}

/// Reads on while more may follow.
async fn follow(gateway: &TestGateway) -> Vec<Value> {
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let page = gateway.get(&format!("/events?type=incoming{after}")).await;
        found.extend(page["events"].as_array().unwrap().iter().cloned());
        if !page["more"].as_bool().unwrap() {
            return found;
        }
        after = page["next"].as_str().map_or(after, |next| format!("&after={next}"));
    }
}

#[tokio::test]
async fn a_page_says_whether_more_is_committed_than_it_holds() {
    let gateway = with_mail(SLOW, 5).await;
    let first = gateway.get("/events").await;
    // Nobody gives another place for a minute.
    let query = first["next"].as_str().map(|next| format!("&after={next}")).unwrap_or_default();
    for wait in ["", "&wait=1"] {
        let page = gateway.get(&format!("/events?limit=200{query}{wait}")).await;
        assert_eq!((&first["more"], &page["more"]), (&json!(true), &json!(true)), "{page}");
        assert_eq!(page["events"], json!([]));
    }
    gateway.finish().await;
    let gateway = with_mail(QUICK, 20).await;
    let found = timeout(PATIENCE, follow(&gateway)).await.expect("all get their places");
    let found: Vec<&Value> = found.iter().map(|event| &event["messageUuid"]).collect();
    let sent = gateway.messages().await;
    assert_eq!(found, sent.iter().rev().map(|message| &message["uuid"]).collect::<Vec<_>>());
    gateway.finish().await;
}

/// Nobody reads; then a reader whose request gives a few places only.
#[tokio::test]
async fn a_backlog_is_placed_by_the_gateway_and_no_request_pays_for_it() {
    const WAITING: &str = "SELECT COUNT(*) FROM events WHERE position IS NULL";
    let gateway = with_mail(SLOW, 5).await;
    gateway.get("/events").await;
    let placed = number(&gateway, "SELECT COUNT(*) FROM events WHERE position > 0").await;
    assert!((1..=3).contains(&placed), "{placed}");
    assert!(number(&gateway, WAITING).await > 5);
    gateway.finish().await;
    let gateway = with_mail(QUICK, 1).await;
    let placed = async {
        while number(&gateway, WAITING).await > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, placed).await.expect("places without a reader");
    gateway.finish().await;
}
