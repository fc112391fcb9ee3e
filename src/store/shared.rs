//! What many readers ask at the same time, asked once for all of them: thousands that follow the log
//! hear of the same commit, and each asks again what it may see before it writes. A question begins
//! after all who share it have asked, so each answer is as of a moment after its question.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::db::{Base, Store};
use crate::domain::account::Account;
use crate::domain::delivery::Content;
use crate::domain::id::AccountId;
use crate::domain::key::KeyHash;
use crate::domain::member::Member;
use crate::store::engine::error::StoreError;
use crate::store::engine::group::Together;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::tenancy::accounts;
use crate::store::tenancy::keys::{HELD, HOLDER, KeyHolder, holder};
use crate::store::tenancy::members;

/// Says who holds keys.
pub struct Holders {
    base: Base,
}

/// Says which accounts and members ids name.
pub struct Named {
    base: Base,
}

/// Says what events are about.
pub struct Contents {
    base: Base,
}

/// Of each event between two places, by its place, what a body of it is made of now.
pub type ContentsNow = Arc<BTreeMap<i64, Content>>;

impl Store {
    /// As [`Self::key_holder`], with all who ask at the same time: one statement for all keys, of
    /// those who follow the log.
    pub async fn key_holder_with_others(
        &self,
        hash: KeyHash,
    ) -> Result<Option<KeyHolder>, StoreError> {
        self.holders.ask(hash).await
    }

    /// As [`Self::account_or_member`], with all who ask at the same time.
    pub async fn account_or_member_with_others(
        &self,
        id: AccountId,
    ) -> Result<Option<(Account, Option<Member>)>, StoreError> {
        self.named.ask(id).await
    }

    /// What the events behind a place up to another are about now, whosever they are, with all who
    /// ask at the same time: a body that was made before may be of something that is erased since.
    pub async fn contents_with_others(
        &self,
        (after, until): (i64, i64),
    ) -> Result<ContentsNow, StoreError> {
        self.contents.ask((after, until)).await
    }
}

impl Holders {
    pub(in crate::store) const fn new(base: Base) -> Self {
        Self { base }
    }
}

impl Together for Holders {
    type Job = KeyHash;
    type Answer = Option<KeyHolder>;

    /// However many ask, they are asked for at once.
    fn size(_: &KeyHash) -> (usize, usize) {
        (0, 0)
    }

    async fn write(&self, group: &[KeyHash]) -> Result<Vec<Option<KeyHolder>>, StoreError> {
        let distinct: HashSet<&KeyHash> = group.iter().collect();
        let rows = distinct.into_iter().map(|hash| vec![hash.0.as_slice().into()]).collect();
        let text = format!(
            "WITH given (wanted) AS ({{rows}})
             SELECT keys.hash AS hash, {HELD}, {} FROM given CROSS JOIN keys {HOLDER}
               AND keys.hash = given.wanted",
            accounts::COLUMNS
        );
        let mut found = HashMap::new();
        for row in many(text, rows).fetch_all(self.base.reader()).await? {
            let hash = Columns { table: "keys", row: &row }.bytes("hash")?;
            found.insert(hash, holder(&row)?);
        }
        Ok(group.iter().map(|hash| found.get(hash.0.as_slice()).cloned()).collect())
    }
}

impl Named {
    pub(in crate::store) const fn new(base: Base) -> Self {
        Self { base }
    }
}

impl Together for Named {
    type Job = AccountId;
    type Answer = Option<(Account, Option<Member>)>;

    fn size(_: &AccountId) -> (usize, usize) {
        (0, 0)
    }

    async fn write(&self, group: &[AccountId]) -> Result<Vec<Self::Answer>, StoreError> {
        let distinct: HashSet<&AccountId> = group.iter().collect();
        let rows = distinct.into_iter().map(|id| vec![id.get().into()]).collect();
        let text = format!(
            "WITH given (wanted) AS ({{rows}})
             SELECT given.wanted AS wanted, {}, {}
             FROM given CROSS JOIN accounts
             LEFT JOIN members ON members.id = given.wanted AND account_id = accounts.id
                 AND removed_at IS NULL
             WHERE deleted_at IS NULL AND accounts.id = COALESCE(
                 (SELECT account_id FROM members AS one
                  WHERE one.id = given.wanted AND one.removed_at IS NULL), given.wanted)",
            members::BESIDE_ITS_ACCOUNT,
            accounts::COLUMNS
        );
        let mut found = HashMap::new();
        for row in many(text, rows).fetch_all(self.base.reader()).await? {
            let wanted = Columns { table: "accounts", row: &row }.account("wanted")?;
            found.insert(wanted, members::with_account(&row)?);
        }
        Ok(group.iter().map(|id| found.get(id).cloned()).collect())
    }
}

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
