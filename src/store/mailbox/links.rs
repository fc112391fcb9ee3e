//! The secret that signs links, and the check that the Agent of a linked message is active.

use crate::domain::id::{AccountId, MessageId};
use crate::domain::secret::Secret;
use crate::store::base::Base;
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::sql;

const KEY: &str = "SELECT secret FROM link_keys WHERE single = 1";

impl Base {
    /// Returns the secret that signs links to media: 32 bytes, the same for all gateways of this
    /// database. The first call creates it.
    pub async fn link_key(&self) -> Result<Secret, StoreError> {
        if let Some(row) = sql(KEY).fetch_optional(self.reader()).await? {
            return Columns { table: "link_keys", row: &row }.bytes("secret").map(Secret::new);
        }
        let mut tx = self.begin().await?;
        // Another gateway may insert at the same moment: the first one wins.
        sql(
            "INSERT INTO link_keys (single, secret) VALUES (1, $1) ON CONFLICT (single) DO NOTHING",
        )
        .bind(self.mint().secret().as_slice())
        .execute(tx.on())
        .await?;
        let row = sql(KEY).fetch_one(tx.on()).await?;
        tx.commit().await?;
        Columns { table: "link_keys", row: &row }.bytes("secret").map(Secret::new)
    }

    /// Returns the Agent of a message, if the Agent and all accounts above exist and are active.
    pub async fn agent_of_message(&self, id: MessageId) -> Result<Option<AccountId>, StoreError> {
        let row = sql("SELECT messages.agent_id AS agent
             FROM messages JOIN accounts ON accounts.id = messages.agent_id
             WHERE messages.id = $1 AND NOT EXISTS (
                   SELECT 1 FROM accounts AS above
                   WHERE above.id IN (accounts.partner_id, accounts.reseller_id,
                                      accounts.organization_id, accounts.agent_id)
                     AND (above.active = 0 OR above.deleted_at IS NOT NULL))")
        .bind(id.0)
        .fetch_optional(self.reader())
        .await?;
        row.map(|row| Columns { table: "messages", row: &row }.account("agent")).transpose()
    }
}
