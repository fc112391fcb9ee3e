//! Reports of senders on TLS (RFC 8460), as senders hand them in: by HTTPS and by mail.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use gatepost::app::tenancy::Claiming;
use gatepost::domain::address::Address;
use gatepost::domain::tls_report::ReportAddress;
use gatepost::rules::Rules;
use gatepost::testkit::signer::{Key, Signer};
use serde_json::{Value, json};

use crate::support::{PATIENCE, TestGateway, fixture, http, process, signer};

const GZIP: &str = "application/tlsrpt+gzip";
const JSON: &str = "application/tlsrpt+json";
const ROWS: &str = "SELECT COUNT(*) FROM tls_reports";
const TO: &str = "tls-reports@agents.example";

async fn gateway() -> TestGateway {
    TestGateway::with_settings(|settings| settings.tls_reports = Some(ReportAddress::default()))
        .await
}

/// With rules of `access.toml`.
async fn gateway_with(rules: &str) -> TestGateway {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("access.toml"), rules).unwrap();
    let rules = Rules::load(folder.path()).unwrap();
    TestGateway::with_settings(|settings| {
        settings.tls_reports = Some(ReportAddress::default());
        settings.rules.access = rules.access;
    })
    .await
}

/// The report of the fixtures, of this id and with other changes.
fn report(id: &str, change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let text = std::fs::read(fixture("tls-reports/agents.example.json")).unwrap();
    let mut report: Value = serde_json::from_slice(&text).unwrap();
    report["report-id"] = id.into();
    change(&mut report);
    report.to_string().into_bytes()
}

fn about(domain: &str) -> impl FnOnce(&mut Value) {
    let domain = domain.to_owned();
    move |report| report["policies"][0]["policy"]["policy-domain"] = domain.into()
}

fn packed(octets: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(octets).unwrap();
    encoder.finish().unwrap()
}

async fn post_as(gateway: &TestGateway, headers: &[(&str, &str)], octets: Vec<u8>) -> http::Answer {
    let url = format!("http://{}/tls-reports", gateway.http);
    let mut request = reqwest::Client::new().post(url).body(octets).timeout(PATIENCE);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    http::read("POST", request.send().await.unwrap()).await
}

async fn post(gateway: &TestGateway, media: &str, octets: Vec<u8>) -> http::Answer {
    post_as(gateway, &[("content-type", media)], octets).await
}

/// Fails unless this is the status, with these words.
fn expect(answer: &http::Answer, status: u16, words: &str) {
    let text = answer.text();
    assert!(answer.status == status && text.contains(words), "{}: {text}", answer.status);
}

/// The lines of the metrics that count something of reports.
async fn counted(gateway: &TestGateway) -> Vec<String> {
    let text = http::get(&format!("http://{}/metrics", gateway.metrics)).await.text();
    let lines = text.lines().filter(|line| line.starts_with("gatepost_tls_report"));
    lines.filter(|line| !line.ends_with(" 0")).map(str::to_owned).collect()
}

async fn shown(gateway: &TestGateway) -> Value {
    gateway.get("/domain/check?domain=agents.example").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_kept_once_packed_or_not_and_shown() {
    let gateway = gateway().await;
    let file = std::fs::read(fixture("tls-reports/agents.example.json")).unwrap();
    expect(&post(&gateway, JSON, file.clone()).await, 200, "report kept\"");
    expect(&post(&gateway, JSON, file.clone()).await, 200, "report kept before");
    expect(&post(&gateway, GZIP, packed(&file)).await, 200, "report kept before");
    let other = report("second", |report| report["policies"][0]["failure-details"] = json!([]));
    let typed = "Application/TLSRPT+gzip; charset=utf-8";
    expect(&post(&gateway, typed, packed(&other)).await, 200, "report kept\"");
    assert_eq!(gateway.count(ROWS).await, 2);
    let lines = [
        "gatepost_tls_report_sessions_total{result=\"certificate-expired\",way=\"https\"} 100",
        "gatepost_tls_report_sessions_total{result=\"other\",way=\"https\"} 303",
        "gatepost_tls_report_sessions_total{result=\"starttls-not-supported\",way=\"https\"} 200",
        "gatepost_tls_report_sessions_total{result=\"success\",way=\"https\"} 10652",
        "gatepost_tls_report_sessions_total{result=\"validation-failure\",way=\"https\"} 3",
        "gatepost_tls_reports_total{outcome=\"kept\",way=\"https\"} 2",
        "gatepost_tls_reports_total{outcome=\"repeated\",way=\"https\"} 2",
    ];
    assert_eq!(counted(&gateway).await, lines);

    let answer = shown(&gateway).await;
    let reports = answer["tlsReports"].as_array().unwrap();
    assert_eq!(reports.len(), 2, "{answer}");
    assert_eq!((&reports[0]["reportId"], &reports[0]["failures"]), (&json!("second"), &json!([])));
    let first = &reports[1];
    assert_eq!(first["organization"], "Company-X");
    assert_eq!((&first["way"], &first["signedBy"]), (&json!("https"), &Value::Null));
    assert_eq!(first["beginsAt"], "2016-04-01T00:00:00.000Z");
    assert_eq!((&first["successful"], &first["failed"]), (&json!(5326), &json!(303)));
    let expected = json!({
        "type": "starttls-not-supported", "sessions": 200, "host": "mx2.mail.agents.example",
        "reason": "",
    });
    assert_eq!(first["failures"][0], expected);
    let check = answer["checks"].as_array().unwrap().iter();
    let check = check.into_iter().find(|one| one["check"] == "tls-reports").unwrap();
    assert_eq!(check["result"], "warning");
    let detail = check["detail"].as_str().unwrap();
    for words in ["606 failed and 10652 successful", "Company-X (posted, by anybody): no reason"] {
        assert!(detail.contains(words), "{detail}");
    }
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_report_of_a_domain_of_ours_is_refused_and_leaves_nothing() {
    let gateway = gateway().await;
    let bomb = packed(&vec![b' '; 64 << 20]);
    assert!(bomb.len() < 100_000);
    expect(&post(&gateway, GZIP, bomb).await, 413, "unfolds to more than 2097152 bytes");
    let large = report("large", |report| report["padding"] = "x".repeat(262_144).into());
    expect(&post(&gateway, JSON, large).await, 413, "more than 262144 bytes");
    let foreign = report("foreign", about("other.example"));
    let words = "send the report to the address in the TXT record of _smtp._tls.other.example";
    expect(&post(&gateway, JSON, foreign).await, 404, words);
    let below = report("below", about("sub.agents.example"));
    expect(&post(&gateway, GZIP, packed(&below)).await, 404, "_smtp._tls.sub.agents.example");
    let claim = json!({ "domain": "new.example" });
    let (status, _) = gateway.request("POST", "/domain", Some(claim)).await;
    assert!((200..300).contains(&status), "{status}");
    expect(
        &post(&gateway, JSON, report("claimed", about("new.example"))).await,
        404,
        "new.example",
    );
    expect(&post(&gateway, JSON, b"{\"policies\":".to_vec()).await, 400, "no JSON: see line 1");
    expect(&post(&gateway, JSON, b"{}".to_vec()).await, 400, "RFC 8460 section 4.4");
    expect(&post(&gateway, GZIP, b"\x1f\x8b garbage".to_vec()).await, 400, "cannot be unpacked");
    expect(&post(&gateway, GZIP, Vec::new()).await, 400, "no JSON");
    let good = || report("good", |_| {});
    expect(&post(&gateway, "application/json", good()).await, 415, GZIP);
    expect(&post_as(&gateway, &[], good()).await, 415, JSON);
    let coded = [("content-type", JSON), ("content-encoding", "gzip")];
    let answer = post_as(&gateway, &coded, packed(&good())).await;
    expect(&answer, 415, "without Content-Encoding");
    let get = http::get(&format!("http://{}/tls-reports", gateway.http)).await;
    assert_eq!(get.status, 405);
    assert_eq!(gateway.count(ROWS).await, 0);
    let refused = "gatepost_tls_reports_total{outcome=\"refused\",way=\"https\"} 8";
    assert_eq!(counted(&gateway).await, [refused]);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_fills_the_store() {
    let gateway = gateway_with("[tls_reports]\nmax_per_day = 2\nmax_policies = 2\n").await;
    for id in ["a", "b"] {
        expect(&post(&gateway, JSON, report(id, |_| {})).await, 200, "report kept");
    }
    let words = "agents.example had 2 reports within 24 hours: send this one tomorrow";
    let answer = post(&gateway, JSON, report("c", |_| {})).await;
    expect(&answer, 429, words);
    assert!(answer.headers.contains_key("retry-after"));
    let many = report("d", |report| {
        let one = report["policies"][0].clone();
        report["policies"] = vec![one; 3].into();
    });
    expect(&post(&gateway, JSON, many).await, 400, "more than 2 policies");
    assert_eq!(gateway.count(ROWS).await, 2);
    gateway.finish().await;

    // Each counts, also one that is kept.
    let gateway = gateway_with("[rates]\nkeyless_per_minute = 1\n").await;
    expect(&post(&gateway, JSON, report("a", |_| {})).await, 200, "report kept");
    let words = "too many requests without a valid key came from this address";
    expect(&post(&gateway, JSON, report("b", |_| {})).await, 429, words);
    assert_eq!(gateway.count(ROWS).await, 1);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_setting_nothing_is_taken_in() {
    let gateway = TestGateway::start().await;
    expect(&post(&gateway, JSON, report("a", |_| {})).await, 404, "nothing at this path");
    let replies = gateway.send("reports@good.example", &[TO], &mail("a", |_| {})).await;
    assert!(replies.settling().starts_with("550 5.1.1"), "{replies:?}");
    let answer = shown(&gateway).await;
    let check = answer["checks"].as_array().unwrap().iter().find(|one| one["check"] == "tls-rpt");
    assert!(check.unwrap()["detail"].as_str().unwrap().contains("(--tls-reports)"));
    gateway.finish().await;
}

#[tokio::test]
async fn a_name_without_the_setting_is_told_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let said = process::failing(folder.path(), &["serve", "--tls-reports-name", "tlsrpt"]).await;
    assert!(said.contains("turn it on"), "{said}");
    let wrong = ["serve", "--tls-reports", "--tls-reports-name", "a b"];
    let said = process::failing(folder.path(), &wrong).await;
    assert!(said.contains("tls-reports-name"), "{said}");
}

/// A mail of reports@good.example as RFC 8460 §5.3 shows one, unsigned.
fn letter(media: &str, part: &[u8]) -> String {
    let text = STANDARD.encode(part);
    let lines: Vec<&str> =
        text.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!(
        "From: reports@good.example\r\n\
         To: {TO}\r\n\
         Subject: Report Domain: agents.example Submitter: good.example Report-ID: <a>\r\n\
         Date: Mon, 05 Jan 2026 10:00:00 +0000\r\n\
         Message-ID: <{:x}@good.example>\r\n\
         TLS-Report-Domain: agents.example\r\n\
         TLS-Report-Submitter: good.example\r\n\
         MIME-Version: 1.0\r\n\
         Content-Type: multipart/report; report-type=\"tlsrpt\"; boundary=\"b1\"\r\n\
         \r\n\
         --b1\r\n\
         Content-Type: text/plain; charset=\"us-ascii\"\r\n\
         \r\n\
         This is an aggregate TLS report from good.example\r\n\
         --b1\r\n\
         Content-Type: {media}\r\n\
         Content-Transfer-Encoding: base64\r\n\
         Content-Disposition: attachment; filename=\"good.example!agents.example!1!2.json.gz\"\r\n\
         \r\n\
         {}\r\n\
         --b1--\r\n",
        part.len(),
        lines.join("\r\n"),
    )
}

/// A signed mail with a report of this id.
fn mail(id: &str, change: impl FnOnce(&mut Value)) -> Vec<u8> {
    signer().sign(letter(GZIP, &packed(&report(id, change))).as_bytes()).unwrap()
}

impl Mailer<'_> {
    /// The settling reply, and the intake record that it names, as the owner of the domain sees it.
    async fn send(&self, raw: &[u8]) -> (String, Value) {
        let replies = self.0.send("reports@good.example", &[TO], raw).await;
        let reply = replies.settling().to_owned();
        let id = reply.split_once("[record ").and_then(|(_, rest)| rest.split_once(']'));
        let (id, _) = id.unwrap_or_else(|| panic!("no record: {reply}"));
        let record = self.0.get(&format!("/email/intake/{id}")).await["intake"].clone();
        (reply, record)
    }

    async fn expect(&self, raw: &[u8], reply: &str, words: &str) {
        let (said, record) = self.send(raw).await;
        assert!(said.starts_with(reply), "{said}");
        let told = record["explanation"].as_str().unwrap();
        assert!(told.contains(words), "{told}");
        assert_eq!(record["recipient"], TO);
        assert_eq!((&record["agentId"], &record["messageUuid"]), (&Value::Null, &Value::Null));
        self.expect_again(raw, &record).await;
    }

    /// The verdict is reached again from its record alone.
    async fn expect_again(&self, raw: &[u8], record: &Value) {
        let folder = self.0.folder.path();
        std::fs::write(folder.join("mail.eml"), raw).unwrap();
        std::fs::write(folder.join("record.json"), record.to_string()).unwrap();
        let arguments = ["check", "mail.eml", "--record", "record.json", "--json"];
        let output = process::gatepost(folder, &arguments).await;
        let said = String::from_utf8_lossy(&output.stdout);
        let again: Value = serde_json::from_str(&said).unwrap_or_else(|error| {
            panic!("{error}: {said}{}", String::from_utf8_lossy(&output.stderr))
        });
        assert!(output.status.success() && again["same"] == true, "{said}");
        for field in ["verdict", "reason", "explanation", "advice", "recipient"] {
            assert_eq!(again[field], record[field], "{field}");
        }
    }
}

struct Mailer<'g>(&'g TestGateway);

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_mail_is_a_report_and_no_message() {
    let gateway = gateway().await;
    let mailer = Mailer(&gateway);
    let raw = mail("a", |_| {});
    mailer.expect(&raw, "250 2.0.0", "its report is kept").await;
    mailer.expect(&raw, "250 2.0.0 accepted before", "kept before").await;
    // Keys for reports alone, which sign no other mail (RFC 8460 §3).
    let pem = std::fs::read_to_string(fixture("keys/s1._domainkey.good.example.pem")).unwrap();
    let own = Signer::new(Key::from_pem(&pem).unwrap(), "good.example", "tlsrpt");
    let plain = letter(JSON, &report("b", |_| {}));
    mailer.expect(&own.sign(plain.as_bytes()).unwrap(), "250 2.0.0", "is kept").await;
    let short = letter("application/tlsrpt", &report("c", |_| {}));
    mailer.expect(&signer().sign(short.as_bytes()).unwrap(), "250 2.0.0", "is kept").await;
    // Posted by anybody under the same names.
    expect(&post(&gateway, JSON, report("a", |_| {})).await, 200, "report kept\"");
    let answer = shown(&gateway).await;
    let reports = answer["tlsReports"].as_array().unwrap();
    let ways: Vec<_> = reports.iter().map(|one| (&one["way"], &one["signedBy"])).collect();
    let signed = (&json!("mail"), &json!("good.example"));
    assert_eq!(ways, [(&json!("https"), &Value::Null), signed, signed, signed]);
    let kept = "gatepost_tls_reports_total{outcome=\"kept\",way=\"mail\"} 3".to_owned();
    assert!(counted(&gateway).await.contains(&kept));
    for table in ["SELECT COUNT(*) FROM messages", "SELECT COUNT(*) FROM deliveries"] {
        assert_eq!(gateway.count(table).await, 0, "{table}");
    }
    let received = "SELECT COUNT(*) FROM events WHERE names LIKE '%email.received'";
    assert_eq!(gateway.count(received).await, 0);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mail_that_is_no_proven_report_is_refused_with_its_reason() {
    let gateway = gateway().await;
    let mailer = Mailer(&gateway);
    let unsigned = letter(GZIP, &packed(&report("a", |_| {})));
    mailer.expect(unsigned.as_bytes(), "550 5.7.20", "is not kept").await;
    let mut changed = mail("a", |_| {});
    let at = changed.windows(9).rposition(|part| part == b"aggregate").unwrap();
    changed[at] = b'A';
    mailer.expect(&changed, "550 5.7.20", "is not kept").await;
    let pem = std::fs::read_to_string(fixture("keys/s1._domainkey.evil.example.pem")).unwrap();
    let evil = Signer::new(Key::from_pem(&pem).unwrap(), "evil.example", "s1");
    mailer.expect(&evil.sign(unsigned.as_bytes()).unwrap(), "550 5.7.22", "is not kept").await;
    let foreign = mail("a", about("other.example"));
    mailer.expect(&foreign, "554 5.6.0", "no mail for other.example comes here").await;
    let none = signer().sign(letter("application/gzip", b"x").as_bytes()).unwrap();
    mailer.expect(&none, "554 5.6.0", "no part of type application/tlsrpt+gzip").await;
    let broken = signer().sign(letter(GZIP, b"\x1f\x8bx").as_bytes()).unwrap();
    mailer.expect(&broken, "554 5.6.0", "cannot be unpacked").await;
    let bomb = packed(&vec![b' '; 64 << 20]);
    let bomb = signer().sign(letter(GZIP, &bomb).as_bytes()).unwrap();
    mailer.expect(&bomb, "552 5.3.4", "unfolds to more than").await;
    assert_eq!(gateway.count(ROWS).await, 0);
    // As any mail it is refused before its end.
    let bare = b"From: a@good.example\nTo: x\r\n\r\nx\r\n";
    let replies = gateway.send("reports@good.example", &[TO], bare).await;
    assert!(replies.settling().starts_with("550 5.5.2"), "{replies:?}");
    gateway.counts("SELECT COUNT(*) FROM intake_records WHERE reason = 'malformed'", 4).await;
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_address_is_taken_where_no_agent_has_it() {
    let gateway = gateway().await;
    let from = "reports@good.example";
    let sent = async |to: &str| {
        let replies = gateway.send(from, &[to], &mail("a", |_| {})).await;
        replies.settling().to_owned()
    };
    assert!(sent("TLS-Reports@AGENTS.example").await.starts_with("250 "));
    assert_eq!(gateway.count(ROWS).await, 1);
    for to in ["tls-reports+a@agents.example", "tls-reports@other.example"] {
        let reply = sent(to).await;
        assert!(reply.starts_with("550 5.1.1"), "{to}: {reply}");
    }
    // It shares no transaction, in whichever order.
    let open = "open@agents.example";
    for to in [[TO, open], [open, TO]] {
        let replies = gateway.send(from, &to, &mail("b", |_| {})).await;
        assert!(replies.recipients[0].starts_with("250"), "{replies:?}");
        assert!(replies.recipients[1].starts_with("452 4.5.3"), "{replies:?}");
    }
    assert_eq!(gateway.count(ROWS).await, 2);
    // A catch-all gets what no address takes, and this one does.
    let agent = &gateway.house.agents["open"];
    let catch_all = Address::parse("all@agents.example").unwrap();
    gateway.tenancy.claim_address(agent, &catch_all, true, Claiming::Never).await.unwrap();
    assert!(sent("nobody@agents.example").await.starts_with("250 "));
    let messages = gateway.count("SELECT COUNT(*) FROM messages").await;
    assert!(sent(TO).await.starts_with("250 2.0.0 accepted before"));
    assert_eq!(gateway.count("SELECT COUNT(*) FROM messages").await, messages);
    // An Agent that has the address gets the mail.
    let address = Address::parse(TO).unwrap();
    gateway.tenancy.claim_address(agent, &address, false, Claiming::Never).await.unwrap();
    let replies = gateway.send(from, &[TO], &mail("c", |_| {})).await;
    assert!(replies.accepted(), "{replies:?}");
    assert_eq!(gateway.count("SELECT COUNT(*) FROM messages").await, messages + 1);
    assert_eq!(gateway.count(ROWS).await, 2);
    gateway.finish().await;
}
