//! Traces as a collector gets them: one for each transaction, with the attempts of its deliveries,
//! decoded by the published messages of OTLP.

use std::collections::{BTreeMap, BTreeSet};

use gatepost::run::{OtlpSettings, Settings};
use gatepost::testkit::receiver::{Received, Receiver, Reply};
use gatepost::traces::ids::Sampling;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message as _;
use reqwest::header::{HeaderMap, HeaderValue};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::support::process::{Server, failing};
use crate::support::session::Session;
use crate::support::site::Site;
use crate::support::{PATIENCE, TestGateway, http, rules, signed};

const FROM: &str = "alice@good.example";
const TO: [&str; 1] = ["support@agents.example"];
const QUICK: &str = "[batch]\nevery_millis = 20\n";

/// A collector that takes everything, beside a gateway that sends this part of all traces.
async fn traced(ratio: f64, toml: &str) -> (TestGateway, Receiver) {
    let collector = Receiver::start(gatepost::run::system_mint().clock().clone()).await.unwrap();
    let url = collector.url("/v1/traces");
    (gateway(&url, ratio, toml).await, collector)
}

async fn gateway(url: &str, ratio: f64, toml: &str) -> TestGateway {
    gateway_by(url, ratio, &[("traces.toml", toml)]).await
}

async fn gateway_by(url: &str, ratio: f64, files: &[(&str, &str)]) -> TestGateway {
    let folder = tempfile::tempdir().unwrap();
    let change = |settings: &mut Settings| {
        settings.rules = rules(folder.path(), files);
        let mut headers = HeaderMap::new();
        headers.insert("authorization", HeaderValue::from_static("Bearer collector-key"));
        let sampling = Sampling::part(ratio).unwrap();
        settings.otlp = Some(OtlpSettings { url: url.parse().unwrap(), headers, sampling });
    };
    TestGateway::with_settings(change).await
}

/// All spans that a collector got. A gateway that has stopped has sent its last.
fn spans(requests: &[Received]) -> Vec<Span> {
    let decode = |request: &Received| {
        assert_eq!(request.path, "/v1/traces");
        assert_eq!(request.headers["content-type"], "application/x-protobuf");
        assert_eq!(request.headers["authorization"], "Bearer collector-key");
        ExportTraceServiceRequest::decode(request.body.as_slice()).unwrap()
    };
    let of_gateways = requests.iter().map(decode).flat_map(|request| request.resource_spans);
    let of_scopes = of_gateways.flat_map(|one| {
        let resource = attributes(&one.resource.unwrap().attributes);
        assert_eq!(resource["service.name"], "gatepost");
        assert_eq!(resource["service.version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(resource["host.name"], "mx.agents.example");
        assert!(resource.contains_key("service.instance.id"));
        one.scope_spans
    });
    of_scopes.flat_map(|scope| scope.spans).collect()
}

fn attributes(of: &[KeyValue]) -> BTreeMap<String, String> {
    let shown = |value: &KeyValue| match value.value.clone().unwrap().value.unwrap() {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        Value::BoolValue(yes) => yes.to_string(),
        other => panic!("{other:?}"),
    };
    of.iter().map(|one| (one.key.clone(), shown(one))).collect()
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// The one span of this name.
fn named<'s>(spans: &'s [Span], name: &str) -> &'s Span {
    let found: Vec<_> = spans.iter().filter(|span| span.name == name).collect();
    assert_eq!(found.len(), 1, "{name}");
    found[0]
}

/// The spans of the trace of this record or message.
fn of_trace(spans: &[Span], id: &str) -> Vec<Span> {
    let id = id.replace('-', "");
    spans.iter().filter(|span| hex(&span.trace_id) == id).cloned().collect()
}

/// A trace is one tree, in which no child lies outside of its time and no id is given twice.
fn is_whole(spans: &[Span]) {
    let ids: BTreeSet<_> = spans.iter().map(|span| span.span_id.clone()).collect();
    assert_eq!(ids.len(), spans.len(), "an id twice");
    let roots: Vec<_> = spans.iter().filter(|span| span.parent_span_id.is_empty()).collect();
    assert_eq!(roots.len(), 1, "{roots:?}");
    for span in spans.iter().filter(|span| !span.parent_span_id.is_empty()) {
        assert_eq!(span.parent_span_id, roots[0].span_id, "{}", span.name);
        assert!(span.start_time_unix_nano >= roots[0].start_time_unix_nano, "{}", span.name);
        assert!(span.end_time_unix_nano >= span.start_time_unix_nano, "{}", span.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_and_its_delivery_are_one_trace() {
    let (mut gateway, collector) = traced(1.0, QUICK).await;
    assert!(gateway.send(FROM, &TO, &signed("traced")).await.accepted());
    let delivered = gateway.receiver.wait_for(1, PATIENCE).await.unwrap();
    gateway.stop().await;
    let all = spans(&collector.received());
    let id = serde_json::from_slice::<serde_json::Value>(&delivered[0].body).unwrap();
    let id = id["messageUuid"].as_str().unwrap().to_owned();
    let trace = of_trace(&all, &id);
    assert_eq!(trace.len(), all.len(), "one trace of one transaction: {all:#?}");
    is_whole(&trace);
    for step in
        ["receive", "scan", "dkim", "spf", "arc", "dmarc", "iprev", "alignment", "policy", "commit"]
    {
        named(&trace, step);
    }
    let root = named(&trace, "SMTP transaction");
    assert_eq!(root.kind, SpanKind::Server as i32);
    let shown = attributes(&root.attributes);
    assert_eq!(shown["gatepost.outcome"], "accepted");
    assert_eq!(shown["gatepost.record.id"], id);
    let agent = gateway.house.agents["support"].id.get();
    assert_eq!(shown["gatepost.agent.id"], agent.to_string());
    assert!(shown["gatepost.message.size"].parse::<u64>().unwrap() > 200);
    assert!(!shown.contains_key("gatepost.reason"));
    assert_eq!(attributes(&named(&trace, "dkim").attributes)["gatepost.result"], "pass");
    // The steps of verify lie within the examination, and the commit at the end.
    let commit = named(&trace, "commit");
    assert!(commit.end_time_unix_nano <= root.end_time_unix_nano);
    assert!(named(&trace, "receive").end_time_unix_nano <= commit.start_time_unix_nano);

    let attempt = named(&trace, "webhook attempt");
    assert_eq!(attempt.kind, SpanKind::Client as i32);
    let shown = attributes(&attempt.attributes);
    assert_eq!(shown["gatepost.event.name"], "email.received");
    assert_eq!(shown["gatepost.event.id"], delivered[0].headers["webhook-id"]);
    assert_eq!((&*shown["http.response.status_code"], &*shown["gatepost.attempt"]), ("200", "1"));
    let parent = format!("00-{}-{}-01", hex(&attempt.trace_id), hex(&attempt.span_id));
    assert_eq!(delivered[0].headers["traceparent"], parent);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_a_trace_with_its_reason() {
    let (mut gateway, collector) = traced(1.0, QUICK).await;
    let unsigned = "From: eve@nowhere.example\r\nSubject: x\r\n\r\nno proof\r\n";
    let replies = gateway.send(FROM, &TO, unsigned.as_bytes()).await;
    assert!(!replies.accepted());
    gateway.stop().await;
    let all = spans(&collector.received());
    is_whole(&all);
    let shown = attributes(&named(&all, "SMTP transaction").attributes);
    assert_eq!(shown["gatepost.outcome"], "refused");
    assert_eq!(shown["gatepost.reason"], "dkim_missing");
    let record = &shown["gatepost.record.id"];
    assert_eq!(of_trace(&all, record).len(), all.len());
    assert!(replies.data.unwrap().contains(record), "the reply names the trace");
    assert!(all.iter().all(|span| span.name != "webhook attempt"));
    gateway.finish().await;
}

/// One record counts all that is refused at MAIL, or is over a rate, in a minute.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_counted_in_another_record_has_no_trace() {
    let collector = Receiver::start(gatepost::run::system_mint().clock().clone()).await.unwrap();
    let rates = ("intake.toml", "[rates]\nroom_messages_per_minute = 1\n");
    let files = [("traces.toml", QUICK), rates];
    let mut gateway = gateway_by(&collector.url("/v1/traces"), 1.0, &files).await;
    let mut session = Session::idle(gateway.smtp).await;
    let reply = session.say("MAIL FROM:<> SIZE=99999999999").await;
    assert!(reply.starts_with("552"), "{reply}");
    assert!(gateway.send(FROM, &TO, &signed("first")).await.accepted());
    let first = gateway.receiver.wait_for(1, PATIENCE).await.unwrap();
    for again in ["second", "third"] {
        let replies = gateway.send(FROM, &TO, &signed(again)).await;
        assert!(replies.settling().starts_with("450 4.2.1"), "{}", replies.settling());
    }
    drop(session);
    gateway.stop().await;
    let all = spans(&collector.received());
    let id = serde_json::from_slice::<serde_json::Value>(&first[0].body).unwrap();
    let traced = of_trace(&all, id["messageUuid"].as_str().unwrap());
    assert_eq!(traced.len(), all.len(), "another trace: {all:#?}");
    is_whole(&all);
    gateway.finish().await;
}

/// Recipients beyond the first have traces of their own, because deliveries know only their own
/// message.
#[tokio::test(flavor = "multi_thread")]
async fn each_further_recipient_has_a_linked_trace() {
    let (mut gateway, collector) = traced(1.0, QUICK).await;
    let to = ["open@agents.example", "open2@agents.example"];
    assert!(gateway.send(FROM, &to, &signed("for two")).await.accepted());
    gateway.receiver.wait_for(2, PATIENCE).await.unwrap();
    gateway.stop().await;
    let all = spans(&collector.received());
    let (first, other) = (named(&all, "SMTP transaction"), named(&all, "recipient"));
    assert_eq!(first.links.len(), 1);
    assert_eq!(first.links[0].trace_id, other.trace_id);
    assert_eq!(first.links[0].span_id, other.span_id);
    assert_eq!(other.links[0].trace_id, first.trace_id);
    for root in [first, other] {
        let trace = of_trace(&all, &hex(&root.trace_id));
        is_whole(&trace);
        named(&trace, "policy");
        named(&trace, "webhook attempt");
    }
    assert_eq!(attributes(&first.attributes)["gatepost.recipients"], "2");
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_a_further_attempt_of_the_trace() {
    let (mut gateway, collector) = traced(1.0, QUICK).await;
    gateway.receiver.script([Reply::status(500)]);
    assert!(gateway.send(FROM, &TO, &signed("again")).await.accepted());
    let received = gateway.receiver.wait_for(2, PATIENCE).await.unwrap();
    gateway.stop().await;
    let all = spans(&collector.received());
    is_whole(&all);
    let attempts: Vec<_> = all.iter().filter(|span| span.name == "webhook attempt").collect();
    let outcome = |at: usize| attributes(&attempts[at].attributes)["gatepost.outcome"].clone();
    assert_eq!([outcome(0), outcome(1)], ["retry", "delivered"]);
    assert_eq!((attempts[0].status.as_ref().unwrap().code, attempts[1].status.clone()), (2, None));
    assert_ne!(received[0].headers["traceparent"], received[1].headers["traceparent"]);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_of_a_trace_that_is_not_sampled() {
    let (mut gateway, collector) = traced(0.0, QUICK).await;
    assert!(gateway.send(FROM, &TO, &signed("unsampled")).await.accepted());
    let delivered = gateway.receiver.wait_for(1, PATIENCE).await.unwrap();
    gateway.stop().await;
    assert_eq!(collector.received().len(), 0);
    // Receivers may still tell which trace it would have been.
    assert!(delivered[0].headers["traceparent"].ends_with("-00"));
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_webhook_names_a_trace_where_nothing_is_traced() {
    let gateway = TestGateway::start().await;
    assert!(gateway.send(FROM, &TO, &signed("untraced")).await.accepted());
    let delivered = gateway.receiver.wait_for(1, PATIENCE).await.unwrap();
    assert!(!delivered[0].headers.contains_key("traceparent"));
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_trace_holds_an_address_or_content() {
    let (mut gateway, collector) = traced(1.0, QUICK).await;
    gateway.receiver.script([Reply::status(500).text("canary-answer")]);
    let canary = signed("canary-subject");
    assert!(gateway.send(FROM, &["support+canary-tag@agents.example"], &canary).await.accepted());
    gateway.receiver.wait_for(2, PATIENCE).await.unwrap();
    let unsigned = "From: canary-from@canary.example\r\nSubject: canary\r\n\r\ncanary-body\r\n";
    assert!(!gateway.send("canary-sender@x.example", &TO, unsigned.as_bytes()).await.accepted());
    assert!(!gateway.send(FROM, &TO, b"canary-no-header\r\n\r\ncanary\r\n").await.accepted());
    gateway.stop().await;
    let requests = collector.received();
    assert!(spans(&requests).len() > 20);
    let key = gateway.key.clone();
    let address = gateway.receiver.address().to_string();
    let words = ["canary", "alice", "good.example", "support@", "client.example", "127.0.0.1"];
    for word in words.iter().copied().chain([key.as_str(), "/events", &address, "collector-key"]) {
        let has = |request: &Received| {
            request.body.windows(word.len()).any(|octets| octets == word.as_bytes())
        };
        assert!(!requests.iter().any(has), "{word} was exported");
    }
    gateway.finish().await;
}

async fn counted(gateway: &TestGateway, outcome: &str) -> u64 {
    let text = http::get(&format!("http://{}/metrics", gateway.metrics)).await.text();
    let start = format!("gatepost_spans_total{{outcome=\"{outcome}\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&start));
    line.unwrap_or_else(|| panic!("no {start} in {text}")).parse().unwrap()
}

/// Waits until so many spans, at least, came to this end.
async fn until_counted(gateway: &TestGateway, outcome: &str, least: u64) {
    let counting = async { while counted(gateway, outcome).await < least {} };
    assert!(timeout(PATIENCE, counting).await.is_ok(), "{outcome}");
}

/// It takes connections and never answers, longer than anybody waits here.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_collector_delays_no_mail_and_what_is_lost_is_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
    let toml = "[queue]\nmax_waiting_spans = 30\n[batch]\nevery_millis = 10\nmax_spans = 1\n\
                [request]\ntimeout_seconds = 300\nconnect_seconds = 300\n[stop]\nflush_seconds = 0\n";
    let gateway = gateway(&url, 1.0, toml).await;
    for number in 0..8 {
        assert!(gateway.send(FROM, &TO, &signed(&format!("dead {number}"))).await.accepted());
    }
    gateway.receiver.wait_for(8, PATIENCE).await.unwrap();
    assert!(counted(&gateway, "dropped").await > 30);
    assert_eq!(counted(&gateway, "exported").await, 0);
    // The end waits for it no longer than the rules say.
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_busy_is_asked_again_and_one_that_refuses_is_not() {
    let toml = "[batch]\nevery_millis = 10\n[retries]\nwait_seconds = [1]\njitter_percent = 0\n";
    let (gateway, collector) = traced(1.0, toml).await;
    collector.script([Reply::status(503), Reply::status(200)]);
    assert!(gateway.send(FROM, &TO, &signed("busy")).await.accepted());
    until_counted(&gateway, "exported", 10).await;
    let requests = collector.received();
    assert_eq!(requests[0].body, requests[1].body);
    assert_eq!(counted(&gateway, "failed").await, 0);

    // Spans that it refuses are counted. Its answer is a protobuf, which here happens to be text.
    let partial_success = ExportTracePartialSuccess { rejected_spans: 3, ..Default::default() };
    let partly = ExportTraceServiceResponse { partial_success: Some(partial_success) };
    collector
        .otherwise(Reply::status(200).text(std::str::from_utf8(&partly.encode_to_vec()).unwrap()));
    assert!(gateway.send(FROM, &TO, &signed("partly")).await.accepted());
    until_counted(&gateway, "refused", 3).await;

    collector.otherwise(Reply::status(400));
    let (before, failed) = (collector.received().len(), counted(&gateway, "failed").await);
    assert!(gateway.send(FROM, &TO, &signed("refused")).await.accepted());
    until_counted(&gateway, "failed", failed + 10).await;
    let bodies: Vec<_> =
        collector.received().into_iter().skip(before).map(|one| one.body).collect();
    let distinct: BTreeSet<_> = bodies.iter().collect();
    assert_eq!(distinct.len(), bodies.len(), "a refused batch was sent again");
    gateway.finish().await;
}

/// By the flags of the program: one warning for many failures, and no key in the log.
#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_cannot_be_reached_is_warned_of_once() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("store");
    let toml = "[batch]\nevery_millis = 10\nmax_spans = 1\n[retries]\nwait_seconds = []\n";
    let rules = rules(folder.path(), &[("traces.toml", toml)]);
    let site = Site::build(&gatepost::store::Location::Folder(data.clone()), &rules).await;
    site.leave_store().await;
    let collector = Receiver::start(gatepost::run::system_mint().clock().clone()).await.unwrap();
    collector.otherwise(Reply::status(401));
    let (log, policies) = (folder.path().join("log"), folder.path().join("policies"));
    let endpoint = collector.url("");
    let arguments = [
        ["--otlp-endpoint", &endpoint],
        ["--otlp-header", "authorization=Bearer collector-key"],
        ["--policies", policies.to_str().unwrap()],
    ];
    let server =
        Server::start_logging(&data, site.dns.addr(), arguments.as_flattened(), &log).await;
    for number in 0..3 {
        let to = [TO[0].to_owned()];
        let raw = signed(&format!("warned {number}"));
        let sent = gatepost::testkit::smtp_client::Transaction {
            helo: "client.example",
            from: FROM,
            to: &to,
            raw: &raw,
        };
        let replies = gatepost::testkit::smtp_client::deliver(server.smtp, &sent).await.unwrap();
        assert!(replies.accepted());
        collector.wait_for(number + 1, PATIENCE).await.unwrap();
    }
    assert_eq!(server.terminate().await, 0);
    assert_eq!(spans(&collector.received()[..1])[0].name, "SMTP transaction");
    let log = std::fs::read_to_string(&log).unwrap();
    let warned: Vec<_> = log.lines().filter(|line| line.contains("not exported")).collect();
    assert_eq!(warned.len(), 1, "{log}");
    assert!(warned[0].contains("answered 401") && warned[0].contains("otlp.header"), "{log}");
    assert!(!log.contains("collector-key"), "{log}");
    site.finish().await;
}

#[tokio::test]
async fn what_names_no_collector_is_said_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let refused = async |arguments: &[&str]| {
        let arguments = [&["serve"], arguments].concat();
        failing(folder.path(), &arguments).await
    };
    let endpoint = ["--otlp-endpoint", "http://127.0.0.1:1"];
    let with = |more: &[&'static str]| [endpoint.as_slice(), more].concat();
    let said = refused(&with(&["--otlp-sample", "2"])).await;
    assert!(said.contains("--otlp-sample") && said.contains("from 0 to 1"), "{said}");
    let said = refused(&with(&["--otlp-header", "canary-key"])).await;
    assert!(said.contains("NAME=VALUE") && !said.contains("canary-key"), "{said}");
    let said = refused(&["--otlp-sample", "0.5"]).await;
    assert!(said.contains("name the collector"), "{said}");
    assert!(!folder.path().join("gatepost-data").exists());
}
