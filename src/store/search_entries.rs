//! The entries of messages in the index of full-text search: written in the commit, and by and by
//! for messages from before there was an index. They go with their messages, by their foreign key.

use super::db::{Store, Transaction, settled};
use super::entry::Arrived;
use super::error::StoreError;
use super::gates;
use super::many::many;
use super::messages;
use super::row::Columns;
use super::sql::{Value, sql};
use crate::domain::account::Lineage;
use crate::domain::clock::Timestamp;
use crate::domain::id::{AccountId, MessageId};
use crate::domain::search::tokens;
use crate::domain::search::words::Document;
use crate::domain::source::Source;

/// The tokens of what a message says, as an index takes them: once for all recipients.
pub(super) fn text(document: &Document) -> String {
    tokens::of_document(document).into_iter().collect::<Vec<_>>().join(" ")
}

/// The columns of an entry; `words` is what [`text`] made.
pub(super) fn columns(
    message: MessageId,
    (lineage, agent): (&Lineage, AccountId),
    (at, source): (Timestamp, Source),
    words: &str,
) -> Vec<Value> {
    let mut tokens = tokens::of_place(lineage, at).join(" ");
    tokens.push(' ');
    tokens.push_str(words);
    vec![message.0.into(), agent.into(), source.as_str().into(), at.into(), tokens.into()]
}

/// Writes the entries of new messages.
pub(super) async fn insert(tx: &mut Transaction, arrived: &[&Arrived]) -> Result<(), StoreError> {
    write(tx, arrived.iter().map(|one| one.search.clone()).collect()).await
}

/// Writes entries that are not there yet; each of these columns.
async fn write(tx: &mut Transaction, rows: Vec<Vec<Value>>) -> Result<(), StoreError> {
    if tx.has_company() {
        let written = many(
            "WITH given (id, agent_id, source, at, tokens) AS ({rows})
             INSERT INTO search_entries (id, agent_id, source, at, tokens)
             SELECT id, agent_id, source, at, array_to_tsvector(string_to_array(tokens, ' '))
             FROM given ON CONFLICT (id) DO NOTHING",
            rows,
        );
        return written.execute(tx.on()).await.map(drop);
    }
    let mut words = std::collections::HashMap::new();
    let mut entries = Vec::with_capacity(rows.len());
    for mut row in rows {
        if let (Some(tokens), Some(Value::Uuid(Some(id)))) = (row.pop(), row.first()) {
            words.insert(*id, tokens);
            entries.push(row);
        }
    }
    let made = many(
        "INSERT INTO search_entries (id, agent_id, source, at) {rows}
         ON CONFLICT (id) DO NOTHING RETURNING number, id",
        entries,
    );
    let mut rows = Vec::with_capacity(words.len());
    for row in made.fetch_all(tx.on()).await? {
        let columns = Columns { table: "search_entries", row: &row };
        if let Some(tokens) = words.remove(&columns.uuid("id")?) {
            rows.push(vec![columns.integer("number")?.into(), tokens]);
        }
    }
    let written = many("INSERT INTO search_words (rowid, tokens) {rows}", rows);
    written.execute(tx.on()).await.map(drop)
}

impl Store {
    /// Gives entries to up to `limit` messages from before there was an index, the newest first, and
    /// answers whether there may be more; costs one look when all have theirs. One gateway at a time
    /// does it.
    pub async fn index_messages(&self, limit: u32) -> Result<bool, StoreError> {
        let next = sql("SELECT next_id FROM search_progress WHERE id = 1");
        let row = next.fetch_one(self.reader()).await?;
        let columns = Columns { table: "search_progress", row: &row };
        if columns.optional_uuid("next_id")?.is_none() {
            return Ok(false);
        }
        settled!(self.try_index_messages(limit))
    }

    async fn try_index_messages(&self, limit: u32) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        if !gates::alone(&mut tx, "search").await? {
            return Ok(true);
        }
        let row = sql("SELECT next_id FROM search_progress WHERE id = 1").fetch_one(tx.on());
        let row = row.await?;
        let next = Columns { table: "search_progress", row: &row }.optional_uuid("next_id")?;
        let Some(next) = next else { return Ok(false) };
        // One more than gets an entry: where to go on.
        let rows = messages::select("WHERE id <= $1 ORDER BY id DESC LIMIT $2")
            .bind(next)
            .bind(i64::from(limit) + 1)
            .locking("FOR KEY SHARE OF messages")
            .fetch_all(tx.on())
            .await?;
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut entries = Vec::with_capacity(rows.len());
        let mut behind = None;
        for (number, row) in rows.iter().enumerate() {
            let message = messages::message(row)?;
            if number >= most {
                behind = Some(message.id.0);
                break;
            }
            let whose = (&message.lineage, message.agent);
            let words = text(&Document::of(&message.content));
            entries.push(columns(message.id, whose, (message.at, message.source()), &words));
        }
        write(&mut tx, entries).await?;
        sql("UPDATE search_progress SET next_id = $1 WHERE id = 1")
            .bind(behind)
            .execute(tx.on())
            .await?;
        tx.commit().await?;
        Ok(behind.is_some())
    }
}
