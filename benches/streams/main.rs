//! The cost of readers to senders, and of senders to readers: `cargo bench --ignore-rust-version
//! --bench streams`, with `-- --json` for programs, `-- --small` for a look that takes a minute, and
//! `-- --server PATH` for another build of the program.
//!
//! The server is `gatepost serve`, a process of its own for each line; this
//! process is the senders, in sessions that stay open, and the readers of `GET /events`, who read all
//! that comes. A hundred readers each follow the Agent, its organization, its reseller and the partner,
//! so that they get every event whole; those beyond (`-- --hearing N`: all but N) follow other Agents.
//! Both share the machine with the server, on threads of their own, and signing is done before. Then 400
//! sessions send at full speed beside one client who reads, and at last it searches what they have sent,
//! which is all of the same few words.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement that cannot be taken ends with a panic; its figures are printed"
)]

mod readers;
mod report;
#[expect(dead_code, reason = "other measurements need more of it")]
#[path = "../stage/mod.rs"]
mod stage;
#[expect(dead_code, reason = "the tests need more of it")]
#[path = "../../tests/it/support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::time::Instant;

use clap::Parser;
use gatepost::domain::account::AccountType;
use reqwest::Client;

use readers::Readers;
use report::{Beside, Followed, Report};
use stage::UNLIMITED;
use stage::cost::Cost;
use stage::letters::{Letters, send};
use stage::place::{Kind, Place};
use stage::waits::Waits;
use support::process::{GATEPOST, Server};
use support::site::Site;

/// Readers of one account, as `policies/access.toml` has it.
const OF_ONE: usize = 100;
/// Readers that get every event: of the Agent and of all accounts above it.
const WHOLE: usize = 4 * OF_ONE;
/// Bytes of a text.
const TEXT: usize = 3500;
/// Sessions beside readers, and beside requests.
const FEW: usize = 20;
const MANY: usize = 400;
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
    /// How many of them get every event; the others follow other Agents
    #[arg(long, default_value_t = WHOLE)]
    hearing: usize,
    /// Messages of a line
    #[arg(long, default_value_t = 4000)]
    messages: usize,
    /// Messages that are sent beside requests, and searched then
    #[arg(long, default_value_t = 24_000)]
    searched: usize,
    /// Only this one: sqlite or postgresql
    #[arg(long)]
    database: Option<String>,
    /// The program, for the embedded store
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
    for kind in Kind::all(options.database.as_deref()) {
        if wanted("streams") {
            let letters = Letters::write(options.messages + FEW, TEXT);
            for readers in &options.readers {
                report.followed.push(followed(kind, *readers, &letters, &options).await);
            }
        }
        if wanted("reads") {
            report.beside.extend(beside(kind, &options).await);
        }
    }
    if options.json { report.print_json() } else { report.print_table() }
}

struct Stage {
    place: Place,
    site: Site,
    server: Server,
    keys: Vec<String>,
}

impl Stage {
    async fn set(kind: Kind, accounts: usize, options: &Options) -> Self {
        let place = Place::new(kind, &UNLIMITED);
        let site = Site::build(&place.location, &place.rules).await;
        let house = &site.house;
        let own = house.agents.values().find(|agent| agent.name == "open").unwrap();
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
        let program = options.server.as_ref().map_or(GATEPOST, |path| path.to_str().unwrap());
        let server = place.serve(program, site.dns.addr()).await;
        Self { place, site, server, keys }
    }

    async fn finish(self) {
        self.server.kill().await;
        self.site.finish().await;
        drop(self.place);
    }
}

async fn followed(kind: Kind, readers: usize, letters: &Letters, options: &Options) -> Followed {
    let hearing = readers.min(options.hearing).min(WHOLE);
    let others = (readers - hearing).div_ceil(OF_ONE);
    let stage = Stage::set(kind, WHOLE / OF_ONE + others, options).await;
    // One-time costs of the first messages do not count for the readers.
    send(stage.server.smtp, letters, 0..FEW, (FEW, true)).await;
    let own = (0..hearing).map(|number| number / OF_ONE);
    let keys = own.chain((0..readers - hearing).map(|number| (WHOLE + number) / OF_ONE));
    let keys = keys.map(|place| stage.keys[place].clone());
    let follow = Readers::gather(stage.server.http, keys).await;
    let (before, begun) = (Cost::of(stage.server.id()), Instant::now());
    let last = FEW + options.messages;
    let answered = send(stage.server.smtp, letters, FEW..last, (FEW, true)).await;
    let took = begun.elapsed();
    let (cost, read) = (Cost::of(stage.server.id()) - before, follow.octets());
    let late = follow.caught_up().await;
    let all = follow.octets();
    drop(follow);
    stage.finish().await;
    Followed { store: kind.name(), readers, took, cpu: cost.cpu, read, all, late, answered }
}

/// How long requests take beside many sessions, and searches behind them.
async fn beside(kind: Kind, options: &Options) -> Vec<Beside> {
    let stage = Stage::set(kind, 3, options).await;
    let base = format!("http://{}/api/v2", stage.server.http);
    let letters = Letters::write(options.searched, TEXT);
    let recent = format!("{base}/messages/recent?limit=50&token={}", stage.keys[1]);
    let (smtp, searched, begun) = (stage.server.smtp, options.searched, Instant::now());
    let sending =
        tokio::spawn(async move { send(smtp, &letters, 0..searched, (MANY, true)).await });
    let waits = ask(&recent, |_| !sending.is_finished()).await;
    let rate = searched as f64 / begun.elapsed().as_secs_f64();
    let store = kind.name();
    let mut found = vec![Beside { store, what: "recent, beside 400 sessions", rate, waits }];
    for (what, query) in
        [("a common word", "order"), ("a phrase of common words that is nowhere", PHRASE)]
    {
        let url = format!("{base}/messages/search?limit=50&token={}&q={query}", stage.keys[1]);
        let waits = ask(&url, |asked| asked < 30).await;
        found.push(Beside { store, what, rate: 0.0, waits });
    }
    stage.finish().await;
    found
}

/// Repeats a request while `goes_on` says so.
async fn ask(url: &str, goes_on: impl Fn(usize) -> bool) -> Waits {
    let (client, mut waits) = (Client::new(), Vec::new());
    while waits.is_empty() || goes_on(waits.len()) {
        let asked = Instant::now();
        let answer = client.get(url).send().await.unwrap();
        let status = answer.status().as_u16();
        let body = answer.bytes().await.unwrap();
        // A search that reaches its limit of work fails with 400.
        assert!(matches!(status, 200 | 400), "{}", String::from_utf8_lossy(&body));
        waits.push(asked.elapsed());
    }
    Waits::new(waits)
}
