//! The full-text index, written after the commit. The commit only writes which messages wait for
//! the index. A task then makes their entries, many in one transaction, so that each costs few
//! pages. Until then a search matches these messages itself (`search.rs`).
//!
//! Each waiting message has a row of its own. A position in a sequence would not do: transactions
//! on PostgreSQL end in another order than they began, so an earlier message may become visible
//! later. A foreign key deletes entries with their messages.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::entry::Arrived;
use super::messages;
use crate::domain::account::Lineage;
use crate::domain::clock::Timestamp;
use crate::domain::id::{AccountId, MessageId};
use crate::domain::message::Message;
use crate::domain::search::tokens;
use crate::domain::search::words::Document;
use crate::domain::source::Source;
use crate::store::base::Base;
use crate::store::base::unindexed_cache::UnindexedMail;
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::many::many;
use crate::store::engine::row::{Columns, organization_of};
use crate::store::engine::sql::{Value, sql};
use crate::store::engine::writer::Flush;

/// Most bytes of parsed messages read back at a time, or one message; those in memory do not count.
const READ_OCTETS: u64 = 4 << 20;

/// An entry to be written.
struct SearchEntry {
    id: MessageId,
    lineage: Lineage,
    agent: AccountId,
    at: Timestamp,
    source: Source,
    /// Separated by spaces.
    tokens: String,
}

/// Writes with the commit that new messages wait for the index.
pub fn insert_waiting(tx: &mut Transaction, arrived: &[&Arrived]) {
    let rows = arrived.iter().map(|one| vec![one.id.0.into(), one.organization.into()]).collect();
    tx.later(many("INSERT INTO search_waiting (message_id, organization_id) {rows}", rows));
}

impl Base {
    /// Counts the messages that wait for the index, up to `most`.
    pub async fn count_unindexed(&self, most: u32) -> Result<u32, StoreError> {
        let count = sql("SELECT COUNT(*) AS waiting
                         FROM (SELECT message_id FROM search_waiting LIMIT $1) AS first");
        let row = count.bind(i64::from(most)).fetch_one(self.reader()).await?;
        let waiting = Columns { table: "search_waiting", row: &row }.count("waiting")?;
        Ok(waiting.try_into().unwrap_or(u32::MAX))
    }

    /// Indexes up to `at_once` messages, the oldest first, and returns their number; 0 also if
    /// another gateway is indexing. Messages that cannot be read leave the queue without an entry.
    /// On SQLite it tokenizes before it takes the only writer, and writes about `octets` bytes of
    /// tokens per transaction, so that no commit waits long; those written stay after an error.
    pub async fn index_messages(&self, at_once: u32, octets: usize) -> Result<u32, StoreError> {
        let has_concurrent_writers = self.reader().is_postgres();
        let mut turn = None;
        if has_concurrent_writers {
            let mut tx = self.begin().await?;
            if !gates::try_alone(&mut tx, "search entries").await? {
                return Ok(0);
            }
            turn = Some(tx);
        }
        let waiting = sql("SELECT message_id FROM search_waiting ORDER BY message_id LIMIT $1");
        let rows = waiting.bind(i64::from(at_once)).fetch_all(self.reader()).await?;
        let id = |row| Columns { table: "search_waiting", row }.uuid("message_id").map(MessageId);
        let ids = rows.iter().map(id).collect::<Result<Vec<_>, _>>()?;
        let kept = self.unindexed.take(&ids);
        let at_hand: HashSet<MessageId> = kept.iter().map(|(id, _)| *id).collect();
        let others: Vec<_> = ids.into_iter().filter(|id| !at_hand.contains(id)).collect();
        let (few, _) = self.first_within(&others, READ_OCTETS).await?;
        let entries = self.search_entries(kept, few).await?;
        let known: HashSet<MessageId> = entries.iter().map(|entry| entry.id).collect();
        let mut done: Vec<MessageId> =
            few.iter().filter(|id| !known.contains(id)).copied().collect();
        let (mut entries, mut indexed) = (entries.into_iter().peekable(), 0_usize);
        while entries.peek().is_some() || !done.is_empty() {
            let (mut piece, mut sum) = (Vec::new(), 0_usize);
            while let Some(entry) = entries.next_if(|_| has_concurrent_writers || sum < octets) {
                sum = sum.saturating_add(entry.tokens.len());
                piece.push(entry);
            }
            let mut tx = match turn.take() {
                Some(tx) => tx,
                // With its rows the machine forgets that these messages are indexed.
                None => self.begin_flushed(Flush::Later).await?,
            };
            done.append(&mut insert(&mut tx, piece).await?);
            indexed = indexed.saturating_add(done.len());
            let rows = std::mem::take(&mut done).into_iter().map(|id| vec![id.0.into()]).collect();
            tx.later(many(
                "WITH given (message) AS ({rows})
                 DELETE FROM search_waiting WHERE message_id IN (SELECT message FROM given)",
                rows,
            ));
            tx.commit().await?;
        }
        Ok(indexed.try_into().unwrap_or(u32::MAX))
    }

    /// Makes the entries of the messages in memory, and of the readable ones among `ids`.
    async fn search_entries(
        &self,
        kept: Vec<(MessageId, UnindexedMail)>,
        ids: &[MessageId],
    ) -> Result<Vec<SearchEntry>, StoreError> {
        let rows = messages::by_ids(self.reader(), ids.iter().copied()).await?;
        let repeats = self.repeats.clone();
        let tokenizing = move || {
            let messages = messages::listed_messages(&rows, &repeats)?;
            let kept = kept.iter().map(|(id, mail)| SearchEntry::of_mail(*id, mail));
            Ok(kept.chain(messages.iter().map(SearchEntry::of_message)).collect())
        };
        tokio::task::spawn_blocking(tokenizing)
            .await
            .map_err(|error| StoreError::Corrupt { table: "contents", detail: error.to_string() })?
    }
}

impl SearchEntry {
    fn of_message(message: &Message) -> Self {
        let &Message { id, lineage, agent, at, .. } = message;
        let tokens = tokenize(id, &lineage, at, || Document::of(&message.content));
        Self { id, lineage, agent, at, source: message.source(), tokens }
    }

    fn of_mail(id: MessageId, waiting: &UnindexedMail) -> Self {
        let &UnindexedMail { lineage, agent, at, ref mail } = waiting;
        let tokens = tokenize(id, &lineage, at, || Document::of_mail(mail));
        Self { id, lineage, agent, at, source: Source::Email, tokens }
    }

    /// Returns the columns of `search_entries` that both databases have.
    fn columns(&self) -> Vec<Value> {
        let (id, organization) = (self.id.0.into(), organization_of(&self.lineage).into());
        vec![id, self.agent.into(), self.source.as_str().into(), self.at.into(), organization]
    }
}

fn tokenize(
    id: MessageId,
    lineage: &Lineage,
    at: Timestamp,
    document: impl FnOnce() -> Document,
) -> String {
    let mut words = tokens::of_place(lineage, at).join(" ");
    let said = tokens_or_none(id, || tokens::of_document(&document()));
    // A message without words gets no trailing space: a tsvector refuses an empty token.
    if !said.is_empty() {
        words.push(' ');
        words.push_str(&said);
    }
    words
}

/// Returns no words if tokenizing panics: such a message would block all messages behind it.
fn tokens_or_none(message: MessageId, tokenize: impl FnOnce() -> String) -> String {
    catch_unwind(AssertUnwindSafe(tokenize)).unwrap_or_else(|_| {
        tracing::error!(
            %message,
            "cannot cut the text of a message into words: search does not find the message"
        );
        String::new()
    })
}

/// Writes with the commit the entries of messages that still wait and that no other transaction is
/// deleting. Returns their ids. Locks the rows of both tables and skips those that are locked.
async fn insert(
    tx: &mut Transaction,
    entries: Vec<SearchEntry>,
) -> Result<Vec<MessageId>, StoreError> {
    let rows = entries.iter().map(|entry| vec![entry.id.0.into()]).collect();
    let rows = many(
        "WITH given (message) AS ({rows})
         SELECT id FROM given CROSS JOIN search_waiting CROSS JOIN messages
         WHERE search_waiting.message_id = given.message AND messages.id = given.message
           AND NOT EXISTS (SELECT 1 FROM erasures
                           WHERE subject IN (messages.contact_id, messages.agent_id))",
        rows,
    )
    .locking(
        "ORDER BY id FOR UPDATE OF search_waiting SKIP LOCKED
         FOR KEY SHARE OF messages SKIP LOCKED",
    )
    .fetch_all(tx.on())
    .await?;
    let id = |row| Columns { table: "messages", row }.uuid("id").map(MessageId);
    let there = rows.iter().map(id).collect::<Result<HashSet<_>, _>>()?;
    let entries = entries.into_iter().filter(|entry| there.contains(&entry.id));
    if tx.has_concurrent_writers() {
        let rows = entries.map(|entry| [entry.columns(), vec![entry.tokens.into()]].concat());
        tx.later(many(
            "WITH given (id, agent_id, source, at, organization_id, tokens) AS ({rows})
             INSERT INTO search_entries (id, agent_id, source, at, organization_id, tokens)
             SELECT id, agent_id, source, at, organization_id,
                    array_to_tsvector(string_to_array(tokens, ' '))
             FROM given",
            rows.collect(),
        ));
        return Ok(there.into_iter().collect());
    }
    let (rows, words) = entries
        .map(|entry| (entry.columns(), vec![entry.id.0.into(), entry.tokens.into()]))
        .unzip();
    tx.later(many(
        "INSERT INTO search_entries (id, agent_id, source, at, organization_id) {rows}",
        rows,
    ));
    tx.later(many(
        "WITH given (id, tokens) AS ({rows})
         INSERT INTO search_words (rowid, tokens)
         SELECT number, given.tokens FROM given CROSS JOIN search_entries
         WHERE search_entries.id = given.id",
        words,
    ));
    Ok(there.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_cannot_be_cut_has_no_words_and_stops_nobody() {
        let message = MessageId(uuid::Uuid::nil());
        assert_eq!(tokens_or_none(message, || "due b:due".to_owned()), "due b:due");
        assert_eq!(tokens_or_none(message, || panic!("cut")), "");
    }
}
