//! The folder, the time of renewal, and answers to strangers on the challenges' port.
//! `tests/it/acme.rs` tests the whole exchange against an authority.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use hyper::http::HeaderMap;
use jiff::civil::date;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;
use crate::egress::client::{Lookup, WholeResponse};
use crate::egress::guard::Guard;
use crate::rules::Rules;

const SOON: Duration = Duration::from_secs(20);

fn settings(folder: &Path) -> Settings {
    Settings {
        directory: "https://ca.example:9000/acme/dir".parse().unwrap(),
        contact: Vec::new(),
        names: vec![DomainName::parse("mx.example").unwrap()],
        challenge: Challenge::Http01,
        http: "127.0.0.1:0".parse().unwrap(),
        folder: folder.join("acme"),
        ca_file: None,
    }
}

/// Has a clock that stands still, and randomness in which every byte is `octet`.
fn next(due: Timestamp, failures: u32) -> NextAttempt {
    NextAttempt { due, failures }
}

fn work(folder: &Path, now: Timestamp, octet: u8) -> Work {
    let rules = Rules::defaults().unwrap();
    let guard = Guard::new(Vec::new(), &rules.webhooks);
    let nowhere = Lookup::new(|_| async { Err(io::Error::other("there is no DNS")) });
    let client = Client::new(guard, Limits::from(&rules.acme), nowhere).unwrap();
    let clock = Clock::new(move || now);
    let mint = Mint::new(clock.clone(), Arc::new(move |octets: &mut [u8]| octets.fill(octet)));
    let transport = Transport::new(client);
    let (settings, rules) = (settings(folder), Arc::new(rules.acme));
    Work { settings, rules, challenges: Challenges::default(), transport, clock, mint }
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

fn accept(_: &[u8], _: &[u8]) -> Result<(), Unusable> {
    Ok(())
}

#[test]
fn the_key_stays_whatever_is_asked_of_whom() {
    let folder = tempfile::tempdir().unwrap();
    let one = settings(folder.path());
    let other = Settings { directory: "https://other.example/".parse().unwrap(), ..one.clone() };
    let key = AcmeFolder::open(&one).unwrap().key;
    AcmeFolder::keep_chain(&one, "of one").unwrap();
    AcmeFolder::keep_account(&one, "{}").unwrap();
    let kept = AcmeFolder::open(&one).unwrap();
    assert_eq!((kept.key.as_str(), kept.chain.as_deref()), (key.as_str(), Some("of one")));
    let kept = AcmeFolder::open(&other).unwrap();
    assert_eq!((kept.key, kept.chain), (key, None));
    assert_eq!(AcmeFolder::account(&other).unwrap(), None);
    AcmeFolder::forget_account(&one).unwrap();
    assert_eq!(AcmeFolder::account(&one).unwrap(), None);
    AcmeFolder::forget_account(&one).unwrap();
}

#[test]
fn an_order_is_open_for_its_names_until_its_chain_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let one = settings(folder.path());
    let names = ["mx.example", "mx2.example"].map(|name| DomainName::parse(name).unwrap());
    let other = Settings { names: names.into(), ..one.clone() };
    assert_eq!(AcmeFolder::order(&one).unwrap(), None);
    AcmeFolder::keep_order(&one, "https://ca.example/order/1").unwrap();
    assert_eq!(AcmeFolder::order(&one).unwrap().as_deref(), Some("https://ca.example/order/1"));
    assert_eq!(AcmeFolder::order(&other).unwrap(), None);
    AcmeFolder::keep_chain(&one, "the chain").unwrap();
    assert_eq!(AcmeFolder::order(&one).unwrap(), None);
}

#[test]
fn only_its_owner_reads_what_is_kept_and_nothing_else_lies_there() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    AcmeFolder::open(&settings).unwrap();
    AcmeFolder::keep_account(&settings, "{}").unwrap();
    AcmeFolder::keep_chain(&settings, "one").unwrap();
    AcmeFolder::keep_chain(&settings, "two").unwrap();
    let tried = AttemptRecord { at: on_day(1), not_before: on_day(2), failures: 3 };
    AcmeFolder::note(&settings, tried).unwrap();
    assert_eq!(AcmeFolder::tried(&settings).unwrap(), Some(tried));
    AcmeFolder::keep_order(&settings, "https://ca.example/order/1").unwrap();
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
    assert_eq!(found, ["account.json", "chain.pem", "key.pem", "order", "tried"]);
}

#[test]
fn a_damaged_key_is_named_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    std::fs::create_dir(&settings.folder).unwrap();
    std::fs::write(settings.folder.join("key.pem"), "what is this?").unwrap();
    let error = AcmeError::from(AcmeFolder::open(&settings).err().unwrap());
    assert!(error.to_string().contains("key.pem"), "{error}");
    assert!(error.advice(Challenge::Http01).unwrap().contains("remove the file"));
    assert_eq!(std::fs::read(settings.folder.join("key.pem")).unwrap(), b"what is this?");
}

#[tokio::test]
async fn what_is_kept_is_shown_and_renewed_when_two_thirds_of_its_life_are_over() {
    for (octet, day) in [(0, 66), (0xff, 64)] {
        let folder = tempfile::tempdir().unwrap();
        let work = work(folder.path(), on_day(200), octet);
        let key = AcmeFolder::open(&work.settings).unwrap().key;
        let chain = chain(&key, "mx.example");
        AcmeFolder::keep_chain(&work.settings, &chain).unwrap();
        let shown = std::sync::Mutex::new(Vec::new());
        let install = |chain: &[u8], key: &[u8]| {
            shown.lock().unwrap().push((chain.to_vec(), key.to_vec()));
            Ok(())
        };
        // Expired, and still shown.
        let pair = Pair::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
        assert_eq!(work.renewal(&pair), on_day(day), "by luck {octet}");
        assert_eq!(work.begin(&install).await, next(on_day(200), 0));
        assert_eq!(*shown.lock().unwrap(), [(chain.into_bytes(), key.into_bytes())]);
    }
}

#[tokio::test]
async fn nobody_is_asked_sooner_however_often_it_is_started() {
    let folder = tempfile::tempdir().unwrap();
    let work = work(folder.path(), on_day(1), 0);
    assert_eq!(work.begin(&accept).await, next(on_day(1), 0));
    let later = |seconds| on_day(1).plus(Duration::from_secs(seconds));
    for (at, not_before, begun) in [
        (on_day(1), later(3600), next(later(3600), 3)),
        (on_day(0), on_day(0), next(on_day(0), 3)),
        // No wait is longer than the longest.
        (on_day(1), on_day(9), next(later(21_600), 3)),
        // The clock was wrong then.
        (on_day(2), on_day(2), next(on_day(1), 0)),
    ] {
        AcmeFolder::note(&work.settings, AttemptRecord { at, not_before, failures: 3 }).unwrap();
        assert_eq!(work.begin(&accept).await, begun);
    }
}

#[tokio::test]
async fn a_damaged_key_bothers_no_authority_and_shortens_no_wait() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut work = work(folder.path(), on_day(1), 0);
    let url = format!("https://{}/dir", listener.local_addr().unwrap());
    work.settings.directory = url.parse().unwrap();
    std::fs::create_dir(&work.settings.folder).unwrap();
    std::fs::write(work.settings.folder.join("key.pem"), "what is this?").unwrap();
    let error = work.attempt(0, &accept).await.unwrap_err();
    assert!(error.is_our_own() && error.to_string().contains("key.pem"), "{error}");
    assert_eq!(AcmeFolder::tried(&work.settings).unwrap(), None);
    let tried = AttemptRecord { at: on_day(1), not_before: on_day(1).plus(SOON), failures: 1 };
    AcmeFolder::note(&work.settings, tried).unwrap();
    assert_eq!(work.begin(&accept).await, next(tried.not_before, 1));
}

#[tokio::test]
async fn an_attempt_that_is_cut_short_has_failed() {
    let folder = tempfile::tempdir().unwrap();
    let mut work = work(folder.path(), on_day(1), 0);
    work.settings.directory = "http://ca.example/dir".parse().unwrap();
    for (failures, wait) in [(0, 60), (1, 900)] {
        work.attempt(failures, &accept).await.unwrap_err();
        let due = on_day(1).plus(Duration::from_secs(wait));
        assert_eq!(work.begin(&accept).await, next(due, failures + 1));
    }
}

#[tokio::test]
async fn what_is_kept_and_does_not_fit_is_asked_for_anew() {
    let folder = tempfile::tempdir().unwrap();
    let work = work(folder.path(), on_day(1), 0);
    let key = AcmeFolder::open(&work.settings).unwrap().key;
    let foreign = KeyPair::generate().unwrap().serialize_pem();
    for text in
        [chain(&key, "other.example"), chain(&foreign, "mx.example"), "no certificate".to_owned()]
    {
        AcmeFolder::keep_chain(&work.settings, &text).unwrap();
        assert_eq!(work.begin(&accept).await, next(on_day(1), 0), "{text}");
    }
    AcmeFolder::keep_chain(&work.settings, &chain(&key, "mx.example")).unwrap();
    assert_eq!(work.begin(&accept).await, next(on_day(66), 0));
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
    let mut work = work(folder.path(), on_day(1), 0);
    let url = format!("http://{}/dir", listener.local_addr().unwrap());
    work.settings.directory = url.parse().unwrap();
    let error = work.attempt(0, &accept).await.unwrap_err();
    assert!(error.advice(Challenge::Http01).unwrap().contains("URLs are all https"));
    let causes = std::error::Error::source(&error).unwrap().to_string();
    assert!(causes.contains("not https"), "{causes}");
    // Noted before the authority was asked.
    assert_eq!(AcmeFolder::tried(&work.settings).unwrap().unwrap().at, on_day(1));
}

#[tokio::test]
async fn an_order_that_leads_nowhere_is_given_up_after_some_attempts() {
    let folder = tempfile::tempdir().unwrap();
    let work = work(folder.path(), on_day(1), 0);
    AcmeFolder::keep_order(&work.settings, "https://ca.example/order/1").unwrap();
    // Without DNS, the order's state stays unknown.
    work.attempt(ORDER_TRIES - 1, &accept).await.unwrap_err();
    assert!(AcmeFolder::order(&work.settings).unwrap().is_some());
    work.attempt(ORDER_TRIES, &accept).await.unwrap_err();
    assert_eq!(AcmeFolder::order(&work.settings).unwrap(), None);
}

#[test]
fn an_unknown_order_makes_room_for_another_and_a_busy_authority_does_not() {
    let refused = |kind: Option<&str>, status| {
        let r#type = kind.map(|kind| format!("urn:ietf:params:acme:error:{kind}"));
        let (detail, subproblems) = (None, Vec::new());
        AcmeError::Refused(instant_acme::Problem { r#type, detail, status, subproblems })
    };
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
