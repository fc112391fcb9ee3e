//! TLS-RPT of a domain (RFC 8460): whether senders report here, and what they told in a week.

use tokio::time::timeout_at;

use super::domain::{RESOLVERS, ServerFacts};
use super::{Check, CheckSubject};
use crate::app::tls_reports::LOOK_BACK;
use crate::domain::causes::with_causes;
use crate::domain::clock::Timestamp;
use crate::domain::domain_name::DomainName;
use crate::domain::tls_report::{FailureType, KeptTlsReport, ReportAddress, TlsReportSums};
use crate::store::{Store, StoreError};
use crate::verify::{Authenticator, Unanswered};

/// Checks the record that leads reports here, and sums up what they say.
pub(super) async fn check(
    dns: &Authenticator,
    store: Option<&Store>,
    domain: &DomainName,
    facts: &ServerFacts,
) -> Vec<Check> {
    let Some(address) = &facts.tls_reports else {
        let topic = Check::of(CheckSubject::TlsRpt, domain.as_str());
        return vec![topic.skipped("reports of senders on TLS are not taken in (--tls-reports)")];
    };
    let asking = dns.texts(format!("_smtp._tls.{domain}"), facts.deadline);
    let Some(store) = store else { return vec![record(domain, address, asking.await)] };
    let reading = timeout_at(facts.deadline, told(store, domain, facts.now.minus(LOOK_BACK)));
    let (texts, told) = tokio::join!(asking, reading);
    let unread = |why: String| {
        let detail = format!("the reports cannot be read: {why}");
        let topic = Check::of(CheckSubject::TlsReports, domain.as_str());
        topic.warning(detail, "look at the check of the database")
    };
    let reports = match told {
        Ok(Ok(told)) => sums(domain, told),
        Ok(Err(error)) => unread(with_causes(&error)),
        Err(_) => unread("the database did not answer in time".to_owned()),
    };
    vec![record(domain, address, texts), reports]
}

fn record(
    domain: &DomainName,
    address: &ReportAddress,
    found: Result<Vec<Vec<u8>>, Unanswered>,
) -> Check {
    let topic = Check::of(CheckSubject::TlsRpt, domain.as_str());
    let mail = format!("mailto:{}@{domain}", address.name());
    let line = format!("_smtp._tls.{domain}. TXT \"v=TLSRPTv1; rua={mail}\"");
    let records = match found {
        Err(error) => {
            let detail = format!("_smtp._tls.{domain} cannot be looked up: {error}");
            return topic.warning(detail, RESOLVERS);
        }
        Ok(records) => records,
    };
    let records = records.iter().map(|text| String::from_utf8_lossy(text));
    let records: Vec<_> = records.filter(|text| text.starts_with("v=TLSRPTv1")).collect();
    let publish = "publish this one record";
    match records.as_slice() {
        [] => topic.warning("there is no record: senders report on TLS to nobody", publish),
        [one] => match place_here(one, &mail) {
            Some(place) => return topic.ok(format!("senders report to {place}")),
            None => topic.warning("the record leads reports to somebody else", publish),
        },
        _ => topic.warning("there are several records: senders use none", publish),
    }
    .paste(line)
}

/// Returns the place of the record that is the address, or the path for posted reports on any host:
/// the API may have several names.
fn place_here<'r>(record: &'r str, mail: &str) -> Option<&'r str> {
    let fields = record.split(';').filter_map(|field| field.split_once('='));
    let mut places =
        fields.filter(|(name, _)| name.trim() == "rua").flat_map(|(_, all)| all.split(','));
    places.find_map(|place| {
        let place = place.trim();
        let is_posted = place.starts_with("https://") && place.ends_with("/tls-reports");
        (is_posted || place.eq_ignore_ascii_case(mail)).then_some(place)
    })
}

/// The sums of a time, and the last report with a failure in it.
struct Told {
    sums: TlsReportSums,
    failure: Option<KeptTlsReport>,
}

async fn told(store: &Store, domain: &DomainName, since: Timestamp) -> Result<Told, StoreError> {
    let sums = store.tls_report_sums(domain, since).await?;
    let failure = match sums.failed {
        0 => None,
        _ => store.tls_reports(domain, since, 1, 1).await?.pop(),
    };
    Ok(Told { sums, failure })
}

fn sums(domain: &DomainName, Told { sums, failure }: Told) -> Check {
    let topic = Check::of(CheckSubject::TlsReports, domain.as_str());
    let TlsReportSums { policies, successful, failed } = sums;
    if policies == 0 {
        return topic.skipped("no report came in 7 days");
    }
    if failed == 0 {
        return topic.ok(format!(
            "in 7 days senders claim {successful} sessions, and no failure (reports: {policies})"
        ));
    }
    let mut detail = format!(
        "in 7 days senders claim {failed} failed and {successful} successful sessions (reports: \
         {policies})"
    );
    let kind = failure.as_ref().and_then(|one| one.result.failures.first()).map(|one| one.kind);
    if let Some(report) = failure {
        detail.push_str("; the last to tell of a failure, ");
        detail.push_str(&last(&report));
    }
    topic.warning(detail, advice(kind.unwrap_or(FailureType::Other)))
}

/// The sender of a report, what is proven of it, and the first failure.
fn last(report: &KeptTlsReport) -> String {
    let proof = match &report.signed_by {
        Some(domain) => format!("signed by {domain}"),
        None => "posted, by anybody".to_owned(),
    };
    let first = report.result.failures.first();
    let failure = first.map_or_else(
        || "no reason".to_owned(),
        |first| match (&*first.host, &*first.reason) {
            ("", "") => first.kind.to_string(),
            (host, "") => format!("{} at {host}", first.kind),
            ("", reason) => format!("{}: {reason}", first.kind),
            (host, reason) => format!("{} at {host}: {reason}", first.kind),
        },
    );
    format!("{} ({proof}): {failure}", report.submitter)
}

const fn advice(kind: FailureType) -> &'static str {
    match kind {
        FailureType::StartTlsNotSupported => {
            "see that nothing between senders and port 25 takes STARTTLS away"
        }
        FailureType::CertificateHostMismatch
        | FailureType::CertificateExpired
        | FailureType::CertificateNotTrusted => {
            "install a certificate of a public authority for the host of the MX record \
             (--smtp-tls-cert or --acme-directory)"
        }
        FailureType::TlsaInvalid | FailureType::DnssecInvalid | FailureType::DaneRequired => {
            "publish the TLSA record of the key in use, and see that DNSSEC is whole"
        }
        FailureType::StsPolicyFetchError
        | FailureType::StsPolicyInvalid
        | FailureType::StsWebpkiInvalid => {
            "fetch https://mta-sts.DOMAIN/.well-known/mta-sts.txt as senders do, and mend what fails"
        }
        FailureType::ValidationFailure | FailureType::Other => {
            "see what other senders report, and whether the report is signed"
        }
    }
}
