//! The state of one session, as a value: bytes in, steps out (RFC 5321 §4.1.4, §3.3).
//!
//! `advance` parses a command and calls the method named after it. A question for the session
//! leaves as a [`Step`]; its answer comes back through `answers`.

mod answers;
mod transaction;

use std::net::IpAddr;

use bytes::Bytes;

use crate::domain::ports::{Client, Envelope};
use crate::domain::reason::Reason;

use self::transaction::Transaction;
use super::body::{Body, BodyLimits, Progress};
use super::command::{self, Command, Rejected};
use super::data::BareLineEnds;
use super::line::{Fault, Line, LineReader};
use super::notice::Notice;
use super::parameters::MailParameters;
use super::reply::Reply;

/// Limits and features of a session.
#[derive(Clone, Debug)]
pub struct Settings {
    pub hostname: String,
    /// Bytes, with the CRLF.
    pub max_command_line: usize,
    pub max_recipients: usize,
    /// Recipients that may be deferred in one transaction before each further one is an error.
    pub max_recipients_put_off: u32,
    pub max_errors: u32,
    pub max_unknown_recipients: u32,
    pub max_transactions: u32,
    /// Commands that lead to nothing, since the last message.
    pub max_idle_commands: u32,
    pub bare_line_ends: BareLineEnds,
    /// Offer STARTTLS until the session is encrypted.
    pub starttls: bool,
    pub body: BodyLimits,
}

impl Settings {
    /// Extensions that EHLO announces. Inside TLS (`secured`) RFC 3207 §4.2 forbids STARTTLS.
    fn keywords(&self, secured: bool) -> Vec<String> {
        let mut keywords = vec!["PIPELINING".to_owned()];
        keywords.push(format!("SIZE {}", self.body.max_message));
        keywords.push("8BITMIME".to_owned());
        keywords.push("SMTPUTF8".to_owned());
        if self.starttls && !secured {
            keywords.push("STARTTLS".to_owned());
        }
        // RFC 9422: without it a client learns these limits by 452 and 421.
        let (recipients, transactions) = (self.max_recipients, self.max_transactions);
        keywords.push(format!("LIMITS RCPTMAX={recipients} MAILMAX={transactions}"));
        keywords.push("ENHANCEDSTATUSCODES".to_owned());
        keywords
    }
}

/// The next action of the session.
#[derive(Debug)]
pub enum Step {
    /// Bring more input.
    Read,
    /// Send this reply; close the connection after it if the reply says so.
    Say(Reply),
    /// Check whether the client has sent input too early; answer with [`Machine::silence`].
    Silence,
    /// Check whether the client has sent input in clear after STARTTLS. Answer with
    /// [`Machine::start_tls`], or with [`Notice::TlsUnavailable`] if no handshake can begin.
    StartTls,
    /// Reserve this many bytes; answer with [`Machine::reserved`].
    Reserve(usize),
    /// Check whether a transaction may begin, for a message of the declared size in bytes (0: none
    /// declared). Answer with [`Machine::opened`].
    Open { size: u64 },
    /// Ask the Intake about a recipient; answer with [`Machine::recipient`].
    Recipient { path: String },
    /// Ask the Intake about a whole message; answer with [`Machine::message`].
    Message { envelope: Envelope, raw: Bytes },
    /// Store a record of the refused message; answer with [`Machine::refused`].
    Refused { envelope: Envelope, reason: Reason, detail: String, head: Bytes, size: u64 },
}

/// The client's current activity; each has its own deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Between commands, or inside one.
    Command,
    Data,
}

#[derive(Debug)]
pub struct Machine {
    settings: Settings,
    client: Client,
    greeted: bool,
    /// No byte of a command has come yet: the moment to notice a TLS handshake.
    untouched: bool,
    line: LineReader,
    mode: Mode,
    transaction: Option<Transaction>,
    errors: u32,
    /// Errors that were unknown recipients.
    unknown: u32,
    transactions: u32,
    idle: u32,
}

#[derive(Debug)]
enum Mode {
    Command,
    Data(Body),
    /// A record is being stored; then this refusal is sent.
    Refusing(Refusal),
}

#[derive(Debug)]
enum Refusal {
    Wire(Notice),
    /// By SIZE at MAIL: no message came.
    Declared,
    TooLarge {
        cut: bool,
    },
}

impl Machine {
    pub fn new(settings: Settings, address: IpAddr) -> Self {
        Self {
            line: LineReader::new(settings.max_command_line, settings.body.max_drained),
            settings,
            client: Client { address, helo: String::new(), esmtp: false, tls: None },
            greeted: false,
            untouched: true,
            mode: Mode::Command,
            transaction: None,
            errors: 0,
            unknown: 0,
            transactions: 0,
            idle: 0,
        }
    }

    /// The first reply. `silent`: the client has waited for it (RFC 5321 §3.1).
    pub fn greeting(&self, silent: bool) -> Reply {
        if silent {
            Reply::greeting(&self.settings.hostname)
        } else {
            Reply::notice(Notice::EarlyTalker)
        }
    }

    /// Takes bytes off the front of `input` until there is an action for the session.
    pub fn advance(&mut self, input: &mut &[u8]) -> Step {
        if let Mode::Data(body) = &mut self.mode {
            return match body.advance(input) {
                Progress::Read => Step::Read,
                Progress::Reserve(octets) => Step::Reserve(octets),
                Progress::Ended(ending) => self.ended(ending),
            };
        }
        // A TLS handshake (RFC 8446 §5.1) might go on for long without a line end.
        if std::mem::take(&mut self.untouched) {
            match input.first() {
                Some(0x16) => return Self::say(Notice::NotSmtp),
                Some(_) => {}
                None => self.untouched = true,
            }
        }
        match self.line.read(input) {
            None => Step::Read,
            Some(Line::Whole(line)) => self.command(&line),
            Some(Line::TooLong) => self.tell(Notice::LineTooLong),
            Some(Line::Endless) => Self::say(Notice::EndlessLine),
            Some(Line::Faulty(fault)) => Self::say(wire_fault(fault)),
        }
    }

    fn command(&mut self, line: &[u8]) -> Step {
        let smtputf8 = self.transaction.as_ref().is_some_and(Transaction::smtputf8);
        let command = match command::parse(line, smtputf8) {
            Ok(command) => command,
            Err(rejected) => return self.tell(rejected),
        };
        if command.is_idle() && self.one_idle_more() {
            return Self::say(Notice::TooManyIdle);
        }
        match command {
            Command::Hello { name, esmtp } => self.hello(name, esmtp),
            Command::StartTls => self.starttls(),
            Command::Mail { path, parameters } => self.mail(path, parameters),
            Command::Recipient { path } => self.rcpt(path),
            Command::Data => self.data(),
            Command::Reset => {
                self.transaction = None;
                Self::say(Notice::Fine)
            }
            Command::Noop => Self::say(Notice::Fine),
            Command::Quit => Self::say(Notice::Bye),
            Command::Verify => Self::say(Notice::Verify),
            Command::Help(notice) => Self::say(notice),
        }
    }

    /// EHLO inside a session is also a RSET (RFC 5321 §4.1.4).
    fn hello(&mut self, name: String, esmtp: bool) -> Step {
        self.client.helo = name;
        self.client.esmtp = esmtp;
        self.greeted = true;
        self.transaction = None;
        let secured = self.client.tls.is_some();
        let keywords = if esmtp { self.settings.keywords(secured) } else { vec![] };
        Step::Say(Reply::hello(&self.settings.hostname, &keywords))
    }

    fn starttls(&mut self) -> Step {
        if self.client.tls.is_some() {
            self.tell(Notice::TlsAgain)
        } else if self.settings.starttls {
            Step::StartTls
        } else {
            self.tell(Notice::NotOffered)
        }
    }

    fn mail(&mut self, reverse_path: String, parameters: MailParameters) -> Step {
        if !self.greeted {
            return self.tell(Notice::HelloFirst);
        }
        if self.transaction.is_some() {
            return self.tell(Notice::MailAgain);
        }
        if self.transactions >= self.settings.max_transactions {
            return Self::say(Notice::TooManyTransactions);
        }
        self.transactions = self.transactions.saturating_add(1);
        self.transaction = Some(Transaction::new(reverse_path, parameters.smtputf8));
        let size = parameters.size;
        if usize::try_from(size).is_ok_and(|size| size <= self.settings.body.max_message) {
            return Step::Open { size };
        }
        self.mode = Mode::Refusing(Refusal::Declared);
        let detail = format!("SIZE={size} declared");
        self.refusal(Reason::TooLarge, detail, Bytes::new(), size)
    }

    fn rcpt(&mut self, path: String) -> Step {
        let Some(open) = &self.transaction else { return self.tell(self.first_of_all()) };
        // After too many unknown recipients, no more are looked up. The accepted ones get their
        // message first: otherwise a list with many dead addresses would never arrive.
        let is_guessing =
            open.accepted() > 0 && self.unknown >= self.settings.max_unknown_recipients;
        if is_guessing || open.accepted() >= self.settings.max_recipients {
            return Step::Say(self.put_off(Reply::notice(Notice::TooManyRecipients)));
        }
        Step::Recipient { path }
    }

    /// Counts a deferred recipient, which is no error until there are too many of them.
    fn put_off(&mut self, reply: Reply) -> Reply {
        let put_off = self.transaction.as_mut().map_or(0, Transaction::put_off);
        let too_many = put_off > self.settings.max_recipients_put_off;
        if too_many && self.one_error_more() {
            return Reply::notice(Notice::TooManyErrors);
        }
        reply
    }

    fn data(&mut self) -> Step {
        match self.transaction.as_ref().map(Transaction::readiness) {
            None => self.tell(self.first_of_all()),
            // Not the client's error, but it cannot go on either.
            Some(Err(notice)) if !notice.is_error() && self.one_idle_more() => {
                Self::say(Notice::TooManyIdle)
            }
            Some(Err(notice)) => self.tell(notice),
            Some(Ok(())) => Step::Silence,
        }
    }

    /// The command that is missing while no transaction is open.
    const fn first_of_all(&self) -> Notice {
        if self.greeted { Notice::MailFirst } else { Notice::HelloFirst }
    }

    /// Replies to a wrong command, or closes after one error too many.
    fn tell(&mut self, rejected: impl Into<Rejected>) -> Step {
        let Rejected { notice, about } = rejected.into();
        if notice.is_error() && self.one_error_more() {
            return Self::say(Notice::TooManyErrors);
        }
        Step::Say(Reply::about(notice, &about.unwrap_or_default()))
    }

    /// Counts a command that only keeps the session open, such as NOOP or RSET. Some senders send
    /// these between messages, so a message resets the count.
    const fn one_idle_more(&mut self) -> bool {
        self.idle = self.idle.saturating_add(1);
        self.idle > self.settings.max_idle_commands
    }

    fn one_error_more(&mut self) -> bool {
        self.errors = self.errors.saturating_add(1);
        self.errors.saturating_sub(self.unknown) > self.settings.max_errors
    }

    fn say(notice: Notice) -> Step {
        Step::Say(Reply::notice(notice))
    }

    pub const fn phase(&self) -> Phase {
        match self.mode {
            Mode::Data(_) => Phase::Data,
            Mode::Command | Mode::Refusing(_) => Phase::Command,
        }
    }

    /// Client identity from EHLO or HELO.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// The reverse-path of the open transaction; empty without one.
    pub fn reverse_path(&self) -> &str {
        self.transaction.as_ref().map_or("", Transaction::reverse_path)
    }

    /// Whether the message being received is kept, not just read to be refused.
    pub const fn keeps_message(&self) -> bool {
        matches!(&self.mode, Mode::Data(body) if body.keeps_all())
    }

    pub const fn errors(&self) -> u32 {
        self.errors
    }

    /// Reserved bytes that the message being received still needs.
    pub const fn reserved_octets(&self) -> usize {
        match &self.mode {
            Mode::Data(body) => body.reserved_octets(),
            Mode::Command | Mode::Refusing(_) => 0,
        }
    }
}

const fn wire_fault(fault: Fault) -> Notice {
    match fault {
        Fault::BareLf => Notice::BareLf,
        Fault::BareCr => Notice::BareCr,
        Fault::Nul => Notice::Nul,
    }
}
