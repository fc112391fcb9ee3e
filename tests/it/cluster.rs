//! Three gateways on one PostgreSQL: while one of them dies again and again, and the database is
//! restarted under them, no acknowledged message is lost, none doubled, and none announced that is
//! not stored (contract §2.2; §2, Repeats).

#![expect(clippy::print_stderr, reason = "a test that takes long says how far it is")]

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use gatepost::store::Location;
use tokio::task::block_in_place;
use tokio::time::timeout;

use crate::support::audit::assert_nothing_lost;
use crate::support::cluster::Stop;
use crate::support::mailers::{HASTE, Mailers, NO_RATES};
use crate::support::process::Server;
use crate::support::site::Site;
use crate::support::{postgres, rules};

const GATEWAYS: usize = 3;

struct Plan {
    messages: usize,
    sessions: usize,
    /// One gateway dies whenever this many more messages have been acknowledged.
    kill_every: usize,
    /// After how many deaths the database is stopped, and how.
    restarts: Vec<(usize, Stop)>,
    /// Bounds the whole.
    limit: Duration,
}

/// One of the gateways, of which each is at home everywhere.
struct Gateways<'a> {
    location: &'a Location,
    folder: &'a Path,
    dns: SocketAddr,
    mailers: &'a Mailers,
    running: Vec<Server>,
}

#[tokio::test(flavor = "multi_thread")]
async fn three_gateways_that_die_again_and_again_lose_nothing() {
    let restarts = vec![(4, Stop::Fast)];
    let limit = Duration::from_secs(900);
    run(Plan { messages: 1_500, sessions: 8, kill_every: 180, restarts, limit }).await;
}

/// A longer run of the test above.
pub async fn soak(messages: usize) {
    let deaths = 40;
    let restarts = vec![(deaths / 3, Stop::Fast), (2 * deaths / 3, Stop::Immediate)];
    let kill_every = (messages / deaths).max(1);
    let limit =
        Duration::from_secs(600) + Duration::from_millis(100) * messages.try_into().unwrap();
    run(Plan { messages, sessions: 24, kill_every, restarts, limit }).await;
}

async fn run(plan: Plan) {
    let limit = plan.limit;
    timeout(limit, disturb(plan)).await.expect("not done in time");
}

async fn disturb(plan: Plan) {
    let begun = Instant::now();
    let say = |text: String| eprintln!("{:>5} s: {text}", begun.elapsed().as_secs());
    let mut database = block_in_place(|| postgres::start(&["fsync=on"]));
    let location = Location::parse(None, Some(&database.url)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let site = Site::build(&location, &rules(folder.path(), &[HASTE, NO_RATES])).await;
    site.leave_store().await;
    let mailers = Mailers::start(plan.messages, plan.sessions);
    let mut gateways = Gateways {
        location: &location,
        folder: folder.path(),
        dns: site.dns.addr(),
        mailers: &mailers,
        running: Vec::new(),
    };
    for _ in 0..GATEWAYS {
        gateways.start().await;
    }
    let mut deaths = 0;
    for goal in (plan.kill_every..plan.messages).step_by(plan.kill_every) {
        mailers.reach(goal).await;
        for (_, how) in plan.restarts.iter().filter(|(after, _)| *after == deaths) {
            block_in_place(|| database.restart(*how));
            say(format!("the database was stopped: {how:?}"));
        }
        gateways.replace_oldest().await;
        deaths += 1;
        say(format!("{goal} messages acknowledged, gateways died: {deaths}"));
    }
    assert!(deaths >= 6, "only {deaths} gateways died");
    let running = gateways.running;
    let in_doubt = mailers.finish().await;
    let http = running[0].http;
    let (again, requests) = assert_nothing_lost(http, &site.key, &site.receiver, &in_doubt).await;
    say(format!(
        "{} messages acknowledged, each stored once and announced; {again} came again, of {} that \
         may have; {requests} deliveries",
        plan.messages,
        in_doubt.iter().sum::<usize>(),
    ));
    for gateway in running {
        assert_eq!(gateway.terminate().await, 0);
    }
    site.finish().await;
}

impl Gateways<'_> {
    async fn start(&mut self) {
        let server = Server::start_on(self.location, self.folder, self.dns).await;
        self.mailers.arrived(server.smtp);
        self.running.push(server);
    }

    /// Kills the one that has run for the longest time, and starts another one.
    async fn replace_oldest(&mut self) {
        let server = self.running.remove(0);
        self.mailers.left(server.smtp);
        server.kill().await;
        self.start().await;
    }
}
