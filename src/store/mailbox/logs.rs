//! The conversation log: intake records with their messages and the outcome of their deliveries,
//! listed and aggregated. `Store::end_of_log` bounds the rows of a request, and every statement has
//! a deadline, because filters and formulas decide the cost of a row.

use std::cmp::Reverse;

use uuid::Uuid;

use super::log_columns::{push_conditions, push_field, push_formula};
use super::presence::PRESENT_RECORD;
use crate::domain::clock::{TimeRange, Timestamp};
use crate::domain::condition::LogFilter;
use crate::domain::formula::Formula;
use crate::domain::log_field::{Kind, LogField, LogValue};
use crate::domain::metric::{Grouping, Interval, Tally};
use crate::domain::scope::Scope;
use crate::store::base::Base;
use crate::store::base::page::{Cursor, List, Page, within};
use crate::store::engine::error::StoreError;
use crate::store::engine::row::{Columns, stored};
use crate::store::engine::sql::{Row, Statement, sql};

/// One row, with the values of the requested fields in the requested order.
#[derive(Clone, Debug, PartialEq)]
pub struct LogRow {
    pub place: Cursor,
    pub values: Vec<LogValue>,
}

/// The buckets into which rows are put: one for each interval, and each group in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucketing {
    pub interval: Interval,
    pub grouping: Option<Grouping>,
}

/// The aggregate of the rows of one interval and group.
#[derive(Clone, Debug, PartialEq)]
pub struct Bucket {
    /// Start of the bucket; months come as one bucket per day.
    pub start: Timestamp,
    /// The common value of the rows; None without a grouping, or if they have no value.
    pub group: Option<String>,
    pub tally: Tally,
}

const DAY: i64 = 86_400_000;

impl Base {
    /// Returns where a request ends that reads the newest `most` rows of a time range, or None if
    /// there are no more rows. For a restricted member only the rows of its own Agents count, so
    /// that it learns nothing about the number of others (threats E6).
    pub async fn end_of_log(
        &self,
        scope: &Scope,
        time: TimeRange,
        most: u32,
    ) -> Result<Option<Cursor>, StoreError> {
        self.pending_records.wait_until_written().await;
        let page = Page { limit: 1, from: None, until: None };
        let skip = most.saturating_sub(1);
        let Some(permitted) = scope.permitted() else {
            return self.end_of_walk(List::IntakeRecords, scope, &page, time, most).await;
        };
        let mut query = sql("");
        let mut bounds: Option<String> = None;
        for agent in permitted {
            // Each part is in the order of its index: both databases merge them without sorting.
            query.push(if bounds.is_some() { " UNION ALL " } else { "" });
            query.push("SELECT at, id FROM records WHERE recorded = 1 AND agent_id = ");
            query.push(&agent.get().to_string());
            match &bounds {
                Some(text) => {
                    query.push(text);
                }
                None => {
                    let start = query.text().len();
                    page.lie_between(&mut query, time);
                    bounds = query.text().get(start..).map(str::to_owned);
                }
            }
        }
        if bounds.is_none() {
            return Ok(None);
        }
        query.push(" ORDER BY at DESC, id DESC LIMIT 1 OFFSET ").push_value(i64::from(skip));
        query.varying();
        let row = self.fetch_in_time(query).await?.pop();
        let place = row.map(|row| {
            let columns = Columns { table: "records", row: &row };
            // Reads all rows of its millisecond, as `end_of_walk` does.
            Ok(Cursor { at: columns.time("at")?, id: Uuid::nil() })
        });
        place.transpose()
    }

    /// Returns a page of the log in `scope`, the newest first.
    pub async fn logs(
        &self,
        scope: &Scope,
        filter: &LogFilter,
        page: &Page,
        fields: &[LogField],
    ) -> Result<Vec<LogRow>, StoreError> {
        self.pending_records.wait_until_written().await;
        let sorts = scope.permitted().is_some();
        let mut query = sql("");
        if sorts {
            // Sorts only ids and times, before any field is computed.
            query.push("WITH first AS MATERIALIZED (SELECT id, at FROM records WHERE ");
            narrow(&mut query, scope, filter);
            page.read_between(&mut query, filter.time());
            query.push(") ");
        }
        query.push("SELECT id, at").varying();
        for (place, field) in fields.iter().enumerate() {
            query.push(", ");
            push_field(&mut query, *field, scope);
            query.push(&format!(" AS f{place}"));
        }
        query.push(" FROM records WHERE ");
        if sorts {
            query.push("id IN (SELECT id FROM first)");
        } else {
            narrow(&mut query, scope, filter);
            page.read_between(&mut query, filter.time());
        }
        let rows = self.fetch_in_time(query).await?;
        let rows = rows.iter().map(|row| log_row(row, fields));
        let mut rows = rows.collect::<Result<Vec<_>, StoreError>>()?;
        if sorts {
            rows.sort_by_key(|row| Reverse(row.place));
            return Ok(rows);
        }
        Ok(page.newest_first(rows))
    }

    /// Counts the rows of this page: at most `page.limit`.
    pub async fn count_logs(
        &self,
        scope: &Scope,
        filter: &LogFilter,
        page: &Page,
    ) -> Result<u64, StoreError> {
        self.pending_records.wait_until_written().await;
        let mut query = sql("SELECT COUNT(*) AS rows_found FROM
                             (SELECT at FROM records WHERE ");
        narrow(&mut query, scope, filter);
        page.lie_between(&mut query, filter.time());
        query.push(" LIMIT ").push_value(i64::from(page.limit)).push(") AS walked");
        let rows = self.fetch_in_time(query).await?;
        let counted = |row| Columns { table: "records", row }.count("rows_found");
        rows.first().map_or(Ok(0), counted)
    }

    /// Returns the place of row number `skip` (from 1), behind which the next page begins; None if
    /// there are fewer rows. Does not wait for pending records: `end_of_log` did.
    pub async fn log_place(
        &self,
        scope: &Scope,
        filter: &LogFilter,
        until: Option<Cursor>,
        skip: u64,
    ) -> Result<Option<Cursor>, StoreError> {
        let mut query = sql("SELECT id, at FROM records WHERE ");
        narrow(&mut query, scope, filter);
        let page = Page { limit: 1, from: None, until };
        page.read_between(&mut query, filter.time());
        query.push(" OFFSET ").push_value(stored(skip.saturating_sub(1)));
        let row = self.fetch_in_time(query).await?.pop();
        row.map(|row| place(&Columns { table: "records", row: &row })).transpose()
    }

    /// Aggregates the formula by bucket. Returns at most `most` buckets, in no particular order;
    /// buckets without rows are absent.
    pub async fn log_tallies(
        &self,
        scope: &Scope,
        filter: &LogFilter,
        formula: &Formula,
        by: Bucketing,
        most: u64,
    ) -> Result<Vec<Bucket>, StoreError> {
        self.pending_records.wait_until_written().await;
        // Day 0 was a Thursday; weeks begin on Monday.
        let (width, shift) = match by.interval {
            Interval::Hour => (DAY / 24, 0),
            Interval::Day | Interval::Month => (DAY, 0),
            Interval::Week => (7 * DAY, 3 * DAY),
        };
        let mut query = sql("SELECT bucket, place, COUNT(val) AS events, SUM(val) AS total,
                                MIN(val) AS least, MAX(val) AS greatest
                             FROM (SELECT ((at + ");
        query.push_value(shift).push(") / ").push_value(width).push(" * ").push_value(width);
        query.push(" - ").push_value(shift).push(") AS bucket, ");
        match by.grouping {
            None => {
                query.push("CAST(NULL AS TEXT)");
            }
            Some(grouping) => {
                query.push("CAST(");
                push_field(&mut query, grouping.field(), scope);
                query.push(" AS TEXT)");
            }
        }
        query.push(" AS place, ");
        push_formula(&mut query, formula, scope);
        query.push(" AS val FROM records WHERE ").varying();
        narrow(&mut query, scope, filter);
        let page = Page { limit: 0, from: None, until: None };
        page.lie_between(&mut query, filter.time());
        query.push(") AS walked GROUP BY bucket, place LIMIT ").push_value(stored(most));
        let rows = self.fetch_in_time(query).await?;
        rows.iter().map(bucket).collect()
    }
}

/// Appends scope and filter. For a restricted member, `+` keeps the planner from the account's
/// index, where a walk would pass over rows of other Agents without bound.
fn narrow(query: &mut Statement, scope: &Scope, filter: &LogFilter) {
    query.push(if scope.permitted().is_some() { "+" } else { "" });
    within(query, scope);
    query.push(PRESENT_RECORD);
    push_conditions(query, &filter.conditions, scope);
}

fn place(columns: &Columns<'_>) -> Result<Cursor, StoreError> {
    Ok(Cursor { at: columns.time("at")?, id: columns.uuid("id")? })
}

fn log_row(row: &Row, fields: &[LogField]) -> Result<LogRow, StoreError> {
    let columns = Columns { table: "records", row };
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
    let columns = Columns { table: "records", row };
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
