//! Idempotency, rates, proxies and the audit log, through the whole program.

use std::net::SocketAddr;
use std::path::Path;

use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::process::gatepost;
use crate::support::{PATIENCE, TestGateway, count, http};

/// An answer, its body as JSON.
struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Value,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// A request to this gateway with these header fields, and with a JSON body if there is one.
async fn ask(
    gateway: SocketAddr,
    (method, path): (&str, &str),
    key: &str,
    fields: &[(&str, &str)],
    body: Option<&Value>,
) -> Answer {
    let mark = if path.contains('?') { '&' } else { '?' };
    let url = format!("http://{gateway}/api/v2{path}{mark}token={key}");
    let mut request =
        reqwest::Client::new().request(method.parse().unwrap(), url).timeout(PATIENCE);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    if let Some(body) = body {
        request = request.header("content-type", "application/json").body(body.to_string());
    }
    let answer = http::read(method, request.send().await.unwrap()).await;
    let (status, body) = (answer.status.as_u16(), answer.text());
    Answer { status, headers: answer.headers, body: serde_json::from_str(&body).unwrap() }
}

/// A webhook to be made, which shows its secret once.
fn hook(url: &str) -> Value {
    json!({ "url": format!("http://127.0.0.1:9/{url}"), "label": "x", "type": "agent" })
}

async fn create(http: SocketAddr, key: &str, name: &str, url: &str) -> Answer {
    let fields = [("Idempotency-Key", name)];
    ask(http, ("POST", "/webhooks"), key, &fields, Some(&hook(url))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_given_again_after_a_restart() {
    let mut gateway = TestGateway::start().await;
    let first = create(gateway.http, &gateway.key, "once", "a").await;
    assert_eq!((first.status, first.header("idempotency-replayed")), (201, None));
    let secret = first.body["secret"].as_str().unwrap().to_owned();
    gateway.restart().await;
    let again = create(gateway.http, &gateway.key, "once", "a").await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (201, Some("true")));
    assert_eq!(again.body, first.body);
    let other = create(gateway.http, &gateway.key, "once", "b").await;
    assert_eq!((other.status, &other.body["code"]), (409, &json!("conflict")));
    // The answer is stored, but no file of the store contains its secret in clear.
    assert_eq!(
        gateway.count("SELECT COUNT(*) FROM idempotency_keys WHERE answer IS NOT NULL").await,
        1
    );
    gateway.stop().await;
    let mut files = 0;
    for file in std::fs::read_dir(gateway.folder.path().join("store")).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            let octets = std::fs::read(&path).unwrap();
            let secret = secret.as_bytes();
            assert!(!octets.windows(secret.len()).any(|some| some == secret), "{path:?}");
            files += 1;
        }
    }
    assert!(files > 0);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_gateways_that_are_asked_at_once_one_carries_it_out() {
    let gateway = TestGateway::on_postgres().await;
    let second = gateway.second().await;
    for round in 0..5 {
        let mut racing = JoinSet::new();
        for http in [gateway.http, second.http].repeat(3) {
            let (key, name) = (gateway.key.clone(), format!("round-{round}"));
            racing.spawn(async move { create(http, &key, &name, &name).await });
        }
        let (mut performed, mut secrets) = (0, Vec::new());
        for answer in racing.join_all().await {
            match answer.status {
                201 => secrets.push(answer.body["secret"].clone()),
                409 => assert!(answer.body["detail"].to_string().contains("Idempotency-Key")),
                _ => panic!("{} {}", answer.status, answer.body),
            }
            let replayed = answer.header("idempotency-replayed").is_some();
            performed += usize::from(answer.status == 201 && !replayed);
        }
        assert_eq!(performed, 1);
        secrets.dedup();
        assert_eq!(secrets.len(), 1, "one and the same");
        let name = format!("round-{round}");
        for http in [gateway.http, second.http] {
            let again = create(http, &gateway.key, &name, &name).await;
            assert_eq!(again.header("idempotency-replayed"), Some("true"), "{}", again.body);
            assert_eq!(again.body["secret"], secrets[0]);
        }
    }
    let hooks = gateway.get("/webhooks").await;
    let made = hooks["webhooks"].as_array().unwrap().iter().filter(|hook| hook["type"] == "agent");
    assert_eq!(made.count(), 5);
    assert!(second.stop(PATIENCE).await);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_proxy_its_client_is_counted_and_written_down() {
    let gateway = TestGateway::with_settings(|settings| {
        settings.trusted_proxy = vec!["127.0.0.0/8".parse().unwrap()];
        let folder = tempfile::tempdir().unwrap();
        let rates = "[rates]\nkeyless_per_minute = 2\nwrites_per_minute = 2\n";
        settings.rules.access =
            crate::support::rules(folder.path(), &[("access.toml", rates)]).access;
    })
    .await;
    let from = |address: &'static str| [("X-Forwarded-For", address)];
    let agent = gateway.house.agents["support"].id;
    let path = format!("/email/inboundPolicy?targetAccountId={agent}");
    let mut modes = ["open", "allowlist"].into_iter();
    let change = async |mode: &str| {
        let body = json!({ "mode": mode });
        ask(gateway.http, ("PUT", &path), &gateway.key, &from("192.0.2.7"), Some(&body)).await
    };
    for left in [1, 0] {
        let answer = change(modes.next().unwrap()).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(answer.header("ratelimit-policy"), Some("\"write\";q=2;w=60"));
        let rest = answer.header("ratelimit").unwrap();
        assert!(rest.starts_with(&format!("\"write\";r={left};t=")), "{rest}");
    }
    let answer = change("open").await;
    assert_eq!((answer.status, &answer.body["code"]), (429, &json!("rate_limited")));
    let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait));
    let log = gateway.get(&format!("/audit?action=policy.changed&targetAccountId={agent}")).await;
    let entries = log["audit"].as_array().unwrap();
    let seen = entries.iter().filter(|entry| entry["remoteAddress"] == "192.0.2.7");
    assert_eq!(seen.count(), 2, "{log}");
    // After too many guesses an address gets no more lookups; keys known from there still work.
    let wrong = format!("gp_{:043}", 7);
    let try_once = async |key: &str, address| {
        ask(gateway.http, ("GET", "/account"), key, &from(address), None).await.status
    };
    assert_eq!(try_once(&gateway.key, "192.0.2.7").await, 200);
    for status in [401, 401, 429, 429] {
        assert_eq!(try_once(&wrong, "192.0.2.7").await, status);
    }
    assert_eq!(try_once(&gateway.key, "192.0.2.7").await, 200);
    assert_eq!(try_once(&wrong, "192.0.2.8").await, 401);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_command_line_changes_is_written_down() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let run = async |words: &str| {
        let output = gatepost(here, &words.split(' ').collect::<Vec<_>>()).await;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words}: {errors}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default()
    };
    let mut secrets = vec![run("init --json").await["key"].as_str().unwrap().to_owned()];
    let data = here.join("gatepost-data");
    let mut before = entries(&data).await;
    for (words, left) in [
        ("account create --type reseller --parent 1 --name r --json", 1),
        ("account create --type organization --parent 2 --name o --json", 1),
        ("domain add agents.example 3", 1),
        ("account create --type account --parent 3 --name a --address a@agents.example --json", 2),
        ("key create 4 --purpose test --json", 1),
        ("policy set 4 open --json", 1),
        ("policy set --account 4 --mode open --json", 0),
        ("policy allow a@agents.example x@x.example --json", 1),
        ("policy remove 4 x@x.example --json", 1),
        ("policy remove --account 4 --address x@x.example --json", 0),
        ("member invite 3 --email m@x.example --json", 1),
        ("account deactivate 2", 1),
        ("account list --json", 0),
    ] {
        let made = run(words).await;
        secrets.extend(made["key"].as_str().map(str::to_owned));
        let after = entries(&data).await;
        assert_eq!(after - before, left, "{words}");
        before = after;
    }
    assert_eq!(secrets.len(), 2);
    let others = "SELECT COUNT(*) FROM audit_entries WHERE actor <> 'operator'";
    assert_eq!(count(&data, others).await, 0);
    for secret in secrets {
        let found = format!(
            "SELECT COUNT(*) FROM audit_entries WHERE instr(object || changes, '{}') > 0",
            &secret[3..20]
        );
        assert_eq!(count(&data, found.leak()).await, 0);
    }
}

async fn entries(data: &Path) -> i64 {
    count(data, "SELECT COUNT(*) FROM audit_entries").await
}
