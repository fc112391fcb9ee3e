//! Removes the words of deleted messages from the full-text index of SQLite, in short steps.

use crate::store::base::Base;
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, sql};

impl Base {
    /// Removes words of deleted entries from the index, about `pages` pages in one transaction.
    /// Returns whether there may be more, or None on PostgreSQL, where vacuum does this.
    ///
    /// FTS5 only marks an entry as deleted until its segment is merged. So all segments are merged
    /// into one: a negative number of pages begins the merge, positive numbers continue it, and it
    /// is done when nothing changes (<https://www.sqlite.org/fts5.html#the_merge_command>).
    pub async fn forget_words(&self, pages: u32) -> Result<Option<bool>, StoreError> {
        if self.reader().is_postgres() {
            return Ok(None);
        }
        // Read before asking for the only writer.
        let state = merge_state(self.reader()).await?;
        if !state.waiting && !state.merging {
            return Ok(Some(false));
        }
        let mut tx = self.begin().await?;
        let merging = merge_state(tx.on()).await?.merging;
        let mut pages = i64::from(pages);
        if !merging {
            // Words deleted from now on wait for the next merge.
            sql("UPDATE search_words_gone SET waiting = 0, merging = 1 WHERE id = 1")
                .execute(tx.on())
                .await?;
            pages = -pages;
        }
        let before = count_changes(&mut tx).await?;
        sql("INSERT INTO search_words (search_words, rank) VALUES ('merge', $1)")
            .bind(pages)
            .execute(tx.on())
            .await?;
        // The statement itself counts as one change.
        if count_changes(&mut tx).await? - before < 2 {
            sql("UPDATE search_words_gone SET merging = 0 WHERE id = 1").execute(tx.on()).await?;
        }
        tx.commit().await?;
        Ok(Some(true))
    }
}

/// The state of the removal of words.
struct MergeState {
    /// Whether deleted entries wait for a merge.
    waiting: bool,
    /// Whether a merge is under way.
    merging: bool,
}

async fn merge_state(on: Connection<'_>) -> Result<MergeState, StoreError> {
    let state = sql("SELECT waiting, merging FROM search_words_gone WHERE id = 1");
    let row = state.fetch_one(on).await?;
    let columns = Columns { table: "search_words_gone", row: &row };
    Ok(MergeState { waiting: columns.flag("waiting")?, merging: columns.flag("merging")? })
}

/// Returns the number of rows that this connection has changed so far, rows of the index included.
async fn count_changes(tx: &mut Transaction) -> Result<i64, StoreError> {
    let row = sql("SELECT total_changes() AS changes").fetch_one(tx.on()).await?;
    Columns { table: "search_words", row: &row }.integer("changes")
}
