mod claims;
mod memory;
mod simulation;

use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use super::*;
use crate::domain::delivery::State;
use crate::domain::destination::{CustomHeader, Destination};
use crate::domain::id::Mint;
use crate::domain::secret::Secret;
use crate::egress::client::{Client, Limits, Lookup};
use crate::egress::guard::Guard;
use crate::egress::signature;
use crate::metrics::Metrics;
use crate::rules::Rules;
use crate::testkit::receiver::{Received, Receiver, Reply};
use crate::traces::Traces;
use crate::webhook::sample;

use self::memory::{Hands, Memory};

const SOON: Duration = Duration::from_secs(20);

/// A dispatcher with a queue, a receiver and a clock that can be moved.
struct Scene {
    hands: Hands,
    rules: Arc<WebhookRules>,
    queue: Arc<Memory>,
    receiver: Receiver,
    shutdown: Shutdown,
    bell: Bell,
}

impl Scene {
    /// `overrides` replace values of `policies/webhooks.toml`.
    async fn new(overrides: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("webhooks.toml"), overrides).unwrap();
        let rules = Arc::new(Rules::load(folder.path()).unwrap().webhooks);
        let hands = Hands::default();
        let queue = Memory::new(&hands, &rules);
        let receiver = Receiver::start(hands.clock()).await.unwrap();
        receiver.trust(&signature::secret_text(&sample::destination(1, "http://x/").secret));
        let (shutdown, bell) = (Shutdown::default(), Bell::default());
        Self { hands, rules, queue, receiver, shutdown, bell }
    }

    fn destination(&self, id: u128) -> Destination {
        sample::destination(id, &self.receiver.url(&format!("/{id}?key=canary")))
    }

    fn dispatcher(&self) -> Dispatcher<Memory> {
        self.dispatcher_with(Lookup::new(|_| async { Ok(vec![IpAddr::from([127, 0, 0, 1])]) }))
    }

    fn dispatcher_with(&self, lookup: Lookup) -> Dispatcher<Memory> {
        let guard = Guard::new(vec!["127.0.0.0/8".parse().unwrap()], &self.rules);
        let client = Client::new(guard, Limits::from(self.rules.as_ref()), lookup).unwrap();
        let mint = Mint::new(self.hands.clock(), Arc::new(|bytes: &mut [u8]| bytes.fill(7)));
        let links = sample::links();
        let sender = Sender {
            client,
            mint,
            links,
            rules: Arc::clone(&self.rules),
            metrics: Metrics::default(),
            traces: Traces::default(),
        };
        Dispatcher::new(Arc::clone(&self.queue), sender, self.bell.clone())
    }

    fn run(&self) {
        self.shutdown.spawn(self.dispatcher().run(self.shutdown.clone()));
    }

    async fn arrived(&self, count: usize) -> Vec<Received> {
        self.receiver.wait_for(count, SOON).await.unwrap()
    }
}

/// Retries at once.
const EAGER: &str = "[schedule]\nwait_seconds = [0, 0, 0]\n";

#[tokio::test]
async fn a_failed_delivery_is_tried_again_with_the_same_bytes() {
    let scene = Scene::new(EAGER).await;
    scene.receiver.script([Reply::status(500).text("later"), Reply::hangup()]);
    let id = scene.queue.add(1, &scene.destination(1));
    scene.run();
    scene.queue.until(id, |row| row.state == State::Delivered).await;
    let received = scene.arrived(3).await;
    let oracle =
        standardwebhooks::Webhook::new(&signature::secret_text(&scene.destination(1).secret))
            .unwrap();
    for request in &received {
        assert_eq!(request.body, received[0].body);
        assert!(request.verified);
        let mut headers = reqwest::header::HeaderMap::new();
        for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
            headers.insert(name, request.headers[name].parse().unwrap());
        }
        oracle.verify(&request.body, &headers).unwrap();
        assert_eq!(request.headers["webhook-id"], "00000000-0000-0000-0000-000000000001");
        assert_eq!(request.headers["content-type"], "application/json");
        assert_eq!(request.headers["user-agent"], "gatepost");
        assert_eq!(request.headers["x-service-event"], "email.received");
        assert_eq!(request.headers["x-service-signature-version"], "v1");
        let (v1, v2) =
            (&request.headers["webhook-signature"], &request.headers["x-service-signature"]);
        assert_eq!(v1.split(' ').next(), Some(format!("v1,{v2}").as_str()));
        let times =
            (&request.headers["webhook-timestamp"], &request.headers["x-service-timestamp"]);
        assert_eq!(times.0, times.1);
    }
    let attempts = scene.queue.read(id, |row| row.attempts.clone());
    let seen: Vec<_> = attempts.iter().map(|a| (a.status, a.error.is_some())).collect();
    assert_eq!(seen, [(Some(500), false), (None, true), (Some(200), false)]);
    assert_eq!(attempts[0].response, b"later");
}

#[tokio::test]
async fn a_receiver_that_echoes_shows_no_value_of_a_header() {
    let scene = Scene::new(EAGER).await;
    scene.receiver.script([Reply::status(500).text("you sent x-api-key: canary-7")]);
    let mut destination = scene.destination(1);
    let value = Secret::new("canary-7");
    destination.wants.headers = vec![CustomHeader { name: "X-Api-Key".into(), value }];
    let id = scene.queue.add(1, &destination);
    scene.run();
    scene.queue.until(id, |row| row.state == State::Delivered).await;
    assert_eq!(scene.arrived(2).await[0].headers["x-api-key"], "canary-7");
    let attempts = scene.queue.read(id, |row| row.attempts.clone());
    assert_eq!(attempts[0].response, b"you sent x-api-key: ********");
}

#[tokio::test]
async fn gone_takes_everything_pending_for_that_destination_with_it() {
    let scene = Scene::new("").await;
    scene.receiver.script([Reply::status(410)]);
    let first = scene.queue.add(1, &scene.destination(1));
    let second = scene.queue.add(2, &scene.destination(1));
    scene.run();
    scene.queue.until(first, |row| row.state == State::Cancelled).await;
    assert_eq!(scene.queue.read(second, |row| row.state), State::Cancelled);
}

#[tokio::test]
async fn a_used_up_schedule_ends_as_exhausted() {
    let scene = Scene::new(EAGER).await;
    scene.receiver.otherwise(Reply::status(302).header("location", "https://hooks.example/"));
    let id = scene.queue.add(1, &scene.destination(1));
    scene.run();
    scene.queue.until(id, |row| row.state == State::Exhausted).await;
    let statuses = scene
        .queue
        .read(id, |row| row.attempts.iter().map(|attempt| attempt.status).collect::<Vec<_>>());
    assert_eq!(statuses, [Some(302); 3]);
}

#[tokio::test]
async fn retry_after_is_honoured() {
    let scene = Scene::new("").await;
    scene.receiver.script([Reply::status(503).header("retry-after", "3600")]);
    let id = scene.queue.add(1, &scene.destination(1));
    let earliest = scene.hands.clock().now().plus(Duration::from_secs(3600));
    scene.run();
    scene.queue.until(id, |row| row.attempts.len() == 1).await;
    assert!(scene.queue.read(id, |row| row.due) >= earliest);
    scene.hands.forward(Duration::from_secs(3600 * 11 / 10 + 1));
    scene.bell.wake();
    scene.queue.until(id, |row| row.state == State::Delivered).await;
}

#[tokio::test]
async fn a_bell_saves_waiting_for_the_poll() {
    let scene = Scene::new("[dispatcher]\npoll_millis = 60000\n").await;
    let first = scene.queue.add(1, &scene.destination(1));
    scene.run();
    scene.queue.until(first, |row| row.state == State::Delivered).await;
    let second = scene.queue.add(2, &scene.destination(1));
    scene.bell.wake();
    scene.queue.until(second, |row| row.state == State::Delivered).await;
}

#[tokio::test]
async fn a_huge_answer_and_a_silent_receiver_are_cut() {
    let scene = Scene::new("[attempt]\ntimeout_seconds = 1\n").await;
    scene.receiver.script([
        Reply::status(500).huge(1 << 30),
        Reply::status(200).drip_head(Duration::from_millis(50)),
    ]);
    let huge = scene.queue.add(1, &scene.destination(1));
    scene.run();
    scene.queue.until(huge, |row| row.attempts.len() == 1).await;
    assert_eq!(scene.queue.read(huge, |row| row.attempts[0].response.len()), 2048);
    let silent = scene.queue.add(2, &scene.destination(2));
    scene.bell.wake();
    scene.queue.until(silent, |row| row.attempts.len() == 1).await;
    let attempt = scene.queue.read(silent, |row| row.attempts[0].clone());
    assert_eq!(attempt.error.as_deref(), Some("no answer came in time"));
    assert!(attempt.latency_ms >= 1000, "{}", attempt.latency_ms);
}

#[tokio::test]
async fn slow_destinations_do_not_delay_another() {
    let scene = Scene::new("").await;
    let slow = Receiver::start(scene.hands.clock()).await.unwrap();
    slow.otherwise(Reply::status(200).after(Duration::from_secs(600)));
    for n in 0..2000 {
        let destination = sample::destination(1 + n % 100, &slow.url("/"));
        scene.queue.add(1 + n, &destination);
    }
    scene.run();
    slow.wait_for(100, SOON).await.unwrap();
    let fast = scene.destination(9999);
    let begun = Instant::now();
    let last: Vec<_> = (5000..5050).map(|n| scene.queue.add(n, &fast)).collect();
    scene.bell.wake();
    for id in last {
        scene.queue.until(id, |row| row.state == State::Delivered).await;
    }
    let took = begun.elapsed();
    assert!(took < scene.rules.attempt.timeout() / 4, "{took:?}");
}

#[tokio::test]
async fn a_restart_with_pending_work_delivers_at_least_once() {
    let scene = Scene::new("").await;
    scene.receiver.script([Reply::status(200).after(Duration::from_secs(600))]);
    let id = scene.queue.add(1, &scene.destination(1));
    let first = tokio::spawn(scene.dispatcher().run(Shutdown::default()));
    scene.arrived(1).await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    assert_eq!(scene.queue.read(id, |row| (row.state, row.attempts.len())), (State::Pending, 0));
    scene.hands.forward(scene.rules.dispatcher.lease());
    scene.run();
    scene.queue.until(id, |row| row.state == State::Delivered).await;
    let received = scene.arrived(2).await;
    assert_eq!(received[0].headers["webhook-id"], received[1].headers["webhook-id"]);
    assert_eq!(received[0].body, received[1].body);
}

#[tokio::test]
async fn a_soft_stop_finishes_what_is_under_way_and_claims_nothing_new() {
    let scene = Scene::new("").await;
    scene.receiver.otherwise(Reply::status(200).after(Duration::from_millis(300)));
    let first = scene.queue.add(1, &scene.destination(1));
    scene.run();
    scene.arrived(1).await;
    scene.shutdown.begin();
    let second = scene.queue.add(2, &scene.destination(2));
    scene.bell.wake();
    assert!(scene.shutdown.finish(SOON).await);
    assert_eq!(scene.queue.read(first, |row| row.state), State::Delivered);
    assert_eq!(scene.queue.read(second, |row| (row.state, row.claim.fence)), (State::Pending, 0));
}

#[tokio::test]
async fn an_attempt_that_panics_counts_as_failed_and_harms_no_other() {
    let scene = Scene::new(EAGER).await;
    let poison = sample::destination(1, "http://poison.example/");
    let bad = scene.queue.add(1, &poison);
    let good = scene.queue.add(2, &scene.destination(2));
    let lookup = Lookup::new(|host| async move { panic!("cannot look up {host}") });
    let dispatcher = scene.dispatcher_with(lookup);
    scene.shutdown.spawn(dispatcher.run(scene.shutdown.clone()));
    scene.queue.until(bad, |row| row.state == State::Exhausted).await;
    scene.queue.until(good, |row| row.state == State::Delivered).await;
    let error = scene.queue.read(bad, |row| row.attempts[0].error.clone());
    assert_eq!(error.as_deref(), Some("the gateway could not make this request"));
}

/// Collects the log lines of this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn the_log_names_the_delivery_but_no_query_secret_or_text() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    // With one subscriber alive, tracing asks only the first thread at a line whether it is wanted,
    // and that may be another test's; with two it asks both.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let _guard = tracing::subscriber::set_default(subscriber);
    let scene = Scene::new(EAGER).await;
    scene.receiver.script([Reply::status(500).text("answer-text"), Reply::hangup()]);
    let id = scene.queue.add(1, &scene.destination(1));
    scene.run();
    scene.queue.until(id, |row| row.state == State::Delivered).await;
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<_> =
        text.lines().filter(|line| line.contains("webhook attempt ended")).collect();
    let expected = [
        ["http.status=500", "outcome=\"retry\""],
        ["closed before the answer was complete", "outcome=\"retry\""],
        ["http.status=200", "outcome=\"delivered\""],
    ];
    assert_eq!(lines.len(), expected.len(), "{text}");
    for (line, parts) in lines.iter().zip(expected) {
        for part in parts.into_iter().chain(["delivery.id=", "destination.id=", "latency_ms="]) {
            assert!(line.contains(part), "{line}");
        }
    }
    let secret = signature::secret_text(&scene.destination(1).secret);
    let signed = scene.receiver.received()[0].headers["x-service-signature"].clone();
    for canary in ["canary", "Hello", "boss@", "answer-text", &secret[6..], &signed] {
        assert!(!text.contains(canary), "{canary} in {text}");
    }
}
