//! Candidates of a full-text search: messages whose index entry has all tokens of the query, and
//! messages without an entry yet. The caller decides by the text whether a candidate matches.

use std::collections::{BTreeSet, HashMap};

use uuid::Uuid;

use super::messages;
use crate::domain::clock::TimeRange;
use crate::domain::id::MessageId;
use crate::domain::message::Message;
use crate::domain::scope::Scope;
use crate::domain::source::Source;
use crate::store::base::Base;
use crate::store::base::page::{Cursor, Page, RECORDED, merged, permitted, within};
use crate::store::engine::error::StoreError;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Row, Statement, sql};

/// Conditions on candidates.
#[derive(Clone, Copy, Debug)]
pub struct WantedWords<'w> {
    /// Candidates have all of these tokens.
    pub all: &'w BTreeSet<String>,
    /// Candidates have one of these tokens, each for an account and a span of time
    /// (`domain::search::tokens::of_spans`). They bound the rows read.
    pub spans: &'w [String],
    pub source: Option<Source>,
    pub unindexed: Unindexed,
}

/// How to find messages without an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unindexed {
    /// Read all messages that wait for the index, and keep those in the scope.
    Few,
    /// Read all messages of the page's range in the scope, and keep those that wait for the index.
    Many,
}

/// Candidates that were read and matched.
#[derive(Clone, Debug, PartialEq)]
pub struct MatchedMessages {
    /// The number of candidates read, from the first on.
    pub ids: usize,
    /// Bytes of the parsed candidates in total, before packing.
    pub octets: u64,
    /// The candidates that match, in the given order.
    pub found: Vec<Message>,
}

impl Base {
    /// Returns the places of a page of candidates in `scope`, in the order in which the page is
    /// read: the newest first, or from the cursor on. `wanted.spans` must belong to the account at
    /// the top of the scope. Messages without an entry are read first: a message that is indexed in
    /// between is then found by its entry.
    pub async fn search(
        &self,
        scope: &Scope,
        wanted: WantedWords<'_>,
        page: &Page,
        time: TimeRange,
    ) -> Result<Vec<Cursor>, StoreError> {
        if wanted.spans.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = self.unindexed(scope, wanted, page, time).await?;
        let mut query = if self.reader().is_postgres() {
            sql("SELECT id, at FROM search_entries WHERE tokens @@ CAST($1 AS TSQUERY)")
                .bind(TSQUERY.expression(wanted))
        } else {
            sql("SELECT id, at FROM search_words CROSS JOIN search_entries
                 WHERE search_words MATCH $1 AND search_entries.number = search_words.rowid")
            .bind(FTS5.expression(wanted))
        };
        if let Some(source) = wanted.source {
            query.push(" AND source = ").push_value(source.as_str());
        }
        permitted(&mut query, scope);
        page.read_between(&mut query, time);
        found.append(&mut places(&self.fetch_search(query).await?)?);
        found.sort_unstable();
        found.dedup();
        if !page.ascending() {
            found.reverse();
        }
        found.truncate(page.limit.try_into().unwrap_or(usize::MAX));
        Ok(found)
    }

    /// Returns the places of a page of messages in `scope` that have no entry yet, matching or not.
    async fn unindexed(
        &self,
        scope: &Scope,
        wanted: WantedWords<'_>,
        page: &Page,
        time: TimeRange,
    ) -> Result<Vec<Cursor>, StoreError> {
        let narrowed = |query: &mut Statement| {
            within(query, scope);
            if let Some(source) = wanted.source {
                query.push(" AND source = ").push_value(source.as_str());
            }
        };
        let query = match wanted.unindexed {
            Unindexed::Few => {
                let mut query = sql("
                    WITH waiting AS MATERIALIZED (SELECT message_id FROM search_waiting)
                    SELECT id, at FROM waiting CROSS JOIN messages WHERE id = message_id AND ");
                narrowed(&mut query);
                page.read_between(&mut query, time);
                query
            }
            Unindexed::Many => {
                let part = |query: &mut Statement, range: &&str| {
                    query.push(
                        "SELECT id, at FROM messages
                         WHERE EXISTS (SELECT 1 FROM search_waiting
                                       WHERE message_id = messages.id) AND ",
                    );
                    query.push(range);
                    narrowed(query);
                };
                let is_postgres = self.reader().is_postgres();
                merged(is_postgres, &RECORDED, part, page, time)
            }
        };
        places(&query.fetch_all(self.reader()).await?)
    }

    /// Reads messages and keeps those in `scope` that match. Reads at most `octets` bytes of parsed
    /// messages (before packing) in total, or one message. Parses on a blocking thread.
    pub async fn messages_matching(
        &self,
        scope: &Scope,
        ids: &[MessageId],
        octets: u64,
        matches: impl Fn(&Message) -> bool + Send + 'static,
    ) -> Result<MatchedMessages, StoreError> {
        let (few, sum) = self.first_within(ids, octets).await?;
        let rows = messages::by_ids(self.reader(), few.iter().copied()).await?;
        let (few, looked, scope) = (few.to_vec(), few.len(), scope.clone());
        let repeats = self.repeats.clone();
        let reading = move || -> Result<Vec<Message>, StoreError> {
            let mut found = HashMap::with_capacity(rows.len());
            for message in messages::listed_messages(&rows, &repeats)? {
                let permitted = scope.permitted().is_none_or(|only| only.contains(&message.agent));
                let within = message.lineage.at(scope.level()) == Some(scope.root());
                // The words of an unreadable message matched when it was indexed.
                if permitted && within && (message.unreadable || matches(&message)) {
                    found.insert(message.id, message);
                }
            }
            Ok(few.iter().filter_map(|id| found.remove(id)).collect())
        };
        let failed = |error: tokio::task::JoinError| StoreError::Corrupt {
            table: "contents",
            detail: error.to_string(),
        };
        let found = tokio::task::spawn_blocking(reading).await.map_err(failed)??;
        Ok(MatchedMessages { ids: looked, octets: sum, found })
    }

    /// Returns the first ids whose parsed messages have at most `octets` bytes in total, but at
    /// least one id; and that total.
    pub(super) async fn first_within<'m>(
        &self,
        ids: &'m [MessageId],
        octets: u64,
    ) -> Result<(&'m [MessageId], u64), StoreError> {
        let sizes = self.sizes(ids).await?;
        let (mut few, mut sum) = (0, 0_u64);
        for id in ids {
            let more = sum.saturating_add(sizes.get(&id.0).copied().unwrap_or_default());
            if more > octets && few > 0 {
                break;
            }
            (few, sum) = (few + 1, more);
        }
        Ok((ids.get(..few).unwrap_or(ids), sum))
    }

    /// Returns the bytes of each parsed message before packing. Leaves out missing messages.
    async fn sizes(&self, ids: &[MessageId]) -> Result<HashMap<Uuid, u64>, StoreError> {
        let rows = many(
            "WITH given (message) AS ({rows})
             SELECT messages.id AS id, octets
             FROM given CROSS JOIN messages CROSS JOIN contents
             WHERE messages.id = given.message AND contents.content_id = messages.content_id
               AND contents.organization_id = messages.organization_id",
            ids.iter().map(|id| vec![id.0.into()]).collect(),
        )
        .fetch_all(self.reader())
        .await?;
        let size = |row| {
            let columns = Columns { table: "contents", row };
            Ok((columns.uuid("id")?, columns.count("octets")?))
        };
        rows.iter().map(size).collect()
    }
}

fn places(rows: &[Row]) -> Result<Vec<Cursor>, StoreError> {
    let place = |row| {
        let columns = Columns { table: "search_entries", row };
        Ok(Cursor { at: columns.time("at")?, id: columns.uuid("id")? })
    };
    rows.iter().map(place).collect()
}

/// How a database writes the words of a query.
struct QuerySyntax {
    quote: char,
    /// A quote inside quotes.
    escaped_quote: &'static str,
    and: &'static str,
    or: &'static str,
}

const TSQUERY: QuerySyntax =
    QuerySyntax { quote: '\'', escaped_quote: "''", and: " & ", or: " | " };

const FTS5: QuerySyntax =
    QuerySyntax { quote: '"', escaped_quote: "\"\"", and: " AND ", or: " OR " };

impl QuerySyntax {
    /// Builds the query: all tokens and one of the spans, each quoted so that none is an operator.
    fn expression(&self, wanted: WantedWords<'_>) -> String {
        let Self { quote, escaped_quote, and, or } = self;
        let quoted = |token: &String| {
            let token = token.replace('\\', "").replace(*quote, escaped_quote);
            format!("{quote}{token}{quote}")
        };
        let spans = wanted.spans.iter().map(quoted).collect::<Vec<_>>().join(or);
        let tokens = wanted.all.iter().map(quoted);
        tokens.chain([format!("({spans})")]).collect::<Vec<_>>().join(and)
    }
}
