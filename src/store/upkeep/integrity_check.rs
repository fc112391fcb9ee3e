//! Reads all that is stored, once, for `gatepost check-store`. One message is in memory at a time;
//! its row, content and original must exist and be what was written.

use aws_lc_rs::digest::{SHA256, digest as sha256};
use uuid::Uuid;

use crate::domain::id::MessageId;
use crate::store::base::Base;
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, sql};
use crate::store::mailbox::messages;
use crate::store::mailbox::packed::{self, StoredOriginal};

/// Ids in memory at a time.
const PAGE: i64 = 500;

impl Base {
    /// Returns the first ids, or the next ones behind `after`, in ascending order; none at the end.
    pub async fn message_ids(
        &self,
        after: Option<MessageId>,
    ) -> Result<Vec<MessageId>, StoreError> {
        let query = sql("SELECT id FROM messages WHERE id > $1 ORDER BY id LIMIT $2");
        let after = after.map_or(Uuid::nil(), |id| id.0);
        let rows = query.bind(after).bind(PAGE).fetch_all(self.reader()).await?;
        let id = |row| Columns { table: "messages", row }.uuid("id").map(MessageId);
        rows.iter().map(id).collect()
    }

    /// Returns which parts of a message are damaged, and how. None are if it can be returned as it
    /// came, or is deleted.
    pub async fn check_message(&self, id: MessageId) -> Result<Vec<String>, StoreError> {
        let mut found = Vec::new();
        for checked in [self.check_content(id).await, self.check_original(id).await] {
            match checked {
                Ok(()) => {}
                Err(error @ (StoreError::Corrupt { .. } | StoreError::Lost { .. })) => {
                    found.push(error.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        // Asked last: a message that is deleted while it is checked is not damaged.
        if !found.is_empty() && !self.has_message(id).await? {
            found.clear();
        }
        Ok(found)
    }

    async fn check_content(&self, id: MessageId) -> Result<(), StoreError> {
        let mut query = sql(messages::SELECT);
        query.push("id = ").push_value(id.0);
        let row = query.fetch_optional(self.reader()).await?.ok_or_else(|| {
            StoreError::Corrupt { table: "contents", detail: "the row is missing".to_owned() }
        })?;
        messages::message(&row).map(drop)
    }

    async fn check_original(&self, id: MessageId) -> Result<(), StoreError> {
        let query = sql("SELECT octets, packed, original, object, size, digest
                         FROM messages JOIN contents USING (content_id, organization_id)
                         WHERE id = $1");
        // Missing contents were reported by `check_content`.
        let Some(row) = query.bind(id.0).fetch_optional(self.reader()).await? else {
            return Ok(());
        };
        let columns = Columns { table: "contents", row: &row };
        let (size, digest) = (columns.count("size")?, columns.digest("digest")?);
        packed::check(&columns)?;
        let bytes = match packed::original(&columns).await? {
            StoredOriginal::Here(bytes) => bytes,
            StoredOriginal::Object(name) => {
                let elsewhere = "the original is in a blob store: name the blob store with --blobs";
                let blobs = self.blobs().ok_or_else(|| columns.corrupt(elsewhere))?;
                return blobs.get(&name, size, digest).await.map(drop);
            }
        };
        let is_same = move || sha256(&SHA256, &bytes).as_ref() == digest.0;
        match tokio::task::spawn_blocking(is_same).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                Err(columns.corrupt("the digest of the original differs from that of its message"))
            }
            Err(error) => Err(columns.corrupt(error)),
        }
    }

    async fn has_message(&self, id: MessageId) -> Result<bool, StoreError> {
        let query = sql("SELECT size FROM messages WHERE id = $1").bind(id.0);
        Ok(query.fetch_optional(self.reader()).await?.is_some())
    }

    /// Returns up to a hundred lines that SQLite reports about its file; none if all is well, and
    /// none on PostgreSQL, which has tools of its own.
    pub async fn check_integrity(&self) -> Result<Vec<String>, StoreError> {
        let reader = self.reader();
        if !matches!(reader, Connection::SqlitePool(..)) {
            return Ok(Vec::new());
        }
        let rows = sql("PRAGMA integrity_check(100)").fetch_all(reader).await?;
        let line = |row| Columns { table: "integrity_check", row }.text("integrity_check");
        let lines: Vec<String> = rows.iter().map(line).collect::<Result<_, _>>()?;
        Ok(lines.into_iter().filter(|line| line != "ok").collect())
    }
}
