//! Deleting accounts. From the commit on, no key works, no address answers, no destination gets
//! events, and nobody reads the messages. Messages, contacts and allowlist are erased step by step
//! (`upkeep/erasure.rs`), because there may be millions. The row of the account stays without its
//! details: its id is never used again, and the audit log can name it.

use serde_json::json;

use super::accounts::{Tell, account, find, select};
use super::audit::{self, Note};
use super::directory;
use crate::domain::account::{Account, AccountType};
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::event::{Event, EventName};
use crate::domain::id::AccountId;
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::many::many;
use crate::store::engine::sql::Value;
use crate::store::events::announcements::announce;

/// The result of a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// Deleted, with this number of accounts below it.
    Done { below: usize },
    /// There is no such account.
    Missing,
    /// The partner is the root of the tree.
    IsPartner,
    /// The number of accounts below it, counted up to one more than the bound.
    HasOthersBelow(usize),
}

/// Statements that stop the work of an account. Each finds its rows by an index.
const STOPPED: &[&str] = &[
    "WITH given (account) AS ({rows})
     UPDATE keys SET revoked_at = $1
     WHERE revoked_at IS NULL AND account_id IN (SELECT account FROM given)",
    "WITH given (account) AS ({rows})
     UPDATE members SET removed_at = $1
     WHERE removed_at IS NULL AND account_id IN (SELECT account FROM given)",
    // Waiting deliveries are cancelled later; secrets are deleted now.
    "WITH given (account) AS ({rows})
     UPDATE destinations
     SET removed_at = $1, draining = 1, secret = $2, former_secrets = '[]', headers = '[]'
     WHERE removed_at IS NULL AND account_id IN (SELECT account FROM given)",
    "WITH given (account) AS ({rows})
     DELETE FROM addresses WHERE agent_id IN (SELECT account FROM given)",
    "WITH given (account) AS ({rows})
     DELETE FROM computers WHERE agent_id IN (SELECT account FROM given)",
    "WITH given (account) AS ({rows})
     DELETE FROM domain_claims WHERE account_id IN (SELECT account FROM given)",
    // Deletes their attempts, too.
    "WITH given (account) AS ({rows})
     DELETE FROM relays WHERE account_id IN (SELECT account FROM given)",
    "WITH given (account) AS ({rows})
     DELETE FROM inbound_ways WHERE account_id IN (SELECT account FROM given)",
    // The Agents with addresses in these domains are below the owner, and deleted, too.
    "WITH given (account) AS ({rows})
     DELETE FROM domains WHERE account_id IN (SELECT account FROM given)",
    // Deletes their secrets, too.
    "WITH given (account) AS ({rows})
     DELETE FROM app_records WHERE account_id IN (SELECT account FROM given)",
    "WITH given (account) AS ({rows})
     DELETE FROM feature_grants WHERE account_id IN (SELECT account FROM given)",
    // `template_migrations.rs` deletes the rest.
    "WITH given (account) AS ({rows})
     UPDATE templates SET deleted_at = $1
     WHERE deleted_at IS NULL AND account_id IN (SELECT account FROM given)",
    "WITH given (account) AS ({rows})
     DELETE FROM template_links WHERE agent_id IN (SELECT account FROM given)",
];

/// Hides the messages, and orders the erasure.
const ERASED: &str = "WITH given (account) AS ({rows})
    INSERT INTO erasures (subject, kind, asked_at) SELECT account, 'account', $1 FROM given WHERE 1 = 1
    ON CONFLICT (subject) DO NOTHING";

impl Base {
    /// Deletes an account in one transaction; with `cascade` also up to `most` accounts below it,
    /// few enough not to delay other work. Without `cascade`, refuses if there are accounts below
    /// it. Closes the gate of the account, and passes those of the accounts above.
    pub async fn delete_account(
        &self,
        id: AccountId,
        (cascade, most): (bool, usize),
        tell: Tell,
        act: Act<'_>,
    ) -> Result<Deletion, StoreError> {
        transact!(self, async |tx| {
            let Some(found) = find(&mut tx, id).await? else { return Ok(Deletion::Missing) };
            if found.kind == AccountType::Partner {
                return Ok(Deletion::IsPartner);
            }
            // Commits below the account, and new accounts below it, pass its gate.
            let above: Vec<AccountId> = found.lineage.ids().filter(|above| *above != id).collect();
            gates::close_below(&mut tx, id, &above).await?;
            let Some(target) = find(&mut tx, id).await? else { return Ok(Deletion::Missing) };
            let below = below(&mut tx, &target, most.saturating_add(1)).await?;
            if below.len() > if cascade { most } else { 0 } {
                return Ok(Deletion::HasOthersBelow(below.len()));
            }
            let gone: Vec<&Account> = below.iter().rev().chain([&target]).collect();
            self.say_deleted(&mut tx, &gone, act).await?;
            let ids = |account: &&Account| -> Vec<Value> { vec![account.id.into()] };
            let rows: Vec<Vec<Value>> = gone.iter().map(ids).collect();
            // Before the statements below: a change of one of these accounts holds its row
            // (`audit::note`). They see an earlier change; a later one finds the account deleted.
            many(
            "WITH given (account) AS ({rows})
             UPDATE accounts SET deleted_at = $1, details = NULL WHERE id IN (SELECT account FROM given)",
            rows.clone(),
        )
        .bind(act.at)
        .execute(tx.on())
        .await?;
            many(ERASED, rows.clone()).bind(act.at).execute(tx.on()).await?;
            for text in STOPPED.iter().copied() {
                let statement = many(text, rows.clone());
                let statement =
                    if text.contains("$1") { statement.bind(act.at) } else { statement };
                let nothing = [].as_slice();
                let statement =
                    if text.contains("$2") { statement.bind(nothing) } else { statement };
                statement.execute(tx.on()).await?;
            }
            let event = |account: &&Account| Event {
                id: self.mint().event(),
                name: EventName::AccountDeleted,
                at: act.at,
                lineage: account.lineage,
                message: None,
                contact: None,
                told: Some(json!({ "account": tell(account) })),
            };
            let events: Vec<Event> = gone.iter().map(event).collect();
            announce(&mut tx, &events, self.mint()).await?;
            directory::changed(&mut tx).await?;
            tx.commit().await?;
            Ok(Deletion::Done { below: below.len() })
        })
    }

    async fn say_deleted(
        &self,
        tx: &mut Transaction,
        gone: &[&Account],
        act: Act<'_>,
    ) -> Result<(), StoreError> {
        for account in gone {
            let changes =
                [Change::gone("accountType", account.kind), Change::gone("name", &account.name)];
            let (deed, object) = (Deed::AccountDeleted, account.name.clone());
            let note = Note { account: account.id, deed, object, changes: &changes };
            audit::note(tx, self.mint(), act, note).await?;
        }
        Ok(())
    }
}

/// Returns up to `limit` accounts below this one, the oldest first.
async fn below(
    tx: &mut Transaction,
    target: &Account,
    limit: usize,
) -> Result<Vec<Account>, StoreError> {
    let query = select(match target.kind {
        AccountType::Partner => "AND partner_id = $1 AND id <> $1 ORDER BY id LIMIT $2",
        AccountType::Reseller => "AND reseller_id = $1 AND id <> $1 ORDER BY id LIMIT $2",
        AccountType::Organization => "AND organization_id = $1 AND id <> $1 ORDER BY id LIMIT $2",
        AccountType::Agent => return Ok(Vec::new()),
    });
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = query.bind(target.id).bind(limit).fetch_all(tx.on()).await?;
    rows.iter().map(account).collect()
}
