//! `GET /messages/search`: pages by links, scopes, and queries that are refused by name. The suite
//! of the store compares results with an independent matcher.

use crate::http::tests::House;

#[tokio::test]
async fn what_matches_is_paged_by_links_both_ways_within_the_scope() {
    let house = House::new().await;
    for number in 1..=5 {
        let agent = if number % 2 == 0 { "agent2" } else { "agent1" };
        house.receive(agent, &format!("From: a\r\n\r\nInvoice {number}"), 0).await;
        house.receive(agent, &format!("From: a\r\n\r\nother {number}"), 0).await;
    }
    house.receive("agent4", "From: a\r\n\r\nforeign invoice", 0).await;
    let path =
        format!("/messages/search?q=inv*+-%223%22&limit=2&targetAccountId={}", house.id("org1"));
    let first = house.get("partner", &path).await;
    first.carries_what_every_answer_carries();
    assert_eq!(first.texts(), ["Invoice 5", "Invoice 4"]);
    assert!(!first.headers.contains_key("x-search-ended-early"), "it is full");
    let next = first.link("next").unwrap();
    assert!(next.contains("q=inv*") && next.contains("%223%22"), "{next}");
    let second = house.get("partner", &next).await;
    assert_eq!(second.texts(), ["Invoice 2", "Invoice 1"]);
    assert_eq!(second.link("next"), None);
    let back = house.get("partner", &second.link("prev").unwrap()).await;
    assert_eq!(back.texts(), ["Invoice 5", "Invoice 4"]);
    // A poller follows `prev` to new messages, through empty pages, too.
    let newest = back.link("prev").unwrap();
    assert!(house.get("partner", &newest).await.texts().is_empty());
    house.receive("agent2", "From: a\r\n\r\nnew INVOICE", 0).await;
    assert_eq!(house.get("partner", &newest).await.texts(), ["new INVOICE"]);

    assert_eq!(
        house.get("agent4", "/messages/search?q=invoice").await.texts(),
        ["foreign invoice"]
    );
    assert!(house.get("agent3", "/messages/search?q=invoice").await.texts().is_empty());
    let of_sms = house.get("agent1", "/messages/search?q=invoice&source=sms").await;
    assert!(of_sms.texts().is_empty());
    let past = house.get("agent1", "/messages/search?q=invoice&until=2020-01-01T00:00:00Z").await;
    assert!(past.texts().is_empty());
}

/// Following `next` finds everything, however little each request may examine.
#[tokio::test]
async fn a_page_that_looks_at_much_ends_early_and_leads_on() {
    let rules = "[limits]\nmax_page = 2\ndefault_page = 2\n\
                 [search]\nmax_rows = 3\nmax_candidates = 3\n";
    let house = House::with(rules).await;
    for number in 0..14 {
        let text = if number % 7 == 0 { "due friday" } else { "friday due" };
        house.receive("agent1", &format!("From: a\r\n\r\n{text} {number}"), 0).await;
    }
    let (mut path, mut seen, mut pages) =
        (Some("/messages/search?q=%22due+friday%22".to_owned()), Vec::new(), 0);
    while let Some(next) = path {
        let page = house.get("agent1", &next).await;
        seen.extend(page.texts());
        path = page.link("next");
        // No page is full.
        let narrow = page.headers.get("x-search-ended-early").map(String::as_str);
        assert_eq!(narrow.is_some_and(|text| text.contains("narrow it")), path.is_some());
        pages += 1;
    }
    assert_eq!(seen, ["due friday 7", "due friday 0"]);
    assert!((5..=9).contains(&pages), "{pages} pages");
}

#[tokio::test]
async fn what_is_not_understood_is_refused_and_nothing_is_an_operator_of_a_database() {
    let house = House::new().await;
    house.receive("agent1", "From: a\r\n\r\nhello", 0).await;
    for (query, expected) in [
        ("", "q is missing"),
        ("q=", "no word to search for"),
        ("q=%22open", "an open quote"),
        ("q=-only", "only excluded words"),
        ("q=subject:+x", "subject: without a word"),
        ("q=ab*", "at least 3 characters"),
        (&format!("q={}", "x".repeat(257)), "more than 256 characters"),
        (&format!("q={}", "x+".repeat(33)), "more than 32 terms"),
        ("q=x&source=fax", "source must be one of"),
        ("q=x&limit=0", "1 to 200"),
        ("q=x&before=y", "before must be a cursor"),
        ("q=x&since=yesterday", "since"),
        ("q=x&sort=asc", "\"sort\" is not known"),
    ] {
        let reply = house.get("agent1", &format!("/messages/search?{query}")).await;
        reply.problem(400, "invalid_request", expected);
    }
    for hostile in [
        "hello'",
        "hello\"",
        "'hello' OR 1=1",
        "hello) OR (x",
        "hello NEAR/2 x",
        "hello & !x",
        "{hello} : x",
        "hello:*",
        "hello:A",
        "\\hello",
        "hello\0",
        "tokens:hello",
        "^hello",
        "hello <-> x",
        "in:a1:0:1",
    ] {
        let query: String = url::form_urlencoded::byte_serialize(hostile.as_bytes()).collect();
        let reply = house.get("agent1", &format!("/messages/search?q={query}")).await;
        let plain = hostile.trim_matches(|c: char| !c.is_ascii_alphanumeric()) == "hello";
        assert_eq!(reply.texts().len(), usize::from(plain), "{hostile:?}");
    }
}
