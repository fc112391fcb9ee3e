//! Pages of time-ordered lists, by cursor: a page costs the same however deep it lies.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use super::Base;
use crate::domain::account::AccountType;
use crate::domain::clock::{TimeRange, Timestamp};
use crate::domain::id::AccountId;
use crate::domain::scope::Scope;
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Statement, sql};

/// A place in a list that is ordered by time and id. Shown as `<milliseconds>-<uuid>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    pub at: Timestamp,
    pub id: Uuid,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.at.millis(), self.id.as_simple())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a cursor: send `next` of an earlier page")]
pub struct NotACursor;

impl FromStr for Cursor {
    type Err = NotACursor;

    fn from_str(text: &str) -> Result<Self, NotACursor> {
        let (millis, id) = text.split_once('-').ok_or(NotACursor)?;
        let millis = millis.parse().map_err(|_| NotACursor)?;
        let id = Uuid::try_parse(id).map_err(|_| NotACursor)?;
        Ok(Self { at: Timestamp::from_millis(millis), id })
    }
}

/// The side of the cursor on which a page lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Older than the cursor.
    Before,
    /// Newer than the cursor.
    After,
}

/// A page of a list that shows the newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    pub limit: u32,
    pub from: Option<(Direction, Cursor)>,
    /// The last place that this request may look at, to bound its cost: see `Store::end_of_walk`.
    pub until: Option<Cursor>,
}

impl Page {
    /// Returns the page behind this place, towards older rows.
    #[must_use]
    pub fn behind(self, place: Cursor) -> Self {
        Self { from: Some((Direction::Before, place)), ..self }
    }

    /// Appends, behind a condition, comparisons, order and limit for the rows of this page.
    pub(in crate::store) fn read(&self, statement: &mut Statement) {
        self.read_between(statement, TimeRange::default());
    }

    /// Appends comparisons, order and limit for the rows of this range.
    pub(in crate::store) fn read_between(&self, statement: &mut Statement, range: TimeRange) {
        self.read_by("at", statement, range);
    }

    /// Appends comparisons, order and limit for a list whose time is in another column.
    pub(in crate::store) fn read_by(
        &self,
        time: &'static str,
        statement: &mut Statement,
        range: TimeRange,
    ) {
        self.bounds(time, statement, range);
        statement.push(&self.order(time)).push(" LIMIT ").push_value(i64::from(self.limit));
    }

    /// Appends the comparisons without order and limit, for statements that aggregate rows.
    pub(in crate::store) fn lie_between(&self, statement: &mut Statement, range: TimeRange) {
        self.bounds("at", statement, range);
    }

    fn order(&self, time: &'static str) -> String {
        let order = if self.ascending() { "ASC" } else { "DESC" };
        format!(" ORDER BY {time} {order}, id {order}")
    }

    /// Appends one bound on each side, the tightest: SQLite seeks by one bound only, and would walk
    /// through the rows between two.
    fn bounds(&self, time: &'static str, statement: &mut Statement, range: TimeRange) {
        let first_of = |at| Cursor { at, id: Uuid::nil() };
        let (older, newer) = match self.from {
            Some((Direction::After, cursor)) => (Some(cursor), self.until),
            Some((Direction::Before, cursor)) => (self.until, Some(cursor)),
            None => (self.until, None),
        };
        let ascending = self.ascending();
        let lower = [(older, ascending), (range.since.map(first_of), false)];
        let lower = lower.into_iter().filter_map(|(cursor, beyond)| Some((cursor?, beyond))).max();
        let mut compare = |sign: &str, cursor: Cursor| {
            statement.push(" AND (").push(time).push(", id) ").push(sign).push(" (");
            statement.push_value(cursor.at).push(", ").push_value(cursor.id).push(")");
        };
        if let Some((cursor, beyond)) = lower {
            compare(if beyond { ">" } else { ">=" }, cursor);
        }
        let upper = [(newer, ascending), (range.before.map(first_of), false)];
        let upper = upper.into_iter().filter_map(|(cursor, with)| Some((cursor?, with))).min();
        if let Some((cursor, with)) = upper {
            compare(if with { "<=" } else { "<" }, cursor);
        }
    }

    /// Whether rows are read from the oldest on.
    pub(in crate::store) const fn ascending(&self) -> bool {
        matches!(self.from, Some((Direction::After, _)))
    }

    /// Puts rows that were read in this page's order into the order shown, the newest first.
    pub(in crate::store) fn newest_first<T>(&self, mut rows: Vec<T>) -> Vec<T> {
        if self.ascending() {
            rows.reverse();
        }
        rows
    }
}

/// Truncates rows that were fetched with a limit of one more; returns whether there are more.
pub fn truncate_page<T>(found: &mut Vec<T>, limit: u32) -> bool {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = found.len() > limit;
    found.truncate(limit);
    more
}

/// Index ranges of `messages`: those that have a record, and those that have none any more.
pub const RECORDED: [&str; 2] = ["recorded = 1 AND ", "recorded = 0 AND "];

/// Makes the statement of a page over these ranges. `part` writes the statement of one range up to
/// its last condition; its columns include `at` and `id`. SQLite merges sorted ranges row by row;
/// PostgreSQL reads each range up to a limit.
pub fn merged<T>(
    is_postgres: bool,
    ranges: &[T],
    part: impl Fn(&mut Statement, &T),
    page: &Page,
    time: TimeRange,
) -> Statement {
    let mut query = all_merged(is_postgres, ranges, part, page, time);
    query.push(" LIMIT ").push_value(i64::from(page.limit));
    query
}

/// Makes the statement of [`merged`] up to its limit.
fn all_merged<T>(
    is_postgres: bool,
    ranges: &[T],
    part: impl Fn(&mut Statement, &T),
    page: &Page,
    time: TimeRange,
) -> Statement {
    let order = page.order("at");
    let mut query = sql("");
    for (number, range) in ranges.iter().enumerate() {
        query.push(if number > 0 { " UNION ALL " } else { "" });
        query.push(if is_postgres { "SELECT * FROM (" } else { "" });
        part(&mut query, range);
        page.lie_between(&mut query, time);
        if is_postgres {
            query.push(&order).push(" LIMIT ").push_value(i64::from(page.limit));
            query.push(") AS walked");
        }
    }
    query.push(&order);
    query
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    Messages,
    IntakeRecords,
    Audit,
}

impl List {
    /// Returns the tables, and the ranges in them, that hold the rows of the list.
    const fn ranges(self) -> &'static [[&'static str; 2]] {
        match self {
            Self::Messages => &[["messages WHERE ", RECORDED[0]], ["messages WHERE ", RECORDED[1]]],
            Self::IntakeRecords => &[["records WHERE recorded = 1 AND ", ""]],
            Self::Audit => &[["audit_entries WHERE ", ""]],
        }
    }

    /// Names the table in errors.
    const fn table(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::IntakeRecords => "records",
            Self::Audit => "audit_entries",
        }
    }
}

impl Base {
    /// Returns the place of the row with this id; None if it is not there, or not in `scope`.
    pub async fn place_of(
        &self,
        list: List,
        scope: &Scope,
        id: Uuid,
    ) -> Result<Option<Cursor>, StoreError> {
        let mut query = sql("");
        for (number, [table, range]) in list.ranges().iter().enumerate() {
            query.push(if number > 0 { " UNION ALL " } else { "" });
            query.push("SELECT at FROM ").push(table).push(range).push("id = ").push_value(id);
            query.push(" AND ");
            within(&mut query, scope);
        }
        let row = query.fetch_optional(self.reader()).await?;
        let at = row.map(|row| Columns { table: list.table(), row: &row }.time("at"));
        Ok(at.transpose()?.map(|at| Cursor { at, id }))
    }

    /// Returns where a page must end: the place of the last of the next `most` rows in `scope`,
    /// shown or not. None if there are fewer rows. As `Page::until` it bounds a page that passes
    /// over rows, so that the cost of a request does not depend on its filter. The place has no
    /// row's id, because that row may be hidden from the caller. It lies beyond all rows of its
    /// millisecond: this page looks at all of them, and the next page at none.
    pub async fn end_of_walk(
        &self,
        list: List,
        scope: &Scope,
        page: &Page,
        time: TimeRange,
        most: u32,
    ) -> Result<Option<Cursor>, StoreError> {
        let most = most.max(1);
        let walk = Page { until: None, limit: most, ..*page };
        let part = |query: &mut Statement, range: &[&str; 2]| {
            query.push("SELECT at, id FROM ").push(&range.concat());
            in_range(query, scope);
        };
        let on = self.reader();
        let mut query = all_merged(on.is_postgres(), list.ranges(), part, &walk, time);
        query.push(" LIMIT 1 OFFSET ").push_value(i64::from(most - 1));
        let row = query.fetch_optional(on).await?;
        let place = row.map(|row| {
            let columns = Columns { table: list.table(), row: &row };
            let id = if page.ascending() { Uuid::max() } else { Uuid::nil() };
            Ok(Cursor { at: columns.time("at")?, id })
        });
        place.transpose()
    }
}

/// Appends, behind `WHERE` or `AND`, the comparisons that keep a list inside a scope.
pub fn within(statement: &mut Statement, scope: &Scope) {
    in_range(statement, scope);
    permitted(statement, scope);
}

/// Appends the comparison that narrows a list to the permitted Agents of a scope, if the scope has
/// such a limit.
pub fn permitted(statement: &mut Statement, scope: &Scope) {
    let Some(permitted) = scope.permitted() else { return };
    // The databases take a list as a value in different ways; these are integers of ours.
    let ids = permitted.iter().map(|agent| agent.get().to_string()).collect::<Vec<_>>();
    if ids.is_empty() {
        statement.push(" AND 1 = 0");
    } else {
        statement.push(" AND agent_id IN (").push(&ids.join(", ")).push(")");
        statement.varying();
    }
}

/// Appends the range of the index that holds the rows of a scope.
pub fn in_range(statement: &mut Statement, scope: &Scope) {
    below(statement, scope.level(), scope.root());
}

/// Appends the range of the index that holds the rows of an account, for work without a caller.
pub fn below(statement: &mut Statement, level: AccountType, account: AccountId) {
    statement.push(match level {
        AccountType::Partner => "partner_id = ",
        AccountType::Reseller => "reseller_id = ",
        AccountType::Organization => "organization_id = ",
        AccountType::Agent => "agent_id = ",
    });
    statement.push_value(account);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back() {
        let cursor = Cursor { at: Timestamp::from_millis(1_718_463_395_123), id: Uuid::max() };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for bad in ["", "-", "12", "x-00000000000000000000000000000000", "1-2"] {
            assert!(bad.parse::<Cursor>().is_err(), "{bad:?}");
        }
    }
}
