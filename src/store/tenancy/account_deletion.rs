//! Deleting accounts. From the commit on, no key works, no address answers, no destination gets
//! events, and nobody reads the messages. Messages, contacts and allowlist are erased step by step
//! (`upkeep/erasure.rs`), because there may be millions. The row of the account stays without its
//! details: its id is never used again, and the audit log can name it.

use serde_json::json;

use super::accounts::{MakeRecord, account, find, select};
use super::audit::{self, Note};
use super::directory;
use crate::domain::account::{Account, AccountType};
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::event::{Event, EventName};
use crate::domain::id::AccountId;
use crate::store::base::Base;
use crate::store::base::page::below;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::many::many;
use crate::store::engine::sql::Value;
use crate::store::events::announcements::announce;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountDeletion {
    /// Deleted, with this number of accounts below it.
    Done { below: usize },
    /// There is no such account.
    Missing,
    /// The partner is the root of the tree.
    IsPartner,
    /// The number of accounts below it, counted up to one more than the bound.
    HasOthersBelow(usize),
}

/// Precedes each statement below: the ids of the deleted accounts.
const GIVEN: &str = "WITH given (account) AS ({rows}) ";

/// Hides the messages, and orders the erasure.
const ERASED: &str = "INSERT INTO erasures (subject, kind, asked_at)
    SELECT account, 'account', $1 FROM given WHERE 1 = 1 ON CONFLICT (subject) DO NOTHING";

/// Statements that stop the work of an account. Each finds its rows by an index.
const STOPPED: &[&str] = &[
    "UPDATE keys SET revoked_at = $1
     WHERE revoked_at IS NULL AND account_id IN (SELECT account FROM given)",
    // After the keys, whose rows a new session locks: none is added behind this.
    "DELETE FROM console_sessions WHERE key_id IN (
         SELECT id FROM keys WHERE account_id IN (SELECT account FROM given))",
    "UPDATE members SET removed_at = $1
     WHERE removed_at IS NULL AND account_id IN (SELECT account FROM given)",
    // Waiting deliveries are cancelled later; secrets are deleted now.
    "UPDATE destinations
     SET removed_at = $1, draining = 1, secret = $2, former_secrets = '[]', headers = '[]'
     WHERE removed_at IS NULL AND account_id IN (SELECT account FROM given)",
    "DELETE FROM addresses WHERE agent_id IN (SELECT account FROM given)",
    "DELETE FROM computers WHERE agent_id IN (SELECT account FROM given)",
    "DELETE FROM domain_claims WHERE account_id IN (SELECT account FROM given)",
    // Deletes their attempts, too.
    "DELETE FROM relays WHERE account_id IN (SELECT account FROM given)",
    "DELETE FROM inbound_ways WHERE account_id IN (SELECT account FROM given)",
    // The Agents with addresses in these domains are below the owner, and deleted, too.
    "DELETE FROM domains WHERE account_id IN (SELECT account FROM given)",
    // Deletes their secrets, too.
    "DELETE FROM app_records WHERE account_id IN (SELECT account FROM given)",
    "DELETE FROM feature_grants WHERE account_id IN (SELECT account FROM given)",
    // `template_migrations.rs` deletes the rest.
    "UPDATE templates SET deleted_at = $1
     WHERE deleted_at IS NULL AND account_id IN (SELECT account FROM given)",
    "DELETE FROM template_links WHERE agent_id IN (SELECT account FROM given)",
];

impl Base {
    /// Deletes an account in one transaction; with `cascade` also up to `most` accounts below it,
    /// few enough not to delay other work. Without `cascade`, refuses if there are accounts below
    /// it. Closes the gate of the account, and passes those of the accounts above.
    pub async fn delete_account(
        &self,
        id: AccountId,
        cascade: bool,
        most: usize,
        make_record: MakeRecord,
        act: Act<'_>,
    ) -> Result<AccountDeletion, StoreError> {
        transact!(self, async |tx| {
            let Some(found) = find(&mut tx, id).await? else {
                return Ok(AccountDeletion::Missing);
            };
            if found.kind == AccountType::Partner {
                return Ok(AccountDeletion::IsPartner);
            }
            // Commits below the account, and new accounts below it, pass its gate.
            let above: Vec<AccountId> = found.lineage.ids().filter(|above| *above != id).collect();
            gates::close_below(&mut tx, id, &above).await?;
            let Some(target) = find(&mut tx, id).await? else {
                return Ok(AccountDeletion::Missing);
            };
            let below = accounts_below(&mut tx, &target, most.saturating_add(1)).await?;
            if below.len() > if cascade { most } else { 0 } {
                return Ok(AccountDeletion::HasOthersBelow(below.len()));
            }
            let deleted: Vec<&Account> = below.iter().rev().chain([&target]).collect();
            for Account { id, kind, name, .. } in &deleted {
                let changes = [Change::gone("accountType", kind), Change::gone("name", name)];
                let note = Note::new(*id, Deed::AccountDeleted, name, &changes);
                audit::note(&mut tx, self.mint(), act, note).await?;
            }
            let rows: Vec<Vec<Value>> = deleted.iter().map(|one| vec![one.id.into()]).collect();
            // First, because a change of one of these accounts holds its row (`audit::note`):
            // either the statements below see it, or it finds the account deleted.
            let delete = "UPDATE accounts SET deleted_at = $1, details = NULL, plan = NULL
                          WHERE id IN (SELECT account FROM given)";
            for text in [delete, ERASED].iter().chain(STOPPED) {
                let mut statement = many(GIVEN.to_owned() + text, rows.clone());
                if text.contains("$1") {
                    statement = statement.bind(act.at);
                }
                if text.contains("$2") {
                    statement = statement.bind([].as_slice());
                }
                statement.execute(tx.on()).await?;
            }
            let event = |account: &&Account| Event {
                id: self.mint().event(),
                name: EventName::AccountDeleted,
                at: act.at,
                lineage: account.lineage,
                message: None,
                contact: None,
                told: Some(json!({ "account": make_record(account) })),
            };
            let events: Vec<Event> = deleted.iter().map(event).collect();
            announce(&mut tx, &events, self.mint()).await?;
            directory::changed(&mut tx).await?;
            tx.commit().await?;
            Ok(AccountDeletion::Done { below: below.len() })
        })
    }
}

/// Returns up to `limit` accounts below this one, the oldest first.
async fn accounts_below(
    tx: &mut Transaction,
    target: &Account,
    limit: usize,
) -> Result<Vec<Account>, StoreError> {
    if target.kind == AccountType::Agent {
        return Ok(Vec::new());
    }
    let mut query = select("AND ");
    below(&mut query, target.kind, target.id);
    query.push(" AND id <> ").push_value(target.id).push(" ORDER BY id LIMIT ");
    query.push_value(i64::try_from(limit).unwrap_or(i64::MAX));
    query.fetch_all(tx.on()).await?.iter().map(account).collect()
}
