//! `GET /domain/check`: the DNS of a mail domain, as mail servers see it.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::app::doctor::CheckRecord;
use crate::app::tls_reports::TlsReportRecord;
use crate::domain::domain_name::DomainName;
use crate::http::typed::{Call, Problem, refused, successes};

/// Checks the DNS of a mail domain
///
/// The account has or claims the domain, or the Agent has an address in it. Looks at MX, addresses,
/// PTR, the certificate, MTA-STS, TLSA, TLS-RPT with what senders reported in a week, and the port,
/// and changes nothing. A key checks one domain at a time.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CheckDomain {
    /// The domain.
    #[schemars(example = &"agents.example")]
    domain: String,
}

successes! {
    Checked {
        /// The domain.
        domain: String,
        /// All checks, those of MX first.
        checks: Vec<CheckRecord>,
        /// The last reports of senders on TLS (RFC 8460), the newest first: claims of whoever sent them.
        tls_reports: Vec<TlsReportRecord>,
    } = OK "domain checked";
}

pub async fn check(call: Call, request: CheckDomain) -> Result<Checked, Problem> {
    let domain = DomainName::parse(&request.domain).map_err(|error| refused("domain", &error))?;
    let http = &call.http;
    let (key, account) = (call.caller.key.id, call.caller.account.id);
    let most = http.rules.domains.checks_of_account();
    let _place = http.domain_checks.place_of(key, (account, most)).await?;
    let checks = http.use_cases.domain_checks.check(call.account().id, &domain).await?;
    let checks = checks.into_iter().map(CheckRecord::from).collect();
    let tls_reports = http.use_cases.domain_checks.reports(&domain).await?;
    Ok(Checked { domain: domain.as_str().to_owned(), checks, tls_reports })
}
