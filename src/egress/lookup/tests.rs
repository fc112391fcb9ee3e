use bytes::Bytes;
use reqwest::header::HeaderMap;
use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;

use super::*;
use crate::domain::clock::{Clock, Timestamp};
use crate::egress::client::{AfterResponse, Client, Limits, Response};
use crate::egress::guard::Guard;
use crate::rules::Rules;
use crate::shutdown::Shutdown;
use crate::testkit::dns::{DnsServer, Zone};
use crate::testkit::receiver::Receiver;

/// Expected events come long before this.
const PATIENCE: Duration = Duration::from_secs(30);
/// Nothing ends by itself within this time.
const LONG: Duration = Duration::from_secs(600);

/// Runs `work` while the only blocking thread is occupied: anything that needs one never ends.
fn without_threads<F: Future>(work: F) -> F::Output {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().max_blocking_threads(1).build().unwrap();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    runtime.spawn_blocking(move || ended.recv());
    let done = runtime.block_on(async { timeout(PATIENCE, work).await });
    drop(end);
    done.expect("it waits for a thread")
}

/// A hundred names whose servers never answer, and `hooks.example`, which resolves.
async fn names() -> DnsServer {
    let mut zone = Zone::default();
    for silent in silent() {
        zone.insert(&silent, "A", "TIMEOUT", "").unwrap();
        zone.insert(&silent, "AAAA", "TIMEOUT", "").unwrap();
    }
    zone.insert("hooks.example", "A", "NOERROR", "127.0.0.1").unwrap();
    DnsServer::start(zone, Shutdown::default()).await.unwrap()
}

fn silent() -> impl Iterator<Item = String> {
    (0..100).map(|number| format!("hooks{number}.silent.example"))
}

fn client(lookup: &Lookup, connect_timeout: Duration) -> Client {
    let guard =
        Guard::new(vec!["127.0.0.0/8".parse().unwrap()], &Rules::defaults().unwrap().webhooks);
    let limits = Limits { timeout: LONG, connect_timeout, max_response_bytes: 1000 };
    Client::new(guard, limits, lookup.clone()).unwrap()
}

async fn receiver() -> Receiver {
    Receiver::start(Clock::new(|| Timestamp::from_millis(0))).await.unwrap()
}

async fn post(client: Client, host: String, port: u16) -> Result<Response, EgressError> {
    let url = format!("http://{host}:{port}/").parse().unwrap();
    client.post(&url, HeaderMap::new(), Bytes::from_static(b"{}"), AfterResponse::Close).await
}

async fn asked(dns: &DnsServer, name: &str) {
    while dns.queries_for(name) == 0 {
        yield_now().await;
    }
}

#[test]
fn a_hundred_silent_names_hold_up_no_other_and_no_thread() {
    without_threads(async {
        let (dns, receiver) = (names().await, receiver().await);
        let port = receiver.address().port();
        let lookup = Lookup::with_servers(Some(&[dns.addr()]), LONG, 101).unwrap();
        let client = client(&lookup, LONG);
        let mut waiting = JoinSet::new();
        for name in silent() {
            waiting.spawn(post(client.clone(), name, port));
        }
        for name in silent() {
            asked(&dns, &name).await;
        }
        let answer = post(client, "hooks.example".to_owned(), port).await.unwrap();
        assert_eq!((answer.status, receiver.received().len()), (200, 1));
        let ended = waiting.try_join_next();
        assert!(ended.is_none(), "{ended:?}");
    });
}

#[tokio::test]
async fn no_more_are_under_way_than_places_and_one_that_is_dropped_gives_its_place_back() {
    let (dns, receiver) = (names().await, receiver().await);
    let port = receiver.address().port();
    let lookup = Lookup::with_servers(Some(&[dns.addr()]), LONG, 1).unwrap();
    let name = silent().next().unwrap();
    let first = tokio::spawn(post(client(&lookup, LONG), name.clone(), port));
    timeout(PATIENCE, asked(&dns, &name)).await.unwrap();

    let hooks = || "hooks.example".to_owned();
    let hurried = client(&lookup, Duration::from_millis(50));
    assert_eq!(post(hurried, hooks(), port).await, Err(EgressError::ConnectTimeout));
    assert_eq!(dns.queries_for("hooks.example"), 0);

    first.abort();
    let answer = timeout(PATIENCE, post(client(&lookup, LONG), hooks(), port)).await.unwrap();
    assert_eq!(answer.unwrap().status, 200);
}

/// As in the hosts file of every machine.
#[test]
fn the_machine_itself_is_found_by_the_system_without_a_thread() {
    without_threads(async {
        let lookup = Lookup::with_servers(None, LONG, 1).unwrap();
        let found = lookup.look("localhost").await.unwrap();
        assert!(found.contains(&IpAddr::from([127, 0, 0, 1])), "{found:?}");
        assert!(found.iter().all(IpAddr::is_loopback), "{found:?}");
    });
}

#[tokio::test]
async fn of_the_addresses_of_a_name_a_bounded_number_is_looked_at() {
    let mut zone = Zone::default();
    for last in 1..=200 {
        zone.insert("many.example", "A", "NOERROR", &format!("127.0.0.{last}")).unwrap();
    }
    let dns = DnsServer::start(zone, Shutdown::default()).await.unwrap();
    let lookup = Lookup::with_servers(Some(&[dns.addr()]), LONG, 1).unwrap();
    let found = timeout(PATIENCE, lookup.look("many.example")).await.unwrap().unwrap();
    assert_eq!(found.len(), MAX_ADDRESSES);
}

#[tokio::test]
async fn a_name_in_the_hosts_file_is_asked_of_nobody() {
    let dns = names().await;
    let mut hosts = Hosts::default();
    let file = "10.1.2.3 hooks HOOKS.example # ours\n::1 hooks.example\n";
    hosts.read_hosts_conf(file.as_bytes()).unwrap();
    let lookup = Lookup::with_resolver(resolver(Some(&[dns.addr()]), LONG, 1).unwrap(), hosts, 1);
    for (name, expected) in [
        ("hooks", vec!["10.1.2.3"]),
        ("Hooks.Example", vec!["10.1.2.3", "::1"]),
        ("hooks.example.", vec!["10.1.2.3", "::1"]),
    ] {
        let expected: Vec<IpAddr> = expected.iter().map(|text| text.parse().unwrap()).collect();
        assert_eq!(lookup.look(name).await.unwrap(), expected, "{name}");
    }
    assert_eq!(dns.queries(), 0);
}

/// An authority has neither our hosts file nor our search list.
#[tokio::test]
async fn what_is_published_is_found_by_dns_alone_and_no_address_is_no_failure() {
    let dns = names().await;
    for (name, code) in [("host.internal.example", "NOERROR"), ("broken.example", "SERVFAIL")] {
        for kind in ["A", "AAAA"] {
            let value = if (code, kind) == ("NOERROR", "A") { "127.0.1.1" } else { "" };
            dns.change(|zone| zone.insert(name, kind, code, value)).unwrap();
        }
    }
    let search = vec![Name::from_ascii("internal.example.").unwrap()];
    let config = ResolverConfig::from_parts(None, search, vec![name_server(dns.addr())]);
    let resolver = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    let resolver = resolver.build().unwrap();
    let with_search = Lookup::with_resolver(resolver.clone(), Hosts::default(), 1);
    assert_eq!(with_search.look("host").await.unwrap(), [IpAddr::from([127, 0, 1, 1])]);
    let lookup = Lookup::by_dns_alone(resolver, 1);
    assert_eq!(lookup.look("host").await.unwrap(), Vec::<IpAddr>::new());
    assert_eq!(lookup.look("nobody.example").await.unwrap(), Vec::<IpAddr>::new());
    assert_eq!(lookup.look("hooks.example").await.unwrap(), [IpAddr::from([127, 0, 0, 1])]);
    lookup.look("broken.example").await.unwrap_err();
}
