//! The entries of messages in the index of full-text search, written in the commit. They go with their
//! messages, by their foreign key.

use super::entry::Arrived;
use crate::domain::account::Lineage;
use crate::domain::clock::Timestamp;
use crate::domain::id::{AccountId, MessageId};
use crate::domain::search::tokens;
use crate::domain::source::Source;
use crate::store::engine::database::Transaction;
use crate::store::engine::many::many;
use crate::store::engine::sql::Value;

/// The columns of an entry; `words` are [`tokens::of_document`].
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

/// Writes the entries of new messages with the commit.
pub fn insert(tx: &mut Transaction, arrived: &[&Arrived]) {
    let mut rows: Vec<Vec<Value>> = arrived.iter().map(|one| one.search.clone()).collect();
    if tx.has_company() {
        return tx.later(many(
            "WITH given (id, agent_id, source, at, tokens) AS ({rows})
             INSERT INTO search_entries (id, agent_id, source, at, tokens)
             SELECT id, agent_id, source, at, array_to_tsvector(string_to_array(tokens, ' '))
             FROM given",
            rows,
        ));
    }
    let split = rows.iter_mut().zip(arrived);
    let words = split.filter_map(|(row, one)| Some(vec![one.id.0.into(), row.pop()?])).collect();
    tx.later(many("INSERT INTO search_entries (id, agent_id, source, at) {rows}", rows));
    tx.later(many(
        "WITH given (id, tokens) AS ({rows})
         INSERT INTO search_words (rowid, tokens)
         SELECT number, given.tokens FROM given CROSS JOIN search_entries
         WHERE search_entries.id = given.id",
        words,
    ));
}
