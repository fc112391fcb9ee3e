//! Destinations beside each other, through the whole program over real sockets: one that is bad
//! costs the others nothing, and one that is `ordered` gets its rooms in order whatever happens.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use gatepost::run;
use gatepost::testkit::receiver::{Received, Receiver, Reply};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::{PATIENCE, TestGateway, letter_between, signed, signer};

const FROM: &str = "alice@good.example";
const TO: [&str; 1] = ["support@agents.example"];
/// Every account may have as many webhooks.
const MANY: (&str, &str) = (
    "access.toml",
    "[limits]\nmax_destinations = 200\n\
     [rates]\nreads_per_minute = 0\nwrites_per_minute = 0\nkeyless_per_minute = 0\n",
);

async fn listen(gateway: &TestGateway, url: &str, category: &str, ordered: bool) {
    let webhook = json!({ "url": url, "label": "test", "type": category, "ordered": ordered });
    let (status, body) = gateway.request("POST", "/webhooks", Some(webhook)).await;
    assert_eq!(status, 201, "{body}");
}

/// Accepts connections and never says anything.
async fn stalls() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((socket, _)) = listener.accept().await {
            held.push(socket);
        }
    });
    addr
}

/// The event ids that came to each path.
fn by_path(received: &[Received]) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for one in received {
        found.entry(one.path.clone()).or_default().insert(one.headers["webhook-id"].clone());
    }
    found
}

/// Ninety-nine good destinations, and one of each kind that is bad: the good ones get all theirs
/// while no attempt at a bad one has succeeded.
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_one_among_a_hundred_costs_the_others_nothing() {
    let any_port = "[egress]\nports = []\n";
    let gateway = TestGateway::with_rules(&[MANY, ("webhooks.toml", any_port)]).await;
    let clock = || run::system_mint().clock().clone();
    let good = Receiver::start(clock()).await.unwrap();
    let pause = Duration::from_millis(100);
    let mut bad = Vec::new();
    for reply in [
        Reply::status(200).drip_head(pause),
        Reply::status(200).drip_body(pause),
        Reply::status(500).huge(1 << 30),
        Reply::status(302).header("location", "http://127.0.0.1:1/"),
        Reply::hangup(),
    ] {
        let receiver = Receiver::start(clock()).await.unwrap();
        receiver.otherwise(reply);
        listen(&gateway, &receiver.url("/bad"), "incoming", false).await;
        bad.push(receiver);
    }
    // One that never answers, and one that speaks no TLS.
    listen(&gateway, &format!("http://{}/stalled", stalls().await), "incoming", false).await;
    let no_tls = good.url("/no-tls").replace("http://", "https://");
    listen(&gateway, &no_tls, "incoming", false).await;
    for number in 0..33 {
        for category in ["incoming", "conversation", "contact"] {
            listen(&gateway, &good.url(&format!("/{number}")), category, false).await;
        }
    }

    let mails = 12;
    for number in 0..mails {
        assert!(gateway.send(FROM, &TO, &signed(&format!("mail {number}"))).await.accepted());
    }
    // Each mail is two events for each of them, and the first one makes a contact.
    let each = 2 * mails + 1;
    let received = good.wait_for(33 * each, PATIENCE).await.unwrap();
    let found = by_path(&received);
    assert_eq!(found.len(), 33);
    assert!(found.values().all(|ids| ids.len() == each), "{found:?}");
    let delivered = "SELECT COUNT(*) FROM deliveries JOIN destinations
                         ON destinations.id = destination_id
                     WHERE state = 'delivered' AND (url LIKE '%/bad' OR url LIKE '%/stalled'
                                                    OR url LIKE '%/no-tls')";
    assert_eq!(gateway.count(delivered).await, 0);
    gateway.finish().await;
}

/// Mails of two senders by turns; the subject says its number.
async fn send_by_turns(gateway: &TestGateway, numbers: std::ops::Range<usize>) {
    for number in numbers {
        let from = ["alice@good.example", "bob@good.example"][number % 2];
        let letter = letter_between(from, TO[0], &number.to_string());
        let raw = signer().sign(letter.as_bytes()).unwrap();
        assert!(gateway.send(from, &TO, &raw).await.accepted());
    }
}

fn number(request: &Received) -> usize {
    let event: Value = serde_json::from_slice(&request.body).unwrap();
    event["subject"].as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn rooms_keep_their_order_through_failures_and_restarts() {
    // Many retries, soon; no rest.
    let rules = "[schedule]\nwait_seconds = [0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]\njitter_percent = 0\n\
                 [breaker]\nfailures = 1000\n[egress]\nports = []\n";
    let files = [("webhooks.toml", rules)];
    let mut gateway = TestGateway::with_rules(&files).await;
    let clock = || run::system_mint().clock().clone();
    let receiver = Receiver::start(clock()).await.unwrap();
    listen(&gateway, &receiver.url("/ordered"), "incoming", true).await;
    // Each third is refused, some are left without an answer.
    let replies = (0..40).map(|n| match n % 6 {
        1 | 4 => Reply::status(503),
        2 => Reply::hangup(),
        _ => Reply::status(200),
    });
    receiver.script(replies);
    let support = gateway.house.agents["support"].id.get();
    let open = json!({ "mode": "open" });
    let path = format!("/email/inboundPolicy?targetAccountId={support}");
    assert_eq!(gateway.request("PUT", &path, Some(open)).await.0, 200);
    let each = 10;
    send_by_turns(&gateway, 0..each).await;
    receiver.wait_for(3, PATIENCE).await.unwrap();
    gateway.restart_by(&files, clock()).await;
    send_by_turns(&gateway, each..2 * each).await;
    receiver.wait_for(12, PATIENCE).await.unwrap();
    gateway.restart_by(&files, clock()).await;

    let mut seen = 0;
    loop {
        let delivered = "SELECT COUNT(*) FROM deliveries JOIN destinations
                             ON destinations.id = destination_id
                         WHERE ordered = 1 AND state = 'delivered'";
        if gateway.count(delivered).await == 2 * i64::try_from(each).unwrap() {
            break;
        }
        seen = receiver.after(seen, PATIENCE).await.unwrap().len();
    }
    // Attempts of each room come in order: none before the last attempt of the message before.
    for room in 0..2 {
        let numbers: Vec<usize> =
            receiver.received().iter().map(number).filter(|n| n % 2 == room).collect();
        assert!(numbers.is_sorted(), "{numbers:?}");
        assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), each);
    }
    gateway.finish().await;
}
