//! `/readyz`: 503, and why, whenever mail would be put off or the API could not write.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use gatepost::run;
use gatepost::shutdown::Shutdown;
use gatepost::store::{Location, Store};
use gatepost::testkit::dns::DnsServer;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::time::timeout;

use crate::support::process::{GATEPOST, Server, gatepost};
use crate::support::proxy::Proxy;
use crate::support::session::{Session, has_been_read};
use crate::support::{
    PATIENCE, TestGateway, http, local_dns, postgres, rules, signed, store_rules,
};

/// Writes fail at once after `prlimit --fsize`, instead of the kernel ending the process.
const NO_SIGNAL: &str = "trap '' XFSZ; exec \"$0\" \"$@\"";

/// Reads `/readyz`.
async fn ready(at: SocketAddr) -> (u16, Value) {
    let answer = http::get(&format!("http://{at}/readyz")).await;
    (answer.status.as_u16(), serde_json::from_str(&answer.text()).unwrap())
}

/// The causes of the checks that fail, by name.
fn causes(body: &Value) -> Vec<(String, String)> {
    let checks = body["checks"].as_array().unwrap_or_else(|| panic!("no checks: {body}"));
    let names: Vec<_> = checks.iter().map(|check| check["name"].as_str().unwrap()).collect();
    let all = ["mail", "memory", "trust", "reading", "writing", "originals", "space"];
    assert_eq!(names, all, "{body}");
    for check in checks {
        assert!(check["since"].as_str().unwrap().ends_with('Z'), "{check}");
        assert_eq!(check["ok"], check["cause"].is_null(), "{check}");
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let failing = checks.iter().filter(|check| check["ok"] == false);
    failing.map(|check| (text(&check["name"]), text(&check["cause"]))).collect()
}

/// Asks until these checks fail, and no others; all must hold where none are named.
async fn until(at: SocketAddr, failing: &[(&str, &str)]) -> Value {
    let wanted: Vec<_> =
        failing.iter().map(|(name, cause)| ((*name).to_owned(), (*cause).to_owned())).collect();
    let mut last = Value::Null;
    let asking = async {
        loop {
            let (status, body) = ready(at).await;
            let found = causes(&body);
            assert_eq!(status, if found.is_empty() { 200 } else { 503 }, "{body}");
            if found == wanted {
                break body;
            }
            last = body;
        }
    };
    let found = timeout(PATIENCE, asking).await;
    found.unwrap_or_else(|_| panic!("{failing:?} is never said: {last}"))
}

/// A store in `data`, and the DNS of a server on it.
async fn stage(location: &Location, helpers: &Shutdown) -> DnsServer {
    let store = Store::create(location, &store_rules(), run::system_mint()).await.unwrap();
    store.close().await;
    local_dns(helpers).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_takes_nothing_is_said_and_so_is_its_end() {
    let (folder, helpers) = (tempfile::tempdir().unwrap(), Shutdown::default());
    let dns = stage(&Location::Folder(folder.path().into()), &helpers).await;
    let by = ["bash", "-c", NO_SIGNAL, GATEPOST];
    let server = Server::start_by(&by, folder.path(), dns.addr()).await;
    let first = until(server.http, &[]).await;
    let limit = async |octets: &str| {
        let (id, size) = (server.id().to_string(), format!("--fsize={octets}:unlimited"));
        let done = Command::new("prlimit").args(["--pid", &id, &size]).status().await.unwrap();
        assert!(done.success());
    };
    limit("1").await;
    let full = async {
        loop {
            let (status, said) = ready(server.http).await;
            let names: Vec<_> = causes(&said).into_iter().map(|(name, _)| name).collect();
            if names == ["writing", "originals"] {
                assert_eq!(status, 503);
                break said;
            }
        }
    };
    let said = timeout(PATIENCE, full).await.unwrap();
    assert_eq!((&said["code"], &said["success"]), (&"unavailable".into(), &false.into()));
    let text = said.to_string();
    assert!(!text.contains("disk") && !text.contains(folder.path().to_str().unwrap()), "{text}");
    // A check that still passes keeps its time; a failing one has a later time.
    let since = |body: &Value, place: usize| body["checks"][place]["since"].clone().to_string();
    assert_eq!(since(&said, 3), since(&first, 3));
    assert!(since(&said, 4) > since(&first, 4), "{said}");
    assert_eq!(http::get(&format!("http://{}/healthz", server.http)).await.status, 200);
    limit("unlimited").await;
    until(server.http, &[]).await;
    assert_eq!(server.terminate().await, 0);
    assert!(helpers.finish(PATIENCE).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn short_of_space_mail_is_put_off_and_the_gateway_is_not_ready() {
    let much = "[space]\nmin_free_bytes = 4611686018427387904\n";
    let gateway = TestGateway::with_rules(&[("smtp.toml", much)]).await;
    until(gateway.http, &[("space", "no space")]).await;
    let to = ["support@agents.example"];
    let replies = gateway.send("alice@good.example", &to, &signed("later")).await;
    assert!(replies.settling().starts_with("452 4.3.1"), "{}", replies.settling());
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_cut_to_half_is_said_so() {
    let gateway = TestGateway::start().await;
    until(gateway.http, &[]).await;
    let file = gateway.folder.path().join("store/gatepost.db");
    let file = std::fs::File::options().write(true).open(file).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    let damaged = async {
        loop {
            let (status, body) = ready(gateway.http).await;
            if causes(&body).contains(&("writing".into(), "damaged".into())) {
                break status;
            }
        }
    };
    assert_eq!(timeout(PATIENCE, damaged).await.unwrap(), 503);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn originals_that_cannot_be_kept_are_said() {
    let gateway = TestGateway::start().await;
    until(gateway.http, &[]).await;
    let [blobs, aside] =
        ["blobs", "aside"].map(|name| gateway.folder.path().join("store").join(name));
    std::fs::rename(&blobs, &aside).unwrap();
    std::fs::write(&blobs, "no folder").unwrap();
    until(gateway.http, &[("originals", "not working")]).await;
    std::fs::remove_file(&blobs).unwrap();
    std::fs::rename(&aside, &blobs).unwrap();
    until(gateway.http, &[]).await;
    gateway.finish().await;
}

/// The answer does not wait for the database: its own deadlines are far longer than what is waited.
#[tokio::test(flavor = "multi_thread")]
async fn a_postgresql_that_is_silent_or_gone_is_said() {
    let (folder, helpers) = (tempfile::tempdir().unwrap(), Shutdown::default());
    let cluster = tokio::task::spawn_blocking(|| postgres::start(&[])).await.unwrap();
    let mut proxy = Proxy::start(&cluster.url).await;
    let location = Location::parse(None, Some(&proxy.url(&cluster.url))).unwrap();
    rules(folder.path(), &[]);
    let dns = stage(&location, &helpers).await;
    let server = Server::start_on(&location, folder.path(), dns.addr()).await;
    until(server.http, &[]).await;
    proxy.fall_silent();
    let silent = [("reading", "not answering"), ("writing", "not answering")];
    until(server.http, &silent).await;
    assert_eq!(http::get(&format!("http://{}/healthz", server.http)).await.status, 200);
    proxy.recover();
    until(server.http, &[]).await;
    drop(cluster);
    let gone = async {
        loop {
            let (status, body) = ready(server.http).await;
            let names: Vec<_> = causes(&body).into_iter().map(|(name, _)| name).collect();
            if names == ["reading", "writing"] {
                break status;
            }
        }
    };
    assert_eq!(timeout(PATIENCE, gone).await.unwrap(), 503);
    server.kill().await;
    assert!(helpers.finish(PATIENCE).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_is_stopping_is_not_ready() {
    let (folder, helpers) = (tempfile::tempdir().unwrap(), Shutdown::default());
    let dns = stage(&Location::Folder(folder.path().into()), &helpers).await;
    let server = Server::start(folder.path(), dns.addr()).await;
    until(server.http, &[]).await;
    // Begun before the stop, and so answered.
    let mut asking = TcpStream::connect(server.http).await.unwrap();
    asking.write_all(b"GET /readyz HTTP/1.1\r\nHost: h\r\n").await.unwrap();
    has_been_read(&asking).await;
    let mut session = Session::greeted(server.smtp).await;
    server.ask_to_stop("-TERM").await;
    session.expect("421").await;
    asking.write_all(b"\r\n").await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, asking.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("\"shutting down\""), "{answer}");
    assert_eq!(server.ended().await, 0);
    assert!(helpers.finish(PATIENCE).await);
}

/// A server on a database that is not there, with both of its addresses taken by `taken`.
fn start(folder: &Path, port: u16, taken: SocketAddr, patience: &str) -> tokio::process::Child {
    let (url, taken) = (format!("postgres://me@127.0.0.1:{port}/mail"), taken.to_string());
    Command::new(GATEPOST)
        .args(["serve", "--database-url", &url, "--start-patience", patience])
        .args(["--smtp", &taken, "--http", &taken])
        .current_dir(folder)
        .env("GATEPOST_LOG", "info")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// Nothing is listened on before the database is there: that its addresses are taken is not found.
#[tokio::test]
async fn without_its_database_a_server_listens_nowhere_says_so_and_gives_up() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = nobody.local_addr().unwrap().port();
    drop(nobody);
    let child = start(folder.path(), port, taken.local_addr().unwrap(), "1");
    let output = timeout(PATIENCE, child.wait_with_output()).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(output.stdout.is_empty(), "it was never ready");
    for part in ["attempt=1 ", "attempt=2 ", "left_seconds=", "cannot open the store", "refused"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("cannot listen"), "{said}");
}

#[tokio::test]
async fn a_server_that_waits_for_its_database_can_be_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let child = start(folder.path(), port, silent.local_addr().unwrap(), "600");
    let _asked = timeout(PATIENCE, silent.accept()).await.unwrap().unwrap();
    let id = child.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().await.unwrap().success());
    let output = timeout(PATIENCE, child.wait_with_output()).await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(0));
}

/// For containers, whose image has no other program. A list of checks is in the answer of `--json`.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_says_what_readyz_says() {
    let much = "[space]\nmin_free_bytes = 4611686018427387904\n";
    let (well, full) =
        (TestGateway::start().await, TestGateway::with_rules(&[("smtp.toml", much)]).await);
    let here = well.folder.path();
    let health = async |flag: &str, at: SocketAddr, more: &[&str]| {
        let asked = gatepost(here, &[&["health", flag, &at.to_string()], more].concat()).await;
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        (asked.status.code().unwrap(), text(&asked.stdout), text(&asked.stderr))
    };
    for (flag, at) in [("--http", well.http), ("--metrics", well.metrics)] {
        assert_eq!(health(flag, at, &[]).await, (0, "ready\n".to_owned(), String::new()));
    }
    let (code, said, _) = health("--http", full.http, &[]).await;
    assert_eq!((code, said.as_str()), (1, "not ready: space: no space\n"));
    let (code, said, _) = health("--metrics", full.metrics, &["--json"]).await;
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, causes(&said)), (1, vec![("space".to_owned(), "no space".to_owned())]));
    let (code, _, errors) = health("--http", well.smtp, &[]).await;
    assert!(code == 1 && errors.contains("does not speak plain http"), "{errors}");
    let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
    let (code, said, errors) = health("--http", nobody, &[]).await;
    assert_eq!((code, said.as_str()), (1, ""));
    assert!(errors.contains("no health of 127.0.0.1:1"), "{errors}");
    well.finish().await;
    full.finish().await;
}
