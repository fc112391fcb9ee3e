//! Rates of a network per minute.

use super::{Call, Fake, Server};

/// Paths of the recipients that were over the rate.
fn over_rate(server: &Server) -> Vec<String> {
    let path = |call: &Call| match call {
        Call::OverRate { path } => Some(path.clone()),
        Call::Recipient { .. } | Call::Message { .. } | Call::Refused { .. } => None,
    };
    server.intake.calls.lock().unwrap().iter().filter_map(path).collect()
}

async fn start(rates: &str) -> Server {
    let rules = format!("[exempt]\nnetworks = []\n[rates]\n{rates}\n");
    Server::start(&rules, Fake::default()).await
}

#[tokio::test]
async fn connections_beyond_the_rate_are_told_and_closed() {
    let server = start("connections_per_minute = 2").await;
    for _ in 0..2 {
        let mut peer = server.greeted().await;
        peer.send("QUIT\r\n").await;
        peer.expect("221").await;
    }
    let mut third = server.connect().await;
    third.expect("421 4.7.0 too many new connections").await;
    third.expect_end().await;
}

#[tokio::test]
async fn messages_beyond_the_rate_are_put_off_at_mail_in_any_session() {
    let server = start("messages_per_minute = 2").await;
    for _ in 0..2 {
        let mut peer = server.greeted().await;
        // A transaction without DATA is no message.
        peer.send("HELO c\r\nMAIL FROM:<>\r\nRSET\r\nMAIL FROM:<>\r\nRSET\r\n").await;
        peer.expect_all(&["250", "250", "250", "250", "250"]).await;
        peer.begin_data().await;
        peer.send("x\r\n.\r\n").await;
        peer.expect("250 2.0.0 accepted").await;
    }
    let mut third = server.greeted().await;
    third.send("HELO c\r\nMAIL FROM:<>\r\nNOOP\r\n").await;
    third.expect_all(&["250", "450 4.2.1", "250 2.0.0"]).await;
    assert_eq!(over_rate(&server), [""]);
    assert_eq!(server.intake.messages().len(), 2);
}

#[tokio::test]
async fn recipients_beyond_the_rate_are_put_off_and_the_others_get_the_message() {
    let server = start("recipients_per_minute = 2").await;
    let mut peer = server.greeted().await;
    peer.send("HELO c\r\nMAIL FROM:<>\r\n").await;
    peer.expect_all(&["250", "250"]).await;
    for number in 1..=3 {
        peer.send(format!("RCPT TO:<open{number}@gatepost.example>\r\n")).await;
    }
    peer.expect_all(&["250 2.1.5", "250 2.1.5", "450 4.2.1"]).await;
    peer.send("DATA\r\n").await;
    peer.expect("354").await;
    peer.send("x\r\n.\r\n").await;
    peer.expect("250 2.0.0 accepted").await;
    assert_eq!(over_rate(&server), ["open3@gatepost.example"]);
}
