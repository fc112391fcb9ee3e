use std::sync::Arc;

use super::history::Durations;
use super::*;
use crate::domain::evidence::dkim::Signature;

const BEGIN: Timestamp = Timestamp::from_millis(1_764_200_000_000);

fn later(minutes: u64) -> Timestamp {
    BEGIN.plus(Duration::from_secs(60 * minutes))
}

fn metrics() -> Metrics {
    Metrics::new(BEGIN).unwrap()
}

fn durations(metrics: &Metrics) -> Durations {
    metrics.last_hour(later(0)).durations
}

fn text(metrics: &Metrics) -> String {
    String::from_utf8(metrics.text().unwrap()).unwrap()
}

fn signature(result: &'static str) -> Signature {
    Signature {
        domain: "d.example".into(),
        selector: None,
        algorithm: None,
        key_bits: None,
        result: result.into(),
        reason: None,
        causes: Vec::new(),
        counts: false,
        aligned: false,
        signed_headers: Vec::new(),
    }
}

const MILLI: Duration = Duration::from_millis(1);

#[test]
fn a_message_is_counted_by_its_answer_and_measured() {
    let metrics = metrics();
    metrics.message(Verdict::Accepted, 2_000, Some("TLSv1.3"), 7 * MILLI);
    metrics.message(Verdict::Refused(Reason::SenderNotAllowed), 900, None, MILLI);
    let text = text(&metrics);
    for line in [
        r#"gatepost_messages_total{outcome="accepted",reason=""} 1"#,
        r#"gatepost_messages_total{outcome="refused",reason="sender_not_allowed"} 1"#,
        r#"gatepost_accept_seconds_bucket{outcome="accepted",le="0.005"} 0"#,
        r#"gatepost_accept_seconds_bucket{outcome="accepted",le="0.01"} 1"#,
        r#"gatepost_message_bytes_bucket{le="1024"} 1"#,
        r#"gatepost_message_tls_total{version="1.3"} 1"#,
        r#"gatepost_message_tls_total{version="none"} 1"#,
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

/// Labels are words of fixed lists, whatever strangers send.
#[test]
fn no_word_of_a_stranger_becomes_a_label() {
    let metrics = metrics();
    metrics.message(Verdict::Accepted, 1, Some("canary-tls"), MILLI);
    let mut results = Results::default();
    results.spf.result = "canary-spf".into();
    results.dmarc.result = "canary-dmarc".into();
    results.dkim = Arc::from([signature("canary-dkim")]);
    metrics.examined(&[], Some(&results));
    let text = text(&metrics);
    assert!(!text.contains("canary"), "{text}");
    let other = r#"gatepost_authentication_total{dkim="other",dmarc="other",spf="other"} 1"#;
    assert!(text.contains(other), "{text}");
}

/// The labels that exist, and the most words of each; a new one needs a bounded list of words.
fn words_of(label: &str) -> usize {
    match label {
        "spf" | "dkim" | "dmarc" => 9,
        "status" | "version" | "pool" => 4,
        "state" | "way" => 2,
        "reason" => Reason::ALL.len() + 50,
        "result" | "check" => 13,
        "listener" | "outcome" => 5,
        "operation" => 125,
        "step" => 24,
        other => panic!("{other} is a label without a list of words"),
    }
}

/// The most lines of one histogram: its bounds, the infinite one, sum and count.
const OF_HISTOGRAM: usize = 20;

/// Counts each pair of words, also those that never meet.
#[test]
fn series_are_as_few_as_the_docs_say() {
    let most: usize = metrics()
        .described()
        .into_iter()
        .map(|figure| {
            let of_one = if figure.kind == "histogram" { OF_HISTOGRAM } else { 1 };
            figure.labels.iter().map(|label| words_of(label)).product::<usize>() * of_one
        })
        .sum();
    let docs = std::fs::read_to_string("docs/monitoring.md").unwrap();
    let (_, said) = docs.split_once("and at most some ").unwrap();
    let said: usize =
        said.split_once(',').map(|(a, b)| format!("{a}{}", &b[..3])).unwrap().parse().unwrap();
    assert!(most <= said && most + 300 > said, "{most}, not {said}");
    let text = text(&metrics());
    let lines = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
    for figure in metrics().described().iter().filter(|figure| figure.kind == "histogram") {
        assert!(lines(&figure.name) <= OF_HISTOGRAM, "{}", figure.name);
    }
}

#[test]
fn the_best_signature_counts() {
    let metrics = metrics();
    let dkim = Arc::from([signature("fail"), signature("pass")]);
    let results = Results { dkim, ..Results::default() };
    metrics.examined(&[], Some(&results));
    let [(labels, 1)] = &metrics.counts(CountOf::Authentication)[..] else { panic!() };
    assert_eq!(labels[0], "pass");
}

#[test]
fn minutes_hold_the_messages_of_their_time_and_the_last_is_under_way() {
    let metrics = metrics();
    let refuse = || metrics.message(Verdict::Refused(Reason::SenderNotAllowed), 1, None, MILLI);
    metrics.message(Verdict::Accepted, 1, None, MILLI);
    metrics.keep_minute(later(1));
    refuse();
    refuse();
    let minutes = metrics.last_hour(later(2)).minutes;
    let messages: Vec<_> = minutes.iter().map(|minute| minute.messages).collect();
    assert_eq!(messages, [[1, 0, 0], [0, 2, 0]]);
    assert_eq!((minutes[0].began, minutes[1].began), (BEGIN, later(1)));
    // An hour is kept, and no more.
    (2..200).for_each(|minute| metrics.keep_minute(later(minute)));
    assert_eq!(metrics.last_hour(later(200)).minutes.len(), 61);
}

#[test]
fn durations_are_of_the_last_hour() {
    let metrics = metrics();
    assert_eq!(durations(&metrics).accepted.percentile(50), None);
    metrics.message(Verdict::Accepted, 1, None, Duration::from_secs(20));
    (1..=61).for_each(|minute| metrics.keep_minute(later(minute)));
    for _ in 0..100 {
        metrics.message(Verdict::Accepted, 1, None, 2 * MILLI);
    }
    let recent = durations(&metrics).accepted;
    assert_eq!(recent.count, 100);
    // Spread evenly between 1 and 2.5 ms, as Prometheus takes it.
    let within = |percent, from: f64, to: f64| {
        let value = recent.percentile(percent).unwrap();
        assert!((from..=to).contains(&value), "p{percent} = {value}");
    };
    within(50, 0.001_74, 0.001_76);
    within(99, 0.002_48, 0.002_5);
}

#[test]
fn values_above_all_buckets_are_estimated_by_the_last_bound() {
    let metrics = metrics();
    metrics.committed(3, Duration::from_secs(600));
    let commits = durations(&metrics).commits;
    assert_eq!(commits.percentile(50), Some(60.0));
    assert_eq!((commits.count, commits.buckets.iter().map(|one| one.1).sum::<u64>()), (1, 0));
}

#[test]
fn first_attempts_and_successes_are_told_from_others() {
    let metrics = metrics();
    metrics.attempt(AttemptOutcome::Retry, 1, MILLI, 3 * MILLI);
    metrics.attempt(AttemptOutcome::Delivered, 2, MILLI, Duration::from_secs(30));
    assert_eq!(durations(&metrics).first_attempts.count, 1);
    assert_eq!(metrics.attempts_to_success().buckets[1], (2.0, 1));
    let counts = metrics.counts(CountOf::Attempts);
    assert_eq!(counts, [(vec!["delivered".to_owned()], 1), (vec!["retry".to_owned()], 1)]);
}

#[test]
fn gauges_show_what_was_set_and_free_space_only_where_it_is_known() {
    let metrics = metrics();
    let gauges = Gauges {
        sessions: Some(3),
        waiting_deliveries: Some(7),
        overdue: Some(Duration::from_millis(1_500)),
        certificates: vec![("smtp", later(1))],
        connections: vec![("mail", PoolLoad { open: 5, idle: 4, most: 9 })],
        ..Gauges::default()
    };
    metrics.set(&gauges);
    let shown = text(&metrics);
    for line in [
        "gatepost_smtp_sessions 3",
        "gatepost_deliveries_waiting 7",
        "gatepost_deliveries_overdue_seconds 1.5",
        r#"gatepost_certificate_end_seconds{listener="smtp"} 1764200060"#,
        r#"gatepost_database_connections{pool="mail",state="used"} 1"#,
        r#"gatepost_database_connections{pool="mail",state="free"} 8"#,
    ] {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
    assert!(!shown.contains("gatepost_free_bytes"), "{shown}");
    metrics.set(&Gauges { free_bytes: Some(9), ..gauges });
    assert!(text(&metrics).contains("gatepost_free_bytes 9"));
    // Nobody knows any more.
    metrics.set(&Gauges::default());
    let shown = text(&metrics);
    for name in ["gatepost_free_bytes ", "gatepost_deliveries_waiting ", "gatepost_smtp_sessions "]
    {
        assert!(!shown.contains(name), "{name}: {shown}");
    }
}

#[test]
fn a_default_one_measures_nothing() {
    let off = Metrics::default();
    off.message(Verdict::Accepted, 1, None, MILLI);
    assert!(off.text().unwrap().is_empty() && off.described().is_empty());
    assert!(off.last_hour(BEGIN).minutes.is_empty());
}
