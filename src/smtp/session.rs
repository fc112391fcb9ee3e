//! One session: feeds bytes to the machine and carries out its steps.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep, timeout};

use crate::domain::ports::{Envelope, Intake, IntakeReply};
use crate::domain::reason::Reason;
use crate::domain::repeats::{LogCause, Repeats};
use crate::rules::SmtpRules;
use crate::shutdown::Shutdown;
use crate::tls::Acceptor;

use super::budget::Share;
use super::connection::{Connection, ReadOutcome};
use super::log::log_refusal;
use super::protocol::machine::{Machine, Phase, Step};
use super::protocol::notice::Notice;
use super::protocol::reply::Reply;
use super::rates::{Counted, Meter};
use super::stream::Stream;

/// How long replies to earlier commands wait for the next answer.
const QUICK_ANSWER: Duration = Duration::from_millis(200);

/// Break ends the session, for either side's reason.
type Flow = ControlFlow<()>;

/// A session, in clear or encrypted.
pub(super) struct Session<I> {
    pub(super) id: u64,
    pub(super) connection: Connection<Stream>,
    pub(super) machine: Machine,
    pub(super) intake: Arc<I>,
    pub(super) rules: Arc<SmtpRules>,
    /// The rates of the client's network.
    pub(super) meter: Meter,
    /// Without it, STARTTLS is not offered.
    pub(super) tls: Option<Acceptor>,
    /// Memory of the message being received or decided.
    pub(super) share: Share,
    pub(super) repeats: Repeats,
    pub(super) shutdown: Shutdown,
    pub(super) times: DeadlineStarts,
    /// Errors of the client whose replies were sent.
    pub(super) errors: u32,
    /// The last reply was to QUIT.
    pub(super) has_quit: bool,
    /// The Intake is asked about a message, or its answer is not queued yet.
    pub(super) is_asking: bool,
}

/// Start times of the deadlines.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeadlineStarts {
    session: Instant,
    /// The end of the previous command.
    command: Instant,
    /// Deadline for more of the message.
    due: Instant,
    /// The latest MAIL.
    mail: Instant,
}

impl DeadlineStarts {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self { session: now, command: now, due: now, mail: now }
    }
}

impl<I: Intake> Session<I> {
    /// Runs the session to its end. `early`: the client spoke before the greeting.
    pub(super) async fn run(mut self, early: bool) {
        tracing::debug!(smtp.session = self.id, client.address = %self.address(), "session opened");
        let greeting = if self.shutdown.is_stopping() {
            Reply::notice(Notice::ShuttingDown)
        } else {
            self.machine.greeting(!early)
        };
        let shutdown = self.shutdown.clone();
        let dialogue = async {
            let mut flow = self.queue_reply(&greeting).await;
            while flow.is_continue() {
                flow = self.step().await;
            }
        };
        let was_cut = tokio::select! {
            biased;
            () = dialogue => false,
            () = shutdown.hard() => true,
        };
        // A client between commands got its 421 at the soft stop. This one is in the middle of a
        // message, or waits for its answer: tell it to retry.
        if was_cut {
            let reply = Reply::notice(Notice::ShuttingDown);
            self.note(&reply);
            reply.write(self.connection.unwritten());
        }
        // If the write failed, the client is gone.
        if self.connection.flush().await.is_ok() {
            // After QUIT a client sends nothing that could reset the connection.
            let quit = self.has_quit && !self.connection.has_input().await;
            let linger = if quit { Duration::ZERO } else { self.rules.deadlines.linger() };
            self.connection.close(linger).await;
        }
        tracing::debug!(smtp.session = self.id, "session closed");
    }

    async fn step(&mut self) -> Flow {
        if self.shutdown.is_stopping() && self.machine.phase() == Phase::Command {
            return self.queue_reply(&Reply::notice(Notice::ShuttingDown)).await;
        }
        let before = self.connection.input();
        let mut input = before;
        let step = self.machine.advance(&mut input);
        let taken = before.len() - input.len();
        self.connection.take(taken);
        match step {
            Step::Read => self.read().await,
            Step::Say(reply) => {
                self.share.clear();
                self.queue_reply(&reply).await
            }
            Step::StartTls => self.start_tls().await,
            Step::Silence => {
                let silent = !self.connection.has_input().await;
                let reply = self.machine.silence(silent);
                self.meter.add(Counted::Message);
                let rules = &self.rules.deadlines;
                self.times.due = Instant::now() + rules.data_grace().min(rules.data_block());
                self.queue_reply(&reply).await
            }
            Step::Reserve(octets) => {
                let granted = self.share.grow(octets);
                self.machine.reserved(granted.then_some(octets));
                if !granted {
                    self.share.clear();
                }
                Flow::Continue(())
            }
            Step::Open { size } => {
                self.times.mail = Instant::now();
                let answer = self.may_open(size).await;
                let reply = self.machine.opened(answer);
                self.queue_reply(&reply).await
            }
            Step::Recipient { path } => self.recipient(&path).await,
            Step::Message { envelope, raw } => self.message(envelope, raw).await,
            Step::Refused { mut envelope, reason, detail, head, size } => {
                // A message refused at MAIL counts towards the network's messages, like one that is
                // sent.
                let declared = envelope.recipients.is_empty();
                // At MAIL nothing was open yet; `mail` is still that of the transaction before.
                envelope.open_for =
                    if declared { Duration::ZERO } else { self.times.mail.elapsed() };
                if declared && !self.meter.take(Counted::Message) {
                    let answer = self.over_rate("").await;
                    self.share.clear();
                    let reply = self.machine.refused(&answer);
                    return self.queue_reply(&reply).await;
                }
                let Self { connection, intake, rules, .. } = self;
                let asked = Box::pin(intake.refused(envelope, reason, detail, head, size));
                self.is_asking = true;
                let answer = await_answer(rules.deadlines.answer(), connection, asked).await;
                self.share.clear();
                let reply = self.machine.refused(&answer.unwrap_or_else(no_answer));
                self.queue_decided(&reply).await
            }
        }
    }

    /// Carries out STARTTLS. If the handshake fails, no reply follows: the client expects TLS, and
    /// would take clear text for a part of it.
    async fn start_tls(&mut self) -> Flow {
        let Some(acceptor) = self.tls.clone() else {
            return self.queue_reply(&Reply::notice(Notice::TlsUnavailable)).await;
        };
        let silent = !self.connection.has_input().await;
        let reply = self.machine.start_tls(silent);
        self.queue_reply(&reply).await?;
        if self.connection.flush().await.is_err() {
            return Flow::Break(());
        }
        let client = self.address();
        let secured = self.connection.secure(&acceptor, client, &self.shutdown).await;
        let Some(facts) = secured else { return Flow::Break(()) };
        self.machine.secured(facts);
        self.times.command = Instant::now();
        Flow::Continue(())
    }

    /// Writes the waiting replies, then waits for input, the deadline, or (outside a message) the
    /// soft stop.
    async fn read(&mut self) -> Flow {
        let in_data = self.machine.phase() == Phase::Data;
        self.connection.expect_data(in_data);
        // A message that is only read to be refused holds no memory that others need.
        self.share.shrink(self.machine.reserved_octets());
        if self.connection.flush().await.is_err() {
            return Flow::Break(());
        }
        let (deadline, late) = self.deadline(in_data);
        let known = self.connection.input().len();
        let outcome = tokio::select! {
            biased;
            () = self.shutdown.soft(), if !in_data => {
                return self.queue_reply(&Reply::notice(Notice::ShuttingDown)).await;
            }
            outcome = self.connection.read(deadline) => outcome,
        };
        match outcome {
            ReadOutcome::Input => {
                self.extend_deadline(self.connection.input().len().saturating_sub(known));
                Flow::Continue(())
            }
            ReadOutcome::Gone => Flow::Break(()),
            ReadOutcome::Deadline => self.queue_reply(&Reply::notice(late)).await,
        }
    }

    /// Extends the deadline of a message by the bytes received, at the lowest allowed rate. That
    /// rate is higher for large messages while memory is short. The deadline is never more than one
    /// block's time ahead: a fast start buys a client no hours of dribbling while it holds memory.
    fn extend_deadline(&mut self, octets: usize) {
        let rules = &self.rules.deadlines;
        let octets = u64::try_from(octets).unwrap_or(u64::MAX);
        let least = self.share.least_rate(self.rules.memory.turnover());
        let micros = octets.saturating_mul(1_000_000) / rules.min_data_rate.max(least).max(1);
        let earned = self.times.due + Duration::from_micros(micros);
        self.times.due = earned.min(Instant::now() + rules.data_block());
    }

    /// The deadline for the next input, and the reply when it passes. For commands the deadline
    /// counts from the end of the previous one, so single bytes do not extend it.
    fn deadline(&self, in_data: bool) -> (Instant, Notice) {
        let (times, rules) = (&self.times, &self.rules.deadlines);
        let session = times.session + rules.session();
        let soon = if in_data { times.due } else { times.command + rules.command() };
        // The session's age never ends a message that keeps the rate, unless it is only read to be
        // refused: reading all of it could take weeks.
        let may_last = in_data && self.machine.keeps_message();
        if session < soon && !may_last {
            (session, Notice::TooOld)
        } else {
            (soon, Notice::TooSlow)
        }
    }

    /// Whether the network may bring another message, and the disk has room for `size` bytes beyond
    /// the required minimum. An unknown amount of free space counts as enough.
    async fn may_open(&mut self, size: u64) -> Result<(), IntakeReply> {
        if !self.meter.may(Counted::Message) {
            return Err(self.over_rate("").await);
        }
        let least = self.rules.space.min_free_bytes;
        if least == 0 {
            return Ok(());
        }
        let Self { connection, intake, rules, .. } = self;
        let asked = Box::pin(intake.free_space());
        let deadline = rules.deadlines.answer();
        let free = await_answer(deadline, connection, asked).await.map_err(no_answer)??;
        match free {
            Some(free) if free < least.saturating_add(size) => {
                if let Some(left_out) = self.repeats.due(LogCause::ShortOfSpace) {
                    tracing::warn!(
                        space.free = free,
                        space.least = least,
                        left_out,
                        "too little free disk space: message deferred"
                    );
                }
                Err(IntakeReply {
                    reason: Some(Reason::NoSpace),
                    detail: None,
                    record: None,
                    again: false,
                })
            }
            _ => Ok(()),
        }
    }

    async fn recipient(&mut self, path: &str) -> Flow {
        let answer = if self.meter.take(Counted::Recipient) {
            let Self { connection, machine, intake, rules, .. } = self;
            let asked = Box::pin(intake.recipient(machine.client(), machine.reverse_path(), path));
            let answer = await_answer(rules.deadlines.answer(), connection, asked).await;
            answer.unwrap_or_else(|late| Err(no_answer(late)))
        } else {
            Err(self.over_rate(path).await)
        };
        let reply = self.machine.recipient(answer);
        self.queue_reply(&reply).await
    }

    async fn over_rate(&mut self, path: &str) -> IntakeReply {
        let Self { connection, machine, intake, rules, .. } = self;
        let asked = Box::pin(intake.over_rate(machine.client(), machine.reverse_path(), path));
        let deadline = rules.deadlines.answer();
        await_answer(deadline, connection, asked).await.unwrap_or_else(no_answer)
    }

    async fn message(&mut self, mut envelope: Envelope, raw: Bytes) -> Flow {
        envelope.open_for = self.times.mail.elapsed();
        // Replies to earlier commands must not wait for a verdict.
        if self.connection.flush().await.is_err() {
            tracing::debug!(smtp.session = self.id, "client disconnected before the reply");
        }
        let Self { connection, intake, rules, .. } = self;
        let asked = Box::pin(intake.message(envelope, raw));
        self.is_asking = true;
        let answer = await_answer(rules.deadlines.answer(), connection, asked).await;
        self.share.clear();
        let reply = self.machine.message(&answer.unwrap_or_else(no_answer));
        self.queue_decided(&reply).await
    }

    /// Queues the reply to a message on which the Intake decided.
    async fn queue_decided(&mut self, reply: &Reply) -> Flow {
        let flow = self.queue_reply(reply).await;
        self.is_asking = false;
        flow
    }

    /// Queues the reply, to be written together with its neighbours. Breaks if the reply closes.
    async fn queue_reply(&mut self, reply: &Reply) -> Flow {
        if self.has_erred_too_often() && !reply.closes() && self.tarpit_delay().await.is_break() {
            return Flow::Break(());
        }
        self.times.command = Instant::now();
        self.note(reply);
        reply.write(self.connection.unwritten());
        if reply.closes() {
            self.has_quit = reply.code() == Notice::Bye.code();
            return Flow::Break(());
        }
        if self.connection.is_full() && self.connection.flush().await.is_err() {
            return Flow::Break(());
        }
        Flow::Continue(())
    }

    /// Counts and logs a reply that refuses or defers.
    fn note(&self, reply: &Reply) {
        if reply.code() < 400 {
            return;
        }
        self.intake.turned_down(reply.label());
        if !self.is_asking {
            log_refusal(self.id, self.address(), reply);
        }
    }

    /// Whether this reply is to an error and must be delayed, after too many errors.
    fn has_erred_too_often(&mut self) -> bool {
        let errors = self.machine.errors();
        let before = std::mem::replace(&mut self.errors, errors);
        errors > before && errors > self.rules.limits.tarpit_after_errors
    }

    /// Writes the earlier replies, then waits the tarpit delay. `max_errors` bounds how often.
    async fn tarpit_delay(&mut self) -> Flow {
        // Others may wait for the memory.
        self.share.clear();
        if self.connection.flush().await.is_err() {
            return Flow::Break(());
        }
        tokio::select! {
            () = sleep(self.rules.limits.tarpit()) => {}
            () = self.shutdown.soft() => {}
        }
        Flow::Continue(())
    }

    const fn address(&self) -> std::net::IpAddr {
        self.machine.client().address
    }
}

/// No answer came in time.
struct Late;

/// Waits for an answer within `deadline`. The future is boxed: inside the session's own future its
/// tens of kilobytes would be held while a client idles (threats §4: ten thousand of them).
///
/// Replies to earlier commands wait for a quick answer, to be written with it (RFC 2920 §3.2), but
/// not for a slow one: a client that has sent a hundred commands at once restarts its own deadline
/// at each reply.
async fn await_answer<T>(
    deadline: Duration,
    connection: &mut Connection<Stream>,
    mut asked: Pin<Box<impl Future<Output = T>>>,
) -> Result<T, Late> {
    if let Ok(answer) = timeout(QUICK_ANSWER, asked.as_mut()).await {
        return Ok(answer);
    }
    if connection.flush().await.is_err() {
        tracing::debug!("client disconnected before the reply");
    }
    timeout(deadline.saturating_sub(QUICK_ANSWER), asked).await.map_err(|_| Late)
}

/// The message may have been stored or not: the client retries, and the repeat creates no second
/// message (contract §2, Repeats).
const fn no_answer(_: Late) -> IntakeReply {
    IntakeReply { reason: Some(Reason::StoreUnavailable), detail: None, record: None, again: false }
}
