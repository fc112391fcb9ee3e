//! Reports of senders on the TLS that they met (RFC 8460): how many sessions they could encrypt as
//! the policy of a domain asks, and why the others failed.
//!
//! All of it is a claim. A stranger may report anything, and what is proven is at most the domain
//! that signed the mail in which the report came.

use super::clock::Timestamp;
use super::domain_name::DomainName;
use super::words::words;

words! {
    /// Why a session failed (RFC 8460 §4.3).
    FailureType {
        StartTlsNotSupported = "starttls-not-supported",
        CertificateHostMismatch = "certificate-host-mismatch",
        CertificateExpired = "certificate-expired",
        CertificateNotTrusted = "certificate-not-trusted",
        ValidationFailure = "validation-failure",
        TlsaInvalid = "tlsa-invalid",
        DnssecInvalid = "dnssec-invalid",
        DaneRequired = "dane-required",
        StsPolicyFetchError = "sts-policy-fetch-error",
        StsPolicyInvalid = "sts-policy-invalid",
        StsWebpkiInvalid = "sts-webpki-invalid",
        /// A type that the standard does not name, or none.
        Other = "other",
    }
}

words! {
    /// The policy that a sender applied (RFC 8460 §4.2).
    AppliedPolicy {
        Tlsa = "tlsa",
        Sts = "sts",
        NoPolicyFound = "no-policy-found",
        /// A type that the standard does not name.
        Other = "other",
    }
}

words! {
    /// How a report came.
    ReportWay {
        /// Posted by somebody unknown.
        Https = "https",
        /// In mail, signed by a domain.
        Mail = "mail",
    }
}

/// One report of one sender on a time, mostly a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsReport {
    /// As the sender names itself.
    pub submitter: String,
    /// Names the report among those of the sender.
    pub report_id: String,
    pub begin: Timestamp,
    pub end: Timestamp,
    /// One at least.
    pub policies: Vec<PolicyResult>,
}

/// The sessions of a sender under one policy of one domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyResult {
    pub domain: DomainName,
    pub policy: AppliedPolicy,
    pub successful: u64,
    pub failed: u64,
    /// The most frequent first. Their sessions need not add up to `failed`.
    pub failures: Vec<SessionFailure>,
}

/// Sessions that failed alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFailure {
    pub kind: FailureType,
    pub sessions: u64,
    /// The host that should have taken the mail; empty if the report does not say.
    pub host: String,
    /// The sender's own words; empty without.
    pub reason: String,
}

/// One policy of a report, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptTlsReport {
    pub received: Timestamp,
    /// The domain that signed the mail in which it came; None if it was posted.
    pub signed_by: Option<DomainName>,
    pub submitter: String,
    pub report_id: String,
    pub begin: Timestamp,
    pub end: Timestamp,
    pub result: PolicyResult,
}

/// The sums of reports on a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsReportSums {
    /// Policies of reports.
    pub policies: u64,
    pub successful: u64,
    pub failed: u64,
}

/// The result of handing in a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsReportOutcome {
    Kept,
    /// This report of this sender is there already.
    Repeated,
    /// No account has this domain. Nothing is kept.
    Foreign(DomainName),
    /// The domain has had its reports for the day. Nothing is kept.
    Full(DomainName),
}

impl KeptTlsReport {
    pub const fn way(&self) -> ReportWay {
        if self.signed_by.is_some() { ReportWay::Mail } else { ReportWay::Https }
    }
}

/// The address that takes reports in mail: a name, at every domain of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportAddress(String);

/// The name where none is set.
const NAME: &str = "tls-reports";

/// Longest local part (RFC 5321 §4.5.3.1.1).
const LONGEST: usize = 64;

impl ReportAddress {
    /// With this name before the `@`; None if it needs quotes or stands for something else: a tag,
    /// or the postmaster.
    pub fn named(name: &str) -> Option<Self> {
        let is_plain = |atom: &str| {
            let is_sign = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
            !atom.is_empty() && atom.bytes().all(is_sign)
        };
        let fits = name.len() <= LONGEST && !name.eq_ignore_ascii_case("postmaster");
        (fits && name.split('.').all(is_plain)).then(|| Self(name.to_ascii_lowercase()))
    }

    /// The name before the `@`, in lower case.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl Default for ReportAddress {
    fn default() -> Self {
        Self(NAME.to_owned())
    }
}
