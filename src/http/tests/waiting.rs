//! Deadlines, and the end of the program.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::domain::policy::Mode;
use crate::http::router::observed;
use crate::http::serve;
use crate::http::tests::{House, PATIENCE, Reply};

const SHORT: &str = "[limits]\nrequest_seconds = 2\nbody_seconds = 1\n\
                     [connections]\nheader_seconds = 1\n";

#[tokio::test]
async fn a_head_that_never_ends_is_cut_off() {
    let house = House::with(SHORT).await;
    for begun in ["", "GET /healthz HTTP/1.1\r\nHost: h\r\nX-Slow: "] {
        let mut stream = TcpStream::connect(house.address).await.unwrap();
        stream.write_all(begun.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("cut off").unwrap();
        assert!(!rest.starts_with(b"HTTP/1.1 200"), "{begun:?}");
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let house = House::with(SHORT).await;
    let mut stream = TcpStream::connect(house.address).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
    assert_eq!(Reply::read(&mut stream).await.status, 200);
}

#[tokio::test]
async fn a_body_that_never_ends_is_a_408() {
    let house = House::with(SHORT).await;
    let head = format!(
        "PUT /api/v2/email/inboundPolicy?token={} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{{",
        house.token("agent1")
    );
    house.exchange(head.as_bytes()).await.problem(408, "request_timeout", "in time");
}

#[tokio::test]
async fn a_handler_that_never_ends_is_a_503() {
    let mut house = House::with(SHORT).await;
    let router = Router::new().route("/never", get(std::future::pending::<&'static str>));
    serve_also(&mut house, router).await;
    let reply = house.send("GET", "/never", None).await;
    reply.problem(503, "unavailable", "Retry-After");
}

#[tokio::test]
async fn connections_beyond_the_cap_wait_their_turn() {
    let house = House::with("[connections]\nmax_connections = 1\n").await;
    let first = TcpStream::connect(house.address).await.unwrap();
    let asking = house.send("GET", "/healthz", None);
    tokio::pin!(asking);
    // The first connection holds the only place, so nothing is answered to the second.
    assert!(timeout(Duration::from_millis(300), &mut asking).await.is_err());
    drop(first);
    assert_eq!(asking.await.status, 200);
}

/// A connection from this loopback address.
async fn from(address: &str, house: &House) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(address.parse().unwrap(), 0)).unwrap();
    socket.connect(house.address).await.unwrap()
}

/// Returns () for an answer on this connection, None if it was closed.
async fn answered(stream: &mut TcpStream) -> Option<()> {
    const BODY: &[u8] = b"\"alive\"";
    let mut came = Vec::new();
    // Writing fails on a closed connection; the read then tells.
    let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n").await;
    while !came.windows(BODY.len()).any(|part| part == BODY) {
        let read = timeout(PATIENCE, stream.read_buf(&mut came)).await.expect("an answer, or none");
        if read.is_err() || read.is_ok_and(|octets| octets == 0) {
            assert!(came.is_empty(), "closed before anything is said");
            return None;
        }
    }
    assert!(came.starts_with(b"HTTP/1.1 200"));
    Some(())
}

#[tokio::test]
async fn one_address_has_so_many_connections_and_a_proxy_any_number() {
    let house = House::with("[connections]\nmax_per_address = 2\n").await;
    let [mut first, mut second] =
        [from("127.0.0.2", &house).await, from("127.0.0.2", &house).await];
    assert!(answered(&mut first).await.is_some() && answered(&mut second).await.is_some());
    for _ in 0..3 {
        assert!(answered(&mut from("127.0.0.2", &house).await).await.is_none());
    }
    // Its open connections go on, and so do those of others.
    assert!(answered(&mut first).await.is_some() && answered(&mut second).await.is_some());
    let mut others = Vec::new();
    for address in ["127.0.0.3", "127.0.0.3", "127.0.0.1", "127.0.0.1", "127.0.0.1"] {
        let mut stream = from(address, &house).await;
        assert!(answered(&mut stream).await.is_some(), "{address}");
        others.push(stream);
    }
    assert!(answered(&mut from("127.0.0.3", &house).await).await.is_none());
    drop(first);
    // Once the server has noticed the end of a connection, its place is free.
    let again = async { while answered(&mut from("127.0.0.2", &house).await).await.is_none() {} };
    timeout(PATIENCE, again).await.expect("a place is given back");
    assert!(answered(&mut second).await.is_some());
}

#[tokio::test]
async fn a_stop_finishes_what_is_under_way_and_takes_nothing_new() {
    let mut house = House::new().await;
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (Arc::clone(&begun), Arc::clone(&go));
    let slow = async move || {
        tell.notify_one();
        wait.notified().await;
        "done"
    };
    serve_also(&mut house, Router::new().route("/slow", get(slow))).await;
    let idle = TcpStream::connect(house.address).await.unwrap();
    let shutdown = house.shutdown.clone();
    let address = house.address;
    let asking = async { house.send("GET", "/slow", None).await };
    let stopping = async {
        begun.notified().await;
        shutdown.begin();
        // The listener is gone once its task has ended.
        let gone = async {
            while TcpStream::connect(address).await.is_ok() {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, gone).await.expect("nothing new is taken in");
        go.notify_one();
    };
    let (reply, ()) = tokio::join!(asking, stopping);
    assert_eq!((reply.status, reply.text().as_str()), (200, "done"));
    drop(idle);
    assert!(shutdown.finish(PATIENCE).await);
}

/// A body may take `body_seconds`: a caller that loses its rights meanwhile changes nothing.
#[tokio::test]
async fn rights_are_asked_for_again_when_a_body_has_come() {
    const BODY: &str = "{\"mode\":\"open\"}";
    let house = House::new().await;
    let agent = house.id("agent1");
    for revoked in [false, true] {
        let key = house.tenancy.create_key(house.id("org1"), "slow").await.unwrap();
        let mut stream = TcpStream::connect(house.address).await.unwrap();
        let head = format!(
            "PUT /api/v2/email/inboundPolicy?token={}&targetAccountId={agent} HTTP/1.1\r\nHost: h\r\n\
             Connection: close\r\nExpect: 100-continue\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            key.token,
            BODY.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        // The server asks for the body once it knows who is calling (RFC 9110 §10.1.1).
        let mut go_on = [0; 25];
        timeout(PATIENCE, stream.read_exact(&mut go_on)).await.unwrap().unwrap();
        assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
        if revoked {
            house.tenancy.revoke_key(key.key.id).await.unwrap();
        }
        stream.write_all(BODY.as_bytes()).await.unwrap();
        let reply = Reply::read(&mut stream).await;
        assert_eq!(reply.status, if revoked { 401 } else { 200 }, "{}", reply.text());
        let mode = house.tenancy.policy(agent).await.unwrap().mode;
        assert_eq!(mode, if revoked { Mode::Allowlist } else { Mode::Open });
        house.tenancy.set_mode(agent, Mode::Allowlist).await.unwrap();
    }
}

async fn serve_also(house: &mut House, router: Router<Arc<crate::http::Http>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    house.address = listener.local_addr().unwrap();
    let router = observed(router, Arc::clone(&house.http));
    let running = serve(listener, router, Arc::clone(&house.http), house.shutdown.clone(), None);
    house.shutdown.spawn(running);
}
