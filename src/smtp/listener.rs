//! Accepts connections, within the caps, until the program ends.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::net::{TcpListener, TcpStream};

use crate::domain::domain_name::DomainName;
use crate::domain::ports::Intake;
use crate::rules::SmtpRules;
use crate::shutdown::Shutdown;

use super::connection::Connection;
use super::limits::{Budget, Place, Places};
use super::protocol::body::BodyLimits;
use super::protocol::machine::{Machine, Settings};
use super::protocol::notice::Notice;
use super::protocol::reply::Reply;
use super::session::{Session, Times};

/// The SMTP listener on one address.
pub struct Listener<I: Intake> {
    socket: TcpListener,
    settings: Settings,
    intake: Arc<I>,
    rules: Arc<SmtpRules>,
    places: Places,
    budget: Budget,
    sessions: AtomicU64,
    shutdown: Shutdown,
}

impl<I: Intake> Listener<I> {
    /// Listens on `address`; connections wait until [`Listener::serve`] runs. `hostname` is what
    /// the server calls itself, `max_message_bytes` (octets) is announced as SIZE. Fails when the
    /// address cannot be had.
    pub async fn bind(
        address: SocketAddr,
        hostname: &DomainName,
        intake: Arc<I>,
        rules: &SmtpRules,
        max_message_bytes: usize,
        shutdown: Shutdown,
    ) -> io::Result<Self> {
        let (limits, memory) = (&rules.limits, &rules.memory);
        let settings = Settings {
            hostname: hostname.as_str().to_owned(),
            max_command_line: limits.max_command_line,
            max_recipients: limits.max_recipients,
            max_errors: limits.max_errors,
            max_transactions: limits.max_transactions,
            starttls: false,
            body: BodyLimits {
                max_message: max_message_bytes,
                reserve_step: memory.reserve_step_bytes,
                kept_head: memory.kept_head_bytes,
                max_drained: memory.max_drained_bytes,
            },
        };
        Ok(Self {
            socket: TcpListener::bind(address).await?,
            settings,
            intake,
            places: Places::new(limits.max_sessions, limits.max_sessions_per_network),
            budget: Budget::new(memory.max_bytes_in_flight),
            rules: Arc::new(rules.clone()),
            sessions: AtomicU64::new(0),
            shutdown,
        })
    }

    /// The address that it listens on: the real port where 0 was asked for.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Accepts until the soft stop. Every session is a task of its own under the same shutdown: a
    /// panic ends that session only, and the end of the program waits for all of them.
    pub async fn serve(self) {
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.shutdown.soft() => return,
                accepted = self.socket.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => self.admit(stream, peer),
                Err(error) => self.pause(&error).await,
            }
        }
    }

    fn admit(&self, stream: TcpStream, peer: SocketAddr) {
        let Some(place) = self.places.take(peer.ip()) else {
            tracing::info!(
                client.address = %peer.ip(),
                reason = Notice::TooManySessions.label(),
                "connection turned away"
            );
            return turn_away(stream);
        };
        if let Err(error) = self.start(stream, peer, place) {
            tracing::debug!(client.address = %peer.ip(), error = %error, "connection lost");
        }
    }

    fn start(&self, stream: TcpStream, peer: SocketAddr, place: Place) -> io::Result<()> {
        // A reply is one write: waiting to fill a segment would only delay it.
        stream.set_nodelay(true)?;
        let (stream, early) = has_spoken(stream)?;
        let address = peer.ip().to_canonical();
        let session = Session {
            id: self.sessions.fetch_add(1, Ordering::Relaxed),
            connection: Connection::new(stream, self.rules.deadlines.write()),
            machine: Machine::new(self.settings.clone(), address),
            intake: Arc::clone(&self.intake),
            rules: Arc::clone(&self.rules),
            share: self.budget.share(),
            shutdown: self.shutdown.clone(),
            times: Times::new(),
        };
        self.shutdown.spawn(async move {
            session.run(early).await;
            drop(place);
        });
        Ok(())
    }

    /// Most errors of accept are the peer's and gone; but without file descriptors (EMFILE) the
    /// next call would fail at once, for ever.
    async fn pause(&self, error: &io::Error) {
        tracing::warn!(error = %error, "cannot accept a connection");
        tokio::select! {
            () = tokio::time::sleep(self.rules.deadlines.accept_pause()) => {}
            () = self.shutdown.soft() => {}
        }
    }
}

/// One attempt to say why, without waiting: the send buffer of a new socket is empty.
fn turn_away(stream: TcpStream) {
    let mut line = Vec::new();
    Reply::notice(Notice::TooManySessions).write(&mut line);
    let told = stream.into_std().and_then(|mut stream| stream.write(&line));
    if let Err(error) = told {
        tracing::debug!(error = %error, "could not say that there are too many connections");
    }
}

/// Whether there is input already. Asked of the socket itself: the runtime does not know yet.
fn has_spoken(stream: TcpStream) -> io::Result<(TcpStream, bool)> {
    let stream = stream.into_std()?;
    let spoken = matches!(stream.peek(&mut [0]), Ok(1..));
    Ok((TcpStream::from_std(stream)?, spoken))
}
