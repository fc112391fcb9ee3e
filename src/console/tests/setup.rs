//! The page Setup: what is missing until the first message comes in.

use super::Browser;
use crate::domain::domain_name::DomainName;
use crate::domain::tls_report::{
    AppliedPolicy, FailureType, PolicyResult, SessionFailure, TlsReport, TlsReportOutcome,
};
use crate::http::tests::House;
use crate::shutdown::Shutdown;
use crate::testkit::dns::{DnsServer, Zone};

#[tokio::test]
async fn setup_shows_the_dns_of_the_address_as_it_is() {
    let zone = Zone::parse("gw.example\tA\tNOERROR\t8.8.4.4\n").unwrap();
    let dns = DnsServer::start(zone, Shutdown::default()).await.unwrap();
    let house = House::asking(dns.addr(), "").await;
    let browser = Browser::of(&house, "agent1").await;
    let path = format!("/console/{}/setup", house.id("agent1"));
    let page = browser.get(&path).await.text();
    for words in [
        "agent1@partner.example",
        "The MX record of partner.example",
        "There is no MX record: nobody can send mail here",
        "partner.example. MX 10 gw.example.",
        "is wrong",
        "The server takes mail in on port 2525",
        "gatepost doctor --send-test agent1@partner.example",
        "Nobody is on the list",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    dns.change(|zone| zone.insert("partner.example", "MX", "NOERROR", "10 gw.example")).unwrap();
    let page = browser.get(&path).await.text();
    for words in [
        "Mail goes to gw.example (10)",
        "It is 8.8.4.4",
        "The certificate for gw.example",
        "The name of 8.8.4.4 (PTR)",
        "_25._tcp.gw.example. TLSA 3 1 1 ",
        "TLS-RPT of partner.example",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert!(!page.contains("TLS reports on"), "{page}");
}

#[tokio::test]
async fn setup_shows_what_senders_report_on_tls_as_claims() {
    let dns = DnsServer::start(Zone::parse("").unwrap(), Shutdown::default()).await.unwrap();
    let house = House::asking(dns.addr(), "").await;
    let browser = Browser::of(&house, "agent1").await;
    let failure = SessionFailure {
        kind: FailureType::CertificateExpired,
        sessions: 100,
        host: "mx1.partner.example".into(),
        reason: "<b>late</b>".into(),
    };
    let now = house.http.mint.clock().now();
    let report = TlsReport {
        submitter: "Company <X>".into(),
        report_id: "a".into(),
        begin: now,
        end: now,
        policies: vec![PolicyResult {
            domain: DomainName::parse("partner.example").unwrap(),
            policy: AppliedPolicy::Sts,
            successful: 5_326,
            failed: 303,
            failures: vec![failure],
        }],
    };
    let kept = house.store.keep_tls_report(&report, None, 9, now).await.unwrap();
    assert_eq!(kept, TlsReportOutcome::Kept);
    let page = browser.get(&format!("/console/{}/setup", house.id("agent1"))).await.text();
    for words in [
        "TLS reports on partner.example",
        "claims of whoever sent them",
        "Company &#60;X&#62;",
        "posted, by anybody",
        "5,326",
        "certificate-expired (100) at mx1.partner.example: &#60;b&#62;late",
        "303 failed and 5326 successful sessions",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
}
