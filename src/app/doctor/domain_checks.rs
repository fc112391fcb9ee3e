//! The DNS of a customer's domain, as a customer may ask for it: of a domain of the account's own, or
//! of an address of the Agent. Each answer waits for names that the customer chose, so that callers
//! must bound how many ask at once.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::domain::{self, OwnAddresses, ServerFacts, ShownCertificate};
use super::{Check, CheckSubject};
use crate::app::tenancy::TenancyError;
use crate::app::tls_reports::{LOOK_BACK, TlsReportRecord};
use crate::domain::clock::Clock;
use crate::domain::domain_name::DomainName;
use crate::domain::id::AccountId;
use crate::domain::mta_sts::MtaSts;
use crate::domain::tls_report::ReportAddress;
use crate::store::{Store, StoreError};
use crate::verify::Authenticator;

/// The port to which mail servers deliver (RFC 5321 §4.5.4.2).
const MAIL: u16 = 25;

/// Most reports of senders that are shown of a domain.
const MOST_REPORTS: u32 = 20;

#[derive(Clone)]
pub struct DomainChecks {
    store: Store,
    dns: Arc<Authenticator>,
    clock: Clock,
    server: ThisServer,
    /// Longest wait for all look-ups of a domain.
    within: Duration,
}

/// The server that domains should name.
#[derive(Clone)]
pub struct ThisServer {
    pub hostname: DomainName,
    /// All its names, by whose addresses others find it.
    pub names: Vec<DomainName>,
    /// The port that takes mail in.
    pub port: u16,
    pub certificate: ShownCertificate,
    /// A certificate that ends within this time is warned of.
    pub expiry_warning: Duration,
    /// Where reports of senders on TLS are taken in, if they are.
    pub tls_reports: Option<ReportAddress>,
    /// The policy of MTA-STS that it serves for all domains, if it serves one.
    pub mta_sts: Option<MtaSts>,
}

impl fmt::Debug for DomainChecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DomainChecks")
            .field("hostname", &self.server.hostname)
            .finish_non_exhaustive()
    }
}

impl DomainChecks {
    pub const fn new(
        store: Store,
        dns: Arc<Authenticator>,
        clock: Clock,
        server: ThisServer,
        within: Duration,
    ) -> Self {
        Self { store, dns, clock, server, within }
    }

    /// Checks a domain. Fails with `DomainElsewhere` unless the account has or claims it, or has an
    /// address in it.
    pub async fn check(
        &self,
        account: AccountId,
        domain: &DomainName,
    ) -> Result<Vec<Check>, TenancyError> {
        if !self.store.is_domain_of(domain, account).await? {
            return Err(TenancyError::DomainElsewhere { domain: domain.clone(), account });
        }
        let deadline = Instant::now() + self.within;
        let facts = ServerFacts {
            hostname: self.server.hostname.clone(),
            own: OwnAddresses::look_up(&self.dns, &self.server.names, deadline).await.public(),
            certificate: Arc::clone(&self.server.certificate),
            now: self.clock.now(),
            expiry_warning: self.server.expiry_warning,
            tls_reports: self.server.tls_reports.clone(),
            mta_sts: self.server.mta_sts.clone(),
            deadline,
            is_for_operator: false,
        };
        let mut checks = domain::check(&self.dns, Some(&self.store), domain, &facts).await;
        checks.push(self.port());
        Ok(checks)
    }

    /// Returns the last reports of senders on a domain. Whoever asks may check it.
    pub async fn reports(&self, domain: &DomainName) -> Result<Vec<TlsReportRecord>, StoreError> {
        let since = self.clock.now().minus(LOOK_BACK);
        let reports = self.store.tls_reports(domain, since, 0, MOST_REPORTS).await?;
        Ok(reports.into_iter().map(TlsReportRecord::from).collect())
    }

    fn port(&self) -> Check {
        let topic = Check::of(CheckSubject::Port, self.server.hostname.as_str());
        match self.server.port {
            MAIL => topic.ok("the server takes mail in on port 25"),
            // Whether 25 leads there, which the server cannot see, is the operator's concern.
            other => topic.skipped(format!(
                "the server takes mail in on port {other}: port 25, to which mail servers send, must \
                 lead there"
            )),
        }
    }
}
