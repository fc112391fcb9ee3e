//! Pages of time-ordered lists: by cursor, so that a page costs the same however deep it lies.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

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
    /// The comparison that places rows on this page, over bind parameters `$1` (time) and `$2`
    /// (id), and the order in which they are read.
    pub(super) const fn sql(&self) -> (&'static str, &'static str) {
        match self.from {
            Some((Direction::After, _)) => ("(at, id) > ($1, $2)", "at ASC, id ASC"),
            _ => ("(at, id) < ($1, $2)", "at DESC, id DESC"),
        }
    }

    /// The cursor, or the end of time where the page begins with the newest row.
    pub(super) fn cursor(&self) -> Cursor {
        self.from.map_or(
            Cursor { at: Timestamp::from_millis(i64::MAX), id: Uuid::max() },
            |(_, cursor)| cursor,
        )
    }

    /// Puts rows that were read in this page's order into the order in which they are shown.
    pub(super) fn shown<T>(&self, mut rows: Vec<T>) -> Vec<T> {
        if matches!(self.from, Some((Direction::After, _))) {
            rows.reverse();
        }
        rows
    }
}

/// The comparison that keeps a list inside a scope, over bind parameters `$3` (the account) and
/// `$4` (a JSON array of permitted Agents, or null).
pub(super) fn scope_sql(scope: &Scope) -> &'static str {
    match (scope.level(), scope.permitted().is_some()) {
        (AccountType::Partner, false) => "partner_id = $3 AND $4 IS NULL",
        (AccountType::Reseller, false) => "reseller_id = $3 AND $4 IS NULL",
        (AccountType::Organization, false) => "organization_id = $3 AND $4 IS NULL",
        (AccountType::Agent, false) => "agent_id = $3 AND $4 IS NULL",
        (AccountType::Partner, true) => {
            "partner_id = $3 AND agent_id IN (SELECT value FROM json_each($4))"
        }
        (AccountType::Reseller, true) => {
            "reseller_id = $3 AND agent_id IN (SELECT value FROM json_each($4))"
        }
        (AccountType::Organization, true) => {
            "organization_id = $3 AND agent_id IN (SELECT value FROM json_each($4))"
        }
        (AccountType::Agent, true) => {
            "agent_id = $3 AND agent_id IN (SELECT value FROM json_each($4))"
        }
    }
}

/// The value of `$4`.
pub(super) fn permitted_json(scope: &Scope) -> Option<String> {
    let agents: Vec<i64> = scope.permitted()?.iter().map(|agent| agent.get()).collect();
    Some(serde_json::Value::from(agents).to_string())
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
