//! `GET /domain/check`: each row right and wrong, over a DNS that the tests change.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

use crate::domain::domain_name::DomainName;
use crate::domain::tls_report::{
    AppliedPolicy, FailureType, PolicyResult, SessionFailure, TlsReport, TlsReportOutcome,
};
use crate::http::tests::{DOMAIN_CHECK, House};
use crate::shutdown::Shutdown;
use crate::testkit::dns::{DnsServer, Zone};

const DOMAIN: &str = "new.example";

struct Checked {
    house: House,
    dns: DnsServer,
}

impl Checked {
    async fn new() -> Self {
        let zone = "new.example\tMX\tNOERROR\t10 gw.example\n\
                    gw.example\tA\tNOERROR\t8.8.4.4\n\
                    4.4.8.8.in-addr.arpa\tPTR\tNOERROR\tgw.example\n";
        let zone = Zone::parse(zone).unwrap();
        let dns = DnsServer::start(zone, Shutdown::default()).await.unwrap();
        let house = House::asking(dns.addr(), "").await;
        let org = house.id("org1");
        house.tenancy.add_domain(&DomainName::parse(DOMAIN).unwrap(), org).await.unwrap();
        Self { house, dns }
    }

    /// Replaces all records of this name and type; none if `values` is empty.
    fn publish(&self, name: &str, kind: &str, values: &[&str]) {
        self.dns.change(|zone| {
            zone.remove(name, kind).unwrap();
            for value in values {
                zone.insert(name, kind, "NOERROR", value).unwrap();
            }
        });
    }

    async fn checks(&self) -> Vec<Value> {
        let path = format!("/domain/check?domain={DOMAIN}");
        let answer = self.house.get("org1", &path).await.success(200);
        assert_eq!(answer["domain"], DOMAIN);
        answer["checks"].as_array().unwrap().clone()
    }

    /// The check of this kind: its result, and all that it says.
    async fn row(&self, kind: &str, about: &str) -> (String, String) {
        let checks = self.checks().await;
        let row = checks.iter().find(|row| row["check"] == kind && row["about"] == about);
        let row = row.unwrap_or_else(|| panic!("no {kind} of {about}: {checks:?}"));
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        (text("result"), [text("detail"), text("advice"), text("line")].join("; "))
    }

    async fn expect(&self, (kind, about): (&str, &str), result: &str, words: &[&str]) {
        let (found, said) = self.row(kind, about).await;
        assert_eq!(found, result, "{kind} of {about}: {said}");
        for word in words {
            assert!(said.contains(word), "{kind} of {about}: {said} lacks {word}");
        }
    }
}

#[tokio::test]
async fn a_domain_that_leads_here_is_right_in_each_row() {
    let checked = Checked::new().await;
    let all = checked.checks().await;
    let kinds: Vec<_> = all.iter().map(|row| row["check"].as_str().unwrap()).collect();
    let own = ["mx", "address", "ptr", "certificate", "tlsa", "mta-sts"];
    assert_eq!(kinds, [&own[..], &["tls-rpt", "tls-reports", "port"]].concat());
    checked.expect(("mx", DOMAIN), "ok", &["mail goes to gw.example (10)"]).await;
    checked.expect(("address", "gw.example"), "ok", &["it is 8.8.4.4"]).await;
    checked.expect(("ptr", "8.8.4.4"), "ok", &["8.8.4.4 is gw.example"]).await;
    checked.expect(("certificate", "gw.example"), "ok", &["it is for this host, until"]).await;
    let words = ["no policy is announced", "_mta-sts.new.example. TXT \"v=STSv1; id=1\""];
    checked.expect(("mta-sts", DOMAIN), "skipped", &words).await;
    checked.expect(("port", "gw.example"), "skipped", &["2525", "port 25"]).await;

    let (_, tlsa) = checked.row("tlsa", "gw.example").await;
    let record = tlsa.split_once("_25._tcp.gw.example. TLSA ").unwrap().1;
    assert!(record.starts_with("3 1 1 ") && record.len() == 6 + 64, "{record}");
    checked.publish("_25._tcp.gw.example", "TLSA", &[record]);
    let words = ["the key in use", "DNSSEC was not checked"];
    checked.expect(("tlsa", "gw.example"), "ok", &words).await;
    checked.publish("_mta-sts.new.example", "TXT", &["v=STSv1; id=20261127;"]);
    let words = ["has no address", "mta-sts.new.example. CNAME gw.example."];
    checked.expect(("mta-sts", DOMAIN), "warning", &words).await;
    checked.publish("mta-sts.new.example", "A", &["8.8.4.4"]);
    checked.expect(("mta-sts", DOMAIN), "ok", &["policy 20261127", "was not fetched"]).await;
    checked.publish(DOMAIN, "MX", &["10 gw.example", "20 gw2.example"]);
    let words =
        ["does not name gw2.example of the MX record", "do not deliver", "ask the operator"];
    checked.expect(("mta-sts", DOMAIN), "failure", &words).await;
    checked.publish(DOMAIN, "MX", &["0 ."]);
    checked.expect(("mta-sts", DOMAIN), "ok", &["policy 20261127"]).await;
    checked.publish(DOMAIN, "MX", &[]);
    checked.publish(DOMAIN, "A", &["8.8.4.4"]);
    checked.expect(("mta-sts", DOMAIN), "failure", &["does not name new.example"]).await;
}

#[tokio::test]
async fn what_is_wrong_with_the_mx_record_is_said_with_the_line_to_paste() {
    let checked = Checked::new().await;
    let line = "new.example. MX 10 gw.example.";
    checked.publish(DOMAIN, "MX", &[]);
    checked.expect(("mx", DOMAIN), "failure", &["there is no MX record", line]).await;
    checked.publish(DOMAIN, "A", &["8.8.4.4"]);
    checked.expect(("mx", DOMAIN), "warning", &["the address of the domain itself", line]).await;
    checked.publish(DOMAIN, "MX", &["0 ."]);
    checked.expect(("mx", DOMAIN), "failure", &["takes no mail", line]).await;
    checked.publish(DOMAIN, "MX", &["10 mail.other.example"]);
    let words = ["mail goes to mail.other.example (10)", "this server is gw.example", line];
    checked.expect(("mx", DOMAIN), "warning", &words).await;
    checked.dns.change(|zone| zone.insert(DOMAIN, "MX", "SERVFAIL", "")).unwrap();
    checked.expect(("mx", DOMAIN), "failure", &["cannot be looked up", "--dns"]).await;
}

#[tokio::test]
async fn what_is_wrong_with_a_host_is_said_with_the_line_to_paste() {
    let checked = Checked::new().await;
    checked.publish("gw.example", "A", &[]);
    let words = ["it has no address", "gw.example. A "];
    checked.expect(("address", "gw.example"), "failure", &words).await;
    // A customer's name leads into the operator's network: it is not shown where.
    checked.publish("gw.example", "A", &["192.168.0.7"]);
    checked.expect(("address", "gw.example"), "warning", &["it has no public address"]).await;
    let all = format!("{:?}", checked.checks().await);
    assert!(!all.contains("192.168"), "{all}");
    checked.publish("gw.example", "A", &["192.168.0.7", "8.8.4.4"]);
    checked.expect(("address", "gw.example"), "ok", &["it is 8.8.4.4"]).await;
    let all = format!("{:?}", checked.checks().await);
    assert!(!all.contains("192.168"), "{all}");
    checked.publish("gw.example", "A", &["192.168.0.7"]);
    assert!(checked.checks().await.iter().all(|row| row["check"] != "ptr"));
    checked.publish("gw.example", "A", &["8.8.4.5", "8.8.4.6"]);
    checked.publish("6.4.8.8.in-addr.arpa", "PTR", &["elsewhere.example"]);
    checked.expect(("ptr", "8.8.4.5"), "warning", &["has no name", "PTR record"]).await;
    checked.expect(("ptr", "8.8.4.6"), "warning", &["leads back"]).await;
    // As it is published now.
    checked.publish("5.4.8.8.in-addr.arpa", "PTR", &["gw.example"]);
    checked.expect(("ptr", "8.8.4.5"), "ok", &["8.8.4.5 is gw.example"]).await;
    checked.publish("5.4.8.8.in-addr.arpa", "PTR", &[]);
    checked.expect(("ptr", "8.8.4.5"), "warning", &["has no name", "PTR record"]).await;
    checked.publish("gw.example", "A", &["8.8.4.7"]);
    checked.dns.change(|zone| zone.insert("7.4.8.8.in-addr.arpa", "PTR", "SERVFAIL", "")).unwrap();
    checked.expect(("ptr", "8.8.4.7"), "warning", &["could not be looked up"]).await;

    let other = format!("3 1 1 {}", "ab".repeat(32));
    checked.publish("_25._tcp.gw.example", "TLSA", &[&other]);
    let words = ["another key", "_25._tcp.gw.example. TLSA 3 1 1 "];
    checked.expect(("tlsa", "gw.example"), "failure", &words).await;
    checked.publish("_25._tcp.gw.example", "TLSA", &[&other.replace("3 1 1", "2 1 1")]);
    checked.expect(("tlsa", "gw.example"), "warning", &["not compared"]).await;
    checked.publish("_25._tcp.gw.example", "TLSA", &[&other.replace("3 1 1", "1 1 1")]);
    checked.expect(("tlsa", "gw.example"), "warning", &["senders of mail can use"]).await;
    checked.publish("_25._tcp.gw.example", "TLSA", &[&other, &other.replace("3 1 1", "1 1 1")]);
    checked.expect(("tlsa", "gw.example"), "failure", &["another key"]).await;
}

#[tokio::test]
async fn a_policy_makes_a_wrong_certificate_a_failure() {
    let checked = Checked::new().await;
    checked.publish(DOMAIN, "MX", &["10 other.example", "20 third.example"]);
    let words = ["is not for other.example", "--smtp-tls-cert"];
    checked.expect(("certificate", "other.example"), "warning", &words).await;
    checked.publish("_mta-sts.new.example", "TXT", &["v=STSv1; id=1"]);
    checked.publish("third.example", "A", &["8.8.4.4"]);
    // The policy of another server.
    checked.publish("mta-sts.new.example", "A", &["9.9.9.9"]);
    checked.expect(("certificate", "third.example"), "warning", &["not for third.example"]).await;
    let words = ["does not name other.example", "if another server serves https://mta-sts.new"];
    checked.expect(("mta-sts", DOMAIN), "warning", &words).await;
    checked.publish("mta-sts.new.example", "A", &["8.8.4.4"]);
    let words = ["is not for third.example", "senders verify it (MTA-STS)"];
    checked.expect(("certificate", "third.example"), "failure", &words).await;
    // Nobody knows where this server is, or only that it is in a network of the operator's.
    for (kind, value) in [("SERVFAIL", ""), ("NOERROR", "10.0.0.9")] {
        checked.publish("gw.example", "A", &[]);
        checked.dns.change(|zone| zone.insert("gw.example", "A", kind, value)).unwrap();
        checked.publish("third.example", "A", &["10.0.0.9"]);
        checked.publish("mta-sts.new.example", "A", &["10.0.0.9"]);
        let words = ["not for third.example", "if the policy of MTA-STS enforces that here"];
        checked.expect(("certificate", "third.example"), "warning", &words).await;
    }
    checked.publish("gw.example", "A", &["8.8.4.4"]);
    checked.publish("mta-sts.new.example", "A", &["8.8.4.4"]);
    // Another server, which may hand mail on to this one.
    checked.publish("other.example", "A", &["9.9.9.9"]);
    checked.expect(("certificate", "other.example"), "warning", &["not for other.example"]).await;
    let other = format!("3 1 1 {}", "ab".repeat(32));
    checked.publish("_25._tcp.other.example", "TLSA", &[&other]);
    checked.expect(("tlsa", "other.example"), "warning", &["right as it is"]).await;
    checked.publish("_mta-sts.new.example", "TXT", &["v=STSv1; id=1", "v=STSv1; id=2"]);
    checked.expect(("mta-sts", DOMAIN), "warning", &["several records"]).await;
    checked.publish("_mta-sts.new.example", "TXT", &["v=STSv1;"]);
    checked.expect(("mta-sts", DOMAIN), "warning", &["has no id"]).await;
    // Senders that verify it trust the authority, whom nobody knows here.
    checked.publish("_mta-sts.new.example", "TXT", &["v=STSv1; id=1"]);
    checked.publish(DOMAIN, "MX", &["10 gw.example"]);
    let words = ["it is self-signed, and senders verify it (MTA-STS)", "--acme-directory"];
    checked.expect(("certificate", "gw.example"), "failure", &words).await;
    // Another name of this server has a certificate of its own.
    checked.publish("gw2.example", "A", &["8.8.4.4"]);
    checked.publish(DOMAIN, "MX", &["10 gw2.example"]);
    let words = ["it is self-signed, and senders verify it (MTA-STS)"];
    checked.expect(("certificate", "gw2.example"), "failure", &words).await;
    checked.publish("_mta-sts.new.example", "TXT", &[]);
    checked.expect(("certificate", "gw2.example"), "ok", &["it is for this host"]).await;
    // Hosts of others have certificates of their own.
    checked.publish(DOMAIN, "MX", &["10 gw.example", "20 third.example"]);
    let about: Vec<_> = checked.checks().await;
    let about = about.iter().filter(|row| row["check"] == "certificate");
    assert_eq!(about.map(|row| row["about"].clone()).collect::<Vec<_>>(), ["gw.example"]);
}

#[tokio::test]
async fn a_domain_is_checked_for_those_whose_it_is() {
    let checked = Checked::new().await;
    let house = &checked.house;
    let status = async |caller: &str, path: &str| house.get(caller, path).await.status;
    let of = |domain: &str| format!("/domain/check?domain={domain}");
    assert_eq!(status("org1", &of(DOMAIN)).await, 200);
    for (caller, domain) in [
        ("org2", DOMAIN),
        ("agent1", DOMAIN),
        ("org1", "nobody.example"),
        ("org1", "partner.example"),
    ] {
        assert_eq!(status(caller, &of(domain)).await, 404, "{caller} {domain}");
    }
    // The domain of an address of the Agent, which an account above has.
    assert_eq!(status("agent1", &of("partner.example")).await, 200);
    let claim = json!({ "domain": "claimed.example" });
    house.call("org2", "POST", "/domain", Some(&claim)).await.success(201);
    assert_eq!(status("org2", &of("claimed.example")).await, 200);
    assert_eq!(status("org1", &of("not..a.domain")).await, 400);
}

/// The look-up of a name follows that of its address; both are silent in part.
#[tokio::test]
async fn all_look_ups_of_a_domain_end_at_one_time() {
    let checked = Checked::new().await;
    checked.dns.change(|zone| zone.insert("gw.example", "AAAA", "TIMEOUT", "")).unwrap();
    checked.dns.change(|zone| zone.insert("4.4.8.8.in-addr.arpa", "PTR", "TIMEOUT", "")).unwrap();
    let start = Instant::now();
    let words = ["could not be looked up in time"];
    checked.expect(("ptr", "8.8.4.4"), "warning", &words).await;
    assert!(start.elapsed() < 2 * DOMAIN_CHECK, "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_key_checks_one_domain_at_a_time() {
    let checked = Checked::new().await;
    let http = Arc::clone(&checked.house.http);
    checked.dns.change(|zone| zone.insert(DOMAIN, "MX", "TIMEOUT", "")).unwrap();
    let slow = checked.checks();
    tokio::pin!(slow);
    let busy = async {
        while http.domain_checks.places.available_permits() == http.rules.domains.max_checks {
            tokio::task::yield_now().await;
        }
        checked.house.get("org1", &format!("/domain/check?domain={DOMAIN}")).await
    };
    tokio::select! {
        _ = &mut slow => panic!("it did not wait"),
        second = busy => {
            assert_eq!(second.status, 429);
            assert!(second.text().contains("another check of a domain"), "{}", second.text());
        }
    }
    assert!(slow.await[0]["detail"].as_str().unwrap().contains("cannot be looked up"));
    assert_eq!(http.domain_checks.places.available_permits(), http.rules.domains.max_checks);
}

#[tokio::test]
async fn the_record_for_reports_is_told_with_the_line_to_paste() {
    let checked = Checked::new().await;
    let (row, name) = (("tls-rpt", DOMAIN), "_smtp._tls.new.example");
    let line = "_smtp._tls.new.example. TXT \"v=TLSRPTv1; rua=mailto:tls-reports@new.example\"";
    checked.expect(row, "warning", &["there is no record", line]).await;
    for here in [
        "v=TLSRPTv1; rua=mailto:x@y.example, mailto:TLS-reports@new.example",
        "v=TLSRPTv1;rua=https://gw.example/tls-reports",
    ] {
        checked.publish(name, "TXT", &["something", here]);
        checked.expect(row, "ok", &["senders report to"]).await;
    }
    for elsewhere in ["v=TLSRPTv1; rua=mailto:x@new.example", "v=TLSRPTv1; rua=https://a.example/b"]
    {
        checked.publish(name, "TXT", &[elsewhere]);
        checked.expect(row, "warning", &["to somebody else", line]).await;
    }
    let one = "v=TLSRPTv1; rua=mailto:tls-reports@new.example";
    checked.publish(name, "TXT", &[one, "v=TLSRPTv1; rua=mailto:x@y.example"]);
    checked.expect(row, "warning", &["several records", line]).await;
    checked.dns.change(|zone| {
        zone.remove(name, "TXT").unwrap();
        zone.insert(name, "TXT", "SERVFAIL", "").unwrap();
    });
    checked.expect(row, "warning", &["cannot be looked up"]).await;
}

#[tokio::test]
async fn what_senders_claim_is_summed_up() {
    let checked = Checked::new().await;
    let row = ("tls-reports", DOMAIN);
    checked.expect(row, "skipped", &["no report came in 7 days"]).await;
    let keep = async |id: &str, by: Option<&str>, failures: Vec<SessionFailure>| {
        let failed = failures.iter().map(|one| one.sessions).sum();
        let (domain, policy) = (DomainName::parse(DOMAIN).unwrap(), AppliedPolicy::Sts);
        let policies = vec![PolicyResult { domain, policy, successful: 5, failed, failures }];
        let now = checked.house.mint.clock().now();
        let (submitter, report_id) = ("Company-X".to_owned(), id.to_owned());
        let report = TlsReport { submitter, report_id, begin: now, end: now, policies };
        let by = by.map(|domain| DomainName::parse(domain).unwrap());
        let kept = checked.house.store.keep_tls_report(&report, by.as_ref(), 99, now).await;
        assert_eq!(kept.unwrap(), TlsReportOutcome::Kept);
    };
    keep("a", None, Vec::new()).await;
    checked.expect(row, "ok", &["5 sessions, and no failure (reports: 1)"]).await;
    let failure = |kind, sessions, host: &str, reason: &str| {
        let (host, reason) = (host.to_owned(), reason.to_owned());
        SessionFailure { kind, sessions, host, reason }
    };
    let of_policy = failure(FailureType::StsPolicyFetchError, 7, "", "timeout");
    keep("b", None, vec![of_policy]).await;
    let words = [
        "7 failed and 10 successful sessions (reports: 2)",
        "Company-X (posted, by anybody)",
        "sts-policy-fetch-error: timeout",
        "mta-sts.txt",
    ];
    checked.expect(row, "warning", &words).await;
    let of_host = failure(FailureType::CertificateExpired, 9, "mx.new.example", "");
    keep("c", Some("good.example"), vec![of_host]).await;
    let words =
        ["(signed by good.example): certificate-expired at mx.new.example", "public authority"];
    checked.expect(row, "warning", &words).await;
}
