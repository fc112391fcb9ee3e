//! What was received, once for all recipients, packed (`packed.rs`); a large original is in the blob
//! store, named by the row.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bytes::Bytes;

use super::entry::Arrived;
use super::packed::Packed;
use crate::domain::message::Digest;
use crate::store::base::Base;
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Value, sql};

/// The objects that were put for one commit, by their digests.
pub type Kept = HashMap<Digest, String>;

impl Base {
    /// Before the transaction, with nothing open: puts a large raw message into the blob store,
    /// unless it is there already or this commit has put it before. What a row names and is lost
    /// is put again: the bytes are at hand, and an acceptance must not rest on what is not there.
    pub(in crate::store) async fn keep_raw(
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
        let row = sql("SELECT object FROM contents WHERE digest = $1")
            .bind(digest.0.as_slice())
            .fetch_optional(self.reader())
            .await?;
        let there = match row {
            None => false,
            Some(row) => {
                match (Columns { table: "contents", row: &row }).optional_text("object")? {
                    None => true,
                    Some(name) => blobs.has(&name, raw.len()).await?,
                }
            }
        };
        if !there {
            kept.insert(digest, blobs.put(self.identity().await?, digest, raw).await?);
        }
        Ok(())
    }
}

/// Which of these messages' raw bytes are there already. Those stay until the transaction ends:
/// nobody takes them away because no message uses them any more.
pub async fn known(
    tx: &mut Transaction,
    arrived: &[&Arrived],
) -> Result<HashSet<Digest>, StoreError> {
    let digests: BTreeSet<Digest> = arrived.iter().map(|one| one.digest).collect();
    let found = many(
        "WITH given (wanted) AS ({rows})
         SELECT digest FROM given CROSS JOIN contents WHERE digest = given.wanted",
        digests.iter().map(|digest| vec![digest.0.as_slice().into()]).collect(),
    )
    .locking("ORDER BY digest FOR KEY SHARE OF contents")
    .fetch_all(tx.on())
    .await?;
    found.iter().map(|row| Columns { table: "contents", row }.digest("digest")).collect()
}

/// Keeps the contents of these messages that are not known yet; of those that are, an original
/// that was put anew takes the place of the one that is lost.
pub async fn keep(
    tx: &mut Transaction,
    arrived: &[&Arrived],
    known: &HashSet<Digest>,
) -> Result<(), StoreError> {
    let anew = arrived.iter().filter(|one| known.contains(&one.digest)).filter_map(|one| {
        Some((one.digest, vec![one.digest.0.as_slice().into(), one.object.as_deref()?.into()]))
    });
    many(
        "WITH given (wanted, name) AS ({rows})
         UPDATE contents SET object = given.name FROM given
         WHERE digest = given.wanted AND object IS NOT NULL",
        anew.collect::<BTreeMap<Digest, Vec<Value>>>().into_values().collect(),
    )
    .execute(tx.on())
    .await?;
    let fresh = arrived.iter().filter(|one| !known.contains(&one.digest));
    let missing: BTreeMap<Digest, &Arrived> = fresh.map(|one| (one.digest, *one)).collect();
    let digest = |digest: &Digest| Value::from(digest.0.as_slice());
    // Somebody beside us may be storing the same bytes for another Agent; his object is then the
    // one that is named, and ours an orphan.
    let rows = missing.iter().map(|(name, one)| {
        let Packed { octets, packed, original } = one.content.as_ref();
        vec![
            digest(name),
            (*octets).into(),
            packed.as_slice().into(),
            original.as_deref().into(),
            one.object.as_deref().into(),
        ]
    });
    many(
        "INSERT INTO contents (digest, octets, packed, original, object) {rows}
         ON CONFLICT (digest) DO NOTHING",
        rows.collect(),
    )
    .execute(tx.on())
    .await
    .map(drop)
}
