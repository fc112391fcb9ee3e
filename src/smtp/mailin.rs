//! A second front end: mailin-embedded 0.8.3 over the same [`Intake`], behind the cargo feature
//! `mailin` (`gatepost serve --front-end mailin`).
//!
//! It is an independent reference: its framing, parser and command order are not ours, and both
//! front ends must reach the same verdicts on well-formed mail
//! (`fixtures/smtp/mailin-differences.toml` lists the exceptions). It is not for port 25. Measured
//! behaviour of mailin, and the treatment here:
//!
//! | case | mailin-embedded | here |
//! |---|---|---|
//! | `MAIL FROM:<>` | 500: no bounce or automatic reply is ever received | not fixed |
//! | parameters | 500 for all but `BODY`; SIZE, PIPELINING, SMTPUTF8, ENHANCEDSTATUSCODES are not announced, and the first line of EHLO is no domain | not fixed |
//! | other syntax | 500 to HELP, `NOOP x`, trailing spaces, `FROM: <`, a space in quotes, NOTIFY | not fixed |
//! | addresses | `<no-at>`, NUL, UTF-8 are passed on | checked like ours: 501, 553 |
//! | LF `.` CRLF | ends the message; the rest runs as commands | refused with 550 5.5.2 and closed before it runs; mostly a reset swallows the reply |
//! | CR, LF, NUL alone | stored unchanged; a dot after an LF is unstuffed | refused: 550 5.5.2 and close |
//! | command ended by LF | 500, and goes on | not fixed |
//! | an error from `data()` | 554 to each line in the middle, then 250 | never returned: swallowed, refused at the end |
//! | an error from `data_end()` | stays inside the message: commands become its lines | never reported as an error |
//! | a message without end | reads forever | keeps at most the limit, from the common budget |
//! | a line without end | 500 MB of it: 482 MiB, as a command or in a message; no 500 at a limit | **not fixed**: the handler sees a line only at its LF |
//! | a command of 70,000 bytes | accepted | not fixed |
//! | threads | one per session: of 200 idle clients 64 were greeted, 136 held a descriptor each | not fixed: `mailin.threads`; per network within the caps |
//! | deadlines | 300 s per read (an idle client: about 5 minutes, without a 421), none per command, message or session | session age at MAIL; answers of the Intake |
//! | out of descriptors | accept spins and logs each round | spins; nothing is logged |
//! | a panic in the handler | costs a thread, the last one the process | the Intake runs in a task: 451 |
//! | data before 354, early talkers | not noticed | not fixed |
//! | DATA after every RCPT failed | 503 | not fixed, although 451 was due where one was deferred |
//! | replies | one line | details are cut to fit |
//! | the end | none: `serve` does not return | below |
//!
//! Shutdown: from the soft stop on, every command gets 421 and the connection closes. The end waits
//! for messages under way and for their replies. The threads and the listening socket live until
//! the process ends: until then new clients are still greeted, and idle ones hear nothing. A client
//! in the middle of DATA when the grace is over is cut without a 421: mailin writes nothing before
//! the message has ended. STARTTLS is not offered here.
//!
//! Shape: mailin owns a thread, its listening socket and a pool of threads, one per connection. It
//! clones the [`Session`] here for each connection, and calls it for each command that it parsed
//! and for each line of a message. A session blocks its thread while the Intake decides in a task
//! on the runtime. A panic there becomes a 451 and costs no thread of the pool (losing the last
//! thread ends the process).
//!
//! Never happens here: reporting a failed line to mailin (it would reply in the middle of the
//! message), or reporting a refused message as an error (mailin would go on reading a message).

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

/// State shared by all sessions.
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
    /// Serves on `socket`, which blocks; connections wait until [`Mailin::serve`] runs. Takes the
    /// other arguments of [`super::Listener::on`]. Must be called on the threads of mail.
    pub fn on(
        socket: TcpListener,
        hostname: &DomainName,
        intake: Arc<I>,
        rules: &SmtpRules,
        max_message_bytes: usize,
        shutdown: Shutdown,
    ) -> Self {
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
        Self { socket, shared: Arc::new(shared) }
    }

    /// The bound address, with the real port where port 0 was requested.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves on its own threads. After the soft stop it waits for the messages under way and for
    /// their replies. The threads and the socket stay until the process ends, because mailin cannot
    /// be stopped.
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
    /// Runs `question` on the runtime and blocks. None if it panics or has no answer in time, or by
    /// the hard stop, which drop it.
    fn ask<T: Send + 'static>(
        &self,
        question: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (tell, told) = oneshot::channel();
        let deadline = self.rules.deadlines.answer();
        let asking = async move {
            if let Ok(answer) = tokio::time::timeout(deadline, question).await {
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
