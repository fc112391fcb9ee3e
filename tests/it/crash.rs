//! `kill -9` at any moment loses no acknowledged message, doubles none, and announces none that
//! is not stored (contract §2.2; threats §3.7 K1 to K4).

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use gatepost::store::Location;
use gatepost::testkit::scale;
use serde_json::Value;

use crate::support::audit::assert_nothing_lost;
use crate::support::mailers::{HASTE, Mailers, NO_RATES};
use crate::support::process::Server;
use crate::support::site::Site;
use crate::support::{PATIENCE, all_messages, rules};

const MESSAGES: usize = 2_000;
const SESSIONS: usize = 8;
/// The server dies whenever this many more messages have been acknowledged, with messages of the
/// other sessions at every stage of their way.
const KILL_EVERY: usize = 180;

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Folder(folder.path().join("store"));
    let site = Site::build(&location, &rules(folder.path(), &[HASTE, NO_RATES])).await;
    site.leave_store().await;
    let messages = MESSAGES * usize::try_from(scale()).unwrap();
    let mailers = Mailers::start(messages, SESSIONS);
    let start = async || {
        let server = Server::start_on(&location, folder.path(), site.dns.addr()).await;
        mailers.arrived(server.smtp);
        server
    };
    let mut server = start().await;
    let mut kills = 0;
    for goal in (KILL_EVERY..messages).step_by(KILL_EVERY) {
        mailers.reach(goal).await;
        mailers.left(server.smtp);
        server.kill().await;
        kills += 1;
        server = start().await;
    }
    assert!(kills >= 10, "killed {kills} times only");
    eprintln!("killed {kills} times");
    let in_doubt = mailers.finish().await;
    assert_nothing_lost(server.http, &site.key, &site.receiver, &in_doubt).await;
    assert_eq!(server.terminate().await, 0);
    site.finish().await;
}

/// The control: a store that lost one message does not pass.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_was_lost_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Folder(folder.path().join("store"));
    let site = Site::build(&location, &rules(folder.path(), &[HASTE, NO_RATES])).await;
    site.leave_store().await;
    let mailers = Mailers::start(40, SESSIONS);
    let server = Server::start_on(&location, folder.path(), site.dns.addr()).await;
    mailers.arrived(server.smtp);
    let in_doubt = mailers.finish().await;
    assert_nothing_lost(server.http, &site.key, &site.receiver, &in_doubt).await;
    let messages = all_messages(server.http, &site.key).await;
    let (uuid, key): (&Value, _) = (&messages[7]["uuid"], &site.key);
    let path = format!("/api/v2/message/{}?token={key}", uuid.as_str().unwrap());
    let lost = reqwest::Client::new().delete(format!("http://{}{path}", server.http));
    assert_eq!(lost.timeout(PATIENCE).send().await.unwrap().status(), 200);
    let noticed =
        AssertUnwindSafe(assert_nothing_lost(server.http, &site.key, &site.receiver, &in_doubt));
    let noticed = noticed.catch_unwind().await.unwrap_err();
    let said = noticed.downcast_ref::<String>().unwrap();
    assert!(said.contains("was acknowledged"), "{said}");
    assert_eq!(server.terminate().await, 0);
    site.finish().await;
}
