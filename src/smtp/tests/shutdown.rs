//! The soft stop and the hard stop.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::{Fake, PATIENCE, Server};

#[tokio::test]
async fn shutdown_tells_idle_sessions_and_waits_for_messages() {
    let gate = Fake { gate: Some(Semaphore::new(0)), ..Fake::default() };
    let server = Server::start("", gate).await;
    let mut idle = server.greeted().await;
    let (mut inside, mut deciding) = (server.greeted().await, server.greeted().await);
    for peer in [&mut inside, &mut deciding] {
        peer.begin_data().await;
    }
    deciding.send("one\r\n.\r\n").await;
    timeout(PATIENCE, server.intake.arrived.notified()).await.unwrap();

    server.shutdown.begin();
    idle.expect("421 4.3.2").await;
    idle.expect_end().await;
    inside.send("two\r\n.\r\nMAIL FROM:<>\r\n").await;
    server.intake.gate.as_ref().unwrap().add_permits(2);
    for peer in [&mut inside, &mut deciding] {
        peer.expect_all(&["250 2.0.0 accepted", "421 4.3.2"]).await;
        peer.expect_end().await;
    }
    drop((idle, inside, deciding));
    assert!(server.shutdown.finish(PATIENCE).await);
    assert_eq!(server.intake.messages().len(), 2);
    assert!(TcpStream::connect(server.address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn what_does_not_finish_within_the_grace_is_told_so_and_cut() {
    let gate = Fake { gate: Some(Semaphore::new(0)), ..Fake::default() };
    let server = Server::start("", gate).await;
    let (mut inside, mut deciding) = (server.in_data().await, server.in_data().await);
    inside.send("half a message").await;
    deciding.send("whole\r\n.\r\n").await;
    timeout(PATIENCE, server.intake.arrived.notified()).await.unwrap();
    let mut end = std::pin::pin!(server.shutdown.finish(Duration::from_millis(50)));
    let told = async {
        for peer in [&mut inside, &mut deciding] {
            peer.expect("421 4.3.2").await;
            peer.expect_end().await;
        }
    };
    tokio::select! {
        () = told => assert!(!end.await),
        in_time = &mut end => panic!("nobody was told, and all have ended: {in_time}"),
    }
    assert!(server.intake.messages().is_empty());
    assert_eq!(*server.intake.turned_down.lock().unwrap(), ["shutting_down"; 2]);
}

#[tokio::test]
async fn who_does_not_listen_cannot_hold_the_end_back() {
    let rules = "[deadlines]\nfarewell_millis = 50\nlinger_millis = 60000\n";
    let server = Server::start(rules, Fake::default()).await;
    let mut inside = server.in_data().await;
    inside.send("half a message").await;
    let end = timeout(PATIENCE, server.shutdown.finish(Duration::from_millis(50)));
    assert_eq!(end.await, Ok(false));
}
