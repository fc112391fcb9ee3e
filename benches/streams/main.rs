//! What readers cost those who send, and senders those who read: `cargo bench --ignore-rust-version
//! --bench streams`, with `-- --json` for programs, `-- --small` for a look that takes a minute, and
//! `-- --server PATH` for another build of the program.
//!
//! The server is `gatepost serve` over the embedded store, a process of its own for each line; this
//! process is the senders, in sessions that stay open, and the readers of `GET /events`, who read all
//! that comes. A hundred readers each follow the Agent, its organization, its reseller and the partner,
//! so that they get every event whole; those beyond follow other Agents. Both share the machine with
//! the server, and signing is done before. Then 400 sessions send at full speed beside one client who
//! reads, and at last it searches what they have sent, which is all of the same few words.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a measurement that cannot be taken ends with a panic; its figures are printed"
)]

mod crowd;
mod report;
#[expect(dead_code, reason = "the tests need more of it")]
#[path = "../../tests/it/support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use gatepost::domain::account::AccountType;
use gatepost::store::Location;
use reqwest::Client;
use tokio::task::JoinSet;

use crowd::{Letters, Readers, send};
use report::{Beside, Followed, Report, Waits};
use support::process::{GATEPOST, Server};
use support::rules;
use support::site::Site;

/// Readers of one account, as `policies/access.toml` has it.
const OF_ONE: usize = 100;
/// Sessions beside readers, and beside requests.
const FEW: usize = 20;
const MANY: usize = 400;
const INTAKE: &str = "[rates]\nsignature_messages_per_minute = 0\nsender_messages_per_minute = 0\n\
                      room_messages_per_minute = 0\n";
const SMTP: &str = "[limits]\nmax_transactions = 999999\n[rates]\nconnections_per_minute = 0\n\
                    messages_per_minute = 0\nrecipients_per_minute = 0\n";
const ACCESS: &str = "[rates]\nreads_per_minute = 0\nkeyless_per_minute = 0\n\
                      [connections]\nmax_per_address = 4096\n\
                      [events]\nmax_waiting_per_key = 100\n";
/// Words that all messages have, and that stand nowhere in this order.
const PHRASE: &str = "%22order+the+please%22";

/// Measure what readers cost
#[derive(Parser)]
struct Options {
    /// Measure only streams, or reads
    only: Option<String>,
    /// How many follow the log, one line each
    #[arg(long, value_delimiter = ',', default_values_t = [0, 10, 100, 390, 1000])]
    readers: Vec<usize>,
    /// Messages of a line
    #[arg(long, default_value_t = 4000)]
    messages: usize,
    /// Messages that are sent beside requests, and searched then
    #[arg(long, default_value_t = 24_000)]
    searched: usize,
    /// The program
    #[arg(long)]
    server: Option<PathBuf>,
    /// A tenth of the messages
    #[arg(long)]
    small: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// As `cargo bench` says and `cargo test` does not
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() {
    let mut options = Options::parse();
    if !options.bench {
        println!("nothing is measured in a test run: use cargo bench");
        return;
    }
    if options.small {
        (options.messages, options.searched) = (options.messages / 10, options.searched / 10);
    }
    let wanted = |name: &str| options.only.as_ref().is_none_or(|only| only == name);
    let mut report = Report::default();
    if wanted("streams") {
        let letters = Letters::write(options.messages + FEW);
        for readers in &options.readers {
            report.followed.push(followed(*readers, &letters, &options).await);
        }
    }
    if wanted("reads") {
        report.beside.extend(beside(&options).await);
    }
    if options.json { report.print_json() } else { report.print_table() }
}

/// A new server with what surrounds it, and keys of those who read.
struct Stage {
    folder: tempfile::TempDir,
    site: Site,
    server: Server,
    keys: Vec<String>,
}

impl Stage {
    async fn set(accounts: usize, options: &Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("store");
        let location = Location::Folder(data.clone());
        let files = [("intake.toml", INTAKE), ("smtp.toml", SMTP), ("access.toml", ACCESS)];
        let site = Site::build(&location, &rules(folder.path(), &files)).await;
        let house = &site.house;
        let own = house.agents.values().find(|agent| agent.name == "support").unwrap();
        let above = [house.organization.id, house.reseller.id, house.partner.id];
        let mut followed: Vec<_> = [own.id].into_iter().chain(above).collect();
        for number in followed.len()..accounts {
            let (name, organization) = (format!("other {number}"), house.organization.id);
            let made = site.tenancy.create_account(AccountType::Agent, organization, &name, &[]);
            followed.push(made.await.unwrap().id);
        }
        let mut keys = Vec::new();
        for account in followed.into_iter().take(accounts) {
            keys.push(site.tenancy.create_key(account, "read").await.unwrap().token);
        }
        site.leave_store().await;
        let settings = format!("policies = {:?}\n", folder.path().join("policies"));
        std::fs::write(data.join("gatepost.toml"), settings).unwrap();
        let program = options.server.as_ref().map_or(GATEPOST, |path| path.to_str().unwrap());
        let server = Server::start_by(&[program], &data, site.dns.addr()).await;
        Self { folder, site, server, keys }
    }

    /// The seconds of CPU that the server has taken.
    fn cpu(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.server.id())).unwrap();
        let ticks = stat.rsplit_once(')').unwrap().1.split_whitespace().skip(11).take(2);
        ticks.map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / 100.0
    }

    async fn finish(self) {
        self.server.kill().await;
        self.site.finish().await;
        drop(self.folder);
    }
}

async fn followed(readers: usize, letters: &Letters, options: &Options) -> Followed {
    let stage = Stage::set(readers.div_ceil(OF_ONE).max(1), options).await;
    // What is made once, and what is remembered of the first messages, is no reader's.
    send(stage.server.smtp, letters.first(FEW), FEW).await;
    let follow = Readers::gather(stage.server.http, &stage.keys, readers, OF_ONE).await;
    let (cpu, begun) = (stage.cpu(), Instant::now());
    let answered = send(stage.server.smtp, letters.behind(FEW), FEW).await;
    let took = begun.elapsed();
    let (cpu, read) = (stage.cpu() - cpu, follow.octets());
    drop(follow);
    stage.finish().await;
    Followed { readers, messages: answered.len(), took, cpu, read, answered: Waits::new(answered) }
}

/// How long requests take beside many sessions, and searches behind them.
async fn beside(options: &Options) -> Vec<Beside> {
    let stage = Stage::set(3, options).await;
    let base = format!("http://{}/api/v2", stage.server.http);
    let letters = Arc::new(Letters::write(options.searched));
    let recent = format!("{base}/messages/recent?limit=50&token={}", stage.keys[1]);
    let (smtp, sent) = (stage.server.smtp, Arc::clone(&letters));
    let begun = Instant::now();
    let sending = tokio::spawn(async move { send(smtp, sent.behind(0), MANY).await });
    let mut asking = JoinSet::new();
    asking.spawn(async move { ask(&recent, |_| !sending.is_finished()).await });
    let (waits, _) = asking.join_next().await.unwrap().unwrap();
    let rate = letters.behind(0).len() as f64 / begun.elapsed().as_secs_f64();
    let mut found = vec![Beside { what: "recent, beside 400 sessions", rate, waits }];
    for (what, query) in
        [("a common word", "order"), ("a phrase of common words that is nowhere", PHRASE)]
    {
        let url = format!("{base}/messages/search?limit=50&token={}&q={query}", stage.keys[1]);
        let (waits, _) = ask(&url, |asked| asked < 30).await;
        found.push(Beside { what, rate: 0.0, waits });
    }
    stage.finish().await;
    found
}

/// Asks one time after the other while it is told to.
async fn ask(url: &str, goes_on: impl Fn(usize) -> bool) -> (Waits, Duration) {
    let (client, mut waits, begun) = (Client::new(), Vec::new(), Instant::now());
    while waits.is_empty() || goes_on(waits.len()) {
        let asked = Instant::now();
        let answer = client.get(url).send().await.unwrap();
        let status = answer.status().as_u16();
        let body = answer.bytes().await.unwrap();
        // Where a search looks at more than it may, it says so.
        assert!(matches!(status, 200 | 400), "{}", String::from_utf8_lossy(&body));
        waits.push(asked.elapsed());
    }
    (Waits::new(waits), begun.elapsed())
}
