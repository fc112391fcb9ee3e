//! The present content of events, read once for all readers of the log that ask at the same time. A
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
use crate::store::engine::sql::Value;
use crate::store::events::event_row::places;

pub struct Contents {
    base: Base,
}

/// The present content of each event between two positions, by its position.
pub type ContentsNow = Arc<BTreeMap<i64, Content>>;

impl Contents {
    pub(in crate::store) const fn new(base: Base) -> Self {
        Self { base }
    }
}

impl GroupedWork for Contents {
    type Job = (i64, i64);
    type Answer = ContentsNow;

    fn size(_: &(i64, i64)) -> (usize, usize) {
        (0, 0)
    }

    async fn write(&self, group: &[(i64, i64)]) -> Result<Vec<ContentsNow>, StoreError> {
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
                 THEN 'message' ELSE 'erased' END AS content
             FROM given CROSS JOIN events
             LEFT JOIN contacts ON contacts.id = events.contact_id
             LEFT JOIN messages ON messages.id = events.id
             WHERE events.position > given.low AND events.position < given.high",
            disjoint(group).into_iter().map(span).collect(),
        );
        let mut found = BTreeMap::new();
        for row in rows.fetch_all(self.base.reader()).await? {
            let columns = Columns { table: "events", row: &row };
            let other = columns.word("content")?;
            let contact = columns.optional_word("contact")?.unwrap_or(other);
            for (place, name) in places(&row)? {
                let is_contact = name.is_some_and(|name| name.about() == About::Contact);
                found.insert(place.position, if is_contact { contact } else { other });
            }
        }
        let found: ContentsNow = Arc::new(found);
        Ok(group.iter().map(|_| Arc::clone(&found)).collect())
    }
}

/// Returns the bounds of the rows to read: a row has the position of its last event.
fn span((low, high): (i64, i64)) -> Vec<Value> {
    vec![low.into(), high.saturating_add(EventId::TOGETHER.into()).into()]
}

/// Merges spans that overlap: readers in step ask for the same positions.
fn disjoint(spans: &[(i64, i64)]) -> Vec<(i64, i64)> {
    let mut spans = spans.to_vec();
    spans.sort_unstable();
    let mut found: Vec<(i64, i64)> = Vec::new();
    for (low, high) in spans {
        match found.last_mut() {
            Some(last) if low <= last.1 => last.1 = last.1.max(high),
            _ => found.push((low, high)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_ask_for_is_read_once() {
        let asked = [(5, 9), (0, 2), (5, 9), (7, 12), (12, 13), (20, 21)];
        assert_eq!(disjoint(&asked), [(0, 2), (5, 13), (20, 21)]);
        assert!(disjoint(&[]).is_empty());
    }
}
