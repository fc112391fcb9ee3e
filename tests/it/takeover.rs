//! What a gateway had claimed when it died is delivered at once: by its next start, or by another
//! gateway that sees it die (threats §3.7 K11, K15).

use std::collections::BTreeMap;
use std::time::Duration;

use gatepost::store::Location;
use gatepost::testkit::receiver::Reply;
use gatepost::testkit::smtp_client::{Transaction, deliver};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::support::process::Server;
use crate::support::site::Site;
use crate::support::{PATIENCE, postgres, rules, signed};

const MESSAGES: usize = 12;

/// Claims last for ten minutes, and attempts for five: nothing here waits for that.
const LONG_LEASE: (&str, &str) =
    ("webhooks.toml", "[attempt]\ntimeout_seconds = 300\n[dispatcher]\nlease_seconds = 600\n");

/// Longer than any test.
const NEVER: Duration = Duration::from_secs(3600);

/// Longer than it takes to pause a gateway, as a rule; nothing goes wrong if not.
const SOON: Duration = Duration::from_secs(5);

struct Place {
    location: Location,
    folder: TempDir,
    site: Site,
}

impl Place {
    async fn at(location: Location, folder: TempDir) -> Self {
        let site = Site::build(&location, &rules(folder.path(), &[LONG_LEASE])).await;
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
            let (raw, to) =
                (signed(&format!("message {number}")), ["support@agents.example".into()]);
            let from = "alice@good.example";
            let transaction = Transaction { helo: "client.example", from, to: &to, raw: &raw };
            assert!(deliver(server.smtp, &transaction).await.unwrap().accepted());
        }
        self.site.receiver.wait_for(1, PATIENCE).await.unwrap();
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
            Location::Postgres(url) => {
                let mut database = postgres::connect(url.expose()).await;
                sqlx::query_scalar(sql).fetch_one(&mut database).await.unwrap()
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
        let messages = i64::try_from(MESSAGES).unwrap();
        let delivered =
            "SELECT COUNT(*) FROM deliveries WHERE state = 'delivered' AND attempts = 1";
        assert_eq!(self.count(delivered).await, messages);
        assert_eq!(self.count("SELECT COUNT(*) FROM attempts").await, messages);
        assert_eq!(self.count("SELECT COUNT(*) FROM messages").await, messages);
        assert_eq!(last.terminate().await, 0);
        self.site.finish().await;
    }
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
    // What it has under way was answered meanwhile. It says so to the store, in vain.
    assert_eq!(paused.terminate().await, 0);
    place.finish(other).await;
}
