//! Senders as there are many: each message goes to whichever gateway is up, again and again, until
//! one has acknowledged it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gatepost::testkit::signer::Signer;
use gatepost::testkit::smtp_client::{Transaction, deliver};
use tokio::join;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use super::{PATIENCE, letter_between, signer};

/// So many senders have a mailbox of their own: few enough that several gateways meet the same new
/// contact at the same time.
const MAILBOXES: usize = 7;

/// One of so many messages comes on two connections at the same moment, as from two servers of its
/// sender.
const TWICE_EVERY: usize = 10;

/// One of so many messages has some 5,000 octets.
const LONG_EVERY: usize = 4;

/// Rules under which what a dead server had claimed comes back soon, and a receiver that was slow
/// for once is asked again soon.
pub const HASTE: (&str, &str) = (
    "webhooks.toml",
    "[schedule]\nwait_seconds = [0, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n\
     [attempt]\ntimeout_seconds = 5\n[dispatcher]\nlease_seconds = 6\n",
);

/// Rules under which so few senders may send as much as they can.
pub const NO_RATES: (&str, &str) =
    ("intake.toml", "[rates]\nsender_messages_per_minute = 0\nroom_messages_per_minute = 0\n");

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
    /// When each was acknowledged; one that was sent twice, each time.
    times: Mutex<Vec<Instant>>,
    /// A session makes one attempt in this time at most; as many as it can if it is zero.
    pace: Duration,
    is_ending: AtomicBool,
    /// By message: how often it may have been taken in besides the time that settled it: the
    /// sender did not learn, was told 4xx after it had sent everything, or sent it twice.
    in_doubt: Vec<AtomicUsize>,
}

/// The subject by which a message is found again.
pub fn subject(number: usize) -> String {
    format!("message {number}")
}

impl Mailers {
    /// Sends so many messages in so many sessions at a time, once a gateway has come up.
    pub fn start(messages: usize, sessions: usize) -> Self {
        Self::start_paced(messages, sessions, Duration::ZERO)
    }

    /// Sends at this pace: each session makes one attempt in this time at most.
    pub fn start_paced(messages: usize, sessions: usize, pace: Duration) -> Self {
        let shared = Arc::new(Shared {
            signer: signer(),
            next: AtomicUsize::new(0),
            gateways: watch::Sender::new(Vec::new()),
            acknowledged: watch::Sender::new(0),
            times: Mutex::default(),
            pace,
            is_ending: AtomicBool::new(false),
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
        self.reach_within(wanted, PATIENCE).await;
    }

    /// Waits for so many, longer than others do.
    pub async fn reach_within(&self, wanted: usize, patience: Duration) {
        let mut acknowledged = self.shared.acknowledged.subscribe();
        // A sender that failed would otherwise be waited for in silence.
        let reached = timeout(patience, acknowledged.wait_for(|count| *count >= wanted)).await;
        assert!(reached.is_ok(), "{wanted} messages were not acknowledged in time");
    }

    /// How many messages have been acknowledged.
    pub fn acknowledged(&self) -> usize {
        *self.shared.acknowledged.borrow()
    }

    /// From `since` to the end of the longest time without an acknowledgement after it.
    pub fn outage(&self, since: Instant) -> Duration {
        let times = self.shared.times.lock().unwrap();
        let later = times.iter().copied().filter(|at| *at > since);
        let (mut before, mut longest, mut end) = (since, Duration::ZERO, since);
        for at in later {
            if at - before > longest {
                (longest, end) = (at - before, at);
            }
            before = at;
        }
        end - since
    }

    /// Begins no further message, and waits until those under way have been acknowledged; answers
    /// for each how often it may have been taken in besides.
    pub async fn stop(mut self) -> Vec<usize> {
        self.shared.is_ending.store(true, Ordering::SeqCst);
        let ended = async {
            while let Some(done) = self.senders.join_next().await {
                done.unwrap();
            }
        };
        timeout(3 * PATIENCE, ended)
            .await
            .expect("messages under way were not acknowledged in time");
        let sent = self.acknowledged();
        let in_doubt = self.shared.in_doubt.iter().take(sent);
        in_doubt.map(|times| times.load(Ordering::SeqCst)).collect()
    }

    /// Waits until all messages have been acknowledged; answers for each how often it may have been
    /// taken in besides.
    pub async fn finish(mut self) -> Vec<usize> {
        self.reach(self.shared.in_doubt.len()).await;
        while let Some(done) = self.senders.join_next().await {
            done.unwrap();
        }
        self.shared.in_doubt.iter().map(|times| times.load(Ordering::SeqCst)).collect()
    }
}

/// When a session may make its next attempt.
struct Pace(Option<Interval>);

impl Pace {
    fn of(pace: Duration) -> Self {
        Self((!pace.is_zero()).then(|| {
            let mut interval = interval(pace);
            // An attempt that took long is not made up for by a burst.
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            interval
        }))
    }

    async fn tick(&mut self) {
        if let Some(interval) = &mut self.0 {
            interval.tick().await;
        }
    }
}

impl Shared {
    /// Takes the next message until there is none.
    async fn send_all(&self) {
        let mut pace = Pace::of(self.pace);
        while !self.is_ending.load(Ordering::SeqCst) {
            let number = self.next.fetch_add(1, Ordering::SeqCst);
            if number >= self.in_doubt.len() {
                return;
            }
            self.send(number, &mut pace).await;
            self.acknowledged.send_modify(|count| *count += 1);
        }
    }

    async fn send(&self, number: usize, pace: &mut Pace) {
        let from = match number % MAILBOXES {
            0 => "alice@good.example".to_owned(),
            mailbox => format!("sender{mailbox}@good.example"),
        };
        // Senders outside the allowlist write to the open Agent.
        let to = if from.starts_with("alice") { "support" } else { "open" };
        let to = [format!("{to}@agents.example")];
        let mut text = letter_between(&from, &to[0], &subject(number));
        if number.is_multiple_of(LONG_EVERY) {
            text.push_str(&"A line of a long letter.\r\n".repeat(200));
        }
        let raw = self.signer.sign(text.as_bytes()).unwrap();
        let transaction = Transaction { helo: "client.example", from: &from, to: &to, raw: &raw };
        pace.tick().await;
        if number.is_multiple_of(TWICE_EVERY) {
            self.doubt(number);
            let ways =
                join!(self.attempt(number, 0, &transaction), self.attempt(number, 1, &transaction));
            if ways.0 || ways.1 {
                return;
            }
        }
        let mut turn = 2;
        while !self.attempt(number, turn, &transaction).await {
            pace.tick().await;
            turn += 1;
        }
    }

    /// Whether the message was acknowledged.
    async fn attempt(&self, number: usize, turn: usize, transaction: &Transaction<'_>) -> bool {
        let Ok(replies) = deliver(self.gateway(number + turn).await, transaction).await else {
            // A connection that broke tells nothing: the message may be stored or not.
            self.doubt(number);
            return false;
        };
        if replies.accepted() {
            self.times.lock().unwrap().push(Instant::now());
            return true;
        }
        let reply = replies.settling();
        assert!(reply.starts_with('4'), "refused for good: {reply}");
        if replies.data.is_some() {
            self.doubt(number);
        }
        false
    }

    fn doubt(&self, number: usize) {
        self.in_doubt[number].fetch_add(1, Ordering::SeqCst);
    }

    /// One of the gateways that are up: each turn another one.
    async fn gateway(&self, turn: usize) -> SocketAddr {
        let mut gateways = self.gateways.subscribe();
        let up = gateways.wait_for(|up| !up.is_empty()).await.unwrap();
        up[turn % up.len()]
    }
}
