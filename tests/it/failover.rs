//! The database's leader is lost, replaced, or cut off, and gateways come and go behind a proxy:
//! nothing acknowledged is lost, senders are put off meanwhile and none is refused, and webhooks go
//! on (docs/availability.md).

#![expect(clippy::print_stderr, reason = "a test that takes long says how far it is")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use gatepost::rules::Rules;
use gatepost::run;
use gatepost::store::{Location, Store, StoreError};
use serde_json::Value;
use sqlx::Executor as _;
use tempfile::TempDir;
use tokio::task::block_in_place;
use tokio::time::timeout;

use crate::support::audit::assert_nothing_lost;
use crate::support::haproxy::{Door, HaProxy};
use crate::support::mailers::{HASTE, Mailers, NO_RATES, subject};
use crate::support::pair::Pair;
use crate::support::patroni::Patroni;
use crate::support::process::{GATEPOST, Server, failing};
use crate::support::session::Session;
use crate::support::site::Site;
use crate::support::{PATIENCE, all_messages, canary, http, postgres, rules};

/// More messages than any of these tests sends.
const ENOUGH: usize = 200_000;

/// Patroni takes its time: `ttl` of `ops/patroni.yml`, and more on a busy machine.
const LONG: Duration = Duration::from_secs(240);

/// One replica, which every commit waits for; it is promoted, and its former leader comes back as
/// if nothing had happened.
#[tokio::test(flavor = "multi_thread")]
async fn writes_follow_a_promotion_and_never_go_back() {
    let mut pair = block_in_place(Pair::start);
    let location = Location::parse(None, Some(&pair.url())).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let site = Site::build(&location, &rules(folder.path(), &[HASTE, NO_RATES])).await;
    site.leave_store().await;
    let start = async || Server::start_on(&location, folder.path(), site.dns.addr()).await;
    let first = start().await;
    let mailers = Mailers::start_paced(ENOUGH, 4, Duration::from_millis(5));
    mailers.arrived(first.smtp);
    let further = async || mailers.reach(mailers.acknowledged() + 60).await;
    further().await;
    pair.crash();
    pair.promote();
    further().await;
    pair.revive();
    let messages = "SELECT COUNT(*) FROM messages";
    let mut former = postgres::connect(&pair.url_of(0)).await;
    let before: i64 = sqlx::query_scalar(messages).fetch_one(&mut former).await.unwrap();
    // One that starts now meets both, and one that looks again does.
    let second = start().await;
    mailers.arrived(second.smtp);
    further().await;
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE application_name = 'gatepost'";
    postgres::connect(&pair.url_of(1)).await.execute(end).await.unwrap();
    further().await;
    let in_doubt = mailers.stop().await;
    assert_nothing_lost(first.http, &site.key, &site.receiver, &in_doubt).await;
    let after: i64 = sqlx::query_scalar(messages).fetch_one(&mut former).await.unwrap();
    assert_eq!(before, after, "something was written to the former leader");
    for gateway in [first, second] {
        assert_eq!(gateway.terminate().await, 0);
    }
    site.finish().await;
}

/// The former server commits without its replica, answers everybody, and knows nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_promotion_is_noticed_while_the_former_server_still_answers() {
    let mut pair = block_in_place(Pair::start);
    let location = Location::parse(None, Some(&pair.url())).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let site = Site::build(&location, &rules(folder.path(), &[HASTE, NO_RATES])).await;
    site.leave_store().await;
    let gateway = Server::start_on(&location, folder.path(), site.dns.addr()).await;
    let mailers = Mailers::start_paced(ENOUGH, 4, Duration::from_millis(5));
    mailers.arrived(gateway.smtp);
    mailers.reach(60).await;
    let mut former = postgres::connect(&pair.url_of(0)).await;
    former.execute("ALTER SYSTEM SET synchronous_standby_names = ''").await.unwrap();
    former.execute("SELECT pg_reload_conf()").await.unwrap();
    pair.promote();
    let mut later = postgres::connect(&pair.url_of(1)).await;
    let messages = "SELECT COUNT(*) FROM messages";
    let before: i64 = sqlx::query_scalar(messages).fetch_one(&mut later).await.unwrap();
    let followed = async {
        while sqlx::query_scalar::<_, i64>(messages).fetch_one(&mut later).await.unwrap() == before
        {
            mailers.reach(mailers.acknowledged() + 20).await;
        }
    };
    timeout(PATIENCE, followed).await.expect("mail still goes to the former server");
    let at_the_former = sqlx::query_scalar::<_, i64>(messages);
    assert!(at_the_former.fetch_one(&mut former).await.is_ok(), "it answers no more");
    mailers.stop().await;
    gateway.kill().await;
    // Mail that the former server took in is lost, and nobody announces it.
    let _pending = timeout(PATIENCE, site.finish()).await;
}

/// Servers that are not there, or not to be written to, are named.
#[tokio::test(flavor = "multi_thread")]
async fn each_server_that_cannot_be_written_to_is_named_without_the_password() {
    let pair = block_in_place(Pair::start);
    let folder = tempfile::tempdir().unwrap();
    let replica = pair.ports[1];
    let url = format!("postgres://postgres:hush@127.0.0.1:{replica},127.0.0.1:1/gatepost");
    let said = failing(folder.path(), &["account", "list", "--database-url", &url]).await;
    for words in [
        "no server can be written to".to_owned(),
        format!("127.0.0.1:{replica}: it cannot be written to"),
        "127.0.0.1:1: ".to_owned(),
    ] {
        assert!(said.contains(&words), "{words}: {said}");
    }
    assert!(!said.contains("hush"), "{said}");
}

/// Alone in its URL, so that no other server is looked for.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_alone_is_read_only() {
    let pair = block_in_place(Pair::start);
    let location = |place| Location::parse(None, Some(&pair.url_of(place))).unwrap();
    let (rules, mint) = (Rules::defaults().unwrap().store, run::system_mint());
    let made = Store::create(&location(0), &rules, mint.clone()).await.unwrap();
    made.close().await;
    let opened = async {
        loop {
            // It hears of the store by and by.
            if let Ok(store) = Store::open(&location(1), &rules, mint.clone()).await {
                return store;
            }
        }
    };
    let store = timeout(PATIENCE, opened).await.unwrap();
    let refused = store.check_writable().await.unwrap_err();
    assert!(matches!(refused, StoreError::ReadOnly(_)), "{refused:?}");
    store.close().await;
}

/// Behind the proxy of `ops/haproxy.cfg`.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_is_not_ready_gets_no_session_and_the_client_is_known() {
    let location = postgres::new_location().await;
    let folder = tempfile::tempdir().unwrap();
    let site = Site::build(&location, &rules(folder.path(), &[NO_RATES])).await;
    site.leave_store().await;
    let doors: [Door; 3] = std::array::from_fn(|_| Door::free());
    let mut gateways = Vec::new();
    for door in doors {
        gateways.push(serve(&location, &folder, &site, door).await);
    }
    let proxy = HaProxy::start(folder.path(), &doors).await;
    // It hangs, and still accepts connections.
    gateways[1].ask_to_stop("-STOP").await;
    let client = "127.0.0.77".parse().unwrap();
    proxy.has_left_out("b").await;
    for number in 0..12 {
        let reply = deliver_from(client, &proxy, &format!("number {number}")).await;
        assert!(reply.starts_with("250"), "{reply}");
    }
    // From the API behind the proxy, too.
    let list = format!("http://{}/api/v2/email/intake?limit=50&token={}", proxy.http, site.key);
    let answer: Value = serde_json::from_slice(&http::get(&list).await.body).unwrap();
    let records = answer["intake"].as_array().unwrap();
    assert_eq!(records.len(), 12, "{answer}");
    for record in records {
        assert_eq!(record["verdict"], "accepted", "{record}");
        assert!(record.to_string().contains("127.0.0.77"), "{record}");
    }
    gateways[1].ask_to_stop("-CONT").await;
    for gateway in gateways {
        assert_eq!(gateway.terminate().await, 0);
    }
    site.finish().await;
}

async fn serve(location: &Location, folder: &TempDir, site: &Site, door: Door) -> Server {
    let ports = (door.smtp, door.http);
    Server::start_at(GATEPOST, location, folder.path(), site.dns.addr(), ports).await
}

/// The reply to the data of a message.
async fn deliver_from(client: std::net::IpAddr, proxy: &HaProxy, subject: &str) -> String {
    let mut session = Session::connect_from(client, proxy.smtp).await;
    session.expect("220 ").await;
    for line in ["HELO a.example", "MAIL FROM:<alice@good.example>"] {
        let reply = session.say(line).await;
        assert!(reply.starts_with("250"), "{line}: {reply}");
    }
    session.rcpt("support@agents.example", "250").await;
    session.finish(subject).await
}

/// Times from each disturbance to the first 250 after the longest silence behind it.
#[derive(Default)]
struct Times(Vec<(&'static str, Vec<Duration>)>);

impl Times {
    fn add(&mut self, name: &'static str, time: Duration) {
        eprintln!("{name}: {} ms", time.as_millis());
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, times)) => times.push(time),
            None => self.0.push((name, vec![time])),
        }
    }

    fn print(mut self) {
        eprintln!("| from … to the next 250 | median, s | least | most |\n|---|---|---|---|");
        for (name, times) in &mut self.0 {
            times.sort();
            let at = |place: usize| times[place].as_secs_f64();
            let (median, last) = (at(times.len() / 2), at(times.len() - 1));
            eprintln!("| {name} | {median:.1} | {:.1} | {last:.1} |", at(0));
        }
    }
}

/// Everything of `docs/availability.md`, under load.
struct Stage {
    patroni: Patroni,
    location: Location,
    folder: TempDir,
    site: Site,
    doors: [Door; 3],
    gateways: Vec<Option<Server>>,
    proxy: HaProxy,
    mailers: Mailers,
}

impl Stage {
    async fn set(synchronous: bool) -> Self {
        let patroni = Patroni::start(synchronous).await;
        let location = Location::parse(None, Some(&patroni.url())).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let site = Site::build(&location, &rules(folder.path(), &[HASTE, NO_RATES])).await;
        site.leave_store().await;
        let doors: [Door; 3] = std::array::from_fn(|_| Door::free());
        let mut gateways = Vec::new();
        for door in doors {
            gateways.push(Some(serve(&location, &folder, &site, door).await));
        }
        let proxy = HaProxy::start(folder.path(), &doors).await;
        let mailers = Mailers::start_paced(ENOUGH, 6, Duration::from_millis(50));
        mailers.arrived(proxy.smtp);
        mailers.reach(60).await;
        Self { patroni, location, folder, site, doors, gateways, proxy, mailers }
    }

    /// Waits until mail flows again; answers how long that took since then.
    async fn flows(&self, since: Instant) -> Duration {
        // More than were under way when it happened.
        self.mailers.reach_within(self.mailers.acknowledged() + 40, LONG).await;
        self.mailers.outage(since)
    }

    async fn settled(&self) {
        self.patroni.settled(true).await;
        self.mailers.reach_within(self.mailers.acknowledged() + 40, LONG).await;
    }

    async fn start(&mut self, place: usize) {
        let door = self.doors[place];
        self.gateways[place] = Some(serve(&self.location, &self.folder, &self.site, door).await);
    }

    async fn round(&mut self, times: &mut Times) {
        let leader = self.patroni.leader().await;
        let since = Instant::now();
        self.patroni.kill(leader);
        times.add("the leader is killed (-9, with its Patroni)", self.flows(since).await);
        self.patroni.run(leader);
        self.settled().await;

        let leader = self.patroni.leader().await;
        let since = Instant::now();
        self.patroni.switchover(leader);
        times.add("a switchover", self.flows(since).await);
        self.settled().await;

        let leader = self.patroni.leader().await;
        let since = Instant::now();
        self.patroni.cut(leader);
        times.add("the leader is cut off from etcd and its peers", self.flows(since).await);
        self.patroni.mend(leader);
        self.settled().await;

        // It goes on as a leader, and gateways reach it, until its watchdog ends it: Patroni 3.0.2
        // that wakes up can take the lock back (the book says so).
        let leader = self.patroni.leader().await;
        let since = Instant::now();
        self.patroni.freeze(leader);
        self.patroni.cut(leader);
        let outage = self.flows(since).await;
        times.add("… and its Patroni hangs, so that its watchdog ends it", outage);
        let reset = self.patroni.reset_of(leader) - since;
        eprintln!("its watchdog ended it after {} ms", reset.as_millis());
        assert!(reset < outage, "there was another leader beside it");
        self.patroni.mend(leader);
        self.patroni.run(leader);
        self.settled().await;

        let since = Instant::now();
        self.gateways[0].take().unwrap().kill().await;
        times.add("a gateway is killed (-9)", self.flows(since).await);
        self.start(0).await;
        self.settled().await;

        let since = Instant::now();
        assert_eq!(self.gateways[1].take().unwrap().terminate().await, 0);
        times.add("a gateway is stopped (SIGTERM)", self.flows(since).await);
        self.start(1).await;
        self.settled().await;
    }
}

/// The whole, with HAProxy, Patroni and etcd, so many times; then with asynchronous replicas.
pub async fn soak(rounds: u32) {
    let limit = Duration::from_secs(600) * (rounds + 1);
    timeout(limit, keep_what_was_promised(rounds)).await.expect("not done in time");
    measure_asynchronous().await;
}

async fn keep_what_was_promised(rounds: u32) {
    let (mut stage, mut times) = (Stage::set(true).await, Times::default());
    for round in 1..=rounds {
        stage.round(&mut times).await;
        eprintln!("round {round} of {rounds}: {} acknowledged", stage.mailers.acknowledged());
    }
    let Stage { patroni, site, gateways, proxy, mailers, .. } = stage;
    let in_doubt = mailers.stop().await;
    let (again, requests) =
        assert_nothing_lost(proxy.http, &site.key, &site.receiver, &in_doubt).await;
    eprintln!(
        "{} messages acknowledged, each stored once and announced; {again} came again, of {} that \
         may have; {requests} deliveries",
        in_doubt.len(),
        in_doubt.iter().sum::<usize>(),
    );
    times.print();
    for gateway in gateways.into_iter().flatten() {
        assert_eq!(gateway.terminate().await, 0);
    }
    canary::keep("haproxy", &std::fs::read(&proxy.log).unwrap(), None);
    drop(patroni);
    site.finish().await;
}

/// Where commits wait for no replica, mail is lost that no replica had when the leader went:
/// measured, for the book.
async fn measure_asynchronous() {
    let mut stage = Stage::set(false).await;
    let leader = stage.patroni.leader().await;
    stage.patroni.cut_replication(leader);
    let cut = stage.mailers.acknowledged();
    stage.mailers.reach(cut + 100).await;
    let since = Instant::now();
    stage.patroni.kill(leader);
    let killed = stage.mailers.acknowledged();
    let took = stage.flows(since).await;
    let Stage { patroni, site, gateways, proxy, mailers, .. } = stage;
    let acknowledged = mailers.stop().await.len();
    let stored: BTreeSet<String> = all_messages(proxy.http, &site.key)
        .await
        .iter()
        .map(|message| message["metadata"]["emailSubject"].as_str().unwrap().to_owned())
        .collect();
    let lost = (0..acknowledged).filter(|number| !stored.contains(&subject(*number))).count();
    eprintln!(
        "asynchronous: {lost} of {acknowledged} acknowledged messages are lost; {} were \
         acknowledged between the cut of the replication and the end of the leader; mail came in \
         again after {} ms",
        killed - cut,
        took.as_millis(),
    );
    assert!(lost > 0, "nothing was lost: what the book says of asynchronous replicas is wrong");
    for gateway in gateways.into_iter().flatten() {
        gateway.kill().await;
    }
    drop(patroni);
    let _pending = timeout(PATIENCE, site.finish()).await;
}
