//! Messages, as their Agents read them.

use super::db::Store;
use super::error::StoreError;
use super::mail_row::MailRow;
use super::page::{Page, within};
use super::row::Columns;
use super::sql::{Row, sql};
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
        let mut query = sql("SELECT * FROM messages WHERE ");
        within(&mut query, scope);
        page.read(&mut query);
        let rows = query.fetch_all(self.reader()).await?;
        let messages = rows.iter().map(message).collect::<Result<_, _>>()?;
        Ok(page.shown(messages))
    }

    /// The raw bytes of a message in `scope`, as received: `Lost` where the blob store no longer
    /// has them.
    pub async fn raw_message(
        &self,
        scope: &Scope,
        id: MessageId,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let mut query =
            sql("SELECT bytes, object, size, digest FROM messages JOIN raw_messages USING (digest)
             WHERE id = $1 AND ")
            .bind(id.0);
        within(&mut query, scope);
        let row = query.fetch_optional(self.reader()).await?;
        let Some(row) = row else { return Ok(None) };
        let columns = Columns { table: "raw_messages", row: &row };
        let Some(name) = columns.optional_text("object")? else {
            return columns.bytes("bytes").map(Some);
        };
        let elsewhere = "it is in a blob store, and none is named (--blobs)";
        let blobs = self.blobs().ok_or_else(|| columns.corrupt(elsewhere))?;
        blobs.get(&name, columns.count("size")?, columns.digest("digest")?).await.map(Some)
    }

    /// The message in `scope` that an attachment belongs to, and the number of its part.
    pub async fn attachment(
        &self,
        scope: &Scope,
        id: AttachmentId,
    ) -> Result<Option<(MessageId, u32)>, StoreError> {
        let mut query = sql("SELECT messages.id AS message_id, part
             FROM attachments JOIN messages ON messages.id = attachments.message_id
             WHERE attachments.id = $1 AND ")
        .bind(id.0);
        within(&mut query, scope);
        let row = query.fetch_optional(self.reader()).await?;
        let Some(row) = row else { return Ok(None) };
        let columns = Columns { table: "attachments", row: &row };
        let part = u32::try_from(columns.integer("part")?).map_err(|e| columns.corrupt(e))?;
        Ok(Some((MessageId(columns.uuid("message_id")?), part)))
    }
}

pub(super) fn message(row: &Row) -> Result<Message, StoreError> {
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
