//! `/system`: the state of this gateway, for operators.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::verdict::Outcome;
use crate::http::typed::{Call, Problem, successes};
use crate::metrics::{CountOf, Counts, Distribution, Gauges, LastHour};
use crate::wire::Date;

/// Shows the state of this gateway
///
/// For the partner's administrators. Nothing in it belongs to a tenant. Figures are of this gateway
/// alone, since its start; durations and minutes are of the last hour.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Show {}

/// The state of a gateway.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "System")]
pub struct SystemState {
    /// The version of the program.
    version: String,
    /// When the gateway started.
    started_at: Date,
    /// The moment of this answer.
    date: Date,
    /// Conditions for taking in mail and changes, as of /readyz.
    checks: Vec<Check>,
    /// Open SMTP sessions; null if the gateway cannot know.
    sessions: Option<u64>,
    /// Memory reserved for messages under way, in bytes; null if the gateway cannot know.
    message_memory_bytes: Option<u64>,
    /// Bytes free where messages are stored; null if the gateway cannot know.
    free_bytes: Option<u64>,
    /// Gateways alive on this store; null if the store does not say.
    gateways: Option<u64>,
    /// Gateways alive by version, which is empty for those that do not say it.
    gateway_versions: Vec<Count>,
    /// Connections to the database.
    connections: u32,
    /// Those of them that are idle.
    idle_connections: u32,
    /// Deliveries that wait, of all gateways; counted up to 10,000. Null if the store does not say.
    waiting_deliveries: Option<u64>,
    /// How long the first of them has been due, in milliseconds, without those to webhooks that
    /// rest, are disabled, or get each room in order.
    overdue_ms: Option<u64>,
    /// Certificates in use.
    certificates: Vec<Certificate>,
    /// Durations of the last hour.
    durations: Durations,
    /// Messages of each minute of the last hour, the oldest first; the last is under way.
    minutes: Vec<MinuteOfMail>,
    /// Messages by outcome and reason; reason is empty for accepted ones.
    messages: Vec<MessageCount>,
    /// Recipients refused at RCPT, and clients at MAIL.
    recipients_refused: Vec<Count>,
    /// Messages by results of SPF, DKIM and DMARC.
    authentication: Vec<AuthenticationCount>,
    /// Attempts to deliver events, by outcome.
    attempts: Vec<Count>,
    /// Successful deliveries by their number of attempts.
    attempts_to_success: Vec<BucketCount>,
    /// Messages by size in bytes.
    sizes: Vec<BucketCount>,
    /// Messages by version of TLS.
    tls: Vec<Count>,
    /// DNS queries for incoming mail, by result.
    dns_queries: Vec<Count>,
    /// Requests, named by operation and class of status: getSystem 2xx.
    requests: Vec<Count>,
}

/// A condition.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Check {
    /// Its name.
    name: &'static str,
    /// Why it does not hold; null if it does.
    fault: Option<&'static str>,
    /// Since when.
    since: Date,
}

/// A certificate in use: of those for several names, the one that ends first.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Certificate {
    /// smtp, https, or mta-sts for the hosts of policies.
    listener: &'static str,
    /// The end of its validity.
    ends_at: Date,
}

/// Durations of the last hour.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Durations {
    /// Accepted messages, from the last octet to the reply.
    accept: Percentiles,
    /// From an event to the end of its first attempt.
    first_attempt: Percentiles,
    /// Transactions that commit messages.
    commit: Percentiles,
    /// DNS queries for incoming mail.
    dns_query: Percentiles,
}

/// A distribution of durations, in microseconds; null without any.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Percentiles")]
struct Percentiles {
    /// The number of values.
    count: u64,
    /// The median.
    p50_micros: Option<u64>,
    /// The 95th percentile.
    p95_micros: Option<u64>,
    /// The 99th percentile.
    p99_micros: Option<u64>,
}

/// The messages of a minute.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct MinuteOfMail {
    /// When it began.
    began: Date,
    /// Messages accepted.
    accepted: u64,
    /// Messages refused.
    refused: u64,
    /// Messages deferred.
    deferred: u64,
}

/// Messages of one outcome and reason.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct MessageCount {
    /// accepted, refused or deferred.
    outcome: String,
    /// The reason.
    reason: String,
    /// The number of messages.
    count: u64,
}

/// Messages with these results (RFC 8601).
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct AuthenticationCount {
    /// The result of SPF.
    spf: String,
    /// The result of the best signature.
    dkim: String,
    /// The result of DMARC.
    dmarc: String,
    /// The number of messages.
    count: u64,
}

/// A number of things with one name.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "NamedCount")]
struct Count {
    /// The name.
    name: String,
    /// The number.
    count: u64,
}

/// A number of values up to a bound.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "BucketCount")]
struct BucketCount {
    /// Values up to this one, and above that of the bucket before; null for all above.
    up_to: Option<u64>,
    /// Their number.
    count: u64,
}

successes! {
    Shown { system: SystemState } = OK "state of the gateway found";
}

pub async fn show(call: Call, _: Show) -> Result<Shown, Problem> {
    let system = &call.http.use_cases.system;
    let (gauges, checks) = (system.gauges().await, checks(&call).await);
    let now = call.http.mint.clock().now();
    let metrics = &system.metrics;
    let last = metrics.last_hour(now);
    let counts = |of| named(metrics.counts(of));
    let Gauges { waiting_deliveries, free_bytes, .. } = gauges;
    let pools = || gauges.connections.iter().map(|(_, pool)| pool);
    let system = SystemState {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: Date(metrics.started()),
        date: Date(now),
        checks,
        sessions: gauges.sessions,
        message_memory_bytes: gauges.memory_bytes,
        free_bytes,
        gateways: gauges.living(),
        gateway_versions: gauges.gateways.iter().flatten().map(version).collect(),
        connections: pools().map(|pool| pool.open).sum(),
        idle_connections: pools().map(|pool| pool.idle).sum(),
        waiting_deliveries,
        overdue_ms: gauges.overdue.and_then(|overdue| u64::try_from(overdue.as_millis()).ok()),
        certificates: gauges.certificates.iter().map(certificate).collect(),
        durations: durations(&last),
        minutes: last.minutes.iter().map(minute).collect(),
        messages: metrics.counts(CountOf::Messages).into_iter().filter_map(messages).collect(),
        recipients_refused: counts(CountOf::Recipients),
        authentication: metrics
            .counts(CountOf::Authentication)
            .into_iter()
            .filter_map(authentication)
            .collect(),
        attempts: counts(CountOf::Attempts),
        attempts_to_success: buckets(&metrics.attempts_to_success()),
        sizes: buckets(&metrics.sizes()),
        tls: counts(CountOf::Tls),
        dns_queries: counts(CountOf::Queries),
        requests: counts(CountOf::Requests),
    };
    Ok(Shown { system })
}

async fn checks(call: &Call) -> Vec<Check> {
    let checks = call.http.readiness.check(call.http.shutdown.is_stopping()).await;
    let checks = checks.into_iter().map(|one| Check {
        name: one.name,
        fault: one.fault.map(|fault| fault.cause),
        since: Date(one.since),
    });
    checks.collect()
}

fn durations(LastHour { durations, .. }: &LastHour) -> Durations {
    let percentiles = |recent: &Distribution| {
        let micros = |percent| recent.percentile(percent).map(|seconds| whole(seconds * 1e6));
        Percentiles {
            count: recent.count,
            p50_micros: micros(50),
            p95_micros: micros(95),
            p99_micros: micros(99),
        }
    };
    Durations {
        accept: percentiles(&durations.accepted),
        first_attempt: percentiles(&durations.first_attempts),
        commit: percentiles(&durations.commits),
        dns_query: percentiles(&durations.queries),
    }
}

fn certificate((listener, end): &(&'static str, crate::domain::clock::Timestamp)) -> Certificate {
    Certificate { listener, ends_at: Date(*end) }
}

fn minute(one: &crate::metrics::Minute) -> MinuteOfMail {
    let of = |outcome: Outcome| {
        let place = Outcome::ALL.iter().position(|one| *one == outcome);
        place.and_then(|place| one.messages.get(place)).copied().unwrap_or(0)
    };
    MinuteOfMail {
        began: Date(one.began),
        accepted: of(Outcome::Accepted),
        refused: of(Outcome::Refused),
        deferred: of(Outcome::Deferred),
    }
}

fn messages((labels, count): (Vec<String>, u64)) -> Option<MessageCount> {
    let [outcome, reason] = labels.try_into().ok()?;
    Some(MessageCount { outcome, reason, count })
}

fn authentication((labels, count): (Vec<String>, u64)) -> Option<AuthenticationCount> {
    // The crate sorts labels by their names.
    let [dkim, dmarc, spf] = labels.try_into().ok()?;
    Some(AuthenticationCount { spf, dkim, dmarc, count })
}

fn version((version, gateways): &(String, u64)) -> Count {
    Count { name: version.clone(), count: *gateways }
}

fn named(counts: Counts) -> Vec<Count> {
    let count = |(labels, count): (Vec<String>, u64)| Count { name: labels.join(" "), count };
    counts.into_iter().map(count).collect()
}

fn buckets(distribution: &Distribution) -> Vec<BucketCount> {
    let within: u64 = distribution.buckets.iter().map(|(_, count)| count).sum();
    let above = BucketCount { up_to: None, count: distribution.count.saturating_sub(within) };
    let bucket =
        |(bound, count): &(f64, u64)| BucketCount { up_to: Some(whole(*bound)), count: *count };
    distribution.buckets.iter().map(bucket).chain([above]).collect()
}

/// Rounds a value that is not negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "durations and bounds are not negative, and `as` saturates"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}
