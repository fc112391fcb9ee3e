//! `kill -9` at any moment loses no acknowledged message, doubles none, and announces none that
//! is not stored (contract §2.2; threats §3.7 K1 to K4).

use gatepost::store::Location;

use crate::support::audit::assert_nothing_lost;
use crate::support::mailers::{HASTE, Mailers, NO_RATES};
use crate::support::process::Server;
use crate::support::rules;
use crate::support::site::Site;

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
    let mailers = Mailers::start(MESSAGES, SESSIONS);
    let start = async || {
        let server = Server::start_on(&location, folder.path(), site.dns.addr()).await;
        mailers.arrived(server.smtp);
        server
    };
    let mut server = start().await;
    let mut kills = 0;
    for goal in (KILL_EVERY..MESSAGES).step_by(KILL_EVERY) {
        mailers.reach(goal).await;
        mailers.left(server.smtp);
        server.kill().await;
        kills += 1;
        server = start().await;
    }
    assert!(kills >= 10, "killed {kills} times only");
    let in_doubt = mailers.finish().await;
    assert_nothing_lost(server.http, &site.key, &site.receiver, &in_doubt).await;
    assert_eq!(server.terminate().await, 0);
    site.finish().await;
}
