//! The present content of events, read once for all readers of the log that ask at the same time: a
//! body that was made earlier may show a message or contact that has been erased since.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::delivery::Content;
use crate::domain::event::About;
use crate::domain::id::EventId;
use crate::store::base::Base;
use crate::store::engine::error::StoreError;
use crate::store::engine::group::GroupedWork;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::events::event_row::{named_message, places};
use crate::store::mailbox::messages;

/// Reads contents for all callers of the moment.
pub struct ContentReader {
    pub(in crate::store) base: Base,
}

/// Positions behind `after`, up to `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PositionRange {
    pub after: i64,
    pub until: i64,
}

/// The present content of events by their positions: at least of those in the range asked for.
pub type CurrentContents = Arc<BTreeMap<i64, Content>>;

impl GroupedWork for ContentReader {
    type Job = PositionRange;
    type Answer = CurrentContents;

    fn size(_: &PositionRange) -> (usize, usize) {
        (0, 0)
    }

    async fn write(&self, group: &[PositionRange]) -> Result<Vec<CurrentContents>, StoreError> {
        // A row has the position of its last event.
        let bounds = |range: PositionRange| {
            vec![range.after.into(), range.until.saturating_add(EventId::TOGETHER.into()).into()]
        };
        let rows = many(
            "WITH given (low, high) AS ({rows})
             SELECT events.id AS id, events.names AS names, events.position AS position,
                 CASE WHEN events.told IS NOT NULL OR events.contact_id IS NULL THEN NULL
                 WHEN contacts.id IS NOT NULL AND NOT EXISTS (
                     SELECT 1 FROM erasures
                     WHERE subject IN (contacts.id, contacts.organization_id))
                 THEN 'contact' ELSE 'erased' END AS contact,
                 CASE WHEN events.told IS NOT NULL THEN 'told'
                 WHEN messages.id IS NOT NULL AND NOT EXISTS (
                     SELECT 1 FROM erasures
                     WHERE subject IN (messages.contact_id, messages.agent_id))
                 THEN 'message' ELSE 'erased' END AS content,
                 CASE WHEN events.contact_id IS NOT NULL THEN events.told END AS named
             FROM given CROSS JOIN events
             LEFT JOIN contacts ON contacts.id = events.contact_id
             LEFT JOIN messages ON messages.id = events.id
             WHERE events.position > given.low AND events.position < given.high",
            merged(group).into_iter().map(bounds).collect(),
        );
        let rows = rows.fetch_all(self.base.reader()).await?;
        let named = rows.iter().filter_map(|row| named_message(row).transpose());
        let named = named.collect::<Result<Vec<_>, StoreError>>()?;
        let present = messages::present(self.base.reader(), named).await?;
        let mut found = BTreeMap::new();
        for row in &rows {
            let columns = Columns { table: "events", row };
            let other = match named_message(row)? {
                Some(message) if present.contains(&message) => Content::Message,
                Some(_) => Content::Erased,
                None => columns.word("content")?,
            };
            let contact = columns.optional_word("contact")?.unwrap_or(other);
            for (place, name) in places(row)? {
                let is_contact = name.is_some_and(|name| name.about() == About::Contact);
                found.insert(place.position, if is_contact { contact } else { other });
            }
        }
        let found = Arc::new(found);
        Ok(vec![found; group.len()])
    }
}

/// Merges ranges that overlap: readers in step ask for the same positions.
fn merged(ranges: &[PositionRange]) -> Vec<PositionRange> {
    let mut ranges = ranges.to_vec();
    ranges.sort_unstable();
    let mut found: Vec<PositionRange> = Vec::new();
    for range in ranges {
        match found.last_mut() {
            Some(last) if range.after <= last.until => last.until = last.until.max(range.until),
            _ => found.push(range),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_ask_for_is_read_once() {
        let range = |(after, until)| PositionRange { after, until };
        let asked = [(5, 9), (0, 2), (5, 9), (7, 12), (12, 13), (20, 21)].map(range);
        assert_eq!(merged(&asked), [(0, 2), (5, 13), (20, 21)].map(range));
        assert!(merged(&[]).is_empty());
    }
}
