//! Raw bytes as received, once for all recipients: small ones in their row, large ones in the blob
//! store, named by the row.

use std::collections::HashMap;

use bytes::Bytes;

use super::db::{Store, Transaction};
use super::error::StoreError;
use super::sql::sql;
use crate::domain::message::Digest;

/// The objects that were put for one commit, by their digests.
pub(super) type Kept = HashMap<Digest, String>;

impl Store {
    /// Before the transaction, with nothing open: puts a large raw message into the blob store,
    /// unless a row has it already or this commit has put it before.
    pub(super) async fn keep_raw(
        &self,
        digest: Digest,
        raw: &Bytes,
        kept: &mut Kept,
    ) -> Result<(), StoreError> {
        let Some(blobs) = self.blobs().filter(|blobs| blobs.takes(raw)) else { return Ok(()) };
        if kept.contains_key(&digest) {
            return Ok(());
        }
        self.check_trust()?;
        let row = sql("SELECT digest FROM raw_messages WHERE digest = $1")
            .bind(digest.0.as_slice())
            .fetch_optional(self.reader())
            .await?;
        if row.is_none() {
            kept.insert(digest, blobs.put(digest, raw).await?);
        }
        Ok(())
    }

    /// The row. Asked first, because handing the bytes to the database copies them: 100 recipients
    /// of 50 MiB would hold everybody else up for seconds. Whoever erases it waits for us.
    ///
    /// `Conflict` where a large one had a row before the transaction and has none now: it was
    /// erased meanwhile, and must be put.
    pub(super) async fn insert_raw(
        &self,
        tx: &mut Transaction,
        digest: Digest,
        raw: &Bytes,
        kept: &Kept,
    ) -> Result<(), StoreError> {
        let row = sql("SELECT digest FROM raw_messages WHERE digest = $1")
            .locking("FOR KEY SHARE")
            .bind(digest.0.as_slice())
            .fetch_optional(tx.on())
            .await?;
        if row.is_some() {
            return Ok(());
        }
        let apart = self.blobs().is_some_and(|blobs| blobs.takes(raw));
        let (bytes, object) = match kept.get(&digest) {
            Some(name) => ([].as_slice(), Some(name.as_str())),
            None if apart => return Err(StoreError::Conflict(sqlx::Error::RowNotFound)),
            None => (raw.as_ref(), None),
        };
        // Somebody beside us may be storing the same bytes for another Agent; his object is then
        // the one that is named, and ours an orphan.
        sql("INSERT INTO raw_messages (digest, bytes, object) VALUES ($1, $2, $3)
             ON CONFLICT (digest) DO NOTHING")
        .bind(digest.0.as_slice())
        .bind(bytes)
        .bind(object)
        .execute(tx.on())
        .await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::clock::{Clock, Timestamp};
    use crate::domain::id::Mint;
    use crate::rules::Rules;
    use crate::store::Location;

    /// A row that was erased after the question whether there is one: nothing is named that may
    /// not be there, and the next try puts the bytes under a name of their own.
    #[tokio::test]
    async fn what_is_erased_meanwhile_is_put_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut rules = Rules::defaults().unwrap().store;
        rules.objects.above_bytes = 1;
        let clock = Clock::new(|| Timestamp::from_millis(1));
        let random = Arc::new(|octets: &mut [u8]| aws_lc_rs::rand::fill(octets).unwrap());
        let location = Location::Folder(folder.path().to_owned());
        let store = Store::create(&location, &rules, Mint::new(clock, random)).await.unwrap();
        let (digest, raw) = (Digest([7; 32]), Bytes::from_static(b"large"));
        let insert = async |kept: &Kept| {
            let mut tx = store.begin().await.unwrap();
            store.insert_raw(&mut tx, digest, &raw, kept).await?;
            tx.commit().await
        };
        let mut first = Kept::default();
        store.keep_raw(digest, &raw, &mut first).await.unwrap();
        insert(&first).await.unwrap();
        let mut second = Kept::default();
        store.keep_raw(digest, &raw, &mut second).await.unwrap();
        assert!(second.is_empty(), "the row was there");
        let mut tx = store.begin().await.unwrap();
        sql("DELETE FROM raw_messages").execute(tx.on()).await.unwrap();
        tx.commit().await.unwrap();
        assert!(matches!(insert(&second).await, Err(StoreError::Conflict(_))));
        store.keep_raw(digest, &raw, &mut second).await.unwrap();
        insert(&second).await.unwrap();
        assert_ne!(first.get(&digest), second.get(&digest));
        // A further try of the same commit names what it has put.
        store.keep_raw(digest, &raw, &mut first).await.unwrap();
        assert_eq!(first.len(), 1);
    }
}
