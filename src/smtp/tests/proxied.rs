//! Connections through a trusted proxy.

use std::net::IpAddr;

use super::*;

const HERE: &str = "127.0.0.0/8";
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// A header as HAProxy sends it (`send-proxy-v2`), TCP over IPv4 or IPv6, or LOCAL of a health
/// check.
fn version_2(client: Option<&str>) -> Vec<u8> {
    let (family, addresses): (&[u8], Vec<u8>) = match client.map(|text| text.parse().unwrap()) {
        None => (b"\x20\x00", vec![]),
        Some(IpAddr::V4(client)) => (b"\x21\x11", [client.octets(), [127, 0, 0, 1]].concat()),
        Some(IpAddr::V6(client)) => (b"\x21\x21", client.octets().repeat(2)),
    };
    let ports: &[u8] = if addresses.is_empty() { b"" } else { b"\xdb\x04\x00\x19" };
    let length = u8::try_from(addresses.len() + ports.len()).unwrap();
    [SIGNATURE, family, &[0, length], &addresses, ports].concat()
}

fn version_1(client: &str) -> Vec<u8> {
    let family = if client.contains(':') { "TCP6" } else { "TCP4" };
    format!("PROXY {family} {client} {client} 56324 25\r\n").into_bytes()
}

/// The client's address in the Intake, for this greeted session.
async fn served(server: &Server, mut peer: Peer) -> IpAddr {
    peer.begin_data().await;
    peer.send("x\r\n.\r\n").await;
    peer.expect("250 2.0.0").await;
    let calls = server.intake.calls.lock().unwrap();
    match calls.last() {
        Some(Call::Message { envelope, .. }) => envelope.client.address,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_client_behind_a_trusted_proxy_is_the_one_that_is_served() {
    let server = Server::behind("", HERE).await;
    let (v4, v6, mapped) = ("192.0.2.7", "2001:db8::7", "::ffff:192.0.2.7");
    for (header, client) in [
        (version_1(v4), v4),
        (version_1(v6), v6),
        (version_1(mapped), v4),
        (version_2(Some(v4)), v4),
        (version_2(Some(v6)), v6),
        (version_2(Some(mapped)), v4),
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1"),
        (version_2(None), "127.0.0.1"),
    ] {
        let mut peer = server.connect().await;
        peer.send(&header).await;
        peer.expect("220 ").await;
        let found = served(&server, peer).await;
        assert_eq!(found, client.parse::<IpAddr>().unwrap(), "{}", header.escape_ascii());
    }
}

#[tokio::test]
async fn a_header_may_come_in_pieces() {
    let server = Server::behind("", HERE).await;
    for header in [version_1("192.0.2.7"), version_2(Some("192.0.2.7"))] {
        let mut peer = server.connect().await;
        peer.0.get_mut().set_nodelay(true).unwrap();
        for octet in header {
            peer.send([octet]).await;
            tokio::task::yield_now().await;
        }
        peer.expect("220 ").await;
        assert_eq!(served(&server, peer).await, "192.0.2.7".parse::<IpAddr>().unwrap());
    }
}

#[tokio::test]
async fn what_stands_behind_the_header_before_the_greeting_is_early_talk() {
    let server = Server::behind("", HERE).await;
    for header in [version_1("192.0.2.7"), version_2(Some("192.0.2.7")), version_2(None)] {
        let mut peer = server.connect().await;
        peer.send([&header, &b"EHLO client.example\r\n"[..]].concat()).await;
        peer.expect("554 5.5.0 you spoke before").await;
        peer.expect_end().await;
    }
}

#[tokio::test]
async fn a_trusted_proxy_that_sends_no_header_is_told_so() {
    let server = Server::behind("[deadlines]\nproxy_seconds = 1\n", HERE).await;
    let long = [&b"PROXY UNKNOWN "[..], &[b'x'; 200]].concat();
    let scoped = b"PROXY TCP6 fe80::1%lo 2001:db8::2 1 25\r\n";
    let streams: [&[u8]; 7] = [
        b"EHLO client.example\r\n",
        b"\x16\x03\x01",
        b"PROXY TCP4 192.0.2.7\r\n",
        scoped,
        &long,
        // Unfinished headers: nothing more comes.
        b"",
        &version_2(Some("192.0.2.7"))[..20],
    ];
    for stream in streams {
        let mut peer = server.connect().await;
        peer.send(stream).await;
        peer.expect("421 4.3.5 ").await;
        peer.expect_end().await;
    }
    // A connection that goes away frees its place, too.
    drop(server.connect().await);
    let mut peer = server.connect().await;
    peer.send(version_2(None)).await;
    peer.expect("220 ").await;
}

#[tokio::test]
async fn whom_nobody_trusts_speaks_for_itself_only() {
    let header = version_1("192.0.2.7");
    let server = Server::behind("", "192.0.2.0/24").await;
    let peer = server.greeted().await;
    assert_eq!(served(&server, peer).await, "127.0.0.1".parse::<IpAddr>().unwrap());
    let mut peer = server.greeted().await;
    peer.send(&header).await;
    peer.expect("554 5.5.0 this is an SMTP server").await;
    peer.expect_end().await;
    let mut peer = server.greeted().await;
    peer.send(version_2(Some("192.0.2.7"))).await;
    peer.expect_all(&["500 5.5.2", "500 5.5.2", "550 5.5.2"]).await;
    peer.expect_end().await;
    // A proxy sends its header before the greeting.
    let mut server = Server::bind("", Fake::default()).await;
    let mut peer = server.connect().await;
    peer.send(&header).await;
    server.serve();
    peer.expect("554 5.5.0 you spoke before").await;
    peer.expect_end().await;
}

#[tokio::test]
async fn limits_are_for_the_clients_and_not_for_their_proxy() {
    let rules = "[limits]\nmax_sessions_per_address = 1\n[exempt]\nnetworks = []\n";
    let server = Server::behind(rules, HERE).await;
    let connect = async |client: &str| {
        let mut peer = server.connect().await;
        peer.send(version_1(client)).await;
        peer
    };
    let (mut first, mut second) = (connect("192.0.2.7").await, connect("192.0.2.8").await);
    first.expect("220 ").await;
    second.expect("220 ").await;
    let mut third = connect("192.0.2.7").await;
    third.expect("421 4.3.2 too many connections from your network").await;
    third.expect_end().await;
}

#[tokio::test]
async fn a_proxy_that_has_said_nothing_is_told_of_the_end() {
    let server = Server::behind("", HERE).await;
    let mut peer = server.connect().await;
    peer.send("PROXY ").await;
    server.shutdown.begin();
    // Accepted already, or still in the backlog of a closed socket.
    let mut rest = String::new();
    let read = timeout(PATIENCE, peer.0.read_line(&mut rest)).await.unwrap();
    assert!(read.is_err() || rest.is_empty() || rest.starts_with("421 4.3.2 shutting"), "{rest}");
    assert!(server.shutdown.finish(PATIENCE).await);
}
