//! Refused and deferred mail: counted over time, by verdict and by reason.

use std::time::Duration;

use super::Browser;
use crate::domain::reason::Reason;
use crate::domain::verdict::Verdict;
use crate::http::tests::House;

/// The counts of a row of the map of reasons, those of the newest times last.
fn row<'p>(page: &'p str, reason: &str) -> Vec<&'p str> {
    let (_, map) = page.split_once("class=\"heat\"").expect("a map");
    let (_, row) = map.split_once(&format!("<th scope=\"row\">{reason}</th>")).expect("its row");
    let cells = row.split_once("</tr>").unwrap().0.split("<td ").skip(1);
    cells.map(|cell| cell.split_once('>').unwrap().1.split_once('<').unwrap().0).collect()
}

/// The words above the columns of the map of reasons.
fn times(page: &str) -> Vec<&str> {
    let (_, map) = page.split_once("class=\"heat\"").expect("a map");
    let head = map.split_once("</thead>").unwrap().0.split("<th ").skip(2);
    head.map(|cell| cell.split_once('>').unwrap().1.split_once('<').unwrap().0).collect()
}

#[tokio::test]
async fn columns_say_when_they_begin_each_in_other_words() {
    let house = House::new().await;
    house.refuse("agent1", Verdict::Refused(Reason::DkimMissing)).await;
    let browser = Browser::of(&house, "org1").await;
    for (period, days) in [("day", 1), ("week", 7), ("month", 30)] {
        let path = format!("/console/{}/refused?period={period}", house.id("org1"));
        let page = browser.get(&path).await.text();
        let begin = house.now().minus(Duration::from_secs(days * 86_400)).to_string();
        let times = times(&page);
        let first =
            if days == 1 { begin[11..16].to_owned() } else { begin[5..16].replace('T', " ") };
        assert_eq!((times.len(), times[0]), (12, first.as_str()), "{period}: {times:?}");
        let apart: std::collections::BTreeSet<_> = times.iter().collect();
        assert_eq!(apart.len(), 12, "{period}: {times:?}");
    }
}

#[tokio::test]
async fn reasons_are_counted_over_time_and_columns_say_their_counts() {
    let house = House::new().await;
    let refused = Verdict::Refused(Reason::DkimMissing);
    house.refuse("agent1", refused).await;
    house.refuse("agent1", refused).await;
    let earlier = house.now().minus(Duration::from_secs(11 * 3_600));
    house.refuse_at("agent2", Verdict::Deferred(Reason::DnsUnavailable), earlier).await;
    let browser = Browser::of(&house, "org1").await;
    let page = browser.get(&format!("/console/{}/refused", house.id("org1"))).await.text();
    let nothing = [""; 12].to_vec();
    let at = |place: usize, count: &'static str| {
        let mut row = nothing.clone();
        row[place] = count;
        row
    };
    assert_eq!(row(&page, "dkim_missing"), at(11, "2"), "{page}");
    assert_eq!(row(&page, "dns_unavailable"), at(6, "1"), "{page}");
    let titles: Vec<&str> = page.split("<title>").skip(2).collect();
    assert_eq!(titles.len(), 2, "{page}");
    assert!(titles[0].contains(": 1 deferred<") && titles[1].contains(": 2 refused<"), "{page}");
    assert!(!page.contains("style="), "{page}");
}

/// A group leads to its records: by the From field, or by the recipient where mail had none.
#[tokio::test]
async fn each_group_leads_to_its_records() {
    let house = House::new().await;
    house.refuse("agent1", Verdict::Refused(Reason::DkimMissing)).await;
    let browser = Browser::of(&house, "org1").await;
    let at = |page: &str| format!("/console/{}{page}", house.id("org1"));
    let page = browser.get(&at("/refused")).await.text();
    let links = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let groups = ["/live?sender=", "/live?recipient=", "/live?reason="].map(&at);
    for group in groups {
        let link = links.clone().find(|link| link.starts_with(&group)).expect(&group);
        let rows = browser.get(&link.replace("&amp;", "&")).await.text();
        let found = rows.split_once("<tbody id=\"rows\">").unwrap().1.contains("/verdicts/");
        assert!(found, "{link}: {rows}");
    }
}
