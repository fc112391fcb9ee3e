//! The state of one session, as a value: octets in, steps out (RFC 5321 §4.1.4, §3.3).

use std::net::IpAddr;

use bytes::Bytes;

use crate::domain::ports::{Answer, Client, Envelope, Recipient, TlsFacts};
use crate::domain::reason::Reason;

use super::body::{Body, BodyLimits, Ending, Progress};
use super::command::{self, Command};
use super::line::{Fault, Line, LineReader};
use super::notice::Notice;
use super::reply::Reply;

/// What a session may do.
#[derive(Clone, Debug)]
pub struct Settings {
    pub hostname: String,
    /// Octets with CRLF.
    pub max_command_line: usize,
    pub max_recipients: usize,
    pub max_errors: u32,
    pub max_transactions: u32,
    /// STARTTLS is offered until the session is encrypted.
    pub starttls: bool,
    pub body: BodyLimits,
}

/// What the session does next.
#[derive(Debug)]
pub enum Step {
    /// Bring more input.
    Read,
    /// Tell the client; the connection ends with it where the reply says so.
    Say(Reply),
    /// Has the client sent anything that it should not have yet? Answer with [`Machine::silence`].
    Silence,
    /// Has the client sent anything in clear behind STARTTLS? Answer with [`Machine::start_tls`],
    /// or with [`Notice::TlsUnavailable`] where no handshake could begin.
    StartTls,
    /// Ask for so many octets of memory; answer with [`Machine::reserved`].
    Reserve(usize),
    /// Ask the Intake who this is; answer with [`Machine::recipient`].
    Recipient { path: String },
    /// Ask the Intake about a whole message; answer with [`Machine::message`].
    Message { envelope: Envelope, raw: Bytes },
    /// Leave a record of what is being turned away; answer with [`Machine::refused`].
    Refused { envelope: Envelope, reason: Reason, detail: String, head: Bytes, size: u64 },
}

/// What the client is in the middle of; deadlines differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Between commands, or inside one.
    Command,
    /// Inside a message.
    Data,
}

/// One session.
#[derive(Debug)]
pub struct Machine {
    settings: Settings,
    client: Client,
    greeted: bool,
    /// No octet of a command has come yet: the moment to notice a TLS handshake.
    untouched: bool,
    line: LineReader,
    mode: Mode,
    transaction: Option<Transaction>,
    errors: u32,
    transactions: u32,
}

#[derive(Debug)]
enum Mode {
    Command,
    Data(Body),
    /// A record is being left; then comes this.
    Refusing(Refusal),
}

#[derive(Debug)]
enum Refusal {
    Wire(Notice),
    TooLarge { cut: bool },
}

#[derive(Debug, Default)]
struct Transaction {
    reverse_path: String,
    recipients: Vec<Recipient>,
    refused: bool,
    deferred: bool,
}

impl Machine {
    /// A session with the client at `address`.
    pub fn new(settings: Settings, address: IpAddr) -> Self {
        Self {
            line: LineReader::new(settings.max_command_line),
            settings,
            client: Client { address, helo: String::new(), esmtp: false, tls: None },
            greeted: false,
            untouched: true,
            mode: Mode::Command,
            transaction: None,
            errors: 0,
            transactions: 0,
        }
    }

    /// The first reply; `silent` says that the client has waited for it (RFC 5321 §3.1).
    pub fn greeting(&self, silent: bool) -> Reply {
        if silent {
            Reply::greeting(&self.settings.hostname)
        } else {
            Reply::notice(Notice::EarlyTalker)
        }
    }

    /// What the client is in the middle of.
    pub const fn phase(&self) -> Phase {
        match self.mode {
            Mode::Data(_) => Phase::Data,
            Mode::Command | Mode::Refusing(_) => Phase::Command,
        }
    }

    /// The client, as it has introduced itself.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// The reverse-path of the open transaction.
    pub fn reverse_path(&self) -> &str {
        self.transaction.as_ref().map_or("", |open| open.reverse_path.as_str())
    }

    /// Takes octets off the front of `input` until there is something to do.
    pub fn advance(&mut self, input: &mut &[u8]) -> Step {
        if let Mode::Data(body) = &mut self.mode {
            return match body.advance(input) {
                Progress::Read => Step::Read,
                Progress::Reserve(octets) => Step::Reserve(octets),
                Progress::Ended(ending) => self.ended(ending),
            };
        }
        // A TLS handshake (RFC 8446 §5.1) would make no line for a long time.
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
            Some(Line::Faulty(fault)) => Self::say(wire_fault(fault)),
        }
    }

    /// The answer to [`Step::Silence`]: data sent before 354 is a sign of commands smuggled in, or
    /// of a client that does not listen (RFC 2920 §3.1).
    pub fn silence(&mut self, silent: bool) -> Reply {
        if !silent {
            return Reply::notice(Notice::Unsynchronised);
        }
        self.mode = Mode::Data(Body::new(self.settings.body));
        Reply::notice(Notice::Go)
    }

    /// The answer to [`Step::StartTls`]: behind a 220 comes the handshake, then
    /// [`Machine::secured`]. What was sent in clear and would be read as if it had been encrypted
    /// may be somebody else's (RFC 3207 §6, CVE-2011-0411): the session ends.
    pub fn start_tls(&self, silent: bool) -> Reply {
        Reply::notice(if silent { Notice::Secure } else { Notice::TlsInjection })
    }

    /// The handshake is done. Nothing that was said in clear is known any more (RFC 3207 §4.2);
    /// what was done wrong is.
    pub fn secured(&mut self, facts: TlsFacts) {
        self.client.helo = String::new();
        self.client.esmtp = false;
        self.client.tls = Some(facts);
        self.greeted = false;
        self.transaction = None;
        self.line = LineReader::new(self.settings.max_command_line);
    }

    /// Errors of the client so far.
    pub const fn errors(&self) -> u32 {
        self.errors
    }

    /// The answer to [`Step::Reserve`]: so many octets, or none.
    pub fn reserved(&mut self, granted: Option<usize>) {
        if let Mode::Data(body) = &mut self.mode {
            body.reserved(granted);
        }
    }

    /// The answer to [`Step::Recipient`].
    pub fn recipient(&mut self, answer: Result<Recipient, Answer>) -> Reply {
        let transaction = self.transaction.get_or_insert_default();
        let recipient = match answer {
            Ok(recipient) => recipient,
            Err(answer) => return self.recipient_refused(&answer),
        };
        let agent = recipient.agent;
        if transaction.recipients.iter().any(|other| other.agent == agent) {
            return Reply::notice(Notice::RecipientFine);
        }
        let verdicts_may_differ = |other: &Recipient| !(other.shares && recipient.shares);
        if transaction.recipients.iter().any(verdicts_may_differ) {
            transaction.deferred = true;
            return Reply::reason(Reason::OneAgentPerTransaction, None, None);
        }
        transaction.recipients.push(recipient);
        Reply::notice(Notice::RecipientFine)
    }

    /// The answer to [`Step::Message`].
    pub fn message(&mut self, answer: &Answer) -> Reply {
        self.transaction = None;
        Reply::answer(answer)
    }

    /// The answer to [`Step::Refused`]. A record that could not be left for now turns the refusal
    /// into a deferral: every refusal has its record (contract §2.3).
    pub fn refused(&mut self, answer: &Answer) -> Reply {
        let mode = std::mem::replace(&mut self.mode, Mode::Command);
        self.transaction = None;
        let deferred = answer.reason.filter(|reason| reason.is_temporary());
        let reply = match (deferred, &mode) {
            (Some(reason), _) => Reply::reason(reason, answer.detail.as_deref(), None),
            (None, Mode::Refusing(Refusal::Wire(notice))) => {
                Reply::recorded(*notice, answer.record)
            }
            (None, _) => Reply::reason(Reason::TooLarge, None, answer.record),
        };
        match mode {
            Mode::Refusing(Refusal::Wire(_) | Refusal::TooLarge { cut: true }) => reply.and_close(),
            _ => reply,
        }
    }

    /// Octets of memory that the message being received still needs of those it was given.
    pub const fn reserved_octets(&self) -> usize {
        match &self.mode {
            Mode::Data(body) => body.reserved_octets(),
            Mode::Command | Mode::Refusing(_) => 0,
        }
    }

    fn command(&mut self, line: &[u8]) -> Step {
        match command::parse(line) {
            Err(notice) => self.tell(notice),
            Ok(Command::Hello { name, esmtp }) => self.hello(name, esmtp),
            Ok(Command::Mail { path, size }) => self.mail(path, size),
            Ok(Command::Recipient { path }) => self.rcpt(path),
            Ok(Command::Data) => self.data(),
            Ok(Command::Reset) => {
                self.transaction = None;
                Self::say(Notice::Fine)
            }
            Ok(Command::Noop) => Self::say(Notice::Fine),
            Ok(Command::Quit) => Self::say(Notice::Bye),
            Ok(Command::Verify) => Self::say(Notice::Verify),
            Ok(Command::Help) => Self::say(Notice::Help),
            Ok(Command::StartTls) => self.starttls(),
        }
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

    /// EHLO in the middle of a session is a RSET too (RFC 5321 §4.1.4).
    fn hello(&mut self, name: String, esmtp: bool) -> Step {
        self.client.helo = name;
        self.client.esmtp = esmtp;
        self.greeted = true;
        self.transaction = None;
        let keywords = if esmtp { self.keywords() } else { vec![] };
        Step::Say(Reply::hello(&self.settings.hostname, &keywords))
    }

    fn keywords(&self) -> Vec<String> {
        let size = self.settings.body.max_message;
        let starttls = self.settings.starttls && self.client.tls.is_none();
        let always = ["PIPELINING".into(), format!("SIZE {size}"), "8BITMIME".into()];
        let last = ["ENHANCEDSTATUSCODES".into()];
        always.into_iter().chain(starttls.then(|| "STARTTLS".into())).chain(last).collect()
    }

    fn mail(&mut self, reverse_path: String, size: u64) -> Step {
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
        self.transaction = Some(Transaction { reverse_path, ..Transaction::default() });
        if usize::try_from(size).is_ok_and(|size| size <= self.settings.body.max_message) {
            return Self::say(Notice::SenderFine);
        }
        self.mode = Mode::Refusing(Refusal::TooLarge { cut: false });
        let detail = format!("SIZE={size} declared");
        self.refusal(Reason::TooLarge, detail, Bytes::new(), size)
    }

    fn rcpt(&mut self, path: String) -> Step {
        let Some(transaction) = &mut self.transaction else {
            let first = if self.greeted { Notice::MailFirst } else { Notice::HelloFirst };
            return self.tell(first);
        };
        if transaction.recipients.len() >= self.settings.max_recipients {
            return self.tell(Notice::TooManyRecipients);
        }
        Step::Recipient { path }
    }

    /// A refusal for good counts as an error: a session that tries names is cut short.
    fn recipient_refused(&mut self, answer: &Answer) -> Reply {
        // An answer without a reason would be neither a recipient nor a refusal: ours to mend.
        let reason = answer.reason.unwrap_or(Reason::StoreUnavailable);
        if let Some(transaction) = &mut self.transaction {
            transaction.deferred |= reason.is_temporary();
            transaction.refused |= !reason.is_temporary();
        }
        if !reason.is_temporary() && self.one_error_more() {
            return Reply::notice(Notice::TooManyErrors);
        }
        Reply::reason(reason, answer.detail.as_deref(), answer.record)
    }

    /// Without a recipient RFC 5321 §3.3 allows 503 and 554. 554 where RCPT was said and refused:
    /// the sequence was right, and a pipelining client could not know (RFC 2920 §3.1). 503 where
    /// it was not said at all. 451 where a RCPT was put off: a failure of ours is never a 5xx.
    fn data(&mut self) -> Step {
        let Some(transaction) = &self.transaction else {
            let first = if self.greeted { Notice::MailFirst } else { Notice::HelloFirst };
            return self.tell(first);
        };
        if !transaction.recipients.is_empty() {
            return Step::Silence;
        }
        if transaction.deferred {
            self.tell(Notice::NoRecipientYet)
        } else if transaction.refused {
            self.tell(Notice::NoRecipient)
        } else {
            self.tell(Notice::RecipientFirst)
        }
    }

    fn ended(&mut self, ending: Ending) -> Step {
        self.mode = Mode::Command;
        match ending {
            Ending::Whole(raw) => Step::Message { envelope: self.envelope(), raw },
            Ending::Faulty { fault, head, size } => {
                let notice = wire_fault(fault);
                self.mode = Mode::Refusing(Refusal::Wire(notice));
                self.refusal(Reason::Malformed, notice.words().into(), head, size)
            }
            Ending::TooLarge { head, size, cut } => {
                self.mode = Mode::Refusing(Refusal::TooLarge { cut });
                let limit = self.settings.body.max_message;
                let detail = format!("{size} octets came, {limit} are allowed");
                self.refusal(Reason::TooLarge, detail, head, size)
            }
            Ending::NoMemory => {
                self.transaction = None;
                Step::Say(Reply::reason(Reason::NoSpace, None, None))
            }
        }
    }

    fn refusal(&mut self, reason: Reason, detail: String, head: Bytes, size: u64) -> Step {
        Step::Refused { envelope: self.envelope(), reason, detail, head, size }
    }

    fn envelope(&mut self) -> Envelope {
        let transaction = self.transaction.take().unwrap_or_default();
        Envelope {
            client: self.client.clone(),
            reverse_path: transaction.reverse_path,
            recipients: transaction.recipients,
            smtputf8: false,
        }
    }

    /// A notice in reply to a command: the last straw where it is one error too many.
    fn tell(&mut self, notice: Notice) -> Step {
        if notice.is_error() && self.one_error_more() {
            return Self::say(Notice::TooManyErrors);
        }
        Self::say(notice)
    }

    fn one_error_more(&mut self) -> bool {
        self.errors = self.errors.saturating_add(1);
        self.errors > self.settings.max_errors
    }

    fn say(notice: Notice) -> Step {
        Step::Say(Reply::notice(notice))
    }
}

const fn wire_fault(fault: Fault) -> Notice {
    match fault {
        Fault::BareLf => Notice::BareLf,
        Fault::BareCr => Notice::BareCr,
        Fault::Nul => Notice::Nul,
    }
}
