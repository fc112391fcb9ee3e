//! What was received, once for all recipients: the raw bytes (small ones in their row, large ones
//! in the blob store, named by the row), and what was read out of them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bytes::Bytes;

use super::entry::Arrived;
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
        let row = sql("SELECT object FROM raw_messages WHERE digest = $1")
            .bind(digest.0.as_slice())
            .fetch_optional(self.reader())
            .await?;
        let there = match row {
            None => false,
            Some(row) => {
                match (Columns { table: "raw_messages", row: &row }).optional_text("object")? {
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
         SELECT digest FROM given CROSS JOIN raw_messages WHERE digest = given.wanted",
        digests.iter().map(|digest| vec![digest.0.as_slice().into()]).collect(),
    )
    .locking("ORDER BY digest FOR KEY SHARE OF raw_messages")
    .fetch_all(tx.on())
    .await?;
    found.iter().map(|row| Columns { table: "raw_messages", row }.digest("digest")).collect()
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
         UPDATE raw_messages SET object = given.name FROM given
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
    let raw = missing.iter().map(|(name, one)| {
        let bytes = if one.object.is_some() { &[] } else { one.raw.as_ref() };
        vec![digest(name), bytes.into(), one.object.as_deref().into()]
    });
    many(
        "INSERT INTO raw_messages (digest, bytes, object) {rows} ON CONFLICT (digest) DO NOTHING",
        raw.collect(),
    )
    .execute(tx.on())
    .await?;
    let mails = missing.iter().map(|(name, one)| vec![digest(name), one.mail.as_ref().into()]);
    many(
        "INSERT INTO mails (digest, mail) {rows} ON CONFLICT (digest) DO NOTHING",
        mails.collect(),
    )
    .execute(tx.on())
    .await?;
    Ok(())
}
