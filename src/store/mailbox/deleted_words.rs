//! Taking the words of deleted messages out of the index of full-text search, on SQLite: no commit
//! waits for it.

use crate::store::base::Base;
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, sql};

impl Base {
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
            // Words deleted from now on wait for the next merge.
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
