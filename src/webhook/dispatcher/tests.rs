mod memory;

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
use crate::rules::Rules;
use crate::testkit::receiver::{Received, Receiver, Reply};
use crate::webhook::sample;

use self::memory::{Hands, Memory};

const SOON: Duration = Duration::from_secs(20);

/// Everything around a dispatcher: a queue, a receiver, and a clock that can be moved.
struct Scene {
    hands: Hands,
    rules: Arc<WebhookRules>,
    queue: Arc<Memory>,
    receiver: Receiver,
    shutdown: Shutdown,
    bell: Bell,
}

impl Scene {
    /// `overrides` go over `policies/webhooks.toml`.
    async fn new(overrides: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("webhooks.toml"), overrides).unwrap();
        let rules = Arc::new(Rules::load(folder.path()).unwrap().webhooks);
        let hands = Hands::default();
        let queue = Memory::new(&hands, &rules);
        let receiver = Receiver::start(hands.clock()).await.unwrap();
        receiver.trust(&signature::shown(&sample::destination(1, "http://x/").secret));
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
        let sender = Sender { client, mint, links, rules: Arc::clone(&self.rules) };
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
        standardwebhooks::Webhook::new(&signature::shown(&scene.destination(1).secret)).unwrap();
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

/// One backlog is worked off by as many attempts at a time as the rules allow.
#[tokio::test]
async fn a_backlog_of_one_destination_is_bounded_and_drains() {
    let rules = "[dispatcher]\nconcurrency_per_destination = 3\npoll_millis = 60000\n";
    let scene = Scene::new(rules).await;
    let destination = scene.destination(1);
    let ids: Vec<_> = (1..=300).map(|n| scene.queue.add(n, &destination)).collect();
    scene.run();
    for id in ids {
        scene.queue.until(id, |row| row.state == State::Delivered).await;
    }
    let received = scene.receiver.received();
    assert_eq!(received.len(), 300);
    assert!(received.iter().all(|request| request.verified));
}

/// Together they are more than may wait; the clock stands still, so no lease ends.
#[tokio::test]
async fn backlogs_beside_each_other_leave_no_claim_to_its_lease() {
    let scene =
        Scene::new("[dispatcher]\nconcurrency = 80\nconcurrency_per_destination = 2\n").await;
    let to = |n| scene.destination(1 + n % 10);
    let ids: Vec<_> = (1..=600).map(|n| scene.queue.add(n, &to(n))).collect();
    scene.run();
    for id in ids {
        scene.queue.until(id, |row| row.state == State::Delivered).await;
    }
    assert_eq!(scene.receiver.received().len(), 600);
}

/// A queue that takes its time over an answer holds up nothing that was claimed before.
#[tokio::test]
async fn attempts_go_on_while_the_queue_is_asked() {
    let rules = "[dispatcher]\nclaim_batch = 4\nconcurrency_per_destination = 1\n";
    let scene = Scene::new(rules).await;
    let ids: Vec<_> = (1..=8).map(|n| scene.queue.add(n, &scene.destination(1))).collect();
    scene.queue.answers.send_replace(1);
    scene.run();
    for id in &ids[..4] {
        scene.queue.until(*id, |row| row.state == State::Delivered).await;
    }
    assert_eq!(scene.queue.read(ids[4], |row| row.state), State::Pending);
    scene.queue.answers.send_replace(usize::MAX);
    for id in &ids[4..] {
        scene.queue.until(*id, |row| row.state == State::Delivered).await;
    }
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
async fn a_failing_queue_is_asked_again_and_costs_no_event() {
    let scene = Scene::new("[dispatcher]\npoll_millis = 10\n").await;
    scene.queue.failing_claims.store(3, Ordering::SeqCst);
    scene.queue.failing_finishes.store(2, Ordering::SeqCst);
    let id = scene.queue.add(1, &scene.destination(1));
    scene.run();
    scene.queue.until(id, |row| row.state == State::Delivered).await;
    assert_eq!(scene.receiver.received().len(), 1);
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
async fn a_soft_stop_gives_back_what_was_not_begun() {
    let scene = Scene::new("").await;
    scene.receiver.otherwise(Reply::status(200).after(Duration::from_secs(2)));
    let ids: Vec<_> = (1..=20).map(|n| scene.queue.add(n, &scene.destination(1))).collect();
    scene.run();
    scene.arrived(1).await;
    scene.shutdown.begin();
    assert!(scene.shutdown.finish(SOON).await);
    for id in &ids[1..] {
        let (state, leased) = scene.queue.read(*id, |row| (row.state, row.leased_until.is_some()));
        assert_eq!((state, leased), (State::Pending, false));
    }
}

/// The next of a room, and what waits for a probe, are not left to the poll.
#[tokio::test]
async fn what_an_end_lets_go_is_claimed_at_once() {
    for ordered in [true, false] {
        let scene = Scene::new("[dispatcher]\npoll_millis = 60000\n").await;
        let mut destination = scene.destination(1);
        destination.wants.ordered = ordered;
        destination.health.rests_until = (!ordered).then(|| scene.hands.clock().now());
        let ids: Vec<_> = (1..=3).map(|n| scene.queue.add(n, &destination)).collect();
        scene.run();
        for id in ids {
            scene.queue.until(id, |row| row.state == State::Delivered).await;
        }
    }
}

/// What was claimed long before the queue answered is not begun: its lease may end before it does.
#[tokio::test]
async fn claims_that_come_too_late_are_given_back() {
    let rules = "[attempt]\ntimeout_seconds = 1\n\
                 [dispatcher]\nlease_seconds = 2\npoll_millis = 100\n";
    let scene = Scene::new(rules).await;
    *scene.queue.first_claim_takes.lock().unwrap() = Duration::from_millis(1100);
    let id = scene.queue.add(1, &scene.destination(1));
    scene.run();
    scene.queue.until(id, |row| row.state == State::Delivered).await;
    assert!(scene.queue.read(id, |row| row.claim.fence) > 1);
    assert_eq!(scene.receiver.received().len(), 1);
}

/// A queue that does not take claims back holds up no other destination.
#[tokio::test]
async fn claims_are_given_back_beside_the_attempts() {
    let scene = Scene::new("[dispatcher]\npoll_millis = 60000\n").await;
    scene.receiver.script([Reply::status(410)]);
    scene.queue.takes_back.send_replace(false);
    scene.queue.halts.store(true, Ordering::SeqCst);
    let gone: Vec<_> = (1..=3).map(|n| scene.queue.add(n, &scene.destination(1))).collect();
    scene.run();
    scene.queue.until(gone[0], |row| row.attempts.len() == 1).await;
    scene.queue.halts.store(false, Ordering::SeqCst);
    let other = scene.queue.add(4, &scene.destination(2));
    scene.bell.wake();
    scene.queue.until(other, |row| row.state == State::Delivered).await;
    scene.queue.takes_back.send_replace(true);
}

/// What waits in the lane of a destination that rests is given back: it loses no attempt.
#[tokio::test]
async fn what_was_claimed_for_one_that_rests_is_given_back() {
    let scene = Scene::new("[dispatcher]\npoll_millis = 60000\n").await;
    scene.receiver.otherwise(Reply::status(500));
    scene.queue.halts.store(true, Ordering::SeqCst);
    let ids: Vec<_> = (1..=20).map(|n| scene.queue.add(n, &scene.destination(1))).collect();
    scene.run();
    for id in &ids {
        scene.queue.until(*id, |row| row.leased_until.is_none() && row.claim.fence == 1).await;
    }
    let attempts = ids.iter().map(|id| scene.queue.read(*id, |row| row.attempts.len()));
    assert_eq!(attempts.sum::<usize>(), 1);
    assert_eq!(scene.receiver.received().len(), 1);
}

/// Nor does what is on its way from the queue at that moment.
#[tokio::test]
async fn claims_under_way_for_one_that_begins_to_rest_are_given_back() {
    let rules = "[dispatcher]\nclaim_batch = 6\nconcurrency_per_destination = 1\n\
                 poll_millis = 60000\n";
    let scene = Scene::new(rules).await;
    // When two of six are left, the next six are claimed; the fifth fails.
    scene.receiver.script(std::iter::repeat_with(|| Reply::status(200)).take(4));
    scene.receiver.otherwise(Reply::status(500));
    let ids: Vec<_> = (1..=12).map(|n| scene.queue.add(n, &scene.destination(1))).collect();
    // The second claim passes the destination over, whose pace is not known yet.
    scene.queue.claims_before_halt.store(3, Ordering::SeqCst);
    scene.queue.answers.send_replace(2);
    scene.queue.halts.store(true, Ordering::SeqCst);
    scene.run();
    scene.queue.until(ids[5], |row| row.leased_until.is_none() && row.claim.fence == 1).await;
    scene.queue.answers.send_replace(usize::MAX);
    for id in &ids[6..] {
        scene.queue.until(*id, |row| row.leased_until.is_none() && row.claim.fence == 1).await;
    }
    assert_eq!(scene.receiver.received().len(), 5);
}

/// A gateway that was not heard for long begins nothing that it had claimed: others may have it. What
/// was claimed under a former name is given back.
#[tokio::test]
async fn what_was_claimed_is_begun_under_the_same_name_alone() {
    let scene = Scene::new("[dispatcher]\npoll_millis = 10\n").await;
    scene.receiver.script([Reply::status(200).after(Duration::from_millis(500))]);
    let ids: Vec<_> = (1..=20).map(|n| scene.queue.add(n, &scene.destination(1))).collect();
    scene.run();
    scene.arrived(1).await;
    assert!(ids.iter().all(|id| scene.queue.read(*id, |row| row.leased_until.is_some())));
    scene.queue.holder.store(0, Ordering::SeqCst);
    scene.queue.until(ids[0], |row| row.state == State::Delivered).await;
    let looks = scene.queue.looks.load(Ordering::SeqCst);
    let looking = async {
        while scene.queue.looks.load(Ordering::SeqCst) < looks + 9 {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, looking).await.expect("it asks under which name it may go on");
    assert_eq!(scene.receiver.received().len(), 1);
    scene.queue.holder.store(2, Ordering::SeqCst);
    for id in &ids[1..] {
        scene.queue.until(*id, |row| row.state == State::Delivered).await;
        assert_eq!(scene.queue.read(*id, |row| row.claim.fence), 2, "claimed anew");
    }
    assert_eq!(scene.receiver.received().len(), ids.len());
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

#[tokio::test]
async fn an_idle_dispatcher_does_not_spin() {
    let scene = Scene::new("[dispatcher]\npoll_millis = 60000\n").await;
    let slow = scene.destination(1);
    scene.receiver.otherwise(Reply::status(200).after(Duration::from_secs(600)));
    scene.queue.add(1, &slow);
    scene.run();
    scene.arrived(1).await;
    // Due, but its destination is busy.
    scene.queue.add(2, &slow);
    scene.bell.wake();
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert!(scene.queue.claims.load(Ordering::SeqCst) <= 3);
}

/// Collects what is logged on this thread.
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
    // With one subscriber alive, tracing asks only the thread that comes first to a line whether
    // anybody wants it, which may be another test's; with two it asks both of them.
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
        ["ended without a proper answer", "outcome=\"retry\""],
        ["http.status=200", "outcome=\"delivered\""],
    ];
    assert_eq!(lines.len(), expected.len(), "{text}");
    for (line, parts) in lines.iter().zip(expected) {
        for part in parts.into_iter().chain(["delivery.id=", "destination.id=", "latency_ms="]) {
            assert!(line.contains(part), "{line}");
        }
    }
    let secret = signature::shown(&scene.destination(1).secret);
    let signed = scene.receiver.received()[0].headers["x-service-signature"].clone();
    for canary in ["canary", "Hello", "boss@", "answer-text", &secret[6..], &signed] {
        assert!(!text.contains(canary), "{canary} in {text}");
    }
}
