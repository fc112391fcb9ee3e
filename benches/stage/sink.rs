//! A receiver that answers 200 as fast as it can, and remembers when it first heard of each subject.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
/// As JSON has it in an event, before the text of the subject.
const SUBJECT: &[u8] = b"\"subject\":\"";

#[derive(Clone)]
pub struct Sink {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    count: AtomicUsize,
    told: watch::Sender<usize>,
    first: Mutex<HashMap<String, Instant>>,
}

impl Sink {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            count: AtomicUsize::new(0),
            told: watch::Sender::new(0),
            first: Mutex::default(),
        });
        let kept = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&kept);
                tokio::spawn(async move {
                    // An error means that the server of a finished measurement has gone.
                    let _gone = shared.serve(stream).await;
                });
            }
        });
        Self { address, shared }
    }

    pub fn urls(&self, count: usize) -> Vec<String> {
        (0..count).map(|number| format!("http://{}/{number}", self.address)).collect()
    }

    pub fn count(&self) -> usize {
        self.shared.count.load(Ordering::Relaxed)
    }

    pub async fn reach(&self, wanted: usize, patience: Duration) {
        let mut told = self.shared.told.subscribe();
        let reached = timeout(patience, told.wait_for(|count| *count >= wanted)).await;
        let got = self.count();
        assert!(reached.is_ok(), "{got} of {wanted} came in {patience:?}");
    }

    pub fn subjects(&self) -> HashMap<String, Instant> {
        self.shared.first.lock().unwrap().clone()
    }
}

impl Shared {
    async fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut request = Vec::with_capacity(8192);
        while !is_whole(&request) {
            if stream.read_buf(&mut request).await? == 0 {
                return Ok(());
            }
        }
        let now = Instant::now();
        if let Some(subject) = subject(&request) {
            self.first.lock().unwrap().entry(subject).or_insert(now);
        }
        stream.write_all(ANSWER).await?;
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        self.told.send_if_modified(|told| {
            let more = count > *told;
            *told = count.max(*told);
            more
        });
        stream.shutdown().await
    }
}

/// Whether the head has come, and behind it as much as its `Content-Length` says.
fn is_whole(request: &[u8]) -> bool {
    let Some(head) = request.windows(4).position(|octets| octets == b"\r\n\r\n") else {
        return false;
    };
    let text = String::from_utf8_lossy(&request[..head]).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:")).unwrap();
    request.len() - head - 4 >= length.trim().parse::<usize>().unwrap()
}

fn subject(request: &[u8]) -> Option<String> {
    let at = request.windows(SUBJECT.len()).position(|window| window == SUBJECT)?;
    let rest = &request[at + SUBJECT.len()..];
    let end = rest.iter().position(|octet| *octet == b'"')?;
    Some(String::from_utf8_lossy(&rest[..end]).into_owned())
}
