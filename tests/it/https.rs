//! Deliveries over TLS to receivers with a certificate of an authority that is trusted; whatever
//! else they show is a failure in plain words, tried again, and never a delivery in clear (threats
//! H6). Proxies that the environment names are not asked.

use std::sync::{Arc, Mutex};

use gatepost::store::Location;
use gatepost::testkit::smtp_client::{Transaction, deliver};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

use crate::support::authority::{Authority, signed_by_itself};
use crate::support::hostile::is_whole;
use crate::support::process::Server;
use crate::support::site::Site;
use crate::support::{PATIENCE, attempts, rules, signed};

const WORDS: &[(&str, &str)] = &[
    ("time", "the server's certificate has expired, or is not valid yet: renew it"),
    ("name", "the server's certificate is for another host name: install one for this name"),
    (
        "issuer",
        "the server's certificate comes from no trusted authority, or is self-signed: get one from a \
         public authority, and send the intermediate certificates with it",
    ),
    ("version", "the server speaks neither TLS 1.2 nor TLS 1.3"),
    ("cut", "the connection closed during the TLS handshake"),
];

fn words(fault: &str) -> &'static str {
    WORDS.iter().find(|(name, _)| *name == fault).unwrap().1
}

/// Behaviour of a receiver on a connection.
#[derive(Clone)]
enum Manner {
    /// TLS of these versions, by this chain and key.
    Tls(Arc<ServerConfig>),
    /// Says this as soon as something was said to it, and then listens.
    Says(Vec<u8>),
    /// Ends the connection at the first bytes, abruptly or not.
    Ends { abruptly: bool },
    /// Listens, and says nothing.
    Silent,
}

/// A receiver, and all that was said to it in clear.
struct Receiver {
    port: u16,
    heard: Arc<Mutex<Vec<u8>>>,
    requests: Arc<Mutex<Vec<Vec<u8>>>>,
    accepting: AbortHandle,
}

impl Receiver {
    async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (heard, requests) = (Arc::default(), Arc::default());
        let (clear, within) = (Arc::clone(&heard), Arc::clone(&requests));
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (manner, clear, within) =
                    (manner.clone(), Arc::clone(&clear), Arc::clone(&within));
                tokio::spawn(async move {
                    // How the client takes its leave is its own affair.
                    let _end = serve(stream, manner, &clear, &within).await;
                });
            }
        });
        Self { port, heard, requests, accepting: accepting.abort_handle() }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(
    mut stream: TcpStream,
    manner: Manner,
    heard: &Mutex<Vec<u8>>,
    requests: &Mutex<Vec<Vec<u8>>>,
) -> std::io::Result<()> {
    let mut first = [0; 4096];
    let config = match manner {
        Manner::Tls(config) => config,
        Manner::Says(said) => {
            let octets = stream.read(&mut first).await?;
            heard.lock().unwrap().extend_from_slice(&first[..octets]);
            stream.write_all(&said).await?;
            return listen(stream, heard).await;
        }
        Manner::Ends { abruptly } => {
            let octets = stream.read(&mut first).await?;
            heard.lock().unwrap().extend_from_slice(&first[..octets]);
            return if abruptly { stream.set_zero_linger() } else { stream.shutdown().await };
        }
        Manner::Silent => return listen(stream, heard).await,
    };
    let octets = stream.peek(&mut first).await?;
    heard.lock().unwrap().extend_from_slice(&first[..octets]);
    let mut secure = TlsAcceptor::from(config).accept(stream).await?;
    let mut request = Vec::new();
    while !is_whole(&request) {
        if secure.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    requests.lock().unwrap().push(request);
    secure.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").await?;
    secure.shutdown().await
}

async fn listen(mut stream: TcpStream, heard: &Mutex<Vec<u8>>) -> std::io::Result<()> {
    let mut said = [0; 4096];
    loop {
        let octets = stream.read(&mut said).await?;
        if octets == 0 {
            return Ok(());
        }
        heard.lock().unwrap().extend_from_slice(&said[..octets]);
    }
}

fn by(
    (chain, key): &(String, String),
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> Manner {
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(chain.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
        )
        .unwrap();
    Manner::Tls(Arc::new(config))
}

/// The ServerHello of a server that knows this version at most (RFC 2246 §7.4.1.3).
fn hello(minor: u8) -> Vec<u8> {
    let random = [7; 32];
    let hello = [&[3, minor][..], &random, &[0, 0x00, 0x2f, 0]].concat();
    let length = u8::try_from(hello.len()).unwrap();
    [&[22, 3, minor, 0, length + 4, 2, 0, 0, length][..], &hello].concat()
}

/// Each receiver by its name, with what must be said of it: nothing, where the event arrives.
fn receivers(authority: &Authority) -> Vec<(&'static str, Manner, Option<&'static str>)> {
    let all = rustls::ALL_VERSIONS;
    let host = |case: &str| format!("{case}.tls.example");
    let issued = |case: &str, years| authority.issue_for(&[&host(case)], years);
    let valid = (1975, 4096);
    // One authority with its own name, one with the name of the trusted authority.
    let (other, impostor) = (Authority::called("Another authority"), Authority::new());
    vec![
        ("good", by(&issued("good", valid), all), None),
        ("tls12", by(&issued("tls12", valid), &[&rustls::version::TLS12]), None),
        ("tls13", by(&issued("tls13", valid), &[&rustls::version::TLS13]), None),
        ("wildcard", by(&issued("*", valid), all), None),
        ("expired", by(&issued("expired", (1975, 2020)), all), Some(words("time"))),
        ("early", by(&issued("early", (4000, 4096)), all), Some(words("time"))),
        ("misnamed", by(&issued("good", valid), all), Some(words("name"))),
        // A wildcard is for one label (RFC 9525 §6.3).
        ("a.b", by(&issued("*", valid), all), Some(words("name"))),
        ("itself", by(&signed_by_itself(&host("itself")), all), Some(words("issuer"))),
        ("unknown", by(&other.issue_for(&[&host("unknown")], valid), all), Some(words("issuer"))),
        (
            "impostor",
            by(&impostor.issue_for(&[&host("impostor")], valid), all),
            Some(words("issuer")),
        ),
        ("tls10", Manner::Says(hello(1)), Some(words("version"))),
        ("tls11", Manner::Says(hello(2)), Some(words("version"))),
        ("ssl3", Manner::Says(hello(0)), Some(words("version"))),
        // alert(fatal, protocol_version), RFC 8446 §6.2
        ("alert", Manner::Says(vec![21, 3, 1, 0, 2, 2, 70]), Some(words("version"))),
        // alert(fatal, handshake_failure)
        (
            "refuses",
            Manner::Says(vec![21, 3, 1, 0, 2, 2, 40]),
            Some("the TLS handshake failed: the certificate or protocol was refused"),
        ),
        (
            "plain",
            Manner::Says(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_vec()),
            Some("the server does not speak TLS on this port"),
        ),
        ("resets", Manner::Ends { abruptly: true }, Some(words("cut"))),
        ("closes", Manner::Ends { abruptly: false }, Some(words("cut"))),
        ("silent", Manner::Silent, Some("no connection was made in time")),
    ]
}

/// Two attempts; any port is one of the public.
const RULES: (&str, &str) = (
    "webhooks.toml",
    "[schedule]\nwait_seconds = [0, 0]\n[attempt]\nconnect_timeout_seconds = 10\n\
     [egress]\nports = []\n",
);

#[tokio::test(flavor = "multi_thread")]
async fn an_event_goes_over_verified_tls_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules(folder.path(), &[RULES]);
    let location = Location::Folder(folder.path().join("store"));
    let site = Site::build(&location, &rules).await;
    let authority = Authority::new();
    let root = folder.path().join("root.pem");
    std::fs::write(&root, authority.root()).unwrap();
    let cases = receivers(&authority);
    let mut running = Vec::new();
    for (name, manner, _) in &cases {
        let receiver = Receiver::start(manner.clone()).await;
        let host = format!("{name}.tls.example");
        site.dns.change(|zone| zone.insert(&host, "A", "NOERROR", "127.0.0.1")).unwrap();
        site.hook(name, &format!("https://{host}:{}/{name}", receiver.port)).await;
        running.push(receiver);
    }
    site.leave_store().await;
    // Somebody who offers to pass everything on, and hears of everything that is asked of it.
    let proxy = Receiver::start(Manner::Says(b"HTTP/1.1 200 OK\r\n\r\n".to_vec())).await;
    let by_proxy = format!("http://127.0.0.1:{}", proxy.port);
    let proxies =
        ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
    let mut environment: Vec<(&str, &str)> =
        proxies.iter().map(|name| (*name, by_proxy.as_str())).collect();
    // Where the system keeps the authorities that it trusts.
    environment.push(("SSL_CERT_FILE", root.to_str().unwrap()));
    let dns = site.dns.addr();
    let server = Server::start_amid(&location, folder.path(), dns, &[], &environment).await;

    let to = ["support@agents.example".to_owned()];
    let raw = signed("for verified receivers");
    let transaction =
        Transaction { helo: "client.example", from: "alice@good.example", to: &to, raw: &raw };
    assert!(deliver(server.smtp, &transaction).await.unwrap().accepted());
    // In clear, where the operator allows it: not by the proxy either.
    assert!(site.receiver.wait_for(1, PATIENCE).await.unwrap()[0].verified);
    let tried = |fault: &Option<&str>| if fault.is_some() { 2 } else { 1 };
    let wanted: usize = cases.iter().map(|(_, _, fault)| tried(fault)).sum();
    let ended = attempts::ended(&folder.path().join("store"), wanted + 1).await;
    for ((name, _, fault), receiver) in cases.iter().zip(&running) {
        let own: Vec<_> = ended.iter().filter(|one| one.label == *name).collect();
        assert_eq!(own.len(), tried(fault), "{name}: {own:?}");
        for one in own {
            assert_eq!(
                (one.error.as_deref(), one.status.is_none()),
                (*fault, fault.is_some()),
                "{name}"
            );
            let state = if fault.is_some() { "exhausted" } else { "delivered" };
            assert_eq!(one.state, state, "{name}");
        }
        let heard = receiver.heard.lock().unwrap();
        // Nothing but a handshake (RFC 8446 §5.1), and within it one request or none.
        assert_eq!(heard.first(), Some(&22), "{name}");
        assert!(!heard.windows(4).any(|window| window == b"POST"), "{name}");
        let requests = receiver.requests.lock().unwrap();
        assert_eq!(requests.len(), usize::from(fault.is_none()), "{name}");
    }
    assert_eq!(proxy.heard.lock().unwrap().len(), 0, "a proxy was asked");
    assert_eq!(server.terminate().await, 0);
    site.finish().await;
}
