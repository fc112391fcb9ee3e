//! Reads that many callers need at the same moment, done once for all of them: the callers behind
//! keys (each of thousands of readers of the event log checks its rights again after every commit),
//! and standings. A read begins after its callers have asked, so no answer is older than its
//! question.

use std::collections::{HashMap, HashSet};

use super::accounts;
use super::addresses::{AddressedAgent, StandingQuestion, standings};
use super::keys::{HOLDER_COLUMNS, HOLDERS, KeyHolder, holder};
use super::members;
use crate::domain::account::Account;
use crate::domain::id::AccountId;
use crate::domain::key::KeyHash;
use crate::domain::member::Member;
use crate::store::base::Base;
use crate::store::engine::error::StoreError;
use crate::store::engine::group::GroupedWork;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;

/// Reads the holders of keys.
pub struct KeyHolderReader(pub Base);

/// Reads the accounts and members with given ids.
pub struct AccountReader(pub Base);

/// Reads the Agents that messages are addressed to, with their standings.
pub struct StandingReader(pub Base);

impl GroupedWork for StandingReader {
    type Job = StandingQuestion<'static>;
    type Answer = Option<AddressedAgent>;

    fn size(_: &Self::Job) -> (usize, usize) {
        (0, 0)
    }

    async fn write(&self, group: &[Self::Job]) -> Result<Vec<Self::Answer>, StoreError> {
        standings(self.0.reader(), &self.0.offer, group).await
    }
}

impl GroupedWork for KeyHolderReader {
    type Job = KeyHash;
    type Answer = Option<KeyHolder>;

    /// A size of zero: any number of questions fits into one read.
    fn size(_: &KeyHash) -> (usize, usize) {
        (0, 0)
    }

    async fn write(&self, group: &[KeyHash]) -> Result<Vec<Option<KeyHolder>>, StoreError> {
        let distinct: HashSet<&KeyHash> = group.iter().collect();
        let rows = distinct.into_iter().map(|hash| vec![hash.0.as_slice().into()]).collect();
        let text = format!(
            "WITH given (wanted) AS ({{rows}})
             SELECT keys.hash AS hash, {HOLDER_COLUMNS}, {} FROM given CROSS JOIN keys {HOLDERS}
               AND keys.hash = given.wanted",
            accounts::COLUMNS
        );
        let mut found = HashMap::new();
        for row in many(text, rows).fetch_all(self.0.reader()).await? {
            let hash = Columns { table: "keys", row: &row }.bytes("hash")?;
            found.insert(hash, holder(&row, &self.0.offer)?);
        }
        Ok(group.iter().map(|hash| found.get(hash.0.as_slice()).cloned()).collect())
    }
}

impl GroupedWork for AccountReader {
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
            members::COLUMNS,
            accounts::COLUMNS
        );
        let mut found = HashMap::new();
        for row in many(text, rows).fetch_all(self.0.reader()).await? {
            let wanted = Columns { table: "accounts", row: &row }.account("wanted")?;
            found.insert(wanted, members::with_account(&row)?);
        }
        Ok(group.iter().map(|id| found.get(id).cloned()).collect())
    }
}
