//! Keys and internal error texts never leave the server (threats E8).

use std::io;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use serde_json::json;
use tokio::net::TcpListener;
use tracing_subscriber::fmt::MakeWriter;

use crate::http::router::observed;
use crate::http::serve;
use crate::http::table::OPERATIONS;
use crate::http::tests::House;

/// Keeps all that is logged by this thread.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(octets);
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// With a single subscriber in the process, tracing asks only the first thread at a log line
/// whether anybody listens. Threads of other tests have no subscriber. A second, permanent
/// subscriber makes tracing ask all.
static SECOND: LazyLock<tracing::Dispatch> =
    LazyLock::new(|| tracing::Dispatch::new(tracing_subscriber::registry()));

impl Log {
    pub(super) fn listen(&self) -> tracing::subscriber::DefaultGuard {
        LazyLock::force(&SECOND);
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(self.clone())
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

#[tokio::test]
async fn a_key_is_in_no_log_line_and_in_no_answer() {
    let house = House::new().await;
    for number in 0..3 {
        house.receive("agent1", &format!("From: a\r\n\r\n{number}"), 0).await;
    }
    let log = Log::default();
    let listening = log.listen();
    let token = house.token("partner").to_owned();
    let canary = &token[3..];
    let id = house.id("agent1");
    let mut replies = Vec::new();
    for operation in OPERATIONS {
        for query in [
            format!("token={token}"),
            format!("token={token}&token={token}"),
            format!("token={token}&limit=1&targetAccountId={id}"),
            format!("{token}=x&token={token}"),
            format!("x={token}&token={token}"),
            format!("token={token}&targetAccountId={token}&limit={token}&before={token}"),
            format!("token={token}&after={token}"),
        ] {
            let path = operation.path.replace("{uuid}", &token).replace("{id}", &token);
            let path = path.replace("{roomId}", &token).replace("{messageUuid}", &token);
            let target = format!("/api/v2{path}?{query}");
            let body = json!({
                "mode": token, "email": token, "address": format!("x@{token}"), "type": token,
                "url": format!("https://127.0.0.2/{token}"), "targetAccountId": id.get(),
            });
            let body = body.to_string();
            replies.push(house.send(operation.verb.as_str(), &target, None).await);
            let body = Some(("application/json", body.as_str()));
            replies.push(house.send(operation.verb.as_str(), &target, body).await);
        }
    }
    replies.push(house.send("GET", &format!("/{token}?token={token}"), None).await);
    replies.push(house.send(&token.replace('_', "-"), &format!("/?token={token}"), None).await);
    replies.push(house.send("GET", &format!("/readyz?token={token}"), None).await);
    for reply in &replies {
        assert!(!format!("{:?}{}", reply.headers, reply.text()).contains(canary), "{reply:?}");
        assert!(reply.status < 500, "{reply:?}");
    }
    let linked = replies.iter().filter(|reply| reply.headers.contains_key("link")).count();
    assert!(linked > 0);
    drop(listening);
    let log = log.text();
    assert!(!log.contains(canary), "{log}");
    for expected in [
        "http.method=\"GET\"",
        "http.method=\"other\"",
        "http.route=\"/messages/{uuid}/raw\"",
        "http.status=401",
        &format!("account.id={}", house.id("partner")),
        "latency_ms=",
        &format!("request.id={}", replies[0].headers["x-request-id"]),
    ] {
        assert!(log.contains(expected), "{expected} is not in {log}");
    }
}

#[tokio::test]
async fn a_store_that_is_down_is_a_503_without_details() {
    let house = House::new().await;
    house.send("GET", "/healthz", None).await.success(200);
    house.send("GET", "/readyz", None).await.success(200);
    let log = Log::default();
    let listening = log.listen();
    house.store.close().await;
    // An answer is reused for a second; each look at the house's clock moves it on.
    let later = house.now().plus(Duration::from_secs(1));
    while house.now() < later {}
    let account = "/api/v2/account?token=".to_owned() + house.token("agent1");
    for (path, says, logged) in
        [(account.as_str(), "Retry-After", ""), ("/readyz", "reading: gone", "not ready")]
    {
        let reply = house.send("GET", path, None).await;
        reply.problem(503, "unavailable", says);
        assert_eq!(reply.headers["retry-after"], "5");
        let shown = reply.text().to_lowercase();
        for inside in ["pool", "database", "sql", "store", "closed"] {
            assert!(!shown.contains(inside), "{shown}");
        }
        // A request has a line of its own; a check has one for each change.
        let id = reply.headers["x-request-id"].as_str();
        let logged = if logged.is_empty() { id } else { logged };
        let told = log.text();
        let mut lines = told.lines().filter(|line| line.contains(logged));
        assert!(lines.any(|line| line.contains("database does not answer")), "{told}");
    }
    drop(listening);
    house.send("GET", "/healthz", None).await.success(200);
}

#[tokio::test]
async fn a_panic_ends_one_request_only() {
    let mut house = House::new().await;
    let log = Log::default();
    let listening = log.listen();
    async fn boom() -> &'static str {
        panic!("secret plans")
    }
    let router = Router::new().route("/boom", get(boom)).route("/fine", get(async || "fine"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    house.address = listener.local_addr().unwrap();
    let router = observed(router, Arc::clone(&house.http));
    let running = serve(listener, router, Arc::clone(&house.http), house.shutdown.clone(), None);
    house.shutdown.spawn(running);
    let reply = house.send("GET", "/boom", None).await;
    reply.problem(500, "internal", "requestId");
    assert!(!reply.text().contains("secret plans"));
    assert_eq!(house.send("GET", "/fine", None).await.text(), "fine");
    drop(listening);
    assert!(log.text().contains("secret plans"), "{}", log.text());
}
