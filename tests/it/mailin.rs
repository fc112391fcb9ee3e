//! mailin-embedded as the independent reference: every mail fixture through both front ends, each
//! before a gateway of the same kind. The verdicts are the same, or the difference is listed in
//! `fixtures/smtp/mailin-differences.toml`.

use std::net::SocketAddr;

use gatepost::run::FrontEnd;
use gatepost::shutdown::Shutdown;
use gatepost::testkit::case::{Case, Group};
use gatepost::testkit::smtp_client::{Transaction, deliver};
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::support::process::{GATEPOST, Server, gatepost};
use crate::support::{PATIENCE, TestGateway, fixture, http, local_dns, signed};

/// Sessions at the same time, over both together.
const CONCURRENCY: usize = 8;

#[derive(Deserialize)]
struct Differences {
    #[serde(default)]
    mail: Vec<Difference>,
}

#[derive(Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(deny_unknown_fields)]
struct Difference {
    fixture: String,
    ours: String,
    mailin: String,
    #[serde(default)]
    why: String,
}

#[tokio::test(flavor = "multi_thread")]
async fn both_front_ends_come_to_the_same_verdicts() {
    let mut found = Vec::new();
    for group in Case::groups().unwrap() {
        found.extend(differences(group).await);
    }
    let text = std::fs::read_to_string(fixture("smtp/mailin-differences.toml")).unwrap();
    let mut listed = toml::from_str::<Differences>(&text).unwrap().mail;
    assert!(listed.iter().all(|one| !one.why.is_empty()), "a difference has no reason");
    listed.iter_mut().for_each(|one| one.why.clear());
    listed.sort();
    found.sort();
    assert_eq!(found, listed, "found, and listed in mailin-differences.toml");
}

/// Where the front ends differ about those of one gateway.
async fn differences(Group { rules, cases }: Group) -> Vec<Difference> {
    let rules: Vec<(&str, &str)> =
        rules.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let ours = TestGateway::with_front_end(FrontEnd::Ours, &rules).await;
    let mailin = TestGateway::with_front_end(FrontEnd::Mailin, &rules).await;
    let (wanted, mut waiting) = (cases.len(), cases.into_iter());
    let (mut sending, mut replies) = (JoinSet::new(), Vec::new());
    loop {
        while sending.len() < CONCURRENCY {
            let Some(case) = waiting.next() else { break };
            sending.spawn(send(ours.smtp, mailin.smtp, case));
        }
        let Some(done) = sending.join_next().await else { break };
        replies.push(done.unwrap());
    }
    assert_eq!(replies.len(), wanted);
    let mut found = Vec::new();
    for (fixture, by_ours, by_mailin) in replies {
        let (ours, mailin) = (verdict(&ours, &by_ours).await, verdict(&mailin, &by_mailin).await);
        if ours != mailin {
            found.push(Difference { fixture, ours, mailin, why: String::new() });
        }
    }
    ours.finish().await;
    mailin.finish().await;
    found
}

async fn send(ours: SocketAddr, mailin: SocketAddr, case: Case) -> (String, String, String) {
    let raw = case.raw();
    let script = &case.script;
    let transaction =
        Transaction { helo: &script.helo, from: &script.from, to: &script.to, raw: &raw };
    let settling = async |server| {
        deliver(server, &transaction).await.map_or_else(
            |error| format!("the connection failed: {error}"),
            |replies| replies.settling().to_owned(),
        )
    };
    let (by_ours, by_mailin) = tokio::join!(settling(ours), settling(mailin));
    (case.name, by_ours, by_mailin)
}

/// The codes of the reply and the reason in the record that it names; without a record, all that
/// it says.
async fn verdict(gateway: &TestGateway, reply: &str) -> String {
    let named = reply.split_once("[record ").and_then(|(_, rest)| rest.split_once(']'));
    let Some((id, _)) = named else { return reply.to_owned() };
    let key = gateway.tenancy.create_key(gateway.house.partner.id, "records").await.unwrap();
    let url = format!("http://{}/api/v2/email/intake/{id}?token={}", gateway.http, key.token);
    let answer: Value = serde_json::from_slice(&http::get(&url).await.body).unwrap();
    gateway.tenancy.revoke_key(key.key.id).await.unwrap();
    let record = &answer["intake"];
    let reason = record["reason"].as_str().unwrap_or("none");
    let codes = reply.get(..3).unwrap_or_default();
    let enhanced = reply.get(4..).and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    format!("{codes} {enhanced} {} {reason}", record["verdict"].as_str().unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_process_ends_although_mailin_does_not() {
    let helpers = Shutdown::default();
    let dns = local_dns(&helpers).await;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("store");
    let made = gatepost(folder.path(), &["init", "--data", data.to_str().unwrap()]).await;
    assert!(made.status.success());
    let command = ["sh", "-c", "exec \"$0\" \"$@\" --front-end mailin", GATEPOST];
    let server = Server::start_by(&command, &data, dns.addr()).await;
    let _idle = TcpStream::connect(server.smtp).await.unwrap();
    let to = ["nobody@agents.example".to_owned()];
    let raw = signed("nobody is here");
    let transaction = Transaction { helo: "c", from: "a@good.example", to: &to, raw: &raw };
    let replies = deliver(server.smtp, &transaction).await.unwrap();
    assert!(replies.settling().starts_with("550 5.1.1"), "{replies:?}");
    // In words that only mailin has.
    let mut peer = BufReader::new(TcpStream::connect(server.smtp).await.unwrap());
    peer.get_mut().write_all(b"NONSENSE\r\n").await.unwrap();
    let mut said = String::new();
    for _ in 0..2 {
        timeout(PATIENCE, peer.read_line(&mut said)).await.unwrap().unwrap();
    }
    assert!(said.ends_with("500 Syntax error\r\n"), "{said}");
    assert_eq!(server.terminate().await, 0);
    assert!(helpers.finish(PATIENCE).await);
}
