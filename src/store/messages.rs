//! Messages, as their Agents read them.

use sqlx::AssertSqlSafe;
use sqlx::sqlite::SqliteRow;

use super::db::Store;
use super::error::StoreError;
use super::mail_row::MailRow;
use super::page::{Page, permitted_json, scope_sql};
use super::row::Columns;
use crate::domain::id::{AttachmentId, MessageId};
use crate::domain::message::{Mail, Message};
use crate::domain::scope::Scope;

impl Store {
    /// A page of the messages in `scope`, the newest first.
    pub async fn recent_messages(
        &self,
        scope: &Scope,
        page: &Page,
    ) -> Result<Vec<Message>, StoreError> {
        let (place, order) = page.sql();
        // Put together from constants; every value is bound.
        let sql = format!(
            "SELECT * FROM messages WHERE {} AND {place} ORDER BY {order} LIMIT $5",
            scope_sql(scope)
        );
        let cursor = page.cursor();
        let rows = sqlx::query(AssertSqlSafe(sql))
            .bind(cursor.at.millis())
            .bind(cursor.id)
            .bind(scope.root().get())
            .bind(permitted_json(scope))
            .bind(i64::from(page.limit))
            .fetch_all(self.reader())
            .await?;
        let messages = rows.iter().map(message).collect::<Result<_, _>>()?;
        Ok(page.shown(messages))
    }

    /// The raw bytes of a message in `scope`, as received.
    pub async fn raw_message(
        &self,
        scope: &Scope,
        id: MessageId,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = format!(
            "SELECT bytes FROM messages JOIN raw_messages USING (digest)
             WHERE id = $1 AND $2 IS NULL AND {}",
            scope_sql(scope)
        );
        let row = sqlx::query(AssertSqlSafe(sql))
            .bind(id.0)
            .bind(None::<i64>)
            .bind(scope.root().get())
            .bind(permitted_json(scope))
            .fetch_optional(self.reader())
            .await?;
        row.map(|row| Columns { table: "raw_messages", row: &row }.bytes("bytes")).transpose()
    }

    /// The message in `scope` that an attachment belongs to, and the number of its part.
    pub async fn attachment(
        &self,
        scope: &Scope,
        id: AttachmentId,
    ) -> Result<Option<(MessageId, u32)>, StoreError> {
        let sql = format!(
            "SELECT messages.id AS message_id, part
             FROM attachments JOIN messages ON messages.id = attachments.message_id
             WHERE attachments.id = $1 AND $2 IS NULL AND {}",
            scope_sql(scope)
        );
        let row = sqlx::query(AssertSqlSafe(sql))
            .bind(id.0)
            .bind(None::<i64>)
            .bind(scope.root().get())
            .bind(permitted_json(scope))
            .fetch_optional(self.reader())
            .await?;
        let Some(row) = row else { return Ok(None) };
        let columns = Columns { table: "attachments", row: &row };
        let part = u32::try_from(columns.integer("part")?).map_err(|e| columns.corrupt(e))?;
        Ok(Some((MessageId(columns.uuid("message_id")?), part)))
    }
}

pub(super) fn message(row: &SqliteRow) -> Result<Message, StoreError> {
    let columns = Columns { table: "messages", row };
    let mail =
        Mail::try_from(columns.json::<MailRow>("mail")?).map_err(|error| columns.corrupt(error))?;
    Ok(Message {
        id: MessageId(columns.uuid("id")?),
        lineage: columns.lineage()?,
        agent: columns.account("agent_id")?,
        agent_username: columns.text("agent_username")?,
        contact: columns.contact("contact_id")?,
        at: columns.time("at")?,
        mail,
        tag: columns.optional_text("tag")?,
        size: columns.count("size")?,
        raw: columns.digest("digest")?,
        authentication: columns.json("authentication")?,
    })
}
