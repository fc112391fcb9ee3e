//! Sessions over a simulated network, before a simulated store: sessions are those of the program,
//! time is tokio's and stands still while anybody works. Clients, chunks, cuts, the store's answers
//! and the end of the server are as a seed says, which repeats every step.

mod client;
mod desk;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::duplex;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use self::client::Client;
use self::desk::{Desk, Flaw};
use super::super::door::Door;
use super::super::listener::settings;
use crate::domain::domain_name::DomainName;
use crate::domain::ports::MailLoad;
use crate::rules::{Rules, SmtpRules};
use crate::shutdown::Shutdown;
use crate::testkit::dice::Dice;
use crate::testkit::seeds::{self, Broken};

/// Small bounds, which sessions reach. Rates are simulated elsewhere.
const RULES: &str = "
    [deadlines]\nanswer_seconds = 60\nsession_seconds = 900
    [memory]\nreserve_step_bytes = 16384
    [exempt]\nnetworks = [\"127.0.0.0/8\"]";

const LARGEST: usize = 100_000;

/// The server gives its sessions so long to end.
const GRACE: Duration = Duration::from_secs(30);

/// Simulates one seed. Returns a digest of all that happened, or what was broken.
fn simulate(seed: u64, rules: &SmtpRules, flaw: Option<Flaw>) -> Result<u64, Broken> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut dice = Dice(seed);
        let desk = Arc::new(Desk::new(dice.below(u64::MAX), flaw));
        let shutdown = Shutdown::default();
        let hostname = DomainName::parse("mx.gatepost.example").unwrap();
        let settings = settings(&hostname, rules, LARGEST, false);
        let intake = Arc::clone(&desk);
        let door = Arc::new(Door::new(settings, intake, rules, 100, None, shutdown.clone()));
        let load = door.load();
        let mut clients = JoinSet::new();
        for number in 0..1 + dice.below(6) {
            let (near, far) = duplex(*dice.pick(&[1, 64, 4096, 65_536]));
            let door = Arc::clone(&door);
            shutdown.spawn_with_last_word(Duration::from_secs(2), async move {
                door.simulate(near, IpAddr::V4(Ipv4Addr::LOCALHOST)).await;
            });
            let begins = dice.within(Duration::from_secs(60));
            let client = Client::new(number, dice.below(u64::MAX), Arc::clone(&desk));
            clients.spawn(async move {
                sleep(begins).await;
                client.run(far).await;
            });
        }
        if dice.once_in(3) {
            sleep(dice.within(Duration::from_secs(120))).await;
            desk.stops();
            shutdown.finish(GRACE).await;
        }
        let all = async {
            while clients.join_next().await.is_some() {}
            // A session may be busy when its client has left.
            while !is_idle(&load()) {
                sleep(Duration::from_secs(1)).await;
            }
        };
        if timeout(Duration::from_hours(24), all).await.is_err() {
            desk.breaks("a session never ends, or keeps its place or memory");
        }
        desk.judged()
    })
}

fn is_idle(load: &MailLoad) -> bool {
    load.sessions == Some(0) && load.memory_bytes == Some(0)
}

fn rules() -> SmtpRules {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("smtp.toml"), RULES).unwrap();
    let mut rules = Rules::load(folder.path()).unwrap().smtp;
    // Less than a server may have.
    rules.memory.max_bytes_in_flight = 262_144;
    rules
}

#[test]
fn thousands_of_seeds_lose_cut_and_misname_no_message() {
    let rules = rules();
    seeds::hold(1000, |seed| simulate(seed, &rules, None));
}

#[test]
fn a_seed_is_repeated_step_by_step() {
    let rules = rules();
    seeds::repeat(|seed| simulate(seed, &rules, None));
}

#[test]
fn what_a_bad_store_does_is_noticed() {
    let rules = rules();
    for (flaw, said) in [
        (Flaw::Forgets, "was acknowledged and is not there"),
        (Flaw::Doubles, "is there twice"),
        (Flaw::Shortens, "is not what was sent"),
        (Flaw::Misdirects, "has other recipients than were accepted"),
        (Flaw::Denies, "was refused for good and is there"),
    ] {
        seeds::notice(100, said, |seed| simulate(seed, &rules, Some(flaw)));
    }
}
