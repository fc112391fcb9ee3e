//! One connection of mailin: its calls, answered by the Intake and the limits of this room.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mailin_embedded::{Action, Handler, Response};
use tokio::time::Instant;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::domain::path::{self, PathFault, PathKind};
use crate::domain::ports::{Client, Envelope, Intake, IntakeReply, Recipient};
use crate::domain::reason::Reason;
use crate::smtp::log::log_refusal;
use crate::smtp::places::SessionPlace;
use crate::smtp::protocol::line::Fault;
use crate::smtp::protocol::notice::Notice;
use crate::smtp::protocol::reply::Reply;
use crate::smtp::rates::{Counted, Meter};

use super::Shared;
use super::message::{Ending, Message};

/// Longest detail in a reply. mailin writes each reply as one line, and RFC 5321 §4.5.3.1.5 allows
/// 512 octets.
pub(super) const MAX_DETAIL: usize = 250;

/// One connection. mailin calls it in order, from one thread.
pub(super) struct Session<I: Intake> {
    shared: Arc<Shared<I>>,
    id: u64,
    opened: Instant,
    place: Option<SessionPlace>,
    /// Rates of the client's network. Meter and place are set by the first command.
    meter: Meter,
    client: Client,
    transaction: Option<Transaction>,
    errors: u32,
    unknown: u32,
    transactions: u32,
}

struct Transaction {
    reverse_path: String,
    recipients: Vec<Recipient>,
    /// Accepted RCPTs, repeats for one Agent included: mailin keeps each of them.
    accepted: usize,
    /// RCPTs answered with a 4xx.
    put_off: u32,
    message: Message,
    /// Held from DATA to the reply.
    under_way: Option<TaskTrackerToken>,
}

/// mailin clones its session for each connection: the clone is a fresh session.
impl<I: Intake> Clone for Session<I> {
    fn clone(&self) -> Self {
        Self::new(&self.shared)
    }
}

impl<I: Intake> Session<I> {
    /// A session without a client yet.
    pub(super) fn new(shared: &Arc<Shared<I>>) -> Self {
        let nobody = IpAddr::from([0, 0, 0, 0]);
        Self {
            id: shared.sessions.fetch_add(1, Ordering::Relaxed),
            shared: Arc::clone(shared),
            opened: Instant::now(),
            place: None,
            meter: Meter::new(None, nobody),
            client: Client { address: nobody, helo: String::new(), esmtp: true, tls: None },
            transaction: None,
            errors: 0,
            unknown: 0,
            transactions: 0,
        }
    }

    /// Admits the client at its HELO or EHLO: mailin does not show the address earlier.
    fn admit(&mut self, address: IpAddr, name: &str) -> Result<(), Reply> {
        let address = address.to_canonical();
        if self.shared.shutdown.is_stopping() {
            return Err(Reply::notice(Notice::ShuttingDown));
        }
        if self.place.is_none() {
            self.welcome(address).map_err(Reply::notice)?;
        }
        if !name.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(Reply::notice(Notice::HelloSyntax));
        }
        self.client = Client { address, helo: name.to_owned(), esmtp: true, tls: None };
        self.transaction = None;
        Ok(())
    }

    /// Takes a place and sets the meter of the client's network.
    fn welcome(&mut self, address: IpAddr) -> Result<(), Notice> {
        let mut place = self.shared.places.take().ok_or(Notice::TooManySessions)?;
        if !self.shared.rules.exempt.is_exempt(address) {
            if !place.settle(address) {
                return Err(Notice::TooManyFromNetwork);
            }
            self.meter = Meter::new(Some(Arc::clone(&self.shared.rates)), address);
            if !self.meter.take(Counted::Connection) {
                return Err(Notice::TooFast);
            }
        }
        self.place = Some(place);
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
        if !self.meter.may(Counted::Message) {
            return Reply::answer(&self.over_rate(reverse_path, String::new()));
        }
        let least = rules.space.min_free_bytes;
        let intake = Arc::clone(&self.shared.intake);
        let free = || self.shared.ask(async move { intake.free_space().await });
        if least > 0 {
            match free().unwrap_or_else(|| Err(no_answer())) {
                Ok(Some(free)) if free < least => {
                    return Reply::reason(Reason::NoSpace, None, None);
                }
                Ok(_) => {}
                Err(answer) => return Reply::answer(&answer),
            }
        }
        let share = self.shared.budget.share();
        let message = Message::new(&rules.memory, self.shared.max_message, share);
        self.transaction = Some(Transaction {
            reverse_path,
            recipients: Vec::new(),
            accepted: 0,
            put_off: 0,
            message,
            under_way: None,
        });
        Reply::notice(Notice::SenderFine)
    }

    fn recipient(&mut self, path: &str) -> Reply {
        let Some(transaction) = &self.transaction else {
            return Reply::notice(Notice::MailFirst);
        };
        if transaction.accepted >= self.shared.rules.limits.max_recipients {
            return self.put_off(Reply::notice(Notice::TooManyRecipients));
        }
        let path = match checked(path, PathKind::Forward) {
            Ok(path) => path,
            Err(notice) => return Reply::notice(notice),
        };
        let from = transaction.reverse_path.clone();
        if !self.meter.take(Counted::Recipient) {
            return self.recipient_refused(&self.over_rate(from, path));
        }
        let (intake, client) = (Arc::clone(&self.shared.intake), self.client.clone());
        let asked = async move { intake.recipient(&client, &from, &path).await };
        match self.shared.ask(asked).unwrap_or_else(|| Err(no_answer())) {
            Ok(recipient) => self.add(recipient),
            Err(answer) => self.recipient_refused(&answer),
        }
    }

    /// Recipients whose verdicts could differ do not share a transaction (contract §2, Policy).
    fn add(&mut self, recipient: Recipient) -> Reply {
        let Some(open) = &mut self.transaction else { return Reply::notice(Notice::MailFirst) };
        if !open.recipients.iter().any(|other| other.is_also(&recipient)) {
            if !open.recipients.iter().all(|other| other.may_be_with(&recipient)) {
                return self.put_off(Reply::reason(Reason::OneAgentPerTransaction, None, None));
            }
            open.recipients.push(recipient);
        }
        open.accepted = open.accepted.saturating_add(1);
        Reply::notice(Notice::RecipientFine)
    }

    /// Counts a deferred recipient. Returns `reply`, or the closing one after too many errors.
    fn put_off(&mut self, reply: Reply) -> Reply {
        let Some(open) = &mut self.transaction else { return reply };
        open.put_off = open.put_off.saturating_add(1);
        let too_many = open.put_off > self.shared.rules.limits.max_recipients_put_off;
        if too_many && self.one_error_more() {
            return Reply::notice(Notice::TooManyErrors);
        }
        reply
    }

    fn one_error_more(&mut self) -> bool {
        self.errors = self.errors.saturating_add(1);
        self.errors > self.shared.rules.limits.max_errors
    }

    fn over_rate(&self, from: String, path: String) -> IntakeReply {
        let (intake, client) = (Arc::clone(&self.shared.intake), self.client.clone());
        let asked = async move { intake.over_rate(&client, &from, &path).await };
        self.shared.ask(asked).unwrap_or_else(no_answer)
    }

    fn recipient_refused(&mut self, answer: &IntakeReply) -> Reply {
        let reason = answer.reason.unwrap_or(Reason::StoreUnavailable);
        let reply =
            Reply::reason(reason, short(answer.detail.as_deref()).as_deref(), answer.record);
        if reason.is_temporary() && reason != Reason::RateLimited {
            return self.put_off(reply);
        }
        let one_too_many = self.one_error_more();
        if reason != Reason::UnknownRecipient {
            return if one_too_many { Reply::notice(Notice::TooManyErrors) } else { reply };
        }
        self.unknown = self.unknown.saturating_add(1);
        let too_many = self.unknown > self.shared.rules.limits.max_unknown_recipients;
        if too_many { Reply::notice(Notice::TooManyUnknown) } else { reply }
    }

    /// Returns the reply to a message whose end mailin has seen.
    fn finish(&mut self, transaction: Transaction) -> Response {
        let Transaction { reverse_path, recipients, message, under_way: _until_answered, .. } =
            transaction;
        let (client, intake) = (self.client.clone(), Arc::clone(&self.shared.intake));
        let envelope = Envelope {
            client,
            reverse_path,
            recipients,
            smtputf8: false,
            posted: None,
            open_for: Duration::ZERO,
        };
        let (ending, _share_until_answered) = message.end();
        let (reason, detail, head, size, notice) = match ending {
            Ending::Whole(raw) => {
                let asked = async move { intake.message(envelope, raw).await };
                let answer = self.shared.ask(asked).unwrap_or_else(no_answer);
                let detail = short(answer.detail.as_deref());
                return self.counted(&Reply::answer(&IntakeReply { detail, ..answer }));
            }
            Ending::NoMemory => {
                return self.say(&Reply::reason(Reason::NoSpace, None, None));
            }
            Ending::Faulty { fault, head, size } => {
                let notice = wire_fault(fault);
                (Reason::Malformed, notice.words().to_owned(), head, size, Some(notice))
            }
            Ending::TooLarge { head, size } => {
                let limit = self.shared.max_message;
                let detail = format!("received {size} bytes; the limit is {limit}");
                (Reason::TooLarge, detail, head, size, None)
            }
        };
        let asked = async move { intake.refused(envelope, reason, detail, head, size).await };
        let answer = self.shared.ask(asked).unwrap_or_else(no_answer);
        let deferred = answer.reason.filter(|reason| reason.is_temporary());
        let reply = match (deferred, notice) {
            (Some(ours), Some(_)) => Reply::reason(ours, None, None).and_close(),
            (Some(ours), None) => Reply::reason(ours, None, None),
            // The end may be a forged one: nothing after it is read.
            (None, Some(notice)) => Reply::recorded(notice, answer.record).and_close(),
            (None, None) => Reply::reason(reason, None, answer.record),
        };
        self.counted(&reply)
    }

    fn say(&self, reply: &Reply) -> Response {
        if reply.code() >= 400 {
            log_refusal(self.id, self.client.address, reply);
        }
        self.counted(reply)
    }

    /// Counts a refusing reply and returns it, without a line in the log: the Intake logs messages.
    fn counted(&self, reply: &Reply) -> Response {
        if reply.code() >= 400 {
            self.shared.intake.turned_down(reply.label());
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
                self.meter.add(Counted::Message);
                response(&Reply::notice(Notice::Go))
            }
            None => self.say(&Reply::notice(Notice::MailFirst)),
        }
    }

    /// Never fails: mailin would send 554 for this line, and another reply for the message.
    fn data(&mut self, line: &[u8]) -> io::Result<()> {
        if let Some(transaction) = &mut self.transaction {
            transaction.message.line(line);
        }
        Ok(())
    }

    fn data_end(&mut self) -> Response {
        let mut response = match self.transaction.take() {
            Some(transaction) => self.finish(transaction),
            None => self.say(&Reply::answer(&no_answer())),
        };
        // As an error, mailin would stay inside the message: every later command would be a line of
        // it, without a reply.
        response.is_error = false;
        if self.shared.shutdown.is_stopping() {
            response.action = Action::Close;
        }
        response
    }
}

/// Checks a path: mailin takes anything without a space or a bracket.
fn checked(path: &str, kind: PathKind) -> Result<String, Notice> {
    path::parse(path.as_bytes(), kind, false).map_err(|fault| match (fault, kind) {
        (PathFault::Syntax, PathKind::Reverse) => Notice::SenderAddress,
        (PathFault::Syntax, PathKind::Forward) => Notice::RecipientAddress,
        (PathFault::TooLong, PathKind::Reverse) => Notice::SenderTooLong,
        (PathFault::TooLong, PathKind::Forward) => Notice::RecipientTooLong,
        (PathFault::EightBit, _) => Notice::EightBitAddress,
    })
}

/// One line only: mailin writes the code and a space before its text.
pub(super) fn response(reply: &Reply) -> Response {
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

pub(super) fn short(detail: Option<&str>) -> Option<String> {
    detail.map(|detail| detail.chars().take(MAX_DETAIL).collect())
}

const fn wire_fault(fault: Fault) -> Notice {
    match fault {
        Fault::BareLf => Notice::BareLf,
        Fault::BareCr => Notice::BareCr,
        Fault::Nul => Notice::Nul,
    }
}

pub(super) const fn no_answer() -> IntakeReply {
    IntakeReply { reason: Some(Reason::StoreUnavailable), detail: None, record: None, again: false }
}
