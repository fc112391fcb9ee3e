//! Answers to strangers on the challenges' port.

use super::*;

/// Sends these bytes, and returns all that comes back until the connection is closed.
async fn answer(at: SocketAddr, octets: &[u8]) -> String {
    let mut stream = TcpStream::connect(at).await.unwrap();
    stream.write_all(octets).await.unwrap();
    let mut answer = Vec::new();
    let read = timeout(SOON, stream.read_to_end(&mut answer)).await.expect("left open");
    read.unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn nothing_but_a_token_that_is_waited_for_is_answered() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let (challenges, shutdown) = (Challenges::default(), Shutdown::default());
    let rules = Rules::defaults().unwrap().acme.challenges;
    shutdown.spawn(challenges.clone().serve(listener, rules, shutdown.clone()));
    let ask = |line: &str| {
        let request = format!("{line} HTTP/1.1\r\nHost: mx.example\r\n\r\n");
        async move { answer(at, request.as_bytes()).await }
    };
    let mut shown = challenges.show();
    shown.add("abc", "abc.thumb");
    let good = ask("GET /.well-known/acme-challenge/abc").await;
    assert!(good.starts_with("HTTP/1.1 200 ") && good.ends_with("\r\n\r\nabc.thumb"), "{good}");
    for line in [
        "GET /",
        "GET /.well-known/acme-challenge/",
        "GET /.well-known/acme-challenge/abcd",
        "GET /.well-known/acme-challenge/abc/",
        "GET /.well-known/acme-challenge/../acme-challenge/abc",
        "GET /.well-known/acme-challenge/%61bc",
        "POST /.well-known/acme-challenge/abc",
    ] {
        let bad = ask(line).await;
        assert!(bad.starts_with("HTTP/1.1 404 ") && bad.ends_with("\r\n\r\n"), "{line}: {bad}");
    }
    drop(shown);
    let gone = ask("GET /.well-known/acme-challenge/abc").await;
    assert!(gone.starts_with("HTTP/1.1 404 "), "{gone}");
    assert!(shutdown.finish(SOON).await);
}

#[tokio::test]
async fn a_stranger_on_the_challenges_port_is_let_go_soon() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let text = "[challenges]\nmax_connections = 1\nconnection_seconds = 300\nheader_seconds = ";
    let strict = |header| {
        std::fs::write(folder.path().join("acme.toml"), format!("{text}{header}\n")).unwrap();
        Rules::load(folder.path()).unwrap().acme.challenges
    };
    let shutdown = Shutdown::default();
    shutdown.spawn(Challenges::default().serve(listener, strict(300), shutdown.clone()));
    let gone = async |mut silent: TcpStream| {
        timeout(SOON, silent.read(&mut [0; 64])).await.expect("left open").unwrap() == 0
    };
    // A silent client holds the only place until another comes; that one then sends too much.
    let silent = TcpStream::connect(at).await.unwrap();
    let next = answer(at, b"GET / HTTP/1.1\r\nHost: mx.example\r\n\r\n").await;
    assert!(next.starts_with("HTTP/1.1 404 "), "{next}");
    assert!(gone(silent).await);
    let long = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", "x".repeat(9000));
    let refused = answer(at, long.as_bytes()).await;
    assert!(refused.starts_with("HTTP/1.1 431 "), "{refused}");
    // Without another client, its time ends.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    shutdown.spawn(Challenges::default().serve(listener, strict(1), shutdown.clone()));
    assert!(gone(TcpStream::connect(at).await.unwrap()).await);
    assert!(shutdown.finish(SOON).await);
}
