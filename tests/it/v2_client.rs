//! A client of v2, written from what is publicly known of that interface and from nothing of ours:
//! it works here by changing its base address. `fixtures/v2-client.toml` has its requests, one or
//! more for each operation of the contract, and what it reads of each answer.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::contract;
use crate::support::sources::read;
use crate::support::{PATIENCE, TestGateway, canary, http, letter, signed, signer};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    step: Vec<Step>,
}

/// One request; `{name}` in it stands for what an earlier step kept.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// As the contract lists it.
    operation: String,
    /// The owner of the key: `organization` if absent.
    #[serde(rename = "as")]
    caller: Option<String>,
    /// Behind the base, with its query.
    request: String,
    /// JSON.
    body: Option<String>,
    status: u16,
    /// Fields that must be there and not null: names joined by points, numbers for items.
    #[serde(default)]
    shows: Vec<String>,
    /// The content type of an answer that is no JSON, and not empty.
    octets: Option<String>,
    /// It is asked again until this is there.
    #[serde(default)]
    until: BTreeMap<String, String>,
    /// Values that later steps need, by name.
    #[serde(default)]
    keep: BTreeMap<String, String>,
}

fn at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(value, |value, name| match name.parse::<usize>() {
        Ok(number) => value.get(number),
        Err(_) => value.get(name),
    })
}

fn filled(text: &str, known: &BTreeMap<String, String>) -> String {
    known
        .iter()
        .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

#[test]
fn the_client_asks_every_operation_that_is_there() {
    let script: Script = toml::from_str(&read("fixtures/v2-client.toml")).unwrap();
    let asked: BTreeSet<String> = script.step.into_iter().map(|step| step.operation).collect();
    assert_eq!(asked, contract::operations());
}

/// A success of which nothing is read would be no more than a number.
#[test]
fn the_client_reads_something_of_each_success() {
    let script: Script = toml::from_str(&read("fixtures/v2-client.toml")).unwrap();
    let unread = |step: &&Step| {
        (200..300).contains(&step.status) && step.shows.is_empty() && step.octets.is_none()
    };
    let unread: Vec<&str> =
        script.step.iter().filter(unread).map(|step| step.request.as_str()).collect();
    assert_eq!(unread, <[&str; 0]>::default());
}

/// A message with a file.
fn with_file() -> Vec<u8> {
    let head = letter("third").replace("text/plain; charset=utf-8", "multipart/mixed; boundary=m");
    let head = head.split_once("\r\n\r\n").unwrap().0;
    let raw = format!(
        "{head}\r\n\r\n--m\r\nContent-Type: text/plain\r\n\r\nhello\r\n--m\r\n\
         Content-Type: application/pdf\r\nContent-Transfer-Encoding: base64\r\n\
         Content-Disposition: attachment; filename=a.pdf\r\n\r\nJVBERi0xLjcK\r\n--m--\r\n"
    );
    signer().sign(raw.as_bytes()).unwrap()
}

#[tokio::test]
async fn a_client_of_v2_works_by_changing_its_base_address() {
    let gateway = TestGateway::start().await;
    for raw in [signed("first"), signed("second"), with_file()] {
        let to = ["support@agents.example"];
        assert!(gateway.send("alice@good.example", &to, &raw).await.accepted());
    }
    let house = &gateway.house;
    let partner = gateway.tenancy.create_key(house.partner.id, "v2").await.unwrap().token;
    canary::note(partner.as_bytes());
    let mut known: BTreeMap<String, String> = BTreeMap::from([
        ("partner".to_owned(), house.partner.id.to_string()),
        ("reseller".to_owned(), house.reseller.id.to_string()),
        ("organization".to_owned(), house.organization.id.to_string()),
        ("agent".to_owned(), house.agents["support"].id.to_string()),
        ("username".to_owned(), house.agents["support"].username.clone()),
        ("hook".to_owned(), gateway.receiver.url("/v2")),
    ]);
    let script: Script = toml::from_str(&read("fixtures/v2-client.toml")).unwrap();
    for step in &script.step {
        let key = match step.caller.as_deref() {
            None => &gateway.key,
            Some("partner") => &partner,
            Some(other) => panic!("nobody is called {other}"),
        };
        let asking = async {
            loop {
                let answer = ask(&gateway, key, step, &known).await;
                let is_there =
                    |(path, value): (&String, &String)| at(&answer, path) == Some(&json!(value));
                if step.until.iter().all(is_there) {
                    return answer;
                }
                tokio::task::yield_now().await;
            }
        };
        let asked = tokio::time::timeout(PATIENCE, asking).await;
        let answer = asked.unwrap_or_else(|_| panic!("{}: {:?}", step.operation, step.until));
        for path in &step.shows {
            let shown = at(&answer, path);
            assert!(shown.is_some_and(|v| !v.is_null()), "{}: no {path}: {answer}", step.operation);
        }
        for (name, path) in &step.keep {
            let value = at(&answer, path).unwrap_or_else(|| panic!("{}: {path}", step.operation));
            let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
            known.insert(name.clone(), text);
        }
    }
    gateway.finish().await;
}

async fn ask(
    gateway: &TestGateway,
    key: &str,
    step: &Step,
    known: &BTreeMap<String, String>,
) -> Value {
    let method = step.operation.split(' ').next().unwrap();
    // Links in answers have the base in them.
    let path = filled(&step.request, known);
    let path = path.strip_prefix("/api/v2").unwrap_or(&path);
    let mark = if path.contains('?') { '&' } else { '?' };
    let url = format!("http://{}/api/v2{path}{mark}token={key}", gateway.http);
    let mut request =
        reqwest::Client::new().request(method.parse().unwrap(), url).timeout(PATIENCE);
    if let Some(body) = &step.body {
        let body = filled(body, known);
        canary::note(body.as_bytes());
        request = request.header("content-type", "application/json").body(body);
    }
    let answer = http::read(method, request.send().await.unwrap()).await;
    let text = answer.text();
    assert_eq!(answer.status.as_u16(), step.status, "{} {path}: {text}", step.operation);
    if let Some(octets) = &step.octets {
        let (kind, length) = (&answer.headers["content-type"], &answer.headers["content-length"]);
        assert_eq!(kind, octets, "{}", step.operation);
        assert!(!answer.body.is_empty(), "{} {path}", step.operation);
        assert_eq!(length, answer.body.len().to_string().as_str(), "{}", step.operation);
    }
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}
