//! Slow clients, and a slow Intake.

use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::{Fake, PATIENCE, Server};

#[tokio::test]
async fn single_octets_buy_no_time() {
    let rules = "[deadlines]\ncommand_seconds = 1\n";
    let server = Server::start(rules, Fake::default()).await;
    let peer = server.greeted().await;
    let reply = peer.dribble("N").await;
    assert!(reply.starts_with("421 4.4.2"), "{reply}");
}

#[tokio::test]
async fn a_message_must_keep_the_least_rate() {
    let rules = "[deadlines]\ndata_grace_seconds = 1\nmin_data_rate = 1000\n";
    let server = Server::start(rules, Fake::default()).await;
    let mut peer = server.in_data().await;
    peer.send("x".repeat(900)).await;
    peer.expect("421 4.4.2").await;
    peer.expect_end().await;
    assert!(server.intake.messages().is_empty());
}

#[tokio::test]
async fn what_came_fast_buys_no_time_to_dribble() {
    // At the lowest rate the first piece alone would last 90 seconds.
    let rules = "[deadlines]\ndata_block_seconds = 1\nmin_data_rate = 1000\n";
    let server = Server::start(rules, Fake::default()).await;
    let mut peer = server.in_data().await;
    peer.send("x".repeat(90_000)).await;
    let reply = peer.dribble("x").await;
    assert!(reply.starts_with("421 4.4.2"), "{reply}");
}

#[tokio::test]
async fn a_pause_in_a_message_and_an_old_session_are_ended() {
    let rules = "[deadlines]\ndata_block_seconds = 1\nsession_seconds = 1\n";
    let server = Server::start(rules, Fake::default()).await;
    let (mut pausing, mut old) = (server.greeted().await, server.greeted().await);
    pausing.begin_data().await;
    pausing.send("x").await;
    pausing.expect("421 4.4.2 timeout: no more input").await;
    old.expect("421 4.4.2 timeout: the session").await;
}

#[tokio::test]
async fn an_intake_that_does_not_answer_is_a_deferral() {
    let gate = Fake { gate: Some(Semaphore::new(0)), ..Fake::default() };
    let server = Server::start("[deadlines]\nanswer_seconds = 1\n", gate).await;
    let mut peer = server.in_data().await;
    peer.send("x\r\n.\r\nNOOP\r\n").await;
    peer.expect_all(&["451 4.3.0", "250 2.0.0"]).await;
}

#[tokio::test]
async fn a_message_that_is_only_read_to_be_refused_does_not_outstay_the_session() {
    let rules = "[deadlines]\nsession_seconds = 1\nmin_data_rate = 1\n";
    let server = Server::start(rules, Fake::default()).await;
    let (mut refused, mut kept) = (server.in_data().await, server.in_data().await);
    kept.send("x".repeat(50_000)).await;
    refused.send("x".repeat(150_000)).await;
    let reply = refused.dribble("x").await;
    assert!(reply.starts_with("421 4.4.2 timeout: the session"), "{reply}");
    kept.send("\r\n.\r\n").await;
    kept.expect_all(&["250 2.0.0 accepted", "421 4.4.2 timeout: the session"]).await;
}

#[tokio::test]
async fn who_never_reads_a_reply_is_left() {
    let rules = "[deadlines]\nwrite_seconds = 1\n[limits]\nmax_sessions = 1\n";
    let server = Server::start(rules, Fake::default()).await;
    let mut deaf = server.greeted().await;
    let octets = b"NOOP\r\n".repeat(1000);
    let talk = async { while deaf.0.get_mut().write_all(&octets).await.is_ok() {} };
    timeout(PATIENCE, talk).await.unwrap();
    server.greeted_in_the_end().await;
}
