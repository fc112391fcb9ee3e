//! The second front end: mailin-embedded 0.8.3 over the same [`Intake`], behind the cargo feature
//! `mailin` (`gatepost serve --front-end mailin`).
//!
//! It is the independent reference: its framing, parser and order of commands are not ours, and
//! both must come to the same verdicts on well-formed mail (`fixtures/smtp/mailin-differences.toml`
//! lists where they do not). It is not for port 25. What was measured of it, and what is made of it:
//!
//! | what | mailin-embedded | here |
//! |---|---|---|
//! | `MAIL FROM:<>` | 500: no bounce and no automatic answer is ever received | not cured |
//! | parameters | any but `BODY` is a 500; SIZE, PIPELINING, SMTPUTF8, ENHANCEDSTATUSCODES are not announced, and the first line of EHLO is no domain | not cured |
//! | other syntax | 500 to HELP, `NOOP x`, trailing spaces, `FROM: <`, a space in quotes, NOTIFY | not cured |
//! | addresses | `<no-at>`, NUL, UTF-8 are handed on | checked as ours are: 501, 553 |
//! | LF `.` CRLF | ends the message; what follows is run as commands | refused by 550 5.5.2 and closed before it is run; mostly the reset swallows the reply |
//! | CR, LF, NUL alone | stored as they came, a dot behind an LF undone | refused: 550 5.5.2 and close |
//! | command ended by LF | 500, and goes on | not cured |
//! | an error from `data()` | 554 to each line in the middle, then 250 | never given: swallowed, refused at the end |
//! | an error from `data_end()` | it stays inside the message, and commands become its lines | not called an error |
//! | a message without end | read for ever | at most its limit is kept, out of the common budget |
//! | a line without end | 500 MB of it: 482 MiB, as a command or in a message; no 500 at a limit | **not cured**: the line is nobody's before its LF |
//! | a command of 70,000 octets | taken | not cured |
//! | threads | one for each session: of 200 idle clients 64 were greeted, 136 held a descriptor each | not cured: `mailin.threads`; by network as far as the caps go |
//! | deadlines | 300 s for each read (an idle client: about 5 minutes, without a 421), none for a command, a message or a session | session age at MAIL; answers of the Intake |
//! | out of descriptors | accept spins and logs each round | it spins; nothing of it is logged |
//! | a panic in the handler | costs a thread, the last one the process | the Intake runs in a task: 451 |
//! | data before 354, early talkers | not noticed | not cured |
//! | DATA after every RCPT failed | 503 | not cured, although 451 was due where one was deferred |
//! | replies | one line | details are cut to fit |
//! | the end | none: `serve` does not return | below |
//!
//! The end: from the soft stop on, every command that comes here is answered 421 and closes; the
//! end waits for messages under way and for their replies. The threads and the listening socket
//! stay until the process is gone: until then a new client is still greeted, and idle ones hear
//! nothing. Nor does one in the middle of DATA when the grace is over: mailin lets nobody write to it
//! before its message has ended, so that no 421 can be said, and its connection is cut. STARTTLS is not offered here.
//!
//! Shape: mailin owns a thread of its own, its listening socket and a pool of threads, one for
//! each connection; it clones the [`Session`] here for each and calls it for each command that it
//! understood and for each line of a message. A session blocks its thread while it asks the
//! Intake, in a task on the runtime: a panic there is a 451 and costs no thread of the pool (whose
//! last one takes the process with it).
//!
//! What never happens here: mailin is told that a line failed (it would answer in the middle of
//! the message), a refusal of a message is called an error (mailin would go on reading a message).

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use mailin_embedded::Server;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use crate::domain::domain_name::DomainName;
use crate::domain::ports::Intake;
use crate::rules::SmtpRules;
use crate::shutdown::Shutdown;

use super::budget::Budget;
use super::places::{Caps, Places};
use super::rates::Rates;

use session::Session;

mod message;
mod session;
#[cfg(test)]
mod tests;

/// mailin-embedded on one address.
pub struct Mailin<I: Intake> {
    socket: TcpListener,
    shared: Arc<Shared<I>>,
}

/// What all sessions have in common.
struct Shared<I> {
    intake: Arc<I>,
    hostname: String,
    rules: SmtpRules,
    max_message: usize,
    places: Places,
    rates: Arc<Rates>,
    budget: Budget,
    sessions: AtomicU64,
    /// Messages between DATA and their reply.
    messages: TaskTracker,
    runtime: Handle,
    shutdown: Shutdown,
}

impl<I: Intake> Mailin<I> {
    /// Listens on `address`; connections wait until [`Mailin::serve`] runs. The arguments are
    /// those of [`super::Listener::bind`]. Fails when the address cannot be had.
    pub async fn bind(
        address: SocketAddr,
        hostname: &DomainName,
        intake: Arc<I>,
        rules: &SmtpRules,
        max_message_bytes: usize,
        shutdown: Shutdown,
    ) -> io::Result<Self> {
        let limits = &rules.limits;
        let caps = Caps {
            all: limits.max_sessions,
            network: limits.max_sessions_per_network,
            address: limits.max_sessions_per_address,
        };
        let shared = Shared {
            intake,
            hostname: hostname.as_str().to_owned(),
            max_message: max_message_bytes,
            places: Places::new(caps),
            rates: Arc::new(Rates::new(rules.rates)),
            budget: Budget::new(rules.memory.max_bytes_in_flight),
            rules: rules.clone(),
            sessions: AtomicU64::new(0),
            messages: TaskTracker::new(),
            runtime: Handle::current(),
            shutdown,
        };
        Ok(Self { socket: TcpListener::bind(address)?, shared: Arc::new(shared) })
    }

    /// The address that it listens on: the real port where 0 was asked for.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves on threads of its own. After the soft stop it waits for the messages under way and
    /// for their replies to be written; the threads and the socket are left to the end of the
    /// process, because mailin has no way to end.
    pub async fn serve(self) {
        let Self { socket, shared } = self;
        let session = Session::new(&shared);
        let threads = shared.rules.mailin.threads;
        let hostname = shared.hostname.clone();
        let run = move || {
            let mut server = Server::new(session);
            server.with_name(hostname).with_num_threads(threads).with_tcp_listener(socket);
            if let Err(error) = server.serve() {
                tracing::error!(error = %error, "mailin has ended");
            }
        };
        let started = std::thread::Builder::new().name("mailin".into()).spawn(run);
        if let Err(error) = started {
            tracing::error!(error = %error, "mailin cannot start");
        }
        shared.shutdown.soft().await;
        shared.messages.close();
        shared.messages.wait().await;
        tokio::time::sleep(shared.rules.deadlines.linger()).await;
    }
}

impl<I: Intake> Shared<I> {
    /// Asks on the runtime and waits here; `None` when there is no answer in time, or none at all.
    fn ask<T: Send + 'static>(
        &self,
        question: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (tell, told) = oneshot::channel();
        let deadline = self.rules.deadlines.answer();
        let asking = async move {
            if let Ok(answer) = tokio::time::timeout(deadline, question).await {
                // Whoever asked waits for it.
                let _heard = tell.send(answer);
            }
        };
        {
            let _runtime = self.runtime.enter();
            self.shutdown.spawn(asking);
        }
        told.blocking_recv().ok()
    }
}
