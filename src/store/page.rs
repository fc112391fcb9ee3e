//! Pages of time-ordered lists: by cursor, so that a page costs the same however deep it lies.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use super::sql::Statement;
use crate::domain::account::AccountType;
use crate::domain::clock::Timestamp;
use crate::domain::scope::Scope;

/// A place in a list that is ordered by time and id. Shown as `<milliseconds>-<uuid>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    pub at: Timestamp,
    pub id: Uuid,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.at.millis(), self.id.as_simple())
    }
}

impl FromStr for Cursor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || format!("{text:?} is not a cursor: take it from the answer before");
        let (millis, id) = text.split_once('-').ok_or_else(malformed)?;
        let millis = millis.parse().map_err(|_| malformed())?;
        let id = Uuid::try_parse(id).map_err(|_| malformed())?;
        Ok(Self { at: Timestamp::from_millis(millis), id })
    }
}

/// Which side of the cursor a page lies on.
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
}

impl Page {
    /// Goes on with the comparison, the order and the limit that read the rows of this page.
    pub(super) fn read(&self, statement: &mut Statement) {
        if let Some((direction, cursor)) = self.from {
            statement.push(match direction {
                Direction::Before => " AND (at, id) < (",
                Direction::After => " AND (at, id) > (",
            });
            statement.push_value(cursor.at).push(", ").push_value(cursor.id).push(")");
        }
        statement.push(match self.from {
            Some((Direction::After, _)) => " ORDER BY at ASC, id ASC LIMIT ",
            _ => " ORDER BY at DESC, id DESC LIMIT ",
        });
        statement.push_value(i64::from(self.limit));
    }

    /// Puts rows that were read in this page's order into the order in which they are shown.
    pub(super) fn shown<T>(&self, mut rows: Vec<T>) -> Vec<T> {
        if matches!(self.from, Some((Direction::After, _))) {
            rows.reverse();
        }
        rows
    }
}

/// Goes on with the comparison that keeps a list inside a scope.
pub(super) fn within(statement: &mut Statement, scope: &Scope) {
    statement.push(match scope.level() {
        AccountType::Partner => "partner_id = ",
        AccountType::Reseller => "reseller_id = ",
        AccountType::Organization => "organization_id = ",
        AccountType::Agent => "agent_id = ",
    });
    statement.push_value(scope.root());
    let Some(permitted) = scope.permitted() else { return };
    // Neither database takes a list as one value in the same way; these are integers of ours.
    let ids = permitted.iter().map(|agent| agent.get().to_string()).collect::<Vec<_>>();
    if ids.is_empty() {
        statement.push(" AND 1 = 0");
    } else {
        statement.push(" AND agent_id IN (").push(&ids.join(", ")).push(")");
        statement.varying();
    }
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
