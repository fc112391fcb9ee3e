//! The figures on top of the live page.

use std::time::Duration;

use super::Browser;
use crate::domain::reason::Reason;
use crate::domain::verdict::Verdict;
use crate::http::tests::House;

const REFUSED: Verdict = Verdict::Refused(Reason::DkimMissing);

/// Two refusals and a message of this hour for agent1; a deferral of two hours ago for agent2.
async fn house(rules: &str) -> House {
    let house = House::with(rules).await;
    house.receive("agent1", "Subject: x\r\n\r\nhello", 1).await;
    house.refuse("agent1", REFUSED).await;
    house.refuse("agent1", REFUSED).await;
    let earlier = house.now().minus(Duration::from_secs(2 * 3_600));
    house.refuse_at("agent2", Verdict::Deferred(Reason::DnsUnavailable), earlier).await;
    house.refuse_at("agent2", REFUSED, house.now().minus(Duration::from_secs(25 * 3_600))).await;
    house
}

/// The outcomes of a page with the counts of the hour and of the day.
fn figures(page: &str) -> Vec<String> {
    let (_, tiles) = page.split_once("id=\"figures\"").expect("figures");
    let (tiles, _) = tiles.split_once("Counted when").expect("their end");
    let tiles = tiles.split("class=\"figure\"").skip(1);
    let text = |tile: &str| {
        let texts = tile.split('<').filter_map(|piece| piece.split_once('>')).map(|(_, text)| text);
        texts.map(str::trim).filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
    };
    tiles.map(text).collect()
}

#[tokio::test]
async fn the_newest_page_counts_the_last_hour_and_day_within_its_filters() {
    let house = house("").await;
    let browser = Browser::of(&house, "org1").await;
    let agent2 = house.id("agent2");
    let all = [
        "1 accepted in the last hour 1 in 24 hours",
        "2 refused in the last hour 2 in 24 hours",
        "0 deferred in the last hour 1 in 24 hours",
    ];
    for (query, expected) in [
        (String::new(), all.to_vec()),
        ("sender=BOSS%40Good.Example".into(), all.to_vec()),
        (
            format!("agentId={agent2}"),
            vec![
                "0 accepted in the last hour 0 in 24 hours",
                "0 refused in the last hour 0 in 24 hours",
                all[2],
            ],
        ),
        ("recipient=AGENT1%40partner.example&verdict=refused".into(), vec![all[1]]),
        ("reason=dkim_missing&verdict=refused".into(), vec![all[1]]),
        (
            "reason=dns_unavailable&verdict=accepted".into(),
            vec!["0 accepted in the last hour 0 in 24 hours"],
        ),
    ] {
        let page = browser.get(&format!("/console/{}/live?{query}", house.id("org1"))).await;
        assert_eq!(page.status, 200, "{}", page.text());
        assert_eq!(figures(&page.text()), expected, "{query}");
        assert_eq!(page.text().contains("what matches the filters"), !query.is_empty());
        assert!(!page.text().contains("but for their time"));
    }
    for _ in 0..28 {
        house.refuse("agent1", REFUSED).await;
    }
    let last = house.refuse("agent1", REFUSED).await;
    let page = browser.get(&format!("/console/{}/live?since=2020-01-01", house.id("org1"))).await;
    assert!(page.text().contains("what matches the filters but for their time"), "{}", page.text());
    let refused = "31 refused in the last hour 31 in 24 hours, 1.2 an hour";
    assert_eq!(figures(&page.text())[1], refused);
    let older = browser.get(&format!("/console/{}/live?before={last}", house.id("org1"))).await;
    assert!(older.text().contains("dkim") && !older.text().contains("figures"), "{}", older.text());
}

#[tokio::test]
async fn mail_beyond_the_bound_of_a_metric_is_not_counted_and_the_page_says_so() {
    let house = house("[logs]\nmax_rows = 3\nmax_metric_rows = 3\n").await;
    let browser = Browser::of(&house, "org1").await;
    let page = browser.get(&format!("/console/{}/live", house.id("org1"))).await;
    assert_eq!(page.status, 200, "{}", page.text());
    let shown = figures(&page.text());
    assert_eq!(shown[1], "2 refused in the last hour – in 24 hours");
    assert!(page.text().contains("too much mail to count all of it"), "{}", page.text());
}
