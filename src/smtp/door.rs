//! The life of a connection from accept on: first one of all places, then the client's real
//! address, then the places and the rates of its network, then the session.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::net::{RecvFlags, recv};
use tokio::net::TcpStream;

use crate::domain::ports::{Intake, MailLoad};
use crate::domain::repeats::{LogCause, Repeats};
use crate::rules::SmtpRules;
use crate::shutdown::Shutdown;
use crate::tls::Acceptor;

use super::budget::Budget;
use super::connection::Connection;
use super::places::{Caps, Places, SessionPlace};
use super::protocol::machine::{Machine, Settings};
use super::protocol::notice::Notice;
use super::protocol::reply::Reply;
use super::proxied;
use super::rates::{Counted, Meter, Rates};
use super::session::{DeadlineStarts, Session};
use super::stream::Stream;

/// How connections arrive from one peer at one socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionKind {
    /// The connection begins with a TLS handshake.
    pub(super) implicit_tls: bool,
    /// The peer is a proxy: a PROXY header names the client first.
    pub(super) proxied: bool,
}

/// State shared by all connections.
pub(super) struct Door<I> {
    settings: Settings,
    intake: Arc<I>,
    rules: Arc<SmtpRules>,
    places: Places,
    rates: Arc<Rates>,
    budget: Budget,
    tls: Option<Acceptor>,
    sessions: AtomicU64,
    repeats: Repeats,
    shutdown: Shutdown,
}

impl<I: Intake> Door<I> {
    /// `places` is the cap on all sessions.
    pub(super) fn new(
        settings: Settings,
        intake: Arc<I>,
        rules: &SmtpRules,
        places: usize,
        tls: Option<Acceptor>,
        shutdown: Shutdown,
    ) -> Self {
        let limits = &rules.limits;
        let caps = Caps {
            all: places,
            network: limits.max_sessions_per_network,
            address: limits.max_sessions_per_address,
        };
        Self {
            settings,
            intake,
            places: Places::new(caps),
            rates: Arc::new(Rates::new(rules.rates)),
            budget: Budget::new(rules.memory.max_bytes_in_flight),
            rules: Arc::new(rules.clone()),
            tls,
            sessions: AtomicU64::new(0),
            repeats: Repeats::default(),
            shutdown,
        }
    }

    /// Returns how to read the load.
    pub(super) fn load(&self) -> impl Fn() -> MailLoad + Send + Sync + use<I> {
        let (budget, step) = (self.budget.clone(), self.rules.memory.reserve_step_bytes);
        let places = self.places.clone();
        move || MailLoad {
            sessions: Some(places.taken()),
            memory_bytes: Some(budget.taken()),
            has_memory: budget.has(step),
        }
    }

    /// Rate limiter for log lines that peers can cause at will.
    pub(super) const fn repeats(&self) -> &Repeats {
        &self.repeats
    }

    /// Starts a session task, or turns the connection away if all places are taken. A panic ends
    /// that task only. The shutdown waits for all of them.
    pub(super) fn open(
        self: &Arc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        kind: ConnectionKind,
    ) {
        let Some(place) = self.places.take() else {
            return self.turn_away(stream, peer.ip(), Notice::TooManySessions, kind.implicit_tls);
        };
        let door = Arc::clone(self);
        let patience = self.rules.deadlines.farewell();
        self.shutdown.spawn_with_last_word(patience, async move {
            if let Err(error) = door.serve(stream, peer, place, kind).await {
                tracing::debug!(client.address = %peer.ip(), error = %error, "connection lost");
            }
        });
    }

    async fn serve(
        &self,
        mut stream: TcpStream,
        peer: SocketAddr,
        mut place: SessionPlace,
        kind: ConnectionKind,
    ) -> io::Result<()> {
        // A reply is one write: waiting to fill a segment would only delay it.
        stream.set_nodelay(true)?;
        let mut client = peer.ip().to_canonical();
        if kind.proxied {
            match self.read_proxy_header(&mut stream, client).await {
                Ok(named) => client = named.unwrap_or(client),
                Err(notice) => {
                    self.turn_away_after_input(stream, client, notice, kind.implicit_tls).await;
                    return Ok(());
                }
            }
        }
        let meter = match self.admit(client, &mut place) {
            Ok(meter) => meter,
            Err(notice) => {
                self.turn_away(stream, client, notice, kind.implicit_tls);
                return Ok(());
            }
        };
        let mut machine = Machine::new(self.settings.clone(), client);
        let Some((connection, early)) = self.begin(stream, &mut machine, kind.implicit_tls).await?
        else {
            return Ok(());
        };
        self.converse(connection, machine, meter, early).await;
        drop(place);
        Ok(())
    }

    /// Runs a session to its end.
    async fn converse(
        &self,
        connection: Connection<Stream>,
        machine: Machine,
        meter: Meter,
        early: bool,
    ) {
        let session = Session {
            id: self.sessions.fetch_add(1, Ordering::Relaxed),
            connection,
            machine,
            intake: Arc::clone(&self.intake),
            rules: Arc::clone(&self.rules),
            meter,
            tls: self.tls.clone(),
            share: self.budget.share(),
            repeats: self.repeats.clone(),
            shutdown: self.shutdown.clone(),
            times: DeadlineStarts::new(),
            errors: 0,
            has_quit: false,
            is_asking: false,
        };
        session.run(early).await;
    }

    /// Runs a session with a client of a simulated network, if there is a place.
    #[cfg(test)]
    pub(super) async fn simulate(&self, stream: tokio::io::DuplexStream, client: IpAddr) {
        let Some(mut place) = self.places.take() else { return };
        let Ok(meter) = self.admit(client, &mut place) else { return };
        let machine = Machine::new(self.settings.clone(), client);
        let stream = Stream::Simulated(stream);
        let connection = Connection::new(stream, self.rules.deadlines.write());
        self.converse(connection, machine, meter, false).await;
    }

    /// Returns the connection, encrypted if `implicit_tls`, and whether the client spoke before the
    /// greeting. None if the handshake failed or no certificate is set.
    async fn begin(
        &self,
        stream: TcpStream,
        machine: &mut Machine,
        implicit_tls: bool,
    ) -> io::Result<Option<(Connection<Stream>, bool)>> {
        let write = self.rules.deadlines.write();
        if !implicit_tls {
            let early = has_spoken(&stream);
            return Ok(Some((Connection::new(Stream::Clear(stream), write), early)));
        }
        // Never speak in clear where TLS is expected.
        let Some(acceptor) = &self.tls else { return Ok(None) };
        let mut connection = Connection::new(Stream::Clear(stream), write);
        let client = machine.client().address;
        let Some(facts) = connection.secure(acceptor, client, &self.shutdown).await else {
            return Ok(None);
        };
        machine.secured(facts);
        let early = connection.has_input().await;
        Ok(Some((connection, early)))
    }

    /// Reads the client's address from the PROXY header. None if the proxy names no client.
    async fn read_proxy_header(
        &self,
        stream: &mut TcpStream,
        proxy: IpAddr,
    ) -> Result<Option<IpAddr>, Notice> {
        let named = tokio::select! {
            biased;
            () = self.shutdown.soft() => return Err(Notice::ShuttingDown),
            named = proxied::read(stream, self.rules.deadlines.proxy()) => named,
        };
        if let Err(error) = &named
            && let Some(left_out) = self.repeats.due(LogCause::NoProxyHeader)
        {
            let error = error as &dyn std::error::Error;
            tracing::warn!(
                proxy.address = %proxy, error, left_out, "a trusted proxy sent no PROXY header"
            );
        }
        named.map_err(|_| Notice::NoProxyHeader)
    }

    /// Writes the reason once, without waiting: the send buffer of a new socket is empty. With
    /// implicit TLS nothing is written: the client could not read it, and a handshake is too
    /// expensive for a connection that is turned away.
    pub(super) fn turn_away(
        &self,
        stream: TcpStream,
        client: IpAddr,
        notice: Notice,
        implicit_tls: bool,
    ) {
        self.note_turned_away(client, notice);
        if implicit_tls {
            return;
        }
        let mut line = Vec::new();
        Reply::notice(notice).write(&mut line);
        let written = stream.into_std().and_then(|mut stream| stream.write(&line));
        if let Err(error) = written {
            tracing::debug!(error = %error, "cannot tell a client why its connection was rejected");
        }
    }

    fn note_turned_away(&self, client: IpAddr, notice: Notice) {
        self.intake.turned_down(notice.label());
        if let Some(left_out) = self.repeats.due(LogCause::TurnedAway(notice.label())) {
            tracing::info!(
                client.address = %client, reason = notice.label(), left_out, "connection rejected"
            );
        }
    }

    /// Like [`Self::turn_away`], for a peer that has sent input: the input is read to the end,
    /// because closing with unread input resets the connection and loses the reply.
    async fn turn_away_after_input(
        &self,
        stream: TcpStream,
        client: IpAddr,
        notice: Notice,
        implicit_tls: bool,
    ) {
        if implicit_tls {
            return self.turn_away(stream, client, notice, implicit_tls);
        }
        self.note_turned_away(client, notice);
        let mut connection = Connection::new(stream, self.rules.deadlines.write());
        Reply::notice(notice).write(connection.unwritten());
        if connection.flush().await.is_ok() {
            connection.close(self.rules.deadlines.linger()).await;
        }
    }

    /// Checks the client's real address against the caps and the connection rate. Returns the meter
    /// of the session, which counts nothing for exempt clients.
    fn admit(&self, client: IpAddr, place: &mut SessionPlace) -> Result<Meter, Notice> {
        if self.rules.exempt.is_exempt(client) {
            return Ok(Meter::new(None, client));
        }
        if !place.settle(client) {
            return Err(Notice::TooManyFromNetwork);
        }
        let meter = Meter::new(Some(Arc::clone(&self.rates)), client);
        if meter.take(Counted::Connection) { Ok(meter) } else { Err(Notice::TooFast) }
    }
}

/// Whether input is already there. Asks the socket itself: the runtime does not know yet.
fn has_spoken(stream: &TcpStream) -> bool {
    let look = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    recv(stream, &mut [0_u8; 1], look).is_ok_and(|(_, octets)| octets > 0)
}
