//! The cost of finding out who sent a message and its text, beside the least that a signature
//! can cost: `cargo bench --ignore-rust-version --bench verify`, with `-- --json` for programs.
//!
//! Real messages, really signed; the keys and records are answered by a DNS server on loopback and,
//! after the first time, by the resolver's memory, as with every sender who writes often. The least
//! is SHA-256 over the same bytes and one public-key operation per signature, with keys that have
//! been read before. Figures are CPU time of this process, so that others on the machine count for
//! nothing.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement that cannot be taken ends with a panic; its figures are printed"
)]

mod least;
mod letters;
mod report;

use std::alloc::System;
use std::time::Duration;

use clap::Parser;
use gatepost::app::intake::examine;
use gatepost::domain::clock::Timestamp;
use gatepost::domain::policy::Proof;
use gatepost::domain::ports::{Client, Envelope, IntakeReply};
use gatepost::domain::verdict::Verdict;
use gatepost::mail::{scan, summarise};
use gatepost::metrics::Metrics;
use gatepost::rules::Rules;
use gatepost::shutdown::Shutdown;
use gatepost::testkit::dns::DnsServer;
use gatepost::traces::{Traces, Transaction};
use gatepost::verify::{Authenticator, Question, Servers};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

use letters::{Keys, Letter, SIZES, Signed};
use report::Line;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

/// Counting takes some nanoseconds each time; the server has another allocator.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Measure what it costs to examine a message
#[derive(Parser)]
struct Options {
    /// How long each figure is measured
    #[arg(long, default_value_t = 1000)]
    millis: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// As `cargo bench` says and `cargo test` does not
    #[arg(long, hide = true)]
    bench: bool,
}

struct Examiner {
    rules: Rules,
    authenticator: Authenticator,
    now: Timestamp,
}

#[tokio::main]
async fn main() {
    let options = Options::parse();
    if !options.bench {
        println!("nothing is measured in a test run: use cargo bench");
        return;
    }
    let time = Duration::from_millis(options.millis);
    let keys = Keys::new();
    let dns = DnsServer::start(keys.zone(), Shutdown::default()).await.unwrap();
    let rules = Rules::defaults().unwrap();
    let servers = Servers::Given(vec![dns.addr()]);
    let authenticator = Authenticator::new(servers, &rules.intake, "gw.example").unwrap();
    // In the year 2096, so that every signature made now lies in the past.
    let examiner =
        Examiner { rules, authenticator, now: Timestamp::from_millis(4_000_000_000_000) };
    let mut lines = Vec::new();
    for signed in Signed::ALL {
        for size in SIZES {
            lines.push(examiner.line(&keys, &keys.letter(signed, size), time).await);
        }
    }
    if options.json { report::print_json(&lines) } else { report::print_table(&lines) }
}

impl Examiner {
    async fn line(&self, keys: &Keys, letter: &Letter, time: Duration) -> Line {
        let limits = &self.rules.intake.limits;
        let least = keys.least(letter);
        let scanned = scan::scan(&letter.raw, limits).unwrap();
        let envelope = envelope();
        let question = Question {
            raw: &letter.raw,
            headers: &scanned,
            client: &envelope.client,
            reverse_path: &envelope.reverse_path,
            is_tls_report: false,
            now: self.now,
        };
        let check = || async { self.authenticator.check(question).await.proof };
        // The first check asks the DNS server, later ones use the cache.
        assert_eq!(check().await, Proof::Authenticated);
        let whole = || async {
            let rules = &self.rules.intake;
            examine(&self.authenticator, rules, &envelope, &letter.raw, self.now).await.proof
        };
        assert_eq!(whole().await, Proof::Authenticated);
        let metrics = Metrics::new(self.now).unwrap();
        let examined =
            examine(&self.authenticator, &self.rules.intake, &envelope, &letter.raw, self.now)
                .await;
        let count = || {
            metrics.examined(&examined.steps, examined.results.as_deref());
            metrics.message(Verdict::Accepted, examined.size, Some("TLSv1.3"), time);
            metrics.committed(1, time);
        };
        let reply = IntakeReply { reason: None, detail: None, record: None, again: false };
        let (began, size) = (Instant::now(), examined.size);
        let intakes = &[];
        let answered =
            Transaction { envelope: &envelope, intakes, reply: &reply, size, began, commit: None };
        let traces = Traces::default();
        let untraced = || std::hint::black_box(&traces).transaction(&answered);
        let region = Region::new(ALLOCATOR);
        whole().await;
        let counted = region.change();
        Line {
            signed: letter.signed,
            octets: letter.raw.len(),
            least: cost(time, || async { least.run() }).await,
            scan: cost(time, || async { scan::scan(&letter.raw, limits).is_ok() }).await,
            verify: cost(time, check).await,
            read: cost(time, || async { summarise(&letter.raw, &scanned, &[], limits).is_ok() })
                .await,
            whole: cost(time, whole).await,
            metrics: cost(time, || async { count() }).await,
            // A thousand at once: a look at the clock costs more than one of them.
            untraced: cost(time, || async { (0..1000).for_each(|_| untraced()) }).await / 1000,
            allocations: counted.allocations + counted.reallocations,
            allocated: counted.bytes_allocated,
        }
    }
}

/// CPU time of one call of `work`, averaged over as many as fit in `time`.
async fn cost<F: Future>(time: Duration, work: impl Fn() -> F) -> Duration {
    let began = cpu();
    let mut done = 0;
    while done < 3 || cpu() - began < time {
        std::hint::black_box(work().await);
        done += 1;
    }
    (cpu() - began) / done
}

fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.try_into().unwrap(), now.tv_nsec.try_into().unwrap())
}

fn envelope() -> Envelope {
    let address = [192, 0, 2, 1].into();
    let helo = "out.good.example".to_owned();
    Envelope {
        client: Client { address, helo, esmtp: true, tls: None },
        reverse_path: "bounce@good.example".to_owned(),
        recipients: Vec::new(),
        smtputf8: false,
        posted: None,
        open_for: Duration::ZERO,
    }
}
