//! Mail while the disk fills.

use std::sync::atomic::Ordering;

use super::{Fake, Server};

#[tokio::test]
async fn mail_is_put_off_while_the_disk_is_short_of_space() {
    let server = Server::start("[space]\nmin_free_bytes = 1000\n", Fake::default()).await;
    let mut peer = server.greeted().await;
    peer.send("EHLO c\r\n").await;
    peer.expect("250").await;
    // Free space is unknown, enough, too little, and enough again.
    for (free, size, reply) in [
        (None, 400, "250 2.1.0"),
        (Some(1400), 400, "250 2.1.0"),
        (Some(1399), 400, "452 4.3.1"),
        (Some(999), 0, "452 4.3.1"),
        (Some(1400), 400, "250 2.1.0"),
    ] {
        *server.intake.free.lock().unwrap() = free;
        peer.send(format!("MAIL FROM:<> SIZE={size}\r\nRSET\r\n")).await;
        peer.expect_all(&[reply, "250 2.0.0"]).await;
    }
    server.intake.hangs.store(true, Ordering::Relaxed);
    peer.send("MAIL FROM:<>\r\nRSET\r\n").await;
    peer.expect_all(&["451 4.3.0", "250 2.0.0"]).await;
}

#[tokio::test]
async fn nobody_looks_where_any_room_will_do() {
    let fake = Fake { free: Some(0).into(), ..Fake::default() };
    let server = Server::start("[space]\nmin_free_bytes = 0\n", fake).await;
    let mut peer = server.greeted().await;
    peer.send("EHLO c\r\nMAIL FROM:<> SIZE=400\r\n").await;
    peer.expect_all(&["250", "250 2.1.0"]).await;
}
