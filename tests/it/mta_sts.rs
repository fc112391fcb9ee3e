//! The policy of MTA-STS as a sender fetches it (RFC 8461 §3.3). `acme.rs` fetches it over TLS, by a
//! certificate for its host.

use gatepost::domain::mta_sts::{MtaSts, MtaStsMode, MxPattern};

use crate::support::{PATIENCE, TestGateway, http, process};

const TESTING: &str =
    "version: STSv1\r\nmode: testing\r\nmx: *.agents.example\r\nmax_age: 86400\r\n";

async fn gateway(mode: Option<MtaStsMode>) -> TestGateway {
    TestGateway::with_settings(|settings| {
        let mx = vec![MxPattern::parse("*.agents.example").unwrap()];
        settings.mta_sts = mode.map(|mode| MtaSts { mode, mx, max_age: 86_400 });
    })
    .await
}

/// The answer to a client that names this host.
async fn fetch(gateway: &TestGateway, host: &str) -> http::Answer {
    let url = format!("http://{}/.well-known/mta-sts.txt", gateway.http);
    let request = reqwest::Client::new().get(url).header("host", host).timeout(PATIENCE);
    http::read("GET", request.send().await.unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_is_served_for_domains_of_accounts_alone() {
    let gateway = gateway(Some(MtaStsMode::Testing)).await;
    for host in ["mta-sts.agents.example", "MTA-STS.agents.example:443"] {
        let answer = fetch(&gateway, host).await;
        assert_eq!(answer.status, 200, "{host}");
        assert!(answer.headers["content-type"].to_str().unwrap().starts_with("text/plain"));
        assert_eq!(answer.text(), TESTING);
    }
    for host in ["agents.example", "mta-sts.other.example", "mta-sts.sub.agents.example", "x"] {
        assert_eq!(fetch(&gateway, host).await.status, 404, "{host}");
    }
    // From its first mail on: a domain that is claimed and not proven has none.
    let claim = serde_json::json!({"domain": "new.example"});
    let (status, _) = gateway.request("POST", "/domain", Some(claim)).await;
    assert!((200..300).contains(&status), "{status}");
    assert_eq!(fetch(&gateway, "mta-sts.new.example").await.status, 404);
    let account = gateway.house.organization.id;
    let domain = gatepost::domain::domain_name::DomainName::parse("new.example").unwrap();
    gateway.tenancy.add_domain(&domain, account).await.unwrap();
    assert_eq!(fetch(&gateway, "mta-sts.new.example").await.text(), TESTING);
    gateway.finish().await;
}

/// Its certificate is self-signed. `acme.rs` enforces with another one.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_gateway_cannot_meet_is_not_enforced() {
    let gateway = gateway(Some(MtaStsMode::Enforce)).await;
    assert_eq!(fetch(&gateway, "mta-sts.agents.example").await.text(), TESTING);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_mode_there_is_no_policy() {
    let gateway = gateway(None).await;
    assert_eq!(fetch(&gateway, "mta-sts.agents.example").await.status, 404);
    gateway.finish().await;
}

#[tokio::test]
async fn what_makes_no_policy_is_said_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let said = process::failing(folder.path(), &["serve", "--mta-sts-mx", "mx.example"]).await;
    assert!(said.contains("give the mode"), "{said}");
    let wrong = ["serve", "--mta-sts", "enforce", "--mta-sts-mx", "mx example"];
    let said = process::failing(folder.path(), &wrong).await;
    assert!(said.contains("mta-sts-mx") && said.contains("*.example.com"), "{said}");
}
