//! Filters of the conversation log: conditions on its fields, all of which must hold.

use std::str::FromStr as _;

use uuid::Uuid;

use super::address::Address;
use super::clock::{TimeRange, Timestamp};
use super::contact::{AskedHandleError, Handle};
use super::decimal::Decimal;
use super::instant;
use super::log_field::{Kind, LogField, Op};
use super::source::Source;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scalar {
    Integer(i64),
    Decimal(Decimal),
    Text(String),
    Id(Uuid),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// Compares with one value, or with any of several.
    Values(Vec<Scalar>),
    /// Tells whether there is a value.
    IsSet(bool),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub field: LogField,
    pub op: Op,
    pub test: Test,
}

/// Rows of a period that fulfil all conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogFilter {
    pub conditions: Vec<Condition>,
    /// Inclusive.
    pub since: Option<Timestamp>,
    /// Exclusive.
    pub before: Option<Timestamp>,
}

/// Why a field does not accept a condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConditionError {
    #[error("{} does not support {op}: expected one of {}", field.name(), known(*field))]
    Op { field: LogField, op: Op },
    #[error("{} {op}: expected {expected}", field.name())]
    Shape { field: LogField, op: Op, expected: &'static str },
    #[error("{} {op}: the text is empty, send at least one character", field.name())]
    Empty { field: LogField, op: Op },
    #[error("{} {op}: too many values: send at most {most}", field.name())]
    TooMany { field: LogField, op: Op, most: usize },
    #[error("{}: invalid value: expected {expected}", field.name())]
    Value { field: LogField, expected: &'static str },
    #[error(transparent)]
    Sender(#[from] AskedHandleError),
}

fn known(field: LogField) -> String {
    let known: Vec<_> = field.kind().ops().iter().map(|op| op.as_str()).collect();
    known.join(", ")
}

impl Condition {
    /// Parses the values by the kind of the field. Fails with the operators or values that the
    /// field accepts.
    pub fn new(field: LogField, op: Op, values: &[&str]) -> Result<Self, ConditionError> {
        let shape = |expected| Err(ConditionError::Shape { field, op, expected });
        if !field.kind().ops().contains(&op) {
            return Err(ConditionError::Op { field, op });
        }
        if matches!(op, Op::Isnull | Op::Isset) {
            let wanted = match values {
                ["true"] => op == Op::Isset,
                ["false"] => op == Op::Isnull,
                _ => return shape("true or false"),
            };
            return Ok(Self { field, op, test: Test::IsSet(wanted) });
        }
        let takes_many = matches!(op, Op::In | Op::Nin);
        if values.is_empty() || values.len() > 1 && !takes_many {
            return shape(if takes_many { "one value or more" } else { "one value" });
        }
        let piece = matches!(op, Op::Contains | Op::Icontains | Op::Startswith);
        if piece && values.contains(&"") {
            return Err(ConditionError::Empty { field, op });
        }
        let values = values.iter().map(|text| scalar(field, text)).collect::<Result<Vec<_>, _>>();
        let mut values = values?;
        if field == LogField::Sender && !piece {
            values.iter_mut().try_for_each(spell)?;
        }
        Ok(Self { field, op, test: Test::Values(values) })
    }

    /// Returns the period that the condition allows: from (inclusive) and until (exclusive).
    fn time(&self) -> (Option<Timestamp>, Option<Timestamp>) {
        let unit = match self.field {
            LogField::Timestamp => 1000,
            LogField::Date => 1,
            _ => return (None, None),
        };
        let Test::Values(values) = &self.test else { return (None, None) };
        let [Scalar::Integer(value)] = values.as_slice() else { return (None, None) };
        let at = |value: i64| Some(Timestamp::from_millis(value.saturating_mul(unit)));
        let (this, next) = (at(*value), at(value.saturating_add(1)));
        match self.op {
            Op::Eq => (this, next),
            Op::Gte => (this, None),
            Op::Gt => (next, None),
            Op::Lt => (None, this),
            Op::Lte => (None, next),
            _ => (None, None),
        }
    }
}

impl LogFilter {
    /// Returns the period of the rows.
    pub const fn time(&self) -> TimeRange {
        TimeRange { since: self.since, before: self.before }
    }

    /// Narrows the period to the times that the conditions name, so that rows outside are not read.
    #[must_use]
    pub fn narrowed(mut self) -> Self {
        for condition in &self.conditions {
            let (since, before) = condition.time();
            self.since = self.since.max(since);
            self.before = match (self.before, before) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
        self
    }
}

/// Counts the conditions on fields that are computed from deliveries.
pub fn delivery_terms(conditions: &[Condition]) -> usize {
    conditions.iter().filter(|condition| condition.field.is_of_deliveries()).count()
}

/// Rewrites a complete sender to its stored spelling. Fails for `sms:` and `call:` with a number that
/// nobody can have: no row would match, and nobody would know why.
fn spell(value: &mut Scalar) -> Result<(), ConditionError> {
    let Scalar::Text(text) = value else { return Ok(()) };
    let source = text.split_once(':').and_then(|(source, _)| source.parse().ok());
    let handle = match source {
        None | Some(Source::Email) => Address::parse(text).ok().map(Handle::Mailbox),
        Some(_) => Some(Handle::asked(text)?),
    };
    if let Some(handle) = handle {
        *text = handle.to_string();
    }
    Ok(())
}

fn scalar(field: LogField, text: &str) -> Result<Scalar, ConditionError> {
    let (read, expected) = match field.kind() {
        Kind::Integer if field == LogField::Timestamp => {
            let whole = instant::parse(text).filter(|at| at.millis().rem_euclid(1000) == 0);
            let seconds = whole.map(|at| Scalar::Integer(at.seconds()));
            (seconds, "Unix seconds, or a date like 2026-11-20T10:00:00Z (date has fractions)")
        }
        Kind::Integer => {
            let whole = i64::from_str(text).ok().filter(|number| number.to_string() == text);
            (whole.map(Scalar::Integer), "a whole number")
        }
        Kind::Real => (Decimal::parse(text).map(Scalar::Decimal), "a number like 12.5"),
        Kind::Text | Kind::Unfilled => (Some(Scalar::Text(text.to_owned())), "a text"),
        Kind::Id => {
            let id = Uuid::try_parse(text).ok().filter(|_| text.len() == 36);
            (id.map(Scalar::Id), "a UUID, as answers show it")
        }
        Kind::Time => {
            let at = instant::parse(text).map(|at| Scalar::Integer(at.millis()));
            (at, "a date like 2026-11-20T10:00:00Z, or Unix seconds")
        }
    };
    read.ok_or(ConditionError::Value { field, expected })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_takes_its_comparisons_and_its_values() {
        let good = |kind: Kind| match kind {
            Kind::Integer => "7",
            Kind::Real => "-7.25",
            Kind::Text | Kind::Unfilled => "x'y",
            Kind::Id => "0198c0de-0000-7000-8000-000000000000",
            Kind::Time => "2026-11-20T10:00:00Z",
        };
        for field in LogField::ALL {
            let kind = field.kind();
            for op in Op::ALL {
                let value = match op {
                    Op::Isnull | Op::Isset => "true",
                    _ => good(kind),
                };
                let read = Condition::new(*field, *op, &[value]);
                assert_eq!(read.is_ok(), kind.ops().contains(op), "{field:?} {op}: {read:?}");
                if kind.ops().contains(op) {
                    let many = Condition::new(*field, *op, &[value, value]);
                    assert_eq!(many.is_ok(), matches!(op, Op::In | Op::Nin), "{field:?} {op}");
                    assert!(Condition::new(*field, *op, &[]).is_err(), "{field:?} {op}");
                }
            }
            if !matches!(kind, Kind::Text | Kind::Unfilled) {
                let read = Condition::new(*field, Op::Eq, &["x"]).unwrap_err().to_string();
                assert!(read.contains("expected"), "{read}");
            }
        }
        for (field, op, value, said) in [
            (LogField::Outcome, Op::Gte, "x", "expected one of eq, ne, in, nin, contains"),
            (LogField::Outcome, Op::Contains, "", "at least one character"),
            (LogField::Outcome, Op::Isnull, "yes", "expected true or false"),
            (LogField::Size, Op::Eq, "07", "a whole number"),
            (LogField::Size, Op::Icontains, "7", "does not support icontains"),
            (LogField::Timestamp, Op::Eq, "2026-11-20T10:00:00.5Z", "date has fractions"),
            (LogField::Uuid, Op::Eq, "0198c0de000070008000000000000000", "a UUID"),
        ] {
            let read = Condition::new(field, op, &[value]).unwrap_err().to_string();
            assert!(read.contains(said), "{read}");
        }
    }

    #[test]
    fn a_sender_is_compared_in_the_spelling_that_is_kept() {
        for (op, value, expected) in [
            (Op::Eq, "Bob@GOOD.example", "bob@good.example"),
            (Op::In, "\"bob\"@good.example", "bob@good.example"),
            (Op::Ne, "sms:+1 (555) 123-1234", "sms:+15551231234"),
            (Op::Nin, "Nobody", "Nobody"),
            (Op::Contains, "Bob@GOOD.example", "Bob@GOOD.example"),
        ] {
            let read = Condition::new(LogField::Sender, op, &[value]).unwrap();
            assert_eq!(read.test, Test::Values(vec![Scalar::Text(expected.into())]), "{value}");
        }
        // No row would match, and nobody would know why.
        for value in ["sms:5551231234", "call:+0", "sms:"] {
            let refused = Condition::new(LogField::Sender, Op::Eq, &[value]).unwrap_err();
            assert!(matches!(refused, ConditionError::Sender(_)), "{value}: {refused}");
        }
        assert!(Condition::new(LogField::Sender, Op::Startswith, &["sms:555"]).is_ok());
    }

    #[test]
    fn comparisons_of_time_bound_the_walk() {
        let narrowed = |field, op, value: &str| {
            let conditions = vec![Condition::new(field, op, &[value]).unwrap()];
            let (since, before) =
                (Some(Timestamp::from_millis(5000)), Some(Timestamp::from_millis(20_000)));
            let filter = LogFilter { conditions, since, before }.narrowed();
            (filter.since.unwrap().millis(), filter.before.unwrap().millis())
        };
        for (op, value, expected) in [
            (Op::Eq, "9", (9000, 10_000)),
            (Op::Gte, "9", (9000, 20_000)),
            (Op::Gt, "9", (10_000, 20_000)),
            (Op::Lt, "9", (5000, 9000)),
            (Op::Lte, "9", (5000, 10_000)),
            (Op::Ne, "9", (5000, 20_000)),
            (Op::In, "9", (5000, 20_000)),
            (Op::Gte, "1", (5000, 20_000)),
            (Op::Lt, "999", (5000, 20_000)),
        ] {
            assert_eq!(narrowed(LogField::Timestamp, op, value), expected, "{op}");
        }
        let by_date = narrowed(LogField::Date, Op::Gt, "1970-01-01T00:00:07.250Z");
        assert_eq!(by_date, (7251, 20_000));
        assert_eq!(narrowed(LogField::Size, Op::Eq, "9"), (5000, 20_000));
    }
}
