//! A real DNS server on loopback, over UDP and TCP, with its zone in memory.
//!
//! It never recurses.

mod zone;

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mail_auth::hickory_resolver::proto::op::Message;
use mail_auth::hickory_resolver::proto::rr::Name;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;

use self::zone::fqdn;
use crate::shutdown::Shutdown;

pub use self::zone::{Zone, ZoneError, unescaped};

/// A TCP client is closed after this silence.
const TCP_IDLE: Duration = Duration::from_secs(10);
/// Simultaneous TCP clients; more wait in the backlog.
const TCP_CLIENTS: usize = 64;
/// Names with a counter of their own.
const MAX_COUNTED: usize = 10_000;

#[derive(Debug, Default)]
struct State {
    zone: Zone,
    queries: u64,
    by_name: HashMap<Name, u64>,
}

/// A running server; it stops at the soft stop of its [`Shutdown`].
#[derive(Clone, Debug)]
pub struct DnsServer {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl DnsServer {
    /// Binds a free loopback port over UDP and TCP, and serves there.
    pub async fn start(zone: Zone, shutdown: Shutdown) -> io::Result<Self> {
        let (udp, tcp) = bind().await?;
        let state = Arc::new(Mutex::new(State { zone, ..State::default() }));
        let server = Self { address: tcp.local_addr()?, state };
        let (over_udp, over_tcp) = (server.clone(), server.clone());
        let clients = shutdown.clone();
        shutdown.spawn_until_soft_stop(async move { over_udp.serve_udp(&udp).await });
        shutdown.spawn_until_soft_stop(async move { over_tcp.serve_tcp(&tcp, &clients).await });
        Ok(server)
    }

    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// Changes the zone while the server runs.
    pub fn change<T>(&self, edit: impl FnOnce(&mut Zone) -> T) -> T {
        edit(&mut self.lock().zone)
    }

    /// Questions so far, over UDP and TCP together.
    pub fn queries(&self) -> u64 {
        self.lock().queries
    }

    /// Questions so far for this name, of any type.
    pub fn queries_for(&self, name: &str) -> u64 {
        fqdn(name).ok().and_then(|name| self.lock().by_name.get(&name).copied()).unwrap_or(0)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reply(&self, octets: &[u8], over_tcp: bool) -> Option<Vec<u8>> {
        let request = Message::from_vec(octets).ok()?;
        let mut state = self.lock();
        state.queries += 1;
        let name = request.queries.first()?.name().to_lowercase();
        if state.by_name.len() < MAX_COUNTED || state.by_name.contains_key(&name) {
            *state.by_name.entry(name).or_default() += 1;
        }
        state.zone.answer(&request, over_tcp)
    }

    async fn serve_udp(&self, socket: &UdpSocket) {
        let mut buffer = vec![0; 4096];
        loop {
            // The error is an ICMP reply to an earlier answer: the next question is unharmed.
            let Ok((length, client)) = socket.recv_from(&mut buffer).await else { continue };
            if let Some(reply) = buffer.get(..length).and_then(|octets| self.reply(octets, false)) {
                let _ = socket.send_to(&reply, client).await;
            }
        }
    }

    async fn serve_tcp(&self, listener: &TcpListener, shutdown: &Shutdown) {
        let places = Arc::new(Semaphore::new(TCP_CLIENTS));
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let Ok((stream, _)) = listener.accept().await else { continue };
            let server = self.clone();
            shutdown.spawn_until_soft_stop(async move {
                let _ended = server.serve_client(stream).await;
                drop(place);
            });
        }
    }

    /// Serves one client: each message is preceded by its length in two bytes (RFC 1035 §4.2.2).
    async fn serve_client(&self, mut stream: TcpStream) -> io::Result<()> {
        loop {
            let length = tokio::time::timeout(TCP_IDLE, stream.read_u16()).await??;
            let mut octets = vec![0; usize::from(length)];
            tokio::time::timeout(TCP_IDLE, stream.read_exact(&mut octets)).await??;
            if let Some(reply) = self.reply(&octets, true) {
                let length = u16::try_from(reply.len()).map_err(io::Error::other)?;
                stream.write_all(&length.to_be_bytes()).await?;
                stream.write_all(&reply).await?;
            }
        }
    }
}

/// Binds a UDP and a TCP socket on one port. Retries when another process has the UDP port.
async fn bind() -> io::Result<(UdpSocket, TcpListener)> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..32 {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        match UdpSocket::bind(tcp.local_addr()?).await {
            Ok(udp) => return Ok((udp, tcp)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use mail_auth::hickory_resolver::proto::op::ResponseCode;
    use mail_auth::hickory_resolver::proto::rr::{RData, RecordType};

    use super::*;

    async fn ask(server: &DnsServer, name: &str, kind: RecordType) -> Message {
        use mail_auth::hickory_resolver::proto::op::Query;
        let mut request = Message::query();
        request.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
        let octets = request.to_vec().unwrap();
        let mut stream = TcpStream::connect(server.addr()).await.unwrap();
        stream.write_u16(u16::try_from(octets.len()).unwrap()).await.unwrap();
        stream.write_all(&octets).await.unwrap();
        let mut reply = vec![0; usize::from(stream.read_u16().await.unwrap())];
        stream.read_exact(&mut reply).await.unwrap();
        Message::from_vec(&reply).unwrap()
    }

    #[tokio::test]
    async fn answers_aliases_absence_and_change() {
        let zone = "www.a.example\tCNAME\tNOERROR\ta.example\na.example\tA\tNOERROR\t192.0.2.1\n\
                    long.a.example\tTXT\tNOERROR\t";
        let zone = format!("{zone}{}", "x".repeat(600));
        let shutdown = Shutdown::default();
        let server = DnsServer::start(Zone::parse(&zone).unwrap(), shutdown.clone()).await.unwrap();
        assert_eq!(ask(&server, "WWW.a.example.", RecordType::A).await.answers.len(), 2);
        let reply = ask(&server, "long.a.example.", RecordType::TXT).await;
        let RData::TXT(txt) = &reply.answers[0].data else { panic!("{reply:?}") };
        assert_eq!(txt.txt_data.iter().map(|part| part.len()).collect::<Vec<_>>(), [255, 255, 90]);
        let code = |reply: Message| reply.metadata.response_code;
        let none = ask(&server, "b.example.", RecordType::A).await;
        assert_eq!(none.authorities.len(), 1);
        assert_eq!(code(none), ResponseCode::NXDomain);
        assert_eq!(code(ask(&server, "example.", RecordType::A).await), ResponseCode::NoError);
        server.change(|zone| zone.insert("b.example", "A", "REFUSED", "")).unwrap();
        assert_eq!(code(ask(&server, "b.example.", RecordType::A).await), ResponseCode::Refused);
        assert_eq!((server.queries(), server.queries_for("b.example")), (5, 2));
        assert!(shutdown.finish(Duration::from_secs(5)).await);
    }
}
