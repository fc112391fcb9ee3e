//! The log of events over sockets: list, wait, stream; and rights to events that change meanwhile.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::app::delivery::payload;
use crate::domain::account::AccountType;
use crate::domain::delivery::Subject;
use crate::domain::destination::Payload;
use crate::domain::event::{Event, EventName};
use crate::domain::member::Role;
use crate::domain::policy::Mode;
use crate::domain::scope::Scope;
use crate::http::tests::{House, PATIENCE};
use crate::rules::Rules;
use crate::store::EventFilter;

const MAIL: &str = "From: a\r\n\r\nhello\u{2028}\r\nline two";

/// A stream, read piece by piece. HTTP/1.0: without chunks.
pub(super) struct Reader {
    stream: TcpStream,
    text: String,
    /// The id that came before any event.
    mark: String,
}

impl Reader {
    pub(super) async fn open(house: &House, caller: &str, query: &str, lines: &str) -> Self {
        let token = house.token(caller);
        let mut stream = TcpStream::connect(house.address).await.unwrap();
        let request = format!(
            "GET /api/v2/events?token={token}{query} HTTP/1.0\r\nHost: h\r\n\
             Accept: text/event-stream\r\n{lines}\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut reader = Self { stream, text: String::new(), mark: String::new() };
        reader.until("retry: 3000\n\n").await;
        assert!(reader.text.starts_with("HTTP/1.0 200"), "{}", reader.text);
        assert!(reader.text.contains("content-type: text/event-stream\r\n"), "{}", reader.text);
        let mark = reader.text.lines().find_map(|line| line.strip_prefix("id: "));
        reader.mark = mark.expect("an id").to_owned();
        let opened = reader.text.find("3000\n\n").unwrap() + "3000\n\n".len();
        reader.text.drain(..opened);
        reader
    }

    /// Reads the next bytes; false at the end.
    async fn more(&mut self) -> bool {
        let mut piece = [0; 65_536];
        let read = timeout(PATIENCE, self.stream.read(&mut piece)).await.expect("goes on");
        let read = read.unwrap_or(0);
        self.text.push_str(std::str::from_utf8(&piece[..read]).unwrap());
        read > 0
    }

    pub(super) async fn until(&mut self, end: &str) {
        while !self.text.contains(end) {
            assert!(self.more().await, "{end:?} did not come: {}", self.text);
        }
    }

    /// Returns the next `count` events.
    pub(super) async fn events(&mut self, count: usize) -> Vec<Value> {
        // Comments come all the time, so the bound is for the whole.
        timeout(PATIENCE, self.read_events(count)).await.expect("as many events")
    }

    async fn read_events(&mut self, count: usize) -> Vec<Value> {
        loop {
            let mut found = Vec::new();
            for part in self.text.split_inclusive("\n\n").filter(|part| part.ends_with("\n\n")) {
                let field = |name: &str| part.lines().find_map(|line| line.strip_prefix(name));
                let Some(data) = field("data: ") else { continue };
                let body: Value = serde_json::from_str(data).unwrap();
                assert_eq!(field("id: "), body["id"].as_str());
                assert_eq!(field("event: "), body["event"].as_str());
                found.push(body);
            }
            if found.len() >= count {
                let read = self.text.rfind("\n\n").unwrap() + 2;
                self.text.drain(..read);
                return found;
            }
            assert!(self.more().await, "{found:?}");
        }
    }

    /// Reads to the end; expects nothing but comments and `retry`.
    async fn ends(mut self) {
        while self.more().await {}
        assert!(!self.text.contains("data:"), "{}", self.text);
        assert!(self.text.ends_with("retry: 3000\n\n"), "{}", self.text);
    }
}

/// The whole log of an account, past the API.
async fn log(house: &House, name: &str) -> Vec<(Event, Subject)> {
    let account = &house.residents[name].account;
    let scope = Scope::subtree(account.id, account.kind);
    house.store.events(&scope, &EventFilter::ALL, 0, 1000, 1000).await.unwrap().events
}

async fn list(house: &House, caller: &str, query: &str) -> Value {
    house.get(caller, &format!("/events?limit=200{query}")).await.success(200)
}

fn names(listed: &Value) -> Vec<&str> {
    let events = listed["events"].as_array().unwrap();
    events.iter().map(|event| event["event"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_list_goes_on_behind_an_event_and_shows_what_webhooks_get() {
    let house = House::new().await;
    house.receive("agent1", MAIL, 0).await;
    house.receive("agent3", MAIL, 0).await;
    let rules = Rules::defaults().unwrap().webhooks.payload;
    for name in ["agent1", "org1", "partner"] {
        let reply = house.get(name, "/events?limit=200").await;
        let mut bodies = Vec::new();
        for (event, subject) in log(&house, name).await {
            let body =
                payload::body(&event, &subject, Payload::Full, &rules, &house.http.use_cases.links);
            bodies.push(String::from_utf8(body.to_vec()).unwrap());
        }
        assert!(bodies.len() > 3 && reply.text().contains(&bodies.join(",")), "{}", reply.text());
        let all = reply.success(200)["events"].as_array().unwrap().clone();
        assert_eq!(all.len(), bodies.len());
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let page = house.get(name, &format!("/events?limit=2{after}")).await.success(200);
            let events = page["events"].as_array().unwrap();
            if events.is_empty() {
                assert_eq!(page["next"], all[all.len() - 1]["id"]);
                break;
            }
            found.extend(events.iter().cloned());
            assert_eq!(page["more"], found.len() < all.len());
            after = format!("&after={}", page["next"].as_str().unwrap());
        }
        assert_eq!(found, all);
    }
    let policy = json!({ "mode": "open" });
    house.call("agent1", "PUT", "/email/inboundPolicy", Some(&policy)).await.success(200);
    let changed = list(&house, "org1", "&type=agent").await;
    assert_eq!(names(&changed), ["agent.policyChanged"]);
    let told = json!({
        "accountId": house.id("agent1").get(), "mode": "open", "allowlistCount": 0,
        "added": 0, "removed": 0,
    });
    assert_eq!(changed["events"][0]["data"], told);
    let received = list(&house, "org1", "&event=email.received").await;
    assert_eq!(names(&received), ["email.received"]);
    let since = |at: &Value| format!("&since={}", at.as_str().unwrap());
    let at = &changed["events"][0]["timestamp"];
    assert_eq!(names(&list(&house, "org1", &since(at)).await), ["agent.policyChanged"]);
    // The link continues after the last event, without `since`.
    let page = house.get("org1", &format!("/events?limit=1{}", since(at))).await;
    let behind = house.get("org1", &page.link("next").unwrap()).await.success(200);
    assert_eq!(names(&behind), [""; 0]);
}

#[tokio::test]
async fn what_is_asked_wrongly_and_what_is_not_there_say_how_to_go_on() {
    let house = House::new().await;
    house.receive("agent1", MAIL, 0).await;
    let foreign = list(&house, "agent1", "").await["next"].as_str().unwrap().to_owned();
    for (query, detail) in [
        ("after=7", "must be a UUID"),
        ("type=mail", "must be one of"),
        ("event=mail", "must be one of"),
        ("wait=31", "from 0 to 30"),
        ("wait=x", "from 0 to 30"),
        (&format!("since=2026-01-01&after={foreign}"), "exclude each other"),
        ("limit=0", "limit must be"),
        ("type=incoming&event=contact.created", "send that type, or none"),
    ] {
        let reply = house.get("org1", &format!("/events?{query}")).await;
        reply.problem(400, "invalid_request", detail);
    }
    let mut answers = std::collections::BTreeSet::new();
    let nobodys = "0fffaaaa-aaaa-7aaa-8aaa-aaaaaaaaaaaa";
    for (caller, id) in [("agent2", foreign.as_str()), ("org3", &foreign), ("org1", nobodys)] {
        let reply = house.get(caller, &format!("/events?after={id}")).await;
        reply.problem(404, "not_found", "unknown or expired event");
        let id = &reply.headers["x-request-id"];
        answers.insert(reply.text().replace(id, "ID"));
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
    // An event older than the log: retention deleted it, and the reader gets all that remain.
    let old = list(&house, "org1", "&after=00000000-0000-7000-8000-000000000001").await;
    assert_eq!(old["events"], list(&house, "org1", "").await["events"]);
    let catalog = house.get("agent1", "/events/catalog").await.success(200);
    assert_eq!(catalog["events"].as_array().unwrap().len(), EventName::ALL.len());
    assert_eq!(catalog["events"][0]["schema"]["title"], catalog["events"][0]["event"]);
}

#[tokio::test]
async fn who_waits_is_answered_by_what_another_gateway_brings() {
    let house = House::new().await;
    let next = list(&house, "org1", "").await["next"].as_str().unwrap().to_owned();
    let waiting =
        async { list(&house, "org1", &format!("&wait=30&type=incoming&after={next}")).await };
    let bringing = async {
        // Once the request waits, the first message goes to another organization.
        while house.http.use_cases.events.wait_count() == 0 {
            tokio::task::yield_now().await;
        }
        house.receive("agent3", MAIL, 0).await;
        house.receive("agent2", MAIL, 0).await
    };
    let (listed, received) = tokio::join!(waiting, bringing);
    assert_eq!(names(&listed), ["email.received"]);
    assert_eq!(listed["events"][0]["messageUuid"], received.message.to_string());
    let none = list(&house, "org1", "&wait=1&event=webhook.test").await;
    assert_eq!(names(&none), Vec::<&str>::new());
}

#[tokio::test]
async fn a_stream_goes_on_where_the_one_before_ended() {
    let house = House::new().await;
    house.receive("agent1", MAIL, 0).await;
    let mut reader = Reader::open(&house, "org1", "&type=incoming", "").await;
    let second = house.receive("agent1", MAIL, 0).await;
    let events = reader.events(1).await;
    assert_eq!(events.len(), 1, "it begins with what happens from now on");
    assert_eq!(events[0]["messageUuid"], second.message.to_string());
    let third = house.receive("agent2", MAIL, 0).await;
    let last = reader.events(1).await.remove(0);
    assert_eq!(last["messageUuid"], third.message.to_string());
    drop(reader);
    house.receive("agent3", MAIL, 0).await;
    let fourth = house.receive("agent1", MAIL, 0).await;
    // The header is newer than what the URL says.
    let first = events[0]["id"].as_str().unwrap();
    let lines = format!("Last-Event-ID: {}\r\n", last["id"].as_str().unwrap());
    let query = format!("&type=incoming&after={first}");
    let mut reader = Reader::open(&house, "org1", &query, &lines).await;
    let events = reader.events(1).await;
    assert_eq!(events[0]["messageUuid"], fourth.message.to_string());
    let mut reader = Reader::open(&house, "org1", &query, "").await;
    let found = reader.events(2).await;
    assert_eq!(found[0], last);
    house
        .exact(
            "org1",
            ("GET", "/events"),
            "Accept: text/event-stream\r\nLast-Event-ID: x\r\n",
            None,
        )
        .await
        .problem(400, "invalid_request", "Last-Event-ID");
}

#[tokio::test]
async fn a_page_honours_last_event_id_as_its_cursor_and_refuses_two_places() {
    let house = House::new().await;
    for _ in 0..2 {
        house.receive("agent1", MAIL, 0).await;
    }
    let all = list(&house, "org1", "&type=incoming").await;
    let ids: Vec<&str> =
        all["events"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    let [first, last] = ids[..] else { panic!("{all}") };
    let ask = async |path: String, id: &str| {
        house.exact("org1", ("GET", &path), &format!("Last-Event-ID: {id}\r\n"), None).await
    };
    let path = "/events?type=incoming";
    let page = ask(path.to_owned(), first).await;
    let (link, page) = (page.headers["link"].clone(), page.success(200));
    assert_eq!((&page["events"], &page["next"]), (&json!([all["events"][1]]), &all["next"]));
    let end = all["next"].as_str().unwrap();
    assert!(link.contains(&format!("after={end}")), "{link}");
    // At the end of the log the place stays, as with `after`.
    let nothing = ask(path.to_owned(), end).await.success(200);
    assert_eq!((&nothing["events"], &nothing["next"]), (&json!([]), &all["next"]));
    // One place, named twice, is fine; two places are refused, whichever is meant.
    let same = ask(format!("{path}&after={first}"), first).await.success(200);
    assert_eq!(same["events"], page["events"]);
    for other in [format!("{path}&after={last}"), format!("{path}&since=1")] {
        ask(other, first).await.problem(400, "invalid_request", "Last-Event-ID");
    }
    ask(path.to_owned(), "x").await.problem(400, "invalid_request", "Last-Event-ID");
    // Newer than all that are kept: an older one would begin the list at the oldest.
    let unknown = "01ffffff-0000-7000-8000-000000000000";
    ask(path.to_owned(), unknown).await.problem(404, "not_found", "unknown or expired event");
}

/// §4, E6: rights count during a stream, not only at its beginning.
#[tokio::test]
async fn a_stream_ends_without_another_event_when_its_reader_may_no_more() {
    let mut house = House::new().await;
    house.join("few", "org1", Role::Admin, &["agent1", "agent2"]).await;
    house.join("gone", "org1", Role::Member, &[]).await;
    let few = house.residents["few"].token.clone();
    // A key that is revoked.
    let reader = Reader::open(&house, "gone", "", "").await;
    house.call("gone", "DELETE", "/tokens", Some(&json!({ "token": house.token("gone") }))).await;
    house.receive("agent1", MAIL, 0).await;
    reader.ends().await;
    // A member with fewer Agents: the stream goes on with fewer events.
    let mut reader = Reader::open(&house, "few", "&type=incoming", "").await;
    house.receive("agent2", MAIL, 0).await;
    reader.events(1).await;
    let members = house.get("org1", "/members").await.success(200)["members"].clone();
    let mine = |one: &&Value| one["email"] == "few@good.example";
    let id = members.as_array().unwrap().iter().find(mine).unwrap()["id"].clone();
    let body = json!({ "targetMemberId": id, "permittedAccountIds": [house.id("agent1").get()] });
    house.call("org1", "PUT", "/member", Some(&body)).await.success(201);
    house.receive("agent2", MAIL, 0).await;
    let own = house.receive("agent1", MAIL, 0).await;
    let events = reader.events(1).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["messageUuid"], own.message.to_string());
    assert!(!few.is_empty());
    // An account that is switched off, and one that is deleted.
    for (agent, method, path) in
        [("agent1", "POST", "/updateAccount"), ("agent2", "DELETE", "/deleteAccount")]
    {
        let reader = Reader::open(&house, agent, "", "").await;
        let id = house.id(agent).get();
        let body = match method {
            "POST" => json!({ "targetAccountId": id, "active": false }),
            _ => json!({ "targetAccountId": id }),
        };
        let reply = house.call("org1", method, path, Some(&body)).await;
        assert_eq!(reply.status / 100, 2, "{}", reply.text());
        reader.ends().await;
    }
}

#[tokio::test]
async fn only_administrators_hear_of_accounts_and_members() {
    let mut house = House::new().await;
    house.join("boss", "org1", Role::Admin, &[]).await;
    house.join("member", "org1", Role::Member, &[]).await;
    house.join("few", "org1", Role::Admin, &["agent1"]).await;
    house.receive("agent1", MAIL, 0).await;
    house.tenancy.set_mode(house.id("agent2"), Mode::Open).await.unwrap();
    let onboarding = |listed: &Value| {
        names(listed)
            .iter()
            .filter(|name| name.starts_with("account") || name.starts_with("member"))
            .count()
    };
    assert_eq!(onboarding(&list(&house, "org1", "").await), 6);
    assert_eq!(onboarding(&list(&house, "boss", "").await), 6);
    assert_eq!(onboarding(&list(&house, "few", "").await), 1, "of its Agent");
    let member = list(&house, "member", "").await;
    assert_eq!(onboarding(&member), 0);
    assert!(names(&member).contains(&"agent.policyChanged"));
    assert!(!names(&list(&house, "few", "").await).contains(&"agent.policyChanged"));
    for query in ["type=onboarding", "event=member.invited"] {
        let reply = house.get("member", &format!("/events?{query}")).await;
        reply.problem(403, "forbidden", "administrator");
    }
    assert_eq!(house.residents["org1"].account.kind, AccountType::Organization);
}

#[tokio::test]
async fn so_many_wait_and_a_stop_ends_all_of_them_at_once() {
    let rules = "[events]\nmax_waiting = 3\nmax_waiting_per_account = 3\nmax_waiting_per_key = 2\n";
    let house = House::with(rules).await;
    let first = Reader::open(&house, "org1", "", "").await;
    let second = Reader::open(&house, "org1", "", "").await;
    for query in ["/events?wait=1", "/events?wait=30"] {
        let reply = house.get("org1", query).await;
        reply.problem(429, "rate_limited", "this key");
        assert!(reply.headers.contains_key("retry-after"));
    }
    let third = Reader::open(&house, "org2", "", "").await;
    house.get("agent1", "/events?wait=1").await.problem(429, "rate_limited", "this gateway");
    house.get("agent1", "/events").await.success(200);
    house.shutdown.begin();
    for reader in [first, second, third] {
        reader.ends().await;
    }
    assert!(house.shutdown.finish(PATIENCE).await);
}

#[tokio::test]
async fn a_quiet_stream_shows_that_it_lives_and_who_never_reads_is_cut_off() {
    let rules = "[events]\nheartbeat_seconds = 1\n[connections]\nwrite_seconds = 1\n";
    let house = House::with(rules).await;
    let mut reader = Reader::open(&house, "org1", "", "").await;
    reader.until("\n:\n\n").await;
    drop(reader);
    // More than the buffers of both ends hold, from the beginning of the log.
    let long = format!("From: a\r\n\r\n{}", "x".repeat(19_000));
    let oldest = list(&house, "agent1", "").await["events"][0]["id"].clone();
    for _ in 0..300 {
        house.receive("agent1", &long, 0).await;
    }
    let query = format!("&after={}", oldest.as_str().unwrap());
    let reader = Reader::open(&house, "agent1", &query, "").await;
    let gone = async {
        while house.http.use_cases.events.wait_count() > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, gone).await.expect("cut off");
    drop(reader);
}

#[tokio::test]
async fn a_stream_that_saw_nothing_goes_on_where_it_stood() {
    let house = House::new().await;
    let reader = Reader::open(&house, "agent1", "&type=incoming", "").await;
    let lines = format!("Last-Event-ID: {}\r\n", reader.mark);
    drop(reader);
    let between = house.receive("agent1", MAIL, 0).await;
    let mut reader = Reader::open(&house, "agent1", "&type=incoming", &lines).await;
    let events = reader.events(1).await;
    assert_eq!(events[0]["messageUuid"], between.message.to_string());
}

/// Follows pages while more may follow; returns the number of empty ones, and all events.
async fn follow(house: &House, query: &str) -> (usize, Vec<Value>) {
    let (mut empty, mut found, mut after) = (0, Vec::new(), String::new());
    loop {
        let page = list(house, "org1", &format!("{query}{after}")).await;
        let events = page["events"].as_array().unwrap();
        empty += usize::from(events.is_empty());
        found.extend(events.iter().cloned());
        if !page["more"].as_bool().unwrap() {
            return (empty, found);
        }
        after = page["next"].as_str().map_or(after, |next| format!("&after={next}"));
    }
}

#[tokio::test]
async fn a_page_that_passes_over_many_events_says_that_more_may_follow() {
    let house = House::with("[limits]\nmax_walk = 201\n").await;
    // One row per message.
    for _ in 0..201 {
        house.receive("agent1", MAIL, 0).await;
    }
    let policy = json!({ "mode": "open" });
    house.call("agent1", "PUT", "/email/inboundPolicy", Some(&policy)).await.success(200);
    let (empty, found) = follow(&house, "&type=agent").await;
    assert_eq!((empty, found.len()), (1, 1), "{found:?}");
}
