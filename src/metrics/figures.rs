//! The declaration of each figure: name, meaning, labels, buckets.

use std::cell::RefCell;

use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{
    GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, Result,
};

use crate::domain::tls_report::{FailureType, ReportWay};

/// In front of each name.
const PREFIX: &str = "gatepost";

/// Upper bounds in seconds of durations that people wait for.
const WAITS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    30.0, 60.0,
];
/// Upper bounds in seconds of steps, most of which take microseconds.
const STEPS: &[f64] =
    &[0.000_01, 0.000_05, 0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.01, 0.05, 0.25, 1.0, 5.0];
/// Upper bounds in bytes.
const SIZES: &[f64] = &[
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
/// Upper bounds of counts.
const COUNTS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];
const NUMBERS: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0];

pub(super) struct Figures {
    pub(super) registry: Registry,
    pub(super) described: Vec<Described>,
    pub(super) version: IntGaugeVec,
    pub(super) started: IntGauge,
    pub(super) messages: IntCounterVec,
    pub(super) recipients: IntCounterVec,
    pub(super) turned_down: IntCounterVec,
    pub(super) accept: HistogramVec,
    pub(super) steps: HistogramVec,
    pub(super) sizes: Histogram,
    pub(super) authentication: IntCounterVec,
    pub(super) tls: IntCounterVec,
    pub(super) commit: Histogram,
    pub(super) commit_messages: Histogram,
    pub(super) attempts: IntCounterVec,
    pub(super) attempt: Histogram,
    pub(super) first_attempt: Histogram,
    pub(super) attempts_to_success: Histogram,
    pub(super) dns: IntCounterVec,
    pub(super) dns_seconds: Histogram,
    pub(super) requests: IntCounterVec,
    pub(super) spans: IntCounterVec,
    pub(super) tls_reports: IntCounterVec,
    pub(super) tls_report_sessions: IntCounterVec,
    pub(super) ready: IntGaugeVec,
    // Without a label: each is absent while nobody knows it.
    pub(super) sessions: IntGaugeVec,
    pub(super) memory: IntGaugeVec,
    pub(super) waiting: IntGaugeVec,
    pub(super) overdue: GaugeVec,
    pub(super) free: IntGaugeVec,
    pub(super) certificates: IntGaugeVec,
    pub(super) gateways: IntGaugeVec,
    pub(super) connections: IntGaugeVec,
}

impl Figures {
    #[rustfmt::skip]
    pub(super) fn declare() -> Result<Self> {
        let registry = Registry::new_custom(Some(PREFIX.into()), None)?;
        let into = Declaring { registry, described: RefCell::default() };
        Ok(Self {
            version: into.gauges("build_info", "1, with the version as label", &["version"])?,
            started: into.gauge("start_time_seconds", "When the gateway started, in Unix seconds")?,
            messages: into.counters("messages_total", "Messages by their answer; reason is empty for accepted ones", &["outcome", "reason"])?,
            recipients: into.counters("recipients_refused_total", "Recipients refused or deferred at RCPT, and clients at MAIL", &["reason"])?,
            turned_down: into.counters("smtp_refused_total", "Replies of SMTP that refuse or defer anything, those to messages and recipients, too, and connections turned away", &["reason"])?,
            accept: into.histograms("accept_seconds", "From the last octet of a message to its reply", WAITS, &["outcome"])?,
            steps: into.histograms("step_seconds", "Steps of the examination of a message, which all its recipients share", STEPS, &["step"])?,
            sizes: into.histogram("message_bytes", "Sizes of messages", SIZES)?,
            authentication: into.counters("authentication_total", "Messages by results of SPF, DKIM (pass if one signature passes, else that of the first) and DMARC", &["spf", "dkim", "dmarc"])?,
            tls: into.counters("message_tls_total", "Messages by version of TLS", &["version"])?,
            commit: into.histogram("commit_seconds", "Transactions that commit messages", WAITS)?,
            commit_messages: into.histogram("commit_messages", "Messages that one transaction commits", COUNTS)?,
            attempts: into.counters("attempts_total", "Attempts to deliver an event to a webhook", &["outcome"])?,
            attempt: into.histogram("attempt_seconds", "Attempts, from the request to the end of the answer", WAITS)?,
            first_attempt: into.histogram("first_attempt_seconds", "From an event to the end of its first attempt; a delivery that is sent again counts again", WAITS)?,
            attempts_to_success: into.histogram("attempts_to_success", "Attempts that successful deliveries took", NUMBERS)?,
            dns: into.counters("dns_queries_total", "DNS queries for incoming mail: records, nothing (no such records), failed", &["result"])?,
            dns_seconds: into.histogram("dns_seconds", "DNS queries for incoming mail", WAITS)?,
            requests: into.counters("requests_total", "Requests of the API by operation and class of status, those of streams at their beginning; pages of the console are none", &["operation", "status"])?,
            spans: into.counters("spans_total", "Spans of traces by what became of them: exported, dropped because too many waited, failed because the collector could not be reached, refused by it", &["outcome"])?,
            tls_reports: into.counters("tls_reports_total", "Reports of senders on TLS by how they came and what became of them", &["way", "outcome"])?,
            tls_report_sessions: into.counters("tls_report_sessions_total", "Sessions of which such reports tell, which are claims, posted ones of anybody: success, or why they failed by RFC 8460", &["way", "result"])?,
            ready: into.gauges("ready", "1 while the condition for taking in mail and changes holds, as of /readyz", &["check"])?,
            sessions: into.gauges("smtp_sessions", "Open SMTP sessions", &[])?,
            memory: into.gauges("message_memory_bytes", "Memory reserved for messages under way", &[])?,
            waiting: into.gauges("deliveries_waiting", "Deliveries that wait for an attempt, of all gateways; counted up to 10,000", &[])?,
            overdue: into.floats("deliveries_overdue_seconds", "How long the first waiting delivery has been due, without those to webhooks that rest, are disabled, or get each room in order")?,
            free: into.gauges("free_bytes", "Bytes free where messages are stored; absent where the gateway cannot know, as on PostgreSQL without a folder for originals", &[])?,
            certificates: into.gauges("certificate_end_seconds", "End of the certificate in use, in Unix seconds", &["listener"])?,
            gateways: into.gauges("gateways", "Gateways alive on this store", &[])?,
            connections: into.gauges("database_connections", "Connections to the database, by the work that they are kept for: used, and free to be used; of the embedded store those that read", &["pool", "state"])?,
            registry: into.registry,
            described: into.described.into_inner(),
        })
    }
}

impl Figures {
    pub(super) fn count_spans(&self, outcome: super::SpanOutcome, count: u64) {
        self.spans.with_label_values(&[outcome.as_str()]).inc_by(count);
    }

    pub(super) fn count_tls_report(&self, way: ReportWay, fate: super::TlsReportFate, count: u64) {
        self.tls_reports.with_label_values(&[way.as_str(), fate.as_str()]).inc_by(count);
    }

    pub(super) fn count_tls_sessions(
        &self,
        way: ReportWay,
        failure: Option<FailureType>,
        sessions: u64,
    ) {
        let result = failure.map_or("success", FailureType::as_str);
        self.tls_report_sessions.with_label_values(&[way.as_str(), result]).inc_by(sessions);
    }
}

/// A figure as the reference explains it.
#[derive(Clone, Debug)]
pub struct Described {
    /// Its name, without the suffixes of a histogram.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    pub labels: Vec<String>,
    pub meaning: String,
}

/// Declares figures in a registry, and describes them.
struct Declaring {
    registry: Registry,
    described: RefCell<Vec<Described>>,
}

impl Declaring {
    fn register<T: Collector + Clone + 'static>(&self, kind: &'static str, figure: T) -> Result<T> {
        self.registry.register(Box::new(figure.clone()))?;
        self.described.borrow_mut().extend(figure.desc().into_iter().map(|desc| Described {
            name: format!("{PREFIX}_{}", desc.fq_name),
            kind,
            labels: desc.variable_labels.clone(),
            meaning: desc.help.clone(),
        }));
        Ok(figure)
    }

    fn counters(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec> {
        self.register("counter", IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    fn gauge(&self, name: &str, help: &str) -> Result<IntGauge> {
        self.register("gauge", IntGauge::new(name, help)?)
    }

    fn floats(&self, name: &str, help: &str) -> Result<GaugeVec> {
        self.register("gauge", GaugeVec::new(Opts::new(name, help), &[])?)
    }

    fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec> {
        self.register("gauge", IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    fn histogram(&self, name: &str, help: &str, buckets: &[f64]) -> Result<Histogram> {
        let opts = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.register("histogram", Histogram::with_opts(opts)?)
    }

    fn histograms(
        &self,
        name: &str,
        help: &str,
        buckets: &[f64],
        labels: &[&str],
    ) -> Result<HistogramVec> {
        let opts = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.register("histogram", HistogramVec::new(opts, labels)?)
    }
}

/// Returns the counts of families by their labels' values, in the order of these.
pub(super) fn counts(families: &[MetricFamily]) -> super::Counts {
    let metrics = families.iter().flat_map(MetricFamily::get_metric);
    let count = |metric: &prometheus::proto::Metric| {
        let labels = metric.get_label().iter().map(|label| label.value().to_owned());
        (labels.collect(), whole(metric.get_counter().get_value()))
    };
    let mut counts: super::Counts = metrics.map(count).filter(|(_, count)| *count > 0).collect();
    counts.sort();
    counts
}

/// A count that the crate returns as a floating-point number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counters are whole and not negative"
)]
fn whole(value: f64) -> u64 {
    value as u64
}
