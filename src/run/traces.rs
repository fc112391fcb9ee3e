//! Traces, and the task that sends them.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::OtlpSettings;
use crate::domain::domain_name::DomainName;
use crate::domain::id::Mint;
use crate::egress::client::{Client, EgressError, Limits, Lookup};
use crate::egress::guard::Guard;
use crate::metrics::Metrics;
use crate::rules::Rules;
use crate::traces::{Traces, export};

/// The task that sends traces. It ends after all others, whose last spans it still sends.
#[derive(Debug)]
pub(super) struct Exporting {
    task: JoinHandle<()>,
    end: CancellationToken,
    flush: Duration,
}

impl Exporting {
    /// Starts to send traces on these threads. Without a collector nothing is traced.
    pub(super) fn start(
        collector: Option<OtlpSettings>,
        (dns, hostname): (Option<&[SocketAddr]>, &DomainName),
        rules: &Rules,
        (mint, metrics): (&Mint, &Metrics),
        threads: &Handle,
    ) -> Result<(Traces, Option<Self>), EgressError> {
        let Some(OtlpSettings { url, headers, sampling }) = collector else {
            return Ok((Traces::default(), None));
        };
        // The tasks of its look-up run there, too.
        let _entered = threads.enter();
        let limits = Limits::from(&rules.traces);
        let lookup = Lookup::with_servers(dns, limits.connect_timeout, 1)?;
        let client = Client::new(Guard::of_operator(&rules.webhooks), limits, lookup)?;
        let (hostname, rules) = (hostname.clone(), rules.traces.clone());
        let flush = rules.stop.flush();
        let settings = export::Settings { client, url, headers, sampling, hostname, rules };
        let (traces, exporter) = Traces::new(settings, mint.clone(), metrics.clone());
        let end = CancellationToken::new();
        let task = threads.spawn(exporter.run(end.clone()));
        Ok((traces, Some(Self { task, end, flush })))
    }

    /// Sends what still waits, within a bound.
    pub(super) async fn finish(mut self) {
        self.end.cancel();
        if tokio::time::timeout(self.flush, &mut self.task).await.is_err() {
            self.task.abort();
            tracing::warn!("traces that still waited were not exported");
        }
    }
}
