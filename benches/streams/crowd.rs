//! Those who send, and those who follow.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::support::session::Session;
use crate::support::{letter, signer};

/// Octets of a text, of the same few words in another order each time.
const TEXT: usize = 3500;
const WORDS: [&str; 12] = [
    "the", "invoice", "order", "please", "find", "attached", "regards", "meeting", "update",
    "report", "customer", "delivery",
];

/// Messages that are signed, each another one.
pub struct Letters(Arc<Vec<String>>);

impl Letters {
    pub fn write(count: usize) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut pieces = Vec::new();
        std::thread::scope(|scope| {
            let signing: Vec<_> = (0..threads)
                .map(|thread| {
                    scope.spawn(move || {
                        let signer = signer();
                        let own = (thread..count).step_by(threads);
                        own.map(|number| {
                            let raw = letter(&format!("number {number}")) + &text(number);
                            let raw = signer.sign(raw.as_bytes()).unwrap();
                            String::from_utf8(raw).unwrap() + ".\r\n"
                        })
                        .collect::<Vec<_>>()
                    })
                })
                .collect();
            pieces.extend(signing.into_iter().map(|one| one.join().unwrap()));
        });
        Self(Arc::new(pieces.concat()))
    }

    pub fn first(&self, count: usize) -> Vec<String> {
        self.0[..count].to_vec()
    }

    pub fn behind(&self, count: usize) -> Vec<String> {
        self.0[count..].to_vec()
    }
}

/// No two words of a phrase that is looked for follow each other but by chance.
fn text(number: usize) -> String {
    let (mut text, mut state) = (String::new(), number.wrapping_mul(2_654_435_761) | 1);
    while text.len() < TEXT {
        for _ in 0..10 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            text.push_str(WORDS[(state >> 33) % WORDS.len()]);
            text.push(if text.len() % 70 > 60 { '.' } else { ' ' });
        }
        text.push_str("\r\n");
    }
    text
}

/// Sends all of them in so many sessions that stay open; answers how long each waited for its 250.
pub async fn send(server: SocketAddr, letters: Vec<String>, sessions: usize) -> Vec<Duration> {
    let letters = Arc::new(letters);
    let mut running = JoinSet::new();
    for session in 0..sessions {
        let letters = Arc::clone(&letters);
        running.spawn(async move {
            let mut client = Session::idle(server).await;
            let mut waits = Vec::new();
            for raw in letters.iter().skip(session).step_by(sessions) {
                for line in ["MAIL FROM:<alice@good.example>", "RCPT TO:<support@agents.example>"] {
                    let reply = client.say(line).await;
                    assert!(reply.starts_with("250"), "{line}: {reply}");
                }
                let reply = client.say("DATA").await;
                assert!(reply.starts_with("354"), "{reply}");
                let asked = Instant::now();
                client.send(raw).await;
                client.expect("250").await;
                waits.push(asked.elapsed());
            }
            waits
        });
    }
    running.join_all().await.concat()
}

/// Those who follow, until they are dropped.
pub struct Readers {
    octets: Arc<AtomicU64>,
    _reading: JoinSet<()>,
}

impl Readers {
    /// So many, of whom `of_one` have one key.
    pub async fn gather(server: SocketAddr, keys: &[String], many: usize, of_one: usize) -> Self {
        let (octets, mut reading) = (Arc::new(AtomicU64::new(0)), JoinSet::new());
        for number in 0..many {
            let mut stream = TcpStream::connect(server).await.unwrap();
            let request = format!(
                "GET /api/v2/events?token={} HTTP/1.1\r\nHost: h\r\nAccept: text/event-stream\r\n\r\n",
                keys[number / of_one]
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut piece = vec![0; 1 << 16];
            let read = stream.read(&mut piece).await.unwrap();
            let head = String::from_utf8_lossy(&piece[..read]);
            assert!(head.starts_with("HTTP/1.1 200"), "{head}");
            let octets = Arc::clone(&octets);
            reading.spawn(async move {
                while let Ok(read @ 1..) = stream.read(&mut piece).await {
                    octets.fetch_add(u64::try_from(read).unwrap(), Ordering::Relaxed);
                }
            });
        }
        Self { octets, _reading: reading }
    }

    /// What they have read, all of them.
    pub fn octets(&self) -> u64 {
        self.octets.load(Ordering::Relaxed)
    }
}
