//! Messages, their originals and parts, and intake records.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;

use crate::domain::reason::Reason;
use crate::domain::verdict::Verdict;
use crate::http::tests::House;

const WITH_HTML: &str = "From: boss@good.example\r\nMIME-Version: 1.0\r\n\
    Content-Type: multipart/mixed; boundary=b\r\n\r\n\
    --b\r\nContent-Type: text/plain\r\n\r\nhello\r\n\
    --b\r\nContent-Type: text/html\r\nContent-Transfer-Encoding: base64\r\n\
    Content-Disposition: attachment; filename*=utf-8''..%2F..%2Fgr%C3%BC%C3%9Fe%0D%0AX%3A.html\r\n\
    \r\nPHNjcmlwdD4=\r\n--b--\r\n";

#[tokio::test]
async fn recent_messages_may_begin_at_a_time() {
    let house = House::new().await;
    for number in 1..=4 {
        house.receive("agent1", &format!("From: a\r\n\r\nm{number}"), 0).await;
    }
    let all = house.get("org1", "/messages/recent").await.json();
    let since = all[2]["date"].as_str().unwrap();
    let path = format!("/messages/recent?since={since}");
    assert_eq!(house.get("org1", &path).await.texts(), ["m4", "m3", "m2"]);
    // Links keep the time: the pages end there.
    let first = house.get("org1", &format!("{path}&limit=2")).await;
    assert_eq!(first.texts(), ["m4", "m3"]);
    let second = house.get("org1", &first.link("next").unwrap()).await;
    assert_eq!((second.texts(), second.link("next")), (vec!["m2".to_owned()], None));
    let oldest = all[3]["uuid"].as_str().unwrap();
    let newer = house.get("org1", &format!("{path}&after={oldest}")).await;
    assert_eq!(newer.texts(), ["m4", "m3", "m2"]);
    assert_eq!(house.get("org1", "/messages/recent?since=4102444800").await.text(), "[]");
    let wrong = house.get("org1", "/messages/recent?since=yesterday").await;
    wrong.problem(400, "invalid_request", "since must be");
}

#[tokio::test]
async fn recent_messages_are_paged_by_links_both_ways() {
    let house = House::new().await;
    for number in 1..=5 {
        let agent = if number % 2 == 0 { "agent2" } else { "agent1" };
        house.receive(agent, &format!("From: a\r\n\r\nm{number}"), 0).await;
    }
    house.receive("agent4", "From: a\r\n\r\nforeign", 0).await;
    let org = house.id("org1");
    let path = format!("/messages/recent?limit=2&targetAccountId={org}");
    let first = house.get("partner", &path).await;
    assert_eq!(first.status, 200);
    first.carries_what_every_answer_carries();
    assert_eq!(first.texts(), ["m5", "m4"]);
    let second = house.get("partner", &first.link("next").unwrap()).await;
    assert_eq!(second.texts(), ["m3", "m2"]);
    let third = house.get("partner", &second.link("next").unwrap()).await;
    assert_eq!(third.texts(), ["m1"]);
    assert_eq!(third.link("next"), None);
    let back = house.get("partner", &third.link("prev").unwrap()).await;
    assert_eq!(back.texts(), ["m3", "m2"]);
    let back = house.get("partner", &back.link("prev").unwrap()).await;
    assert_eq!(back.texts(), ["m5", "m4"]);
    // A poller follows `prev` to new messages, through empty pages, too.
    assert_eq!(back.link("prev"), first.link("prev"));
    let nothing_yet = house.get("partner", &back.link("prev").unwrap()).await;
    assert_eq!(nothing_yet.text(), "[]");
    assert_eq!(nothing_yet.link("prev"), first.link("prev"));
    house.receive("agent1", "From: a\r\n\r\nm6", 0).await;
    let since = house.get("partner", &nothing_yet.link("prev").unwrap()).await;
    assert_eq!(since.texts(), ["m6"]);
    assert_eq!(house.get("agent2", "/messages/recent").await.texts(), ["m4", "m2"]);
    assert_eq!(house.get("reseller2", "/messages/recent").await.texts(), ["foreign"]);
    assert_eq!(house.get("partner", "/messages/recent").await.texts().len(), 7);
    let none = house.get("agent3", "/messages/recent").await;
    assert_eq!((none.status, none.text().as_str(), none.link("next")), (200, "[]", None));
    // The id of a message works as a cursor, too.
    let last = first.json().as_array().unwrap().last().unwrap()["uuid"].clone();
    let behind = format!("{path}&before={}", last.as_str().unwrap());
    let linked = house.get("partner", &first.link("next").unwrap()).await;
    assert_eq!(house.get("partner", &behind).await.texts(), linked.texts());
    let foreign = format!("/messages/recent?before={}", last.as_str().unwrap());
    house.get("agent3", &foreign).await.problem(400, "invalid_request", "no such id");
    let cursor = first.link("next").unwrap();
    let cursor = cursor.split("before=").nth(1).unwrap();
    let both = format!("/messages/recent?before={cursor}&after={cursor}");
    house.get("partner", &both).await.problem(400, "invalid_request", "exclude each other");
}

#[tokio::test]
async fn a_page_ends_early_when_it_has_become_large() {
    let house = House::with("[limits]\nmax_page_bytes = 65536\npage_step = 2\n").await;
    let text = "x".repeat(30_000);
    for number in 1..=5 {
        house.receive("agent1", &format!("From: a\r\n\r\n{number}{text}"), 0).await;
    }
    let (mut path, mut seen, mut pages) = (Some("/messages/recent".to_owned()), String::new(), 0);
    while let Some(next) = path {
        let page = house.get("agent1", &next).await;
        page.texts().iter().for_each(|text| seen.push_str(&text[..1]));
        assert!(page.body.len() < 65_536 + 100_000, "{}", page.body.len());
        path = page.link("next");
        pages += 1;
    }
    assert_eq!((seen.as_str(), pages), ("54321", 5));
}

#[tokio::test]
async fn originals_and_parts_are_for_saving_only() {
    let house = House::new().await;
    let received = house.receive("agent1", WITH_HTML, 2).await;
    let raw = house.get("org1", &format!("/messages/{}/raw", received.message)).await;
    assert_eq!((raw.status, raw.text().as_str()), (200, WITH_HTML));
    assert_eq!(raw.headers["content-type"], "message/rfc822");
    assert_eq!(raw.headers["x-gatepost-delivered"], "0123456789abcdef0123456789abcdef");
    // Only the part's own name after the number finds it, and no name leads elsewhere.
    for name in ["x.html", "..%2f..%2fetc%2fpasswd", "%2e%2e", "%00", "a%0d%0aX:%20y", ""] {
        let path = format!("/media/{}/2-{name}", received.message);
        house.get("agent1", &path).await.problem(404, "not_found", "no such attachment");
    }
    let own = "gr%C3%BC%C3%9FeX_.html";
    for name in [own, "gr%c3%bc%c3%9feX%3A.html"] {
        let part = house.get("agent1", &format!("/media/{}/2-{name}", received.message)).await;
        assert_eq!((part.status, part.text().as_str()), (200, "<script>"), "{name}");
        assert_eq!(part.headers["content-type"], "application/octet-stream");
        assert!(!part.headers.contains_key("x"));
        let disposition = &part.headers["content-disposition"];
        let both = "attachment; filename=\"gr__eX_.html\"; filename*=UTF-8''gr%C3";
        assert!(disposition.starts_with(both), "{disposition}");
        assert!(disposition.ends_with(".html") && disposition.is_ascii(), "{disposition}");
        assert!(!disposition.contains(".."), "{disposition}");
        part.carries_what_every_answer_carries();
    }
    raw.carries_what_every_answer_carries();
    let policy = &raw.headers["content-security-policy"];
    assert!(policy.starts_with("sandbox; default-src 'none'"), "{policy}");
    assert!(raw.headers["content-disposition"].starts_with("attachment; "));
    // Found by its own Agent, unknown to another.
    for path in [
        format!("/messages/{}/raw", received.message),
        format!("/media/{}/2-{own}", received.message),
    ] {
        house.get("agent2", &path).await.problem(404, "not_found", "no such");
        let narrowed = format!("{path}?targetAccountId={}", house.id("org2"));
        house.get("partner", &narrowed).await.problem(404, "not_found", "no such");
    }
    let refused = house.refuse("agent1", Verdict::Refused(Reason::DkimMissing)).await;
    let unknown = format!("/messages/{refused}/raw");
    house.get("agent1", &unknown).await.problem(404, "not_found", "no such message");
}

#[tokio::test]
async fn downloads_wait_for_a_place_and_give_it_back() {
    let house = House::with("[limits]\nmax_downloads = 1\n").await;
    let received = house.receive("agent1", WITH_HTML, 2).await;
    let path = format!("/messages/{}/raw", received.message);
    let taken = Arc::clone(&house.http.downloads.places).acquire_owned().await.unwrap();
    let asking = house.get("agent1", &path);
    tokio::pin!(asking);
    assert!(timeout(Duration::from_millis(300), &mut asking).await.is_err());
    drop(taken);
    assert_eq!(asking.await.status, 200);
    // Requests for missing originals give their place back.
    let refused = house.refuse("agent1", Verdict::Refused(Reason::DkimMissing)).await;
    let unknown = format!("/messages/{refused}/raw");
    assert_eq!(house.get("agent1", &unknown).await.status, 404);
    assert_eq!(house.get("agent1", &path).await.status, 200);
    assert_eq!(house.http.downloads.places.available_permits(), 1);
}

#[tokio::test]
async fn intake_records_are_filtered_and_paged() {
    let house = House::new().await;
    let received = house.receive("agent1", "From: a\r\n\r\nhello", 0).await;
    let refused = house.refuse("agent1", Verdict::Refused(Reason::DkimMissing)).await;
    house.refuse("agent2", Verdict::Deferred(Reason::DnsUnavailable)).await;
    house.refuse("org1", Verdict::Refused(Reason::UnknownRecipient)).await;
    house.refuse("agent4", Verdict::Refused(Reason::DkimMissing)).await;
    let count = async |caller: &str, query: &str| {
        let body = house.get(caller, &format!("/email/intake{query}")).await.success(200);
        body["intake"].as_array().unwrap().len()
    };
    let agent1 = house.id("agent1");
    for (caller, query, expected) in [
        ("partner", "", 5),
        ("org1", "", 4),
        ("agent1", "", 2),
        ("agent2", "", 1),
        ("org2", "", 0),
        ("org1", &format!("?agent={agent1}"), 2),
        ("org1", "?verdict=refused", 2),
        ("partner", "?verdict=refused&reason=dkim_missing", 2),
        ("org1", "?sender=BOSS%40good.example", 4),
        ("org1", "?sender=other%40good.example", 0),
        ("org1", "?recipient=AGENT1%40partner.example", 2),
        ("org1", "?since=2020-01-01", 4),
        ("org1", "?until=2020-01-01T00:00:00%2B02:00", 0),
        ("org1", "?since=1700000000&until=9999999999", 4),
    ] {
        assert_eq!(count(caller, query).await, expected, "{caller} {query}");
    }
    let (mut path, mut seen) = ("/email/intake?limit=2".to_owned(), 0);
    loop {
        let body = house.get("partner", &path).await.success(200);
        seen += body["intake"].as_array().unwrap().len();
        let Some(next) = body["next"].as_str() else { break };
        path = format!("/email/intake?limit=2&after={next}");
    }
    assert_eq!(seen, 5);
    let shown = house.get("agent1", &format!("/email/intake/{refused}")).await.success(200);
    let shown = &shown["intake"];
    assert_eq!(shown["id"], refused.to_string());
    assert_eq!(shown["agentId"], agent1.get());
    assert_eq!((&shown["verdict"], &shown["reason"]), (&"refused".into(), &"dkim_missing".into()));
    assert_eq!(shown["steps"][0]["name"], "scan");
    assert_eq!(shown["advice"], Reason::DkimMissing.advice());
    assert_eq!(shown["messageUuid"], Value::Null);
    let path = format!("/email/intake/{}", received.intake);
    let accepted = house.get("agent1", &path).await.success(200);
    assert_eq!(accepted["intake"]["messageUuid"], received.message.to_string());
    assert_eq!(accepted["intake"]["advice"], Value::Null);
    house.get("agent2", &path).await.problem(404, "not_found", "no such intake record");
}

/// `before` means older and `after` newer than a cursor or an id, as in every list that shows the
/// newest first; `next` itself says that it means older ones.
#[tokio::test]
async fn intake_records_are_places_in_their_list() {
    let house = House::new().await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(house.refuse("agent1", Verdict::Refused(Reason::DkimMissing)).await.to_string());
    }
    let foreign = house.refuse("agent4", Verdict::Refused(Reason::DkimMissing)).await;
    let list = async |query: &str| {
        let reply = house.get("agent1", &format!("/email/intake?{query}")).await;
        let body = reply.success(200);
        let records = body["intake"].as_array().unwrap().iter();
        let shown = records.map(|one| ids.iter().position(|id| one["id"] == id.as_str()).unwrap());
        (shown.collect::<Vec<_>>(), body["next"].clone(), reply.headers.get("link").cloned())
    };
    let (shown, next, link) = list("limit=2").await;
    let (next, link) = (next.as_str().unwrap().to_owned(), link.unwrap());
    assert_eq!(shown, [3, 2]);
    let place = next.strip_prefix("older.").unwrap();
    assert!(link.contains(&format!("limit=2&before={next}>; rel=\"next\"")), "{link}");
    for (query, expected) in [
        (format!("limit=9&after={next}"), vec![1, 0]),
        (format!("limit=9&before={next}"), vec![1, 0]),
        (format!("limit=9&before={place}"), vec![1, 0]),
        (format!("limit=9&after={place}"), vec![3]),
        (format!("before={}", ids[2]), vec![1, 0]),
        (format!("after={}", ids[1]), vec![3, 2]),
        (format!("limit=1&after={}", ids[1]), vec![2]),
        (format!("agentId={}&before={}", house.id("agent1"), ids[1]), vec![0]),
    ] {
        assert_eq!(list(&query).await.0, expected, "{query}");
    }
    assert_eq!(list(&format!("before={}", ids[2])).await.1, Value::Null);
    for (query, words) in [
        // Foreign and unknown ids get one answer.
        (format!("after={foreign}"), "/after is refused: this list has no such id"),
        (format!("before={}", uuid::Uuid::nil()), "/before is refused: this list has no such id"),
        (format!("before={next}&after={next}"), "exclude each other"),
        (format!("agentId={0}&agent={0}", house.id("agent1")), "send one"),
    ] {
        let reply = house.get("agent1", &format!("/email/intake?{query}")).await;
        reply.problem(400, "invalid_request", words);
    }
}

/// A request examines three records, whatever its filter leaves out, and `next` continues.
#[tokio::test]
async fn a_page_that_passes_over_many_records_ends_early() {
    let house = House::with("[limits]\nmax_page = 2\ndefault_page = 2\nmax_walk = 3\n").await;
    house.receive("agent1", "From: a\r\n\r\nhello", 0).await;
    for name in ["agent1", "agent2", "agent1", "org1", "agent4", "agent1", "agent2", "agent1"] {
        house.refuse(name, Verdict::Refused(Reason::DkimMissing)).await;
    }
    let pages = async |caller: &str, query: &str| {
        let (mut pages, mut after) = (Vec::new(), String::new());
        loop {
            let path = format!("/email/intake?{query}{after}");
            let body = house.get(caller, &path).await.success(200);
            pages.push(body["intake"].as_array().unwrap().len());
            let Some(next) = body["next"].as_str() else { return pages };
            after = format!("&after={next}");
        }
    };
    let agent1 = house.id("agent1");
    for (query, expected) in [
        ("verdict=accepted".to_owned(), vec![0, 0, 1, 0]),
        ("verdict=deferred".to_owned(), vec![0, 0, 0, 0]),
        ("reason=dkim_missing".to_owned(), vec![2, 2, 2, 2, 0]),
        // A filter by Agent or time narrows the records that are looked at.
        (format!("verdict=accepted&agent={agent1}"), vec![0, 1]),
        ("verdict=accepted&until=2020-01-01".to_owned(), vec![0]),
        // Without a filter every record is shown, so the page is full earlier.
        ("since=2020-01-01".to_owned(), vec![2, 2, 2, 2, 1]),
    ] {
        assert_eq!(pages("partner", &query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn intake_filters_are_checked() {
    let house = House::new().await;
    for (query, words) in [
        (
            "agent=x&agentId=01",
            "/agentId must be a whole number from 1 to 9007199254740991, without sign or leading zeros; /agent must be",
        ),
        ("sender=x", "/sender is refused"),
        ("verdict=maybe", "accepted, refused, deferred"),
        ("reason=because", "dkim_missing"),
        ("since=yesterday", "Unix seconds"),
        ("until=2026-02-30", "Unix seconds"),
        ("after=1", "/after must be a cursor of an earlier answer, or an id"),
        ("limit=1000", "1 to 200"),
    ] {
        let reply = house.get("partner", &format!("/email/intake?{query}")).await;
        reply.problem(400, "invalid_request", words);
    }
    let long = format!("/email/intake?recipient={}", "x".repeat(257));
    house.get("partner", &long).await.problem(400, "invalid_request", "at most 256 characters");
    // Out of the key's reach, outside the target, and unknown.
    let agent = |name| format!("/email/intake?agent={}", house.id(name));
    house.get("org1", &agent("agent4")).await.problem(403, "forbidden", "does not reach");
    let nobody = format!("/email/intake?agent={}", crate::http::tests::NOBODY);
    house.get("org1", &nobody).await.problem(403, "forbidden", "does not reach");
    let narrowed = format!("{}&targetAccountId={}", agent("agent1"), house.id("org2"));
    house.get("partner", &narrowed).await.problem(403, "forbidden", "does not reach");
    house.get("org1", &agent("org1")).await.problem(400, "invalid_request", "id of an Agent");
}
