//! `/metrics` of a real gateway: what comes in, is refused and is delivered, is counted, and no
//! series names anybody. A real Prometheus reads it, and `ops/` asks for nothing that is not there.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use gatepost::domain::clock::Timestamp;
use gatepost::metrics::Metrics;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::support::sources::root;
use crate::support::{PATIENCE, TestGateway, http, signed};

const FROM: &str = "alice@good.example";
/// One sender may send as much as it likes.
const UNLIMITED: &str = "[rates]\nsender_messages_per_minute = 0\nroom_messages_per_minute = 0\n";
const TO: [&str; 1] = ["support@agents.example"];

async fn metrics(at: SocketAddr) -> String {
    let answer = http::get(&format!("http://{at}/metrics")).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    answer.text()
}

/// Reads metrics until they have all these lines.
async fn until(at: SocketAddr, lines: &[&str]) -> String {
    let mut last = String::new();
    let reading = async {
        loop {
            last = metrics(at).await;
            if lines.iter().all(|line| last.lines().any(|shown| shown == *line)) {
                break last.clone();
            }
        }
    };
    let found = timeout(PATIENCE, reading).await;
    found.unwrap_or_else(|_| panic!("{lines:?} are not all in\n{last}"))
}

/// Sends a message that is accepted and delivered, one without proof, and one to nobody.
async fn send_three(gateway: &TestGateway, word: &str) {
    assert!(gateway.send(FROM, &TO, &signed(word)).await.accepted());
    // Another domain each time, of which the DNS has not been asked yet.
    let unsigned = format!("From: a@{word}.example\r\nSubject: x\r\n\r\nno proof\r\n");
    assert!(!gateway.send(FROM, &TO, unsigned.as_bytes()).await.accepted());
    assert!(!gateway.send(FROM, &["nobody@agents.example"], &signed(word)).await.accepted());
}

async fn everything_is_counted(gateway: TestGateway) {
    send_three(&gateway, "counted").await;
    gateway.get("/webhooks").await;
    let lines = [
        r#"gatepost_messages_total{outcome="accepted",reason=""} 1"#,
        r#"gatepost_messages_total{outcome="refused",reason="dkim_missing"} 1"#,
        r#"gatepost_recipients_refused_total{reason="unknown_recipient"} 1"#,
        r#"gatepost_attempts_total{outcome="delivered"} 1"#,
        "gatepost_first_attempt_seconds_count 1",
        "gatepost_deliveries_waiting 0",
        "gatepost_gateways 1",
        r#"gatepost_requests_total{operation="listWebhooks",status="2xx"} 1"#,
    ];
    let shown = until(gateway.metrics, &lines).await;
    // A word of RFC 8460 that has the name of an Agent in it.
    let shown = shown.replace("starttls-not-supported", "");
    for part in
        ["good.example", "agents.example", "counted.example", "127.0.0.1", "support", "alice"]
    {
        assert!(!shown.contains(part), "{part} is in\n{shown}");
    }
    for line in ["gatepost_commit_messages_count ", "gatepost_dns_seconds_count "] {
        let found = shown.lines().find(|one| one.starts_with(line));
        assert!(found.is_some_and(|one| !one.ends_with(" 0")), "{line}: {shown}");
    }
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_counted_and_nobody_named() {
    everything_is_counted(TestGateway::start().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_counted_and_nobody_named_on_postgres() {
    everything_is_counted(TestGateway::on_postgres().await).await;
}

/// Reads replies until one begins with these words.
async fn until_said(session: &mut TcpStream, words: &str) {
    let mut lines = BufReader::new(session).lines();
    let reading = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.starts_with(words) {
                return;
            }
        }
        panic!("the session ended without {words:?}");
    };
    timeout(PATIENCE, reading).await.unwrap_or_else(|_| panic!("{words:?} was not said"));
}

/// Replies that a session gives by itself leave a metric, too (contract §2.3); so do pools.
#[tokio::test(flavor = "multi_thread")]
async fn connections_turned_away_and_messages_put_off_are_counted() {
    let full = "[limits]\nmax_sessions = 1\n[space]\nmin_free_bytes = 4611686018427387904\n";
    let gateway = TestGateway::with_rules(&[("smtp.toml", full)]).await;
    let mut one = TcpStream::connect(gateway.smtp).await.unwrap();
    until_said(&mut one, "220 ").await;
    one.write_all(b"EHLO client.example\r\nMAIL FROM:<a@good.example>\r\n").await.unwrap();
    until_said(&mut one, "452 4.3.1").await;
    let mut other = TcpStream::connect(gateway.smtp).await.unwrap();
    until_said(&mut other, "421 4.3.2").await;
    let lines = [
        r#"gatepost_smtp_refused_total{reason="too_many_sessions"} 1"#,
        r#"gatepost_smtp_refused_total{reason="no_space"} 1"#,
    ];
    let shown = until(gateway.metrics, &lines).await;
    for pool in ["mail", "api", "streams", "beats"] {
        let gauge = format!("gatepost_database_connections{{pool=\"{pool}\"");
        assert!(shown.contains(&gauge), "{pool}: {shown}");
    }
    gateway.finish().await;
}

/// The listener for Prometheus has nothing else but health, and the API's has no metrics.
#[tokio::test(flavor = "multi_thread")]
async fn metrics_have_a_listener_of_their_own() {
    let gateway = TestGateway::start().await;
    let (api, at) = (gateway.http, gateway.metrics);
    for path in [format!("{api}/metrics"), format!("{at}/api/v2/account"), format!("{at}/console/")]
    {
        assert_eq!(http::get(&format!("http://{path}")).await.status, 404, "{path}");
    }
    for path in ["healthz", "readyz"] {
        assert_eq!(http::get(&format!("http://{at}/{path}")).await.status, 200, "{path}");
    }
    gateway.finish().await;
}

/// A Prometheus with a folder of its own, which reads this gateway every second.
struct Prometheus {
    child: Child,
    at: String,
}

impl Prometheus {
    async fn start(folder: &Path, gateway: SocketAddr) -> Self {
        let written = std::fs::read_to_string(root().join("ops/prometheus.yml")).unwrap();
        let rules = root().join("ops/alerts.yml");
        let config = written
            .replace("15s", "1s")
            .replace("127.0.0.1:9464", &gateway.to_string())
            .replace("alerts.yml", rules.to_str().unwrap());
        let file = folder.join("prometheus.yml");
        std::fs::write(&file, config).unwrap();
        let mut child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("tsdb").display()))
            .arg("--web.listen-address=127.0.0.1:0")
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("scripts/test installs prometheus");
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let reading = async {
            loop {
                let line = lines.next_line().await.unwrap().expect("it says where it listens");
                if let Some((_, at)) = line.split_once(r#"msg="Listening on" address="#) {
                    break at.to_owned();
                }
            }
        };
        let at = timeout(PATIENCE, reading).await.unwrap();
        // Its pipe must not fill up.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { child, at }
    }

    /// The number of series that a query finds now.
    async fn series(&self, query: &str) -> usize {
        let url = format!("http://{}/api/v1/query", self.at);
        let url = url::Url::parse_with_params(&url, [("query", query)]).unwrap();
        let answer: Value = serde_json::from_str(&http::get(url.as_str()).await.text()).unwrap();
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        let found = answer["data"]["result"].as_array().unwrap();
        // A quotient of nothing is no value.
        found.iter().filter(|one| one["value"][1] != "NaN").count()
    }
}

/// The queries of the dashboard.
fn queries() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("ops/grafana.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let query =
        |target: &Value| target["expr"].as_str().unwrap().replace("$__rate_interval", "60s");
    targets.map(query).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_panel_of_the_dashboard_shows_a_value_of_a_real_gateway() {
    let gateway = TestGateway::with_rules(&[("intake.toml", UNLIMITED)]).await;
    let folder = tempfile::tempdir().unwrap();
    let mut prometheus = Prometheus::start(folder.path(), gateway.metrics).await;
    let mut missing = queries();
    assert!(missing.len() > 25, "{missing:?}");
    let mut sent = 0;
    let asking = async {
        while let Some(query) = missing.last() {
            // A rate needs two readings between which something was counted.
            send_three(&gateway, &format!("panel{sent}")).await;
            let _any_status = gateway.request("GET", "/webhooks", None).await;
            sent += 1;
            if prometheus.series(query).await > 0 {
                missing.pop();
            }
        }
    };
    let all = timeout(PATIENCE, asking).await;
    assert!(all.is_ok(), "no value after {sent} rounds: {missing:?}");
    assert_eq!(prometheus.series("ALERTS").await, 0, "nothing is wrong here");
    prometheus.child.kill().await.unwrap();
    gateway.finish().await;
}

async fn promtool(arguments: &[&str]) {
    let output = Command::new("promtool")
        .args(arguments)
        .current_dir(root().join("ops"))
        .output()
        .await
        .expect("scripts/test installs prometheus");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said));
}

/// By Prometheus' own tool: the rules are well-formed, and fire when they should.
#[tokio::test]
async fn alerts_fire_when_they_should() {
    promtool(&["check", "config", "prometheus.yml"]).await;
    promtool(&["test", "rules", "alerts.test.yml"]).await;
}

/// Prometheus' own tool finds no fault in names and texts of a real answer.
#[tokio::test(flavor = "multi_thread")]
async fn promtool_finds_nothing_to_better_in_the_metrics() {
    let gateway = TestGateway::start().await;
    send_three(&gateway, "linted").await;
    let file = gateway.folder.path().join("metrics");
    std::fs::write(&file, metrics(gateway.metrics).await).unwrap();
    let output = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(std::fs::File::open(&file).unwrap())
        .output()
        .await
        .expect("scripts/test installs prometheus");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    gateway.finish().await;
}

/// Each metric that `ops/` and the book name is one, and each is on the dashboard.
#[test]
fn ops_names_every_metric_and_no_other() {
    let described = Metrics::new(Timestamp::from_millis(0)).unwrap().described();
    let known: BTreeSet<String> = described.into_iter().map(|one| one.name).collect();
    let named = |file: &str| -> BTreeSet<String> {
        let text = std::fs::read_to_string(root().join(file)).unwrap();
        let words = text.split(|sign: char| !(sign.is_ascii_lowercase() || sign == '_'));
        let names = words.filter(|word| word.starts_with("gatepost_"));
        let base = |name: &str| {
            let ends = ["_bucket", "_sum", "_count"];
            let short = ends.iter().find_map(|end| name.strip_suffix(end));
            short.filter(|short| known.contains(*short)).unwrap_or(name).to_owned()
        };
        names.map(base).collect()
    };
    for file in ["ops/alerts.yml", "ops/alerts.test.yml", "docs/monitoring.md"] {
        let unknown: Vec<_> = named(file).difference(&known).cloned().collect();
        assert!(unknown.is_empty(), "{file} names {unknown:?}, which no gateway has");
    }
    assert_eq!(named("ops/grafana.json"), known);
}
