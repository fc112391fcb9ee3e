//! A report as senders write it: JSON (RFC 8460 §4.4), alone or packed by gzip.
//!
//! Strangers write it, so all is bounded before it is made: octets unpacked, and what is kept of
//! each text. Characters that nobody sees are left out, for tables and terminals show these texts.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::Read as _;

use flate2::read::MultiGzDecoder;
use icu_properties::CodePointMapData;
use icu_properties::props::{GeneralCategory, GeneralCategoryGroup};
use serde::Deserialize;

use super::{ReportFault, TlsReportError};
use crate::domain::domain_name::DomainName;
use crate::domain::instant;
use crate::domain::tls_report::{
    AppliedPolicy, FailureType, PolicyResult, SessionFailure, TlsReport,
};
use crate::rules::TlsReportRules;

/// How a file of gzip begins (RFC 1952 §2.3.1); JSON never does.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Longest name of a sender, host and reason of a failure, in octets: longer ones are cut.
const LONGEST_TEXT: usize = 200;
/// Longest id of a report, in octets. A longer one is refused, as another report may begin alike, and
/// an index of PostgreSQL must take all that names a row.
const LONGEST_ID: usize = 255;

/// More sessions than any sender had: sums of thousands of reports still fit into a column.
const MOST_SESSIONS: u64 = 1_000_000_000_000;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Report {
    organization_name: String,
    date_range: DateRange,
    report_id: String,
    policies: Vec<Policy>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct DateRange {
    start_datetime: String,
    end_datetime: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Policy {
    policy: PolicyName,
    summary: Summary,
    failure_details: Option<Vec<Detail>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct PolicyName {
    policy_type: String,
    policy_domain: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Summary {
    total_successful_session_count: u64,
    total_failure_session_count: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Detail {
    result_type: String,
    failed_session_count: u64,
    receiving_mx_hostname: Option<String>,
    failure_reason_code: Option<String>,
}

/// Reads a report, unpacked first if it is packed.
pub(super) fn read(octets: &[u8], rules: &TlsReportRules) -> Result<TlsReport, TlsReportError> {
    if octets.len() > rules.max_bytes {
        return Err(TlsReportError::TooLarge { most: rules.max_bytes });
    }
    let unpacked = octets.starts_with(&GZIP).then(|| unpack(octets, rules.max_unpacked_bytes));
    let unpacked = unpacked.transpose()?;
    let read = serde_json::from_slice(unpacked.as_deref().unwrap_or(octets));
    let report: Report = read.map_err(|error| {
        let (line, column) = (error.line(), error.column());
        match error.is_data() {
            true => TlsReportError::Broken(ReportFault::Shape { line, column }),
            false => TlsReportError::Broken(ReportFault::Json { line, column }),
        }
    })?;
    if report.policies.len() > rules.max_policies {
        return Err(TlsReportError::TooManyPolicies { most: rules.max_policies });
    }
    checked(report, rules).map_err(TlsReportError::Broken)
}

/// Reads no octet more than `most`, whatever they would unfold to.
fn unpack(octets: &[u8], most: usize) -> Result<Vec<u8>, TlsReportError> {
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    let mut unpacked = Vec::new();
    let read = MultiGzDecoder::new(octets).take(limit).read_to_end(&mut unpacked);
    if unpacked.len() > most {
        return Err(TlsReportError::UnpackedTooLarge { most });
    }
    read.map_err(|_| TlsReportError::Broken(ReportFault::Gzip))?;
    Ok(unpacked)
}

fn checked(report: Report, rules: &TlsReportRules) -> Result<TlsReport, ReportFault> {
    let submitter = tidy(&report.organization_name);
    let report_id = seen(&report.report_id);
    if submitter.is_empty() || report_id.is_empty() {
        return Err(ReportFault::Nameless);
    }
    if report_id.len() > LONGEST_ID {
        return Err(ReportFault::LongId);
    }
    let at = |text: &str| instant::parse(text).ok_or(ReportFault::Time);
    let range = report.date_range;
    let (begin, end) = (at(&range.start_datetime)?, at(&range.end_datetime)?);
    if begin > end {
        return Err(ReportFault::Time);
    }
    if report.policies.is_empty() {
        return Err(ReportFault::NoPolicy);
    }
    let policies = report.policies.into_iter().map(|policy| result(policy, rules.max_failures));
    let policies = policies.collect::<Result<_, _>>()?;
    Ok(TlsReport { submitter, report_id, begin, end, policies })
}

fn result(policy: Policy, most: usize) -> Result<PolicyResult, ReportFault> {
    let Policy { policy, summary, failure_details } = policy;
    let name = policy.policy_domain.trim_end_matches('.');
    let details = failure_details.unwrap_or_default();
    let (successful, failed) =
        (summary.total_successful_session_count, summary.total_failure_session_count);
    let counts = details.iter().map(|one| one.failed_session_count).chain([successful, failed]);
    if counts.max().is_some_and(|count| count > MOST_SESSIONS) {
        return Err(ReportFault::Sessions);
    }
    Ok(PolicyResult {
        domain: DomainName::parse(name).map_err(|_| ReportFault::Domain)?,
        policy: policy.policy_type.parse().unwrap_or(AppliedPolicy::Other),
        successful,
        failed,
        failures: failures(details, most),
    })
}

/// Adds up sessions that failed alike. Beyond `most` kinds, the rarest are added up by their types.
fn failures(details: Vec<Detail>, most: usize) -> Vec<SessionFailure> {
    let mut kinds: BTreeMap<(FailureType, String, String), u64> = BTreeMap::new();
    for detail in details {
        let kind = detail.result_type.parse().unwrap_or(FailureType::Other);
        let text = |text: Option<String>| text.as_deref().map(tidy).unwrap_or_default();
        let host = text(detail.receiving_mx_hostname).to_lowercase();
        let sessions = kinds.entry((kind, host, text(detail.failure_reason_code))).or_default();
        *sessions = sessions.saturating_add(detail.failed_session_count).min(MOST_SESSIONS);
    }
    let mut failures: Vec<SessionFailure> = kinds
        .into_iter()
        .map(|((kind, host, reason), sessions)| SessionFailure { kind, sessions, host, reason })
        .collect();
    failures.sort_by_key(|one| Reverse(one.sessions));
    let mut rest: BTreeMap<FailureType, u64> = BTreeMap::new();
    for one in failures.drain(most.min(failures.len())..) {
        let sessions = rest.entry(one.kind).or_default();
        *sessions = sessions.saturating_add(one.sessions).min(MOST_SESSIONS);
    }
    failures.extend(rest.into_iter().map(|(kind, sessions)| SessionFailure {
        kind,
        sessions,
        host: String::new(),
        reason: String::new(),
    }));
    failures
}

/// The text without what nobody sees, and not longer than a name.
fn tidy(text: &str) -> String {
    let mut text = seen(text);
    text.truncate(text.floor_char_boundary(LONGEST_TEXT));
    text
}

/// Leaves out controls, formatting and private characters, and takes line breaks for spaces.
fn seen(text: &str) -> String {
    let categories = CodePointMapData::<GeneralCategory>::new();
    let is_seen = |c: &char| !GeneralCategoryGroup::Other.contains(categories.get(*c));
    let spaced = text.split_whitespace().collect::<Vec<_>>().join(" ");
    spaced.chars().filter(is_seen).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use serde_json::{Value, json};

    use super::*;
    use crate::rules::Rules;

    fn rules() -> TlsReportRules {
        Rules::defaults().unwrap().access.tls_reports
    }

    fn packed(octets: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(octets).unwrap();
        encoder.finish().unwrap()
    }

    /// A report, changed.
    fn report(change: impl FnOnce(&mut Value)) -> Vec<u8> {
        let mut report = json!({
            "organization-name": "Company-X",
            "date-range": {
                "start-datetime": "2016-04-01T00:00:00Z",
                "end-datetime": "2016-04-01T23:59:59Z",
            },
            "report-id": "5065427c-23d3-47ca-b6e0-946ea0e8c4be",
            "policies": [{
                "policy": { "policy-type": "sts", "policy-domain": "company-y.example" },
                "summary": {
                    "total-successful-session-count": 5326,
                    "total-failure-session-count": 303,
                },
            }],
        });
        change(&mut report);
        report.to_string().into_bytes()
    }

    fn fault(octets: &[u8]) -> ReportFault {
        match read(octets, &rules()) {
            Err(TlsReportError::Broken(fault)) => fault,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_unfolds_without_end_is_read_to_its_bound_alone() {
        let most = rules().max_unpacked_bytes;
        let bomb = packed(&vec![b' '; 100 * most]);
        assert!(bomb.len() < rules().max_bytes, "{}", bomb.len());
        let found = read(&bomb, &rules());
        assert!(matches!(found, Err(TlsReportError::UnpackedTooLarge { most: m }) if m == most));
        // One octet less than too much is read, and found to be no report.
        let blank = packed(&vec![b' '; most]);
        assert!(matches!(fault(&blank), ReportFault::Json { .. }));
        let large = vec![b' '; rules().max_bytes + 1];
        let found = read(&large, &rules());
        assert!(matches!(found, Err(TlsReportError::TooLarge { .. })), "{found:?}");
    }

    #[test]
    fn packed_or_not_it_is_the_same_report() {
        let plain = report(|_| {});
        let expected = read(&plain, &rules()).unwrap();
        assert_eq!(read(&packed(&plain), &rules()).unwrap(), expected);
        // In several members (RFC 1952 §2.2).
        let (head, rest) = plain.split_at(40);
        assert_eq!(read(&[packed(head), packed(rest)].concat(), &rules()).unwrap(), expected);
        let mut cut = packed(&plain);
        cut.truncate(cut.len() - 9);
        assert_eq!(fault(&cut), ReportFault::Gzip);
    }

    #[test]
    fn failures_alike_are_one_and_the_rarest_are_added_up() {
        let most = rules().max_failures;
        let octets = report(|report| {
            let host = |number: usize| format!("MX{number}.example");
            let many = (0..most + 5).map(|number| {
                json!({
                    "result-type": "certificate-expired", "failed-session-count": 1000 - number,
                    "receiving-mx-hostname": host(number), "sending-mta-ip": "192.0.2.1",
                })
            });
            let twice = json!({
                "result-type": "of-tomorrow", "failed-session-count": 2000,
                "failure-reason-code": "a\u{202e}b\u{1b}[2J\nc", "additional-information": [],
            });
            let all: Vec<Value> = many.chain([twice.clone(), twice]).collect();
            report["policies"][0]["failure-details"] = all.into();
        });
        let read = read(&octets, &rules()).unwrap();
        let failures = &read.policies[0].failures;
        assert_eq!(failures.len(), most + 1);
        let first = SessionFailure {
            kind: FailureType::Other,
            sessions: 4000,
            host: String::new(),
            reason: "ab[2J c".to_owned(),
        };
        assert_eq!(failures[0], first);
        assert_eq!((&*failures[1].host, failures[1].sessions), ("mx0.example", 1000));
        let rest = (most - 1..most + 5).map(|number| 1000 - u64::try_from(number).unwrap()).sum();
        assert_eq!((&*failures[most].host, failures[most].sessions), ("", rest));
    }

    #[test]
    fn what_is_no_report_is_told_by_its_fault() {
        type Change = fn(&mut Value);
        let cases: [(Change, ReportFault); 8] = [
            (|r| r["organization-name"] = "\u{200b} \n".into(), ReportFault::Nameless),
            (|r| r["report-id"] = "".into(), ReportFault::Nameless),
            (|r| r["report-id"] = "a".repeat(256).into(), ReportFault::LongId),
            (|r| r["policies"] = json!([]), ReportFault::NoPolicy),
            (|r| r["date-range"]["end-datetime"] = "2016-03-31".into(), ReportFault::Time),
            (|r| r["date-range"]["start-datetime"] = "yesterday".into(), ReportFault::Time),
            (|r| r["policies"][0]["policy"]["policy-domain"] = "a b".into(), ReportFault::Domain),
            (
                |r| {
                    let sessions = json!(MOST_SESSIONS + 1);
                    r["policies"][0]["summary"]["total-failure-session-count"] = sessions;
                },
                ReportFault::Sessions,
            ),
        ];
        for (change, expected) in cases {
            assert_eq!(fault(&report(change)), expected);
        }
        let negative = report(|r| {
            r["policies"][0]["summary"]["total-failure-session-count"] = json!(-1);
        });
        assert!(matches!(fault(&negative), ReportFault::Shape { line: 1, .. }));
        assert!(matches!(fault(b"<xml/>"), ReportFault::Json { line: 1, column: 1 }));
        let deep = format!("{{\"padding\":{}", "[".repeat(100_000));
        assert!(matches!(fault(deep.as_bytes()), ReportFault::Json { .. }));
        let many = report(|r| {
            let policy = r["policies"][0].clone();
            r["policies"] = vec![policy; rules().max_policies + 1].into();
        });
        assert!(matches!(read(&many, &rules()), Err(TlsReportError::TooManyPolicies { .. })));
    }

    #[test]
    fn a_long_name_is_cut_between_letters() {
        let octets = report(|r| r["organization-name"] = "ä".repeat(300).into());
        let read = read(&octets, &rules()).unwrap();
        assert_eq!(read.submitter, "ä".repeat(LONGEST_TEXT / 2));
    }
}
