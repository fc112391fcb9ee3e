//! Keeping certificates by ACME, without an authority.
//! `tests/it/acme.rs` tests the whole exchange against an authority.

mod challenges;
mod kept;
mod policy_hosts;
mod renewal;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use hyper::http::HeaderMap;
use jiff::civil::date;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::failure::AcmeError;
use super::folder::{AcmeFolder, AttemptRecord};
use super::keeper::ORDER_TRIES;
use super::leading::Leading;
use super::*;
use crate::domain::clock::{Clock, Timestamp};
use crate::egress::client::WholeResponse;
use crate::egress::guard::Guard;
use crate::rules::Rules;
use crate::tls::self_signed;

const SOON: Duration = Duration::from_secs(20);

fn settings(folder: &Path) -> Settings {
    Settings {
        directory: "https://ca.example:9000/acme/dir".parse().unwrap(),
        contact: Vec::new(),
        names: vec![DomainName::parse("mx.example").unwrap()],
        challenge: AcmeChallenge::Http01,
        http: "127.0.0.1:0".parse().unwrap(),
        folder: folder.join("acme"),
        ca_file: None,
    }
}

fn name(text: &str) -> DomainName {
    DomainName::parse(text).unwrap()
}

/// The folder for the certificate of the server's own name.
fn own(settings: &Settings) -> AcmeFolder {
    AcmeFolder::of(settings, &settings.names[0])
}

/// Has a clock that stands still, and randomness in which every byte is `octet`.
fn work(folder: &Path, now: Timestamp, octet: u8) -> Keeper {
    work_with(settings(folder), now, octet)
}

/// Asks at this directory, on the first day.
fn work_at(folder: &Path, directory: &str) -> Keeper {
    let directory = directory.parse().unwrap();
    work_with(Settings { directory, ..settings(folder) }, on_day(1), 0)
}

fn work_with(settings: Settings, now: Timestamp, octet: u8) -> Keeper {
    work_by(Rules::defaults().unwrap(), settings, now, octet)
}

fn work_by(rules: Rules, settings: Settings, now: Timestamp, octet: u8) -> Keeper {
    let guard = Guard::new(Vec::new(), &rules.webhooks);
    let nowhere = Lookup::new(|_| async { Err(io::Error::other("there is no DNS")) });
    let client = Client::new(guard, Limits::from(&rules.acme), nowhere.clone()).unwrap();
    let clock = Clock::new(move || now);
    let mint = Mint::new(clock.clone(), Arc::new(move |octets: &mut [u8]| octets.fill(octet)));
    let own = self_signed::make_temporary(&settings.names[0]).unwrap();
    let certificates = Certificates::new(own, None, clock);
    let (shown, rules) = ((certificates, Challenges::default()), Arc::new(rules.acme));
    let authority = Authority::new(settings, rules, (client, nowhere), shown, mint, true);
    Keeper::new(&Arc::new(authority), name("mx.example"))
}

/// The error of an attempt after so many failures.
async fn attempt(work: &Keeper, failures: u32) -> Result<(), AcmeError> {
    let next = Next { failures, ..work.begin().await };
    work.attempt(&next).await.map(drop)
}

/// When the authority is asked next, after so many failures.
async fn begun(work: &Keeper) -> (Timestamp, u32) {
    let next = work.begin().await;
    (next.due(), next.failures)
}

/// Valid for the hundred days from 1 January 2026.
fn chain(key: &str, name: &str) -> String {
    let mut parameters = CertificateParams::new(vec![name.to_owned()]).unwrap();
    parameters.not_before = date_time_ymd(2026, 1, 1);
    parameters.not_after = date_time_ymd(2026, 4, 11);
    parameters.self_signed(&KeyPair::from_pem(key).unwrap()).unwrap().pem()
}

fn on_day(day: u64) -> Timestamp {
    Timestamp::from_utc(date(2026, 1, 1).into()).plus(Duration::from_secs(day * 86_400))
}
