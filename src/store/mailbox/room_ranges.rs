//! The index ranges that hold the rooms of a scope, each sorted by the latest message. An
//! organization and an Agent have one range; a partner or a reseller has one per organization below
//! it. So a new message moves its room in at most two indexes.

use std::fmt;
use std::str::FromStr;

use crate::domain::account::AccountType;
use crate::domain::clock::Timestamp;
use crate::domain::id::AccountId;
use crate::domain::scope::Scope;
use crate::store::base::Base;
use crate::store::base::page::{NotACursor, in_range, permitted};
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Row, Statement, sql};

/// A place in a list of rooms. Its text is `<milliseconds>-<contactId>:<agentId>`, with `0:0`
/// between two rooms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoomPlace {
    pub at: Timestamp,
    pub contact: i64,
    pub agent: i64,
}

impl fmt::Display for RoomPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}:{}", self.at.millis(), self.contact, self.agent)
    }
}

impl FromStr for RoomPlace {
    type Err = NotACursor;

    fn from_str(text: &str) -> Result<Self, NotACursor> {
        let read = || {
            let (millis, room) = text.split_once('-')?;
            let (contact, agent) = room.split_once(':')?;
            let at = Timestamp::from_millis(millis.parse().ok()?);
            let place = Self { at, contact: contact.parse().ok()?, agent: agent.parse().ok()? };
            // Only one spelling is accepted.
            (place.to_string() == text).then_some(place)
        };
        read().ok_or(NotACursor)
    }
}

/// The rooms of one organization or one Agent, which an index has in order.
#[derive(Clone, Copy, Debug)]
pub struct RoomRange {
    pub level: AccountType,
    pub account: AccountId,
}

/// The rows of a sorted list that a statement returns.
#[derive(Clone, Copy, Debug)]
pub struct RowWindow {
    pub skip: u32,
    pub limit: u32,
}

/// SQL around the statement that lists rooms.
#[derive(Clone, Copy, Debug, Default)]
pub struct Enclosure {
    pub before: &'static str,
    pub after: &'static str,
}

/// Ranges per statement: SQLite allows at most 500 parts in a UNION, and there are two inboxes.
pub const RANGES_AT_ONCE: usize = 100;

const ORDER: &str = " ORDER BY last_at DESC, contact_id DESC, agent_id DESC";
/// The organizations below an account; a condition on the account follows.
const ORGANIZATIONS: &str = "accounts WHERE deleted_at IS NULL AND kind = 'organization' AND ";

impl Base {
    /// Returns the ranges that hold the first `wanted` rooms of a scope that meet `conditions`. For
    /// a partner or a reseller this costs one step into an index per organization below, however
    /// many rooms it has, plus the rooms that the conditions pass over.
    pub(super) async fn room_ranges(
        &self,
        scope: &Scope,
        conditions: impl Fn(&mut Statement),
        wanted: u32,
    ) -> Result<Vec<RoomRange>, StoreError> {
        if !is_above_organizations(scope) {
            return Ok(vec![RoomRange { level: scope.level(), account: scope.root() }]);
        }
        let mut query = sql("SELECT id, (SELECT last_at FROM rooms
                                         WHERE rooms.organization_id = accounts.id");
        conditions(&mut query);
        query.push(ORDER).push(" LIMIT 1) AS latest FROM ").push(ORGANIZATIONS);
        in_range(&mut query, scope);
        let mut found = Vec::new();
        for row in query.fetch_all(self.reader()).await? {
            let columns = Columns { table: "rooms", row: &row };
            if let Some(latest) = columns.optional_time("latest")? {
                found.push((latest, columns.account("id")?));
            }
        }
        found.sort_unstable_by(|one, other| other.cmp(one));
        // Another organization with a room at the same moment may come first: keep all of them.
        let last = usize::try_from(wanted.saturating_sub(1)).unwrap_or(usize::MAX);
        let last = found.get(last).map(|(latest, _)| *latest);
        found.retain(|(latest, _)| last.is_none_or(|last| *latest >= last));
        let level = AccountType::Organization;
        Ok(found.into_iter().map(|(_, account)| RoomRange { level, account }).collect())
    }

    /// Sorts the rooms that meet `conditions` in each organization below a partner or a reseller,
    /// the latest first, and returns the latest time of all rooms number `skipped` + 1. So at most
    /// `skipped` rooms of each organization are later. None if no organization has so many. Takes
    /// one statement, however many organizations there are.
    pub(super) async fn latest_of_organizations(
        &self,
        scope: &Scope,
        conditions: impl Fn(&mut Statement),
        skipped: u32,
    ) -> Result<Option<Timestamp>, StoreError> {
        let mut query = sql("SELECT MAX(moment) AS latest FROM (SELECT (
                                 SELECT last_at FROM rooms
                                 WHERE rooms.organization_id = accounts.id");
        conditions(&mut query);
        query.push(ORDER).push(" LIMIT 1 OFFSET ").push_value(i64::from(skipped));
        query.push(") AS moment FROM ").push(ORGANIZATIONS);
        in_range(&mut query, scope);
        query.push(") AS moments");
        let row = query.fetch_one(self.reader()).await?;
        Columns { table: "rooms", row: &row }.optional_time("latest")
    }

    /// Returns the rooms of a window over all ranges together. `part` writes the statement of one
    /// range without its order; its columns include the place of a room. A statement has at most
    /// `RANGES_AT_ONCE` ranges, and reads each in the order of its index, no further than wanted.
    pub(super) async fn first_of_ranges<T>(
        &self,
        ranges: &[T],
        part: impl Fn(&mut Statement, &T),
        enclosure: Enclosure,
        RowWindow { skip, limit }: RowWindow,
    ) -> Result<Vec<Row>, StoreError> {
        let is_one = ranges.len() <= RANGES_AT_ONCE;
        let (above, wanted) = if is_one { (skip, limit) } else { (0, skip.saturating_add(limit)) };
        let mut found = Vec::new();
        for some in ranges.chunks(RANGES_AT_ONCE) {
            let mut query = sql(enclosure.before);
            // SQLite merges sorted parts; PostgreSQL does so only if each part has an ORDER BY.
            let in_order = some.len() > 1 && self.reader().is_postgres();
            for (number, range) in some.iter().enumerate() {
                query.push(if number > 0 { " UNION ALL " } else { "" });
                query.push(if in_order { "SELECT * FROM (" } else { "" });
                part(&mut query, range);
                if in_order {
                    let far = i64::from(above) + i64::from(wanted);
                    query.push(ORDER).push(" LIMIT ").push_value(far).push(") AS walked");
                }
            }
            query.push(ORDER).push(" LIMIT ").push_value(i64::from(wanted));
            query.push(" OFFSET ").push_value(i64::from(above)).push(enclosure.after);
            if some.len() > 1 {
                query.varying();
            }
            for row in query.fetch_all(self.reader()).await? {
                found.push((place(&Columns { table: "rooms", row: &row })?, row));
            }
            found.sort_unstable_by_key(|(place, _)| std::cmp::Reverse(*place));
            found.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
        }
        let skip = if is_one { 0 } else { usize::try_from(skip).unwrap_or(usize::MAX) };
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(found.into_iter().map(|(_, row)| row).skip(skip).take(limit).collect())
    }
}

/// Appends the condition that keeps rooms, in any order, inside a scope.
pub fn within(query: &mut Statement, scope: &Scope) {
    if is_above_organizations(scope) {
        query.push("organization_id IN (SELECT id FROM ").push(ORGANIZATIONS);
        in_range(query, scope);
        query.push(")");
    } else {
        in_range(query, scope);
    }
    permitted(query, scope);
}

fn is_above_organizations(scope: &Scope) -> bool {
    matches!(scope.level(), AccountType::Partner | AccountType::Reseller)
}

pub fn place(columns: &Columns<'_>) -> Result<RoomPlace, StoreError> {
    let (contact, agent) = (columns.contact("contact_id")?, columns.account("agent_id")?);
    Ok(RoomPlace { at: columns.time("last_at")?, contact: contact.get(), agent: agent.get() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_one_spelling() {
        let place = RoomPlace { at: Timestamp::from_millis(5), contact: 3, agent: 15 };
        assert_eq!(place.to_string(), "5-3:15");
        assert_eq!("5-3:15".parse(), Ok(place));
        for other in ["", "5", "5-3", "5-3:x", "05-3:15", "5-3:15 ", "5-+3:15"] {
            assert!(other.parse::<RoomPlace>().is_err(), "{other:?}");
        }
    }
}
