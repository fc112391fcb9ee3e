//! What events are about now, asked once for all who follow the log and ask at the same time: a body
//! that was made before may be of something that is erased since.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::delivery::Content;
use crate::store::base::Base;
use crate::store::engine::error::StoreError;
use crate::store::engine::group::Together;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;

/// Says what events are about.
pub struct Contents {
    base: Base,
}

/// Of each event between two places, by its place, what a body of it is made of now.
pub type ContentsNow = Arc<BTreeMap<i64, Content>>;

impl Contents {
    pub(in crate::store) const fn new(base: Base) -> Self {
        Self { base }
    }
}

impl Together for Contents {
    type Job = (i64, i64);
    type Answer = ContentsNow;

    fn size(_: &(i64, i64)) -> (usize, usize) {
        (0, 0)
    }

    async fn write(&self, group: &[(i64, i64)]) -> Result<Vec<ContentsNow>, StoreError> {
        let rows = many(
            "WITH given (low, high) AS ({rows})
             SELECT events.position AS position, CASE
                 WHEN events.told IS NOT NULL THEN 'told'
                 WHEN events.name IN ('contact.created', 'contact.updated')
                      AND events.contact_id IS NOT NULL THEN
                     CASE WHEN contacts.id IS NOT NULL AND NOT EXISTS (
                         SELECT 1 FROM erasures
                         WHERE subject IN (contacts.id, contacts.organization_id))
                     THEN 'contact' ELSE 'erased' END
                 WHEN messages.id IS NOT NULL AND NOT EXISTS (
                     SELECT 1 FROM erasures
                     WHERE subject IN (messages.contact_id, messages.agent_id))
                 THEN 'message' ELSE 'erased' END AS content
             FROM given CROSS JOIN events
             LEFT JOIN contacts ON contacts.id = events.contact_id
             LEFT JOIN messages ON messages.id = events.message_id
             WHERE events.position > given.low AND events.position <= given.high",
            disjoint(group).into_iter().map(|(low, high)| vec![low.into(), high.into()]).collect(),
        );
        let read = |row| {
            let columns = Columns { table: "events", row };
            Ok((columns.integer("position")?, columns.word("content")?))
        };
        let rows = rows.fetch_all(self.base.reader()).await?;
        let found: ContentsNow =
            Arc::new(rows.iter().map(read).collect::<Result<_, StoreError>>()?);
        Ok(group.iter().map(|_| Arc::clone(&found)).collect())
    }
}

/// The same places without one twice: readers who march in step ask for the same.
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
