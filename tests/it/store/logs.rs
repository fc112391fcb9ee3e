//! The conversation log: the same rows, in the same order, on both databases.

use std::cmp::Ordering;
use std::time::Duration;

use bytes::Bytes;
use gatepost::app::mailbox::logs::cell;
use gatepost::domain::account::Account;
use gatepost::domain::clock::TimeRange;
use gatepost::domain::condition::{Condition, LogFilter, Scalar, Test};
use gatepost::domain::contact::Handle;
use gatepost::domain::event::Category;
use gatepost::domain::formula::Formula;
use gatepost::domain::log_field::{Kind as Values, LogField, LogValue, Op};
use gatepost::domain::metric::{Grouping, Interval};
use gatepost::domain::reason::Reason;
use gatepost::domain::source::Source;
use gatepost::domain::verdict::Verdict;
use gatepost::store::{Bucketing, Cursor, Intake, LogRow, Page};
use uuid::Uuid;

use super::scene::{DAY, Kind, Scene, address, at, everything, record, subtree};

on_both! {
    rows_are_found_by_every_comparison,
    pages_follow_each_other_and_are_counted,
    deliveries_are_told_to_those_whose_they_are,
    deliveries_of_events_that_are_no_arrivals_are_not_counted,
    every_comparison_of_every_field_is_understood,
    what_others_have_does_not_end_a_walk,
    what_retention_took_is_not_told_as_none,
}

/// Five rows of one Agent, told apart by their sizes, and one of another.
pub async fn rows(kind: Kind) -> Scene {
    let scene = Scene::new(kind).await;
    scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    let mut accepted = scene.intake(&scene.agent, 0).await;
    accepted.record.took = Some(Duration::from_micros(12_500));
    accepted.record.size = 1;
    accepted.accepted.as_mut().unwrap().raw = Bytes::from_static(b"1");
    let mut refused = record(&scene.agent, DAY, Verdict::Refused(Reason::DkimMissing));
    (refused.size, refused.took) = (2, Some(Duration::from_micros(250)));
    let mut counted = record(&scene.agent, DAY, Verdict::Refused(Reason::UnknownRecipient));
    (counted.size, counted.count, counted.sender) = (0, 3, None);
    let mut deferred = record(&scene.agent, 2 * DAY, Verdict::Deferred(Reason::DnsUnavailable));
    (deferred.size, deferred.sender) = (4, Some(Handle::Mailbox(address("Bob@good.example"))));
    let mut sms = record(&scene.agent, 8 * DAY, Verdict::Accepted);
    (sms.size, sms.source, sms.recipient) = (5, Source::Sms, "100%_Desk".into());
    let other = scene.intake(&scene.other, 0).await;
    scene.commit(vec![accepted], 0).await;
    scene.store.count_refusal(&counted, "192.0.2.0/24").await.unwrap();
    for record in [refused, deferred, sms] {
        scene.commit(vec![Intake { record, accepted: None }], 0).await;
    }
    scene.commit(vec![other], 0).await;
    scene
}

fn filter(conditions: &[(LogField, Op, &str)]) -> LogFilter {
    let conditions = conditions.iter().map(|(field, op, value)| {
        let values: Vec<_> = value.split(',').collect();
        Condition::new(*field, *op, &values).unwrap()
    });
    LogFilter { conditions: conditions.collect(), since: None, before: None }.narrowed()
}

async fn sizes(scene: &Scene, filter: &LogFilter, page: &Page) -> Vec<LogValue> {
    let scope = subtree(&scene.agent);
    let found = scene.store.logs(&scope, filter, page, &[LogField::Size]).await.unwrap();
    let total = scene.store.count_logs(&scope, filter, page).await.unwrap();
    assert_eq!(usize::try_from(total).unwrap(), found.len());
    found.into_iter().map(|row| row.values[0].clone()).collect()
}

async fn rows_are_found_by_every_comparison(kind: Kind) {
    let scene = rows(kind).await;
    let day = (at(DAY).seconds().to_string(), at(DAY).to_string());
    for (conditions, expected) in [
        (vec![], "5 4 2 0 1"),
        (vec![(LogField::Size, Op::Eq, "4")], "4"),
        (vec![(LogField::Size, Op::Ne, "4")], "5 2 0 1"),
        (vec![(LogField::Size, Op::Gt, "1"), (LogField::Size, Op::Lte, "4")], "4 2"),
        (vec![(LogField::Size, Op::In, "1,5,9")], "5 1"),
        (vec![(LogField::Size, Op::Nin, "1,5,9")], "4 2 0"),
        (vec![(LogField::LatencyMs, Op::Gte, "0.25")], "2 1"),
        (vec![(LogField::LatencyMs, Op::Eq, "12.5")], "1"),
        (vec![(LogField::LatencyMs, Op::Isset, "false")], "5 4 0"),
        (vec![(LogField::Count, Op::Eq, "3")], "0"),
        (vec![(LogField::Timestamp, Op::Eq, &day.0)], "2 0"),
        (vec![(LogField::Timestamp, Op::Gt, &day.0)], "5 4"),
        (vec![(LogField::Date, Op::Lt, &day.1)], "1"),
        (vec![(LogField::Date, Op::Ne, &day.1)], "5 4 1"),
        (vec![(LogField::Outcome, Op::Eq, "accepted")], "5 1"),
        (vec![(LogField::Reason, Op::Ne, "dkim_missing")], "5 4 0 1"),
        (vec![(LogField::Sender, Op::Eq, "Bob@GOOD.example")], "4"),
        (vec![(LogField::Sender, Op::Isnull, "true")], "0"),
        (vec![(LogField::Sender, Op::Icontains, "BOB@")], "4"),
        (vec![(LogField::Sender, Op::Contains, "BOB@")], ""),
        // No sign stands for others.
        (vec![(LogField::Recipient, Op::Contains, "%_d")], ""),
        (vec![(LogField::Recipient, Op::Icontains, "%_d")], "5"),
        (vec![(LogField::Recipient, Op::Startswith, "100%")], "5"),
        (vec![(LogField::Recipient, Op::Startswith, "%")], ""),
        (vec![(LogField::EventType, Op::Eq, "inbound-sms")], "5"),
        (vec![(LogField::Subject, Op::Eq, "Subject")], "1"),
        (vec![(LogField::RoomId, Op::Isset, "true")], "1"),
        (vec![(LogField::Deliveries, Op::Gte, "1")], "1"),
        (vec![(LogField::Uuid, Op::Isnull, "true"), (LogField::Outcome, Op::Eq, "accepted")], "5"),
        (vec![(LogField::Metadata, Op::Ne, "x")], "5 4 2 0 1"),
        (vec![(LogField::Metadata, Op::Eq, "x")], ""),
    ] {
        let mut found = sizes(&scene, &filter(&conditions), &everything()).await;
        // Two rows have one time: their order is that of their ids.
        let wanted: Vec<_> =
            expected.split_whitespace().map(|size| size.parse().unwrap()).collect();
        let mut wanted: Vec<_> = wanted.into_iter().map(LogValue::Integer).collect();
        let number = |value: &LogValue| match value {
            LogValue::Integer(number) => *number,
            other => panic!("{other:?}"),
        };
        if expected.contains("2 0") {
            found.sort_by_key(number);
            wanted.sort_by_key(number);
        }
        assert_eq!(found, wanted, "{conditions:?}");
    }
}

/// Whether a row fulfils a comparison, by another reading of it.
fn holds(condition: &Condition, row: &LogRow) -> bool {
    let value = &row.values[0];
    let values = match &condition.test {
        Test::IsSet(wanted) => return *wanted == (value != &LogValue::Null),
        Test::Values(values) => values,
    };
    let compare = |scalar: &Scalar| match (value, scalar) {
        (LogValue::Null, _) => None,
        (LogValue::Integer(one), Scalar::Integer(other)) => Some(one.cmp(other)),
        (LogValue::Time(one), Scalar::Integer(other)) => Some(one.millis().cmp(other)),
        (LogValue::Real(one), Scalar::Decimal(other)) => one.partial_cmp(&other.value()),
        (LogValue::Text(one), Scalar::Text(other)) => Some(one.cmp(other)),
        (LogValue::Id(one), Scalar::Id(other)) => Some(one.cmp(other)),
        other => panic!("{other:?}"),
    };
    let any = |wanted: &[Ordering]| {
        values.iter().any(|scalar| compare(scalar).is_some_and(|is| wanted.contains(&is)))
    };
    let text = |test: fn(&str, &str) -> bool| match (value, values.as_slice()) {
        (LogValue::Text(one), [Scalar::Text(other)]) => test(one, other),
        _ => false,
    };
    match condition.op {
        Op::Eq | Op::In => any(&[Ordering::Equal]),
        Op::Ne | Op::Nin => !any(&[Ordering::Equal]),
        Op::Gt => any(&[Ordering::Greater]),
        Op::Gte => any(&[Ordering::Greater, Ordering::Equal]),
        Op::Lt => any(&[Ordering::Less]),
        Op::Lte => any(&[Ordering::Less, Ordering::Equal]),
        Op::Contains => text(|one, other| one.contains(other)),
        Op::Icontains => {
            text(|one, other| one.to_ascii_lowercase().contains(&other.to_ascii_lowercase()))
        }
        Op::Startswith => text(|one, other| one.starts_with(other)),
        Op::Isnull | Op::Isset => unreachable!(),
    }
}

async fn every_comparison_of_every_field_is_understood(kind: Kind) {
    let scene = rows(kind).await;
    let scopes = [subtree(&scene.agent), subtree(&scene.partner).only(vec![scene.agent.id])];
    for field in LogField::ALL {
        let (none, page) = (LogFilter::default(), everything());
        let all = scene.store.logs(&scopes[0], &none, &page, &[*field]).await.unwrap();
        assert_eq!(all.len(), 5);
        for op in field.kind().ops() {
            let mut values = vec![match (op, field.kind()) {
                (Op::Isnull | Op::Isset, _) => "true".to_owned(),
                (_, Values::Id) => "0198c0de-0000-7000-8000-000000000000".to_owned(),
                (_, Values::Text | Values::Unfilled) => "' OR 1=1 --".to_owned(),
                _ => "7".to_owned(),
            }];
            if !matches!(op, Op::Isnull | Op::Isset) {
                values.extend(all.iter().map(|row| cell(&row.values[0])));
                values.retain(|value| !value.is_empty());
            }
            let row = |number: usize| all[number].place;
            for value in values {
                let condition = Condition::new(*field, *op, &[&value]).unwrap();
                let wanted = all.iter().enumerate().filter(|(_, row)| holds(&condition, row));
                let wanted: Vec<_> = wanted.map(|(number, _)| row(number)).collect();
                let filter = filter(&[(*field, *op, &value)]);
                for scope in &scopes {
                    let page = everything();
                    let found = scene.store.logs(scope, &filter, &page, &[*field]).await.unwrap();
                    let found: Vec<_> = found.iter().map(|row| row.place).collect();
                    assert_eq!(found, wanted, "{field:?} {op} {value} {scope:?}");
                    let count = scene.store.count_logs(scope, &filter, &page).await.unwrap();
                    assert_eq!(usize::try_from(count).unwrap(), wanted.len());
                }
            }
        }
    }
}

async fn pages_follow_each_other_and_are_counted(kind: Kind) {
    let scene = rows(kind).await;
    let scope = subtree(&scene.agent);
    let filter = filter(&[(LogField::Size, Op::Ne, "4")]);
    let all = scene.store.logs(&scope, &filter, &everything(), &[LogField::Id]).await.unwrap();
    assert_eq!(all.len(), 4);
    let mut walked: Vec<LogRow> = Vec::new();
    let mut page = Page { limit: 3, from: None, until: None };
    for skip in [0, 3] {
        if skip > 0 {
            let place = scene.store.log_place(&scope, &filter, None, skip).await.unwrap();
            page = page.behind(place.unwrap());
        }
        walked.extend(scene.store.logs(&scope, &filter, &page, &[LogField::Id]).await.unwrap());
    }
    assert_eq!(walked, all);
    assert_eq!(scene.store.log_place(&scope, &filter, None, 5).await.unwrap(), None);
    // Rows beyond `until` are neither shown nor counted.
    let until = Some(Cursor { at: at(DAY), id: Uuid::nil() });
    let page = Page { until, ..everything() };
    assert_eq!(scene.store.count_logs(&scope, &filter, &page).await.unwrap(), 3);
    assert_eq!(scene.store.log_place(&scope, &filter, until, 4).await.unwrap(), None);
}

async fn deliveries_are_told_to_those_whose_they_are(kind: Kind) {
    let scene = rows(kind).await;
    scene.listen(&scene.reseller, Category::Incoming, "https://r.example/").await;
    scene.deliver(&scene.agent, 9 * DAY).await;
    let fields = [LogField::Deliveries, LogField::Pending, LogField::Delivered];
    let filter = LogFilter { since: Some(at(9 * DAY)), ..LogFilter::default() };
    for (scope, expected) in [
        (subtree(&scene.agent), 1),
        (subtree(&scene.organization), 1),
        (subtree(&scene.reseller), 2),
        (subtree(&scene.partner), 2),
        (subtree(&scene.partner).only(vec![scene.agent.id]), 1),
    ] {
        let found = scene.store.logs(&scope, &filter, &everything(), &fields).await.unwrap();
        let wanted = [expected, expected, 0].map(LogValue::Integer);
        assert_eq!(found[0].values, wanted, "{scope:?}");
    }
}

/// An event may name a message and tell of something else than its arrival.
async fn deliveries_of_events_that_are_no_arrivals_are_not_counted(kind: Kind) {
    let scene = Scene::new(kind).await;
    for category in [Category::Incoming, Category::Conversation, Category::Contact] {
        scene.listen(&scene.agent, category, "https://a.example/").await;
    }
    scene.deliver(&scene.agent, 0).await;
    let told = async || {
        let (scope, filter) = (subtree(&scene.agent), LogFilter::default());
        let fields = [LogField::Deliveries, LogField::Pending];
        let found = scene.store.logs(&scope, &filter, &everything(), &fields).await.unwrap();
        found[0].values.clone()
    };
    assert_eq!(told().await, [3, 3].map(LogValue::Integer));
    scene.execute("UPDATE events SET names = names || ' agent.published'").await;
    scene.execute("UPDATE deliveries SET event_number = 4 WHERE event_number = 3").await;
    assert_eq!(told().await, [2, 2].map(LogValue::Integer));
}

async fn what_others_have_does_not_end_a_walk(kind: Kind) {
    let scene = Scene::new(kind).await;
    for millis in 1..=6 {
        scene.deliver(if millis % 2 == 0 { &scene.agent } else { &scene.other }, millis).await;
    }
    let stranger = scene.stranger().await;
    let end = async |only: &[&Account], (since, before), most| {
        let time = TimeRange { since, before };
        let only = only.iter().map(|account| account.id).collect();
        let scope = subtree(&scene.partner).only(only);
        scene.store.end_of_log(&scope, time, most).await.unwrap().map(|place| place.at)
    };
    let ever = (None, None);
    let own = [&scene.agent];
    assert_eq!(end(&own, ever, 1).await, Some(at(6)));
    assert_eq!(end(&own, ever, 3).await, Some(at(2)));
    assert_eq!(end(&own, ever, 4).await, None);
    assert_eq!(end(&own, (Some(at(3)), Some(at(6))), 1).await, Some(at(4)));
    assert_eq!(end(&own, (Some(at(3)), Some(at(6))), 2).await, None);
    let both = [&scene.agent, &stranger, &scene.other];
    assert_eq!(end(&both, ever, 2).await, Some(at(5)));
    assert_eq!(end(&both, (Some(at(3)), None), 4).await, Some(at(3)));
    assert_eq!(end(&both, ever, 7).await, None);
    assert_eq!(end(&[], ever, 1).await, None);
}

async fn what_retention_took_is_not_told_as_none(kind: Kind) {
    let scene = rows(kind).await;
    let fields = [LogField::Size, LogField::Deliveries, LogField::Pending];
    let told = async || {
        let (scope, all) = (subtree(&scene.agent), LogFilter::default());
        let found = scene.store.logs(&scope, &all, &everything(), &fields).await.unwrap();
        let of = |size: i64| {
            let mut rows = found.iter();
            let row = rows.find(|row| row.values[0] == LogValue::Integer(size)).unwrap();
            row.values[1..].to_vec()
        };
        (of(1), of(2))
    };
    let (one, none) = (LogValue::Integer(1), LogValue::Integer(0));
    let refused = vec![none.clone(), none];
    assert_eq!(told().await, (vec![one.clone(), one], refused.clone()));
    scene.execute("DELETE FROM deliveries").await;
    let none = vec![LogValue::Integer(0), LogValue::Integer(0)];
    assert_eq!(told().await, (none, refused.clone()));
    scene.execute("DELETE FROM events").await;
    assert_eq!(told().await, (vec![LogValue::Null, LogValue::Null], refused));
}

/// Every statement of the log, at every level.
pub async fn exercise(scene: &Scene) {
    let Scene { store, partner, reseller, organization, agent, .. } = scene;
    let one = Formula::parse("latencyMs / deliveries + (outcome == 'x') * 2.5").unwrap();
    let asked = [
        LogFilter::default(),
        filter(&[(LogField::Subject, Op::Icontains, "x"), (LogField::Reason, Op::In, "a,b")]),
        filter(&[(LogField::Delivered, Op::Gte, "1"), (LogField::Timestamp, Op::Gt, "1")]),
    ];
    let until = Some(Cursor { at: at(-DAY), id: Uuid::nil() });
    let page = Page { limit: 9, from: None, until };
    for account in [partner, reseller, organization, agent] {
        let both = subtree(account).only(vec![agent.id, scene.other.id]);
        let nine = TimeRange { since: Some(at(0)), before: Some(at(9)) };
        for time in [TimeRange::default(), nine] {
            store.end_of_log(&both, time, 2).await.unwrap();
        }
        for scope in [subtree(account), subtree(account).only(vec![agent.id])] {
            store.end_of_log(&scope, TimeRange::default(), 2).await.unwrap();
            for filter in &asked {
                for page in [page, page.behind(Cursor { at: at(DAY), id: Uuid::nil() })] {
                    store.logs(&scope, filter, &page, LogField::ALL).await.unwrap();
                    store.count_logs(&scope, filter, &page).await.unwrap();
                }
                store.log_place(&scope, filter, until, 3).await.unwrap();
                let grouping = Some(Grouping::Reason);
                let by = Bucketing { interval: Interval::Week, grouping };
                store.log_tallies(&scope, filter, &one, by, 9).await.unwrap();
            }
        }
    }
}
