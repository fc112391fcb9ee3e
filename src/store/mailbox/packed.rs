//! The format of contents: the parsed message, followed by a small original. A larger one is in a
//! column that lists do not load, or in the blob store under the name in the row.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::store::engine::error::StoreError;
use crate::store::engine::packing;
use crate::store::engine::row::{Columns, stored};

/// Most bytes of an original packed behind the parsed message: compression stores common text once.
const PACKED_BEHIND: usize = 16_384;

/// Bytes from which packing takes milliseconds, and so runs on a blocking thread.
const BLOCKING: usize = 262_144;

pub struct Packed {
    /// Bytes of the parsed message before packing.
    pub octets: i64,
    pub packed: Vec<u8>,
    pub original: Option<Vec<u8>>,
}

pub enum StoredOriginal {
    Here(Vec<u8>),
    /// In the blob store, under this name.
    Object(String),
}

impl Packed {
    /// Packs a parsed message and its original, which is empty if it does not belong in the row.
    pub(in crate::store) async fn of(
        read: &impl Serialize,
        original: &Bytes,
    ) -> Result<Self, StoreError> {
        let read = serde_json::to_vec(read).map_err(corrupt)?;
        if read.len() + original.len() < BLOCKING {
            return Self::pack(&read, original);
        }
        let original = original.clone();
        let packing = tokio::task::spawn_blocking(move || Self::pack(&read, &original));
        packing.await.map_err(corrupt)?
    }

    fn pack(read: &[u8], original: &[u8]) -> Result<Self, StoreError> {
        let octets = stored(u64::try_from(read.len()).unwrap_or(u64::MAX));
        let (behind, apart) = match original.len() <= PACKED_BEHIND {
            true => (original, None),
            false => (&[][..], Some(packing::pack(&[original]).map_err(corrupt)?)),
        };
        let packed = packing::pack(&[read, behind]).map_err(corrupt)?;
        Ok(Self { octets, packed, original: apart })
    }

    /// Bytes sent to the database.
    pub(in crate::store) fn len(&self) -> usize {
        self.packed.len() + self.original.as_ref().map_or(0, Vec::len)
    }
}

/// Reads the parsed message from a row with `packed` and `octets`.
pub fn read<T: DeserializeOwned>(columns: &Columns<'_>) -> Result<T, StoreError> {
    let read = packing::first(&columns.bytes("packed")?, columns.count("octets")?);
    let read = read.map_err(|error| columns.corrupt(error))?;
    serde_json::from_slice(&read).map_err(|error| columns.corrupt(error))
}

/// Checks the frame of the parsed message to its end. Skips one with the original behind the
/// message: reading the original checks that.
pub fn check(columns: &Columns<'_>) -> Result<(), StoreError> {
    let is_behind =
        columns.optional_text("object")?.is_none() && columns.optional_bytes("original")?.is_none();
    if is_behind {
        return Ok(());
    }
    let read = packing::behind(&columns.bytes("packed")?, 0, columns.count("octets")?);
    read.map(drop).map_err(|error| columns.corrupt(error))
}

/// Returns the original from a row with all columns of its contents, and the `size` of the message.
pub async fn original(columns: &Columns<'_>) -> Result<StoredOriginal, StoreError> {
    if let Some(name) = columns.optional_text("object")? {
        return Ok(StoredOriginal::Object(name));
    }
    let (octets, size) = (columns.count("octets")?, columns.count("size")?);
    let (packed, skipped) = match columns.optional_bytes("original")? {
        Some(apart) => (apart, 0),
        None => (columns.bytes("packed")?, octets),
    };
    let reading = tokio::task::spawn_blocking(move || packing::behind(&packed, skipped, size));
    let read = reading.await.map_err(|error| columns.corrupt(error))?;
    read.map(StoredOriginal::Here).map_err(|error| columns.corrupt(error))
}

fn corrupt(error: impl ToString) -> StoreError {
    StoreError::Corrupt { table: "contents", detail: error.to_string() }
}
