//! Metrics over the conversation log: a formula for each row, and an aggregation of the rows.

use super::condition::{Condition, delivery_terms};
use super::formula::Formula;
use super::log_field::{LogField, Op};
use super::words::words;

words! {
    /// Aggregation of many values to one.
    Aggregation {
        Average = "avg",
        /// Number of rows that have a value.
        Count = "count",
        Sum = "sum",
        Least = "min",
        Greatest = "max",
    }
}

words! {
    /// Length of a bucket of a series, in UTC; weeks begin on Monday.
    Interval {
        Hour = "hour",
        Day = "day",
        Week = "week",
        Month = "month",
    }
}

words! {
    /// The date field of a definition; both name the same moment.
    DateFilter {
        Timestamp = "timestamp",
        Date = "date",
    }
}

words! {
    /// The field by which rows are grouped.
    Grouping {
        Reason = "reason",
        Outcome = "outcome",
        Source = "source",
        AccountId = "accountId",
        AgentOutcome = "agentOutcome",
    }
}

impl Grouping {
    /// The field whose values are the groups.
    pub const fn field(self) -> LogField {
        match self {
            Self::Reason => LogField::Reason,
            Self::Outcome => LogField::Outcome,
            Self::Source => LogField::Source,
            Self::AccountId => LogField::AccountId,
            Self::AgentOutcome => LogField::AgentOutcome,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    pub name: String,
    pub title: String,
    pub filters: Vec<Condition>,
    pub formula: Formula,
    pub aggregation: Aggregation,
    /// Factor of the result.
    pub scale: f64,
    /// Digits after the point in the result; None shows all.
    pub precision: Option<u32>,
    /// Fewer rows with a value give no result.
    pub minimum_sample: u64,
}

/// Aggregate of the rows of one bucket; two can be added.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Number of rows that have a value.
    pub events: u64,
    pub sum: f64,
    pub least: Option<f64>,
    pub greatest: Option<f64>,
}

/// A built-in metric: name, title, filter, formula, aggregation.
type Ready =
    (&'static str, &'static str, Option<(LogField, &'static str)>, &'static str, Aggregation);

/// The built-in metrics. A record that counts several refusals counts as that many.
const READY: &[Ready] = &[
    ("accepted", "Accepted", Some((LogField::Outcome, "accepted")), "count", Aggregation::Sum),
    ("refused", "Refused", Some((LogField::Outcome, "refused")), "count", Aggregation::Sum),
    ("deferred", "Deferred", Some((LogField::Outcome, "deferred")), "count", Aggregation::Sum),
    ("latency", "Average latency, ms", None, "latencyMs", Aggregation::Average),
    ("latencyMax", "Greatest latency, ms", None, "latencyMs", Aggregation::Greatest),
    ("replies", "Replies", None, "agentReplyCount", Aggregation::Sum),
    ("callDuration", "Average length of calls, s", None, "duration", Aggregation::Average),
    ("missedCalls", "Missed calls", None, "missedCall", Aggregation::Sum),
    ("deliveries", "Deliveries", None, "deliveries", Aggregation::Sum),
    ("delivered", "Delivered", None, "delivered", Aggregation::Sum),
    ("exhausted", "Given up", None, "exhausted", Aggregation::Sum),
    ("pending", "Pending", None, "pending", Aggregation::Sum),
];

impl Metric {
    /// Returns the built-in metric of this name.
    pub fn ready(name: &str) -> Option<Self> {
        let (name, title, which, formula, aggregation) =
            READY.iter().copied().find(|(known, ..)| *known == name)?;
        let filters = which.map(|(field, word)| Condition::new(field, Op::Eq, &[word]));
        Some(Self {
            name: name.to_owned(),
            title: title.to_owned(),
            filters: filters.transpose().ok()?.into_iter().collect(),
            formula: Formula::parse(formula).ok()?,
            aggregation,
            scale: 1.0,
            precision: Some(3),
            minimum_sample: 0,
        })
    }

    /// Counts the uses of fields that are computed from deliveries.
    pub fn delivery_terms(&self) -> usize {
        delivery_terms(&self.filters) + self.formula.delivery_terms()
    }

    /// Names of the built-in metrics, for error messages.
    pub fn ready_names() -> String {
        READY.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ")
    }

    /// Returns the result. None below `minimum_sample` values, and without values unless it counts
    /// or sums.
    pub fn result(&self, tally: &Tally) -> Option<f64> {
        if tally.events < self.minimum_sample {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "rows are counted up to a bound far below")]
        let events = tally.events as f64;
        let value = match self.aggregation {
            Aggregation::Average => (tally.events > 0).then(|| tally.sum / events),
            Aggregation::Count => Some(events),
            Aggregation::Sum => Some(tally.sum),
            Aggregation::Least => tally.least,
            Aggregation::Greatest => tally.greatest,
        };
        value.map(|value| self.rounded(value * self.scale))
    }

    fn rounded(&self, value: f64) -> f64 {
        let shown = self.precision.and_then(|precision| {
            format!("{value:.*}", usize::try_from(precision).ok()?).parse().ok()
        });
        // Turns -0 into 0.
        shown.unwrap_or(value) + 0.0
    }
}

impl Tally {
    /// Adds the rows of `other`.
    pub fn add(&mut self, other: &Self) {
        let either =
            |one: Option<f64>, other: Option<f64>, pick: fn(f64, f64) -> f64| match (one, other) {
                (Some(one), Some(other)) => Some(pick(one, other)),
                (one, other) => one.or(other),
            };
        self.events = self.events.saturating_add(other.events);
        self.sum += other.sum;
        self.least = either(self.least, other.least, f64::min);
        self.greatest = either(self.greatest, other.greatest, f64::max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_everybody_has_are_in_order() {
        for (name, ..) in READY.iter().copied() {
            let metric = Metric::ready(name).unwrap();
            assert_eq!(metric.name, name);
            assert!(Metric::ready_names().contains(name));
        }
        assert_eq!(Metric::ready("nothing"), None);
    }

    #[test]
    fn a_result_is_scaled_and_rounded_and_rests_on_enough() {
        let mut tally = Tally { events: 3, sum: 2.0, least: Some(-1.0), greatest: Some(2.0) };
        tally.add(&Tally { events: 1, sum: 0.0, least: Some(0.0), greatest: Some(0.0) });
        tally.add(&Tally::default());
        let mut metric = Metric::ready("latency").unwrap();
        for (aggregation, scale, precision, expected) in [
            (Aggregation::Average, 1.0, None, 0.5),
            (Aggregation::Average, 100.0, Some(0), 50.0),
            (Aggregation::Count, 1.0, None, 4.0),
            (Aggregation::Sum, 0.333, Some(2), 0.67),
            (Aggregation::Least, 1.0, None, -1.0),
            (Aggregation::Greatest, -0.001, Some(1), 0.0),
        ] {
            (metric.aggregation, metric.scale, metric.precision) = (aggregation, scale, precision);
            let result = metric.result(&tally).unwrap();
            assert_eq!((result, result.is_sign_negative()), (expected, expected < 0.0));
            metric.minimum_sample = 5;
            assert_eq!(metric.result(&tally), None);
            metric.minimum_sample = 0;
        }
        for (aggregation, expected) in [
            (Aggregation::Average, None),
            (Aggregation::Sum, Some(0.0)),
            (Aggregation::Least, None),
        ] {
            metric.aggregation = aggregation;
            assert_eq!(metric.result(&Tally::default()), expected);
        }
    }
}
