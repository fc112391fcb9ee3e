//! A service manager: what it is told and when, the sockets that it passes, and its watchdog. Its
//! units are in tests/it/units.rs.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use gatepost::run;
use gatepost::shutdown::Shutdown;
use gatepost::store::{Location, Store};
use gatepost::testkit::dns::DnsServer;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Executor as _};
use tokio::net::UnixDatagram;
use tokio::process::Command;
use tokio::time::timeout;

use crate::support::process::{GATEPOST, Server, gatepost};
use crate::support::session::Session;
use crate::support::{PATIENCE, http, local_dns, rules, store_rules};

/// Opens a listening socket for each name, on an address on which the server itself would not
/// listen, and becomes the command behind the second word, as a service manager does
/// (sd_listen_fds(3)). If that word is `unset`, the command loses the addresses that it sets for
/// these listeners.
const PASS: &str = "import os, socket, sys\n\
    names, command = sys.argv[1].split(':'), sys.argv[3:]\n\
    for place, name in enumerate(names):\n\
    \x20   kind = socket.SOCK_STREAM\n\
    \x20   one = socket.socket(socket.AF_INET, kind)\n\
    \x20   one.bind(('127.0.0.7', 0))\n\
    \x20   if not name.endswith('!'): one.listen(16)\n\
    \x20   high = os.dup2(one.detach(), 100 + place)\n\
    for place in range(len(names)):\n\
    \x20   os.dup2(100 + place, 3 + place)\n\
    \x20   os.close(100 + place)\n\
    fd_names = ':'.join(name.rstrip('!') for name in names)\n\
    os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(names)), LISTEN_FDNAMES=fd_names)\n\
    for name in names if sys.argv[2] == 'unset' else []:\n\
    \x20   if '--' + name not in command: continue\n\
    \x20   at = command.index('--' + name)\n\
    \x20   del command[at:at + 2]\n\
    os.execv(command[0], command)\n";

/// A sign of life comes each half of this.
const WATCHDOG: Duration = Duration::from_millis(200);

/// The end of the service manager: a real datagram socket.
struct Manager(UnixDatagram);

impl Manager {
    fn in_folder(folder: &Path) -> Self {
        Self(UnixDatagram::bind(folder.join("notify")).unwrap())
    }

    /// The next lines that are told together.
    async fn told(&self) -> Vec<String> {
        let mut buffer = [0; 4096];
        let length = timeout(PATIENCE, self.0.recv(&mut buffer)).await.unwrap().unwrap();
        let text = std::str::from_utf8(&buffer[..length]).unwrap();
        text.lines().map(ToOwned::to_owned).collect()
    }

    /// Returns once this is told; all that comes before must be words of life, or of its state: a
    /// busy machine may make a check slow at any time.
    async fn until(&self, first: &str) -> Vec<String> {
        let until = async {
            loop {
                let told = self.told().await;
                if told[0].starts_with(first) {
                    return told;
                }
                assert!(is_of_life_or_state(&told), "before {first}: {told:?}");
            }
        };
        timeout(PATIENCE, until).await.unwrap_or_else(|_| panic!("{first} is not told"))
    }

    /// Returns once it has heard nothing for ten times as long as it lets pass between two words.
    async fn until_silent(&self) {
        let silent = async {
            while let Ok(told) = timeout(WATCHDOG * 10, self.told()).await {
                assert!(is_of_life_or_state(&told), "{told:?}");
            }
        };
        timeout(PATIENCE, silent).await.expect("words of life go on");
    }
}

fn is_of_life_or_state(told: &[String]) -> bool {
    told.len() == 1 && (told[0] == "WATCHDOG=1" || told[0].starts_with("STATUS="))
}

/// A store, and the DNS of a server on it.
async fn stage(folder: &Path, helpers: &Shutdown) -> DnsServer {
    let location = Location::Folder(folder.into());
    let store = Store::create(&location, &store_rules(), run::system_mint()).await.unwrap();
    store.close().await;
    local_dns(helpers).await
}

async fn start_watched(folder: &Path, dns: SocketAddr, within: Duration) -> (Manager, Server) {
    let manager = Manager::in_folder(folder);
    let socket = format!("NOTIFY_SOCKET={}", folder.join("notify").display());
    let watchdog = format!("WATCHDOG_USEC={}", within.as_micros());
    let server = Server::start_by(&["env", &socket, &watchdog, GATEPOST], folder, dns).await;
    (manager, server)
}

#[tokio::test(flavor = "multi_thread")]
async fn its_start_its_life_and_its_end_are_told() {
    let (folder, helpers) = (tempfile::tempdir().unwrap(), Shutdown::default());
    let dns = stage(folder.path(), &helpers).await;
    let (manager, server) = start_watched(folder.path(), dns.addr(), WATCHDOG).await;
    assert_eq!(manager.told().await, ["STATUS=opening the store"]);
    let ready = manager.told().await;
    let status = format!("STATUS=ready: smtp {} http {}", server.smtp, server.http);
    assert_eq!(ready, ["READY=1", &status]);
    for _ in 0..3 {
        manager.until("WATCHDOG=1").await;
    }
    server.ask_to_stop("-HUP").await;
    let reloading = manager.until("RELOADING=1").await;
    assert!(reloading[1].starts_with("MONOTONIC_USEC=") && reloading.len() == 3, "{reloading:?}");
    assert_eq!(manager.until("READY=1").await, ready);
    let mut session = Session::greeted(server.smtp).await;
    server.ask_to_stop("-TERM").await;
    let stopping = manager.until("STOPPING=1").await;
    assert!(stopping[1].starts_with("STATUS=stopping: "), "{stopping:?}");
    session.expect("421").await;
    assert_eq!(server.ended().await, 0);
    assert!(helpers.finish(PATIENCE).await);
}

/// The queue of its socket is full.
#[tokio::test(flavor = "multi_thread")]
async fn a_manager_that_reads_nothing_holds_up_neither_start_nor_reload_nor_stop() {
    let (folder, helpers) = (tempfile::tempdir().unwrap(), Shutdown::default());
    let dns = stage(folder.path(), &helpers).await;
    let manager = Manager::in_folder(folder.path());
    let filling = std::os::unix::net::UnixDatagram::unbound().unwrap();
    filling.connect(folder.path().join("notify")).unwrap();
    filling.set_nonblocking(true).unwrap();
    while filling.send(b"STATUS=full").is_ok() {}
    let socket = format!("NOTIFY_SOCKET={}", folder.path().join("notify").display());
    let server = Server::start_by(&["env", &socket, GATEPOST], folder.path(), dns.addr()).await;
    server.ask_to_stop("-HUP").await;
    Session::greeted(server.smtp).await;
    assert_eq!(server.terminate().await, 0);
    assert_eq!(manager.told().await, ["STATUS=full"]);
    assert!(helpers.finish(PATIENCE).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_store_hangs_gives_no_sign_of_life() {
    let (folder, helpers) = (tempfile::tempdir().unwrap(), Shutdown::default());
    let dns = stage(folder.path(), &helpers).await;
    let (manager, server) = start_watched(folder.path(), dns.addr(), WATCHDOG).await;
    manager.told().await;
    manager.until("READY=1").await;
    manager.until("WATCHDOG=1").await;
    let file = folder.path().join("gatepost.db");
    let mut holder = SqliteConnectOptions::new().filename(file).connect().await.unwrap();
    holder.execute("BEGIN IMMEDIATE").await.unwrap();
    manager.until_silent().await;
    holder.execute("ROLLBACK").await.unwrap();
    // It lives again.
    let back = async {
        loop {
            let told = manager.told().await;
            assert!(is_of_life_or_state(&told), "{told:?}");
            if told == ["WATCHDOG=1"] {
                break;
            }
        }
    };
    timeout(PATIENCE, back).await.unwrap();
    assert_eq!(server.terminate().await, 0);
    assert!(helpers.finish(PATIENCE).await);
}

/// Words of life do not begin to wait again with each reload: a server that is asked to reload all the
/// time would be restarted although it is well.
#[tokio::test(flavor = "multi_thread")]
async fn reloads_without_a_pause_hold_up_no_word_of_life() {
    let (folder, helpers) = (tempfile::tempdir().unwrap(), Shutdown::default());
    let dns = stage(folder.path(), &helpers).await;
    // So long that a reload takes far less than half of it.
    let within = Duration::from_secs(6);
    let (manager, server) = start_watched(folder.path(), dns.addr(), within).await;
    manager.until("READY=1").await;
    let alive = async {
        loop {
            server.ask_to_stop("-HUP").await;
            let mut lives = false;
            loop {
                let told = manager.told().await;
                lives |= told == ["WATCHDOG=1"];
                if told[0] == "READY=1" {
                    break;
                }
            }
            if lives {
                break;
            }
        }
    };
    timeout(PATIENCE, alive).await.expect("no word of life between reloads");
    assert_eq!(server.terminate().await, 0);
    assert!(helpers.finish(PATIENCE).await);
}

/// A fault that a restart does not mend is told, and is no reason for one.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_space_lives_and_says_what_is_wrong() {
    let (folder, helpers) = (tempfile::tempdir().unwrap(), Shutdown::default());
    let dns = stage(folder.path(), &helpers).await;
    let much = "[space]\nmin_free_bytes = 4611686018427387904\n";
    rules(folder.path(), &[("smtp.toml", much)]);
    let manager = Manager::in_folder(folder.path());
    let socket = folder.path().join("notify");
    let watchdog = WATCHDOG.as_micros().to_string();
    let environment =
        [("NOTIFY_SOCKET", socket.to_str().unwrap()), ("WATCHDOG_USEC", watchdog.as_str())];
    let location = Location::Folder(folder.path().into());
    let server = Server::start_amid(&location, folder.path(), dns.addr(), &[], &environment).await;
    manager.told().await;
    manager.until("READY=1").await;
    loop {
        let told = manager.until("STATUS=not ready: ").await;
        if told[0].contains("space (no space)") {
            break;
        }
    }
    manager.until("WATCHDOG=1").await;
    assert_eq!(server.terminate().await, 0);
    assert!(helpers.finish(PATIENCE).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_that_are_passed_take_the_place_of_its_own() {
    let (folder, helpers) = (tempfile::tempdir().unwrap(), Shutdown::default());
    let dns = stage(folder.path(), &helpers).await;
    let pass = ["python3", "-c", PASS, "http:metrics:smtps:smtp", "unset", GATEPOST];
    let server = Server::start_by(&pass, folder.path(), dns.addr()).await;
    let words: Vec<&str> = server.said.split(' ').collect();
    let at = |name: &str| -> SocketAddr {
        let place = words.iter().position(|word| *word == name).unwrap();
        words[place + 1].parse().unwrap()
    };
    let all = ["smtp", "smtps", "http", "metrics"].map(at);
    assert!(all.iter().all(|address| address.ip().to_string() == "127.0.0.7"), "{}", server.said);
    Session::greeted(all[0]).await;
    assert_eq!(http::get(&format!("http://{}/readyz", all[2])).await.status, 200);
    let metrics = http::get(&format!("http://{}/metrics", all[3])).await;
    assert!(metrics.text().contains("gatepost_"));
    assert_eq!(server.terminate().await, 0);
    assert!(helpers.finish(PATIENCE).await);
}

#[tokio::test]
async fn sockets_that_nothing_is_served_on_end_the_start_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    assert!(gatepost(folder.path(), &["init"]).await.status.success());
    for (names, words) in [
        ("smtp:mail", "\"mail\", which no listener has: write one of smtp, smtps, http, metrics"),
        ("smtp:smtp", "two sockets with the name smtp"),
        ("http!", "http that does not listen"),
        ("acme", "acme, but nothing is served there: set acme-directory"),
        ("http", "http is 127.0.0.1:0, but the service manager passes a socket on 127.0.0.7:"),
    ] {
        let mut command = Command::new("python3");
        command.args([
            "-c",
            PASS,
            names,
            "--",
            GATEPOST,
            "serve",
            "--hostname",
            "mx.agents.example",
        ]);
        command.args(["--smtp", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
        command.current_dir(folder.path()).stdin(Stdio::null()).kill_on_drop(true);
        let output = timeout(PATIENCE, command.output()).await.unwrap().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{names}: {said}");
        assert!(said.contains(words), "{names}: {said}");
    }
}

/// Another program passes: its first client makes it start the server, and is greeted.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_client_of_systemd_starts_the_server_and_is_greeted() {
    let (folder, helpers) = (tempfile::tempdir().unwrap(), Shutdown::default());
    let dns = stage(folder.path(), &helpers).await;
    // Only this test has anything on this address.
    let free = TcpListener::bind("127.0.77.25:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let client = tokio::spawn(async move {
        let connected = async {
            while tokio::net::TcpStream::connect(address).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, connected).await.unwrap();
        Session::greeted(address).await
    });
    let listen = format!("--listen={address}");
    let by = ["systemd-socket-activate", &listen, "--fdname=smtp", GATEPOST];
    let server = Server::start_by_at(&by, folder.path(), dns.addr(), address).await;
    assert_eq!(server.smtp, address);
    let mut session = timeout(PATIENCE, client).await.unwrap().unwrap();
    server.ask_to_stop("-TERM").await;
    session.expect("421").await;
    assert_eq!(server.ended().await, 0);
    assert!(helpers.finish(PATIENCE).await);
}
