//! The entries of messages in the index of full-text search: written in the commit, and by and by
//! for messages from before there was an index (`search_work.rs`). They go with their messages, by
//! their foreign key.

use super::entry::Arrived;
use crate::domain::account::Lineage;
use crate::domain::clock::Timestamp;
use crate::domain::id::{AccountId, MessageId};
use crate::domain::search::tokens;
use crate::domain::search::words::Document;
use crate::domain::source::Source;
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::Value;

/// The tokens of what a message says, as an index takes them: once for all recipients.
pub fn text(document: &Document) -> String {
    tokens::of_document(document).into_iter().collect::<Vec<_>>().join(" ")
}

/// The columns of an entry; `words` is what [`text`] made.
pub fn columns(
    message: MessageId,
    (lineage, agent): (&Lineage, AccountId),
    (at, source): (Timestamp, Source),
    words: &str,
) -> Vec<Value> {
    let mut tokens = tokens::of_place(lineage, at).join(" ");
    // A message without a word has no token behind a space: a tsvector refuses an empty one.
    if !words.is_empty() {
        tokens.push(' ');
        tokens.push_str(words);
    }
    vec![message.0.into(), agent.into(), source.as_str().into(), at.into(), tokens.into()]
}

/// Writes the entries of new messages.
pub async fn insert(tx: &mut Transaction, arrived: &[&Arrived]) -> Result<(), StoreError> {
    write(tx, arrived.iter().map(|one| one.search.clone()).collect()).await
}

/// Writes entries that are not there yet; each of these columns.
pub async fn write(tx: &mut Transaction, rows: Vec<Vec<Value>>) -> Result<(), StoreError> {
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
