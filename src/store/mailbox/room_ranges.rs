//! The ranges of indexes in which the rooms of a scope lie, the latest first in each: one of an
//! organization or an Agent; of a partner or a reseller one of each organization below. So a room has
//! its place by time in no more than two indexes, each of which a message writes anew.

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

/// A place in a list of rooms. Shown as `<milliseconds>-<contactId>:<agentId>`; one that lies
/// between two rooms names none (`0:0`).
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
            // It has one spelling.
            (place.to_string() == text).then_some(place)
        };
        read().ok_or(NotACursor)
    }
}

/// An organization or an Agent.
pub type Range = (AccountType, AccountId);

/// Ranges of one statement: SQLite takes no more than 500 parts of a UNION, and there are two
/// inboxes.
pub const TOGETHER: usize = 100;

const ORDER: &str = " ORDER BY last_at DESC, contact_id DESC, agent_id DESC";
/// The organizations below an account; goes on with which one.
const ORGANIZATIONS: &str = "accounts WHERE deleted_at IS NULL AND kind = 'organization' AND ";

impl Base {
    /// The ranges that the first `wanted` rooms of a scope lie in, of those that `conditions` goes
    /// on to choose. Costs one step into an index for each organization below a partner or a
    /// reseller, however many rooms it has, beside what the conditions pass over.
    pub(super) async fn room_ranges(
        &self,
        scope: &Scope,
        conditions: impl Fn(&mut Statement),
        wanted: u32,
    ) -> Result<Vec<Range>, StoreError> {
        if !is_above_organizations(scope) {
            return Ok(vec![(scope.level(), scope.root())]);
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
        // All that begin at the same moment as the last one may have a room before its.
        let last = usize::try_from(wanted.saturating_sub(1)).unwrap_or(usize::MAX);
        let last = found.get(last).map(|(latest, _)| *latest);
        found.retain(|(latest, _)| last.is_none_or(|last| *latest >= last));
        Ok(found.into_iter().map(|(_, id)| (AccountType::Organization, id)).collect())
    }

    /// The latest of the moments of room number `skipped` + 1 of each organization below a partner or a
    /// reseller, counted from its latest room, among the rooms that `conditions` goes on to choose. So no
    /// organization has more than that many rooms there or later (but for those of the same moment), and
    /// some has as many. One statement, however many organizations there are.
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

    /// The rooms behind the first `skip` of these ranges together, `limit` at most: `part` makes
    /// the statement of a range without its order, whose columns have a room's place, and `whole`
    /// goes around it. A statement has no more than a hundred ranges, each in the order of its index, of
    /// which no more is read than is wanted.
    pub(super) async fn first_of_ranges<T>(
        &self,
        ranges: &[T],
        part: impl Fn(&mut Statement, &T),
        whole: (&str, &str),
        (skip, limit): (u32, u32),
    ) -> Result<Vec<Row>, StoreError> {
        let is_one = ranges.len() <= TOGETHER;
        let (above, wanted) = if is_one { (skip, limit) } else { (0, skip.saturating_add(limit)) };
        let mut found = Vec::new();
        for some in ranges.chunks(TOGETHER) {
            let mut query = sql("");
            query.push(whole.0);
            // SQLite merges what each part has in order; PostgreSQL only what each is asked for so.
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
            query.push(" OFFSET ").push_value(i64::from(above)).push(whole.1);
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

/// Goes on with the comparison that keeps rooms, in any order, inside a scope.
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

/// Where a room is in a list.
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
