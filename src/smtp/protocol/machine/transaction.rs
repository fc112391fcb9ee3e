//! The open transaction: sender, recipients, and whether a message may follow (RFC 5321 §3.3).

use std::time::Duration;

use crate::domain::ports::{Client, Envelope, IntakeReply, Recipient};
use crate::domain::reason::Reason;

use super::super::notice::Notice;

#[derive(Debug, Default)]
pub(super) struct Transaction {
    reverse_path: String,
    smtputf8: bool,
    recipients: Vec<Recipient>,
    /// Accepted RCPTs, repeats for one Agent included.
    accepted: usize,
    refused: bool,
    deferred: bool,
    /// RCPTs answered with a 4xx.
    put_off: u32,
}

impl Transaction {
    pub(super) fn new(reverse_path: String, smtputf8: bool) -> Self {
        Self { reverse_path, smtputf8, ..Self::default() }
    }

    /// Whether paths and header fields may be outside ASCII (RFC 6531 §3.4).
    pub(super) const fn smtputf8(&self) -> bool {
        self.smtputf8
    }

    pub(super) fn reverse_path(&self) -> &str {
        &self.reverse_path
    }

    pub(super) const fn accepted(&self) -> usize {
        self.accepted
    }

    /// Adds a recipient, once per Agent. Fails, and defers the recipient, if its verdict could
    /// differ from those of the others (contract §2, Policy).
    pub(super) fn add(&mut self, recipient: Recipient) -> Result<(), Reason> {
        if self.recipients.iter().any(|other| other.is_also(&recipient)) {
            self.accepted = self.accepted.saturating_add(1);
            return Ok(());
        }
        if !self.recipients.iter().all(|other| other.may_be_with(&recipient)) {
            self.deferred = true;
            return Err(Reason::OneAgentPerTransaction);
        }
        self.accepted = self.accepted.saturating_add(1);
        self.recipients.push(recipient);
        Ok(())
    }

    /// Counts a deferred recipient. Returns their number.
    pub(super) const fn put_off(&mut self) -> u32 {
        self.put_off = self.put_off.saturating_add(1);
        self.put_off
    }

    /// Records why a recipient was not accepted. Returns the reason.
    pub(super) fn refuse(&mut self, answer: &IntakeReply) -> Reason {
        // Neither a recipient nor a reason would be a bug of ours: defer.
        let reason = answer.reason.unwrap_or(Reason::StoreUnavailable);
        self.deferred |= reason.is_temporary();
        self.refused |= !reason.is_temporary();
        reason
    }

    /// Whether DATA may follow. Without a recipient RFC 5321 §3.3 allows 503 and 554. 554 if every
    /// RCPT was refused: the sequence was right, and a pipelining client could not know (RFC 2920
    /// §3.1). 503 without any RCPT. 451 if a RCPT was deferred: our failure is never a 5xx.
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
            smtputf8: self.smtputf8,
            posted: None,
            open_for: Duration::ZERO,
        }
    }
}
