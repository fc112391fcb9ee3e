//! `GET /logs`: filters, pages, tables, and scopes.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::domain::address::Address;
use crate::domain::log_field::{Kind, LogField, Op};
use crate::domain::member::Role;
use crate::domain::reason::Reason;
use crate::domain::verdict::Verdict;
use crate::http::tests::letters::letter;
use crate::http::tests::{House, Reply};

const REFUSED: Verdict = Verdict::Refused(Reason::DkimMissing);
const DEFERRED: Verdict = Verdict::Deferred(Reason::DnsUnavailable);

/// A house in which agent1 has one of each verdict, and agents 2 and 4 one message each.
async fn house(rules: &str) -> House {
    let house = House::with(rules).await;
    house.receive("agent1", &letter(), 0).await;
    house.refuse("agent1", REFUSED).await;
    house.refuse("agent1", DEFERRED).await;
    house.receive("agent2", &letter(), 0).await;
    house.receive("agent4", &letter(), 0).await;
    house
}

fn outcomes(found: &Value) -> Vec<&str> {
    found["logs"].as_array().unwrap().iter().map(|row| row["outcome"].as_str().unwrap()).collect()
}

/// The body of a chunked answer (RFC 9112 §7.1).
fn unchunked(reply: &Reply) -> Vec<u8> {
    let (mut rest, mut whole) = (reply.body.as_slice(), Vec::new());
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").unwrap();
        let length = std::str::from_utf8(&rest[..end]).unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return whole;
        }
        whole.extend_from_slice(&rest[end + 2..end + 2 + length]);
        rest = &rest[end + 2 + length + 2..];
    }
}

fn records(table: &[u8]) -> Vec<Vec<String>> {
    let reader = csv::ReaderBuilder::new().has_headers(false).from_reader(table);
    let records = reader.into_records().map(Result::unwrap);
    records.map(|record| record.iter().map(str::to_owned).collect()).collect()
}

#[tokio::test]
async fn a_row_says_what_became_of_its_message() {
    let house = house("").await;
    let found = house.get("agent1", "/logs").await.success(200);
    assert_eq!(outcomes(&found), ["deferred", "refused", "accepted"]);
    assert_eq!((&found["count"], &found["totalCount"]), (&json!(3), &json!(3)));
    assert_eq!(found["totalCountIsLowerBound"], false);
    let pagination = json!({ "page": 1, "pageSize": 20, "totalPages": 1, "pageCount": 1,
        "totalCount": 3, "hasMore": false });
    assert_eq!(found["pagination"], pagination);
    assert!(found.get("schema").is_none());
    let names: Vec<_> = LogField::ALL.iter().map(|field| field.name()).collect();
    let path = format!("/logs?includeFields=true&fields={}", names.join(","));
    let whole = house.get("agent1", &path).await.success(200);
    assert_eq!(whole["schema"], json!(names));
    assert_eq!(
        whole["fields"][0]["operators"],
        json!(["eq", "ne", "in", "nin", "isnull", "isset"])
    );
    let (deferred, accepted) = (&whole["logs"][0], &whole["logs"][2]);
    assert_eq!(accepted.as_object().unwrap().len(), names.len());
    let (agent, org) = (house.id("agent1").get(), house.id("org1").get());
    let room = accepted["roomId"].as_str().unwrap();
    let contact = room.strip_suffix(&format!(":{agent}")).unwrap();
    for (name, value) in [
        ("account_id", json!(agent)),
        ("accountId", json!(agent)),
        ("org_id", json!(org)),
        ("organizationId", json!(org)),
        ("resellerId", json!(house.id("reseller1").get())),
        ("contactId", json!(contact.parse::<i64>().unwrap())),
        ("eventType", json!("inbound-email")),
        ("source", json!("email")),
        ("direction", json!("inbound")),
        ("reason", json!(null)),
        ("conversationRef", accepted["uuid"].clone()),
        ("sender", json!("boss@good.example")),
        ("recipient", json!("agent1@partner.example")),
        ("envelopeFrom", json!("bounce@good.example")),
        ("remoteAddress", json!("192.0.2.7")),
        ("subject", json!("Hello")),
        ("size", json!(100)),
        ("count", json!(1)),
        ("latencyMs", json!(null)),
        ("deliveries", json!(0)),
        ("experiments.id", json!(null)),
        ("metadata", json!(null)),
    ] {
        assert_eq!(accepted[name], value, "{name}");
    }
    assert!(accepted["date"].as_str().unwrap().starts_with("2026-11-18T"));
    assert_eq!(accepted["timestamp"], 1_795_000_000 + accepted["timestamp"].as_i64().unwrap() % 10);
    for name in ["uuid", "roomId", "conversationRef", "contactId", "subject"] {
        assert_eq!(deferred[name], Value::Null, "{name}");
    }
    assert_eq!(deferred["reason"], "dns_unavailable");
}

#[tokio::test]
async fn a_log_is_of_whom_the_key_reaches() {
    let mut house = house("").await;
    house.join("few", "org1", Role::Member, &["agent2"]).await;
    let org1 = house.id("org1");
    for (caller, query, expected) in [
        ("agent1", String::new(), 3),
        ("agent2", String::new(), 1),
        ("org1", String::new(), 4),
        ("org2", String::new(), 0),
        ("reseller2", String::new(), 1),
        ("partner", String::new(), 5),
        ("partner", format!("&targetAccountId={org1}"), 4),
        ("few", String::new(), 1),
    ] {
        for format in ["", "&format=csv&pageSize=9"] {
            let reply = house.get(caller, &format!("/logs?fields=id{query}{format}")).await;
            let found = match format {
                "" => reply.success(200)["totalCount"].as_u64().unwrap(),
                _ => u64::try_from(records(&unchunked(&reply)).len() - 1).unwrap(),
            };
            assert_eq!(found, expected, "{caller} {query} {format}");
        }
    }
    let path = format!("/logs?targetAccountId={}", house.id("agent1"));
    house.get("few", &path).await.problem(403, "forbidden", "");
}

#[tokio::test]
async fn every_field_is_a_filter_and_nothing_else_is() {
    let house = house("").await;
    let found = async |query: &str| {
        let found = house.get("agent1", &format!("/logs?{query}")).await.success(200);
        outcomes(&found).join(" ")
    };
    for (query, expected) in [
        ("outcome=accepted", "accepted"),
        ("outcome__in=accepted,refused", "refused accepted"),
        ("outcome__nin=accepted,refused", "deferred"),
        ("reason__ne=dkim_missing", "deferred accepted"),
        ("reason__isnull=true", "accepted"),
        ("reason__isset=true&outcome__ne=refused", "deferred"),
        ("subject__icontains=ELL", "accepted"),
        ("subject__contains=ELL", ""),
        ("subject__startswith=He", "accepted"),
        ("reason__startswith=dkim_", "refused"),
        ("size__gte=100&size__lt=101", "deferred refused accepted"),
        ("latencyMs__gt=0.5", ""),
        ("experiments.id__isnull=true", "deferred refused accepted"),
        ("experiments.id=x", ""),
        ("start=2026-11-18&end=2026-11-19", "deferred refused accepted"),
        ("start=1795100000", ""),
        ("timestamp__gte=1795100000", ""),
        ("date__lt=2026-11-19", "deferred refused accepted"),
    ] {
        assert_eq!(found(query).await, expected, "{query}");
    }
    for (query, said) in [
        ("nothing=1", "/nothing is not a field of the log: expected id, uuid"),
        ("field__op=1", "is not a field of the log"),
        ("outcome__regex=x", "unknown operator after __: expected one of eq, ne, in"),
        ("outcome__gte=x", "does not support gte"),
        ("size=x", "a whole number"),
        ("uuid=x", "a UUID"),
        ("date__gt=x", "a date like"),
        ("reason__isnull=1", "true or false"),
        ("fields=id,nothing", "/fields is refused: \\\"nothing\\\" is not a field"),
        ("fields=id,id", "id is sent twice"),
        ("format=xml", "/format must be one of: json, csv"),
        ("page=0", "page must be a whole number from 1"),
        ("pageSize=10001", "from 1 to 10000"),
        ("includeFields=1", "true or false"),
        ("start=2&end=1", "start lies after end"),
        ("nothing=1&size=x", "; /size is refused"),
    ] {
        let reply = house.get("agent1", &format!("/logs?{query}")).await;
        reply.problem(400, "invalid_request", "");
        assert!(reply.text().contains(said), "{query}: {}", reply.text());
    }
}

/// Proves that a value is never interpreted: every comparison of every field finds nothing by it.
#[tokio::test]
async fn no_value_is_more_than_a_value() {
    let house = house("").await;
    for field in LogField::ALL {
        for op in Op::ALL {
            for text in ["' OR '1'='1", "x'); DROP TABLE messages; --", "%", "\0", "é\u{202e}"] {
                let text: String = url::form_urlencoded::byte_serialize(text.as_bytes()).collect();
                let path = format!("/logs?{}__{op}={text}", field.name());
                let reply = house.get("agent1", &path).await;
                let is_text = matches!(field.kind(), Kind::Text | Kind::Unfilled);
                let has_none = matches!(op, Op::Ne | Op::Nin);
                if is_text
                    && field.kind().ops().contains(op)
                    && !matches!(op, Op::Isnull | Op::Isset)
                {
                    let found = reply.success(200)["totalCount"].clone();
                    assert_eq!(found, if has_none { 3 } else { 0 }, "{path}");
                } else {
                    reply.problem(400, "invalid_request", "expected");
                }
            }
        }
    }
    assert_eq!(house.get("agent1", "/logs").await.success(200)["totalCount"], 3);
}

#[tokio::test]
async fn pages_have_numbers_and_end_where_a_request_ends() {
    let house = house("[logs]\nmax_rows = 4\nmax_filters = 2\nmax_values = 2\n").await;
    let page = async |query: &str| house.get("agent1", &format!("/logs?pageSize=2&{query}")).await;
    let first = page("page=1&outcome__ne=x").await;
    assert_eq!(outcomes(&first.success(200)), ["deferred", "refused"]);
    let link = "/api/v2/logs?pageSize=2&outcome__ne=x&page=2";
    assert_eq!(first.headers["link"], format!("<{link}>; rel=\"next\""));
    let last = page("page=2").await;
    assert!(!last.headers.contains_key("link"));
    let last = last.success(200);
    assert_eq!(
        (outcomes(&last), &last["pagination"]["hasMore"]),
        (vec!["accepted"], &json!(false))
    );
    let beyond = page("page=3").await.success(200);
    assert_eq!((&beyond["count"], &beyond["totalCount"]), (&json!(0), &json!(3)));
    // Four of the five rows below the partner are read, and all of the last row's millisecond.
    let whole = house.get("partner", "/logs").await.success(200);
    assert_eq!(whole["totalCountIsLowerBound"], true);
    let table = house.get("partner", "/logs?format=csv").await;
    assert_eq!(table.headers["x-logs-complete"], "false");
    let far = house.get("partner", "/logs?page=9").await;
    far.problem(400, "invalid_request", "narrow start and end");
    let far = house.get("partner", "/logs?page=9&format=csv").await;
    far.problem(400, "invalid_request", "narrow start and end");
    let narrow = house.get("partner", "/logs?start=2026-11-18&end=2026-11-18").await.success(200);
    assert_eq!(narrow["totalCountIsLowerBound"], false);
    let many = page("size=1&count=1&reason=x").await;
    many.problem(400, "invalid_request", "too many filters: send at most 2");
    page("size__in=1,2,3").await.problem(400, "invalid_request", "too many values: send at most 2");
}

#[tokio::test]
async fn a_table_is_read_back_as_it_was_and_nothing_in_it_is_a_formula() {
    let house = house("[logs]\nstep = 2\n").await;
    let sender = Address::parse("=1+1@good.example").unwrap();
    let own = Address::parse("agent1@partner.example").unwrap();
    let account = house.residents["agent1"].account.clone();
    house.deliver(&account, (sender, own), &letter(), 0).await;
    let path = "/logs?fields=outcome,sender,subject,size,reason&format=csv";
    let streamed = house.get("agent1", path).await;
    assert_eq!(streamed.status, 200, "{}", streamed.text());
    streamed.carries_what_every_answer_carries();
    assert_eq!(streamed.headers["content-type"], "text/csv; charset=utf-8");
    assert_eq!(streamed.headers["content-disposition"], "attachment; filename=\"logs.csv\"");
    assert_eq!(streamed.headers["x-logs-complete"], "true");
    let table = unchunked(&streamed);
    let expected = [
        ["outcome", "sender", "subject", "size", "reason"],
        ["accepted", "'=1+1@good.example", "Hello", "100", ""],
        ["deferred", "boss@good.example", "", "100", "dns_unavailable"],
        ["refused", "boss@good.example", "", "100", "dkim_missing"],
        ["accepted", "boss@good.example", "Hello", "100", ""],
    ];
    assert_eq!(records(&table), expected);
    // Read back by another program, too.
    let program = "import csv, io, json, sys; text = sys.stdin.buffer.read().decode('utf-8'); \
                   print(json.dumps(list(csv.reader(io.StringIO(text, newline='')))))";
    let mut python = Command::new("python3")
        .args(["-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut python.stdin.take().unwrap(), &table).unwrap();
    let read: Value = serde_json::from_slice(&python.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(read, json!(expected));
    // A single page as a table has just its rows.
    for (page, rows) in [("page=2&pageSize=3", &expected[4..]), ("pageSize=3", &expected[1..4])] {
        let page = house.get("agent1", &format!("{path}&{page}")).await;
        assert_eq!(records(&unchunked(&page)), [&expected[..1], rows].concat());
    }
    let beyond = house.get("agent1", &format!("{path}&page=9&pageSize=3")).await;
    assert_eq!(records(&unchunked(&beyond)), expected[..1]);
}

/// A restricted member learns nothing of how many rows its siblings have (threats E6).
#[tokio::test]
async fn what_others_have_shortens_nobodys_log() {
    let mut house = house("[logs]\nmax_rows = 1\nmax_metric_rows = 1\n").await;
    house.join("few", "org1", Role::Member, &["agent2"]).await;
    for _ in 0..3 {
        house.refuse("agent1", REFUSED).await;
    }
    let found = house.get("few", "/logs?fields=id,outcome").await.success(200);
    assert_eq!((outcomes(&found), &found["totalCount"]), (vec!["accepted"], &json!(1)));
    assert_eq!(found["totalCountIsLowerBound"], false);
    let table = house.get("few", "/logs?fields=id&format=csv").await;
    assert_eq!(table.headers["x-logs-complete"], "true");
    let asked = json!({ "metric": "accepted", "start": "2026-11-17", "end": "2026-11-19" });
    let measured = house.call("few", "POST", "/logs/timeSeries", Some(&asked)).await.success(200);
    assert_eq!(measured["value"], 1);
    // The bound applies to its own rows.
    house.refuse("agent2", REFUSED).await;
    house.refuse("agent2", REFUSED).await;
    let found = house.get("few", "/logs?outcome=refused&page=1").await.success(200);
    assert_eq!(found["totalCountIsLowerBound"], true);
    let measured = house.call("few", "POST", "/logs/timeSeries", Some(&asked)).await;
    measured.problem(400, "invalid_request", "more than 1 records");
}

#[tokio::test]
async fn a_key_asks_for_the_log_one_after_the_other_and_few_at_once() {
    let house = house("[logs]\nmax_at_once = 1\n[limits]\nbody_seconds = 1\n").await;
    let measure = json!({ "metric": "accepted", "start": "2026-11-17", "end": "2026-11-19" });
    let ask = async |caller: &str, way: usize| match way {
        0 => house.get(caller, "/logs").await,
        1 => house.get(caller, "/logs?format=csv").await,
        _ => house.call(caller, "POST", "/logs/timeSeries", Some(&measure)).await,
    };
    let caller = house.http.use_cases.access.caller(Some(house.token("agent1"))).await.unwrap();
    for way in 0..3 {
        let turn = house.http.logs.turn(caller.key.id).unwrap();
        ask("agent1", way).await.problem(429, "rate_limited", "one at a time");
        assert_eq!(ask("agent2", way).await.status, 200);
        drop(turn);
        // All places are taken by others: a table fails before it begins, too.
        let permit = house.http.logs.permit().await.unwrap();
        ask("agent1", way).await.problem(503, "unavailable", "");
        drop(permit);
        assert_eq!(ask("agent1", way).await.status, 200);
        assert_eq!(house.http.logs.places.available_permits(), 1);
    }
}

#[tokio::test]
async fn deliveries_are_looked_up_so_often_and_no_more() {
    let house = house("[logs]\nmax_delivery_terms = 2\n").await;
    let ready = "/logs?deliveries__gte=0&pending=0&fields=deliveries,delivered,exhausted,pending";
    assert_eq!(house.get("agent1", ready).await.success(200)["totalCount"], 3);
    let many = house.get("agent1", "/logs?deliveries__gte=0&deliveries__lt=9&pending=0").await;
    many.problem(400, "invalid_request", "at most 2 times in one request");
    let ask = async |formula: &str| {
        let filters = json!({ "deliveries": { "op": "gte", "value": 0 } });
        let definition = json!({ "formula": formula, "filters": filters });
        let asked = json!({ "definition": definition, "start": "2026-11-17", "end": "2026-11-19" });
        house.call("agent1", "POST", "/logs/timeSeries", Some(&asked)).await
    };
    assert_eq!(ask("deliveries + size").await.status, 200);
    let many = ask("-(deliveries + (deliveries > 1))").await;
    many.problem(400, "invalid_request", "at most 2 times in one request");
}
