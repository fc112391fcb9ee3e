//! What was received, once for all recipients: the raw bytes, and what was read out of them.

use std::collections::{BTreeMap, HashSet};

use super::db::Transaction;
use super::entry::Arrived;
use super::error::StoreError;
use super::many::many;
use super::row::Columns;
use super::sql::Value;
use crate::domain::message::Digest;

/// Keeps the contents of these messages that are not there yet. Those that are stay as they are
/// until the transaction ends: nobody takes them away because no message uses them any more.
pub(super) async fn keep(tx: &mut Transaction, arrived: &[&Arrived]) -> Result<(), StoreError> {
    let by_digest: BTreeMap<Digest, &Arrived> =
        arrived.iter().map(|one| (one.digest, *one)).collect();
    let digest = |digest: &Digest| Value::from(digest.0.as_slice());
    // Asked first, because handing the bytes to the database copies them.
    let found = many(
        "WITH given (digest) AS ({rows})
         SELECT raw_messages.digest FROM given CROSS JOIN raw_messages
         WHERE raw_messages.digest = given.digest",
        by_digest.keys().map(|one| vec![digest(one)]).collect(),
    )
    .locking("ORDER BY raw_messages.digest FOR KEY SHARE OF raw_messages")
    .fetch_all(tx.on())
    .await?;
    let mut kept = HashSet::with_capacity(found.len());
    for row in &found {
        kept.insert(Columns { table: "raw_messages", row }.digest("digest")?);
    }
    let missing: Vec<_> = by_digest.iter().filter(|(digest, _)| !kept.contains(*digest)).collect();
    // Somebody beside us may be storing the same bytes for another Agent.
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
