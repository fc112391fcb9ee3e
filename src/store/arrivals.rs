//! The same message arriving again for the same Agent (contract §2.6).

use super::commit::Accepted;
use super::db::Transaction;
use super::error::StoreError;
use super::row::Columns;
use super::sql::sql;
use crate::domain::clock::Timestamp;
use crate::domain::id::MessageId;

/// Remembers the arrival; answers the earlier message if this one came before. Whoever stores the
/// same message at this moment is waited for.
pub(super) async fn remember(
    tx: &mut Transaction,
    accepted: &Accepted,
    now: Timestamp,
) -> Result<Option<MessageId>, StoreError> {
    let (agent, message) = (accepted.message.agent, accepted.message.id);
    // In one order for all transactions, so that two of the same message do not wait in a circle.
    let mut keys: Vec<&[u8; 32]> = accepted.arrival_keys.iter().collect();
    keys.sort();
    let mut earlier = None;
    for key in &keys {
        // A key that is still remembered keeps its message; one that expired is taken over.
        let row = sql("INSERT INTO arrivals (agent_id, key, message_id, expires_at)
             VALUES ($1, $2, $3, $4)
             ON CONFLICT (agent_id, key) DO UPDATE SET
                message_id = CASE WHEN arrivals.expires_at <= $5
                    THEN excluded.message_id ELSE arrivals.message_id END,
                expires_at = CASE WHEN arrivals.expires_at <= $5
                    THEN excluded.expires_at ELSE arrivals.expires_at END
             RETURNING message_id")
        .bind(agent)
        .bind(key.as_slice())
        .bind(message.0)
        .bind(accepted.remembered_until)
        .bind(now)
        .fetch_one(tx.on())
        .await?;
        let found = MessageId(Columns { table: "arrivals", row: &row }.uuid("message_id")?);
        if found != message {
            earlier = earlier.or(Some(found));
        }
    }
    if let Some(earlier) = earlier {
        // The keys that were new belong to the message that is there, not to one that never will.
        for key in &keys {
            sql("UPDATE arrivals SET message_id = $4
                 WHERE agent_id = $1 AND key = $2 AND message_id = $3")
            .bind(agent)
            .bind(key.as_slice())
            .bind(message.0)
            .bind(earlier.0)
            .execute(tx.on())
            .await?;
        }
    }
    Ok(earlier)
}
