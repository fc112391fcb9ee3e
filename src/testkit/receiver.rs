//! A webhook receiver on the loopback interface, as a customer would write one.
//!
//! It speaks HTTP/1.1 over a plain socket, so that it can misbehave in ways that no HTTP library
//! offers. It checks signatures with its own code instead of `egress::signature`: a bug there must
//! not cancel itself out here. Used only by `gatepost demo` and tests.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use crate::domain::clock::Clock;

/// Longest life of a connection, whatever the script says.
const CONNECTION: Duration = Duration::from_secs(60);
/// Largest request in bytes.
const MAX_REQUEST: usize = 16 << 20;
/// Largest age of a signed request, past or future, in seconds, as Standard Webhooks recommends.
const TOLERANCE: i64 = 300;

#[derive(Clone, Debug)]
pub struct Received {
    /// The request target: path and query.
    pub path: String,
    /// By lower-case name.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
    /// Signed with a secret known to the receiver at the time, and fresh.
    pub verified: bool,
}

/// A scripted reply.
#[derive(Clone, Debug)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    delay: Duration,
    body: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    Text(String),
    /// This many bytes.
    Huge(usize),
    /// One byte after each pause, forever: of the header section, or of the body.
    DripHead(Duration),
    DripBody(Duration),
    /// The connection ends without a reply.
    Hangup,
}

impl Reply {
    /// Replies with this status.
    pub fn status(status: u16) -> Self {
        let body = Shape::Text(String::new());
        Self { status, headers: Vec::new(), delay: Duration::ZERO, body }
    }

    /// Replies only after `delay`.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Replies with this text.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        Self { body: Shape::Text(text.to_owned()), ..self }
    }

    /// Replies with a body of this many bytes.
    #[must_use]
    pub fn huge(self, octets: usize) -> Self {
        Self { body: Shape::Huge(octets), ..self }
    }

    /// Never finishes the header section; sends one byte after each `pause`.
    #[must_use]
    pub fn drip_head(self, pause: Duration) -> Self {
        Self { body: Shape::DripHead(pause), ..self }
    }

    /// Never finishes the body; sends one byte after each `pause`.
    #[must_use]
    pub fn drip_body(self, pause: Duration) -> Self {
        Self { body: Shape::DripBody(pause), ..self }
    }

    /// Closes the connection without a reply.
    pub fn hangup() -> Self {
        Self { body: Shape::Hangup, ..Self::status(0) }
    }
}

/// Fewer requests came than expected.
#[derive(Debug, thiserror::Error)]
#[error("{got} of {wanted} requests came in time")]
pub struct TooFew {
    pub got: usize,
    pub wanted: usize,
}

/// A running receiver; dropping it closes its socket.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

#[derive(Debug)]
struct Shared {
    clock: Clock,
    state: Mutex<State>,
    count: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct State {
    secrets: Vec<String>,
    script: VecDeque<Reply>,
    otherwise: Option<Reply>,
    received: Vec<Received>,
}

impl Receiver {
    /// Listens on a free port of 127.0.0.1. Replies 200 by default.
    pub async fn start(clock: Clock) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let count = watch::Sender::new(0);
        let shared = Arc::new(Shared { clock, state: Mutex::default(), count });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared))).abort_handle();
        Ok(Self { address, shared, accepting })
    }

    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of `path`, which begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// From now on, verifies requests signed with this secret (`whsec_…`).
    pub fn trust(&self, secret: &str) {
        self.shared.state().secrets.push(secret.to_owned());
    }

    /// Replies to the next requests with these, in order.
    pub fn script(&self, replies: impl IntoIterator<Item = Reply>) {
        self.shared.state().script.extend(replies);
    }

    /// The reply to requests after the end of the script.
    pub fn otherwise(&self, reply: Reply) {
        self.shared.state().otherwise = Some(reply);
    }

    /// All requests so far, oldest first.
    pub fn received(&self) -> Vec<Received> {
        self.shared.state().received.clone()
    }

    /// Waits until at least `wanted` requests have arrived, for at most `deadline`.
    pub async fn wait_for(
        &self,
        wanted: usize,
        deadline: Duration,
    ) -> Result<Vec<Received>, TooFew> {
        self.reach(wanted, deadline).await?;
        Ok(self.received())
    }

    /// Waits until more than `seen` requests have arrived, for at most `deadline`. Returns those
    /// after the first `seen`.
    pub async fn after(&self, seen: usize, deadline: Duration) -> Result<Vec<Received>, TooFew> {
        self.reach(seen + 1, deadline).await?;
        Ok(self.shared.state().received.iter().skip(seen).cloned().collect())
    }

    async fn reach(&self, wanted: usize, deadline: Duration) -> Result<(), TooFew> {
        let mut count = self.shared.count.subscribe();
        // Lock order: an arriving request locks the state, then the count. `wait_for` returns
        // holding the lock of the count, so it is released here before the caller locks the state.
        let reached = timeout(deadline, count.wait_for(|got| *got >= wanted)).await;
        if reached.is_ok_and(|count| count.is_ok()) {
            Ok(())
        } else {
            Err(TooFew { got: *count.borrow(), wanted })
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request and returns the reply to it.
    fn take(&self, mut request: Received) -> Reply {
        let mut state = self.state();
        let now = self.clock.now().seconds();
        request.verified = state.secrets.iter().any(|secret| verifies(secret, &request, now));
        state.received.push(request);
        self.count.send_replace(state.received.len());
        let next = state.script.pop_front().or_else(|| state.otherwise.clone());
        next.unwrap_or_else(|| Reply::status(200))
    }
}

/// Verifies a signature as the specification of Standard Webhooks 1.0 describes.
fn verifies(secret: &str, request: &Received, now: i64) -> bool {
    let header = |name: &str| request.headers.get(name).map(String::as_str);
    let check = || {
        let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap_or(secret)).ok()?;
        let (id, at) = (header("webhook-id")?, header("webhook-timestamp")?);
        let age = now.checked_sub(at.parse().ok()?)?;
        let signed = [id.as_bytes(), b".", at.as_bytes(), b".", &request.body].concat();
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        // `hmac::verify` compares in constant time.
        let genuine = header("webhook-signature")?
            .split(' ')
            .filter_map(|one| STANDARD.decode(one.strip_prefix("v1,")?).ok())
            .any(|tag| hmac::verify(&key, &signed, &tag).is_ok());
        Some(genuine && age.abs() <= TOLERANCE)
    };
    check().unwrap_or(false)
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with this task, together with the connections.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            // A client that leaves early is part of many tests, not an error.
            let _ = timeout(CONNECTION, serve(stream, &shared)).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Serves one request, then closes the connection.
async fn serve(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let request = read(&mut stream).await?;
    let reply = shared.take(request);
    tokio::time::sleep(reply.delay).await;
    let mut head = format!("HTTP/1.1 {} Scripted\r\nconnection: close\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    match reply.body {
        Shape::Hangup => return Ok(()),
        Shape::Text(text) => {
            let answer = format!("{head}content-length: {}\r\n\r\n{text}", text.len());
            stream.write_all(answer.as_bytes()).await?;
        }
        Shape::Huge(octets) => {
            stream.write_all(format!("{head}content-length: {octets}\r\n\r\n").as_bytes()).await?;
            let piece = [b'x'; 8192];
            let mut left = octets;
            while left > 0 {
                let now = left.min(piece.len());
                stream.write_all(piece.get(..now).unwrap_or(&piece)).await?;
                left -= now;
            }
        }
        Shape::DripHead(pause) => {
            stream.write_all(format!("{head}x-drip: ").as_bytes()).await?;
            drip(&mut stream, pause).await?;
        }
        Shape::DripBody(pause) => {
            stream.write_all(format!("{head}\r\n").as_bytes()).await?;
            drip(&mut stream, pause).await?;
        }
    }
    stream.shutdown().await
}

async fn drip(stream: &mut TcpStream, pause: Duration) -> io::Result<()> {
    loop {
        tokio::time::sleep(pause).await;
        stream.write_all(b"x").await?;
    }
}

/// Reads one request with a `content-length`, as our client sends it.
async fn read(stream: &mut TcpStream) -> io::Result<Received> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        more(stream, &mut bytes).await?;
    };
    let head = String::from_utf8_lossy(bytes.get(..head_end).unwrap_or_default()).into_owned();
    let mut lines = head.split("\r\n");
    let path = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut body = bytes.split_off(head_end + 4);
    while body.len() < length {
        more(stream, &mut body).await?;
    }
    Ok(Received { path, headers, body, verified: false })
}

async fn more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> io::Result<()> {
    if bytes.len() > MAX_REQUEST || stream.read_buf(bytes).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::clock::Timestamp;

    fn request(body: &[u8]) -> Received {
        let headers = [
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("webhook-timestamp", "1614265330"),
            ("webhook-signature", "v1a,zz v1,bad v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
        ];
        Received {
            path: "/".into(),
            headers: headers.map(|(name, value)| (name.into(), value.into())).into(),
            body: body.into(),
            verified: false,
        }
    }

    /// The example of the specification's reference libraries.
    #[test]
    fn a_genuine_fresh_request_verifies_and_no_other() {
        let (secret, at) = ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 1_614_265_330);
        let genuine = request(br#"{"test": 2432232314}"#);
        assert!(verifies(secret, &genuine, at));
        assert!(verifies(secret, &genuine, at - TOLERANCE));
        assert!(!verifies(secret, &genuine, at + TOLERANCE + 1));
        assert!(!verifies(secret, &request(b"{}"), at));
        assert!(!verifies("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", &genuine, at));
        let mut unsigned = genuine;
        unsigned.headers.remove("webhook-signature");
        assert!(!verifies(secret, &unsigned, at));
    }

    #[tokio::test]
    async fn a_wait_has_an_end() {
        let receiver = Receiver::start(Clock::new(|| Timestamp::from_millis(0))).await.unwrap();
        let error = receiver.wait_for(1, Duration::from_millis(1)).await.unwrap_err();
        assert_eq!((error.got, error.wanted), (0, 1));
    }
}
