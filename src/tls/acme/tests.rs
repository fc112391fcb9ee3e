//! The folder, the time of renewal, and answers to strangers on the challenges' port.
//! `tests/it/acme.rs` tests the whole exchange against an authority.

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

#[test]
fn the_key_stays_whatever_is_asked_of_whom() {
    let folder = tempfile::tempdir().unwrap();
    let one = settings(folder.path());
    let other = Settings { directory: "https://other.example/".parse().unwrap(), ..one.clone() };
    let further = AcmeFolder::of(&one, &name("mta-sts.agents.example"));
    let (one, other) = (own(&one), own(&other));
    let key = one.key().unwrap().serialize_pem();
    one.keep_chain("of one").unwrap();
    one.keep_account("{}").unwrap();
    further.keep_chain("of a further name").unwrap();
    for (folder, chain, account) in [
        (&one, Some("of one"), Some("{}")),
        (&further, Some("of a further name"), Some("{}")),
        (&other, None, None),
    ] {
        assert_eq!(folder.key().unwrap().serialize_pem(), key);
        assert_eq!(folder.chain().unwrap().as_deref(), chain);
        assert_eq!(folder.account().unwrap().as_deref(), account);
    }
}

#[test]
fn an_order_is_open_for_its_name_alone_until_its_chain_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    let one = own(&settings);
    assert_eq!(one.order().unwrap(), None);
    one.keep_order("https://ca.example/order/1").unwrap();
    assert_eq!(one.order().unwrap().as_deref(), Some("https://ca.example/order/1"));
    assert_eq!(AcmeFolder::of(&settings, &name("mx2.example")).order().unwrap(), None);
    one.keep_chain("the chain").unwrap();
    assert_eq!(one.order().unwrap(), None);
    // By a version that ordered all names at once.
    let path = settings.folder.join("ca.example_9000_acme_dir/order");
    std::fs::write(path, "https://ca.example/order/1 mx.example mx2.example").unwrap();
    assert_eq!(one.order().unwrap(), None);
}

#[test]
fn what_is_stored_is_found_by_its_name_and_removed_by_it() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    let key = own(&settings).key().unwrap().serialize_pem();
    let names = || {
        let found = stored(&settings).unwrap();
        found.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>()
    };
    for one in ["mx.example", "mta-sts.a.example", "mta-sts.b.example"] {
        AcmeFolder::of(&settings, &name(one)).keep_chain(&chain(&key, one)).unwrap();
    }
    assert_eq!(names(), ["mx.example", "mta-sts.a.example", "mta-sts.b.example"]);
    let is_a = |name: &DomainName| name.as_str() == "mta-sts.a.example";
    folder::remove(&settings, on_day(1), is_a).unwrap();
    assert_eq!(names(), ["mx.example", "mta-sts.b.example"]);
    let kept = all_files(&settings.folder).unwrap();
    let kept: Vec<_> = kept.iter().map(|(path, _)| path.to_str().unwrap()).collect();
    let directory = "ca.example_9000_acme_dir";
    let wanted =
        ["/chain.pem", "/mta-sts.b.example/chain.pem"].map(|end| format!("{directory}{end}"));
    assert_eq!(kept, [wanted[0].as_str(), &wanted[1], "key.pem"]);
}

/// Else who toggles a domain would have the authority asked each time.
#[test]
fn waits_of_a_removed_name_stay_until_they_are_over() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    let host = AcmeFolder::of(&settings, &name("mta-sts.a.example"));
    let later = |minutes: u64| on_day(1).plus(Duration::from_secs(minutes * 60));
    for (wait, until) in [(1, 60), (180, 180)] {
        let tried = AttemptRecord { at: on_day(1), not_before: later(wait), failures: 3 };
        host.note(tried).unwrap();
        host.keep_chain("the chain").unwrap();
        host.keep_order("https://ca.example/order/1").unwrap();
        folder::remove(&settings, later(until - 1), |_| true).unwrap();
        assert_eq!(host.tried().unwrap(), Some(tried));
        assert_eq!((host.chain().unwrap(), host.order().unwrap()), (None, None));
        folder::remove(&settings, later(until), |_| true).unwrap();
        let path = settings.folder.join("ca.example_9000_acme_dir/mta-sts.a.example");
        assert!(!path.exists(), "{wait}");
    }
}

#[test]
fn only_its_owner_reads_what_is_kept_and_nothing_else_lies_there() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    let kept = own(&settings);
    kept.key().unwrap();
    kept.keep_account("{}").unwrap();
    kept.keep_chain("one").unwrap();
    kept.keep_chain("two").unwrap();
    let tried = AttemptRecord { at: on_day(1), not_before: on_day(2), failures: 3 };
    kept.note(tried).unwrap();
    assert_eq!(kept.tried().unwrap(), Some(tried));
    kept.keep_window("a.b 1").unwrap();
    kept.keep_order("https://ca.example/order/1").unwrap();
    let mut found = Vec::new();
    for within in ["acme", "acme/ca.example_9000_acme_dir"] {
        let within = folder.path().join(within);
        assert_eq!(std::fs::metadata(&within).unwrap().permissions().mode() & 0o777, 0o700);
        for entry in std::fs::read_dir(&within).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600);
                found.push(entry.file_name().into_string().unwrap());
            }
        }
    }
    found.sort();
    assert_eq!(found, ["account.json", "chain.pem", "key.pem", "order", "tried", "window"]);
}

#[test]
fn a_damaged_key_is_named_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    std::fs::create_dir(&settings.folder).unwrap();
    std::fs::write(settings.folder.join("key.pem"), "what is this?").unwrap();
    let error = AcmeError::from(own(&settings).key().unwrap_err());
    assert!(error.to_string().contains("key.pem"), "{error}");
    assert!(error.advice(AcmeChallenge::Http01, true).unwrap().contains("remove the file"));
    assert_eq!(std::fs::read(settings.folder.join("key.pem")).unwrap(), b"what is this?");
}

#[tokio::test]
async fn what_is_kept_is_shown_and_renewed_when_two_thirds_of_its_life_are_over() {
    for (octet, day) in [(0, 66), (0xff, 64)] {
        let folder = tempfile::tempdir().unwrap();
        let work = work(folder.path(), on_day(200), octet);
        let chain = chain(&work.folder.key().unwrap().serialize_pem(), "mx.example");
        work.folder.keep_chain(&chain).unwrap();
        assert_eq!(begun(&work).await, (on_day(200), 0));
        // Expired, and still shown.
        let shown = work.authority.certificates.current();
        assert_eq!(shown.until(), on_day(100));
        assert_eq!(work.renewal(&shown), on_day(day), "by luck {octet}");
    }
}

#[tokio::test]
async fn what_the_authority_suggested_stays_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let work = work(folder.path(), on_day(1), 0);
    let authority = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::new(vec!["authority".to_owned()]).unwrap();
    parameters.key_usages.push(rcgen::KeyUsagePurpose::KeyCertSign);
    let issuer = rcgen::Issuer::new(parameters, authority);
    let mut own = CertificateParams::new(vec!["mx.example".to_owned()]).unwrap();
    own.not_before = date_time_ymd(2026, 1, 1);
    own.not_after = date_time_ymd(2026, 4, 11);
    own.use_authority_key_identifier_extension = true;
    let issued = own.signed_by(&work.folder.key().unwrap(), &issuer).unwrap();
    work.folder.keep_chain(&issued.pem()).unwrap();
    let key = work.folder.key().unwrap().serialize_pem();
    let pair = crate::tls::Pair::from_pem(issued.pem().as_bytes(), key.as_bytes()).unwrap();
    let id = window::identifier(&pair).unwrap();
    let days = [2, 10, 20, 15].map(|day| on_day(day).millis().to_string()).join(" ");
    work.folder.keep_window(&format!("{id} {days}")).unwrap();
    assert_eq!(begun(&work).await, (on_day(15), 0));
    // An authority that always names the past gets no order a minute.
    let past = [2, -9, -5, -7].map(|day| (on_day(0).millis() + day * 86_400_000).to_string());
    work.folder.keep_window(&format!("{id} {}", past.join(" "))).unwrap();
    let young = work_with(settings(folder.path()), on_day(0), 0);
    assert_eq!(begun(&young).await, (on_day(1), 0));
    work.folder.keep_window(&format!("another.one {days}")).unwrap();
    assert_eq!(begun(&work).await, (on_day(66), 0));
}

#[tokio::test]
async fn nobody_is_asked_sooner_however_often_it_is_started() {
    let folder = tempfile::tempdir().unwrap();
    let work = work(folder.path(), on_day(1), 0);
    assert_eq!(begun(&work).await, (on_day(1), 0));
    let later = |seconds| on_day(1).plus(Duration::from_secs(seconds));
    for (at, not_before, wanted) in [
        (on_day(1), later(3600), (later(3600), 3)),
        (on_day(0), on_day(0), (on_day(0), 3)),
        // No wait is longer than the longest.
        (on_day(1), on_day(9), (later(21_600), 3)),
        // The clock was wrong then.
        (on_day(2), on_day(2), (on_day(1), 0)),
    ] {
        work.folder.note(AttemptRecord { at, not_before, failures: 3 }).unwrap();
        assert_eq!(begun(&work).await, wanted);
    }
}

#[tokio::test]
async fn a_damaged_key_bothers_no_authority_and_shortens_no_wait() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let work = work_at(folder.path(), &format!("https://{}/dir", listener.local_addr().unwrap()));
    let settings = settings(folder.path());
    std::fs::create_dir(&settings.folder).unwrap();
    std::fs::write(settings.folder.join("key.pem"), "what is this?").unwrap();
    let error = attempt(&work, 0).await.unwrap_err();
    assert!(error.is_our_own() && error.to_string().contains("key.pem"), "{error}");
    assert_eq!(work.folder.tried().unwrap(), None);
    let tried = AttemptRecord { at: on_day(1), not_before: on_day(1).plus(SOON), failures: 1 };
    work.folder.note(tried).unwrap();
    assert_eq!(begun(&work).await, (tried.not_before, 1));
}

#[tokio::test]
async fn an_attempt_that_is_cut_short_has_failed() {
    let folder = tempfile::tempdir().unwrap();
    let work = work_at(folder.path(), "http://ca.example/dir");
    for (failures, wait) in [(0, 60), (1, 900)] {
        attempt(&work, failures).await.unwrap_err();
        let due = on_day(1).plus(Duration::from_secs(wait));
        assert_eq!(begun(&work).await, (due, failures + 1));
    }
}

#[tokio::test]
async fn what_is_kept_and_does_not_fit_is_asked_for_anew() {
    let folder = tempfile::tempdir().unwrap();
    let work = work(folder.path(), on_day(1), 0);
    let key = work.folder.key().unwrap().serialize_pem();
    let foreign = KeyPair::generate().unwrap().serialize_pem();
    for text in
        [chain(&key, "other.example"), chain(&foreign, "mx.example"), "no certificate".to_owned()]
    {
        work.folder.keep_chain(&text).unwrap();
        assert_eq!(begun(&work).await, (on_day(1), 0), "{text}");
    }
    work.folder.keep_chain(&chain(&key, "mx.example")).unwrap();
    assert_eq!(begun(&work).await, (on_day(66), 0));
}

#[tokio::test]
async fn waits_grow_up_to_the_last_one_and_an_authority_may_ask_for_more() {
    let folder = tempfile::tempdir().unwrap();
    let work = work(folder.path(), on_day(1), 0);
    let waits: Vec<_> = (0..7).map(|failures| work.wait(failures).as_secs()).collect();
    assert_eq!(waits, [60, 900, 3600, 10_800, 21_600, 21_600, 21_600]);
}

fn answered(status: u16, retry_after: Option<Duration>, body: &str) -> WholeResponse {
    WholeResponse { status, headers: HeaderMap::new(), retry_after, body: body.into() }
}

#[tokio::test]
async fn an_authority_may_ask_for_a_longer_wait_once_and_not_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let work = work(folder.path(), on_day(1), 0);
    let refuse = |seconds| {
        let wait = Some(Duration::from_secs(seconds));
        let answer = work.transport.response(answered(429, wait, "{}")).unwrap();
        answer.parts.headers["retry-after"].to_str().unwrap().to_owned()
    };
    assert_eq!(refuse(7200), "7200");
    assert_eq!(work.wait(0).as_secs(), 7200);
    assert_eq!(work.wait(0).as_secs(), 60);
    assert_eq!(refuse(u64::MAX), "86400");
    assert_eq!(work.wait(0).as_secs(), 21_600);
}

#[tokio::test]
async fn what_is_no_word_of_acme_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let work = work(folder.path(), on_day(1), 0);
    let respond = |status, body| work.transport.response(answered(status, None, body));
    assert_eq!(respond(200, "chain").unwrap().parts.status, 200);
    assert_eq!(respond(400, "{\"type\": \"x\"}").unwrap().parts.status, 400);
    let error = respond(502, "<html>Bad Gateway</html>").err().unwrap().to_string();
    assert!(error.contains("502"), "{error}");
}

#[tokio::test]
async fn an_authority_without_tls_is_not_spoken_to() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let work = work_at(folder.path(), &format!("http://{}/dir", listener.local_addr().unwrap()));
    let error = attempt(&work, 0).await.unwrap_err();
    assert!(error.advice(AcmeChallenge::Http01, true).unwrap().contains("URLs are all https"));
    let causes = std::error::Error::source(&error).unwrap().to_string();
    assert!(causes.contains("not https"), "{causes}");
    // Noted before the authority was asked.
    assert_eq!(work.folder.tried().unwrap().unwrap().at, on_day(1));
}

#[tokio::test]
async fn an_order_that_leads_nowhere_is_given_up_after_some_attempts() {
    let folder = tempfile::tempdir().unwrap();
    let work = work(folder.path(), on_day(1), 0);
    work.folder.keep_order("https://ca.example/order/1").unwrap();
    // Without DNS, the order's state stays unknown.
    attempt(&work, ORDER_TRIES - 1).await.unwrap_err();
    assert!(work.folder.order().unwrap().is_some());
    attempt(&work, ORDER_TRIES).await.unwrap_err();
    assert_eq!(work.folder.order().unwrap(), None);
}

/// Another account chose that name.
#[test]
fn no_advice_about_a_policy_host_sends_the_operator_to_the_hostname() {
    for kind in ["rejectedIdentifier", "malformed"] {
        let error = refused(Some(kind), Some(400));
        let advice = |is_own| error.advice(AcmeChallenge::TlsAlpn01, is_own).unwrap();
        assert!(advice(true).contains("--hostname") && !advice(false).contains("--hostname"));
    }
}

fn refused(kind: Option<&str>, status: Option<u16>) -> AcmeError {
    let r#type = kind.map(|kind| format!("urn:ietf:params:acme:error:{kind}"));
    let (detail, subproblems) = (None, Vec::new());
    AcmeError::Refused(instant_acme::Problem { r#type, detail, status, subproblems })
}

#[test]
fn an_unknown_order_makes_room_for_another_and_a_busy_authority_does_not() {
    for (kind, status, is_about_the_order) in [
        (Some("malformed"), Some(400), true),
        (Some("unauthorized"), Some(403), true),
        (None, Some(404), true),
        (Some("badNonce"), Some(400), false),
        (Some("rateLimited"), Some(429), false),
        (Some("serverInternal"), Some(500), false),
    ] {
        let error = refused(kind, status);
        assert_eq!(error.is_about_the_order(), is_about_the_order, "{error}");
    }
}

/// Rules with these, in `acme.toml`.
fn rules(folder: &Path, text: &str) -> Rules {
    std::fs::write(folder.join("acme.toml"), text).unwrap();
    Rules::load(folder).unwrap()
}

/// An authority that nobody finds; names lead where `lookup` says.
fn authority(rules: Rules, folder: &Path, lookup: &Lookup) -> Arc<Authority> {
    let Keeper { authority, .. } = work_by(rules, settings(folder), on_day(1), 0);
    let mut authority = Arc::into_inner(authority).unwrap();
    authority.leading = leading(lookup, &["mx.example"], || on_day(1));
    Arc::new(authority)
}

/// Every name leads here.
fn here() -> Lookup {
    Lookup::new(|_| async { Ok(vec!["127.0.0.1".parse().unwrap()]) })
}

async fn until(is_true: impl Fn() -> bool) {
    let waiting = async {
        while !is_true() {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, waiting).await.expect("it never comes");
}

fn no_domains() -> Domains {
    Domains::by(|| async { Ok(Arc::default()) })
}

/// Else one account's domains could take all certificates from others.
#[tokio::test]
async fn a_host_that_leads_elsewhere_takes_no_certificate_from_others() {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules(folder.path(), "[policy_hosts]\nmax_certificates = 1\n");
    let lookup = Lookup::new(|host| async move {
        let is_here = ["mx.example", "mta-sts.z.example"].contains(&host.as_str());
        Ok(vec![if is_here { "192.0.2.1" } else { "192.0.2.2" }.parse().unwrap()])
    });
    let authority = authority(rules, folder.path(), &lookup);
    let mut hosts = PolicyHosts::new(&authority, no_domains(), None);
    let (one, other) = (name("mta-sts.a.example"), name("mta-sts.z.example"));
    let shutdown = Shutdown::default();
    hosts.keep(&[one.clone(), other.clone()].into(), &shutdown).await;
    let tried = |name: &DomainName| AcmeFolder::of(&authority.settings, name).tried().unwrap();
    until(|| tried(&other).is_some()).await;
    assert_eq!(tried(&one), None);
    // It keeps its place while it leads here.
    assert!(authority.make_room().is_none());
    hosts.keep(&[one].into(), &shutdown).await;
    until(|| authority.make_room().is_some()).await;
}

#[tokio::test]
async fn certificates_that_are_there_come_first_where_there_are_too_many_and_others_need_none() {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules(folder.path(), "[policy_hosts]\nmax_certificates = 1\n");
    let work = work_by(rules, settings(folder.path()), on_day(1), 0);
    let (authority, shutdown) = (&work.authority, Shutdown::default());
    let of_files = self_signed::make_temporary(&name("mta-sts.a.example")).unwrap();
    let of_files = Certificates::new(of_files, None, authority.clock().clone());
    let mut hosts = PolicyHosts::new(authority, no_domains(), Some(of_files));
    let domains = ["a.example", "b.example", "c.example"].map(name).into();
    let needed = hosts.hosts(&domains);
    assert_eq!(needed, ["mta-sts.b.example", "mta-sts.c.example"].map(name).into());

    let chain = chain(&work.folder.key().unwrap().serialize_pem(), "mta-sts.c.example");
    AcmeFolder::of(&authority.settings, &name("mta-sts.c.example")).keep_chain(&chain).unwrap();
    let others = authority.certificates.others();
    hosts.keep(&needed, &shutdown).await;
    assert!(others.get("mta-sts.b.example").is_none());
    assert!(others.get("MTA-STS.c.example").is_some());
    assert_eq!(others.first_end(true), Some(on_day(100)));
    hosts.keep(&BTreeSet::new(), &shutdown).await;
    assert!(others.get("mta-sts.c.example").is_none());
    assert_eq!(stored(&authority.settings).unwrap().len(), 0);
}

/// Else as many of customers' hosts as there are places could hold up all others.
#[tokio::test]
async fn a_policy_host_that_waits_after_a_failure_takes_no_place() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(Rules::defaults().unwrap(), folder.path(), &here());
    let keeper = Keeper::new(&authority, name("mta-sts.agents.example"));
    let (next, shutdown) = (keeper.begin().await, Shutdown::default());
    let most = authority.rules.policy_hosts.max_at_once;
    let has_tried = || keeper.folder.tried().unwrap().is_some();
    tokio::select! {
        () = keeper.keep(next, &shutdown) => panic!("it never ends"),
        () = until(|| has_tried() && authority.places.available_permits() == most) => {}
    }
}

/// Finds where names lead, of a gateway with these; theirs are kept for a minute.
fn leading(
    lookup: &Lookup,
    names: &[&str],
    now: impl Fn() -> Timestamp + Send + Sync + 'static,
) -> Leading {
    let names = names.iter().map(|one| name(one)).collect();
    Leading::new(lookup.clone(), names, Duration::from_secs(60), Clock::new(now))
}

#[tokio::test]
async fn the_gateways_own_names_are_looked_up_once_for_all_hosts() {
    let (asked, millis) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicI64::new(0)));
    let (asking, now) = (Arc::clone(&asked), Arc::clone(&millis));
    let lookup = Lookup::new(move |host| {
        if host == "mx.example" {
            asking.fetch_add(1, SeqCst);
        }
        async { Ok(vec!["192.0.2.1".parse().unwrap()]) }
    });
    let now = move || Timestamp::from_millis(now.load(SeqCst));
    let leading = leading(&lookup, &["mx.example"], now);
    let hosts: Vec<_> = (0..100).map(|number| name(&format!("h{number}.example"))).collect();
    for (after, wanted) in [(0, 1), (59_999, 1), (60_000, 2)] {
        millis.store(after, SeqCst);
        let found = join_all(hosts.iter().map(|host| leading.leads_here(host))).await;
        assert!(found.iter().all(|leads| matches!(leads, Ok(true))));
        assert_eq!(asked.load(SeqCst), wanted, "after {after} ms");
    }
}

/// A look-up that fails is no word about the customer's DNS.
#[tokio::test]
async fn a_name_leads_here_leads_elsewhere_or_cannot_be_looked_up() {
    let lookup = Lookup::new(|host| async move {
        match host.as_str() {
            "mx.example" | "here.example" => Ok(vec!["192.0.2.1".parse().unwrap()]),
            "both.example" => Ok(["192.0.2.1", "192.0.2.2"].map(|at| at.parse().unwrap()).into()),
            "none.example" | "mx2.example" => Ok(Vec::new()),
            _ => Err(io::Error::other("no answer")),
        }
    });
    let ask = async |names: &[&str], host: &str| {
        let leading = leading(&lookup, names, || on_day(1));
        leading.leads_here(&name(host)).await.map_err(|error| error.to_string())
    };
    for (host, expected) in [
        ("here.example", Ok(true)),
        ("both.example", Ok(false)),
        ("none.example", Ok(false)),
        ("lost.example", Err("cannot look up lost.example".to_owned())),
    ] {
        assert_eq!(ask(&["mx.example"], host).await, expected, "{host}");
    }
    assert_eq!(ask(&["mx.example", "lost.example"], "here.example").await, Ok(true));
    for names in [&["mx.example", "lost.example"][..], &["mx2.example"]] {
        let failed = Err(format!("cannot look up {}", names[names.len() - 1]));
        assert_eq!(ask(names, "both.example").await, failed, "{names:?}");
    }
}

/// Whichever host comes first after a restart.
#[tokio::test]
async fn orders_from_before_a_start_count_before_any_other_is_placed() {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules(folder.path(), "[policy_hosts]\norders_per_hour = 1\n");
    let authority = authority(rules, folder.path(), &here());
    let hosts = PolicyHosts::new(&authority, no_domains(), None);
    let note = |host: &str, at: Timestamp| {
        let tried = AttemptRecord { at, not_before: at, failures: 0 };
        AcmeFolder::of(&authority.settings, &name(host)).note(tried).unwrap();
    };
    // The gateway's own names need no place, and long ago does not count.
    note("mx.example", on_day(1));
    note("mx2.example", on_day(1));
    note("mta-sts.a.example", on_day(0));
    hosts.count_attempts().await;
    assert_eq!(authority.budget.take().now_or_never(), Some(()));
    authority.budget.give_back();
    note("mta-sts.z.example", on_day(1));
    hosts.count_attempts().await;
    assert_eq!(authority.budget.take().now_or_never(), None);
}

/// Else the alert of a customer who has left would last for ever.
#[tokio::test]
async fn an_ended_certificate_whose_name_leads_elsewhere_is_forgotten() {
    for (day, is_kept) in [(99, true), (101, false)] {
        let folder = tempfile::tempdir().unwrap();
        let work = work(folder.path(), on_day(day), 0);
        let host = name("mta-sts.agents.example");
        let keeper = Keeper::new(&work.authority, host.clone());
        let key = keeper.folder.key().unwrap().serialize_pem();
        keeper.folder.keep_chain(&chain(&key, host.as_str())).unwrap();
        let mut next = keeper.begin().await;
        let end = || work.authority.certificates.others().first_end(true);
        assert!(end().is_some() && next.room.is_some());
        let attempt = keeper.next_attempt(&mut next, &Shutdown::default()).await;
        assert!(matches!(attempt, Ok(None)));
        let found = (end().is_some(), next.held.is_some(), next.room.is_some());
        assert_eq!(found, (is_kept, is_kept, is_kept), "on day {day}");
        assert_eq!(keeper.folder.chain().unwrap().is_some(), is_kept);
    }
}

/// The wait for an order may take hours, and the port may be taken.
#[tokio::test]
async fn an_order_counts_when_the_name_leads_here_still_and_the_port_is_ours() {
    let folder = tempfile::tempdir().unwrap();
    let looks = Arc::new(AtomicU64::new(0));
    let looking = Arc::clone(&looks);
    let lookup = Lookup::new(move |host| {
        // At first the host leads here.
        let is_here = host == "mx.example" || looking.fetch_add(1, SeqCst) == 0;
        async move { Ok(vec![if is_here { "192.0.2.1" } else { "192.0.2.2" }.parse().unwrap()]) }
    });
    let rules = rules(folder.path(), "[policy_hosts]\norders_per_hour = 1\n");
    let authority = authority(rules, folder.path(), &lookup);
    let keeper = Keeper::new(&authority, name("mta-sts.agents.example"));
    let (mut next, shutdown) = (keeper.begin().await, Shutdown::default());
    assert!(matches!(keeper.next_attempt(&mut next, &shutdown).await, Ok(None)));
    assert_eq!((looks.load(SeqCst), keeper.folder.tried().unwrap()), (2, None));
    assert!(next.due() > on_day(1) && next.room.is_none());

    looks.store(0, SeqCst);
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let settings = Settings { http: other.local_addr().unwrap(), ..authority.settings.clone() };
    let host = keeper.name.clone();
    drop(keeper);
    let mut authority = Arc::into_inner(authority).unwrap();
    (authority.settings, authority.is_open) = (settings, false.into());
    let authority = Arc::new(authority);
    let keeper = Keeper::new(&authority, host);
    let failed = keeper.next_attempt(&mut next, &shutdown).await;
    assert!(matches!(failed, Err(AcmeError::Listen { .. })));
    // The only one of the hour is left.
    timeout(SOON, authority.budget.take()).await.unwrap();
}

/// Sends these bytes, and returns all that comes back until the connection is closed.
async fn answer(at: SocketAddr, octets: &[u8]) -> String {
    let mut stream = TcpStream::connect(at).await.unwrap();
    stream.write_all(octets).await.unwrap();
    let mut answer = Vec::new();
    let read = timeout(SOON, stream.read_to_end(&mut answer)).await.expect("left open");
    read.unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn nothing_but_a_token_that_is_waited_for_is_answered() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let (challenges, shutdown) = (Challenges::default(), Shutdown::default());
    let rules = Rules::defaults().unwrap().acme.challenges;
    shutdown.spawn(challenges.clone().serve(listener, rules, shutdown.clone()));
    let ask = |line: &str| {
        let request = format!("{line} HTTP/1.1\r\nHost: mx.example\r\n\r\n");
        async move { answer(at, request.as_bytes()).await }
    };
    let mut shown = challenges.show();
    shown.add("abc", "abc.thumb");
    let good = ask("GET /.well-known/acme-challenge/abc").await;
    assert!(good.starts_with("HTTP/1.1 200 ") && good.ends_with("\r\n\r\nabc.thumb"), "{good}");
    for line in [
        "GET /",
        "GET /.well-known/acme-challenge/",
        "GET /.well-known/acme-challenge/abcd",
        "GET /.well-known/acme-challenge/abc/",
        "GET /.well-known/acme-challenge/../acme-challenge/abc",
        "GET /.well-known/acme-challenge/%61bc",
        "POST /.well-known/acme-challenge/abc",
    ] {
        let bad = ask(line).await;
        assert!(bad.starts_with("HTTP/1.1 404 ") && bad.ends_with("\r\n\r\n"), "{line}: {bad}");
    }
    drop(shown);
    let gone = ask("GET /.well-known/acme-challenge/abc").await;
    assert!(gone.starts_with("HTTP/1.1 404 "), "{gone}");
    assert!(shutdown.finish(SOON).await);
}

#[tokio::test]
async fn a_stranger_on_the_challenges_port_is_let_go_soon() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let text = "[challenges]\nmax_connections = 1\nconnection_seconds = 300\nheader_seconds = ";
    let strict = |header| {
        std::fs::write(folder.path().join("acme.toml"), format!("{text}{header}\n")).unwrap();
        Rules::load(folder.path()).unwrap().acme.challenges
    };
    let shutdown = Shutdown::default();
    shutdown.spawn(Challenges::default().serve(listener, strict(300), shutdown.clone()));
    let gone = async |mut silent: TcpStream| {
        timeout(SOON, silent.read(&mut [0; 64])).await.expect("left open").unwrap() == 0
    };
    // A silent client holds the only place until another comes; that one then sends too much.
    let silent = TcpStream::connect(at).await.unwrap();
    let next = answer(at, b"GET / HTTP/1.1\r\nHost: mx.example\r\n\r\n").await;
    assert!(next.starts_with("HTTP/1.1 404 "), "{next}");
    assert!(gone(silent).await);
    let long = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", "x".repeat(9000));
    let refused = answer(at, long.as_bytes()).await;
    assert!(refused.starts_with("HTTP/1.1 431 "), "{refused}");
    // Without another client, its time ends.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    shutdown.spawn(Challenges::default().serve(listener, strict(1), shutdown.clone()));
    assert!(gone(TcpStream::connect(at).await.unwrap()).await);
    assert!(shutdown.finish(SOON).await);
}
