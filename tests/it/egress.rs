//! Where a gateway does not go, spelling by spelling (`fixtures/egress.toml`), by the real client:
//! when a webhook is named, when one lies in the store, when a receiver redirects, and when a name
//! turns (threats H1, H2, H3, H10). A server that counts connections stands where they lead.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gatepost::testkit::receiver::Reply;
use serde::Deserialize;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use url::{Host, Url};

use crate::support::{PATIENCE, TestGateway, attempts, rules, signed, sources};

const FROM: &str = "alice@good.example";
const TO: [&str; 1] = ["support@agents.example"];
/// All that leads to this machine.
const HERE: [&str; 3] = ["127.0.0.0/8", "::1/128", "0.0.0.0/8"];

#[derive(Deserialize)]
struct Table {
    refused: Vec<Spelling>,
    public: Vec<String>,
}

#[derive(Deserialize)]
struct Spelling {
    url: String,
    is: String,
}

impl Spelling {
    fn with_port(&self, port: u16) -> String {
        self.url.replace("{port}", &format!(":{port}"))
    }

    /// Words of the expected refusal; None for a host name, which is judged only by its addresses.
    fn fault(&self) -> Option<&'static str> {
        match self.is.as_str() {
            "host" => Some("not public"),
            "malformed" => Some("not a URL"),
            "scheme" => Some("must begin with https://"),
            "user" => Some("user name or a password"),
            "port" => Some("port is not allowed"),
            "fragment" => Some("must not have a fragment"),
            _ => None,
        }
    }

    fn is_address(&self) -> bool {
        let url = Url::parse(&self.url.replace("{port}", ":1")).ok();
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https"));
        matches!(url.as_ref().and_then(Url::host), Some(Host::Ipv4(_) | Host::Ipv6(_)))
    }

    /// The address that it means, where that is what is wrong with it, or this machine's.
    fn means(&self) -> IpAddr {
        let url = Url::parse(&self.url.replace("{port}", "")).ok().filter(|_| self.is == "host");
        match url.as_ref().and_then(Url::host) {
            Some(Host::Ipv4(address)) => address.into(),
            Some(Host::Ipv6(address)) => address.into(),
            _ => [127, 0, 0, 1].into(),
        }
    }
}

fn table() -> Table {
    toml::from_str(&sources::read("fixtures/egress.toml")).unwrap()
}

/// Takes connections on every address of this machine, counts them, and ends them.
struct Counter {
    address: SocketAddr,
    taken: Arc<AtomicUsize>,
    accepting: AbortHandle,
}

impl Counter {
    async fn start() -> Self {
        let listener = TcpListener::bind("[::]:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let taken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&taken);
        let accept = async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                drop(stream);
            }
        };
        Self { address, taken, accepting: tokio::spawn(accept).abort_handle() }
    }

    fn port(&self) -> u16 {
        self.address.port()
    }

    /// How many came before this question: the queue of a socket has an order.
    async fn taken(&self) -> usize {
        use tokio::io::AsyncReadExt as _;
        let mut own = TcpStream::connect(("127.0.0.1", self.port())).await.unwrap();
        let end = timeout(PATIENCE, own.read(&mut [0])).await.unwrap();
        assert!(end.is_err() || end.is_ok_and(|octets| octets == 0));
        self.taken.fetch_sub(1, Ordering::SeqCst) - 1
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// One that tries once, may dial this port, and has these networks.
async fn gateway(port: u16, networks: &[&str]) -> TestGateway {
    let webhooks =
        format!("[schedule]\nwait_seconds = [0]\n[egress]\nports = [443, 8443, {port}]\n");
    let access = "[limits]\nmax_destinations = 1000\n[rates]\nreads_per_minute = 0\n\
                  writes_per_minute = 0\nkeyless_per_minute = 0\n";
    let folder = tempfile::tempdir().unwrap();
    let rules = rules(folder.path(), &[("webhooks.toml", &webhooks), ("access.toml", access)]);
    TestGateway::with_settings(|settings| {
        settings.rules = rules;
        settings.egress_allow = networks.iter().map(|text| text.parse().unwrap()).collect();
    })
    .await
}

async fn create(gateway: &TestGateway, label: &str, url: &str) -> (u16, String) {
    let body = json!({ "url": url, "label": label, "type": "incoming" });
    let (status, body) = gateway.request("POST", "/webhooks", Some(body)).await;
    (status, body["detail"].as_str().unwrap_or_default().to_owned())
}

async fn created(gateway: &TestGateway, label: &str, url: &str) {
    let (status, detail) = create(gateway, label, url).await;
    assert_eq!(status, 201, "{url}: {detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spelling_of_a_private_host_is_refused_when_it_is_named() {
    let gateway = gateway(8080, &[]).await;
    for (number, spelling) in table().refused.iter().enumerate() {
        for port in ["", ":8443"] {
            let url = spelling.url.replace("{port}", port);
            let (status, detail) = create(&gateway, &number.to_string(), &url).await;
            match spelling.fault() {
                Some(fault) => {
                    assert_eq!(status, 400, "{url:?}: {detail}");
                    assert!(detail.contains(fault) || url.is_empty(), "{url:?}: {detail}");
                }
                // The second of two equal URLs, from a spelling without `{port}`, is a conflict.
                None => assert!([201, 409].contains(&status), "{url:?}: {detail}"),
            }
        }
    }
    for url in table().public {
        let (status, detail) = create(&gateway, "public", &url.replace("{port}", "")).await;
        // Two spellings of one URL are one webhook.
        assert!([201, 409].contains(&status), "{url}: {detail}");
    }
    gateway.finish().await;
}

/// Sends an event to every spelling, which lies in the store as it is; answers the errors by number.
async fn deliver(gateway: &TestGateway, table: &Table, port: u16) -> Vec<(usize, String)> {
    let mut urls = Vec::new();
    for (number, spelling) in table.refused.iter().enumerate() {
        created(gateway, &number.to_string(), &format!("https://hooks.example/{number}")).await;
        urls.push((number.to_string(), spelling.with_port(port)));
    }
    // Names lead here, and to nobody else.
    gateway.dns.change(|zone| {
        for (_, url) in &urls {
            if let Some(name) = Url::parse(url).ok().as_ref().and_then(Url::domain) {
                // Those of one label among them are no names of hosts.
                let _known = zone.insert(name, "A", "NOERROR", "127.0.0.1");
            }
        }
    });
    let store = gateway.folder.path().join("store");
    attempts::readdress(&store, &urls).await;
    assert!(gateway.send(FROM, &TO, &signed("for everybody")).await.accepted());
    let mut ended = attempts::ended(&store, urls.len() + 1).await;
    assert_eq!(ended.len(), urls.len() + 1);
    // The destination that every test's site has.
    ended.retain(|one| one.label != "test");
    let number = |one: &attempts::Ended| one.label.parse().unwrap();
    ended.iter().map(|one| (number(one), one.error.clone().unwrap_or_default())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spelling_of_a_private_host_in_the_store_is_never_dialled() {
    let (table, counter) = (table(), Counter::start().await);
    let gateway = gateway(counter.port(), &[]).await;
    for (number, error) in deliver(&gateway, &table, counter.port()).await {
        let spelling = &table.refused[number];
        // Only the guard's own words are right: any others would mean an attempted connection. A
        // text that is no URL cannot be read from the store, unless only blanks are wrong: these
        // are dropped, and the host is judged.
        let expected = match spelling.fault() {
            Some("not a URL") if error.contains("could not read") => "could not read",
            Some("not a URL") => "not public",
            // The address and the rule are named.
            Some("must begin with https://" | "port is not allowed") if spelling.is_address() => {
                "which --egress-allow does not cover: plain http and this port are for its networks"
            }
            Some(fault) => fault,
            None => {
                "resolves to 127.0.0.1, which is not public, and which --egress-allow does not cover"
            }
        };
        assert!(error.contains(expected), "{}: {error}", spelling.url);
    }
    assert_eq!(counter.taken().await, 0);
    gateway.finish().await;
}

/// Runs the same table with a guard that allows this machine, to prove that the connections refused
/// above would reach the counter.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_operator_allows_is_dialled() {
    let (table, counter) = (table(), Counter::start().await);
    let gateway = gateway(counter.port(), &HERE).await;
    deliver(&gateway, &table, counter.port()).await;
    let here = |spelling: &&Spelling| {
        let means = spelling.means().to_canonical();
        spelling.is == "host" && spelling.url.contains("{port}") && means.is_loopback()
    };
    let (here, taken) = (table.refused.iter().filter(here).count(), counter.taken().await);
    assert!(here >= 40 && taken >= here, "{taken} of {here}");
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_to_any_spelling_is_not_followed() {
    let counter = Counter::start().await;
    // Where a redirect leads is allowed here: nothing but not being followed keeps it from there.
    let gateway = gateway(counter.port(), &HERE).await;
    let mut table = table();
    // A line end would end the field.
    table.refused.retain(|spelling| !spelling.url.contains(['\n', '\0']));
    let statuses = [301, 302, 303, 307, 308].into_iter().cycle();
    gateway.receiver.script(table.refused.iter().zip(statuses).map(|(spelling, status)| {
        Reply::status(status).header("location", &spelling.with_port(counter.port()))
    }));
    // One of them is the destination that is there already.
    for number in 1..table.refused.len() {
        created(&gateway, "redirects", &gateway.receiver.url(&format!("/{number}"))).await;
    }
    assert!(gateway.send(FROM, &TO, &signed("for whom?")).await.accepted());
    let store = gateway.folder.path().join("store");
    let ended = attempts::ended(&store, table.refused.len()).await;
    assert_eq!(ended.len(), table.refused.len());
    for one in ended {
        assert!(one.status.is_some_and(|status| (301..=308).contains(&status)), "{one:?}");
        assert_eq!(one.state, "exhausted", "a redirect delivers nothing");
    }
    assert_eq!(gateway.receiver.received().len(), table.refused.len());
    assert_eq!(counter.taken().await, 0);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_turns_is_not_dialled() {
    let (table, counter) = (table(), Counter::start().await);
    // Stands for all that is public: no test dials any other machine, should the guard fail.
    let public = IpAddr::from([127, 77, 7, 7]);
    let gateway = gateway(counter.port(), &["127.77.0.0/16"]).await;
    let name = |number: usize| format!("n{number}.rebind.example");
    let insert = |number: usize, address: IpAddr| {
        let kind = if address.is_ipv4() { "A" } else { "AAAA" };
        gateway.dns.change(|zone| {
            zone.insert(&name(number), kind, "NOERROR", &address.to_string()).unwrap();
        });
    };
    for (number, spelling) in table.refused.iter().enumerate() {
        // Public when it is named ...
        insert(number, public);
        let url = format!("https://{}:{}/", name(number), counter.port());
        created(&gateway, &number.to_string(), &url).await;
        // ... and then not: altogether, or beside what it was.
        if number % 2 == 0 {
            gateway.dns.change(|zone| zone.remove(&name(number), "A").unwrap());
        }
        insert(number, spelling.means());
    }
    assert!(gateway.send(FROM, &TO, &signed("turned")).await.accepted());
    let store = gateway.folder.path().join("store");
    let ended = attempts::ended(&store, table.refused.len() + 1).await;
    for one in ended.into_iter().filter(|one| one.label != "test") {
        let spelling = &table.refused[one.label.parse::<usize>().unwrap()];
        let error = one.error.unwrap_or_default();
        assert!(error.contains("not public"), "{}: {error}", spelling.url);
    }
    assert_eq!(counter.taken().await, 0);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_webhook_leads_back_to_the_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let webhooks = "[schedule]\nwait_seconds = [0]\n";
    let rules = rules(folder.path(), &[("webhooks.toml", webhooks)]);
    let gateway = TestGateway::with_settings(|settings| {
        settings.rules = rules;
        settings.public_url = Some("https://api.gatepost.example/base".parse().unwrap());
    })
    .await;
    let own = [
        "https://api.gatepost.example/api/v2/messages",
        "https://API.gatepost.example.:8443/",
        "https://mx.agents.example/",
    ];
    let mut urls = Vec::new();
    for (number, url) in own.into_iter().enumerate() {
        let (status, detail) = create(&gateway, "own", url).await;
        assert_eq!(status, 400, "{url}: {detail}");
        assert!(detail.contains("leads back to this gateway"), "{url}: {detail}");
        created(&gateway, &format!("own {number}"), &format!("https://a.example/{number}")).await;
        urls.push((format!("own {number}"), url.to_owned()));
    }
    // By an address that nobody has told it. It is refused before anybody looks at a key.
    let here = gateway.http;
    for path in ["api/v2/contacts?token=x", "readyz", "nothing"] {
        created(&gateway, "here", &format!("http://{here}/{path}")).await;
    }
    let store = gateway.folder.path().join("store");
    attempts::readdress(&store, &urls).await;
    assert!(gateway.send(FROM, &TO, &signed("round and round")).await.accepted());
    let ended = attempts::ended(&store, 7).await;
    let mut seen = (0, 0);
    for one in ended {
        if one.label.starts_with("own ") {
            seen.0 += 1;
            assert_eq!(one.error.as_deref(), Some("the URL leads back to this gateway"));
        } else if one.label == "here" {
            seen.1 += 1;
            assert_eq!(one.status, Some(508), "{one:?}");
            let answer: serde_json::Value = serde_json::from_slice(&one.response).unwrap();
            assert_eq!(answer["code"], "loop_detected");
        }
    }
    assert_eq!(seen, (3, 3));
    gateway.finish().await;
}
