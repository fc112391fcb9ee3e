//! Accepts connections until the program ends.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tokio::net::TcpListener;

use crate::domain::domain_name::DomainName;
use crate::domain::ports::Intake;
use crate::domain::repeats::Cause;
use crate::rules::{self, SmtpRules};
use crate::shutdown::Shutdown;
use crate::tls::Acceptor;

use super::descriptors::{self, Spare};
use super::door::{Door, Way, turn_away};
use super::protocol::body::BodyLimits;
use super::protocol::data::BareLineEnds;
use super::protocol::machine::Settings;
use super::protocol::notice::Notice;
use super::proxied::Proxies;

/// The SMTP listener on one address.
pub struct Listener<I: Intake> {
    socket: TcpListener,
    /// TLS from the first octet on.
    implicit_tls: bool,
    proxies: Proxies,
    door: Arc<Door<I>>,
    accept_pause: Duration,
    shutdown: Shutdown,
}

impl<I: Intake> Listener<I> {
    /// Listens on `address`; connections wait until [`Listener::serve`] runs. `hostname` is what
    /// the server calls itself, `max_message_bytes` (octets) is announced as SIZE. With `tls`,
    /// STARTTLS is offered. Fails when the address cannot be had.
    pub async fn bind(
        address: SocketAddr,
        hostname: &DomainName,
        intake: Arc<I>,
        rules: &SmtpRules,
        max_message_bytes: usize,
        shutdown: Shutdown,
        tls: Option<Acceptor>,
    ) -> io::Result<Self> {
        let (limits, memory) = (&rules.limits, &rules.memory);
        let settings = Settings {
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
            starttls: tls.is_some(),
            body: BodyLimits {
                // Nobody is invited to send what there could never be memory for.
                max_message: max_message_bytes.min(memory.max_bytes_in_flight),
                reserve_step: memory.reserve_step_bytes,
                kept_head: memory.kept_head_bytes,
                max_drained: memory.max_drained_bytes,
            },
        };
        let places = descriptors::provide(limits.max_sessions);
        Ok(Self {
            socket: TcpListener::bind(address).await?,
            proxies: Proxies::default(),
            implicit_tls: false,
            door: Arc::new(Door::new(settings, intake, rules, places, tls, shutdown.clone())),
            accept_pause: rules.deadlines.accept_pause(),
            shutdown,
        })
    }

    /// Every connection from one of these networks, and none from elsewhere, begins with a PROXY
    /// header that says whose it is.
    #[must_use]
    pub fn behind(self, proxies: Vec<IpNet>) -> Self {
        Self { proxies: Proxies::new(proxies), ..self }
    }

    /// Listens on another address too, where every connection begins with a TLS handshake (RFC 8314
    /// §3), behind the PROXY header of a trusted proxy; all limits are shared.
    pub async fn with_implicit_tls(&self, address: SocketAddr) -> io::Result<Self> {
        Ok(Self {
            socket: TcpListener::bind(address).await?,
            proxies: self.proxies.clone(),
            implicit_tls: true,
            door: Arc::clone(&self.door),
            accept_pause: self.accept_pause,
            shutdown: self.shutdown.clone(),
        })
    }

    /// The address that it listens on: the real port where 0 was asked for.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// What says whether there is memory for one more message.
    pub fn has_memory(&self) -> impl Fn() -> bool + Send + Sync + use<I> {
        self.door.has_memory()
    }

    /// Accepts until the soft stop.
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
                    self.door.open(stream, peer, Way { implicit_tls: self.implicit_tls, proxied });
                }
                Err(error) => match spare.accept(&self.socket, &error) {
                    Some((stream, peer)) => {
                        let notice = Notice::TooManySessions;
                        turn_away(stream, peer.ip(), notice, self.implicit_tls);
                    }
                    None => self.pause(&error).await,
                },
            }
            spare.refill();
        }
    }

    /// Most errors of accept are the peer's and gone; but without file descriptors (EMFILE) the
    /// next call would fail at once, for ever.
    async fn pause(&self, error: &io::Error) {
        if let Some(left_out) = self.door.repeats().due(Cause::Accept) {
            tracing::warn!(error = %error, left_out, "cannot accept a connection");
        }
        tokio::select! {
            () = tokio::time::sleep(self.accept_pause) => {}
            () = self.shutdown.soft() => {}
        }
    }
}
