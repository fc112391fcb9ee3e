//! Senders as there are many: each message goes to whichever gateway is up, again and again, until
//! one has acknowledged it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gatepost::testkit::signer::Signer;
use gatepost::testkit::smtp_client::{Transaction, deliver};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{PATIENCE, letter_between, signer};

/// So many senders have a mailbox of their own: few enough that several gateways meet the same new
/// contact at the same time.
const MAILBOXES: usize = 7;

/// Rules under which what a dead server had claimed comes back soon, and a receiver that was slow
/// for once is asked again soon.
pub const HASTE: (&str, &str) = (
    "webhooks.toml",
    "[schedule]\nwait_seconds = [0, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n\
     [attempt]\ntimeout_seconds = 5\n[dispatcher]\nlease_seconds = 6\n",
);

/// Messages on their way.
pub struct Mailers {
    shared: Arc<Shared>,
    senders: JoinSet<()>,
}

struct Shared {
    signer: Signer,
    next: AtomicUsize,
    /// Those that are up.
    gateways: watch::Sender<Vec<SocketAddr>>,
    acknowledged: watch::Sender<usize>,
    /// By message: how often the sender did not learn, or was told 4xx after it had sent
    /// everything, and so cannot know whether the message is stored.
    in_doubt: Vec<AtomicUsize>,
}

/// The subject by which a message is found again.
pub fn subject(number: usize) -> String {
    format!("message {number}")
}

impl Mailers {
    /// Sends so many messages in so many sessions at a time, once a gateway has come up.
    pub fn start(messages: usize, sessions: usize) -> Self {
        let shared = Arc::new(Shared {
            signer: signer(),
            next: AtomicUsize::new(0),
            gateways: watch::Sender::new(Vec::new()),
            acknowledged: watch::Sender::new(0),
            in_doubt: (0..messages).map(|_| AtomicUsize::new(0)).collect(),
        });
        let mut senders = JoinSet::new();
        for _ in 0..sessions {
            let shared = Arc::clone(&shared);
            senders.spawn(async move { shared.send_all().await });
        }
        Self { shared, senders }
    }

    /// A gateway is up.
    pub fn arrived(&self, smtp: SocketAddr) {
        self.shared.gateways.send_modify(|up| up.push(smtp));
    }

    /// A gateway is about to go down.
    pub fn left(&self, smtp: SocketAddr) {
        self.shared.gateways.send_modify(|up| up.retain(|one| *one != smtp));
    }

    /// Waits until so many messages have been acknowledged.
    pub async fn reach(&self, wanted: usize) {
        let mut acknowledged = self.shared.acknowledged.subscribe();
        // A sender that failed would otherwise be waited for in silence.
        let reached = timeout(PATIENCE, acknowledged.wait_for(|count| *count >= wanted)).await;
        assert!(reached.is_ok(), "{wanted} messages were not acknowledged in time");
    }

    /// Waits until all messages have been acknowledged; answers for each how often its sender was
    /// left in doubt.
    pub async fn finish(mut self) -> Vec<usize> {
        self.reach(self.shared.in_doubt.len()).await;
        while let Some(done) = self.senders.join_next().await {
            done.unwrap();
        }
        self.shared.in_doubt.iter().map(|times| times.load(Ordering::SeqCst)).collect()
    }
}

impl Shared {
    /// Takes the next message until there is none.
    async fn send_all(&self) {
        loop {
            let number = self.next.fetch_add(1, Ordering::SeqCst);
            if number >= self.in_doubt.len() {
                return;
            }
            self.send(number).await;
            self.acknowledged.send_modify(|count| *count += 1);
        }
    }

    async fn send(&self, number: usize) {
        let from = match number % MAILBOXES {
            0 => "alice@good.example".to_owned(),
            mailbox => format!("sender{mailbox}@good.example"),
        };
        // Whom the allowlist does not know writes to the Agent that is open.
        let to = if from.starts_with("alice") { "support" } else { "open" };
        let to = [format!("{to}@agents.example")];
        let text = letter_between(&from, &to[0], &subject(number));
        let raw = self.signer.sign(text.as_bytes()).unwrap();
        let transaction = Transaction { helo: "client.example", from: &from, to: &to, raw: &raw };
        for turn in number.. {
            let delivered = deliver(self.gateway(turn).await, &transaction).await;
            // A connection that broke tells nothing: the message may be stored or not.
            let sent = delivered.as_ref().map_or(true, |replies| replies.data.is_some());
            match delivered {
                Ok(replies) if replies.accepted() => return,
                Ok(replies) => {
                    let reply = replies.settling();
                    assert!(reply.starts_with('4'), "refused for good: {reply}");
                }
                Err(_) => {}
            }
            self.in_doubt[number].fetch_add(usize::from(sent), Ordering::SeqCst);
        }
    }

    /// One of the gateways that are up: each turn another one.
    async fn gateway(&self, turn: usize) -> SocketAddr {
        let mut gateways = self.gateways.subscribe();
        let up = gateways.wait_for(|up| !up.is_empty()).await.unwrap();
        up[turn % up.len()]
    }
}
