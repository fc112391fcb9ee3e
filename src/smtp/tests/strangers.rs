//! Clients that are no mail servers.

use super::{Fake, Server};

#[tokio::test]
async fn who_speaks_before_the_greeting_is_not_listened_to() {
    let mut server = Server::bind("", Fake::default()).await;
    let mut peer = server.connect().await;
    peer.send("EHLO client.example\r\n").await;
    server.serve();
    peer.expect("554 5.5.0").await;
    peer.expect_end().await;
}

#[tokio::test]
async fn a_browser_and_a_handshake_are_told_and_closed() {
    let server = Server::start("", Fake::default()).await;
    for said in ["GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x02\x00\x01"] {
        let mut peer = server.greeted().await;
        peer.send(said).await;
        peer.expect("554 5.5.0 this is an SMTP server").await;
        peer.expect_end().await;
    }
}
