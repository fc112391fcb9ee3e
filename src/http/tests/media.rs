//! Parts and originals: by ranges, as a page, and by links that need no key.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::app::mailbox::links::Links;
use crate::domain::clock::Clock;
use crate::domain::id::MessageId;
use crate::domain::message::Attachment;
use crate::http::table::OPERATIONS;
use crate::http::tests::{House, Reply};
use crate::http::verb::Verb;

const MAIL: &str = "From: boss@good.example\r\nMIME-Version: 1.0\r\n\
    Content-Type: multipart/mixed; boundary=b\r\n\r\n\
    --b\r\nContent-Type: text/html; charset=utf-8\r\n\r\n\
    <p onclick=x>Hi <script>alert(1)</script><img src=\"https://x.example/p\" alt=pixel>\r\n\
    --b\r\nContent-Type: text/plain\r\nContent-Disposition: attachment; filename=\"a b.txt\"\r\n\r\n\
    0123456789\r\n--b--\r\n";
const FILE: &str = "2-a%20b.txt";
const PAGE: &str = "1-attachment.html";

fn part(part: u32, filename: &str) -> Attachment {
    let content_type = "text/plain".to_owned();
    Attachment { part, content_type, filename: filename.into(), size: 10, listed: true }
}

impl House {
    /// Signs links by the house's clock.
    fn links(&self) -> &Links {
        &self.http.use_cases.links
    }

    fn signed_file(&self, message: MessageId) -> String {
        self.links().part(message, &part(2, "a b.txt"), self.links().expiry())
    }

    fn signed_page(&self, message: MessageId) -> String {
        self.links().part(message, &part(1, "attachment.html"), self.links().expiry())
    }

    fn signed_raw(&self, message: MessageId) -> String {
        self.links().raw(message, self.links().expiry())
    }

    /// A reader that requests this path, takes the first bytes, and then stops.
    async fn slowly(&self, path: &str) -> TcpStream {
        let head = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
        let mut slow = TcpStream::connect(self.address).await.unwrap();
        slow.write_all(head.as_bytes()).await.unwrap();
        let mut first = [0; 12];
        slow.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        slow
    }

    async fn open(&self, link: &str) -> Reply {
        self.send("GET", link, None).await
    }
}

#[tokio::test]
async fn a_part_of_a_file_is_served_by_its_range() {
    let house = House::new().await;
    let message = house.receive("agent1", MAIL, 2).await.message;
    let (file, raw) = (format!("/media/{message}/{FILE}"), format!("/messages/{message}/raw"));
    let ask = async |verb: &str, path: &str, lines: &str| {
        house.exact("agent1", (verb, path), lines, None).await
    };
    let whole = ask("GET", &file, "").await;
    assert_eq!((whole.status, whole.text().as_str()), (200, "0123456789"));
    assert_eq!(whole.headers["content-length"], "10");
    assert_eq!(whole.headers["accept-ranges"], "bytes");
    assert_eq!(whole.headers["content-type"], "text/plain");
    assert_eq!(whole.headers["cross-origin-resource-policy"], "same-origin");
    assert_eq!(
        whole.headers["content-disposition"],
        "attachment; filename=\"a b.txt\"; filename*=UTF-8''a%20b.txt"
    );
    whole.carries_what_every_answer_carries();
    let tag = whole.headers["etag"].clone();
    assert!(tag.starts_with('"') && tag.len() == 24, "{tag}");
    for (range, octets, said) in [
        ("bytes=2-4", "234", "bytes 2-4/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=-2", "89", "bytes 8-9/10"),
        ("bytes=0-999", "0123456789", "bytes 0-9/10"),
    ] {
        for condition in [String::new(), format!("If-Range: {tag}\r\n")] {
            let part = ask("GET", &file, &format!("Range: {range}\r\n{condition}")).await;
            assert_eq!((part.status, part.text().as_str()), (206, octets), "{range}");
            assert_eq!(part.headers["content-range"], said);
            assert_eq!(part.headers["content-length"], octets.len().to_string());
            assert_eq!(part.headers["etag"], tag);
            part.carries_what_every_answer_carries();
        }
    }
    for lines in [
        "Range: bytes=0-1,3-4\r\n",
        "Range: bytes=4-2\r\n",
        "Range: lines=1-2\r\n",
        "Range: bytes=1-2\r\nRange: bytes=3-4\r\n",
        "Range: bytes=1-2\r\nIf-Range: \"other\"\r\n",
    ] {
        let reply = ask("GET", &file, lines).await;
        assert_eq!((reply.status, reply.body.len()), (200, 10), "{lines}");
    }
    let behind = ask("GET", &file, "Range: bytes=10-\r\n").await;
    behind.problem(416, "range_not_satisfiable", "10 bytes");
    assert_eq!(behind.headers["content-range"], "bytes */10");
    let had = ask("GET", &file, &format!("If-None-Match: {tag}\r\nRange: bytes=0-1\r\n")).await;
    assert_eq!((had.status, had.body.len(), &had.headers["etag"]), (304, 0, &tag));
    // A HEAD has the headers of a GET without a range.
    let head = ask("HEAD", &file, "Range: bytes=2-4\r\n").await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    for name in ["content-length", "etag", "content-type", "content-disposition"] {
        assert_eq!(head.headers[name], whole.headers[name], "{name}");
    }
    let original = ask("GET", &raw, "Range: bytes=-11\r\n").await;
    assert_eq!((original.status, original.text().as_str()), (206, "89\r\n--b--\r\n"));
    assert_eq!(original.headers["content-type"], "message/rfc822");
    assert_eq!(original.headers["x-gatepost-delivered"], "0123456789abcdef0123456789abcdef");
    // The places are free again after every result.
    let most = house.http.rules.limits.max_downloads;
    assert_eq!(house.http.downloads.places.available_permits(), most);
}

#[tokio::test]
async fn the_html_of_a_message_is_a_page_that_is_safe_to_show() {
    let house = House::new().await;
    let message = house.receive("agent1", MAIL, 2).await.message;
    let path = format!("/media/{message}/{PAGE}");
    let page = house.get("agent1", &path).await;
    assert_eq!(page.text(), "<!doctype html>\n<p>Hi pixel</p>");
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    assert!(
        page.headers["content-disposition"].starts_with("inline; filename=\"attachment.html\"")
    );
    let policy = &page.headers["content-security-policy"];
    for part in ["sandbox ", "default-src 'none'", "img-src data:", "frame-ancestors 'none'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("script") && !policy.contains("same-origin"), "{policy}");
    page.carries_what_every_answer_carries();
    let original = house.get("agent1", &format!("{path}?original=true")).await;
    assert!(original.text().contains("<script>alert(1)</script>"));
    assert_eq!(original.headers["content-type"], "application/octet-stream");
    assert!(original.headers["content-disposition"].starts_with("attachment;"));
    assert_ne!(original.headers["etag"], page.headers["etag"]);
    assert_eq!(house.get("agent1", &format!("{path}?original=false")).await.body, page.body);
    let wrong = house.get("agent1", &format!("{path}?original=1")).await;
    wrong.problem(400, "invalid_request", "true or false");
}

#[tokio::test]
async fn a_page_that_is_too_large_is_its_text() {
    let house = House::with("[media]\nmax_html_tags = 100\n").await;
    let large = MAIL.replace("Hi ", &"<b>Hi</b> ".repeat(100));
    let message = house.receive("agent1", &large, 2).await.message;
    let text = house.get("agent1", &format!("/media/{message}/{PAGE}")).await;
    assert_eq!(text.headers["content-type"], "text/plain; charset=utf-8");
    assert!(text.text().starts_with("Hi Hi ") && !text.text().contains('<'), "{}", text.text());
    assert!(text.headers["content-disposition"].contains("attachment.html.txt"));
}

/// Threats E11.
#[tokio::test]
async fn no_path_leads_out_of_the_message() {
    let house = House::new().await;
    let message = house.receive("agent1", MAIL, 2).await.message;
    let long = format!("2-{}", "a".repeat(6000));
    for name in [
        "..",
        "2-..",
        "2-%2e%2e%2fb.txt%00",
        "%2e%2e%2f2-a%20b.txt",
        "2-a%20b.txt%2f..",
        "%00",
        "2-%00",
        "2-%ff",
        "+2-a%20b.txt",
        "02-a%20b.tx",
        "-2-a%20b.txt",
        "99999999999-a%20b.txt",
        "2",
        "2-",
        "3-a%20b.txt",
        "1-a%20b.txt",
        "2-a%20b.txt'%20OR%201=1",
        &long,
    ] {
        let reply = house.get("agent1", &format!("/media/{message}/{name}")).await;
        assert!([400, 404].contains(&reply.status), "{name}: {}", reply.status);
        let link = house.signed_file(message).replace(FILE, name);
        house.open(&link).await.problem(401, "unauthorized", "token");
    }
}

#[tokio::test]
async fn a_signed_link_opens_one_thing_without_a_key() {
    let house = House::new().await;
    let message = house.receive("agent1", MAIL, 2).await.message;
    let other = house.receive("agent1", MAIL, 2).await.message;
    let (file, page, raw) =
        (house.signed_file(message), house.signed_page(message), house.signed_raw(message));
    for (link, text) in
        [(&file, "0123456789"), (&page, "<!doctype html>\n<p>Hi pixel</p>"), (&raw, MAIL)]
    {
        let reply = house.open(link).await;
        assert_eq!((reply.status, reply.text().as_str()), (200, text), "{link}");
        reply.carries_what_every_answer_carries();
        assert!(!reply.headers.contains_key("ratelimit"));
        assert_eq!(house.send("HEAD", link, None).await.status, 200);
    }
    let original = house.open(&format!("{page}&original=true")).await;
    assert!(original.text().contains("<script>"));
    let head =
        format!("GET {file} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nRange: bytes=1-2\r\n\r\n");
    let range = house.exchange(head.as_bytes()).await;
    assert_eq!((range.status, range.text().as_str()), (206, "12"));
    // A wrong link gets the answer of a request without a key.
    let nobody = house.open(&format!("/api/v2/messages/{message}/raw")).await;
    let told = |reply: &Reply| reply.json()["detail"].clone();
    let query = |link: &str| link.split_once('?').unwrap().1.to_owned();
    let (of, to) = (message.to_string(), other.to_string());
    let wrong = [
        file.replace(&of, &to),
        raw.replace(&of, &to),
        file.replace(FILE, PAGE),
        file.replace("a%20b", "a%20c"),
        format!("/api/v2/messages/{message}/raw?{}", query(&file)),
        format!("/api/v2/media/{message}/{FILE}?{}", query(&raw)),
        file.replace("expires=1", "expires=2"),
        file.replace("&signature=", "&signature=A"),
        format!("{file}A"),
    ];
    let forged = house.open(&wrong[0]).await;
    for link in wrong {
        let reply = house.open(&link).await;
        reply.problem(401, "unauthorized", "this link was not made here, or was changed");
        assert_eq!(told(&reply), told(&forged), "{link}");
    }
    let no_links = [
        format!("{file}&{}", query(&file)),
        file.split("&signature").next().unwrap().to_owned(),
        format!("{}?signature={}", file.split('?').next().unwrap(), "A".repeat(43)),
        format!("{file}&signature=x"),
    ];
    for link in no_links {
        let reply = house.open(&link).await;
        reply.problem(401, "unauthorized", "there is no key in this request");
        assert_eq!(told(&reply), told(&nobody), "{link}");
    }
    house.open(&format!("{file}&token=")).await.problem(401, "unauthorized", "the key is unknown");
    // No other parameter widens the link.
    let target = house.id("agent2");
    house.open(&format!("{file}&targetAccountId={target}")).await.problem(
        400,
        "invalid_request",
        "not known",
    );
    house.open(&format!("{file}&x=1")).await.problem(400, "invalid_request", "\"x\" is not known");
    let body = house.send("GET", &file, Some(("application/json", "{}"))).await;
    body.problem(400, "invalid_request", "no body");
    house.send("DELETE", &file, None).await.problem(405, "method_not_allowed", "Allow");
}

#[tokio::test]
async fn where_there_is_a_token_it_decides_alone() {
    let house = House::new().await;
    let message = house.receive("agent1", MAIL, 2).await.message;
    let below = |link: &str| link.strip_prefix("/api/v2").unwrap().to_owned();
    let (file, raw) = (below(&house.signed_file(message)), below(&house.signed_raw(message)));
    for link in [&file, &raw] {
        assert_eq!(house.get("agent1", link).await.status, 200);
        assert_eq!(house.get("org1", &link.replace("signature=", "signature=x")).await.status, 200);
        house.get("agent2", link).await.problem(404, "not_found", "no such");
        for token in ["token=", "token=gp_x", "t%6fken=gp_x"] {
            let reply = house.open(&format!("/api/v2{link}&{token}")).await;
            reply.problem(401, "unauthorized", "token");
        }
    }
}

#[tokio::test]
async fn no_other_operation_takes_a_link() {
    let house = House::new().await;
    let message = house.receive("agent1", MAIL, 2).await.message;
    let query = house.signed_raw(message).split_once('?').unwrap().1.to_owned();
    for operation in OPERATIONS {
        let path = crate::http::tests::table::filled(operation.path);
        let reply =
            house.send(operation.verb.as_str(), &format!("/api/v2{path}?{query}"), None).await;
        reply.problem(401, "unauthorized", "token");
        assert!(operation.linked.is_none() || operation.verb == Verb::Get, "{path}");
    }
}

#[tokio::test]
async fn a_link_dies_with_its_time_its_message_and_its_accounts() {
    let house = House::new().await;
    let message = house.receive("agent1", MAIL, 2).await.message;
    let (file, raw) = (house.signed_file(message), house.signed_raw(message));
    // A link that was made an hour ago, for a minute.
    let hour_ago = house.now().millis() - 3_600_000;
    let clock = Clock::new(move || crate::domain::clock::Timestamp::from_millis(hour_ago));
    let secret = house.store.link_key().await.unwrap();
    let then = Links::signing(secret, clock, std::time::Duration::from_secs(60));
    let over = house.open(&then.raw(message, then.expiry())).await;
    over.problem(410, "link_expired", "read the event again");
    // Only holders of a link of ours are told that it has expired.
    let forged = then.raw(message, then.expiry()).replace("signature=", "signature=A");
    house.open(&forged).await.problem(401, "unauthorized", "token");

    let missing = house.links().raw(MessageId(uuid::Uuid::nil()), house.links().expiry());
    house.open(&missing).await.problem(404, "not_found", "no such message");
    let switch = async |active: bool| {
        let body = json!({ "targetOrganizationId": house.id("org1").get(), "active": active });
        let reply = house.call("partner", "POST", "/updateOrganization", Some(&body)).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
    };
    switch(false).await;
    for link in [&file, &raw] {
        house.open(link).await.problem(404, "not_found", "no such message");
    }
    switch(true).await;
    assert_eq!(house.open(&file).await.status, 200);
    let body = json!({ "targetAccountId": house.id("agent1").get() });
    house.call("org1", "DELETE", "/deleteAccount", Some(&body)).await.success(201);
    for link in [&file, &raw] {
        house.open(link).await.problem(404, "not_found", "no such message");
    }
}

#[tokio::test]
async fn events_have_links_that_open() {
    let house = House::new().await;
    house.receive("agent1", &MAIL.replace("a b.txt", "a.png"), 2).await;
    let events = house.get("agent1", "/events?limit=200").await.success(200)["events"].clone();
    let received = events.as_array().unwrap().iter().find(|one| one["event"] == "email.received");
    let record = &received.unwrap()["data"]["message"];
    for link in [&record["attachments"][0]["signed-url"], &record["metadata"]["emailRawSignedUrl"]]
    {
        assert_eq!(house.open(link.as_str().unwrap()).await.status, 200, "{link}");
    }
    assert!(record["metadata"]["signedUrlsExpire"].is_string());
    // The list of messages has no signed links: its reader has a key.
    let recent = house.get("agent1", "/messages/recent").await.json();
    assert_eq!(recent[0]["attachments"][0]["signed-url"], Value::Null);
}

#[tokio::test]
async fn guessing_links_is_counted_like_guessing_keys_and_opening_them_by_itself() {
    let few = "[rates]\nreads_per_minute = 0\nwrites_per_minute = 0\nkeyless_per_minute = 2\n\
               links_per_minute = 3\n";
    let house = House::with(few).await;
    let message = house.receive("agent1", MAIL, 2).await.message;
    // Makes the key known: a key that is new here has to wait while others guess.
    house.get("agent1", "/account").await.success(200);
    let (file, wrong) = (house.signed_file(message), house.signed_file(message) + "A");
    for status in [401, 401, 429] {
        assert_eq!(house.open(&wrong).await.status, status);
    }
    // Guessing from the same address does not block a valid link.
    for status in [200, 200, 200, 429] {
        assert_eq!(house.open(&file).await.status, status);
    }
    house.open(&file).await.problem(429, "rate_limited", "too many links");
    assert_eq!(house.get("agent1", &format!("/media/{message}/{FILE}")).await.status, 200);
}

/// A reader that takes nothing holds one place; others go on.
#[tokio::test]
async fn a_download_gives_its_place_back_when_its_reader_goes_away() {
    let house = House::with("[limits]\nmax_downloads = 1\n").await;
    let large = format!("From: boss@good.example\r\n\r\n{}", "0123456789abcdef".repeat(1 << 20));
    let message = house.receive("agent1", &large, 0).await.message;
    let token = house.token("agent1");
    let slow = house.slowly(&format!("/api/v2/messages/{message}/raw?token={token}")).await;
    assert_eq!(house.http.downloads.places.available_permits(), 0);
    drop(slow);
    let again = Arc::clone(&house.http.downloads.places);
    let place = tokio::time::timeout(crate::http::tests::PATIENCE, again.acquire_owned()).await;
    drop(place.expect("the place comes back"));
    let whole = house.get("agent1", &format!("/messages/{message}/raw")).await;
    assert_eq!(whole.body.len(), large.len());
}

/// Slow readers, by keys or by links, leave places to others.
#[tokio::test]
async fn a_slow_reader_has_a_few_of_the_places() {
    let house = House::with("[limits]\nmax_downloads = 8\n").await;
    let large = format!("From: boss@good.example\r\n\r\n{}", "0123456789abcdef".repeat(1 << 20));
    let message = house.receive("agent1", &large, 0).await.message;
    let small = house.receive("agent1", MAIL, 2).await.message;
    let (token, of_small) = (house.token("agent1"), format!("/messages/{small}/raw"));
    let with_key = format!("/api/v2/messages/{message}/raw?token={token}");
    let by_key = [house.slowly(&with_key).await, house.slowly(&with_key).await];
    house.get("agent1", &of_small).await.problem(429, "rate_limited", "finish one first");
    assert_eq!(house.get("org1", &of_small).await.status, 200);
    assert_eq!(house.open(&house.signed_file(small)).await.status, 200);
    let link = house.signed_raw(message);
    let by_link = [house.slowly(&link).await, house.slowly(&link).await];
    for link in [house.signed_file(small), house.signed_raw(small)] {
        house.open(&link).await.problem(429, "rate_limited", "finish one first");
    }
    assert_eq!(house.get("org1", &of_small).await.status, 200);
    drop((by_key, by_link));
}

#[tokio::test]
async fn what_a_client_has_is_neither_read_nor_given_a_place() {
    let house = House::with("[limits]\nmax_downloads = 1\n").await;
    let message = house.receive("agent1", MAIL, 2).await.message;
    let page = format!("/media/{message}/{PAGE}");
    let paths = [
        format!("/media/{message}/{FILE}"),
        page.clone(),
        format!("{page}?original=true"),
        format!("/messages/{message}/raw"),
    ];
    let ask = async |path: &str, known: &str| {
        house.exact("agent1", ("GET", path), &format!("If-None-Match: {known}\r\n"), None).await
    };
    let mut tags = Vec::new();
    for path in &paths {
        tags.push(house.get("agent1", path).await.headers["etag"].clone());
        assert_eq!(ask(path, "*").await.status, 304, "{path}");
    }
    let taken = Arc::clone(&house.http.downloads.places).acquire_owned().await.unwrap();
    for (path, tag) in paths.iter().zip(&tags) {
        let had = ask(path, &format!("\"x\", {tag}")).await;
        assert_eq!((had.status, &had.headers["etag"]), (304, tag), "{path}");
        // Out of scope, the tag does not reveal that the file exists.
        let lines = format!("If-None-Match: {tag}\r\n");
        let foreign = house.exact("agent2", ("GET", path), &lines, None).await;
        foreign.problem(404, "not_found", "no such");
    }
    drop(taken);
    for (first, tag) in tags.iter().enumerate() {
        assert_eq!(ask(&paths[(first + 1) % paths.len()], tag).await.status, 200, "{tag}");
    }
    ask(&format!("/media/{message}/2-c.txt"), "*").await.problem(404, "not_found", "no such");
}
