//! The open transaction: who sends, to whom, and whether a message may follow (RFC 5321 §3.3).

use crate::domain::ports::{Answer, Client, Envelope, Recipient};
use crate::domain::reason::Reason;

use super::super::notice::Notice;
use super::super::reply::Reply;

/// Between MAIL and the end of the message.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    reverse_path: String,
    recipients: Vec<Recipient>,
    refused: bool,
    deferred: bool,
}

impl Transaction {
    /// What MAIL opens.
    pub(super) fn new(reverse_path: String) -> Self {
        Self { reverse_path, ..Self::default() }
    }

    pub(super) fn reverse_path(&self) -> &str {
        &self.reverse_path
    }

    pub(super) const fn recipients(&self) -> usize {
        self.recipients.len()
    }

    /// One recipient more, once for each Agent, where its verdict cannot differ from that of the
    /// others (contract §2, Policy).
    pub(super) fn add(&mut self, recipient: Recipient) -> Reply {
        if self.recipients.iter().any(|other| other.agent == recipient.agent) {
            return Reply::notice(Notice::RecipientFine);
        }
        let verdicts_may_differ = |other: &Recipient| !(other.shares && recipient.shares);
        if self.recipients.iter().any(verdicts_may_differ) {
            self.deferred = true;
            return Reply::reason(Reason::OneAgentPerTransaction, None, None);
        }
        self.recipients.push(recipient);
        Reply::notice(Notice::RecipientFine)
    }

    /// Remembers why there is no recipient; answers the reason.
    pub(super) fn refuse(&mut self, answer: &Answer) -> Reason {
        // An answer without a reason would be neither a recipient nor a refusal: ours to mend.
        let reason = answer.reason.unwrap_or(Reason::StoreUnavailable);
        self.deferred |= reason.is_temporary();
        self.refused |= !reason.is_temporary();
        reason
    }

    /// Whether DATA may follow. Without a recipient RFC 5321 §3.3 allows 503 and 554. 554 where
    /// RCPT was said and refused: the sequence was right, and a pipelining client could not know
    /// (RFC 2920 §3.1). 503 where it was not said at all. 451 where a RCPT was put off: a failure
    /// of ours is never a 5xx.
    pub(super) const fn readiness(&self) -> Result<(), Notice> {
        if !self.recipients.is_empty() {
            Ok(())
        } else if self.deferred {
            Err(Notice::NoRecipientYet)
        } else if self.refused {
            Err(Notice::NoRecipient)
        } else {
            Err(Notice::RecipientFirst)
        }
    }

    pub(super) fn into_envelope(self, client: Client) -> Envelope {
        Envelope {
            client,
            reverse_path: self.reverse_path,
            recipients: self.recipients,
            smtputf8: false,
        }
    }
}
