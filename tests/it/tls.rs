//! Encrypted ways in: real clients, certificates from files and of our own, the API by https.

use std::os::unix::fs::PermissionsExt as _;

use gatepost::run::TlsSettings;
use gatepost::store::Location;
use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

use crate::clients::{assert_arrived, run};
use crate::support::authority::{Authority, HOST, Secured, opportunistic};
use crate::support::process::{Server, failing, gatepost};
use crate::support::{PATIENCE, TestGateway, http, rules, signed};

/// A gateway with a certificate of this authority, on every way in.
async fn gateway(authority: &Authority) -> TestGateway {
    TestGateway::encrypted(|folder| {
        let paths = authority.issue_to(folder);
        let smtps = Some("127.0.0.1:0".parse().unwrap());
        TlsSettings { smtps, smtp: Some(paths), ..TlsSettings::default() }
    })
    .await
}

/// How the only message has come, as its record says.
async fn session(gateway: &TestGateway) -> Value {
    let list = gateway.get("/email/intake").await;
    let id = list["intake"][0]["id"].as_str().unwrap().to_owned();
    let record = gateway.get(&format!("/email/intake/{id}")).await;
    let steps = record["intake"]["steps"].as_array().or(record["steps"].as_array()).unwrap();
    assert_eq!(steps[0]["name"], "session");
    steps[0]["inputs"].clone()
}

async fn assert_encrypted(gateway: &TestGateway) {
    let inputs = session(gateway).await;
    assert_eq!(inputs["protocol"], "ESMTPS");
    assert_eq!(inputs["tls"]["version"], "TLSv1.3");
    assert!(inputs["tls"]["cipher"].as_str().unwrap().starts_with("TLS_"), "{inputs}");
}

#[tokio::test(flavor = "multi_thread")]
async fn swaks_delivers_by_starttls_to_a_certificate_of_our_own() {
    let gateway = TestGateway::start().await;
    let file = gateway.folder.path().join("message.eml");
    std::fs::write(&file, signed("swaks, encrypted")).unwrap();
    let (server, data) = (gateway.smtp.to_string(), format!("@{}", file.display()));
    let (from, to) = ("alice@good.example", "support@agents.example");
    let arguments = ["--tls", "--server", &server, "--from", from, "--to", to, "--data", &data];
    run("swaks", &arguments, b"").await;
    assert_encrypted(&gateway).await;
    assert_arrived(gateway, "swaks, encrypted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn msmtp_delivers_by_starttls_and_verifies() {
    let gateway = gateway(&Authority::new()).await;
    let (host, port) = (gateway.smtp.ip().to_string(), gateway.smtp.port().to_string());
    let trust = gateway.folder.path().join("root.pem");
    let arguments = [
        "--file=/dev/null",
        &format!("--host={host}"),
        &format!("--port={port}"),
        "--tls=on",
        "--tls-starttls=on",
        &format!("--tls-trust-file={}", trust.display()),
        "--from=alice@good.example",
        "--",
        "support@agents.example",
    ];
    // msmtp reads a file of this system: LF line ends.
    let message = String::from_utf8(signed("msmtp, encrypted")).unwrap().replace("\r\n", "\n");
    run("msmtp", &arguments, message.as_bytes()).await;
    assert_encrypted(&gateway).await;
    assert_arrived(gateway, "msmtp, encrypted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python_smtplib_delivers_by_starttls_and_by_implicit_tls() {
    let program = "import smtplib, ssl, sys\n\
                   host, port, trust, way = sys.argv[1:]\n\
                   context = ssl.create_default_context(cafile=trust)\n\
                   if way == 'implicit':\n\
                   \x20   client = smtplib.SMTP_SSL(host, int(port), 'client.example', context=context)\n\
                   else:\n\
                   \x20   client = smtplib.SMTP(host, int(port), 'client.example')\n\
                   \x20   client.starttls(context=context)\n\
                   \x20   client.ehlo()\n\
                   \x20   assert not client.has_extn('starttls')\n\
                   with client:\n\
                   \x20   refused = client.sendmail('alice@good.example', ['support@agents.example'],\n\
                   \x20                             sys.stdin.buffer.read())\n\
                   \x20   assert not refused, refused\n";
    for way in ["starttls", "implicit"] {
        let gateway = gateway(&Authority::new()).await;
        let address = if way == "implicit" { gateway.smtps() } else { gateway.smtp };
        let (host, port) = (address.ip().to_string(), address.port().to_string());
        let trust = gateway.folder.path().join("root.pem");
        let arguments = ["-c", program, &host, &port, trust.to_str().unwrap(), way];
        run("python3", &arguments, &signed(way)).await;
        assert_encrypted(&gateway).await;
        assert_arrived(gateway, way).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_replaced_under_open_sessions_and_bad_ones_are_not_taken() {
    let authority = Authority::new();
    let gateway = gateway(&authority).await;
    let connector = authority.connector();
    let mut open = Secured::open(gateway.smtp, &connector).await.unwrap();
    let old = open.certificate();
    let (chain, key) = authority.issue();
    let put = |name: &str, text: &str| std::fs::write(gateway.folder.path().join(name), text);
    // Half of it: certificate and key do not belong together.
    put("chain.pem", &chain).unwrap();
    gateway.reload().await;
    let shown = Secured::open(gateway.smtp, &connector).await.unwrap().certificate();
    assert_eq!(shown, old);
    put("key.pem", &key).unwrap();
    gateway.reload().await;
    let mut later = Secured::open(gateway.smtp, &connector).await.unwrap();
    assert_ne!(later.certificate(), old);
    open.deliver(&signed("opened before")).await;
    later.deliver(&signed("opened after")).await;
    assert_eq!(gateway.messages().await.len(), 2);
    drop((open, later));
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_our_own_stays_over_a_restart_for_its_owner_only() {
    let mut gateway = TestGateway::start().await;
    let shown = async |gateway: &TestGateway| {
        Secured::open(gateway.smtp, &opportunistic()).await.unwrap().certificate()
    };
    let first = shown(&gateway).await;
    let file = gateway.folder.path().join("store/tls/self-signed.pem");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    gateway.restart().await;
    assert_eq!(shown(&gateway).await, first);
    // A client that verifies certificates refuses the server.
    assert!(Secured::open(gateway.smtp, &Authority::new().connector()).await.is_err());
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_without_a_folder_has_a_certificate_too() {
    let gateway = TestGateway::on_postgres().await;
    let mut session = Secured::open(gateway.smtp, &opportunistic()).await.unwrap();
    session.deliver(&signed("to PostgreSQL")).await;
    drop(session);
    assert_encrypted(&gateway).await;
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_is_served_by_https_to_who_trusts_the_certificate() {
    let authority = Authority::new();
    let gateway = TestGateway::encrypted(|folder| TlsSettings {
        http: Some(authority.issue_to(folder)),
        ..TlsSettings::default()
    })
    .await;
    let root = reqwest::Certificate::from_pem(authority.root().as_bytes()).unwrap();
    let client = reqwest::Client::builder().tls_certs_only([root]).timeout(PATIENCE);
    let client = client.build().unwrap();
    let (http, key) = (gateway.http, &gateway.key);
    let ask = |scheme: &str| client.get(format!("{scheme}://{http}/api/v2/account?token={key}"));
    let answer = ask("https").send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (200, reqwest::Version::HTTP_11));
    let body: Value = serde_json::from_slice(&http::read("GET", answer).await.body).unwrap();
    assert_eq!(body["success"], true, "{body}");
    ask("http").send().await.unwrap_err();
    let stranger = reqwest::Client::builder().timeout(PATIENCE).build().unwrap();
    stranger.get(format!("https://{http}/healthz")).send().await.unwrap_err();
    // A new certificate by another authority: the old client is not served any more, on new
    // connections.
    let other = Authority::new();
    other.issue_to(gateway.folder.path());
    gateway.reload().await;
    let root = reqwest::Certificate::from_pem(other.root().as_bytes()).unwrap();
    let fresh = reqwest::Client::builder().tls_certs_only([root]).timeout(PATIENCE);
    let answer = fresh.build().unwrap().get(format!("https://{http}/healthz")).send().await;
    assert_eq!(answer.unwrap().status().as_u16(), 200);
    assert_eq!(ask("https").send().await.unwrap().status().as_u16(), 200, "its connection is open");
    drop(client);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hang_up_makes_the_server_read_its_certificates_again() {
    let mut gateway = TestGateway::start().await;
    gateway.stop().await;
    let (authority, folder) = (Authority::new(), gateway.folder.path());
    let paths = authority.issue_to(folder);
    rules(folder, &[("smtp.toml", "[tls]\nreload_seconds = 86400\n")]);
    let names = [&paths.chain, &paths.key].map(|path| path.to_str().unwrap().to_owned());
    let arguments = ["--smtp-tls-cert", &names[0], "--smtp-tls-key", &names[1]];
    let more = ["--http-tls-cert", &names[0], "--http-tls-key", &names[1]];
    let arguments = [&arguments[..], &more[..], &["--smtps", "127.0.0.1:0"]].concat();
    let location = Location::Folder(folder.join("store"));
    let server = Server::start_with(&location, folder, gateway.dns.addr(), &arguments).await;
    let words: Vec<&str> = server.said.split_whitespace().collect();
    let kinds: Vec<&str> = words.iter().copied().skip(3).step_by(2).collect();
    assert_eq!(kinds, ["smtp", "smtps", "https"], "{}", server.said);
    let connector = authority.connector();
    let mut open = Secured::open(server.smtp, &connector).await.unwrap();
    let old = open.certificate();
    authority.issue_to(folder);
    let id = server.id().to_string();
    assert!(Command::new("kill").args(["-HUP", &id]).status().await.unwrap().success());
    let replaced = async {
        while Secured::open(server.smtp, &connector).await.unwrap().certificate() == old {}
    };
    timeout(PATIENCE, replaced).await.unwrap();
    open.deliver(&signed("over the hang-up")).await;
    drop(open);
    assert_eq!(server.terminate().await, 0);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_that_cannot_be_used_are_told_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (authority, other) = (Authority::new(), Authority::new());
    authority.issue_to(folder);
    std::fs::write(folder.join("other.pem"), other.issue().1).unwrap();
    assert!(gatepost(folder, &["init"]).await.status.success());
    let serve = ["serve", "--smtp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--hostname", HOST];
    for (options, said) in [
        (vec!["--smtp-tls-cert", "chain.pem"], "give both files, or neither"),
        (vec!["--http-tls-key", "key.pem"], "http-tls-key: is given without http-tls-cert"),
        (vec!["--smtp-tls-cert", "none.pem", "--smtp-tls-key", "key.pem"], "cannot read none.pem"),
        (
            vec!["--smtp-tls-cert", "chain.pem", "--smtp-tls-key", "other.pem"],
            "certificate and key do not belong together: give the key",
        ),
        (
            vec!["--http-tls-cert", "key.pem", "--http-tls-key", "key.pem"],
            "there is no certificate: expected PEM",
        ),
    ] {
        let told = failing(folder, &[&serve[..], &options].concat()).await;
        assert!(told.contains(said), "{options:?}: {told}");
    }
}
