//! The fields of the conversation log as SQL expressions over a row of `records`, the same for both
//! databases.
//!
//! Fields of the message are looked up by its id, row by row: the planner could turn a join into a
//! walk over all messages. Text is compared by functions that mean the same in both, not by `LIKE`.

use std::sync::LazyLock;

use crate::domain::condition::{Condition, Scalar, Test};
use crate::domain::decimal::Decimal;
use crate::domain::event::EventName;
use crate::domain::formula::{Formula, Operator};
use crate::domain::log_field::{LogField, Op};
use crate::domain::scope::Scope;
use crate::store::base::page::within;
use crate::store::engine::sql::{Statement, Value};
use crate::store::events::event_row::announces;

/// Counts deliveries of a message's arrival, all or in one state, to destinations of accounts in
/// the scope, not above it. 0 for a repeat, whose record has another id than the message: it made
/// none. NULL if the message has no event left. Every condition is a count: PostgreSQL may turn
/// EXISTS into a join that begins with all deliveries of a destination.
const DELIVERIES: &str = "(CASE WHEN records.message_id <> records.id THEN 0
      ELSE (SELECT CASE WHEN COUNT(e.id) > 0 OR records.message_id IS NULL
                   THEN COUNT(CASE WHEN d.event_number <= (";
const DELIVERIES_OF_ARRIVALS: &str = ") AND (SELECT COUNT(*) FROM accounts
                       WHERE accounts.id = (SELECT account_id FROM destinations
                                            WHERE destinations.id = d.destination_id) AND ";
const DELIVERIES_END: &str = " THEN 1 END) END
            FROM events AS e LEFT JOIN deliveries AS d ON d.event_id = e.id
            WHERE e.id = records.message_id) END)";

/// The number of arrivals that a row of events announces. Arrivals come first in it
/// (`domain::event::announced`), so the number of an event tells whether it is an arrival.
static ARRIVALS: LazyLock<String> = LazyLock::new(|| {
    let arrivals = EventName::ALL.iter().filter(|name| name.is_arrival());
    let counted = arrivals.map(|name| format!("CASE WHEN {} THEN 1 ELSE 0 END", announces(*name)));
    counted.collect::<Vec<_>>().join(" + ")
});

// A repeat, whose record has another id than the message, has no outcome of its own: sums count each
// outcome once.
enum Column {
    Expression(&'static str),
    /// The count of deliveries, with this condition on their state if it is not empty.
    Deliveries(&'static str),
}

const fn column(field: LogField) -> Column {
    Column::Expression(match field {
        LogField::Id => "id",
        LogField::Uuid => "message_id",
        LogField::Timestamp => "(at / 1000)",
        LogField::Date => "at",
        LogField::AccountIdV2 | LogField::AccountId => "agent_id",
        LogField::OrgId | LogField::OrganizationId => "NULLIF(organization_id, 0)",
        LogField::ResellerId => "reseller_id",
        LogField::EventType => "('inbound-' || source)",
        LogField::Outcome => "verdict",
        LogField::Reason => "reason",
        LogField::RoomId => {
            "(SELECT CAST(m.contact_id AS TEXT) || ':' || CAST(m.agent_id AS TEXT)
              FROM messages AS m WHERE m.id = records.message_id)"
        }
        LogField::ConversationRef => {
            "(SELECT COALESCE(m.thread_id, m.id)
              FROM messages AS m WHERE m.id = records.message_id)"
        }
        LogField::ContactId => {
            "(SELECT m.contact_id FROM messages AS m WHERE m.id = records.message_id)"
        }
        LogField::Source => "source",
        LogField::Direction => "CAST('inbound' AS TEXT)",
        LogField::Sender => "sender",
        LogField::Recipient => "recipient",
        LogField::EnvelopeFrom => "envelope_from",
        LogField::RemoteAddress => "remote_address",
        LogField::Subject => {
            "(SELECT m.subject FROM messages AS m
              WHERE m.id = records.message_id
                AND NOT EXISTS (SELECT 1 FROM erasures AS e
                                WHERE e.subject IN (m.contact_id, m.agent_id)))"
        }
        LogField::AgentOutcome => {
            "(SELECT o.agent_outcome FROM messages AS m CROSS JOIN outcomes AS o
              WHERE m.id = records.id AND o.message_id = m.id
                AND NOT EXISTS (SELECT 1 FROM erasures AS e
                                WHERE e.subject IN (m.contact_id, m.agent_id)))"
        }
        LogField::AiLeadRating => {
            "(SELECT o.lead_rating FROM outcomes AS o WHERE o.message_id = records.id)"
        }
        LogField::AgentReplyCount => {
            "(CASE WHEN records.message_id = records.id
              THEN COALESCE((SELECT o.reply_count FROM outcomes AS o
                             WHERE o.message_id = records.id), 0) END)"
        }
        LogField::Duration => {
            "(SELECT o.duration FROM outcomes AS o WHERE o.message_id = records.id)"
        }
        LogField::MissedCall => {
            "(SELECT o.missed_call FROM outcomes AS o WHERE o.message_id = records.id)"
        }
        LogField::Size => "size",
        LogField::Count => "count",
        LogField::LatencyMs => "(CAST(took_us AS DOUBLE PRECISION) / 1000)",
        LogField::Deliveries => return Column::Deliveries(""),
        LogField::Delivered => return Column::Deliveries(" AND d.state = 'delivered'"),
        LogField::Exhausted => return Column::Deliveries(" AND d.state = 'exhausted'"),
        LogField::Pending => return Column::Deliveries(" AND d.state = 'pending'"),
        LogField::ExperimentId
        | LogField::ExperimentVariant
        | LogField::ExperimentVersion
        | LogField::TaskAttemptId
        | LogField::Metadata => "CAST(NULL AS TEXT)",
    })
}

/// Appends the value of a field.
pub fn push_field(statement: &mut Statement, field: LogField, scope: &Scope) {
    match column(field) {
        Column::Expression(text) => {
            statement.push(text);
        }
        Column::Deliveries(state) => {
            statement.push(DELIVERIES).push(&ARRIVALS).push(DELIVERIES_OF_ARRIVALS);
            within(statement, scope);
            statement.push(") > 0").push(state).push(DELIVERIES_END);
        }
    }
}

/// Appends the comparisons, each after an AND.
pub fn push_conditions(statement: &mut Statement, conditions: &[Condition], scope: &Scope) {
    for condition in conditions {
        statement.push(" AND (");
        compare(statement, condition, scope);
        statement.push(")");
    }
    if !conditions.is_empty() {
        statement.varying();
    }
}

fn compare(statement: &mut Statement, condition: &Condition, scope: &Scope) {
    let value = |statement: &mut Statement| push_field(statement, condition.field, scope);
    let values = match &condition.test {
        Test::IsSet(wanted) => {
            value(statement);
            statement.push(if *wanted { " IS NOT NULL" } else { " IS NULL" });
            return;
        }
        Test::Values(values) => values,
    };
    match (condition.op, values.as_slice()) {
        (Op::Contains, [Scalar::Text(text)]) => {
            statement.push("REPLACE(");
            value(statement);
            statement.push(", ").push_value(text.as_str()).push(", '') <> ");
            value(statement);
        }
        (Op::Icontains, [Scalar::Text(text)]) => {
            // Both databases fold only ASCII here.
            statement.push("REPLACE(LOWER(");
            value(statement);
            statement.push("), ").push_value(text.to_ascii_lowercase()).push(", '') <> LOWER(");
            value(statement);
            statement.push(")");
        }
        (Op::Startswith, [Scalar::Text(text)]) => {
            let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
            statement.push("SUBSTR(");
            value(statement);
            // PostgreSQL takes 32 bits here.
            statement.push(", 1, CAST(").push_value(length).push(" AS INTEGER)) = ");
            statement.push_value(text.as_str());
        }
        (op, values) => {
            value(statement);
            statement.push(match op {
                Op::Ne | Op::Nin => " NOT IN (",
                Op::Gt => " > (",
                Op::Gte => " >= (",
                Op::Lt => " < (",
                Op::Lte => " <= (",
                _ => " IN (",
            });
            for (place, value) in values.iter().enumerate() {
                statement.push(if place > 0 { ", " } else { "" });
                scalar(statement, value);
            }
            // A missing value differs from every given value.
            let or_none = matches!(op, Op::Ne | Op::Nin);
            statement.push(if or_none { ") IS NOT FALSE" } else { ")" });
        }
    }
}

fn scalar(statement: &mut Statement, value: &Scalar) {
    match value {
        Scalar::Integer(number) => statement.push_value(*number),
        Scalar::Decimal(number) => decimal(statement, *number),
        Scalar::Text(text) => statement.push_value(text.as_str()),
        Scalar::Id(id) => statement.push_value(Value::from(*id)),
    };
}

/// Appends a decimal as the quotient of two exact numbers: both databases compute the same.
fn decimal(statement: &mut Statement, number: Decimal) -> &mut Statement {
    statement.push("(CAST(").push_value(number.digits).push(" AS DOUBLE PRECISION) / CAST(");
    statement.push_value(number.divisor).push(" AS DOUBLE PRECISION))")
}

/// Appends the value of a formula for a row: a floating-point number, or NULL.
pub fn push_formula(statement: &mut Statement, formula: &Formula, scope: &Scope) {
    match formula {
        Formula::Constant(number) => {
            decimal(statement, *number);
        }
        Formula::Field(field) => {
            statement.push("CAST(");
            push_field(statement, *field, scope);
            statement.push(" AS DOUBLE PRECISION)");
        }
        Formula::Is { field, text, negated } => {
            // A boolean is not a number in PostgreSQL, and SQLite has no booleans.
            statement.push(if *negated { "CAST(1 - " } else { "CAST(" });
            statement.push("COALESCE(CAST((");
            push_field(statement, *field, scope);
            statement.push(" = ").push_value(text.as_str());
            statement.push(") AS INTEGER), 0) AS DOUBLE PRECISION)");
        }
        Formula::Negate(inner) => {
            statement.push("(- ");
            push_formula(statement, inner, scope);
            statement.push(")");
        }
        Formula::Calculate(operator, one, other) => {
            let divides = *operator == Operator::Divide;
            statement.push(if operator.compares() { "CAST(CAST((" } else { "(" });
            push_formula(statement, one, scope);
            statement.push(" ").push(operator.as_str());
            statement.push(if divides { " NULLIF(" } else { " " });
            push_formula(statement, other, scope);
            statement.push(match (operator.compares(), divides) {
                (true, _) => ") AS INTEGER) AS DOUBLE PRECISION)",
                (false, true) => ", 0))",
                (false, false) => ")",
            });
        }
    }
}
