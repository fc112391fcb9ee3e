//! Mail to the address for reports of senders on TLS (RFC 8460 §5.3). It is examined like all mail:
//! whoever reports must prove the domain of the From. It makes a report and an intake record, and
//! neither a message nor an event.

use bytes::Bytes;
use tokio::time::Instant;

use super::judge::{Case, Decision, record_of};
use super::step::step;
use super::{Examination, Examined, Gateway, Resolved, unavailable};
use crate::app::tls_reports::{HandedReport, MEDIA_TYPES, TlsReportError, TlsReports};
use crate::domain::evidence::tls_report::TlsReport;
use crate::domain::evidence::{Evidence, Facts, Step};
use crate::domain::id::Mint;
use crate::domain::intake_record::IntakeRecord;
use crate::domain::policy::Proof;
use crate::domain::ports::{IntakeReply, Recipient};
use crate::domain::reason::Reason;
use crate::mail::mime;
use crate::metrics::TlsReportFate;
use crate::store::{AnswersBy, Commit, Intake, StoreError};
use crate::traces::Transaction;

/// A media type that some senders give instead of those of the standard.
const SHORT_TYPE: &str = "application/tlsrpt";

struct Settled {
    /// The fate of a report, or the reason of its refusal.
    result: &'static str,
    /// The result in words, as an end of a sentence.
    detail: String,
}

impl Settled {
    fn new(result: &'static str, detail: impl Into<String>) -> Self {
        Self { result, detail: detail.into() }
    }
}

/// Makes the record of a mail to the address for reports, of which `settled` is the last step. The
/// caller sets its lineage.
pub fn record(
    case: &Case<'_>,
    examination: &Examination,
    settled: Step,
    mint: &Mint,
) -> IntakeRecord {
    const ADDRESS: &str = "The mail came to the address for reports of senders on TLS";
    let (reason, detail) = outcome(examination, &settled);
    let explanation = match reason {
        None => format!("{ADDRESS}, and {detail}."),
        Some(_) => format!("{ADDRESS}, and is not kept: {detail}."),
    };
    let mut evidence = Evidence::of_message(&examination.steps);
    evidence.push(settled);
    record_of(case, examination, Decision { reason, explanation, evidence }, mint)
}

/// Returns why the mail is refused, if it is, and the finding.
fn outcome<'e>(examination: &'e Examination, settled: &'e Step) -> (Option<Reason>, &'e str) {
    match examination.proof {
        Proof::Authenticated => (settled.result.parse().ok(), &settled.detail),
        Proof::Unproven(reason) | Proof::Undecidable(reason) => {
            (Some(reason), examination.detail.as_deref().unwrap_or_default())
        }
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
        Ok(Some(Recipient::of_reports(address.clone(), path)))
    }

    /// Settles an examined mail to the address for reports. The record of one that is kept is durable
    /// before the reply.
    pub(super) async fn take_report(
        &self,
        mail: Examined<'_>,
        recipient: &Recipient,
        began: Instant,
    ) -> Result<IntakeReply, StoreError> {
        let Examined { envelope, examination, .. } = mail;
        let reading = Instant::now();
        let Some(Settled { result, detail }) = self.settle_report(mail).await? else {
            // This server's fault, not a verdict on the mail: no record (contract §2.3).
            return Ok(IntakeReply { reason: Some(Reason::TooBusy), ..unavailable() });
        };
        let facts = Facts::TlsReport(TlsReport { address: recipient.address.to_string() });
        let settled = step(facts, result, detail, reading.into_std());
        let (reason, detail) = outcome(examination, &settled);
        let (detail, again) =
            (reason.map(|_| detail.to_owned()), result == TlsReportFate::Repeated.as_str());
        let now = self.mint.clock().now();
        let case = Case { envelope, recipient: &recipient.as_sent, visit: None, now };
        let mut record = record(&case, examination, settled, &self.mint);
        record.lineage = self.lineage_of(recipient).await?;
        record.took = Some(began.elapsed());
        let reply = IntakeReply { reason, detail, record: Some(record.id), again };
        let commit = Commit { intakes: vec![Intake { record, accepted: None }], now };
        let commit_began = Instant::now();
        if reason.is_some() {
            self.store.note(&commit).await?;
        } else {
            self.store.commit(&commit).await?;
        }
        let (intakes, size) = (commit.intakes.as_slice(), examination.size);
        let commit = Some([commit_began, Instant::now()]);
        self.traces.transaction(&Transaction {
            envelope,
            intakes,
            reply: &reply,
            size,
            began,
            commit,
        });
        Ok(reply)
    }

    /// Returns None if too many reports are being read.
    async fn settle_report(&self, mail: Examined<'_>) -> Result<Option<Settled>, StoreError> {
        let examination = mail.examination;
        match examination.proof {
            Proof::Authenticated => {}
            Proof::Undecidable(Reason::TooBusy) => return Ok(None),
            Proof::Unproven(_) | Proof::Undecidable(_) => {
                return Ok(Some(Settled::new("skipped", "the sender is not proven")));
            }
        }
        let (Some(sender), Some(reports), Some(octets)) =
            (&examination.sender, &self.reports, report_in(mail).await)
        else {
            let detail = format!("the mail has no part of type {}", MEDIA_TYPES.join(" or "));
            return Ok(Some(Settled::new(Reason::Malformed.as_str(), detail)));
        };
        let signed_by = Some(sender.domain().clone());
        let kept = |fate: TlsReportFate, words: &str| Some(Settled::new(fate.as_str(), words));
        Ok(match reports.take(HandedReport { octets, signed_by }).await {
            Ok(true) => kept(TlsReportFate::Kept, "its report is kept"),
            Ok(false) => kept(TlsReportFate::Repeated, "its report was kept before"),
            Err(TlsReportError::Busy) => None,
            Err(TlsReportError::Store(error)) => return Err(error),
            Err(error) => Some(Settled::new(reason_of(&error).as_str(), error.to_string())),
        })
    }
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
    let is_report = |kind: &str| kind == SHORT_TYPE || MEDIA_TYPES.contains(&kind);
    let part = found.attachments.iter().find(|one| is_report(&one.content_type))?.part;
    // The mail may be large, whatever its report is.
    let raw = Bytes::clone(mail.raw);
    let reading = tokio::task::spawn_blocking(move || mime::part(&raw, part));
    Some(reading.await.ok()??.bytes.into())
}
