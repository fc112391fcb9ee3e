//! Removes objects that no message names: left by transactions that did not end, and by erasures.

use std::collections::HashSet;

use futures_util::TryStreamExt as _;
use futures_util::stream::TryChunksError;
use object_store::ObjectMeta;
use object_store::path::Path;

use crate::domain::clock::Timestamp;
use crate::store::base::Base;
use crate::store::blobs::objects::{Blobs, digest_in};
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::sql;

/// Objects looked up in one statement.
const PAGE: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepCounts {
    /// Objects of any age.
    pub seen: u64,
    /// Orphans, and half-written files of killed puts.
    pub removed: u64,
}

impl Base {
    /// Removes objects that no row names, after `objects.orphan_hours`; None without a blob store.
    ///
    /// No row will ever name such an object: a commit names one that was put for it minutes before,
    /// or one of a row that it has locked. So any number of gateways may sweep, at any time, and
    /// one that dies leaves the rest to the next.
    pub async fn sweep_objects(&self, now: Timestamp) -> Result<Option<SweepCounts>, StoreError> {
        self.check_trust()?;
        let Some(blobs) = self.blobs() else { return Ok(None) };
        // To another database all objects of this one would be orphans, and the other way round.
        self.claim_blobs().await?;
        let before = now.minus(blobs.rules.orphaned());
        let mut counts = SweepCounts { seen: 0, removed: blobs.remove_unfinished(before).await? };
        let mut pages = blobs.list().try_chunks(PAGE);
        let broken_off =
            |rest: TryChunksError<_, object_store::Error>| StoreError::Objects(rest.1.into());
        while let Some(page) = pages.try_next().await.map_err(broken_off)? {
            counts.seen += u64::try_from(page.len()).unwrap_or(u64::MAX);
            counts.removed += self.sweep_page(blobs, &page, before).await?;
        }
        Ok(Some(counts))
    }

    async fn sweep_page(
        &self,
        blobs: &Blobs,
        page: &[ObjectMeta],
        before: Timestamp,
    ) -> Result<u64, StoreError> {
        let old = page.iter().filter(|one| one.last_modified.timestamp_millis() < before.millis());
        // Other files are not ours to remove.
        let old: Vec<&Path> =
            old.map(|one| &one.location).filter(|path| digest_in(path).is_some()).collect();
        let named = self.named_objects(&old).await?;
        let mut removed = 0;
        for path in old {
            if !named.contains(path.as_ref()) && blobs.remove(path).await? {
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Returns the objects that rows name for the digests of these ones.
    async fn named_objects(&self, objects: &[&Path]) -> Result<HashSet<String>, StoreError> {
        if objects.is_empty() {
            return Ok(HashSet::new());
        }
        let mut query = sql("SELECT DISTINCT object FROM contents
                             WHERE object IS NOT NULL AND object_digest IN (");
        for (place, digest) in objects.iter().filter_map(|path| digest_in(path)).enumerate() {
            query.push(if place == 0 { "" } else { ", " }).push_value(digest.0.as_slice());
        }
        query.push(")").varying();
        let rows = query.fetch_all(self.reader()).await?;
        rows.iter().map(|row| Columns { table: "contents", row }.text("object")).collect()
    }
}
