//! A transaction that the SMTP session itself had to turn away still leaves its record.

use std::time::Instant;

use bytes::Bytes;

use super::Gateway;
use super::recipient::network;
use super::session;
use super::step::step;
use crate::domain::account::Lineage;
use crate::domain::evidence::Facts;
use crate::domain::id::{AccountId, IntakeId};
use crate::domain::intake_record::IntakeRecord;
use crate::domain::ports::{Answer, Envelope};
use crate::domain::reason::Reason;
use crate::domain::source::Source;
use crate::domain::verdict::Verdict;
use crate::mail::scan;
use crate::store::{Commit, Intake, StoreError};

impl Gateway {
    /// Records a refusal that needed no look at the content. Without a recipient it is counted
    /// like a refusal at RCPT, so that a client that repeats itself costs one row a minute.
    pub(super) async fn record_refusal(
        &self,
        envelope: &Envelope,
        reason: Reason,
        detail: &str,
        head: &Bytes,
        size: u64,
    ) -> Result<Answer, StoreError> {
        let answer = |record| Answer {
            reason: Some(reason),
            detail: Some(detail.to_owned()),
            record,
            again: false,
        };
        let build = |lineage, agent, recipient: &str| {
            self.refusal(envelope, (reason, detail), (head, size), lineage, agent, recipient)
        };
        if envelope.recipients.is_empty() {
            let record = build(self.directory.partner().await?, None, "");
            let network = network(envelope.client.address);
            return Ok(answer(Some(self.store.count_refusal(&record, &network).await?)));
        }
        let mut intakes = Vec::with_capacity(envelope.recipients.len());
        for recipient in &envelope.recipients {
            let agent = self.store.addressee(recipient.agent).await?;
            let lineage = match agent {
                Some(agent) => agent.lineage,
                None => self.directory.partner().await?,
            };
            let record = build(lineage, Some(recipient.agent), &recipient.as_sent);
            intakes.push(Intake { record, accepted: None });
        }
        let first = intakes.first().map(|intake| intake.record.id);
        self.store.note(&Commit { intakes, now: self.mint.clock().now() }).await?;
        Ok(answer(first))
    }

    pub(super) fn refusal(
        &self,
        envelope: &Envelope,
        (reason, detail): (Reason, &str),
        (head, size): (&Bytes, u64),
        lineage: Lineage,
        agent: Option<AccountId>,
        recipient: &str,
    ) -> IntakeRecord {
        let began = Instant::now();
        let kept = self.rules.record.max_kept_header_bytes;
        let facts = Facts::Session(session::facts(envelope, size));
        let mut steps = vec![step(facts, "fail", detail, began)];
        steps.extend(envelope.posted.as_ref().map(session::provider));
        IntakeRecord {
            id: IntakeId(self.mint.uuid()),
            at: self.mint.clock().now(),
            source: Source::Email,
            lineage,
            agent,
            recipient: recipient.to_owned(),
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
