//! Records of transactions that the SMTP session itself refused.

use tokio::time::Instant;

use super::Gateway;
use super::recipient::network;
use super::session;
use super::step::step;
use crate::domain::account::Lineage;
use crate::domain::evidence::Facts;
use crate::domain::id::IntakeId;
use crate::domain::intake_record::IntakeRecord;
use crate::domain::ports::{Envelope, IntakeReply, Recipient};
use crate::domain::reason::Reason;
use crate::domain::source::Source;
use crate::domain::verdict::Verdict;
use crate::mail::scan;
use crate::store::{Commit, Intake, StoreError};
use crate::traces::Transaction;

/// A message that was refused before it was examined, and the part of it that was read.
#[derive(Clone, Copy)]
pub struct RefusedMessage<'m> {
    pub reason: Reason,
    pub detail: &'m str,
    /// The beginning of the message, as far as it was kept.
    pub head: &'m [u8],
    /// Bytes read or declared.
    pub size: u64,
    /// Mail, unless a platform says otherwise of what it handed in.
    pub source: Source,
}

impl Gateway {
    /// Records a refusal without examining the content. Without a recipient it is counted like a
    /// refusal at RCPT, so that a client that repeats itself costs one row a minute.
    pub(super) async fn record_refusal(
        &self,
        envelope: &Envelope,
        refused: RefusedMessage<'_>,
        began: Instant,
    ) -> Result<IntakeReply, StoreError> {
        let answer = |record| IntakeReply {
            reason: Some(refused.reason),
            detail: Some(refused.detail.to_owned()),
            record,
            again: false,
        };
        if envelope.recipients.is_empty() {
            let record = self.refusal(envelope, refused, self.directory.partner().await?, None);
            let network = network(envelope.client.address);
            // Not traced: its record may count many, of which each would have the one trace.
            return Ok(answer(Some(self.store.count_refusal(&record, &network).await?)));
        }
        let mut intakes = Vec::with_capacity(envelope.recipients.len());
        for recipient in &envelope.recipients {
            let lineage = self.lineage_of(recipient).await?;
            let record = self.refusal(envelope, refused, lineage, Some(recipient));
            intakes.push(Intake { record, accepted: None });
        }
        let answer = answer(intakes.first().map(|intake| intake.record.id));
        let commit = Commit { intakes, now: self.mint.clock().now() };
        self.store.note(&commit).await?;
        let (intakes, reply, size) = (commit.intakes.as_slice(), &answer, refused.size);
        let ended = Transaction { envelope, intakes, reply, size, began, commit: None };
        self.traces.transaction(&ended);
        Ok(answer)
    }

    /// Returns the lineage of the Agent, or of the account of the domain; the partner's if it is
    /// gone.
    pub(super) async fn lineage_of(&self, recipient: &Recipient) -> Result<Lineage, StoreError> {
        let lineage = match recipient.agent {
            Some(agent) => self.store.account_even_deleted(agent).await?.map(|one| one.lineage),
            None => self.store.lineage_of_domain(recipient.address.domain()).await?,
        };
        match lineage {
            Some(lineage) => Ok(lineage),
            None => self.directory.partner().await,
        }
    }

    pub(super) fn refusal(
        &self,
        envelope: &Envelope,
        RefusedMessage { reason, detail, head, size, source }: RefusedMessage<'_>,
        lineage: Lineage,
        recipient: Option<&Recipient>,
    ) -> IntakeRecord {
        let began = Instant::now();
        let kept = self.rules.record.max_kept_header_bytes;
        let facts = Facts::Session(session::facts(envelope, size));
        let mut steps = vec![step(facts, "fail", detail, began.into_std())];
        steps.extend(envelope.posted.as_ref().map(session::provider));
        IntakeRecord {
            id: IntakeId(self.mint.uuid()),
            at: self.mint.clock().now(),
            source,
            lineage,
            agent: recipient.and_then(|recipient| recipient.agent),
            recipient: recipient.map(|recipient| recipient.as_sent.clone()).unwrap_or_default(),
            sender: None,
            envelope_from: envelope.reverse_path.clone(),
            remote_address: envelope.client.address,
            helo: envelope.client.helo.clone(),
            verdict: Verdict::of(Some(reason)),
            explanation: format!("{} ({detail})", reason.explanation()),
            message: None,
            size,
            digest: None,
            headers: scan::section(head, kept).to_vec(),
            evidence: steps.into(),
            count: 1,
            took: None,
        }
    }
}
