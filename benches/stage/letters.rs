//! Signed messages and their senders.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gatepost::testkit::smtp_client::{Transaction, deliver};
use tokio::task::JoinSet;

use super::waits::Waits;
use crate::support::session::Session;
use crate::support::{letter_between, signer};

/// The Agent that takes mail from anybody who is authenticated.
const TO: &str = "open@agents.example";
/// Number of different senders.
const SENDERS: usize = 2000;
const WORDS: &[&str] = &[
    "the", "invoice", "order", "please", "find", "attached", "regards", "meeting", "update",
    "report", "customer", "delivery",
];
const SYLLABLES: &[&str] = &[
    "ba", "de", "fi", "go", "ku", "la", "me", "ni", "po", "ru", "sa", "te", "vi", "wo", "zu", "ran",
];

/// Messages, all different.
#[derive(Clone)]
pub struct Letters(Arc<Vec<Letter>>);

struct Letter {
    from: String,
    raw: Vec<u8>,
}

impl Letters {
    /// Writes messages with texts of so many bytes: half of each text is the same few words in
    /// another order, half is words that rarely repeat, so that it compresses as prose does.
    pub fn write(count: usize, octets: usize) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut pieces = Vec::new();
        std::thread::scope(|scope| {
            let write = |thread: usize| {
                let signer = signer();
                let own = (thread..count).step_by(threads);
                let letter = |number: usize| {
                    let from = format!("alice{}@good.example", number % SENDERS);
                    let raw = letter_between(&from, TO, &format!("number {number}"));
                    let raw = raw + &text(number, octets);
                    Letter { from, raw: signer.sign(raw.as_bytes()).unwrap() }
                };
                own.map(letter).collect::<Vec<_>>()
            };
            let signing: Vec<_> =
                (0..threads).map(|thread| scope.spawn(move || write(thread))).collect();
            pieces.extend(signing.into_iter().flat_map(|one| one.join().unwrap()));
        });
        Self(Arc::new(pieces))
    }
}

/// Alternates common words with invented ones, so that a phrase of common words never occurs.
fn text(number: usize, octets: usize) -> String {
    let (mut text, mut state) = (String::new(), number.wrapping_mul(2_654_435_761) | 1);
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        state >> 33
    };
    while text.len() < octets {
        for place in 0..10 {
            match place % 2 {
                0 => text.push_str(WORDS[random() % WORDS.len()]),
                _ => (0..3).for_each(|_| text.push_str(SYLLABLES[random() % SYLLABLES.len()])),
            }
            text.push(if text.len() % 70 > 60 { '.' } else { ' ' });
        }
        text.push_str("\r\n");
    }
    text
}

/// Sends those in `range`, in so many sessions that stay open or in a session each; returns the
/// time from each message to its 250.
pub async fn send(
    server: SocketAddr,
    letters: &Letters,
    range: std::ops::Range<usize>,
    (sessions, stays): (usize, bool),
) -> Waits {
    let mut running = JoinSet::new();
    for session in 0..sessions {
        let (letters, own) = (letters.clone(), range.clone().skip(session).step_by(sessions));
        running.spawn(async move {
            let mut waits = Vec::new();
            let mut client = if stays { Some(Session::idle(server).await) } else { None };
            for number in own {
                let Letter { from, raw } = &letters.0[number];
                waits.push(match &mut client {
                    Some(client) => say(client, from, raw).await,
                    None => connect(server, from, raw).await,
                });
            }
            waits
        });
    }
    Waits::new(running.join_all().await.concat())
}

/// Time from the message to its reply.
async fn say(client: &mut Session, from: &str, raw: &[u8]) -> Duration {
    for line in [format!("MAIL FROM:<{from}>"), format!("RCPT TO:<{TO}>")] {
        let reply = client.say(&line).await;
        assert!(reply.starts_with("250"), "{line}: {reply}");
    }
    let reply = client.say("DATA").await;
    assert!(reply.starts_with("354"), "{reply}");
    let asked = Instant::now();
    client.send(&format!("{}.\r\n", std::str::from_utf8(raw).unwrap())).await;
    client.expect("250").await;
    asked.elapsed()
}

/// Time from the connection to the last reply.
async fn connect(server: SocketAddr, from: &str, raw: &[u8]) -> Duration {
    let to = [TO.to_owned()];
    let asked = Instant::now();
    let transaction = Transaction { helo: "client.example", from, to: &to, raw };
    let replies = deliver(server, &transaction).await.unwrap();
    assert!(replies.accepted(), "{replies:?}");
    asked.elapsed()
}
