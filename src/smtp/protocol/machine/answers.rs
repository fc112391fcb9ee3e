//! Results that the session brings back to the machine, and how a message ends.

use bytes::Bytes;

use crate::domain::ports::{Envelope, IntakeReply, Recipient, TlsFacts};
use crate::domain::reason::Reason;

use super::super::body::{Body, Ending};
use super::super::line::LineReader;
use super::super::notice::Notice;
use super::super::reply::Reply;
use super::{Machine, Mode, Refusal, Step, wire_fault};

impl Machine {
    /// Answers [`Step::StartTls`]. After a 220 follow the handshake and [`Machine::secured`]. If
    /// the client is not `silent`, the session ends: input sent in clear may be another party's,
    /// and would count as encrypted (RFC 3207 §6, CVE-2011-0411).
    pub fn start_tls(&self, silent: bool) -> Reply {
        Reply::notice(if silent { Notice::Secure } else { Notice::TlsInjection })
    }

    /// Records that the handshake is done. Forgets everything said in clear (RFC 3207 §4.2), but
    /// keeps the counts of errors.
    pub fn secured(&mut self, facts: TlsFacts) {
        self.client.helo = String::new();
        self.client.esmtp = false;
        self.client.tls = Some(facts);
        self.greeted = false;
        self.transaction = None;
        let settings = &self.settings;
        self.line = LineReader::new(settings.max_command_line, settings.body.max_drained);
    }

    /// Answers [`Step::Open`].
    pub fn opened(&mut self, answer: Result<(), IntakeReply>) -> Reply {
        let Err(answer) = answer else { return Reply::notice(Notice::SenderFine) };
        self.transaction = None;
        self.turned_away(&answer, answer.reason.unwrap_or(Reason::StoreUnavailable))
    }

    /// Answers [`Step::Recipient`].
    pub fn recipient(&mut self, answer: Result<Recipient, IntakeReply>) -> Reply {
        let transaction = self.transaction.get_or_insert_default();
        let answer = match answer.map(|recipient| transaction.add(recipient)) {
            Ok(Ok(())) => return Reply::notice(Notice::RecipientFine),
            Ok(Err(reason)) => {
                IntakeReply { reason: Some(reason), detail: None, record: None, again: false }
            }
            Err(answer) => answer,
        };
        let reason = transaction.refuse(&answer);
        self.turned_away(&answer, reason)
    }

    /// Counts a refusal as an error if it is permanent; if it is for the rates, only while no
    /// recipient is accepted. So sessions that guess names, or go on and on, are cut short, but
    /// accepted recipients get their message.
    fn turned_away(&mut self, answer: &IntakeReply, reason: Reason) -> Reply {
        let reply = Reply::reason(reason, answer.detail.as_deref(), answer.record);
        if reason == Reason::UnknownRecipient {
            self.errors = self.errors.saturating_add(1);
            self.unknown = self.unknown.saturating_add(1);
            if self.unknown > self.settings.max_unknown_recipients {
                return Reply::notice(Notice::TooManyUnknown);
            }
        } else if reason.is_temporary() && (reason != Reason::RateLimited || self.has_recipients())
        {
            return self.put_off(reply);
        } else if self.one_error_more() {
            return Reply::notice(Notice::TooManyErrors);
        }
        reply
    }

    fn has_recipients(&self) -> bool {
        self.transaction.as_ref().is_some_and(|open| open.accepted() > 0)
    }

    /// Answers [`Step::Silence`]. Data sent before 354 means smuggled commands, or a client that
    /// does not listen (RFC 2920 §3.1).
    pub fn silence(&mut self, silent: bool) -> Reply {
        if !silent {
            return Reply::notice(Notice::Unsynchronised);
        }
        self.mode = Mode::Data(Body::new(self.settings.body, self.settings.bare_line_ends));
        Reply::notice(Notice::Go)
    }

    /// Answers [`Step::Reserve`] with the granted bytes; None if there were none.
    pub fn reserved(&mut self, granted: Option<usize>) {
        if let Mode::Data(body) = &mut self.mode {
            body.reserved(granted);
        }
    }

    /// Answers [`Step::Message`].
    pub fn message(&mut self, answer: &IntakeReply) -> Reply {
        self.transaction = None;
        Reply::answer(answer)
    }

    /// Answers [`Step::Refused`]. If the record could not be stored for now, the refusal becomes a
    /// deferral: every refusal has its record (contract §2.3).
    pub fn refused(&mut self, answer: &IntakeReply) -> Reply {
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
        // Declaring a size costs the client nothing, but leaves a record.
        if matches!(mode, Mode::Refusing(Refusal::Declared)) && self.one_error_more() {
            return Reply::notice(Notice::TooManyErrors);
        }
        match mode {
            Mode::Refusing(Refusal::Wire(_) | Refusal::TooLarge { cut: true }) => reply.and_close(),
            _ => reply,
        }
    }

    pub(super) fn ended(&mut self, ending: Ending) -> Step {
        self.mode = Mode::Command;
        self.idle = 0;
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
                let detail = format!("received {size} bytes; the limit is {limit}");
                self.refusal(Reason::TooLarge, detail, head, size)
            }
            Ending::NoMemory => {
                self.transaction = None;
                Step::Say(Reply::reason(Reason::NoSpace, None, None))
            }
        }
    }

    pub(super) fn refusal(
        &mut self,
        reason: Reason,
        detail: String,
        head: Bytes,
        size: u64,
    ) -> Step {
        Step::Refused { envelope: self.envelope(), reason, detail, head, size }
    }

    fn envelope(&mut self) -> Envelope {
        let transaction = self.transaction.take().unwrap_or_default();
        transaction.into_envelope(self.client.clone())
    }
}
