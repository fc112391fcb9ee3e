//! A target, and any id, has one spelling and one value in every place (threats E2, E3).

use serde_json::json;

use crate::app::access::need::{Need, TargetType};
use crate::http::operation::Operation;
use crate::http::request::body::BodyRule;
use crate::http::request::query::Query;
use crate::http::request::target::{
    ACCOUNT, ORGANIZATION, PARTNER, RESELLER, TargetRule, before_body,
};
use crate::http::table::OPERATIONS;
use crate::http::tests::table::about;
use crate::http::tests::{House, NOBODY};

/// Texts in a query that are no canonical decimals of 1 … 2^53−1.
pub(super) const NO_TEXTS: &[&str] = &[
    "",
    "0",
    "-0",
    "-1",
    "+1",
    "%2B1",
    "%201",
    "1%20",
    "1%0A",
    "%091",
    "01",
    "1.0",
    "1.",
    "1e0",
    "1_000",
    "0x1",
    "0b1",
    "%EF%BC%91",
    "%D9%A1",
    "[1]",
    "{}",
    "null",
    "true",
    "9007199254740992",
    "9223372036854775808",
    "18446744073709551617",
    "1,1",
    "1%00",
];

/// JSON values that are neither such numbers nor such texts.
const NO_VALUES: &[&str] = &[
    "1.0",
    "1.5",
    "1e0",
    "1E0",
    "-0",
    "-1",
    "0",
    "9007199254740992",
    "9007199254740993",
    "9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "null",
    "true",
    "[1]",
    "[]",
    "{}",
    "{\"id\":1}",
    "\"\"",
    "\"0\"",
    "\"01\"",
    "\"+1\"",
    "\" 1\"",
    "\"1.0\"",
    "\"１\"",
    "\"1\\u0000\"",
    "\"9007199254740992\"",
];

/// The names under which the body of an operation may give the target.
fn in_body(operation: &'static Operation) -> Vec<&'static str> {
    let names = operation.target_names.iter().copied();
    let names = names.filter(|name| !operation.form.body.names().contains(name));
    names.filter(|_| operation.form.body != BodyRule::None).collect()
}

#[tokio::test]
async fn whatever_is_no_id_is_400_in_every_query() {
    let house = House::new().await;
    let id = house.id("agent1");
    for operation in OPERATIONS {
        let (verb, path) = (operation.verb.as_str(), about(operation.path, id));
        for name in operation.target_names {
            for bad in NO_TEXTS {
                let path = format!("{path}?{name}={bad}");
                let reply = house.call("partner", verb, &path, None).await;
                reply.problem(400, "invalid_request", name);
            }
            let mut letters = name.chars();
            let first = letters.next().unwrap() as u32;
            let encoded = format!("%{first:02X}{}", letters.as_str());
            for query in [
                format!("{name}={id}&{name}={id}"),
                format!("{name}={id}&{encoded}={id}"),
                format!("{encoded}={id}&{name}={NOBODY}"),
                format!("{name}[]={id}"),
                format!("{name}%5B%5D={id}"),
                format!("{name}[0]={id}"),
                format!("{}={id}", name.to_lowercase()),
                format!("{name}%00={id}"),
            ] {
                let reply = house.call("partner", verb, &format!("{path}?{query}"), None).await;
                assert_eq!(reply.status, 400, "{verb} {path}?{query}: {}", reply.text());
            }
        }
    }
}

#[tokio::test]
async fn whatever_is_no_id_is_400_in_every_body() {
    let mut house = House::new().await;
    house.hire("worker", "agent1").await;
    let id = house.id("agent1");
    let mut tried = 0;
    for operation in OPERATIONS {
        let (verb, path) = (operation.verb.as_str(), about(operation.path, id));
        let who = if operation.need.worker { "worker" } else { "partner" };
        for name in in_body(operation) {
            for bad in NO_VALUES {
                let body = format!("{{\"{name}\":{bad}}}");
                let reply = house.exact(who, (verb, &path), "", Some(&body)).await;
                reply.problem(400, "invalid_request", name);
                tried += 1;
            }
            for (body, words) in [
                (format!("{{\"{name}\":{id},\"{name}\":{id}}}"), "sent twice"),
                (format!("{{\"{name}\":{id},\"\\u0074{}\":{id}}}", &name[1..]), "sent twice"),
                (format!("{{\"{name}[]\":{id}}}"), "is not known here"),
                (format!("{{\"{}\":{id}}}", name.to_uppercase()), "is not known here"),
                (format!("{{\"{name}\":1e400}}"), "not valid JSON"),
                (format!("{{\"{name}\":+1}}"), "not valid JSON"),
                (format!("{{\"{name}\":01}}"), "not valid JSON"),
                (format!("{{\"{name}\":NaN}}"), "not valid JSON"),
            ] {
                let reply = house.exact(who, (verb, &path), "", Some(&body)).await;
                reply.problem(400, "invalid_request", words);
            }
        }
    }
    assert!(tried > 100, "only {tried} values");
}

#[tokio::test]
async fn whatever_is_no_id_is_400_in_a_path_and_must_agree_with_the_query() {
    let house = House::new().await;
    let caller = house.http.use_cases.access.caller(Some(house.token("org1"))).await.unwrap();
    let (mine, other) = (house.id("agent1"), house.id("agent2"));
    let need = Need::read(TargetType::Any);
    for names in [ACCOUNT, ORGANIZATION, RESELLER, PARTNER] {
        let ask = async |path: &str, query: &str| {
            let query = Query::parse(query, 999, &[], names).unwrap();
            let rule = TargetRule { need, names };
            before_body(&house.http, &caller, rule, Some(path), &query).await
        };
        for bad in NO_TEXTS {
            let decoded = bad.replace("%20", " ").replace("%2B", "+").replace("%00", "\0");
            let refused = ask(&decoded, "").await.unwrap_err();
            assert!(refused.detail.contains("targetAccountId"), "{bad}: {}", refused.detail);
        }
        let found = ask(&mine.to_string(), "").await.unwrap().unwrap();
        assert_eq!(found, mine);
        for name in names {
            let same = ask(&mine.to_string(), &format!("{name}={mine}")).await.unwrap().unwrap();
            assert_eq!(same, mine);
            let refused = ask(&mine.to_string(), &format!("{name}={other}")).await.unwrap_err();
            assert!(refused.detail.contains("named differently"), "{}", refused.detail);
        }
    }
}

#[tokio::test]
async fn all_names_of_a_target_agree_in_query_and_body() {
    let house = House::new().await;
    let (one, other) = (house.id("agent1").get(), house.id("agent2").get());
    for operation in OPERATIONS {
        let (verb, path) = (operation.verb.as_str(), about(operation.path, house.id("agent1")));
        for in_query in operation.target_names {
            for in_body in in_body(operation) {
                for value in [json!(other), json!(other.to_string())] {
                    let path = format!("{path}?{in_query}={one}");
                    let body = json!({ in_body: value });
                    let reply = house.call("agent1", verb, &path, Some(&body)).await;
                    // A missing right is reported first.
                    if reply.status != 403 {
                        let words = if reply.text().contains("named differently") {
                            "named differently"
                        } else {
                            "this operation needs"
                        };
                        reply.problem(400, "invalid_request", words);
                    }
                }
            }
            for second in operation.target_names.iter().filter(|name| *name != in_query) {
                let path = format!("{path}?{in_query}={one}&{second}={other}");
                let reply = house.call("partner", verb, &path, None).await;
                reply.problem(400, "invalid_request", "named differently");
            }
        }
    }
}
