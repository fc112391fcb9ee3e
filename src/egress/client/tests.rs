use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest::header::HeaderValue;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::domain::clock::{Clock, Timestamp};
use crate::rules::Rules;
use crate::testkit::receiver::{Receiver, Reply};

const SOON: Duration = Duration::from_secs(10);

fn limits() -> Limits {
    Limits { timeout: SOON, connect_timeout: SOON, max_response_bytes: 65_536 }
}

fn client(allowed: &[&str], limits: Limits, lookup: Lookup) -> Client {
    let allowed = allowed.iter().map(|network| network.parse().unwrap()).collect();
    let guard = Guard::new(allowed, &Rules::defaults().unwrap().webhooks);
    Client::new(guard, limits, lookup).unwrap()
}

fn loopback(limits: Limits) -> Client {
    client(&["127.0.0.0/8"], limits, answers(&["127.0.0.1"]))
}

/// A look-up that always returns these addresses.
fn answers(addresses: &[&str]) -> Lookup {
    let addresses: Vec<IpAddr> = addresses.iter().map(|text| text.parse().unwrap()).collect();
    Lookup::new(move |_| {
        let addresses = addresses.clone();
        async move { Ok(addresses) }
    })
}

async fn receiver() -> Receiver {
    Receiver::start(Clock::new(|| Timestamp::from_millis(0))).await.unwrap()
}

async fn post(client: &Client, url: &str) -> Result<Response, EgressError> {
    let mut headers = HeaderMap::new();
    headers.insert("x-test", HeaderValue::from_static("yes"));
    client
        .post(&url.parse().unwrap(), headers, Bytes::from_static(b"{}"), AfterResponse::Close)
        .await
}

async fn post_on(client: &Client, url: &str) -> Result<Response, EgressError> {
    let url = url.parse().unwrap();
    let answer = client.post(&url, HeaderMap::new(), Bytes::new(), AfterResponse::Keep).await;
    // Lets the connection return to the pool.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    answer
}

#[tokio::test]
async fn a_post_arrives_as_it_was_given_and_its_answer_comes_back() {
    let receiver = receiver().await;
    receiver.script([Reply::status(202).text("thanks")]);
    let answer = post(&loopback(limits()), &receiver.url("/a?b=c")).await.unwrap();
    assert_eq!(answer, Response { status: 202, retry_after: None, body: b"thanks".to_vec() });
    let [request] = receiver.received().try_into().unwrap();
    assert_eq!((request.path.as_str(), request.body.as_slice()), ("/a?b=c", b"{}".as_slice()));
    let names: Vec<_> = request.headers.keys().map(String::as_str).collect();
    // No cookies, no referrer, no Accept-Encoding.
    assert_eq!(names, ["accept", "content-length", "host", "x-gatepost-loop", "x-test"]);
}

#[tokio::test]
async fn a_name_in_the_operators_network_is_reached_by_plain_http() {
    let receiver = receiver().await;
    let url = format!("http://receiver.example:{}/", receiver.address().port());
    assert_eq!(post(&loopback(limits()), &url).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (receiver, second) = (receiver().await, receiver().await);
    for status in [301, 302, 303, 307, 308] {
        receiver.script([Reply::status(status).header("location", &second.url("/"))]);
        let answer = post(&loopback(limits()), &receiver.url("/")).await.unwrap();
        assert_eq!(answer.status, status);
    }
    assert_eq!(second.received().len(), 0);
}

#[tokio::test]
async fn names_that_lead_to_private_addresses_are_refused() {
    let target = receiver().await;
    let port = target.address().port();
    for addresses in [
        &["127.0.0.1"][..],
        &["8.8.8.8", "127.0.0.1"],
        &["::1"],
        &["2600::1", "::ffff:127.0.0.1"],
        &["169.254.169.254"],
    ] {
        let client = client(&[], limits(), answers(addresses));
        let refused = post(&client, "https://hooks.example/").await.unwrap_err();
        // The one that is forbidden, whatever stands beside it.
        let address = addresses.last().unwrap().parse().unwrap();
        let expected = EgressError::PrivateAddress { address, reach: Reach::Public, of_name: true };
        assert_eq!(refused, expected, "{addresses:?}");
        assert!(
            refused.to_string().contains(&format!("resolves to {address}, which is not public"))
        );
    }
    // Plain http reaches the operator's networks and nothing else.
    let client = client(&["10.0.0.0/8"], limits(), answers(&["8.8.8.8"]));
    for url in ["http://hooks.example/", "https://hooks.example:22/"] {
        let refused = post(&client, url).await.unwrap_err().to_string();
        let words = "resolves to 8.8.8.8, which --egress-allow does not cover: plain http";
        assert!(refused.contains(words), "{url}: {refused}");
    }
    for (url, reach, address) in [
        (format!("http://127.0.0.1:{port}/"), Reach::OperatorOnly, [127, 0, 0, 1].into()),
        (format!("https://127.0.0.1:{port}/"), Reach::OperatorOnly, [127, 0, 0, 1].into()),
        ("https://127.0.0.1/".to_owned(), Reach::Public, [127, 0, 0, 1].into()),
        ("https://[::1]/".to_owned(), Reach::Public, Ipv6Addr::LOCALHOST.into()),
        ("https://0x7f.1/".to_owned(), Reach::Public, [127, 0, 0, 1].into()),
    ] {
        let expected = EgressError::PrivateAddress { address, reach, of_name: false };
        assert!(expected.to_string().starts_with(&format!("the host of the URL is {address}, ")));
        assert_eq!(post(&client, &url).await.unwrap_err(), expected, "{url}");
    }
    assert_eq!(target.received().len(), 0);
}

/// DNS rebinding: the first look-up is honest, the second is not. A request looks up only once per
/// connection, and each request is checked anew.
#[tokio::test]
async fn a_name_that_turns_private_later_is_refused() {
    let target = receiver().await;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let lookup = Lookup::new(move |_| {
        let first = count.fetch_add(1, Ordering::SeqCst) == 0;
        // In the operator's networks, so that the first connection can be made.
        let address = if first { [127, 0, 0, 1] } else { [127, 9, 9, 9] };
        async move { Ok(vec![IpAddr::from(address)]) }
    });
    let client = client(&["127.0.0.1/32"], limits(), lookup);
    let url = format!("http://rebind.example:{}/", target.address().port());
    assert_eq!(post(&client, &url).await.unwrap().status, 200);
    let (address, reach) = (IpAddr::from([127, 9, 9, 9]), Reach::OperatorOnly);
    let expected = EgressError::PrivateAddress { address, reach, of_name: true };
    assert_eq!(post(&client, &url).await.unwrap_err(), expected);
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    assert_eq!(target.received().len(), 1);
}

#[tokio::test]
async fn a_look_up_that_fails_or_finds_nothing_is_no_address() {
    let failing = Lookup::new(|_| async { Err(io::Error::other("secret detail")) });
    for lookup in [failing, answers(&[])] {
        let error = post(&client(&[], limits(), lookup), "https://hooks.example/").await;
        assert_eq!(error.unwrap_err(), EgressError::Lookup);
    }
}

#[tokio::test]
async fn a_huge_answer_is_cut() {
    let receiver = receiver().await;
    receiver.script([Reply::status(200).huge(1 << 30)]);
    let answer = post(&loopback(limits()), &receiver.url("/")).await.unwrap();
    assert_eq!((answer.status, answer.body.len()), (200, 65_536));
}

#[tokio::test]
async fn a_dripping_answer_is_cut_by_the_timeout() {
    let receiver = receiver().await;
    let pause = Duration::from_millis(20);
    receiver.script([Reply::status(200).drip_head(pause), Reply::status(503).drip_body(pause)]);
    let within = |timeout| loopback(Limits { timeout, ..limits() });
    let client = within(Duration::from_millis(500));
    assert_eq!(post(&client, &receiver.url("/")).await.unwrap_err(), EgressError::Timeout);
    // The head comes in time, however busy the machine is.
    let client = within(Duration::from_millis(1500));
    let answer = post(&client, &receiver.url("/")).await.unwrap();
    assert_eq!(answer.status, 503);
    assert!(answer.body.len() < 100, "{}", answer.body.len());
}

#[tokio::test]
async fn an_exchange_is_whole_or_none() {
    let receiver = receiver().await;
    let pause = Duration::from_millis(20);
    receiver.script([
        Reply::status(404).header("x-test", "yes").header("retry-after", "7").text("all of it"),
        Reply::status(200).huge(65_537),
        Reply::status(200).drip_body(pause),
    ]);
    let (patient, hurried) = (loopback(limits()), Duration::from_millis(500));
    let hurried = loopback(Limits { timeout: hurried, ..limits() });
    let url = receiver.url("/").parse().unwrap();
    let exchange = async |client: &Client| {
        client.exchange(Method::POST, &url, HeaderMap::new(), Bytes::from("{}")).await
    };
    let answer = exchange(&patient).await.unwrap();
    assert_eq!((answer.status, answer.body.as_slice()), (404, b"all of it".as_slice()));
    assert_eq!(answer.headers["x-test"], "yes");
    assert_eq!(answer.retry_after, Some(Duration::from_secs(7)));
    assert_eq!(exchange(&patient).await.unwrap_err(), EgressError::TooLong);
    assert_eq!(exchange(&hurried).await.unwrap_err(), EgressError::Timeout);
}

#[test]
fn a_file_without_a_certificate_is_no_root() {
    for text in ["", "what is this?"] {
        assert!(Roots::from_pem(text.as_bytes()).is_none(), "{text:?}");
    }
}

#[tokio::test]
async fn a_slow_look_up_counts_against_the_connection() {
    let never = Lookup::new(|_| std::future::pending());
    let short = Limits { connect_timeout: Duration::from_millis(50), ..limits() };
    let error = post(&client(&[], short, never), "https://hooks.example/").await.unwrap_err();
    assert_eq!(error, EgressError::ConnectTimeout);
}

#[tokio::test]
async fn failures_are_told_apart() {
    let receiver = receiver().await;
    receiver.script([Reply::hangup()]);
    let client = loopback(limits());
    assert_eq!(post(&client, &receiver.url("/")).await.unwrap_err(), EgressError::Broken);
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", closed.local_addr().unwrap());
    drop(closed);
    let refused = post(&client, &url).await.unwrap_err();
    assert_eq!(refused, EgressError::Connect);
    assert_eq!(
        refused.to_string(),
        "no connection could be made: check that the receiver runs, and its firewall"
    );
}

#[tokio::test]
async fn https_never_falls_back_to_plain_text() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let speaks_plainly = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let mut heard = Vec::new();
        // Fails if the client disconnects abruptly; only the bytes read count.
        let _ = stream.read_to_end(&mut heard).await;
        heard
    });
    assert_eq!(post(&loopback(limits()), &url).await.unwrap_err(), EgressError::NotTls);
    let heard = speaks_plainly.await.unwrap();
    // A TLS handshake record (RFC 8446 §5.1), and no request.
    assert_eq!(heard.first(), Some(&22));
    assert!(!heard.windows(4).any(|window| window == b"POST"));
}

#[test]
fn retry_after_is_seconds_or_a_date() {
    let date = "Wed, 21 Oct 2026 07:28:00 GMT";
    for (asked, date, expected) in [
        ("120", None, Some(120)),
        (" 0 ", None, Some(0)),
        ("-1", None, None),
        ("soon", None, None),
        ("99999999999999999999", None, None),
        ("Wed, 21 Oct 2026 07:29:30 GMT", Some(date), Some(90)),
        ("Wed, 21 Oct 2026 07:00:00 GMT", Some(date), Some(0)),
        ("Wed, 21 Oct 2026 07:29:30 GMT", None, None),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_static(asked));
        if let Some(date) = date {
            headers.insert(DATE, HeaderValue::from_static(date));
        }
        assert_eq!(retry_after(&headers), expected.map(Duration::from_secs), "{asked}");
    }
}

/// Responds with 204 to every request on lasting connections; counts connections and requests.
async fn lasting() -> (SocketAddr, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (connections, requests) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let (counted, answered) = (Arc::clone(&connections), Arc::clone(&requests));
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            let answered = Arc::clone(&answered);
            tokio::spawn(async move {
                let mut head = Vec::new();
                while let Ok(octet) = socket.read_u8().await {
                    head.push(octet);
                    if head.ends_with(b"\r\n\r\n") {
                        answered.fetch_add(1, Ordering::SeqCst);
                        let _ = socket.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await;
                        head.clear();
                    }
                }
            });
        }
    });
    (address, connections, requests)
}

#[tokio::test]
async fn a_connection_is_kept_for_what_follows_and_for_nothing_else() {
    let (address, connections, requests) = lasting().await;
    let (client, url) = (loopback(limits()), format!("http://kept.example:{}/", address.port()));
    for _ in 0..3 {
        assert_eq!(post_on(&client, &url).await.unwrap().status, 204);
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1);
    // A request after which none follows opens its own connection.
    assert_eq!(post(&client, &url).await.unwrap().status, 204);
    assert_eq!(connections.load(Ordering::SeqCst), 2);
    // No connection lasts forever.
    for _ in 3..=REQUESTS_PER_CONNECTION {
        assert_eq!(post_on(&client, &url).await.unwrap().status, 204);
    }
    assert_eq!(connections.load(Ordering::SeqCst), 3);
    assert_eq!(
        requests.load(Ordering::SeqCst),
        usize::try_from(REQUESTS_PER_CONNECTION).unwrap() + 2
    );
}

#[tokio::test]
async fn a_connection_that_its_server_ends_unseen_fails_no_attempt() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://kept.example:{}/", listener.local_addr().unwrap().port());
    let server = tokio::spawn(async move {
        let mut heads = 0;
        for answers in [1, 1] {
            let (socket, _) = listener.accept().await.unwrap();
            let mut socket = tokio::io::BufReader::new(socket);
            let mut answered = 0;
            let mut line = String::new();
            // Also reads the head of the next request, then closes the connection.
            while tokio::io::AsyncBufReadExt::read_line(&mut socket, &mut line).await.unwrap() > 0 {
                let ends = line == "\r\n";
                line.clear();
                if ends {
                    heads += 1;
                    if answered == answers {
                        break;
                    }
                    answered += 1;
                    socket.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
                }
            }
        }
        heads
    });
    let client = loopback(limits());
    for _ in 0..2 {
        assert_eq!(post_on(&client, &url).await.unwrap().status, 204);
    }
    drop(client);
    assert_eq!(server.await.unwrap(), 3);
}

#[tokio::test]
async fn connections_are_kept_to_some_hosts_and_closed_behind_others() {
    let client = loopback(limits());
    let host = |number| format!("https://h{number}.example/").parse().unwrap();
    for number in 0..KEPT_HOSTS {
        assert_eq!(client.next_number(&host(number)), Some(1));
    }
    assert_eq!(client.next_number(&host(KEPT_HOSTS)), None);
    assert_eq!(client.next_number(&host(0)), Some(2));
    let long_ago = Instant::now().checked_sub(2 * KEPT).unwrap();
    client.kept_hosts.lock().unwrap().values_mut().for_each(|host| host.last_request = long_ago);
    assert_eq!(client.next_number(&host(KEPT_HOSTS)), Some(1));
    assert_eq!(client.kept_hosts.lock().unwrap().len(), 1);
}

/// Even though the kept connection still leads to the old address.
#[tokio::test]
async fn over_a_kept_connection_a_name_that_turns_private_is_refused_and_one_that_is_lost() {
    let (address, connections, requests) = lasting().await;
    let asked = Arc::new(AtomicUsize::new(0));
    let lookup = Lookup::new(move |_| {
        // The first request looks up twice: before it, and to connect.
        let found = match asked.fetch_add(1, Ordering::SeqCst) {
            0..=2 => Ok(vec![IpAddr::from([127, 0, 0, 1])]),
            3 => Ok(vec![[127, 0, 0, 1].into(), [127, 9, 9, 9].into()]),
            _ => Err(io::Error::other("gone")),
        };
        async move { found }
    });
    let client = client(&["127.0.0.1/32"], limits(), lookup);
    let url = format!("http://rebind.example:{}/", address.port());
    for _ in 0..2 {
        assert_eq!(post_on(&client, &url).await.unwrap().status, 204);
    }
    let (address, reach) = (IpAddr::from([127, 9, 9, 9]), Reach::OperatorOnly);
    let expected = EgressError::PrivateAddress { address, reach, of_name: true };
    assert_eq!(post_on(&client, &url).await.unwrap_err(), expected);
    assert_eq!(post_on(&client, &url).await.unwrap_err(), EgressError::Lookup);
    assert_eq!((connections.load(Ordering::SeqCst), requests.load(Ordering::SeqCst)), (1, 2));
}
