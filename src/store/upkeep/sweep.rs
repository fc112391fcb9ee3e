//! Objects that no message names: of transactions that did not come to their end, and of messages
//! that were erased.

use std::collections::HashSet;

use futures_util::TryStreamExt as _;
use futures_util::stream::TryChunksError;
use object_store::ObjectMeta;
use object_store::path::Path;

use crate::domain::clock::Timestamp;
use crate::domain::message::Digest;
use crate::store::base::Base;
use crate::store::blobs::objects::{Blobs, digest_in};
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::sql;

/// Objects looked up in one statement.
const PAGE: usize = 500;

/// What a sweep came across.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// Objects, of any age.
    pub seen: u64,
    /// Those that were orphans, and what puts that were killed left half-written.
    pub removed: u64,
}

impl Base {
    /// Takes away the objects that are older than `objects.orphan_hours` and that no row names;
    /// nothing where there is no blob store.
    ///
    /// No row will ever name one of these: a commit names an object that was put for it minutes before,
    /// or one that a row names which the commit holds. So any number of gateways may sweep, at any
    /// time, and one that ends in the middle leaves the rest to the next.
    pub async fn sweep_objects(&self, now: Timestamp) -> Result<Option<Swept>, StoreError> {
        self.check_trust()?;
        let Some(blobs) = self.blobs() else { return Ok(None) };
        // To another database all of this one's objects would be orphans, and the other way round.
        self.claim_blobs().await?;
        let before = blobs.orphaned_before(now);
        let mut swept = Swept { seen: 0, removed: blobs.remove_unfinished(before).await? };
        let mut pages = blobs.list().try_chunks(PAGE);
        let broken_off =
            |rest: TryChunksError<_, object_store::Error>| StoreError::Objects(rest.1.into());
        while let Some(page) = pages.try_next().await.map_err(broken_off)? {
            swept.seen += u64::try_from(page.len()).unwrap_or(u64::MAX);
            swept.removed += self.sweep_page(blobs, &page, before).await?;
        }
        Ok(Some(swept))
    }

    async fn sweep_page(
        &self,
        blobs: &Blobs,
        page: &[ObjectMeta],
        before: Timestamp,
    ) -> Result<u64, StoreError> {
        let old = page.iter().filter(|one| one.last_modified.timestamp_millis() < before.millis());
        // Whatever else lies there is not ours to take away.
        let old: Vec<(Digest, &Path)> =
            old.filter_map(|one| Some((digest_in(&one.location)?, &one.location))).collect();
        let named = self.named(&old).await?;
        let mut removed = 0;
        for (_, path) in old {
            if !named.contains(path.as_ref()) && blobs.remove(path).await? {
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// The names that rows have for these digests.
    async fn named(&self, objects: &[(Digest, &Path)]) -> Result<HashSet<String>, StoreError> {
        if objects.is_empty() {
            return Ok(HashSet::new());
        }
        let mut query = sql("SELECT DISTINCT object FROM contents
                             WHERE object IS NOT NULL AND object_digest IN (");
        for (place, (digest, _)) in objects.iter().enumerate() {
            query.push(if place == 0 { "" } else { ", " }).push_value(digest.0.as_slice());
        }
        query.push(")").varying();
        let rows = query.fetch_all(self.reader()).await?;
        rows.iter().map(|row| Columns { table: "contents", row }.text("object")).collect()
    }
}
