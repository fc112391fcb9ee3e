//! Metrics over the conversation log: the same sums on both databases.

use gatepost::domain::condition::LogFilter;
use gatepost::domain::formula::{Formula, Operator};
use gatepost::domain::log_field::{LogField, LogValue};
use gatepost::domain::metric::{Grouping, Interval, Tally};
use gatepost::store::Bucketing;
use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use super::logs::rows;
use super::scene::{DAY, Kind, at, everything, subtree};

on_both! {
    a_formula_comes_to_what_it_says,
    buckets_are_those_of_the_calendar,
}

/// Evaluates a formula for a row by a second implementation.
fn value(formula: &Formula, row: &[LogValue], fields: &[LogField]) -> Option<f64> {
    let of = |field: &LogField| &row[fields.iter().position(|known| known == field).unwrap()];
    let truth = |truth: bool| Some(if truth { 1.0 } else { 0.0 });
    match formula {
        Formula::Constant(number) => Some(number.value()),
        Formula::Field(field) => match of(field) {
            LogValue::Integer(number) => Some(*number as f64),
            LogValue::Real(number) => Some(*number),
            LogValue::Null => None,
            other => panic!("{other:?}"),
        },
        Formula::Is { field, text, negated } => {
            truth((of(field) == &LogValue::Text(text.clone())) != *negated)
        }
        Formula::Negate(inner) => value(inner, row, fields).map(|number| -number),
        Formula::Calculate(operator, one, other) => {
            let (one, other) = (value(one, row, fields)?, value(other, row, fields)?);
            match operator {
                Operator::Add => Some(one + other),
                Operator::Subtract => Some(one - other),
                Operator::Multiply => Some(one * other),
                Operator::Divide => (other != 0.0).then(|| one / other),
                Operator::Less => truth(one < other),
                Operator::LessOrEqual => truth(one <= other),
                Operator::Greater => truth(one > other),
                Operator::GreaterOrEqual => truth(one >= other),
                Operator::Equal => truth(one == other),
                Operator::NotEqual => truth(one != other),
            }
        }
    }
}

/// Any formula, as text.
fn formulas() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("0"),
        Just("1"),
        Just("2.5"),
        Just("0.001"),
        Just("size"),
        Just("count"),
        Just("latencyMs"),
        Just("deliveries"),
        Just("delivered"),
        Just("(outcome == 'refused')"),
        Just("(reason != \"dkim_missing\")"),
        Just("(subject == 'Subject')"),
    ];
    leaf.prop_map(str::to_owned).prop_recursive(4, 20, 2, |inner| {
        let sign = prop_oneof![
            Just("+"),
            Just("-"),
            Just("*"),
            Just("/"),
            Just("<"),
            Just("<="),
            Just(">"),
            Just(">="),
            Just("=="),
            Just("!="),
        ];
        prop_oneof![
            (inner.clone(), sign, inner.clone())
                .prop_map(|(a, sign, b)| format!("({a} {sign} {b})")),
            inner.prop_map(|inner| format!("-{inner}")),
        ]
    })
}

async fn a_formula_comes_to_what_it_says(kind: Kind) {
    let scene = rows(kind).await;
    let scope = subtree(&scene.agent);
    let fields = LogField::ALL;
    let all = LogFilter::default();
    let rows = scene.store.logs(&scope, &all, &everything(), fields).await.unwrap();
    assert_eq!(rows.len(), 5);
    let mut runner = TestRunner::deterministic();
    let mut texts = vec!["1".to_owned(), "size / deliveries".to_owned(), "latencyMs".to_owned()];
    texts.extend((0..60).map(|_| formulas().new_tree(&mut runner).unwrap().current()));
    let mut with_values = 0;
    for text in texts {
        let Ok(formula) = Formula::parse(&text) else { continue };
        let values: Vec<_> =
            rows.iter().filter_map(|row| value(&formula, &row.values, fields)).collect();
        let by = Bucketing { interval: Interval::Month, grouping: None };
        let buckets = scene.store.log_tallies(&scope, &all, &formula, by, 99).await.unwrap();
        let mut found = Tally::default();
        buckets.iter().for_each(|bucket| found.add(&bucket.tally));
        assert_eq!(usize::try_from(found.events).unwrap(), values.len(), "{text}");
        let sum: f64 = values.iter().sum();
        let near = values.iter().map(|value| value.abs()).sum::<f64>() * 1e-9;
        assert!((found.sum - sum).abs() <= near, "{text}: {} for {sum}", found.sum);
        let least = values.iter().copied().reduce(f64::min);
        assert_eq!((found.least, found.greatest), (least, values.iter().copied().reduce(f64::max)));
        with_values += usize::from(!values.is_empty());
    }
    assert!(with_values > 30, "{with_values}");
}

async fn buckets_are_those_of_the_calendar(kind: Kind) {
    let scene = rows(kind).await;
    let scope = subtree(&scene.agent);
    let (one, all) = (Formula::parse("count").unwrap(), LogFilter::default());
    // The scene's time begins on Sunday, 2025-06-15T15:06:40Z.
    for (interval, grouping, expected) in [
        (
            Interval::Hour,
            None,
            vec![
                ("06-15T15", "", 1.0),
                ("06-16T15", "", 4.0),
                ("06-17T15", "", 1.0),
                ("06-23T15", "", 1.0),
            ],
        ),
        (
            Interval::Day,
            Some(Grouping::Source),
            vec![
                ("06-15T00", "email", 1.0),
                ("06-16T00", "email", 4.0),
                ("06-17T00", "email", 1.0),
                ("06-23T00", "sms", 1.0),
            ],
        ),
        (
            Interval::Week,
            Some(Grouping::Outcome),
            vec![
                ("06-09T00", "accepted", 1.0),
                ("06-16T00", "deferred", 1.0),
                ("06-16T00", "refused", 4.0),
                ("06-23T00", "accepted", 1.0),
            ],
        ),
    ] {
        let by = Bucketing { interval, grouping };
        let found = scene.store.log_tallies(&scope, &all, &one, by, 99).await.unwrap();
        let mut found: Vec<_> = found
            .into_iter()
            .map(|one| (one.start.to_string(), one.group.unwrap_or_default(), one.tally.sum))
            .collect();
        found.sort_by(|one, other| one.partial_cmp(other).unwrap());
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(start, group, sum)| (format!("2025-{start}:00:00.000Z"), group.to_owned(), sum))
            .collect();
        assert_eq!(found, expected, "{interval}");
        let few = scene.store.log_tallies(&scope, &all, &one, by, 2).await.unwrap();
        assert_eq!(few.len(), 2);
    }
    for grouping in [Grouping::Reason, Grouping::AccountId] {
        let by = Bucketing { interval: Interval::Week, grouping: Some(grouping) };
        let late = LogFilter { since: Some(at(8 * DAY)), before: Some(at(9 * DAY)), ..all.clone() };
        let found = scene.store.log_tallies(&scope, &late, &one, by, 9).await.unwrap();
        let agent = (grouping == Grouping::AccountId).then(|| scene.agent.id.to_string());
        assert_eq!((found.len(), &found[0].group), (1, &agent));
    }
}
