//! Whole messages, from the first byte to the answer.

use super::{Call, ENVELOPE, Fake, Server};

#[tokio::test]
async fn a_pipelined_session_is_answered_in_order() {
    let server = Server::start("", Fake::default()).await;
    let mut peer = server.greeted().await;
    peer.send(format!("{ENVELOPE}RCPT TO:<nobody@gatepost.example>\r\nDATA\r\n")).await;
    peer.expect_all(&["250 ENH", "250 2.1.0", "250 2.1.5", "550 5.1.1", "354"]).await;
    let message = "Subject: x\r\n\r\n..\r\n";
    peer.send(format!("{message}.\r\nMAIL FROM:<>\r\nQUIT\r\n")).await;
    peer.expect_all(&["250 2.0.0 accepted", "250 2.1.0", "221"]).await;
    peer.expect_end().await;
    assert_eq!(server.intake.messages(), ["Subject: x\r\n\r\n.\r\n"]);
}

#[tokio::test]
async fn a_large_message_arrives_octet_for_octet() {
    let server = Server::start("", Fake::default()).await;
    let mut peer = server.in_data().await;
    let message = "0123456789abcdef\r\n".repeat(5_555);
    peer.send(format!("{message}.\r\n")).await;
    peer.expect("250 2.0.0").await;
    assert_eq!(server.intake.messages(), [message]);
}

/// Not since the MAIL before.
#[tokio::test]
async fn a_transaction_that_is_refused_at_mail_was_never_open() {
    let server = Server::start("", Fake::default()).await;
    let mut peer = server.greeted().await;
    peer.send("EHLO c\r\nMAIL FROM:<>\r\nRSET\r\nMAIL FROM:<> SIZE=99999999999\r\n").await;
    peer.expect_all(&["250", "250 2.1.0", "250 2.0.0", "552 5.3.4"]).await;
    let calls = server.intake.calls.lock().unwrap().clone();
    let [Call::Refused { open_for, .. }] = &calls[..] else { panic!("{calls:?}") };
    assert!(open_for.is_zero(), "{open_for:?}");
}

#[tokio::test]
async fn a_message_over_the_limit_is_read_to_its_end() {
    let server = Server::start("", Fake::default()).await;
    let mut peer = server.greeted().await;
    peer.send("EHLO c\r\nMAIL FROM:<> SIZE=99999999999999999999999\r\n").await;
    peer.expect_all(&["250", "552 5.3.4"]).await;
    peer.begin_data().await;
    peer.send("y".repeat(3_000_000)).await;
    peer.send("\r\n.\r\nQUIT\r\n").await;
    peer.expect_all(&["552 5.3.4", "221"]).await;
    let calls = server.intake.calls.lock().unwrap().clone();
    let Some(Call::Refused { head, size, .. }) = calls.last() else { panic!("{calls:?}") };
    assert_eq!((head.len(), *size), (65_536, 3_000_002));
}
