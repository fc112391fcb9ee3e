//! Caps on sessions.

use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use super::{Fake, PATIENCE, Server};

#[tokio::test]
async fn a_network_has_so_many_sessions_and_no_more() {
    let server = Server::start(
        "[limits]\nmax_sessions_per_network = 2\n[exempt]\nnetworks = []\n",
        Fake::default(),
    )
    .await;
    let mut first = server.greeted().await;
    let _second = server.greeted().await;
    let mut third = server.connect().await;
    third.expect("421 4.3.2").await;
    third.expect_end().await;
    first.send("QUIT\r\n").await;
    first.expect("221").await;
    first.expect_end().await;
    drop(first);
    // The place is free once the session has ended; until then the reply is 421.
    server.greeted_in_the_end().await;
}

#[tokio::test]
async fn an_address_has_fewer_places_than_its_network() {
    let rules = "[limits]\nmax_sessions_per_address = 1\n[exempt]\nnetworks = []\n";
    let server = Server::start(rules, Fake::default()).await;
    let _first = server.greeted().await;
    let mut second = server.connect().await;
    second.expect("421 4.3.2 too many connections from your network").await;
    second.expect_end().await;
    assert_eq!(*server.intake.turned_down.lock().unwrap(), ["too_many_from_network"]);
}

#[tokio::test]
async fn an_exempt_network_has_all_places_there_are_and_no_more() {
    let rules = "[limits]\nmax_sessions = 3\nmax_sessions_per_network = 1\n\
                 max_sessions_per_address = 1\n[rates]\nconnections_per_minute = 1\n\
                 [exempt]\nnetworks = [\"198.51.100.0/24\", \"127.0.0.0/8\"]\n";
    let server = Server::start(rules, Fake::default()).await;
    let _all = (server.greeted().await, server.greeted().await, server.greeted().await);
    let mut fourth = server.connect().await;
    fourth.expect("421 4.3.2 too many connections: try again").await;
    fourth.expect_end().await;
    assert_eq!(*server.intake.turned_down.lock().unwrap(), ["too_many_sessions"]);
}

#[tokio::test]
async fn a_panic_ends_its_session_only_and_gives_the_place_back() {
    let rules = "[limits]\nmax_sessions = 1\n";
    let server = Server::start(rules, Fake::default()).await;
    let mut peer = server.greeted().await;
    peer.send("HELO c\r\nMAIL FROM:<>\r\nRCPT TO:<panic@gatepost.example>\r\n").await;
    let mut rest = Vec::new();
    // The kernel may reset the connection; it ends either way.
    let _ended = timeout(PATIENCE, peer.0.read_to_end(&mut rest)).await.unwrap();
    server.greeted_in_the_end().await;
}
