//! Contents of messages, packed (`packed.rs`). The recipients of one transaction in one
//! organization share a row. A row with a large original names its object in the blob store.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;

use super::entry::{Arrived, OriginalPlace};
use super::packed::Packed;
use crate::domain::message::Digest;
use crate::store::base::Base;
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Value, sql};

/// The places of the originals of one commit, by digest; unlisted ones belong in their rows.
pub type OriginalPlaces = HashMap<Digest, OriginalPlace>;

impl Base {
    /// Puts a large raw message into the blob store, unless the store has it or this commit has put
    /// it already. Runs before the transaction, with no lock held. An object that a row names but
    /// that is lost is put again: an acceptance must not rest on missing bytes.
    pub(in crate::store) async fn keep_raw(
        &self,
        digest: Digest,
        raw: &Bytes,
        places: &mut OriginalPlaces,
    ) -> Result<(), StoreError> {
        let Some(blobs) = self.blobs().filter(|blobs| blobs.takes(raw)) else { return Ok(()) };
        if matches!(places.get(&digest), Some(OriginalPlace::Put(_))) {
            return Ok(());
        }
        self.check_trust()?;
        let row = sql("SELECT object FROM contents WHERE object_digest = $1 AND object IS NOT NULL
                       ORDER BY object LIMIT 1")
        .bind(digest.0.as_slice())
        .fetch_optional(self.reader())
        .await?;
        let there = match row {
            None => false,
            Some(row) => {
                let name = Columns { table: "contents", row: &row }.text("object")?;
                blobs.has(&name, raw.len()).await?
            }
        };
        let place = match there {
            true => OriginalPlace::Named,
            false => OriginalPlace::Put(blobs.put(self.identity().await?, digest, raw).await?),
        };
        places.insert(digest, place);
        Ok(())
    }
}

/// Finds the objects of large originals that this commit did not put, because a row named them; a
/// missing one was erased since. Locks one such row each until the transaction ends, and so keeps
/// the object: an erasure looks for other rows that name it (`upkeep/erasure.rs`).
pub async fn named(
    tx: &mut Transaction,
    arrived: &[&Arrived],
) -> Result<HashMap<Digest, String>, StoreError> {
    let unput = arrived.iter().filter(|one| one.place == OriginalPlace::Named);
    let digests: BTreeSet<Digest> = unput.map(|one| one.digest).collect();
    let found = many(
        "WITH given (wanted) AS ({rows})
         SELECT object_digest, object FROM given CROSS JOIN contents
         WHERE contents.content_id = (
             SELECT named.content_id FROM contents AS named
             WHERE named.object_digest = given.wanted AND named.object IS NOT NULL
             ORDER BY named.object LIMIT 1)",
        digests.iter().map(|digest| vec![digest.0.as_slice().into()]).collect(),
    )
    .locking("ORDER BY content_id FOR SHARE OF contents")
    .fetch_all(tx.on())
    .await?;
    let name = |row| {
        let columns = Columns { table: "contents", row };
        Ok((columns.digest("object_digest")?, columns.text("object")?))
    };
    found.iter().map(name).collect()
}

/// Writes the contents of these messages with the commit. An object that was put again replaces the
/// lost one in every row that names it.
pub fn insert(tx: &mut Transaction, arrived: &[&Arrived], named: &HashMap<Digest, String>) {
    let octets = |digest: &Digest| Value::from(digest.0.as_slice());
    let put = arrived.iter().filter_map(|one| match &one.place {
        OriginalPlace::Put(name) => Some((one.digest, name.as_str())),
        OriginalPlace::Row | OriginalPlace::Named => None,
    });
    let put: BTreeMap<Digest, &str> = put.collect();
    tx.later(many(
        "WITH given (wanted, name) AS ({rows})
         UPDATE contents SET object = given.name FROM given
         WHERE object_digest = given.wanted AND object IS NOT NULL",
        put.iter().map(|(digest, name)| vec![octets(digest), (*name).into()]).collect(),
    ));
    let mut contents = BTreeMap::new();
    for one in arrived {
        contents.entry(one.content_id).or_insert(one);
    }
    let rows = contents.iter().map(|(id, one)| {
        let Packed { octets: read, packed, original } = one.content.as_ref();
        let elsewhere = || named.get(&one.digest).map(String::as_str);
        let object = put
            .get(&one.digest)
            .copied()
            .or_else(elsewhere)
            .filter(|_| one.place != OriginalPlace::Row);
        vec![
            id.0.into(),
            (*read).into(),
            packed.as_slice().into(),
            original.as_deref().into(),
            object.into(),
            object.map(|_| one.digest.0.as_slice()).into(),
            one.organization.into(),
        ]
    });
    tx.later(many(
        "INSERT INTO contents (content_id, octets, packed, original, object, object_digest,
             organization_id) {rows}",
        rows.collect(),
    ));
}
