//! Reports of senders on the TLS that they met (RFC 8460): taken in by HTTPS and by mail, kept by
//! domain, and shown by doctor, console and metrics.
//!
//! Anybody may send one. So a report names domains of accounts alone, each domain takes a number of
//! them in a day, and what a report says is shown as a claim. Nothing acts upon it.

mod parse;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::domain::address::Address;
use crate::domain::clock::Clock;
use crate::domain::domain_name::DomainName;
use crate::domain::tls_report::{
    AppliedPolicy, FailureType, KeptTlsReport, ReportAddress, ReportWay, SessionFailure, TlsReport,
    TlsReportOutcome,
};
use crate::metrics::{Metrics, TlsReportFate};
use crate::rules::{AccessRules, TlsReportRules};
use crate::store::{Store, StoreError};
use crate::wire::{Date, Word};

/// Media types of a report (RFC 8460 §6.4, §6.5).
pub const MEDIA_TYPES: [&str; 2] = ["application/tlsrpt+gzip", "application/tlsrpt+json"];

/// Days that doctor and console look back.
pub const LOOK_BACK: Duration = Duration::from_secs(7 * 86_400);

/// A report, as somebody handed it in.
#[derive(Clone, Debug)]
pub struct HandedReport {
    /// JSON, packed by gzip or not.
    pub octets: Bytes,
    /// The domain that signed the mail in which it came; None if it was posted.
    pub signed_by: Option<DomainName>,
}

/// Why a report was not taken in.
#[derive(Debug, thiserror::Error)]
pub enum TlsReportError {
    #[error("the report has more than {most} bytes")]
    TooLarge { most: usize },
    #[error("the report unfolds to more than {most} bytes")]
    UnpackedTooLarge { most: usize },
    #[error("the report has more than {most} policies: send one report for each domain")]
    TooManyPolicies { most: usize },
    #[error(transparent)]
    Broken(#[from] ReportFault),
    #[error(
        "no mail for {0} comes here: send the report to the address in the TXT record of \
         _smtp._tls.{0}"
    )]
    Foreign(DomainName),
    #[error("{domain} had {most} reports within 24 hours: send this one tomorrow")]
    Full { domain: DomainName, most: u64 },
    #[error("too many reports are being read")]
    Busy,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A fault in the text of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportFault {
    #[error("the report begins like gzip and cannot be unpacked")]
    Gzip,
    #[error("the report is no JSON: see line {line}, column {column}")]
    Json { line: usize, column: usize },
    #[error("the report is not as RFC 8460 section 4.4 says: see line {line}, column {column}")]
    Shape { line: usize, column: usize },
    #[error("the report needs organization-name and report-id")]
    Nameless,
    #[error("the report-id has more than 255 bytes")]
    LongId,
    #[error("the report needs a start-datetime and an end-datetime by RFC 3339, in this order")]
    Time,
    #[error("the report has no policy")]
    NoPolicy,
    #[error("a policy-domain is no domain")]
    Domain,
    #[error("a count of sessions is beyond 1,000,000,000,000")]
    Sessions,
}

/// Takes reports in. Clones share the places.
#[derive(Clone)]
pub struct TlsReports {
    store: Store,
    clock: Clock,
    address: ReportAddress,
    rules: TlsReportRules,
    patience: Duration,
    /// For posted reports that are held in memory.
    coming: Arc<Semaphore>,
    /// For reports that are read.
    places: Arc<Semaphore>,
    metrics: Metrics,
}

impl std::fmt::Debug for TlsReports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsReports").finish_non_exhaustive()
    }
}

impl TlsReports {
    /// Takes reports in mail to `address`, too.
    pub fn new(
        store: Store,
        clock: Clock,
        address: ReportAddress,
        rules: &AccessRules,
        metrics: Metrics,
    ) -> Self {
        let (patience, rules) = (rules.limits.body() / 2, rules.tls_reports);
        let coming = Arc::new(Semaphore::new(rules.max_coming));
        let places = Arc::new(Semaphore::new(rules.max_at_once));
        Self { store, clock, address, rules, patience, coming, places, metrics }
    }

    /// Tells whether this is the address for reports in its domain, if that is an account's.
    pub fn takes(&self, address: &Address) -> bool {
        address.local() == self.address.name()
    }

    /// Largest report in bytes, as it comes.
    pub const fn max_bytes(&self) -> usize {
        self.rules.max_bytes
    }

    /// Takes a place for a report that is posted, until it is settled. Fails with `Busy`.
    pub fn place(&self) -> Result<OwnedSemaphorePermit, TlsReportError> {
        Arc::clone(&self.coming).try_acquire_owned().map_err(|_| TlsReportError::Busy)
    }

    /// Reads a report and keeps it. Returns false if it was kept before.
    pub async fn take(&self, handed: HandedReport) -> Result<bool, TlsReportError> {
        let way = if handed.signed_by.is_some() { ReportWay::Mail } else { ReportWay::Https };
        let taken = self.read_and_keep(handed).await;
        let fate = match &taken {
            Ok(Some(report)) => {
                self.count_sessions(way, report);
                TlsReportFate::Kept
            }
            Ok(None) => TlsReportFate::Repeated,
            Err(TlsReportError::Busy | TlsReportError::Store(_)) => TlsReportFate::Deferred,
            Err(_) => TlsReportFate::Refused,
        };
        self.metrics.tls_report(way, fate);
        taken.map(|kept| kept.is_some())
    }

    /// Returns the report, or None if it was kept before.
    async fn read_and_keep(
        &self,
        HandedReport { octets, signed_by }: HandedReport,
    ) -> Result<Option<TlsReport>, TlsReportError> {
        let place = timeout(self.patience, Arc::clone(&self.places).acquire_owned()).await;
        let Ok(Ok(place)) = place else { return Err(TlsReportError::Busy) };
        let rules = self.rules;
        // Held to its end by the work itself, which goes on if the sender goes away.
        let reading = tokio::task::spawn_blocking(move || {
            let read = parse::read(&octets, &rules);
            drop(place);
            read
        });
        let report = reading.await.map_err(|_| TlsReportError::Busy)??;
        let (most, now) = (self.rules.max_per_day, self.clock.now());
        match self.store.keep_tls_report(&report, signed_by.as_ref(), most, now).await? {
            TlsReportOutcome::Kept => Ok(Some(report)),
            TlsReportOutcome::Repeated => Ok(None),
            TlsReportOutcome::Foreign(domain) => Err(TlsReportError::Foreign(domain)),
            TlsReportOutcome::Full(domain) => Err(TlsReportError::Full { domain, most }),
        }
    }

    fn count_sessions(&self, way: ReportWay, report: &TlsReport) {
        for one in &report.policies {
            self.metrics.tls_sessions(way, None, one.successful);
            let mut told = 0_u64;
            for failure in &one.failures {
                told = told.saturating_add(failure.sessions);
                self.metrics.tls_sessions(way, Some(failure.kind), failure.sessions);
            }
            // Failures of which the report says no more.
            let untold = one.failed.saturating_sub(told);
            self.metrics.tls_sessions(way, Some(FailureType::Other), untold);
        }
    }
}

/// A sender's claim on the TLS that it met under one policy of a domain.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TlsReport")]
pub struct TlsReportRecord {
    /// When it came.
    received_at: Date,
    /// How it came: posted by anybody (https), or in signed mail.
    way: Word<ReportWay>,
    /// The domain that signed the mail; null if it was posted.
    signed_by: Option<String>,
    /// The sender's organization, as it names itself.
    organization: String,
    /// The sender's name of the report.
    report_id: String,
    /// The beginning of the time of which it tells.
    begins_at: Date,
    /// The end of that time.
    ends_at: Date,
    /// The policy that the sender applied.
    policy: Word<AppliedPolicy>,
    /// Sessions that succeeded.
    successful: u64,
    /// Sessions that failed.
    failed: u64,
    /// Why sessions failed, the most frequent first.
    failures: Vec<TlsFailureRecord>,
}

/// Sessions that failed alike.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TlsFailure")]
pub struct TlsFailureRecord {
    /// The kind of failure (RFC 8460 §4.3).
    r#type: Word<FailureType>,
    /// How many failed so.
    sessions: u64,
    /// The host that should have taken the mail; empty if the sender does not say.
    host: String,
    /// The reason that the sender adds; empty if there is none.
    reason: String,
}

impl From<KeptTlsReport> for TlsReportRecord {
    fn from(kept: KeptTlsReport) -> Self {
        let way = Word(kept.way());
        let failure = |one: SessionFailure| TlsFailureRecord {
            r#type: Word(one.kind),
            sessions: one.sessions,
            host: one.host,
            reason: one.reason,
        };
        Self {
            received_at: Date(kept.received),
            way,
            signed_by: kept.signed_by.map(|domain| domain.as_str().to_owned()),
            organization: kept.submitter,
            report_id: kept.report_id,
            begins_at: Date(kept.begin),
            ends_at: Date(kept.end),
            policy: Word(kept.result.policy),
            successful: kept.result.successful,
            failed: kept.result.failed,
            failures: kept.result.failures.into_iter().map(failure).collect(),
        }
    }
}
