//! Wall clocks that somebody sets while gateways run, or between two runs: nothing waits longer than
//! its back-off says, and the log tells of it (threats §3.7 K9).

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;

use gatepost::store::Location;
use gatepost::testkit::receiver::Reply;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::support::faketime::WallClock;
use crate::support::process::Server;
use crate::support::site::Site;
use crate::support::{PATIENCE, canary, http, postgres, rules};

const HOUR: i64 = 3600;
const YEAR: i64 = 365 * 24 * HOUR;

/// Each failure is followed by a rest and by a wait of three seconds, a probe after that.
const WAITS: (&str, &str) = (
    "webhooks.toml",
    "[schedule]\nwait_seconds = [0, 3, 3, 3, 3, 3, 3, 3, 3, 3]\n\
     [breaker]\nfailures = 1\nrest_seconds = 2\nlongest_rest_seconds = 2\n",
);

/// A store with what surrounds it, and the log of its servers.
struct Place {
    location: Location,
    folder: TempDir,
    site: Site,
}

impl Place {
    async fn embedded() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::at(Location::Folder(folder.path().join("store")), folder).await
    }

    async fn on_postgres() -> Self {
        Self::at(postgres::new_location().await, tempfile::tempdir().unwrap()).await
    }

    async fn at(location: Location, folder: TempDir) -> Self {
        let site = Site::build(&location, &rules(folder.path(), &[WAITS])).await;
        site.leave_store().await;
        Self { location, folder, site }
    }

    async fn serve(&self, clock: &WallClock) -> Server {
        let environment = clock.environment();
        let environment: Vec<(&str, &str)> =
            environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let (folder, log, dns) = (self.folder.path(), self.log(), self.site.dns.addr());
        Server::start_telling(&self.location, folder, dns, &environment, &log).await
    }

    fn log(&self) -> std::path::PathBuf {
        self.folder.path().join("log")
    }

    /// Hands in a message whose first delivery fails: it waits, and its destination rests.
    async fn fail(&self, http: SocketAddr, number: usize) {
        let seen = self.site.receiver.received().len();
        self.site.receiver.script([Reply::status(503)]);
        self.hand_in(http, number).await;
        self.site.receiver.after(seen, PATIENCE).await.unwrap();
    }

    async fn hand_in(&self, http: SocketAddr, number: usize) {
        let body = json!({
            "targetAgent": "support",
            "sourceAddress": "+1 (555) 123-1234",
            "message": format!("message {number}"),
        });
        let url = format!("http://{http}/api/v2/agent/receiveMessage?token={}", self.site.key);
        let request = reqwest::Client::new().post(url).timeout(PATIENCE);
        let request = request.header("content-type", "application/json").body(body.to_string());
        let answer = http::read("POST", request.send().await.unwrap()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    /// Until so many different events have come, and all that is known of was answered with 2xx: a
    /// server that starts with its clock ahead has forgotten what is old by that.
    async fn delivered(&self, http: SocketAddr, wanted: usize) {
        let all = async {
            loop {
                let requests = self.site.receiver.received();
                let came: BTreeSet<_> =
                    requests.iter().map(|one| one.headers["webhook-id"].as_str()).collect();
                let deliveries = self.deliveries(http).await;
                let done = deliveries.iter().all(|one| one["state"] == "delivered");
                assert!(deliveries.iter().all(|one| one["state"] != "exhausted"), "{deliveries:?}");
                if came.len() >= wanted && done {
                    return;
                }
            }
        };
        let came = timeout(PATIENCE, all).await;
        assert!(came.is_ok(), "not delivered: {:?}", self.deliveries(http).await);
    }

    async fn deliveries(&self, http: SocketAddr) -> Vec<Value> {
        let get = async |path: &str| -> Value {
            let url = format!("http://{http}/api/v2{path}?token={}", self.site.key);
            serde_json::from_str(&http::get(&url).await.text()).unwrap()
        };
        let webhook = get("/webhooks").await["webhooks"][0]["id"].as_str().unwrap().to_owned();
        let mut shown = get(&format!("/webhooks/{webhook}/deliveries")).await;
        serde_json::from_value(shown["deliveries"].take()).unwrap()
    }

    /// Ends the server; answers what it and those before it logged about the clock.
    async fn finish(self, server: Server) -> Vec<i64> {
        assert_eq!(server.terminate().await, 0);
        let steps = steps(&self.log());
        self.site.finish().await;
        steps
    }
}

/// The steps that the log tells of, in seconds.
fn steps(log: &Path) -> Vec<i64> {
    let log = std::fs::read_to_string(log).unwrap();
    canary::keep("log", log.as_bytes(), None);
    let step = |line: &str| {
        let (_, rest) = line.split_once("clock.step_ms=")?;
        let millis: i64 = rest.split_whitespace().next()?.parse().unwrap();
        Some((millis + 500).div_euclid(1000))
    };
    log.lines().filter_map(step).collect()
}

/// From now to the first second of 32 bits that are too few (2038-01-19), and a day beyond.
fn to_2038() -> i64 {
    let now = gatepost::run::system_mint().clock().now().seconds();
    i64::from(i32::MAX) - now + 24 * HOUR
}

/// Sets the clock while a delivery waits for its retry and its destination rests, again and again;
/// another waits from the time between a step and the one that takes it back.
async fn set_under_way(place: Place) {
    let clock = WallClock::off_by(0);
    let server = place.serve(&clock).await;
    let (mut off, mut messages, mut told) = (0, 0, Vec::new());
    for to in [HOUR, 0, -HOUR, -YEAR, YEAR, 0, to_2038(), 0] {
        place.fail(server.http, messages).await;
        clock.set(to);
        place.hand_in(server.http, messages + 1).await;
        messages += 2;
        place.delivered(server.http, messages).await;
        told.push(to - off);
        off = to;
    }
    let noticed = place.finish(server).await;
    let near = |(noticed, told): (&i64, &i64)| noticed.abs_diff(*told) <= 1;
    assert_eq!(noticed.len(), told.len(), "{noticed:?} {told:?}");
    assert!(noticed.iter().zip(&told).all(near), "{noticed:?} {told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_comes_when_it_is_due_however_the_clock_is_set() {
    set_under_way(Place::embedded().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_comes_when_it_is_due_however_the_clock_is_set_on_postgres() {
    set_under_way(Place::on_postgres().await).await;
}

/// The clock of one gateway's life is set back before the next one's: what the first made to wait
/// is due when its back-off is over.
async fn set_between(place: Place) {
    for (number, [first, second]) in
        [[YEAR, 0], [HOUR, -HOUR], [0, -YEAR], [to_2038(), 0]].into_iter().enumerate()
    {
        let (before, after) = (WallClock::off_by(first), WallClock::off_by(second));
        let server = place.serve(&before).await;
        place.fail(server.http, 2 * number).await;
        server.kill().await;
        let server = place.serve(&after).await;
        place.hand_in(server.http, 2 * number + 1).await;
        place.delivered(server.http, 2 * (number + 1)).await;
        server.kill().await;
    }
    let clock = WallClock::off_by(0);
    let server = place.serve(&clock).await;
    assert!(place.finish(server).await.is_empty(), "no clock was set under a server");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_outlives_a_restart_under_a_clock_that_was_set_back() {
    set_between(Place::embedded().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_outlives_a_restart_under_a_clock_that_was_set_back_on_postgres() {
    set_between(Place::on_postgres().await).await;
}

/// When a gateway whose clock is a year ahead, or behind, dies, the other one delivers what it
/// left.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_gateway_with_a_wrong_clock_leaves_is_due_for_the_others() {
    let place = Place::on_postgres().await;
    let clock = WallClock::off_by(0);
    let right = place.serve(&clock).await;
    for (number, off) in [YEAR, -YEAR].into_iter().enumerate() {
        let clock = WallClock::off_by(off);
        let wrong = place.serve(&clock).await;
        place.fail(wrong.http, 2 * number).await;
        place.hand_in(wrong.http, 2 * number + 1).await;
        wrong.kill().await;
        place.delivered(right.http, 2 * (number + 1)).await;
    }
    assert!(place.finish(right).await.is_empty(), "no clock was set under a server");
}
