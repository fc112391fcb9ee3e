//! Accepts connections until the soft stop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tokio::net::TcpListener;

use crate::domain::domain_name::DomainName;
use crate::domain::ports::{Intake, MailLoad};
use crate::domain::repeats::LogCause;
use crate::rules::{self, SmtpRules};
use crate::shutdown::Shutdown;
use crate::tls::Acceptor;

use super::descriptors::{self, Spare};
use super::door::{ConnectionKind, Door};
use super::protocol::body::BodyLimits;
use super::protocol::data::BareLineEnds;
use super::protocol::machine::Settings;
use super::protocol::notice::Notice;
use super::proxied::Proxies;

/// The SMTP listener on one address.
pub struct Listener<I: Intake> {
    socket: TcpListener,
    /// TLS from the first byte on.
    implicit_tls: bool,
    proxies: Proxies,
    door: Arc<Door<I>>,
    accept_pause: Duration,
    shutdown: Shutdown,
}

impl<I: Intake> Listener<I> {
    /// Serves on `socket`; connections wait in its backlog until [`Listener::serve`] runs.
    /// `hostname` is the server's name in replies, `max_message_bytes` is announced as SIZE. With
    /// `tls`, STARTTLS is offered.
    pub fn on(
        socket: TcpListener,
        hostname: &DomainName,
        intake: Arc<I>,
        rules: &SmtpRules,
        max_message_bytes: usize,
        shutdown: Shutdown,
        tls: Option<Acceptor>,
    ) -> Self {
        let settings = settings(hostname, rules, max_message_bytes, tls.is_some());
        let places = descriptors::provide(rules.limits.max_sessions);
        Self {
            socket,
            proxies: Proxies::default(),
            implicit_tls: false,
            door: Arc::new(Door::new(settings, intake, rules, places, tls, shutdown.clone())),
            accept_pause: rules.deadlines.accept_pause(),
            shutdown,
        }
    }

    /// Trusts these networks as proxies: every connection from them, and from no others, must begin
    /// with a PROXY header.
    #[must_use]
    pub fn behind(self, proxies: Vec<IpNet>) -> Self {
        Self { proxies: Proxies::new(proxies), ..self }
    }

    /// Serves on a second socket by implicit TLS (RFC 8314 §3). A trusted proxy sends its PROXY
    /// header before the handshake. Both addresses share all limits.
    #[must_use]
    pub fn with_implicit_tls(&self, socket: TcpListener) -> Self {
        Self {
            socket,
            proxies: self.proxies.clone(),
            implicit_tls: true,
            door: Arc::clone(&self.door),
            accept_pause: self.accept_pause,
            shutdown: self.shutdown.clone(),
        }
    }

    /// The bound address, with the real port where port 0 was requested.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Returns how to read the load of all listeners together.
    pub fn load(&self) -> impl Fn() -> MailLoad + Send + Sync + use<I> {
        self.door.load()
    }

    /// Accepts connections until the soft stop.
    pub async fn serve(self) {
        let mut spare = Spare::keep();
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.shutdown.soft() => return,
                accepted = self.socket.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let proxied = self.proxies.contain(peer.ip());
                    self.door.open(
                        stream,
                        peer,
                        ConnectionKind { implicit_tls: self.implicit_tls, proxied },
                    );
                }
                Err(error) => match spare.accept(&self.socket, &error) {
                    Some((stream, peer)) => {
                        let notice = Notice::TooManySessions;
                        self.door.turn_away(stream, peer.ip(), notice, self.implicit_tls);
                    }
                    None => self.pause(&error).await,
                },
            }
            spare.refill();
        }
    }

    /// Waits after a failed accept. Most errors belong to one peer and are over; but without file
    /// descriptors (EMFILE) the next call would fail at once, forever.
    async fn pause(&self, error: &io::Error) {
        if let Some(left_out) = self.door.repeats().due(LogCause::Accept) {
            tracing::warn!(error = %error, left_out, "cannot accept a connection");
        }
        tokio::select! {
            () = tokio::time::sleep(self.accept_pause) => {}
            () = self.shutdown.soft() => {}
        }
    }
}

/// Returns what sessions go by.
pub(super) fn settings(
    hostname: &DomainName,
    rules: &SmtpRules,
    max_message_bytes: usize,
    starttls: bool,
) -> Settings {
    let (limits, memory) = (&rules.limits, &rules.memory);
    Settings {
        hostname: hostname.as_str().to_owned(),
        max_command_line: limits.max_command_line,
        max_recipients: limits.max_recipients,
        max_recipients_put_off: limits.max_recipients_put_off,
        max_errors: limits.max_errors,
        max_unknown_recipients: limits.max_unknown_recipients,
        max_transactions: limits.max_transactions,
        max_idle_commands: limits.max_idle_commands,
        bare_line_ends: match rules.framing.bare_line_ends {
            rules::BareLineEnds::Reject => BareLineEnds::Refused,
            rules::BareLineEnds::Normalize => BareLineEnds::Normalised,
        },
        starttls,
        body: BodyLimits {
            // Announce no size that the memory budget could never hold.
            max_message: max_message_bytes.min(memory.max_bytes_in_flight),
            reserve_step: memory.reserve_step_bytes,
            kept_head: memory.kept_head_bytes,
            max_drained: memory.max_drained_bytes,
        },
    }
}
