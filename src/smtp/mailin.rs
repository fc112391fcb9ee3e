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
//! | a line without end | 500 MB of it: 482 MiB, as a command or in a message | **not cured**: the line is nobody's before its LF |
//! | a command of 70,000 octets | taken | not cured |
//! | threads | one for each session: of 200 idle clients 64 were greeted, 136 held a descriptor each | not cured: `mailin.threads`; by network as far as the caps go |
//! | deadlines | 300 s for each read (an idle client: TIMEOUT, without a 421), none for a command, a message or a session | session age at MAIL; answers of the Intake |
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
//! nothing. STARTTLS is not offered here.
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
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mailin_embedded::{Action, Handler, Response, Server};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::domain::domain_name::DomainName;
use crate::domain::ports::{Answer, Client, Envelope, Intake, Recipient};
use crate::domain::reason::Reason;
use crate::rules::SmtpRules;
use crate::shutdown::Shutdown;

use super::limits::{Budget, Place, Places};
use super::protocol::line::Fault;
use super::protocol::notice::Notice;
use super::protocol::path::{self, PathFault, PathKind};
use super::protocol::reply::Reply;

use message::{Ending, Message};

mod message;
#[cfg(test)]
mod tests;

/// mailin writes one line for a reply of ours: a longer detail would not fit into the 512 octets
/// of RFC 5321 §4.5.3.1.5.
const MAX_DETAIL: usize = 250;

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
        let shared = Shared {
            intake,
            hostname: hostname.as_str().to_owned(),
            max_message: max_message_bytes,
            places: Places::new(limits.max_sessions, limits.max_sessions_per_network),
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

/// One connection: mailin calls it, in order, from one thread.
struct Session<I: Intake> {
    shared: Arc<Shared<I>>,
    id: u64,
    opened: Instant,
    place: Option<Place>,
    client: Client,
    transaction: Option<Transaction>,
    errors: u32,
    transactions: u32,
}

struct Transaction {
    reverse_path: String,
    recipients: Vec<Recipient>,
    message: Message,
    /// While DATA is under way.
    under_way: Option<TaskTrackerToken>,
}

/// For each connection mailin clones the session that it was given: a new one.
impl<I: Intake> Clone for Session<I> {
    fn clone(&self) -> Self {
        Self::new(&self.shared)
    }
}

impl<I: Intake> Session<I> {
    fn new(shared: &Arc<Shared<I>>) -> Self {
        let nobody = IpAddr::from([0, 0, 0, 0]);
        Self {
            id: shared.sessions.fetch_add(1, Ordering::Relaxed),
            shared: Arc::clone(shared),
            opened: Instant::now(),
            place: None,
            client: Client { address: nobody, helo: String::new(), esmtp: true },
            transaction: None,
            errors: 0,
            transactions: 0,
        }
    }

    /// mailin shows the client with its first command only.
    fn admit(&mut self, address: IpAddr, name: &str) -> Result<(), Reply> {
        let address = address.to_canonical();
        if self.shared.shutdown.is_stopping() {
            return Err(Reply::notice(Notice::ShuttingDown));
        }
        if self.place.is_none() {
            self.place = self.shared.places.take(address);
        }
        if self.place.is_none() {
            return Err(Reply::notice(Notice::TooManySessions));
        }
        if !name.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(Reply::notice(Notice::HelloSyntax));
        }
        self.client = Client { address, helo: name.to_owned(), esmtp: true };
        self.transaction = None;
        Ok(())
    }

    fn begin(&mut self, reverse_path: &str) -> Reply {
        let rules = &self.shared.rules;
        if self.shared.shutdown.is_stopping() {
            return Reply::notice(Notice::ShuttingDown);
        }
        if self.opened.elapsed() > rules.deadlines.session() {
            return Reply::notice(Notice::TooOld);
        }
        if self.transactions >= rules.limits.max_transactions {
            return Reply::notice(Notice::TooManyTransactions);
        }
        let reverse_path = match checked(reverse_path, PathKind::Reverse) {
            Ok(path) => path,
            Err(notice) => return Reply::notice(notice),
        };
        self.transactions = self.transactions.saturating_add(1);
        let share = self.shared.budget.share();
        let message = Message::new(&rules.memory, self.shared.max_message, share);
        self.transaction =
            Some(Transaction { reverse_path, recipients: vec![], message, under_way: None });
        Reply::notice(Notice::SenderFine)
    }

    /// Whether the recipient is in the transaction now, and the reply.
    fn recipient(&mut self, path: &str) -> Reply {
        let Some(transaction) = &mut self.transaction else {
            return Reply::notice(Notice::MailFirst);
        };
        if transaction.recipients.len() >= self.shared.rules.limits.max_recipients {
            return Reply::notice(Notice::TooManyRecipients);
        }
        let path = match checked(path, PathKind::Forward) {
            Ok(path) => path,
            Err(notice) => return Reply::notice(notice),
        };
        let (intake, client) = (Arc::clone(&self.shared.intake), self.client.clone());
        let from = transaction.reverse_path.clone();
        let asked = async move { intake.recipient(&client, &from, &path).await };
        let recipient = match self.shared.ask(asked).unwrap_or_else(|| Err(no_answer())) {
            Ok(recipient) => recipient,
            Err(answer) => return self.recipient_refused(&answer),
        };
        let recipients = &mut transaction.recipients;
        // Contract §2, Policy: whose verdict could differ do not share a transaction.
        let verdicts_may_differ = |other: &Recipient| !(other.shares && recipient.shares);
        if recipients.iter().any(|other| other.agent == recipient.agent) {
            return Reply::notice(Notice::RecipientFine);
        }
        if recipients.iter().any(verdicts_may_differ) {
            return Reply::reason(Reason::OneAgentPerTransaction, None, None);
        }
        recipients.push(recipient);
        Reply::notice(Notice::RecipientFine)
    }

    fn recipient_refused(&mut self, answer: &Answer) -> Reply {
        let reason = answer.reason.unwrap_or(Reason::StoreUnavailable);
        if !reason.is_temporary() {
            self.errors = self.errors.saturating_add(1);
            if self.errors > self.shared.rules.limits.max_errors {
                return Reply::notice(Notice::TooManyErrors);
            }
        }
        Reply::reason(reason, short(answer.detail.as_deref()).as_deref(), answer.record)
    }

    /// The reply to a message: mailin has seen a line that is a dot.
    fn finish(&mut self, transaction: Transaction) -> Reply {
        let Transaction { reverse_path, recipients, message, under_way: _until_answered } =
            transaction;
        let (client, intake) = (self.client.clone(), Arc::clone(&self.shared.intake));
        let envelope = Envelope { client, reverse_path, recipients, smtputf8: false };
        let (ending, _share_until_answered) = message.end();
        let (reason, detail, head, size, notice) = match ending {
            Ending::Whole(raw) => {
                let (octets, recipients) = (raw.len(), envelope.recipients.len());
                let asked = async move { intake.message(envelope, raw).await };
                let answer = self.shared.ask(asked).unwrap_or_else(no_answer);
                if answer.reason.is_none() {
                    tracing::info!(
                        smtp.session = self.id,
                        client.address = %self.client.address,
                        record = answer.record.map(tracing::field::display),
                        message.size = octets,
                        message.recipients = recipients,
                        "message accepted"
                    );
                }
                return Reply::answer(&Answer {
                    detail: short(answer.detail.as_deref()),
                    ..answer
                });
            }
            Ending::NoMemory => return Reply::reason(Reason::NoSpace, None, None),
            Ending::Faulty { fault, head, size } => {
                let notice = wire_fault(fault);
                (Reason::Malformed, notice.words().to_owned(), head, size, Some(notice))
            }
            Ending::TooLarge { head, size } => {
                let limit = self.shared.max_message;
                let detail = format!("{size} octets came, {limit} are allowed");
                (Reason::TooLarge, detail, head, size, None)
            }
        };
        let asked = async move { intake.refused(envelope, reason, detail, head, size).await };
        let answer = self.shared.ask(asked).unwrap_or_else(no_answer);
        let deferred = answer.reason.filter(|reason| reason.is_temporary());
        match (deferred, notice) {
            (Some(ours), Some(_)) => Reply::reason(ours, None, None).and_close(),
            (Some(ours), None) => Reply::reason(ours, None, None),
            // The end that mailin has seen may be none: what follows is not listened to.
            (None, Some(notice)) => Reply::recorded(notice, answer.record).and_close(),
            (None, None) => Reply::reason(reason, None, answer.record),
        }
    }

    fn say(&self, reply: &Reply) -> Response {
        if reply.code() >= 400 {
            tracing::info!(
                smtp.session = self.id,
                client.address = %self.client.address,
                reason = reply.label(),
                record = reply.record().map(tracing::field::display),
                smtp.code = reply.code(),
                "client turned away"
            );
        }
        response(reply)
    }
}

impl<I: Intake> Handler for Session<I> {
    fn helo(&mut self, ip: IpAddr, domain: &str) -> Response {
        let admitted = self.admit(ip, domain);
        let hello = || Reply::hello(&self.shared.hostname, &[]);
        self.say(&admitted.map_or_else(|refusal| refusal, |()| hello()))
    }

    fn mail(&mut self, _: IpAddr, _: &str, from: &str) -> Response {
        let reply = self.begin(from);
        self.say(&reply)
    }

    fn rcpt(&mut self, to: &str) -> Response {
        let reply = self.recipient(to);
        self.say(&reply)
    }

    fn data_start(&mut self, _: &str, _: &str, _: bool, _: &[String]) -> Response {
        let token = self.shared.messages.token();
        match &mut self.transaction {
            _ if self.shared.shutdown.is_stopping() => {
                self.say(&Reply::notice(Notice::ShuttingDown))
            }
            Some(transaction) => {
                transaction.under_way = Some(token);
                response(&Reply::notice(Notice::Go))
            }
            None => self.say(&Reply::notice(Notice::MailFirst)),
        }
    }

    /// Never fails: mailin would answer 554 to this line, and then to the message as well.
    fn data(&mut self, line: &[u8]) -> io::Result<()> {
        if let Some(transaction) = &mut self.transaction {
            transaction.message.line(line);
        }
        Ok(())
    }

    fn data_end(&mut self) -> Response {
        let reply = match self.transaction.take() {
            Some(transaction) => self.finish(transaction),
            None => Reply::answer(&no_answer()),
        };
        let mut response = self.say(&reply);
        // Called an error, it would leave mailin inside the message: every command that follows
        // would be a line of it, without a reply.
        response.is_error = false;
        if self.shared.shutdown.is_stopping() {
            response.action = Action::Close;
        }
        response
    }
}

/// A path as mailin found it, which takes anything without a space or a bracket.
fn checked(path: &str, kind: PathKind) -> Result<String, Notice> {
    let bracketed = format!("<{path}>");
    let checked = path::parse(bracketed.as_bytes(), kind, false);
    checked.map(|(path, _)| path).map_err(|fault| match fault {
        PathFault::Syntax => Notice::AddressSyntax,
        PathFault::EightBit => Notice::EightBitAddress,
    })
}

/// mailin puts a code and a space in front of what it is given, so a reply must be one line.
fn response(reply: &Reply) -> Response {
    let mut wire = Vec::new();
    reply.write(&mut wire);
    let wire = String::from_utf8_lossy(&wire);
    let line = wire.lines().next().unwrap_or_default();
    let text = line.get(4..).unwrap_or_default().to_owned();
    let mut response = Response::custom(reply.code(), text);
    if reply.closes() {
        response.action = Action::Close;
    }
    response
}

fn short(detail: Option<&str>) -> Option<String> {
    detail.map(|detail| detail.chars().take(MAX_DETAIL).collect())
}

const fn wire_fault(fault: Fault) -> Notice {
    match fault {
        Fault::BareLf => Notice::BareLf,
        Fault::BareCr => Notice::BareCr,
        Fault::Nul => Notice::Nul,
    }
}

const fn no_answer() -> Answer {
    Answer { reason: Some(Reason::StoreUnavailable), detail: None, record: None }
}
