//! Work on the index of full-text search that no commit waits for: entries for messages from before
//! there was an index, and, on SQLite, taking the words of deleted entries out of it.
//!
//! Messages are read and cut into words before the transaction that writes their entries, because on
//! SQLite nobody else writes beside it.

use std::collections::HashSet;

use uuid::Uuid;

use super::messages;
use super::rooms;
use super::search_entries;
use crate::domain::id::MessageId;
use crate::domain::room::{Room, preview};
use crate::domain::search::words::Document;
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, settled};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, Row, Value, sql};

/// A message from before there was an index, read.
struct Old {
    id: MessageId,
    room: Room,
    /// How it begins.
    preview: String,
    /// Of its entry.
    columns: Vec<Value>,
}

impl Base {
    /// Gives entries to up to `limit` messages, of up to `octets` together (one always fits), from
    /// before there was an index, the newest first, and to their rooms how they begin; answers
    /// whether there may be more, which is one look when all have theirs. What cannot be read is
    /// left out, and named in the log. Of several gateways one writes.
    pub async fn index_messages(&self, limit: u32, octets: u64) -> Result<bool, StoreError> {
        let Some(next) = next(self.reader()).await? else { return Ok(false) };
        let (ids, behind) = self.unindexed(next, limit, octets).await?;
        let rows = messages::by_ids(self.reader(), ids.into_iter()).await?;
        let reading = move || rows.iter().filter_map(Old::read).collect::<Vec<_>>();
        let failed = |error: tokio::task::JoinError| StoreError::Corrupt {
            table: "contents",
            detail: error.to_string(),
        };
        let read = tokio::task::spawn_blocking(reading).await.map_err(failed)?;
        settled!(self.try_index((next, behind), &read))
    }

    /// Goes on behind the message that is to get its entry next, and cannot; answers which that is.
    pub async fn skip_unindexed(&self) -> Result<Option<MessageId>, StoreError> {
        let Some(next) = next(self.reader()).await? else { return Ok(None) };
        let (_, behind) = self.unindexed(next, 1, u64::MAX).await?;
        settled!(self.try_index((next, behind), &[]))?;
        Ok(Some(MessageId(next)))
    }

    /// The next ones, and the one behind them.
    async fn unindexed(
        &self,
        next: Uuid,
        limit: u32,
        octets: u64,
    ) -> Result<(Vec<MessageId>, Option<Uuid>), StoreError> {
        let rows = sql("SELECT id, octets
                        FROM messages JOIN contents ON contents.digest = messages.digest
                        WHERE id <= $1 ORDER BY id DESC LIMIT $2")
        .bind(next)
        .bind(i64::from(limit) + 1)
        .fetch_all(self.reader())
        .await?;
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let (mut ids, mut sum) = (Vec::new(), 0_u64);
        for row in &rows {
            let columns = Columns { table: "messages", row };
            let id = columns.uuid("id")?;
            sum = sum.saturating_add(columns.count("octets")?);
            if ids.len() >= most || (sum > octets && !ids.is_empty()) {
                return Ok((ids, Some(id)));
            }
            ids.push(MessageId(id));
        }
        Ok((ids, None))
    }

    async fn try_index(
        &self,
        (from, behind): (Uuid, Option<Uuid>),
        read: &[Old],
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        // Another gateway may be at it, or have been faster.
        if !gates::alone(&mut tx, "search").await? || next(tx.on()).await? != Some(from) {
            return Ok(true);
        }
        let there = still_there(&mut tx, read).await?;
        let read: Vec<&Old> = read.iter().filter(|old| there.contains(&old.id.0)).collect();
        let entries = read.iter().map(|old| old.columns.clone()).collect();
        search_entries::write(&mut tx, entries).await?;
        let begins = read.iter().map(|old| (old.room, old.id, old.preview.as_str()));
        rooms::show(&mut tx, begins).await?;
        sql("UPDATE search_progress SET next_id = $1 WHERE id = 1")
            .bind(behind)
            .execute(tx.on())
            .await?;
        tx.commit().await?;
        Ok(behind.is_some())
    }

    /// Takes words of deleted entries out of the index, some `pages` of it at a time; answers
    /// whether there may be more to do, or `None` where this is nobody's to do: PostgreSQL vacuums.
    ///
    /// FTS5 only marks an entry as deleted until its segment is merged with others. So all are
    /// merged into one: begun by a negative number of pages, continued by positive ones, and done
    /// when nothing changes (<https://www.sqlite.org/fts5.html#the_merge_command>).
    pub async fn forget_words(&self, pages: u32) -> Result<Option<bool>, StoreError> {
        if self.reader().is_postgres() {
            return Ok(None);
        }
        // Looked at before the only writer is asked for.
        if forgetting(self.reader()).await? == (false, false) {
            return Ok(Some(false));
        }
        let mut tx = self.begin().await?;
        let (_, merging) = forgetting(tx.on()).await?;
        let mut pages = i64::from(pages);
        if !merging {
            // What is deleted from now on waits for the next merge.
            sql("UPDATE search_words_gone SET waiting = 0, merging = 1 WHERE id = 1")
                .execute(tx.on())
                .await?;
            pages = -pages;
        }
        let before = changes(&mut tx).await?;
        sql("INSERT INTO search_words (search_words, rank) VALUES ('merge', $1)")
            .bind(pages)
            .execute(tx.on())
            .await?;
        // The statement itself is one.
        if changes(&mut tx).await? - before < 2 {
            sql("UPDATE search_words_gone SET merging = 0 WHERE id = 1").execute(tx.on()).await?;
        }
        tx.commit().await?;
        Ok(Some(true))
    }
}

impl Old {
    /// `None` of one that cannot be read: it must not keep the others from being found.
    fn read(row: &Row) -> Option<Self> {
        let read = messages::message(row);
        let id = Columns { table: "messages", row }.uuid("id");
        let message = read
            .inspect_err(|error| {
                let id = id.map(|id| id.to_string()).unwrap_or_default();
                let error = error as &(dyn std::error::Error + 'static);
                tracing::warn!(message.id = id, error, "a message cannot be found by search");
            })
            .ok()?;
        let words = search_entries::text(&Document::of(&message.content));
        let whose = (&message.lineage, message.agent);
        let when = (message.at, message.source());
        let own = message.mailed().map_or("", |mailed| &mailed.mail.stripped_text);
        Some(Self {
            id: message.id,
            room: message.room(),
            preview: preview(own, message.text()),
            columns: search_entries::columns(message.id, whose, when, &words),
        })
    }
}

/// The message that is to get its entry next.
async fn next(on: Connection<'_>) -> Result<Option<Uuid>, StoreError> {
    let row = sql("SELECT next_id FROM search_progress WHERE id = 1").fetch_one(on).await?;
    Columns { table: "search_progress", row: &row }.optional_uuid("next_id")
}

/// Which of them are there, and stay until the transaction ends.
async fn still_there(tx: &mut Transaction, read: &[Old]) -> Result<HashSet<Uuid>, StoreError> {
    let rows = many(
        "WITH given (message) AS ({rows})
         SELECT messages.id AS id FROM given CROSS JOIN messages
         WHERE messages.id = given.message",
        read.iter().map(|old| vec![old.id.0.into()]).collect(),
    )
    .locking("ORDER BY messages.id FOR KEY SHARE OF messages")
    .fetch_all(tx.on())
    .await?;
    rows.iter().map(|row| Columns { table: "messages", row }.uuid("id")).collect()
}

/// Whether deleted entries wait for a merge, and whether one is under way.
async fn forgetting(on: Connection<'_>) -> Result<(bool, bool), StoreError> {
    let state = sql("SELECT waiting, merging FROM search_words_gone WHERE id = 1");
    let row = state.fetch_one(on).await?;
    let columns = Columns { table: "search_words_gone", row: &row };
    Ok((columns.flag("waiting")?, columns.flag("merging")?))
}

/// Rows that this connection has changed so far, those of the index among them.
async fn changes(tx: &mut Transaction) -> Result<i64, StoreError> {
    let row = sql("SELECT total_changes() AS changes").fetch_one(tx.on()).await?;
    Columns { table: "search_words", row: &row }.integer("changes")
}
