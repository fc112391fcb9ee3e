//! Clients that make mistakes, and go on.

use super::{Fake, PATIENCE, Server};

#[tokio::test]
async fn from_some_errors_on_the_reply_is_held_back_and_a_stop_ends_that() {
    let rules = "[limits]\ntarpit_after_errors = 2\ntarpit_millis = 10000\n";
    let server = Server::start(rules, Fake::default()).await;
    let mut peer = server.greeted().await;
    peer.send("A\r\nNOOP\r\nB\r\nNOOP\r\nC\r\nNOOP\r\n").await;
    peer.expect_all(&["500", "250", "500", "250"]).await;
    assert!(peer.0.buffer().is_empty(), "replies that are written together arrive together");
    server.shutdown.begin();
    peer.expect_all(&["500", "421 4.3.2"]).await;
    peer.expect_end().await;
    drop(peer);
    assert!(server.shutdown.finish(PATIENCE).await);
}

#[tokio::test]
async fn a_reply_that_was_held_back_comes() {
    let rules = "[limits]\nmax_errors = 3\ntarpit_after_errors = 0\ntarpit_millis = 1\n";
    let server = Server::start(rules, Fake::default()).await;
    let mut peer = server.greeted().await;
    peer.send("A\r\nB\r\nC\r\nD\r\nE\r\n").await;
    peer.expect_all(&["500", "500", "500", "421 4.7.0 too many errors"]).await;
    peer.expect_end().await;
}

#[tokio::test]
async fn who_tries_names_is_held_back_and_cut_short() {
    let rules = "[limits]\nmax_unknown_recipients = 2\ntarpit_after_errors = 1\n\
                 tarpit_millis = 1\n";
    let server = Server::start(rules, Fake::default()).await;
    let mut peer = server.greeted().await;
    peer.send("HELO c\r\nMAIL FROM:<>\r\n").await;
    peer.expect_all(&["250", "250"]).await;
    peer.send("RCPT TO:<anna@gatepost.example>\r\n".repeat(3)).await;
    peer.expect_all(&["550 5.1.1", "550 5.1.1", "421 4.7.0 too many unknown"]).await;
    peer.expect_end().await;
}

/// The reply comes at the limit, not at the client's CRLF or at a timeout.
#[tokio::test]
async fn a_command_line_without_end_is_answered_and_closed() {
    let rules = "[memory]\nmax_drained_bytes = 100000\n";
    let server = Server::start(rules, Fake::default()).await;
    let mut peer = server.greeted().await;
    peer.send("x".repeat(3000)).await;
    peer.expect("500 5.5.2 the command line is too long").await;
    peer.send("\r\nNOOP\r\n").await;
    peer.expect("250 2.0.0").await;
    peer.send("x".repeat(200_000)).await;
    peer.expect_all(&["500 5.5.2", "421 4.7.0 the command line does not end"]).await;
    peer.expect_end().await;
}
