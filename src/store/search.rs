//! Candidates of a full-text search: messages whose entry in the index has the tokens that are
//! asked for. Whether one matches is decided by what it says, not here.

use std::collections::{BTreeSet, HashMap};

use super::db::Store;
use super::error::StoreError;
use super::messages;
use super::page::{Cursor, Page};
use super::row::Columns;
use super::sql::{Statement, sql};
use crate::domain::clock::Timestamp;
use crate::domain::id::MessageId;
use crate::domain::message::Message;
use crate::domain::scope::Scope;
use crate::domain::source::Source;

/// What a candidate has.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'w> {
    /// Each of these tokens.
    pub all: &'w BTreeSet<String>,
    /// One of these: whose it is and when it came (`domain::search::tokens::of_spans`); they say
    /// how many rows are looked at.
    pub spans: &'w [String],
    pub source: Option<Source>,
}

impl Store {
    /// The places of a page of candidates in `scope`, in the order in which it is read: the newest
    /// first, or those that follow the cursor. The spans must be of the account at the scope's top.
    pub async fn search(
        &self,
        scope: &Scope,
        wanted: Wanted<'_>,
        page: &Page,
        (since, before): (Option<Timestamp>, Option<Timestamp>),
    ) -> Result<Vec<Cursor>, StoreError> {
        if wanted.spans.is_empty() {
            return Ok(Vec::new());
        }
        let mut query = if self.reader().is_postgres() {
            sql("SELECT id, at FROM search_entries WHERE tokens @@ CAST($1 AS TSQUERY)")
                .bind(expression(wanted, ('\'', "''"), [" & ", " | "]))
        } else {
            sql("SELECT id, at FROM search_words CROSS JOIN search_entries
                 WHERE search_words MATCH $1 AND search_entries.number = search_words.rowid")
            .bind(expression(wanted, ('"', "\"\""), [" AND ", " OR "]))
        };
        if let Some(source) = wanted.source {
            query.push(" AND source = ").push_value(source.as_str());
        }
        permitted(&mut query, scope);
        page.read_between(&mut query, since, before);
        let rows = self.fetch_by_bitmaps(query).await?;
        let cursor = |row| {
            let columns = Columns { table: "search_entries", row };
            Ok(Cursor { at: columns.time("at")?, id: columns.uuid("id")? })
        };
        rows.iter().map(cursor).collect()
    }

    /// These messages as far as they are there and in `scope`, by their ids.
    pub async fn messages_among(
        &self,
        scope: &Scope,
        ids: &[MessageId],
    ) -> Result<HashMap<MessageId, Message>, StoreError> {
        let rows = messages::by_ids(self.reader(), ids.iter().copied()).await?;
        let mut found = HashMap::with_capacity(rows.len());
        for row in &rows {
            let message = messages::message(row)?;
            let permitted = scope.permitted().is_none_or(|only| only.contains(&message.agent));
            if permitted && message.lineage.at(scope.level()) == Some(scope.root()) {
                found.insert(message.id, message);
            }
        }
        Ok(found)
    }
}

/// All of the tokens and one of the spans, each token in quotes: nothing in it can be an operator.
fn expression(wanted: Wanted<'_>, quote: (char, &str), [and, or]: [&str; 2]) -> String {
    let (mark, twice) = quote;
    let quoted =
        |token: &String| format!("{mark}{}{mark}", token.replace('\\', "").replace(mark, twice));
    let spans = wanted.spans.iter().map(quoted).collect::<Vec<_>>().join(or);
    let tokens = wanted.all.iter().map(quoted);
    tokens.chain([format!("({spans})")]).collect::<Vec<_>>().join(and)
}

/// Leaves out what the Agents of others have; these are integers of ours.
fn permitted(query: &mut Statement, scope: &Scope) {
    let Some(permitted) = scope.permitted() else { return };
    let ids = permitted.iter().map(|agent| agent.get().to_string()).collect::<Vec<_>>();
    let ids = if ids.is_empty() { "NULL".to_owned() } else { ids.join(", ") };
    query.push(" AND agent_id IN (").push(&ids).push(")").varying();
}
