//! Reports of senders on TLS, by the domains that they are about. Anybody may hand one in, so that
//! each domain takes a number of them in a day, and they go when they are old.
//!
//! A report is shown to the account that had the domain when it came, as long as it has it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::domain::account::Lineage;
use crate::domain::clock::Timestamp;
use crate::domain::domain_name::DomainName;
use crate::domain::id::AccountId;
use crate::domain::tls_report::{
    FailureType, KeptTlsReport, PolicyResult, SessionFailure, TlsReport, TlsReportOutcome,
    TlsReportSums,
};
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, retry_conflicts, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::many::many;
use crate::store::engine::row::{Columns, organization_of, stored};
use crate::store::engine::sql::sql;

const TABLE: &str = "tls_reports";

/// The time within which a domain takes a number of reports.
const DAY: Duration = Duration::from_secs(86_400);

/// A failure as it is kept: type, sessions, host, reason.
type FailureRow = (String, u64, String, String);

/// The account that has a domain, and its organization or 0.
#[derive(Clone, Copy)]
struct Owner {
    account: AccountId,
    organization: i64,
}

impl Base {
    /// Keeps a report, all of its policies or none. `signed_by` is the domain that signed the mail
    /// in which it came. A domain takes up to `most` policies in a day, of posted and of signed
    /// reports each.
    pub async fn keep_tls_report(
        &self,
        report: &TlsReport,
        signed_by: Option<&DomainName>,
        most: u64,
        now: Timestamp,
    ) -> Result<TlsReportOutcome, StoreError> {
        transact!(self, async |tx| {
            // Serializes the counts below.
            gates::take_turn(&mut tx, "tls reports", 0).await?;
            let owners = owners(&mut tx, report).await?;
            let mut added = BTreeMap::new();
            for (place, result) in report.policies.iter().enumerate() {
                let Some(owner) = owners.get(&result.domain) else {
                    return Ok(TlsReportOutcome::Foreign(result.domain.clone()));
                };
                let row = Row { report, result, signed_by, place, owner };
                if row.insert(&mut tx, now).await? {
                    added.insert(&result.domain, owner);
                }
            }
            for (domain, owner) in &added {
                if count(&mut tx, domain, owner, signed_by, now.minus(DAY)).await? > most {
                    return Ok(TlsReportOutcome::Full((*domain).clone()));
                }
            }
            if added.is_empty() {
                return Ok(TlsReportOutcome::Repeated);
            }
            tx.commit().await?;
            Ok(TlsReportOutcome::Kept)
        })
    }

    /// Returns up to `limit` policies of reports on a domain that came since then and tell of
    /// `failed` sessions or more that failed, the newest first.
    pub async fn tls_reports(
        &self,
        domain: &DomainName,
        since: Timestamp,
        failed: u64,
        limit: u32,
    ) -> Result<Vec<KeptTlsReport>, StoreError> {
        let mut query =
            sql("SELECT received_at, signed_by, submitter, report_id, begin_at, end_at,
                    tls_reports.domain, policy, successful, failed, failures ")
            .bind(domain.as_str())
            .bind(since);
        query.push(SHOWN).push(" AND failed >= ").push_value(stored(failed));
        query.push(" ORDER BY received_at DESC, submitter, report_id, place LIMIT ");
        query.push_value(i64::from(limit));
        let rows = query.fetch_all(self.reader()).await?;
        rows.iter().map(|row| kept(&Columns { table: TABLE, row })).collect()
    }

    /// Returns the lineage of the account that has a domain; None if nobody has it.
    pub async fn lineage_of_domain(
        &self,
        domain: &DomainName,
    ) -> Result<Option<Lineage>, StoreError> {
        let row = sql("SELECT partner_id, reseller_id, organization_id, agent_id
                       FROM domains JOIN accounts ON accounts.id = domains.account_id
                       WHERE domains.name = $1")
        .bind(domain.as_str())
        .fetch_optional(self.reader())
        .await?;
        row.map(|row| Columns { table: "accounts", row: &row }.lineage()).transpose()
    }

    /// Adds up what reports on a domain that came since then say.
    pub async fn tls_report_sums(
        &self,
        domain: &DomainName,
        since: Timestamp,
    ) -> Result<TlsReportSums, StoreError> {
        let mut query = sql("SELECT COUNT(*) AS policies,
                    CAST(COALESCE(SUM(successful), 0) AS BIGINT) AS successful,
                    CAST(COALESCE(SUM(failed), 0) AS BIGINT) AS failed ")
        .bind(domain.as_str())
        .bind(since);
        query.push(SHOWN);
        let row = query.fetch_one(self.reader()).await?;
        let columns = Columns { table: TABLE, row: &row };
        Ok(TlsReportSums {
            policies: columns.count("policies")?,
            successful: columns.count("successful")?,
            failed: columns.count("failed")?,
        })
    }

    /// Deletes up to `limit` rows that came by then; None while another gateway deletes.
    pub async fn delete_tls_reports(
        &self,
        until: Timestamp,
        limit: usize,
    ) -> Result<Option<u64>, StoreError> {
        let old = || {
            sql("DELETE FROM tls_reports
                 WHERE (organization_id, domain, signed_by, submitter, report_id, place) IN (
                     SELECT organization_id, domain, signed_by, submitter, report_id, place
                     FROM tls_reports WHERE received_at <= $1 ORDER BY received_at LIMIT $2)")
        };
        retry_conflicts!(self.delete_past(old(), until, limit))
    }
}

/// The rows of domain $1 since $2 that its account may see.
const SHOWN: &str = "FROM domains
     JOIN accounts ON accounts.id = domains.account_id
     JOIN tls_reports ON tls_reports.organization_id = COALESCE(accounts.organization_id, 0)
                     AND tls_reports.domain = domains.name
                     AND tls_reports.account_id = domains.account_id
     WHERE domains.name = $1 AND received_at >= $2";

/// Returns the owners of those domains of a report that have one.
async fn owners(
    tx: &mut Transaction,
    report: &TlsReport,
) -> Result<BTreeMap<DomainName, Owner>, StoreError> {
    let mut names: Vec<&str> = report.policies.iter().map(|one| one.domain.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let rows = many(
        "WITH given (name) AS ({rows})
         SELECT domains.name, account_id, partner_id, reseller_id, organization_id, agent_id
         FROM given CROSS JOIN domains CROSS JOIN accounts
         WHERE domains.name = given.name AND accounts.id = domains.account_id",
        names.into_iter().map(|name| vec![name.into()]).collect(),
    )
    .fetch_all(tx.on())
    .await?;
    let owner = |row| {
        let columns = Columns { table: "domains", row };
        let name = DomainName::kept(&columns.text("name")?).map_err(|e| columns.corrupt(e))?;
        let organization = organization_of(&columns.lineage()?);
        Ok((name, Owner { account: columns.account("account_id")?, organization }))
    };
    rows.iter().map(owner).collect()
}

/// One policy of a report on its way into the table.
struct Row<'r> {
    report: &'r TlsReport,
    result: &'r PolicyResult,
    signed_by: Option<&'r DomainName>,
    place: usize,
    owner: &'r Owner,
}

impl Row<'_> {
    /// Returns false if the row is there.
    async fn insert(&self, tx: &mut Transaction, now: Timestamp) -> Result<bool, StoreError> {
        let Self { report, result, owner, .. } = self;
        let failures: Vec<FailureRow> = result.failures.iter().map(failure_row).collect();
        let failures = serde_json::to_string(&failures)
            .map_err(|error| StoreError::Corrupt { table: TABLE, detail: error.to_string() })?;
        let made = sql("INSERT INTO tls_reports
                 (organization_id, account_id, domain, signed_by, submitter, report_id, place,
                  received_at, begin_at, end_at, policy, successful, failed, failures)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
             ON CONFLICT DO NOTHING")
        .bind(owner.organization)
        .bind(owner.account)
        .bind(result.domain.as_str())
        .bind(self.signed_by.map_or("", DomainName::as_str))
        .bind(report.submitter.as_str())
        .bind(report.report_id.as_str())
        .bind(i64::try_from(self.place).unwrap_or(i64::MAX))
        .bind(now)
        .bind(report.begin)
        .bind(report.end)
        .bind(result.policy.as_str())
        .bind(stored(result.successful))
        .bind(stored(result.failed))
        .bind(failures)
        .execute(tx.on())
        .await?;
        Ok(made > 0)
    }
}

/// Counts the rows of a domain that came since then, of signed or of posted reports.
async fn count(
    tx: &mut Transaction,
    domain: &DomainName,
    owner: &Owner,
    signed_by: Option<&DomainName>,
    since: Timestamp,
) -> Result<u64, StoreError> {
    let row = sql("SELECT COUNT(*) AS kept FROM tls_reports
         WHERE organization_id = $1 AND domain = $2 AND received_at > $3
           AND CASE WHEN signed_by = '' THEN 0 ELSE 1 END = $4")
    .bind(owner.organization)
    .bind(domain.as_str())
    .bind(since)
    .bind(i64::from(signed_by.is_some()))
    .fetch_one(tx.on())
    .await?;
    Columns { table: TABLE, row: &row }.count("kept")
}

fn failure_row(failure: &SessionFailure) -> FailureRow {
    let SessionFailure { kind, sessions, host, reason } = failure;
    (kind.as_str().to_owned(), *sessions, host.clone(), reason.clone())
}

fn kept(columns: &Columns<'_>) -> Result<KeptTlsReport, StoreError> {
    let domain = |text: &str| DomainName::kept(text).map_err(|error| columns.corrupt(error));
    let signed_by = columns.text("signed_by")?;
    let failures: Vec<FailureRow> = columns.json("failures")?;
    let failure = |(kind, sessions, host, reason): FailureRow| {
        let kind = kind.parse::<FailureType>().map_err(|error| columns.corrupt(error))?;
        Ok(SessionFailure { kind, sessions, host, reason })
    };
    Ok(KeptTlsReport {
        received: columns.time("received_at")?,
        signed_by: (!signed_by.is_empty()).then(|| domain(&signed_by)).transpose()?,
        submitter: columns.text("submitter")?,
        report_id: columns.text("report_id")?,
        begin: columns.time("begin_at")?,
        end: columns.time("end_at")?,
        result: PolicyResult {
            domain: domain(&columns.text("domain")?)?,
            policy: columns.word("policy")?,
            successful: columns.count("successful")?,
            failed: columns.count("failed")?,
            failures: failures.into_iter().map(failure).collect::<Result<_, StoreError>>()?,
        },
    })
}
