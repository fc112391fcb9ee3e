//! An ACME server of the tests' own: pebble, on the loopback, gone with its test.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;

use super::PATIENCE;
use super::suggesting::Suggesting;

/// A port that leads somewhere else, or nowhere: what stands before it finds it where it was.
pub struct Door {
    pub address: SocketAddr,
    target: watch::Sender<Option<SocketAddr>>,
    passed: Arc<AtomicU64>,
    _accepting: JoinSet<()>,
}

impl Door {
    /// Leads nowhere yet.
    pub async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (target, current) = watch::channel(None::<SocketAddr>);
        let passed = Arc::new(AtomicU64::new(0));
        let passing = Arc::clone(&passed);
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                let target = *current.borrow();
                passing.fetch_add(1, Ordering::SeqCst);
                connections.spawn(async move {
                    let Some(target) = target else { return };
                    let Ok(mut server) = TcpStream::connect(target).await else { return };
                    let _either_hung_up = copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        Self { address, target, passed, _accepting: accepting }
    }

    pub fn lead_to(&self, target: SocketAddr) {
        self.target.send_replace(Some(target));
    }

    pub fn close(&self) {
        self.target.send_replace(None);
    }

    /// Connections so far, those that led nowhere too.
    pub fn connections(&self) -> u64 {
        self.passed.load(Ordering::SeqCst)
    }
}

/// An authority behind a door, which looks for answers at another one.
pub struct Pebble {
    /// Before the directory.
    pub door: Door,
    /// Where it looks for answers, instead of at port 80.
    pub port_80: Door,
    /// Where it looks for certificates, instead of at port 443.
    pub port_443: Door,
    dns: SocketAddr,
    life: u64,
    folder: TempDir,
    running: Option<Running>,
}

struct Running {
    _child: Child,
    /// Its output.
    log: Arc<Mutex<String>>,
    directory: SocketAddr,
    /// Where it says what its root certificate is.
    management: SocketAddr,
}

impl Pebble {
    /// Closed: nobody answers at its directory. Names are looked up at `dns`; a certificate is
    /// valid for `life` seconds.
    pub async fn closed(dns: SocketAddr, life: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        make_certificates(folder.path());
        let (door, port_80) = (Door::new().await, Door::new().await);
        let port_443 = Door::new().await;
        Self { door, port_80, port_443, dns, life, folder, running: None }
    }

    pub async fn start(dns: SocketAddr, life: u64) -> Self {
        let mut pebble = Self::closed(dns, life).await;
        pebble.open().await;
        pebble
    }

    /// Opens, or opens again with nothing remembered: no account, no certificate.
    pub async fn open(&mut self) {
        self.running = None;
        let path = |name: &str| self.folder.path().join(name);
        let config = json!({"pebble": {
            "listenAddress": "127.0.0.1:0",
            "managementListenAddress": "127.0.0.1:0",
            "certificate": path("server.pem"),
            "privateKey": path("server.key"),
            "httpPort": self.port_80.address.port(),
            "tlsPort": self.port_443.address.port(),
            "certificateValidityPeriod": self.life,
        }});
        std::fs::write(path("config.json"), config.to_string()).unwrap();
        let mut child = Command::new("pebble")
            .arg("-config")
            .arg(path("config.json"))
            .args(["-dnsserver", &self.dns.to_string()])
            // It asks for patience, and refuses good nonces, to teach clients.
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_WFE_NONCEREJECT", "15")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("pebble: {error}: run the tests by scripts/test"));
        let log = Arc::new(Mutex::new(String::new()));
        let (mut lines, said) =
            (BufReader::new(child.stdout.take().unwrap()).lines(), Arc::clone(&log));
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                said.lock().unwrap().push_str(&format!("{line}\n"));
            }
        });
        let id = child.id().unwrap();
        let (directory, management) =
            timeout(PATIENCE, self.ports(id)).await.expect("pebble did not start");
        self.door.lead_to(directory);
        self.running = Some(Running { _child: child, log, directory, management });
    }

    /// Suggests when to renew certificates from now on (RFC 9773), which pebble does not.
    pub async fn suggest(&self) -> Suggesting {
        let directory = self.running.as_ref().expect("pebble is shut").directory;
        let suggesting = Suggesting::before(directory, self.folder.path()).await;
        self.door.lead_to(suggesting.address);
        suggesting
    }

    /// The URL of the directory.
    pub fn url(&self) -> String {
        format!("https://{}/dir", self.door.address)
    }

    /// The root certificate of the directory's own server.
    pub fn ca_file(&self) -> PathBuf {
        self.folder.path().join("root.pem")
    }

    /// How many certificates it has issued.
    pub fn issued(&self) -> usize {
        let running = self.running.as_ref().expect("pebble is shut");
        running.log.lock().unwrap().matches("Issued certificate serial").count()
    }

    /// The root certificate of what it issues, PEM.
    pub async fn root(&self) -> String {
        let management = self.running.as_ref().expect("pebble is shut").management;
        let root = self.get(management, "/roots/0").await.unwrap();
        root.expect("pebble has no root certificate")
    }

    /// The two ports that it listens on, the directory's first; it says neither.
    async fn ports(&self, id: u32) -> (SocketAddr, SocketAddr) {
        loop {
            if let [one, other] = listening(id)[..] {
                let is_management = self.get(one, "/roots/0").await.ok().flatten().is_some();
                return if is_management { (other, one) } else { (one, other) };
            }
            yield_now().await;
        }
    }

    /// The body of a 200.
    async fn get(&self, at: SocketAddr, path: &str) -> reqwest::Result<Option<String>> {
        let root = std::fs::read(self.ca_file()).unwrap();
        let root = reqwest::Certificate::from_pem(&root).unwrap();
        let client = reqwest::Client::builder().tls_certs_only([root]).build().unwrap();
        let response = client.get(format!("https://{at}{path}")).timeout(PATIENCE).send().await?;
        if response.status() != 200 {
            return Ok(None);
        }
        response.text().await.map(Some)
    }
}

/// Where this process listens (`proc(5)`).
fn listening(id: u32) -> Vec<SocketAddr> {
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{id}/fd")) else { return Vec::new() };
    let sockets: Vec<String> = descriptors
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.replace(']', "")))
        .collect();
    let table = std::fs::read_to_string(format!("/proc/{id}/net/tcp")).unwrap_or_default();
    let row = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let is_own = sockets.iter().any(|inode| Some(inode.as_str()) == columns.get(9).copied());
        let is_listening = columns.get(3) == Some(&"0A");
        let (_, port) = columns.get(1)?.split_once(':')?;
        let port = u16::from_str_radix(port, 16).ok()?;
        (is_own && is_listening).then(|| SocketAddr::from(([127, 0, 0, 1], port)))
    };
    table.lines().filter_map(row).collect()
}

/// A root certificate, and one for 127.0.0.1 by it.
fn make_certificates(folder: &Path) {
    let root_key = KeyPair::generate().unwrap();
    let mut root = CertificateParams::default();
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    std::fs::write(folder.join("root.pem"), root.self_signed(&root_key).unwrap().pem()).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut server = CertificateParams::default();
    server.subject_alt_names = vec![SanType::IpAddress([127, 0, 0, 1].into())];
    let issued = server.signed_by(&key, &Issuer::new(root, root_key)).unwrap();
    std::fs::write(folder.join("server.pem"), issued.pem()).unwrap();
    std::fs::write(folder.join("server.key"), key.serialize_pem()).unwrap();
}
