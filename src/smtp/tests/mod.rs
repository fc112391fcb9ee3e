//! The listener over real sockets.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::domain::domain_name::DomainName;
use crate::rules::Rules;
use crate::shutdown::Shutdown;
use crate::tls::Acceptor;

use super::Listener;
use super::fake::{Call, Fake};

mod deadlines;
mod encrypted;
mod errors;
mod idle;
mod memory;
mod messages;
mod places;
mod proxied;
mod rates;
mod shutdown;
mod simulation;
mod space;
mod strangers;

/// Upper bound of every wait in a test.
const PATIENCE: Duration = Duration::from_secs(20);

const ENVELOPE: &str =
    "EHLO client.example\r\nMAIL FROM:<boss@good.example>\r\nRCPT TO:<open1@gatepost.example>\r\n";

/// A listener on its own port.
struct Server {
    address: std::net::SocketAddr,
    intake: Arc<Fake>,
    shutdown: Shutdown,
    /// Not serving yet: connections wait in the backlog.
    waiting: Option<Listener<Fake>>,
}

impl Server {
    async fn bind(rules: &str, intake: Fake) -> Self {
        Self::bind_with(rules, intake, None).await
    }

    async fn bind_with(rules: &str, intake: Fake, tls: Option<Acceptor>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("smtp.toml"), rules).unwrap();
        let rules = Rules::load(folder.path()).unwrap().smtp;
        let (intake, shutdown) = (Arc::new(intake), Shutdown::default());
        let listener = Listener::on(
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
            &DomainName::parse("mx.gatepost.example").unwrap(),
            Arc::clone(&intake),
            &rules,
            100_000,
            shutdown.clone(),
            tls,
        );
        let address = listener.local_addr().unwrap();
        Self { address, intake, shutdown, waiting: Some(listener) }
    }

    /// Serves with these networks as trusted proxies.
    async fn behind(rules: &str, proxies: &str) -> Self {
        let mut server = Self::bind(rules, Fake::default()).await;
        let proxies = vec![proxies.parse().unwrap()];
        server.waiting = server.waiting.map(|listener| listener.behind(proxies));
        server.serve();
        server
    }

    fn serve(&mut self) {
        self.shutdown.spawn(self.waiting.take().unwrap().serve());
    }

    async fn start(rules: &str, intake: Fake) -> Self {
        let mut server = Self::bind(rules, intake).await;
        server.serve();
        server
    }

    async fn connect(&self) -> Peer {
        Peer(BufReader::new(TcpStream::connect(self.address).await.unwrap()))
    }

    /// Connected, greeted, and asked for a message by 354.
    async fn in_data(&self) -> Peer {
        let mut peer = self.greeted().await;
        peer.begin_data().await;
        peer
    }

    /// Retries until a place is free: a place is freed only when its session has ended.
    async fn greeted_in_the_end(&self) -> Peer {
        let again = async {
            loop {
                let mut peer = self.connect().await;
                if peer.reply().await.starts_with("220") {
                    return peer;
                }
            }
        };
        timeout(PATIENCE, again).await.unwrap()
    }

    async fn greeted(&self) -> Peer {
        let mut peer = self.connect().await;
        peer.expect("220 ").await;
        peer
    }
}

struct Peer<S = TcpStream>(BufReader<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    async fn send(&mut self, octets: impl AsRef<[u8]>) {
        timeout(PATIENCE, self.0.get_mut().write_all(octets.as_ref())).await.unwrap().unwrap();
    }

    async fn begin_data(&mut self) {
        self.send(format!("{ENVELOPE}DATA\r\n")).await;
        self.expect_all(&["250", "250", "250", "354"]).await;
    }

    /// The last line of the next reply.
    async fn reply(&mut self) -> String {
        loop {
            let mut line = String::new();
            timeout(PATIENCE, self.0.read_line(&mut line)).await.unwrap().unwrap();
            if line.as_bytes().get(3) != Some(&b'-') {
                return line.trim_end().to_owned();
            }
        }
    }

    async fn expect(&mut self, start: &str) {
        let reply = self.reply().await;
        assert!(reply.starts_with(start), "{reply:?}, expected {start:?}");
    }

    async fn expect_end(&mut self) {
        let mut rest = Vec::new();
        timeout(PATIENCE, self.0.read_to_end(&mut rest)).await.unwrap().unwrap();
        assert_eq!(String::from_utf8_lossy(&rest), "");
    }

    async fn expect_all(&mut self, starts: &[&str]) {
        for start in starts {
            self.expect(start).await;
        }
    }
}

impl Peer {
    /// Sends `piece` slowly again and again until the server replies. Returns the reply.
    async fn dribble(self, piece: &str) -> String {
        let (reader, mut writer) = self.0.into_inner().into_split();
        let (mut reader, mut line) = (BufReader::new(reader), String::new());
        let dribbling = async {
            let mut tick = tokio::time::interval(Duration::from_millis(100));
            while writer.write_all(piece.as_bytes()).await.is_ok() {
                tick.tick().await;
            }
            // The server has closed; its reply can still be read.
            std::future::pending().await
        };
        tokio::select! {
            read = timeout(PATIENCE, reader.read_line(&mut line)) => { read.unwrap().unwrap(); }
            () = dribbling => {}
        }
        line
    }
}
