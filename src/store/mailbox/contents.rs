//! What was received, once for all recipients, packed: what was read out of it and, behind that, a
//! small original. A larger one is apart in the row, so that lists need not load it, or in the blob
//! store, named by the row.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::entry::Arrived;
use crate::domain::message::Digest;
use crate::store::base::Base;
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::many::many;
use crate::store::engine::packing;
use crate::store::engine::row::{Columns, stored};
use crate::store::engine::sql::{Value, sql};

/// The objects that were put for one commit, by their digests.
pub type Kept = HashMap<Digest, String>;

/// The largest original that is packed together with what was read out of it: what they share, the
/// text above all, takes its place once.
const TOGETHER: usize = 16_384;

/// What is packed on a thread of its own: it takes milliseconds.
const LONG: usize = 262_144;

/// The contents of a message as they are kept.
pub struct Packed {
    /// Of what was read, before it was packed.
    octets: i64,
    packed: Vec<u8>,
    original: Option<Vec<u8>>,
}

/// Where an original is.
pub enum Original {
    Here(Vec<u8>),
    /// In the blob store, under this name.
    Object(String),
}

impl Packed {
    /// Of what was read out of an original; that is empty where it is not to be in the row.
    pub async fn of(read: &impl Serialize, original: &Bytes) -> Result<Self, StoreError> {
        // As every text: PostgreSQL cannot store NUL. JSON has it escaped, so nothing is left to do.
        let read = serde_json::to_vec(read).map_err(corrupt)?;
        if read.len() + original.len() < LONG {
            return Self::pack(&read, original);
        }
        let original = original.clone();
        let packing = tokio::task::spawn_blocking(move || Self::pack(&read, &original));
        packing.await.map_err(corrupt)?
    }

    fn pack(read: &[u8], original: &[u8]) -> Result<Self, StoreError> {
        let octets = stored(u64::try_from(read.len()).unwrap_or(u64::MAX));
        let (behind, apart) = match original.len() <= TOGETHER {
            true => (original, None),
            false => (&[][..], Some(packing::pack(&[original]).map_err(corrupt)?)),
        };
        let packed = packing::pack(&[read, behind]).map_err(corrupt)?;
        Ok(Self { octets, packed, original: apart })
    }

    /// How much is handed to the database.
    pub fn len(&self) -> usize {
        self.packed.len() + self.original.as_ref().map_or(0, Vec::len)
    }
}

/// What was read, of a row with `packed` and `octets`.
pub fn read<T: DeserializeOwned>(columns: &Columns<'_>) -> Result<T, StoreError> {
    let read = packing::first(&columns.bytes("packed")?, columns.count("octets")?);
    let read = read.map_err(|error| columns.corrupt(error))?;
    serde_json::from_slice(&read).map_err(|error| columns.corrupt(error))
}

/// The original, of a row with all columns of its contents, and with the `size` of the message.
pub async fn original(columns: &Columns<'_>) -> Result<Original, StoreError> {
    if let Some(name) = columns.optional_text("object")? {
        return Ok(Original::Object(name));
    }
    let (octets, size) = (columns.count("octets")?, columns.count("size")?);
    let (packed, skipped) = match columns.optional_bytes("original")? {
        Some(apart) => (apart, 0),
        None => (columns.bytes("packed")?, octets),
    };
    let reading = tokio::task::spawn_blocking(move || packing::behind(&packed, skipped, size));
    let read = reading.await.map_err(|error| columns.corrupt(error))?;
    read.map(Original::Here).map_err(|error| columns.corrupt(error))
}

fn corrupt(error: impl ToString) -> StoreError {
    StoreError::Corrupt { table: "contents", detail: error.to_string() }
}

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
