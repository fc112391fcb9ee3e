//! Mail to the address for reports of senders on TLS (RFC 8460 §5.3). It is examined like all mail:
//! whoever reports must prove the domain of the From. It makes a report and an intake record, and
//! neither a message nor an event.

use bytes::Bytes;
use tokio::time::Instant;

use super::traced::Decided;
use super::{Examined, Gateway, Resolved, unavailable};
use crate::app::tls_reports::{HandedReport, TlsReportError, TlsReports};
use crate::domain::account::Lineage;
use crate::domain::contact::Handle;
use crate::domain::evidence::Evidence;
use crate::domain::id::IntakeId;
use crate::domain::intake_record::IntakeRecord;
use crate::domain::policy::Proof;
use crate::domain::ports::{IntakeReply, Recipient};
use crate::domain::reason::Reason;
use crate::domain::source::Source;
use crate::domain::verdict::Verdict;
use crate::mail::mime;
use crate::store::{AnswersBy, Commit, Intake, StoreError};

/// Media types of a report (RFC 8460 §6.4, §6.5); some senders leave the end out.
const TYPES: [&str; 3] =
    ["application/tlsrpt+gzip", "application/tlsrpt+json", "application/tlsrpt"];

/// The decision on a mail to the address for reports.
struct Settled {
    reason: Option<Reason>,
    /// The fault in plain words, if there is one.
    detail: Option<String>,
    /// The report was kept before.
    again: bool,
}

impl Settled {
    fn refused(reason: Reason, detail: impl ToString) -> Self {
        Self { reason: Some(reason), detail: Some(detail.to_string()), again: false }
    }
}

impl Gateway {
    /// Takes reports that come in mail.
    #[must_use]
    pub fn taking_reports(self, reports: Option<TlsReports>) -> Self {
        Self { reports, ..self }
    }

    /// Returns the recipient if the path is the address for reports of a domain of an account. An
    /// Agent that has the address keeps it; a catch-all does not get the reports.
    pub(super) async fn report_recipient(
        &self,
        path: &str,
        found: &Resolved,
    ) -> Result<Option<Recipient>, StoreError> {
        let by = found.listing.answering.map(|answering| answering.by);
        let is_free = matches!(by, None | Some(AnswersBy::CatchAll)) && found.tag.is_none();
        let (Some(reports), Some(address)) = (&self.reports, &found.address) else {
            return Ok(None);
        };
        if !is_free || !reports.takes(address) || !self.store.has_domain(address.domain()).await? {
            return Ok(None);
        }
        let (address, as_sent) = (address.clone(), path.to_owned());
        Ok(Some(Recipient { agent: None, address, tag: None, as_sent, shares: None }))
    }

    /// Settles an examined mail to the address for reports. The record of one that is
    /// kept is durable before the reply.
    pub(super) async fn take_report(
        &self,
        mail: Examined<'_>,
        recipient: &Recipient,
        began: Instant,
    ) -> Result<IntakeReply, StoreError> {
        let Some(settled) = self.settle_report(mail).await? else {
            // This server's fault, not a verdict on the mail: no record (contract §2.3).
            return Ok(IntakeReply { reason: Some(Reason::TooBusy), ..unavailable() });
        };
        let lineage = self.store.lineage_of_domain(recipient.address.domain()).await?;
        let lineage = match lineage {
            Some(lineage) => lineage,
            None => self.directory.partner().await?,
        };
        let mut record = self.report_record(mail, recipient, &settled, lineage);
        record.took = Some(began.elapsed());
        let answer = IntakeReply {
            reason: settled.reason,
            detail: settled.detail,
            record: Some(record.id),
            again: settled.again,
        };
        let intakes = vec![Intake { record, accepted: None }];
        let commit = Commit { intakes, now: self.mint.clock().now() };
        let commit_began = Instant::now();
        if answer.reason.is_some() {
            self.store.note(&commit).await?;
        } else {
            self.store.commit(&commit).await?;
        }
        self.trace(Decided { mail, commit: &commit, began }, &answer, Some(commit_began));
        Ok(answer)
    }

    /// Returns None if too many reports are being read.
    async fn settle_report(&self, mail: Examined<'_>) -> Result<Option<Settled>, StoreError> {
        let examination = mail.examination;
        let sender = match (examination.proof, &examination.sender) {
            (Proof::Undecidable(Reason::TooBusy), _) => return Ok(None),
            (Proof::Unproven(reason) | Proof::Undecidable(reason), _) => {
                let detail = examination.detail.clone();
                return Ok(Some(Settled { reason: Some(reason), detail, again: false }));
            }
            (Proof::Authenticated, Some(sender)) => sender,
            (Proof::Authenticated, None) => return Ok(Some(unreadable())),
        };
        let (Some(reports), Some(octets)) = (&self.reports, report_in(mail).await) else {
            return Ok(Some(unreadable()));
        };
        let signed_by = Some(sender.domain().clone());
        Ok(match reports.take(HandedReport { octets, signed_by }).await {
            Ok(kept) => Some(Settled { reason: None, detail: None, again: !kept }),
            Err(TlsReportError::Busy) => None,
            Err(TlsReportError::Store(error)) => return Err(error),
            Err(error) => Some(Settled::refused(reason_of(&error), error)),
        })
    }

    fn report_record(
        &self,
        Examined { envelope, examination, .. }: Examined<'_>,
        recipient: &Recipient,
        settled: &Settled,
        lineage: Lineage,
    ) -> IntakeRecord {
        const ADDRESS: &str = "The mail came to the address for reports of senders on TLS";
        let explanation = match (settled.reason, &settled.detail) {
            (None, _) if settled.again => format!("{ADDRESS}, and its report was kept before."),
            (None, _) => format!("{ADDRESS}, and its report is kept."),
            (Some(reason), None) => format!("{ADDRESS}. {}", reason.explanation()),
            (Some(_), Some(detail)) => format!("{ADDRESS}, and is not kept: {detail}."),
        };
        IntakeRecord {
            id: IntakeId(self.mint.uuid()),
            at: self.mint.clock().now(),
            source: Source::Email,
            lineage,
            agent: None,
            recipient: recipient.as_sent.clone(),
            sender: examination.sender.clone().map(Handle::Mailbox),
            envelope_from: envelope.reverse_path.clone(),
            remote_address: envelope.client.address,
            helo: envelope.client.helo.clone(),
            verdict: Verdict::of(settled.reason),
            explanation,
            message: None,
            size: examination.size,
            digest: Some(examination.digest),
            headers: examination.headers.clone(),
            evidence: Evidence::of_message(&examination.steps),
            count: 1,
            took: None,
        }
    }
}

fn unreadable() -> Settled {
    let [packed, plain, _] = TYPES;
    let detail = format!("the mail has no part of type {packed} or {plain}");
    Settled::refused(Reason::Malformed, detail)
}

const fn reason_of(error: &TlsReportError) -> Reason {
    match error {
        TlsReportError::TooLarge { .. } | TlsReportError::UnpackedTooLarge { .. } => {
            Reason::TooLarge
        }
        TlsReportError::TooManyPolicies { .. }
        | TlsReportError::Broken(_)
        | TlsReportError::Foreign(_) => Reason::Malformed,
        TlsReportError::Full { .. } => Reason::RateLimited,
        TlsReportError::Busy | TlsReportError::Store(_) => Reason::StoreUnavailable,
    }
}

/// Returns the first part of a type for reports.
async fn report_in(mail: Examined<'_>) -> Option<Bytes> {
    let found = mail.examination.mail.as_ref()?;
    let is_report = |kind: &str| TYPES.contains(&kind);
    let part = found.attachments.iter().find(|one| is_report(&one.content_type))?.part;
    // The mail may be large, whatever its report is.
    let raw = Bytes::clone(mail.raw);
    let reading = tokio::task::spawn_blocking(move || mime::part(&raw, part));
    Some(reading.await.ok()??.bytes.into())
}
