//! Sends to every parameter of every operation: strings with a meaning elsewhere (threats E11),
//! values of wrong types, and costly bodies (E12). Each answer is one of ours, and none is a 500.

use serde_json::{Value, json};

use crate::app::access::need::TargetType;
use crate::domain::account::AccountType;
use crate::http::operation::Operation;
use crate::http::request::body::BodyRule;
use crate::http::table::OPERATIONS;
use crate::http::tests::table::about;
use crate::http::tests::{House, Reply};

const STRANGE: &[&str] = &[
    "' OR '1'='1'; DROP TABLE accounts; --",
    "x\r\nSet-Cookie: evil=1\r\n\r\n<html>",
    "\0",
    "../../../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "${jndi:ldap://127.0.0.1/x}{{7*7}}%s%n",
    "{\"$ne\": null}",
    "\u{202e}\u{feff}\u{fffd}\u{1d54f}",
    "gp_0000000000000000000000000000000000000000000",
];

fn values() -> [Value; 8] {
    let deep = (0..50).fold(json!(1), |inner, _| json!([inner]));
    [json!(null), json!(true), json!(-1), json!(1e308), json!(u64::MAX), json!([]), json!({}), deep]
}

/// Returns a caller whose key reaches the operation itself.
fn caller(operation: &Operation) -> &'static str {
    match operation.need.target {
        TargetType::Level(AccountType::Agent) => "agent1",
        TargetType::Level(AccountType::Organization) => "org1",
        TargetType::Level(AccountType::Reseller) => "reseller1",
        _ => "partner",
    }
}

/// All but what can stand in a query as it is.
fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[track_caller]
fn is_ours(reply: &Reply, what: &str) {
    assert!(reply.status < 500, "{what}: {}", reply.text());
    reply.carries_what_every_answer_carries();
    for name in reply.headers.keys() {
        let strange = name.starts_with("access-control") || name == "set-cookie";
        assert!(!strange, "{what}: {name}");
    }
    if reply.status >= 400 {
        let body = reply.json();
        assert_eq!(body["success"], false, "{what}");
        assert!(!reply.text().contains("gp_0000"), "{what}: {}", reply.text());
    }
}

#[tokio::test]
async fn strange_strings_are_strings() {
    let house = House::new().await;
    let long = "a".repeat(4000);
    for operation in OPERATIONS {
        let (verb, path, who) =
            (operation.verb.as_str(), about(operation.path, house.id("agent1")), caller(operation));
        let body = (!operation.form.body.names().is_empty()).then(|| json!({}));
        for text in STRANGE.iter().copied().chain([long.as_str()]) {
            let text = encoded(text);
            for name in operation.form.query {
                let path = format!("{path}?{name}={text}");
                let reply = house.call(who, verb, &path, body.as_ref()).await;
                is_ours(&reply, &format!("{verb} {path}"));
            }
            if path != operation.path {
                let segments = operation.path.split('/');
                let segments =
                    segments.map(|one| if one.starts_with('{') { text.as_str() } else { one });
                let path = segments.collect::<Vec<_>>().join("/").replace('+', "%20");
                let reply = house.call(who, verb, &path, body.as_ref()).await;
                is_ours(&reply, &format!("{verb} {path}"));
            }
        }
        for name in operation.form.body.names() {
            let texts = STRANGE.iter().copied().chain([long.as_str()]).map(Value::from);
            for value in texts.chain(values()) {
                for value in [value.clone(), json!([value])] {
                    let body = json!({ *name: value });
                    let reply = house.call(who, verb, &path, Some(&body)).await;
                    is_ours(&reply, &format!("{verb} {path} {body}"));
                }
            }
        }
    }
    // Some strings are names of accounts now; the accounts are otherwise unchanged.
    let accounts = house.store.accounts(None).await.unwrap();
    for resident in house.residents.values() {
        let found = accounts.iter().find(|account| account.id == resident.account.id).unwrap();
        assert_eq!((found.kind, found.active), (resident.account.kind, true));
    }
}

#[tokio::test]
async fn bodies_that_cost_something_are_bounded_everywhere() {
    let house = House::new().await;
    let keys: String = (0..90_000).map(|number| format!("\"{number}\":0,")).collect();
    let keys = format!("{{{keys}\"a\":0}}");
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(2 << 20));
    for operation in OPERATIONS {
        let (verb, path, who) =
            (operation.verb.as_str(), about(operation.path, house.id("agent1")), caller(operation));
        let ask = async |lines: &str, body: &str| {
            let reply = house.exact(who, (verb, &path), lines, Some(body)).await;
            is_ours(&reply, &format!("{verb} {path}"));
            reply
        };
        let (many, nested) = (ask("", &keys).await, ask("", &deep).await);
        let packed = ask("Content-Encoding: gzip\r\n", "{}").await;
        assert!(many.status >= 400 && nested.status >= 400, "{verb} {path}");
        if operation.form.body != BodyRule::None && many.status == 400 {
            many.problem(400, "invalid_request", "are not known here");
            nested.problem(400, "invalid_request", "recursion limit");
            packed.problem(415, "unsupported_media_type", "Content-Encoding");
        }
        if !matches!(operation.form.body, BodyRule::None | BodyRule::WithMessage(_)) {
            let reply = ask("", &large).await;
            assert!([403, 413].contains(&reply.status), "{verb} {path}: {}", reply.text());
        }
    }
}
