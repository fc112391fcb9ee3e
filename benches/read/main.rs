//! The cost of reading in stores of all sizes: `cargo bench --ignore-rust-version --bench
//! read`, with `-- --json` for programs, `-- --small` for a look, `-- --rows 1000,100000` and
//! `-- --database sqlite` for a part of it.
//!
//! The server is `gatepost serve`, a process of its own for each store; the requests come one after
//! the other on one connection: of the API (`requests`), then pages of the console (`pages.rs`).
//! Messages are rows that the database itself makes up (`fill.rs`), without raw bytes. It should be flat: a page costs the same however many rows there are.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement that cannot be taken ends with a panic; its figures are printed"
)]

mod accounts;
mod fill;
mod pages;
mod report;
#[expect(dead_code, reason = "other measurements need more of it")]
#[path = "../stage/mod.rs"]
mod stage;
#[expect(dead_code, reason = "the tests need more of it")]
#[path = "../../tests/it/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use clap::Parser;
use gatepost::testkit::smtp_client::{Transaction, deliver};
use reqwest::{Client, RequestBuilder};
use serde_json::Value;

use accounts::Accounts;
use report::{Line, Report};
use stage::place::{Kind, Place};
use stage::waits::Waits;
use support::process::{GATEPOST, Server};
use support::signed;
use support::site::Site;

/// Measure reading
#[derive(Parser)]
struct Options {
    /// How many messages there are, one store after the other
    #[arg(long, value_delimiter = ',', default_values_t = [1000, 100_000, 5_000_000])]
    rows: Vec<u64>,
    /// Only this one: sqlite or postgresql
    #[arg(long)]
    database: Option<String>,
    /// Requests of each kind
    #[arg(long, default_value_t = 300)]
    requests: usize,
    /// Messages sent to measure when they can be seen
    #[arg(long, default_value_t = 100)]
    messages: usize,
    /// Leave the index of full-text search empty, which takes most of the time
    #[arg(long)]
    without_search: bool,
    /// 1,000 and 10,000 rows, and few requests
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
        options.rows = vec![1000, 10_000];
        (options.requests, options.messages) = (50, 10);
    }
    let mut report = Report::default();
    for kind in Kind::all(options.database.as_deref()) {
        for rows in &options.rows {
            measure(kind, *rows, &options, &mut report).await;
        }
    }
    if options.json { report.print_json() } else { report.print_table() }
}

async fn measure(kind: Kind, rows: u64, options: &Options, report: &mut Report) {
    // Keeps unindexed messages unindexed during all searches.
    let rules = "[search]\nindex_patience_seconds = 3600";
    let place = Place::new(kind, &[("access.toml", rules)]);
    let site = Site::build(&place.location, &place.rules).await;
    let accounts = Accounts::build(&site.tenancy, site.house.partner.id).await;
    site.leave_store().await;
    let begun = Instant::now();
    fill::fill(&place.location, &accounts, rows, !options.without_search).await;
    eprintln!("{}: {rows} messages in {:.0} s", kind.name(), begun.elapsed().as_secs_f64());
    let server = place.serve(GATEPOST, site.dns.addr()).await;
    let base = format!("http://{}/api/v2", server.http);
    let client = Client::new();
    let of_api = requests(&accounts).into_iter();
    let of_api =
        of_api.map(|(what, path)| (what, client.get(format!("{base}{path}")), listed as _));
    let of_console = pages::requests(&server, &site, &accounts).await.into_iter();
    let of_console = of_console.map(|(what, request)| (what, request, pages::items as Items));
    for (what, request, items) in of_api.chain(of_console) {
        if let Some((waits, shown)) = ask((&what, &request), options.requests, items).await {
            report.lines.push(Line { store: kind.name(), rows, what, waits, shown });
        } else {
            eprintln!("{what}: skipped, this version does not have it");
        }
    }
    let waits = visible(&client, (&server, &base), &site.key, options.messages).await;
    let what = "from 250 until it is shown".to_owned();
    report.lines.push(Line { store: kind.name(), rows, what, waits, shown: 1 });
    server.kill().await;
    site.finish().await;
}

/// Names of the measured requests, each with its path and key.
fn requests(accounts: &Accounts) -> Vec<(String, String)> {
    let deep = format!("&before={}-{}", fill::EARLY, "0".repeat(32));
    let mut found = Vec::new();
    for (who, key) in accounts.readers() {
        for (place, cursor) in [("first page", ""), ("deep", deep.as_str())] {
            let path = format!("/messages/recent?limit=50&token={key}{cursor}");
            found.push((format!("recent, {who}, {place}"), path));
        }
    }
    for (who, key) in accounts.readers() {
        let path = format!("/conversations?pageSize=50&token={key}");
        found.push((format!("conversations, {who}"), path));
    }
    for (who, key) in accounts.readers() {
        for (words, query) in [
            ("a common word", fill::COMMON.to_owned()),
            ("a rare word", fill::RARE.to_owned()),
            ("a common and a rare word", format!("{}+{}", fill::COMMON, fill::RARE)),
            ("a phrase that is not there", format!("%22{0}+{0}%22", fill::COMMON)),
            ("a word that is not there", "nowhere".to_owned()),
        ] {
            let path = format!("/messages/search?limit=50&token={key}&q={query}");
            found.push((format!("search, {who}, {words}"), path));
        }
    }
    found
}

/// Counts what an answer shows.
type Items = fn(&[u8]) -> usize;

/// The items of an answer of the API.
fn listed(answer: &[u8]) -> usize {
    let items: Value = serde_json::from_slice(answer).unwrap();
    let list = items.as_object().and_then(|object| object.values().find_map(Value::as_array));
    items.as_array().or(list).map_or(0, Vec::len)
}

/// Repeats a request; returns its durations and the number of items in its answer, or `None` if
/// there is no such operation.
async fn ask(
    (what, request): (&str, &RequestBuilder),
    requests: usize,
    items: Items,
) -> Option<(Waits, usize)> {
    let mut waits = Vec::new();
    let mut shown = 0;
    for number in 0..requests + requests / 10 {
        let begun = Instant::now();
        let answer = request.try_clone().unwrap().send().await.unwrap();
        let status = answer.status().as_u16();
        let body = answer.bytes().await.unwrap();
        if status == 404 {
            return None;
        }
        assert_eq!(status, 200, "{what}: {}", String::from_utf8_lossy(&body));
        // The first requests fill caches.
        if number >= requests / 10 {
            waits.push(begun.elapsed());
        }
        shown = items(&body);
    }
    Some((Waits::new(waits), shown))
}

/// Time from the reply to a message until an answer shows it.
async fn visible(
    client: &Client,
    (server, base): (&Server, &str),
    key: &str,
    messages: usize,
) -> Waits {
    const PATIENCE: Duration = Duration::from_secs(30);
    let url = format!("{base}/messages/recent?limit=1&token={key}");
    let mut waits = Vec::new();
    for number in 0..messages {
        let subject = format!("number {number} of the measurement");
        let (raw, to) = (signed(&subject), ["support@agents.example".to_owned()]);
        let from = "alice@good.example";
        let transaction = Transaction { helo: "client.example", from, to: &to, raw: &raw };
        let replies = deliver(server.smtp, &transaction).await.unwrap();
        let begun = Instant::now();
        assert!(replies.accepted(), "{replies:?}");
        loop {
            let answer = client.get(&url).send().await.unwrap().text().await.unwrap();
            if answer.contains(&subject) {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "{subject} is not shown: {answer}");
        }
        waits.push(begun.elapsed());
    }
    Waits::new(waits)
}
