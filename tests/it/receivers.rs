//! Receivers that mean ill (`fixtures/receivers.toml`, threats H4): each attempt ends in its time,
//! in bounded memory and with a plain reason, and those who mean well get theirs.

use gatepost::store::Location;
use gatepost::testkit::smtp_client::{Transaction, deliver};

use crate::support::hostile::{Case, Hostile, cases, octets};
use crate::support::process::Server;
use crate::support::site::Site;
use crate::support::{PATIENCE, attempts, rules, signed};

/// One attempt, and time enough for what ends by itself on a machine that is busy.
const SHORT: (&str, &str) = (
    "webhooks.toml",
    "[schedule]\nwait_seconds = [0]\n[attempt]\ntimeout_seconds = 15\nconnect_timeout_seconds = 10\n",
);
/// Most bytes of memory for all of them together; some of their responses are endless.
const MOST: u64 = 64 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn every_hostile_receiver_is_cut_and_said_to_be_so() {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules(folder.path(), &[SHORT]);
    let location = Location::Folder(folder.path().join("store"));
    let site = Site::build(&location, &rules).await;
    let cases = cases();
    let mut hostile = Vec::new();
    for case in &cases {
        let receiver = Hostile::start(case).await;
        site.hook(&case.name, &receiver.url).await;
        hostile.push(receiver);
    }
    site.leave_store().await;
    let server = Server::start_on(&location, folder.path(), site.dns.addr()).await;
    let before = server.peak();
    let to = ["support@agents.example".to_owned()];
    let raw = signed("for all of them");
    let transaction =
        Transaction { helo: "client.example", from: "alice@good.example", to: &to, raw: &raw };
    assert!(deliver(server.smtp, &transaction).await.unwrap().accepted());

    let received = site.receiver.wait_for(1, PATIENCE).await.unwrap();
    assert!(received[0].verified);
    let ended = attempts::ended(&folder.path().join("store"), cases.len() + 1).await;
    for case in &cases {
        let mut own = ended.iter().filter(|one| one.label == case.name);
        let one = own.next().unwrap_or_else(|| panic!("{}: no attempt", case.name));
        assert!(own.next().is_none(), "{}: tried twice", case.name);
        check(case, one);
    }
    // Nothing of it is held when the attempts are over.
    for (receiver, case) in hostile.into_iter().zip(&cases) {
        assert_eq!(receiver.left().await, 1, "{}", case.name);
    }
    let cost = server.peak().saturating_sub(before);
    assert!(cost < MOST, "{cost} octets");
    assert_eq!(server.terminate().await, 0);
    site.finish().await;
}

fn check(case: &Case, one: &attempts::Ended) {
    let name = &case.name;
    assert_eq!((one.status, one.error.as_ref()), (case.status, case.error.as_ref()), "{name}");
    let delivered = one.status.is_some_and(|status| (200..300).contains(&status));
    assert_eq!(one.state, if delivered { "delivered" } else { "exhausted" }, "{name}");
    let kept = octets(case.kept.as_deref().unwrap_or_default());
    assert!(one.response.starts_with(&kept), "{name}: {:?}", one.response);
    assert!(one.response.len() <= 2048, "{name}");
}
