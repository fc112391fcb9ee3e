//! Deletes rows of deleted accounts beside their messages: sender lists and configurations of
//! Agents, contacts of organizations. There may be millions, so each transaction deletes some.

use super::retention::row_limit;
use crate::domain::id::AccountId;
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::sql;

/// The sender list of an Agent.
const SENDERS: &str = "DELETE FROM allowed_senders WHERE (agent_id, address) IN (
    SELECT agent_id, address FROM allowed_senders WHERE agent_id = $1 ORDER BY address LIMIT $2)";

/// The configurations of an Agent, and their versions.
const CONFIGS: &str = "DELETE FROM agent_configs WHERE agent_id = $1 AND kind IN (
    SELECT kind FROM agent_configs WHERE agent_id = $1 LIMIT $2)";
const VERSIONS: &str = "DELETE FROM agent_versions WHERE (agent_id, version_id) IN (
    SELECT agent_id, version_id FROM agent_versions WHERE agent_id = $1 ORDER BY version_id LIMIT $2)";

/// The contacts of an organization that no message names any more.
const CONTACTS: &str = "DELETE FROM contacts WHERE id IN (
    SELECT id FROM contacts
    WHERE organization_id = $1
      AND NOT EXISTS (SELECT 1 FROM messages WHERE contact_id = contacts.id)
    LIMIT $2)";

impl Base {
    /// Returns those of these deleted accounts that still have such rows.
    pub async fn with_leftovers(
        &self,
        deleted: &[AccountId],
    ) -> Result<Vec<AccountId>, StoreError> {
        let rows = many(
            "WITH given (account) AS ({rows})
             SELECT account FROM given
             WHERE (SELECT agent_id FROM allowed_senders
                    WHERE agent_id = given.account LIMIT 1) IS NOT NULL
                OR (SELECT agent_id FROM agent_configs
                    WHERE agent_id = given.account LIMIT 1) IS NOT NULL
                OR (SELECT agent_id FROM agent_versions
                    WHERE agent_id = given.account LIMIT 1) IS NOT NULL
                OR (SELECT organization_id FROM contacts
                    WHERE organization_id = given.account LIMIT 1) IS NOT NULL",
            deleted.iter().map(|account| vec![(*account).into()]).collect(),
        )
        .fetch_all(self.reader())
        .await?;
        rows.iter().map(|row| Columns { table: "accounts", row }.account("account")).collect()
    }

    /// Deletes up to `limit` rows of each kind. Returns how many; None while another gateway
    /// deletes.
    pub async fn delete_leftovers(
        &self,
        deleted: AccountId,
        limit: usize,
    ) -> Result<Option<u64>, StoreError> {
        transact!(self, async |tx| {
            if !gates::try_alone(&mut tx, "retention").await? {
                return Ok(None);
            }
            let rows = delete(&mut tx, deleted.get(), row_limit(limit)).await?;
            tx.commit().await?;
            Ok(Some(rows))
        })
    }
}

/// Deletes up to `limit` rows of each kind within a transaction of the caller.
pub async fn delete(tx: &mut Transaction, deleted: i64, limit: i64) -> Result<u64, StoreError> {
    let mut rows = 0;
    for text in [SENDERS, CONFIGS, VERSIONS, CONTACTS] {
        rows += sql(text).bind(deleted).bind(limit).execute(tx.on()).await?;
    }
    Ok(rows)
}
