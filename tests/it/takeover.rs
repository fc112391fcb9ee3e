//! Claims of a dead gateway are delivered at once: by its next start, or by another gateway that
//! sees it die (threats §3.7 K11, K15).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use gatepost::store::Location;
use gatepost::testkit::receiver::Reply;
use gatepost::testkit::smtp_client::{Transaction, deliver};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor as _};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::support::process::Server;
use crate::support::site::Site;
use crate::support::{PATIENCE, canary, postgres, rules, signed};

const MESSAGES: usize = 12;

/// Claims last for ten minutes, and attempts for five: nothing here waits for that.
const LONG_LEASE: (&str, &str) =
    ("webhooks.toml", "[attempt]\ntimeout_seconds = 300\n[dispatcher]\nlease_seconds = 600\n");

/// Longer than any test.
const NEVER: Duration = Duration::from_secs(3600);

/// Longer than it takes to pause a gateway, as a rule; nothing goes wrong if not.
const SOON: Duration = Duration::from_secs(5);

/// Longer than it takes another gateway to start and to take over, as a rule; nothing goes wrong if
/// not.
const LATER: Duration = Duration::from_secs(10);

/// Mail has as few connections as it can, each message is a transaction, and who waits for a lock
/// waits for as long as the test has it.
const FEW: (&str, &str) = (
    "store.toml",
    "[commit]\nmax_messages = 1\nwriters = 16\npatience_seconds = 120\n\
     [connections]\npostgres = 4\nacquire_seconds = 60\nstatement_seconds = 60\n\
     lock_seconds = 60\ndeadline_seconds = 61\n",
);

struct Place {
    location: Location,
    folder: TempDir,
    site: Site,
}

impl Place {
    async fn at(location: Location, folder: TempDir) -> Self {
        Self::with(location, folder, &[LONG_LEASE]).await
    }

    async fn with(location: Location, folder: TempDir, files: &[(&str, &str)]) -> Self {
        let site = Site::build(&location, &rules(folder.path(), files)).await;
        site.leave_store().await;
        Self { location, folder, site }
    }

    async fn embedded() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::at(Location::Folder(folder.path().join("store")), folder).await
    }

    async fn on_postgres() -> Self {
        Self::at(postgres::new_location().await, tempfile::tempdir().unwrap()).await
    }

    async fn serve(&self) -> Server {
        Server::start_on(&self.location, self.folder.path(), self.site.dns.addr()).await
    }

    /// Messages that the receiver answers only then: one is under way, the others are claimed.
    async fn hang(&self, server: &Server, until: Duration) {
        self.site.receiver.otherwise(Reply::status(200).after(until));
        for number in 0..MESSAGES {
            send(server.smtp, number).await;
        }
        self.site.receiver.wait_for(1, PATIENCE).await.unwrap();
    }

    /// A connection of the test's own to the database.
    async fn database(&self) -> PgConnection {
        let Location::Postgres(url) = &self.location else { panic!("not on PostgreSQL") };
        postgres::connect(url.expose()).await
    }

    /// Until this counts so many.
    async fn until(&self, sql: &'static str, wanted: i64) {
        let reached = async { while self.count(sql).await < wanted {} };
        timeout(PATIENCE, reached).await.unwrap_or_else(|_| panic!("not {wanted}: {sql}"));
    }

    /// How often each event has come, once so many have.
    async fn events(&self, wanted: usize) -> BTreeMap<String, usize> {
        let all = async {
            let mut seen = 0;
            loop {
                let mut events = BTreeMap::new();
                for one in self.site.receiver.received() {
                    *events.entry(one.headers["webhook-id"].clone()).or_default() += 1;
                    seen += 1;
                }
                if events.len() >= wanted {
                    return events;
                }
                let got = self.site.receiver.received().len().min(seen);
                self.site.receiver.after(got, PATIENCE).await.unwrap();
                seen = 0;
            }
        };
        timeout(PATIENCE, all).await.expect("not all events came")
    }

    async fn count(&self, sql: &'static str) -> i64 {
        match &self.location {
            Location::Folder(store) => crate::support::count(store, sql).await,
            Location::Postgres(_) => {
                sqlx::query_scalar(sql).fetch_one(&mut self.database().await).await.unwrap()
            }
        }
    }

    /// Until nothing waits any more.
    async fn done(&self) {
        let nothing = async {
            while self.count("SELECT COUNT(*) FROM deliveries WHERE state = 'pending'").await > 0 {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, nothing).await.expect("something still waits");
    }

    /// Every delivery has come to its end by one attempt that counts, whoever died meanwhile.
    async fn finish(self, last: Server) {
        self.finish_with(last, MESSAGES).await;
    }

    async fn finish_with(self, last: Server, messages: usize) {
        let messages = i64::try_from(messages).unwrap();
        let delivered =
            "SELECT COUNT(*) FROM deliveries WHERE state = 'delivered' AND attempts = 1";
        assert_eq!(self.count(delivered).await, messages);
        assert_eq!(self.count("SELECT COUNT(*) FROM attempts").await, messages);
        assert_eq!(self.count("SELECT COUNT(*) FROM messages").await, messages);
        assert_eq!(last.terminate().await, 0);
        self.site.finish().await;
    }
}

async fn send(smtp: SocketAddr, number: usize) {
    let (raw, to) = (signed(&format!("message {number}")), ["support@agents.example".into()]);
    let from = "alice@good.example";
    let transaction = Transaction { helo: "client.example", from, to: &to, raw: &raw };
    assert!(deliver(smtp, &transaction).await.unwrap().accepted());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_server_had_claimed_is_delivered_by_its_next_start() {
    let place = Place::embedded().await;
    let server = place.serve().await;
    place.hang(&server, NEVER).await;
    // Twice: what the second life claimed, too.
    server.kill().await;
    let server = place.serve().await;
    place.site.receiver.wait_for(2, PATIENCE).await.unwrap();
    server.kill().await;
    place.site.receiver.otherwise(Reply::status(200));
    let server = place.serve().await;
    assert_eq!(place.events(MESSAGES).await.len(), MESSAGES);
    place.done().await;
    place.finish(server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_gateway_had_claimed_is_taken_over_by_another() {
    let place = Place::on_postgres().await;
    let first = place.serve().await;
    place.hang(&first, NEVER).await;
    let second = place.serve().await;
    place.site.receiver.otherwise(Reply::status(200));
    first.kill().await;
    place.done().await;
    assert_eq!(place.events(MESSAGES).await.len(), MESSAGES);
    place.finish(second).await;
}

/// One that was only paused finds its claims taken over, and takes nothing back.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_was_paused_takes_nothing_back() {
    let place = Place::on_postgres().await;
    let paused = place.serve().await;
    place.hang(&paused, SOON).await;
    paused.ask_to_stop("-STOP").await;
    place.site.receiver.otherwise(Reply::status(200));
    let other = place.serve().await;
    place.done().await;
    paused.ask_to_stop("-CONT").await;
    // Its delivery under way was finished by the other one; its own report to the store has no
    // effect.
    assert_eq!(paused.terminate().await, 0);
    place.finish(other).await;
}

/// The beats of the gateway that lives, of one alone.
const BEATS: &str = "SELECT CAST(SUM(beat) AS BIGINT) FROM gateways WHERE beat >= 0";

/// All connections of mail wait for a lock; the beat goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_whose_mail_has_no_connection_left_goes_on_to_say_that_it_lives() {
    let location = postgres::new_location().await;
    let place = Place::with(location, tempfile::tempdir().unwrap(), &[LONG_LEASE, FEW]).await;
    let server = place.serve().await;
    let mut lock = place.database().await;
    lock.execute("BEGIN; LOCK TABLE deliveries IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let sending: Vec<_> =
        (0..MESSAGES).map(|number| tokio::spawn(send(server.smtp, number))).collect();
    let waiting = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database()
                   AND application_name = 'gatepost' AND wait_event_type = 'Lock'";
    place.until(waiting, 4).await;
    place.until(BEATS, place.count(BEATS).await + 3).await;
    assert_eq!(place.count(waiting).await, 4, "they wait still");
    lock.execute("ROLLBACK").await.unwrap();
    for one in sending {
        timeout(PATIENCE, one).await.unwrap().unwrap();
    }
    place.done().await;
    place.finish(server).await;
}

/// Others take over what it has claimed; it begins none of that, and once it is heard again it goes
/// on with what it claims then.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_cannot_say_that_it_lives_begins_nothing_more() {
    let place = Place::on_postgres().await;
    let silent = place.serve().await;
    place.hang(&silent, LATER).await;
    let name = place.count("SELECT MIN(id) FROM gateways WHERE beat >= 0").await;
    let mut database = place.database().await;
    let refuse = format!(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
             AS 'BEGIN RAISE EXCEPTION ''refused''; END';
         CREATE TRIGGER refused BEFORE UPDATE ON gateways FOR EACH ROW
             WHEN (NEW.id = {name} AND NEW.beat >= 0) EXECUTE FUNCTION refuse()"
    );
    database.execute(AssertSqlSafe(refuse)).await.unwrap();
    place.site.receiver.otherwise(Reply::status(200));
    let other = place.serve().await;
    place.done().await;
    assert_eq!(other.terminate().await, 0);
    database.execute("DROP TRIGGER refused ON gateways").await.unwrap();
    // Behind what it had claimed, in the same lane.
    send(silent.smtp, MESSAGES).await;
    let events = place.events(MESSAGES + 1).await;
    place.done().await;
    let twice = events.values().filter(|times| **times > 1).count();
    assert!(twice <= 1, "more than what was under way: {events:?}");
    place.finish_with(silent, MESSAGES + 1).await;
}

/// Proves that a regular end frees all claims at once, and that nobody takes the gateway for dead.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_ends_is_not_taken_for_dead() {
    let place = Place::on_postgres().await;
    let first = place.serve().await;
    place.hang(&first, SOON).await;
    let (folder, log) = (place.folder.path(), place.folder.path().join("log"));
    let dns = place.site.dns.addr();
    let second = Server::start_telling(&place.location, folder, dns, &[], &log).await;
    place.site.receiver.otherwise(Reply::status(200));
    assert_eq!(first.terminate().await, 0);
    place.done().await;
    // Longer than it takes to find a gateway dead.
    place.until(BEATS, place.count(BEATS).await + 6).await;
    let log = std::fs::read_to_string(log).unwrap();
    canary::keep("log", log.as_bytes(), None);
    assert!(log.contains("another gateway has stopped") && !log.contains("dead gateway"), "{log}");
    place.finish(second).await;
}
