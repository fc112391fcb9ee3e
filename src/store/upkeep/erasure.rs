//! Erasure: a message at once; a contact, or the rows of a deleted account, some rows at a time,
//! because there may be millions. An erasure under way is a row of `erasures`, written in the
//! transaction that asks for it. From then on its messages are hidden (`PRESENT`), and any gateway,
//! after any crash, continues where the last transaction ended. One gateway at a time does so.
//!
//! A contact gives up its handle in the first transaction: a later sender with this handle is
//! another contact, which the erasure does not touch.
//!
//! An original in the blob store is removed right after the transaction that deleted the last row
//! naming it. A commit that would name it again locks such a row, so one of the two waits for the
//! other. An original left by a crash, or by two erasures at once, is an orphan (`sweep.rs`).

use std::collections::{BTreeMap, BTreeSet};

use object_store::path::Path;

use super::deleted_account_cleanup;
use super::erasure_redaction::{self, Erasure, redact};
use super::retention::{delete_messages, row_limit, where_in};
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::id::{ContactId, MessageId};
use crate::domain::message::Digest;
use crate::domain::scope::Scope;
use crate::store::base::Base;
use crate::store::base::page::within;
use crate::store::engine::database::{Transaction, retry_conflicts, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, Row, Value, sql};
use crate::store::mailbox::presence::{PRESENT, PRESENT_CONTACT};
use crate::store::tenancy::accounts;
use crate::store::tenancy::audit::{self, Note};

/// Progress of an erasure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErasureProgress {
    /// Nothing is left.
    Done,
    /// There may be more.
    More,
    /// Another gateway is erasing, or this erasure waits for another one, or for late records.
    Held,
}

/// Bounds of one step of an erasure.
#[derive(Clone, Copy, Debug)]
pub struct ErasureLimits {
    /// Most messages, or most records.
    pub rows: usize,
    /// Most bytes of messages; one message is always erased.
    pub octets: u64,
}

impl Base {
    /// Erases a message in `scope`, with its original and the details in its records. Returns
    /// whether it was there.
    pub async fn erase_message(
        &self,
        scope: &Scope,
        id: MessageId,
        act: Act<'_>,
    ) -> Result<bool, StoreError> {
        let objects = transact!(self, async |tx| {
            // Returns the objects that no row names any more; None if the message was not there.
            let mut query =
                sql("SELECT id, content_id, agent_id, contact_id FROM messages WHERE id = $1
                             AND ")
                .bind(id.0);
            within(&mut query, scope);
            query.push(PRESENT);
            let Some(row) = query.fetch_optional(tx.on()).await? else { return Ok(None) };
            let columns = Columns { table: "messages", row: &row };
            let (agent, contact) = (columns.account("agent_id")?, columns.contact("contact_id")?);
            let Some(objects) = erase_messages(&mut tx, &[row], act.at).await? else {
                return Ok(None);
            };
            let changes = [Change::gone("contactId", contact)];
            let (deed, object) = (Deed::MessageErased, id.to_string());
            let note = Note { account: agent, deed, object, changes: &changes };
            audit::note(&mut tx, self.mint(), act, note).await?;
            tx.commit().await?;
            Ok(Some(objects))
        })?;
        let Some(objects) = objects else { return Ok(false) };
        self.remove_objects(objects).await;
        Ok(true)
    }

    /// Begins to erase a contact of an organization in `scope`, which is hidden from then on.
    /// Returns whether it was there. [`Self::erase_some`] does the rest.
    pub async fn erase_contact(
        &self,
        scope: &Scope,
        id: ContactId,
        act: Act<'_>,
    ) -> Result<bool, StoreError> {
        transact!(self, async |tx| {
            // A commit that stores a message of this contact ends first, or finds another handle.
            let mut query =
                sql("SELECT organization_id, address FROM contacts WHERE id = $1").bind(id.get());
            query.push(PRESENT_CONTACT);
            let row = query.locking("FOR UPDATE OF contacts").fetch_optional(tx.on()).await?;
            let Some(row) = row else { return Ok(false) };
            let columns = Columns { table: "contacts", row: &row };
            let (account, handle) = (columns.account("organization_id")?, columns.text("address")?);
            let organization = accounts::find(&mut tx, account).await?;
            let is_within = organization.is_some_and(|found| {
                scope.permitted().is_none() && found.lineage.at(scope.level()) == Some(scope.root())
            });
            if !is_within {
                return Ok(false);
            }
            let inserted =
                sql("INSERT INTO erasures (subject, kind, asked_at, organization_id, handle)
             VALUES ($1, 'contact', $2, $3, $4) ON CONFLICT (subject) DO NOTHING")
                .bind(id.get())
                .bind(act.at)
                .bind(account)
                .bind(handle)
                .execute(tx.on())
                .await?;
            if inserted == 0 {
                // Another request came first while this one waited for the contact.
                return Ok(false);
            }
            // RFC 2606 §2: nobody writes from there.
            sql("UPDATE contacts SET address = $2, name = NULL WHERE id = $1")
                .bind(id.get())
                .bind(format!("erased.{id}@erased.invalid"))
                .execute(tx.on())
                .await?;
            let (deed, object) = (Deed::ContactErased, id.to_string());
            let note = Note { account, deed, object, changes: &[] };
            audit::note(&mut tx, self.mint(), act, note).await?;
            tx.commit().await?;
            Ok(true)
        })
    }

    /// Returns up to `limit` subjects under erasure, behind `after`.
    pub async fn erasures(&self, after: i64, limit: usize) -> Result<Vec<i64>, StoreError> {
        let rows = sql("SELECT subject FROM erasures WHERE subject > $1 ORDER BY subject LIMIT $2")
            .bind(after)
            .bind(row_limit(limit))
            .fetch_all(self.reader())
            .await?;
        rows.iter().map(|row| Columns { table: "erasures", row }.integer("subject")).collect()
    }

    /// Erases some messages of a subject in one transaction; without messages, redacts some of its
    /// records. The last step deletes the other rows of the subject.
    pub async fn erase_some(
        &self,
        subject: i64,
        limits: ErasureLimits,
        now: Timestamp,
    ) -> Result<ErasureProgress, StoreError> {
        let (progress, objects) = retry_conflicts!(self.try_erase_some(subject, limits, now))?;
        self.remove_objects(objects).await;
        Ok(progress)
    }

    async fn try_erase_some(
        &self,
        subject: i64,
        ErasureLimits { rows, octets }: ErasureLimits,
        now: Timestamp,
    ) -> Result<(ErasureProgress, Objects), StoreError> {
        let nothing = Objects::new();
        let Some(erasure) = Erasure::of(self.reader(), subject).await? else {
            return Ok((ErasureProgress::Done, nothing));
        };
        if messages_of(self.reader(), &erasure, 1).await?.is_empty() {
            return Ok((self.erase_rest(&erasure, rows, now).await?, nothing));
        }
        let mut tx = self.begin().await?;
        if !gates::try_alone(&mut tx, "erasure").await? {
            return Ok((ErasureProgress::Held, nothing));
        }
        let messages = messages_of(tx.on(), &erasure, rows).await?;
        if messages.is_empty() {
            return Ok((ErasureProgress::More, nothing));
        }
        let few = as_many_as_fit(&messages, octets)?;
        let objects = erase_messages(&mut tx, messages.get(..few).unwrap_or_default(), now).await?;
        let Some(objects) = objects else { return Ok((ErasureProgress::Held, nothing)) };
        tx.commit().await?;
        Ok((ErasureProgress::More, objects))
    }

    /// Redacts other records about a subject. When none is left, deletes the subject's other rows.
    async fn erase_rest(
        &self,
        erasure: &Erasure,
        rows: usize,
        now: Timestamp,
    ) -> Result<ErasureProgress, StoreError> {
        // Refusals answered before this must be in the records first: a late one might be written
        // behind the place of the search, and never be redacted.
        if !self.pending_records.wait_until_written().await {
            return Ok(ErasureProgress::Held);
        }
        let found = erasure_redaction::find_traces(self, erasure, rows).await?;
        let mut tx = self.begin().await?;
        if !gates::try_alone(&mut tx, "erasure").await? {
            return Ok(ErasureProgress::Held);
        }
        let Some(current) = Erasure::of(tx.on(), erasure.subject).await? else {
            return Ok(ErasureProgress::Done);
        };
        if current.seen != erasure.seen {
            // Another gateway continued meanwhile.
            return Ok(ErasureProgress::More);
        }
        let ended = found.ended;
        erasure_redaction::redact_found(&mut tx, erasure, found, now).await?;
        let progress = match (ended, erasure.of_contact) {
            (false, _) => ErasureProgress::More,
            (true, true) => rest_of_contact(&mut tx, erasure.subject).await?,
            (true, false) => rest_of_account(&mut tx, erasure.subject, row_limit(rows)).await?,
        };
        if progress == ErasureProgress::Done {
            sql("DELETE FROM erasures WHERE subject = $1")
                .bind(erasure.subject)
                .execute(tx.on())
                .await?;
        }
        tx.commit().await?;
        Ok(progress)
    }

    /// Removes objects whose rows are gone. After a failure the rest is left to the sweeper,
    /// because each removal might wait as long.
    async fn remove_objects(&self, objects: Objects) {
        let Some(blobs) = self.blobs() else { return };
        for name in objects {
            if let Err(error) = blobs.remove(&Path::from(name.as_str())).await {
                let error = &error as &(dyn std::error::Error + 'static);
                tracing::warn!(
                    error,
                    "cannot remove erased originals now: the sweeper will remove them"
                );
                return;
            }
        }
    }
}

/// Names in the blob store.
type Objects = BTreeSet<String>;

/// Deletes messages (`id`, `content_id`), with contents that no other message has, and blanks the
/// details in their records. Returns the objects that no row names any more; None if nothing was
/// deleted. Locks the contents by id, and so waits for commits of the same large original.
async fn erase_messages(
    tx: &mut Transaction,
    messages: &[Row],
    now: Timestamp,
) -> Result<Option<Objects>, StoreError> {
    let (mut ids, mut contents) = (Vec::<Value>::new(), BTreeSet::new());
    for row in messages {
        let columns = Columns { table: "messages", row };
        ids.push(columns.uuid("id")?.into());
        contents.insert(columns.uuid("content_id")?);
    }
    let contents: Vec<Value> = contents.into_iter().map(Value::from).collect();
    let locked = "SELECT object_digest, object FROM contents WHERE content_id";
    let locked = where_in(locked, &contents, " ORDER BY content_id").locking("FOR UPDATE");
    let mut objects = BTreeMap::new();
    for row in locked.fetch_all(tx.on()).await? {
        let columns = Columns { table: "contents", row: &row };
        if let Some(name) = columns.optional_text("object")? {
            objects.insert(name, columns.digest("object_digest")?);
        }
    }
    if delete_messages(tx, &ids).await? == 0 {
        return Ok(None);
    }
    redact(ids, false, "message_id = given.id", now).execute(tx.on()).await?;
    Ok(Some(objects_without_rows(tx, objects).await?))
}

/// Returns those of these objects that no row of any organization names.
async fn objects_without_rows(
    tx: &mut Transaction,
    mut objects: BTreeMap<String, Digest>,
) -> Result<Objects, StoreError> {
    let named = many(
        "WITH given (name, wanted) AS ({rows})
         SELECT name FROM given
         WHERE EXISTS (SELECT 1 FROM contents
                       WHERE object_digest = given.wanted AND object = given.name
                         AND object IS NOT NULL)",
        objects
            .iter()
            .map(|(name, digest)| vec![name.as_str().into(), digest.0.as_slice().into()])
            .collect(),
    );
    for row in &named.fetch_all(tx.on()).await? {
        objects.remove(&Columns { table: "contents", row }.text("name")?);
    }
    Ok(objects.into_keys().collect())
}

/// Returns how many of the first messages have at most `octets` bytes; one always fits.
fn as_many_as_fit(messages: &[Row], octets: u64) -> Result<usize, StoreError> {
    let (mut sum, mut count) = (0_u64, 0_usize);
    for row in messages {
        sum = sum.saturating_add(Columns { table: "messages", row }.count("size")?);
        if sum > octets && count > 0 {
            break;
        }
        count += 1;
    }
    Ok(count)
}

/// Returns the next messages of a subject.
async fn messages_of(
    on: Connection<'_>,
    erasure: &Erasure,
    rows: usize,
) -> Result<Vec<Row>, StoreError> {
    let query = match erasure.of_contact {
        true => "SELECT id, content_id, size FROM messages WHERE contact_id = $1 LIMIT $2",
        false => "SELECT id, content_id, size FROM messages WHERE agent_id = $1 LIMIT $2",
    };
    sql(query).bind(erasure.subject).bind(row_limit(rows)).fetch_all(on).await
}

/// Deletes a contact whose messages are gone and whose records are redacted.
async fn rest_of_contact(
    tx: &mut Transaction,
    subject: i64,
) -> Result<ErasureProgress, StoreError> {
    for text in [
        "DELETE FROM thread_keys WHERE contact_id = $1",
        "DELETE FROM rooms WHERE contact_id = $1",
        "DELETE FROM sessions WHERE contact_id = $1",
        "DELETE FROM contacts WHERE id = $1",
    ] {
        sql(text).bind(subject).execute(tx.on()).await?;
    }
    Ok(ErasureProgress::Done)
}

/// Deletes the other rows of a deleted account. Contacts of an organization wait for the messages
/// of its Agents, which are subjects of their own.
async fn rest_of_account(
    tx: &mut Transaction,
    subject: i64,
    limit: i64,
) -> Result<ErasureProgress, StoreError> {
    if deleted_account_cleanup::delete(tx, subject, limit).await? > 0 {
        return Ok(ErasureProgress::More);
    }
    let contact = sql("SELECT id FROM contacts WHERE organization_id = $1 LIMIT 1")
        .bind(subject)
        .fetch_optional(tx.on())
        .await?;
    Ok(if contact.is_some() { ErasureProgress::Held } else { ErasureProgress::Done })
}
