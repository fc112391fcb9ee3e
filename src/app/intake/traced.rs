//! Hands transactions that were answered to the traces. Does nothing while nothing is traced.

use tokio::time::Instant;

use super::{Examined, Gateway};
use crate::domain::intake_record::IntakeRecord;
use crate::domain::ports::{Envelope, IntakeReply};
use crate::store::Commit;
use crate::traces::Transaction;

/// A message that was decided, as it was committed; `began` is its end.
#[derive(Clone, Copy)]
pub(super) struct Decided<'d> {
    pub(super) mail: Examined<'d>,
    pub(super) commit: &'d Commit,
    pub(super) began: Instant,
}

impl Gateway {
    /// Traces a message whose commit began then, and has ended now.
    pub(super) fn trace(
        &self,
        Decided { mail, commit, began }: Decided<'_>,
        reply: &IntakeReply,
        commit_began: Option<Instant>,
    ) {
        if self.traces.is_on() {
            self.traces.transaction(&Transaction {
                envelope: mail.envelope,
                records: commit.intakes.iter().map(|intake| &intake.record).collect(),
                reply,
                size: mail.examination.size,
                began,
                commit: commit_began.map(|commit| [commit, Instant::now()]),
            });
        }
    }

    /// Traces a message that the session itself refused.
    pub(super) fn trace_refusal(
        &self,
        envelope: &Envelope,
        records: &[&IntakeRecord],
        reply: &IntakeReply,
        began: Instant,
    ) {
        if self.traces.is_on() {
            let size = records.first().map_or(0, |record| record.size);
            let (records, commit) = (records.to_vec(), None);
            self.traces.transaction(&Transaction { envelope, records, reply, size, began, commit });
        }
    }

    /// Traces a message that could not be decided: it has no record.
    pub(super) fn trace_undecided(
        &self,
        envelope: &Envelope,
        size: u64,
        reply: &IntakeReply,
        began: Instant,
    ) {
        if self.traces.is_on() {
            let (records, commit) = (Vec::new(), None);
            self.traces.transaction(&Transaction { envelope, records, reply, size, began, commit });
        }
    }
}
