//! The gateway's own figures: counters, histograms and gauges, each declared once, as Prometheus
//! reads them and as the page System shows them.
//!
//! `app`, `store`, `verify` and `webhook` measure by the methods of [`Metrics`], a value that
//! `run` hands them; a default one measures nothing. Gauges are set when somebody asks
//! (`app::system`). Labels come from fixed lists of words: no account, address, name or id is one,
//! so the number of series has a bound whatever strangers send.
//!
//! Locks: those of the crate's families of labels, and of the history, each for a moment.

mod figures;
mod history;
mod quantile;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus::core::Collector as _;
use prometheus::{Encoder as _, IntGaugeVec, TextEncoder};

pub use self::figures::Described;
use self::figures::Figures;
use self::history::History;
pub use self::history::{LastHour, Minute};
pub use self::quantile::Distribution;
use crate::domain::clock::Timestamp;
use crate::domain::evidence::Step;
use crate::domain::evidence::results::Results;
use crate::domain::ports::PoolLoad;
use crate::domain::reason::Reason;
use crate::domain::tls_report::{FailureType, ReportWay};
use crate::domain::verdict::Verdict;
use crate::domain::words::words;

/// Two metrics have one name, or a name is none: a fault of this program.
#[derive(Debug, thiserror::Error)]
#[error("cannot declare the metrics")]
pub struct MetricsError(#[from] prometheus::Error);

/// Measures; clones share the figures. The default measures nothing.
#[derive(Clone, Default)]
pub struct Metrics(Option<Arc<Shared>>);

struct Shared {
    figures: Figures,
    history: Mutex<History>,
}

/// Counts of one figure by its labels' values, in the order of the labels' names.
pub type Counts = Vec<(Vec<String>, u64)>;

const NONE: &[&str] = &[];

/// The state that gauges show. A figure that nobody knows now is None, and its series is absent.
#[derive(Clone, Debug, Default)]
pub struct Gauges {
    /// SMTP sessions, and bytes of messages held for them.
    pub sessions: Option<u64>,
    pub memory_bytes: Option<u64>,
    /// Deliveries that wait, and how long the first of them has been due that a gateway may take.
    pub waiting_deliveries: Option<u64>,
    pub overdue: Option<Duration>,
    /// Bytes that are free for messages.
    pub free_bytes: Option<u64>,
    /// The end of each certificate in use, by listener.
    pub certificates: Vec<(&'static str, Timestamp)>,
    /// Gateways alive, by version.
    pub gateways: Option<Vec<(String, u64)>>,
    /// Connections to the database, by their pool.
    pub connections: Vec<(&'static str, PoolLoad)>,
}

impl Gauges {
    /// Returns the number of gateways alive.
    pub fn living(&self) -> Option<u64> {
        let versions = self.gateways.as_ref()?;
        Some(versions.iter().map(|(_, gateways)| gateways).sum())
    }
}

impl Metrics {
    /// Figures of a gateway that starts at `now`.
    pub fn new(now: Timestamp) -> Result<Self, MetricsError> {
        let figures = Figures::declare()?;
        figures.version.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        figures.started.set(now.seconds());
        // So that the first span that is lost, or delivery that is given up, is an increase.
        SpanOutcome::ALL.iter().for_each(|one| figures.count_spans(*one, 0));
        for outcome in AttemptOutcome::ALL {
            figures.attempts.with_label_values(&[outcome.as_str()]);
        }
        for way in ReportWay::ALL {
            TlsReportFate::ALL.iter().for_each(|fate| figures.count_tls_report(*way, *fate, 0));
            let failures = FailureType::ALL.iter().map(|one| Some(*one));
            failures.chain([None]).for_each(|one| figures.count_tls_sessions(*way, one, 0));
        }
        let history = Mutex::new(History::begin(&figures, now));
        Ok(Self(Some(Arc::new(Shared { figures, history }))))
    }

    /// Describes all figures, in the order of their declaration.
    pub fn described(&self) -> Vec<Described> {
        self.figures().map(|figures| figures.described.clone()).unwrap_or_default()
    }

    fn figures(&self) -> Option<&Figures> {
        self.0.as_deref().map(|shared| &shared.figures)
    }

    /// Counts a message by its answer, `took` from its last octet to its reply.
    pub fn message(&self, verdict: Verdict, bytes: u64, tls: Option<&str>, took: Duration) {
        let Some(figures) = self.figures() else { return };
        let reason = verdict.reason().map_or("", Reason::as_str);
        figures.messages.with_label_values(&[verdict.as_str(), reason]).inc();
        figures.accept.with_label_values(&[verdict.as_str()]).observe(took.as_secs_f64());
        figures.sizes.observe(as_f64(bytes));
        let tls = match tls {
            Some("TLSv1.3") => "1.3",
            Some("TLSv1.2") => "1.2",
            Some(_) => "other",
            None => "none",
        };
        figures.tls.with_label_values(&[tls]).inc();
    }

    /// Counts a recipient that was refused or deferred at RCPT, or a client at MAIL.
    pub fn recipient_refused(&self, reason: Reason) {
        let Some(figures) = self.figures() else { return };
        figures.recipients.with_label_values(&[reason.as_str()]).inc();
    }

    /// Counts a reply of SMTP that refuses or defers, or a connection that is turned away.
    pub fn turned_down(&self, label: &'static str) {
        let Some(figures) = self.figures() else { return };
        figures.turned_down.with_label_values(&[label]).inc();
    }

    /// Measures the steps of an examination, and counts its results unless the scan failed.
    pub fn examined(&self, steps: &[Step], results: Option<&Results>) {
        let Some(figures) = self.figures() else { return };
        for step in steps {
            let took = Duration::from_micros(step.micros).as_secs_f64();
            figures.steps.with_label_values(&[step.facts.name()]).observe(took);
        }
        let Some(results) = results else { return };
        let dkim = results.dkim.iter().map(|signature| &*signature.result);
        let dkim = dkim.min_by_key(|result| *result != "pass").unwrap_or("none");
        let words = [known(&results.spf.result), known(dkim), known(&results.dmarc.result)];
        figures.authentication.with_label_values(&words).inc();
    }

    /// Measures a transaction that committed so many messages together.
    pub fn committed(&self, messages: usize, took: Duration) {
        let Some(figures) = self.figures() else { return };
        figures.commit.observe(took.as_secs_f64());
        figures.commit_messages.observe(as_f64(u64::try_from(messages).unwrap_or(u64::MAX)));
    }

    /// Measures the attempt of this number, from 1, to deliver an event that is so old.
    pub fn attempt(&self, outcome: AttemptOutcome, number: u32, took: Duration, age: Duration) {
        let Some(figures) = self.figures() else { return };
        figures.attempts.with_label_values(&[outcome.as_str()]).inc();
        figures.attempt.observe(took.as_secs_f64());
        if number == 1 {
            figures.first_attempt.observe(age.as_secs_f64());
        }
        if outcome == AttemptOutcome::Delivered {
            figures.attempts_to_success.observe(f64::from(number));
        }
    }

    /// Measures a query of the DNS for incoming mail.
    pub fn looked_up(&self, result: &'static str, took: Duration) {
        let Some(figures) = self.figures() else { return };
        figures.dns.with_label_values(&[result]).inc();
        figures.dns_seconds.observe(took.as_secs_f64());
    }

    /// Counts a request of the API by its operation, whose name is one of the table's, and by the
    /// class of its status.
    pub fn request(&self, operation: &'static str, status: u16) {
        let Some(figures) = self.figures() else { return };
        let class = match status {
            ..300 => "2xx",
            300..400 => "3xx",
            400..500 => "4xx",
            _ => "5xx",
        };
        figures.requests.with_label_values(&[operation, class]).inc();
    }

    /// Counts spans by what became of them.
    pub fn spans(&self, outcome: SpanOutcome, count: u64) {
        if let Some(figures) = self.figures() {
            figures.count_spans(outcome, count);
        }
    }

    /// Counts a report of a sender on TLS.
    pub fn tls_report(&self, way: ReportWay, fate: TlsReportFate) {
        if let Some(figures) = self.figures() {
            figures.count_tls_report(way, fate, 1);
        }
    }

    /// Counts sessions of such a report, by why they failed; None if they did not.
    pub fn tls_sessions(&self, way: ReportWay, failure: Option<FailureType>, sessions: u64) {
        if let Some(figures) = self.figures() {
            figures.count_tls_sessions(way, failure, sessions);
        }
    }

    /// Sets the gauges.
    pub fn set(&self, gauges: &Gauges) {
        let Some(figures) = self.figures() else { return };
        let show = |figure: &IntGaugeVec, value: Option<u64>| match value {
            Some(value) => {
                let value = i64::try_from(value).unwrap_or(i64::MAX);
                figure.with_label_values(NONE).set(value);
            }
            None => figure.reset(),
        };
        show(&figures.sessions, gauges.sessions);
        show(&figures.memory, gauges.memory_bytes);
        show(&figures.waiting, gauges.waiting_deliveries);
        show(&figures.free, gauges.free_bytes);
        show(&figures.gateways, gauges.living());
        match gauges.overdue {
            Some(overdue) => {
                figures.overdue.with_label_values(NONE).set(overdue.as_secs_f64());
            }
            None => figures.overdue.reset(),
        }
        figures.certificates.reset();
        for (listener, until) in &gauges.certificates {
            figures.certificates.with_label_values(&[listener]).set(until.seconds());
        }
        for (name, pool) in &gauges.connections {
            let open = |state: &str| figures.connections.with_label_values(&[name, state]);
            let used = pool.open.saturating_sub(pool.idle);
            open("used").set(used.into());
            open("free").set(pool.most.saturating_sub(used).into());
        }
    }

    /// Sets whether a condition for taking in mail and changes holds.
    pub fn set_ready(&self, check: &'static str, holds: bool) {
        let Some(figures) = self.figures() else { return };
        figures.ready.with_label_values(&[check]).set(holds.into());
    }

    /// Returns all figures as text of Prometheus (exposition format 0.0.4).
    pub fn text(&self) -> Result<Vec<u8>, MetricsError> {
        let mut text = Vec::new();
        if let Some(figures) = self.figures() {
            TextEncoder::new().encode(&figures.registry.gather(), &mut text)?;
        }
        Ok(text)
    }

    /// Keeps the figures of this moment for the minutes of the page System. Call it each minute.
    pub fn keep_minute(&self, now: Timestamp) {
        if let Some(shared) = &self.0 {
            lock(&shared.history).keep(&shared.figures, now);
        }
    }

    /// Returns the figures since the oldest minute that is kept.
    pub fn last_hour(&self, now: Timestamp) -> LastHour {
        let last = |shared: &Arc<Shared>| lock(&shared.history).last_hour(&shared.figures, now);
        self.0.as_ref().map(last).unwrap_or_default()
    }

    /// Returns when the gateway started, to the second.
    pub fn started(&self) -> Timestamp {
        let seconds = self.figures().map_or(0, |figures| figures.started.get());
        Timestamp::from_millis(seconds.saturating_mul(1_000))
    }

    /// Returns the counts since the start.
    pub fn counts(&self, of: CountOf) -> Counts {
        let Some(figures) = self.figures() else { return Counts::new() };
        let vector = match of {
            CountOf::Messages => &figures.messages,
            CountOf::Recipients => &figures.recipients,
            CountOf::Authentication => &figures.authentication,
            CountOf::Attempts => &figures.attempts,
            CountOf::Queries => &figures.dns,
            CountOf::Tls => &figures.tls,
            CountOf::Requests => &figures.requests,
        };
        figures::counts(&vector.collect())
    }

    /// Returns sizes of messages since the start.
    pub fn sizes(&self) -> Distribution {
        self.figures().map(|figures| Distribution::of(&figures.sizes.collect())).unwrap_or_default()
    }

    /// Returns the numbers of attempts with which deliveries succeeded, since the start.
    pub fn attempts_to_success(&self) -> Distribution {
        let read = |figures: &Figures| Distribution::of(&figures.attempts_to_success.collect());
        self.figures().map(read).unwrap_or_default()
    }
}

words! {
    /// The outcome of an attempt to deliver an event.
    AttemptOutcome {
        Delivered = "delivered",
        /// There will be another attempt.
        Retry = "retry",
        Exhausted = "exhausted",
        Gone = "gone",
    }
}

words! {
    /// The fate of a report on TLS.
    TlsReportFate {
        Kept = "kept",
        /// It was kept before.
        Repeated = "repeated",
        Refused = "refused",
        /// By a fault of this server, or for want of places.
        Deferred = "deferred",
    }
}

/// The fate of spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanOutcome {
    Exported,
    /// Too many waited.
    Dropped,
    /// The collector did not take them, however often it was asked.
    Failed,
    /// The collector took the request and not these.
    Refused,
}

impl SpanOutcome {
    const ALL: &[Self] = &[Self::Exported, Self::Dropped, Self::Failed, Self::Refused];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Exported => "exported",
            Self::Dropped => "dropped",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }
}

/// Figures that are counted by labels.
#[derive(Clone, Copy, Debug)]
pub enum CountOf {
    /// By outcome and reason.
    Messages,
    /// By reason.
    Recipients,
    /// By results of SPF, DKIM and DMARC.
    Authentication,
    /// By outcome.
    Attempts,
    /// By result.
    Queries,
    /// Messages by version.
    Tls,
    /// By operation and class of status.
    Requests,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

fn lock(history: &Mutex<History>) -> MutexGuard<'_, History> {
    history.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A count as a value of a histogram; exact below 2^53.
#[expect(clippy::cast_precision_loss, reason = "histograms count in floating point")]
fn as_f64(count: u64) -> f64 {
    count as f64
}

/// A result of authentication (RFC 8601 §2.7) as a label: words of later versions are one word.
fn known(result: &str) -> &str {
    const KNOWN: &[&str] =
        &["none", "pass", "fail", "softfail", "neutral", "policy", "temperror", "permerror"];
    KNOWN.iter().find(|word| **word == result).map_or("other", |word| word)
}
