//! The conversation log: intake records, their messages and what became of their deliveries, listed
//! and put together. How much a request looks at is bounded by `Store::end_of_walk`.

use super::db::Store;
use super::error::StoreError;
use super::log_columns::{all_of, calculated, value_of};
use super::page::{Cursor, Page, within};
use super::row::{Columns, stored};
use super::sql::{Row, Statement, sql};
use super::traces::PRESENT_RECORD;
use crate::domain::clock::Timestamp;
use crate::domain::condition::LogFilter;
use crate::domain::formula::Formula;
use crate::domain::log_field::{Kind, LogField, LogValue};
use crate::domain::metric::{Grouping, Interval, Tally};
use crate::domain::scope::Scope;

/// One row, with the values of the fields that were asked for, in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct LogRow {
    pub place: Cursor,
    pub values: Vec<LogValue>,
}

/// What the rows of a bucket come to.
#[derive(Clone, Debug, PartialEq)]
pub struct Bucket {
    /// Its beginning; a month comes as its days.
    pub start: Timestamp,
    /// What they have in common, where they are told apart by it.
    pub group: Option<String>,
    pub tally: Tally,
}

const DAY: i64 = 86_400_000;

impl Store {
    /// A page of the log in `scope`, the newest first.
    pub async fn logs(
        &self,
        scope: &Scope,
        filter: &LogFilter,
        page: &Page,
        fields: &[LogField],
    ) -> Result<Vec<LogRow>, StoreError> {
        let mut query = sql("SELECT id, at");
        for (place, field) in fields.iter().enumerate() {
            query.push(", ");
            value_of(&mut query, *field, scope);
            query.push(&format!(" AS f{place}"));
        }
        query.push(" FROM intake_records WHERE ").varying();
        narrow(&mut query, scope, filter);
        page.read_between(&mut query, filter.since, filter.before);
        let rows = query.fetch_all(self.reader()).await?;
        let rows = rows.iter().map(|row| log_row(row, fields)).collect::<Result<_, _>>()?;
        Ok(page.shown(rows))
    }

    /// How many rows a page so long would have.
    pub async fn count_logs(
        &self,
        scope: &Scope,
        filter: &LogFilter,
        page: &Page,
    ) -> Result<u64, StoreError> {
        let mut query = sql("SELECT COUNT(*) AS rows_found FROM
                             (SELECT at FROM intake_records WHERE ");
        narrow(&mut query, scope, filter);
        page.read_between(&mut query, filter.since, filter.before);
        query.push(") AS walked");
        let row = query.fetch_one(self.reader()).await?;
        Columns { table: "intake_records", row: &row }.count("rows_found")
    }

    /// The place of the row before which `skip` others are, `skip` not 0: the next page begins
    /// behind it.
    pub async fn log_place(
        &self,
        scope: &Scope,
        filter: &LogFilter,
        until: Option<Cursor>,
        skip: u64,
    ) -> Result<Option<Cursor>, StoreError> {
        let mut query = sql("SELECT id, at FROM intake_records WHERE ");
        narrow(&mut query, scope, filter);
        let page = Page { limit: 1, from: None, until };
        page.read_between(&mut query, filter.since, filter.before);
        query.push(" OFFSET ").push_value(stored(skip.saturating_sub(1)));
        let row = query.fetch_optional(self.reader()).await?;
        row.map(|row| place(&Columns { table: "intake_records", row: &row })).transpose()
    }

    /// What the formula comes to, bucket by bucket, in no particular order; buckets without rows
    /// are left out. At most `most` of them.
    pub async fn log_tallies(
        &self,
        scope: &Scope,
        filter: &LogFilter,
        formula: &Formula,
        (interval, grouping): (Interval, Option<Grouping>),
        most: u64,
    ) -> Result<Vec<Bucket>, StoreError> {
        // Thursday was the first day of all; weeks begin on Monday.
        let (width, shift) = match interval {
            Interval::Hour => (DAY / 24, 0),
            Interval::Day | Interval::Month => (DAY, 0),
            Interval::Week => (7 * DAY, 3 * DAY),
        };
        let mut query = sql("SELECT bucket, place, COUNT(val) AS events, SUM(val) AS total,
                                MIN(val) AS least, MAX(val) AS greatest
                             FROM (SELECT ((at + ");
        query.push_value(shift).push(") / ").push_value(width).push(" * ").push_value(width);
        query.push(" - ").push_value(shift).push(") AS bucket, ");
        query.push(match grouping {
            None => "CAST(NULL AS TEXT)",
            Some(Grouping::Reason) => "reason",
            Some(Grouping::Outcome) => "verdict",
            Some(Grouping::Source) => "source",
            Some(Grouping::AccountId) => "CAST(agent_id AS TEXT)",
        });
        query.push(" AS place, ");
        calculated(&mut query, formula, scope);
        query.push(" AS val FROM intake_records WHERE ").varying();
        narrow(&mut query, scope, filter);
        Page { limit: 0, from: None, until: None }.lie_between(
            &mut query,
            filter.since,
            filter.before,
        );
        query.push(") AS walked GROUP BY bucket, place LIMIT ").push_value(stored(most));
        let rows = query.fetch_all(self.reader()).await?;
        rows.iter().map(bucket).collect()
    }
}

fn narrow(query: &mut Statement, scope: &Scope, filter: &LogFilter) {
    within(query, scope);
    query.push(PRESENT_RECORD);
    all_of(query, &filter.conditions, scope);
}

fn place(columns: &Columns<'_>) -> Result<Cursor, StoreError> {
    Ok(Cursor { at: columns.time("at")?, id: columns.uuid("id")? })
}

fn log_row(row: &Row, fields: &[LogField]) -> Result<LogRow, StoreError> {
    let columns = Columns { table: "intake_records", row };
    let value = |(number, field): (usize, &LogField)| {
        let name = format!("f{number}");
        Ok(match field.kind() {
            Kind::Unfilled => LogValue::Null,
            Kind::Integer => {
                columns.optional_integer(&name)?.map_or(LogValue::Null, LogValue::Integer)
            }
            Kind::Real => columns.optional_real(&name)?.map_or(LogValue::Null, LogValue::Real),
            Kind::Text => columns.optional_text(&name)?.map_or(LogValue::Null, LogValue::Text),
            Kind::Id => columns.optional_uuid(&name)?.map_or(LogValue::Null, LogValue::Id),
            Kind::Time => columns.optional_time(&name)?.map_or(LogValue::Null, LogValue::Time),
        })
    };
    let values = fields.iter().enumerate().map(value).collect::<Result<_, StoreError>>()?;
    Ok(LogRow { place: place(&columns)?, values })
}

fn bucket(row: &Row) -> Result<Bucket, StoreError> {
    let columns = Columns { table: "intake_records", row };
    Ok(Bucket {
        start: columns.time("bucket")?,
        group: columns.optional_text("place")?,
        tally: Tally {
            events: columns.count("events")?,
            sum: columns.optional_real("total")?.unwrap_or(0.0),
            least: columns.optional_real("least")?,
            greatest: columns.optional_real("greatest")?,
        },
    })
}
