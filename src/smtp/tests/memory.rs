//! The memory of all messages in flight.

use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::{Fake, PATIENCE, Server};

#[tokio::test]
async fn memory_for_all_messages_is_bounded() {
    let rules = "[memory]\nmax_bytes_in_flight = 1048576\nreserve_step_bytes = 1048576\n";
    let gate = Fake { gate: Some(Semaphore::new(0)), ..Fake::default() };
    let mut server = Server::bind(rules, gate).await;
    server.serve();
    // Each message may reserve 100,002 bytes at most: ten fit, the eleventh does not.
    let mut held = Vec::new();
    for _ in 0..10 {
        let mut peer = server.in_data().await;
        peer.send("x\r\n.\r\n").await;
        timeout(PATIENCE, server.intake.arrived.notified()).await.unwrap();
        held.push(peer);
    }
    let mut late = server.greeted().await;
    late.begin_data().await;
    late.send("x\r\n.\r\n").await;
    late.expect("452 4.3.1").await;
    server.intake.gate.as_ref().unwrap().add_permits(11);
    for peer in &mut held {
        peer.expect("250 2.0.0").await;
    }
    late.begin_data().await;
    late.send("x\r\n.\r\n").await;
    late.expect("250 2.0.0").await;
}

#[tokio::test]
async fn what_is_read_only_to_be_refused_holds_no_memory() {
    let rules = "[memory]\nmax_bytes_in_flight = 1048576\nkept_head_bytes = 0\n";
    let server = Server::start(rules, Fake::default()).await;
    let mut too_large = Vec::new();
    for _ in 0..11 {
        let mut peer = server.in_data().await;
        peer.send("x".repeat(200_000)).await;
        too_large.push(peer);
    }
    // Up to the limit they may hold all memory, beyond it none.
    let sent = async {
        let mut peer = server.greeted().await;
        loop {
            peer.begin_data().await;
            peer.send("x".repeat(90_000) + "\r\n.\r\n").await;
            if peer.reply().await.starts_with("250 2.0.0") {
                return;
            }
        }
    };
    timeout(PATIENCE, sent).await.unwrap();
}

#[tokio::test]
async fn who_holds_much_and_comes_slowly_makes_room_when_memory_is_short() {
    let rules = "[memory]\nmax_bytes_in_flight = 1048576\nturnover_seconds = 1\n\
                 [deadlines]\nmin_data_rate = 1\ndata_block_seconds = 1\n";
    let gate = Fake { gate: Some(Semaphore::new(0)), ..Fake::default() };
    let server = Server::start(rules, gate).await;
    let mut slow = server.in_data().await;
    slow.send("x".repeat(90_000)).await;
    let mut held = Vec::new();
    for _ in 0..9 {
        let mut peer = server.in_data().await;
        peer.send("x".repeat(90_000) + "\r\n.\r\n").await;
        timeout(PATIENCE, server.intake.arrived.notified()).await.unwrap();
        held.push(peer);
    }
    // Ten bytes a second are enough only while memory is plentiful.
    let reply = slow.dribble("x").await;
    assert!(reply.starts_with("421 4.4.2"), "{reply}");
    server.intake.gate.as_ref().unwrap().add_permits(9);
    for peer in &mut held {
        peer.expect("250 2.0.0 accepted").await;
    }
}
